"""Answers as tables: for Arrow, pandas and polars, and the first rows in a notebook.

An answer names its columns with their types and gives its rows in blocks. Everything else is here,
so that each answer has the same methods. Libraries are imported when they are asked for.
"""

from __future__ import annotations

import dataclasses
import html
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

_ARROW = {
    "str": "string", "int": "int64", "float": "float64", "bool": "bool_", "bytes": "binary",
}  # fmt: skip
_POLARS = {
    "str": "String",
    "int": "Int64",
    "float": "Float64",
    "bool": "Boolean",
    "bytes": "Binary",
}
_PANDAS = {"int": "int64", "float": "float64", "bool": "bool"}
_LIST = "tuple[str, ...]"


def blocks_of(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield rows as blocks of columns, of up to :data:`BLOCK_ROWS` rows."""
    remaining = iter(rows)
    while block := list(itertools.islice(remaining, BLOCK_ROWS)):
        yield list(zip(*block, strict=True))


def columns_of(item: type) -> Columns:
    """Return the columns of a dataclass: its fields."""
    fields = [(field.name, str(field.type)) for field in dataclasses.fields(item)]
    return [(name, kind if _base(kind) in {*_ARROW, _LIST} else "") for name, kind in fields]


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
        try:
            import pandas
        except ImportError as error:
            raise LshdbError(
                "a data frame needs pandas, which is not installed", hint="pip install pandas"
            ) from error
        columns, values = self._whole()
        frame = pandas.DataFrame(dict(enumerate(values)), columns=range(len(columns)))
        kinds = {
            place: _PANDAS[_base(kind)]
            for place, (_, kind) in enumerate(columns)
            if _base(kind) in _PANDAS
        }
        return frame.astype(kinds).set_axis([name for name, _ in columns], axis=1)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a :class:`polars.DataFrame`, in memory.

        Raises
        ------
        LshdbError
            polars is not installed; or what a loop over the rows raises.
        """
        try:
            import polars
        except ImportError as error:
            raise LshdbError(
                "a data frame needs polars, which is not installed", hint="pip install polars"
            ) from error
        columns, values = self._whole()
        schema: dict[str, Any] = {}
        for name, kind in columns:
            text = polars.List(polars.String)
            schema[name] = text if kind == _LIST else kind and getattr(polars, _POLARS[_base(kind)])
        series = [
            polars.Series(name, column, schema[name] or None, strict=False)
            for (name, _), column in zip(columns, values, strict=True)
        ]
        return polars.DataFrame(series)

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
        try:
            import pyarrow
        except ImportError as error:
            raise LshdbError(
                "a table of Arrow needs pyarrow, which is not installed",
                hint=install_command("parquet"),
            ) from error
        columns, blocks = self._table()
        if not all(kind for _, kind in columns):
            arrays = [pyarrow.array(column) for column in _joined(columns, blocks)]
            return pyarrow.Table.from_arrays(arrays, names=[n for n, _ in columns]).to_reader()
        texts = pyarrow.list_(pyarrow.string())
        types = [
            texts if kind == _LIST else getattr(pyarrow, _ARROW[_base(kind)])()
            for _, kind in columns
        ]
        schema = pyarrow.schema(
            [(name, type_) for (name, _), type_ in zip(columns, types, strict=True)]
        )
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


def _base(kind: str) -> str:
    return kind.removesuffix(" | None")


def _joined(columns: Columns, blocks: Iterable[list[Sequence[Any]]]) -> list[list[Any]]:
    values: list[list[Any]] = [[] for _ in columns]
    for block in blocks:
        for column, part in zip(values, block, strict=True):
            column.extend(part)
    return values
