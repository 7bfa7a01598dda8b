"""The database's structure, rows against checksums, documents against signatures and texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from lshdb.checking.findings import Finding
from lshdb.errors import LshdbError
from lshdb.params import IndexParams
from lshdb.storage.bodies import hash_body, raw_body, unpack_body
from lshdb.storage.checksums import row_checksum
from lshdb.storage.snapshot import Snapshot

__all__ = ["document_findings", "integrity_findings", "row_findings", "vector_findings"]

_ROWS = 1_000


def integrity_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """What the database says of itself."""
    for finding in snapshot.session.structure():
        yield Finding("database", "database", finding, "what is stored there")


def row_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Rows of the large tables whose checksum is not that of their values."""
    for row in snapshot.stream("SELECT * FROM document"):
        found = row_checksum(row[:-1])
        if found != row[-1]:
            what = f"CRC-32 of its values is {found:08x}, written was {row[-1]:08x}"
            yield Finding("document", f"table document, row {row[0]}", what, f"document {row[1]}")
    for row in snapshot.stream("SELECT * FROM edge"):
        found = row_checksum(row[:-1])
        if found != row[-1]:
            what = f"CRC-32 of its values is {found:08x}, written was {row[-1]:08x}"
            yield Finding("edge", f"table edge, row {row[0]} to {row[1]}", what, "1 edge")


def document_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Documents without their signature, batch or text, and texts without a document."""
    keeps_texts = params.keeps_texts
    batches = {batch_id for (batch_id,) in snapshot.execute("SELECT batch_id FROM batch")}
    rows = snapshot.stream(
        "SELECT document.doc_id, key, signature_id, n_shingles, batch_id, body_hash, form, body, "
        "n_chars "
        "FROM document LEFT JOIN content ON content.doc_id = document.doc_id"
    )
    for doc_id, key, signature_id, n_shingles, batch_id, body_hash, form, packed, n_chars in rows:
        affected = f"document {key}"
        what = ""
        if (signature_id is None) != (n_shingles == 0):
            what = f"has {n_shingles} shingles and signature {signature_id}"
        elif signature_id is not None and not 0 <= signature_id < snapshot.n_signatures:
            what = f"has signature {signature_id}; there are {snapshot.n_signatures}"
        elif batch_id not in batches:
            what = f"is of batch {batch_id}, which is not there"
        if what:
            yield Finding("document", f"table document, doc_id {doc_id}", what, affected)
        what = _text_finding(form, packed, body_hash, n_chars) if keeps_texts else ""
        if what:
            yield Finding("text", f"table content, doc_id {doc_id}", what, affected)
    missing = "NOT EXISTS (SELECT 1 FROM document WHERE document.doc_id = content.doc_id)"
    for (doc_id,) in snapshot.stream(
        f"SELECT doc_id FROM content WHERE {missing if keeps_texts else '1 = 1'}"
    ):
        what = "is of no document" if keeps_texts else "is there, and texts are not stored"
        yield Finding("text", f"table content, doc_id {doc_id}", f"the text {what}", "1 text")


def vector_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Documents whose row of the vector file is not the vector that they came with."""
    if not params.keeps_vectors:
        return
    file, n = snapshot.vector_file, snapshot.n_signatures
    rows = snapshot.stream(
        "SELECT key, signature_id, content_hash FROM document WHERE signature_id IS NOT NULL"
    )
    while some := list(itertools.islice(rows, _ROWS)):
        known = [row for row in some if 0 <= row[1] < n]  # others are said above
        vectors = file.take(np.array([row[1] for row in known], dtype=np.int64))
        for (key, signature_id, content_hash), vector in zip(known, vectors, strict=True):
            if hash_body(*raw_body(vector)) != content_hash:
                where = f"{file.path.name}, row {signature_id}"
                what = "the vector is not the one written"
                yield Finding("vectors", where, what, f"document {key}")


def _text_finding(form: str | None, packed: bytes | None, body_hash: bytes, n_chars: object) -> str:
    """What is wrong with a stored text; empty if nothing is."""
    if packed is None or form is None:
        return "the text is missing"
    try:
        _, raw = raw_body(unpack_body(form, packed, n_chars=n_chars))
    except LshdbError as error:
        return error.message
    return "" if hash_body(form, raw) == body_hash else "the text is not the one written"
