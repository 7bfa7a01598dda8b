"""What one transaction sees of an index: every question that is answered from disk.

A snapshot is made inside an open transaction of a reader or the writer, and is valid until the
transaction ends. All of its SQL is plain text given to the DB-API driver (see ``dialects/`` for
why).

A query needs the signatures in its buckets, their documents, their rows, and their texts or
vectors (:class:`QuerySnapshot`). A ``Snapshot`` looks up each of them. On a database server each
look-up is a round trip; so one statement asks for all of it (``Reader.ask``), and a
:class:`BucketSnapshot` holds the result.

``verified_rows`` checks committed rows while it reads them for a writer that copies them. The
copies get new checksums, so damage that is missed then would never be found.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arrays import distinct, np
from lshdb.errors import DamageError, LshdbWarning, warn_caller
from lshdb.phases.phase import Phase
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.bands.postings import Postings, check_ids
from lshdb.storage.dialects.base import BucketContents, Session
from lshdb.storage.orders.frozen import Cover, OrderFolder
from lshdb.storage.orders.order_file import OrderFile
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.row_file import FileRows, RowFile
from lshdb.storage.rows.row_reader import (
    Documents,
    RowReader,
)
from lshdb.storage.tables.bodies import (
    SHORT_CHARACTERS,
    WITHOUT_DICTIONARY,
    BodyCodec,
    needs_dictionary,
)
from lshdb.storage.tables.records import (
    CHUNK,
    chunks,
    may_be_key,
    time_of_document,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.storage.rows.edges import EdgeTables

__all__ = ["BucketSnapshot", "Snapshot", "verified_rows"]

Ids: TypeAlias = "NDArray[np.int64]"
StoredText = str | list[str] | frozenset[str]

_NEW_SIGNATURES = (
    "SELECT signature_id FROM document WHERE batch_id >= ? AND +signature_id IS NOT NULL"
)
"""Uses the index on batches: the sign keeps SQLite from reading all documents by signature."""

_SHARED_SIGNATURES = (
    "SELECT signature_id FROM document WHERE signature_id IS NOT NULL "
    "GROUP BY signature_id HAVING count(*) > 1"
)

_MOST_TEXTS = 8
"""Documents whose texts are read together with their keys."""
_LOOK_UP = 8
"""What looking up a signature costs, in signatures that are read one after the other."""


class Snapshot(RowReader):
    """One consistent state of an index.

    Parameters
    ----------
    generation : callable
        Row files by the name of the signature file.
    more : callable, optional
        Opens another snapshot, which may be of a later state; see :meth:`twins`.
    orders : OrderFolder, optional
        Frozen orders of the index.

    Attributes
    ----------
    n_signatures : int
        Committed rows of the signature file.
    signatures : FileRows
        Those rows, read on demand.
    vectors : FileRows
        Rows of the vector file, if vectors are stored.
    uuid : str
        The index whose state it is.
    banding : str
        The parameters that can change during the life of an index, as stored.
    """

    def __init__(
        self,
        session: Session,
        generation: Callable[[str], Generation],
        *,
        more: Callable[[], AbstractContextManager[Snapshot]] | None = None,
        orders: OrderFolder | None = None,
    ) -> None:
        super().__init__(session)
        self._more = more
        self.orders = orders
        state = session.state()
        if state is None:
            raise DamageError(
                "the table state has no row, so nothing says how much is committed",
                hint="restore the index from a copy",
            )
        self._open_generation = generation
        self._generation: Generation | None = None
        self._has_signatures: bool | None = None
        self._file_name, self.n_signatures, self.next_doc_id, self.uuid, self.banding = state

    @functools.cached_property
    def bands(self) -> BandTable:
        """The buckets of all signatures, in SQL.

        Raises
        ------
        DamageError
            The number of bands is no number.
        """
        bands = (self.banding or "").partition(",")[0]
        if not bands.isdecimal():
            raise DamageError(
                f"the number of bands in the table parameter is {bands!r}",
                hint="run lshdb check, and restore the index from a copy",
            )
        return BandTable(self.session, int(bands))

    @functools.cached_property
    def postings(self) -> Postings:
        """Which signature lies in which bucket."""
        orders = self.orders
        return Postings(
            self.bands,
            self.n_signatures,
            cover=self._cover,
            on_failure=None if orders is None else orders.refuse,
        )

    def segments(self, ends: Iterable[int]) -> dict[int, int]:
        """Return the numbers that commits drew, by how many signatures there were after each.

        A number that no commit of this index left is absent.
        """
        condition, parameters = self.session.is_one_of("n_signatures", list(ends))
        statement = f"SELECT n_signatures, number FROM segment WHERE {condition}"
        return dict(self.session.fetch(statement, parameters))

    def order_files(self) -> list[OrderFile]:
        """Return the files of frozen orders that cover rows of this state."""
        if self.orders is None or not self.has_signatures:
            return []
        return self.orders.files(self)

    def _cover(self, sorts: bool) -> Cover | None:
        """Return the frozen orders of this state; see :meth:`OrderFolder.cover`."""
        if self.orders is None or not self.has_signatures:
            return None
        return self.orders.cover(self, sorts=sorts)

    @property
    def edges(self) -> EdgeTables:
        """Verified edges and clusters."""
        from lshdb.storage.rows.edges import EdgeTables

        return EdgeTables(self.session)

    @property
    def generation(self) -> Generation:
        """The row files of this state."""
        if self._generation is None:  # before Python 3.12, cached_property takes a lock
            self._generation = self._open_generation(self._file_name)
        return self._generation

    @property
    def signature_file(self) -> RowFile:
        """The signature file of this state."""
        return self.generation.signatures

    @property
    def vector_file(self) -> RowFile:
        """The vector file of this state.

        Raises
        ------
        TextNotStoredError
            Vectors are not stored.
        """
        return self.generation.vector_file

    @property
    def signatures(self) -> FileRows:
        """The committed signature rows, for reading.

        Raises
        ------
        SignaturesElsewhereError
            They are on another host.
        DamageError
            The file was cut or belongs to another index: its first block is checked once.
        """
        self._recognise()
        return self.signature_file.rows(self.n_signatures)

    @property
    def vectors(self) -> FileRows:
        """The committed rows of the vector file, for reading.

        Raises
        ------
        TextNotStoredError
            Vectors are not stored.
        SignaturesElsewhereError, DamageError
            As for :attr:`signatures`.
        """
        file = self.vector_file
        self.require_signatures()
        self._recognise()
        return file.rows(self.n_signatures)

    @property
    def has_signatures(self) -> bool:
        """Whether the row files are on this host; see ``generations.py``."""
        if self._has_signatures is None:
            self._has_signatures = self.generation.is_here()
        return self._has_signatures

    def require_signatures(self) -> None:
        """Raise SignaturesElsewhereError if the signature rows are on another host."""
        if not self.has_signatures:
            self.signature_file.open()

    def check_row_files(self, *, is_writer: bool = False) -> None:
        """Compare the headers of the row files with this state.

        A header is written after each commit. If it counts fewer rows than are committed, the
        writer was killed in between, or the file is an outdated copy of one that another host
        writes. Then the rows beyond its count are compared with their CRC-32. If it counts more,
        there was a later commit, or the database was restored from a copy of an earlier moment.

        Parameters
        ----------
        is_writer : bool
            Whether the caller holds the writer lock, so that there can be no later commit.

        Raises
        ------
        DamageError
            A file is damaged, or does not belong to this state.
        """
        for file in self.generation.files:
            counted = file.check_header(self.n_signatures)
            if counted < self.n_signatures:
                self._check_blocks(file, "first_row + n_rows > ? ORDER BY first_row", counted)
            elif is_writer and counted > self.n_signatures:
                self._take_back(file, counted)

    def is_behind(self, file: RowFile) -> bool:
        """Return whether the header of a file counts more rows than this state has."""
        try:
            return file.check_header(0) > self.n_signatures
        except DamageError:
            return False

    def _take_back(self, file: RowFile, counted: int) -> None:
        """Let the header of a file count the rows of this state again, if they are in the file.

        A process that is killed meanwhile leaves the old number or the new one.
        """
        n_rows = f"{counted} rows, the database {self.n_signatures}"
        try:
            self._check_blocks(file, "first_row >= ? ORDER BY first_row", 0)
        except DamageError as error:
            raise DamageError(
                f"the header of the {file.what} {file.path} counts {n_rows}, and these are not "
                f"in it: {error.message}",
                hint="the file belongs to another index, or to another history of this one: put "
                "the right one back, or restore the whole index from an lshdb copy; if texts are "
                "stored, lshdb check --repair makes the signatures again",
            ) from error
        file.set_header(self.n_signatures)
        warn_caller(
            LshdbWarning(
                f"the header of the {file.what} {file.path} counted {n_rows}, as after a restore: "
                "what the database does not have is gone, and the next rows take its place"
            )
        )

    def _recognise(self) -> None:
        """Tell this index's row files from another's, by the CRC-32 of their first block."""
        generation = self.generation
        if not generation.is_recognised:
            for file in generation.files:
                self._check_blocks(file, "first_row = ?", 0)
            generation.is_recognised = True

    def _check_blocks(self, file: RowFile, condition: str, value: int) -> None:
        blocks = self.session.fetch(
            f"SELECT first_row, n_rows, {file.layout.checksum} FROM signature_block "
            f"WHERE {condition}",
            (value,),
        )
        for block in blocks:
            file.check_block(*block)

    @contextmanager
    def twins(self, n: int) -> Iterator[list[Snapshot]]:
        """Open up to n snapshots of this same state, each for one thread.

        There are fewer, perhaps none, if something was committed since this one was opened.
        """
        with ExitStack() as stack:
            snapshots: list[Snapshot] = []
            for _ in range(n if self._more is not None else 0):
                snapshot = stack.enter_context(self._more())  # type: ignore[misc]
                if snapshot.same_state() != self.same_state():
                    break
                snapshots.append(snapshot)
            yield snapshots

    def same_state(self) -> tuple[Any, ...]:
        """Return what differs between two states of an index, except edges and clusters."""
        state: tuple[Any, ...] = self.execute(
            "SELECT signature_file, n_signatures, next_doc_id, (SELECT max(batch_id) FROM batch), "
            "(SELECT max(release_id) FROM signature_release) FROM state"
        ).fetchone()
        return tuple(state)

    def members(self, keys: bytes | bytearray) -> bytes:
        """Return the signatures in the buckets of one query, once per bucket.

        Parameters
        ----------
        keys : bytes or bytearray
            Its distinct bucket keys, native int64.

        Returns
        -------
        bytes
            Native int64, in no order.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        orders, cover = self.orders, self._cover(not self.session.has_band_indexes)
        if cover is not None and orders is not None:
            try:
                return cover.members(keys)
            except (OSError, ValueError) as error:
                orders.refuse(cover, error)
        return self.postings.members(np.frombuffer(keys, np.int64)).tobytes()

    def agreeing(
        self, keys: Ids, rows: NDArray[Any], *, most: int, least: int
    ) -> tuple[int, Ids] | None:
        """Return which signatures agree with queries in a band and in ``least`` slots.

        Parameters
        ----------
        keys : ndarray of int64, shape (n, bands)
            The bucket keys of a query in each row.
        rows : ndarray of uint16, shape (n, row_words)
        most : int
            Ends after the query with which so many are found.
        least : int

        Returns
        -------
        (int, ndarray of int64, shape (any, 4)) or None
            How many queries are done, and (query, signature, equal slots, bands that agree). None
            without frozen orders, or if they or the rows fail: :meth:`members_of` says how.
        """
        cover = self._cover(not self.session.has_band_indexes)
        if cover is None:
            return None
        return self.signatures.read_in_place(
            functools.partial(cover.agreeing, keys, rows, most, least), len(keys)
        )

    def members_of(self, keys: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Return for each query the signatures in its buckets; see :meth:`Postings.members_of`."""
        return self.postings.members_of(keys)

    # Documents

    def documents_of_file(self, name: str) -> range | None:
        """Return None: documents come from several adds, and files change between them."""
        return None

    def signatures_of_keys(self, keys: Iterable[str]) -> dict[str, int]:
        """Return signatures by key, for keys that exist and have one."""
        return {
            key: signature_id
            for chunk in chunks(filter(may_be_key, keys))
            for key, signature_id in self.execute(
                "SELECT key, signature_id FROM document "
                f"WHERE {self.session.in_list('key')} AND signature_id IS NOT NULL",
                (self.session.encode_list(chunk),),
            )
        }

    def documents_of_signatures(self, signature_ids: Iterable[int]) -> Documents:
        """Return (doc_id, key, batch_id) of each document with one of the signatures, by signature.

        A signature that no document has any longer is absent.
        """
        if isinstance(signature_ids, list) and len(signature_ids) == 1:  # as in most queries
            rows: list[Any] = self.session.fetch(
                "SELECT doc_id, key, batch_id FROM document WHERE signature_id = ? ORDER BY doc_id",
                signature_ids,
            )
            _require_texts([row[1] for row in rows])
            return {signature_ids[0]: rows} if rows else {}
        documents: Documents = {}
        for chunk in chunks(signature_ids):
            condition, parameters = self.session.is_one_of("signature_id", chunk)
            rows = self.session.fetch(
                "SELECT signature_id, doc_id, key, batch_id FROM document "
                f"WHERE {condition} ORDER BY signature_id, doc_id",
                parameters,
            )
            _require_texts([row[2] for row in rows])
            for signature_id, doc_id, key, batch_id in rows:
                documents.setdefault(signature_id, []).append((doc_id, key, batch_id))
        return documents

    def documents_and_texts(
        self, signature_ids: list[int]
    ) -> tuple[Documents, dict[int, StoredText]]:
        """Return the documents of signatures, and the texts of a few short ones, by one statement.

        Raises
        ------
        DamageError
            A body cannot be decoded.
        """
        if not 0 < len(signature_ids) <= _MOST_TEXTS:
            return self.documents_of_signatures(signature_ids), {}
        rows = self.session.fetch(
            "SELECT document.signature_id, document.doc_id, key, batch_id, form, body "
            "FROM document LEFT JOIN content ON content.doc_id = document.doc_id "
            "AND document.n_chars <= ? AND document.doc_id = (SELECT min(doc_id) FROM document "
            "AS copy WHERE copy.signature_id = document.signature_id) "
            f"WHERE document.signature_id IN ({','.join('?' * len(signature_ids))}) "
            "ORDER BY document.signature_id, document.doc_id",
            (SHORT_CHARACTERS, *signature_ids),
        )
        _require_texts([row[2] for row in rows])
        documents: Documents = {}
        texts: dict[int, StoredText] = {}
        for signature_id, doc_id, key, batch_id, form, packed in rows:
            documents.setdefault(signature_id, []).append((doc_id, key, batch_id))
            if packed is not None:
                length = functools.partial(self.n_chars_of, doc_id)
                codec = self.codec_for([packed])
                texts[signature_id] = codec.unpack(form, packed, n_chars=length, doc_id=doc_id)
        return documents, texts

    def document_columns(
        self, signature_ids: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[str]]:
        """Return every document with one of the signatures, as columns.

        Parameters
        ----------
        signature_ids : sequence of int
            Sorted, each once.

        Returns
        -------
        signature_ids, doc_ids, batch_ids : ndarray of int64, shape (n,)
            In order of signature, and in each of doc_id.
        keys : list of str
        """
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for chunk in chunks(signature_ids):
            condition, parameters = self.session.is_one_of("signature_id", chunk)
            rows = self.session.fetch(
                "SELECT signature_id, doc_id, batch_id, key FROM document "
                f"WHERE {condition} ORDER BY signature_id, doc_id",
                parameters,
            )
            for column, values in zip(columns, zip(*rows, strict=True), strict=bool(rows)):
                column += values
            _require_texts([row[3] for row in rows])
        ids, doc_ids, batches = (np.array(column, dtype=np.int64) for column in columns[:3])
        return ids, doc_ids, batches, columns[3]

    def documents_of_signature(self, signature_id: int) -> Iterator[tuple[int, str, int]]:
        """Stream (doc_id, key, batch_id) of each document with that signature."""
        rows = self.stream(
            "SELECT doc_id, key, batch_id FROM document WHERE signature_id = ? ORDER BY doc_id",
            (signature_id,),
        )
        return _with_texts(rows, 1)

    def signatures_of_contents(
        self,
        hashes: Container[bytes],
        keys: NDArray[np.int64],
        *,
        below: int | None = None,
        recent: NDArray[np.int64] | None = None,
    ) -> dict[bytes, tuple[int, int]]:
        """Return (signature_id, n_shingles) by content hash, for contents that a document has.

        Parameters
        ----------
        hashes : container of bytes
            Content hashes; only membership is tested.
        keys : ndarray of int64
            Their bucket keys in the content band.
        below : int, optional
            Signatures from this number on need not be looked for; by default all that were
            committed when the snapshot began.
        recent : ndarray of int64, optional
            More signatures that may have such contents.
        """
        stored: dict[bytes, tuple[int, int]] = {}
        if recent is not None:
            self._contents_of(recent, hashes, stored)
        distinct_keys = distinct(keys) if self.n_signatures else keys[:0]
        for start in range(0, len(distinct_keys), CHUNK * 10):
            candidates = self.postings.of_contents(
                distinct_keys[start : start + CHUNK * 10],
                below=self.n_signatures if below is None else below,
            )
            if candidates is None:
                self._contents_of_all(hashes, stored)
                break
            self._contents_of(candidates, hashes, stored)
        return stored

    def _contents_of(
        self, signature_ids: Ids, hashes: Container[bytes], stored: dict[bytes, tuple[int, int]]
    ) -> None:
        """Note which of some signatures have one of some contents."""
        for chunk in chunks(distinct(signature_ids).tolist()):
            # All documents of a signature have one content: the first of them says which, and only
            # its row is read, however many copies there are.
            for content_hash, signature_id, n_shingles in self.execute(
                "SELECT document.content_hash, first.signature_id, document.n_shingles FROM "
                "(SELECT signature_id, min(doc_id) AS doc_id FROM document "
                f"WHERE {self.session.in_list('signature_id')} GROUP BY signature_id) AS first "
                "JOIN document ON document.doc_id = first.doc_id",
                (self.session.encode_list(chunk),),
            ):
                if content_hash in hashes:
                    stored[content_hash] = (signature_id, n_shingles)

    def _contents_of_all(
        self, hashes: Container[bytes], stored: dict[bytes, tuple[int, int]]
    ) -> None:
        """Note which signatures have one of some contents: reads every document's row."""
        for content_hash, signature_id, n_shingles in self.stream(
            "SELECT content_hash, signature_id, n_shingles FROM document "
            "WHERE signature_id IS NOT NULL"
        ):
            if content_hash in hashes:
                stored[content_hash] = (signature_id, n_shingles)

    def content_hashes(self, first: int, last: int) -> dict[int, bytes]:
        """Return content hashes by signature, from first to last (left out).

        A signature that no document has any longer is absent.
        """
        rows = self.session.fetch(
            "SELECT signature_id, content_hash FROM document WHERE signature_id BETWEEN ? AND ?",
            (first, last - 1),
        )
        return dict(rows)

    def copies(self, among: NDArray[np.int64] | None = None) -> Iterator[tuple[int, int, str, int]]:
        """Yield (signature_id, doc_id, key, batch_id) of documents that share signatures, sorted.

        Parameters
        ----------
        among : ndarray of int64, optional
            Only these signatures, sorted and distinct; the cost is then theirs.
        """
        columns = "SELECT signature_id, doc_id, key, batch_id FROM document"
        order = "ORDER BY signature_id, doc_id"
        if among is None:
            every = f"{columns} WHERE signature_id IN ({_SHARED_SIGNATURES}) {order}"
            yield from _with_texts(self.stream(every), 2)
            return
        for chunk in chunks(self._shared_among(among)):
            condition, parameters = self.session.is_one_of("signature_id", chunk)
            rows = self.session.fetch(f"{columns} WHERE {condition} {order}", parameters)
            yield from _with_texts(rows, 2)

    def _shared_among(self, signature_ids: NDArray[np.int64]) -> list[int]:
        """Return which of some signatures, sorted and distinct, several documents have.

        What a night has made are neighbours at the end: the documents of all numbers between them
        are read one after the other. The others are looked up.
        """
        if not len(signature_ids):
            return []
        costs = _LOOK_UP * np.arange(len(signature_ids)) + signature_ids[-1] - signature_ids
        start = int(costs.argmin())
        shared: list[int] = []
        for chunk in chunks(signature_ids[:start].tolist()):
            condition, parameters = self.session.is_one_of("signature_id", chunk)
            rows = self.session.fetch(
                f"SELECT signature_id FROM document WHERE {condition} "
                "GROUP BY signature_id HAVING count(*) > 1 ORDER BY signature_id",
                parameters,
            )
            shared += [row[0] for row in rows]
        rest = signature_ids[start:]
        between = np.array(self.copied_between(int(rest[0]), int(rest[-1])), dtype=np.int64)
        shared += np.intersect1d(between, rest, assume_unique=True).tolist()
        return shared

    def shared_signatures(self) -> Iterator[int]:
        """Return the signatures that more than one document has."""
        return (row[0] for row in self.stream(_SHARED_SIGNATURES))

    def copy_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (signature ids, numbers of documents) of signatures with several documents."""
        rows = self.stream(
            "SELECT signature_id, count(*) FROM document WHERE signature_id IS NOT NULL "
            "GROUP BY signature_id HAVING count(*) > 1"
        )
        return _columns(rows)

    def new_counts(self, since: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same for documents of batch ``since`` or later, each signature once."""
        ids = np.fromiter((row[0] for row in self.execute(_NEW_SIGNATURES, (since,))), np.int64)
        ids, counts = np.unique(ids, return_counts=True)
        return ids, counts

    def set_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (signature ids, numbers of shingles) of all signatures that a document has."""
        rows = self.stream(
            "SELECT signature_id, max(n_shingles) FROM document WHERE signature_id IS NOT NULL "
            "GROUP BY signature_id ORDER BY signature_id"
        )
        return _columns(rows)

    def mean_length(self, signature_ids: NDArray[np.int64]) -> float:
        """Return the average number of characters in a document of some signatures."""
        (mean,) = self.execute(
            f"SELECT avg(n_chars) FROM document WHERE {self.session.in_list('signature_id')}",
            (self.session.encode_list(signature_ids),),
        ).fetchone()
        return float(mean or 0)

    def document_keys(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key) of every document, in the order in which they were added."""
        return _with_texts(self.stream("SELECT doc_id, key FROM document ORDER BY doc_id"), 1)

    def document_signatures(self) -> Iterator[tuple[int, int, int]]:
        """Yield (doc_id, signature_id, batch_id) of documents with a signature, in that order."""
        yield from self.stream(
            "SELECT doc_id, signature_id, batch_id FROM document "
            "WHERE signature_id IS NOT NULL ORDER BY doc_id"
        )

    def keys_of(self, doc_ids: NDArray[np.int64]) -> dict[int, str]:
        """Return keys by doc_id."""
        rows = self.execute(
            f"SELECT doc_id, key FROM document WHERE {self.session.in_list('doc_id')}",
            (self.session.encode_list(doc_ids),),
        )
        return dict(_with_texts(rows, 1))

    def values_of(self, doc_ids: NDArray[np.int64], column: str) -> list[object]:
        """Return a column of ``document`` for doc_ids that exist, in their order."""
        value = time_of_document(column) if column in ("added_at", "last_seen_at") else column
        values: dict[int, object] = {}
        for start in range(0, len(doc_ids), CHUNK * 10):
            values.update(
                self.execute(
                    f"SELECT doc_id, {value} FROM document WHERE {self.session.in_list('doc_id')}",
                    (self.session.encode_list(doc_ids[start : start + CHUNK * 10]),),
                )
            )
        return [values[doc_id] for doc_id in doc_ids.tolist()]

    def copied_between(self, first: int, last: int) -> list[int]:
        """Return the signatures from first to last that more than one document has."""
        rows = self.execute(
            "SELECT signature_id FROM document WHERE signature_id BETWEEN ? AND ? "
            "GROUP BY signature_id HAVING count(*) > 1",
            (first, last),
        )
        return [row[0] for row in rows]

    def new_signatures(self, since: int) -> NDArray[np.int64]:
        """Return the signatures of documents of batch ``since`` or later, sorted."""
        rows = self.execute(_NEW_SIGNATURES, (since,))
        return distinct(np.fromiter((row[0] for row in rows), dtype=np.int64))


def _columns(rows: Iterable[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows of two numbers as columns."""
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)
    return flat[0::2], flat[1::2]


def _require_texts(keys: list[str]) -> None:
    """Raise a TypeError if a key is no text: damage is found behind it, and no answer has it."""
    "".join(keys)


def _with_texts(rows: Iterable[Any], place: int) -> Iterator[Any]:
    """Yield rows; the same TypeError for a key, in that column."""
    for row in rows:
        if type(row[place]) is not str:
            raise TypeError(f"the key {row[place]!r:.100} is no text")
        yield row


def verified_rows(snapshot: Snapshot, file: RowFile) -> Iterator[NDArray[Any]]:
    """Yield all committed rows of a file in order, block by block, each checked by its CRC-32.

    Large vectors come in parts of blocks; an error comes after the parts of the damaged block.

    Parameters
    ----------
    file : RowFile
        One of the files of that state.

    Raises
    ------
    DamageError
        A block is damaged, or blocks do not cover the rows; the error names the file and rows.
    """
    expected = 0
    with Phase(f"{file.layout.kind}s", snapshot.n_signatures) as phase:
        for first, count, crc in snapshot.execute(
            f"SELECT first_row, n_rows, {file.layout.checksum} FROM signature_block "
            "ORDER BY first_row"
        ):
            if first != expected:
                break
            expected += count
            yield from file.checked(first, count, crc)
            phase.reached(expected)
    if expected != snapshot.n_signatures:
        raise DamageError(
            f"checksums cover {expected} rows of {file.path}; {snapshot.n_signatures} are "
            "committed",
            hint="run lshdb check; restore the index from a copy",
        )


class BucketSnapshot:
    """The state that answered one query; there is no transaction to ask for more.

    Parameters
    ----------
    answer : BucketContents
        The answer for the bucket keys of the query.
    generation : Generation
        The row files of that state; they have been recognised, or are on another host.
    codec : callable
        Gives what unpacks bodies that need the dictionary.
    """

    def __init__(
        self, answer: BucketContents, generation: Generation, codec: Callable[[], BodyCodec]
    ) -> None:
        self._answer = answer
        self._codec = codec
        self._generation = generation
        self._n_signatures = answer.state[1]

    @property
    def has_signatures(self) -> bool:
        """Whether the row files are here and not on another host."""
        return self._generation.is_here()

    @property
    def signatures(self) -> FileRows:
        """The committed signature rows."""
        return self._generation.signatures.rows(self._n_signatures)

    @property
    def vectors(self) -> FileRows:
        """The committed rows of the vector file; TextNotStoredError if vectors are not stored."""
        return self._generation.vector_file.rows(self._n_signatures)

    def members(self, keys: bytes | bytearray) -> bytes:
        """Return the candidates, as :meth:`members_of` does."""
        return next(self.members_of(np.frombuffer(keys, np.int64))).tobytes()

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """Return the candidates, once per bucket; the keys must be those of the answer."""
        postings = self._answer.postings
        members = np.repeat(
            np.fromiter(postings.keys(), dtype=np.int64, count=len(postings)),
            np.fromiter(postings.values(), dtype=np.int64, count=len(postings)),
        )
        check_ids(members, self._n_signatures)
        yield members

    def documents_of_signatures(self, signature_ids: Iterable[int]) -> Documents:
        """Return (doc_id, key, batch_id) of every document with one of the candidates."""
        documents = self._answer.documents
        return {
            signature_id: documents[signature_id]
            for signature_id in signature_ids
            if documents[signature_id]
        }

    def documents_and_texts(
        self, signature_ids: list[int]
    ) -> tuple[Documents, dict[int, StoredText]]:
        """Return the documents of candidates; :meth:`bodies_of_signatures` has their texts."""
        return self.documents_of_signatures(signature_ids), {}

    def bodies_of_signatures(
        self, signature_ids: Sequence[int], documents: Documents | None = None
    ) -> Iterator[tuple[int, StoredText]]:
        """Yield (signature_id, body) for each candidate that a document has."""
        bodies = self._answer.bodies
        for signature_id in signature_ids:
            if signature_id in bodies:
                form, packed, n_chars, doc_id = bodies[signature_id]
                codec = self._codec() if needs_dictionary(packed) else WITHOUT_DICTIONARY
                yield signature_id, codec.unpack(form, packed, n_chars=n_chars, doc_id=doc_id)
