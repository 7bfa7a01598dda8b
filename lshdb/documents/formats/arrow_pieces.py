"""The rows of Arrow's record batches a few at a time, however large a batch is.

A record batch has a buffer for each part of each column: bits for what is null, offsets, values.
pyarrow reads and decompresses all of a batch at once. Here all buffers are read side by side, each
from its beginning to its end, as far as the next rows need them. So memory is some rows, also where
a batch of a gigabyte is compressed to a megabyte.

Only what is large is read so (``arrow.py``). Columns with a dictionary, runs, views or unions are
left to pyarrow.

Sources: https://arrow.apache.org/docs/format/Columnar.html, Message.fbs, and
https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.document import BrokenSourceError
from lshdb.documents.formats.column_sizes import BATCH_BYTES, BATCH_ROWS
from lshdb.files.descriptors import read_at

__all__ = ["EncodedBatch", "can_be_cut", "pieces_of", "stored_batches"]

_CONTINUES = 0xFFFFFFFF
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2
_CODECS = {0: "lz4", 1: "zstd"}
_MAX_METADATA = 64 * 2**20
_FILE_END = 10
"""Bytes behind the footer of a file: its length and ARROW1."""
_FIRST_ROWS = 64


class EncodedBatch(NamedTuple):
    """Where a record batch lies in a file.

    Attributes
    ----------
    is_dictionary : bool
        Whether it is a batch of a dictionary.
    buffers : list of (int, int)
        Where each begins in the file, and its bytes.
    nodes : list of (int, int)
        Length and number of nulls of each column, and of those inside.
    codec : str or None
        How buffers are compressed.
    """

    is_dictionary: bool
    n_rows: int
    buffers: list[tuple[int, int]]
    nodes: list[tuple[int, int]]
    codec: str | None


def stored_batches(descriptor: int, *, is_file: bool) -> list[EncodedBatch] | None:
    """Return the batches of a file or stream by their headers alone; None if they are damaged.

    Parameters
    ----------
    is_file : bool
        Whether a footer says where they lie: what is before them may be no message, as in files of
        Polars. In a stream messages follow each other.
    """
    size = os.fstat(descriptor).st_size
    batches = []
    try:
        if is_file:
            for start in _starts_in_footer(descriptor, size):
                message = _message(descriptor, start)
                if message is None or message[0] is None:
                    return None
                batches.append(message[0])
            return batches
        position = 0
        while position + 8 <= size:
            message = _message(descriptor, position)
            if message is None:
                break
            batch, position = message
            if batch is not None:
                batches.append(batch)
    except (struct.error, KeyError, OSError, ValueError):
        return None
    return batches


def _starts_in_footer(descriptor: int, size: int) -> list[int]:
    """Return where the batches of a file begin, those of dictionaries first."""
    (length,) = struct.unpack("<I", read_at(descriptor, 4, size - _FILE_END))
    if length > min(_MAX_METADATA, size):
        raise ValueError(f"a footer of {length} bytes")
    data = read_at(descriptor, length, size - _FILE_END - length)
    footer = _Table(data, struct.unpack_from("<I", data)[0])
    return [start for part in (2, 3) for start, _, _ in footer.structures(part, "<qi4xq")]


def _message(descriptor: int, position: int) -> tuple[EncodedBatch | None, int] | None:
    """Return the batch in a message, if there is one, and its end; None at the end of a stream."""
    mark, length = struct.unpack("<II", read_at(descriptor, 8, position))
    start = position + 8
    if mark != _CONTINUES:  # as before Arrow 0.15
        length, start = mark, position + 4
    if not length:
        return None
    if length > _MAX_METADATA:
        raise ValueError(f"a header of {length} bytes")
    data = read_at(descriptor, length, start)
    message = _Table(data, struct.unpack_from("<I", data)[0])
    n_bytes = message.number(3, "<q")
    if n_bytes < 0:
        raise ValueError(f"a body of {n_bytes} bytes")
    body = start + length
    kind, header = message.number(1, "<B"), message.table(2)
    batch = None
    if kind in (_RECORD_BATCH, _DICTIONARY_BATCH) and header is not None:
        within = header.table(1) if kind == _DICTIONARY_BATCH else header
        if within is None:
            raise ValueError("a dictionary without values")
        batch = _batch(within, body, is_dictionary=kind == _DICTIONARY_BATCH)
    return batch, body + n_bytes


class _Table:
    """A table of a flat buffer."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._at = data, position
        self._fields = position - struct.unpack_from("<i", data, position)[0]

    def _place(self, number: int) -> int | None:
        if 4 + 2 * number >= struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * number)[0]
        return self._at + offset if offset else None

    def number(self, number: int, form: str) -> int:
        place = self._place(number)
        return 0 if place is None else int(struct.unpack_from(form, self._data, place)[0])

    def table(self, number: int) -> _Table | None:
        place = self._place(number)
        if place is None:
            return None
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def structures(self, number: int, form: str) -> list[tuple[int, ...]]:
        """Return a vector of structures of numbers."""
        place = self._place(number)
        if place is None:
            return []
        place += struct.unpack_from("<I", self._data, place)[0]
        n = struct.unpack_from("<I", self._data, place)[0]
        content = self._data[place + 4 : place + 4 + struct.calcsize(form) * n]
        return list(struct.iter_unpack(form, content))


def _batch(header: _Table, body: int, *, is_dictionary: bool) -> EncodedBatch:
    compression = header.table(3)
    return EncodedBatch(
        is_dictionary,
        header.number(0, "<q"),
        [(body + offset, length) for offset, length in header.structures(2, "<qq")],
        [(length, n_nulls) for length, n_nulls in header.structures(1, "<qq")],
        None if compression is None else _CODECS[compression.number(0, "<b")],
    )


def can_be_cut(arrow: Any, kind: Any) -> bool:
    """Return whether columns of a type are read here."""
    return _of_type(arrow, kind) is not None


def pieces_of(
    arrow: Any, descriptor: int, batch: EncodedBatch, schema: Any, columns: list[int]
) -> Iterator[Any]:
    """Yield the rows of a batch as record batches of few bytes each, in order.

    Parameters
    ----------
    arrow : module
        pyarrow.
    schema : pyarrow.Schema
        Of all columns.
    columns : list of int
        Those to read.

    Raises
    ------
    BrokenSourceError
        The batch is damaged.
    """
    parts = _Parts(arrow, descriptor, batch)
    every = [parts.column(field.type) for field in schema]
    chosen = [every[i] for i in columns]
    fields = arrow.schema([schema.field(i) for i in columns])
    row, ahead = 0, _FIRST_ROWS
    while row < batch.n_rows:
        n = min(ahead, batch.n_rows - row)
        ends = np.zeros(n, dtype=np.int64)
        for column in chosen:
            ends += column.ahead(n)
        ends = np.cumsum(ends)
        fitting = max(int(np.searchsorted(ends, BATCH_BYTES, side="right")), 1)
        arrays = [column.take(fitting) for column in chosen]
        yield arrow.RecordBatch.from_arrays(arrays, schema=fields)
        row += fitting
        ahead = min(BATCH_ROWS, max(2 * fitting, 8))


class _Range(io.RawIOBase):
    """A part of a file."""

    def __init__(self, descriptor: int, start: int, length: int) -> None:
        self._descriptor, self._at, self._end = descriptor, start, start + length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._descriptor, min(len(buffer), self._end - self._at), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _BufferBytes:
    """A buffer of a batch, read from its beginning to its end."""

    def __init__(self, arrow: Any, descriptor: int, place: tuple[int, int], codec: str | None):
        start, length = place
        self.is_empty = length <= 0
        self._stream: Any = None
        if codec is not None and not self.is_empty:
            n_bytes = int.from_bytes(read_at(descriptor, 8, start), "little", signed=True)
            start, length = start + 8, length - 8
            if n_bytes >= 0:  # else it is stored as it is
                content = io.BufferedReader(_Range(descriptor, start, length), 2**16)
                self._stream = arrow.CompressedInputStream(arrow.PythonFile(content, "r"), codec)
        self._range = None if self._stream is not None else _Range(descriptor, start, length)

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises
        ------
        BrokenSourceError
            There are fewer.
        """
        if self._range is not None:
            data = self._range.read(size) if size else b""
        else:
            data = self._stream.read(size)
        if data is None or len(data) != size:
            raise BrokenSourceError("cannot be read as Arrow: a buffer ends early")
        return bytes(data)


class _Bits:
    """Bits of a buffer; without a buffer, all are set."""

    def __init__(self, content: _BufferBytes) -> None:
        self._content = content
        self._rest = np.zeros(0, dtype=np.uint8)

    def take(self, n: int) -> bytes:
        """Return the next bits, packed anew."""
        missing = n - len(self._rest)
        if missing > 0:
            data = np.frombuffer(self._content.take(-(-missing // 8)), dtype=np.uint8)
            self._rest = np.concatenate([self._rest, np.unpackbits(data, bitorder="little")])
        bits, self._rest = self._rest[:n], self._rest[n:]
        return np.packbits(bits, bitorder="little").tobytes()


class _Parts:
    """The nodes and buffers of a batch, in the order in which columns take them."""

    def __init__(self, arrow: Any, descriptor: int, batch: EncodedBatch) -> None:
        self.arrow = arrow
        self._descriptor, self._codec = descriptor, batch.codec
        self._buffers, self._nodes = iter(batch.buffers), iter(batch.nodes)

    def column(self, kind: Any) -> _Column:
        make = _of_type(self.arrow, kind)
        if make is None:
            raise BrokenSourceError(f"cannot be read as Arrow: it has a column of {kind}")
        return make(self, kind)

    def buffer(self) -> _BufferBytes:
        place = next(self._buffers, (0, 0))
        return _BufferBytes(self.arrow, self._descriptor, place, self._codec)

    def node(self) -> tuple[int, int]:
        return next(self._nodes, (0, 0))

    def validity(self) -> _Bits | None:
        _, n_nulls = self.node()
        content = self.buffer()
        return None if content.is_empty or not n_nulls else _Bits(content)


class _Column:
    """A column, read from its first row to its last; this one has no values at all."""

    def __init__(self, parts: _Parts, kind: Any) -> None:
        self.arrow, self.kind = parts.arrow, kind

    def ahead(self, n: int) -> NDArray[np.int64]:
        """Return the bytes of each of the next rows."""
        return np.zeros(n, dtype=np.int64)

    def take(self, n: int) -> Any:
        """Return the next rows as an array."""
        return self.arrow.nulls(n, self.kind)

    def _made(self, n: int, parts: list[Any], children: list[Any] | None = None) -> Any:
        buffers = [None if part is None else self.arrow.py_buffer(part) for part in parts]
        return self.arrow.Array.from_buffers(self.kind, n, buffers, children=children)


class _Fixed(_Column):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._valid = parts.validity()
        content = parts.buffer()
        self._is_bits = kind.bit_width == 1
        self._width = max(kind.bit_width // 8, 1)
        self._values: _Bits | _BufferBytes = _Bits(content) if self._is_bits else content

    def ahead(self, n: int) -> NDArray[np.int64]:
        return np.full(n, self._width, dtype=np.int64)

    def take(self, n: int) -> Any:
        valid = None if self._valid is None else self._valid.take(n)
        return self._made(n, [valid, self._values.take(n if self._is_bits else n * self._width)])


class _WithOffsets(_Column):
    """A column whose rows are of several lengths, by a buffer of offsets."""

    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._valid = parts.validity()
        self._content = parts.buffer()
        is_large = "large_" in str(kind)[:6]
        self._dtype = np.dtype("<i8" if is_large else "<i4")
        self._offsets = np.zeros(0, dtype=np.int64)

    def _read_offsets(self, n: int) -> NDArray[np.int64]:
        missing = n + 1 - len(self._offsets)
        if missing > 0:
            data = self._content.take(missing * self._dtype.itemsize)
            new = np.frombuffer(data, dtype=self._dtype).astype(np.int64)
            is_first = not len(self._offsets)
            self._offsets = np.concatenate([self._offsets, new])
            if (np.diff(self._offsets) < 0).any() or self._offsets[0] < 0:
                raise BrokenSourceError("cannot be read as Arrow: its offsets are not in order")
            if is_first:
                self._skip(int(self._offsets[0]))
        return self._offsets[: n + 1]

    def _skip(self, n: int) -> None:
        """Leave out what no row has."""

    def _take_offsets(self, n: int) -> tuple[bytes | None, NDArray[np.int64]]:
        offsets = self._read_offsets(n)
        self._offsets = self._offsets[n:]
        valid = None if self._valid is None else self._valid.take(n)
        return valid, offsets - offsets[0]


class _Binary(_WithOffsets):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._values = parts.buffer()

    def _skip(self, n: int) -> None:
        self._values.take(n)

    def ahead(self, n: int) -> NDArray[np.int64]:
        return np.diff(self._read_offsets(n))

    def take(self, n: int) -> Any:
        valid, offsets = self._take_offsets(n)
        values = self._values.take(int(offsets[-1]))
        return self._made(n, [valid, offsets.astype(self._dtype).tobytes(), values])


class _List(_WithOffsets):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._child = parts.column(kind.field(0).type)

    def _skip(self, n: int) -> None:
        self._child.take(n)

    def ahead(self, n: int) -> NDArray[np.int64]:
        offsets = self._read_offsets(n)
        offsets = offsets - offsets[0]
        within = np.cumsum(self._child.ahead(int(offsets[-1])))
        sizes: NDArray[np.int64] = np.diff(np.append(np.int64(0), within)[offsets])
        return sizes

    def take(self, n: int) -> Any:
        valid, offsets = self._take_offsets(n)
        child = self._child.take(int(offsets[-1]))
        return self._made(n, [valid, offsets.astype(self._dtype).tobytes()], [child])


class _FixedList(_Column):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._valid, self._size = parts.validity(), kind.list_size
        self._child = parts.column(kind.value_type)

    def ahead(self, n: int) -> NDArray[np.int64]:
        sizes: NDArray[np.int64] = self._child.ahead(n * self._size).reshape(n, -1).sum(axis=1)
        return sizes

    def take(self, n: int) -> Any:
        valid = None if self._valid is None else self._valid.take(n)
        return self._made(n, [valid], [self._child.take(n * self._size)])


class _Struct(_Column):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._valid = parts.validity()
        self._children = [parts.column(kind.field(i).type) for i in range(kind.num_fields)]

    def ahead(self, n: int) -> NDArray[np.int64]:
        sizes = np.zeros(n, dtype=np.int64)
        for child in self._children:
            sizes += child.ahead(n)
        return sizes

    def take(self, n: int) -> Any:
        valid = None if self._valid is None else self._valid.take(n)
        return self._made(n, [valid], [child.take(n) for child in self._children])


class _Extension(_Column):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        self._storage = parts.column(kind.storage_type)

    def ahead(self, n: int) -> NDArray[np.int64]:
        return self._storage.ahead(n)

    def take(self, n: int) -> Any:
        return self.arrow.ExtensionArray.from_storage(self.kind, self._storage.take(n))


class _Null(_Column):
    def __init__(self, parts: _Parts, kind: Any) -> None:
        super().__init__(parts, kind)
        parts.node()  # and no buffers


def _of_type(arrow: Any, kind: Any) -> Callable[[_Parts, Any], _Column] | None:
    """Return what reads columns of a type; None for what pyarrow alone reads."""
    types = arrow.types
    make: Callable[[_Parts, Any], _Column] | None = None
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    if isinstance(kind, arrow.BaseExtensionType):
        make, inner = _Extension, [kind.storage_type]
    elif types.is_dictionary(kind) or types.is_run_end_encoded(kind) or types.is_union(kind):
        return None
    elif types.is_null(kind):
        make = _Null
    elif types.is_struct(kind):
        make = _Struct
    elif types.is_fixed_size_list(kind):
        make = _FixedList
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        make = _List
    elif any(
        is_kind(kind)
        for is_kind in (
            types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
        )
    ):  # fmt: skip
        make = _Binary
    elif types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
        make = _Fixed
    if any(_of_type(arrow, child) is None for child in inner):
        return None
    return make
