"""Checks of what follows from the rest: bucket sizes, edges, clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lshdb.clusters.listing import clusters_of_edges
from lshdb.maintain.check.findings import Finding, counted, documents_affected
from lshdb.params.index_params import IndexParams
from lshdb.storage.dialects.base import run_table
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["bucket_findings", "cluster_findings", "edge_findings", "release_findings"]


def bucket_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield bucket sizes that are not those of the runs."""
    for run_id, table in snapshot.execute("SELECT run_id, table_name FROM run").fetchall():
        sizes = snapshot.session.run_tables.bucket_sizes(run_table(table))
        counted = dict(_sizes(snapshot.execute(sizes)))
        stored = dict(
            _sizes(
                snapshot.execute(
                    "SELECT band, size, n_buckets FROM bucket_stat WHERE run_id = ?", (run_id,)
                )
            )
        )
        for band, size in sorted(counted.keys() | stored.keys()):
            found, written = counted.get((band, size), 0), stored.get((band, size), 0)
            if found != written:
                yield Finding(
                    "bucket size",
                    f"table bucket_stat, run {run_id}, band {band}",
                    f"counts {written} buckets of {size}; {table} holds {found}",
                    "stats and --max-bucket",
                )


def _sizes(rows: Iterable[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int], int]]:
    return (((band, size), count) for band, size, count in rows)


def release_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield signatures that no document has and no release names; questions would trip on them."""
    n = snapshot.n_signatures
    explained = _held_or_released(snapshot, -(2**63))
    for one in np.flatnonzero(~explained).tolist():
        what = "no document has it, and it was not released"
        yield Finding("release", f"table signature_release, signature {one}", what, "questions")
    for release_id, one in snapshot.execute(
        "SELECT release_id, signature_id FROM signature_release "
        "WHERE NOT signature_id BETWEEN 0 AND ?",
        (n - 1,),
    ):
        what = f"names signature {one}; there are {n}"
        yield Finding("release", f"table signature_release, row {release_id}", what, "1 row")


def edge_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield impossible edges, and those of signatures that no document has."""
    state, n = snapshot.edges.state(), snapshot.n_signatures
    best = params.curve.best
    lowest = best + 1.0 if state is None else state.threshold
    rows = snapshot.execute(
        "SELECT signature1, signature2, similarity FROM edge WHERE NOT (signature1 >= 0 "
        "AND signature1 < signature2 AND signature2 < ? AND similarity BETWEEN ? AND ?)",
        (n, lowest, best),
    )
    for one, other, similarity in rows:
        yield Finding(
            "edge",
            f"table edge, signatures {one} and {other}",
            f"has similarity {similarity}; expected two of {n} signatures, the "
            f"smaller first, and from {lowest:g} to {best:g}",
            documents_affected(snapshot, "signature_id IN (?, ?)", (one, other)),
        )
    if state is None:
        return
    explained = _held_or_released(snapshot, state.release_id)
    for edges in snapshot.edges.edges(lowest):
        for ids in (edges.left, edges.right):
            inside = (ids >= 0) & (ids < n)
            lost = inside & ~explained[np.where(inside, ids, 0)]
            for one, other in zip(
                edges.left[lost].tolist(), edges.right[lost].tolist(), strict=True
            ):
                place = f"table edge, signatures {one} and {other}"
                yield Finding("edge", place, "no document has one of them", "1 edge")
    for ids, _ in snapshot.edges.members():
        inside = (ids >= 0) & (ids < n)
        for one in ids[inside][~explained[ids[inside]]].tolist():
            place = f"table cluster_member, signature {one}"
            yield Finding("cluster", place, "no document has it", "1 row")


def _held_or_released(snapshot: Snapshot, release_id: int) -> NDArray[np.bool_]:
    """Return which signatures may be in edges: held by a document, or left since then."""
    # By the file's length, which must match: a damaged count may be any number.
    found = np.zeros(len(snapshot.signature_file.rows(snapshot.n_signatures)), dtype=bool)
    for held in snapshot.edges.holders():
        ids = held.signature_ids
        found[ids[(ids >= 0) & (ids < len(found))]] = True
    released = snapshot.edges.released_since(release_id)
    found[released[(released >= 0) & (released < len(found))]] = True
    return found


def cluster_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield where current clusters do not follow from the edges."""
    state = snapshot.edges.state()
    (last,) = snapshot.execute("SELECT max(batch_id) FROM batch").fetchone()
    if state is None:
        members = snapshot.execute("SELECT count(*) FROM cluster_member").fetchone()[0]
        if members:
            what = f"holds {members} rows, and nothing tells their age"
            yield Finding("cluster", "table cluster_member", what, counted(members, "row"))
        return
    if last is not None and last > state.batch_id:
        return
    stored = {
        signature_id: label
        for ids, labels in snapshot.edges.members()
        for signature_id, label in zip(ids.tolist(), labels.tolist(), strict=True)
    }
    for signature_id, label in clusters_of_edges(snapshot, state.threshold):
        found = stored.pop(signature_id, None)
        if found != label:
            what = f"has label {found}; expected {label}, by the edges"
            yield _of_cluster(snapshot, signature_id, what)
    for signature_id, label in stored.items():
        what = f"has label {label}; by the edges it is in no cluster"
        yield _of_cluster(snapshot, signature_id, what)


def _of_cluster(snapshot: Snapshot, signature_id: int, what: str) -> Finding:
    affected = documents_affected(snapshot, "signature_id = ?", (signature_id,))
    return Finding("cluster", f"table cluster_member, signature {signature_id}", what, affected)
