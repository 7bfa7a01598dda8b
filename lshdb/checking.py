"""Is what is on disk what was written? A pass over every file and row, each finding named.

Checked: the database's own structure; the header and length of the signature file and the CRC-32 of
each of its blocks; that every run has the postings it says; that every posting is the one its
signature has in that band, and that none is missing; that every document's signature and text are
there and its text has the hash it came with; that bucket sizes are what the runs hold; that edges
are between signatures that exist, and clusters what the edges make.

Memory: two bytes a signature, and some sixty a document in a cluster. Time: everything is read
once; texts are decompressed.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.banding import CONTENT_BAND, bucket_keys, content_keys
from lshdb.errors import LshdbError
from lshdb.params import IndexParams
from lshdb.search.clusters import clusters_of_edges
from lshdb.storage.bodies import hash_body, raw_body, unpack_body
from lshdb.storage.checksums import CHECKED_TABLES, row_checksum
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.snapshot import Snapshot

__all__ = ["Finding", "check_index"]

_CHUNK = 100_000
_MOST_OF_A_KIND = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written.

    Attributes
    ----------
    where : str
        File or table, and the place in it.
    what : str
        What was found and what was expected.
    """

    where: str
    what: str


def check_index(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield what is wrong; nothing for a sound index.

    Parameters
    ----------
    snapshot : Snapshot
        The state that is checked.
    params : IndexParams
    """
    steps = (
        dialect_findings(snapshot),
        _signature_findings(snapshot, params),
        _run_findings(snapshot),
        _posting_findings(snapshot, params),
        _row_findings(snapshot),
        _document_findings(snapshot, params),
        _bucket_findings(snapshot),
        _edge_findings(snapshot),
        _cluster_findings(snapshot),
    )
    for step in steps:
        found = 0
        try:
            for finding in step:
                found += 1
                if found > _MOST_OF_A_KIND:
                    yield Finding(finding.where.split(",")[0], "more of the same; not listed")
                    break
                yield finding
        except LshdbError as error:
            yield Finding("index", error.message)
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            yield Finding("index", f"a row holds other types or sizes than were written: {error}")


def dialect_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """What the database says of itself."""
    for row in snapshot.execute(dialect.INTEGRITY_SQL):
        if row[0] != "ok":
            yield Finding("database", str(row[0]))


def _signature_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    snapshot.signature_file.check_header(snapshot.n_signatures)
    name = snapshot.signature_file.path.name
    rows = snapshot.signature_file.rows(snapshot.n_signatures)
    expected = 0
    for first, count, crc in snapshot.execute(
        "SELECT first_row, n_rows, crc32 FROM signature_block ORDER BY first_row"
    ).fetchall():
        if first != expected:
            yield Finding(
                f"table signature_block, row {first}", f"expected a block from row {expected} on"
            )
        expected = first + count
        if expected > snapshot.n_signatures:
            yield Finding(
                f"table signature_block, row {first}",
                f"reaches to row {expected}; {snapshot.n_signatures} are committed",
            )
            return
        found = zlib.crc32(np.ascontiguousarray(rows[first:expected]).tobytes())
        if found != crc:
            yield Finding(
                f"{name}, rows {first} to {expected - 1}",
                f"CRC-32 is {found:08x}, written was {crc:08x}",
            )
    if expected != snapshot.n_signatures:
        yield Finding(
            "table signature_block",
            f"covers {expected} rows; {snapshot.n_signatures} are committed",
        )


def _run_findings(snapshot: Snapshot) -> Iterator[Finding]:
    for table, n_rows in snapshot.execute("SELECT table_name, n_rows FROM run").fetchall():
        (found,) = snapshot.execute(f"SELECT count(*) FROM {table}").fetchone()
        if found != n_rows:
            yield Finding(f"table {table}", f"holds {found} postings; written were {n_rows}")
    runs = sum(
        snapshot.execute(
            f"SELECT count(*) FROM {table} WHERE {dialect.NOT_CONTENT_SQL}"
        ).fetchone()[0]
        for table in snapshot.run_tables
    )
    (view,) = snapshot.execute("SELECT count(*) FROM posting").fetchone()
    if view != runs:
        yield Finding("view posting", f"shows {view} postings; the runs hold {runs}")


def _posting_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    n = snapshot.n_signatures
    signatures = snapshot.signature_file.rows(n)
    content = _content_keys(snapshot)
    counts = np.zeros(n, dtype=np.int16)
    for table in snapshot.run_tables:
        rows = snapshot.execute(f"SELECT bucket_key, signature_id FROM {table}")
        while chunk := list(itertools.islice(rows, _CHUNK)):
            flat = np.array(chunk, dtype=np.int64)
            keys, ids = flat[:, 0], flat[:, 1]
            outside = (ids < 0) | (ids >= n)
            for key, one in flat[outside].tolist():
                yield Finding(
                    f"table {table}, bucket key {key}", f"names signature {one}; there are {n}"
                )
            keys, ids = keys[~outside], ids[~outside]
            np.add.at(counts, ids, 1)
            expected = _expected_keys(signatures[ids], keys, content[ids], params)
            for key, one in flat[~outside][keys != expected].tolist():
                yield Finding(
                    f"table {table}, bucket key {key}",
                    f"signature {one} is not in this bucket by its row",
                )
    for one in np.flatnonzero(counts != params.bands + 1).tolist():
        yield Finding(
            f"postings, signature {one}",
            f"has {counts[one]} postings; expected {params.bands + 1}",
        )


def _content_keys(snapshot: Snapshot) -> NDArray[np.int64]:
    """Content bucket key by signature; 0, which is none, where no document has it any longer."""
    keys = np.zeros(snapshot.n_signatures, dtype=np.int64)
    rows = snapshot.execute(
        "SELECT signature_id, content_hash FROM document WHERE signature_id IS NOT NULL"
    )
    while chunk := list(itertools.islice(rows, _CHUNK)):
        ids = np.array([row[0] for row in chunk], dtype=np.int64)
        inside = (ids >= 0) & (ids < len(keys))
        hashes = content_keys([row[1].ljust(16, b"\0")[:16] for row in chunk])
        keys[ids[inside]] = hashes[inside]
    return keys


def _expected_keys(
    rows: NDArray[np.uint32],
    keys: NDArray[np.int64],
    content: NDArray[np.int64],
    params: IndexParams,
) -> NDArray[np.int64]:
    """The key each posting should have, by its band; its own where nothing says otherwise."""
    band = (keys >> 56) & 255
    of_slots = bucket_keys(rows, bands=params.bands, rows=params.rows)
    inside = band < params.bands
    expected = np.where(
        inside, of_slots[np.arange(len(keys)), np.where(inside, band, 0)], np.int64(-1)
    )
    of_content = band == CONTENT_BAND
    return np.where(of_content, np.where(content == 0, keys, content), expected)


def _row_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Rows whose checksum is not that of their values."""
    for table in CHECKED_TABLES:
        for row in snapshot.execute(f"SELECT * FROM {table}"):
            found = row_checksum(row[:-1])
            if found != row[-1]:
                yield Finding(
                    f"table {table}, row {row[0]}",
                    f"CRC-32 of its values is {found:08x}, written was {row[-1]:08x}",
                )


def _document_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    rows = snapshot.execute(
        "SELECT document.doc_id, document.signature_id, document.n_shingles, document.body_hash, "
        "content.form, content.body "
        "FROM document LEFT JOIN content ON content.doc_id = document.doc_id"
    )
    for doc_id, signature_id, n_shingles, body_hash, form, packed in rows:
        where = f"table document, doc_id {doc_id}"
        if (signature_id is None) != (n_shingles == 0):
            yield Finding(where, f"has {n_shingles} shingles and signature {signature_id}")
        elif signature_id is not None and not 0 <= signature_id < snapshot.n_signatures:
            yield Finding(where, f"has signature {signature_id}; there are {snapshot.n_signatures}")
        if not params.store_text:
            continue
        if packed is None:
            yield Finding(f"table content, doc_id {doc_id}", "the text is missing")
            continue
        try:
            _, raw = raw_body(unpack_body(form, packed))
        except LshdbError as error:
            yield Finding(f"table content, doc_id {doc_id}", error.message)
            continue
        if hash_body(form, raw) != body_hash:
            yield Finding(f"table content, doc_id {doc_id}", "the text is not the one written")


def _bucket_findings(snapshot: Snapshot) -> Iterator[Finding]:
    for run_id, table in snapshot.execute("SELECT run_id, table_name FROM run").fetchall():
        counted = dict(_sizes(snapshot.execute(dialect.bucket_sizes(table))))
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
                    f"table bucket_stat, run {run_id}, band {band}",
                    f"counts {written} buckets of {size}; {table} holds {found}",
                )


def _sizes(rows: Iterable[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int], int]]:
    return (((band, size), count) for band, size, count in rows)


def _edge_findings(snapshot: Snapshot) -> Iterator[Finding]:
    state = snapshot.edges.state()
    lowest = 2.0 if state is None else state.threshold
    rows = snapshot.execute(
        "SELECT signature1, signature2, similarity FROM edge WHERE NOT (signature1 >= 0 "
        "AND signature1 < signature2 AND signature2 < ? AND similarity BETWEEN ? AND 1.0)",
        (snapshot.n_signatures, lowest),
    )
    for one, other, similarity in rows:
        yield Finding(
            f"table edge, signatures {one} and {other}",
            f"has similarity {similarity}; expected two of {snapshot.n_signatures} signatures, the "
            f"smaller first, and from {lowest:g} to 1",
        )


def _cluster_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Clusters that are up to date are those that the edges make."""
    state, last = snapshot.edges.state(), snapshot.last_batch()
    if state is None:
        members = snapshot.execute("SELECT count(*) FROM cluster_member").fetchone()[0]
        if members:
            yield Finding("table cluster_member", f"holds {members} rows and nothing says of when")
        return
    if last is not None and last.batch_id > state.batch_id:
        return
    stored = {
        signature_id: label
        for ids, labels in snapshot.edges.members()
        for signature_id, label in zip(ids.tolist(), labels.tolist(), strict=True)
    }
    for signature_id, label in clusters_of_edges(snapshot, state.threshold):
        found = stored.pop(signature_id, None)
        if found != label:
            yield Finding(
                f"table cluster_member, signature {signature_id}",
                f"has label {found}; by the edges it is {label}",
            )
    for signature_id, label in stored.items():
        yield Finding(
            f"table cluster_member, signature {signature_id}",
            f"has label {label}; by the edges it is in no cluster",
        )
