"""An index that lasts for one question: files or a table in, pairs, clusters or clean files out.

    with TransientIndex.create(threshold=0.8) as index:
        index.add(read_documents(["news.jsonl"]))
        index.dedup_files(["news.jsonl"], "clean.jsonl")

Its methods are those of :class:`lshdb.Index` and give the same answers, line for line: the stages
are the same ones. It has no tables, so documents come in once, and there is no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from lshdb.handle import Handle, family_for, tells
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions, check_parameters
from lshdb.phases.phase import OnProgress
from lshdb.search.verification import asked_level, check_limits, level_of
from lshdb.signatures.families import params_for
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState
from lshdb.threads import choose_workers
from lshdb.tokenizers import Tokenizer, given_tokenizer
from lshdb.transient.transient_add import add_to_transient
from lshdb.transient.transient_store import TransientStore

if TYPE_CHECKING:
    from lshdb.documents.document import Given, Rejected
    from lshdb.groups.deduplication import Deduplication
    from lshdb.groups.listing import Clusters
    from lshdb.groups.rewrite_files import RewrittenFiles
    from lshdb.ingest.add_result import AddResult
    from lshdb.search.loss import Loss
    from lshdb.search.pairs import PairSearch
    from lshdb.search.query import QueryAnswers
    from lshdb.search.since import Since
    from lshdb.search.verification import Hit, Hits
    from lshdb.search.vote import Vote

__all__ = ["TransientIndex"]

MEMORY = 64 * 2**20
"""Memory for pairs and texts under verification.

With the 256 MiB that an index has, the pairs of a million documents of 1.5 KB took as long and
300 MiB more.
"""


class _TransientHandle:
    """What a :class:`~lshdb.handle.Handle` is to an index that never changes."""

    def __init__(self, store: TransientStore, family: Family) -> None:
        self.now = store, family

    def ask(self, question: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Ask a question."""
        return question(*self.now, *args, **options)


class TransientIndex:
    """See the module; a context manager, at whose end all of it is gone.

    Parameters
    ----------
    params : IndexParams
    tokenizer : Tokenizer, optional
    """

    def __init__(self, params: IndexParams, tokenizer: Tokenizer | None = None) -> None:
        self._family = family_for(params, tokenizer)
        self._store = TransientStore(params)
        self._handle = cast("Handle", _TransientHandle(self._store, self._family))

    @classmethod
    def create(
        cls,
        *,
        sample: Iterable[Any] | None = None,
        tokenizer: Tokenizer | str | None = None,
        **parameters: Any,
    ) -> Self:
        """Make an empty index; takes the parameters of :meth:`lshdb.Index.create`."""
        check_parameters("TransientIndex.create", parameters, "sample", "tokenizer")
        tokenizer = given_tokenizer(tokenizer)
        recorded = tokenizer.recorded if tokenizer is not None else ""
        options = CreateOptions(**parameters, tokenizer=recorded)
        return cls(params_for(options, sample), tokenizer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all of it."""
        self._store.close()

    @property
    def params(self) -> IndexParams:
        """The parameters."""
        return self._store.params

    @property
    def path(self) -> Path:
        """The folder of the temporary files."""
        return self._store.path

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._store.n_documents

    @tells
    def add(
        self,
        documents: Iterable[Given],
        *,
        max_errors: int | None = None,
        workers: int | None = None,
        on_reject: Callable[[Rejected], None] | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AddResult:
        """Take all documents, once; see :meth:`lshdb.Index.add`."""
        return add_to_transient(
            self._store, documents, self._family,
            max_errors=max_errors, workers=workers, on_reject=on_reject, on_commit=on_commit,
        )  # fmt: skip

    @property
    def has_signatures(self) -> bool:
        """True: the signatures are here."""
        return True

    def texts(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the texts of documents by key; see :meth:`lshdb.Index.texts`."""
        from lshdb.search.explain import texts_of_keys

        return self._handle.ask(texts_of_keys, keys)

    def fields(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the kept fields of documents by key; see :meth:`lshdb.Index.fields`."""
        from lshdb.search.explain import fields_of_keys

        return self._handle.ask(fields_of_keys, keys)

    def __contains__(self, key: object) -> bool:
        """Return whether a document has this key."""
        with self._store.reading() as state:
            return isinstance(key, str) and bool(state.documents_of_keys([key]))

    def refusal(self, body: object) -> str | None:
        """Return why a body is refused; see :meth:`lshdb.Index.refusal`."""
        return self._family.refusal(body)

    def query(
        self,
        body: Any = None,
        *,
        key: str | None = None,
        top: int | None = 10,
        threshold: float | None = None,
        verify: str | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        below: float | None = None,
        measure: str = "similarity",
    ) -> Hits:
        """Find the documents that are most similar to one; see :meth:`lshdb.Index.query`."""
        from lshdb.search.query import query_index

        return self._handle.ask(
            query_index, body, key=key, top=top, threshold=threshold, verify=verify, recall=recall,
            probe_limit=probe_limit, below=below, measure=measure,
        )  # fmt: skip

    @tells
    def query_many(
        self,
        documents: Iterable[Any],
        *,
        top: int | None = 10,
        threshold: float | None = None,
        verify: str | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        below: float | None = None,
        measure: str = "similarity",
        workers: int | None = 1,
        on_progress: OnProgress | None = None,
    ) -> QueryAnswers:
        """Answer many queries; see :meth:`lshdb.Index.query_many`."""
        from lshdb.search.query import QueryAnswers

        return self._handle.ask(
            QueryAnswers, self._handle, documents, top=top, threshold=threshold, verify=verify,
            recall=recall, probe_limit=probe_limit, workers=workers, below=below, measure=measure,
        )  # fmt: skip

    def vote(self, hits: Iterable[Hit], field: str) -> list[Vote]:
        """Let the nearest documents vote; see :meth:`lshdb.Index.vote`."""
        from lshdb.search.vote import count_votes

        return self._handle.ask(count_votes, hits, field)

    @tells
    def update_clusters(
        self,
        *,
        threshold: float | None = None,
        verify: str | None = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
        lock_timeout: float = 0.0,
        on_progress: OnProgress | None = None,
    ) -> EdgeState:
        """Find all verified pairs; see :meth:`lshdb.Index.update_clusters`.

        There is no lock to wait for: ``lock_timeout`` is for callers who have either kind.
        """
        from lshdb.groups.update import make_edges

        check_limits(max_bucket, memory)
        level = asked_level(self._store, threshold)
        with self._store.reading() as state:
            state.edges.clear()
            return make_edges(
                self._store, state.edges, state, self._family,
                threshold=min(level, self.params.level), verify=verify, max_bucket=max_bucket,
                memory=memory, workers=choose_workers(workers),
            )  # fmt: skip

    def edge_state(self) -> EdgeState | None:
        """Return what the verified pairs cover; None before they are found."""
        with self._store.reading() as state:
            return state.edges.state()

    def _with_edges(self, threshold: float | None) -> None:
        """Find the pairs down to a threshold, unless they are there."""
        level = level_of(self.params, threshold)
        edges = self.edge_state()
        if edges is None or edges.threshold > level:
            self.update_clusters(threshold=threshold)

    def loss(self, *, threshold: float | None = None) -> Loss | None:
        """Estimate the pairs that large buckets hide; see :meth:`lshdb.Index.loss`."""
        from lshdb.search.loss import loss_of_stored

        return loss_of_stored(self._store, self._family, threshold)

    @tells
    def pairs(
        self,
        *,
        threshold: float | None = None,
        below: float | None = None,
        verify: str | None = None,
        since: Since = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
        agree: str | Iterable[str] = (),
        differ: str | Iterable[str] = (),
        cross: tuple[str, str] | None = None,
        ignore_same_path: bool = False,
        limit: int | None = None,
        measure: str = "similarity",
        on_progress: OnProgress | None = None,
    ) -> PairSearch:
        """Find all pairs; see :meth:`lshdb.Index.pairs`."""
        from lshdb.search.pairs import PairSearch

        return self._handle.ask(
            PairSearch, self._handle, threshold=threshold, below=below, verify=verify, since=since,
            max_bucket=max_bucket, memory=memory, workers=workers, agree=agree, differ=differ,
            cross=cross, ignore_same_path=ignore_same_path, limit=limit, measure=measure,
        )  # fmt: skip

    @tells
    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: str = "component",
        since: Since = None,
        agree: str | Iterable[str] = (),
        differ: str | Iterable[str] = (),
        update: bool = True,
        on_progress: OnProgress | None = None,
    ) -> Clusters:
        """Find the clusters; see :meth:`lshdb.Index.clusters`."""
        from lshdb.groups.listing import Clusters

        if update:
            self._with_edges(threshold)
        return self._handle.ask(
            Clusters, self._handle, threshold=threshold, min_size=min_size, linkage=linkage,
            since=since, agree=agree, differ=differ, update=False, lock_timeout=0.0,
        )  # fmt: skip

    @tells
    def dedup(
        self,
        *,
        keep: str = "first",
        threshold: float | None = None,
        only: str = "all",
        agree: str | Iterable[str] = (),
        differ: str | Iterable[str] = (),
        on_progress: OnProgress | None = None,
    ) -> Deduplication:
        """Decide what to keep; see :meth:`lshdb.Index.dedup`."""
        from lshdb.groups.deduplication import Deduplication

        self._with_edges(threshold)
        return self._handle.ask(
            Deduplication, self._handle, keep=keep, threshold=threshold, against=False, since=None,
            only=only, agree=agree, differ=differ, update=False, lock_timeout=0.0,
        )  # fmt: skip

    @tells
    def dedup_files(
        self,
        paths: Sequence[Any],
        output: Any,
        *,
        threshold: float | None = None,
        on_progress: OnProgress | None = None,
        **question: Any,
    ) -> RewrittenFiles:
        """Write files again; takes what :meth:`lshdb.Index.dedup_files` takes."""
        from lshdb.groups.rewrite_files import rewrite_files

        self._with_edges(threshold)
        question |= {"update": False, "lock_timeout": 0.0}
        return rewrite_files(self._handle, paths, output, threshold=threshold, **question)
