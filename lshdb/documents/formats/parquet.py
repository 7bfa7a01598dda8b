"""Read documents from Parquet files, with pyarrow from the extra ``lshdb[parquet]``.

Decided: rows are read as few at a time as keep what comes out of them below 64 MiB, or one by one.
What comes out follows from the pages of each column (``parquet_pages.py``), not from the bytes that
the file states, which are next to nothing for a column of repeated texts. pyarrow takes the number
of rows anew before each batch. Lists are counted by the mean of their row group, because pages do
not say where rows begin; what a list repeats from a dictionary is not made at all before
``columns.py`` has counted its bytes. Beside a batch pyarrow holds a page of each column,
decompressed, and its dictionary. ``columns.py`` says what the columns may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple

from lshdb.documents.blocks import Item
from lshdb.documents.formats.column_sizes import BATCH_BYTES, BATCH_ROWS, leaf_types
from lshdb.documents.formats.columns import ArrowRows, reading_errors, unreadable
from lshdb.documents.formats.objects import row_prefix
from lshdb.documents.formats.parquet_pages import ParquetPage, longest_value, pages_of
from lshdb.documents.formats.rows import side_keys
from lshdb.documents.io.streams import OpenFile, load_arrow

__all__ = ["BUFFER_BYTES", "parquet_batches", "read_parquet"]

BUFFER_BYTES = 2**20
"""The read buffer of a column, in bytes; without it pyarrow reads a whole row group at once."""
_READ_BYTES = 64 * 2**20
"""What the rows that are read at once may have, decoded."""
_UNKNOWN_BYTES = 2**20
"""The longest value that is reckoned with where the pages cannot be looked at."""
_FEW_BYTES = 2**20
"""A column is read as references to its dictionary if it has no more bytes beside it."""
_FEW_ROWS = 512
"""Fewer are put together before they are made Python objects."""


def read_parquet(file: OpenFile) -> Iterator[Item]:
    """Read the rows of a Parquet file.

    Yields
    ------
    DocumentBlock or Rejected
        For all rows, in order.

    Raises
    ------
    BrokenSourceError
        The file is not Parquet, is damaged, or lacks a column.
    InputError
        A side file of keys does not have one key per row, or cannot be read.
    """
    arrow, parquet = load_arrow()
    fields = file.fields
    rows = None
    content = file.in_any_order()
    try:
        with parquet.ParquetFile(content, pre_buffer=False, buffer_size=BUFFER_BYTES) as table:
            rows = ArrowRows(
                arrow, table.schema_arrow, fields, file.seen, name=file.name,
                prefix=row_prefix(file), limit=file.limit,
            )  # fmt: skip
            n_rows = table.metadata.num_rows
            beside = None if fields.keys is None else side_keys(fields.keys, n_rows)
            batches = parquet_batches(table, content, file.descriptor, rows.columns)
            yield from rows.documents(batches, beside)
    except reading_errors(arrow) as error:
        raise unreadable("Parquet", error, rows) from error


def parquet_batches(
    table: Any, content: BinaryIO, descriptor: int | None, columns: Sequence[str] | None
) -> Iterator[Any]:
    """Yield the rows of an open file as record batches that take little memory each.

    Parameters
    ----------
    content : binary file
        Of which it was opened.
    descriptor : int or None
        Of the same file, if it is on this machine.
    columns : sequence of str or None
        Names of those to read; None for all.

    Raises
    ------
    BrokenSourceError
        A page is decompressed to far more than is on disk.
    """
    with ExitStack() as stack:
        opened = _Opened(table, content, descriptor, columns, stack)
        for number in range(table.num_row_groups):
            group = table.metadata.row_group(number)
            if group.num_rows:
                yield from _Group(opened, group, number).batches()


class _Opened:
    """An open file, also opened so that some of its columns come as references to a dictionary."""

    def __init__(
        self, table: Any, content: BinaryIO, descriptor: int | None,
        columns: Sequence[str] | None, stack: ExitStack,
    ) -> None:  # fmt: skip
        self.arrow, self._parquet = load_arrow()
        self.table, self.columns, self.descriptor = table, columns, descriptor
        self._content, self._stack = content, stack
        self._tables: dict[tuple[str, ...], Any] = {(): table}
        self.leaf_types = [
            leaf for field in table.schema_arrow for leaf in leaf_types(self.arrow, field.type)
        ]

    def with_references(self, paths: Sequence[str]) -> Any:
        """Return the file, opened so that these columns come as references."""
        names = tuple(paths)
        if names not in self._tables:
            self._tables[names] = self._stack.enter_context(
                self._parquet.ParquetFile(
                    self._content, metadata=self.table.metadata, pre_buffer=False,
                    buffer_size=BUFFER_BYTES, read_dictionary=list(names),
                )
            )  # fmt: skip
        return self._tables[names]


class _Leaf(NamedTuple):
    """A column of a row group that has values: one of Parquet's, perhaps within another."""

    path: str
    chunk: Any
    is_repeated: bool
    width: int
    """Bytes of each value; 0 where they differ."""


class _Group:
    """A row group: how many of its rows may be read at once, from each row on."""

    def __init__(self, opened: _Opened, group: Any, number: int) -> None:
        self._opened, self._number, self._n_rows = opened, number, group.num_rows
        columns, types = opened.columns, opened.leaf_types
        leaves = [
            _leaf(opened.table.schema.column(i), group.column(i), types[i], opened.arrow)
            for i in range(group.num_columns)
            if columns is None or _is_within(group.column(i).path_in_schema, columns)
        ]
        self._share = _READ_BYTES // max(len(leaves), 1)
        self._referring: list[str] = []
        """Leaves that are read as references to their dictionary."""
        self._limits = [limit for leaf in leaves if (limit := self._limit(leaf)) is not None]

    def batches(self) -> Iterator[Any]:
        """Yield the rows as record batches."""
        table = self._opened.with_references(self._referring)
        row = 0
        batches = table.iter_batches(
            batch_size=self._rows_from(row), row_groups=[self._number],
            columns=self._opened.columns,
        )  # fmt: skip
        small: list[Any] = []
        n_rows = n_bytes = 0
        for batch in batches:
            row += batch.num_rows
            if self._limits and row < self._n_rows:
                table.reader.set_batch_size(self._rows_from(row))
            small.append(batch)
            n_rows += batch.num_rows
            n_bytes += batch.nbytes
            if n_rows >= _FEW_ROWS or n_bytes >= BATCH_BYTES:
                yield from self._together(small)
                small, n_rows, n_bytes = [], 0, 0
        yield from self._together(small)

    def _rows_from(self, row: int) -> int:
        return min([BATCH_ROWS, *(limit(row) for limit in self._limits)])

    def _together(self, batches: list[Any]) -> Iterator[Any]:
        """Yield batches as one, because each costs as much as a hundred short rows."""
        if len(batches) < 2:
            yield from batches
        else:
            yield from self._opened.arrow.Table.from_batches(batches).combine_chunks().to_batches()

    def _limit(self, leaf: _Leaf) -> Callable[[int], int] | None:
        """Return what says how many rows may be read from a row on; None if any number may."""
        share, chunk = self._share, leaf.chunk
        n_bytes = chunk.total_uncompressed_size
        n_once = chunk.num_values if leaf.is_repeated else min(self._n_rows, BATCH_ROWS)
        may_repeat = chunk.has_dictionary_page or "DELTA_BYTE_ARRAY" in chunk.encodings
        if leaf.width:
            return self._mean_limit(max(chunk.num_values * leaf.width, 1))
        if n_once * n_bytes <= share or (n_bytes <= share and not may_repeat):
            return None
        descriptor = self._opened.descriptor
        pages = None if descriptor is None else pages_of(descriptor, chunk)
        if descriptor is None or pages is None:
            return self._mean_limit(chunk.num_values * min(n_bytes, _UNKNOWN_BYTES))
        dictionary = next((page for page in pages if page.kind == "dictionary"), None)
        n_full = sum(page.n_bytes for page in pages if page.kind in ("values", "prefixes"))
        longest = 0
        if dictionary is not None and dictionary.n_bytes * n_once > share:
            if n_full <= _FEW_BYTES:
                self._referring.append(leaf.path)
                return self._mean_limit(4 * chunk.num_values + n_full)
            longest = longest_value(self._opened.arrow, descriptor, dictionary, chunk.compression)
        elif dictionary is not None:
            longest = dictionary.n_bytes
        if leaf.is_repeated:
            return self._mean_limit(max(n_bytes, chunk.num_values * longest))
        steps = _Steps(pages, longest, share)
        return None if steps.are_all else steps.rows_from

    def _mean_limit(self, n_bytes: int) -> Callable[[int], int] | None:
        """Return a function that says how many rows together have a number of bytes."""
        most = max(self._share * self._n_rows // max(n_bytes, 1), 1)
        return None if most >= min(BATCH_ROWS, self._n_rows) else lambda _: most


class _Steps:
    """How many rows of a column without lists may be read at once: by its pages."""

    def __init__(self, pages: list[ParquetPage], longest: int, share: int) -> None:
        self._pages = [page for page in pages if page.kind != "dictionary" and page.n_values]
        self._longest, self._share = max(longest, 1), share
        self._at = 0
        """The page that was looked at last."""
        self._first = 0
        """Its first row."""

    @property
    def are_all(self) -> bool:
        """Whether any rows that are read at once have few bytes."""
        most = sum(
            page.n_bytes
            if page.kind == "values"
            else min(page.n_values, BATCH_ROWS) * self._each(page)
            for page in self._pages
        )
        return most <= self._share

    def _each(self, page: ParquetPage) -> int:
        return self._longest if page.kind == "references" else max(page.n_bytes, 1)

    def rows_from(self, row: int) -> int:
        """Return how many rows may be read from a row on; rows come in order."""
        while self._at < len(self._pages) - 1:
            if row < self._first + self._pages[self._at].n_values:
                break
            self._first += self._pages[self._at].n_values
            self._at += 1
        left, n_rows, start = self._share, 0, row - self._first
        for page in self._pages[self._at :]:
            here = page.n_values - start
            start = 0
            if page.kind != "values":
                may = min(left // self._each(page), here)
                left -= may * self._each(page)
            elif page.n_bytes <= left:
                may = here
                left -= page.n_bytes
            else:  # no more than the page comes out of it, and that is in memory
                may = 0 if n_rows else min(here, page.n_values * left // page.n_bytes)
            n_rows += may
            if may < here or n_rows >= BATCH_ROWS:
                break
        return max(n_rows, 1)


def _leaf(column: Any, chunk: Any, kind: Any, arrow: Any) -> _Leaf:
    widths = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
    width = widths.get(chunk.physical_type, 0)
    if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = column.length
    if arrow.types.is_dictionary(kind):  # values come as numbers, beside the dictionary
        width = 4
    return _Leaf(chunk.path_in_schema, chunk, column.max_repetition_level > 0, width)


def _is_within(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)
