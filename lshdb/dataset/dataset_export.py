"""Export one state of an index as a dataset, while others write.

One reading transaction reads everything and streams it into files; one commit makes these a
dataset. The folder is written under another name, synced and renamed. Signature rows and vectors
are compared with their checksums on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.dataset.commits import Change, Dataset
from lshdb.dataset.dataset_tables import FILE_POSTINGS, dataset_tables, load_delta
from lshdb.dataset.table_files import TableWriter
from lshdb.exchange.exporter import exported_postings, exported_rows
from lshdb.params.index_params import IndexParams
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.place.creation import Creation
from lshdb.storage.transactions.snapshot import Snapshot, verified_rows
from lshdb.storage.transactions.store import Store

__all__ = ["export_dataset"]

_GROUP_ROWS = 65_536
_GROUP_BYTES = 16 * 2**20


def export_dataset(store: Store, path: Path) -> None:
    """Write an index as a dataset; see :meth:`lshdb.Index.export`."""
    load_delta()
    store.directory.refuse_inside(path)
    store.require_signatures()
    creation = Creation(path, what="export")
    try:
        with creation.filling(DatabasePlace()), store.reading() as snapshot:
            dataset = Dataset.create(
                str(creation.aside),
                index=snapshot.identity(),
                parameters=store.params.items(),
                beside=creation.lock.path.name,
            )
            change = Change(dataset)
            _write(store, snapshot, change)
            edges = snapshot.edges.state()
            change.commit("export", edges=None if edges is None else asdict(edges))
        creation.settle(keep_lock=False)
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()


def _write(store: Store, snapshot: Snapshot, change: Change) -> None:
    """Write the files of every table."""
    path = Path(change.base.path)
    rows = exported_rows(snapshot, store.params)
    for name in dataset_tables(store.params.metric):
        writer = TableWriter(path / name, change.base.schema(name))
        writer.write_rows(rows[name])
        writer.close()
        change.new[name] = writer.files
    _write_signatures(snapshot, change)
    _write_postings(snapshot, store.params, change)


def _write_signatures(snapshot: Snapshot, change: Change) -> None:
    """Write signature rows, and vectors if they are kept, in order of signature_id."""
    import pyarrow as arrow

    schema = change.base.schema("signatures")
    writer = TableWriter(Path(change.base.path) / "signatures", schema)
    files = snapshot.generation.files
    n_rows = max(1, min(_GROUP_ROWS, _GROUP_BYTES // sum(file.row_bytes for file in files)))
    blocks = (_cut(verified_rows(snapshot, file), n_rows) for file in files)
    for parts in zip(*blocks, strict=True):
        ids = arrow.array(np.arange(writer.n_rows, writer.n_rows + len(parts[0])))
        columns = [_as_bytes(part) for part in parts]
        if len(columns) == 1:
            columns.append(arrow.nulls(len(ids), arrow.binary()))
        writer.write(arrow.Table.from_arrays([ids, *columns], schema=schema))
    writer.close()
    change.new["signatures"] = writer.files


def _cut(blocks: Iterable[NDArray[Any]], n_rows: int) -> Iterator[NDArray[Any]]:
    """Yield the same rows, ``n_rows`` at a time."""
    pending: list[NDArray[Any]] = []
    for block in blocks:
        pending.append(block)
        while sum(map(len, pending)) >= n_rows:
            rows = np.concatenate(pending)
            yield rows[:n_rows]
            pending = [rows[n_rows:]]
    if sum(map(len, pending)):
        yield np.concatenate(pending)


def _as_bytes(rows: NDArray[Any]) -> Any:
    """Return rows as an Arrow column of their bytes, little-endian."""
    import pyarrow as arrow

    data = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<"))
    width = data.shape[1] * data.itemsize
    column = arrow.Array.from_buffers(arrow.binary(width), len(data), [None, arrow.py_buffer(data)])
    return column.cast(arrow.binary())


def _write_postings(snapshot: Snapshot, params: IndexParams, change: Change) -> None:
    """Write postings in order of bucket key and signature_id, as one segment."""
    import pyarrow as arrow

    schema = change.base.schema("postings")
    folder = Path(change.base.path) / "postings"
    writer = TableWriter(folder, schema, most_rows=FILE_POSTINGS)
    for keys, ids in exported_postings(snapshot, params):
        columns = [arrow.array(keys), arrow.array(ids), arrow.array(np.zeros(len(ids), np.int64))]
        writer.write(arrow.Table.from_arrays(columns, schema=schema))
    writer.close()
    change.new["postings"] = writer.files
