"""Tables of columns in memory: Arrow, pandas, polars, Hugging Face's datasets, DuckDB and others.

A table is known by the package of its class, so that none is imported for the sake of another; or
by what it hands over: Arrow data (``__arrow_c_stream__``, ``__arrow_c_array__``), or columns
(``__dataframe__``). A class for each kind says how columns become record batches, which pyarrow
makes some thousand rows at a time, which rows a mask keeps, and how more columns are added; all
else is made of these. What comes back is of the kind that came in.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lshdb.arguments import printable
from lshdb.arrays import np
from lshdb.documents.document import shown_names
from lshdb.documents.values import json_value
from lshdb.errors import InputError, ParameterError, install_command

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Back",
    "MemoryTable",
    "columns_of",
    "is_missing",
    "is_table",
    "load_arrow",
    "no_table",
    "open_columns",
    "row_count",
    "same",
    "unusable",
]

_ROWS = 8_192
_VALUES = 1000
"""Values of a column that are made Python objects at once."""

_Batches: TypeAlias = tuple[Any, Iterable[Any]]
"""A schema, and record batches."""
Back: TypeAlias = Callable[[Any], Any]
"""Makes what came in of a table of another kind."""


def load_arrow() -> Any:
    """Return pyarrow.

    Raises
    ------
    InputError
        It is not installed.
    """
    from lshdb.documents.io import streams

    try:
        return streams.load_arrow()[0]
    except ImportError as error:
        raise InputError(
            "reading tables needs pyarrow, which cannot be loaded",
            hint=install_command("parquet"),
        ) from error


def unusable(error: Exception) -> InputError:
    """Return the error for a table that pyarrow cannot read."""
    return InputError(
        f"the table cannot be converted to Arrow: {printable(str(error))[:300]}",
        hint="give the column one type, as by .astype(str)",
    )


def same(table: Any) -> Any:
    """Return the table itself."""
    return table


class MemoryTable(ABC):
    """A table of one kind.

    Parameters
    ----------
    table : object
    back : callable
        Makes what came in of such a table with fewer rows.
    back_extended : callable, optional
        The same of one with more columns; by default ``back``, and a column becomes a table.
    only : str, optional

    Attributes
    ----------
    only : str or None
        The name of its column, if what came in is one: a series, or an array.
    knows_names : bool
        Whether its columns are known; those of a list without rows are not.
    """

    knows_names = True

    def __init__(
        self,
        table: Any,
        back: Back = same,
        back_extended: Back | None = None,
        *,
        only: str | None = None,
    ) -> None:
        self._table, self._back, self.only = table, back, only
        self._back_extended = back_extended or (back if only is None else same)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return list(self._table.column_names)

    @abstractmethod
    def column(self, name: str) -> Iterator[Any]:
        """Yield the values of a column of texts as Python values; None for missing ones.

        Binary values of Arrow are texts; ``Unreadable`` stands for what is not UTF-8.
        """

    def values(self, name: str) -> Iterator[Any]:
        """Yield the values of a column as an index keeps them; others as they are in Python."""
        for value in self.column(name):
            try:
                yield json_value(value)
            except TypeError:
                yield value

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        """Return the rows where the mask is true."""
        return self._back(self._kept(mask))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        """Return the table with more columns, each of a type (bool, int or float) and values."""
        return self._back_extended(self._extended(columns))

    @abstractmethod
    def _kept(self, mask: NDArray[np.bool_]) -> Any: ...

    @abstractmethod
    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any: ...

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


class _ColumnTable(MemoryTable):
    """A table whose columns become those of Arrow."""

    @abstractmethod
    def read(self, columns: list[str]) -> _Batches:
        """Return the schema of some columns and their record batches."""

    def column(self, name: str) -> Iterator[Any]:
        from lshdb.documents.formats.column_sizes import small_batches
        from lshdb.documents.formats.columns import text_values

        arrow = load_arrow()
        for batch in small_batches(arrow, self.read([name])[1]):
            yield from text_values(arrow, batch.column(0))

    def values(self, name: str) -> Iterator[Any]:
        from lshdb.documents.formats.column_values import json_values

        arrow = load_arrow()
        for batch in self.read([name])[1]:
            for start in range(0, batch.num_rows, _VALUES):
                yield from json_values(arrow, batch.column(0).slice(start, _VALUES))


class _ArrowTable(_ColumnTable):
    def read(self, columns: list[str]) -> _Batches:
        chosen = self._table.select(columns)
        return chosen.schema, chosen.to_batches()

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        arrow = load_arrow()
        try:
            return self._table.filter(arrow.array(mask))
        except arrow.ArrowNotImplementedError:  # pyarrow chooses no rows of some types, as of views
            ends = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
            runs = zip(ends[::2], ends[1::2], strict=True)
            parts = [self._table.slice(start, end - start) for start, end in runs]
            return arrow.concat_tables([self._table.slice(0, 0), *parts]).combine_chunks()

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        arrow = load_arrow()
        types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64()}
        table = self._table
        for name, (kind, values) in columns.items():
            table = table.append_column(name, arrow.array(values, type=types[kind]))
        return table


class _PandasTable(_ColumnTable):
    @cached_property
    def _flat(self) -> Any:
        """The frame with names that are strings, and the named levels of its index as columns."""
        frame = self._table
        names = set(map(str, frame.columns))
        levels = [name for name in frame.index.names if isinstance(name, str) and name not in names]
        flat = frame.reset_index(level=levels) if levels else frame
        return flat.set_axis(list(map(str, flat.columns)), axis=1)

    @property
    def names(self) -> Sequence[str]:
        return list(self._flat.columns)

    def read(self, columns: list[str]) -> _Batches:
        arrow = load_arrow()
        chosen = self._flat[columns]
        try:
            schema = arrow.Schema.from_pandas(chosen, preserve_index=False)
        except UnicodeEncodeError:
            chosen = chosen.map(_encoded)
            schema = arrow.Schema.from_pandas(chosen, preserve_index=False)
        parts = (chosen.iloc[at : at + _ROWS] for at in range(0, len(chosen), _ROWS))
        return schema, itertools.chain.from_iterable(
            arrow.Table.from_pandas(part, schema=schema, preserve_index=False).to_batches()
            for part in parts
        )

    def column(self, name: str) -> Iterator[Any]:
        series = self._flat[name]
        for start in range(0, len(series), _VALUES):
            for value in _listed(series.iloc[start : start + _VALUES]):
                is_none = is_missing(value) or type(value).__name__ in ("NAType", "NaTType")
                yield None if is_none else value

    values = MemoryTable.values

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table[mask]

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        pandas = importlib.import_module("pandas")
        types = {"bool": "bool", "int": "Int64", "float": "float64"}
        return self._table.assign(
            **{
                name: pandas.Series(values, dtype=types[kind], index=self._table.index)
                for name, (kind, values) in columns.items()
            }
        )


def is_missing(value: object) -> bool:
    """Return whether a value is None or NaN, which pandas and NumPy have for missing texts."""
    return value is None or (isinstance(value, float) and math.isnan(value))


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


def _encoded(value: Any) -> Any:
    """Return a text as bytes: one with a lone surrogate, which Arrow refuses, is then no UTF-8."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


class _PolarsTable(_ColumnTable):
    @property
    def names(self) -> Sequence[str]:
        return list(self._table.columns)

    def read(self, columns: list[str]) -> _Batches:
        chosen = self._table.select(columns)
        parts = (part.to_arrow().to_batches() for part in chosen.iter_slices(_ROWS))
        return chosen.head(0).to_arrow().schema, itertools.chain.from_iterable(parts)

    def _is_python(self, name: str) -> bool:
        """Return whether a column has values that Arrow has not."""
        polars = importlib.import_module("polars")
        return self._table.schema[name] in (polars.Object, polars.Int128, polars.UInt128)

    def column(self, name: str) -> Iterator[Any]:
        if self._is_python(name):
            return iter(self._table.get_column(name).to_list())
        return super().column(name)

    def values(self, name: str) -> Iterator[Any]:
        return (MemoryTable if self._is_python(name) else _ColumnTable).values(self, name)

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table.filter(importlib.import_module("polars").Series(mask))

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        polars = importlib.import_module("polars")
        types = {"bool": polars.Boolean, "int": polars.Int64, "float": polars.Float64}
        return self._table.with_columns(
            [polars.Series(name, values, dtype=types[kind])
             for name, (kind, values) in columns.items()]
        )  # fmt: skip


class _DatasetTable(_ColumnTable):
    @property
    def names(self) -> Sequence[str]:
        if self._table.column_names is None:
            raise ParameterError(
                "the columns of the dataset are not known before it is read",
                hint="give dataset.select_columns([...]), or (key, text) pairs",
            )
        return list(self._table.column_names)

    def read(self, columns: list[str]) -> _Batches:
        chosen = self._table.select_columns(columns)
        tables = chosen.with_format("arrow").iter(batch_size=_VALUES)
        first = next(tables, None)
        if first is None:
            return chosen.features.arrow_schema, ()
        batches = (table.to_batches() for table in itertools.chain([first], tables))
        return first.schema, itertools.chain.from_iterable(batches)

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._table.select(np.flatnonzero(mask))

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        values = importlib.import_module("datasets").Value
        types = {"bool": values("bool"), "int": values("int64"), "float": values("float64")}
        table = self._table
        for name, (kind, column) in columns.items():
            table = table.add_column(name, column, feature=types[kind])
        return table


class _SplitTable(_ColumnTable):
    """Splits of a dataset by name, one after another."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self._parts = {name: _DatasetTable(split) for name, split in table.items()}

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    @property
    def names(self) -> Sequence[str]:
        first, *others = (part.names for part in self._parts.values())
        return [name for name in first if all(name in names for names in others)]

    def read(self, columns: list[str]) -> _Batches:
        opened = [part.read(columns) for part in self._parts.values()]
        schema = opened[0][0].remove_metadata()
        for name, (other, _) in zip(self._parts, opened, strict=True):
            if not other.remove_metadata().equals(schema):
                raise ParameterError(
                    f"the split {name!r} has other types of columns than the first one",
                    hint="give the splits one by one, as in data['train']",
                )
        return schema, itertools.chain.from_iterable(batches for _, batches in opened)

    def column(self, name: str) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.column(name) for part in self._parts.values())

    def values(self, name: str) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.values(name) for part in self._parts.values())

    def _each(self, of_rows: Callable[[_DatasetTable, slice], Any]) -> Any:
        ends = itertools.accumulate(map(len, self._parts.values()), initial=0)
        parts = zip(self._parts.items(), itertools.pairwise(ends), strict=True)
        return type(self._table)(
            {name: of_rows(part, slice(*rows)) for (name, part), rows in parts}
        )

    def _kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._each(lambda part, rows: part.kept(mask[rows]))

    def _extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return self._each(
            lambda part, rows: part.extended(
                {name: (kind, values[rows]) for name, (kind, values) in columns.items()}
            )
        )


def _open_arrow(table: Any) -> _ColumnTable | None:
    arrow = load_arrow()
    if isinstance(table, arrow.Table):
        return _ArrowTable(table)
    if isinstance(table, arrow.RecordBatch):
        return _ArrowTable(arrow.Table.from_batches([table]), _one_batch)
    if isinstance(table, arrow.RecordBatchReader):
        return _ArrowTable(table.read_all(), operator.methodcaller("to_reader"))
    if isinstance(table, arrow.ChunkedArray | arrow.Array):
        return _open_column(arrow, table)
    if hasattr(table, "to_table"):
        make = importlib.import_module("pyarrow.dataset").dataset
        is_scanner = _is_a(table, "Scanner")
        return _ArrowTable(
            table.to_table(), lambda rows: make(rows).scanner() if is_scanner else make(rows)
        )
    return None


def _open_column(arrow: Any, column: Any) -> _ColumnTable:
    """Open an array of Arrow as the column of a table."""

    def back(table: Any) -> Any:
        chunked = table.column(0)
        return chunked.combine_chunks() if isinstance(column, arrow.Array) else chunked

    return _ArrowTable(arrow.table({"text": column}), back, only="text")


def _one_batch(table: Any) -> Any:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else load_arrow().RecordBatch.from_pylist([], schema=table.schema)


def _open_pandas(table: Any) -> _ColumnTable | None:
    if _is_a(table, "DataFrame"):
        return _PandasTable(table)
    if not _is_a(table, "Series"):
        return None
    name = table.name if isinstance(table.name, str) else "text"
    return _PandasTable(
        table.to_frame(name), lambda frame: frame[name].rename(table.name), only=name
    )


def _open_polars(table: Any) -> _ColumnTable | None:
    if _is_a(table, "DataFrame"):
        return _PolarsTable(table)
    if _is_a(table, "LazyFrame"):
        return _PolarsTable(table.collect(), operator.methodcaller("lazy"))
    if not _is_a(table, "Series"):
        return None
    name = table.name or "text"
    return _PolarsTable(
        table.to_frame(name), lambda frame: frame.get_column(name).alias(table.name), only=name
    )


def _open_dataset(table: Any) -> _ColumnTable | None:
    if _is_a(table, "Dataset"):
        return _DatasetTable(table)
    if _is_a(table, "Column") and _is_a(table.source, "Dataset"):
        name = table.column_name
        chosen = table.source.select_columns([name])
        return _DatasetTable(chosen, lambda rows: rows[name], only=name)
    if _is_a(table, "DatasetDict") and all(_is_a(part, "Dataset") for part in table.values()):
        return _SplitTable(table) if table else None
    return None


def _open_ibis(table: Any) -> _ColumnTable | None:
    make = importlib.import_module("ibis").memtable
    if _is_a(table, "Table"):
        return _ArrowTable(table.to_pyarrow(), make)
    if not _is_a(table, "Column"):
        return None
    name = table.get_name()
    return _ArrowTable(
        table.as_table().to_pyarrow(), lambda rows: make(rows)[name], make, only=name
    )


_KINDS: dict[str, Callable[[Any], _ColumnTable | None]] = {
    "pyarrow": _open_arrow,
    "pandas": _open_pandas,
    "polars": _open_polars,
    "datasets": _open_dataset,
    "ibis": _open_ibis,
}
_STREAMS = (None, "ibis")
"""Packages whose tables are made as they are read, and have no length; all that are not known."""
_PROTOCOLS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")


def _package(value: object) -> str | None:
    """Return which of the packages a value's class comes from, or one of its parents'."""
    packages = (parent.__module__.partition(".")[0] for parent in type(value).__mro__)
    return next((package for package in packages if package in _KINDS), None)


def _is_a(value: object, name: str) -> bool:
    return any(parent.__name__ == name for parent in type(value).__mro__)


def _hands_over(value: object, protocol: str) -> bool:
    return hasattr(type(value), protocol)


def is_table(value: object) -> bool:
    """Return whether a value is a table of columns: by its package, or by what it hands over."""
    return _package(value) is not None or any(_hands_over(value, name) for name in _PROTOCOLS)


def row_count(table: Any) -> int | None:
    """Return the number of rows of a table of columns, if that takes no time."""
    if _package(table) in _STREAMS or not isinstance(table, Sized):
        return None
    return sum(map(len, table.values())) if isinstance(table, dict) else len(table)


class Columns(NamedTuple):
    """The columns of a table, and a function that reads some: schema and record batches.

    Attributes
    ----------
    only : str or None
        As of :class:`MemoryTable`.
    """

    names: Sequence[str]
    read: Callable[[list[str]], _Batches]
    only: str | None = None


def columns_of(table: Any) -> Columns:
    """Open a table of columns to be read once; one that is made as it is read is not gathered.

    Raises
    ------
    ParameterError
        It is something else of one of the packages.
    InputError
        pyarrow is not installed.
    """
    arrow = load_arrow()
    package = _package(table)
    if package == "pyarrow" and hasattr(table, "scanner"):

        def scan(columns: list[str]) -> _Batches:
            scanner = table.scanner(columns=columns, batch_size=_ROWS)
            return scanner.projected_schema, scanner.to_batches()

        return Columns(table.schema.names, scan)
    is_stream = package in _STREAMS and _hands_over(table, "__arrow_c_stream__")
    if is_stream or isinstance(table, arrow.RecordBatchReader):
        with contextlib.suppress(arrow.ArrowException, TypeError, ValueError):  # of one column
            reader = arrow.RecordBatchReader.from_stream(table)
            return Columns(reader.schema.names, lambda _: (reader.schema, reader))
    is_iterable = package == "datasets" and _is_a(table, "IterableDataset")
    opened = _DatasetTable(table) if is_iterable else open_columns(table)
    if opened is None:
        raise no_table(table)
    return Columns(opened.names, opened.read, opened.only)


def open_columns(table: Any) -> _ColumnTable | None:
    """Return access to a table of columns; None if it is something else."""
    package = _package(table)
    if package is not None:
        return _KINDS[package](table)
    return _open_handed(table) if is_table(table) else None


def _open_handed(table: Any) -> _ColumnTable:
    """Open what hands over Arrow data, or columns."""
    arrow = load_arrow()
    try:
        if _hands_over(table, "__arrow_c_stream__") or not _hands_over(table, "__dataframe__"):
            gathered = arrow.table(table)
        else:
            gathered = importlib.import_module("pyarrow.interchange").from_dataframe(table)
    except (arrow.ArrowException, TypeError, ValueError):
        try:  # a column hands over an array of values that are no rows
            return _open_column(arrow, arrow.chunked_array(table))
        except (arrow.ArrowException, TypeError, ValueError) as error:
            raise unusable(error) from error
    return _ArrowTable(gathered, _from_arrow(table))


def _from_arrow(table: Any) -> Back:
    """Return what makes a table of the same kind of an Arrow table; itself, if nobody knows."""
    package = type(table).__module__.partition(".")[0].lstrip("_")
    if package == "duckdb":
        return importlib.import_module("duckdb").from_arrow  # type: ignore[no-any-return]
    return getattr(type(table), "from_arrow", same)


def no_table(table: Any) -> ParameterError:
    """Return the error for what is no table."""
    name = type(table).__name__
    is_rows = isinstance(table, Iterable) and not isinstance(table, str | bytes)
    return ParameterError(
        f"the table is of type {name}; expected a table of pyarrow, pandas, polars, datasets, "
        "DuckDB or another that hands over Arrow data, or texts or dicts in a list",
        hint=_ADVICE.get(name, _ROWS_ADVICE if is_rows else _FILES_ADVICE),
    )


_ROWS_ADVICE = "put its rows into a list"
_FILES_ADVICE = "files are deduplicated by lshdb dedup FILES --output DIR"
_ADVICE = {
    "IterableDataset": "load it without streaming=True",
    "IterableDatasetDict": "load it without streaming=True",
    "ndarray": "an array of texts has one dimension",
    "set": "the order of rows decides which one is kept: put them into a list",
    "dict": "give its values as a list, or a table of its columns: pandas.DataFrame(columns)",
}
