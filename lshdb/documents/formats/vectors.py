"""Read documents from arrays of vectors: ``.npy`` files, and one array of an ``.npz``.

A vector's body is its row, a 1-D array in the type of the file; its source is ``file: row 17``,
with rows numbered from 0. ``add`` checks the numbers (their count, NaN, a zero vector). A fault of
the file is one rejection; rows before a cut are yielded.

Decided: an array of an ``.npz`` is streamed from its member (``numpy.savez`` stores members,
``savez_compressed`` deflates them). Keys in another array of the ``.npz`` are streamed alongside.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from lshdb.documents.blocks import Item
from lshdb.documents.document import (
    BrokenSourceError,
    Fields,
    shown_names,
    system_reason,
)
from lshdb.documents.formats.rows import (
    ArrayHeader,
    ByteStream,
    RowKey,
    array_keys,
    given_keys,
    key_fault,
    read_blocks,
    read_header,
    row_documents,
    vector_fault,
)
from lshdb.documents.io.streams import CHUNK, OpenFile

__all__ = ["read_npy", "read_npz"]

_SUFFIX = ".npy"
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError,
    ValueError, struct.error, OverflowError, OSError,
)  # fmt: skip


def read_npy(file: OpenFile) -> Iterator[Item]:
    """Read the rows of a ``.npy``.

    Yields
    ------
    DocumentBlock or Rejected
        For all rows, in order.

    Raises
    ------
    BrokenSourceError
        The file is not an array of vectors, or ends early.
    InputError
        A side file of keys does not have one key per row, or cannot be read.
    """
    fields = _fields_of_vectors(file)
    data = ByteStream(file.chunks)
    header = read_header(data)
    fault = vector_fault(header, file.limit) or fields.refuse_columns(header.shape[1])
    if fault is not None:
        raise BrokenSourceError(fault)
    keys = given_keys(fields, file.prefix, header.shape[0])
    blocks = read_blocks(header, data, descriptor=file.descriptor)
    yield from row_documents(blocks, keys, name=file.name)


def _fields_of_vectors(file: OpenFile) -> Fields:
    if file.fields.body in ("text", "weights"):
        raise BrokenSourceError("holds vectors, but the index holds texts or their weights")
    return file.fields


def read_npz(file: OpenFile) -> Iterator[Item]:
    """Read the rows of one array of an ``.npz``, by default the only two-dimensional one.

    Keys are, by default, in the array ``id`` if there is one, else row numbers.

    Raises
    ------
    BrokenSourceError, InputError
        As :func:`read_npy`.
    """
    fields = _fields_of_vectors(file)
    with ExitStack() as opened:
        with _reading_zip():
            archive = opened.enter_context(zipfile.ZipFile(file.in_any_order()))
        members = [member for member in archive.namelist() if member.endswith(_SUFFIX)]
        names = [member.removesuffix(_SUFFIX) for member in members]
        chosen = fields.vector
        if chosen is None:
            chosen = _only_matrix(archive, names)
        header, data = _opened(opened, archive, names, chosen)
        fault = vector_fault(header, file.limit) or fields.refuse_columns(header.shape[1])
        if fault is not None:
            raise BrokenSourceError(f"array {chosen!r} {fault}")
        keys = _keys_beside(opened, archive, names, fields, header.shape[0])
        if keys is None:
            keys = given_keys(fields, file.prefix, header.shape[0])
        yield from row_documents(read_blocks(header, data), keys, name=file.name)


@contextmanager
def _reading_zip() -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        reason = system_reason(error) if isinstance(error, OSError) else str(error)
        raise BrokenSourceError(
            f"cannot be read as .npz: {reason or type(error).__name__}"
        ) from error


def _member_chunks(file: IO[bytes]) -> Iterator[bytes]:
    while True:
        with _reading_zip():
            chunk = file.read(CHUNK)
        if not chunk:
            return
        yield chunk


def _opened(
    opened: ExitStack, archive: zipfile.ZipFile, names: list[str], name: str
) -> tuple[ArrayHeader, ByteStream]:
    """Return the header of an array, and the bytes after it."""
    if name not in names:
        raise BrokenSourceError(f"has no array {name!r}; the arrays are: {shown_names(names)}")
    with _reading_zip():
        member = opened.enter_context(archive.open(name + _SUFFIX))
    data = ByteStream(_member_chunks(member))
    try:
        return read_header(data), data
    except BrokenSourceError as error:
        raise BrokenSourceError(f"array {name!r} {error.reason}") from error


def _only_matrix(archive: zipfile.ZipFile, names: list[str]) -> str:
    """Return the name of the only array that holds vectors."""
    matrices = []
    for name in names:
        with ExitStack() as opened:
            try:
                header, _ = _opened(opened, archive, names, name)
            except BrokenSourceError:
                continue  # not the array we look for; if the user names it, it is refused then
        if len(header.shape) == 2:
            matrices.append(name)
    if len(matrices) != 1:
        raise BrokenSourceError(
            f"has {len(matrices)} two-dimensional arrays, expected one; the arrays are: "
            f"{shown_names(names)}; choose one with --vector-field"
        )
    return matrices[0]


def _keys_beside(
    opened: ExitStack, archive: zipfile.ZipFile, names: list[str], fields: Fields, n_rows: int
) -> Iterator[RowKey] | None:
    """Return the keys from the array that the user names, or from ``id``; None without either."""
    if fields.keys is not None or fields.row_keys:
        return None
    if fields.key is None and fields.key_name not in names:
        return None
    name = fields.key_name
    header, data = _opened(opened, archive, names, name)
    fault = key_fault(header)
    if fault is not None:
        raise BrokenSourceError(f"array {name!r} {fault}")
    if header.shape[0] != n_rows:
        raise BrokenSourceError(
            f"has {header.shape[0]:,} keys in {name!r}, but there are {n_rows:,} vectors"
        )
    return array_keys(header, data)
