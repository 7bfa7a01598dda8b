"""How many bytes the rows of Arrow's columns have once they are values, and few rows at a time.

A dictionary, a run or a view may stand for one long value a million times, so the bytes that a
batch takes say nothing of the values that come out of it. Here lengths are looked up and added;
nothing is decoded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "decoded_bytes",
    "first_bytes",
    "full_batch",
    "full_type",
    "leaf_types",
    "mapped_type",
    "repeats",
    "small_batches",
]

BATCH_BYTES = 8 * 2**20
"""Rows that become Python objects together have at most so many bytes; one row may have more."""
BATCH_ROWS = 8_192
_OFFSET_BYTES = 4


def small_batches(arrow: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Cut record batches, so that the Python objects of one take little memory.

    A batch of one row may be larger.
    """
    for batch in batches:
        if batch.num_rows <= BATCH_ROWS and _may_be_whole(arrow, batch):
            yield batch
            continue
        sizes = np.zeros(batch.num_rows, dtype=np.int64)
        for column in batch.columns:
            sizes += decoded_bytes(arrow, column)
        for start, stop in _cuts(sizes):
            yield batch.slice(start, stop - start)


def full_batch(arrow: Any, batch: Any, schema: Any) -> Any:
    """Return a batch with values where another schema has them, and it has references to them."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == field.type else arrow.concat_arrays([column]).cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)


def _may_be_whole(arrow: Any, batch: Any) -> bool:
    """Return whether a batch is small, by its bytes, and repeats nothing."""
    return batch.nbytes <= BATCH_BYTES and not any(
        repeats(arrow, column.type) for column in batch.columns
    )


def repeats(arrow: Any, kind: Any) -> bool:
    """Return whether a type may hold one value many times."""
    types = arrow.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return True
    if isinstance(kind, arrow.BaseExtensionType):
        return repeats(arrow, kind.storage_type)
    if "_view" in str(kind):
        return True
    if types.is_null(kind):
        return False
    return any(repeats(arrow, kind.field(i).type) for i in range(kind.num_fields))


def leaf_types(arrow: Any, kind: Any) -> list[Any]:
    """Return the types of the columns that a type is made of, in order, without lists and such."""
    if isinstance(kind, arrow.BaseExtensionType):
        return leaf_types(arrow, kind.storage_type)
    if arrow.types.is_dictionary(kind) or not kind.num_fields:
        return [kind]
    return [leaf for i in range(kind.num_fields) for leaf in leaf_types(arrow, kind.field(i).type)]


def _cuts(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield beginnings and ends of rows that have few bytes together."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + BATCH_ROWS)
        yield start, stop
        start = stop


def decoded_bytes(arrow: Any, column: Any) -> NDArray[np.int64]:
    """Return how many bytes each row of a column has, each repetition counted.

    Nothing is decoded: lengths are looked up.
    """
    types, n = arrow.types, len(column)
    kind = column.type
    if isinstance(kind, arrow.BaseExtensionType):
        return decoded_bytes(arrow, column.storage)
    if types.is_dictionary(kind):
        sizes = decoded_bytes(arrow, column.dictionary)
        places = column.indices.fill_null(len(sizes)).to_numpy(zero_copy_only=False)
        return _taken(np.append(sizes, 0), places)
    if types.is_run_end_encoded(kind):
        return _run_bytes(arrow, column)
    if types.is_struct(kind):
        total = np.zeros(n, dtype=np.int64)
        for child in column.flatten():
            total += decoded_bytes(arrow, child)
        return total
    if types.is_fixed_size_list(kind):
        size, width = kind.list_size, _width(arrow, kind.value_type)
        if width is not None:
            return np.full(n, size * width, dtype=np.int64)
        within = decoded_bytes(arrow, column.values.slice(column.offset * size, n * size))
        sums: NDArray[np.int64] = within.reshape(n, size).sum(axis=1, dtype=np.int64)
        return sums
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _list_bytes(arrow, column)
    if types.is_null(kind) or not n:
        return np.zeros(n, dtype=np.int64)
    width = _width(arrow, kind)
    if width is not None:
        return np.full(n, width, dtype=np.int64)
    try:
        lengths = importlib.import_module("pyarrow.compute").binary_length(column)
    except arrow.ArrowException:
        return _mean_bytes(column)
    numbers: NDArray[np.int64] = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64) + np.int64(_OFFSET_BYTES)


def _width(arrow: Any, kind: Any) -> int | None:
    """Return the bytes of each value of a type; None where they differ."""
    if arrow.types.is_dictionary(kind) or isinstance(kind, arrow.BaseExtensionType):
        return None
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return None


def _list_bytes(arrow: Any, column: Any) -> NDArray[np.int64]:
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    is_map = arrow.types.is_map(column.type)
    sizes = np.zeros(len(column), dtype=np.int64)
    for values in (column.keys, column.items) if is_map else (column.values,):
        width = _width(arrow, values.type)
        if width is not None:
            sizes += np.diff(offsets) * width
        else:
            within = decoded_bytes(arrow, values.slice(first, last - first))
            ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(within)])
            sizes += np.diff(ends[offsets - first])
    return sizes


def _run_bytes(arrow: Any, column: Any) -> NDArray[np.int64]:
    """Return the bytes of each row of a run-end encoded column."""
    sizes = decoded_bytes(arrow, column.values)
    ends = column.run_ends.to_numpy().astype(np.int64)
    places = np.searchsorted(ends, np.arange(column.offset, column.offset + len(column)), "right")
    return _taken(sizes, places)


def _taken(sizes: NDArray[np.int64], places: NDArray[Any]) -> NDArray[np.int64]:
    rows: NDArray[np.int64] = sizes[places]
    return rows


def _mean_bytes(column: Any) -> NDArray[np.int64]:
    n = len(column)
    return np.full(n, column.nbytes // max(n, 1), dtype=np.int64)


def first_bytes(arrow: Any, column: Any) -> int:
    """Return how many bytes the first row of a column has, each repetition counted."""
    return int(decoded_bytes(arrow, column)[0])


def full_type(arrow: Any, kind: Any) -> Any:
    """Return a type with values in the place of references to a dictionary."""
    return mapped_type(
        arrow, kind, lambda inner: inner.value_type if arrow.types.is_dictionary(inner) else inner
    )


def mapped_type(arrow: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a type with each type inside lists and structures changed."""
    types = arrow.types
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return arrow.struct(
            [child.with_type(mapped_type(arrow, child.type, change)) for child in fields]
        )
    if types.is_map(kind):
        return arrow.map_(
            mapped_type(arrow, kind.key_type, change), mapped_type(arrow, kind.item_type, change)
        )
    if types.is_list(kind) or types.is_large_list(kind):
        field = kind.value_field.with_type(mapped_type(arrow, kind.value_type, change))
        return arrow.list_(field) if types.is_list(kind) else arrow.large_list(field)
    return change(kind)
