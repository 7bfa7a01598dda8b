"""Reading rows of documents, texts, kept fields and batches, each compared with its checksum."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lshdb.errors import DamageError, no_document
from lshdb.storage.dialects.base import Session
from lshdb.storage.tables.bodies import (
    WITHOUT_DICTIONARY,
    BodyCodec,
    codec_of,
    needs_dictionary,
    size_of_body,
)
from lshdb.storage.tables.records import (
    BATCH_COLUMNS,
    CHUNK,
    DOCUMENT_COLUMNS,
    IDENTITY,
    Cursor,
    StoredBatch,
    StoredDocument,
    WholeDocument,
    chunks,
    dated,
    may_be_key,
    possible_times,
    time_of_document_is,
)
from lshdb.storage.tables.stored_columns import verified_row

__all__ = ["Documents", "RowReader", "WrongTimes"]

_IS_AFTER = " OR ".join(time_of_document_is(name, ">") for name in ("added_at", "last_seen_at"))


def _is_older(since: str) -> tuple[str, tuple[str, str]]:
    """Return the condition that a document last came in before a time, and its parameters."""
    return time_of_document_is("last_seen_at", "<"), (since, since)


_BATCH_ID = DOCUMENT_COLUMNS.split(", ").index("batch_id")

WrongTimes = dict[int, tuple[str, str]]
"""When batches say that they began, and cannot have, and the latest time that it can have been."""
Documents = dict[int, list[tuple[int, str, int]]]
"""(doc_id, key, batch_id) of each document of some signatures, in order of doc_id."""


def _groups(cursors: Iterable[Iterable[Any]], n_bytes: int) -> Iterator[list[Any]]:
    """Yield rows, the last column of which is a packed body, of some bytes together."""
    for cursor in cursors:
        rows, room = [], n_bytes
        for row in cursor:
            rows.append(row)
            room -= len(row[-1])
            if room <= 0:
                yield rows
                rows, room = [], n_bytes
        if rows:
            yield rows


class RowReader:
    """Reads rows whole, inside one open transaction."""

    next_doc_id: int

    def __init__(self, session: Session) -> None:
        self.session = session
        self.execute = session.execute
        self.stream = session.stream
        self._batch_starts: dict[int, str] = {}

    # Documents

    def document(self, key: str) -> StoredDocument:
        """Return the document of a key.

        Raises
        ------
        KeyNotFoundError
        DamageError
            Its row is not what was written.
        """
        statement = f"SELECT {DOCUMENT_COLUMNS} FROM document WHERE key = ?"
        row = self.execute(statement, (key,)).fetchone() if may_be_key(key) else None
        if row is None:
            raise no_document(key)
        return StoredDocument(*self._values(row))

    def _values(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the fields of a document from its row, which is compared with its checksum."""
        values = verified_row("document", row)
        return dated(values, self.batch_start(values[_BATCH_ID]))

    def batch_start(self, batch_id: int) -> str:
        """Return when a batch began: its documents may have that time; "" if there is none.

        Raises
        ------
        DamageError
            Its row is not what was written.
        """
        start = self._batch_starts.get(batch_id)
        if start is None:
            statement = f"SELECT {BATCH_COLUMNS} FROM batch WHERE batch_id = ?"
            row = self.execute(statement, (batch_id,)).fetchone()
            start = "" if row is None else StoredBatch(*verified_row("batch", row)).started_at
            self._batch_starts[batch_id] = start
        return start

    def documents_of_keys(self, keys: Iterable[str]) -> dict[str, StoredDocument]:
        """Return documents by key, for the keys that exist.

        Raises
        ------
        DamageError
            A row is not what was written: it must be neither answered from nor written again.
        """
        if self.next_doc_id == 1:
            return {}
        keys = list(keys)
        if not may_be_key("".join(keys)):  # all at once: a tenth of the time
            keys = list(filter(may_be_key, keys))
        return {
            row[1]: StoredDocument(*self._values(row))
            for chunk in chunks(keys)
            for row in self.execute(
                f"SELECT {DOCUMENT_COLUMNS} FROM document WHERE {self.session.in_list('key')}",
                (self.session.encode_list(chunk),),
            )
        }

    def documents_beginning(self, prefixes: Iterable[str]) -> Iterator[StoredDocument]:
        """Yield the documents whose keys begin with one of some prefixes, in no order.

        Raises
        ------
        DamageError
            A row is not what was written.
        """
        if self.next_doc_id == 1:
            return
        names = ", ".join(f"document.{name}" for name in DOCUMENT_COLUMNS.split(", "))
        # CROSS JOIN keeps SQLite from reading all documents and looking for each in the list.
        statement = (
            f"SELECT {names} FROM {self.session.listed()} CROSS JOIN document "
            "WHERE document.key >= listed.value "
            "AND document.key < listed.value || CAST(? AS TEXT)"
        )
        for chunk in chunks(filter(may_be_key, prefixes)):
            parameters = (self.session.encode_list(chunk), "\U0010ffff")
            for row in self.session.fetch(statement, parameters):
                yield StoredDocument(*self._values(row))

    def not_seen(self, since: str, limit: int, but: WrongTimes) -> list[tuple[int, int | None]]:
        """Return (doc_id, signature_id) of the first ``limit`` documents not seen since a time.

        Reads all documents: there is no index by time. Those that came in at a wrong time, ``but``,
        are left out.

        Raises
        ------
        DamageError
            A row among them is not what was written: it may not be old at all.
        """
        (is_old, moments), (is_wrong, lists) = _is_older(since), self._is_dated("last_seen_at", but)
        rows = self.execute(
            f"SELECT {DOCUMENT_COLUMNS} FROM document WHERE {is_old} AND NOT {is_wrong} "
            "ORDER BY doc_id LIMIT ?",
            (*moments, *lists, limit),
        )
        documents = (StoredDocument(*self._values(row)) for row in rows)
        return [(document.doc_id, document.signature_id) for document in documents]

    def count_not_seen(self, since: str, but: WrongTimes) -> tuple[int, int]:
        """Return the number of documents that last came in before a time, and those of ``but``."""
        (is_old, moments), (is_wrong, lists) = _is_older(since), self._is_dated("last_seen_at", but)
        counts = [
            self.execute(f"SELECT count(*) FROM document WHERE {condition}", parameters).fetchone()
            for condition, parameters in (
                (f"{is_old} AND NOT {is_wrong}", (*moments, *lists)),
                (f"{is_old} AND {is_wrong}", (*moments, *lists)),
            )
        ]
        return int(counts[0][0]), int(counts[1][0])

    def n_documents_after(self, moment: str) -> int:
        """Return the number of documents that were added, or last came in, after a time."""
        row = self.execute(f"SELECT count(*) FROM document WHERE {_IS_AFTER}", (moment,) * 4)
        return int(row.fetchone()[0])

    def documents_dated(self, moment: str, wrong: WrongTimes, doc_id: int) -> list[StoredDocument]:
        """Return the first documents beyond one, by number, with wrong times or after a moment."""
        added, added_lists = self._is_dated("added_at", wrong)
        seen, seen_lists = self._is_dated("last_seen_at", wrong)
        rows = self.execute(
            f"SELECT {DOCUMENT_COLUMNS} FROM document WHERE doc_id > ? "
            f"AND ({_IS_AFTER} OR {added} OR {seen}) ORDER BY doc_id LIMIT ?",
            (doc_id, *(moment,) * 4, *added_lists, *seen_lists, CHUNK),
        )
        return [StoredDocument(*self._values(row)) for row in rows]

    def _is_dated(self, column: str, wrong: WrongTimes) -> tuple[str, tuple[Any, ...]]:
        """Return a condition that a document has a wrong time there, and its parameters."""
        time = self.session.in_list(f"coalesce(document.{column}, '')")
        batch = self.session.in_list("document.batch_id")
        return f"({time} OR document.{column} IS NULL AND {batch})", (
            self.session.encode_list([start for start, _ in wrong.values()]),
            self.session.encode_list(list(wrong)),
        )

    def whole_documents(self) -> Iterator[WholeDocument]:
        """Yield every document with its body as it is stored, streamed in order of doc_id.

        Raises
        ------
        DamageError
            A row is not what was written. Bodies are not checked: compare them with their hash.
        """
        rows = self.stream(
            f"SELECT form, body, {DOCUMENT_COLUMNS} FROM document LEFT JOIN content "
            "USING (doc_id) ORDER BY doc_id"
        )
        for row in rows:
            yield WholeDocument(*self._values(row[2:]), *row[:2])

    # Texts

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return what unpacks some frames; the dictionary is read if one of them needs it.

        Raises
        ------
        DamageError
            The dictionary is not what was written.
        """
        return self.codec if any(map(needs_dictionary, frames)) else WITHOUT_DICTIONARY

    @functools.cached_property
    def codec(self) -> BodyCodec:
        """What packs and unpacks the bodies of the index, with its dictionary if it has one.

        Raises
        ------
        DamageError
            The dictionary is not what was written.
        """
        database = self.session.database
        if database.codec is None:
            row = self.execute("SELECT body, hash FROM text_dictionary").fetchone()
            if row is None:
                return WITHOUT_DICTIONARY  # a later commit may bring one
            codec = codec_of(*row)
            if not self.session.is_reader:
                return codec  # its own transaction may have brought it, and fail
            database.codec = codec
        return database.codec

    def body(self, doc_id: int) -> Any:
        """Return the text or tokens of a document; None if texts are not stored.

        Raises
        ------
        DamageError
            It is not the one that was written.
        """
        row = self.execute(
            "SELECT form, body, body_hash, n_chars FROM content JOIN document USING (doc_id) "
            "WHERE doc_id = ?",
            (doc_id,),
        ).fetchone()
        if row is None:
            return None
        return self.codec_for([row[1]]).unpack(*row[:3], n_chars=row[3], doc_id=doc_id)

    def n_chars_of(self, doc_id: int) -> object:
        """Return the length of a document from its row; None if there is no row."""
        row = self.execute("SELECT n_chars FROM document WHERE doc_id = ?", (doc_id,)).fetchone()
        return None if row is None else row[0]

    def bodies_of_signatures(
        self, signature_ids: Sequence[int], documents: Documents | None = None
    ) -> Iterator[tuple[int, str | list[str] | frozenset[str]]]:
        """Yield one body for each signature that a document has: (signature_id, body).

        With ``documents``, which has the documents of every signature, only texts are looked up.
        Unlike :meth:`body`, does not compare the hash: for 24,000 texts of 1.5 KB that made
        ``pairs`` slower by 13 to 19 % (3.6 us a text for the hash, and 3 us for the row that has
        it). ``check`` compares them all.

        Raises
        ------
        DamageError
            A body cannot be decoded.
        """
        for chunk in chunks(signature_ids):
            for signature_id, doc_id, form, packed in self._bodies(chunk, documents):
                length = functools.partial(self.n_chars_of, doc_id)
                codec = self.codec_for([packed])
                yield signature_id, codec.unpack(form, packed, n_chars=length, doc_id=doc_id)

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[tuple[int, int, str, bytes]]]:
        """Yield lists of (signature_id, doc_id, form, packed), of one document for each signature.

        A list has ``n_bytes`` packed bytes and the rest of a text, or fewer. Sorted signatures take
        half the time of others: their rows lie side by side.
        """
        yield from _groups(map(self._first_bodies, chunks(signature_ids)), n_bytes)

    def bodies_in_groups(
        self, doc_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the doc_ids and the texts or tokens of documents, decompressed without the lock.

        As they come: in groups of ``n_bytes`` packed bytes and the rest of a text, or fewer. Does
        not compare their hashes, as :meth:`bodies_of_signatures` does not.

        Raises
        ------
        DamageError
            A body cannot be decoded.
        """
        cursors = (
            self.stream(
                f"SELECT doc_id, form, body FROM content WHERE {self.session.in_list('doc_id')}",
                (self.session.encode_list(chunk),),
            )
            for chunk in chunks(doc_ids)
        )
        for rows in _groups(cursors, n_bytes):
            codec = self.codec_for([row[2] for row in rows])
            usual = [row for row in rows if size_of_body(row[2]) is not None]
            if usual:
                yield [row[0] for row in usual], codec.unpack_many(usual)
            for doc_id, form, packed in rows if len(usual) < len(rows) else ():
                if size_of_body(packed) is None:
                    length = functools.partial(self.n_chars_of, doc_id)
                    yield [doc_id], [codec.unpack(form, packed, n_chars=length, doc_id=doc_id)]

    def _first_bodies(self, signature_ids: list[int]) -> Iterator[tuple[int, int, str, bytes]]:
        condition, parameters = self.session.is_one_of("signature_id", signature_ids)
        return self.stream(
            "SELECT first.signature_id, first.doc_id, content.form, content.body FROM "
            "(SELECT signature_id, min(doc_id) AS doc_id FROM document "
            f"WHERE {condition} GROUP BY signature_id) AS first "
            "JOIN content ON content.doc_id = first.doc_id",
            parameters,
        )

    def _bodies(
        self, signature_ids: list[int], documents: Documents | None
    ) -> Iterator[tuple[int, int, str, bytes]]:
        """Yield (signature_id, doc_id, form, body as stored) of first documents, as they come."""
        if documents is None:
            yield from self._first_bodies(signature_ids)
            return
        if len(signature_ids) == 1:  # as in most queries
            signature_id, doc_id = signature_ids[0], documents[signature_ids[0]][0][0]
            sql = "SELECT form, body FROM content WHERE doc_id = ?"
            yield from ((signature_id, doc_id, *row) for row in self.session.fetch(sql, (doc_id,)))
            return
        first = {documents[signature_id][0][0]: signature_id for signature_id in signature_ids}
        condition, parameters = self.session.is_one_of("doc_id", list(first))
        for doc_id, form, packed in self.stream(
            f"SELECT doc_id, form, body FROM content WHERE {condition}", parameters
        ):
            yield first[doc_id], doc_id, form, packed

    def bodies_of_documents(self, doc_ids: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield (doc_id, text or tokens) of the documents whose texts are stored.

        Raises
        ------
        DamageError
            One is not the one that was written.
        """
        for chunk in chunks(doc_ids):
            for doc_id, form, packed, body_hash, n_chars in self.stream(
                "SELECT doc_id, form, body, body_hash, n_chars FROM content "
                f"JOIN document USING (doc_id) WHERE {self.session.in_list('doc_id')}",
                (self.session.encode_list(chunk),),
            ):
                codec = self.codec_for([packed])
                body = codec.unpack(form, packed, body_hash, n_chars=n_chars, doc_id=doc_id)
                yield doc_id, body

    # Kept fields

    def fields_of(self, doc_ids: Iterable[int]) -> dict[int, str]:
        """Return kept fields by doc_id, as JSON objects, for the documents that have some.

        Raises
        ------
        DamageError
            A row is not what was written.
        """
        return {
            row[0]: verified_row("kept_field", row)[1]
            for chunk in chunks(doc_ids)
            for row in self.execute(
                "SELECT doc_id, fields, checksum FROM kept_field "
                f"WHERE {self.session.in_list('doc_id')}",
                (self.session.encode_list(chunk),),
            )
        }

    def has_fields(self) -> bool:
        """Return whether any document has kept fields."""
        return self.execute("SELECT 1 FROM kept_field LIMIT 1").fetchone() is not None

    def has_field(self, name: str) -> bool:
        """Return whether any document has that kept field; reads them all if none has."""
        statement = "SELECT 1 FROM document_field WHERE name = ? LIMIT 1"
        return self.execute(statement, (name,)).fetchone() is not None

    def field_names(self, most: int) -> list[str]:
        """Return the names of kept fields, ``most`` at most; reads all documents."""
        statement = "SELECT DISTINCT name FROM document_field ORDER BY name LIMIT ?"
        return [name for (name,) in self.execute(statement, (most,))]

    def kept_fields(self) -> Iterator[tuple[Any, ...]]:
        """Yield (doc_id, fields) of all documents that have some, verified, in order."""
        rows = self.session.stream("SELECT doc_id, fields, checksum FROM kept_field ORDER BY 1")
        return (verified_row("kept_field", row) for row in rows)

    # The whole index

    def identity(self) -> dict[str, Any]:
        """Return the columns ``IDENTITY`` of the table ``state``, by name."""
        row = self.execute(f"SELECT {', '.join(IDENTITY)} FROM state").fetchone()
        return dict(zip(IDENTITY, row, strict=True))

    def revision(self) -> str | None:
        """Return the revision of the schema; None if nothing says it."""
        row = self.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row else None

    def n_documents(self) -> int:
        """Return the number of documents, from what each batch added and removed.

        Raises
        ------
        DamageError
            More were removed than added.
        """
        (count,) = self.execute(
            "SELECT CAST(coalesce(sum(n_added), 0) - coalesce(sum(n_removed), 0) AS BIGINT) "
            "FROM batch"
        ).fetchone()
        if count < 0:
            raise DamageError(
                "the table batch counts more removed documents than added ones",
                hint="run lshdb check, and then lshdb check --repair",
            )
        return int(count)

    def count_unsigned(self) -> int:
        """Return the number of documents without a signature; costs as many entries of an index."""
        (count,) = self.execute(
            "SELECT count(*) FROM document WHERE signature_id IS NULL"
        ).fetchone()
        return int(count)

    def count_characters(self) -> int:
        """Return the sum of the lengths of all documents."""
        (count,) = self.execute("SELECT coalesce(sum(n_chars), 0) FROM document").fetchone()
        return int(count)

    # Batches

    def count_batches(self) -> int:
        """Return the number of batches."""
        (count,) = self.execute("SELECT count(*) FROM batch").fetchone()
        return int(count)

    def batches(self) -> list[StoredBatch]:
        """Return all batches, oldest first; raise a DamageError for a damaged one."""
        unfinished = {add_id for (add_id,) in self.execute("SELECT add_id FROM unfinished_add")}
        nights = self.nights()
        rows = self.session.fetch(f"SELECT {BATCH_COLUMNS} FROM batch ORDER BY batch_id")
        batches = [StoredBatch(*verified_row("batch", row)) for row in rows]
        return [
            replace(
                batch,
                has_ended=batch.add_id not in unfinished,
                night=nights.get(batch.add_id, ""),
            )
            for batch in batches
        ]

    def nights(self) -> dict[int, str]:
        """Return the name of the night of each add that has one."""
        rows = self.session.fetch("SELECT add_id, name, checksum FROM night ORDER BY add_id")
        return dict(verified_row("night", row) for row in rows)

    def last_add(self) -> int:
        """Return the first batch of the newest add that changed something; 1 if there is none.

        An add changed something if it added or replaced documents, or took over those of an add
        that did not end. An add of a night counts from the first add of that night on.
        """
        changed = (
            "FROM batch WHERE (n_added > 0 OR n_replaced > 0 "
            "OR (SELECT min(own.batch_id) FROM document AS own "
            "WHERE own.batch_id >= batch.batch_id) = batch.batch_id)"
        )
        # An add has the number of its first batch, so none before that of the newest one counts.
        (add_id,) = self.execute(
            f"SELECT max(add_id) {changed} AND batch_id >= "
            f"(SELECT add_id {changed} ORDER BY batch_id DESC LIMIT 1)"
        ).fetchone()
        nights = self.nights()
        if add_id not in nights:
            return add_id or 1
        return min(first for first, name in nights.items() if name == nights[add_id])

    def newest_batch(self) -> int:
        """Return the number of the newest batch; 0 if there is none."""
        (newest,) = self.execute("SELECT max(batch_id) FROM batch").fetchone()
        return newest or 0

    def batch_from(self, moment: str, now: str) -> int:
        """Return the first batch that began at a time or later; one past the newest if none did.

        A batch that cannot have begun when it says counts with the batch after it: it came in
        before that.
        """
        now = max(now, moment)
        wrong = self.session.encode_list(list(self.wrong_times(now)))
        (first,) = self.execute(
            "SELECT min(batch_id) FROM batch WHERE started_at BETWEEN ? AND ?", (moment, now)
        ).fetchone()
        (before,) = self.execute(
            "SELECT max(batch_id) FROM batch WHERE started_at <= ? AND batch_id < ? "
            f"AND NOT {self.session.in_list('batch_id')}",
            (now, first or self.newest_batch() + 1, wrong),
        ).fetchone()
        return (before or 0) + 1

    def batch_starts_from(self, moment: str) -> list[str]:
        """Return the times at which batches began, from one on."""
        rows = self.execute("SELECT started_at FROM batch WHERE started_at >= ?", (moment,))
        return [started_at for (started_at,) in rows]

    def wrong_times(self, now: str) -> WrongTimes:
        """Return the batches that cannot have begun when they say, with the times, by number."""
        starts = dict(self.session.fetch("SELECT batch_id, started_at FROM batch ORDER BY 1"))
        numbers = list(starts)
        return {
            numbers[place]: (starts[numbers[place]], possible)
            for place, possible in possible_times(list(starts.values()), now).items()
        }

    def batches_after(self, moment: str) -> list[int]:
        """Return the batches that began or ended after a time."""
        rows = self.execute(
            "SELECT batch_id FROM batch WHERE started_at > ? OR finished_at > ? ORDER BY batch_id",
            (moment, moment),
        )
        return [batch_id for (batch_id,) in rows]

    def cursors(self) -> list[Cursor]:
        """Return all cursors, by name; raise a DamageError for a damaged one."""
        rows = self.session.fetch(
            "SELECT name, batch_id, advanced_at, checksum FROM cursor ORDER BY name"
        )
        return [Cursor(*verified_row("cursor", row)) for row in rows]

    def unfinished_batches(self, *, but: int | None = None) -> frozenset[int]:
        """Return the batches of adds that did not end, except the current add ``but``."""
        rows = self.execute(
            "SELECT batch.batch_id FROM batch "
            "JOIN unfinished_add ON unfinished_add.add_id = batch.add_id WHERE batch.add_id <> ?",
            (but or 0,),
        )
        return frozenset(batch_id for (batch_id,) in rows)

    def last_batch(self) -> StoredBatch | None:
        """Return the newest batch; raise a DamageError if it is damaged."""
        row = self.execute(
            f"SELECT {BATCH_COLUMNS} FROM batch ORDER BY batch_id DESC LIMIT 1"
        ).fetchone()
        return None if row is None else StoredBatch(*verified_row("batch", row))
