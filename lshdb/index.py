"""``Index``: every public method, its documentation, and one call into the room that does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lshdb.arguments import (
    Digits,
    Keep,
    Linkage,
    MetricName,
    OnConflict,
    Only,
    TableFormat,
    Unit,
    Verify,
)
from lshdb.documents import MAX_DOCUMENT_BYTES, Body, Document, Given, Rejected
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions
from lshdb.search.answers import QueryAnswers, count_shingles, query_index, similarity
from lshdb.search.handle import Handle, current_store
from lshdb.search.verification import MEMORY, has_signatures
from lshdb.storage.dialects import DatabasePlace
from lshdb.tokenizers import Tokenizer

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np

    from lshdb.clusters.contraction import Contraction
    from lshdb.clusters.deduplication import Deduplication
    from lshdb.clusters.filter import Survivors
    from lshdb.clusters.listing import Clusters, Neighbors
    from lshdb.ingest.add import AddResult
    from lshdb.ingest.remove import RemoveResult
    from lshdb.maintain.check.findings import Finding
    from lshdb.maintain.repair import RepairResult
    from lshdb.maintain.rewrite import RewriteResult
    from lshdb.maintain.stats import IndexStats
    from lshdb.search.explain import Explanation, ShownDocument
    from lshdb.search.join import JoinedPairs
    from lshdb.search.loss import Loss
    from lshdb.search.pairs import PairSearch
    from lshdb.search.query import Hit
    from lshdb.search.sql import SqlResult
    from lshdb.signatures.family import Family
    from lshdb.storage.store import Store
    from lshdb.storage.tables.edges import EdgeState
    from lshdb.storage.tables.records import StoredBatch

__all__ = ["Index"]

Path_ = str | os.PathLike[str]


class Index:
    """A near-duplicate index on disk.

    Made by :meth:`create` or :meth:`open`; a context manager that closes it.

    Any number of processes may read while one writes; a reader sees the state of the last commit
    before its question. A second writer waits for the first. Where another process bands the index
    anew (:meth:`reband`), an index that is open opens itself again at the next question.

    Several threads may use one index at once. A query holds Python's global lock for most of its
    time, so threads share about one core: use them to serve requests, not to answer faster. For
    many queries use :meth:`query_many`, which looks them up together and with ``workers`` signs
    them on several cores. To serve requests on all cores, run a process for each, with an index of
    its own: open it there, because an open index does not survive a fork.

    ``len(index)`` counts documents, ``key in index`` looks for one, and iterating gives all keys.
    What :meth:`pairs`, :meth:`clusters`, :meth:`dedup`, :meth:`filter`, :meth:`neighbors`,
    :meth:`join` and :meth:`query_many` give can be iterated again: each iteration asks anew. They
    check their arguments when they are called.

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
        options = CreateOptions(
            metric=metric, threshold=threshold, recall=recall, bands=bands, rows=rows,
            num_perm=num_perm, scheme=scheme, seed=seed, dim=dim, dtype=dtype, width=width,
            unit=unit, k=k, bag=bag, lowercase=lowercase, strip_accents=strip_accents,
            strip_punctuation=strip_punctuation, digits=digits, stop_tokens=stop_tokens,
            store_text=store_text,
        )  # fmt: skip
        place = DatabasePlace(database, schema)
        handle = Handle.create(
            Path(path), options, sample=sample, tokenizer=tokenizer, place=place,
            deferred=deferred, lock_timeout=lock_timeout,
        )  # fmt: skip
        return cls(handle)

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
        return cls(Handle.open(Path(path), tokenizer, expected))

    def close(self) -> None:
        """Close the index; iterators that it gave out end with an error at their next step."""
        self._handle.close()

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

    @property
    def params(self) -> IndexParams:
        """The parameters it was made with, or last rebanded with."""
        return self._handle.now[0].params

    @property
    def has_signatures(self) -> bool:
        """Whether the signature file is here; else it lies on another host."""
        return self._handle.ask(lambda store, _: has_signatures(store))

    @property
    def signatures(self) -> np.memmap[Any, np.dtype[np.uint32]]:
        """The committed signature rows as a read-only :class:`numpy.memmap` of uint32.

        Row ``i`` is signature ``i``, as in the column ``signature_id`` of :meth:`sql`. A map never
        changes and is good for as long as it is held, also after the index is closed. Later
        commits are in a map that is taken later. :meth:`compact` writes another file and numbers
        signatures anew; a map from before shows the file from before.

        Raises
        ------
        SignaturesElsewhereError, DamageError
        """
        from lshdb.search.lookup import map_signatures

        return self._handle.ask(map_signatures)

    def __len__(self) -> int:
        """How many documents there are; takes microseconds, whatever their number."""
        from lshdb.search.lookup import count_documents

        return self._handle.ask(count_documents)

    def __bool__(self) -> bool:
        """True, also of an index without documents."""
        return True

    def __contains__(self, key: object) -> bool:
        """Whether a document has that key."""
        from lshdb.search.lookup import has_key

        return self._handle.ask(has_key, key)

    def __iter__(self) -> Iterator[str]:
        """The keys of all documents, streamed in the order in which they came in."""
        from lshdb.search.lookup import Keys

        return iter(Keys(self._handle))

    # Changes

    def add(
        self,
        documents: Iterable[Given],
        *,
        on_conflict: OnConflict = "replace",
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

        return self._handle.ask(
            lambda store, family: add_documents(
                store, documents, family=family, source=source, on_conflict=on_conflict,
                max_errors=max_errors, lock_timeout=lock_timeout, workers=workers,
                on_reject=on_reject, on_commit=on_commit,
            )
        )  # fmt: skip

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

        return self._handle.ask(
            lambda store, _: remove_documents(store, keys, lock_timeout=lock_timeout)
        )

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

        return self._handle.ask(
            lambda store, _: expire_documents(
                store, since, dry_run=dry_run, lock_timeout=lock_timeout
            )
        )

    # Questions about one document or a few

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
    ) -> list[Hit]:
        """The documents most similar to a text, to ready tokens, or to a document of the index.

        Parameters
        ----------
        body : str, list, tuple or set of str, or other, optional
            As for :meth:`add`.
        key : str, optional
            Instead of a body: a document of the index, which is left out of the answer itself.
        top : int or None
            Most answers; None for all.
        threshold : float, optional
            Lowest similarity, or largest distance; the index's own by default, but with ``recall``
            none.
        verify : {"none", "signature", "exact"}, optional
            How candidates are checked; exact by default where texts are stored, else signature,
            or none where the signatures lie on another host (``docs/elsewhere.md``).
        recall : float, optional
            Look also into buckets next to the query's own, until each of the ``top`` nearest
            documents was to be found with this probability. The answer says what was reached: of
            sets no bucket is next to another, so there its own buckets have to suffice.
        probe_limit : int or bool
            Compare so many candidates at most, far ones included; with True twice as many as there
            are bands.

        Returns
        -------
        list of Hit
            Best first. A document of similarity s is found with probability
            ``params.recall_at(s)``. With ``recall`` or ``probe_limit`` an :class:`~lshdb.Answer`.

        Raises
        ------
        KeyNotFoundError, ParameterError, TextNotStoredError, TokenizerError, DamageError
        SignaturesElsewhereError
            By signature, or by key without texts, where the signatures lie on another host.
        """
        return self._handle.ask_in_turn(
            query_index, body, key=key, top=top, threshold=threshold, verify=verify, recall=recall,
            probe_limit=probe_limit,
        )  # fmt: skip

    def query_many(
        self,
        documents: Iterable[Document | tuple[str, Body] | Body],
        *,
        top: int | None = 10,
        threshold: float | None = None,
        verify: Verify | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        workers: int | None = 1,
    ) -> QueryAnswers:
        """Many queries on one state of the index: (query key, answer) for each, streamed.

        Parameters
        ----------
        documents : iterable
            As for :meth:`add`; their keys only name the queries. Or bodies alone, whose keys are
            then their positions: ``"0"``, ``"1"`` and so on. A tuple is always a key and a body,
            and so is a list of two items of which the first is a string.
        top, threshold, verify, recall, probe_limit
            As for :meth:`query`.
        workers : int or None
            Threads; None is one a core. With one, each query is answered before the next is taken;
            with more, some hundred are taken ahead. The answers are the same.

        Returns
        -------
        iterator of (str, list of Hit)

        Raises
        ------
        ParameterError, TextNotStoredError
            At once; all else while answers are taken, as for :meth:`query`. What ``documents``
            itself raises passes through as it is.
        """
        return self._handle.ask(
            QueryAnswers, self._handle, documents, top=top, threshold=threshold, verify=verify,
            recall=recall, probe_limit=probe_limit, workers=workers,
        )  # fmt: skip

    def explain(
        self, key1: str, key2: str | None = None, *, body: Body | None = None
    ) -> Explanation:
        """Why a document and another one, or a text, are a near-duplicate pair or are none.

        Parameters
        ----------
        key1 : str
        key2 : str, optional
        body : str, list or set of str, or other, optional
            As for :meth:`add`, instead of a second key; not added.

        Raises
        ------
        KeyNotFoundError, ParameterError, InputError, TokenizerError, DamageError
        SignaturesElsewhereError
            Signatures lie on another host, and there are no texts to sign anew.
        """
        from lshdb.search.explain import explain_pair

        return self._handle.ask(explain_pair, key1, key2, body)

    def similarity(self, left: Body, right: Body) -> float:
        """Exact similarity of two bodies as this index would compare them; O(their length).

        Minus the distance where the metric is one. Neither need be in the index. 0 where neither
        has a shingle.

        Raises
        ------
        InputError
            One of them could be no document's body.
        """
        return self._handle.ask(similarity, left, right)

    def refusal(self, body: object) -> str | None:
        """Why a body can be no document's here, and no query, in one line; None where it can."""
        return self._handle.now[1].refusal(body)

    def count_shingles(self, body: Body) -> int:
        """How many shingles a text, or ready tokens, would have here; of 0 nothing is similar.

        Of a vector its numbers, of bits for ``jaccard-bits`` those that are set, of weights the
        tokens with one.
        """
        return self._handle.ask(count_shingles, body)

    def show(self, key: str) -> ShownDocument:
        """A document with all that is stored of it.

        Raises
        ------
        KeyNotFoundError, ParameterError
        """
        from lshdb.search.explain import show_document

        return self._handle.ask(show_document, key)

    # Questions about all documents

    def pairs(
        self,
        *,
        threshold: float | None = None,
        verify: Verify | None = None,
        since: int | str | None = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
    ) -> PairSearch:
        """All near-duplicate pairs, each once, streamed.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity; the index's own by default. A pair of similarity s is found with
            probability ``params.recall_at(s)``, also below the index's threshold.
        verify : {"none", "signature", "exact"}, optional
            As for :meth:`query`; with ``none`` all candidate pairs are given, whatever the
            threshold.
        since : int or "last", optional
            Only pairs with a document that came in with this batch or a later one; ``"last"`` means
            the batches of the last add that changed something. An add that was interrupted and the
            one that brings the same documents again are one.
        max_bucket : int or "none", optional
            Leave out buckets with more signatures than this, and larger groups of exact copies. A
            bucket of m makes m (m - 1) / 2 pairs. Nothing is left out unless this is given.
        memory : int
            Bytes for pairs and texts that are being verified; what has to be sorted beyond that
            goes to temporary files.
        workers : int, optional
            Threads that read postings; one a core by default. The pairs are the same.

        Returns
        -------
        iterator of Pair
            In no particular order. It sees the index as it is when the first pair is asked for.
            After the last pair, ``left_out`` says which buckets ``max_bucket`` left out, and
            ``loss`` how many near-duplicate pairs that cost: an estimate with its interval, or a
            count where that is quick.

        Raises
        ------
        ParameterError, TextNotStoredError, DamageError
        SignaturesElsewhereError
            Verification by signatures that lie on another host; when the first pair is asked for.
        """
        from lshdb.search.pairs import PairSearch

        return self._handle.ask(
            PairSearch, self._handle, threshold=threshold, verify=verify, since=since,
            max_bucket=max_bucket, memory=memory, workers=workers,
        )  # fmt: skip

    def join(
        self, other: Index, *, threshold: float | None = None, verify: Verify | None = None
    ) -> JoinedPairs:
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
        from lshdb.search.join import JoinedPairs

        _check_index("other", other)
        return self._handle.ask(
            JoinedPairs, self._handle, other._handle, threshold=threshold, verify=verify
        )

    def update_clusters(
        self,
        *,
        threshold: float | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
        lock_timeout: float = 60.0,
        memory: int = MEMORY,
        workers: int | None = None,
    ) -> EdgeState:
        """Bring verified edges and clusters up to date, if they are not.

        What came in since the last time is compared with everything; clusters that gained or lost
        a document, or an edge, are made anew, and all others stay. One transaction.

        Parameters
        ----------
        threshold : float, optional
            Find edges at least down to it; the index's own by default. Where edges were found down
            to a lower one before, it stays that; for a still lower one everything is found anew.
        verify : {"signature", "exact"}, optional
            As for :meth:`query`. Another method than before finds everything anew.
        max_bucket : int or "none", optional
            Buckets with more signatures than this are linked through leaders, in linear time, and
            not paired; "none" pairs all. 1,000 unless it was something else before: it is kept
            with the pairs, and holds for every later question. Another than before finds everything
            anew.
        lock_timeout : float
            Seconds to wait for another writer.
        memory, workers
            As for :meth:`pairs`.

        Returns
        -------
        EdgeState
            What the edges cover, and what was not compared; see also :meth:`loss`.

        Raises
        ------
        LockedError, ParameterError, TextNotStoredError, DatabaseError
        """
        from lshdb.clusters.update import update_clusters

        return self._handle.ask(
            update_clusters, threshold=threshold, verify=verify, max_bucket=max_bucket,
            lock_timeout=lock_timeout, memory=memory, workers=workers,
        )  # fmt: skip

    def edge_state(self) -> EdgeState | None:
        """What the stored edges cover; None where they were never brought up to date."""
        from lshdb.clusters.update import edge_state

        return self._handle.ask(edge_state)

    def loss(self, *, threshold: float | None = None) -> Loss | None:
        """What it costs that buckets over the stored pairs' cap were linked and not compared.

        That is the share of near-duplicate pairs of documents that :meth:`clusters`, :meth:`dedup`
        and :meth:`neighbors` do not know of. Documents of such a pair may be in one cluster all the
        same, through others; :meth:`dedup` looks for them once more among what it would keep.

        Parameters
        ----------
        threshold : float, optional
            Of pairs at least as similar; the index's own by default.

        Returns
        -------
        Loss or None
            None where no pairs are stored, or nothing is here to tell. Where large buckets were
            linked this is one pass over the postings and the pairs, and a sample: see
            ``search/loss.py``.
        """
        from lshdb.search.loss import loss_of_stored

        return self._handle.ask(loss_of_stored, threshold)

    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: Linkage = "component",
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> Clusters:
        """Documents that tell the same story, the largest groups first.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity of an edge; the index's own by default.
        min_size : int
            Fewest documents of a cluster.
        linkage : {"component", "representative"}
            A chain a - b - c, with a unlike c, is one cluster; or is cut so that every member is
            similar to its representative, the one that came in first.
        update : bool
            Bring edges and clusters up to date first, see :meth:`update_clusters`. That writes to
            the index, and is done when this method is called; taking items only reads. Without,
            nothing is written, and of documents that came in since the last update only exact
            copies of a member are in a cluster.
        lock_timeout : float
            Seconds to wait for another writer, where there is something to bring up to date.

        Returns
        -------
        iterator of Cluster
            Its ``state`` says which cap on buckets is in force.

        Raises
        ------
        ParameterError
            Also where ``update`` is false and edges were never found so far down.
        LockedError, DatabaseError
        """
        from lshdb.clusters.listing import Clusters

        return self._handle.ask(
            Clusters, self._handle, threshold=threshold, min_size=min_size, linkage=linkage,
            update=update, lock_timeout=lock_timeout,
        )  # fmt: skip

    def dedup(
        self,
        *,
        keep: Keep = "first",
        threshold: float | None = None,
        against: bool = False,
        since: int | str | None = None,
        only: Only = "all",
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> Deduplication:
        """For each document, whether to keep it, and if not, which one repeats it.

        A dropped document is verified to be similar to the one that is kept in its place. No two
        that are kept are a pair that the index finds: one that shares a bucket, also a large one,
        and is verified. A pair at the threshold shares none with probability ``1 - params.recall``;
        such a pair may be kept. Documents that came in after the stored pairs were last brought up
        to date are not looked at (``update=False``).

        What would be kept is compared in its large buckets, up to 32 million pairs by signature.
        Boilerplate may make more; then ``unchecked`` of the answer estimates how many pairs that
        leaves among what is kept.

        Parameters
        ----------
        keep : str
            Which of similar documents to keep: ``first``, ``last``, ``longest``, ``shortest``, or
            ``field:NAME`` (``field:-NAME``) for the largest (smallest) value of a column of
            ``document``.
        threshold : float, optional
            From which similarity on a document is dropped; the index's own by default.
        against : bool
            Drop only documents of the newest add, and only for older ones.
        since : int or "last", optional
            With ``against``: what is new begins with this batch.
        only : {"all", "keep", "drop"}
            Which decisions to give.
        update, lock_timeout
            As for :meth:`clusters`.

        Returns
        -------
        iterator of Decision
            In the order in which the documents came in.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.deduplication import Deduplication

        return self._handle.ask(
            Deduplication, self._handle, keep=keep, threshold=threshold, against=against,
            since=since, only=only, update=update, lock_timeout=lock_timeout,
        )  # fmt: skip

    def filter(
        self,
        path: Path_,
        *,
        key_field: str = "id",
        keep: Keep = "first",
        threshold: float | None = None,
        against: bool = False,
        since: int | str | None = None,
        update: bool = True,
        lock_timeout: float = 60.0,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
    ) -> Survivors:
        """The lines of a JSON Lines file whose documents :meth:`dedup` keeps, byte for byte.

        Lines that hold no document of the index are kept as well; ``counts`` says how many. A file
        of which no line holds one is refused, before any line is given.

        Parameters
        ----------
        path : path-like
            Plain, ``.gz`` or ``.zst``; ``-`` for standard input.
        key_field : str
            The field with the key.
        keep, threshold, against, since, update, lock_timeout
            As for :meth:`dedup`; a ``field:NAME`` is one of the lines.
        max_document_bytes : int
            The longest line that is looked into, as for :func:`lshdb.read_documents`. A longer one
            is passed on in pieces, unheld, and counted as ``too_long``.

        Raises
        ------
        InputError
            The file cannot be read, or not to its end; or no line of it (of standard input, none
            of the first thousand) holds a document of the index, which says what it looks like.
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.filter import Survivors

        return self._handle.ask(
            Survivors, self._handle, path, key_field=key_field, keep=keep, threshold=threshold,
            against=against, since=since, update=update, lock_timeout=lock_timeout,
            max_document_bytes=max_document_bytes,
        )  # fmt: skip

    def neighbors(
        self,
        *,
        top: int = 10,
        threshold: float | None = None,
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> Neighbors:
        """For every document the most similar ones, from the edges that are kept.

        Parameters
        ----------
        top : int
            Most neighbours of a document.
        threshold : float, optional
            Lowest similarity; the index's own by default.
        update, lock_timeout
            As for :meth:`clusters`.

        Returns
        -------
        iterator of Neighbor
            Those of a document together, the most similar first.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.listing import Neighbors

        return self._handle.ask(
            Neighbors, self._handle, top=top, threshold=threshold, update=update,
            lock_timeout=lock_timeout,
        )  # fmt: skip

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

        return self._handle.ask(
            contract_links, path, threshold=threshold, linkage=linkage, repeat=repeat,
            drop_loops=drop_loops, update=update, lock_timeout=lock_timeout, on_reject=on_reject,
        )  # fmt: skip

    def batches(self) -> list[StoredBatch]:
        """What was added and when, oldest first; one batch is one commit."""
        from lshdb.search.lookup import list_batches

        return self._handle.ask(list_batches)

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

        return self._handle.ask(gather_stats, max_bucket=max_bucket, count_buckets=count_buckets)

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

        return self._handle.ask(run_sql, statement, parameters, timeout=timeout)

    # Other indexes

    def copy(self, path: Path_, *, database: str | None = None, schema: str | None = None) -> None:
        """Copy the index as it is now, while others read it and write to it.

        The copy holds one committed state and keeps the uuid: it is the same index at one moment.
        Where both are written to afterwards, their files must not be exchanged.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        database : str, optional
            URL of the copy's database, where it is not to be ``index.db`` in the directory,
            wherever the database of this index lies.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            The path lies inside the index.
        LockedError
            Another process is making the same copy.
        DamageError, DatabaseError, LshdbError
            The index cannot be read or the copy not written; there is no copy.

        Notes
        -----
        As fast as the files can be read and written, without memory to speak of. The copy is
        synced and then renamed into place: killed before the end, there is none.
        """
        from lshdb.storage.place.copy import copy_index

        place = DatabasePlace(database, schema)
        self._handle.ask(lambda store, _: copy_index(store, Path(path), place=place))

    def export(
        self,
        path: Path_,
        *,
        format: TableFormat = "jsonl",
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the index as it is now to files in open formats, while others write to it.

        Everything that is needed to make it again: documents with their texts, batches, signatures,
        postings, edges and clusters; ``docs/export.md`` describes them.
        :meth:`lshdb.Index.from_export` makes an index of them.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        format : {"jsonl", "parquet"}
            Of the tables; postings too are a Parquet file, or else ``.npy``. Parquet needs the
            extra ``lshdb[parquet]``.
        on_progress : callable, optional
            Called with the number of documents written so far.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            There is no such format, or the path lies inside the index.
        DamageError
            Signatures or texts are not what was written.
        LockedError, DatabaseError, LshdbError
            Also where pyarrow is not installed; there is no export.

        Notes
        -----
        Streamed; memory is that of some thousand documents. The directory is synced and then
        renamed into place: killed before the end, there is none.
        """
        from lshdb.exchange.exporter import export_store

        self._handle.ask(
            lambda store, _: export_store(store, Path(path), tables=format, on_progress=on_progress)
        )

    def reindex(
        self,
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        database: str | None = None,
        schema: str | None = None,
        workers: int | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        **parameters: Any,
    ) -> AddResult:
        """Make another index of the stored texts, with other parameters.

        What is not given is as it is here. Where one of threshold, recall, bands, rows and
        num_perm is given, bands and rows are chosen as for a new index, for this index's recall
        unless another is given. Another unit brings its own k and its own way with letter case,
        another metric, which must take the same bodies, its own scheme, threshold and signature;
        another scheme, whose slots are bits where they were words, its own signature and width.

        Documents come in the same order, with their keys and sources and the times at which they
        first and last came in. Their batches are those of the new index.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        tokenizer, database, **parameters
            As for :meth:`lshdb.Index.create`.
        workers : int, optional
            Threads that sign; one a core by default.
        on_commit : callable, optional
            Called after each commit with the counts so far.

        Returns
        -------
        AddResult

        Raises
        ------
        TextNotStoredError
            The index was made without texts.
        ParameterError
            A value is out of range, there is no such parameter, or the path lies inside the index.
        IndexExistsError
            Something is at the path already.
        TokenizerError, LockedError, DamageError, DatabaseError

        Notes
        -----
        The new index is there when it is whole: killed before, or on any error, there is none.
        This one is read in the state that it has at the beginning. Memory as for :meth:`add`.
        """
        from lshdb.ingest.reindex import reindex_store

        place = DatabasePlace(database, schema)
        return self._handle.ask(
            lambda store, family: reindex_store(
                store, Path(path), family=family, tokenizer=tokenizer, place=place,
                workers=workers, on_commit=on_commit, given=parameters,
            )
        )  # fmt: skip

    def merge(
        self,
        *others: Index,
        on_conflict: OnConflict = "replace",
        lock_timeout: float = 60.0,
        on_commit: Callable[[AddResult], None] | None = None,
    ) -> AddResult:
        """Take over the documents of other indexes, without signing any of them again.

        One index after the other, in batches that are committed as they fill, all of them one add.
        A content that is here already shares its signature. Documents keep the times at which they
        first and last came in; of a key that both have the earlier index says the first.

        Parameters
        ----------
        *others : Index
            Made with the same parameters; bands, rows, threshold, recall and stored texts may
            differ, but an index that stores texts takes nothing from one that stores none. Each is
            read in the state that it has when the merge begins, and is not changed.
        on_conflict : {"replace", "skip", "error"}
            What becomes of a key that is here, or in an earlier one of the others, with another
            text. The same text is always left as it is.
        lock_timeout : float
            Seconds to wait for another writer of this index.
        on_commit : callable, optional
            Called after each commit with the counts so far.

        Returns
        -------
        AddResult

        Raises
        ------
        ParameterMismatchError
            A parameter that decides about signatures differs; names both values.
        ParameterError
            This index is one of the others, or one of them is no index.
        TextNotStoredError
            This index stores texts and another does not.
        ConflictError
            ``on_conflict="error"`` and a key is here with another text.
        DamageError
            Signatures or texts of another index are not what was written.
        LockedError, DatabaseError

        Notes
        -----
        Whatever is raised, batches that were committed before stay; merging again leaves them
        unchanged and adds the rest. Cost and memory go with what comes in.
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

    def compact(self, *, lock_timeout: float = 60.0) -> RewriteResult:
        """Give back the space of documents that were removed or replaced.

        Signatures that no document has any longer are left out of a new signature file, together
        with their postings and edges; what is left becomes one posting run; free pages of the
        database go back to the file system. Documents, clusters and every answer stay the same.
        :meth:`stats` says how much there is to be gained (``reclaimable_bytes``).

        Parameters
        ----------
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RewriteResult

        Raises
        ------
        LockedError
            Another process is writing.
        DamageError
            What would be written anew is not as it was written; nothing was changed.
        DatabaseError
            The disk or the database failed; nothing was changed, or only the space not given back.

        Notes
        -----
        One transaction: killed at any moment, the index is as it was before or as it is after.
        Readers go on meanwhile, with the state that they see. It needs room for a second copy of
        the index, about 300 MiB of memory and 8 bytes for each signature, and time as for reading
        and writing all but the texts.
        """
        from lshdb.maintain.rewrite import compact_store

        return self._handle.ask(lambda store, _: compact_store(store, lock_timeout=lock_timeout))

    @staticmethod
    def reband(
        path: Path_,
        *,
        threshold: float | None = None,
        recall: float | None = None,
        bands: int | None = None,
        rows: int | None = None,
        lock_timeout: float = 60.0,
    ) -> RewriteResult:
        """Cut the signatures of an index into other bands, for another threshold or recall.

        From the signatures as they are stored: no text is needed, and nothing is signed again. It
        compacts the index on the way (:meth:`compact`). Edges and clusters are found anew when they
        are asked for next. An :class:`Index` that is open opens itself again at its next question;
        an iteration that has begun goes on with the state that it sees.

        Parameters
        ----------
        path : path-like
        threshold, recall, bands, rows : optional
            As for :meth:`Index.create`; what is not given is as it is, but for bands and rows,
            which are chosen by threshold and recall.
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RewriteResult

        Raises
        ------
        ParameterError
            Nothing is given, a value is out of range, or the signatures have too few slots for it.
        IndexNotFoundError, LockedError, DamageError, DatabaseError
            As for :meth:`compact`.

        Notes
        -----
        Killed at any moment, the index is as it was before or as it is after. The cost is that of
        :meth:`compact`.
        """
        from lshdb.maintain.rewrite import reband_index

        options = {"threshold": threshold, "recall": recall, "bands": bands, "rows": rows}
        given = {name: value for name, value in options.items() if value is not None}
        return reband_index(Path(path), given, lock_timeout=lock_timeout)

    @staticmethod
    def upgrade(path: Path_, *, lock_timeout: float = 60.0) -> tuple[str | None, str]:
        """Bring an index's schema up to date, in one transaction.

        Returns
        -------
        tuple of str
            Revision before (None for none), and after.

        Raises
        ------
        IndexNotFoundError, LockedError, DatabaseError
        FormatError
            The index was made by a newer version.
        """
        from lshdb.maintain.upgrade import upgrade_index

        return upgrade_index(Path(path), lock_timeout=lock_timeout)

    def check(
        self, *, quick: bool = False, on_note: Callable[[str], None] | None = None
    ) -> list[Finding]:
        """Compare everything on disk with what was written; an empty list for a sound index.

        Parameters
        ----------
        quick : bool
            Look at headers, counts and small tables alone; see ``docs/check.md`` for what is then
            not seen.
        on_note : callable, optional
            Called with what is worth knowing and no damage, a sentence each.
        """
        from lshdb.maintain.check import check_store

        return self._handle.ask(lambda store, _: check_store(store, quick=quick, on_note=on_note))

    @staticmethod
    def repair(
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        lock_timeout: float = 60.0,
        workers: int | None = None,
    ) -> RepairResult:
        """Check an index, and where anything is damaged, make it anew of all that can be proved.

        What has a good source is worked out again: signatures, postings, copies and counts. Other
        documents are moved into a file beside the index and named. Edges and clusters are found
        again when they are asked for. See ``docs/check.md``.

        Parameters
        ----------
        path : path-like
        tokenizer : Tokenizer or str, optional
            As for :meth:`open`.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; one a core by default.

        Returns
        -------
        RepairResult
            Without findings nothing was changed.

        Raises
        ------
        IndexNotFoundError, FormatError, ParameterMismatchError, DamageError
            There is no index, or what names its parameters is damaged; nothing was changed.
        LockedError, DatabaseError, TokenizerError
            Nothing was changed.
        """
        from lshdb.maintain.repair import repair_index

        return repair_index(
            Path(path), tokenizer=tokenizer, lock_timeout=lock_timeout, workers=workers
        )


def _check_index(name: str, value: object) -> None:
    """Refuse what is no open index, such as a path, or a list of indexes."""
    if not isinstance(value, Index):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected an open Index",
            hint="open it with Index.open(path); give several one by one, a list as *indexes",
        )
