"""Keys for rows of arrays: row numbers, a side file, or an array beside the vectors.

Decided: rows are numbered from 0, as in NumPy. If one file is read, the keys are the bare numbers.
If several files are read together, the file's path and a colon come before the number, so that no
key occurs twice.

A side file has one key per row, in the order of the rows: a text file with one key per line, plain
or compressed, or a ``.npy`` of strings or whole numbers. Its keys are counted first, so that a
wrong number is an error before the first document and no row gets the key of another.
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
        A text file, plain, ``.gz`` or ``.zst``, with one key per line; or a ``.npy``.
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
    # NumPy raises SystemError for numbers that are not characters.
    if block.dtype.kind == "U" and int(block.view(np.uint32).max()) > sys.maxunicode:
        raise BrokenSourceError("holds keys that are not text: a character is beyond U+10FFFF")
    items: list[str | bytes | int] = block.tolist()
    return items
