"""Numbers -> places on a drawing. Pure; ``templates/charts.html`` draws at these places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lshdb.params.s_curve import SCurve

__all__ = [
    "BarChart",
    "CurveChart",
    "MeasuredPoint",
    "RangeBar",
    "heats",
    "histogram",
    "range_bar",
    "s_curve_chart",
]

_WIDTH, _HEIGHT = 640.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 24.0, 52.0


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
    """A bar, and the upper part of it, which is drawn in another colour."""

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


def histogram(
    edges: Sequence[float],
    values: Sequence[float],
    seconds: Sequence[float] = (),
    *,
    mark: float | None = None,
) -> BarChart:
    """Place the bars of a histogram.

    Parameters
    ----------
    edges : sequence of float
        The ends of the bars on the axis, rising, one more than there are bars.
    values : sequence of float
        Their heights, from 0.
    seconds : sequence of float
        The upper part of each that is drawn in another colour; included in ``values``.
    mark : float, optional
        The value on the axis where a line is drawn.
    """
    highest = max(values, default=0.0) or 1.0
    step = _round_step(highest / 4.0)
    top = step * -(-highest // step)
    heights = [step * n for n in range(round(top / step) + 1)]
    ends = (edges[0], edges[-1]) if len(edges) > 1 else (0.0, 1.0)
    frame = _frame(
        [(value, f"{value:.3g}") for value in edges[:: max(1, len(edges) // 5)]],
        [(height, f"{height:,g}" if height < 1e6 else f"{height:.3g}") for height in heights],
        ends,
        (0.0, top),
    )
    across, upwards = (frame.left, frame.right), (frame.bottom, frame.top)
    bars = []
    for number, value in enumerate(values):
        left, right = (_between(edge, ends, across) for edge in edges[number : number + 2])
        second = seconds[number] if seconds else 0.0
        upper = _between(value, (0.0, top), upwards)
        lower = _between(value - second, (0.0, top), upwards)
        bars.append(
            Bar(
                x=left + 1, width=round(max(1.0, right - left - 2), 1), top=lower,
                height=round(frame.bottom - lower, 1), second_top=upper,
                second_height=round(lower - upper, 1),
                name=f"{edges[number]:.3g} – {edges[number + 1]:.3g}", value=value, second=second,
            )
        )  # fmt: skip
    return BarChart(frame, tuple(bars), None if mark is None else _between(mark, ends, across))


@dataclass(frozen=True, slots=True)
class RangeBar:
    """The spread of some similarities, or distances, as a bar from 0 to 1.

    Attributes
    ----------
    low, high : float
        The values at the ends.
    start, end, middle : float
        Where the bar begins and ends, and where the median stands.
    """

    low: float
    high: float
    start: float
    end: float
    middle: float


def range_bar(values: Sequence[float], *, threshold: float, best: float) -> RangeBar:
    """Place the spread of values on a bar from the threshold to the best value.

    A distance's bar is the other way round, from 0 to the threshold.
    """
    ends = (min(threshold, best), max(threshold, best))
    low, high = min(values), max(values)
    middle = sorted(values)[len(values) // 2]
    places = [_portion(value, ends) for value in (low, high, middle)]
    return RangeBar(low, high, min(places[0], 0.98), max(places[1], 0.02), places[2])


def heats(counts: Sequence[int], highest: int | None = None) -> list[int]:
    """Return a strength from 1 to 5 for each count; 0 for none."""
    most = max(counts, default=0) if highest is None else highest
    return [min(5, 1 + 5 * count // (most + 1)) if count else 0 for count in counts]


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
    return round(places[0] + _portion(value, ends) * (places[1] - places[0]), 1)


def _portion(value: float, ends: tuple[float, float]) -> float:
    """Return where a value lies between two others, from 0 to 1."""
    width = ends[1] - ends[0]
    return min(1.0, max(0.0, (value - ends[0]) / width)) if width else 0.0


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least ``least``."""
    power = 1.0
    while power < least:
        power *= 10.0
    for part in (0.1, 0.2, 0.5, 1.0):
        if power * part >= max(least, 1.0):
            return power * part
    return power
