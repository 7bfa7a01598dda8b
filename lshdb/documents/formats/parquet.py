"""Read documents from Parquet files, with pyarrow from the extra ``lshdb[parquet]``.

Two columns are read: the keys (strings or whole numbers) and the bodies (strings, lists of
numbers, lists of strings as tokens, binary values as packed bits, maps and structures as weights).
A row without a key or a body is rejected; its source is ``file: row 17``, counted from 0.

Decided: a file is read in batches of as many rows as fit in 8 MiB, by the sizes that the file
states. A table has keys, as CSV has: without a key column it is refused, unless the keys come from
a side file. Rows are not numbered silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lshdb.documents.document import (
    BrokenSourceError,
    Document,
    Fields,
    Rejected,
    printable,
    shown_names,
    validate_body,
    validate_key,
)
from lshdb.documents.formats.rows import NO_KEY, RowKey, side_keys
from lshdb.documents.io.streams import OpenFile, load_arrow

__all__ = ["read_parquet"]

_BATCH_BYTES = 8 * 2**20
_BATCH_ROWS = 8_192
_BUFFER_BYTES = 2**20
"""The read buffer of a column, in bytes; without it pyarrow reads a whole row group at once."""


def read_parquet(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read the rows of a Parquet file.

    Yields
    ------
    Document or Rejected
        One per row, in order.

    Raises
    ------
    BrokenSourceError
        The file is not Parquet, is damaged, or lacks a column.
    InputError
        A side file of keys does not have one key per row, or cannot be read.
    """
    arrow, parquet = load_arrow()
    name, fields, limit = file.name, file.fields, file.limit
    content = file.in_any_order()
    row = 0
    try:
        with parquet.ParquetFile(content, pre_buffer=False, buffer_size=_BUFFER_BYTES) as table:
            columns = _columns(arrow, table.schema_arrow, fields)
            metadata = table.metadata
            beside = None if fields.keys is None else side_keys(fields.keys, metadata.num_rows)
            for batch in table.iter_batches(batch_size=_batch_rows(metadata), columns=columns):
                bodies = _bodies(arrow, batch.column(columns[0]))
                keys = _keys(batch.column(columns[1])) if beside is None else beside
                for body in bodies:
                    source = f"{name}: row {row}"
                    yield _item(next(keys, NO_KEY), body, source, limit, is_text=fields.is_text)
                    row += 1
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = printable(str(error).partition("\n")[0])[:200]
        raise BrokenSourceError(f"cannot be read as Parquet: {reason}, in row {row:,}") from error


def _columns(arrow: Any, schema: Any, fields: Fields) -> list[str]:
    """Return the column of bodies, and the column of keys unless a side file holds them."""
    names = list(schema.names)
    body = next((each for each in fields.bodies if each in names), fields.bodies[0])
    wanted = [body] if fields.keys is not None else [body, fields.key_name]
    for column in wanted:
        if names.count(column) != 1:
            found = "more than one" if column in names else "no"
            option = "--keys FILE gives keys to a table without them; " if column != body else ""
            raise BrokenSourceError(
                f"has {found} column {column!r}; {option}the columns are: {shown_names(names)}"
            )
    types = arrow.types
    kind = schema.field(body).type
    readable = (
        types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
        types.is_fixed_size_binary, types.is_list, types.is_large_list, types.is_fixed_size_list,
        types.is_map, types.is_struct, types.is_dictionary,
    )  # fmt: skip
    if not any(is_kind(kind) for is_kind in readable):
        raise BrokenSourceError(
            f"has a column {body!r} of {kind}, expected strings, binary values, lists or maps"
        )
    return wanted


def _batch_rows(metadata: Any) -> int:
    """Return the rows per batch, by the largest mean row size of any row group."""
    largest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows > 0:
            largest = max(largest, group.total_byte_size // group.num_rows)
    return min(max(_BATCH_BYTES // largest, 1), _BATCH_ROWS)


def _keys(column: Any) -> Iterator[RowKey]:
    for value in column.to_pylist():
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None:
            yield RowKey("", "the key is null")
        else:
            yield RowKey(value, validate_key(value))


def _bodies(arrow: Any, column: Any) -> list[Any]:
    """Return arrays for a column of numbers, without one object per number; else Python values."""
    types = arrow.types
    kind = column.type
    if types.is_map(kind):
        return [None if pairs is None else dict(pairs) for pairs in column.to_pylist()]
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


def _item(
    given: RowKey, body: Any, source: str, limit: int, *, is_text: bool
) -> Document | Rejected:
    key, reason = given
    size = body.nbytes if isinstance(body, np.ndarray) else len(body) if body is not None else 0
    if reason is None and body is None:
        reason = "the body is null"
    if reason is None and size > limit:
        reason = f"the body has at least {size:,} bytes, more than the limit of {limit:,}"
    if reason is None and is_text:
        reason = validate_body(body)
    return Document(key, body, source) if reason is None else Rejected(source, reason)
