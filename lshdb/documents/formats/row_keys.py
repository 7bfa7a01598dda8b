"""Keys of rows that have none of their own: numbers, a side file, or an array beside the vectors.

Decided: rows are numbered from 0, as NumPy numbers them. The rows of one file have their bare
numbers as keys; of several files that are read together the number stands behind the file's path
and a colon, so that no key comes twice.

A side file has one key a row, in the order of the rows: a text file with a key a line, plain or
compressed, or a ``.npy`` of strings or whole numbers. It is gone through once beforehand, so that a
wrong number of keys is an error before the first document and no row gets the key of another.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.document import MAX_KEY_BYTES, BrokenSourceError, validate_key
from lshdb.documents.formats.npy import ArrayHeader, ByteStream, read_blocks, read_header
from lshdb.documents.io.lines import TooLong, split_lines
from lshdb.documents.io.single_file import open_single
from lshdb.documents.printable import printable
from lshdb.errors import InputError

__all__ = ["RowKey", "array_keys", "key_fault", "numbered_keys", "side_keys"]


class RowKey(NamedTuple):
    """A key, and why it cannot be used."""

    key: str
    reason: str | None


def numbered_keys(prefix: str) -> Iterator[RowKey]:
    """``prefix0``, ``prefix1``, ... without end."""
    for number in itertools.count():
        key = f"{prefix}{number}"
        yield RowKey(key, validate_key(key) if prefix else None)


def key_fault(header: ArrayHeader) -> str | None:
    """Why an array holds no keys, one a row; None where it does."""
    dtype = header.dtype
    if dtype.hasobject:
        return "holds Python objects, which are never loaded: save them with dtype=str"
    if dtype.kind not in "USiu" or not dtype.itemsize:
        return f"holds {printable(str(dtype))[:80]}, expected strings or whole numbers"
    if len(header.shape) != 1:
        return f"holds {len(header.shape)} dimensions, expected one, with a key a row"
    return None


def array_keys(header: ArrayHeader, data: ByteStream) -> Iterator[RowKey]:
    """The keys of an array of strings or whole numbers.

    Raises
    ------
    BrokenSourceError
        It ends early, or cannot be read on.
    """
    for block in read_blocks(header, data):
        yield from map(_row_key, _listed(block))


def side_keys(path: str | os.PathLike[str], n_rows: int) -> Iterator[RowKey]:
    """The keys of a side file.

    Parameters
    ----------
    path : path-like
        A text file, plain, ``.gz`` or ``.zst``, with a key a line; or a ``.npy``.
    n_rows : int
        As many keys as there must be.

    Raises
    ------
    InputError
        The file cannot be read, or not twice; or it has another number of keys.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise InputError(
            f"{printable(name)}: there is no such file of keys",
            hint="name a file with a key a line, or a .npy; it is read twice, so no pipe",
        )
    n_keys = sum(1 for _ in _side_keys(name, only_count=True))
    if n_keys != n_rows:
        raise InputError(
            f"{printable(name)} has {n_keys:,} keys, and there are {n_rows:,} vectors",
            hint="give as many keys as there are rows, in their order",
        )
    return _side_keys(name)


def _side_keys(name: str, *, only_count: bool = False) -> Iterator[RowKey]:
    if name.lower().endswith((".npy", ".npy.gz", ".npy.zst")):
        with open_single(name, input_format="npy") as (_, chunks):
            data = ByteStream(chunks)
            header = read_header(data)
            fault = key_fault(header)
            if fault is not None:
                raise BrokenSourceError(fault)
            yield from array_keys(header, data)
        return
    with open_single(name, input_format="text") as (_, chunks):
        for line in split_lines(chunks, MAX_KEY_BYTES + 1):
            yield RowKey("", None) if only_count else _line_key(line)


def _line_key(line: bytes | TooLong) -> RowKey:
    if isinstance(line, TooLong):
        return RowKey("", f"the key has {line.size:,} bytes, at most {MAX_KEY_BYTES:,} are allowed")
    return _row_key(line.removesuffix(b"\r"))


def _row_key(value: str | bytes | int) -> RowKey:
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as error:
            return RowKey("", f"the key is not valid UTF-8 at byte {error.start + 1}")
    key = str(value)
    return RowKey(key, validate_key(key))


def _listed(block: NDArray[Any]) -> list[str | bytes | int]:
    # NumPy lets a SystemError out for numbers that are no characters.
    if block.dtype.kind == "U" and int(block.view(np.uint32).max()) > sys.maxunicode:
        raise BrokenSourceError("holds keys that are no text: a character is beyond U+10FFFF")
    items: list[str | bytes | int] = block.tolist()
    return items
