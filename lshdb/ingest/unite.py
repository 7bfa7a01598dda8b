"""``on_conflict="unite"``: a host's URLs that come in join those stored under its key.

The batch is changed before it is classified, so that all other steps are those of a replaced
document; a document that brings nothing new becomes the stored one, which is unchanged. Apart from
``pipeline.py`` because that knows nothing of what a body holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lshdb.errors import DamageError, ParameterError, TextNotStoredError
from lshdb.ingest.batch import Batch, hash_bodies
from lshdb.params.index_params import IndexParams
from lshdb.shingling import URL_UNITS
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["check_unites", "unite"]


def check_unites(params: IndexParams) -> None:
    """Refuse an index whose documents cannot be united.

    Raises
    ------
    ParameterError
        They are not lists of URLs.
    TextNotStoredError
        The lists are not stored.
    """
    if params.unit not in URL_UNITS or params.kind.body != "text":
        what = f"unit {params.unit}" if params.kind.body == "text" else f"metric {params.metric}"
        raise ParameterError(
            f"on_conflict 'unite' joins lists of URLs, and the index has {what}",
            hint="use 'replace', 'skip' or 'error', or an index made with --unit url or url-host",
        )
    if not params.keeps_texts:
        raise TextNotStoredError(
            "on_conflict 'unite' joins URLs with the stored ones, and the index stores no texts",
            hint="use 'replace', 'skip' or 'error', or make the index without --no-text",
        )


def unite(snapshot: Snapshot, batch: Batch) -> None:
    """Add the stored URLs of each known key to those of the batch.

    Parameters
    ----------
    snapshot : Snapshot
    batch : Batch
        Changed: the union takes the place of a body, and the stored body that of one that brings
        nothing new. A second call changes nothing.

    Raises
    ------
    DamageError
        A stored list is missing, or not what was written.

    Notes
    -----
    Reads the stored lists of known keys. A batch then holds the unions, which are as large as what
    is stored of its hosts and what comes in.
    """
    stored_documents = snapshot.documents_of_keys(batch.keys)
    places: dict[int, list[int]] = {}
    for place, key in enumerate(batch.keys):
        before = stored_documents.get(key)
        if before is not None and before.body_hash != batch.body_hashes[place]:
            places.setdefault(before.doc_id, []).append(place)
    for doc_id, stored in snapshot.bodies_of_documents(list(places)):
        for place in places.pop(doc_id):
            _unite(batch, place, stored, stored_documents[batch.keys[place]].body_hash)
    for place, *_ in places.values():
        raise DamageError(f"the URLs of {batch.keys[place]!r} are missing", hint="run lshdb check")


def _unite(batch: Batch, place: int, stored: Any, stored_hash: bytes) -> None:
    """Add stored URLs to those of one document of the batch."""
    before = set(_urls(stored))
    urls = before.union(_urls(batch.bodies[place]))
    if len(urls) == len(before):
        batch.body_hashes[place] = stored_hash
        return
    listed = sorted(urls)
    body: Any = "\n".join(listed) if isinstance(stored, str) else listed
    hashed = hash_bodies([body])
    batch.bodies[place], batch.packed[place] = body, b""  # packed with the others later
    batch.forms[place], batch.body_hashes[place] = hashed.forms[0], hashed.hashes[0]
    batch.sizes[place] = len(body) if isinstance(body, str) else sum(map(len, body))


def _urls(body: str | Iterable[str]) -> list[str]:
    """Return the URLs of a body: the lines of a text, or the items of a list or set."""
    items = body.split("\n") if isinstance(body, str) else body
    return [url for url in map(str.strip, items) if url]
