"""A user's program: every result has a public type, with the attributes that it uses."""

from __future__ import annotations

from datetime import datetime

from lshdb import (
    AddResult,
    Cluster,
    Contraction,
    CreateOptions,
    Decision,
    EdgeState,
    Explanation,
    Finding,
    Hit,
    Index,
    IndexChangedError,
    IndexParams,
    IndexStats,
    Loss,
    LshdbError,
    NearestHits,
    Neighbor,
    Pair,
    PairSearch,
    Passage,
    PassageSearch,
    RemoveResult,
    RepairResult,
    RewriteResult,
    RewrittenFiles,
    ShownDocument,
    SqlResult,
    StoredBatch,
    Survivors,
    deduplicate,
)


def questions(index: Index) -> None:
    hits: list[Hit] = index.query("text")
    answer = index.query("text", recall=0.9)
    recall: float | None = answer.recall if isinstance(answer, NearestHits) else None
    far: list[float | None] = [hit.distance for hit in hits]
    found: PairSearch = index.pairs(max_bucket=100)
    pairs: list[Pair] = list(found)
    lost: Loss | None = found.loss
    shared: PassageSearch = index.passages(max_bucket=100, with_text=True)
    passages: list[Passage] = [*shared, *index.query_passages("text", threshold=0.5)]
    between: list[tuple[int, int]] = [
        (one.start1, one.end1) for one in index.explain_passages("a", "b")
    ]
    clusters: list[Cluster] = [*index.clusters(linkage="representative")]
    decisions: list[Decision] = [*index.dedup(keep="field:-n_chars", only="drop")]
    neighbors: list[Neighbor] = [*index.neighbors(top=3)]
    joined: list[Pair] = [*index.join(index)]
    state: EdgeState = index.clusters().state
    why: Explanation = index.explain("a", "b")
    shown: ShownDocument = index.show("a")
    batches: list[StoredBatch] = index.batches()
    stats: IndexStats = index.stats()
    findings: list[Finding] = index.check()
    survivors: Survivors = index.filter("news.jsonl", keep="longest")
    lines: list[bytes] = [*survivors]
    written: RewrittenFiles = index.dedup_files(["news.csv"], "clean", mark=True)
    outputs: list[str] = [one.output for one in written.files]
    texts: list[str] = deduplicate(["a text"], threshold=0.5)
    links: Contraction = index.contract("links.tsv")
    sources: list[str] = [source for source, _, _ in links]
    print(far, pairs, lost, clusters, decisions, neighbors, joined, state, why, shown, batches)
    print(stats, findings, lines, sources, recall, outputs, texts, passages, between)


def statements(index: Index) -> list[int]:
    result: SqlResult = index.sql("SELECT count(*) AS n FROM document")
    names: tuple[str, ...] = result.columns
    return [row[names.index("n")] for row in result]


def container(index: Index) -> tuple[int, bool, list[str], int]:
    rows, words = index.signatures.shape
    return len(index), "a" in index, list(index), rows * words


def changes(index: Index, moment: datetime) -> None:
    added: AddResult = index.add([("a", "one")], on_conflict="skip")
    removed: RemoveResult = index.remove(["a"])
    expired: RemoveResult = index.expire(moment)
    compacted: RewriteResult = index.compact()
    rebanded: RewriteResult = Index.reband(index.path, threshold=0.7)
    repaired: RepairResult = Index.repair(index.path)
    merged: AddResult = index.merge(index, on_conflict="error")
    index.export("folder", format="parquet")
    print(added, removed, expired, compacted, rebanded, repaired, merged)


def parameters() -> IndexParams:
    options = CreateOptions(metric="l2", dim=3, threshold=1.5, unit=None, digits="keep")
    try:
        return options.params()
    except (IndexChangedError, LshdbError) as error:
        raise SystemExit(f"{error.message}: {error.hint}") from error
