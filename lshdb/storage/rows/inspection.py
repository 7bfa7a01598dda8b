"""What checks and copies ask of the tables: rows as they are stored, sound or not, and counts.

Nothing is compared with its checksum here, so that a check can say what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lshdb.storage.dialects.base import Session

__all__ = ["Inspection"]

Row = tuple[Any, ...]


class Inspection:
    """Reads tables whole, inside one open transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _one_row(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the one row of a statement."""
        return self._session.execute(statement, parameters).fetchone()

    # Rows

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table with all columns, in no order; a checksum comes last."""
        return self._session.stream(f"SELECT * FROM {table}")

    def rows_in_order(
        self, table: str, columns: Sequence[str], keys: Sequence[str]
    ) -> Iterator[Row]:
        """Yield columns of all rows of a table, sorted by some of them."""
        return self._session.stream(
            f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(keys)}"
        )

    def rows_after(self, table: str, keys: Sequence[str], after: Row, most: int) -> list[Row]:
        """Return the next rows of a table in the order of its primary key, whole.

        Parameters
        ----------
        keys : sequence of str
            Columns of the primary key.
        after : tuple
            Their values in the row before.
        """
        names = ", ".join(keys)
        marks = ", ".join("?" * len(keys))
        rows: list[Row] = self._session.fetch(
            f"SELECT * FROM {table} WHERE ({names}) > ({marks}) ORDER BY {names} LIMIT ?",
            (*after, most),
        )
        return rows

    def signed_documents_after(self, doc_id: int, since: int, most: int) -> list[Row]:
        """Return the next rows of documents with a signature from ``since`` on, whole."""
        rows: list[Row] = self._session.fetch(
            "SELECT * FROM document WHERE doc_id > ? AND signature_id >= ? ORDER BY doc_id LIMIT ?",
            (doc_id, since, most),
        )
        return rows

    def state(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return columns of the table ``state``."""
        row = self._one_row(f"SELECT {', '.join(columns)} FROM state")
        return dict(zip(columns, row, strict=True))

    def blocks(self, checksum: str, *, is_first_only: bool = False) -> list[Row]:
        """Return (first_row, n_rows, CRC-32) of all blocks of a row file, or of the first.

        Parameters
        ----------
        checksum : str
            The column of its CRC-32.
        """
        which = "WHERE first_row = 0" if is_first_only else "ORDER BY first_row"
        return self._session.fetch(
            f"SELECT first_row, n_rows, {checksum} FROM signature_block {which}"
        )

    # Documents

    def documents_with_texts(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield columns of documents and their texts, which may be missing; doc_id comes first."""
        return self._session.stream(
            f"SELECT document.doc_id, {', '.join(columns[1:])} FROM document "
            "LEFT JOIN content ON content.doc_id = document.doc_id"
        )

    def doc_ids(self, table: str) -> Iterator[int]:
        """Yield the doc_ids of a table."""
        return (row[0] for row in self._session.stream(f"SELECT doc_id FROM {table}"))

    def orphans(self, table: str) -> Iterator[int]:
        """Yield the doc_ids of a table that no document has."""
        rows = self._session.stream(
            f"SELECT doc_id FROM {table} WHERE NOT EXISTS "
            f"(SELECT 1 FROM document WHERE document.doc_id = {table}.doc_id)"
        )
        return (row[0] for row in rows)

    def signed_contents(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield (key, signature_id, content_hash) of documents with a signature."""
        return self._session.stream(
            "SELECT key, signature_id, content_hash FROM document WHERE signature_id IS NOT NULL"
        )

    def keys_with(self, signature_ids: Sequence[int], most: int) -> tuple[int, list[str]]:
        """Return how many documents have one of some signatures, and the keys of the first.

        Parameters
        ----------
        signature_ids : sequence of int
            A range costs what its documents cost, not its length.
        most : int
            Keys to return.
        """
        if isinstance(signature_ids, range):
            condition = "signature_id BETWEEN ? AND ?"
            parameters: tuple[Any, ...] = (signature_ids.start, signature_ids.stop - 1)
        else:
            condition, parameters = self._session.is_one_of("signature_id", signature_ids)
        (count,) = self._one_row(f"SELECT count(*) FROM document WHERE {condition}", parameters)
        rows = self._session.execute(
            f"SELECT key FROM document WHERE {condition} LIMIT {most}", parameters
        )
        return count, [str(key) for (key,) in rows]

    # Counts

    def count(self, table: str) -> int:
        """Return the number of rows of a table or a view."""
        (count,) = self._one_row(f"SELECT count(*) FROM {table}")
        return int(count)

    def greatest(self, table: str, column: str) -> Any:
        """Return the greatest value of a column; None if the table is empty."""
        return self._one_row(f"SELECT max({column}) FROM {table}")[0]

    def band_ends(self) -> tuple[int | None, int | None]:
        """Return the first and the last signature in the table ``band``."""
        first, last = self._one_row(  # of both in one go, SQLite would read every row
            "SELECT (SELECT min(signature_id) FROM band), (SELECT max(signature_id) FROM band)"
        )
        return first, last

    def count_of(self, table: str, signature_id: int) -> int:
        """Return the number of rows of a table or a view with a signature."""
        statement = f"SELECT count(*) FROM {table} WHERE signature_id = ?"
        (count,) = self._one_row(statement, (signature_id,))
        return int(count)

    def count_bands_outside(self, n_signatures: int) -> int:
        """Return how many rows of the table ``band`` name no signature below a number."""
        (count,) = self._one_row(
            "SELECT count(*) FROM band WHERE signature_id < 0 OR signature_id >= ?",
            (n_signatures,),
        )
        return int(count)

    def documents_by_batches(self) -> int:
        """Return how many documents there must be, by what batches added and removed."""
        (n_documents,) = self._one_row("SELECT coalesce(sum(n_added - n_removed), 0) FROM batch")
        return int(n_documents)

    # References that lead nowhere

    def batch_ids(self) -> set[int]:
        """Return the numbers of all batches."""
        return {row[0] for row in self._session.execute("SELECT batch_id FROM batch")}

    def adds_without_batch(self) -> list[int]:
        """Return the unfinished adds that no batch has."""
        rows = self._session.execute(
            "SELECT add_id FROM unfinished_add WHERE add_id NOT IN (SELECT add_id FROM batch)"
        )
        return [row[0] for row in rows]

    def releases_outside(self, n_signatures: int) -> list[Row]:
        """Return (release_id, signature_id) of released signatures that do not exist."""
        return self._session.fetch(
            "SELECT release_id, signature_id FROM signature_release "
            "WHERE NOT signature_id BETWEEN 0 AND ?",
            (n_signatures - 1,),
        )

    def impossible_edges(self, n_signatures: int, lowest: float, best: float) -> list[Row]:
        """Return (signature1, signature2, similarity) of edges that cannot be.

        Possible ones name two signatures, the smaller first, and a similarity between two bounds.
        """
        return self._session.fetch(
            "SELECT signature1, signature2, similarity FROM edge WHERE NOT (signature1 >= 0 "
            "AND signature1 < signature2 AND signature2 < ? AND similarity BETWEEN ? AND ?)",
            (n_signatures, lowest, best),
        )

    # Versions of Unicode

    def unicode_versions(self) -> set[str]:
        """Return the versions of Unicode that batches were signed with."""
        return {row[0] for row in self._session.execute("SELECT unicode_version FROM batch")}

    def unassigned_characters(self) -> list[tuple[str, int, int]]:
        """Return (version, documents, characters) of characters that a version did not assign."""
        return self._session.fetch(
            "SELECT batch.unicode_version, count(*), sum(document.n_unassigned) "
            "FROM document JOIN batch USING (batch_id) WHERE document.n_unassigned > 0 GROUP BY 1"
        )

    def count_uncounted(self) -> int:
        """Return in how many documents unassigned characters were not counted."""
        (count,) = self._one_row("SELECT count(*) FROM document WHERE n_unassigned IS NULL")
        return int(count)
