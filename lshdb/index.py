"""``Index``: joins the rooms. No SQL, no hashing: each method is one question or one change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lshdb.arguments import check_key, check_whole
from lshdb.documents import Body, Given, Rejected
from lshdb.errors import AllRejectedError
from lshdb.groups import check_limits
from lshdb.params.comparison import check_expected
from lshdb.search.explain import ShownDocument, show_document
from lshdb.search.pairs import Pair
from lshdb.signatures.families import family_of
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.store import Store
from lshdb.storage.tables.records import StoredBatch
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter
from lshdb.transfers import check_index
from lshdb.upkeep import Upkeep

if TYPE_CHECKING:
    from datetime import datetime

    from lshdb.clusters.contraction import Contraction
    from lshdb.ingest.add import AddResult
    from lshdb.ingest.remove import RemoveResult
    from lshdb.maintain.stats import IndexStats
    from lshdb.search.sql import SqlResult

__all__ = ["Index"]

Path_ = str | os.PathLike[str]


class Index(Upkeep):
    """A near-duplicate index on disk.

    Made by :meth:`create` or :meth:`open`; a context manager that closes it.

    Any number of processes may read while one writes; a reader sees the state of the last commit
    before its question. A second writer waits for the first.

    Examples
    --------
    >>> with Index.create("news.lshdb", threshold=0.8) as index:       # doctest: +SKIP
    ...     index.add([("a", "the quick brown fox jumps over the dog")])
    ...     index.query("the quick brown fox jumps over the dog", top=10)
    """

    def __init__(self, store: Store, tokenizer: Tokenizer | None = None) -> None:
        name = store.params.tokenizer
        split = splitter(name, tokenizer) if name else None
        super().__init__(store, family_of(store.params, split))

    @classmethod
    def create(
        cls,
        path: Path_,
        *,
        metric: str = "jaccard",
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
        unit: str | None = None,
        k: int | None = None,
        bag: bool = False,
        lowercase: bool | None = None,
        strip_accents: bool = False,
        strip_punctuation: bool = False,
        digits: str = "keep",
        stop_tokens: str | Iterable[str] | None = None,
        tokenizer: Tokenizer | str | None = None,
        store_text: bool = True,
        database: str | None = None,
        schema: str | None = None,
        deferred: bool = False,
        lock_timeout: float = 60.0,
    ) -> Index:
        """Make an empty index at a path where nothing is, and open it.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        metric : {"jaccard", "cosine", "hamming", "l1", "l2", "weighted-jaccard", "jaccard-bits"}
            What similarity is; ``docs/families.md`` has them all.
        threshold : float, optional
            Similarity from which on documents are near-duplicates, or distance up to which,
            inclusive. 0.8 for similarities; for distances it must be given.
        recall : float, optional
            Probability that a pair at the threshold is found; 0.99 unless bands are given.
        bands, rows : int, optional
            Override the choice made from threshold and recall.
        num_perm : int, optional
            Slots of a signature, of 4 bytes or of one bit each on disk. 128 for sets; for vectors
            and bits as many as the bands use.
        scheme : str, optional
            Family of hash functions; the metric's first by default (``fss`` for jaccard).
        seed : int
            Of the hash functions; indexes with equal parameters are comparable.
        dim : int, optional
            For vectors and bits: how many numbers, or bits.
        dtype : {"float32", "float64", "float16", "uint8"}, optional
            In which vectors are kept; others are converted.
        width : float, optional
            For l1 and l2: of the pieces that projections are cut into; chosen by default. For
            scheme ``unary``: the largest number.
        sample : iterable, optional
            Some hundred bodies (not documents) that are like those that will come. Bands and width
            are chosen for the similarities among them, and not for those of a typical corpus.
        unit : {"word", "char", "byte", "line", "token", "url", "tokenizer"}, optional
            What shingles are made of; words, unless a tokenizer is given.
        k : int, optional
            Units a shingle: 5 words or tokens, 9 characters or bytes, 3 lines, 2 tokens of a URL.
            It is for texts and lists of tokens; of a set each token is a shingle.
        bag : bool
            Whether a repeated shingle counts again.
        lowercase : bool, optional
            Whether letter case is folded; by default for word, char, line and url.
        strip_accents, strip_punctuation : bool
            Whether accents are dropped, and punctuation and symbols turned into blanks.
        digits : {"keep", "zero"}
            Whether every number becomes 0.
        stop_tokens : iterable of str, or str, optional
            For unit ``url``: left out of URLs, in place of the default list. A string is cut at
            white space.
        tokenizer : Tokenizer or str, optional
            What cuts texts into tokens, or the name of one that is installed.
        store_text : bool
            Keep texts, or vectors, for exact verification; without, similarities are estimates.
        database : str, optional
            URL of the database, where it is not ``index.db`` in the directory:
            ``sqlite:///PATH`` or ``postgresql+psycopg://HOST/NAME``, without a password.
        schema : str, optional
            In a Postgres database; by default one with the name of the directory.
        deferred : bool
            Let the index come into being with its first commit, so that there is none where the
            first add fails, is killed, or accepts no document; closed without a commit, there is
            none either.
        lock_timeout : float
            Seconds to wait for another process that is making an index there.

        Raises
        ------
        ParameterError
            A value is out of range; nothing was made.
        IndexExistsError
            Something is at the path already; it is as it was.
        LockedError
            Another process is making an index there.
        TokenizerError
            No tokenizer of that name is installed.
        LshdbError
            The directory cannot be made.
        """
        tokenizer = given_tokenizer(tokenizer)
        options: dict[str, Any] = {
            "metric": metric, "threshold": threshold, "recall": recall, "bands": bands,
            "rows": rows, "num_perm": num_perm, "scheme": scheme, "seed": seed, "dim": dim,
            "dtype": dtype, "width": width, "unit": unit, "k": k, "bag": bag,
            "lowercase": lowercase, "strip_accents": strip_accents,
            "strip_punctuation": strip_punctuation, "digits": digits, "stop_tokens": stop_tokens,
            "tokenizer": tokenizer.recorded if tokenizer is not None else "",
            "store_text": store_text,
        }  # fmt: skip
        from lshdb.signatures.sample import params_for

        params = params_for(options, sample)
        store = Store.create(
            Path(path),
            params,
            place=DatabasePlace(database, schema),
            deferred=deferred,
            lock_timeout=lock_timeout,
        )
        try:
            return cls(store, tokenizer)
        except BaseException:
            store.close()
            raise

    @classmethod
    def from_export(
        cls,
        folder: Path_,
        path: Path_,
        *,
        database: str | None = None,
        schema: str | None = None,
        tokenizer: Tokenizer | str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Index:
        """Make an index of what :meth:`export` wrote, and open it; nothing is signed.

        It has the same uuid, documents, signatures and numbers, and gives the same answers.

        Parameters
        ----------
        folder : path-like
            The export.
        path : path-like
            Directory to be made; its parent must exist.
        database : str, optional
            URL of the database, where it is not ``index.db`` in the directory:
            ``sqlite:///PATH`` or ``postgresql+psycopg://HOST/NAME``, without a password.
        schema : str, optional
            In a Postgres database; by default one with the name of the directory.
        tokenizer : Tokenizer or str, optional
            As for :meth:`open`.
        on_progress : callable, optional
            Called with the number of documents that are in so far.

        Raises
        ------
        InputError
            There is no export.
        DamageError
            A file is missing or is not what was written; names it.
        FormatError
            The export has another format.
        IndexExistsError
            Something is at the path already.
        ParameterError, LockedError, DatabaseError, LshdbError
            There is no index after any error.
        """
        from lshdb.exchange.importer import import_export

        place = DatabasePlace(database, schema)
        import_export(Path(folder), Path(path), place=place, on_progress=on_progress)
        return cls.open(path, tokenizer=tokenizer)

    @classmethod
    def open(
        cls, path: Path_, *, tokenizer: Tokenizer | str | None = None, **expected: Any
    ) -> Index:
        """Open an index; the cost does not depend on its size.

        Parameters
        ----------
        path : path-like
        tokenizer : Tokenizer or str, optional
            The one the index was made with, or the name of one that is installed. Without it the
            one that the index names is looked for among the installed, once a text is to be split.
        **expected
            Parameters and options of :meth:`create` by name (``threshold=0.8, k=5``); what the
            index has must be equal.

        Raises
        ------
        IndexNotFoundError
            There is no index.
        ParameterMismatchError
            A parameter is not as expected, or the files are not of one index; names both values.
        FormatError
            Another format or schema.
        DamageError
            The signature file does not fit.
        """
        tokenizer = given_tokenizer(tokenizer)
        if tokenizer is not None:
            expected["tokenizer"] = tokenizer.recorded
        store = Store.open(Path(path))
        try:
            if "database" in expected:
                place = DatabasePlace(expected["database"], expected.pop("schema", None))
                expected["database"] = str(store.database_of(place))
            others = {"database": str(store.database)}
            check_expected(store.directory.path, store.params, expected, others=others)
            return cls(store, tokenizer)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the index; iterators that it gave out end with an error at their next step."""
        self._store.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Index({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The index directory; where it will be, before the first commit of a deferred one."""
        return self._store.path

    # Changes

    def add(
        self,
        documents: Iterable[Given],
        *,
        on_conflict: str = "replace",
        max_errors: int | None = None,
        source: str = "",
        lock_timeout: float = 60.0,
        workers: int | None = None,
        on_reject: Callable[[Rejected], None] | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
    ) -> AddResult:
        """Add documents, in batches that are committed as they fill.

        Parameters
        ----------
        documents : iterable
            (key, text) pairs, (key, ready tokens) pairs, or what :func:`lshdb.read_documents`
            yields. Read once, as a stream. Tokens in a list or tuple have an order, and k of them
            that follow each other are a shingle; in a set they have none, and each is a shingle by
            itself, whatever k is. For unit ``url`` the text holds URLs, one a line, and a list or
            set one an item.
        on_conflict : {"replace", "skip", "error"}
            What becomes of a key that is there with another text. The same text is always left as
            it is; only ``last_seen_at`` changes. So is the same set, and where k is 1 and texts are
            stored, the same list in another order.
        max_errors : int, optional
            Stop when more inputs than this are rejected; unlimited by default.
        source : str
            Recorded with the batches.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; one a core by default. The index does not depend on their number.
        on_reject : callable, optional
            Called with each rejected input.
        on_commit : callable, optional
            Called after each commit with the counts so far.

        Returns
        -------
        AddResult

        Raises
        ------
        LockedError
            Another process is writing.
        ConflictError
            ``on_conflict="error"`` and a key is there with another text.
        TooManyRejectedError
            More than max_errors were rejected.
        AllRejectedError
            Something was given and all of it was rejected; holds the result with the reasons. Its
            batch, with the number of rejections, is recorded, unless the index was only being made.
        ParameterError, InputError
            ``documents`` is one string, document or dict, or holds what is no document.
        TokenizerError, ParameterMismatchError
            The index's tokenizer is not installed, in this version, or failed.
        DatabaseError
            The disk or the database failed.

        Notes
        -----
        An add that did not end, whatever ended it, and a later one that brings the same documents
        again count as one for ``since="last"``; ``AddResult.resumed`` says how many documents were
        taken over.

        Whatever is raised, batches that were committed before stay, and nothing of the batch at
        hand is in. Cost and memory depend on what is added, not on what is there.
        """
        from lshdb.ingest.add import add_documents

        if max_errors is not None:
            check_whole("max_errors", max_errors, 0)
        result = add_documents(
            self._store,
            documents,
            family=self._family,
            source=source,
            on_conflict=on_conflict,
            max_errors=max_errors,
            lock_timeout=lock_timeout,
            workers=workers,
            on_reject=on_reject,
            on_commit=on_commit,
        )
        if result.rejected and not result.documents:
            first, n = result.rejections[0], result.rejected
            raise AllRejectedError(
                f"{first.source}: {first.reason}"
                + (f"; nor was any of the other {n - 1:,} inputs accepted" if n > 1 else ""),
                result=result,
                hint="the error's result.rejections has the reason of each; see lshdb guide input "
                "for what is accepted",
            )
        return result

    def remove(self, keys: str | Iterable[str], *, lock_timeout: float = 60.0) -> RemoveResult:
        """Remove documents; they are in no answer from the commit on.

        Their signatures and postings stay where they are, and are passed over.

        Parameters
        ----------
        keys : str or iterable of str
            A string is one key.
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RemoveResult
            With the keys that no document had.

        Raises
        ------
        ParameterError
            Something among the keys is no string; nothing was removed.
        LockedError, DatabaseError
        """
        from lshdb.ingest.remove import remove_documents

        return remove_documents(self._store, keys, lock_timeout=lock_timeout)

    def expire(
        self, since: datetime, *, dry_run: bool = False, lock_timeout: float = 60.0
    ) -> RemoveResult:
        """Remove the documents that have not come in since a time, changed or not.

        Parameters
        ----------
        since : datetime
            Taken for UTC where it names no zone.
        dry_run : bool
            Only count them.
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RemoveResult

        Raises
        ------
        LockedError, DatabaseError

        Notes
        -----
        Removed 40,000 a commit; what was removed before a failure stays removed.
        """
        from lshdb.ingest.remove import expire_documents

        return expire_documents(self._store, since, dry_run=dry_run, lock_timeout=lock_timeout)

    # With a file

    def contract(
        self,
        path: Path_,
        *,
        threshold: float | None = None,
        linkage: str = "component",
        repeat: bool = False,
        drop_loops: bool = False,
        update: bool = True,
        lock_timeout: float = 60.0,
        on_reject: Callable[[Rejected], None] | None = None,
    ) -> Contraction:
        """Fold a graph by the clusters of its nodes; all is done when this returns.

        Every link (u, v) becomes (representative of u, representative of v), and links that are
        then equal one, with the sum of their counts. The representative of a document is the one
        that its cluster is called after; what is no key of the index, or in no cluster, stands for
        itself.

        Parameters
        ----------
        path : path-like
            Plain, ``.gz`` or ``.zst``, or ``-`` for standard input: a link a line, source, target
            and perhaps a count (a whole number from 1 on), between tabs. Keys are as in the index.
        threshold, linkage, update, lock_timeout
            As for :meth:`clusters`.
        repeat : bool
            Then take the links that each source has now for its document, loops left out, in an
            index of its own with the same parameters, fold by its clusters, and so on until a round
            merges nothing. Clusters of those rounds are called after the key that sorts first.
        drop_loops : bool
            Leave out links of a node to itself.
        on_reject : callable, optional
            Called with each line that is no link; it is counted and stepped over.

        Returns
        -------
        Contraction
            Iterator of (source, target, count), sorted by code points, with ``merged``,
            ``mapping`` and other things to know.

        Raises
        ------
        ParameterError
            Also where documents are no sets of single tokens (unit ``token`` or ``word``, k = 1,
            no bags) and ``repeat`` is asked for.
        InputError
            The file cannot be read, or not to its end; or counts add up to more than 64 bits hold,
            which may show only when the links are taken.
        LockedError, DatabaseError

        Notes
        -----
        The graph is summed in temporary files, a few times as large as itself; memory does not grow
        with it, but for the links of one source where ``repeat`` makes documents of them.
        """
        from lshdb.clusters.contraction import contract_links

        level = self._asked_level(threshold)
        return contract_links(
            path,
            params=self.params,
            threshold=level,
            linked=lambda: self._linked(level, update, lock_timeout),
            linkage=linkage,
            repeat=repeat,
            drop_loops=drop_loops,
            on_reject=on_reject,
        )

    # Looking

    def join(
        self, other: Index, *, threshold: float | None = None, verify: str | None = None
    ) -> Iterator[Pair]:
        """All near-duplicate pairs of a document here and one of another index, streamed.

        Parameters
        ----------
        other : Index
            Made with equal parameters; threshold, recall and store_text may differ.
        threshold, verify
            As for :meth:`pairs`; exact by default where both store texts.

        Returns
        -------
        iterator of Pair
            ``key1`` here, ``key2`` in the other; an index joined with itself gives each pair both
            ways, and each document with itself. It reads the postings of both from end to end, or
            where one is much smaller, looks its buckets up in the other.

        Raises
        ------
        ParameterMismatchError, ParameterError, TextNotStoredError, TokenizerError, DamageError
        """
        from lshdb.search.join import join_stores

        check_index("other", other)

        level = self._asked_level(threshold, verify)
        found = join_stores(self._store, other._store, self._family, threshold=level, verify=verify)
        return self._store.while_open(other._store.while_open(found))

    def show(self, key: str) -> ShownDocument:
        """A document with all that is stored of it.

        Raises
        ------
        KeyNotFoundError, ParameterError
        """
        check_key("key", key)
        with self._store.reading() as snapshot:
            return show_document(snapshot, self.params, key)

    def batches(self) -> list[StoredBatch]:
        """What was added and when, oldest first; one batch is one commit."""
        with self._store.reading() as snapshot:
            return list(snapshot.batches())

    def stats(
        self, *, max_bucket: int | str | None = None, count_buckets: bool = False
    ) -> IndexStats:
        """Counts and sizes.

        Parameters
        ----------
        max_bucket : int, optional
            Also say what :meth:`pairs` would leave out with it, and what that would cost. Reads
            all postings, and some thousands of documents as a sample.
        count_buckets : bool
            Count shared buckets over all runs of postings, where an index has several; reads all
            postings. Otherwise ``buckets_are_exact`` says whether the counts are lower bounds.
        """
        from lshdb.maintain.stats import gather_stats

        check_limits(max_bucket)
        with self._store.reading() as snapshot:
            return gather_stats(
                self._store,
                snapshot,
                self._family,
                max_bucket=max_bucket if isinstance(max_bucket, int) else None,
                count_buckets=count_buckets,
            )

    def sql(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        timeout: float | None = None,
    ) -> SqlResult:
        """Run one SELECT of your own on the tables and views of ``docs/format.md``.

        Reading is all that is possible: the connection is read-only and an authorizer refuses
        everything but SELECT. No value may be longer than 256 MiB. On Postgres the statement is
        that of a cursor in a read-only transaction; ``docs/postgres.md`` says what functions may
        still do there, and how values come.

        Parameters
        ----------
        statement : str
        parameters : list, tuple or mapping
            What stands for ``?``, or for ``:name``, in it.
        timeout : float, optional
            Seconds that the database may work on it; without, as long as it takes.

        Raises
        ------
        QueryError
            The statement is wrong, or is none that only reads, or was stopped; the last two may
            come while rows are taken.
        ParameterError
            ``parameters`` is one value, and neither a list or tuple of values nor a mapping.
        """
        from lshdb.search.sql import run_sql

        return run_sql(self._store, statement, parameters, timeout=timeout)
