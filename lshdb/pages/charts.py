"""Numbers -> places on a drawing. Pure; ``templates/charts.html`` draws at these places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lshdb.params.s_curve import SCurve

__all__ = ["BarChart", "CurveChart", "MeasuredPoint", "bar_chart", "s_curve_chart"]

_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 14.0, 46.0


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured probability at a similarity, with the ends of its interval."""

    similarity: float
    recall: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and its label."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Whisker:
    """A measured point as it is drawn."""

    x: float
    y: float
    low: float
    high: float
    point: MeasuredPoint


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a drawing, and its ticks."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class CurveChart:
    """An S-curve as it is drawn; ``path`` is the points of a polyline."""

    frame: Frame
    curve: SCurve
    path: str
    threshold: float
    measured: tuple[Whisker, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, and the part of it that is drawn in another colour."""

    x: float
    width: float
    top: float
    height: float
    second_top: float
    second_height: float
    name: str
    value: float
    second: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars as they are drawn; ``mark`` is the place of a line across them, or None."""

    frame: Frame
    bars: tuple[Bar, ...]
    mark: float | None


def s_curve_chart(curve: SCurve, measured: Sequence[MeasuredPoint] = ()) -> CurveChart:
    """Place an S-curve and measured points on a drawing."""
    first, last = curve.similarities[0], curve.similarities[-1]
    ticks = [round(first + (last - first) * part / 5, 6) for part in range(6)]
    frame = _frame(
        [(value, f"{value:g}") for value in ticks],
        [(value, f"{value:.0%}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
        (first, last),
        (0.0, 1.0),
    )

    def x(value: float) -> float:
        return _between(value, (first, last), (frame.left, frame.right))

    def y(value: float) -> float:
        return _between(value, (0.0, 1.0), (frame.bottom, frame.top))

    points = zip(curve.similarities, curve.found, strict=True)
    return CurveChart(
        frame=frame,
        curve=curve,
        path=" ".join(f"{x(similarity)},{y(recall)}" for similarity, recall in points),
        threshold=x(curve.threshold),
        measured=tuple(
            Whisker(x(point.similarity), y(point.recall), y(point.low), y(point.high), point)
            for point in measured
            if first <= point.similarity <= last
        ),
    )


def bar_chart(
    names: Sequence[str],
    values: Sequence[float],
    seconds: Sequence[float] = (),
    *,
    mark: float | None = None,
) -> BarChart:
    """Place bars side by side.

    Parameters
    ----------
    names : sequence of str
        What each bar stands for.
    values : sequence of float
        Their heights, from 0.
    seconds : sequence of float
        The upper part of each that is drawn in another colour; included in ``values``.
    mark : float, optional
        Where a line is drawn: 1.5 is in the middle of the second bar.
    """
    highest = max(values, default=0.0) or 1.0
    step = _round_step(highest / 4.0)
    top = step * -(-highest // step)
    heights = [step * n for n in range(round(top / step) + 1)]
    shown = max(1, -(-len(names) // 10))
    frame = _frame(
        [
            (number + 0.5, name)
            for number, name in enumerate(names)
            if number % shown == 0
        ],
        [(height, f"{height:,g}" if height < 1e6 else f"{height:.3g}") for height in heights],
        (0.0, float(max(1, len(names)))),
        (0.0, top),
    )  # fmt: skip
    across, upwards = (frame.left, frame.right), (frame.bottom, frame.top)
    bars = []
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        left = _between(number + 0.08, (0.0, len(names)), across)
        right = _between(number + 0.92, (0.0, len(names)), across)
        second = seconds[number] if seconds else 0.0
        upper = _between(value, (0.0, top), upwards)
        lower = _between(value - second, (0.0, top), upwards)
        bars.append(
            Bar(
                x=left, width=round(right - left, 1), top=lower,
                height=round(frame.bottom - lower, 1), second_top=upper,
                second_height=round(lower - upper, 1), name=name, value=value, second=second,
            )
        )  # fmt: skip
    place = None if mark is None else _between(mark, (0.0, max(1, len(names))), across)
    return BarChart(frame, tuple(bars), place)


def _frame(
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    x_ends: tuple[float, float],
    y_ends: tuple[float, float],
) -> Frame:
    left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM
    return Frame(
        _WIDTH, _HEIGHT, left, right, top, bottom,
        tuple(Tick(_between(value, x_ends, (left, right)), text) for value, text in x_ticks),
        tuple(Tick(_between(value, y_ends, (bottom, top)), text) for value, text in y_ticks),
    )  # fmt: skip


def _between(value: float, ends: tuple[float, float], places: tuple[float, float]) -> float:
    """Return where a value lies, to a tenth of a point; values beyond the ends lie at the ends."""
    width = ends[1] - ends[0]
    portion = min(1.0, max(0.0, (value - ends[0]) / width)) if width else 0.0
    return round(places[0] + portion * (places[1] - places[0]), 1)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least ``least``."""
    power = 1.0
    while power < least:
        power *= 10.0
    for part in (0.1, 0.2, 0.5, 1.0):
        if power * part >= max(least, 1.0):
            return power * part
    return power
