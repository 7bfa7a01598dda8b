"""One document with all that is stored of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lshdb.errors import DamageError
from lshdb.params import IndexParams
from lshdb.storage.bodies import hash_body, plain_tokens, plain_vector, raw_body
from lshdb.storage.records import StoredDocument
from lshdb.storage.snapshot import Snapshot

__all__ = ["ShownDocument", "show_document"]


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """What :meth:`lshdb.Index.show` gives.

    Attributes
    ----------
    document : StoredDocument
    body : str, list of str, frozenset of str, dict, ndarray or None
        The text, the tokens in order or as a set, the weights, or the vector (bits packed, the
        first the most significant of byte 0); None where they are not stored.
    copies : tuple of str
        Keys of the documents with the same normalised content.
    params : IndexParams
    """

    document: StoredDocument
    body: Any
    copies: tuple[str, ...]
    params: IndexParams

    @property
    def plain_body(self) -> Any:
        """The body as JSON can have it, and ``lshdb add`` reads it.

        A vector as a list, bits as hexadecimal digits, a set as ``{"set": [...]}``, sorted.
        """
        if self.body is None or not self.params.kind.is_dense:
            return plain_tokens(self.body)
        return plain_vector(self.body, is_bits=self.params.kind.body == "bits")


def show_document(snapshot: Snapshot, params: IndexParams, key: str) -> ShownDocument:
    """Look the document up, its text or vector, and the documents with its signature."""
    document = snapshot.document(key)
    others: tuple[str, ...] = ()
    if document.signature_id is not None:
        others = tuple(
            other
            for doc_id, other, _ in snapshot.documents_of_signature(document.signature_id)
            if doc_id != document.doc_id
        )
    body = snapshot.body(document.doc_id)
    if params.keeps_vectors:
        (body,) = snapshot.vectors.of_documents([document.signature_id])
        if hash_body(*raw_body(body)) != document.body_hash:
            raise DamageError(
                f"the vector of {key!r} is not the one written",
                hint="run lshdb check, and then lshdb check --repair",
            )
    return ShownDocument(document, body, others, params)
