"""An index of format 1 -> the same documents and history in today's format.

Format 1 was never released. Words are cut by other rules since then, so nothing of its signatures
counts. What is kept is what somebody put in or decided:

    documents   in their order: keys, bodies, sources, kept fields, and when each first and last
                came in, compared with their checksums and hashes
    batches     with their numbers, times and counts; which documents each brought; nights; adds
                that did not end
    cursors

The documents are signed anew, by the path of ``reindex``, into an index in a folder of the old one.
When it is whole, one transaction of the database drops the tables of format 1 and makes and fills
those of today. Killed at any moment before its commit, the upgrade leaves the old index; after it,
the new one. The new ``index.toml`` lies beside the old one until then, as ``index.next.toml``.

``storage/rows/format1_tables.py`` reads the tables of format 1.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import DamageError, FormatError, LshdbError, write_hint
from lshdb.files.descriptors import sync_directory
from lshdb.files.rights import take_rights
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.reindex import StoredText, add_stored
from lshdb.maintain.copy import at_rest, transfer_rows
from lshdb.maintain.repair import ASIDE, remove_rebuilt
from lshdb.params.index_params import FORMAT
from lshdb.phases.phase import counting
from lshdb.shingling import (
    TEXT_RULES,
    join_steps,
    parse_steps,
    stop_token_list,
    stop_word_list,
)
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.families import family_of
from lshdb.storage.dialects.base import Database, OpenDatabase, Session
from lshdb.storage.place.creation import make_tables
from lshdb.storage.place.directory import (
    Description,
    IndexDirectory,
)
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.rows.format1_tables import Format1Tables, drop_tables
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, hash_body, raw_body
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.tables.stored_columns import require_checksums, verified_row
from lshdb.storage.transactions.changes import WriteTransaction, load_batches
from lshdb.storage.transactions.consistency import (
    compare_description,
    params_of,
    stored_parameters,
)
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import in_chunks
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter

__all__ = ["replace_format_1", "settle_upgrade"]

REVISIONS = ("0006", "0007")
"""The schemas of format 1 that are read; they differ in nothing that is read."""
_CHUNK = 1000
_ADD = "lshdb add makes a new index of the same documents"


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Let an error say what helps: lshdb check, which hints name, reads today's format alone."""
    try:
        yield
    except DamageError as error:
        hint = f"restore the index from a copy; or {_ADD}"
        raise DamageError(error.message, hint=hint) from error


@_damage()
def replace_format_1(
    path: Path,
    description: Description,
    database: Database,
    connection: OpenDatabase,
    *,
    tokenizer: Tokenizer | str | None,
    workers: int | None,
    on_commit: Callable[[AddResult], None] | None,
) -> None:
    """Replace an index of format 1, in a transaction that the caller commits.

    Parameters
    ----------
    path : Path
        The writer lock is held.
    description : Description
        Its ``index.toml``.
    connection : OpenDatabase
        The open transaction on the database.
    tokenizer : Tokenizer or str, optional
        For an index whose shingles are of a tokenizer's tokens.
    workers : int, optional
        Threads that sign.
    on_commit : callable, optional
        Called with the counts so far.

    Raises
    ------
    FormatError
        It has no texts, or an older schema.
    DamageError
        Something is not as it was written.
    LshdbError
        The disk failed.
    """
    old = _OldIndex(path, description, database.session(connection), database)
    name = old.params.tokenizer
    family = family_of(old.params, splitter(name, given_tokenizer(tokenizer)) if name else None)
    directory, aside = IndexDirectory(path), path / ASIDE
    following = old.generation.following()
    remove_rebuilt(aside, description.uuid)
    state = {
        "uuid": description.uuid,
        "created_at": old.created_at,
        "signature_file": following.name,
    }
    try:
        with (
            Store.making(aside, old.params, state=state) as made,
            Writer(made, lock_timeout=0) as new,
        ):
            add_stored(
                new,
                old.documents(),
                old.tables.n_documents,
                f"upgrade of {path}",
                family,
                cuts_windows=False,
                workers=workers,
                on_commit=on_commit,
            )
            _restore_history(old, new)
        directory.write_description(
            Description(FORMAT, description.uuid, description.place, old.params.items()),
            is_next=True,
        )
        for file, before in zip(following.files, old.generation.files, strict=True):
            take_rights(aside / file.path.name, before.path)
            os.replace(aside / file.path.name, file.path)
        sync_directory(path)
        drop_tables(connection.alchemy)
        make_tables(connection, database, old.params.bands)
        with at_rest(made) as snapshot:
            transfer_rows(snapshot, database.session(connection))
        database.complete_bands(connection, old.params.bands)
    except BaseException as error:
        with contextlib.suppress(OSError):
            directory.next_description.unlink(missing_ok=True)
            for file in following.files:
                file.path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LshdbError(
                f"cannot upgrade the index {path}: {error.strerror or error}; it is as it was",
                hint=write_hint(error, "check its permissions, and the free space"),
            ) from error
        raise
    finally:
        with contextlib.suppress(OSError, LshdbError):
            remove_rebuilt(aside, description.uuid)


def settle_upgrade(path: Path) -> None:
    """Finish after the commit: the new ``index.toml``, orders, and what nothing names any more.

    The writer lock is held.
    """
    with contextlib.closing(Store.open(path)) as store:
        with store.reading() as snapshot:
            store.clear_leftovers(snapshot)
        remove_rebuilt(path / ASIDE, store.uuid)
        store.use_orders(BandOrders(store.params.cut))
        store.freeze()


class _OldIndex:
    """The documents and the history of an index of format 1.

    Attributes
    ----------
    params : IndexParams
        Of the new index.
    generation : Generation
        Its row files.
    """

    def __init__(
        self, path: Path, description: Description, session: Session, database: Database
    ) -> None:
        self.tables = Format1Tables(session, database)
        revision = self.tables.revision()
        if revision not in REVISIONS:
            raise FormatError(
                f"the index {path} has format 1 and schema revision {revision}; lshdb upgrade "
                f"reads revision {' and '.join(REVISIONS)} of format 1",
                hint=_ADD,
            )
        state = self.tables.state()
        self.created_at, self._n_signatures = state["created_at"], state["n_signatures"]
        stored = stored_parameters(session, database)
        compare_description(state["uuid"], stored, description, path, database)
        self.params = params_of(_today(stored), path)
        if not self.params.store_text:
            what = "vectors" if self.params.kind.is_dense else "texts"
            raise FormatError(
                f"the index {path} has format 1 and was made without {what}, which would have to "
                "be signed anew",
                hint=_ADD,
            )
        self.generation = Generation(
            path,
            state["signature_file"],
            row_layouts(self.params),
            is_outlying=not database.lies_in(path),
        )
        if not self.generation.is_here():
            self.generation.signatures.open()

    def documents(self) -> Iterator[StoredText]:
        """Yield the documents in their order.

        Raises
        ------
        DamageError
            A row or a body is not the one that was written.
        """
        for rows in in_chunks(self.tables.documents(), _CHUNK):
            vectors: Iterable[Any] = [None] * len(rows)
            if self.params.keeps_vectors:
                ids = [row[2] for row in rows]
                vectors = self.generation.vector_file.rows(self._n_signatures).of_documents(ids)
            for row, vector in zip(rows, vectors, strict=True):
                yield self._document(tuple(row), vector)

    def _document(self, row: tuple[Any, ...], vector: Any) -> StoredText:
        values = verified_row("document", row[:13])
        doc_id, key, _, _, body_hash, _, n_chars, source, _, added_at, last_seen_at, _ = values
        form, frame, fields, fields_checksum = row[13:]
        if fields is not None:
            require_checksums("kept_field", [(doc_id, fields, fields_checksum)])
            fields = orjson.loads(fields)
        body = vector
        if vector is None:
            if frame is None:
                raise DamageError(f"the text of {key!r} is missing")
            body = WITHOUT_DICTIONARY.unpack(form, frame, body_hash, n_chars=n_chars, doc_id=doc_id)
        elif hash_body(*raw_body(vector)) != body_hash:
            raise DamageError(f"the vector of {key!r} is not the one written")
        return StoredText(key, body, source, fields, added_at, last_seen_at)


def _today(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the new index: the same under today's rules for texts."""
    if "normalisation" not in stored:
        return stored
    steps = parse_steps(stored["normalisation"])
    normalisation = join_steps(("ignorable", *steps) if "nfkc" in steps else steps)
    stop_tokens = stored.get("stop_tokens")
    if isinstance(stop_tokens, str) and stop_tokens:
        listed = stop_word_list if stored.get("unit") == "word" else stop_token_list
        stop_tokens = listed(stop_tokens.split(), normalisation)
    return {
        **stored,
        "text_rules": TEXT_RULES,
        "normalisation": normalisation,
        "stop_tokens": stop_tokens,
    }


def _restore_history(old: _OldIndex, writer: Writer) -> None:
    """Put the batches, nights and cursors of the old index in the place of the upgrade's own."""
    tables = old.tables
    with writer.transaction() as transaction:
        transaction.session.delete_all("batch")
        load_batches(transaction, tables.batches())
    chunks = in_chunks(tables.batch_by_key(), 20 * _CHUNK)
    for chunk in counting(chunks, "documents", tables.n_documents, len):
        with writer.transaction() as transaction:
            _restore_batches(transaction, chunk)
    with writer.transaction() as transaction:
        for add_id in tables.unfinished_adds():
            transaction.begin_add(add_id)
        for add_id, name in tables.nights():
            transaction.name_night(add_id, name)
        for name, batch_id, advanced_at in tables.cursors():
            transaction.set_cursor(name, batch_id, advanced_at)


def _restore_batches(transaction: WriteTransaction, chunk: list[tuple[str, int]]) -> None:
    """Give documents the numbers of their batches, and all else as it is."""
    documents = transaction.snapshot.documents_of_keys(key for key, _ in chunk)
    groups: dict[tuple[int, str], list[StoredDocument]] = {}
    for key, batch_id in chunk:
        group = groups.setdefault((batch_id, documents[key].last_seen_at), [])
        group.append(documents[key])
    for (batch_id, seen_at), group in groups.items():
        transaction.touch_documents(group, seen_at, batch_id=batch_id)
