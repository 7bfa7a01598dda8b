"""Records passed through: read with their keys, and written again in the format of their file.

A file is read in blocks of records. Whoever decides looks at a block's keys and says which records
stay, or marks all of them. What stays is written as it was:

- JSON Lines and CSV byte for byte, the header and blank lines too, so nothing is quoted or escaped
  anew. Other encodings than UTF-8 are decoded and encoded again. What is no document stays as
  well. A line or record over the limit comes in pieces and is never held.
- Parquet and Arrow in ``passed_columns.py``.

Marks are four fields or columns behind the others, named in ``MARKS``. A file that has one of them
already is refused.

Keys are those that the readers of the formats give: of a field, or path and number of the row.
"""

from __future__ import annotations

import itertools
import tempfile
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import IO, Any, NamedTuple

import orjson

from lshdb.arrays import np
from lshdb.documents.document import BrokenSourceError, Fields, shown_names
from lshdb.documents.formats.delimited import RecordLines, parse_records
from lshdb.documents.formats.json_text import exact_value
from lshdb.documents.formats.jsonl import key_of, parse_object, split_raw_lines
from lshdb.documents.formats.quotes import quotes_of
from lshdb.documents.io.encodings import Encoder, encoding_of_mark, exact_encoding, recoded
from lshdb.documents.io.misnamed import read_head, recognised
from lshdb.documents.io.source import InputFile
from lshdb.documents.io.streams import Progress, TooLong, chunks_of, open_source
from lshdb.errors import InputError

__all__ = [
    "MARKS",
    "Delimited",
    "JsonLines",
    "Mark",
    "RecordBlock",
    "RecordFile",
    "RecordWriter",
    "open_records",
    "refuse_marked",
]

MARKS = ("lshdb_keep", "lshdb_cluster", "lshdb_kept_as", "lshdb_similarity")
_LINE_FEED = 10
_RECORDS = 1000
_BLOCK_BYTES = 4 * 2**20


class Mark(NamedTuple):
    """The decision about a record; its fields are named in ``MARKS``."""

    keep: bool
    cluster: str | None = None
    kept_as: str | None = None
    similarity: float | None = None


class RecordBlock(NamedTuple):
    """Some records of a file, one after another.

    Attributes
    ----------
    keys : sequence of str or None
        One for each record; None if it has none.
    values : callable
        Takes the name of a field and returns its value in each record, as an index would keep it;
        None where there is none.
    has : callable
        Takes the name of a field and returns whether any record has it, perhaps without a value.
    rows : object
        The records, for the writer.
    """

    keys: Sequence[str | None]
    values: Callable[[str], list[object]]
    has: Callable[[str], bool]
    rows: Any


class RecordWriter(ABC):
    """Writes records of a file; made by the file's own reader."""

    @abstractmethod
    def write(self, block: RecordBlock, marks: Sequence[Mark]) -> None:
        """Write the records of a block that stay; with marks, all of them."""

    def close(self) -> None:  # noqa: B027 - most have nothing to complete
        """Write the records in memory."""


class RecordFile(ABC):
    """One file of records.

    Attributes
    ----------
    source : InputFile
        The file as what its first bytes show it to be.
    """

    source: InputFile

    @abstractmethod
    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records; once.

        Raises
        ------
        BrokenSourceError
            The file cannot be read to its end.
        """

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of the fields, by the header, the schema or the first object."""

    def without(self, lines: Iterator[tuple[int, str]]) -> Iterator[bytes] | None:
        """Return the file without some lines, in pieces; None if records are no lines in it.

        Nothing but the lines that go is parsed.

        Parameters
        ----------
        lines : iterator of (int, str)
            The numbers of the lines, from 1, in order; and the keys of their records.

        Raises
        ------
        BrokenSourceError
            The file cannot be read to its end, or a line has another key.
        """
        return None

    @abstractmethod
    def writer(self, out: IO[bytes], *, is_marked: bool) -> RecordWriter:
        """Return a writer of the same format, for the blocks of this file.

        Raises
        ------
        InputError
            It is to be marked and has marks already.
        """


@contextmanager
def open_records(
    source: InputFile, fields: Fields, limit: int, *, progress: Progress | None = None
) -> Iterator[RecordFile]:
    """Open a file of records.

    Parameters
    ----------
    fields : Fields
        Where keys come from, and delimiter and encoding of text.
    limit : int
        The longest line or record that is parsed, in bytes.
    progress : Progress, optional
        Told of the bytes of lines that are read; rows of Parquet and Arrow are not.

    Raises
    ------
    InputError
        It cannot be read to its end, or has no keys.
    """
    try:
        with open_source(source) as file:
            head = read_head(file, is_regular=source.can_seek)
            source = recognised(source, head)
            before = b"" if source.can_seek else head
            with closing(chunks_of(source, file, progress or Progress(None, 0), before)) as chunks:
                opened = source.format.load(source.format.passes)
                if source.format.has_rows:
                    with opened(source, file, fields) as records:
                        yield records
                else:
                    yield opened(source, chunks, fields, limit)
    except BrokenSourceError as error:
        where = "" if error.line is None else f", at about line {error.line}"
        raise InputError(
            f"{source.name} {error.reason}{where}", hint="restore the file and start again"
        ) from error


def refuse_marked(source: InputFile, names: Iterable[str]) -> None:
    """Raise InputError if a file has a field of a mark."""
    marked = [name for name in MARKS if name in names]
    if marked:
        raise InputError(
            f"{source.name} has a field {marked[0]!r} already: it is marked",
            hint="take the file that it was made of, or remove these fields",
        )


# Lines and records of text


class _Record(NamedTuple):
    """A record with the lines that it spans, or a piece of one that is over the limit.

    Attributes
    ----------
    fields : mapping or None
        None if it is no record that can be used.
    number : int
        As in row keys; 0 for the header and for blank lines, which always stay.
    missing : int
        How many cells it has less than the header.
    begins, ends : bool
        Whether it is the first, the last piece of a record.
    """

    data: bytes
    fields: Mapping[str, Any] | None
    number: int
    missing: int = 0
    begins: bool = True
    ends: bool = True


class _TextFile(RecordFile):
    """Records in text; a subclass finds them and marks one."""

    def __init__(
        self, source: InputFile, chunks: Iterator[bytes], fields: Fields, limit: int
    ) -> None:
        self.source, self._fields, self._limit = source, fields, limit
        first = next(chunks, b"")
        self._encoding = exact_encoding(fields.encoding or encoding_of_mark(first), first)
        self._chunks = itertools.chain([first], chunks) if first else chunks
        if self._encoding is not None:
            self._chunks = recoded(self._chunks, self._encoding)

    @abstractmethod
    def _records(self) -> Iterator[_Record]:
        """Yield the records in order."""

    @abstractmethod
    def marked(self, record: _Record, mark: Mark) -> bytes:
        """Return a record's bytes with its mark."""

    def value(self, record: _Record, name: str) -> object:
        """Return the value of a field, as an index would keep it; None if there is none."""
        return None if record.fields is None else record.fields.get(name)

    def names(self) -> Sequence[str]:
        return next(
            (list(record.fields) for record in self._records() if record.fields is not None), []
        )

    def writer(self, out: IO[bytes], *, is_marked: bool) -> _TextWriter:
        return _TextWriter(self, self._encoding, out, is_marked)

    def blocks(self) -> Iterator[RecordBlock]:
        records: list[_Record] = []
        size = 0
        for record in self._records():
            records.append(record)
            size += len(record.data)
            if len(records) == _RECORDS or size >= _BLOCK_BYTES:
                yield self._block(records)
                records, size = [], 0
        if records:
            yield self._block(records)

    def _block(self, records: list[_Record]) -> RecordBlock:
        real = [record for record in records if record.number and record.begins]
        keys: list[str | None]
        if self._fields.row_keys:
            keys = [f"{self.source.key}:{record.number}" for record in real]
        else:
            keys = [key_of(record.fields, self._fields.key_name) for record in real]

        def values(field: str) -> list[object]:
            return [self.value(record, field) for record in real]

        def has(field: str) -> bool:
            return any(record.fields is not None and field in record.fields for record in real)

        return RecordBlock(keys, values, has, records)


class _TextWriter(RecordWriter):
    def __init__(
        self, file: _TextFile, encoding: str | None, out: IO[bytes], is_marked: bool
    ) -> None:
        self._file, self._out, self._is_marked = file, out, is_marked
        self._encode = None if encoding is None else Encoder(encoding)
        self._mark = Mark(True)

    def pieces(self, block: RecordBlock, marks: Sequence[Mark]) -> Iterator[bytes]:
        """Yield the records of a block that stay, as they are written."""
        next_marks = iter(marks)
        for record in block.rows:
            if record.number and record.begins:
                self._mark = next(next_marks)
            if self._is_marked or self._mark.keep or not record.number:
                data = record.data
                if self._is_marked:
                    data = self._file.marked(record, self._mark)
                yield data if self._encode is None else self._encode(data)

    def write(self, block: RecordBlock, marks: Sequence[Mark]) -> None:
        self._out.write(b"".join(self.pieces(block, marks)))

    def close(self) -> None:
        if self._encode is not None:
            self._out.write(self._encode(b"", is_final=True))


class JsonLines(_TextFile):
    """Lines of JSON; a line that is no object stays and gets no mark.

    What is read as an array of objects (``jsonl.py``) is not written again: none of its lines is a
    record, and without one of them it may be no JSON.
    """

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records of a file of lines; raise InputError for an array."""
        self._chunks = self._of_no_array(self._chunks)
        return super().blocks()

    def _of_no_array(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the same bytes; raise InputError if they begin as an array of objects does."""
        start = b""
        for chunk in chunks:
            if len(start) < 2:
                start = (start + chunk).removeprefix(BOM_UTF8).lstrip()
                start = start[:1] + start[1:].lstrip() if start[:1] == b"[" else start
                start = start[:2]
            if start == b"[{":
                raise InputError(
                    f"{self.source.name} is a JSON array, and only lines are written again",
                    hint="convert it to JSON Lines, one object a line (jq -c '.[]')",
                )
            yield chunk

    def without(self, lines: Iterator[tuple[int, str]]) -> Iterator[bytes] | None:
        """Return the file without some lines; None if it is encoded."""
        if self._encoding is not None:
            return None
        self._chunks = self._of_no_array(self._chunks)
        return self._pieces(lines)

    def _pieces(self, lines: Iterator[tuple[int, str]]) -> Iterator[bytes]:
        number = 1
        gone = next(lines, None)
        for block in _by_lines(self._chunks):
            end = number + block.count(b"\n") + (not block.endswith(b"\n"))
            if gone is None or gone[0] >= end:
                yield block
            else:
                ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _LINE_FEED) + 1
                ends = np.append(np.append(0, ends), len(block))
                at = 0
                while gone is not None and gone[0] < end:
                    start, stop = ends[gone[0] - number : gone[0] - number + 2].tolist()
                    self._require_key(block[start:stop], *gone)
                    yield block[at:start]
                    at = stop
                    gone = next(lines, None)
                yield block[at:]
            number = end

    def _require_key(self, line: bytes, number: int, key: str) -> None:
        """Raise BrokenSourceError if a line is not the one that was read before."""
        if not self._fields.row_keys and key_of(parse_object(line), self._fields.key_name) != key:
            error = BrokenSourceError(f"has changed since it was read: no key {key!r:.100}")
            error.line = number
            raise error

    def _records(self) -> Iterator[_Record]:
        number = 0
        for line in split_raw_lines(self._chunks, self._limit):
            number += not line.continues
            if line.data.isspace():
                yield _Record(line.data, None, 0)
            else:
                fields = parse_object(line.data) if line.is_whole else None
                yield _Record(line.data, fields, number, begins=not line.continues)

    def value(self, record: _Record, name: str) -> object:
        """Return the value of a field, as an index would keep it; None if there is none."""
        return exact_value(record.data, name, super().value(record, name))

    def marked(self, record: _Record, mark: Mark) -> bytes:
        """Return a record's bytes with its mark."""
        if record.fields is None:
            return record.data
        refuse_marked(self.source, record.fields)
        body = record.data.rstrip(b" \t\r\n")
        end = record.data[len(body) :]
        fields = orjson.dumps(dict(zip(MARKS, mark, strict=True)))
        comma = b"," if record.fields else b""
        return body[:-1] + comma + fields[1:] + end


def _by_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in blocks of whole lines; the last one may lack its end."""
    pieces: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join([*pieces, chunk[:end]])
            pieces = []
        if end < len(chunk):
            pieces.append(chunk[end:])
    if pieces:
        yield b"".join(pieces)


class Delimited(_TextFile):
    """CSV and TSV; records are found by the parser that reads documents.

    A record that the parser refuses stays. Where records are marked, one with fewer cells than the
    header gets empty cells in between, so that the marks are under their names.
    """

    def __init__(
        self, source: InputFile, chunks: Iterator[bytes], fields: Fields, limit: int
    ) -> None:
        super().__init__(source, chunks, fields, limit)
        self._delimiter = fields.delimiter or ","
        if source.input_format == "tsv":
            self._delimiter = "\t"
        self._quotes = quotes_of(source.input_format, fields)
        self._is_quoted = False
        self._header: list[str] = []

    def _records(self) -> Iterator[_Record]:
        with _Spool(self._limit) as spool:
            lines = RecordLines(self._teed(spool), self._limit, self._quotes)
            number = -1
            for number, (_, cells, reason) in enumerate(parse_records(lines, self._delimiter)):
                if number == 0:
                    self._begin(cells, reason)
                    fields, missing = None, 0
                else:
                    missing = 0 if reason else max(len(self._header) - len(cells), 0)
                    is_whole = reason is None and len(cells) == len(self._header)
                    fields = dict(zip(self._header, cells, strict=True)) if is_whole else None
                for data, begins, ends in spool.take():
                    yield _Record(data, fields, number, missing, begins, ends)
            for data, _, _ in spool.take():  # blank lines at the end
                yield _Record(data, None, 0)

    def names(self) -> Sequence[str]:
        """Return the names of the header."""
        next(self._records(), None)
        return self._header

    def _begin(self, header: list[str], reason: str | None) -> None:
        """Take note of the header, and refuse a file without a column of keys."""
        if reason is not None:
            raise InputError(
                f"{self.source.name} has no usable header: {reason}",
                hint="check that its first line names the columns, and that --delimiter, --quote "
                "and --encoding are those of the file",
            )
        key = self._fields.key_name
        if not self._fields.row_keys and header.count(key) != 1:
            count = "more than one" if key in header else "no"
            raise InputError(
                f"{self.source.name} has {count} column {key!r}; the columns are: "
                f"{shown_names(header)}",
                hint="name the column of the keys with --key-field, or pass --row-keys",
            )
        self._header = header

    def _teed(self, spool: _Spool) -> Iterator[bytes | TooLong]:
        """Yield lines for the parser, and put their bytes aside as they are."""
        size = n_quotes = 0
        is_first = True
        quote = self._quotes.character.encode() or b'"'
        for line in split_raw_lines(self._quotes.watch(self._chunks), self._limit):
            if size and not line.continues:
                yield TooLong(size, n_quotes)
                size = n_quotes = 0
            spool.put(line.data)
            if is_first:
                start = line.data.removeprefix(b"\xef\xbb\xbf")
                self._is_quoted = bool(self._quotes.character) and start.startswith(quote)
                line, is_first = line._replace(data=start), False
            if line.is_whole:
                yield line.data.removesuffix(b"\n")
            else:
                size += len(line.data) - line.data.endswith(b"\n")
                n_quotes += line.data.count(quote)
        if size:
            yield TooLong(size, n_quotes)

    def marked(self, record: _Record, mark: Mark) -> bytes:
        """Return a record's bytes with its mark."""
        if not record.ends or (not record.number and record.data.isspace()):
            return record.data
        if record.number:
            cells = [
                "true" if mark.keep else "false",
                mark.cluster or "",
                mark.kept_as or "",
                "" if mark.similarity is None else repr(mark.similarity),
            ]
        else:
            refuse_marked(self.source, self._header)
            cells = list(MARKS)
        body = record.data.rstrip(b"\r\n")
        end = record.data[len(body) :]
        added = [""] * (record.missing + 1) + [self._cell(cell) for cell in cells]
        return body + self._delimiter.join(added).encode("utf-8") + end

    def _cell(self, text: str) -> str:
        quote = self._quotes.character
        signs = (self._delimiter, "\r", "\n", *quote)
        if not self._is_quoted and not any(sign in text for sign in signs):
            return text
        if not quote:
            raise InputError(
                f"{self.source.name} has no quotes, and the mark {text!r:.100} cannot be written "
                "without them",
                hint="give --quote '\"' if it has, or write the kept records without --mark",
            )
        return quote + text.replace(quote, 2 * quote) + quote


class _Spool:
    """Bytes put aside in the order in which they came: in memory, from the limit on on disk."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size > self._limit + _BLOCK_BYTES:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - held from record to record
            self._file.writelines(self._held)
            self._held, self._size = [], 0

    def take(self) -> Iterator[tuple[bytes, bool, bool]]:
        """Yield the bytes put aside, and whether the record begins and ends there; forget them."""
        if self._file is None:
            if self._held:
                data = b"".join(self._held)
                self._held, self._size = [], 0
                yield data, True, True
            return
        self._file.writelines(self._held)
        self._held, self._size = [], 0
        left = self._file.tell()
        self._file.seek(0)
        begins = True
        while data := self._file.read(_BLOCK_BYTES):
            left -= len(data)
            yield data, begins, left == 0
            begins = False
        self._file.close()
        self._file = None
