"""Tables in memory: the columns of data frames, Arrow tables, datasets and lists, and some rows.

A table is known by the package that its class comes from, so none is imported for the sake of
another. Each kind gives the values of a column one after another, the rows that a mask keeps, and
the same table with more columns; what is given back is of the same kind.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.document import shown_names
from lshdb.documents.values import json_value
from lshdb.errors import ParameterError

__all__ = ["MemoryTable", "open_table"]

_ROWS = 1000


class MemoryTable(ABC):
    """A table of one kind.

    Attributes
    ----------
    names : sequence of str
        Its columns.
    """

    names: Sequence[str]

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @abstractmethod
    def column(self, name: str) -> Iterator[Any]:
        """Yield the values of a column of texts as Python values; None for what is missing.

        Binary values of Arrow are texts; ``Unreadable`` stands for what is not UTF-8.
        """

    def values(self, name: str) -> Iterator[Any]:
        """Yield the values of a column as an index keeps them; others as they are in Python."""
        for value in self.column(name):
            try:
                yield json_value(value)
            except TypeError:
                yield value

    @abstractmethod
    def kept(self, mask: NDArray[np.bool_]) -> Any:
        """Return the rows where the mask is true."""

    @abstractmethod
    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        """Return the table with more columns, each of a type (bool, int or float) and values."""

    def require(self, *names: str) -> None:
        """Raise ParameterError unless the table has these columns."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ParameterError(
                f"the table has no column {missing[0]!r}; the columns are: "
                f"{shown_names(map(str, self.names))}",
                hint="name the column of the texts, as in text='content'",
            )
        twice = next((name for name in names if list(self.names).count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"the table has more than one column {twice!r}")


def _texts_of(chunks: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of arrays of Arrow as texts."""
    from lshdb.documents.formats.column_sizes import small_batches
    from lshdb.documents.formats.columns import text_values

    arrow = importlib.import_module("pyarrow")
    batches = (arrow.RecordBatch.from_arrays([chunk], [""]) for chunk in chunks)
    for batch in small_batches(arrow, batches):
        yield from text_values(arrow, batch.column(0))


def _of_chunks(chunks: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of arrays of Arrow as an index keeps them."""
    from lshdb.documents.formats.column_values import json_values

    arrow = importlib.import_module("pyarrow")
    for chunk in chunks:
        for start in range(0, len(chunk), _ROWS):
            yield from json_values(arrow, chunk.slice(start, _ROWS))


class _Arrow(MemoryTable):
    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names = table.column_names

    def column(self, name: str) -> Iterator[Any]:
        return _texts_of(self._table.column(name).chunks)

    def values(self, name: str) -> Iterator[Any]:
        return _of_chunks(self._table.column(name).chunks)

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table.filter(importlib.import_module("pyarrow").array(mask))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        arrow = importlib.import_module("pyarrow")
        types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64()}
        table = self._table
        for name, (kind, values) in columns.items():
            table = table.append_column(name, arrow.array(values, type=types[kind]))
        return table


def _listed(series: Any) -> list[Any]:
    """Return the values of a series, with ``Unreadable`` for texts of Arrow that are not UTF-8."""
    from lshdb.documents.formats.columns import NOT_UTF_8, Unreadable

    try:
        return list(series)
    except UnicodeDecodeError:
        values = []
        for number in range(len(series)):
            try:
                values.append(series.iloc[number])
            except UnicodeDecodeError as error:
                values.append(Unreadable(f"{NOT_UTF_8} at byte {error.start + 1}"))
        return values


class _Pandas(MemoryTable):
    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names = list(table.columns)

    def column(self, name: str) -> Iterator[Any]:
        series = self._table[name]
        for start in range(0, len(series), _ROWS):
            for value in _listed(series.iloc[start : start + _ROWS]):
                is_nan = isinstance(value, float) and math.isnan(value)
                yield None if is_nan or type(value).__name__ in ("NAType", "NaTType") else value

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table[mask]

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        pandas = importlib.import_module("pandas")
        types = {"bool": "bool", "int": "Int64", "float": "float64"}
        return self._table.assign(
            **{
                name: pandas.Series(values, dtype=types[kind], index=self._table.index)
                for name, (kind, values) in columns.items()
            }
        )


class _Polars(MemoryTable):
    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names = table.columns

    def column(self, name: str) -> Iterator[Any]:
        column = self._table.get_column(name)
        if self._is_python(column):
            return iter(column.to_list())
        return _texts_of([column.to_arrow()])

    def _is_python(self, column: Any) -> bool:
        """Return whether a column has values that Arrow has not."""
        polars = importlib.import_module("polars")
        return column.dtype in (polars.Object, polars.Int128, polars.UInt128)

    def values(self, name: str) -> Iterator[Any]:
        column = self._table.get_column(name)
        if self._is_python(column):
            return super().values(name)
        return _of_chunks([column.to_arrow()])

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table.filter(importlib.import_module("polars").Series(mask))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        polars = importlib.import_module("polars")
        types = {"bool": polars.Boolean, "int": polars.Int64, "float": polars.Float64}
        return self._table.with_columns(
            [polars.Series(name, values, dtype=types[kind])
             for name, (kind, values) in columns.items()]
        )  # fmt: skip


class _Dataset(MemoryTable):
    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names = table.column_names

    def column(self, name: str) -> Iterator[Any]:
        for batch in self._table.select_columns([name]).with_format("arrow").iter(_ROWS):
            yield from _texts_of(batch.column(name).chunks)

    def values(self, name: str) -> Iterator[Any]:
        for batch in self._table.select_columns([name]).with_format("arrow").iter(_ROWS):
            yield from _of_chunks(batch.column(name).chunks)

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table.select(np.flatnonzero(mask))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        values = importlib.import_module("datasets").Value
        types = {"bool": values("bool"), "int": values("int64"), "float": values("float64")}
        table = self._table
        for name, (kind, column) in columns.items():
            table = table.add_column(name, column, feature=types[kind])
        return table


class _Records(MemoryTable):
    """A list of dicts."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names = list(dict.fromkeys(name for row in table for name in row))

    def column(self, name: str) -> Iterator[Any]:
        for row in self._table:
            yield row.get(name)

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return [row for row, keep in zip(self._table, mask.tolist(), strict=True) if keep]

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        rows = zip(*(values for _, values in columns.values()), strict=True)
        return [
            {**row, **dict(zip(columns, values, strict=True))}
            for row, values in zip(self._table, rows, strict=True)
        ]


class _Texts(_Records):
    """A list of texts; with more columns it becomes a list of dicts."""

    def __init__(self, table: Any) -> None:
        MemoryTable.__init__(self, table)
        self.names = ("text",)

    def column(self, name: str) -> Iterator[Any]:
        yield from self._table

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return _Records([{"text": text} for text in self._table]).extended(columns)


_KINDS: dict[tuple[str, str], type[MemoryTable]] = {
    ("pyarrow", "Table"): _Arrow,
    ("pandas", "DataFrame"): _Pandas,
    ("polars", "DataFrame"): _Polars,
    ("datasets", "Dataset"): _Dataset,
}
_ADVICE = {
    "LazyFrame": "collect() it first",
    "DatasetDict": "give one split, as in data['train']",
    "IterableDatasetDict": "give one split, as in data['train']",
    "IterableDataset": "load it without streaming=True",
    "RecordBatch": "make a table of it: pyarrow.Table.from_batches([batch])",
    "Series": "give the data frame, or the series as a list",
}


def open_table(table: Any) -> MemoryTable:
    """Return access to a table.

    Raises
    ------
    ParameterError
        It is of none of the kinds.
    """
    for one in type(table).__mro__:
        kind = _KINDS.get((one.__module__.partition(".")[0], one.__name__))
        if kind is not None:
            return kind(table)
    if isinstance(table, list):
        expected = dict if table and isinstance(table[0], dict) else str
        odd = next((i for i, row in enumerate(table) if not isinstance(row, expected)), None)
        if odd is None:
            return _Records(table) if expected is dict else _Texts(table)
        raise ParameterError(
            f"the list holds {table[odd]!r:.80} at {odd}, of type {type(table[odd]).__name__}; "
            "expected strings alone, or dicts alone"
        )
    name = type(table).__name__
    raise ParameterError(
        f"the table is of type {name}; expected a pyarrow.Table, a DataFrame of pandas or polars, "
        "a datasets.Dataset, or a list of strings or dicts",
        hint=_ADVICE.get(name, "files are deduplicated by lshdb dedup FILES --output DIR"),
    )
