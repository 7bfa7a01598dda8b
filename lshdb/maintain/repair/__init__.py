"""A damaged index -> a sound one, made from all that can be proved; the rest goes into a file.

Decided: damage is not mended in place. The index is built again beside itself, from

    documents     rows whose CRC-32 is right, or is right once values are computed from the text
    texts         that have the hash in such a row; or those of a copy of the document
    kept fields   rows whose CRC-32 is right
    vectors       that have the hash in such a row, whether or not their block's CRC-32 is right
    signatures    rows of blocks whose CRC-32 is right, or that the text or vector gives again, or,
                  if those are not stored, that all their postings prove
    batches       rows whose CRC-32 is right; others are worked out from the documents
    postings, also of the content band, and bucket sizes    computed from those
    edges and clusters    left out: they are found again when you ask for clusters

and checked in full. Only then it replaces the old one, in one transaction of the database whose row
files are another generation. So a repair that is killed or fails changes nothing, and readers go on
meanwhile. It needs space for a second index and its write-ahead log.

``evidence.py`` proves documents; ``rebuild.py`` proves batches and writes what is lost.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lshdb.errors import (
    DamageError,
    DatabaseError,
    FormatError,
    IndexNotFoundError,
    LshdbError,
    ParameterMismatchError,
    write_hint,
)
from lshdb.files.descriptors import sync_directory
from lshdb.files.own_files import foreign_names, open_folder
from lshdb.files.rights import take_rights
from lshdb.maintain.check import Finding, check_index
from lshdb.maintain.check.signature_checks import order_findings
from lshdb.maintain.copy import replace_database
from lshdb.maintain.repair.evidence import find_generation
from lshdb.maintain.repair.rebuild import Quarantine, Rebuild
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.families import family_of
from lshdb.signatures.family import Family
from lshdb.storage.dialects import database_of
from lshdb.storage.place.directory import IndexDirectory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.tables.records import MOST_DOC_ID
from lshdb.storage.transactions.consistency import remake_description, state_is_sound
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter

__all__ = ["ASIDE", "RepairResult", "remove_rebuilt", "repair_index"]

ASIDE = "repair"
"""Folder of an index in which another one is made that will replace it."""
_STATE = (
    "created_at", "library_version", "unicode_version", "signature_file", "next_doc_id",
    "index_bands",
)  # fmt: skip
"""Columns of the old state that the new one takes over."""


@dataclass(slots=True)
class RepairResult:
    """What a repair found, kept and lost.

    Attributes
    ----------
    findings : list of Finding
        Findings of a full check before it; if there are none, nothing was changed.
    documents : int
        Documents in the index, all proved.
    signed : int
        Signatures that were made again from texts or vectors.
    vouched : int
        Signatures that their postings proved.
    batches : list of int
        Batches whose figures had to be worked out.
    lost : list of str
        Keys of the documents that are out of the index; ``?`` for an unknown key.
    has_lost_fields : bool
        Whether there were kept fields that could not be proved.
    quarantine : Path or None
        The file with what is known about them.
    """

    findings: list[Finding] = field(default_factory=list)
    documents: int = 0
    signed: int = 0
    vouched: int = 0
    batches: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    has_lost_fields: bool = False
    quarantine: Path | None = None


def repair_index(
    path: Path,
    *,
    tokenizer: Tokenizer | str | None,
    lock_timeout: float,
    workers: int | None,
) -> RepairResult:
    """Repair an index; see :meth:`lshdb.Index.repair`."""
    tokenizer = given_tokenizer(tokenizer)
    lost = _repair_description(path, lock_timeout)
    with contextlib.closing(Store.open(path, is_damaged=True)) as store:
        name = store.params.tokenizer
        family = family_of(store.params, splitter(name, tokenizer) if name else None)
        store.use_orders(BandOrders(store.params.cut))
        workers = choose_workers(workers)
        result = _repaired(store, family, lock_timeout=lock_timeout, workers=workers)
        if lost and not result.findings:
            with store.reading() as snapshot:
                result.documents = snapshot.n_documents()
    result.findings[:0] = lost
    return result


def _repair_description(path: Path, lock_timeout: float) -> list[Finding]:
    """Write ``index.toml`` anew if it is lost, damaged, or of another moment than the database."""
    directory = IndexDirectory(path)
    damage = _damage_of_description(directory)
    if damage is None:
        return []
    database = database_of(directory.read_place(), path)
    lock = WriterLock(directory.lock, lock_timeout)
    lock.acquire()
    try:
        remake_description(directory, database)
    finally:
        lock.release()
    return [Finding("description", "index.toml", damage.message, "every document")]


def _damage_of_description(directory: IndexDirectory) -> LshdbError | None:
    try:
        directory.read_description()
    except FormatError as error:
        return error
    except IndexNotFoundError as error:
        if not directory.lacks_description():
            raise
        return error
    try:
        Store.open(directory.path, is_damaged=True).close()
    except ParameterMismatchError as error:
        if error.name == "uuid":  # it is another index's
            raise
        return error
    return None


def _repaired(store: Store, family: Family, *, lock_timeout: float, workers: int) -> RepairResult:
    with _said(store), store.reading() as snapshot:
        # A host without any signature file is not the one that writes. If a file with such a name
        # is there, a lost file is damage.
        if not any(store.directory.path.glob("signatures*.npy")):
            snapshot.require_signatures()
    lock = WriterLock(store.directory.lock, lock_timeout)
    lock.acquire()
    try:
        # A copy by VACUUM INTO has no write-ahead log: what reads it below would block its change.
        with contextlib.suppress(LshdbError, *store.database.driver_errors):
            store.database.open_writer().close()
        with _said(store), store.reading() as snapshot:
            result = RepairResult(list(check_index(snapshot, store.params)))
            if result.findings:
                _repair(store, snapshot, family, workers, result, lock_timeout)
        if not result.findings:
            _repair_orders(store, result)
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
    store.directory.refuse_linked(store.database)
    aside = store.directory.path / ASIDE
    remove_rebuilt(aside, store.uuid)
    state, old = _state(store, snapshot)
    with Quarantine(store.path) as quarantine:
        try:
            rebuild = Rebuild(snapshot, store.params, family, old, quarantine, workers)
            with (
                Store.making(aside, store.params, state=state) as rebuilt,
                Writer(rebuilt, lock_timeout=0.0) as writer,
            ):
                rebuild.build(writer, next_doc_id=state["next_doc_id"])
            _prove(aside)
            quarantine.keep()
            _publish(store, rebuilt, old, lock_timeout)
        finally:
            with contextlib.suppress(OSError, LshdbError):
                remove_rebuilt(aside, store.uuid)
    _repair_orders(store, RepairResult())
    result.documents, result.signed = rebuild.documents, rebuild.evidence.signed
    result.vouched, result.batches = rebuild.evidence.vouched, rebuild.history.rebuilt
    result.lost, result.quarantine = quarantine.keys, quarantine.path
    result.has_lost_fields = any(finding.kind == "kept_field" for finding in result.findings)


def _repair_orders(store: Store, result: RepairResult) -> None:
    """Write frozen orders again that are missing or belong to other rows.

    Everything that they follow from has been proved.
    """
    with contextlib.closing(Store.open(store.path)) as sound:
        sound.use_orders(BandOrders(store.params.cut))
        with sound.reading() as snapshot:
            result.findings = list(order_findings(snapshot))
            if result.findings:
                result.documents = sum(1 for _ in snapshot.document_keys())
        for finding in result.findings:
            with contextlib.suppress(OSError):
                (store.directory.path / finding.where).unlink()
        sound.use_orders(BandOrders(store.params.cut))
        sound.freeze()


def remove_rebuilt(aside: Path, uuid: str) -> None:
    """Remove a rebuilt index of the same uuid, and nothing but its files.

    Raises
    ------
    LshdbError
            There is something else, which is left unchanged.
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
                # The description goes last: until then it tells whose the rest is.
                for name in sorted(names, key=lambda name: name == "index.toml"):
                    os.unlink(name, dir_fd=folder)
    except (LshdbError, OSError) as error:
        why = str(error)
    if why is not None:
        raise LshdbError(
            f"the index is rebuilt in {aside}, which exists already and was not made by lshdb: "
            f"{why}; nothing was changed",
            hint="move it away",
        )
    aside.rmdir()


def _state(store: Store, snapshot: Snapshot) -> tuple[dict[str, Any], Generation]:
    """Return columns of the new table ``state``, and the existing row files."""
    stored = Inspection(snapshot.session).state(_STATE)
    is_sound = state_is_sound(snapshot.session) and stored["next_doc_id"] <= MOST_DOC_ID
    layouts = row_layouts(store.params)
    old = find_generation(store.directory.path, stored["signature_file"], layouts)
    return {
        "uuid": store.directory.read_description().uuid,
        **{name: str(stored[name]) for name in ("created_at", "library_version")},
        "unicode_version": str(stored["unicode_version"] or unicodedata.unidata_version),
        "signature_file": old.following().name,
        "next_doc_id": stored["next_doc_id"] if is_sound else 1,
        "index_bands": int(stored["index_bands"] == 1),
    }, old


def _prove(aside: Path) -> None:
    """Check the rebuilt index in full before it replaces the old one."""
    with contextlib.closing(Store.open(aside)) as rebuilt, rebuilt.reading() as snapshot:
        finding = next(check_index(snapshot, rebuilt.params), None)
    if finding is not None:
        raise DamageError(
            f"the rebuilt index is not sound: {finding.where}: {finding.what}; nothing was changed",
            hint="restore the index from a copy",
        )


def _publish(store: Store, rebuilt: Store, old: Generation, lock_timeout: float) -> None:
    """Replace the old index by the new one.

    The new row files are in place and synced before the database names them; the old ones stay
    until nothing names them.
    """
    for file, before in zip(old.following().files, old.files, strict=True):
        new = rebuilt.directory.path / file.path.name
        take_rights(new, before.path)
        os.replace(new, file.path)
    sync_directory(store.directory.path)
    replace_database(store, rebuilt, lock_timeout=lock_timeout)
    for file in old.files:
        file.path.unlink(missing_ok=True)


@contextlib.contextmanager
def _said(store: Store) -> Iterator[None]:
    """Translate errors of the disk and the database into ours."""
    try:
        yield
    except store.database.errors(OSError) as error:
        why = getattr(error, "strerror", None) or error
        hint = "check the permissions, and the free space: it needs room for a second index"
        raise DatabaseError(
            f"repairing the index {store.path} failed: {why}; it is unchanged",
            hint=write_hint(error, hint)
            if isinstance(error, OSError)
            else store.database.hint(error, hint),
        ) from error
