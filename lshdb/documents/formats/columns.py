"""Documents out of Arrow's columns, whatever holds them: a Parquet file, Arrow files, data frames.

The columns of the keys (strings or whole numbers) and of the bodies (strings, lists of numbers,
lists of strings as tokens, binary values as packed bits, maps and structures as weights) are read,
and those to keep. A row without a key or a body is rejected; its source is ``file: row 17``,
counted from 1.

Decided: a table has keys, as CSV has: without a key column it is refused, unless keys come from a
side file or rows are to be numbered. Rows are not numbered silently.

Values to keep are what JSON has for them (``column_values.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lshdb.documents.document import (
    BrokenSourceError,
    Document,
    Fields,
    Rejected,
    SeenFields,
    missing_fields,
    printable,
    validate_body,
    validate_key,
)
from lshdb.documents.formats.column_values import json_values
from lshdb.documents.formats.objects import absent, joined
from lshdb.documents.formats.rows import NO_KEY, RowKey

__all__ = [
    "ArrowRows",
    "bodies_of",
    "reading_errors",
    "said_by_arrow",
    "small_batches",
    "unreadable",
]

_BATCH_BYTES = 8 * 2**20
_BATCH_ROWS = 8_192


class ArrowRows:
    """Makes documents of the rows of a table.

    Parameters
    ----------
    arrow : module
        pyarrow.
    schema : pyarrow.Schema
        Of the table.
    fields : Fields
        Names of the columns, and where keys come from.
    seen : SeenFields
        Notes which columns to keep there are.
    name : str
        Of the table, for messages.
    prefix : str or None
        Stands before row numbers that are keys; None if rows have keys of their own.
    limit : int
        The longest body, in bytes.
    first : int
        The number of the first row.

    Attributes
    ----------
    columns : list of str
        Those to read.
    row : int
        Rows read so far.

    Raises
    ------
    BrokenSourceError
        A column is missing, or of a type that cannot be read.
    """

    def __init__(
        self,
        arrow: Any,
        schema: Any,
        fields: Fields,
        seen: SeenFields,
        *,
        name: str,
        prefix: str | None,
        limit: int,
        first: int = 1,
    ) -> None:
        self._arrow = arrow
        self._name, self._prefix, self._limit = name, prefix, limit
        self._is_text, self._is_joined = fields.is_text, fields.is_joined
        names = list(schema.names)
        missing = absent(fields, names)
        if missing:
            side = "--keys FILE"
            raise BrokenSourceError(
                f"has {missing_fields('column', missing, names, fields, side=side)}"
            )
        self._bodies = [each for each in fields.bodies if each in names]
        if not self._is_joined:
            del self._bodies[1:]
        has_keys = prefix is None and fields.keys is None
        self._key = fields.key_name if has_keys else None
        self._kept = [each for each in fields.keep if each in names]
        seen.note(self._kept, names)
        wanted = [*self._bodies, *([fields.key_name] if has_keys else []), *self._kept]
        self.columns = list(dict.fromkeys(wanted))
        twice = next((each for each in self.columns if names.count(each) > 1), None)
        if twice is not None:
            raise BrokenSourceError(f"has more than one column {twice!r}")
        for each in self._bodies:
            _check_body(arrow, each, schema.field(each).type, is_joined=self._is_joined)
        self._first = first
        self.row = 0

    def documents(
        self, batches: Iterable[Any], beside: Iterator[RowKey] | None = None
    ) -> Iterator[Document | Rejected]:
        """Yield one document or rejection for each row.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
        beside : iterator of RowKey, optional
            Keys from elsewhere, one for each row.
        """
        for batch in batches:
            bodies = self._bodies_of(batch)
            kept = [(each, json_values(self._arrow, batch.column(each))) for each in self._kept]
            if self._prefix is not None:
                keys = _numbered(self._prefix, self.row + self._first)
            elif beside is not None:
                keys = beside
            else:
                keys = _keys(batch.column(self._key))
            for number, body in enumerate(bodies):
                source = f"{self._name}: row {self.row + self._first}"
                self.row += 1
                values = {each: values[number] for each, values in kept} if kept else None
                yield self._item(next(keys, NO_KEY), body, source, values)

    def _bodies_of(self, batch: Any) -> list[Any]:
        columns = [bodies_of(self._arrow, batch.column(each)) for each in self._bodies]
        if not self._is_joined:
            return columns[0]
        return [joined(texts) for texts in zip(*columns, strict=True)]

    def _item(
        self, given: RowKey, body: Any, source: str, fields: dict[str, Any] | None
    ) -> Document | Rejected:
        key, reason = given
        size = body.nbytes if isinstance(body, np.ndarray) else len(body) if body is not None else 0
        if reason is None and body is None:
            reason = "the bodies are all null" if self._is_joined else "the body is null"
        if reason is None and size > self._limit:
            reason = f"the body has at least {size:,} bytes, more than the limit of {self._limit:,}"
        if reason is None and self._is_text:
            reason = validate_body(body)
        return Document(key, body, source, fields) if reason is None else Rejected(source, reason)


def small_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Cut record batches, so that the Python objects of one take little memory."""
    for batch in batches:
        row_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
        step = min(max(_BATCH_BYTES // row_bytes, 1), _BATCH_ROWS)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def unreadable(form: str, error: Exception, rows: ArrowRows | None) -> BrokenSourceError:
    """Return an error of pyarrow as one of the file: its first line, and the row before it.

    Parameters
    ----------
    form : str
        What the file should be, in words.
    error : Exception
    rows : ArrowRows or None
        What the rows were read with; None if the schema could not be read.
    """
    reason = said_by_arrow(error)
    where = f", after row {rows.row:,}" if rows is not None else ""
    return BrokenSourceError(f"cannot be read as {form}: {reason}{where}")


def reading_errors(arrow: Any) -> tuple[type[Exception], ...]:
    """Return what pyarrow raises for a file that is damaged, or that cannot be read."""
    return arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError


def said_by_arrow(error: Exception) -> str:
    """Return the first line of an error of pyarrow; damaged lengths ask for absurd memory."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is; it is damaged, or its batches are too large"
    return printable(str(error).partition("\n")[0])[:200]


def _check_body(arrow: Any, name: str, kind: Any, *, is_joined: bool) -> None:
    """Refuse a column that holds no bodies."""
    types = arrow.types
    texts = (types.is_string, types.is_large_string, types.is_dictionary, types.is_null)
    others = (
        types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_list,
        types.is_large_list, types.is_fixed_size_list, types.is_map, types.is_struct,
    )  # fmt: skip
    is_view = str(kind) == "string_view"
    if not is_view and not any(each(kind) for each in (texts if is_joined else (*texts, *others))):
        expected = "strings" if is_joined else "strings, binary values, lists or maps"
        raise BrokenSourceError(f"has a column {name!r} of {kind}, expected {expected}")


def _numbered(prefix: str, first: int) -> Iterator[RowKey]:
    number = first
    while True:
        key = f"{prefix}{number}"
        yield RowKey(key, validate_key(key))
        number += 1


def _keys(column: Any) -> Iterator[RowKey]:
    for value in column.to_pylist():
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None:
            yield RowKey("", "the key is null")
        else:
            yield RowKey(value, validate_key(value))


def bodies_of(arrow: Any, column: Any) -> list[Any]:
    """Return arrays for a column of numbers, without one object per number; else Python values.

    A structure has a field for each token of any row, and null where a row has no such token.
    """
    types = arrow.types
    kind = column.type
    if types.is_map(kind):
        return [None if pairs is None else dict(pairs) for pairs in column.to_pylist()]
    if types.is_struct(kind):
        return [None if row is None else _without_nulls(row) for row in column.to_pylist()]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        values = column.to_pylist()
        return [None if value is None else np.frombuffer(value, np.uint8) for value in values]
    is_fixed = types.is_fixed_size_list(kind)
    if (is_fixed or types.is_list(kind) or types.is_large_list(kind)) and not column.null_count:
        numbers = column.flatten()
        element = kind.value_type
        is_array = types.is_floating(element) or element in (arrow.uint8(), arrow.bool_())
        if is_array and not numbers.null_count:
            lengths = [kind.list_size] * len(column) if is_fixed else column.value_lengths()
            flat = numbers.to_numpy(zero_copy_only=False)
            return np.split(flat, np.cumsum(lengths)[:-1]) if len(column) else []
    found: list[Any] = column.to_pylist()
    return found


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
