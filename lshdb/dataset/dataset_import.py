"""Build an index on one machine from a dataset: same numbers, same answers, nothing signed again.

Everything is streamed: postings a range at a time, everything else in blocks. Checksums of Parquet
pages show damage to any file; texts and vectors are also compared with their hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.dataset.commits import Dataset
from lshdb.dataset.dataset_tables import COMMITS, dataset_tables
from lshdb.errors import DamageError
from lshdb.exchange.importer import described_index, load_export, with_bodies
from lshdb.exchange.tables import fault_of
from lshdb.params.index_params import IndexParams
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.rowfiles.layouts import RowLayout, row_layouts

__all__ = ["import_dataset"]

_BLOCK_ROWS = 1_000
_BLOCK_BYTES = 32 * 2**20
_POSTINGS = 65_536
_HINT = "export the index again, or use another copy"


def import_dataset(
    folder: str,
    path: Path,
    *,
    place: DatabasePlace,
) -> None:
    """Build an index from the newest state of a dataset; see :meth:`lshdb.Index.from_export`."""
    dataset = Dataset.open(folder)
    commit = dataset.commit
    described = described_index(
        f"{folder}/{COMMITS}", commit.index, commit.parameters, commit.edges
    )
    load_export(_DatasetRows(dataset), described, path, place=place)


@dataclass(frozen=True, slots=True)
class _DatasetRows:
    """The rows of a dataset, as :class:`lshdb.exchange.importer.Exported`."""

    dataset: Dataset

    @property
    def documents_path(self) -> str:
        """The folder of documents."""
        return f"{self.dataset.path}/documents"

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by table."""
        return self.dataset.commit.counts

    @property
    def has_more(self) -> bool:
        """A dataset always has tables of kept fields, nights and cursors."""
        return True

    def rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Read the rows of a table."""
        table = dataset_tables(self.dataset.commit.parameters["metric"])[name]
        count = 0
        for stored in self.dataset.files(name):
            for block in self.dataset.blocks(name, stored, size=_BLOCK_ROWS):
                for row in zip(*(column.to_pylist() for column in block.columns), strict=True):
                    fault = fault_of(table, row)
                    if fault is not None:
                        raise _damage(stored.uri, f"has a row whose {fault}")
                    count += 1
                    yield row
        self._check_count(name, count)

    def documents(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows of documents; the last value is the body, or None."""
        return with_bodies(self.rows("documents"), self.documents_path)

    def row_blocks(self, params: IndexParams) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield signature rows, and vectors if they are kept, in order of signature_id."""
        layouts = row_layouts(params)
        size = max(1, _BLOCK_BYTES // sum(layout.row_bytes for layout in layouts))
        files = self.dataset.files("signatures")
        expected = 0
        for stored in sorted(files, key=lambda stored: stored.file.lows.get("signature_id", -1)):
            for block in self.dataset.blocks("signatures", stored, size=size):
                ids = _numbers(block, "signature_id", stored.uri)
                if not np.array_equal(ids, np.arange(expected, expected + len(ids))):
                    raise _damage(
                        stored.uri, f"does not hold signatures in order, from {expected} on"
                    )
                expected += len(ids)
                yield tuple(
                    _rows_of(column, layout, stored.uri)
                    for column, layout in zip(block.columns[1:], layouts, strict=False)
                )
        self._check_count("signatures", expected)

    def _check_count(self, name: str, count: int) -> None:
        if count != self.counts[name]:
            raise _damage(
                f"{self.dataset.path}/{name}",
                f"has {count} rows, but {COMMITS} says {self.counts[name]}",
            )


def _numbers(block: Any, name: str, path: str) -> NDArray[np.int64]:
    column = block.column(name)
    if column.null_count:
        raise _damage(path, f"has a {name} that is null")
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _rows_of(column: Any, layout: RowLayout, path: str) -> NDArray[Any]:
    """Return rows from a column of their bytes."""
    import pyarrow as arrow

    try:
        fixed = column.cast(arrow.binary(layout.row_bytes))
    except arrow.ArrowInvalid as error:
        raise _damage(path, f"has a {layout.kind} of another length: {error}") from error
    if fixed.null_count:
        raise _damage(path, f"has a {layout.kind} that is null")
    size = layout.row_bytes
    data = np.frombuffer(fixed.buffers()[1], dtype=np.uint8) if len(fixed) else np.zeros(0, "u1")
    data = data[fixed.offset * size : (fixed.offset + len(fixed)) * size]
    return data.view(layout.dtype).reshape(-1, layout.n_columns)


def _damage(path: str, what: str) -> DamageError:
    return DamageError(f"{path} {what}", hint=_HINT)
