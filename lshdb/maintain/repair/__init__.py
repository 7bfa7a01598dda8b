"""A damaged index -> a sound one, made of all that can be proved; the rest goes into a file.

Decided: what is damaged is not mended where it lies. The index is built anew beside itself, of

    documents     rows whose CRC-32 is right, or is right once values are worked out from the text
    texts         that have the hash in such a row; or those of a copy of the document
    vectors       that have the hash in such a row, whether or not their block's CRC-32 is right
    signatures    rows of blocks whose CRC-32 is right, or that the text or vector gives again, or,
                  where those are not stored, that all their postings vouch for
    batches       rows whose CRC-32 is right; others are worked out from the documents
    postings, bucket sizes and copies' links    worked out from those
    edges and clusters    left out: they are found again when somebody asks

and checked in full. Only then it takes the old one's place, in one transaction of the database
whose row files are another generation. So a repair that is killed or fails changes nothing, and
readers go on meanwhile. It takes the room of a second index, and its write-ahead log.

``evidence.py`` proves documents, ``rebuild.py`` batches, ``quarantine.py`` writes what is lost.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lshdb.errors import DamageError, DatabaseError, LshdbError
from lshdb.maintain.check import Finding, check_index
from lshdb.maintain.repair.quarantine import Quarantine
from lshdb.maintain.repair.rebuild import Rebuild
from lshdb.signatures.family import Family
from lshdb.storage.place.copy import replace_database
from lshdb.storage.place.directory import IndexDirectory, sync_directory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.place.own_files import foreign_names, open_folder
from lshdb.storage.place.salvage import find_generation, state_is_sound
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.store import Store
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.writer import Writer

__all__ = ["RepairResult", "repair_store"]

_ASIDE = "repair"
_STATE = (
    "state_id, format, uuid, created_at, library_version, unicode_version, signature_file, "
    "n_signatures, next_doc_id, next_run_id, checksum"
)


@dataclass(slots=True)
class RepairResult:
    """What a repair found and did.

    Attributes
    ----------
    findings : list of Finding
        Of a full check before it; empty, then nothing was changed.
    documents : int
        Documents that are there, and proved.
    signed : int
        Signatures that were made again from texts or vectors.
    vouched : int
        Signatures that their postings proved.
    batches : list of int
        Batches whose figures had to be worked out.
    lost : list of str
        Keys of the documents that are out of the index; ``?`` for one whose key is not known.
    quarantine : Path or None
        The file with what is known of them.
    """

    findings: list[Finding] = field(default_factory=list)
    documents: int = 0
    signed: int = 0
    vouched: int = 0
    batches: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    quarantine: Path | None = None


def repair_store(
    store: Store, family: Family, *, lock_timeout: float, workers: int
) -> RepairResult:
    """Repair an index; see :meth:`lshdb.Index.repair`."""
    with _said(store), store.reading() as snapshot:
        # A host with no signature file at all is not the one that writes. There a file that was
        # lost is damage, once something of its name is there.
        if not any(store.directory.path.glob("signatures*.npy")):
            snapshot.require_signatures()
    lock = WriterLock(store.directory.lock, lock_timeout)
    lock.acquire()
    try:
        with _said(store), store.reading() as snapshot:
            result = RepairResult(list(check_index(snapshot, store.params)))
            if result.findings:
                _repair(store, snapshot, family, workers, result, lock_timeout)
    finally:
        lock.release()
    return result


def _repair(
    store: Store,
    snapshot: Snapshot,
    family: Family,
    workers: int,
    result: RepairResult,
    lock_timeout: float,
) -> None:
    aside = store.directory.path / _ASIDE
    _remove_rebuilt(aside, store.uuid)
    state, old = _state(store, snapshot)
    with Quarantine(store.path) as quarantine:
        try:
            rebuild = Rebuild(snapshot, store.params, family, old, quarantine, workers)
            with (
                Store.making(aside, store.params, state=state) as made,
                Writer(made, lock_timeout=0.0) as writer,
            ):
                rebuild.build(writer, next_doc_id=state["next_doc_id"])
            _prove(aside)
            quarantine.keep()
            _publish(store, made, old, lock_timeout)
        finally:
            with contextlib.suppress(OSError, LshdbError):
                _remove_rebuilt(aside, store.uuid)
    result.documents, result.signed = rebuild.documents, rebuild.evidence.signed
    result.vouched, result.batches = rebuild.evidence.vouched, rebuild.history.rebuilt
    result.lost, result.quarantine = quarantine.keys, quarantine.path


def _remove_rebuilt(aside: Path, uuid: str) -> None:
    """Remove what a repair has rebuilt: an index of the same uuid, and nothing but its files.

    Raises
    ------
    LshdbError
        There is something else, which is left as it is.
    """
    if not os.path.lexists(aside):
        return
    why = None
    try:
        with open_folder(aside) as folder:
            names = os.listdir(folder)
            if foreign := foreign_names(folder):
                why = f"it holds {foreign[0]}"
            elif names and IndexDirectory(aside).read_description().uuid != uuid:
                why = "it is another index"
            else:
                # The description last: as long as there is anything else it says whose that is.
                for name in sorted(names, key=lambda name: name == "index.toml"):
                    os.unlink(name, dir_fd=folder)
    except (LshdbError, OSError) as error:
        why = str(error)
    if why is not None:
        raise LshdbError(
            f"the index is rebuilt in {aside}, and that is there already, and lshdb did not make "
            f"it: {why}; nothing was changed",
            hint="move it away",
        )
    aside.rmdir()


def _state(store: Store, snapshot: Snapshot) -> tuple[dict[str, Any], Generation]:
    """Columns of the new table ``state``, and the row files that there are."""
    row = snapshot.execute(f"SELECT {_STATE} FROM state").fetchone()
    found = dict(zip(_STATE.split(", "), row, strict=True))
    is_sound = state_is_sound(snapshot.session)
    layouts = row_layouts(store.params)
    old = find_generation(store.directory.path, found["signature_file"], layouts)
    return {
        "uuid": store.directory.read_description().uuid,
        **{name: str(found[name]) for name in ("created_at", "library_version")},
        "unicode_version": str(found["unicode_version"] or unicodedata.unidata_version),
        "signature_file": old.following().name,
        "next_doc_id": found["next_doc_id"] if is_sound else 1,
    }, old


def _prove(aside: Path) -> None:
    """Check what was made, in full, before it takes the old one's place."""
    with contextlib.closing(Store.open(aside)) as made, made.reading() as snapshot:
        finding = next(check_index(snapshot, made.params), None)
    if finding is not None:
        raise DamageError(
            f"what was rebuilt is not sound: {finding.where}: {finding.what}; nothing was changed",
            hint="restore the index from a copy",
        )


def _publish(store: Store, made: Store, old: Generation, lock_timeout: float) -> None:
    """Put what was made in the place of what was there.

    The new row files are there, and synced, before the database names them, and the old ones until
    nothing names them any more.
    """
    for file in old.following().files:
        os.replace(made.directory.path / file.path.name, file.path)
    sync_directory(store.directory.path)
    replace_database(store, made, lock_timeout=lock_timeout)
    for file in old.files:
        file.path.unlink(missing_ok=True)


def _errors(store: Store) -> tuple[type[Exception], ...]:
    from sqlalchemy.exc import SQLAlchemyError

    return store.database.errors(OSError, SQLAlchemyError)


@contextlib.contextmanager
def _said(store: Store) -> Iterator[None]:
    """Turn what the disk and the database say into our error."""
    try:
        yield
    except _errors(store) as error:
        why = getattr(error, "strerror", None) or error
        raise DatabaseError(
            f"repairing the index {store.path} failed: {why}; it is as it was",
            hint="check the free space, of which a second index is needed, and the permissions",
        ) from error
