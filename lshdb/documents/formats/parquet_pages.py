"""The pages of a column in a Parquet file: how many values each has, and how many bytes.

A column of a row group is a page with a dictionary, perhaps, and pages with values. Each has a
header in Thrift's compact protocol. Sizes that the end of the file states are of whole columns and
say nothing of single values: a dictionary of one text of a megabyte may stand for a million rows,
and a page of 1 GB may follow a thousand small ones. So the headers are read, which is one read of
some hundred bytes a page, and the longest value of a dictionary is looked up.

Sources: https://parquet.apache.org/docs/file-format/data-pages/, parquet.thrift (PageHeader), and
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from lshdb.documents.document import BrokenSourceError
from lshdb.files.descriptors import read_at

__all__ = ["ParquetPage", "longest_value", "pages_of", "refuse_expansion"]

_HEAD_BYTES = 512
_MAX_HEAD_BYTES = 2**20
_MAX_PAGES = 20_000
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_DICTIONARY_ENCODINGS = (2, 8)
_PREFIX_ENCODING = 7
_LENGTH = struct.Struct("<I")
EXPANDED_BYTES = 256 * 2**20
"""What may be decompressed at once from however few bytes."""
EXPANSION = 1_000
"""Something larger may expand to so many times its bytes on disk."""


class ParquetPage(NamedTuple):
    """A page of a column.

    Attributes
    ----------
    kind : {"dictionary", "references", "prefixes", "values"}
        ``references`` are values that the dictionary has; ``prefixes`` repeat parts of values
        before; ``values`` are there in full.
    n_values : int
        Nulls and empty lists included.
    n_bytes : int
        Once decompressed.
    offset : int
        Where its content begins in the file.
    """

    kind: str
    n_values: int
    n_bytes: int
    n_stored: int
    offset: int


def pages_of(descriptor: int, column: Any) -> list[ParquetPage] | None:
    """Return the pages of a column of a row group; None if their headers cannot be read.

    Parameters
    ----------
    descriptor : int
        Of the file.

    Raises
    ------
    BrokenSourceError
        A page is decompressed to far more than is on disk.
    """
    offsets = [column.data_page_offset]
    if column.has_dictionary_page and column.dictionary_page_offset:
        offsets.append(column.dictionary_page_offset)
    position = min(offsets)
    end = position + column.total_compressed_size
    pages: list[ParquetPage] = []
    n_values = 0
    while position < end and n_values < column.num_values:
        if len(pages) == _MAX_PAGES:
            return None
        try:
            page, position = _read_page(descriptor, position)
        except (IndexError, KeyError, OSError, RecursionError, ValueError):
            return None
        if page is None:
            continue
        refuse_expansion("page", page.n_bytes, page.n_stored)
        pages.append(page)
        n_values += page.n_values if page.kind != "dictionary" else 0
    return pages


def refuse_expansion(what: str, n_bytes: int, n_stored: int) -> None:
    """Raise BrokenSourceError if so much comes out of so little that it is meant to fill memory."""
    if n_bytes > max(EXPANDED_BYTES, EXPANSION * n_stored):
        raise BrokenSourceError(
            f"has a {what} of {n_bytes:,} bytes, compressed to {n_stored:,}: more than "
            f"{EXPANDED_BYTES:,} bytes are not decompressed at once from so few; write it with "
            f"smaller {what}{'es' if what.endswith('ch') else 's'}"
        )


def longest_value(arrow: Any, descriptor: int, page: ParquetPage, codec: str) -> int:
    """Return the length of the longest value of a dictionary, in bytes.

    It is that of the page where the page cannot be read.

    Parameters
    ----------
    arrow : module
        pyarrow.
    codec : str
        As pyarrow names it.
    """
    try:
        data: Any = read_at(descriptor, page.n_stored, page.offset)
        if codec != "UNCOMPRESSED":
            data = arrow.Codec(codec.lower()).decompress(data, page.n_bytes)
        longest = position = 0
        for _ in range(page.n_values):
            (length,) = _LENGTH.unpack_from(data, position)
            position += 4 + length
            longest = max(longest, length)
        return longest
    except (arrow.ArrowException, OSError, ValueError, struct.error):
        return page.n_bytes


def _read_page(descriptor: int, position: int) -> tuple[ParquetPage | None, int]:
    """Return the page whose header begins at a position, and where the next one begins."""
    size = _HEAD_BYTES
    while True:
        data = read_at(descriptor, size, position)
        try:
            header, length = _struct(data, 0, 0)
            break
        except IndexError:
            if len(data) < size or size >= _MAX_HEAD_BYTES:
                raise
            size = min(size * 16, _MAX_HEAD_BYTES)
    kind, n_bytes, n_stored = header[1], header[2], header[3]
    if n_bytes < 0 or n_stored < 0:
        raise ValueError("a size is negative")
    start = position + length
    if kind == _DICTIONARY:
        page = ParquetPage("dictionary", header[7][1], n_bytes, n_stored, start)
    elif kind in (_DATA, _DATA_2):
        values = header[5] if kind == _DATA else header[8]
        encoding = values[2] if kind == _DATA else values[4]
        name = "references" if encoding in _DICTIONARY_ENCODINGS else "values"
        if encoding == _PREFIX_ENCODING:
            name = "prefixes"
        page = ParquetPage(name, values[1], n_bytes, n_stored, start)
    else:
        return None, start + n_stored
    return page, start + n_stored


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _struct(data: bytes, position: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure by their numbers, and where it ends."""
    if depth > 8:
        raise ValueError("structures are nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[position]:
        position += 1
        if head >> 4:
            number += head >> 4
        else:
            number, position = _varint(data, position)
            number = (number >> 1) ^ -(number & 1)
        fields[number], position = _value(data, position, head & 15, depth)
    return fields, position + 1


def _value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, position
    if kind in (4, 5, 6):
        number, position = _varint(data, position)
        return (number >> 1) ^ -(number & 1), position
    if kind == 8:
        length, position = _varint(data, position)
        position += length
        if position > len(data):
            raise IndexError("the header is longer")
        return None, position
    if kind == 12:
        return _struct(data, position, depth + 1)
    if kind in (3, 7):
        return None, position + (1 if kind == 3 else 8)
    raise ValueError("no page header has a field of this type")
