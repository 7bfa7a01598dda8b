"""Figures of an index.

Decided: figures are made by matplotlib's objects and never by ``pyplot``, which keeps figures and
settings for the whole process. A file has no date and no random names, so the same figure is the
same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.errors import LshdbError, ParameterError, install_command
from lshdb.params.index_params import IndexParams
from lshdb.params.s_curve import SCurve
from lshdb.params.s_curve import s_curve as curve_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lshdb.advice.advice import Advice
    from lshdb.index import Index
    from lshdb.search.measured_recall import MeasuredRecall

__all__ = [
    "FIGURES",
    "advice",
    "batches",
    "buckets",
    "check_place",
    "clusters",
    "recall",
    "s_curve",
    "save",
    "similarity",
]

FORMATS = ("svg", "png", "pdf")
_BLUE, _ORANGE, _GREY = "#1f6fb4", "#c8630a", "#6b7280"
_OUTCOMES = (
    ("added", _BLUE, _BLUE, ""),
    ("replaced", "white", _BLUE, "///"),
    ("unchanged", "#d1d5db", _GREY, ""),
    ("rejected", "white", _ORANGE, "xxx"),
)
_SIZE = (7.0, 4.2)
_SLICE = 0.025
_MOST_BATCHES = 400


def _figure_class() -> type[Figure]:
    """Return matplotlib's class of figures.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LshdbError(
            "pictures need matplotlib, which is not installed", hint=install_command("plot")
        ) from error
    return Figure


def _figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Return a figure with one set of axes."""
    figure = _figure_class()(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", linewidth=0.5, alpha=0.4)
    axes.set_axisbelow(True)
    return figure, axes


def _whole_numbers(*sides: Any) -> None:
    """Write the numbers of an axis in full, with commas, where they are not powers of ten."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    for side in sides:
        side.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        side.set_minor_formatter(NullFormatter())


def _count_in_ones(axes: Axes) -> None:
    """Mark whole numbers only, where there are few things to count."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _whole_numbers(axes.yaxis)


def _log_log(axes: Axes, points: Sequence[tuple[int, int]]) -> None:
    axes.loglog([x for x, _ in points], [y for _, y in points], "o", markersize=4, color=_BLUE)
    axes.set_xlim(0.9, 1.3 * max(10, *(x for x, _ in points)))
    axes.set_ylim(0.7, 2 * max(10, *(y for _, y in points)))
    axes.grid(visible=True, which="major", linewidth=0.5, alpha=0.4)
    _whole_numbers(axes.xaxis, axes.yaxis)


def _nothing(axes: Axes, text: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=_GREY)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _word(params: IndexParams) -> str:
    return "distance" if params.kind.is_distance else "similarity"


def s_curve(
    what: Index | IndexParams | SCurve, *, measured: MeasuredRecall | None = None
) -> Figure:
    """Draw how probably a pair of each similarity is found.

    Parameters
    ----------
    what : Index, IndexParams or SCurve
        Its curve is drawn.
    measured : MeasuredRecall, optional
        The result of :meth:`lshdb.Index.recall`: points with 99 % intervals.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    params = what if isinstance(what, IndexParams | SCurve) else what.params
    curve = params if isinstance(params, SCurve) else curve_of(params)
    word = "distance" if curve.is_distance else "similarity"
    figure, axes = _figure(
        f"{_counted(curve.bands, 'band')} of {_counted(curve.rows, 'row')}",
        f"{word} of a pair",
        "probability that it is found",
    )
    axes.plot(curve.similarities, curve.found, color=_BLUE, linewidth=2, label="1 - (1 - p^r)^b")
    axes.axvline(
        curve.threshold, color=_GREY, linestyle="--", linewidth=1,
        label=f"threshold {curve.threshold:g}",
    )  # fmt: skip
    axes.plot(
        [curve.threshold], [curve.recall], marker="_", markersize=18, linestyle="none",
        color=_GREY, label=f"promised recall {curve.recall:g}",
    )  # fmt: skip
    if measured is not None:
        _measured(axes, measured)
    axes.set_ylim(-0.02, 1.04)
    axes.legend(frameon=False, loc="best")
    return figure


def _measured(axes: Axes, measured: MeasuredRecall) -> None:
    """Draw slices as points at their middle, with intervals."""
    slices = [part for part in measured.slices if part.recall is not None]
    recalls = [part.recall or 0.0 for part in slices]
    below = [max(0.0, (part.recall or 0.0) - (part.lower or 0.0)) for part in slices]
    above = [max(0.0, (part.upper or 0.0) - (part.recall or 0.0)) for part in slices]
    axes.errorbar(
        [(part.low + part.high) / 2 for part in slices], recalls, yerr=[below, above], fmt="o",
        markersize=4, color=_ORANGE, capsize=3, linewidth=1, label="measured, 99 % interval",
    )  # fmt: skip


def recall(measured: MeasuredRecall) -> Figure:
    """Draw the measured recall of each slice, with the curve and the promise.

    Parameters
    ----------
    measured : MeasuredRecall
        The result of :meth:`lshdb.Index.recall`.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    word = _word(measured.params)
    documents = (
        f"all {_counted(measured.documents, 'document')}"
        if measured.is_exact
        else f"{measured.sampled:,} of {measured.documents:,} documents"
    )
    figure, axes = _figure(f"Recall, from {documents}", f"{word} of a pair", "recall")
    slices = [part for part in measured.slices if part.recall is not None]
    if not slices:
        _nothing(axes, "no pair to measure")
        return figure
    _measured(axes, measured)
    expected = [
        (part.low, part.high, part.expected) for part in slices if part.expected is not None
    ]
    for place, (low, high, value) in enumerate(expected):
        width = (high - low) / 2 or _SLICE / 4
        axes.plot(
            [(low + high) / 2 - width, (low + high) / 2 + width], [value, value], color=_BLUE,
            linewidth=2, label=None if place else "expected, 1 - (1 - p^r)^b",
        )  # fmt: skip
    nearest = 0.0 if measured.params.kind.is_distance else 1.0
    axes.plot(
        [measured.threshold, nearest], [measured.promise, measured.promise], color=_GREY,
        linestyle="--", linewidth=1, label=f"promised, {measured.promise:g}",
    )  # fmt: skip
    axes.set_ylim(-0.02, 1.04)
    axes.legend(frameon=False, loc="best")
    return figure


def similarity(index: Index, *, threshold: float | None = None, bins: int = 40) -> Figure:
    """Draw how many near-duplicate pairs there are at each similarity.

    All pairs are looked for, in the memory of :meth:`lshdb.Index.pairs`.

    Parameters
    ----------
    index : Index
        Its verified pairs are counted.
    threshold : float, optional
        The lowest similarity, or the largest distance; by default the index's.
    bins : int
        Bars from there to the best.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    ParameterError
        The threshold or the number of bars makes no sense.
    """
    if bins < 1:
        raise ParameterError(f"bins is {bins}; expected at least 1")
    params = index.params
    furthest = params.threshold if threshold is None else threshold
    best = 0.0 if params.kind.is_distance else 1.0
    bound, beyond = ("at most", "above") if params.kind.is_distance else ("at least", "below")
    width = (best - furthest) / bins or 1.0
    counts: Counter[int] = Counter()
    n_copies = 0
    for pair in index.pairs(threshold=threshold):
        value = pair.similarity if pair.distance is None else pair.distance
        if value == best:
            n_copies += 1
        else:
            counts[_bar(value, furthest, width, bins)] += 1
    figure, axes = _figure(
        _counted(counts.total() + n_copies, "near-duplicate pair"), _word(params), "pairs"
    )
    if not counts and not n_copies:
        _nothing(axes, f"no pair of {_word(params)} {bound} {furthest:g}")
        return figure
    axes.bar(
        [furthest + (place + 0.5) * width for place in range(bins)],
        [counts[place] for place in range(bins)],
        width=abs(width) * 0.92, color=_BLUE, label=f"{_word(params)} {beyond} {best:g}",
    )  # fmt: skip
    if n_copies:
        axes.bar(
            [best + width * 0.5], [n_copies], width=abs(width) * 0.92, color="white",
            edgecolor=_ORANGE, hatch="///", label=f"{_word(params)} {best:g}",
        )  # fmt: skip
        axes.legend(frameon=False)
    _count_in_ones(axes)
    return figure


def _bar(value: float, furthest: float, width: float, bins: int) -> int:
    """Return the bar of a value; an edge belongs to the bar nearer to the best value.

    0.6 is (0.6 - 0.5) / 0.0125 = 7.99... bars above 0.5. Similarities are fractions of small
    numbers, so that many lie on an edge.
    """
    return min(max(int((value - furthest) / width + 1e-6), 0), bins - 1)


def buckets(index: Index) -> Figure:
    """Draw how many buckets there are of each size, both in powers of ten.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    sizes = list(index.buckets().sizes)
    shared = sum(n for size, n in sizes if size > 1)
    figure, axes = _figure(
        f"{_counted(shared, 'bucket')} with more than one signature",
        "signatures in a bucket", "buckets",
    )  # fmt: skip
    if not sizes:
        _nothing(axes, "no bucket")
        return figure
    _log_log(axes, sizes)
    return figure


def clusters(index: Index, *, threshold: float | None = None) -> Figure:
    """Draw how many clusters there are of each size, both in powers of ten.

    Parameters
    ----------
    index : Index
        Its stored clusters are counted.
    threshold : float, optional
        As for :meth:`lshdb.Index.clusters`, which finds new pairs first.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    sizes = Counter(len(cluster.keys) for cluster in index.clusters(threshold=threshold))
    documents = sum(size * n for size, n in sizes.items())
    figure, axes = _figure(
        f"{_counted(sizes.total(), 'cluster')} of {documents:,} documents",
        "documents in a cluster", "clusters",
    )  # fmt: skip
    if not sizes:
        _nothing(axes, "no cluster")
        return figure
    _log_log(axes, sorted(sizes.items()))
    return figure


def batches(index: Index) -> Figure:
    """Draw the counts of each add side by side; at most the last 400.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    adds: dict[int, list[int]] = {}
    copies: Counter[int] = Counter()
    times: dict[int, str] = {}
    for batch in index.batches():
        counts = adds.setdefault(batch.add_id, [0, 0, 0, 0])
        times.setdefault(batch.add_id, batch.started_at)
        copies[batch.add_id] += batch.n_copies
        numbers = (batch.n_added, batch.n_replaced, batch.n_unchanged, batch.n_rejected)
        for place, number in enumerate(numbers):
            counts[place] += number
    chosen = sorted(adds)[-_MOST_BATCHES:]
    figure, axes = _figure("What each add brought", "add (UTC)", "documents")
    if not any(sum(adds[add_id]) for add_id in chosen):
        _nothing(axes, "nothing was added")
        return figure
    heights = [0] * len(chosen)
    for place, (name, colour, edge, hatch) in enumerate(_OUTCOMES):
        values = [adds[add_id][place] for add_id in chosen]
        if any(values):
            axes.bar(
                range(len(chosen)), values, bottom=heights, label=name, hatch=hatch,
                color=colour, edgecolor=edge, width=0.8, linewidth=0.6,
            )  # fmt: skip
            heights = [low + more for low, more in zip(heights, values, strict=True)]
    if copies.total():
        axes.plot(
            range(len(chosen)), [copies[add_id] for add_id in chosen], marker="D", markersize=7,
            linestyle="none", color=_ORANGE, markeredgecolor="white", clip_on=False,
            label="of these, exact copies",
        )  # fmt: skip
    step = max(1, len(chosen) // 8)
    axes.set_xticks(
        range(0, len(chosen), step),
        [f"{datetime.fromisoformat(times[add_id]):%Y-%m-%d %H:%M}" for add_id in chosen[::step]],
        rotation=30,
        ha="right",
    )
    axes.set_xlim(-0.6, max(len(chosen), 8) - 0.4)
    _count_in_ones(axes)
    figure.legend(frameon=False, loc="outside upper right", ncols=len(_OUTCOMES) + 1)
    return figure


def advice(found: Advice) -> Figure:
    """Draw the pairs of a corpus by similarity, and the thresholds that each aim proposes.

    Parameters
    ----------
    found : Advice
        The result of :func:`lshdb.advise`.

    Raises
    ------
    LshdbError
        matplotlib is not installed.
    """
    histogram = found.histogram
    exact = "counted" if histogram.is_exact else "estimated"
    unit = f"{histogram.k} {histogram.unit}{'' if histogram.k == 1 else 's'}"
    figure, axes = _figure(
        f"Pairs by similarity of shingles of {unit}, {exact}", "similarity", "pairs"
    )
    slices = [part for part in histogram.slices if part.pairs]
    if slices:
        axes.set_yscale("log")
        axes.bar(
            [(part.low + part.high) / 2 for part in slices], [part.pairs for part in slices],
            width=[max(part.high - part.low, 0.02) * 0.9 for part in slices], color=_BLUE,
        )  # fmt: skip
    styles = ("--", ":", "-.", "-")
    own = [
        choice
        for choice in found.choices
        if (choice.unit, choice.k) == (histogram.unit, histogram.k)
    ]
    for place, choice in enumerate(own):
        axes.axvline(
            choice.threshold, color=_ORANGE, linestyle=styles[place % len(styles)],
            label=f"{choice.aim}: {choice.threshold:g}",
        )  # fmt: skip
    axes.set_xlim(-0.02, 1.04)
    if own:
        axes.legend(frameon=False)
    if not slices:
        _nothing(axes, "no pair is similar")
    return figure


FIGURES: dict[str, Callable[..., Figure]] = {
    "s-curve": s_curve,
    "similarity": similarity,
    "buckets": buckets,
    "clusters": clusters,
    "batches": batches,
    "recall": lambda index, **options: recall(index.recall(**options)),
}
"""Name to what draws an index; ``recall`` takes what :meth:`lshdb.Index.recall` does."""


def save(figure: Figure, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a figure as SVG, PNG or PDF, by the end of the name.

    The file appears when it is whole. The same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
        The picture.
    path : str or Path
        The file to write; its name ends in .svg, .png or .pdf.
    overwrite : bool
        Whether a file that is there is replaced.

    Raises
    ------
    ParameterError
        The name does not say which of these it is.
    LshdbError
        A file is there.
    OSError
        The disk is full, or the folder may not be written.
    """
    from matplotlib import rc_context

    from lshdb.files.whole_files import whole_file

    ending = check_place(path, overwrite=overwrite)
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(
        ending, {}
    )
    with (
        whole_file(str(path), overwrite=overwrite) as file,
        rc_context({"svg.hashsalt": "lshdb", "svg.fonttype": "none", "pdf.fonttype": 42}),
    ):
        figure.savefig(file, format=ending, dpi=160, metadata=metadata)


def check_place(path: str | Path, *, overwrite: bool = False) -> str:
    """Check the place of a picture before it is drawn; return its format.

    Raises
    ------
    ParameterError
        The name asks for none, or is that of a folder.
    LshdbError
        A file is there, the folder around it is not, or matplotlib is not installed.
    """
    from lshdb.files.whole_files import check_file_place

    _figure_class()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        endings = [f".{name}" for name in FORMATS]
        raise ParameterError(
            f"{path} is no name of a picture; expected one that ends in "
            f"{', '.join(endings[:-1])} or {endings[-1]}"
        )
    check_file_place(str(path), overwrite=overwrite)
    return ending
