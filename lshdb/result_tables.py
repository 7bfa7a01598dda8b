"""Answers as tables: for Arrow, pandas and polars, and the first rows in a notebook.

An answer names its columns with their types and gives its rows in blocks. Everything else is here,
so that each answer has the same methods. Libraries are imported when they are asked for.
"""

from __future__ import annotations

import dataclasses
import html
import importlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.errors import LshdbError, install_command

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["BLOCK_ROWS", "Columns", "ResultTable", "blocks_of", "columns_of", "html_table"]

BLOCK_ROWS = 4096
_SHOWN_CHARACTERS = 80

Columns: TypeAlias = "list[tuple[str, str]]"
"""Names of columns with their types, as annotations; "" leaves a type to the values."""

_TYPES: dict[str, tuple[str, str, str | None]] = {
    "str": ("string", "String", None),
    "int": ("int64", "Int64", "int64"),
    "float": ("float64", "Float64", "float64"),
    "bool": ("bool_", "Boolean", "bool"),
    "tuple[str, ...]": ("list_", "List", None),
}
"""An annotation -> its names in pyarrow, in polars, and in pandas where it is no object."""


def blocks_of(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield rows as blocks of columns, of up to :data:`BLOCK_ROWS` rows."""
    remaining = iter(rows)
    while block := list(itertools.islice(remaining, BLOCK_ROWS)):
        yield list(zip(*block, strict=True))


def columns_of(item: type, *, is_distance: bool) -> Columns:
    """Return the columns of a dataclass: its fields, ``distance`` only where the metric is one."""
    return [
        (field.name, str(field.type) if _base(str(field.type)) in _TYPES else "")
        for field in dataclasses.fields(item)
        if field.name != "distance" or is_distance
    ]


def html_table(
    caption: str, names: Sequence[str], rows: Iterable[Sequence[Any]], *, note: str = ""
) -> str:
    """Return a table of HTML; values are escaped, and cut after eighty characters."""

    def cell(value: Any) -> str:
        text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
        is_cut = len(text) > _SHOWN_CHARACTERS
        return html.escape(
            text[: _SHOWN_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}" if is_cut else text
        )

    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell(v)}</td>' for v in row)}</tr>" for row in rows)
    foot = f"<p>{html.escape(note)}</p>" if note else ""
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"
    )


class ResultTable(ABC):
    """An answer that can be had as a table of a data frame library."""

    @abstractmethod
    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        """Return the columns, and the rows as blocks of columns."""

    def to_arrow(self) -> pyarrow.Table:
        """Return the rows as a :class:`pyarrow.Table`, in memory.

        Raises
        ------
        LshdbError
            pyarrow is not installed (extra ``lshdb[parquet]``); or what a loop over them raises.
        """
        return self._reader().read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a :class:`pandas.DataFrame`, in memory.

        Raises
        ------
        LshdbError
            pandas is not installed; or what a loop over the rows raises.
        """
        library = _library("pandas", "a data frame", "pip install pandas")
        columns, values = self._whole()
        kinds = {place: _TYPES[_base(kind)][2] for place, (_, kind) in enumerate(columns) if kind}
        frame = library.DataFrame(dict(enumerate(values)), columns=range(len(columns)))
        frame = frame.astype({place: kind for place, kind in kinds.items() if kind})
        return frame.set_axis([name for name, _ in columns], axis=1)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a :class:`polars.DataFrame`, in memory.

        Raises
        ------
        LshdbError
            polars is not installed; or what a loop over the rows raises.
        """
        library = _library("polars", "a data frame", "pip install polars")
        columns, values = self._whole()

        def type_of(kind: str) -> Any:
            named = getattr(library, _TYPES[_base(kind)][1]) if kind else None
            return named(library.String) if named is library.List else named

        series = [
            library.Series(name, column, type_of(kind), strict=False)
            for (name, kind), column in zip(columns, values, strict=True)
        ]
        frame: polars.DataFrame = library.DataFrame(series)
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of the Arrow PyCapsule protocol, in blocks.

        DuckDB, polars, pandas 3, datasets and others read it. Source: the protocol's description in
        the documentation of Arrow.

        Raises
        ------
        LshdbError
            pyarrow is not installed (extra ``lshdb[parquet]``).
        """
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(self) -> pyarrow.RecordBatchReader:
        pyarrow = _library("pyarrow", "a table of Arrow", install_command("parquet"))
        columns, blocks = self._table()
        if not all(kind for _, kind in columns):
            arrays = [pyarrow.array(column) for column in _joined(columns, blocks)]
            return pyarrow.Table.from_arrays(arrays, names=[n for n, _ in columns]).to_reader()

        def type_of(kind: str) -> Any:
            named = getattr(pyarrow, _TYPES[_base(kind)][0])
            return named(pyarrow.string()) if named is pyarrow.list_ else named()

        types = [type_of(kind) for _, kind in columns]
        names = [name for name, _ in columns]
        schema = pyarrow.schema(list(zip(names, types, strict=True)))
        batches = (
            pyarrow.record_batch(
                [pyarrow.array(part, type_) for part, type_ in zip(block, types, strict=True)],
                schema=schema,
            )
            for block in blocks
        )
        return pyarrow.RecordBatchReader.from_batches(schema, batches)

    def _whole(self) -> tuple[Columns, list[list[Any]]]:
        columns, blocks = self._table()
        return columns, _joined(columns, blocks)


def _library(name: str, what: str, hint: str) -> Any:
    """Import a library that not everyone has."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise LshdbError(f"{what} needs {name}, which is not installed", hint=hint) from error


def _base(kind: str) -> str:
    return kind.removesuffix(" | None")


def _joined(columns: Columns, blocks: Iterable[list[Sequence[Any]]]) -> list[list[Any]]:
    values: list[list[Any]] = [[] for _ in columns]
    for block in blocks:
        for column, part in zip(values, block, strict=True):
            column.extend(part)
    return values
