"""Texts and kept fields beside the keys of a listing, looked up some rows at a time.

The first row is looked up alone, so that the first answer comes at once, then twice as many each
time. Memory holds the texts of at most 256 rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from lshdb import Index
from lshdb.cli._command import option, options
from lshdb.cli._help import OUTPUT
from lshdb.cli._output import Column, RowBlock, one_by_one

if TYPE_CHECKING:
    from lshdb import TransientIndex

__all__ = ["Named", "contents_options", "with_contents"]

_MOST_ROWS = 256

Row = Sequence[Any] | None


class Named(NamedTuple):
    """A column of keys, and the names of the columns for their texts and fields."""

    key: str
    text: str
    fields: str


contents_options = options(
    option("--with-text", is_flag=True, help="Add columns with the stored texts of the documents."),
    option(
        "--with-fields",
        is_flag=True,
        help="Add columns with the kept fields of the documents, as JSON objects.",
    ),
    title=OUTPUT,
)


def with_contents(
    index: Index | TransientIndex,
    columns: Sequence[Column],
    rows: Iterable[Row | RowBlock],
    named: Sequence[Named],
    *,
    with_text: bool,
    with_fields: bool,
) -> tuple[Sequence[Column], Iterable[Row | RowBlock]]:
    """Add columns for texts and fields, if the options ask for them.

    Raises
    ------
    TextNotStoredError
        Texts are wanted, and the index has none.
    """
    if not (with_text or with_fields):
        return columns, rows
    if with_text:
        index.texts([])  # an index without texts is refused before the work
    places = [[column.name for column in columns].index(key_column.key) for key_column in named]
    more = [Column(key_column.text) for key_column in named] * with_text
    more += [Column(key_column.fields) for key_column in named] * with_fields

    def completed(block: list[Row]) -> Iterator[Row]:
        keys = list(dict.fromkeys(row[place] for row in block if row for place in places))
        texts = index.texts(keys) if with_text else {}
        fields = index.fields(keys) if with_fields else {}
        for row in block:
            if row is None:
                yield None
                continue
            own = [row[place] for place in places]
            own_texts = [texts.get(key) for key in own] * with_text
            yield (*row, *own_texts, *([fields.get(key) for key in own] * with_fields))

    return [*columns, *more], chain.from_iterable(map(completed, _blocks(one_by_one(rows))))


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Gather rows; a pause in them ends a block."""
    block: list[Row] = []
    size = 1
    for row in rows:
        block.append(row)
        if row is None or len(block) >= size:
            yield block
            block, size = [], min(2 * size, _MOST_ROWS)
    if block:
        yield block
