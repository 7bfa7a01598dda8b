"""Look at the input before an index is created: dimension, number type, and a sample.

Decided: if the first source is a ``.npy`` file, the sample is spread evenly over it, because
neighbours in a file are often alike. From any other source, and from a source that can be read
only once, the sample is the first documents; they are held and yielded again before the rest.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lshdb.documents.document import Document, Rejected
from lshdb.documents.io.sources import STDIN, find_sources
from lshdb.documents.read import MAX_DOCUMENT_BYTES, read_documents
from lshdb.errors import InputError

__all__ = ["Peek", "peek_documents"]

SAMPLE = 1000
_HELD_BYTES = 64 * 2**20
_NUMBER_BYTES = 32
"""Rough memory of one number in a list."""


@dataclass(frozen=True, slots=True)
class Peek:
    """The result of a look at the input.

    Attributes
    ----------
    bodies : list
        A sample of bodies; the index may reject some of them.
    dim : int or None
        Numbers, or bits, per vector; None if the sample holds no vector.
    dtype : str or None
        Type of their numbers, if the index supports it.
    """

    bodies: list[Any]
    dim: int | None
    dtype: str | None


def peek_documents(
    paths: Sequence[str | os.PathLike[str]], *, body: str, sample: int = SAMPLE, **options: Any
) -> tuple[Peek, Iterator[Document | Rejected]]:
    """Look at some documents, then read them all.

    Parameters
    ----------
    paths, body, **options
        As for :func:`read_documents`.
    sample : int
        Bodies to look at; fewer if they exceed 64 MiB together.

    Returns
    -------
    Peek
    iterator of Document or Rejected
        As from :func:`read_documents`, from the beginning.

    Raises
    ------
    InputError, ParameterError
        As :func:`read_documents`.
    """
    items = read_documents(paths, body=body, **options)
    bodies = _spread_bodies(paths, sample, options)
    if not bodies:
        held = []
        size = 0
        for item in items:
            held.append(item)
            if isinstance(item, Document):
                bodies.append(item.body)
                size += _bytes_of(item.body)
            if len(bodies) >= sample or size >= _HELD_BYTES:
                break
        items = itertools.chain(held, items)
    dim = next(filter(None, map(_length, bodies)), None)
    dtype = next((each.dtype.name for each in bodies if hasattr(each, "dtype")), None)
    if body == "bits":
        _refuse_doubtful(bodies, dim, options.get("dim"))
        dim = dim and dim * _bits_a_digit(bodies, dtype)
    return Peek(bodies, dim, None if body == "bits" or dtype == "bool" else dtype), items


def _spread_bodies(
    paths: Sequence[str | os.PathLike[str]], sample: int, options: dict[str, Any]
) -> list[Any]:
    """Return rows spread evenly over the first file; none unless it is an intact ``.npy``."""
    from lshdb.documents.document import BrokenSourceError
    from lshdb.documents.formats.npy import (
        ByteStream,
        is_whole,
        read_header,
        read_rows,
        vector_fault,
    )
    from lshdb.documents.io.progress import Progress
    from lshdb.documents.io.streams import chunks_of, open_source

    if not paths or os.fspath(paths[0]) == STDIN or os.path.isdir(paths[0]):
        return []
    source = find_sources(paths[:1], input_format=options.get("input_format", "auto"))[0]
    if source.input_format != "npy" or source.compression or not source.is_regular:
        return []
    limit = options.get("max_document_bytes", MAX_DOCUMENT_BYTES)
    try:
        with open_source(source) as file:
            header = read_header(ByteStream(chunks_of(source, file, Progress(None, 0))))
            descriptor = file.fileno()
            is_readable = vector_fault(header, limit) is None and is_whole(header, descriptor)
            if not is_readable or header.is_fortran:
                return []
            n_rows = header.shape[0]
            n_taken = min(sample, n_rows, max(_HELD_BYTES // header.row_bytes, 1))
            rows = (number * n_rows // n_taken for number in range(n_taken))
            return list(read_rows(header, descriptor, rows))
    except (BrokenSourceError, OSError):
        return []  # reading the file reports the error


def _refuse_doubtful(bodies: list[Any], length: int | None, dim: int | None) -> None:
    """Refuse bytes that may be packed bits or single bits, unless ``dim`` decides it."""
    arrays = [body for body in bodies if hasattr(body, "dtype") and body.dtype.name == "uint8"]
    if dim is None and arrays and length and all(body.max(initial=0) <= 1 for body in arrays):
        raise InputError(
            f"all bytes of the vectors are 0 or 1: a vector may be {length:,} bits, or "
            f"{8 * length:,} packed bits",
            hint=f"pass --dim {length} or --dim {8 * length}, or save the array as bool",
        )


def _bytes_of(body: Any) -> int:
    if hasattr(body, "nbytes"):
        return int(body.nbytes)
    return len(body) * (1 if isinstance(body, str) else _NUMBER_BYTES)


def _length(body: Any) -> int:
    return 0 if isinstance(body, dict) else len(body)


def _bits_a_digit(bodies: list[Any], dtype: str | None) -> int:
    """Return the bits per element of a body: a digit, a number, or a byte of packed bits."""
    texts = [body for body in bodies if isinstance(body, str)]
    if texts:
        return 1 if all(set(text) <= {"0", "1"} for text in texts) else 4
    return 8 if dtype == "uint8" else 1
