"""``Index``: every public method, its documentation, and one call into the room that does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from lshdb.arguments import (
    Digits,
    Keep,
    Linkage,
    Measure,
    MetricName,
    OnConflict,
    OnConflictOfAdd,
    Only,
    TableFormat,
    Unit,
    Verify,
    check_folder_name,
    checks_names,
)
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    Body,
    Document,
    Given,
    Rejected,
)
from lshdb.errors import AllRejectedError, LockedError, LshdbError, ParameterError
from lshdb.handle import (
    Handle,
    Keys,
    count_documents,
    current_store,
    has_key,
    list_batches,
    map_signatures,
    require_whole_documents,
    tells,
)
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import OnProgress
from lshdb.result_tables import html_table
from lshdb.search.query import QueryAnswers, count_shingles, query_index, similarity
from lshdb.search.verification import MEMORY, has_signatures
from lshdb.storage.dialects import DatabasePlace
from lshdb.tokenizers import Tokenizer

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np

    from lshdb.advice.advice import Advice
    from lshdb.advice.label_agreement import Label
    from lshdb.documents.memory_tables import Table
    from lshdb.groups.deduplicated_table import DeduplicatedTable
    from lshdb.groups.deduplication import Decision, Deduplication
    from lshdb.groups.listing import Clusters
    from lshdb.groups.neighbors import NearestNeighbors, Neighbors
    from lshdb.groups.rewrite_files import RewrittenFile, RewrittenFiles, Survivors
    from lshdb.handle import Listing
    from lshdb.ingest.add_result import AddResult
    from lshdb.ingest.remove import RemoveResult
    from lshdb.maintain.check.findings import Finding
    from lshdb.maintain.mend_times import MendedTimes
    from lshdb.maintain.repair import RepairResult
    from lshdb.maintain.rewrite import RewriteResult
    from lshdb.maintain.stats import BucketCounts, IndexStats
    from lshdb.params.options import ExpectedParameters, Parameters
    from lshdb.report import ReportResult
    from lshdb.search.explain import Explanation, ShownDocument
    from lshdb.search.join import JoinedPairs
    from lshdb.search.loss import Loss
    from lshdb.search.measured_recall import MeasuredRecall
    from lshdb.search.pairs import PairSearch
    from lshdb.search.passages import Passage, PassageSearch
    from lshdb.search.since import Since
    from lshdb.search.sql import SqlResult
    from lshdb.search.verification import Hit, Hits
    from lshdb.search.vote import Vote
    from lshdb.search.word_diff import TextDiff
    from lshdb.signatures.family import Family
    from lshdb.storage.rows.edges import EdgeState
    from lshdb.storage.tables.records import Cursor, StoredBatch
    from lshdb.storage.transactions.store import Store
    from lshdb.transient.contraction import Contraction

__all__ = ["Index", "deduplicate"]

Path_ = str | os.PathLike[str]
_Table = TypeVar("_Table")


class Index:
    """A near-duplicate index on disk.

    Call :meth:`create` or :meth:`open` to get one. Use it as a context manager to close it.

    Any number of processes may read while one writes. A reader sees the last commit before its
    question. A second writer waits for the first. If another process changes the bands
    (:meth:`reband`), an open index opens itself again at its next question.

    Several threads may use one index at once. A query holds Python's global lock for most of its
    time, so threads share about one core: use them to serve requests, not to answer faster. For
    many queries use :meth:`query_many`, which answers them together, in blocks, and with
    ``workers`` on several cores. To serve requests on all cores, run one process for each core and
    open the index in each process: an open index does not survive a fork.

    ``len(index)`` counts documents, ``key in index`` looks for one, and iterating gives all keys.
    You can iterate the results of :meth:`pairs`, :meth:`clusters`, :meth:`dedup`, :meth:`filter`,
    :meth:`neighbors`, :meth:`join` and :meth:`query_many` more than once: each iteration asks
    again. These methods check their arguments when you call them.

    Examples
    --------
    >>> with Index.create("news.lshdb", threshold=0.8) as index:       # doctest: +SKIP
    ...     index.add([("a", "the quick brown fox jumps over the dog")])
    ...     index.query("the quick brown fox jumps over the dog", top=10)
    """

    def __init__(self, handle: Handle) -> None:
        if not isinstance(handle, Handle):
            raise ParameterError(
                f"Index was called with {handle!r:.80}, and opens nothing by itself",
                hint="use Index.open(path), or Index.create(path) for a new index",
            )
        self._handle = handle

    @property
    def _store(self) -> Store:
        return self._handle.now[0]

    @property
    def _family(self) -> Family:
        return self._handle.now[1]

    @classmethod
    @checks_names
    def create(
        cls,
        path: Path_,
        *,
        metric: MetricName = "jaccard",
        threshold: float | None = None,
        recall: float | None = None,
        bands: int | None = None,
        rows: int | None = None,
        num_perm: int | None = None,
        scheme: str | None = None,
        seed: int = 1,
        dim: int | None = None,
        dtype: str | None = None,
        width: float | None = None,
        sample: Iterable[Body] | None = None,
        unit: Unit | None = None,
        k: int | None = None,
        bag: bool = False,
        lowercase: bool | None = None,
        strip_accents: bool = False,
        strip_punctuation: bool = False,
        digits: Digits = "keep",
        stop_tokens: str | Iterable[str] | None = None,
        stop_words: Iterable[str] | None = None,
        passages: tuple[int, int] | str | None = None,
        tokenizer: Tokenizer | str | None = None,
        store_text: bool = True,
        database: str | None = None,
        schema: str | None = None,
        index_bands: bool = False,
        deferred: bool = False,
        lock_timeout: float = 60.0,
    ) -> Index:
        """Create an empty index and open it.

        Parameters
        ----------
        path : path-like
            Directory to create. It must not exist; its parent must. A URL, ``:memory:`` and the
            name of a file (``news.parquet``) are refused.
        metric : str
            Measure of similarity or distance; see ``docs/families.md``.
        threshold : float, optional
            Lowest similarity, or largest distance, of near-duplicates; inclusive. Default 0.8 for
            similarities. Required for distances.
        recall : float, optional
            Probability of finding a pair at the threshold; 0.99 unless you give bands.
        bands, rows : int, optional
            Override the choice made from threshold and recall.
        num_perm : int, optional
            Slots in a signature; each takes 2 bytes or one bit on disk. 128 for sets; for vectors
            and bits, as many as the bands use.
        scheme : str, optional
            Family of hash functions; by default the metric's first (``fss`` for jaccard).
        seed : int
            Seed of the hash functions. Indexes with equal parameters are comparable.
        dim : int, optional
            Dimension of vectors, or number of bits.
        dtype : {"float32", "float64", "float16", "uint8"}, optional
            Type in which vectors are stored; other types are converted.
        width : float, optional
            For l1 and l2: width of the pieces that projections are cut into; chosen by default.
            For scheme ``unary``: the largest number.
        sample : iterable, optional
            A few hundred bodies (not documents) like those you will add. Bands and width are
            chosen for the similarities among them instead of those of a typical corpus.
        unit : {"word", "char", "byte", "line", "token", "url", "url-host", "tokenizer"}, optional
            What shingles are made of; words, unless you give a tokenizer.
        k : int, optional
            Units in a shingle: 5 words or tokens, 9 characters or bytes, 3 lines, 2 tokens of a
            URL. It applies to texts and lists of tokens; in a set each token is a shingle.
        bag : bool
            Count a repeated shingle again.
        lowercase : bool, optional
            Fold letter case; the default for word, char, line and url.
        strip_accents, strip_punctuation : bool
            Drop accents, Hebrew points and Arabic vowels; turn punctuation and symbols into blanks.
        digits : {"keep", "zero"}
            With ``zero``, turn every number into 0.
        stop_tokens : iterable of str, or str, optional
            For unit ``url``: tokens to leave out of URLs, instead of the default list. A string is
            split at white space.
        stop_words : iterable of str, optional
            For unit ``word``: words to leave out of texts before they are shingled, such as
            :func:`lshdb.published_stop_words` of a language. The index stores them.
        passages : (int, int) or str, optional
            Words in a window and words from one window to the next, such as ``(200, 100)``: the
            index keeps windows of each document instead of the document, and :meth:`passages` finds
            what documents share. The threshold, 0.3 by default, is then one of windows.
        tokenizer : Tokenizer or str, optional
            Tokenizer that splits texts, or the name of an installed one.
        store_text : bool
            Store texts, or vectors, for exact verification. Otherwise similarities are estimates.
        database : str, optional
            URL of the database, if it is not ``index.db`` in the directory:
            ``sqlite:///PATH`` or ``postgresql+psycopg://HOST/NAME``, without a password.
        schema : str, optional
            Schema in a Postgres database; by default it has the name of the directory.
        index_bands : bool
            Index each column of the table ``band`` in SQLite, for SQL of your own that looks for
            buckets; see ``docs/guides/sql.md``. Postgres always has these indexes.
        deferred : bool
            Create the index with its first commit. If the first add fails, is killed or accepts
            no document, or if you close the index without a commit, nothing is created.
        lock_timeout : float
            Seconds to wait for another process that is creating an index there.

        Raises
        ------
        ParameterError
            A value is out of range; nothing was created.
        IndexExistsError
            Something is at the path already; it was not changed.
        LockedError
            Another process is creating an index there.
        TokenizerError
            No tokenizer of that name is installed.
        LshdbError
            The directory cannot be created.
        """
        from lshdb.params.options import CreateOptions

        options = CreateOptions(
            metric=metric, threshold=threshold, recall=recall, bands=bands, rows=rows,
            num_perm=num_perm, scheme=scheme, seed=seed, dim=dim, dtype=dtype, width=width,
            unit=unit, k=k, bag=bag, lowercase=lowercase, strip_accents=strip_accents,
            strip_punctuation=strip_punctuation, digits=digits, stop_tokens=stop_tokens,
            stop_words=stop_words, passages=passages, store_text=store_text,
        )  # fmt: skip
        place = DatabasePlace(database, schema)
        handle = Handle.create(
            Path(path), options, sample=sample, tokenizer=tokenizer, place=place,
            index_bands=index_bands, deferred=deferred, lock_timeout=lock_timeout,
        )  # fmt: skip
        return cls(handle)

    @classmethod
    @tells
    def from_export(
        cls,
        folder: Path_,
        path: Path_,
        *,
        database: str | None = None,
        schema: str | None = None,
        tokenizer: Tokenizer | str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Index:
        """Create an index from an export (:meth:`export`) and open it; nothing is signed again.

        It has the same uuid, documents, signatures and numbers, and gives the same answers.

        Parameters
        ----------
        folder : path-like
            The export, of any format. A dataset may also be a URI that deltalake reaches
            (``s3://``), with credentials from the environment.
        path : path-like
            Directory to create; its parent must exist.
        database : str, optional
            URL of the database, if it is not ``index.db`` in the directory:
            ``sqlite:///PATH`` or ``postgresql+psycopg://HOST/NAME``, without a password.
        schema : str, optional
            Schema in a Postgres database; by default it has the name of the directory.
        tokenizer : Tokenizer or str, optional
            As for :meth:`open`.
        on_progress : callable, optional
            As for :meth:`add`.

        Raises
        ------
        InputError, IndexNotFoundError
            The folder holds no export.
        DamageError
            A file is missing or damaged; the error names it.
        FormatError
            The export has another format.
        IndexExistsError
            Something is at the path already.
        ParameterError, LockedError, DatabaseError, LshdbError
            After any error there is no index.
        """
        from lshdb.dataset.commits import is_dataset

        place = DatabasePlace(database, schema)
        source = os.fspath(folder)
        if is_dataset(source):
            from lshdb.dataset.dataset_import import import_dataset

            import_dataset(source, Path(path), place=place)
        else:
            from lshdb.exchange.importer import import_export

            import_export(Path(source), Path(path), place=place)
        return cls.open(path, tokenizer=tokenizer)

    @classmethod
    def open(
        cls,
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        **expected: Unpack[ExpectedParameters],
    ) -> Index:
        """Open an index; the cost does not depend on its size.

        Parameters
        ----------
        path : path-like
        tokenizer : Tokenizer or str, optional
            The index's tokenizer, or the name of an installed one. By default the index looks for
            its tokenizer among the installed ones when it first has to split a text.
        **expected
            Parameters and options of :meth:`create` by name (``threshold=0.8, k=5``) that the
            index must have.

        Raises
        ------
        IndexNotFoundError
            There is no index.
        ParameterMismatchError
            A parameter differs, or the files belong to different indexes; names both values.
        FormatError
            The index has another format or schema.
        DamageError
            The signature file does not fit the database.
        """
        return cls(Handle.open(Path(path), tokenizer, expected))

    def refresh(self) -> bool:
        """Open the index again if another one lies at its path now; takes microseconds if not.

        An open index answers from the files that it opened, also after somebody has moved, deleted
        or replaced them. Call this before a question if that may happen, as ``lshdb serve`` does.

        Returns
        -------
        bool
            Whether it was opened again. Parameters may differ then.

        Raises
        ------
        IndexNotFoundError
            There is no index at the path any more. Once there is one, the next call opens it.
        FormatError, ParameterMismatchError, DamageError, DatabaseError
            What lies there cannot be opened. This index goes on answering from its own files.
        """
        return self._handle.refresh()

    def close(self) -> None:
        """Close the index; its iterators raise an error at their next step."""
        self._handle.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            said = f"{len(self):,} documents, threshold {self.params.threshold:g}"
        except LshdbError:
            said = "closed" if self._store.is_closed else "cannot be read"
        return f"Index({str(self.path)!r}, {said})"

    def _repr_html_(self) -> str:
        """Return what :meth:`stats` says first, for a notebook."""
        try:
            return self.stats().html(repr(self))
        except LshdbError:  # it is closed
            return html_table(repr(self), (), ())

    @property
    def path(self) -> Path:
        """The index directory, also before the first commit of a deferred index."""
        return self._store.path

    @property
    def params(self) -> IndexParams:
        """The index's parameters, as created or last rebanded."""
        return self._handle.now[0].params

    @property
    def has_signatures(self) -> bool:
        """Whether the signature file is on this host."""
        return self._handle.ask(lambda store, _: has_signatures(store))

    @property
    def signatures(self) -> np.memmap[Any, np.dtype[np.uint16]]:
        """The committed signature rows as a read-only :class:`numpy.memmap` of uint16.

        Row ``i`` is signature ``i``, as in the column ``signature_id`` of :meth:`sql`. A map never
        changes and stays valid for as long as you hold it, even after you close the index. Read the
        property again to see later commits. :meth:`compact` writes a new file and renumbers
        signatures; an older map still shows the old file.

        Raises
        ------
        SignaturesElsewhereError, DamageError
        """
        return self._handle.ask(map_signatures)

    def __len__(self) -> int:
        """Return the number of documents, in microseconds."""
        return self._handle.ask(count_documents)

    def __bool__(self) -> bool:
        """Return True, even if the index is empty."""
        return True

    def __contains__(self, key: object) -> bool:
        """Return whether a document has this key."""
        return self._handle.ask(has_key, key)

    def __iter__(self) -> Iterator[str]:
        """Stream the keys of all documents, in the order in which they were added."""
        return iter(Keys(self._handle))

    # Changes

    @tells
    def add(
        self,
        documents: Iterable[Given] | Table,
        *,
        key: str | None = "id",
        text: str | Sequence[str] | None = None,
        vector: str | None = None,
        keep: str | Sequence[str] = (),
        on_conflict: OnConflictOfAdd = "replace",
        max_errors: int | None = None,
        source: str = "",
        night: str = "",
        lock_timeout: float = 60.0,
        workers: int | None = None,
        on_reject: Callable[[Rejected], None] | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        on_wait: Callable[[LockedError], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AddResult:
        """Add documents in batches, committing them as they fill.

        Parameters
        ----------
        documents : iterable or table
            (key, text) pairs, (key, ready tokens) pairs, the documents of
            :func:`lshdb.read_documents`, or dicts. Or a table of which each row is a document, of
            any kind that :func:`deduplicate` takes (extra ``lshdb[parquet]``); with ``key=None``
            also texts alone. Read once, as a stream. Tokens in a list or tuple are
            ordered: k consecutive ones are a shingle. Tokens in a set are not: each is a shingle,
            whatever k is. For unit ``url`` a text holds one URL per line, and a list or set one
            per item.
        key : str, optional
            The column of a table that holds the keys: strings or whole numbers. In pandas also
            the name of the index. None takes row numbers from 0; if there is a ``source``, behind
            it and a colon.
        text, vector : str, optional
            The column of the texts or weights (``text`` by default), or of the vectors or bits
            (``vector``). Texts of several columns are joined in that order, with a blank line
            between.
        keep : str or sequence of str
            Columns whose values are kept with the document.
        on_conflict : {"replace", "skip", "error", "unite"}
            What to do if the key exists with another text. The same text is always left as it is;
            only ``last_seen_at`` changes. This also holds for the same set, and for the same list
            in another order if k is 1 and texts are stored. For lists of URLs that are stored,
            ``"unite"`` keeps the URLs that were there and adds those that are new.
        max_errors : int, optional
            Stop when more inputs than this are rejected; unlimited by default.
        source : str
            Recorded with the batches.
        night : str
            A name for several adds that count as one for ``since="last"``: the feeds of a night.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; one per core by default. Their number does not affect the index.
        on_reject : callable, optional
            Called with each rejected input.
        on_commit : callable, optional
            Called after each commit with the counts so far.
        on_wait : callable, optional
            Called before waiting for another writer, with the error that you get if the wait is too
            long; it says who that is.
        on_progress : callable, optional
            Called with what is done, the total (None if unknown) and the unit, such as
            ``"documents"``: at both ends of a phase of the work and, between, at most twenty
            times a second. What it raises ends the call. :func:`lshdb.progress` makes a bar.

        Returns
        -------
        AddResult

        Raises
        ------
        LockedError
            Another process is writing.
        ConflictError
            ``on_conflict="error"`` and a key exists with another text.
        TooManyRejectedError
            More than max_errors inputs were rejected.
        AllRejectedError
            Every input was rejected; the error holds the result with the reasons. The batch is
            recorded with its number of rejections, unless the index was just being created.
        ParameterError, InputError
            ``documents`` is one string, document or dict, or an item is not a document. A table
            lacks a column, holds values that cannot be documents, or pyarrow is not installed.
        TokenizerError, ParameterMismatchError
            The index's tokenizer failed, or is not installed in this version.
        DatabaseError
            The disk or the database failed.

        Notes
        -----
        If an add is interrupted and a later one brings the same documents again, both count as one
        for ``since="last"``; ``AddResult.resumed`` counts the documents taken over.

        After any error, batches committed before stay, and nothing of the current batch is in the
        index. Of a list, and of files, one commit takes as many batches as come within five
        seconds; from a generator each batch is a commit. Cost and memory depend on what you add,
        not on the size of the index.
        """
        from lshdb.documents.frames import given_rows
        from lshdb.ingest.add import add_documents

        return self._handle.ask(
            lambda store, family: add_documents(
                store,
                given_rows(
                    documents, key=key, text=text, vector=vector, keep=keep, source=source,
                    params=family.params,
                ),
                family=family, source=source, on_conflict=on_conflict,
                max_errors=max_errors, night=night, lock_timeout=lock_timeout, workers=workers,
                on_reject=on_reject, on_commit=on_commit, on_wait=on_wait,
            )
        )  # fmt: skip

    @tells
    def remove(
        self,
        keys: str | Iterable[str],
        *,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> RemoveResult:
        """Remove documents; no answer contains them from the commit on.

        Their signatures and postings stay on disk and are skipped. :meth:`compact` removes them.

        Parameters
        ----------
        keys : str or iterable of str
            A string is one key.
        lock_timeout : float
            Seconds to wait for another writer.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        RemoveResult
            Includes the keys that no document had.

        Raises
        ------
        ParameterError
            A key is not a string; nothing was removed.
        LockedError, DatabaseError
        """
        from lshdb.ingest.remove import remove_documents

        return self._handle.ask(
            lambda store, _: remove_documents(store, keys, lock_timeout=lock_timeout)
        )

    @tells
    def expire(
        self,
        since: datetime,
        *,
        dry_run: bool = False,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> RemoveResult:
        """Remove documents that were last added, changed or not, before a time.

        Parameters
        ----------
        since : datetime
            Read as UTC if it has no time zone.
        dry_run : bool
            Only count them.
        lock_timeout : float
            Seconds to wait for another writer.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        RemoveResult

        Raises
        ------
        ParameterError, LockedError, DatabaseError

        Notes
        -----
        Each commit removes 40,000 documents; those removed before a failure stay removed. Documents
        that came in while a clock was wrong stay, and a warning says how many; see
        :meth:`mend_times`.
        """
        from lshdb.ingest.remove import expire_documents

        return self._handle.ask(
            lambda store, _: expire_documents(
                store, since, dry_run=dry_run, lock_timeout=lock_timeout
            )
        )

    # Questions about one document or a few

    @checks_names
    def query(
        self,
        body: Body | None = None,
        *,
        key: str | None = None,
        top: int | None = 10,
        threshold: float | None = None,
        verify: Verify | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        below: float | None = None,
        measure: Measure = "similarity",
    ) -> Hits:
        """Return the documents most similar to a text, to ready tokens, or to a stored document.

        Parameters
        ----------
        body : str, list, tuple or set of str, or other, optional
            As for :meth:`add`.
        key : str, optional
            Key of a document to query instead of a body. The answer leaves this document out.
        top : int or None
            Maximum number of answers; None for all.
        threshold : float, optional
            Lowest similarity, or largest distance; by default the index's own, or no limit with
            ``recall``.
        verify : {"none", "signature", "exact"}, optional
            How to check candidates. Default: exact if texts are stored, else signature, or none if
            the signatures are on another host (``docs/elsewhere.md``).
        recall : float, optional
            Find each of the ``top`` nearest documents with this probability, by neighbouring
            buckets or by comparing all signatures, whichever takes less. Where an index of texts
            cannot reach it so, or finds fewer than ``top``, all texts are compared, as always with
            1. ``NearestHits.recall`` is what was reached, which is less only without stored texts.
        probe_limit : int or bool
            Compare at most this many candidates, far ones included; True means twice the number of
            bands.
        below : float, optional
            Only documents less similar than this, or for a distance farther: near, but no copies.
            Others are left out before ``top`` counts. Not with ``verify="none"``.
        measure : {"similarity", "containment"}
            With ``containment`` a document's similarity is the share of the query's shingles that
            it has: 1.0 for the whole of which the query is a part. All texts are compared, so each
            document at the threshold is found. Only in an index of texts that stores them.

        Returns
        -------
        Hits
            A list of :class:`~lshdb.Hit`, best first; its ``truncated`` is the number of documents
            that ``top`` left out. A document of similarity s is found with probability
            ``params.recall_at(s)``. With ``recall`` or ``probe_limit`` :class:`~lshdb.NearestHits`.

        Raises
        ------
        KeyNotFoundError, ParameterError, TextNotStoredError, TokenizerError, DamageError
        SignaturesElsewhereError
            The signatures are on another host, and you verify by signature, or query by key
            without stored texts.
        """
        return self._handle.ask_in_turn(
            query_index, body, key=key, top=top, threshold=threshold, verify=verify, recall=recall,
            probe_limit=probe_limit, below=below, measure=measure,
        )  # fmt: skip

    @tells
    def query_many(
        self,
        documents: Iterable[Document | tuple[str, Body] | Body],
        *,
        top: int | None = 10,
        threshold: float | None = None,
        verify: Verify | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        below: float | None = None,
        measure: Measure = "similarity",
        workers: int | None = 1,
        on_progress: OnProgress | None = None,
    ) -> QueryAnswers:
        """Answer many queries on one state of the index; stream (query key, answer) for each.

        Parameters
        ----------
        documents : iterable
            (key, body) pairs, or the documents of :func:`lshdb.read_documents`; the keys only name
            the queries. Or bodies alone: their keys are then their positions, ``"0"``, ``"1"`` and
            so on. A tuple is always a key and a body, and so is a list of two items if the first is
            a string. A dict is a body of weights and not a record, and a table is refused.
        top, threshold, verify, recall, probe_limit, below, measure
            As for :meth:`query`.
        workers : int or None
            Threads; None means one per core. Several read a few thousand queries ahead. One thread
            answers each query before it reads the next, as a pipe needs, unless ``documents`` is a
            list or a tuple. The answers are the same.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of (str, Hits)
            Queries are answered in blocks of up to 1,024, in arrays. Its method ``columns()`` gives
            these as they are (:class:`~lshdb.HitColumns`), which takes less time.

        Raises
        ------
        ParameterError, TextNotStoredError
            When you call this method. The other errors of :meth:`query` come during iteration.
            Errors raised by ``documents`` itself pass through unchanged.
        """
        return self._handle.ask(
            QueryAnswers, self._handle, documents, top=top, threshold=threshold, verify=verify,
            recall=recall, probe_limit=probe_limit, below=below, measure=measure, workers=workers,
        )  # fmt: skip

    def explain(
        self,
        key1: str,
        key2: str | None = None,
        *,
        body: Body | None = None,
        with_shingles: bool = True,
    ) -> Explanation:
        """Explain why a document and another one, or a text, are or are not near-duplicates.

        Parameters
        ----------
        key1 : str
        key2 : str, optional
        body : str, list or set of str, or other, optional
            Body to compare instead of a second document, as for :meth:`add`. It is not added.
        with_shingles : bool
            List the shingles. That takes a second for each megabyte of text, and everything else a
            twentieth of it.

        Raises
        ------
        KeyNotFoundError, ParameterError, InputError, TokenizerError, DamageError
        SignaturesElsewhereError
            Signatures are on another host, and there are no texts to sign again.
        """
        from lshdb.search.explain import explain_pair

        return self._handle.ask(explain_pair, key1, key2, body, with_shingles=with_shingles)

    def diff(self, key1: str, key2: str | None = None, *, body: Body | None = None) -> TextDiff:
        """Compare the texts of two documents, or of one and a given text, word by word.

        Words are compared as the index normalises them. The result has the texts as they are
        stored, and says what is equal, deleted, inserted and moved, by characters and lines.

        Parameters
        ----------
        key1 : str
        key2 : str, optional
        body : str, or list or set of str, optional
            What is compared instead of a second document.

        Returns
        -------
        TextDiff
            Some seconds for texts of a megabyte, and 40 bytes a word.

        Raises
        ------
        TextNotStoredError
            The index stores no texts.
        ParameterError
            The documents have no words: they are vectors, bits or weights.
        KeyNotFoundError, InputError, DamageError
        """
        from lshdb.search.word_diff import diff_documents

        return self._handle.ask(diff_documents, key1, key2, body)

    def explain_page(self, key1: str, key2: str | None = None, *, body: Body | None = None) -> str:
        """Return one HTML page with the results of :meth:`explain` and :meth:`diff`.

        The page needs no other file and no network.

        Parameters
        ----------
        key1, key2, body
            As for :meth:`explain`.

        Raises
        ------
        LshdbError
            Jinja2 is missing (extra ``lshdb[report]``); or an error of :meth:`explain`.
        """
        from lshdb.report import pair_page

        return self._handle.ask(pair_page, key1, key2, body)

    def similarity(self, left: Body, right: Body) -> float:
        """Return the exact similarity of two bodies as this index compares them; O(their length).

        For a distance metric, return minus the distance. The bodies need not be in the index. The
        similarity is 0 if neither has a shingle.

        Raises
        ------
        InputError
            The index does not accept one of them as a body.
        """
        return self._handle.ask(similarity, left, right)

    def refusal(self, body: object) -> str | None:
        """Return in one line why the index refuses a body or query; None if it accepts it."""
        return self._handle.now[1].refusal(body)

    def count_shingles(self, body: Body) -> int:
        """Return how many shingles a body has here; a body with 0 is similar to nothing.

        For a vector this counts its numbers, for the bits of ``jaccard-bits`` those that are set,
        and for weights the tokens that have one.
        """
        return self._handle.ask(count_shingles, body)

    def show(self, key: str) -> ShownDocument:
        """Return a document with everything stored about it.

        Raises
        ------
        KeyNotFoundError, ParameterError
        """
        from lshdb.search.explain import show_document

        return self._handle.ask(show_document, key)

    def texts(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the stored texts of documents by key, for example of the pairs of a listing.

        Parameters
        ----------
        keys : iterable of str
            Held in memory with the texts, so ask for some hundreds at a time.

        Returns
        -------
        dict
            The text, tokens as a list, a set as ``{"set": [...]}``, or weights, as ``lshdb add``
            reads them. Keys without a document are left out.

        Raises
        ------
        TextNotStoredError
            The index stores no texts, or it is one of vectors.
        ParameterError, DamageError
        """
        from lshdb.search.explain import texts_of_keys

        return self._handle.ask(texts_of_keys, keys)

    def fields(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the kept fields of documents by key; keys without a document are left out.

        In an index of passages, keys are those of documents or of windows.

        Raises
        ------
        ParameterError, DamageError
        """
        from lshdb.search.explain import fields_of_keys

        return self._handle.ask(fields_of_keys, keys)

    def field_names(self) -> list[str]:
        """Return the names of kept fields, sorted, as the first thousand documents have them.

        Raises
        ------
        DamageError
        """
        from lshdb.search.explain import names_of_fields

        return self._handle.ask(names_of_fields)

    def vote(self, hits: Iterable[Hit], field: str) -> list[Vote]:
        """Classify by the nearest documents: return their values of a kept field, most votes first.

        Parameters
        ----------
        hits : iterable of Hit
            The answer of :meth:`query`; its ``top`` is the k of the k nearest.
        field : str
            A kept field. A document votes for its value there, weighted by its similarity, or by
            1 / (1 + d / t) for a distance d and the index's threshold t. A list votes for each of
            its values with an equal part of its weight.

        Returns
        -------
        list of Vote
            Each value once, with its share of all weights; among equals in order of their JSON.
            Documents without the field have no vote.

        Raises
        ------
        ParameterError
            No document of the index has such a field, or ``hits`` are no hits.
        DamageError
        """
        from lshdb.search.vote import count_votes

        return self._handle.ask(count_votes, hits, field)

    # Questions about all documents

    @tells
    def pairs(
        self,
        *,
        threshold: float | None = None,
        below: float | None = None,
        verify: Verify | None = None,
        since: Since = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
        agree: str | Sequence[str] = (),
        differ: str | Sequence[str] = (),
        cross: tuple[str, str] | None = None,
        ignore_same_path: bool = False,
        limit: int | None = None,
        measure: Measure = "similarity",
        on_progress: OnProgress | None = None,
    ) -> PairSearch:
        """Stream all near-duplicate pairs, each once.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity; the index's own by default. A pair of similarity s is found with
            probability ``params.recall_at(s)``, also below the index's threshold.
        below : float, optional
            Only pairs less similar than this, or for a distance farther apart: near, but no
            copies. Not with ``verify="none"``.
        verify : {"none", "signature", "exact"}, optional
            As for :meth:`query`; with ``none`` the answer has all candidate pairs, whatever the
            threshold.
        since : int, str or datetime, optional
            Only pairs with a document added in this batch or a later one. ``"last"`` means the
            batches of the last add that changed something; an interrupted add and the one that
            brings the same documents again count as one, and so do the adds of a night.
            ``"@press"`` means all batches that the cursor ``press`` has not seen (see
            :meth:`advance`). A datetime, a date such as ``"2026-01-31"`` or a time ago such as
            ``"8h"`` means the batches that began then or later.
        max_bucket : int or "none", optional
            Leave out buckets with more signatures than this, and larger groups of exact copies. A
            bucket of m makes m (m - 1) / 2 pairs. By default nothing is left out.
        memory : int
            Bytes for pairs and texts under verification; sorting uses temporary files beyond that.
        workers : int, optional
            Threads that read postings; one per core by default. The pairs are the same.
        agree : str or sequence of str
            Kept fields: leave out a pair if one of them is there on both sides and differs. Values
            are compared without case, punctuation and white space; ``pages`` with ranges written
            out, ``doi`` without the address of a resolver. One string may name several, with
            commas.
        differ : str or sequence of str
            Kept fields: only pairs of which one is there on both sides and differs.
        cross : (str, str), optional
            Two prefixes of keys: only pairs with one key under each, ``key1`` under the first. A
            prefix is a folder (``"old"`` means ``"old/..."``) unless it ends in a sign such as
            ``/`` or ``:``. All pairs are found and compared on the way.
        ignore_same_path : bool
            With ``cross``: leave out pairs whose keys are the same after their prefixes.
        limit : int, optional
            Stop after so many pairs, which are any of them.
        measure : {"similarity", "containment"}
            With ``containment`` a pair is a document, ``key1``, and another one that contains it:
            its similarity is the share of the shingles of ``key1`` that ``key2`` has. Documents
            that contain each other are two pairs. All texts are compared, so none is missed; not
            with ``max_bucket``. Only in an index of texts that stores them.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Pair
            In no particular order, from the state of the index when you take the first pair.
            After the last pair, ``left_out`` says which buckets ``max_bucket`` left out, and
            ``loss`` how many near-duplicate pairs that cost: an estimate with its interval, or a
            count if counting is quick.

        Raises
        ------
        ParameterError, TextNotStoredError, DamageError
        SignaturesElsewhereError
            You verify by signatures that are on another host; raised at the first pair.
        """
        from lshdb.search.pairs import PairSearch

        return self._handle.ask(
            PairSearch, self._handle, threshold=threshold, below=below, verify=verify, since=since,
            max_bucket=max_bucket, memory=memory, workers=workers, agree=agree, differ=differ,
            cross=cross, ignore_same_path=ignore_same_path, limit=limit, measure=measure,
        )  # fmt: skip

    @tells
    def passages(
        self,
        *,
        threshold: float | None = None,
        since: Since = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
        limit: int | None = None,
        with_text: bool = False,
        on_progress: OnProgress | None = None,
    ) -> PassageSearch:
        """Stream the passages that recur, in an index that was made with ``passages``.

        Similar windows are joined where they lie side by side in two documents, and compared word
        by word. A passage that a document repeats is listed as well, if the two do not overlap.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity of two windows; the index's own by default.
        since, max_bucket, memory, workers
            As for :meth:`pairs`, of windows.
        limit : int, optional
            Stop after so many passages.
        with_text : bool
            Whether to give the texts of the passages, too.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Passage
            In order of the keys of the two documents, and of the places in the first. An edit of
            more than a window's words ends a passage; another one may begin after it.

        Raises
        ------
        ParameterError
            The index keeps whole documents, or a value is out of range.
        DamageError
            A window is missing.

        Notes
        -----
        Holds 48 bytes for each pair of similar windows, and texts of some documents.
        """
        from lshdb.search.passages import PassageSearch

        return self._handle.ask(
            PassageSearch, self._handle, threshold=threshold, since=since, max_bucket=max_bucket,
            memory=memory, workers=workers, limit=limit, with_text=with_text,
        )  # fmt: skip

    def query_passages(
        self,
        text: str | None = None,
        *,
        key: str | None = None,
        threshold: float | None = None,
        with_text: bool = False,
        workers: int | None = 1,
    ) -> list[Passage]:
        """Return which passages of a text recur in documents of an index of passages.

        The text is cut into windows as documents are.

        Parameters
        ----------
        text : str, optional
        key : str, optional
            Key of a document instead. Its own passages are left out.
        threshold : float, optional
            Lowest similarity of two windows; the index's own by default.
        with_text : bool
            Whether to give the texts of the passages, too.
        workers : int or None
            Threads; None means one per core.

        Returns
        -------
        list of Passage
            In the order of the text. ``key1`` is ``key``, or ``"text"``.

        Raises
        ------
        ParameterError, InputError, KeyNotFoundError, DamageError
        """
        from lshdb.search.passages import query_passages

        return self._handle.ask(
            query_passages, text, key=key, threshold=threshold, with_text=with_text,
            workers=workers,
        )  # fmt: skip

    def explain_passages(self, key1: str, key2: str, *, with_text: bool = False) -> list[Passage]:
        """Return the passages that two documents of an index of passages share.

        Both are compared word by word, whatever windows are similar, so this shows passages that
        are too short or too different to be found. With one key twice, what the document repeats.

        Parameters
        ----------
        key1, key2 : str
            Keys of documents.
        with_text : bool
            Whether to give the texts of the passages, too.

        Returns
        -------
        list of Passage
            Of at least a quarter of a window, or else the best one, in the order of the first text.

        Raises
        ------
        ParameterError, KeyNotFoundError, DamageError
        """
        from lshdb.search.passages import explain_passages

        return self._handle.ask(explain_passages, key1, key2, with_text=with_text)

    @tells
    def join(
        self,
        other: Index,
        *,
        threshold: float | None = None,
        verify: Verify | None = None,
        on_progress: OnProgress | None = None,
    ) -> JoinedPairs:
        """Stream all near-duplicate pairs of a document here and one in another index.

        Parameters
        ----------
        other : Index
            An index with equal parameters; threshold, recall and store_text may differ.
        threshold, verify
            As for :meth:`pairs`; exact by default if both store texts.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Pair
            ``key1`` is in this index, ``key2`` in the other. An index joined with itself gives
            each pair both ways, and each document with itself. The join reads all postings of
            both; if one index is much smaller, it looks up its buckets in the other.

        Raises
        ------
        ParameterMismatchError, ParameterError, TextNotStoredError, TokenizerError, DamageError
        """
        from lshdb.search.join import JoinedPairs

        _check_index("other", other)
        return self._handle.ask(
            JoinedPairs, self._handle, other._handle, threshold=threshold, verify=verify
        )

    def cursors(self) -> list[Cursor]:
        """Return all cursors, by name: how far each reader of new pairs has come."""
        from lshdb.search.since import list_cursors

        return self._handle.ask(list_cursors)

    def advance(
        self,
        name: str,
        to: Listing[Any] | int | None = None,
        *,
        lock_timeout: float = 60.0,
    ) -> Cursor:
        """Set a cursor to the batch that its reader has seen; a new name makes a cursor.

        Read with ``since="@name"``, keep what you read, then advance: if anything fails before,
        the next reading gives the same pairs again. So each pair is given at least once.

        Parameters
        ----------
        name : str
            Letters, digits and ``_ . : -``, at most 100.
        to : listing or int, optional
            An answer of this index's :meth:`pairs`, :meth:`passages`, :meth:`clusters`,
            :meth:`neighbors`, :meth:`dedup` or :meth:`filter` that you have read to its end: the
            cursor moves to the newest batch that the answer took into account, and never back. Or
            a batch's number: 0 is the beginning. By default the newest batch.
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        Cursor

        Raises
        ------
        ParameterError
            The answer was not read to its end, or is one of another index; there is no such batch,
            or the name is not one.
        LockedError, DatabaseError

        Examples
        --------
        >>> new = index.pairs(since="@press")           # doctest: +SKIP
        >>> write(new)                                  # doctest: +SKIP
        >>> index.advance("press", new)                 # doctest: +SKIP
        """
        from lshdb.search.since import advance_cursor

        return self._handle.ask(advance_cursor, name, to, lock_timeout=lock_timeout)

    def remove_cursor(self, name: str, *, lock_timeout: float = 60.0) -> bool:
        """Remove a cursor; return whether there was one.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.search.since import remove_cursor

        return self._handle.ask(remove_cursor, name, lock_timeout=lock_timeout)

    @tells
    def update_clusters(
        self,
        *,
        threshold: float | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
        lock_timeout: float = 60.0,
        memory: int = MEMORY,
        workers: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> EdgeState:
        """Bring verified edges and clusters up to date, if they are not.

        Compare the documents added since the last update with all others. Rebuild the clusters that
        gained or lost a document or an edge; keep the rest. All this is one transaction.

        Parameters
        ----------
        threshold : float, optional
            Find edges at least down to this; the index's own by default. If the stored edges reach
            lower, they keep their threshold; if they do not reach as low, all edges are found
            again.
        verify : {"signature", "exact"}, optional
            As for :meth:`query`. A change of method finds all edges again.
        max_bucket : int or "none", optional
            Link buckets with more signatures than this through leaders, in linear time, instead of
            comparing all their pairs; "none" compares all. The value is stored with the edges and
            used until you give another, which finds all edges again; 1,000 at first.
        lock_timeout : float
            Seconds to wait for another writer.
        memory, workers
            As for :meth:`pairs`.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        EdgeState
            What the edges cover and what was not compared; see also :meth:`loss`.

        Raises
        ------
        LockedError, ParameterError, TextNotStoredError, DatabaseError
        """
        require_whole_documents(self._store, "clustering")
        from lshdb.groups.update import update_clusters

        return self._handle.ask(
            update_clusters, threshold=threshold, verify=verify, max_bucket=max_bucket,
            lock_timeout=lock_timeout, memory=memory, workers=workers,
        )  # fmt: skip

    def edge_state(self) -> EdgeState | None:
        """Return threshold and newest batch of the stored edges; None if none were ever stored."""
        from lshdb.groups.update import edge_state

        return self._handle.ask(edge_state)

    def loss(self, *, threshold: float | None = None) -> Loss | None:
        """Estimate the pairs that were lost because large buckets were linked instead of compared.

        The loss is the share of near-duplicate pairs that :meth:`clusters`, :meth:`dedup` and
        :meth:`neighbors` do not know. The documents of such a pair may still share a cluster,
        through others; :meth:`dedup` looks for such pairs again among what it would keep.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity of the pairs; the index's own by default.

        Returns
        -------
        Loss or None
            None if no pairs are stored or the loss cannot be told here. If large buckets were
            linked, this takes one pass over the postings and the pairs, and a sample; see
            ``search/loss.py``.
        """
        from lshdb.search.loss import loss_of_stored

        return self._handle.ask(loss_of_stored, threshold)

    @tells
    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: Linkage = "component",
        since: Since = None,
        agree: str | Sequence[str] = (),
        differ: str | Sequence[str] = (),
        update: bool = True,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> Clusters:
        """Stream the clusters of near-duplicate documents, the largest first.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity of an edge; the index's own by default.
        min_size : int
            Fewest documents in a cluster.
        linkage : {"component", "representative"}
            Take a chain a - b - c, with a unlike c, as one cluster (component), or cut it so that
            every member is similar to its representative, the oldest document.
        since : int, str or datetime, optional
            Only clusters with a new document, as for :meth:`pairs`.
        agree, differ : str or sequence of str
            Join only pairs that these kept fields allow, as for :meth:`pairs`. A pair in a bucket
            over ``max_bucket`` may then be missed, because only leaders are compared there.
        update : bool
            Bring edges and clusters up to date first; see :meth:`update_clusters`. This writes to
            the index when you call this method; iterating only reads. Without it nothing is
            written, and of the documents added since the last update, clusters contain only exact
            copies of a member.
        lock_timeout : float
            Seconds to wait for another writer, if an update is needed.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Cluster
            Its ``state`` says which cap on buckets is in force.

        Raises
        ------
        ParameterError
            Also if ``update`` is false and the stored edges do not reach down to the threshold.
        LockedError, DatabaseError
        """
        require_whole_documents(self._store, "clustering")
        from lshdb.groups.listing import Clusters

        return self._handle.ask(
            Clusters, self._handle, threshold=threshold, min_size=min_size, linkage=linkage,
            since=since, agree=agree, differ=differ, update=update, lock_timeout=lock_timeout,
        )  # fmt: skip

    @tells
    def dedup(
        self,
        *,
        keep: Keep = "first",
        threshold: float | None = None,
        against: bool = False,
        since: Since = None,
        only: Only = "all",
        agree: str | Sequence[str] = (),
        differ: str | Sequence[str] = (),
        update: bool = True,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> Deduplication:
        """Decide for each document whether to keep it, and if not, which one is kept instead.

        A dropped document is verified to be similar to the one kept in its place. No two kept
        documents are a pair that the index finds, that is, one that shares a bucket of any size and
        is verified. A pair at the threshold shares no bucket with probability
        ``1 - params.recall``; both documents of such a pair may be kept. With ``update=False``,
        documents added after the last update are ignored.

        In large buckets, the most preferred document is compared with all others, and what is left
        with the next one, up to 32 million pairs. Boilerplate may make more; then ``unchecked`` of
        the answer, and an :class:`UncheckedWarning`, estimate how many pairs remain among the kept
        documents.

        Parameters
        ----------
        keep : str
            Which of similar documents to keep: ``first``, ``last``, ``longest``, ``shortest``, or
            ``field:NAME`` (``field:-NAME``) for the largest (smallest) value of a kept
            field, or of a column of ``document``. Numbers, times and durations are compared as
            such, also where they are texts; missing values and NaN come last.
        threshold : float, optional
            Lowest similarity at which a document is dropped; the index's own by default.
        against : bool
            Drop only documents of the newest add, and only in favour of older ones.
        since : int, str or datetime, optional
            With ``against``: what counts as new, as for :meth:`pairs`; ``"last"`` by default.
        only : {"all", "keep", "drop"}
            Which decisions to give.
        agree, differ : str or sequence of str
            Only pairs that these kept fields allow count, as for :meth:`pairs`.
        update, lock_timeout
            As for :meth:`clusters`.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Decision
            In the order in which the documents were added.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        require_whole_documents(self._store, "deduplication")
        from lshdb.groups.deduplication import Deduplication

        return self._handle.ask(
            Deduplication, self._handle, keep=keep, threshold=threshold, against=against,
            since=since, only=only, agree=agree, differ=differ, update=update,
            lock_timeout=lock_timeout,
        )  # fmt: skip

    @tells
    def filter(
        self,
        path: Path_,
        *,
        key_field: str = "id",
        keep: Keep = "first",
        threshold: float | None = None,
        against: bool = False,
        since: Since = None,
        agree: str | Sequence[str] = (),
        differ: str | Sequence[str] = (),
        update: bool = True,
        lock_timeout: float = 60.0,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
        on_progress: OnProgress | None = None,
    ) -> Survivors:
        """Stream the lines of a JSON Lines file that :meth:`dedup` keeps, byte for byte.

        Lines without a document of the index are kept too; ``counts`` says how many. A file
        without any such document is refused before the first line.

        Parameters
        ----------
        path : path-like
            Plain or compressed; ``-`` for standard input.
        key_field : str
            The field with the key.
        keep, threshold, against, since, agree, differ, update, lock_timeout
            As for :meth:`dedup`; ``field:NAME`` names a field of the lines, and of the index for
            documents that have no line.
        max_document_bytes : int
            The longest line to parse, as for :func:`lshdb.read_documents`. A longer one is passed
            on in pieces, never held in memory, and counted as ``too_long``.
        on_progress : callable, optional
            As for :meth:`add`.

        Raises
        ------
        InputError
            The file cannot be read to its end; or no line (on standard input, none of the first
            thousand) holds a document of the index.
        ParameterError, LockedError, DatabaseError
        """
        require_whole_documents(self._store, "filtering")
        from lshdb.groups.rewrite_files import Survivors

        return self._handle.ask(
            Survivors, self._handle, path, key_field=key_field, keep=keep, threshold=threshold,
            against=against, since=since, agree=agree, differ=differ, update=update,
            lock_timeout=lock_timeout, max_document_bytes=max_document_bytes,
        )  # fmt: skip

    @tells
    def dedup_files(
        self,
        paths: Sequence[Path_],
        output: Path_,
        *,
        mark: bool = False,
        overwrite: bool = False,
        key_field: str | None = None,
        row_keys: bool = False,
        delimiter: str | None = None,
        encoding: str | None = None,
        quote: str | None = None,
        input_format: str = "auto",
        hidden: bool = False,
        gitignore: bool = True,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        relative: bool = False,
        strip_prefix: str | None = None,
        keep: Keep = "first",
        threshold: float | None = None,
        against: bool = False,
        since: Since = None,
        agree: str | Sequence[str] = (),
        differ: str | Sequence[str] = (),
        update: bool = True,
        lock_timeout: float = 60.0,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
        needs_documents: bool = True,
        on_file: Callable[[RewrittenFile], None] | None = None,
        on_decisions: Callable[[Iterator[Decision]], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> RewrittenFiles:
        """Write files again with only the records that :meth:`dedup` keeps, or with marks on all.

        An output has the format of its input. JSON Lines and CSV are passed through byte for byte,
        compressed as they came; Parquet keeps its schema, metadata, compression and size of row
        groups. Files are streamed, and each appears at its place when it is whole. Records without
        a document of the index are kept.

        Parameters
        ----------
        paths : sequence of path-like
            Files, folders and patterns, as for :func:`lshdb.read_documents`.
        output : path-like
            A folder, which is made; or, for one input, a file with its extension. In a folder, an
            output has its input's path from the deepest folder on that holds all inputs.
        mark : bool
            Write all records, each with the fields ``lshdb_keep`` (whether it is kept),
            ``lshdb_cluster`` (the label of its cluster), ``lshdb_kept_as`` (the key that is kept
            instead) and ``lshdb_similarity``.
        overwrite : bool
            Whether outputs that exist are replaced.
        key_field : str, optional
            The field with the key; ``id`` by default.
        row_keys : bool
            Whether path and row number are the key, as for :func:`lshdb.read_documents`.
        delimiter, encoding, quote : str, optional
            As for :func:`lshdb.read_documents`; an output has those of its input.
        input_format : str
            As for :func:`lshdb.read_documents`: ``auto``, ``jsonl``, ``csv``, ``tsv`` or
            ``parquet``.
        hidden, gitignore, include, exclude, relative, strip_prefix
            As for :func:`lshdb.read_documents`: give what the files were added with.
        keep, threshold, against, since, agree, differ, update, lock_timeout
            As for :meth:`dedup`; ``field:NAME`` also names a field of the records.
        max_document_bytes : int
            The longest line or record to parse. A longer one is passed on in pieces.
        needs_documents : bool
            Whether to refuse a file of which no record is in the index.
        on_file : callable, optional
            Called with each file when it is at its place.
        on_decisions : callable, optional
            Called once, before the first file is written, with an iterator of what :meth:`dedup`
            would decide; ``field:NAME`` counts as for the files.
        on_progress : callable, optional
            As for :meth:`add`.

        Raises
        ------
        InputError
            A file cannot be read to its end, is of another format, or has no record in the index.
        ParameterError
            An output is an input, or an option is wrong.
        LshdbError
            An output exists. Files that were written before an error stay; no half file does.
        LockedError, DatabaseError
        """
        require_whole_documents(self._store, "deduplication")
        from lshdb.groups.rewrite_files import rewrite_files

        return rewrite_files(
            self._handle, paths, output, mark=mark, overwrite=overwrite, key_field=key_field,
            row_keys=row_keys, delimiter=delimiter, encoding=encoding, quote=quote,
            input_format=input_format, hidden=hidden, gitignore=gitignore, include=include,
            exclude=exclude, relative=relative, strip_prefix=strip_prefix, keep=keep,
            threshold=threshold, against=against, since=since, agree=agree, differ=differ,
            update=update, lock_timeout=lock_timeout, max_document_bytes=max_document_bytes,
            needs_documents=needs_documents, on_file=on_file, on_decisions=on_decisions,
        )  # fmt: skip

    @tells
    def neighbors(
        self,
        *,
        top: int = 10,
        threshold: float | None = None,
        below: float | None = None,
        recall: float | None = None,
        since: Since = None,
        update: bool = True,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> Neighbors | NearestNeighbors:
        """Stream the most similar documents of every document.

        They come from the stored edges, which are the pairs at the threshold. With ``recall`` they
        are the nearest, however near they are: all texts are compared, or in an index without them
        (vectors, bits, weights, ``store_text=False``) each document is a query.

        Parameters
        ----------
        top : int
            Maximum number of neighbours per document.
        threshold : float, optional
            Lowest similarity; by default the index's own, or with ``recall`` none (above 0 where
            texts are compared).
        below : float, optional
            Only neighbours less similar than this, or for a distance farther: near, but no copies.
        recall : float, optional
            Find each of the nearest with this probability, as :meth:`query` does. Where all texts
            are compared, each is found, whatever number you give; 1 is allowed only there.
        since : int, str or datetime, optional
            Only the neighbours of new documents, as for :meth:`pairs`.
        update, lock_timeout
            As for :meth:`clusters`; without effect with ``recall``, which needs no edges and
            writes nothing.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        iterator of Neighbor
            Grouped by document, the most similar first. Texts that share no shingle are not
            listed. ``columns()`` gives the same as columns. With ``recall`` it has ``reached``, the
            lowest recall of a document.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        require_whole_documents(self._store, "listing neighbors")
        from lshdb.groups.neighbors import NearestNeighbors, Neighbors

        if recall is not None:
            return self._handle.ask(
                NearestNeighbors, self._handle, top=top, threshold=threshold, below=below,
                recall=recall, since=since,
            )  # fmt: skip
        return self._handle.ask(
            Neighbors, self._handle, top=top, threshold=threshold, below=below, since=since,
            update=update, lock_timeout=lock_timeout,
        )  # fmt: skip

    @tells
    def recall(
        self,
        *,
        sample: int | None = 1000,
        threshold: float | None = None,
        furthest: float | None = None,
        max_bucket: int | str | None = None,
        seed: int = 0,
        memory: int = MEMORY,
        workers: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> MeasuredRecall:
        """Measure which share of the near-duplicate pairs is found, against all texts or vectors.

        Some documents are drawn, and each is compared exactly with all others. Then the index is
        asked for the same pairs, as :meth:`pairs` asks it.

        Parameters
        ----------
        sample : int or None
            Documents to draw; all if there are fewer, or for None.
        threshold : float, optional
            Judge pairs of at least this similarity, or at most this distance; the index's own by
            default. Beyond that one, the promise is what the bands give there
            (``params.recall_at(threshold)``).
        furthest : float, optional
            Also measure pairs down to this similarity, or up to this distance; 0.3 below the
            threshold, or twice the distance, by default.
        max_bucket : int or "none", optional
            Count pairs as missed that :meth:`pairs` leaves out with this cap.
        seed : int
            Another seed draws other documents.
        memory : int
            Bytes for shingles, weights or vectors, and for pairs.
        workers : int, optional
            Threads; one per core by default. The result is the same.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        MeasuredRecall
            Recall by slice of similarity with its interval, beside 1 - (1 - p^r)^b and the promise;
            why pairs were missed; and ``is_kept``, whether the promise is kept.

        Raises
        ------
        ParameterError, TextNotStoredError, TokenizerError, DamageError

        Notes
        -----
        All texts are shingled, some 20 s of processor time a gigabyte. Vectors are read once for
        each 256 that were drawn. Memory beyond ``memory`` grows with the documents drawn, and by 16
        bytes for each signature.
        """
        from lshdb.search.measured_recall import measure_recall

        return self._handle.ask(
            measure_recall, sample=sample, threshold=threshold, furthest=furthest,
            max_bucket=max_bucket, seed=seed, memory=memory, workers=workers,
        )  # fmt: skip

    @tells
    def advise(
        self,
        *,
        aim: str | None = None,
        labels: Iterable[Label] | None = None,
        sample: int = 100_000,
        seed: int = 1,
        memory: int = MEMORY,
        workers: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Advice:
        """Say which threshold and shingle to take, by the stored texts.

        As :func:`lshdb.advise`, for the documents of this index.

        Parameters
        ----------
        aim : str, optional
            One of :func:`lshdb.aims`; by default parameters are proposed for each.
        labels : iterable of (str, str, bool), optional
            Keys of two documents, and whether they are near-duplicates, as from
            :func:`lshdb.read_labels`. Their texts are held in memory.
        sample : int
            Documents to draw, at least 2. Fewer are drawn where their texts take more than a
            quarter of ``memory``.
        seed : int
            Another seed draws other documents.
        memory : int
            Bytes for texts and shingles.
        workers : int, optional
            Threads; one per core by default. The result is the same.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        Advice
            How many pairs there are at each similarity, some of them, and parameters for the aim.

        Raises
        ------
        ParameterError
            A value is out of range, or the index has no stored texts.
        InputError
            The index has fewer than two documents.
        TokenizerError, DamageError
        """
        from lshdb.advice.advise import advise_on_index

        return self._handle.ask(
            advise_on_index, aim=aim, labels=labels, sample=sample, seed=seed, memory=memory,
            workers=workers,
        )  # fmt: skip

    @tells
    def contract(
        self,
        path: Path_,
        *,
        threshold: float | None = None,
        linkage: Linkage = "component",
        repeat: bool = False,
        drop_loops: bool = False,
        update: bool = True,
        lock_timeout: float = 60.0,
        on_reject: Callable[[Rejected], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Contraction:
        """Contract a graph by the clusters of its nodes; the work is done when this returns.

        Every link (u, v) becomes (representative of u, representative of v). Equal links become
        one, with the sum of their counts. The representative of a document is the one its cluster
        is named after. A node without a document or cluster in the index stands for itself.

        Parameters
        ----------
        path : path-like
            Plain or compressed, or ``-`` for standard input. Each line is a link: source,
            target and optionally a count (a whole number from 1), separated by tabs. Nodes are
            keys of the index.
        threshold, linkage, update, lock_timeout
            As for :meth:`clusters`.
        repeat : bool
            Repeat: take the links of each source, without loops, as its document; index these
            documents apart with the same parameters; contract by their clusters; stop when a round
            merges nothing. Clusters of these rounds are named after the key that sorts first.
        drop_loops : bool
            Leave out links of a node to itself.
        on_reject : callable, optional
            Called with each line that is not a link; the line is counted and skipped.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        Contraction
            Iterator of (source, target, count), sorted by code points; its attributes include
            ``merged`` and ``mapping``.

        Raises
        ------
        ParameterError
            Also if you ask for ``repeat`` and documents are not sets of single tokens (unit
            ``token`` or ``word``, k = 1, no bags).
        InputError
            The file cannot be read to its end; or counts add up to more than 64 bits hold, which
            may show only when you take the links.
        LockedError, DatabaseError

        Notes
        -----
        The graph is summed in temporary files a few times its size. Memory does not grow with the
        graph, except that ``repeat`` holds the links of one source as a document, and some 100
        bytes for each source.
        """
        require_whole_documents(self._store, "contraction")
        from lshdb.transient.contraction import contract_links

        return self._handle.ask(
            contract_links, path, threshold=threshold, linkage=linkage, repeat=repeat,
            drop_loops=drop_loops, update=update, lock_timeout=lock_timeout, on_reject=on_reject,
        )  # fmt: skip

    def batches(self) -> list[StoredBatch]:
        """Return all batches, oldest first, with their times and counts."""
        return self._handle.ask(list_batches)

    def stats(
        self, *, max_bucket: int | str | None = None, count: bool | None = None
    ) -> IndexStats:
        """Return counts and sizes; a few reads, whatever the size of the index.

        Parameters
        ----------
        max_bucket : int, optional
            Also say what :meth:`pairs` would leave out with this cap, and what that would cost.
            Reads all postings, and a sample of a few thousand documents.
        count : bool, optional
            Count buckets, edges and clusters, too: reads all postings, a third of a second a
            million signatures. By default up to 250,000 signatures.
        """
        from lshdb.maintain.stats import gather_stats

        return self._handle.ask(gather_stats, max_bucket=max_bucket, count=count)

    def buckets(self, *, most: int = 20) -> BucketCounts:
        """Count buckets by their size, and name the largest; reads all postings.

        Parameters
        ----------
        most : int
            How many of the largest to name.
        """
        from lshdb.maintain.stats import count_buckets

        return self._handle.ask(count_buckets, most=most)

    def sql(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        timeout: float | None = None,
    ) -> SqlResult:
        """Run one SELECT of your own on the tables and views of ``docs/format.md``.

        You can only read: the connection is read-only, and an authorizer refuses everything but
        SELECT. No value may be longer than 256 MiB. On SQLite the function ``text(doc_id)`` gives
        the stored text of a document: tokens as JSON, and None where none is stored.

        On Postgres the statement runs as a cursor in a read-only transaction; see
        ``docs/postgres.md`` for what functions can still do there and for the types of values.

        Parameters
        ----------
        statement : str
        parameters : list, tuple or mapping
            Values for ``?`` or ``:name`` in the statement.
        timeout : float, optional
            Seconds the database may take; no limit by default.

        Raises
        ------
        QueryError
            The statement is wrong, does more than read, or was stopped. The last two may come
            while you take rows.
        DamageError
            A text that the statement asks for is damaged; also while you take rows.
        ParameterError
            ``parameters`` is a single value instead of a list, tuple or mapping.
        """
        from lshdb.search.sql import run_sql

        return self._handle.ask(run_sql, statement, parameters, timeout=timeout)

    @tells
    def report(
        self,
        path: Path_,
        *,
        since: Since = None,
        cluster: str | None = None,
        threshold: float | None = None,
        limit: int | None = None,
        sample: int | None = None,
        update: bool = True,
        overwrite: bool = False,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> ReportResult:
        """Write HTML pages about the contents of the index and the pairs that it finds.

        They have no need of a server or a network: what is duplicated and what ``dedup`` would
        drop, the clusters with their members side by side, which night repeated which, pairs near
        the threshold to be judged by hand, the S-curve with measured recall, candidates by
        similarity, hot buckets, and what was added when. All of it is from one committed state.

        Parameters
        ----------
        path : path-like
            A file that ends in ``.html``: one page. It takes the largest clusters, up to some 8
            MiB, and says how many it leaves out. Any other name is a folder with ``index.html`` and
            as many pages of clusters as it takes. A pipe or a device gets one page.
        since : int, str or datetime, optional
            Only clusters and pairs with a new document, as for :meth:`pairs`.
        cluster : str, optional
            Key of a document: only show its cluster, with more members side by side.
        threshold : float, optional
            Lowest similarity, or largest distance; the index's own by default.
        limit : int, optional
            Most clusters, and most pairs near the threshold (by default 20).
        sample : int, optional
            Documents on which recall is measured, 0 for none. By default 500, or none if the texts
            have more than 200 million characters together, because all of them are read for it.
        update : bool
            Bring stored pairs and clusters up to date first, as for :meth:`clusters`. Where the
            index may not be written to, those found before have to do.
        overwrite : bool
            Whether a report that is there is replaced.
        lock_timeout : float
            Seconds to wait for another writer, if an update is needed.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        ReportResult

        Raises
        ------
        LshdbError
            Something is at the path already, or jinja2 is not installed (extra
            ``lshdb[report]``). After any error there is no report, and one that was there is as it
            was.
        KeyNotFoundError
            ``cluster`` is no document, or one without near-duplicates.
        ParameterError, LockedError, DamageError, DatabaseError

        Notes
        -----
        Clusters are rendered one at a time. Memory is bounded but for what ``dedup`` takes, which
        is 24 bytes for each stored pair and some forty for each document in a cluster, and for
        what measuring recall takes.
        """
        from lshdb.report import make_report
        from lshdb.report.index_report import ReportOptions

        options = ReportOptions(
            since=since, cluster=cluster, threshold=threshold, limit=limit, sample=sample,
            update=update, overwrite=overwrite, lock_timeout=lock_timeout,
        )  # fmt: skip
        return self._handle.ask(make_report, os.fspath(path), options=options)

    # Other indexes

    @tells
    def copy(
        self,
        path: Path_,
        *,
        database: str | None = None,
        schema: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Copy the index as it is now, while others read it and write to it.

        The copy holds one committed state and keeps the uuid. If you write to both afterwards, do
        not exchange their files.

        Parameters
        ----------
        path : path-like
            Directory to create; its parent must exist.
        database : str, optional
            URL of the copy's database; by default ``index.db`` in the directory, wherever this
            index has its own.
        on_progress : callable, optional
            As for :meth:`add`.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            The path lies inside the index.
        LockedError
            Another process is making the same copy.
        DamageError, DatabaseError, LshdbError
            The index cannot be read or the copy cannot be written; there is no copy.

        Notes
        -----
        A copy is as fast as the disk and takes little memory. It is synced, then renamed into
        place: if the process is killed before that, there is no copy.
        """
        from lshdb.maintain.copy import copy_index

        place = DatabasePlace(database, schema)
        self._handle.ask(lambda store, _: copy_index(store, Path(path), place=place))

    @tells
    def export(
        self,
        path: Path_,
        *,
        format: TableFormat = "jsonl",
        on_progress: OnProgress | None = None,
    ) -> None:
        """Write the index as it is now to files in open formats, while others write to it.

        The files hold documents with their texts, batches, signatures, postings, edges and
        clusters; see ``docs/export.md``. :meth:`lshdb.Index.from_export` makes an index of them.

        Parameters
        ----------
        path : path-like
            Directory to create; its parent must exist.
        format : {"jsonl", "parquet", "delta"}
            Format of the tables. With ``parquet`` postings are a Parquet file too, otherwise
            ``.npy``. Parquet needs the extra ``lshdb[parquet]``. With ``delta`` the directory is
            a dataset of tables that other engines read and Spark adds to
            (``docs/format-spark.md``); it needs the extra ``lshdb[spark]``.
        on_progress : callable, optional
            As for :meth:`add`.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            The format is unknown, or the path lies inside the index.
        DamageError
            Signatures or texts are damaged.
        LockedError, DatabaseError, LshdbError
            Also if pyarrow or deltalake is not installed; there is no export.

        Notes
        -----
        Documents are streamed, a few thousand in memory at a time. The directory is synced, then
        renamed into place: if the process is killed before that, there is no export.
        """
        check_folder_name(os.fspath(path), "an export is a folder")
        if format == "delta":
            from lshdb.dataset.dataset_export import export_dataset

            self._handle.ask(lambda store, _: export_dataset(store, Path(path)))
            return
        from lshdb.exchange.exporter import export_store

        self._handle.ask(lambda store, _: export_store(store, Path(path), tables=format))

    @tells
    def reindex(
        self,
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        database: str | None = None,
        schema: str | None = None,
        workers: int | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        on_progress: OnProgress | None = None,
        **parameters: Unpack[Parameters],
    ) -> AddResult:
        """Make another index from the stored texts, with other parameters.

        Parameters that you do not give stay as they are. If you give threshold, recall, bands, rows
        or num_perm, bands and rows are chosen as for a new index, with this index's recall unless
        you give another. Another unit has its own default k and letter case. Another metric must
        take the same bodies, and has its own scheme, threshold and signature. Another scheme whose
        slots are bits instead of words has its own signature and width.

        Documents keep their order, keys, sources, and the times at which they were first and last
        added. Batches are those of the new index.

        Parameters
        ----------
        path : path-like
            Directory to create; its parent must exist.
        tokenizer, database, **parameters
            As for :meth:`lshdb.Index.create`.
        workers : int, optional
            Threads that sign; one per core by default.
        on_commit : callable, optional
            Called after each commit with the counts so far.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        AddResult

        Raises
        ------
        TextNotStoredError
            The index stores no texts.
        ParameterError
            A value is out of range, a parameter is unknown, or the path lies inside the index.
        IndexExistsError
            Something is at the path already.
        TokenizerError, LockedError, DamageError, DatabaseError

        Notes
        -----
        The new index appears when it is complete: after a kill or an error there is none. This
        index is read in its state at the beginning. Memory as for :meth:`add`.
        """
        from lshdb.ingest.reindex import reindex_store

        place = DatabasePlace(database, schema)
        return self._handle.ask(
            lambda store, family: reindex_store(
                store, Path(path), family=family, tokenizer=tokenizer, place=place,
                workers=workers, on_commit=on_commit, changes=parameters,
            )
        )  # fmt: skip

    @tells
    def merge(
        self,
        *others: Index,
        on_conflict: OnConflict = "replace",
        lock_timeout: float = 60.0,
        on_commit: Callable[[AddResult], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AddResult:
        """Take over the documents of other indexes without signing them again.

        Read one index after the other and commit batches as they fill; all of this is one add.
        A document whose content is here already shares its signature. Documents keep the times at
        which they were first and last added; for a key in both, the first time comes from the
        earlier index.

        Parameters
        ----------
        *others : Index
            Indexes with the same parameters; bands, rows, threshold, recall and stored texts may
            differ, but an index with texts takes nothing from one without. Each is read in its
            state when the merge begins, and is not changed.
        on_conflict : {"replace", "skip", "error"}
            What to do if a key exists here, or in an earlier one of the others, with another text.
            The same text is always left as it is.
        lock_timeout : float
            Seconds to wait for another writer of this index.
        on_commit : callable, optional
            Called after each commit with the counts so far.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        AddResult

        Raises
        ------
        ParameterMismatchError
            A parameter that affects signatures differs; names both values.
        ParameterError
            This index is one of the others, or one of them is not an index.
        TextNotStoredError
            This index stores texts and another does not.
        ConflictError
            ``on_conflict="error"`` and a key exists here with another text.
        DamageError
            Signatures or texts of another index are damaged.
        LockedError, DatabaseError

        Notes
        -----
        After any error, batches committed before stay; merging again leaves them unchanged and
        adds the rest. Cost and memory depend on what comes in.
        """
        from lshdb.ingest.merge import merge_stores

        for number, other in enumerate(others, start=1):
            _check_index(f"index {number} to merge", other)
        return self._handle.ask(
            lambda store, _: merge_stores(
                store, [other._handle.ask(current_store) for other in others],
                on_conflict=on_conflict, lock_timeout=lock_timeout, on_commit=on_commit,
            )
        )  # fmt: skip

    # Upkeep

    @tells
    def compact(
        self, *, lock_timeout: float = 60.0, on_progress: OnProgress | None = None
    ) -> RewriteResult:
        """Free the space of documents that were removed or replaced.

        Write a new signature file without the signatures that no document has any longer, and drop
        their postings and edges. The remaining postings become one run, and free pages of the
        database go back to the file system. Documents, clusters and all answers stay the same.
        :meth:`stats` says how much you would gain (``reclaimable_bytes``).

        Parameters
        ----------
        lock_timeout : float
            Seconds to wait for another writer.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        RewriteResult

        Raises
        ------
        LockedError
            Another process is writing.
        DamageError
            The data to rewrite is damaged; nothing was changed.
        DatabaseError
            The disk or the database failed; nothing was changed, or only the space not freed.

        Notes
        -----
        This is one transaction: after a kill at any moment the index is as before or complete.
        Readers go on meanwhile with the state they see. It needs disk space for a second copy of
        the index, about 300 MiB of memory plus 8 bytes for each signature, and the time to read and
        write everything but the texts.
        """
        from lshdb.maintain.rewrite import compact_store

        return self._handle.ask(lambda store, _: compact_store(store, lock_timeout=lock_timeout))

    @staticmethod
    @tells
    def reband(
        path: Path_,
        *,
        threshold: float | None = None,
        recall: float | None = None,
        bands: int | None = None,
        rows: int | None = None,
        index_bands: bool | None = None,
        lock_timeout: float = 60.0,
        on_progress: OnProgress | None = None,
    ) -> RewriteResult:
        """Divide the signatures into other bands, for another threshold or recall.

        This uses the stored signatures: it needs no texts and signs nothing again. It also compacts
        the index (:meth:`compact`). Edges and clusters are found again when you next ask for them.
        An open :class:`Index` opens itself again at its next question; an iteration that has begun
        goes on with the state it sees.

        Parameters
        ----------
        path : path-like
        threshold, recall, bands, rows : optional
            As for :meth:`Index.create`. If you do not give them, threshold and recall stay as they
            are, and bands and rows are chosen from those two.
        index_bands : bool, optional
            Whether each column of the table ``band`` has an index in SQLite. Given alone, it
            changes nothing else.
        lock_timeout : float
            Seconds to wait for another writer.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        RewriteResult

        Raises
        ------
        ParameterError
            You gave nothing, a value is out of range, the signatures have too few slots, or bands
            in Postgres are to have no indexes.
        IndexNotFoundError, LockedError, DamageError, DatabaseError
            As for :meth:`compact`.

        Notes
        -----
        After a kill at any moment the index is as before or complete. The cost is that of
        :meth:`compact`.
        """
        from lshdb.maintain.rewrite import reband_index

        options = {"threshold": threshold, "recall": recall, "bands": bands, "rows": rows}
        changes = {name: value for name, value in options.items() if value is not None}
        return reband_index(Path(path), changes, index_bands=index_bands, lock_timeout=lock_timeout)

    @staticmethod
    @tells
    def upgrade(
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        lock_timeout: float = 60.0,
        workers: int | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[str | None, str]:
        """Bring an index up to date, in one transaction: all of it, or nothing.

        An index of format 1, which was never released, becomes one of today's format: its stored
        texts or vectors are signed anew. Documents keep their order, fields, sources and times,
        batches their numbers, and so do nights and cursors. It takes as long as adding them, and
        room for a second index; stored pairs and clusters are found again when you ask for them.

        Parameters
        ----------
        path : path-like
        tokenizer : object or str, optional
            For an index of format 1 whose shingles are of a tokenizer's tokens, as for
            :meth:`open`.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; by default one per core.
        on_commit : callable, optional
            Called with the counts so far, while an index of format 1 is signed.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        tuple of str
            Revision of the schema before (None if there was none) and after.

        Raises
        ------
        IndexNotFoundError, LockedError, DatabaseError
        FormatError
            The index was made by a newer version; or has format 1 and no texts, or an older schema.
        DamageError
            Something that is to be kept is not as it was written; nothing was changed.
        """
        from lshdb.maintain.upgrade import upgrade_index

        return upgrade_index(
            Path(path),
            tokenizer=tokenizer,
            lock_timeout=lock_timeout,
            workers=workers,
            on_commit=on_commit,
        )

    @tells
    def check(
        self,
        *,
        quick: bool = False,
        on_note: Callable[[str], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Finding]:
        """Check everything on disk for damage; return an empty list if the index is sound.

        Parameters
        ----------
        quick : bool
            Check only headers, counts and small tables; see ``docs/check.md`` for what this misses.
        on_note : callable, optional
            Called with one sentence for each thing worth knowing that is not damage.
        on_progress : callable, optional
            As for :meth:`add`.
        """
        from lshdb.maintain.check import check_store

        return self._handle.ask(lambda store, _: check_store(store, quick=quick, on_note=on_note))

    def mend_times(self, *, lock_timeout: float = 60.0) -> MendedTimes:
        """Date what a wrong clock has dated later than now, or out of order.

        Five minutes do not count. Batches and their documents get the latest time at which they can
        have come in: that of the next batch with a right time, or now. :meth:`check` names them. Be
        sure that this machine's clock is right.

        Parameters
        ----------
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        MendedTimes

        Raises
        ------
        LockedError, DatabaseError, DamageError
            Nothing was changed.
        """
        from lshdb.maintain.mend_times import mend_times

        return self._handle.ask(mend_times, lock_timeout=lock_timeout)

    @staticmethod
    @tells
    def repair(
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        lock_timeout: float = 60.0,
        workers: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> RepairResult:
        """Check an index and, if anything is damaged, rebuild it from everything that is sound.

        Signatures, postings, copies and counts are computed again from sound sources. Documents
        that cannot be proved sound are named and moved into a file beside the index. Edges and
        clusters are found again when you ask for them. See ``docs/check.md``.

        Parameters
        ----------
        path : path-like
        tokenizer : Tokenizer or str, optional
            As for :meth:`open`.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; one per core by default.
        on_progress : callable, optional
            As for :meth:`add`.

        Returns
        -------
        RepairResult
            If it has no findings, nothing was changed.

        Raises
        ------
        IndexNotFoundError, FormatError, ParameterMismatchError, DamageError
            There is no index, or the record of its parameters is damaged; nothing was changed.
        LockedError, DatabaseError, TokenizerError
            Nothing was changed.
        """
        from lshdb.maintain.repair import repair_index

        return repair_index(
            Path(path),
            tokenizer=tokenizer,
            lock_timeout=lock_timeout,
            workers=workers,
        )


def _check_index(name: str, value: object) -> None:
    """Raise ParameterError if the value is not an open index."""
    if not isinstance(value, Index):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected an open Index",
            hint="open it with Index.open(path); give several one by one, a list as *indexes",
        )


@overload
def deduplicate(
    table: _Table,
    *,
    text: str | Sequence[str] = "text",
    keep: Keep = "first",
    mark: Literal[False] = False,
    explain: Literal[False] = False,
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> _Table: ...


@overload
def deduplicate(
    table: Any,
    *,
    text: str | Sequence[str] = "text",
    keep: Keep = "first",
    mark: Literal[True],
    explain: Literal[False] = False,
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> Any: ...


@overload
def deduplicate(
    table: Any,
    *,
    text: str | Sequence[str] = "text",
    keep: Keep = "first",
    mark: Literal[False] = False,
    explain: Literal[True],
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> DeduplicatedTable: ...


@tells
def deduplicate(
    table: Any,
    *,
    text: str | Sequence[str] = "text",
    keep: Keep = "first",
    mark: bool = False,
    explain: bool = False,
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> Any:
    """Return a table in memory without the rows that repeat others.

    Temporary files (in ``TMPDIR``) hold what memory need not. What is promised is what an
    :class:`Index` with these parameters promises. Rows without a text are kept. So are rows whose
    text an index refuses, with an :class:`LshdbWarning` that names the first one.

    Parameters
    ----------
    table : table, array, list or iterable
        A table of pyarrow (also a batch, a reader or a dataset), pandas, polars (also lazy),
        Hugging Face's datasets (also all splits, of which the first one comes first), DuckDB, Ibis,
        or whatever else has ``__arrow_c_stream__`` or ``__dataframe__``. Or texts, or dicts: a
        series, an array of Arrow or NumPy, a list, a tuple or an iterator.
    text : str or sequence of str
        The column of the texts. Texts of several columns are joined in that order, with a blank
        line between.
    keep : str
        Which of similar rows to keep: ``first``, ``last``, ``longest``, ``shortest``, or
        ``field:NAME`` (``field:-NAME``) for the largest (smallest) value of a column. Numbers,
        times and durations are compared as such, also where they are texts; missing values and NaN
        come last.
    mark : bool
        Return all rows, with four more columns: ``lshdb_keep`` (whether the row is kept),
        ``lshdb_cluster`` (the number of the first row of its cluster, from 0), ``lshdb_kept_as``
        (the number of the row that is kept instead) and ``lshdb_similarity``. A list of strings
        becomes a list of dicts.
    explain : bool
        Return a :class:`DeduplicatedTable`: the rows that are kept and those that are not, what
        was dropped for what and how similar they are, the share of duplicates, and examples.
    workers : int, optional
        Threads that sign; one per core by default.
    tokenizer : Tokenizer or str, optional
        As for :meth:`Index.create`.
    on_progress : callable, optional
        As for :meth:`Index.add`.
    **parameters
        Parameters of :meth:`Index.create` by name (``threshold=0.7, k=3``).

    Returns
    -------
    the same kind of table
        The rows in their order. An iterator becomes a list; so does, with ``mark``, what holds
        texts alone, and a series becomes a data frame. A relation of DuckDB is one of its default
        connection. Of a kind that cannot be made of Arrow data, a pyarrow.Table comes back.

    Raises
    ------
    ParameterError
        The table is of another kind, has no such column or is marked already, or a parameter is
        wrong. Or rows that are similar to others have values that cannot be compared.
    InputError
        A row holds something other than a text, or a value by which nothing can be chosen.

    Examples
    --------
    >>> import lshdb, pandas                                     # doctest: +SKIP
    >>> frame = pandas.read_parquet("news.parquet")              # doctest: +SKIP
    >>> clean = lshdb.deduplicate(frame, text="body")            # doctest: +SKIP
    """
    from lshdb.groups.table_rows import TableRows
    from lshdb.params.options import check_parameters
    from lshdb.transient.transient_index import TransientIndex

    check_parameters(
        "deduplicate", parameters,
        "text", "keep", "mark", "explain", "workers", "tokenizer", "on_progress",
    )  # fmt: skip
    if mark and explain:
        raise ParameterError(
            "mark gives all rows and explain gives those that are kept", hint="give one of the two"
        )
    rows = TableRows(table, text=text, keep=keep, is_marked=mark)
    with TransientIndex.create(tokenizer=tokenizer, **parameters) as index:
        if rows.are_there:
            try:
                result = index.add(rows.documents(), workers=workers)
            except AllRejectedError as error:  # then all rows are kept
                result = error.result
            rows.tell_rejected(result)
        drops = index.dedup(keep=keep, only="drop") if len(index) else ()
        if explain:
            return rows.explained(drops, index.params.threshold)
        clusters = index.clusters() if len(index) and mark else ()
        return rows.result(drops, clusters)
