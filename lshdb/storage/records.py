"""Rows of the tables that people ask about, as the library hands them out."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["StoredBatch", "StoredDocument", "WholeDocument"]


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A row of the table ``document``; ``signature_id`` is None for a document without tokens."""

    doc_id: int
    key: str
    signature_id: int | None
    content_hash: bytes
    body_hash: bytes
    n_shingles: int
    n_chars: int
    source: str
    batch_id: int
    added_at: str
    last_seen_at: str
    n_unassigned: int | None

    def values(self) -> tuple[Any, ...]:
        """The values in the order of the columns, without the checksum."""
        return _VALUES(self)


_VALUES = operator.attrgetter(*(field.name for field in fields(StoredDocument)))


@dataclass(frozen=True, slots=True)
class WholeDocument(StoredDocument):
    """The same with its row of ``content``; ``form`` and ``body`` are None without."""

    form: str | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A row of the table ``batch``: what one commit of one add brought.

    ``has_ended`` is false for the batches of an add that was interrupted, or is under way.
    """

    batch_id: int
    add_id: int
    started_at: str
    finished_at: str
    source: str
    n_added: int
    n_replaced: int
    n_unchanged: int
    n_copies: int
    n_rejected: int
    n_removed: int
    unicode_version: str
    has_ended: bool = True
