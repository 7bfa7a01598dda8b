"""Look-ups without a search: keys, the number of documents, batches, signatures.

A file of its own: a look-up needs none of the imports of a search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lshdb.documents import validate_key
from lshdb.search.listings import Listing
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.records import StoredBatch

__all__ = ["Keys", "count_documents", "has_key", "list_batches", "map_signatures"]


class Keys(Listing[str]):
    """The keys of an index, in the order in which their documents were added."""

    def _items(self, store: Store, family: Family) -> Iterator[str]:
        """Yield the keys of one state."""
        with store.reading() as snapshot:
            for _, key in store.while_open(snapshot.document_keys()):
                yield key


def count_documents(store: Store, family: Family) -> int:
    """Return the number of documents, from what each batch added and removed."""
    with store.reading() as snapshot:
        (count,) = snapshot.execute(
            "SELECT CAST(coalesce(sum(n_added), 0) - coalesce(sum(n_removed), 0) AS BIGINT) "
            "FROM batch"
        ).fetchone()
        return int(count)


def has_key(store: Store, family: Family, key: object) -> bool:
    """Return whether a document has this key; False if it is not a valid key."""
    if not isinstance(key, str) or validate_key(key) is not None:
        return False
    with store.reading() as snapshot:
        return key in snapshot.documents_of_keys([key])


def list_batches(store: Store, family: Family) -> list[StoredBatch]:
    """Return all batches, oldest first."""
    with store.reading() as snapshot:
        return list(snapshot.batches())


def map_signatures(store: Store, family: Family) -> np.memmap[Any, np.dtype[np.uint32]]:
    """Return the committed rows of the signature file as a read-only map.

    Raises
    ------
    SignaturesElsewhereError, DamageError
        The file is on another host, belongs to another index, or ends before a committed row.
    """
    with store.reading() as snapshot:
        return snapshot.signature_file.mapped(len(snapshot.signatures))
