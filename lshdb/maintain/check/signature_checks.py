"""Checks of signatures and of what follows from them.

Rows of the files are compared with their CRC-32, and postings with the signatures they came from;
then bucket sizes, releases, edges and clusters with the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lshdb.clusters.listing import clusters_of_edges
from lshdb.maintain.check.findings import Finding, counted, documents_affected
from lshdb.params.bucket_layout import CONTENT_BAND, bands_of, keys_from
from lshdb.params.index_params import IndexParams
from lshdb.signatures.banding import bucket_keys, content_keys
from lshdb.storage.dialects.base import NOT_CONTENT_SQL, run_table
from lshdb.storage.orders.comparing import wrong_order
from lshdb.storage.rowfiles.layouts import HEADER_BYTES
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "block_findings",
    "bucket_findings",
    "cluster_findings",
    "edge_findings",
    "order_findings",
    "posting_findings",
    "release_findings",
    "run_findings",
]

_CHUNK = 100_000
_KEY_BYTES = 64 * 2**20
"""Memory for the bucket keys of all signatures, for some bands at a time."""
_READ_BYTES = 4 * 2**20
_MOST_HELD = 100
"""Findings of one run that are kept until those before them are there; fewer are listed."""


def block_findings(snapshot: Snapshot, *, first_only: bool = False) -> Iterator[Finding]:
    """Yield blocks of rows, of signatures and of vectors, whose CRC-32 is wrong.

    Parameters
    ----------
    snapshot : Snapshot
    first_only : bool
        Check only the first block, which shows whether the file is another index's.
    """
    which = "WHERE first_row = 0" if first_only else "ORDER BY first_row"
    for file in snapshot.generation.files:
        columns = f"first_row, n_rows, {file.layout.checksum}"
        blocks = snapshot.execute(f"SELECT {columns} FROM signature_block {which}").fetchall()
        yield from _file_findings(snapshot, file, blocks)


def _file_findings(
    snapshot: Snapshot, file: RowFile, blocks: Iterable[tuple[int, int, int | None]]
) -> Iterator[Finding]:
    size = file.row_bytes
    for first, count, crc in blocks:
        end = first + count
        if crc is None or not 0 <= first < end <= snapshot.n_signatures:
            continue  # document_checks.py reports it
        crc_now = file.block_crc(first, count)
        if crc_now != crc:
            yield Finding(
                f"{file.layout.kind}s",
                f"{file.path.name}, rows {first} to {end - 1}, "
                f"bytes {HEADER_BYTES + first * size} to {HEADER_BYTES + end * size - 1}",
                f"CRC-32 is {crc_now:08x}; expected {crc:08x}",
                documents_affected(snapshot, "signature_id BETWEEN ? AND ?", (first, end - 1)),
            )


def run_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield runs without the postings that were written."""
    runs = 0
    for table, n_rows in snapshot.execute("SELECT table_name, n_rows FROM run").fetchall():
        (postings, contents) = snapshot.execute(
            f"SELECT count(*), count(*) FILTER (WHERE NOT {NOT_CONTENT_SQL}) "
            f"FROM {run_table(table)}"
        ).fetchone()
        runs += postings - contents
        if postings != n_rows:
            what = f"holds {postings} postings; expected {n_rows}"
            yield Finding("run", f"table {table}", what, counted(abs(postings - n_rows), "posting"))
    (view,) = snapshot.execute("SELECT count(*) FROM posting").fetchone()
    if view != runs:
        what = f"shows {view} postings; the runs hold {runs}"
        yield Finding("run", "view posting", what, "statements of your own")


def posting_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield postings that are not those of their signatures, and signatures that lack some.

    The bucket keys of all signatures are made some bands at a time, as many as the memory takes,
    and the postings of those bands are compared with them.
    """
    n = snapshot.n_signatures
    rows = snapshot.signature_file.rows(n)
    content = _content_keys(snapshot)
    counts = np.zeros(n, dtype=np.int16)
    by_table: dict[str, list[Finding]] = {table: [] for table in snapshot.run_tables}
    groups = _groups_of_bands(params.bands, max(1, _KEY_BYTES // (8 * len(rows) + 8)))
    for bands, between in groups:
        columns = _key_columns(snapshot.signature_file, n, bands, params)
        expected = _Expected(bands, columns, content)
        for table, findings in by_table.items():
            for finding in _in_table(snapshot, table, between, expected, counts):
                if len(groups) == 1:
                    yield finding
                elif len(findings) < _MOST_HELD:  # those of a table come together
                    findings.append(finding)
    yield from itertools.chain.from_iterable(by_table.values())
    for signature_id in np.flatnonzero(counts != params.bands + 1).tolist():
        yield Finding(
            "posting",
            f"postings, signature {signature_id}",
            f"has {counts[signature_id]} postings; expected {params.bands + 1}",
            documents_affected(snapshot, "signature_id = ?", (signature_id,)),
        )


def _groups_of_bands(bands: int, most: int) -> list[tuple[list[int], tuple[int, int]]]:
    """Return groups of bands, in order of their keys, and the range of keys of each.

    The ranges cover all 64-bit numbers.
    """
    groups = [list(range(first, min(first + most, bands))) for first in range(0, bands, most)]
    firsts = [-(2**63), *(keys_from(group[0], 0) for group in groups[1:]), 2**63]
    return [
        (group, (firsts[number], firsts[number + 1] - 1)) for number, group in enumerate(groups)
    ]


def _key_columns(file: RowFile, n: int, bands: list[int], params: IndexParams) -> NDArray[np.int64]:
    """Return the bucket keys of all rows in some bands, a row of the result for each band."""
    columns = np.empty((len(bands), n), dtype=np.int64)
    step = max(1, _READ_BYTES // file.row_bytes)
    for start in range(0, n, step):
        rows = file.take_between(start, min(start + step, n))
        columns[:, start : start + step] = bucket_keys(rows, **params.cut)[:, bands].T
    return columns


class _Expected:
    """The keys that postings should have: by band and signature, or by its content."""

    def __init__(
        self, bands: list[int], columns: NDArray[np.int64], content: NDArray[np.int64]
    ) -> None:
        self._columns = columns
        self._content = content
        self._place_of = np.full(CONTENT_BAND + 1, -1)
        self._place_of[bands] = np.arange(len(bands))

    def keys(self, keys: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the key of each posting by its band and signature; its own if that is unknown."""
        band = bands_of(keys)
        place = self._place_of[np.clip(band, 0, CONTENT_BAND)]
        expected = np.where(place < 0, np.int64(-1), self._columns[place, ids])
        content = self._content[ids]
        return np.where(band == CONTENT_BAND, np.where(content == 0, keys, content), expected)


def _in_table(
    snapshot: Snapshot,
    table: str,
    between: tuple[int, int],
    expected: _Expected,
    counts: NDArray[np.int16],
) -> Iterator[Finding]:
    """Yield the wrong postings of a run in a range of keys, and count all by signature."""
    for flat in snapshot.session.run_tables.between(table, *between, block=_CHUNK):
        keys, ids = flat[:, 0], flat[:, 1]
        outside = (ids < 0) | (ids >= len(counts))
        if outside.any():
            for key, signature_id in flat[outside].tolist():
                what = f"names signature {signature_id}; there are {len(counts)}"
                yield Finding("posting", _place(table, key, signature_id), what, "1 posting")
            flat = flat[~outside]
            keys, ids = flat[:, 0], flat[:, 1]
        np.add.at(counts, ids, np.int16(1))
        for key, signature_id in flat[keys != expected.keys(keys, ids)].tolist():
            what = f"by its row, signature {signature_id} is not in this bucket"
            affected = documents_affected(snapshot, "signature_id = ?", (signature_id,))
            yield Finding("posting", _place(table, key, signature_id), what, affected)


def order_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield files of frozen orders that are not as they were written, or not of the rows.

    A file may be younger than the state that is read. It then lacks the contents of documents that
    were removed in between, so contents are compared only while nobody has committed anything.
    """
    orders = snapshot.orders
    if orders is None:
        return
    for file in snapshot.order_files():
        last = min(file.name.last, snapshot.n_signatures)
        crc = file.crc32()
        if crc != file.name.crc:
            what = f"CRC-32 is {crc:08x}; expected {file.name.crc:08x}"
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
        affected = documents_affected(
            snapshot, "signature_id BETWEEN ? AND ?", (file.name.first, last - 1)
        )
        yield Finding("order", file.path.name, what, affected)


def _is_past(snapshot: Snapshot) -> bool:
    """Return whether something was committed since the snapshot was opened."""
    with snapshot.twins(1) as present:
        return not present


def _place(table: str, key: int, signature_id: int) -> str:
    return f"table {table}, bucket key {key}, signature {signature_id}"


def _content_keys(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the content bucket key by signature; 0, which is not a key, if no document has it."""
    keys = np.zeros(snapshot.n_signatures, dtype=np.int64)
    rows = snapshot.stream(
        "SELECT signature_id, content_hash FROM document WHERE signature_id IS NOT NULL "
        "ORDER BY doc_id"
    )
    while chunk := list(itertools.islice(rows, _CHUNK)):
        ids = np.array([row[0] for row in chunk], dtype=np.int64)
        inside = (ids >= 0) & (ids < len(keys))
        hashes = content_keys([row[1].ljust(16, b"\0")[:16] for row in chunk])
        keys[ids[inside]] = hashes[inside]
    return keys


def bucket_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield bucket sizes that are not those of the runs."""
    for run_id, table in snapshot.execute("SELECT run_id, table_name FROM run").fetchall():
        counted = dict(_sizes(snapshot.session.run_tables.bucket_sizes(run_table(table))))
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
    explained = _explained_signatures(snapshot, -(2**63))
    for signature_id in np.flatnonzero(~explained).tolist():
        what = "no document has it, and it was not released"
        yield Finding(
            "release", f"table signature_release, signature {signature_id}", what, "questions"
        )
    for release_id, signature_id in snapshot.execute(
        "SELECT release_id, signature_id FROM signature_release "
        "WHERE NOT signature_id BETWEEN 0 AND ?",
        (n - 1,),
    ):
        what = f"names signature {signature_id}; there are {n}"
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
    for smaller, larger, similarity in rows:
        yield Finding(
            "edge",
            f"table edge, signatures {smaller} and {larger}",
            f"has similarity {similarity}; expected two of {n} signatures, the "
            f"smaller first, and from {lowest:g} to {best:g}",
            documents_affected(snapshot, "signature_id IN (?, ?)", (smaller, larger)),
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
        stored_label = stored.pop(signature_id, None)
        if stored_label != label:
            what = f"has label {stored_label}; expected {label}, by the edges"
            yield _of_cluster(snapshot, signature_id, what)
    for signature_id, label in stored.items():
        what = f"has label {label}; by the edges it is in no cluster"
        yield _of_cluster(snapshot, signature_id, what)


def _of_cluster(snapshot: Snapshot, signature_id: int, what: str) -> Finding:
    affected = documents_affected(snapshot, "signature_id = ?", (signature_id,))
    return Finding("cluster", f"table cluster_member, signature {signature_id}", what, affected)
