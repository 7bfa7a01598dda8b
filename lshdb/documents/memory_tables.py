"""Tables in memory as a whole: of columns, or texts or dicts in lists, arrays and iterators.

:func:`open_table` gives the values of a column one after another, the rows that a mask keeps, and
the same table with more columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lshdb.arrays import np
from lshdb.documents.column_tables import (
    Back,
    MemoryTable,
    is_missing,
    no_table,
    open_columns,
    same,
)
from lshdb.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Table", "is_array", "open_table"]


class _ArrowStream(Protocol):
    """A pyarrow table or reader, a polars frame, a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class _ArrowBatches(Protocol):
    """A pyarrow dataset, or one record batch."""

    @property
    def to_batches(self) -> Any: ...


class _DataFrame(Protocol):
    """A data frame of pandas."""

    @property
    def iloc(self) -> Any: ...
    @property
    def columns(self) -> Any: ...


class _Dataset(Protocol):
    """A dataset of Hugging Face."""

    @property
    def column_names(self) -> Any: ...
    @property
    def with_format(self) -> Any: ...


Table: TypeAlias = _ArrowStream | _ArrowBatches | _DataFrame | _Dataset
"""A table of pyarrow, pandas, polars or datasets, or another that hands over Arrow data."""


class _RecordTable(MemoryTable):
    """A list of dicts."""

    @property
    def knows_names(self) -> bool:  # type: ignore[override]
        return bool(self._table)

    @cached_property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys(name for row in self._table for name in row))

    def column(self, name: str) -> Iterator[Any]:
        for row in self._table:
            yield row.get(name)

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        return [row for row, keep in zip(self._table, mask.tolist(), strict=True) if keep]

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        rows = zip(*(values for _, values in columns.values()), strict=True)
        return [
            {**row, **dict(zip(columns, values, strict=True))}
            for row, values in zip(self._table, rows, strict=True)
        ]


class _TextTable(_RecordTable):
    """A list of texts; with more columns it becomes a list of dicts."""

    @property
    def names(self) -> Sequence[str]:
        return ("text",)

    def column(self, name: str) -> Iterator[Any]:
        return (None if is_missing(text) else text for text in self._table)

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return _RecordTable([{"text": text} for text in self._table]).extended(columns)


def open_table(table: Any) -> MemoryTable:
    """Return access to a table, or to texts or dicts in a list.

    Raises
    ------
    ParameterError
        It is of none of the kinds.
    InputError
        It takes pyarrow, which is not installed.
    """
    opened: MemoryTable | None = open_columns(table)
    if opened is None:
        opened = _open_rows(table)
    if opened is None:
        raise no_table(table)
    return opened


def is_array(value: object) -> bool:
    """Return whether a value is an array of NumPy that may hold texts, or dicts."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "OSTU"


def _open_rows(rows: Any) -> MemoryTable | None:
    """Open texts or dicts in a list, a tuple, an array or an iterator."""
    if is_array(rows):
        return _open_list(rows.tolist(), lambda kept: _array_of(kept, rows.dtype), may_lack=True)
    if isinstance(rows, tuple):
        return _open_list(list(rows), tuple, tuple)
    if isinstance(rows, Sequence | ValuesView | Iterator) and not isinstance(rows, str | bytes):
        return _open_list(list(rows))
    return None


def _array_of(rows: list[Any], dtype: Any) -> Any:
    array = np.empty(len(rows), dtype=dtype)
    array[:] = rows
    return array


def _open_list(
    rows: list[Any],
    back: Back = same,
    back_extended: Back | None = None,
    *,
    may_lack: bool = False,
) -> _RecordTable:
    """Open texts or dicts; NaN may stand for a missing text, as pandas writes it into arrays."""
    is_records = isinstance(next((row for row in rows if row is not None), None), dict)
    expected: Any = dict if is_records else str | bytes | None
    numbered = (pair for pair in enumerate(rows) if not isinstance(pair[1], expected))
    may_lack = may_lack and not is_records
    odd = next((number for number, row in numbered if not (may_lack and is_missing(row))), None)
    if odd is not None:
        raise ParameterError(
            f"the list holds {rows[odd]!r:.80} at {odd}, of type {type(rows[odd]).__name__}; "
            "expected strings alone, or dicts alone"
        )
    if is_records:
        return _RecordTable(rows, back, back_extended)
    return _TextTable(rows, back, back_extended, only="text")
