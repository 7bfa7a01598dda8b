"""Rows -> the lines of a table, as a stream.

Decided: the first rows set the widths of the columns, at most two hundred rows and at most half a
second of waiting, so that a table of any length is drawn while its rows are found. A wider cell
further down may stick out as long as its line fits the terminal. Otherwise its middle is cropped,
because keys differ at their ends, or the beginning if it is a path, whose end tells more. Output
that does not go to a terminal is never cropped. A table that cannot fit at all is written one field
a line, like a record.

Widths are counted in cells of a terminal: a Han character takes two, an accent none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, chop_cells

from lshdb.cli._cells import harmless, text_of
from lshdb.cli._column import Column

__all__ = ["crop", "draw_record", "draw_table", "fold"]

_MEASURED_ROWS = 200
_MEASURED_SECONDS = 0.5
_GAP = "  "
_LEAST_WIDTH = {"text": 8, "prose": 24}
_DECIMALS = 4

Rows = Iterable[Sequence[Any] | None]


def draw_table(
    columns: Sequence[Column], rows: Rows, *, width: int | None, bold: bool, encoding: str = "utf-8"
) -> Iterator[str | None]:
    """Draw a table; write nothing if there are no rows.

    Parameters
    ----------
    columns : sequence of Column
        Titles and kinds of the cells of a row.
    rows : iterable of sequences, or None
        None means that nothing more is ready for now; it is passed on as None.
    width : int or None
        Cells per line; None for no limit.
    bold : bool
        Whether the titles are set in bold type.
    encoding : str
        Encoding of the output; decides the characters of rule and ellipsis.

    Yields
    ------
    str or None
        Lines with their ends.
    """
    iterator = iter(rows)
    first, paused = _first_rows(iterator, columns)
    if not first:
        return
    layout = _Layout(columns, first, width, encoding)
    if layout.fits:
        yield from layout.head(bold)
    for cells in first:
        yield layout.row(cells)
    if paused:
        yield None
    for row in iterator:
        yield None if row is None else layout.row(_cells(row, columns))


def draw_record(fields: Mapping[str, str], width: int | None) -> Iterator[str]:
    """Draw names and values in two columns; fold long values, keep line feeds."""
    indent = max(map(cell_len, map(harmless, fields))) + len(_GAP)
    room = None if width is None else max(width - indent, 20)
    for name, value in fields.items():
        lead = _pad(harmless(name), indent)
        for line in value.expandtabs(4).split("\n"):
            for piece in fold(harmless(line), room):
                yield (lead + piece).rstrip()
                lead = " " * indent


def crop(text: str, width: int, ellipsis: str = "…") -> str:
    """Shorten a text to a number of cells by cropping its middle, or the beginning of a path."""
    if cell_len(text) <= width:
        return text
    if "/" in text and " " not in text and width > 2 * len(ellipsis):
        return _cropped_path(text, width, ellipsis)
    room = width - len(ellipsis)
    if room < 1:
        return text[:1] if width == 1 and cell_len(text[:1]) == 1 else ellipsis[:width]
    head = chop_cells(text[: 4 * width], max(room - room // 2, 1))[0]
    return head + ellipsis + _tail(text, room - cell_len(head), width)


def _cropped_path(path: str, width: int, ellipsis: str) -> str:
    """Crop the beginning of a path, at a slash if that keeps at least half of the width."""
    tail = _tail(path, width - len(ellipsis), width)
    slash = tail.find("/", 0, len(tail) // 2)
    return ellipsis + (tail[slash:] if slash > 0 else tail)


def _tail(text: str, room: int, width: int) -> str:
    """Return the end of a text that fits a number of cells."""
    tail = ""
    for character in reversed(text[-4 * width :]):
        if cell_len(character + tail) > room:
            break
        tail = character + tail
    return tail


def fold(text: str, width: int | None) -> list[str]:
    """Cut a text into lines of at most ``width`` cells, at blanks if there are any."""
    lines = []
    while width is not None:
        piece = text[: 4 * width]  # enough, unless there are four accents on every letter
        if len(piece) == len(text) and cell_len(piece) <= width:
            break
        line = chop_cells(piece, width)[0] or text[:1]
        if text[len(line) : len(line) + 1] not in ("", " "):
            blank = line.rfind(" ")
            line = line[: blank + 1] if blank > width // 3 else line
        lines.append(line.rstrip(" "))
        text = text[len(line) :].lstrip(" ")
    return [*lines, text] if text or not lines else lines


class _Layout:
    """Widths of columns, and rows drawn to them."""

    def __init__(
        self,
        columns: Sequence[Column],
        first: Sequence[Sequence[str]],
        width: int | None,
        encoding: str,
    ) -> None:
        self._columns = [
            column._replace(kind="number" if _all_numbers(row[i] for row in first) else "text")
            if column.kind == "auto"
            else column
            for i, column in enumerate(columns)
        ]
        self._width = width
        fancy = encoding.lower().replace("-", "").startswith("utf")
        self._rule, self._ellipsis = ("─", "…") if fancy else ("-", "...")
        self._titles = [harmless(column.title or column.name) for column in columns]
        # A prose column is the last, and takes what the others leave.
        self._widths = [
            max(cell_len(title), *(cell_len(row[i]) for row in first))
            for i, title in enumerate(self._titles)
        ]
        self._n_rows = 0
        self.fits = width is None or self._shrink(width)

    def _shrink(self, width: int) -> bool:
        """Take from the widest columns until a line fits; False if it cannot."""
        least = [
            min(width, max(_LEAST_WIDTH.get(column.kind, width), cell_len(title)))
            for column, width, title in zip(self._columns, self._widths, self._titles, strict=True)
        ]
        room = width - len(_GAP) * (len(self._columns) - 1)
        if sum(least) > room:
            return False
        while sum(self._widths) > room:
            spare = [i for i, width in enumerate(self._widths) if width > least[i]]
            widest = max(spare, key=self._widths.__getitem__)
            self._widths[widest] -= 1
        return True

    def head(self, bold: bool) -> Iterator[str]:
        titles = self._joined(self._titles)
        yield (f"\x1b[1m{titles}\x1b[0m" if bold else titles) + "\n"
        yield _GAP.join(self._rule * width for width in self._widths) + "\n"

    def row(self, cells: Sequence[str]) -> str:
        """Return one row, with its line feeds."""
        self._n_rows += 1
        if not self.fits:
            named = dict(zip(_distinct(self._titles), cells, strict=True))
            lines = draw_record({name: cell for name, cell in named.items() if cell}, self._width)
            blank = "" if self._n_rows == 1 else "\n"
            return blank + "".join(f"{line}\n" for line in lines) if any(cells) else blank
        line = self._joined(cells)
        if self._width is None or cell_len(line) <= self._width:
            return line + "\n"
        if self._columns[-1].kind == "prose":
            return self._folded(cells)
        return self._joined(self._cropped(cells)) + "\n"

    def _cropped(self, cells: Sequence[str]) -> list[str]:
        return [
            crop(cell, width, self._ellipsis) if column.kind == "text" else cell
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        ]

    def _folded(self, cells: Sequence[str]) -> str:
        lead = self._joined([*self._cropped(cells)[:-1], "|"]).removesuffix("|")
        room = max((self._width or 80) - cell_len(lead), 20)
        pieces = fold(cells[-1], room)
        indent = "\n" + " " * cell_len(lead)
        return lead + indent.join(pieces) + "\n"

    def _joined(self, cells: Sequence[str]) -> str:
        padded = (
            _pad(cell, width, right=column.kind in ("number", "similarity"))
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        )
        return _GAP.join(padded).rstrip()


def _first_rows(
    iterator: Iterator[Sequence[Any] | None], columns: Sequence[Column]
) -> tuple[list[list[str]], bool]:
    """Return rows to measure, and whether they ended because no more were ready."""
    first: list[list[str]] = []
    start = time.monotonic()
    for row in iterator:
        if row is not None:
            first.append(_cells(row, columns))
        elif first:
            return first, True
        if len(first) >= _MEASURED_ROWS or time.monotonic() - start > _MEASURED_SECONDS:
            break
    return first, False


def _cells(row: Sequence[Any], columns: Sequence[Column]) -> list[str]:
    return [
        harmless(text_of(value, _DECIMALS if column.kind == "similarity" else None))
        for value, column in zip(row, columns, strict=True)
    ]


def _all_numbers(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell]
    try:
        return bool(filled) and all(float(cell) == float(cell) for cell in filled)
    except ValueError:
        return False


def _distinct(names: Sequence[str]) -> list[str]:
    return [
        name if name not in names[:place] else f"{name} ({place + 1})"
        for place, name in enumerate(names)
    ]


def _pad(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks
