"""A sample of the documents: those whose keys have the lowest hashes, and whose texts fit.

Each key is hashed with the seed, and the documents with the lowest hashes are the sample. So every
set of documents of one size is equally probable, the sample is the same whatever order they come
in, and any number of the first ones is itself a sample. One pass over a stream suffices; where the
texts take too much memory, the last ones are let go, and what would come behind them is passed by.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from lshdb.arguments import check_items
from lshdb.documents.blocks import DocumentStream
from lshdb.documents.document import (
    Rejected,
    given_document,
    validate_key,
)
from lshdb.ingest.add import n_chars_of
from lshdb.phases.phase import Phase, counting
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["DocumentSample", "sample_of_index", "sample_of_stream"]

_CHARACTER_BYTES = 4
"""Most memory of a character of a text; of most texts it is one."""
_DOCUMENT_BYTES = 400
"""Memory of a key, of a text without its characters, and of their places."""
_TEXTS_READ = 256
_READ_BYTES = 2**22
"""Texts that are read together: so many, and fewer where they have more bytes."""
_TOLD = 10_000


@dataclass(slots=True)
class DocumentSample:
    """Documents of a random sample, and the documents that labels name.

    Attributes
    ----------
    keys, bodies : list
        Of the documents that were drawn, in order of their hashes: the first m are a sample too.
    named : dict
        Texts by key of the documents that were asked for.
    documents, rejected : int
        Documents that there are, and what was no document.
    is_all : bool
        Whether every document was drawn.
    """

    keys: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    documents: int = 0
    rejected: int = 0

    @property
    def is_all(self) -> bool:
        """Whether every document was drawn."""
        return len(self.keys) == self.documents


def sample_of_stream(
    documents: Iterable[Any],
    family: Family,
    *,
    most: int,
    memory: int,
    seed: int,
    named: Collection[str],
    on_reject: Callable[[Rejected], None] | None,
) -> DocumentSample:
    """Draw from a stream, which is read to its end.

    Parameters
    ----------
    documents : iterable
        Documents, rejections, or pairs of key and text.
    family : Family
        Says what is no document.
    most : int
        Documents to draw.
    memory : int
        Bytes for their texts; one is drawn whatever it takes.
    seed : int
    named : collection of str
        Keys whose texts are kept besides.
    on_reject : callable, optional
        Called with each rejection.

    Notes
    -----
    A key that comes twice counts once if all documents are drawn, with its last text. In a stream
    from which some are drawn it counts each time.
    """
    check_items(
        "documents", documents, "an iterable of (key, text) pairs or documents",
        hint="put one document into a list; a dict gives its pairs by .items()",
    )  # fmt: skip
    sample = DocumentSample()
    drawing = _Drawing(most, memory)
    n_read = 0
    for item in _counted(documents):
        rejected = item if isinstance(item, Rejected) else None
        if rejected is None:
            document = given_document(item)
            reason = validate_key(document.key) or family.refusal(document.body)
            if reason is not None:
                rejected = Rejected(document.source or f"key {document.key!r}"[:200], reason)
        if rejected is not None:
            sample.rejected += 1
            if on_reject is not None:
                on_reject(rejected)
            continue
        n_read += 1
        if document.key in named:
            sample.named[document.key] = document.body
        drawing.offer(document.key, document.body, _place(document.key, seed))
    sample.keys, sample.bodies = drawing.drawn()
    sample.documents = len(sample.keys) if drawing.is_all else n_read
    return sample


def _counted(documents: Iterable[Any]) -> Iterator[Any]:
    """Yield the same documents; bytes count for files, else documents."""
    files, total = None, len(documents) if isinstance(documents, Sized) else None
    if isinstance(documents, DocumentStream):
        files, total = documents.progress, documents.n_documents
    if files is None or not files.total:
        yield from counting(documents, "documents", total)
        return
    with Phase("bytes", files.total) as phase:
        for document in documents:
            yield document
            phase.reached(files.position)


def sample_of_index(
    snapshot: Snapshot, *, most: int, memory: int, seed: int, named: Collection[str]
) -> DocumentSample:
    """Draw from the stored texts of an index; see :func:`sample_of_stream`."""
    sample = DocumentSample()

    def places() -> Iterator[tuple[int, int, str]]:
        for doc_id, key in snapshot.document_keys():
            sample.documents += 1
            yield _place(key, seed), doc_id, key

    drawn = heapq.nsmallest(most, places())
    n_bytes = start = 0
    size = 1
    while start < len(drawn) and n_bytes <= memory:
        part, before = drawn[start : start + size], n_bytes
        start += size
        bodies = dict(snapshot.bodies_of_documents([doc_id for _, doc_id, _ in part]))
        for _, doc_id, key in part:
            n_bytes += _bytes_of(bodies[doc_id])
            if sample.keys and n_bytes > memory:
                break
            sample.keys.append(key)
            sample.bodies.append(bodies[doc_id])
        is_little = n_bytes - before < _READ_BYTES
        size = min(2 * size, _TEXTS_READ) if is_little else max(1, size // 2)
    documents = snapshot.documents_of_keys(list(named))
    texts = dict(snapshot.bodies_of_documents([document.doc_id for document in documents.values()]))
    sample.named = {key: texts[document.doc_id] for key, document in documents.items()}
    return sample


def _place(key: str, seed: int) -> int:
    """Return the hash of a key by which it is drawn."""
    name = key.encode("utf-8", "surrogatepass")
    return int.from_bytes(
        blake2b(name, digest_size=8, salt=(seed % 2**64).to_bytes(8, "big")).digest(), "big"
    )


def _bytes_of(body: Any) -> int:
    tokens = 0 if isinstance(body, str) else 64 * len(body)
    if isinstance(body, str) and body.isascii():
        return len(body) + _DOCUMENT_BYTES
    return _CHARACTER_BYTES * n_chars_of(body) + tokens + _DOCUMENT_BYTES


class _Drawing:
    """The documents with the lowest hashes so far."""

    def __init__(self, most: int, memory: int) -> None:
        self._most, self._memory = most, memory
        self._heap: list[tuple[int, str]] = []  # minus the hash, so the highest is on top
        self._bodies: dict[str, Any] = {}
        self._bytes = 0
        self._limit: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing was let go."""
        return self._limit is None

    def offer(self, key: str, body: Any, place: int) -> None:
        """Take a document, unless its hash is too high."""
        if self._limit is not None and place >= self._limit:
            return
        if key in self._bodies:
            self._bytes -= _bytes_of(self._bodies[key])
        else:
            heapq.heappush(self._heap, (-place, key))
        self._bodies[key] = body
        self._bytes += _bytes_of(body)
        while len(self._heap) > self._most or (self._bytes > self._memory and len(self._heap) > 1):
            place, key = heapq.heappop(self._heap)
            self._limit = -place
            self._bytes -= _bytes_of(self._bodies.pop(key))

    def drawn(self) -> tuple[list[str], list[Any]]:
        """Return keys and bodies by rising hash."""
        keys = [key for _, key in sorted(self._heap, reverse=True)]
        return keys, [self._bodies[key] for key in keys]
