"""Checks of the database, of documents against signatures and texts, and of headers and counts.

The last (:func:`count_findings`) are most of the quick check, whose cost hardly grows with the
index. It reads header, length and first block of the signature file and the vector file; the tables
``state``, ``batch``, ``unfinished_add``, ``edge_state``, ``signature_block`` and ``segment``, which
have at most some rows per thousand documents; the ends of ``band``; and the number of documents,
counted in an index. It does not read signature rows past the first block,
postings, texts, or the rows of documents and edges. So it does not find damage there, or in the
structure of the database.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lshdb.errors import DamageError, LshdbError
from lshdb.maintain.check.findings import Finding, counted
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec, hash_body, raw_body
from lshdb.storage.tables.records import (
    DOCUMENT_COLUMNS,
    MOST_DOC_ID,
    is_document,
    row_checksum,
)
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.threads import work_ahead

__all__ = [
    "changed_rows",
    "count_findings",
    "document_findings",
    "field_findings",
    "integrity_findings",
    "vector_findings",
]


_ROWS = 1_000
_TEXT_BYTES = 2**20
_ROW_BYTES = 256
_COLUMNS = [*DOCUMENT_COLUMNS.split(", "), "form", "body"]
"""Of a document and its text, as they are read."""


def _getter(*names: str) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return operator.itemgetter(*map(_COLUMNS.index, names))


_LINKS = _getter("doc_id", "key", "signature_id", "n_shingles", "batch_id")
_TEXT = _getter("form", "body", "body_hash")
_N_CHARS = _COLUMNS.index("n_chars")


def integrity_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what the database's own check finds."""
    for finding in snapshot.session.structure():
        yield Finding("database", "database", finding, "what is stored there")


def field_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield changed kept fields, and those without a document."""
    tables = Inspection(snapshot.session)
    for row, what in changed_rows(tables.rows("kept_field")):
        where = f"table kept_field, row {row[0]}"
        yield Finding("kept_field", where, what, "the fields of 1 document")
    for doc_id in tables.orphans("kept_field"):
        where = f"table kept_field, doc_id {doc_id}"
        yield Finding("kept_field", where, "the fields have no document", "1 row of fields")


def changed_rows(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], str]]:
    """Yield the rows whose checksum, the last column, is not that of their values, and say so."""
    for row in rows:
        if what := _change(row):
            yield row, what


def _change(row: Sequence[Any]) -> str:
    checksum = row_checksum(row[:-1])
    if checksum == row[-1]:
        return ""
    return f"CRC-32 of its values is {checksum:08x}; expected {row[-1]:08x}"


def _change_of_document(row: Sequence[Any]) -> str:
    """Return what is wrong with a row; values that cannot be may have their checksum, too."""
    if what := _change(row):
        return what
    return "" if is_document(row[:-1]) else "has values of types or lengths that are not written"


def document_findings(
    snapshot: Snapshot, params: IndexParams, *, workers: int = 1
) -> Iterator[Finding]:
    """Yield changed documents, those without signature, batch or text, and texts without one.

    Texts are decompressed and hashed some at a time, by several workers in threads of their own.
    """
    keeps_texts = params.keeps_texts
    tables = Inspection(snapshot.session)
    batches = tables.batch_ids()
    try:
        codec = snapshot.codec
    except DamageError as error:
        where = "table text_dictionary"
        yield Finding("text", where, error.message, "the texts that were stored with it")
        codec = WITHOUT_DICTIONARY
    compared = work_ahead(
        partial(_compared, codec=codec, keeps_texts=keeps_texts),
        _batches_of_texts(tables.documents_with_texts(_COLUMNS)),
        workers=workers,
    )
    total = max(0, snapshot.next_doc_id - 1)
    for batch, texts in counting(compared, "documents", total, lambda part: len(part[0])):
        for row, of_text in zip(batch, texts, strict=True):
            doc_id, key, signature_id, n_shingles, batch_id = _LINKS(row)
            if what := _change_of_document(row[:-2]):
                yield Finding("document", f"table document, row {doc_id}", what, f"document {key}")
            what = ""
            if (signature_id is None) != (n_shingles == 0):
                what = f"has {n_shingles} shingles and signature {signature_id}"
            elif signature_id is not None and not 0 <= signature_id < snapshot.n_signatures:
                what = f"has signature {signature_id}; there are {snapshot.n_signatures}"
            elif batch_id not in batches:
                what = f"names batch {batch_id}, which does not exist"
            if what:
                where = f"table document, doc_id {doc_id}"
                yield Finding("document", where, what, f"document {key}")
            if of_text:
                yield Finding("text", f"table content, doc_id {doc_id}", of_text, f"document {key}")
    for doc_id in tables.orphans("content") if keeps_texts else tables.doc_ids("content"):
        what = "has no document" if keeps_texts else "exists, although texts are not stored"
        yield Finding("text", f"table content, doc_id {doc_id}", f"the text {what}", "1 text")


def _batches_of_texts(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield batches of document rows, each with up to a mebibyte of stored texts."""
    batch: list[Sequence[Any]] = []
    room = _TEXT_BYTES
    for row in rows:
        batch.append(row)
        packed = row[-1]
        room -= _ROW_BYTES + (len(packed) if isinstance(packed, bytes) else 0)
        if room <= 0:
            yield batch
            batch, room = [], _TEXT_BYTES
    if batch:
        yield batch


def _compared(
    batch: list[Sequence[Any]], *, codec: BodyCodec, keeps_texts: bool
) -> tuple[list[Sequence[Any]], list[str]]:
    """Return a batch, and a description of each text that is damaged."""
    if not keeps_texts:
        return batch, [""] * len(batch)
    texts = [_TEXT(row) for row in batch]
    written = codec.are_as_written(texts)
    return batch, [
        "" if is_whole else _text_finding(codec, *text, n_chars=row[_N_CHARS])
        for is_whole, text, row in zip(written, texts, batch, strict=True)
    ]


def vector_findings(snapshot: Snapshot, params: IndexParams) -> Iterator[Finding]:
    """Yield documents whose row of the vector file is not the vector that they came with."""
    if not params.keeps_vectors:
        return
    file, n = snapshot.vector_file, snapshot.n_signatures
    rows = Inspection(snapshot.session).signed_contents()
    while batch := list(itertools.islice(rows, _ROWS)):
        in_file = [row for row in batch if 0 <= row[1] < n]  # others are found above
        vectors = file.take(np.array([row[1] for row in in_file], dtype=np.int64))
        for (key, signature_id, content_hash), vector in zip(in_file, vectors, strict=True):
            if hash_body(*raw_body(vector)) != content_hash:
                where = f"{file.path.name}, row {signature_id}"
                what = "the vector is not the one written"
                yield Finding("vectors", where, what, f"document {key}")


def _text_finding(
    codec: BodyCodec, form: str | None, packed: bytes | None, body_hash: bytes, *, n_chars: object
) -> str:
    """Describe a damaged text; empty if it is sound."""
    if packed is None or form is None:
        return "the text is missing"
    try:
        _, raw = raw_body(codec.unpack(form, packed, n_chars=n_chars))
    except LshdbError as error:
        return error.message
    return "" if hash_body(form, raw) == body_hash else "the text is not the one written"


_SMALL_TABLES = {
    "state": "state", "batch": "batch", "night": "night", "cursor": "cursor", "edge_state": "edge",
}  # fmt: skip
"""Small tables with checksums, and the kind of a finding there."""
_PLACE_OF_CAP = 1 + EdgeState.__slots__.index("max_bucket")


def count_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield contradictions between headers and counts."""
    yield from _header_findings(snapshot)
    yield from _block_findings(snapshot)
    yield from _segment_findings(snapshot)
    yield from _band_findings(snapshot)
    yield from _small_rows(snapshot)
    yield from _unfinished_adds(snapshot)
    yield from _document_counts(snapshot)


def _header_findings(snapshot: Snapshot) -> Iterator[Finding]:
    for file in snapshot.generation.files:
        try:
            file.check_header(snapshot.n_signatures)
        except LshdbError as error:
            yield Finding("header", file.path.name, error.message, "every document")


def _block_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield where checksums do not cover each committed row once."""
    expected, n = 0, snapshot.n_signatures
    has_vectors = snapshot.generation.vectors is not None
    for first, count, vector_crc in Inspection(snapshot.session).blocks("vector_crc32"):
        if (vector_crc is not None) != has_vectors:
            what = (
                "has no CRC-32 of vectors" if has_vectors else "has one of vectors; none are kept"
            )
            yield _of_block(first, what, count)
        if first != expected:
            what = f"expected a block from row {expected} on"
            yield _of_block(first, what, abs(first - expected))
        expected = first + count
        if expected > n:
            what = f"reaches to row {expected}; {n} are committed"
            yield _of_block(first, what, expected - n)
            return
    if expected != n:
        what = f"covers {expected} rows; {n} are committed"
        yield Finding("block", "table signature_block", what, counted(n - expected, "signature"))


def _segment_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield faults in the numbers of commits, which prove that an order belongs to its rows."""
    last = Inspection(snapshot.session).greatest("segment", "n_signatures")
    if (last or 0) != snapshot.n_signatures:
        what = f"ends at {last or 0} signatures; {snapshot.n_signatures} are committed"
        yield Finding("block", "table segment", what, "no answer; questions take longer")


def _of_block(first: int, what: str, n: int) -> Finding:
    return Finding("block", f"table signature_block, row {first}", what, counted(n, "signature"))


def _band_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield where the table of bands does not begin or end with the signatures."""
    first, last = Inspection(snapshot.session).band_ends()
    n = snapshot.n_signatures
    if (first, last) != ((0, n - 1) if n else (None, None)):
        what = f"has signatures from {first} to {last}; {n} are committed"
        yield Finding("posting", "table band", what, counted(n, "signature"))


def _small_rows(snapshot: Snapshot) -> Iterator[Finding]:
    for table, kind in _SMALL_TABLES.items():
        for row in Inspection(snapshot.session).rows(table):
            if what := _change(row) or _impossible(table, row):
                yield Finding(kind, f"table {table}, row {row[0]}", what, f"row {row[0]}")


def _impossible(table: str, row: Sequence[Any]) -> str:
    """Return what is wrong with the numbers of a row, which may have their checksum, too.

    The row of ``state`` has a check of its own. In that of ``edge_state``, buckets without a cap
    have the largest number of all.
    """
    for place, number in enumerate(row[:-1]):
        is_cap = (table, place) == ("edge_state", _PLACE_OF_CAP)
        if isinstance(number, int) and not (0 <= number <= MOST_DOC_ID or is_cap):
            return "" if table == "state" else f"{number} is no number that is written"
    return ""


def _unfinished_adds(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield unfinished adds that do not exist."""
    for add_id in Inspection(snapshot.session).adds_without_batch():
        what = f"names add {add_id} as unfinished, which does not exist"
        yield Finding("batch", "table unfinished_add", what, "what --since last means")


def _document_counts(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield where batches do not add up to the documents that there are."""
    tables = Inspection(snapshot.session)
    expected, count = tables.documents_by_batches(), tables.count("document")
    if count != expected:
        yield Finding(
            "count",
            "table document",
            f"has {count} rows; expected {expected}, by the table batch",
            counted(abs(count - expected), "document"),
        )
    last = tables.greatest("document", "doc_id")
    if last is not None and last >= snapshot.next_doc_id:
        what = f"the next doc_id is {snapshot.next_doc_id}, and a document has {last}"
        yield Finding("state", "table state, row 1", what, "the next add")
    if snapshot.next_doc_id > MOST_DOC_ID:
        what = f"the next doc_id is {snapshot.next_doc_id}; there is none above {MOST_DOC_ID}"
        yield Finding("state", "table state, row 1", what, "the next add")
