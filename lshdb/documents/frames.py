"""Tables in memory: Arrow, pandas, polars, Hugging Face's datasets, and lists.

A table is known by the package of its class, so that none is imported for the sake of another.
:func:`table_documents` makes documents of the rows of any table, also of whatever else hands over
Arrow data (``__arrow_c_stream__``), such as a relation of DuckDB. Only the columns that are needed
are converted, by pyarrow, some thousand rows at a time; ``formats/columns.py`` says what they may
hold. :func:`open_table` gives a whole table: the values of a column one after another, the rows
that a mask keeps, and the same table with more columns. What it gives back is of the same kind.

Decided: rows are numbered from 0, as in the libraries that the tables come from. Files number them
from 1, as their lines.
"""

from __future__ import annotations

import importlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from lshdb.arguments import printable
from lshdb.arrays import np
from lshdb.documents.blocks import DocumentStream, Item
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    BrokenSourceError,
    Fields,
    SeenFields,
    shown_names,
)
from lshdb.documents.values import json_value
from lshdb.errors import InputError, LshdbError, ParameterError, install_command

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.params.index_params import IndexParams

__all__ = ["MemoryTable", "Table", "given_rows", "is_table", "open_table", "table_documents"]

_ROWS = 8_192
_VALUES = 1000
"""Values of a column that are made Python objects at once."""


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


def is_table(value: object) -> bool:
    """Return whether a value is a table that :func:`table_documents` reads."""
    return _kind_of(value) is not None or hasattr(type(value), "__arrow_c_stream__")


def table_documents(table: Any, fields: Fields, *, source: str, limit: int) -> Iterator[Item]:
    """Return blocks of documents; a row that cannot be a document gives a rejection.

    Parameters
    ----------
    fields : Fields
        With ``row_keys``, row numbers are keys: behind the source and a colon, if there is one.
    source : str
        For messages and keys.
    limit : int
        The longest body, in bytes.

    Raises
    ------
    ParameterError
        A column is missing or of a type that cannot be read, or the table is none.
    InputError
        pyarrow is not installed. Or later: values cannot be converted.
    """
    from lshdb.documents.formats.columns import ArrowRows
    from lshdb.documents.formats.objects import absent
    from lshdb.documents.io.streams import load_arrow

    fields.check()
    try:
        arrow, _ = load_arrow()
    except ImportError as error:
        raise InputError(
            "reading tables needs pyarrow, which cannot be loaded",
            hint=install_command("parquet"),
        ) from error
    try:
        kind = _kind_of(table)
        opened = _open_stream(arrow, table) if kind is None else kind(table).opened(arrow)
        names = opened.names
        missing = [*absent(fields, names), *(name for name in fields.keep if name not in names)]
        if missing:
            raise ParameterError(
                f"the table has no column {' and no '.join(map(repr, missing))}; the columns are: "
                f"{shown_names(names)}",
                hint="name the columns with key=, text= and keep=; key=None numbers the rows",
            )
        keys = [] if fields.row_keys else [fields.key_name]
        bodies = [name for name in fields.bodies if name in names]
        columns = list(dict.fromkeys([*keys, *bodies, *fields.keep]))
        twice = next((name for name in columns if names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"the table has more than one column {twice!r}")
        schema, batches = opened.read(columns)
        prefix = (f"{source}:" if source else "") if fields.row_keys else None
        rows = ArrowRows(
            arrow, schema, fields, SeenFields(fields.keep), name=source or "table", prefix=prefix,
            limit=limit, first=0,
        )  # fmt: skip
    except BrokenSourceError as error:
        raise ParameterError(f"the table {error.reason}") from error
    except LshdbError:
        raise
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unusable(error) from error
    return _converted(arrow, rows.documents(batches))


def _converted(arrow: Any, items: Iterator[Item]) -> Iterator[Item]:
    try:
        yield from items
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> InputError:
    return InputError(
        f"the table cannot be converted to Arrow: {printable(str(error))[:300]}",
        hint="give the column one type, as by .astype(str)",
    )


def given_rows(
    documents: Any, *, key: str | None, text: str | Sequence[str] | None, vector: str | None,
    keep: str | Sequence[str], source: str, params: IndexParams,
) -> Any:  # fmt: skip
    """Return the documents of a table; anything that is not a table is returned unchanged.

    Raises
    ------
    ParameterError
        Columns are named for what is no table; else as :func:`table_documents`.
    InputError
        As :func:`table_documents`.
    """
    names = {"text": text, "vector": vector, "keep": keep}
    for name, value in ({"key": key} | names).items():
        is_name = value is None or isinstance(value, str)
        if not is_name and (name not in ("text", "keep") or not isinstance(value, list | tuple)):
            raise ParameterError(f"{name} is {value!r:.200}, expected a name of a column")
    if not is_table(documents):
        named = [name for name, value in names.items() if value]
        if named or key != "id":
            raise ParameterError(
                f"{(named or ['key'])[0]} names a column of a table, but the documents are of type "
                f"{type(documents).__name__}",
                hint="give a table of pyarrow, pandas, polars or datasets, or leave it out",
            )
        return documents
    fields = Fields(
        key=key, vector=vector, body=params.kind.body, dim=params.dim or None,
        text=() if text is None else (text,) if isinstance(text, str) else tuple(text),
        row_keys=key is None, keep=(keep,) if isinstance(keep, str) else tuple(keep),
    )  # fmt: skip
    rows = table_documents(documents, fields, source=source, limit=MAX_DOCUMENT_BYTES)
    return DocumentStream(rows, is_at_hand=isinstance(documents, Sized))


class OpenTable(NamedTuple):
    """The columns of a table, and a function that reads some: schema and record batches."""

    names: list[str]
    read: Callable[[list[str]], tuple[Any, Iterator[Any]]]


def _open_stream(arrow: Any, table: Any) -> OpenTable:
    if not hasattr(type(table), "__arrow_c_stream__"):
        raise ParameterError(
            f"a {type(table).__module__}.{type(table).__qualname__} is no table whose rows can be "
            "added",
            hint="give a table, a data frame, or (key, text) pairs",
        )
    reader = arrow.RecordBatchReader.from_stream(table)
    return OpenTable(reader.schema.names, lambda _: (reader.schema, iter(reader)))


class MemoryTable(ABC):
    """A table of one kind.

    Attributes
    ----------
    CLASS : str
        The name of the class of a whole table.
    """

    CLASS = ""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The columns."""

    def opened(self, arrow: Any) -> OpenTable:
        """Return the table for :func:`table_documents`.

        Raises
        ------
        ParameterError
            It is something else of the same package.
        """
        return _open_stream(arrow, self._table)

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


class _ArrowTable(MemoryTable):
    CLASS = "Table"

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.column_names)

    def opened(self, arrow: Any) -> OpenTable:
        table = self._table
        if isinstance(table, arrow.RecordBatch):
            table = arrow.Table.from_batches([table])
        if isinstance(table, arrow.Table):

            def select(columns: list[str]) -> tuple[Any, Iterator[Any]]:
                chosen = table.select(columns)
                return chosen.schema, iter(chosen.to_batches())

            return OpenTable(table.column_names, select)
        if hasattr(table, "scanner"):

            def scan(columns: list[str]) -> tuple[Any, Iterator[Any]]:
                scanner = table.scanner(columns=columns, batch_size=_ROWS)
                return scanner.projected_schema, scanner.to_batches()

            return OpenTable(table.schema.names, scan)
        return _open_stream(arrow, table)

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


class _PandasTable(MemoryTable):
    CLASS = "DataFrame"

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.columns)

    def opened(self, arrow: Any) -> OpenTable:
        frame = self._table
        if not hasattr(frame, "columns"):
            raise ParameterError(
                f"a pandas {type(frame).__name__} is no table whose rows can be added",
                hint="give a DataFrame, or (key, text) pairs, as by series.items()",
            )
        names = [str(name) for name in frame.columns]
        index = [name for name in frame.index.names if isinstance(name, str) and name not in names]

        def read(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            if index and not set(columns).isdisjoint(index):
                chosen = frame.reset_index(level=[name for name in index if name in columns])
            else:
                chosen = frame
            chosen = chosen.set_axis(list(map(str, chosen.columns)), axis=1)[columns]
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

        return OpenTable([*names, *index], read)

    def column(self, name: str) -> Iterator[Any]:
        series = self._table[name]
        for start in range(0, len(series), _VALUES):
            for value in _listed(series.iloc[start : start + _VALUES]):
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


class _PolarsTable(MemoryTable):
    CLASS = "DataFrame"

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.columns)

    def opened(self, arrow: Any) -> OpenTable:
        frame = self._table
        if type(frame).__name__ == "LazyFrame":
            raise ParameterError("a LazyFrame has no rows yet", hint="give frame.collect()")
        if not hasattr(frame, "iter_slices"):
            raise ParameterError(
                f"a polars {type(frame).__name__} is no table whose rows can be added",
                hint="give a DataFrame, or (key, text) pairs",
            )

        def read(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            chosen = frame.select(columns)
            parts = chosen.iter_slices(_ROWS)
            batches = itertools.chain.from_iterable(part.to_arrow().to_batches() for part in parts)
            return chosen.head(0).to_arrow().schema, batches

        return OpenTable(frame.columns, read)

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


class _DatasetTable(MemoryTable):
    CLASS = "Dataset"

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.column_names)

    def opened(self, arrow: Any) -> OpenTable:
        dataset = self._table
        if isinstance(dataset, dict):
            raise ParameterError(
                f"a {type(dataset).__name__} holds several splits: {shown_names(dataset)}",
                hint="add one split at a time, as dataset['train'], with source='train'",
            )
        if dataset.column_names is None:
            raise ParameterError(
                "the columns of the dataset are not known before it is read",
                hint="give dataset.select_columns([...]), or (key, text) pairs",
            )

        def read(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            tables = dataset.select_columns(columns).with_format("arrow").iter(batch_size=1000)
            first = next(tables, None)
            if first is None:
                return dataset.select_columns(columns).features.arrow_schema, iter(())
            every: Iterable[Any] = itertools.chain([first], tables)
            return first.schema, itertools.chain.from_iterable(
                table.to_batches() for table in every
            )

        return OpenTable(list(dataset.column_names), read)

    def column(self, name: str) -> Iterator[Any]:
        for batch in self._table.select_columns([name]).with_format("arrow").iter(_VALUES):
            yield from _texts_of(batch.column(name).chunks)

    def values(self, name: str) -> Iterator[Any]:
        for batch in self._table.select_columns([name]).with_format("arrow").iter(_VALUES):
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


class _RecordTable(MemoryTable):
    """A list of dicts."""

    @cached_property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys(name for row in self._table for name in row))

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


class _TextTable(_RecordTable):
    """A list of texts; with more columns it becomes a list of dicts."""

    @property
    def names(self) -> Sequence[str]:
        return ("text",)

    def column(self, name: str) -> Iterator[Any]:
        yield from self._table

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return _RecordTable([{"text": text} for text in self._table]).extended(columns)


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
        for start in range(0, len(chunk), _VALUES):
            yield from json_values(arrow, chunk.slice(start, _VALUES))


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


_KINDS: dict[str, type[MemoryTable]] = {
    "pyarrow": _ArrowTable,
    "pandas": _PandasTable,
    "polars": _PolarsTable,
    "datasets": _DatasetTable,
}


def _kind_of(value: object) -> type[MemoryTable] | None:
    """Return the kind of the package that a value's class comes from, or one of its parents'."""
    packages = (parent.__module__.partition(".")[0] for parent in type(value).__mro__)
    return next((_KINDS[package] for package in packages if package in _KINDS), None)


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
    kind = _kind_of(table)
    if kind is not None and kind.CLASS in {parent.__name__ for parent in type(table).__mro__}:
        return kind(table)
    if isinstance(table, list):
        expected = dict if table and isinstance(table[0], dict) else str
        odd = next((i for i, row in enumerate(table) if not isinstance(row, expected)), None)
        if odd is None:
            return _RecordTable(table) if expected is dict else _TextTable(table)
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
