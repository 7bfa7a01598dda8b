"""Checks of signatures and of what follows from them.

Rows of the files are compared with their CRC-32, and buckets with the signatures they came from;
then releases, edges and clusters with the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lshdb.groups.listing import clusters_of_edges
from lshdb.maintain.check.document_checks import changed_rows
from lshdb.maintain.check.findings import Finding, counted, documents_affected
from lshdb.params.bucket_layout import sql_buckets
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.signatures.banding import bucket_keys
from lshdb.storage.orders.comparing import wrong_order
from lshdb.storage.rowfiles.layouts import HEADER_BYTES
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "block_findings",
    "cluster_findings",
    "edge_findings",
    "order_findings",
    "posting_findings",
    "release_findings",
]

_READ_BYTES = 4 * 2**20
_SUMMED_ROWS = 2**16


def block_findings(snapshot: Snapshot, *, is_quick: bool = False) -> Iterator[Finding]:
    """Yield blocks of rows, of signatures and of vectors, whose CRC-32 is wrong.

    Parameters
    ----------
    is_quick : bool
        Check only the first block of a file, which shows whether it is another index's. If its
        header counts more rows than are committed, it may be of another history of this one, which
        a writer would refuse: then all blocks are checked.
    """
    for file in snapshot.generation.files:
        is_first_only = is_quick and not snapshot.is_behind(file)
        tables = Inspection(snapshot.session)
        blocks = tables.blocks(file.layout.checksum, is_first_only=is_first_only)
        yield from _file_findings(snapshot, file, blocks)


def _file_findings(
    snapshot: Snapshot, file: RowFile, blocks: Iterable[tuple[int, int, int | None]]
) -> Iterator[Finding]:
    size, unit = file.row_bytes, f"{file.layout.kind}s"
    for first, count, crc in counting(blocks, f"blocks of {unit}"):
        end = first + count
        if crc is None or not 0 <= first < end <= snapshot.n_signatures:
            continue  # document_checks.py reports it
        crc_now = file.block_crc(first, count)
        if crc_now != crc:
            yield Finding(
                unit,
                f"{file.path.name}, rows {first} to {end - 1}, "
                f"bytes {HEADER_BYTES + first * size} to {HEADER_BYTES + end * size - 1}",
                f"CRC-32 is {crc_now:08x}; expected {crc:08x}",
                documents_affected(snapshot, range(first, end)),
            )


def posting_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield buckets that differ from their signatures', and signatures without buckets.

    The table ``band`` is compared with the file some rows at a time, and is read where they differ.
    """
    n, file = snapshot.n_signatures, snapshot.signature_file
    step = min(max(1, _READ_BYTES // file.row_bytes), _SUMMED_ROWS)
    for start in counting(range(0, n, step), "signatures", n, lambda _: step):
        stop = min(start + step, n)
        expected = bucket_keys(file.take_between(start, stop), **params.cut)
        if snapshot.bands.are_rows(start, expected):
            continue
        try:
            ids, keys = snapshot.bands.rows(start, stop)
        except (ValueError, TypeError, OverflowError):
            what = "holds values that are no whole numbers"
            affected = documents_affected(snapshot, range(start, stop))
            yield Finding("posting", f"table band, rows {start} to {stop - 1}", what, affected)
            continue
        stored = np.full_like(expected, -1)
        stored[ids - start] = keys
        rows, bands = np.nonzero(stored != expected)
        for row, band in zip(rows.tolist(), bands.tolist(), strict=True):
            signature_id, key = start + row, stored[row, band]
            place, what = f"table band, row {signature_id}", "is missing"
            if key >= 0:
                place += f", band {band}"
                what = f"says bucket {sql_buckets(key)}; by its row, it is not in that one"
            elif band > 0:
                continue
            affected = documents_affected(snapshot, (signature_id,))
            yield Finding("posting", place, what, affected)
    tables = Inspection(snapshot.session)
    outside = tables.count_bands_outside(n)
    if outside:
        what = f"names signatures that do not exist; there are {n}"
        yield Finding("posting", "table band", what, counted(outside, "row"))
    for signature_id in sorted({0, n - 1} if n else ()):  # all would be a pass for each band
        n_rows, shown = (tables.count_of(table, signature_id) for table in ("band", "posting"))
        if shown != n_rows * params.bands:
            what = f"shows {shown} postings of signature {signature_id}; expected {params.bands}"
            yield Finding("posting", "view posting", what, "statements of your own")


def order_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield files of frozen orders that are damaged or belong to other rows.

    A file may be younger than the state that is read. It then lacks the contents of documents that
    were removed in between, so contents are compared only while nobody has committed anything.
    """
    orders = snapshot.orders
    if orders is None:
        return
    used = ((file.name, file) for file in snapshot.order_files())
    for name, file in itertools.chain(used, orders.damaged_files()):
        last = min(name.last, snapshot.n_signatures)
        if isinstance(file, ValueError):
            what = str(file)
        elif (crc := file.crc32()) != name.crc:
            what = f"CRC-32 is {crc:08x}; expected {name.crc:08x}"
        else:
            try:
                number = wrong_order(
                    file, orders.banding, snapshot.generation, last, snapshot.content_hashes
                )
            except ValueError as error:
                what = str(error)
            else:
                if number is None or (number == file.n_orders - 1 and _is_past(snapshot)):
                    continue
                what = f"order {number} is not that of the rows"
        affected = documents_affected(snapshot, range(name.first, last))
        yield Finding("order", str(name), what, affected)


def _is_past(snapshot: Snapshot) -> bool:
    """Return whether something was committed since the snapshot was opened."""
    with snapshot.twins(1) as present:
        return not present


def release_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield signatures that no document has and no release names; questions would trip on them."""
    n = snapshot.n_signatures
    explained = _explained_signatures(snapshot, -(2**63))
    for signature_id in np.flatnonzero(~explained).tolist():
        what = "no document has it, and it was not released"
        yield Finding(
            "release", f"table signature_release, signature {signature_id}", what, "questions"
        )
    for release_id, signature_id in Inspection(snapshot.session).releases_outside(n):
        what = f"names signature {signature_id}; there are {n}"
        yield Finding("release", f"table signature_release, row {release_id}", what, "1 row")


def edge_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield changed and impossible edges, and those of signatures that no document has."""
    for row, what in changed_rows(Inspection(snapshot.session).rows("edge")):
        yield Finding("edge", f"table edge, row {row[0]} to {row[1]}", what, "1 edge")
    state, n = snapshot.edges.state(), snapshot.n_signatures
    best = params.curve.best
    lowest = best + 1.0 if state is None else state.threshold
    impossible = Inspection(snapshot.session).impossible_edges(n, lowest, best)
    for smaller, larger, similarity in impossible:
        yield Finding(
            "edge",
            f"table edge, signatures {smaller} and {larger}",
            f"has similarity {similarity}; expected two of {n} signatures, the "
            f"smaller first, and from {lowest:g} to {best:g}",
            documents_affected(snapshot, (smaller, larger)),
        )
    if state is None:
        return
    explained = _explained_signatures(snapshot, state.release_id)
    for edges in snapshot.edges.edges(lowest):
        for ids in (edges.left, edges.right):
            inside = (ids >= 0) & (ids < n)
            lost = inside & ~explained[np.where(inside, ids, 0)]
            for left, right in zip(
                edges.left[lost].tolist(), edges.right[lost].tolist(), strict=True
            ):
                place = f"table edge, signatures {left} and {right}"
                yield Finding("edge", place, "no document has one of them", "1 edge")
    for ids, _ in snapshot.edges.members():
        inside = (ids >= 0) & (ids < n)
        for signature_id in ids[inside][~explained[ids[inside]]].tolist():
            place = f"table cluster_member, signature {signature_id}"
            yield Finding("cluster", place, "no document has it", "1 row")


def _explained_signatures(snapshot: Snapshot, release_id: int) -> NDArray[np.bool_]:
    """Return which signatures may be in edges: held by a document, or left since then."""
    # By the file's length, which must match: a damaged count may be any number.
    explained = np.zeros(len(snapshot.signature_file.rows(snapshot.n_signatures)), dtype=bool)
    for cluster_set in snapshot.edges.holders():
        ids = cluster_set.signature_ids
        explained[ids[(ids >= 0) & (ids < len(explained))]] = True
    released = snapshot.edges.released_since(release_id)
    explained[released[(released >= 0) & (released < len(explained))]] = True
    return explained


def cluster_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield where current clusters do not follow from the edges."""
    state = snapshot.edges.state()
    tables = Inspection(snapshot.session)
    last = tables.greatest("batch", "batch_id")
    if state is None:
        members = tables.count("cluster_member")
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
        stored_label = stored.pop(signature_id, None)
        if stored_label != label:
            what = f"has label {stored_label}; expected {label}, by the edges"
            yield _of_cluster(snapshot, signature_id, what)
    for signature_id, label in stored.items():
        what = f"has label {label}; by the edges it is in no cluster"
        yield _of_cluster(snapshot, signature_id, what)


def _of_cluster(snapshot: Snapshot, signature_id: int, what: str) -> Finding:
    affected = documents_affected(snapshot, (signature_id,))
    return Finding("cluster", f"table cluster_member, signature {signature_id}", what, affected)
