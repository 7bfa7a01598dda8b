"""The rows of a table in memory as documents, and the table without the dropped rows.

The key of a row is its number, from 0. A row whose text is null is no document and is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lshdb.documents.document import (
    Document,
    Rejected,
    json_fields,
)
from lshdb.documents.formats.columns import Unreadable, decoded_text
from lshdb.documents.formats.objects import joined
from lshdb.documents.formats.passthrough import MARKS
from lshdb.documents.memory_tables import open_table
from lshdb.errors import InputError, LshdbWarning, ParameterError, warn_caller
from lshdb.groups.deduplicated_table import DeduplicatedTable
from lshdb.groups.deduplication import Decision, field_name
from lshdb.groups.listing import Cluster
from lshdb.ingest.add_result import AddResult

__all__ = ["TableRows"]


class TableRows:
    """The rows of a table.

    Parameters
    ----------
    table : object
        As for :func:`lshdb.deduplicate`.
    text : str or sequence of str
        The columns of the texts.
    keep : str
        As for :func:`lshdb.deduplicate`.
    is_marked : bool
        Whether the result has all rows, with marks.

    Raises
    ------
    ParameterError
        The table is of another kind, or lacks a column.
    """

    def __init__(
        self, table: Any, *, text: str | Sequence[str], keep: str, is_marked: bool
    ) -> None:
        self._table = open_table(table)
        self._texts = [text] if isinstance(text, str) else list(text)
        if self._table.only is not None and text == "text":
            self._texts = [self._table.only]
        if not self._texts:
            raise ParameterError("text names no column", hint="name one, as in text='content'")
        self._field = field_name(keep)
        self._is_marked = is_marked
        if self._table.knows_names:
            self._table.require(*self._texts, *([] if self._field is None else [self._field]))
        marked = [name for name in MARKS if is_marked and name in self._table.names]
        if marked:
            raise ParameterError(
                f"the table has a column {marked[0]!r} already: it is marked",
                hint="remove these columns first",
            )

    @property
    def are_there(self) -> bool:
        """Whether any row has a text."""
        return next(self.documents(), None) is not None

    def documents(self) -> Iterator[Document | Rejected]:
        """Yield a document for each row that has a text, or the reason why it cannot be read.

        Raises
        ------
        InputError
            A row holds something other than a text or a list of tokens, or its value to choose by
            cannot be kept.
        """
        columns = [self._table.column(name) for name in self._texts]
        fields = None if self._field is None else self._table.values(self._field)
        for number, values in enumerate(zip(*columns, strict=True)):
            field = None if fields is None else next(fields)
            texts = [self._text(value, number) for value in values]
            wrong = next((text for text in texts if isinstance(text, Unreadable)), None)
            if wrong is not None:
                yield Rejected(f"row {number}", f"the text {wrong.reason}")
                continue
            body = texts[0] if len(texts) == 1 else self._joined(texts, number)
            if body is None:
                continue
            fields_of_row = None if self._field is None else {self._field: field}
            if fields_of_row is not None:
                self._check_fields(fields_of_row, field, number)
            yield Document(str(number), body, f"row {number}", fields_of_row)

    def _check_fields(self, fields: dict[str, Any], field: object, number: int) -> None:
        """Raise InputError if the value to choose by cannot be kept."""
        try:
            json_fields(fields)
        except InputError as error:
            raise InputError(
                f"row {number} holds {field!r:.80} in {self._field!r}, of type "
                f"{type(field).__name__}, by which nothing can be chosen",
                hint="choose by a column of numbers, of dates and times, of durations, or of texts",
            ) from error

    def _text(self, value: Any, number: int) -> Any:
        """Return a text or tokens; ``Unreadable`` for binary values that are not UTF-8."""
        if isinstance(value, bytes):
            return decoded_text(value)
        if isinstance(value, int | float):
            raise self._no_text(value, number)
        return value

    def _joined(self, values: Sequence[Any], number: int) -> str | None:
        for value in values:
            if value is not None and not isinstance(value, str):
                raise self._no_text(value, number)
        return joined(values)

    def _no_text(self, value: object, number: int) -> InputError:
        return InputError(
            f"row {number} holds {value!r:.80} in {' and '.join(map(repr, self._texts))}, of type "
            f"{type(value).__name__}; expected a text",
            hint="name the column of the texts, as in text='content'",
        )

    def tell_rejected(self, result: AddResult, outcome: str = "kept uncompared") -> None:
        """Warn of rows that could not be read, and say what becomes of them."""
        if result.rejected:
            first = result.rejections[0]
            rows = "1 row is" if result.rejected == 1 else f"{result.rejected:,} rows are"
            warn_caller(LshdbWarning(f"{rows} {outcome}: {first.source}: {first.reason}"))

    def result(self, drops: Iterable[Decision], clusters: Iterable[Cluster]) -> Any:
        """Return the table without the rows that are dropped, or with marks on all."""
        n_rows = len(self._table)
        keep = np.ones(n_rows, dtype=bool)
        kept_as: list[int | None] = [None] * (n_rows if self._is_marked else 0)
        similarities: list[float | None] = [None] * len(kept_as)
        for drop in drops:
            number = int(drop.key)
            keep[number] = False
            if self._is_marked and drop.kept_key is not None:
                kept_as[number], similarities[number] = int(drop.kept_key), drop.similarity
        if not self._is_marked:
            return self._table.kept(keep)
        labels: list[int | None] = [None] * n_rows
        for cluster in clusters:
            for key in cluster.keys:
                labels[int(key)] = int(cluster.label)
        columns = [keep.tolist(), labels, kept_as, similarities]
        kinds = ("bool", "int", "int", "float")
        return self._table.extended(dict(zip(MARKS, zip(kinds, columns, strict=True), strict=True)))

    def explained(self, drops: Iterable[Decision], threshold: float) -> DeduplicatedTable:
        """Return the rows that are kept, and for what the others are dropped."""
        n_rows = len(self._table)
        keep = np.ones(n_rows, dtype=bool)
        dropped: list[tuple[int, int, float]] = []
        for drop in drops:
            if drop.kept_key is not None and drop.similarity is not None:
                dropped.append((int(drop.key), int(drop.kept_key), drop.similarity))
                keep[dropped[-1][0]] = False
        return DeduplicatedTable(
            self._table.kept(keep), lambda: self._table.kept(~keep), n_rows=n_rows,
            threshold=threshold, drops=dropped, texts_of=self._texts_of,
        )  # fmt: skip

    def _texts_of(self, numbers: set[int]) -> dict[int, str]:
        """Return the texts of some rows, which have one."""
        bodies = (
            (int(item.key), item.body)
            for item in self.documents()
            if isinstance(item, Document) and int(item.key) in numbers
        )
        return {
            number: body if isinstance(body, str) else " ".join(map(str, body))
            for number, body in bodies
        }
