"""Documents by columns: what a reader gives of many records at once.

A Python object a document costs more than reading, hashing and signing a short text together. So
readers give a :class:`DocumentBlock`, by themselves or through :func:`in_blocks`, and whoever adds
documents takes its columns. For everybody else a :class:`DocumentStream` gives the same documents
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.documents.document import Document, Rejected

if TYPE_CHECKING:
    from lshdb.documents.io.streams import Progress

__all__ = ["DocumentBlock", "DocumentStream", "Item", "body_weight", "in_blocks"]

_DOCUMENTS = 1024
_WEIGHT = 2**18
"""Limits of a block that is made of single documents: their number and their weight."""


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """Documents as columns, each with one value a document.

    Attributes
    ----------
    keys : list of str
    sources : list of str
    fields : sequence
        Kept fields, as mappings or as the JSON that is stored; None for a document without.
        Empty if no document has some.
    times : sequence of (str, str)
        When each document first and last came in; empty where they come in now.
    is_plain : bool
        Whether nobody needs to look at keys and bodies: keys are valid (``validate_key``), and
        bodies are texts of at most 1 MiB in UTF-8 without a lone surrogate.
    cut_from : str or None
        The key of the document whose windows these are; they belong into one batch.
    """

    keys: list[str]
    bodies: list[Any]
    sources: list[str]
    fields: Sequence[Mapping[str, Any] | str | None] = ()
    times: Sequence[tuple[str, str]] = ()
    is_plain: bool = False
    cut_from: str | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, documents: Sequence[Document]) -> DocumentBlock:
        """Return some documents as columns."""
        return cls(
            [document.key for document in documents],
            [document.body for document in documents],
            [document.source for document in documents],
            [document.fields for document in documents]
            if any(document.fields for document in documents)
            else (),
        )

    def documents(self) -> Iterator[Document]:
        """Yield the documents, in order."""
        return map(Document, self.keys, self.bodies, self.sources, self.fields or repeat(None))  # type: ignore[arg-type]

    def part(self, start: int, end: int) -> DocumentBlock:
        """Return the documents from one place to another."""
        if end - start == len(self):
            return self
        return replace(
            self,
            keys=self.keys[start:end],
            bodies=self.bodies[start:end],
            sources=self.sources[start:end],
            fields=self.fields[start:end],
            times=self.times[start:end],
        )

    def without_rejected(self, reasons: Sequence[str | None]) -> Iterator[Item]:
        """Yield the block in parts, with a rejection in place of each document with a reason."""
        start = 0
        for place, reason in enumerate(reasons):
            if reason is not None:
                if start < place:
                    yield self.part(start, place)
                source = self.sources[place] or f"key {self.keys[place]!r}"[:200]
                yield Rejected(source, reason)
                start = place + 1
        if start < len(self):
            yield self.part(start, len(self))


Item: TypeAlias = "DocumentBlock | Rejected"


def body_weight(body: Any) -> int:
    """Return characters, plus 64 for each token or number; for arrays, bytes."""
    if isinstance(body, str):
        return len(body)
    if hasattr(body, "nbytes"):
        return int(body.nbytes)
    return sum(len(token) for token in body if isinstance(token, str)) + 64 * len(body)


def in_blocks(
    items: Iterable[Document | Item],
    *,
    is_at_hand: bool,
    make: Callable[[Sequence[Document]], DocumentBlock] = DocumentBlock.of,
) -> Iterator[Item]:
    """Put single documents together to blocks; blocks and rejections pass.

    Parameters
    ----------
    items : iterable of Document, Rejected or DocumentBlock
    is_at_hand : bool
        Whether the next item comes without waiting. Else each document is a block of its own.
    make : callable
        Makes a block of documents.
    """
    documents: list[Document] = []
    weight = 0
    try:
        for item in items:
            if not isinstance(item, Document):
                if documents:
                    yield make(documents)
                    documents, weight = [], 0
                yield item
                del item
                continue
            documents.append(item)
            if is_at_hand:
                weight += body_weight(item.body) if hasattr(item.body, "__len__") else 0
            if not is_at_hand or weight >= _WEIGHT or len(documents) == _DOCUMENTS:
                yield make(documents)
                documents, weight = [], 0
    except (Exception, KeyboardInterrupt):
        if documents:
            yield make(documents)
        raise
    if documents:
        yield make(documents)


class DocumentStream(Iterator["Document | Rejected"]):
    """Documents and rejections one by one, or by blocks.

    Parameters
    ----------
    items : iterator of DocumentBlock or Rejected
    is_at_hand : bool
        Whether they come without waiting for somebody: from regular files alone.
    progress : Progress, optional
        How many bytes of how many were read.
    n_documents : int, optional
        How many there are, rejections included.
    """

    def __init__(
        self,
        items: Iterator[Item],
        *,
        is_at_hand: bool = False,
        progress: Progress | None = None,
        n_documents: int | None = None,
    ) -> None:
        self.is_at_hand = is_at_hand
        self.progress = progress
        self.n_documents = n_documents
        self._items = items
        self._begun: Iterator[Document] = iter(())

    def __next__(self) -> Document | Rejected:
        while True:
            document = next(self._begun, None)
            if document is not None:
                return document
            self._begun = iter(())  # a block is let go of before the next one is made
            item = next(self._items)
            if not isinstance(item, DocumentBlock):
                return item
            self._begun = item.documents()

    def by_blocks(self) -> Iterator[Item]:
        """Yield the documents that nobody has taken yet, by blocks."""
        yield from in_blocks(self._begun, is_at_hand=True)
        yield from self._items

    def close(self) -> None:
        """Close the files that are open; nothing comes after it."""
        self._begun = iter(())
        close = getattr(self._items, "close", None)
        if close is not None:
            close()
