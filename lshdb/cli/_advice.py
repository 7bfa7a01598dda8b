"""Advice -> lines for a terminal: histogram, examples, choices, labels, curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from lshdb.cli._cells import harmless
from lshdb.cli._output import Column
from lshdb.cli._table import crop, draw_table, fold
from lshdb.cli._words import UNIT_NAMES, counted
from lshdb.cli.stats import readable_size

if TYPE_CHECKING:
    from lshdb import Advice, Choice, ExamplePair, LabelAgreement

__all__ = ["draw_advice"]

_PLAIN_WIDTH = 100
"""Columns where the output is no terminal."""
_LONGEST_BAR = 60
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_INDENT = "  "


def draw_advice(advice: Advice, *, width: int | None, bold: bool, encoding: str) -> Iterator[str]:
    """Yield the lines of a page that shows all of the advice."""
    page = _Page(width or _PLAIN_WIDTH, bold, encoding)
    yield from page.histogram(advice)
    yield from page.examples(advice.examples)
    if advice.labels is not None:
        yield from page.labels(advice.labels)
    yield from page.choices(advice.choices)
    yield from page.curve(advice)


class _Page:
    """Width and characters of a page."""

    def __init__(self, width: int, bold: bool, encoding: str) -> None:
        self._width, self._bold, self._encoding = max(width, 40), bold, encoding
        self._is_fancy = encoding.lower().replace("-", "").startswith("utf")
        self._ellipsis = "…" if self._is_fancy else "..."

    def histogram(self, advice: Advice) -> Iterator[str]:
        """Draw how many pairs there are at each similarity."""
        histogram = advice.histogram
        unit = counted(histogram.k, UNIT_NAMES[histogram.unit])
        yield from self._title(f"Similarities of pairs, by shingles of {unit}")
        for remark in advice.remarks:
            yield from self._folded(remark)
        yield from self._folded(
            f"half of the texts have {advice.units:,.0f} {UNIT_NAMES[histogram.unit]}s or more; "
            "bars are logarithmic: ten times as many pairs always add the same length"
        )
        yield "\n"
        names = ["similarity", "pairs"]
        if not histogram.is_exact:
            names += ["at least", "at most"]
        rows = []
        for part in histogram.slices:
            name = "1" if part.low == 1.0 else f"{part.low:.2f} to {part.high:.2f}"
            numbers = [part.pairs] if histogram.is_exact else [part.pairs, part.lower, part.upper]
            rows.append([name, *(f"{number:,.0f}" for number in numbers)])
        used = sum(
            max(len(name), *(len(row[place]) for row in rows)) + 2
            for place, name in enumerate(names)
        )
        room = min(max(self._width - used, 8), _LONGEST_BAR)
        most = max(part.pairs for part in histogram.slices[1:])  # nearly all pairs are in the first
        columns = [Column(names[0]), *(Column(name, "number") for name in names[1:]), Column("")]
        yield from self._table(
            columns,
            [
                [*row, self._bar(part.pairs, most, room)]
                for row, part in zip(rows, histogram.slices, strict=True)
            ],
        )

    def _bar(self, pairs: float, most: float, room: int) -> str:
        """Return a bar whose length grows with the digits of a number."""
        if pairs < 0.5:
            return ""
        share = math.log10(1.0 + pairs) / math.log10(1.0 + max(most, 1.0))
        return self._length(room * min(share, 1.0))

    def examples(self, examples: Sequence[ExamplePair]) -> Iterator[str]:
        """Show pairs side by side: keys, and some words that differ."""
        yield from self._title("Examples: what differs at each similarity")
        if not examples:
            yield from self._folded("no pair of the sample is near 0.5, 0.6, 0.7, 0.8 or 0.9")
        half = (self._width - len(_INDENT) - 3) // 2
        wall = "│" if self._is_fancy else "|"
        near = None
        for example in examples:
            if example.near != near:
                near = example.near
                yield f"\nNear {near:g}\n" if example is not examples[0] else f"Near {near:g}\n"
            rows = [(example.key1, example.key2)]
            for difference in example.differences:
                rows.append(
                    (
                        self._marked(difference.before, difference.words1, difference.after, half),
                        self._marked(difference.before, difference.words2, difference.after, half),
                    )
                )
            n = example.n_differences
            more = n - len(example.differences)
            yield f"{example.similarity:.3f}  {counted(n, 'difference')}\n"
            for left, right in rows:
                left, right = (crop(harmless(text), half, self._ellipsis) for text in (left, right))
                pad = " " * (half - cell_len(left))
                yield f"{_INDENT}{left}{pad} {wall} {right}".rstrip() + "\n"
            if more:
                yield f"{_INDENT}and {more:,} more\n"

    def _marked(self, before: str, words: str, after: str, room: int) -> str:
        """Return words in brackets, with as much context as fits."""
        marked = f"[{harmless(words)}]"
        if cell_len(marked) > room:
            return f"[{crop(harmless(words), room - 2, self._ellipsis)}]"
        left, right = harmless(before).split(), harmless(after).split()
        while left or right:
            text = " ".join([*left, marked, *right])
            if cell_len(text) <= room:
                return text
            if len(left) >= len(right):
                left = left[1:]
            else:
                right = right[:-1]
        return marked

    def choices(self, choices: Sequence[Choice]) -> Iterator[str]:
        """Show what each choice finds and costs, in a table and in words."""
        yield from self._title("What to take")
        columns = [Column("aim"), *(
            Column(name, "number")
            for name in ("k", "threshold", "pairs", "candidates", "bands", "size", "to add")
        )]  # fmt: skip
        yield from self._table(
            columns,
            [
                [
                    choice.aim, str(choice.k), f"{choice.threshold:.2f}", f"{choice.pairs:,.0f}",
                    f"{choice.candidates:,.0f}", f"{choice.bands} x {choice.rows}",
                    readable_size(choice.bytes), f"{choice.add_seconds:,.1f} s",
                ]
                for choice in choices
            ],
        )  # fmt: skip
        for choice in choices:
            yield "\n"
            yield self._strong(choice.aim) + "\n"
            for text in (choice.words, f"Why: {choice.reason}.", choice.command):
                yield from self._folded(text)

    def labels(self, agreement: LabelAgreement) -> Iterator[str]:
        """Show how each threshold agrees with the labels."""
        shingle = f"{agreement.k} {UNIT_NAMES[agreement.unit]}{'s' if agreement.k > 1 else ''}"
        yield from self._title(
            f"{agreement.yes:,} labels yes and {agreement.no:,} no, by shingles of {shingle}"
        )
        names = ("threshold", "yes", "no", "precision", "99 %", "recall", "99 %", "F1")
        rows = []
        for row in agreement.rows:
            mark = "*" if row.threshold == agreement.threshold else ""
            rows.append(
                [
                    f"{mark}{row.threshold:.2f}", f"{row.found_yes:,}", f"{row.found_no:,}",
                    _share(row.precision), _interval(row.precision_lower, row.precision_upper),
                    _share(row.recall), _interval(row.recall_lower, row.recall_upper),
                    f"{row.f1:.3f}",
                ]
            )  # fmt: skip
        yield from self._table([Column(name, "number") for name in names], rows)
        yield from self._folded("yes and no: labels at the threshold and above; *: agrees best")

    def curve(self, advice: Advice) -> Iterator[str]:
        """Show how probably a pair of each similarity is found with the bands asked about."""
        curve = advice.curve
        yield from self._title(
            f"The S-curve of {curve.bands} bands of {curve.rows} rows (threshold "
            f"{curve.threshold:g}, recall {curve.recall:.4g})"
        )
        yield from self._folded(
            f"steepest at (1/b)^(1/r) = {curve.steepest:.3f}; found at the threshold with "
            f"probability {curve.at_threshold:.4f}; if all similarities were equally frequent, "
            f"{curve.false_positives:.4f} of the pairs below the threshold would be candidates, "
            f"and {curve.false_negatives:.4f} of those above would be missed"
        )
        yield "\n"
        room = min(max(self._width - 24, 8), _LONGEST_BAR)
        rows = [
            [f"{value:.2f}", f"{probability:.4f}", self._length(probability * room)]
            for value, probability in zip(curve.similarities, curve.found, strict=True)
        ]
        columns = [Column("similarity", "number"), Column("found", "number"), Column("")]
        yield from self._table(columns, rows)

    def _length(self, cells: float) -> str:
        """Return a bar of a length in cells."""
        if not self._is_fancy:
            return "#" * round(cells)
        eighths = round(8 * cells)
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def _title(self, text: str) -> Iterator[str]:
        yield "\n"
        for line in fold(text, self._width):
            yield self._strong(line) + "\n"
        yield "\n"

    def _strong(self, text: str) -> str:
        return f"\x1b[1m{harmless(text)}\x1b[0m" if self._bold else harmless(text)

    def _folded(self, text: str) -> Iterator[str]:
        for line in fold(harmless(text), self._width - len(_INDENT)):
            yield _INDENT + line + "\n"

    def _table(self, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        drawn = draw_table(
            columns, rows, width=self._width, bold=self._bold, encoding=self._encoding
        )
        yield from (line for line in drawn if line is not None)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f"{lower:.2f}-{upper:.2f}"
