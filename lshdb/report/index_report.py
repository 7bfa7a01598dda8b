"""One snapshot of an index -> a report: the questions, their order, and the pages.

Clusters are rendered one at a time until ``FILE_BYTES`` are written: more than that no browser
takes well. A folder has all of them, on pages of some hundred clusters or a
mebibyte each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lshdb import __version__
from lshdb.arguments import check_flag, check_key, check_whole
from lshdb.errors import KeyNotFoundError, ReadOnlyError
from lshdb.groups.deduplication import Decisions, decide
from lshdb.groups.listing import Cluster, find_clusters
from lshdb.groups.update import edges_down_to, ready_edges
from lshdb.ingest.cut_documents import refuse_cut_document
from lshdb.maintain.stats import IndexStats, stats_of
from lshdb.pages import (
    CurveChart,
    Link,
    MeasuredPoint,
    Page,
    histogram,
    inline_assets,
    make_environment,
    s_curve_chart,
)
from lshdb.pages.cards import Nights
from lshdb.pages.environment import day
from lshdb.pages.text_markup import SideBySide, side_by_side
from lshdb.params.s_curve import s_curve
from lshdb.report.cluster_cards import COMPARED, ShownCluster, show_clusters
from lshdb.report.hot_buckets import BucketSizes, bucket_sizes
from lshdb.report.repeats import Add, Drops, Repeats, adds_of, drops_of, repeats_of
from lshdb.report.report_files import (
    check_place,
    makes_folder,
    write_page,
    written_file,
    written_folder,
)
from lshdb.report.spread import Spread, first_documents, spread_of
from lshdb.search.measured_recall import MeasuredRecall, recall_of
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import asked_level, choose_method
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.tables.records import timestamp
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

if TYPE_CHECKING:
    from jinja2 import Environment, Template

__all__ = ["ReportResult", "make_report"]

FILE_BYTES = 8 * 2**20
"""Bytes of a page after which it has no further cluster."""
PAGE_BYTES = 2**20
PAGE_CLUSTERS = 200
_PAIRS = 20
_PAIR_CHARACTERS = 1_500_000
"""Characters of the texts of pairs after which there is no further pair."""
_ADDS = 200
_SECTIONS = (
    ("clusters-section", "Clusters"),
    ("nights", "Repeats"),
    ("near", "Near the threshold"),
    ("quality", "Quality"),
    ("buckets", "Buckets"),
    ("contents", "Index"),
)
_SAMPLE = 500
_SAMPLED_CHARACTERS = 200_000_000
"""Characters of all texts up to which recall is measured if nobody asks."""
_MAX_BUCKET = 1_000
_CAPS = (10, 100, 1_000, 10_000)
_MANY = 300_000
"""Signatures of an index from which on only one cap is looked at."""
_COMPARED_ALONE = 30
"""Members that are compared if a report is about one cluster."""

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPT = Path(__file__).parent / "assets" / "report.js"


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The result of :meth:`lshdb.Index.report`.

    Attributes
    ----------
    path : Path
        The page to open.
    pages : int
        Number of HTML files.
    n_bytes : int
        Of all pages.
    clusters, clusters_left : int
        Clusters that are shown, and those that are not, for want of room or because of ``limit``.
    """

    path: Path
    pages: int
    n_bytes: int
    clusters: int
    clusters_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What a caller asked for; see :meth:`lshdb.Index.report`."""

    since: Since
    cluster: str | None
    threshold: float | None
    limit: int | None
    sample: int | None
    update: bool
    overwrite: bool
    lock_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPair:
    """A pair near the threshold with both texts; its place in the range from 0 to 1."""

    key1: str
    key2: str
    place: float
    value: float
    is_within: bool
    bands: tuple[int, ...]
    sides: SideBySide | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything in a report but its clusters.

    ``None`` stands for a question that the index cannot answer, or that was not asked.
    """

    stats: IndexStats
    made_at: str
    threshold: float
    ends: tuple[float, float]
    since: str
    is_distance: bool
    adds: list[Add]
    n_adds: int
    nights: list[str]
    curve: CurveChart | None
    measured: MeasuredRecall | None
    measured_why_not: str
    state: EdgeState | None
    n_clusters: int
    n_clustered: int
    n_since: int | None
    n_dropped: int
    drops: Drops | None
    clusters_why_not: str
    spread: Spread | None
    spread_chart: Any
    pairs: list[ShownPair]
    buckets: BucketSizes | None
    caps: list[IndexStats]
    repeats: Repeats | None
    cluster: str | None


def make_report(store: Store, family: Family, path: str, *, options: ReportOptions) -> ReportResult:
    """Write a report; see :meth:`lshdb.Index.report`."""
    if options.limit is not None:
        check_whole("limit", options.limit, 1)
    if options.sample is not None:
        check_whole("sample", options.sample, 0)
    if options.cluster is not None:
        check_key("cluster", options.cluster)
    check_flag("overwrite", options.overwrite)
    check_since(store, options.since)
    level = asked_level(store, options.threshold)
    environment = make_environment(_TEMPLATES)
    store.directory.refuse_inside(Path(path))
    check_place(path, overwrite=options.overwrite)
    why_not = _prepare(store, family, level, options)
    with store.reading() as snapshot:
        report = _Report(store, snapshot, family, level, options, environment, why_not)
        if makes_folder(path):
            return report.write_folder(path)
        return report.write_file(path)


def _prepare(store: Store, family: Family, level: float, options: ReportOptions) -> str:
    """Bring the stored pairs up to date; return the reason if the index cannot have any."""
    if store.params.window is not None:
        return (
            "This index keeps passages of documents. lshdb pairs --by document lists those that "
            "recur."
        )
    try:
        ready_edges(store, family, level, update=options.update, lock_timeout=options.lock_timeout)
    except ReadOnlyError:
        ready_edges(store, family, level, update=False, lock_timeout=options.lock_timeout)
    return ""


@dataclass(slots=True)
class _ShownClusters:
    """The clusters of a report, and how many have been taken."""

    clusters: Iterator[ShownCluster]
    count: int = 0
    waiting: list[ShownCluster] = field(default_factory=list)

    def take(self) -> ShownCluster | None:
        """Return the next one, if there is one."""
        if self.waiting:
            cluster: ShownCluster | None = self.waiting.pop()
        else:
            cluster = next(self.clusters, None)
        if cluster is not None:
            self.count += 1
        return cluster

    def has_more(self) -> bool:
        """Return whether another one follows."""
        if not self.waiting:
            self.waiting = list(islice(self.clusters, 1))
        return bool(self.waiting)


class _Report:
    """Writes the report on one state of an index."""

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        family: Family,
        level: float,
        options: ReportOptions,
        environment: Environment,
        why_not: str,
    ) -> None:
        self._store, self._snapshot, self._family = store, snapshot, family
        self._params, self._level, self._options = family.params, level, options
        self._environment, self._why_not = environment, why_not
        self._since = first_new_batch(snapshot, options.since)
        self._workers = choose_workers(None)
        self._state = None if why_not else edges_down_to(store, snapshot, level)
        self._adds = adds_of(snapshot.batches())
        self._nights = Nights(self._adds)
        nothing = np.empty(0, np.int64)
        self._decided = Decisions(nothing, nothing, np.empty(0))
        self._totals = (0, 0)
        if self._state is not None:
            self._decided = decide(snapshot, family, self._state, threshold=level, keep="first")
            self._totals = self._count(None)
        self._assets = inline_assets(_SCRIPT)
        self._made_at = timestamp()

    # Clusters

    def _clusters(self) -> _ShownClusters:
        """Return the clusters that are shown, the largest first."""
        clusters: Iterable[Cluster] = ()
        compared = COMPARED
        if self._state is not None:
            clusters = find_clusters(
                self._snapshot, threshold=self._level, linkage="component", min_size=2,
                since=self._since,
            )  # fmt: skip
        if self._options.cluster is not None:
            clusters, compared = [self._only(clusters, self._options.cluster)], _COMPARED_ALONE
        shown = show_clusters(
            self._snapshot, self._family, clusters, level=self._level, decided=self._decided,
            nights=self._nights, compared=compared,
        )  # fmt: skip
        return _ShownClusters(shown)

    def _count(self, since: int | None) -> tuple[int, int]:
        """Return the numbers of clusters and of documents in them, without looking them up."""
        sizes = [
            len(cluster.keys)
            for cluster in find_clusters(
                self._snapshot, threshold=self._level, linkage="component", min_size=2, since=since
            )
        ]
        return len(sizes), sum(sizes)

    def _only(self, clusters: Iterable[Cluster], key: str) -> Cluster:
        """Return the cluster of a document.

        Raises
        ------
        KeyNotFoundError
            There is no such document, or it is in no cluster.
        """
        if self._params.window is not None:
            refuse_cut_document(self._snapshot, key)
        self._snapshot.document(key)
        cluster = next((cluster for cluster in clusters if key in cluster.keys), None)
        if cluster is None:
            raise KeyNotFoundError(
                f"the document {key!r} is in no cluster at this threshold",
                key=key,
                hint="lshdb query INDEX --key KEY --threshold T lists what is less similar",
            )
        return cluster

    # What stands before them

    def findings(self) -> Findings:
        """Ask for everything but the clusters."""
        snapshot, params, options = self._snapshot, self._params, self._options
        threshold = params.curve.value(self._level)
        is_whole = options.cluster is None
        adds, spread_chart = self._adds, None
        drops: Drops | None = None
        n_since = None
        spread = buckets = repeats = measured = None
        measured_why_not = ""
        pairs: list[ShownPair] = []
        if is_whole and snapshot.n_signatures:
            measured, measured_why_not = self._recall()
            if params.window is None:  # windows of one document overlap
                method = choose_method(None, params, has_signatures=snapshot.has_signatures)
                spread = spread_of(
                    snapshot, self._family, level=self._level, method=method, since=self._since,
                    most=_MAX_BUCKET, nearest=options.limit or _PAIRS, workers=self._workers,
                )  # fmt: skip
                pairs = self._shown_pairs(spread)
                spread_chart = _spread_chart(spread, params.threshold)
            buckets = bucket_sizes(snapshot, self._family)
            if self._state is not None:
                repeats = repeats_of(snapshot, adds, level=self._level, since=self._since)
                drops = drops_of(
                    snapshot, adds, self._nights, self._decided.doc_ids, self._decided.kept
                )
        if self._state is not None and self._since is not None:
            n_since, _ = self._count(self._since)
        return Findings(
            stats=stats_of(
                self._store, snapshot, self._family, max_bucket=None, count=True
            ),
            made_at=self._made_at,
            threshold=threshold,
            ends=(0.0, threshold) if params.kind.is_distance else (threshold, 1.0),
            since="" if options.since is None else str(options.since),
            is_distance=params.kind.is_distance,
            adds=adds[: -_ADDS - 1 : -1],
            n_adds=len(adds),
            nights=self._nights.names,
            curve=s_curve_chart(s_curve(params), _points(measured)) if is_whole else None,
            measured=measured,
            measured_why_not=measured_why_not,
            state=self._state,
            n_clusters=self._totals[0],
            n_clustered=self._totals[1],
            n_since=n_since,
            n_dropped=len(self._decided.doc_ids),
            drops=drops,
            clusters_why_not=self._why_not,
            spread=spread,
            spread_chart=spread_chart,
            pairs=pairs,
            buckets=buckets,
            caps=[] if buckets is None else self._caps(buckets.largest),
            repeats=repeats,
            cluster=options.cluster,
        )  # fmt: skip

    def _recall(self) -> tuple[MeasuredRecall | None, str]:
        """Measure recall on some documents, where bodies are stored and the time is bounded."""
        params, sample = self._params, self._options.sample
        if sample == 0:
            return None, "Recall was not measured: the sample was 0."
        if not params.store_text:
            return None, "Recall cannot be measured here: the index does not store its documents."
        if sample is None and self._snapshot.count_characters() > _SAMPLED_CHARACTERS:
            return None, (
                "Recall was not measured, because all texts are read for it. --sample 500 "
                "measures it here, and lshdb recall by itself."
            )
        measured = recall_of(
            self._snapshot, self._family, sample=sample or _SAMPLE, workers=self._workers
        )
        return measured, ""

    def _caps(self, largest: int) -> list[IndexStats]:
        """Return the statistics of some caps on buckets; each reads all postings."""
        caps = _CAPS if self._snapshot.n_signatures <= _MANY else (_MAX_BUCKET,)
        return [
            stats_of(self._store, self._snapshot, self._family, max_bucket=cap, count=True)
            for cap in caps
            if cap < largest
        ]

    def _shown_pairs(self, spread: Spread) -> list[ShownPair]:
        """Look up documents and texts of pairs; pass over pairs without documents."""
        low, high = spread.near_ends
        ids = [
            signature_id
            for pair in spread.nearest
            for signature_id in (pair.signature1, pair.signature2)
        ]
        documents = first_documents(self._snapshot, ids)
        shown: list[ShownPair] = []
        room = _PAIR_CHARACTERS
        for pair in spread.nearest:
            if room < 0:
                break
            document1, document2 = documents.get(pair.signature1), documents.get(pair.signature2)
            if document1 is None or document2 is None:
                continue
            value = self._params.curve.value(pair.level)
            bodies: dict[int, Any] = {}
            if self._params.keeps_texts:
                stored_bodies = dict(
                    self._snapshot.bodies_of_documents([document1[0], document2[0]])
                )
                bodies = {number: stored_bodies[number] for number in (document1[0], document2[0])}
            shown.append(
                ShownPair(
                    key1=document1[1],
                    key2=document2[1],
                    place=(value - low) / (high - low),
                    value=value,
                    is_within=pair.level >= self._level,
                    bands=pair.bands,
                    sides=side_by_side(
                        *bodies.values(), steps=self._params.normalisation, keep_folds=True
                    )
                    if bodies
                    else None,
                )
            )
            shown_sides = shown[-1].sides
            room -= 0 if shown_sides is None else shown_sides.n_shown
        return shown

    # Writing

    def write_file(self, path: str) -> ReportResult:
        """Write everything into one page."""
        counted, findings = self._clusters(), self.findings()
        n_bytes = 0

        def clusters() -> Iterator[ShownCluster]:
            limit = self._options.limit
            while (n_bytes < FILE_BYTES or not counted.count) and (
                limit is None or counted.count < limit
            ):
                cluster = counted.take()
                if cluster is None:
                    return
                yield cluster

        counts: dict[str, Any] = {"shown": 0, "left": 0}

        def told() -> Iterator[ShownCluster]:
            yield from clusters()
            counts["shown"], counts["left"] = counted.count, self._left(counted, findings)

        template = self._environment.get_template("report.html")
        with written_file(path, overwrite=self._options.overwrite) as file:
            for part in _encoded(
                template, page=self._page(findings), it=findings, clusters=told(), counts=counts,
                pages=None, is_folder=False,
            ):  # fmt: skip
                file.write(part)
                n_bytes += len(part)
        return ReportResult(Path(path), 1, n_bytes, counts["shown"], counts["left"])

    def write_folder(self, path: str) -> ReportResult:
        """Write pages of clusters, then the page that links to them."""
        counted, findings = self._clusters(), self.findings()
        template = self._environment.get_template("clusters.html")
        n_bytes = 0
        pages: list[dict[str, Any]] = []
        limit = self._options.limit
        with written_folder(path, overwrite=self._options.overwrite) as folder:
            while (limit is None or counted.count < limit) and counted.has_more():
                on_page = _OnPage(counted, limit)
                number = len(pages) + 1
                parts = on_page.counting(
                    _encoded(
                        template,
                        page=self._page(findings, number),
                        it=findings,
                        clusters=on_page.clusters(),
                        number=number,
                        has_more=on_page.has_more,
                    )
                )
                name = f"clusters-{number:04d}.html"
                n_bytes += write_page(folder, name, parts)
                pages.append({"name": name, **on_page.said()})
            left = self._left(counted, findings)
            parts = _encoded(
                self._environment.get_template("report.html"), page=self._page(findings),
                it=findings, clusters=(), counts={"shown": counted.count, "left": left},
                pages=pages, is_folder=True,
            )  # fmt: skip
            n_bytes += write_page(folder, "index.html", parts)
        return ReportResult(Path(path, "index.html"), len(pages) + 1, n_bytes, counted.count, left)

    def _left(self, counted: _ShownClusters, findings: Findings) -> int:
        """Return how many clusters are not shown, by counting the rest without looking them up."""
        if self._options.cluster is not None or not counted.has_more():
            return 0
        n_clusters = findings.n_clusters if findings.n_since is None else findings.n_since
        return n_clusters - counted.count

    def _page(self, findings: Findings, number: int = 0) -> Page:
        name = self._store.path.name
        shown = {
            "nights": findings.repeats, "near": findings.spread, "quality": findings.curve,
            "buckets": findings.buckets,
        }  # fmt: skip
        target = "index.html#" if number else "#"
        return Page(
            title=f"Clusters of {name}, page {number}" if number else f"Report on {name}",
            name=name,
            note=f"Report, {day(self._made_at)}",
            heading=f"Clusters, page {number}" if number else _result(findings),
            assets=self._assets,
            links=tuple(
                Link(title, target + section, section == "clusters-section")
                for section, title in _SECTIONS
                if shown.get(section, True)
            ),
            footer=f"Made at {self._made_at[:16]} UTC by lshdb {__version__}. "
            "This page asks nothing of any server.",
        )


@dataclass(slots=True)
class _OnPage:
    """The clusters of one page of a folder."""

    counted: _ShownClusters
    limit: int | None
    n_bytes: int = 0
    sizes: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    first: ShownCluster | None = None

    def clusters(self) -> Iterator[ShownCluster]:
        """Yield clusters until the page is full."""
        while len(self.sizes) < PAGE_CLUSTERS and self.n_bytes < PAGE_BYTES:
            if self.limit is not None and self.counted.count >= self.limit:
                return
            cluster = self.counted.take()
            if cluster is None:
                return
            card = cluster.card
            self.sizes.append(card.size)
            self.first = self.first or cluster
            if card.spread is not None:
                self.ends += [card.spread.low, card.spread.high]
                self.ends = [min(self.ends), max(self.ends)]
            yield cluster

    def counting(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Pass a page on, and count its bytes."""
        for part in parts:
            self.n_bytes += len(part)
            yield part

    def has_more(self) -> bool:
        """Return whether another page follows; asked at the end of the page."""
        is_full = self.limit is not None and self.counted.count >= self.limit
        return not is_full and self.counted.has_more()

    def said(self) -> dict[str, Any]:
        """Return the link to this page."""
        return {
            "clusters": len(self.sizes), "largest": max(self.sizes), "smallest": min(self.sizes),
            "low": self.ends[0] if self.ends else None,
            "high": self.ends[-1] if self.ends else None,
            "first": self.first.card.label if self.first else "",
            "lead": self.first.card.lead if self.first else "",
        }  # fmt: skip


def _result(findings: Findings) -> str:
    """Say what is duplicated, and what should go."""
    n_documents, n_clusters = findings.stats.documents, findings.n_clusters
    if findings.cluster is not None:
        return f"The cluster of {findings.cluster}"
    if findings.state is None:
        return f"The index holds {n_documents:,} documents"
    if not n_clusters:
        return "No two documents are near-duplicates"
    dropped = findings.n_dropped
    clusters = "1 cluster" if n_clusters == 1 else f"{n_clusters:,} clusters"
    return (
        f"{findings.n_clustered:,} of {n_documents:,} documents are in {clusters}; dedup would "
        f"drop {dropped:,} and keep {n_documents - dropped:,}."
    )


def _encoded(template: Template, **values: Any) -> Iterator[bytes]:
    """Render a template piece by piece; its filters have replaced what UTF-8 cannot hold."""
    for part in template.generate(**values):
        yield part.encode("utf-8", "replace")


def _points(measured: MeasuredRecall | None) -> list[MeasuredPoint]:
    """Return measured slices as points in their middle."""
    if measured is None:
        return []
    return [
        MeasuredPoint((part.low + part.high) / 2.0, part.recall, part.lower, part.upper)
        for part in measured.slices
        if part.recall is not None and part.lower is not None and part.upper is not None
    ]


def _spread_chart(spread: Spread, threshold: float) -> Any:
    edges = [spread.bins[0].low, *(bin_.high for bin_ in spread.bins)]
    totals = [float(bin_.verified + bin_.false) for bin_ in spread.bins]
    false = [float(bin_.false) for bin_ in spread.bins]
    return histogram(edges, totals, false, mark=threshold)
