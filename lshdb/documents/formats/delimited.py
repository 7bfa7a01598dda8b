"""Cells between delimiters: CSV and TSV with documents, and the links of a graph.

CSV and TSV have a header line that names the columns, then one record per document. ``quotes.py``
says which quotes a file has. Decided: where it has quotes (around a cell that holds delimiters,
line feeds or quotes; quotes inside are doubled), the parser is strict. Text after a closing
quote, or a quote that is never closed, rejects the record; otherwise it would swallow others
silently. Strictness has a cost that CSV itself sets: a stray quote at the beginning of a cell may
take the lines up to the next quote with it. The reason names all lost lines, and a note tells of
cells that span many. Without quotes, a line is a record and every character is one of its cell.

Lines that are not UTF-8 still go through the parser, with their bytes as surrogates, so that
quoting stays in step; their record is then rejected. A record over the limit is skipped to its
end without being held. Without a usable header nothing is read: one rejection for the file.

``csv.field_size_limit`` belongs to the whole process. This module raises it and never lowers it;
the limit of a record bounds a cell.

Links have no header: one per line, ``source TAB target`` or ``source TAB target TAB count``. Keys
are written as listings write them, without quotes (``written_keys.py``). A line ends in LF or CRLF.
Blank lines are skipped. Every line is independent: a line that is not a link is rejected, and the
next one is read as usual.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator

from lshdb.documents.document import (
    MAX_KEY_BYTES,
    Document,
    Fields,
    Rejected,
    missing_fields,
    shown_names,
    validate_key,
)
from lshdb.documents.formats.objects import absent, joined, row_prefix
from lshdb.documents.formats.quotes import Quotes, quotes_of
from lshdb.documents.io.encodings import undecodable
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines
from lshdb.documents.written_keys import unescaped

__all__ = ["MAX_COUNT", "RecordLines", "parse_records", "read_csv", "read_links", "read_tsv"]

_NO_QUOTES = "if quotes are part of the texts, give --quote none"
_FIELD_LIMIT = 2**31 - 1  # the largest that a C long holds everywhere


def read_csv(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read CSV.

    Yields
    ------
    Document or Rejected
        One per record that is not blank, in order; the source names the line where the record
        begins.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line.
    """
    return _read_delimited(file, file.fields.delimiter or ",", quotes_of("csv", file.fields))


def read_tsv(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read TSV, as :func:`read_csv` reads CSV."""
    return _read_delimited(file, "\t", quotes_of("tsv", file.fields))


def _read_delimited(
    file: OpenFile, delimiter: str, quotes: Quotes
) -> Iterator[Document | Rejected]:
    name, fields, limit = file.name, file.fields, file.limit
    lines = split_lines(quotes.watch(file.chunks), limit, quotes.character.encode() or b'"')
    feed = RecordLines(lines, limit, quotes, file.encoding)
    records = parse_records(feed, delimiter)
    long_cells = _LongCells()
    _, header, reason = next(records, (1, [], "the file is empty, expected a header line"))
    reason = reason or _header_fault(header, fields, delimiter)
    if reason is not None:
        yield Rejected(name, f"no usable header: {reason}")
        return

    prefix = row_prefix(file)
    key_column = None if prefix is not None else header.index(fields.key_name)
    texts = [header.index(name) for name in fields.bodies if name in header]
    text_column = texts[0]
    kept_columns = {name: header.index(name) for name in fields.keep if name in header}
    file.seen.note(kept_columns, header)
    for number, (line, cells, reason) in enumerate(records, start=1):
        if reason is None and len(cells) != len(header):
            reason = f"{len(cells)} cells, the header has {len(header)}" + _advice(cells, quotes)
        if reason is None:
            key = f"{prefix}{number}" if key_column is None else cells[key_column]
            reason = validate_key(key)
        if reason is None:
            body = cells[text_column]
            if fields.is_joined:
                body = joined(cells[column] for column in texts) or ""
            values = {name: cells[column] for name, column in kept_columns.items()} or None
            if feed.number - line >= _FEW_LINES and not quotes.is_given:
                long_cells.take(line, cells)
            yield Document(key, body, f"{name}:{line}", values)
        else:
            yield Rejected(f"{name}:{line}", reason)
    if long_cells.count:
        file.note(f"{name}:{long_cells}")
    if quotes.doubtful_line:
        file.note(
            f"{name}:{quotes.doubtful_line}: lines were read as records that could be one cell in "
            "quotes; if they are, give --quote '\"', and otherwise --quote none"
        )


def _advice(cells: list[str], quotes: Quotes) -> str:
    """Return what to do about a line of TSV that may be a piece of a quoted cell."""
    is_doubtful = not (quotes.is_given or quotes.character)
    has_quote = any(cell.startswith('"') or cell.endswith('"') for cell in cells)
    return "; if cells are in quotes, give --quote '\"'" if is_doubtful and has_quote else ""


_FEW_LINES = 3
"""Cells of more lines are told of: a stray quote may have taken them."""


class _LongCells:
    """Counts quoted cells of more than a few lines, and knows the longest."""

    def __init__(self) -> None:
        self.count = 0
        self._longest = self._line = 0

    def take(self, line: int, cells: list[str]) -> None:
        """Take a record that begins at a line."""
        sizes = [cell.count("\n") + 1 for cell in cells]
        self.count += sum(size > _FEW_LINES for size in sizes)
        if max(sizes) > self._longest:
            self._longest, self._line = max(sizes), line

    def __str__(self) -> str:
        """Return where the longest is, and what to do if it should be none."""
        more = self.count - 1
        more_lines = f"; {more:,} more span" + "s" * (more == 1) if more else ""
        more_lines += f" more than {_FEW_LINES}" if more else ""
        return (
            f"{self._line}: a quoted cell spans {self._longest:,} lines{more_lines}; {_NO_QUOTES}"
        )


def _header_fault(header: list[str], fields: Fields, delimiter: str) -> str | None:
    missing = absent(fields, header)
    if missing:
        likely = max("\t;|,", key=lambda character: header[0].count(character))
        if len(header) == 1 and likely != delimiter and likely in header[0]:
            return (
                f"one column, {shown_names(header)}, which looks like columns between "
                f"{_shown(likely)}: give --delimiter {_shown(likely)}"
            )
        return missing_fields("column", missing, header, fields)
    needed = (*fields.bodies, *fields.keep, *([] if fields.row_keys else [fields.key_name]))
    twice = next((field for field in needed if header.count(field) > 1), None)
    return None if twice is None else f"more than one column {twice!r}"


def _shown(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


class _OversizeError(Exception):
    """The record is over the limit; never leaves this module."""


class RecordLines:
    """Feeds lines to the parser and tracks the record that they belong to."""

    def __init__(
        self,
        lines: Iterator[bytes | TooLong],
        limit: int,
        quotes: Quotes,
        encoding: str | None = None,
    ) -> None:
        self._lines = lines
        self._limit = limit
        self._encoding = encoding
        self._size = 0
        self._ends_quoted = False
        self._again: str | None = None
        self.quotes = quotes
        self.number = 0
        self.start = 1
        self.fault: str | None = None

    def begin_record(self) -> None:
        """Take note that the next line begins a record."""
        if self._again is not None:
            return  # it has begun with that line
        self.start = self.number + 1
        self._size = 0
        self.fault = None

    def __iter__(self) -> RecordLines:
        return self

    def __next__(self) -> str:
        if self._again is not None:
            text, self._again = self._again, None
            return text
        line = next(self._lines)
        self.number += 1
        if not isinstance(line, TooLong):
            self._size += len(line) + 1
        if isinstance(line, TooLong) or self._size - 1 > self._limit:
            # The parser asks for a second line of a record only inside quotes.
            self._ends_quoted = (self.number > self.start) != self._has_odd_quotes(line)
            raise _OversizeError
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"at byte {error.start + 1} of line {self.number}"
            self._note(undecodable(where, self._encoding))
            text = line.decode("utf-8", "surrogateescape")
        if "\0" in text:
            self._note(f"NUL at character {text.index(chr(0)) + 1} of line {self.number}")
        return text + "\n"

    def give_again(self, text: str) -> None:
        """Give the last line once more: it is the first of a record that may be quoted."""
        self._again = text

    def _note(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _has_odd_quotes(self, line: bytes | TooLong) -> bool:
        character = self.quotes.character.encode()
        if not character:
            return False
        n_quotes = line.n_quotes if isinstance(line, TooLong) else line.count(character)
        return n_quotes % 2 == 1

    def skip_record(self) -> None:
        """Skip to the end of a record that is over the limit."""
        while self._ends_quoted:
            line = next(self._lines, None)
            if line is None:
                return
            self.number += 1
            self._ends_quoted = not self._has_odd_quotes(line)

    def oversize(self) -> str:
        """Return the reason for rejecting a record over the limit."""
        return f"the record has more bytes than the limit of {self._limit:,}{self.extent()}"

    def extent(self) -> str:
        """Return the lines that the record spans, if more than one."""
        return f" (lines {self.start} to {self.number})" if self.number > self.start else ""


Record = tuple[int, list[str], str | None]


def parse_records(feed: RecordLines, delimiter: str) -> Iterator[Record]:
    """Yield the line where each record begins, its cells, and why it cannot be used."""
    yield from _bare_records(feed, delimiter)
    if feed.quotes.character:
        yield from _quoted_records(feed, delimiter)


def _bare_records(feed: RecordLines, delimiter: str) -> Iterator[Record]:
    """Yield records as long as the file has no quotes: each line is one."""
    is_header = True
    while not feed.quotes.character:
        feed.begin_record()
        try:
            text = next(feed)
        except StopIteration:
            return
        except _OversizeError:
            feed.skip_record()
            yield feed.start, [], feed.oversize()
            is_header = False
            continue
        if feed.quotes.character:
            feed.give_again(text)
            return
        text = text[:-1].removesuffix("\r")
        if text:
            fault = feed.fault
            if is_header and fault is None and "\r" in text:
                fault = "a carriage return that does not end the line"
            is_header = False
            yield feed.start, text.split(delimiter), fault


def _quoted_records(feed: RecordLines, delimiter: str) -> Iterator[Record]:
    if csv.field_size_limit() < _FIELD_LIMIT:
        csv.field_size_limit(_FIELD_LIMIT)
    quote = feed.quotes.character
    rows = csv.reader(feed, delimiter=delimiter, quotechar=quote, strict=True)
    while True:
        feed.begin_record()
        try:
            cells = next(rows)
        except StopIteration:
            return
        except _OversizeError:
            feed.skip_record()
            yield feed.start, [], feed.oversize()
        except csv.Error as error:  # the parser starts again at the next line
            reason = feed.fault or _parser_reason(error, delimiter)
            is_doubtful = "quote" in reason and not feed.quotes.is_given
            advice = f"; {_NO_QUOTES}" if is_doubtful else ""
            yield feed.start, [], reason + feed.extent() + advice
        else:
            if cells:
                yield feed.start, cells, feed.fault and feed.fault + feed.extent()


def _parser_reason(error: csv.Error, delimiter: str) -> str:
    message = str(error)
    if "unexpected end of data" in message:
        return "a quote that opens in this record is never closed"
    if "expected after" in message:
        return f"a closing quote is followed by something other than {delimiter!r} or a line end"
    if "new-line character" in message:
        return "a carriage return outside quotes that does not end the line"
    return f"not valid: {message}"


MAX_COUNT = 2**53
"""The largest count of a line; every program that reads it as JSON keeps it exact."""

_LINE_BYTES = 4 * MAX_KEY_BYTES + 100


class _NoLinkError(Exception):
    """A line is not a link; the message is the reason."""


def read_links(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, int] | Rejected]:
    """Read the links of one file, as a stream.

    Parameters
    ----------
    path : path-like
        Plain or compressed; ``-`` for standard input, which is not decompressed.

    Yields
    ------
    tuple of (str, str, int) or Rejected
        Source, target and count of each line that is not blank, in order; the count is 1 if
        the line has none.

    Raises
    ------
    InputError
        The path cannot be read to its end; the links before that point have been yielded.
    """
    with open_single(path, input_format="tsv") as (name, chunks):
        for number, line in enumerate(split_lines(chunks, _LINE_BYTES), start=1):
            try:
                link = _link(line)
            except _NoLinkError as error:
                yield Rejected(f"{name}:{number}", str(error))
            else:
                if link is not None:
                    yield link


def _link(line: bytes | TooLong) -> tuple[str, str, int] | None:
    """Return the link of a line; None for a blank line."""
    if isinstance(line, TooLong):
        raise _NoLinkError(f"the line has {line.size:,} bytes; a link has at most {_LINE_BYTES:,}")
    try:
        cells = line.removesuffix(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise _NoLinkError(f"not valid UTF-8 at byte {error.start + 1} of the line") from error
    if not 2 <= len(cells) <= 3:
        if len(cells) == 1 and (not cells[0] or cells[0].isspace()):
            return None
        count = "one cell" if len(cells) == 1 else f"{len(cells)} cells"
        raise _NoLinkError(
            f"{count}, expected source, target and perhaps a count, separated by tabs"
        )
    source, target = _end("source", cells[0]), _end("target", cells[1])
    return source, target, _count(cells[2]) if len(cells) == 3 else 1


def _end(name: str, cell: str) -> str:
    try:
        key = unescaped(cell)
    except ValueError as error:
        raise _NoLinkError(f"{name}: {error}") from None
    reason = validate_key(key)
    if reason is not None:
        raise _NoLinkError(f"{name}: {reason}")
    return key


def _count(cell: str) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) < 100:
        count = int(cell)
        if 1 <= count <= MAX_COUNT:
            return count
    raise _NoLinkError(
        f"the count is {cell[:40]!r}, expected a whole number from 1 to {MAX_COUNT:,}"
    )
