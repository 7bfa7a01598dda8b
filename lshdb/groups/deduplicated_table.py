"""What ``lshdb.deduplicate`` did: the rows that it kept, and for what it dropped the others.

A file of its own: the result is public, and the rows of a table know nothing of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

from lshdb.arguments import check_whole
from lshdb.result_tables import Columns, ResultTable, blocks_of, columns_of, html_table

__all__ = ["DeduplicatedTable", "DroppedRow"]

_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row that was dropped, and the one that is kept instead.

    Attributes
    ----------
    row, kept_row : int
        Their numbers in the table, from 0.
    similarity : float
    text, kept_text : str
    """

    row: int
    kept_row: int
    similarity: float
    text: str
    kept_text: str


class DeduplicatedTable(ResultTable):
    """The result of :func:`lshdb.deduplicate` with ``explain``.

    It is iterated as the dropped rows, in the order of the table, and is a table of them
    (``to_pandas()`` and others).

    Parameters
    ----------
    kept : table
        The rows that are kept, of the kind that came in.
    dropped : callable
        Returns the other rows, of the same kind.
    n_rows : int
    threshold : float
    drops : sequence of (int, int, float)
        Number of each dropped row, and of the one that is kept instead, and their similarity.
    texts_of : callable
        Returns the texts of some rows by number.

    Attributes
    ----------
    kept : table
    n_rows : int
        Rows that came in.
    threshold : float
    """

    def __init__(
        self,
        kept: Any,
        dropped: Callable[[], Any],
        *,
        n_rows: int,
        threshold: float,
        drops: Sequence[tuple[int, int, float]],
        texts_of: Callable[[set[int]], dict[int, str]],
    ) -> None:
        self.kept, self.n_rows, self.threshold = kept, n_rows, threshold
        self._dropped, self._drops, self._texts_of = dropped, drops, texts_of

    @cached_property
    def dropped(self) -> Any:
        """The rows that are not kept, of the kind that came in."""
        return self._dropped()

    @property
    def duplicate_ratio(self) -> float:
        """The share of the rows that is dropped."""
        return len(self._drops) / self.n_rows if self.n_rows else 0.0

    @property
    def exact_duplicate_ratio(self) -> float:
        """The share of the rows that is dropped for a row with the same shingles."""
        n_exact = sum(similarity == 1.0 for _, _, similarity in self._drops)
        return n_exact / self.n_rows if self.n_rows else 0.0

    def examples(self, n: int = _EXAMPLES) -> list[DroppedRow]:
        """Return the dropped rows that are least similar to the kept ones: look at these first.

        Raises
        ------
        ParameterError
            n is no whole number, 1 or more.
        """
        check_whole("n", n, 1)
        return self._rows(heapq.nsmallest(n, self._drops, key=lambda drop: drop[2]))

    def __len__(self) -> int:
        """Return the number of dropped rows."""
        return len(self._drops)

    def __bool__(self) -> bool:
        """Return True: a result without dropped rows is one, too."""
        return True

    def __iter__(self) -> Iterator[DroppedRow]:
        return iter(self._rows(self._drops))

    def _rows(self, drops: Iterable[tuple[int, int, float]]) -> list[DroppedRow]:
        rows = list(drops)
        texts = self._texts_of({number for row, kept, _ in rows for number in (row, kept)})
        return [
            DroppedRow(row, kept, similarity, texts[row], texts[kept])
            for row, kept, similarity in rows
        ]

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        return columns_of(DroppedRow, is_distance=False), blocks_of(map(astuple, self))

    def __repr__(self) -> str:
        n_kept = self.n_rows - len(self._drops)
        return (
            f"DeduplicatedTable({n_kept:,} of {self.n_rows:,} rows kept, "
            f"{self.duplicate_ratio:.1%} dropped, threshold {self.threshold:g})"
        )

    def _repr_html_(self) -> str:
        """Return examples, for a notebook."""
        columns = [name for name, _ in columns_of(DroppedRow, is_distance=False)]
        examples = self.examples() if self._drops else []
        note = f"the {len(examples)} least similar of {len(self):,} dropped rows"
        return html_table(repr(self), columns, map(astuple, examples), note=note)
