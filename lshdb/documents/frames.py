"""Tables in memory: Arrow, pandas, polars, Hugging Face's datasets, DuckDB, arrays and lists.

A table is known by the package of its class, so that none is imported for the sake of another; or
by what it hands over: Arrow data (``__arrow_c_stream__``, ``__arrow_c_array__``), or columns
(``__dataframe__``). :func:`open_table` gives a whole table, whatever its kind: the values of a
column one after another, the rows that a mask keeps, and the same table with more columns. What it
gives back is of the same kind. :func:`given_rows` makes documents of the rows of the same kinds.
Tables are read by :func:`table_documents`: only the columns that are needed are converted, by
pyarrow, some thousand rows at a time; ``formats/columns.py`` says what they may hold. Dicts are
read as the records of JSON Lines are.

Decided: rows are numbered from 0, as in the libraries that the tables come from. Files number them
from 1, as their lines.
"""

from __future__ import annotations

import importlib
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from lshdb.arguments import printable
from lshdb.arrays import np
from lshdb.documents.blocks import DocumentStream, Item, in_blocks
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    BrokenSourceError,
    Document,
    Fields,
    Rejected,
    SeenFields,
    shown_names,
)
from lshdb.documents.formats.objects import NoDocumentError, Records
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
    return _kind_of(value) is not None or any(hasattr(type(value), name) for name in _PROTOCOLS)


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

    fields.check()
    arrow = _load_arrow()
    try:
        opened = _opened(arrow, table)
        names = opened.names
        if fields.row_keys and not fields.text and len(names) == 1:
            fields = replace(fields, text=(names[0],))  # the only column is the text
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


def _load_arrow() -> Any:
    """Return pyarrow.

    Raises
    ------
    InputError
        It is not installed.
    """
    from lshdb.documents.io.streams import load_arrow

    try:
        return load_arrow()[0]
    except ImportError as error:
        raise InputError(
            "reading tables needs pyarrow, which cannot be loaded",
            hint=install_command("parquet"),
        ) from error


def given_rows(
    documents: Any, *, key: str | None, text: str | Sequence[str] | None, vector: str | None,
    keep: str | Sequence[str], source: str, params: IndexParams, default_key: str | None = "id",
) -> Any:  # fmt: skip
    """Return the documents of a table, of dicts, or of texts that are to be numbered.

    Anything else is returned unchanged.

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
    fields = Fields(
        key=key, vector=vector, body=params.kind.body, dim=params.dim or None,
        text=() if text is None else (text,) if isinstance(text, str) else tuple(text),
        row_keys=key is None, keep=(keep,) if isinstance(keep, str) else tuple(keep),
    )  # fmt: skip
    if is_table(documents):
        rows = table_documents(documents, fields, source=source, limit=MAX_DOCUMENT_BYTES)
        is_sized = isinstance(documents, Sized)
        return DocumentStream(rows, is_at_hand=is_sized, n_documents=_n_rows(documents))
    is_sized = isinstance(documents, Sized)
    documents, first = _with_first(documents)
    is_text = key is None and isinstance(first, str)
    if is_text or isinstance(first, dict):
        fields.check()
        prefix = (f"{source}:" if source else "") if fields.row_keys else None
        records = Records(fields, SeenFields(fields.keep), prefix)
        return DocumentStream(
            in_blocks(_of_records(records, documents, prefix), is_at_hand=is_sized),
            is_at_hand=is_sized, n_documents=len(documents) if is_sized else None,
        )  # fmt: skip
    named = [name for name, value in names.items() if value]
    is_empty = first is None and isinstance(documents, list | tuple)
    if (named or key != default_key) and not is_empty:
        raise ParameterError(
            f"{(named or ['key'])[0]} names a column of a table, but the documents are of type "
            f"{type(documents).__name__}",
            hint="give a table of pyarrow, pandas, polars or datasets, or dicts, or leave it out",
        )
    return documents


def _n_rows(table: Any) -> int | None:
    """Return the number of rows, if that takes no time."""
    if _kind_of(table) is None or not isinstance(table, Sized):
        return None
    return sum(map(len, table.values())) if isinstance(table, dict) else len(table)


def _with_first(documents: Any) -> tuple[Any, Any]:
    """Return the same documents, and the first of them; None if nobody can look."""
    if _is_array(documents):
        documents = documents.tolist()
    if isinstance(documents, list | tuple):
        return documents, documents[0] if documents else None
    if isinstance(documents, Iterator) and not isinstance(documents, DocumentStream):
        for first in documents:
            return itertools.chain([first], documents), first
        return [], None
    return documents, None


def _of_records(
    records: Records, rows: Iterable[Any], prefix: str | None
) -> Iterator[Document | Rejected]:
    """Yield the document of each dict, or of each text; a row that cannot be one is rejected."""
    for number, row in enumerate(rows):
        name = f"row {number}"
        try:
            if isinstance(row, dict):
                yield records.document(row, number, name)
            elif prefix is not None and isinstance(row, str):
                yield Document(f"{prefix}{number}", row, name)
            else:
                yield Rejected(name, f"it is of type {type(row).__name__}, expected a dict")
        except NoDocumentError as error:
            reason, is_advice, _ = str(error).partition("; give --")
            yield Rejected(name, reason + "; name them by key= and text=" * bool(is_advice))


class OpenTable(NamedTuple):
    """The columns of a table, and a function that reads some: schema and record batches."""

    names: list[str]
    read: Callable[[list[str]], tuple[Any, Iterator[Any]]]


def _opened(arrow: Any, table: Any) -> OpenTable:
    """Open a table to be read once; one that is made as it is read is not gathered first."""
    names = _class_names(table)
    kind = _kind_of(table)
    if kind is None and hasattr(type(table), "__arrow_c_stream__"):
        return _open_stream(arrow, table)
    if kind is _ArrowTable and not {"Array", "ChunkedArray"} & names:
        return _ArrowTable(table).opened(arrow)
    if kind is _DatasetTable and not isinstance(table, dict):
        return _DatasetTable(table).opened(arrow)
    return open_table(table).opened(arrow)


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
    is_column : bool
        Whether it is one column: a series, or an array.
    knows_names : bool
        Whether its columns are known; those of a list without rows are not.
    """

    is_column = False
    knows_names = True

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
        arrow = importlib.import_module("pyarrow")
        try:
            return self._table.filter(arrow.array(mask))
        except arrow.ArrowNotImplementedError:  # pyarrow chooses no rows of some types, as of views
            ends = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
            runs = zip(ends[::2], ends[1::2], strict=True)
            parts = [self._table.slice(start, end - start) for start, end in runs]
            return arrow.concat_tables([self._table.slice(0, 0), *parts]).combine_chunks()

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        arrow = importlib.import_module("pyarrow")
        types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64()}
        table = self._table
        for name, (kind, values) in columns.items():
            table = table.append_column(name, arrow.array(values, type=types[kind]))
        return table


class _PandasTable(MemoryTable):
    @property
    def names(self) -> Sequence[str]:
        return list(self._table.columns)

    def opened(self, arrow: Any) -> OpenTable:
        frame = self._table
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
    @property
    def names(self) -> Sequence[str]:
        return list(self._table.columns)

    def opened(self, arrow: Any) -> OpenTable:
        frame = self._table

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
    @property
    def names(self) -> Sequence[str]:
        return list(self._table.column_names)

    def opened(self, arrow: Any) -> OpenTable:
        dataset = self._table
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


class _SplitTable(MemoryTable):
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

    def opened(self, arrow: Any) -> OpenTable:
        parts = [part.opened(arrow) for part in self._parts.values()]

        def read(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            opened = [part.read(columns) for part in parts]
            schema = opened[0][0].remove_metadata()
            for name, (other, _) in zip(self._parts, opened, strict=True):
                if not other.remove_metadata().equals(schema):
                    raise ParameterError(
                        f"the split {name!r} has other types of columns than the first one",
                        hint="give the splits one by one, as in data['train']",
                    )
            return schema, itertools.chain.from_iterable(batches for _, batches in opened)

        return OpenTable(list(self.names), read)

    def column(self, name: str) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.column(name) for part in self._parts.values())

    def values(self, name: str) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.values(name) for part in self._parts.values())

    def _each(self, of_rows: Callable[[_DatasetTable, slice], Any]) -> Any:
        ends = list(itertools.accumulate(map(len, self._parts.values()), initial=0))
        return type(self._table)(
            {
                name: of_rows(part, slice(start, end))
                for (name, part), (start, end) in zip(
                    self._parts.items(), itertools.pairwise(ends), strict=True
                )
            }
        )

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._each(lambda part, rows: part.kept(mask[rows]))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return self._each(
            lambda part, rows: part.extended(
                {name: (kind, values[rows]) for name, (kind, values) in columns.items()}
            )
        )


class _ConvertedTable(MemoryTable):
    """A table that is read as one of another kind.

    Parameters
    ----------
    table : MemoryTable
        What it is read as.
    back : callable
        Makes its own kind of the rows that are kept.
    back_extended : callable, optional
        Makes its own kind of a table with more columns; without it, such a table stays as it is.
    is_column : bool
    """

    def __init__(
        self,
        table: MemoryTable,
        back: Callable[[Any], Any],
        back_extended: Callable[[Any], Any] = lambda table: table,
        *,
        is_column: bool = False,
    ) -> None:
        super().__init__(table)
        self._back, self._back_extended, self.is_column = back, back_extended, is_column

    def __len__(self) -> int:
        return len(self._table)

    @property
    def knows_names(self) -> bool:  # type: ignore[override]
        return bool(self._table.knows_names)

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.names)

    def opened(self, arrow: Any) -> OpenTable:
        opened: OpenTable = self._table.opened(arrow)
        return opened

    def column(self, name: str) -> Iterator[Any]:
        column: Iterator[Any] = self._table.column(name)
        return column

    def values(self, name: str) -> Iterator[Any]:
        values: Iterator[Any] = self._table.values(name)
        return values

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._back(self._table.kept(mask))

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return self._back_extended(self._table.extended(columns))


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

    is_column = True

    @property
    def names(self) -> Sequence[str]:
        return ("text",)

    def column(self, name: str) -> Iterator[Any]:
        yield from self._table

    def extended(self, columns: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return _RecordTable([{"text": text} for text in self._table]).extended(columns)


def _array_of(rows: list[Any]) -> Any:
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


class _ArrayTable(_ConvertedTable):
    """An array of texts, or of dicts."""

    def __init__(self, array: Any) -> None:
        is_missing = (isinstance(row, float) and math.isnan(row) for row in array.tolist())
        rows = [None if skip else row for row, skip in zip(array.tolist(), is_missing, strict=True)]
        table = _list_of(rows)
        back = (lambda rows: rows) if table.is_column else _array_of
        super().__init__(table, back, back, is_column=table.is_column)
        self._array = array

    def kept(self, mask: NDArray[np.bool_]) -> Any:
        return self._array[mask]


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


_PROTOCOLS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")


def _class_names(value: object) -> set[str]:
    return {parent.__name__ for parent in type(value).__mro__}


def open_table(table: Any) -> MemoryTable:
    """Return access to a table.

    Raises
    ------
    ParameterError
        It is of none of the kinds.
    InputError
        It takes pyarrow, which is not installed.
    """
    kind = _kind_of(table)
    opened = _OPEN[kind](table, _class_names(table)) if kind is not None else _of_protocol(table)
    if opened is None:
        opened = _of_list(table)
    if opened is not None:
        return opened
    name = type(table).__name__
    raise ParameterError(
        f"the table is of type {name}; expected a table of pyarrow, pandas, polars, datasets, "
        "DuckDB or another that hands over Arrow data, or texts or dicts in a list",
        hint=_ADVICE.get(name, "files are deduplicated by lshdb dedup FILES --output DIR"),
    )


_ADVICE = {
    "IterableDataset": "load it without streaming=True",
    "IterableDatasetDict": "load it without streaming=True",
    "ndarray": "an array of texts has one dimension",
    "set": "the order of rows decides which one is kept: put them into a list",
    "dict": "give its values as a list, or a table of its columns: pandas.DataFrame(columns)",
}


def _open_arrow(table: Any, names: set[str]) -> MemoryTable | None:
    arrow = _load_arrow()
    if isinstance(table, arrow.Table):
        return _ArrowTable(table)
    if isinstance(table, arrow.RecordBatch):
        return _ConvertedTable(
            _ArrowTable(arrow.Table.from_batches([table])), _one_batch, _one_batch
        )
    if isinstance(table, arrow.RecordBatchReader):
        reader = operator.methodcaller("to_reader")
        return _ConvertedTable(_ArrowTable(table.read_all()), reader, reader)
    if isinstance(table, arrow.ChunkedArray | arrow.Array):
        return _open_column(arrow, table)
    if hasattr(table, "to_table"):
        scanned = importlib.import_module("pyarrow.dataset").dataset
        return _ConvertedTable(_ArrowTable(table.to_table()), scanned, scanned)
    return None


def _open_column(arrow: Any, column: Any) -> MemoryTable:
    """Open an array of Arrow as the column of a table."""
    is_whole = isinstance(column, arrow.Array)

    def back(table: Any) -> Any:
        chunked = table.column(0)
        return chunked.combine_chunks() if is_whole else chunked

    return _ConvertedTable(_ArrowTable(arrow.table({"text": column})), back, is_column=True)


def _one_batch(table: Any) -> Any:
    batches = table.combine_chunks().to_batches()
    return (
        batches[0]
        if batches
        else importlib.import_module("pyarrow").RecordBatch.from_pylist([], schema=table.schema)
    )


def _open_pandas(table: Any, names: set[str]) -> MemoryTable | None:
    if "DataFrame" in names:
        return _PandasTable(table)
    if "Series" not in names:
        return None
    name = table.name if isinstance(table.name, str) else "text"
    return _ConvertedTable(
        _PandasTable(table.to_frame(name)),
        lambda frame: frame[name].rename(table.name),
        is_column=True,
    )


def _open_polars(table: Any, names: set[str]) -> MemoryTable | None:
    if "DataFrame" in names:
        return _PolarsTable(table)
    if "LazyFrame" in names:
        lazy = operator.methodcaller("lazy")
        return _ConvertedTable(_PolarsTable(table.collect()), lazy, lazy)
    if "Series" not in names:
        return None
    name = table.name or "text"
    return _ConvertedTable(
        _PolarsTable(table.to_frame(name)),
        lambda frame: frame.get_column(name).alias(table.name),
        is_column=True,
    )


def _open_dataset(table: Any, names: set[str]) -> MemoryTable | None:
    if "Dataset" in names:
        return _DatasetTable(table)
    if "DatasetDict" in names and all("Dataset" in _class_names(s) for s in table.values()):
        return _SplitTable(table) if table else None
    return None


_OPEN: dict[type[MemoryTable], Callable[[Any, set[str]], MemoryTable | None]] = {
    _ArrowTable: _open_arrow,
    _PandasTable: _open_pandas,
    _PolarsTable: _open_polars,
    _DatasetTable: _open_dataset,
}


def _of_protocol(table: Any) -> MemoryTable | None:
    """Open what hands over Arrow data, or columns."""
    if not is_table(table):
        return None
    arrow = _load_arrow()
    try:
        if not hasattr(type(table), "__dataframe__") or hasattr(type(table), "__arrow_c_stream__"):
            gathered = arrow.table(table)
        else:
            gathered = importlib.import_module("pyarrow.interchange").from_dataframe(table)
    except (arrow.ArrowException, TypeError, ValueError):
        try:  # a column hands over an array of values that are no rows
            return _open_column(arrow, arrow.chunked_array(table))
        except (arrow.ArrowException, TypeError, ValueError) as error:
            raise _unusable(error) from error
    back = _from_arrow(table)
    return _ConvertedTable(_ArrowTable(gathered), back, back)


def _from_arrow(table: Any) -> Callable[[Any], Any]:
    """Return what makes a table of the same kind of an Arrow table; itself, if nobody knows."""
    package = type(table).__module__.partition(".")[0].lstrip("_")
    if package == "duckdb":
        return importlib.import_module("duckdb").from_arrow  # type: ignore[no-any-return]
    if package == "ibis":
        return importlib.import_module("ibis").memtable  # type: ignore[no-any-return]
    return getattr(type(table), "from_arrow", lambda gathered: gathered)


def _is_array(value: object) -> bool:
    """Return whether a value is an array of NumPy that may hold texts."""
    is_array = isinstance(value, np.ndarray) and value.ndim == 1
    return is_array and value.dtype.kind in "OSTU"  # type: ignore[attr-defined]


def _of_list(table: Any) -> MemoryTable | None:
    """Open texts or dicts in a list, a tuple, an array or an iterator."""
    if _is_array(table):
        return _ArrayTable(table)
    if isinstance(table, list):
        return _list_of(table)
    if isinstance(table, tuple):
        rows = _list_of(list(table))
        return _ConvertedTable(rows, tuple, tuple, is_column=rows.is_column)
    if isinstance(table, Iterator):
        return _list_of(list(table))
    return None


def _list_of(rows: list[Any]) -> _RecordTable:
    is_records = isinstance(next((row for row in rows if row is not None), None), dict)
    expected: Any = dict if is_records else str | bytes | None
    odd = next((number for number, row in enumerate(rows) if not isinstance(row, expected)), None)
    if odd is not None:
        raise ParameterError(
            f"the list holds {rows[odd]!r:.80} at {odd}, of type {type(rows[odd]).__name__}; "
            "expected strings alone, or dicts alone"
        )
    return _RecordTable(rows) if is_records else _TextTable(rows)
