"""What is worth knowing of an index and no damage: other versions of Unicode, files left over."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from lshdb.checking.findings import counted
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.store import Store

__all__ = ["notes"]


def notes(store: Store, snapshot: Snapshot, *, quick: bool = False) -> Iterator[str]:
    """A sentence for each; documents are counted unless it has to be quick."""
    here = unicodedata.unidata_version
    versions = [
        version for (version,) in snapshot.execute("SELECT DISTINCT unicode_version FROM batch")
    ]
    others = sorted({version for version in versions if version != here})
    if others:
        yield (
            f"batches were signed with Unicode {', '.join(others)}, and this interpreter has {here}"
            ": assigned characters normalise alike in both"
        )
    if not quick:
        yield from _unassigned(snapshot)
    own = {store.directory.description.name, store.directory.lock.name}
    own |= {file.path.name for file in snapshot.generation.files}
    own |= set(store.database.file_names)
    for entry in sorted(store.directory.path.iterdir()):
        if entry.name not in own:
            yield f"{entry} is no file of the index; nothing reads it"


def _unassigned(snapshot: Snapshot) -> Iterator[str]:
    rows = snapshot.execute(
        "SELECT batch.unicode_version, count(*), sum(document.n_unassigned) "
        "FROM document JOIN batch USING (batch_id) WHERE document.n_unassigned > 0 GROUP BY 1"
    )
    for version, documents, characters in rows:
        held = f"{counted(documents, 'document')} with {counted(characters, 'character')}"
        yield (
            f"{held} that Unicode {version} did not assign when they were signed: a later version "
            "may normalise these otherwise"
        )
    (unknown,) = snapshot.execute(
        "SELECT count(*) FROM document WHERE n_unassigned IS NULL"
    ).fetchone()
    if unknown:
        yield (f"{counted(unknown, 'document')} came in before unassigned characters were counted")
