"""Rows of arrays, and their keys: ``.npy`` as blocks of rows, and where the keys come from.

Decided: an array is read as a stream, one block of bounded size at a time, never as a whole and
never through a memory map. If another program truncates a mapped file, SIGBUS ends the process;
here it is an error. A stream may also be a pipe, a ``.npy.gz``, or a member of an ``.npz``.

In Fortran order a row is scattered over the whole file, so a block is read column by column
(pread), in pieces of the block's length. An array in Fortran order that does not come from a
seekable file must fit in one block.

The supported types are float32, float64, float16, uint8 and bool in either byte order. Other
numbers are refused and not converted, because rounding them may not be what the user meant. Python
objects are pickles, which can run code, and are never loaded. Bytes after the last row are ignored.

Keys are row numbers, or come from a side file, or from an array beside the vectors. Rows are
numbered from 0, as in NumPy. If one file is read, the keys are the bare numbers. If several files
are read together, the file's path and a colon come before the number, so that no key occurs twice.

A side file has one key per row, in the order of the rows: a text file with one key per line, as
listings write keys, or JSON Lines, plain or compressed, or a ``.npy`` of strings or whole numbers.
Its keys are counted first, so that a
wrong number is an error before the first document and no row gets the key of another.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import printable
from lshdb.documents.blocks import DocumentBlock, Item
from lshdb.documents.document import (
    MAX_KEY_BYTES,
    BrokenSourceError,
    Fields,
    system_reason,
    validate_key,
)
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import TooLong, split_lines
from lshdb.documents.registry import BY_COMPRESSION
from lshdb.documents.written_keys import LONGEST_KEY_LINES, json_key, unescaped
from lshdb.errors import InputError
from lshdb.files.descriptors import read_at

__all__ = [
    "NO_KEY",
    "ArrayHeader",
    "ByteStream",
    "RowKey",
    "array_keys",
    "given_keys",
    "is_whole",
    "key_fault",
    "keyed_rows",
    "numbered_keys",
    "read_blocks",
    "read_header",
    "read_rows",
    "row_documents",
    "side_keys",
    "vector_fault",
]

BLOCK_BYTES = 2**20
"""Bytes of rows that are read at once."""
SCATTERED_BYTES = 16 * 2**20
"""Bytes of rows that are read at once in Fortran order."""
MAX_HEADER_BYTES = 2**16
_MAGIC = b"\x93NUMPY"
_ARRAYS = (".npy", *(f".npy{ending}" for ending in BY_COMPRESSION))
_VECTOR_TYPES = {("f", 4), ("f", 8), ("f", 2), ("u", 1), ("b", 1)}


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """The header of a ``.npy``.

    Attributes
    ----------
    shape : tuple of int
    is_fortran : bool
        Whether the first index varies fastest.
    offset : int
        Bytes before the first number.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    offset: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: of all elements with the same first index."""
        return int(np.prod(self.shape[1:], dtype=object)) * self.dtype.itemsize


class ByteStream:
    """Takes a given number of bytes at a time from chunks that are cut anywhere.

    Attributes
    ----------
    damage : BrokenSourceError or None
        The error that ended the chunks; the bytes before it are returned first.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self.damage: BrokenSourceError | None = None

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes; fewer at the end."""
        parts = []
        while size:
            if not self._rest:
                try:
                    self._rest = memoryview(next(self._chunks, b""))
                except BrokenSourceError as error:
                    self.damage = error
                if not self._rest:
                    break
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)


def read_header(data: ByteStream) -> ArrayHeader:
    """Read the header of an array.

    Raises
    ------
    BrokenSourceError
        The header cannot be read.
    """
    start = data.take(8)
    if data.damage is not None:
        raise data.damage
    if not start.startswith(_MAGIC) or len(start) < 8:
        raise BrokenSourceError("is not a .npy file: it must begin with \\x93NUMPY and a version")
    version = (start[6], start[7])
    if version not in ((1, 0), (2, 0)):
        raise BrokenSourceError(
            f"has .npy format version {version[0]}.{version[1]}, expected 1.0 or 2.0"
        )
    length = data.take(2 if version == (1, 0) else 4)
    size = int.from_bytes(length, "little")
    # NumPy would allocate as much memory as the header asks for.
    if size > MAX_HEADER_BYTES:
        raise BrokenSourceError(
            f"has a .npy header of {size:,} bytes, expected at most {MAX_HEADER_BYTES:,}"
        )
    header = data.take(size)
    content = io.BytesIO(length + header)
    try:
        if version == (1, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(content)
        else:
            shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(content)
        if any(length < 0 for length in shape):
            raise ValueError(f"the shape is {shape}")
    except Exception as error:  # NumPy parses a Python literal, and any error may come out
        reason = printable(str(error))[:200]
        raise BrokenSourceError(f"has a .npy header that cannot be read: {reason}") from error
    return ArrayHeader(dtype, shape, is_fortran, len(start) + len(length) + len(header))


def vector_fault(header: ArrayHeader, limit: int) -> str | None:
    """Return why an array cannot hold one vector per row; None if it can.

    Parameters
    ----------
    limit : int
        The longest row, in bytes.
    """
    dtype = header.dtype
    if dtype.hasobject:
        return (
            "holds Python objects, which are pickled and never loaded; "
            "expected numbers: save array.astype('float32')"
        )
    if (dtype.kind, dtype.itemsize) not in _VECTOR_TYPES:
        return (
            f"holds {printable(str(dtype))[:80]}, expected float32, float64, float16, uint8 or "
            "bool: save array.astype('float32')"
        )
    shape = header.shape
    if len(shape) == 1:
        return (
            f"has one dimension ({shape[0]:,} numbers), expected two, with one vector per row: "
            "save array.reshape(1, -1) if it is one vector"
        )
    if len(shape) != 2:
        return f"has {len(shape)} dimensions, expected two, with one vector per row"
    if not shape[1]:
        return "holds vectors without numbers"
    if header.row_bytes > limit:
        return f"holds vectors of {header.row_bytes:,} bytes, more than the limit of {limit:,}"
    return None


def read_blocks(
    header: ArrayHeader, data: ByteStream, *, descriptor: int | None = None
) -> Iterator[NDArray[Any]]:
    """Read the rows of an array, one block at a time.

    Parameters
    ----------
    header : ArrayHeader
        Already read from ``data``.
    data : ByteStream
        The bytes after the header.
    descriptor : int, optional
        Of the file with the same bytes, if it can be read at any place.

    Yields
    ------
    ndarray, shape (at least 1, ...)
        In the machine's byte order.

    Raises
    ------
    BrokenSourceError
        The array ends early or reading fails; whole rows before that have been yielded. Or it is
        in Fortran order, larger than one block, and there is no descriptor.
    """
    if header.is_fortran and len(header.shape) > 1:
        yield from _scattered_blocks(header, data, descriptor)
        return
    n_rows, row_bytes = header.shape[0], header.row_bytes
    first = 0
    while first < n_rows:
        n_asked = min(max(BLOCK_BYTES // row_bytes, 1), n_rows - first)
        content = data.take(n_asked * row_bytes)
        got = len(content) // row_bytes
        if got:
            numbers = np.frombuffer(content[: got * row_bytes], dtype=header.dtype)
            yield _native(numbers.reshape(got, *header.shape[1:]))
            first += got
        if got < n_asked:
            raise _ended(data, f"in row {first:,}", header)


def read_rows(header: ArrayHeader, descriptor: int, rows: Iterable[int]) -> Iterator[NDArray[Any]]:
    """Read some rows of an array in C order, one by one; the file must be whole.

    Raises
    ------
    OSError
    """
    for row in rows:
        content = read_at(descriptor, header.row_bytes, header.offset + row * header.row_bytes)
        if len(content) == header.row_bytes:
            yield _native(np.frombuffer(content, dtype=header.dtype))


def is_whole(header: ArrayHeader, descriptor: int) -> bool:
    """Return whether a file is as long as its header says."""
    n_bytes = header.shape[0] * header.row_bytes if header.shape else 0
    return os.fstat(descriptor).st_size >= header.offset + n_bytes


def _scattered_blocks(
    header: ArrayHeader, data: ByteStream, descriptor: int | None
) -> Iterator[NDArray[Any]]:
    """Read the rows of an array in Fortran order."""
    n_rows, dim = header.shape
    if descriptor is None:
        yield from _one_block(header, data)
        return
    if not is_whole(header, descriptor):
        raise _ended(data, "before its last column", header)
    size = header.dtype.itemsize
    at_once = max(SCATTERED_BYTES // header.row_bytes, 1)
    for first in range(0, n_rows, at_once):
        n = min(at_once, n_rows - first)
        block = np.empty((n, dim), dtype=header.dtype)
        for column in range(dim):
            place = header.offset + (column * n_rows + first) * size
            try:
                content = read_at(descriptor, n * size, place)
            except OSError as error:
                reason = f"cannot be read further: {system_reason(error)}"
                raise BrokenSourceError(f"{reason}, in row {first:,}") from error
            if len(content) != n * size:
                raise _ended(data, f"in column {column:,}", header)
            block[:, column] = np.frombuffer(content, dtype=header.dtype)
        yield _native(block)


def _one_block(header: ArrayHeader, data: ByteStream) -> Iterator[NDArray[Any]]:
    """Read all rows of an array in Fortran order from a stream."""
    n_bytes = header.shape[0] * header.row_bytes
    if n_bytes > SCATTERED_BYTES:
        raise BrokenSourceError(
            f"is in Fortran order with {n_bytes:,} bytes, but at most {SCATTERED_BYTES:,} can "
            "come from a pipe or a compressed file: save numpy.ascontiguousarray(array)"
        )
    content = data.take(n_bytes)
    if len(content) < n_bytes:
        raise _ended(data, "before its last column", header)
    if header.shape[0]:
        yield _native(np.frombuffer(content, dtype=header.dtype).reshape(header.shape, order="F"))


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the machine's byte order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _ended(data: ByteStream, where: str, header: ArrayHeader) -> BrokenSourceError:
    if data.damage is not None:
        return BrokenSourceError(f"{data.damage.reason}, {where}")
    return BrokenSourceError(f"ends {where}, but its header says {header.shape[0]:,} rows")


class RowKey(NamedTuple):
    """A key, and why it cannot be used."""

    key: str
    reason: str | None


_JSON_LINES = re.compile(r"\.(jsonl|ndjson)(\.[a-z0-9]+)?$")

NO_KEY = RowKey("", "the row has no key; the file of keys has changed")


def given_keys(fields: Fields, prefix: str, n_rows: int) -> Iterator[RowKey]:
    """Return keys from the side file, or else row numbers."""
    return numbered_keys(prefix) if fields.keys is None else side_keys(fields.keys, n_rows)


def row_documents(
    blocks: Iterable[Iterable[Any]], keys: Iterator[RowKey], *, name: str
) -> Iterator[Item]:
    """Yield the documents of blocks of rows; a row with an unusable key is rejected."""
    row = 0
    for block in blocks:
        bodies = list(block)
        sources = [f"{name}: row {number}" for number in range(row, row + len(bodies))]
        yield from keyed_rows(keys, bodies, sources)
        row += len(bodies)


def keyed_rows(
    keys: Iterator[RowKey],
    bodies: Sequence[Any],
    sources: list[str],
    fields: Sequence[Mapping[str, Any]] = (),
    *,
    refusal: Callable[[Any], str | None] = lambda body: None,
) -> Iterator[Item]:
    """Yield rows with their keys; one with an unusable key, or a refused body, is rejected.

    If a key cannot be read, the rows before it are yielded first.
    """
    row_keys: list[RowKey] = []
    failure = None
    try:
        row_keys.extend(itertools.islice(keys, len(bodies)))
        row_keys += [NO_KEY] * (len(bodies) - len(row_keys))
    except Exception as error:  # of whatever holds the keys; raised below
        failure = error
    block = DocumentBlock([key for key, _ in row_keys], list(bodies), sources, fields)
    reasons = [
        refusal(body) if reason is None else reason
        for (_, reason), body in zip(row_keys, bodies, strict=False)
    ]
    yield from block.part(0, len(row_keys)).without_rejected(reasons)
    if failure is not None:
        raise failure


def numbered_keys(prefix: str) -> Iterator[RowKey]:
    """Yield ``prefix0``, ``prefix1``, ... without end."""
    for number in itertools.count():
        key = f"{prefix}{number}"
        yield RowKey(key, validate_key(key) if prefix else None)


def key_fault(header: ArrayHeader) -> str | None:
    """Return why an array cannot hold one key per row; None if it can."""
    dtype = header.dtype
    if dtype.hasobject:
        return "holds Python objects, which are never loaded: save them with dtype=str"
    if dtype.kind not in "USiu" or not dtype.itemsize:
        return f"holds {printable(str(dtype))[:80]}, expected strings or whole numbers"
    if len(header.shape) != 1:
        return f"has {len(header.shape)} dimensions, expected one, with one key per row"
    return None


def array_keys(header: ArrayHeader, data: ByteStream) -> Iterator[RowKey]:
    """Yield the keys of an array of strings or whole numbers.

    Raises
    ------
    BrokenSourceError
        The array ends early, or reading fails.
    """
    for block in read_blocks(header, data):
        yield from map(_row_key, _listed(block))


def side_keys(path: str | os.PathLike[str], n_rows: int) -> Iterator[RowKey]:
    """Count the keys of a side file, and return an iterator over them.

    Parameters
    ----------
    path : path-like
        A text file, plain or compressed, with one key per line as listings write it; JSON Lines of
        strings or of objects with ``key``, by a name with ``.jsonl``; or a ``.npy``.
    n_rows : int
        The number of keys that the file must have.

    Raises
    ------
    InputError
        The file cannot be read twice, or it has another number of keys.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise InputError(
            f"{printable(name)}: no such file of keys",
            hint="name a file with one key per line, or a .npy; it is read twice, so it cannot be "
            "a pipe",
        )
    n_keys = sum(1 for _ in _side_keys(name, only_count=True))
    if n_keys != n_rows:
        raise InputError(
            f"{printable(name)} has {n_keys:,} keys, but there are {n_rows:,} vectors",
            hint="give one key per row, in the order of the rows",
        )
    return _side_keys(name)


def _side_keys(name: str, *, only_count: bool = False) -> Iterator[RowKey]:
    if name.lower().endswith(_ARRAYS):
        with open_single(name, input_format="npy") as (_, chunks):
            data = ByteStream(chunks)
            header = read_header(data)
            fault = key_fault(header)
            if fault is not None:
                raise BrokenSourceError(fault)
            yield from array_keys(header, data)
        return
    is_json = _JSON_LINES.search(name.lower()) is not None
    read, longest = (_json_key, "jsonl") if is_json else (_line_key, "tsv")
    with open_single(name, input_format="text") as (_, chunks):
        for line in split_lines(chunks, LONGEST_KEY_LINES[longest] + 1):
            if only_count:
                yield RowKey("", None)
            elif isinstance(line, TooLong):
                reason = f"the key has {line.size:,} bytes, at most {MAX_KEY_BYTES:,} are allowed"
                yield RowKey("", reason)
            else:
                yield read(line.removesuffix(b"\r"))


def _json_key(line: bytes) -> RowKey:
    try:
        return _row_key(json_key(line))
    except ValueError as error:
        return RowKey("", f"the line of the key: {error}")


def _line_key(line: bytes) -> RowKey:
    try:
        return _row_key(unescaped(line.decode("utf-8")))
    except UnicodeDecodeError:
        return _row_key(line)
    except ValueError as error:
        return RowKey("", f"the key: {error}")


def _row_key(value: str | bytes | int) -> RowKey:
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as error:
            return RowKey("", f"the key is not valid UTF-8 at byte {error.start + 1}")
    key = str(value)
    return RowKey(key, validate_key(key))


def _listed(block: NDArray[Any]) -> list[str | bytes | int]:
    # NumPy raises SystemError for numbers that are not characters.
    if block.dtype.kind == "U" and int(block.view(np.uint32).max()) > sys.maxunicode:
        raise BrokenSourceError("holds keys that are not text: a character is beyond U+10FFFF")
    items: list[str | bytes | int] = block.tolist()
    return items
