"""Which character quotes the cells of a file: given by the caller, CSV's, or found out for TSV.

CSV quotes cells with ``"``. TSV has no quotes, as IANA registers it and as COPY, cut and MS MARCO
write it: there a quote is a character like others. But spreadsheets, R and pandas write TSV with
quotes, so a TSV file has them if it shows them.

Decided: up to the first quote both readings are the same. From its line on, a block is held and
read as quoted cells. It must hold up: a quote begins a cell, the cell's closing quote is before a
tab or a line end, and quotes inside are doubled. One inch mark, or one quote that stays open, and
there are no quotes. Besides, the block must show what a file without quotes does not have:

- a quoted header;
- quotes that are needed: around a tab, a line end or doubled quotes;
- quotes around every cell of a column;
- quotes around every cell that holds a comma, and around no other, as Excel writes them.

A cell whose lines look like records themselves, each with as many tabs as the header, shows
nothing: rather these are records, the first and last of which hold a stray quote. So does a title
in quotes among others without. In doubt there are no quotes, because that loses nothing silently:
a line that was part of a cell is rejected, and the reason names the option. If all lines of such a
cell are records, a note names the first.

The decision holds for the rest of the file. In a stream, such as standard input, lines are held
from the first quote on until the block is full, an inch mark decides, or the input ends.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lshdb.documents.document import BrokenSourceError, Fields

__all__ = ["BLOCK", "Quotes", "quotes_of", "shows_quotes"]

BLOCK = 2**18
"""Bytes that are looked at, from the first quote on."""
_QUOTE = b'"'
_TAIL = 2**16
_BARE = re.compile(rb'[^"\t\n]*+')
_QUOTED = re.compile(rb'"((?:[^"]++|"")*+)"(?=\t|\r?\n|\r?\Z)')
_OPEN = re.compile(rb'"(?:[^"]++|"")*+"?\Z')
_NEEDS_QUOTES = re.compile(rb'""|\t|\n|\r(?!\n)')


def quotes_of(input_format: str, fields: Fields) -> Quotes:
    """Return the quotes of a file of CSV or TSV."""
    if fields.quote is None:
        return Quotes("", is_open=True) if input_format == "tsv" else Quotes('"')
    return Quotes("" if fields.quote == "none" else fields.quote, is_given=True)


class Quotes:
    """The character that quotes cells.

    Parameters
    ----------
    character : str
        Empty if there is none.
    is_open : bool
        Whether the content decides.
    is_given : bool
        Whether the caller has named it.

    Attributes
    ----------
    character : str
        Where the content decides, it is empty up to the chunk with the first quote.
    doubtful_line : int
        Where lines are read as records that could be a quoted cell; 0 if there are none.
    """

    def __init__(self, character: str, *, is_open: bool = False, is_given: bool = False) -> None:
        self.character = character
        self.is_given = is_given
        self.doubtful_line = 0
        self._is_open = is_open

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a file; decide before the first one with a quote is yielded."""
        return self._watched(iter(chunks)) if self._is_open else iter(chunks)

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        before = _Before()
        for chunk in chunks:
            if _QUOTE not in chunk:
                before.take(chunk)
                yield chunk
                continue
            block, failure = self._decide(before, chunk, chunks)
            yield from block
            if failure is not None:
                raise failure
            break
        yield from chunks

    def _decide(
        self, before: _Before, chunk: bytes, chunks: Iterator[bytes]
    ) -> tuple[list[bytes], BrokenSourceError | None]:
        """Read until the quotes are clear; return the chunks, and an error that ended reading."""
        block, failure, is_whole = [chunk], None, False
        size = len(chunk) - chunk.index(_QUOTE)
        looked_at = 0
        while True:
            if size >= 2 * looked_at or size >= BLOCK or is_whole:
                looked_at = size
                look = _look(before, b"".join(block), is_whole=is_whole)
                if not look.holds_up or size >= BLOCK or is_whole:
                    break
            try:
                following = next(chunks, None)
            except BrokenSourceError as error:
                failure, following = error, None
            if following is None:
                is_whole = True
            else:
                block.append(following)
                size += len(following)
        if look.holds_up and look.is_shown:
            self.character = '"'
        elif look.holds_up:
            self.doubtful_line = look.doubtful_line
        return block, failure


def shows_quotes(text: bytes, *, is_whole: bool) -> bool:
    """Return whether the beginning of a TSV file, or all of it, has quoted cells."""
    look = _look(_Before(), text, is_whole=is_whole)
    return look.holds_up and look.is_shown


class _Before:
    """The bytes before the first quote.

    Attributes
    ----------
    n_cells : int
        Cells of the header; 0 as long as it has not come.
    n_lines : int
        Lines whose end has come.
    line : bytes
        The beginning of the line whose end has not come; of a very long one, the end of that.
    """

    def __init__(self) -> None:
        self.n_cells = self.n_lines = 0
        self.has_records = self.has_commas = False
        self.line = b""

    def take(self, chunk: bytes) -> None:
        """Take note of a chunk without quotes."""
        lines, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self.line = (self.line + rest)[-_TAIL:]
            return
        lines = self.line + lines
        self.n_lines += lines.count(b"\n") + 1
        self.line = rest[-_TAIL:]
        if not self.n_cells:
            header, _, lines = lines.removeprefix(BOM_UTF8).lstrip(b"\r\n").partition(b"\n")
            self.n_cells = header.count(b"\t") + 1 if header else 0
        self.has_records = self.has_records or bool(lines.strip())
        self.has_commas = self.has_commas or b"," in lines


class _Look(NamedTuple):
    """Whether a block can be read as quoted cells, and whether it shows that it must be.

    The line is that of the first record whose lines look like records themselves.
    """

    holds_up: bool
    is_shown: bool = False
    doubtful_line: int = 0


_NONE = _Look(False)


def _look(before: _Before, block: bytes, *, is_whole: bool) -> _Look:
    text = before.line + block
    n_cells = before.n_cells
    if not n_cells:
        text = text.removeprefix(BOM_UTF8)
    if not is_whole:
        text = text[: text.rfind(b"\n") + 1]
    columns = _Columns(before)
    is_shown = False
    doubtful_line = 0
    position = 0
    while position < len(text):
        start = position
        record: list[tuple[bytes, bool]] = []
        while True:
            is_quoted = text.startswith(_QUOTE, position)
            match = (_QUOTED if is_quoted else _BARE).match(text, position)
            if match is None:
                if is_whole or _OPEN.match(text, position) is None:
                    return _NONE
                is_shown = is_shown or columns.show_quotes()
                return _Look(True, is_shown, doubtful_line)  # it is closed further on
            position = match.end()
            if text.startswith(_QUOTE, position):
                return _NONE
            record.append((match[1] if is_quoted else match[0], is_quoted))
            if not text.startswith(b"\t", position):
                break
            position += 1
        position = text.find(b"\n", position) + 1 or len(text)
        if len(record) == 1 and not record[0][1] and not record[0][0].strip(b"\r"):
            continue
        if not n_cells:
            n_cells = len(record)
            is_shown = any(is_quoted for _, is_quoted in record)
        elif len(record) == n_cells:
            lines = text[start:position].removesuffix(b"\n").split(b"\n")
            n_records = sum(line.count(b"\t") + 1 == n_cells for line in lines)
            is_shown |= columns.take(record, are_records=n_records > 1)
            if n_records > 1:
                n_before = before.n_lines + text.count(b"\n", 0, start)
                doubtful_line = doubtful_line or n_before + 1
    return _Look(True, is_shown or columns.show_quotes(), doubtful_line)


class _Columns:
    """Which columns of a block have quoted and bare cells."""

    def __init__(self, before: _Before) -> None:
        self._quoted: set[int] = set()
        self._bare: set[int] = set()
        self._is_first = not before.has_records
        self._are_commas_bare = before.has_commas
        self._are_quotes_for_commas = True

    def take(self, record: list[tuple[bytes, bool]], *, are_records: bool) -> bool:
        """Take a record, and return whether one of its cells needs its quotes.

        Parameters
        ----------
        record : list of (bytes, bool)
            Each cell, and whether it is quoted.
        are_records : bool
            Whether the lines of the record look like records.
        """
        is_shown = False
        for column, (cell, is_quoted) in enumerate(record):
            if not is_quoted:
                self._bare.add(column)
                self._are_commas_bare = self._are_commas_bare or b"," in cell
            elif are_records and b"\n" in cell:
                self._bare.add(column)
                self._are_quotes_for_commas = False
            else:
                self._quoted.add(column)
                is_needed = _NEEDS_QUOTES.search(cell) is not None
                is_shown |= is_needed
                self._are_quotes_for_commas &= is_needed or b"," in cell
        return is_shown

    def show_quotes(self) -> bool:
        """Return whether quotes follow a rule of a program that writes them."""
        if self._is_first and self._quoted - self._bare:
            return True
        is_by_comma = self._are_quotes_for_commas and not self._are_commas_bare
        return is_by_comma and bool(self._quoted)
