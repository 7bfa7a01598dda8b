"""The results of a check: findings, which are damage, and notes, which are not.

A finding names what is wrong, where, what it affects and what to do. A note tells what else is
worth knowing: other versions of Unicode, files left over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lshdb.errors import LshdbError
from lshdb.storage.orders.frozen import MOST_SORTED
from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.tables.records import timestamp, timestamp_in_future
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store

__all__ = ["Finding", "counted", "documents_affected", "notes"]


_KEYS_NAMED = 3
_FILES_NAMED = 3
_BATCHES_NAMED = 10
_REPAIR = "run lshdb check --repair, or restore the index from a copy"
_ADVICE = {
    "database": f"{_REPAIR}; check the disk, as others of its files may be damaged",
    "signatures": f"{_REPAIR}; rows are made again from texts, or proved by their postings",
    "vectors": f"{_REPAIR}; documents whose vector cannot be proved are moved into a file",
    "document": f"{_REPAIR}; documents that cannot be proved are moved into a file",
    "text": f"{_REPAIR}; documents without their text are moved into a file",
    "description": "run lshdb check --repair, which writes it anew from the database",
    "order": "run lshdb check --repair, which writes the file again, or remove the file",
    "edge": f"{_REPAIR}; edges are found again when you ask for clusters",
    "cluster": f"{_REPAIR}; clusters are found again when you ask for them",
}
"""Advice by kind; ``_REPAIR`` for other kinds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged part of an index.

    Attributes
    ----------
    kind : str
        What is damaged: ``description`` (``index.toml``), ``database``, ``header`` (of a row
        file), ``signatures``, ``vectors``, ``block`` (checksums of rows), ``run``, ``posting``,
        ``bucket size``, ``order`` (of bucket keys), ``document``, ``text``, ``batch``, ``state``,
        ``release``, ``edge``, ``cluster`` or ``count``.
    where : str
        File with rows and bytes, or table with the row.
    what : str
        What was found and what was expected.
    affected : str
        Keys of documents, or a number of things: what cannot be trusted.
    """

    kind: str
    where: str
    what: str
    affected: str

    @property
    def advice(self) -> str:
        """What to do next."""
        return _ADVICE.get(self.kind, _REPAIR)


def counted(n: int, what: str, many: str = "") -> str:
    """Return a number with its noun, in the plural where needed."""
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def documents_affected(snapshot: Snapshot, signature_ids: Sequence[int]) -> str:
    """Return the number and the first keys of the documents that have one of some signatures."""
    try:
        count, keys = Inspection(snapshot.session).keys_with(signature_ids, _KEYS_NAMED + 1)
    except LshdbError:
        return "documents that cannot be read"
    if not count:
        return "no document"
    names = keys[:_KEYS_NAMED] + ["..."] * (len(keys) > _KEYS_NAMED)
    return f"{counted(count, 'document')}: {', '.join(names)}"


def notes(store: Store, snapshot: Snapshot, *, quick: bool = False) -> Iterator[str]:
    """Yield the notes, one sentence each; a quick check does not count documents."""
    here = unicodedata.unidata_version
    other_versions = sorted(Inspection(snapshot.session).unicode_versions() - {here})
    if other_versions:
        yield (
            f"batches were signed with Unicode {', '.join(other_versions)}, and this interpreter "
            f"has {here}: assigned characters normalise alike in both"
        )
    if not quick:
        yield from _unassigned(snapshot)
    yield from _later_headers(store, snapshot)
    linked = store.directory.linked_files(store.database)
    if linked:
        names = ", ".join(path.name for path in linked)
        yield (
            f"another directory has hard links to {names}: no command changes the index, for the "
            "copy there would change as well"
        )
    yield from _wrong_times(snapshot, quick=quick)
    own = {store.directory.description.name, store.directory.lock.name}
    own |= {file.path.name for file in snapshot.generation.files}
    own |= {file.name for file in store.database.files}
    if snapshot.orders is not None and snapshot.has_signatures:
        files = snapshot.order_files()
        own |= {file.path.name for file in files}
        yield from dict.fromkeys(snapshot.orders.faults)
        n_covered = files[-1].name.last if files else 0
        if n_covered + MOST_SORTED < snapshot.n_signatures:
            yield (
                f"no frozen order covers the signatures from {n_covered} to "
                f"{snapshot.n_signatures - 1}: answers are the same, and each question sorts "
                "them first; the next add, or lshdb compact, makes it"
            )
    foreign = sorted(path for path in store.directory.path.iterdir() if path.name not in own)
    if len(foreign) <= _FILES_NAMED:
        yield from (f"{path} is not a file of the index; nothing reads it" for path in foreign)
    else:
        names = ", ".join(path.name for path in foreign[:_FILES_NAMED])
        yield (
            f"{len(foreign)} files in {store.directory.path} are not files of the index; "
            f"nothing reads them: {names}, ..."
        )


def _later_headers(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """Yield headers that count rows of no commit; the next write corrects them.

    A header is written after its commit: if it is still ahead of a newer state, no commit has its
    rows.
    """
    if not snapshot.has_signatures:
        return
    for file in snapshot.generation.files:
        if snapshot.is_behind(file):
            with store.reading() as newest:
                is_later = newest.generation.name == snapshot.generation.name
                if is_later and newest.is_behind(file):
                    yield (
                        f"the header of the {file.what} {file.path} counts more rows than the "
                        "database, as after a restore: what the database does not have is gone, "
                        "and the next write takes its place"
                    )


def _wrong_times(snapshot: Snapshot, *, quick: bool) -> Iterator[str]:
    """Yield what a clock has dated that was ahead, or behind."""
    now, future = timestamp(), timestamp_in_future()
    later = snapshot.batches_after(future)
    n_documents = 0 if quick else snapshot.n_documents_after(future)
    parts = [_named_batches(later)] * bool(later)
    parts += [counted(n_documents, "document")] * bool(n_documents)
    if parts:
        yield (
            f"{' and '.join(parts)} came in later than now, {now[:16]} UTC: a clock was ahead, or "
            "this one is behind; if this one is right, lshdb check --mend-times dates them"
        )
    out_of_order = sorted({*snapshot.wrong_times(now)} - {*later})
    if out_of_order:
        yield (
            f"{_named_batches(out_of_order)} began, by the time that is stored, before an earlier "
            "batch or after a later one: a clock was wrong; lshdb check --mend-times dates what "
            "came in then"
        )


def _named_batches(batches: Sequence[int]) -> str:
    names = [str(batch_id) for batch_id in batches[:_BATCHES_NAMED]]
    names += ["..."] * (len(batches) > _BATCHES_NAMED)
    return f"{counted(len(batches), 'batch', 'batches')} ({', '.join(names)})"


def _unassigned(snapshot: Snapshot) -> Iterator[str]:
    tables = Inspection(snapshot.session)
    for version, documents, characters in tables.unassigned_characters():
        texts = f"{counted(documents, 'document')} with {counted(characters, 'character')}"
        yield (
            f"{texts} that Unicode {version} did not assign when they were signed: a later version "
            "may normalise these otherwise"
        )
    unknown = tables.count_uncounted()
    if unknown:
        yield (f"{counted(unknown, 'document')} came in before unassigned characters were counted")
