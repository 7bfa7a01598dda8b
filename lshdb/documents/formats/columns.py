"""Documents out of Arrow's columns, whatever holds them: a Parquet file, Arrow files, data frames.

The columns of the keys (strings or whole numbers) and of the bodies (strings, lists of numbers,
lists of strings as tokens, binary values as packed bits, maps and structures as weights) are read,
and those to keep. A row without a key or a body is rejected; its source is ``file: row 17``,
counted from 1.

Decided: a table has keys, as CSV has: without a key column it is refused, unless keys come from a
side file or rows are to be numbered. Rows are not numbered silently.

Decided: rows are taken as few at a time as keep their values small, by what comes out and not by
what is stored: a dictionary may repeat one long value a million times. A value that cannot be read
(not UTF-8, a date that Python does not have) costs its row and no other. A body, key or field over
the limit is not made at all.

Keys are strings, whole numbers, decimals without a fraction, UUIDs in their usual form, and binary
values that are UTF-8. Texts are strings, also of JSON's logical type, and binary values that are
UTF-8, as Impala, Snowflake and DuckDB write them. Where vectors or bits are expected, binary values
are packed bits.

Values to keep are what JSON has for them (``column_values.py``).
"""

from __future__ import annotations

import contextlib
import decimal
import importlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lshdb.arguments import printable
from lshdb.documents.blocks import DocumentBlock, Item
from lshdb.documents.document import (
    MAX_KEY_BYTES,
    BrokenSourceError,
    Fields,
    Rejected,
    SeenFields,
    missing_fields,
    validate_body,
    validate_key,
)
from lshdb.documents.formats.column_sizes import (
    first_bytes,
    full_type,
    repeats,
    small_batches,
)
from lshdb.documents.formats.column_values import json_values
from lshdb.documents.formats.objects import absent, joined
from lshdb.documents.formats.rows import RowKey, keyed_rows

__all__ = [
    "NOT_UTF_8",
    "ArrowRows",
    "Unreadable",
    "bodies_of",
    "decoded_text",
    "keys_of",
    "reading_errors",
    "said_by_arrow",
    "text_values",
    "unreadable",
]

_SMALL_BYTES = 2**20
_PLAIN_CHARACTERS = 2**18
"""A longer text may have more than 1 MiB in UTF-8."""
NOT_UTF_8 = "is not valid UTF-8"
"""Why texts are rejected that are other bytes."""


class Unreadable(NamedTuple):
    """Stands for a value that cannot be a value of Python."""

    reason: str


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
        self._bodies = [name for name in fields.bodies if name in names]
        if not self._is_joined:
            del self._bodies[1:]
        has_keys = prefix is None and fields.keys is None
        self._key = fields.key_name if has_keys else None
        self._kept = [name for name in fields.keep if name in names]
        seen.note(self._kept, names)
        read = [*self._bodies, *([fields.key_name] if has_keys else []), *self._kept]
        self.columns = list(dict.fromkeys(read))
        twice = next((name for name in self.columns if names.count(name) > 1), None)
        if twice is not None:
            raise BrokenSourceError(f"has more than one column {twice!r}")
        for body in self._bodies:
            _check_body(arrow, body, schema.field(body).type, is_joined=self._is_joined)
        self._is_dense = fields.is_dense
        self._first = first
        self.row = 0

    def documents(
        self, batches: Iterable[Any], beside: Iterator[RowKey] | None = None
    ) -> Iterator[Item]:
        """Yield blocks of documents; a row that cannot be a document gives a rejection.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
        beside : iterator of RowKey, optional
            Keys from elsewhere, one for each row.
        """
        for batch in small_batches(self._arrow, batches):
            too_long = self._too_long(batch)
            if too_long is not None:
                if beside is not None:
                    next(beside, None)
                yield Rejected(f"{self._name}: row {self.row + self._first}", too_long)
                self.row += 1
                continue
            bodies = self._bodies_of(batch)
            columns = [json_values(self._arrow, batch.column(name)) for name in self._kept]
            fields = [dict(zip(self._kept, row, strict=True)) for row in zip(*columns, strict=True)]
            first = self.row + self._first
            sources = [f"{self._name}: row {first + number}" for number in range(len(bodies))]
            keys, row_keys = self._good_keys(batch), self._row_keys(batch, beside)
            self.row += len(bodies)
            if keys is not None and self._are_good(bodies):
                is_plain = max(map(len, bodies)) <= _PLAIN_CHARACTERS
                yield DocumentBlock(keys, list(bodies), sources, fields, is_plain=is_plain)
            else:
                yield from keyed_rows(row_keys, bodies, sources, fields, refusal=self._refusal)
            del batch, bodies, columns, fields  # before the next ones are made

    def _good_keys(self, batch: Any) -> list[str] | None:
        """Return the keys of a batch if one look shows that all can be used: a third of the time.

        What comes from Arrow is UTF-8, and so holds no lone surrogates.
        """
        if self._key is None:
            return None
        keys = text_values(self._arrow, batch.column(self._key))
        kinds = set(map(type, keys))
        if kinds == {int}:
            return list(map(str, keys))
        lengths = list(map(len, keys)) if kinds == {str} else [0]
        if not min(lengths) or max(lengths) > MAX_KEY_BYTES // 4 or "\0" in "".join(keys):
            return None
        return keys

    def _are_good(self, bodies: Sequence[Any]) -> bool:
        """Return whether one look shows that all rows have a text."""
        if not self._is_text or set(map(type, bodies)) != {str}:
            return False
        return max(map(len, bodies)) <= self._limit

    def _row_keys(self, batch: Any, beside: Iterator[RowKey] | None) -> Iterator[RowKey]:
        if self._prefix is not None:
            return _numbered(self._prefix, self.row + self._first)
        if beside is not None:
            return beside
        return iter(keys_of(self._arrow, batch.column(self._key)))

    def _too_long(self, batch: Any) -> str | None:
        """Return why the one row of a batch is not read at all; None if it may be."""
        if batch.num_rows != 1:
            return None
        if batch.nbytes <= _SMALL_BYTES and not any(
            repeats(self._arrow, column.type) for column in batch.columns
        ):
            return None
        bodies = sum(first_bytes(self._arrow, batch.column(column)) for column in self._bodies)
        if bodies > self._limit:
            return f"the body has {bodies:,} bytes, more than the limit of {self._limit:,}"
        if self._key is not None:
            size = first_bytes(self._arrow, batch.column(self._key))
            if size > self._limit:
                return f"the key has {size:,} bytes, more than the limit of {self._limit:,}"
        for name in self._kept:
            size = first_bytes(self._arrow, batch.column(name))
            if size > self._limit:
                return (
                    f"the field {name!r} has {size:,} bytes, more than the limit of {self._limit:,}"
                )
        return None

    def _bodies_of(self, batch: Any) -> Sequence[Any]:
        columns = [
            bodies_of(self._arrow, batch.column(name), is_dense=self._is_dense)
            for name in self._bodies
        ]
        if not self._is_joined:
            return columns[0]
        return [
            next((value for value in texts if isinstance(value, Unreadable)), None) or joined(texts)
            for texts in zip(*columns, strict=True)
        ]

    def _refusal(self, body: Any) -> str | None:
        """Return why a body cannot be used; None if it can."""
        if isinstance(body, Unreadable):
            return f"the {'text' if self._is_text else 'body'} {body.reason}"
        if body is None:
            return "the bodies are all null" if self._is_joined else "the body is null"
        size = body.nbytes if isinstance(body, np.ndarray) else len(body)
        if size > self._limit:
            return f"the body has at least {size:,} bytes, more than the limit of {self._limit:,}"
        return validate_body(body) if self._is_text else None


def unreadable(form: str, error: Exception, rows: ArrowRows | None) -> BrokenSourceError:
    """Return an error of pyarrow as one of the file: its first line, and the row before it.

    Parameters
    ----------
    form : str
        What the file should be, in words.
    rows : ArrowRows or None
        What the rows were read with; None if the schema could not be read.
    """
    reason = said_by_arrow(error)
    where = f", after row {rows.row:,}" if rows is not None else ""
    return BrokenSourceError(f"cannot be read as {form}: {reason}{where}")


def reading_errors(arrow: Any) -> tuple[type[Exception], ...]:
    """Return the errors that pyarrow raises for a damaged or unreadable file."""
    return arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError


def said_by_arrow(error: Exception) -> str:
    """Return the first line of an error of pyarrow; damaged lengths ask for absurd memory."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is; it is damaged, or its batches are too large"
    return printable(str(error).partition("\n")[0])[:200]


def _check_body(arrow: Any, name: str, kind: Any, *, is_joined: bool) -> None:
    """Refuse a column that holds no bodies."""
    types = arrow.types
    plain = _values_type(arrow, kind)
    texts = (
        types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
        types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view, types.is_null,
    )  # fmt: skip
    nested = (
        types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view,
        types.is_large_list_view, types.is_map, types.is_struct,
    )  # fmt: skip
    if not any(is_kind(plain) for is_kind in (texts if is_joined else (*texts, *nested))):
        expected = "strings" if is_joined else "strings, binary values, lists or maps"
        raise BrokenSourceError(f"has a column {name!r} of {kind}, expected {expected}")


def _values_type(arrow: Any, kind: Any) -> Any:
    """Return the type of a column's values, however they are stored."""
    types = arrow.types
    if isinstance(kind, arrow.BaseExtensionType):
        return _values_type(arrow, kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _values_type(arrow, kind.value_type)
    return kind


def _plain(arrow: Any, column: Any) -> Any:
    """Return a column as its values, without dictionaries and runs; UUIDs stay what they are."""
    kind = column.type
    if isinstance(kind, arrow.BaseExtensionType) and not _is_uuid(kind):
        return _plain(arrow, column.storage)
    if arrow.types.is_dictionary(kind):
        return _plain(arrow, column.dictionary_decode())
    if arrow.types.is_run_end_encoded(kind):
        return _plain(arrow, importlib.import_module("pyarrow.compute").run_end_decode(column))
    if kind.num_fields and repeats(arrow, kind):
        with contextlib.suppress(arrow.ArrowException):  # concat_arrays leaves other rows' values
            return arrow.concat_arrays([column]).cast(full_type(arrow, kind))
    return column


def _is_uuid(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _listed(column: Any) -> list[Any]:
    """Return a column's values; ``Unreadable`` stands for a value that cannot be read."""
    try:
        values: list[Any] = column.to_pylist()
        return values
    except Exception:  # of one value or more; of many kinds, as the types are
        return [_value_at(column, number) for number in range(len(column))]


def _value_at(column: Any, number: int) -> Any:
    try:
        return column[number].as_py()
    except UnicodeDecodeError as error:
        return Unreadable(f"{NOT_UTF_8} at byte {error.start + 1}")
    except (OverflowError, ValueError) as error:
        return Unreadable(f"holds a value that cannot be read: {said_by_arrow(error)}")


def text_values(arrow: Any, column: Any) -> list[Any]:
    """Return a column's values; binary values are decoded, or ``Unreadable`` if not UTF-8."""
    column = _plain(arrow, column)
    values = _listed(column)
    return list(map(decoded_text, values)) if _holds_binary(arrow, column.type) else values


def _holds_binary(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    if isinstance(kind, arrow.BaseExtensionType):
        return not _is_uuid(kind) and _holds_binary(arrow, kind.storage_type)
    if types.is_dictionary(kind):
        return _holds_binary(arrow, kind.value_type)
    if any(
        is_kind(kind)
        for is_kind in (
            types.is_binary, types.is_large_binary, types.is_fixed_size_binary,
            types.is_binary_view,
        )
    ):  # fmt: skip
        return True
    return any(_holds_binary(arrow, kind.field(i).type) for i in range(kind.num_fields))


def decoded_text(value: Any) -> Any:
    """Return a value with all that is binary as text, also inside; or ``Unreadable``."""
    try:
        return _as_text(value)
    except UnicodeDecodeError as error:
        return Unreadable(f"{NOT_UTF_8} at byte {error.start + 1}")


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if type(value) is list:
        return list(map(_as_text, value))
    if type(value) is tuple:  # a key and an item of a map
        return tuple(map(_as_text, value))
    if type(value) is dict:
        return {name: _as_text(inner) for name, inner in value.items()}
    return value


def _numbered(prefix: str, first: int) -> Iterator[RowKey]:
    number = first
    while True:
        key = f"{prefix}{number}"
        yield RowKey(key, validate_key(key))
        number += 1


def keys_of(arrow: Any, column: Any) -> list[RowKey]:
    """Return the keys of a column, each with the reason why it cannot be used."""
    return [_row_key(value) for value in text_values(arrow, column)]


def _row_key(value: Any) -> RowKey:
    if value is None:
        return RowKey("", "the key is null")
    if isinstance(value, Unreadable):
        return RowKey("", f"the key {value.reason}")
    if isinstance(value, decimal.Decimal) and int(value.as_tuple().exponent) >= 0:
        value = f"{value:f}"
    elif isinstance(value, uuid.UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value)
    return RowKey(value, validate_key(value))


def bodies_of(arrow: Any, column: Any, *, is_dense: bool = False) -> list[Any]:
    """Return arrays for a column of numbers, without one object per number; else Python values.

    Binary values are packed bits where bodies are dense, else texts. A structure has a field for
    each token of any row, and null where a row has no such token.
    """
    types = arrow.types
    column = _plain(arrow, column)
    kind = column.type
    if types.is_map(kind):
        return [
            dict(pairs) if type(pairs) is list else pairs for pairs in text_values(arrow, column)
        ]
    if types.is_struct(kind):
        return [
            {name: value for name, value in row.items() if value is not None}
            if type(row) is dict
            else row
            for row in text_values(arrow, column)
        ]
    if is_dense and _holds_binary(arrow, kind) and not kind.num_fields:
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
    return text_values(arrow, column)
