"""A batch of documents as columns, and the pure stages that fill them.

A column is a list or an array with one value a document; a document is a place in all of them. The
stages take columns and give columns. They know no transaction and no file, so that another engine
can run them on its own partitions: :func:`hash_bodies`, :func:`hash_contents` and
:func:`sign_in_threads` here, ``bucket_keys`` and ``content_keys`` (``signatures/banding.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.document import Document
from lshdb.ingest import add_sizes
from lshdb.kernel import kernel
from lshdb.signatures.family import Family, SignedTexts
from lshdb.signatures.sets import split_digests
from lshdb.storage.tables.bodies import (
    HEADER_BYTES,
    WITHOUT_DICTIONARY,
    BodyCodec,
    hash_body,
    raw_body,
)
from lshdb.storage.tables.records import row_checksum
from lshdb.threads import work_ahead
from lshdb.tokenizers import naming_text

__all__ = [
    "PERSON_OF_TEXTS",
    "Batch",
    "Contents",
    "HashedBodies",
    "hash_bodies",
    "hash_contents",
    "hash_texts",
    "row_checksums",
    "sign_in_threads",
    "sign_new",
]

PERSON_OF_TEXTS = b"text"
"""What :func:`lshdb.storage.tables.bodies.hash_body` personalises the hash of a text by."""


@dataclass(slots=True)
class Contents:
    """The contents by which documents are signed, as columns.

    Attributes
    ----------
    values : sequence
        Canonical contents, or what else the source of the batch signs by.
    hashes : list of bytes
    n_unassigned : list of int or None
        Characters that Unicode did not assign; None where nobody counted them.
    signed : SignedTexts, optional
        Contents that are signed; their values are their places there.
    """

    values: Sequence[Any]
    hashes: list[bytes]
    n_unassigned: Sequence[int | None]
    signed: SignedTexts | None = None

    def put(self, place: int, value: Any, digest: bytes, n_unassigned: int | None) -> None:
        """Set the content of one document; the columns must be lists."""
        self.values[place] = value  # type: ignore[index]
        self.hashes[place] = digest
        self.n_unassigned[place] = n_unassigned  # type: ignore[index]

    def at(self, places: Sequence[int]) -> Contents:
        """Return the contents of some documents of the batch."""
        if len(places) == len(self.values):
            return self
        return Contents(
            [self.values[place] for place in places],
            [self.hashes[place] for place in places],
            [self.n_unassigned[place] for place in places],
            self.signed,
        )


@dataclass(slots=True)
class Batch:
    """Documents that are written together, as columns.

    Attributes
    ----------
    keys, sources : list of str
    bodies : list
        As they were given; None for texts that are packed and signed.
    sizes : list of int
        Characters of each body, or numbers of a vector.
    body_hashes : list of bytes
    forms : list of str
    packed : list of bytes
        What the table ``content`` holds of each; empty where no text is stored.
    codec : BodyCodec
        What packed them.
    times : list of (str, str)
        When each document first and last came in; empty where that is the time of the run.
    fields : dict of int to str
        Kept fields as JSON, by place, for the documents that have some.
    contents : Contents, optional
        Those that are known before the documents are classified; a value is None where not.
    cut : list of (str, int)
        In an index of passages: the key of each document that was cut, and its number of windows,
        which are the documents of the batch one after the other.
    is_last : bool
        No batch comes after it: its commit records that the run has ended.
    """

    keys: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    body_hashes: list[bytes] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    times: list[tuple[str, str]] = field(default_factory=list)
    fields: dict[int, str] = field(default_factory=dict)
    contents: Contents | None = None
    cut: list[tuple[str, int]] = field(default_factory=list)
    codec: BodyCodec = WITHOUT_DICTIONARY
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class HashedBodies:
    """The forms and hashes of bodies, and the bodies packed, as columns; empty if not packed."""

    forms: list[str]
    hashes: list[bytes]
    packed: list[bytes]


def hash_bodies(bodies: Iterable[Any], codec: BodyCodec | None = None) -> HashedBodies:
    """Hash bodies of any kind, and pack them if there is a codec."""
    forms, raws, hashes = [], [], []
    for body in bodies:
        form, raw = raw_body(body)
        forms.append(form)
        hashes.append(hash_body(form, raw))
        if codec is not None:
            raws.append(raw)
    return HashedBodies(forms, hashes, [] if codec is None else codec.pack_many(raws))


def hash_texts(texts: list[str], codec: BodyCodec | None = None) -> HashedBodies:
    """Do the same for texts by the kernel, without the interpreter's lock."""
    hashes = bytearray(16 * len(texts))
    headers = None if codec is None else codec.raw_headers
    packed_or_none = kernel.hash_texts(texts, PERSON_OF_TEXTS, headers, HEADER_BYTES, hashes)
    packed: list[bytes] = []
    if codec is not None:
        packed, plain = packed_or_none
        for place, frame in zip(plain, codec.pack_many([packed[at] for at in plain]), strict=True):
            packed[place] = frame
    return HashedBodies(["text"] * len(texts), split_digests(hashes), packed)


def hash_contents(family: Family, batch: Batch, places: Sequence[int]) -> Contents:
    """Return canonical contents of some documents of a batch, and their hashes.

    Raises
    ------
    TokenizerError
        Names the document whose text the tokenizer fails on.
    """
    bodies = [batch.bodies[place] for place in places]
    documents = (
        Document(batch.keys[place], batch.bodies[place], batch.sources[place]) for place in places
    )
    with naming_text(documents, family.content):
        values = family.contents(bodies)
    unassigned = [family.n_unassigned(value) for value in values]
    return Contents(values, [hash_body(*raw_body(value)) for value in values], unassigned)


def sign_in_threads(
    contents: Sequence[Any], family: Family, *, workers: int
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Sign contents on several threads, a part at a time: the kernel needs no interpreter lock.

    Parameters
    ----------
    contents : sequence
        Canonical contents.
    family : Family
    workers : int
        At least 1; the result does not depend on it.

    Returns
    -------
    rows : ndarray of uint16, shape (len(contents), row_words)
    counts : ndarray of int64, shape (len(contents),)
        As :meth:`lshdb.signatures.family.Family.sign_contents`.
    """
    rows = np.zeros((len(contents), family.params.row_words), dtype=np.uint16)
    counts = np.zeros(len(contents), dtype=np.int64)

    def sign(part: slice) -> None:
        family.sign_contents(contents[part], into=(rows[part], counts[part]))

    sizes = add_sizes.SIZES
    long = [
        number
        for number, content in enumerate(contents)
        if isinstance(content, str) and len(content) > sizes.long_text
    ]
    starts = [0, *(number + 1 for number in long)]
    ends = [*long, len(contents)]
    parts = [
        slice(first, min(first + sizes.part_documents, end))
        for start, end in zip(starts, ends, strict=True)
        for first in range(start, end, sizes.part_documents)
    ]
    for _ in work_ahead(sign, parts, workers=workers):
        pass
    for number in long:
        sign(slice(number, number + 1))
    return rows, counts


def sign_new(
    values: Mapping[bytes, Any],
    known: Container[bytes],
    sign: Callable[[list[Any]], tuple[NDArray[np.uint16], NDArray[np.int64]]],
) -> tuple[list[bytes], NDArray[np.uint16], NDArray[np.int64]]:
    """Sign the contents that nobody has yet, and leave out those without a shingle.

    Parameters
    ----------
    values : mapping of bytes to any
        Contents by their hashes.
    known : container of bytes
        Hashes of contents that are signed.
    sign : callable
        Values -> signature rows and numbers of shingles.

    Returns
    -------
    digests : list of bytes
        Of the contents with a row.
    rows : ndarray of uint16, shape (n, row_words)
    counts : ndarray of int64, shape (n,)
    """
    digests = [digest for digest in values if digest not in known] if known else list(values)
    rows, counts = sign([values[digest] for digest in digests])
    if (counts == 0).any():
        filled = counts > 0
        digests = list(itertools.compress(digests, filled.tolist()))
        rows, counts = rows[filled], counts[filled]
    return digests, rows, counts


def row_checksums(columns: Sequence[Sequence[Any]]) -> list[int]:
    """Return the checksum of each row of a table, from its other columns.

    The kernel takes half the time of :func:`lshdb.storage.tables.records.row_checksum`, which
    defines it.

    Parameters
    ----------
    columns : sequence of sequences
        Each with a value a row; values as for that function.
    """
    try:
        sums: list[int] = kernel.row_checksums(tuple(map(tuple, columns)))
    except (TypeError, ValueError, OverflowError):  # a float, or what the definition refuses
        return [row_checksum(row) for row in zip(*columns, strict=True)]
    return sums
