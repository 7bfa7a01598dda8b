"""Export one state of an index to files in open formats, while others write.

One reading transaction reads everything, and streams it. The directory is built under another name,
synced and renamed. Signature rows and vectors are compared with their checksums on the way, because
the export has checksums of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, ParameterError
from lshdb.exchange.manifest import (
    FIELD_FORMAT,
    METRIC_FORMAT,
    TEXT_FORMAT,
    Manifest,
    describe,
)
from lshdb.exchange.tables import FORMATS, tables_of, write_postings
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.place.creation import Creation
from lshdb.storage.tables.bodies import Body, raw_body
from lshdb.storage.transactions.snapshot import Snapshot, verified_rows
from lshdb.storage.transactions.store import Store

__all__ = ["export_store", "exported_postings", "exported_rows"]


def export_store(store: Store, path: Path, *, tables: str) -> None:
    """Write an index to files; see :meth:`lshdb.Index.export`."""
    if tables not in FORMATS:
        raise ParameterError(f'the format is {tables!r}; expected "jsonl", "parquet" or "delta"')
    store.directory.refuse_inside(path)
    store.require_signatures()
    creation = Creation(path, what="export")
    try:
        with creation.filling(DatabasePlace()), store.reading() as snapshot:
            _write(store, snapshot, creation.aside, tables)
        creation.settle(keep_lock=False)
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()


def _write(
    store: Store,
    snapshot: Snapshot,
    folder: Path,
    tables: str,
) -> None:
    form = FORMATS[tables]
    counts = {}
    rows = exported_rows(snapshot, store.params)
    has_more = bool(snapshot.has_fields() or snapshot.nights() or snapshot.cursors())
    described = tables_of(store.params.metric, has_more=has_more)
    files = [f"{name}{form.suffix}" for name in described]
    for (name, table), file in zip(described.items(), files, strict=True):
        counts[name] = form.write(folder / file, table, rows[name])
    for row_file in snapshot.generation.files:
        layout = row_file.layout
        name, shape = f"{layout.kind}s", (snapshot.n_signatures, layout.n_columns)
        files.append(f"{name}.npy")
        blocks = verified_rows(snapshot, row_file)
        counts[name] = _write_array(folder / files[-1], blocks, dtype=layout.dtype.str, shape=shape)
    n_postings = snapshot.n_signatures * store.params.bands
    postings = exported_postings(snapshot, store.params)
    if tables == "parquet":
        files.append(f"postings{form.suffix}")
        counts["postings"] = write_postings(folder / files[-1], postings)
    else:
        files.append("postings.npy")
        pairs = (np.column_stack(block) for block in postings)
        counts["postings"] = _write_array(
            folder / files[-1], pairs, dtype="<i8", shape=(n_postings, 2)
        )
    edges = snapshot.edges.state()
    plain_format = TEXT_FORMAT if store.params.kind.body == "text" else METRIC_FORMAT
    Manifest(
        export_format=FIELD_FORMAT if has_more else plain_format,
        tables=tables,
        index=snapshot.identity(),
        parameters=store.params.items(),
        edges=None if edges is None else asdict(edges),
        counts=counts,
        files={file: describe(folder / file) for file in files},
    ).write(folder)


def exported_rows(snapshot: Snapshot, params: IndexParams) -> dict[str, Iterable[Sequence[Any]]]:
    """Return the rows of every table of an export, by its name; rows are read lazily.

    Parameters
    ----------
    snapshot : Snapshot
        The state to export; its transaction stays open while rows are read.
    params : IndexParams
        The parameters of the index.
    """
    return {
        "documents": counting(_documents(snapshot, params), "documents", snapshot.n_documents),
        # Without the last two fields: an imported index treats every add as finished.
        "batches": (astuple(batch)[:-2] for batch in snapshot.batches()),
        "releases": snapshot.edges.releases(),
        "edges": snapshot.edges.edge_rows(),
        "clusters": snapshot.edges.member_rows(),
        "fields": snapshot.kept_fields(),
        "nights": snapshot.nights().items(),
        "cursors": map(astuple, snapshot.cursors()),
    }


def exported_postings(
    snapshot: Snapshot, params: IndexParams
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield bucket keys and signature ids in blocks, in order of both.

    Raises
    ------
    DamageError
        Signatures lack buckets.
    """
    count, total = 0, snapshot.n_signatures * params.bands
    blocks = snapshot.postings.in_order()
    for buckets in counting(blocks, "postings", total, lambda block: len(block.members)):
        count += len(buckets.members)
        yield np.repeat(buckets.keys, buckets.sizes), buckets.members
    if count != total:
        raise DamageError(
            f"the table band holds {count} postings, expected {total}", hint="run lshdb check"
        )


def _documents(snapshot: Snapshot, params: IndexParams) -> Iterator[tuple[Any, ...]]:
    for document in snapshot.whole_documents():
        body: Body = None
        if document.form is not None and document.body is not None:
            body = snapshot.codec.unpack(
                document.form,
                document.body,
                document.body_hash,
                n_chars=document.n_chars,
                doc_id=document.doc_id,
            )
        elif params.keeps_texts:
            raise DamageError(f"the text of {document.key!r} is missing", hint="run lshdb check")
        values = document.values()
        weights = (raw_body(body)[1].decode() if isinstance(body, dict) else None,)
        yield (
            *values[:3],
            document.content_hash.hex(),
            document.body_hash.hex(),
            *values[5:],
            body if isinstance(body, str) else None,
            sorted(body)
            if isinstance(body, frozenset)
            else body
            if isinstance(body, list)
            else None,
            *(weights if params.kind.body == "weights" else ()),
        )


def _write_array(
    path: Path, blocks: Iterable[NDArray[Any]], *, dtype: str, shape: tuple[int, int]
) -> int:
    """Write blocks of rows to an ``.npy`` file and return the number of rows."""
    count = 0
    with open(path, "xb") as file:
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).data)
            count += len(block)
    return count
