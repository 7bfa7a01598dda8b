"""Tables in memory as documents: Arrow, pandas, polars, and Hugging Face's datasets.

A table is known by the package of its class, so that none is imported for the sake of another.
Whatever else hands over Arrow data (``__arrow_c_stream__``), such as a relation of DuckDB, is a
table too. Only the columns that are needed are converted, by pyarrow, some thousand rows at a time;
``formats/columns.py`` says what they may hold.

Decided: rows are numbered from 0, as in the libraries that the tables come from. Files number them
from 1, as their lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from lshdb.documents.blocks import DocumentStream, Item
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    BrokenSourceError,
    Fields,
    SeenFields,
    printable,
    shown_names,
)
from lshdb.errors import InputError, LshdbError, ParameterError

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["Table", "given_rows", "is_table", "table_documents"]

_ROWS = 8_192


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


class _Opened(NamedTuple):
    """A table: its columns, and what gives the schema and the record batches of some of them."""

    names: list[str]
    read: Callable[[list[str]], tuple[Any, Iterator[Any]]]


def is_table(value: object) -> bool:
    """Return whether a value is a table that :func:`table_documents` reads."""
    return _package(value) in _OPENERS or hasattr(type(value), "__arrow_c_stream__")


def table_documents(table: Any, fields: Fields, *, source: str, limit: int) -> Iterator[Item]:
    """Return the documents of all rows, with a rejection in place of each that is none.

    Parameters
    ----------
    table : Table
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
            hint="pip install 'lshdb[parquet]'",
        ) from error
    try:
        opened = _OPENERS.get(_package(table) or "", _open_stream)(arrow, table)
        names = opened.names
        missing = [*absent(fields, names), *(each for each in fields.keep if each not in names)]
        if missing:
            raise ParameterError(
                f"the table has no column {' and no '.join(map(repr, missing))}; the columns are: "
                f"{shown_names(names)}",
                hint="name the columns with key=, text= and keep=; key=None numbers the rows",
            )
        keys = [] if fields.row_keys else [fields.key_name]
        bodies = [each for each in fields.bodies if each in names]
        wanted = list(dict.fromkeys([*keys, *bodies, *fields.keep]))
        twice = next((each for each in wanted if names.count(each) > 1), None)
        if twice is not None:
            raise ParameterError(f"the table has more than one column {twice!r}")
        schema, batches = opened.read(wanted)
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


def _package(value: object) -> str | None:
    """Return the package that a table's class comes from, or one of its parents'."""
    for one in type(value).__mro__:
        package = one.__module__.partition(".")[0]
        if package in _OPENERS:
            return package
    return None


def _open_arrow(arrow: Any, table: Any) -> _Opened:
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    if isinstance(table, arrow.Table):

        def select(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            chosen = table.select(columns)
            return chosen.schema, iter(chosen.to_batches())

        return _Opened(table.column_names, select)
    if hasattr(table, "scanner"):

        def scan(columns: list[str]) -> tuple[Any, Iterator[Any]]:
            scanner = table.scanner(columns=columns, batch_size=_ROWS)
            return scanner.projected_schema, scanner.to_batches()

        return _Opened(table.schema.names, scan)
    return _open_stream(arrow, table)


def _open_stream(arrow: Any, table: Any) -> _Opened:
    if not hasattr(type(table), "__arrow_c_stream__"):
        raise ParameterError(
            f"a {type(table).__module__}.{type(table).__qualname__} is no table whose rows can be "
            "added",
            hint="give a table, a data frame, or (key, text) pairs",
        )
    reader = arrow.RecordBatchReader.from_stream(table)
    return _Opened(reader.schema.names, lambda _: (reader.schema, iter(reader)))


def _open_pandas(arrow: Any, frame: Any) -> _Opened:
    if not hasattr(frame, "columns"):
        raise ParameterError(
            f"a pandas {type(frame).__name__} is no table whose rows can be added",
            hint="give a DataFrame, or (key, text) pairs, as by series.items()",
        )
    names = [str(each) for each in frame.columns]
    index = [name for name in frame.index.names if isinstance(name, str) and name not in names]

    def read(columns: list[str]) -> tuple[Any, Iterator[Any]]:
        if index and not set(columns).isdisjoint(index):
            chosen = frame.reset_index(level=[each for each in index if each in columns])
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

    return _Opened([*names, *index], read)


def _encoded(value: Any) -> Any:
    """Return a text as bytes: one with a lone surrogate, which Arrow refuses, is then no UTF-8."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _open_polars(_: Any, frame: Any) -> _Opened:
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

    return _Opened(frame.columns, read)


def _open_dataset(arrow: Any, dataset: Any) -> _Opened:
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
        return first.schema, itertools.chain.from_iterable(each.to_batches() for each in every)

    return _Opened(list(dataset.column_names), read)


_OPENERS: dict[str, Callable[[Any, Any], _Opened]] = {
    "pyarrow": _open_arrow,
    "pandas": _open_pandas,
    "polars": _open_polars,
    "datasets": _open_dataset,
}


def given_rows(
    documents: Any, *, key: str | None, text: str | Sequence[str] | None, vector: str | None,
    keep: str | Sequence[str], source: str, params: IndexParams,
) -> Any:  # fmt: skip
    """Return what a caller adds: the documents of a table, or what is no table as it is.

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
