"""What pairs, clusters and decisions ask of an index, whatever keeps it.

:class:`~lshdb.storage.transactions.snapshot.Snapshot` answers from tables and row files,
another state may answer from arrays and temporary files. The answers are the same, so a stage that
takes an :class:`IndexState` needs no database.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from lshdb.files.process import Process
from lshdb.params.index_params import IndexParams
from lshdb.storage.bands.postings import Postings
from lshdb.storage.rowfiles.row_file import FileRows
from lshdb.storage.rows.edges import Edges, EdgeState, Holders
from lshdb.storage.rows.row_reader import Documents
from lshdb.storage.tables.bodies import BodyCodec
from lshdb.storage.tables.records import Cursor, StoredBatch, StoredDocument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.arrays import np

__all__ = [
    "EdgeReader",
    "EdgeSink",
    "IndexState",
    "OpenIndex",
    "QuerySnapshot",
    "RowsAndTexts",
    "while_open",
]

Ids: TypeAlias = "NDArray[np.int64]"
_Item = TypeVar("_Item")


class EdgeReader(Protocol):
    """Verified edges and clusters; methods as of ``EdgeTables``."""

    def state(self) -> EdgeState | None:
        """Return what the edges cover; None before the first time."""

    def dead(self) -> Ids:
        """Return the signatures that no document has any more, sorted."""

    def last_release(self) -> int:
        """Return the number of the newest release."""

    def holders(self, signature_ids: Ids | None = None) -> Iterator[Holders]:
        """Yield the documents of some sorted signatures, or of all, a block at a time."""

    def edges(self, threshold: float) -> Iterator[Edges]:
        """Yield all edges of at least that similarity, in order of both ids."""

    def edges_between(self, first: int, last: int, threshold: float) -> Iterator[Edges]:
        """Yield the edges of signatures from first to last, with these on the left."""

    def contain(self, left: Ids, right: Ids, threshold: float) -> NDArray[np.bool_]:
        """Return which pairs are edges of at least that similarity."""

    def labels_by_signature(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return (signature ids, labels) of those of some signatures in a cluster, sorted."""

    def astray(self, labels: Ids) -> dict[int, int]:
        """Return clusters whose label's document has left: label to the first one still in it."""

    def members(self) -> Iterator[tuple[Ids, Ids]]:
        """Yield (signature ids, labels) of all clusters, in order of signature."""


class EdgeSink(EdgeReader, Protocol):
    """Edges and clusters while they are made for the first time."""

    def put_edges(self, edges: Edges, method: str) -> None:
        """Take edges; one that is there stays."""

    def put_members(self, signature_ids: Ids, labels: Ids) -> None:
        """Take members of clusters."""

    def put_state(self, state: EdgeState) -> None:
        """Note what the edges cover."""


class RowsAndTexts(Protocol):
    """The part of one state of an index that verifies pairs."""

    @property
    def has_signatures(self) -> bool:
        """Whether the row files are here and not on another host."""

    @property
    def signatures(self) -> FileRows:
        """The committed signature rows."""

    @property
    def vectors(self) -> FileRows:
        """The committed rows of the vector file, where vectors are kept."""

    def documents_of_signatures(self, signature_ids: Iterable[int]) -> Documents:
        """Return (doc_id, key, batch_id) of every document with one of the signatures."""

    def bodies_of_signatures(
        self, signature_ids: Sequence[int], documents: Documents | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield one body for each signature that a document has: (signature_id, body).

        Parameters
        ----------
        signature_ids : sequence of int
        documents : dict, optional
            Their documents, if they have been looked up.
        """


class QuerySnapshot(RowsAndTexts, Protocol):
    """The part of one state of an index that a query needs."""

    def documents_and_texts(self, signature_ids: list[int]) -> tuple[Documents, dict[int, Any]]:
        """Return what :meth:`documents_of_signatures` does, and texts that came with it.

        Those are the texts of a few short documents, by signature; others are left out.
        """

    def members(self, keys: bytes | bytearray) -> bytes:
        """Return the same as :meth:`members_of` for one query, native int64 as bytes."""

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """Return for each query the signatures in its buckets, unordered, once per bucket.

        Parameters
        ----------
        keys : ndarray of int64, shape (n, bands)
            The bucket keys of a query in each row.
        """


class IndexState(QuerySnapshot, Protocol):
    """One committed state of an index; methods as of ``Snapshot``."""

    def agreeing(
        self, keys: Ids, rows: NDArray[Any], *, most: int, least: int
    ) -> tuple[int, Ids] | None:
        """Return which signatures agree with queries in a band and in ``least`` slots."""

    def document(self, key: str) -> StoredDocument:
        """Return the document of a key; KeyNotFoundError if there is none."""

    def bodies_in_groups(
        self, doc_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the doc_ids and the texts or tokens of documents, some at a time."""

    @property
    def n_signatures(self) -> int:
        """FileRows that count."""

    @property
    def next_doc_id(self) -> int:
        """One more than the largest doc_id."""

    @property
    def postings(self) -> Postings:
        """Which signature lies in which bucket."""

    @property
    def edges(self) -> EdgeReader:
        """Verified edges and clusters."""

    def require_signatures(self) -> None:
        """Raise SignaturesElsewhereError if the signature rows are on another host."""

    def twins(self, n: int) -> AbstractContextManager[Sequence[IndexState]]:
        """Open up to n states like this one, each for one thread."""

    def document_columns(self, signature_ids: Sequence[int]) -> tuple[Ids, Ids, Ids, list[str]]:
        """Return every document with one of some sorted signatures, as columns."""

    def copies(self, among: Ids | None = None) -> Iterator[tuple[int, int, str, int]]:
        """Yield (signature_id, doc_id, key, batch_id) of documents that share signatures."""

    def shared_signatures(self) -> Iterator[int]:
        """Return the signatures that more than one document has."""

    def copied_between(self, first: int, last: int) -> list[int]:
        """Return the signatures from first to last that more than one document has."""

    def copy_counts(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of signatures with several documents."""

    def new_counts(self, since: int) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of documents since a batch."""

    def new_signatures(self, since: int) -> Ids:
        """Return the signatures of documents since a batch, sorted."""

    def set_sizes(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of shingles) of all signatures that a document has."""

    def mean_length(self, signature_ids: Ids) -> float:
        """Return the average number of characters in a document of some signatures."""

    def document_keys(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key) of every document, in order."""

    def document_signatures(self) -> Iterator[tuple[int, int, int]]:
        """Yield (doc_id, signature_id, batch_id) of documents with a signature, in order."""

    def documents_of_keys(self, keys: Iterable[str]) -> dict[str, StoredDocument]:
        """Return documents by key, for the keys that exist."""

    def documents_of_file(self, name: str) -> range | None:
        """Return the doc_ids of a file's documents, if each of its records is one, in order.

        Their sources are its name and the number of the line or record. None if it is not known.
        """

    def signatures_of_keys(self, keys: Iterable[str]) -> dict[str, int]:
        """Return signatures by key, for keys that exist and have one."""

    def keys_of(self, doc_ids: Ids) -> dict[int, str]:
        """Return keys by doc_id."""

    def values_of(self, doc_ids: Ids, column: str) -> list[object]:
        """Return a column of ``document`` for doc_ids that exist, in their order."""

    def fields_of(self, doc_ids: Iterable[int]) -> dict[int, str]:
        """Return kept fields by doc_id, as JSON objects, for the documents that have some."""

    def has_fields(self) -> bool:
        """Return whether any document has kept fields."""

    def has_field(self, name: str) -> bool:
        """Return whether any document has that kept field."""

    def field_names(self, most: int) -> list[str]:
        """Return the names of kept fields, up to so many."""

    def bodies_of_documents(self, doc_ids: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield (doc_id, text or tokens) of the documents whose texts are stored."""

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[tuple[int, int, str, bytes]]]:
        """Yield lists of (signature_id, doc_id, form, packed), of one document for each."""

    def n_chars_of(self, doc_id: int) -> object:
        """Return the length of a document from its row; None if there is no row."""

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return what unpacks some frames."""

    def newest_batch(self) -> int:
        """Return the number of the newest batch; 0 if there is none."""

    def last_batch(self) -> StoredBatch | None:
        """Return the newest batch; None where batches have no rows of their own."""

    def last_add(self) -> int:
        """Return the first batch of the newest add that changed something; 1 if there is none."""

    def batch_from(self, moment: str, now: str) -> int:
        """Return the first batch that began at a time or later; one past the newest if none did."""

    def cursors(self) -> list[Cursor]:
        """Return all cursors, by name."""


class OpenIndex(Protocol):
    """An index that questions can be put to; methods as of ``Store``."""

    params: IndexParams
    process: Process

    @property
    def is_closed(self) -> bool:
        """Whether it can answer no more."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    def reading(self) -> AbstractContextManager[IndexState]:
        """Open one committed state, for as long as the block lasts."""

    def answering(
        self, keys: bytes | bytearray, *, with_bodies: bool
    ) -> AbstractContextManager[QuerySnapshot]:
        """Open a state for one query: these buckets, their documents and their texts.

        Parameters
        ----------
        keys : bytes
            Distinct bucket keys, native int64: all that the query will ask for.
        with_bodies : bool
            Whether it will ask for texts.
        """

    def require_open(self) -> None:
        """Raise LshdbError if it is closed, or came into this process by a fork."""

    def refuse_inside(self, path: Path) -> None:
        """Raise ParameterError for a path inside the index."""


def while_open(store: OpenIndex, items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield the items until a store is closed; then raise as its ``require_open`` does.

    A generator of items is closed with this one, so it ends before the snapshot that it reads.
    """
    try:
        for item in items:
            yield item
            store.require_open()
    finally:
        if isinstance(items, Generator):
            items.close()
