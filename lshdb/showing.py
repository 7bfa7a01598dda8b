"""One document with all that is stored of it."""

from __future__ import annotations

from dataclasses import dataclass

from lshdb.storage.records import StoredDocument
from lshdb.storage.snapshot import Snapshot

__all__ = ["ShownDocument", "show_document"]


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """What :meth:`lshdb.Index.show` gives.

    Attributes
    ----------
    document : StoredDocument
    body : str or list of str or None
        None where texts are not stored.
    copies : tuple of str
        Keys of the documents with the same normalised content.
    """

    document: StoredDocument
    body: str | list[str] | None
    copies: tuple[str, ...]


def show_document(snapshot: Snapshot, key: str) -> ShownDocument:
    """Look the document up, its text, and the documents with its signature."""
    document = snapshot.document(key)
    others: tuple[str, ...] = ()
    if document.signature_id is not None:
        others = tuple(
            other
            for doc_id, other, _ in snapshot.documents_of_signature(document.signature_id)
            if doc_id != document.doc_id
        )
    return ShownDocument(document, snapshot.body(document.doc_id), others)
