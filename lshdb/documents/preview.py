"""A look at the input before an index is made of it: dimension, type, and a sample.

Decided: of a ``.npy`` that comes first rows are taken that lie evenly over the file, as neighbours
in a file are often alike. Of anything else, and of what can be read only once, the first documents
are taken, held, and given again before the rest.
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
"""A number of a list takes about so much."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What the input begins with.

    Attributes
    ----------
    bodies : list
        A sample of bodies; some may be none that the index takes.
    dim : int or None
        Numbers, or bits, of its vectors; None where there is no vector in the sample.
    dtype : str or None
        Type of their numbers, where they have one of ours.
    """

    bodies: list[Any]
    dim: int | None
    dtype: str | None


def peek_documents(
    paths: Sequence[str | os.PathLike[str]], *, body: str, sample: int = SAMPLE, **options: Any
) -> tuple[Peek, Iterator[Document | Rejected]]:
    """Read documents after a look at some of them.

    Parameters
    ----------
    paths, body, **options
        As for :func:`read_documents`.
    sample : int
        Bodies to look at; fewer where they have more than 64 MiB together.

    Returns
    -------
    Peek
    iterator of Document or Rejected
        As of :func:`read_documents`, from the beginning.

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
    """Rows that lie evenly over the first file; none where it is no ``.npy`` or is damaged."""
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
        return []  # the reading itself says so


def _refuse_doubtful(bodies: list[Any], length: int | None, dim: int | None) -> None:
    """Refuse bytes that may be packed bits or bits themselves, where nobody says which."""
    arrays = [body for body in bodies if hasattr(body, "dtype") and body.dtype.name == "uint8"]
    if dim is None and arrays and length and all(body.max(initial=0) <= 1 for body in arrays):
        raise InputError(
            f"all bytes of the vectors are 0 or 1: they may be {length:,} bits a vector, or "
            f"{8 * length:,} bits that are packed",
            hint=f"give --dim {length} or --dim {8 * length}, or save the array as bool",
        )


def _bytes_of(body: Any) -> int:
    if hasattr(body, "nbytes"):
        return int(body.nbytes)
    return len(body) * (1 if isinstance(body, str) else _NUMBER_BYTES)


def _length(body: Any) -> int:
    return 0 if isinstance(body, dict) else len(body)


def _bits_a_digit(bodies: list[Any], dtype: str | None) -> int:
    """Bits that an element of a body stands for: a digit, a number, or a byte of packed bits."""
    texts = [body for body in bodies if isinstance(body, str)]
    if texts:
        return 1 if all(set(text) <= {"0", "1"} for text in texts) else 4
    return 8 if dtype == "uint8" else 1
