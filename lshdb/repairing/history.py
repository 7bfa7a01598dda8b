"""The table ``batch`` of a repaired index: rows that are proved, and others worked out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lshdb.storage.checksums import row_checksum
from lshdb.storage.documents import BATCH_COLUMNS
from lshdb.storage.salvaging import salvaged
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.times import timestamp, timestamp_after
from lshdb.storage.transaction import WriteTransaction

__all__ = ["History"]

_COLUMNS = BATCH_COLUMNS.split(", ")


@dataclass(slots=True)
class _Usage:
    """What documents say of a batch: how many have it, and when the first of them came in."""

    documents: int
    seen_at: str


class History:
    """The batches, as far as they are proved, and what documents say of the others.

    Attributes
    ----------
    rebuilt : list of int
        Batches whose row had to be worked out.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._usage: dict[int, _Usage] = {}
        for row in salvaged(snapshot.session, "batch", *_COLUMNS):
            if row_checksum(row[:-1]) == row[-1]:
                self._rows[row[0]] = row[:-1]
        self._unfinished = [
            row[0] for row in salvaged(snapshot.session, "unfinished_add", "add_id")
        ]
        self.rebuilt: list[int] = []

    def unfinished_adds(self) -> list[int]:
        """Adds that did not end, of those that there will be."""
        return [add_id for add_id in self._unfinished if self.has(add_id)]

    def count(self, batch_id: int, seen_at: str) -> None:
        """Take note of a proved document of a batch."""
        usage = self._usage.get(batch_id)
        if usage is None:
            self._usage[batch_id] = _Usage(1, seen_at)
        else:
            usage.documents += 1
            usage.seen_at = min(usage.seen_at, seen_at)

    def rows(self, unicode_version: str) -> Iterator[tuple[Any, ...]]:
        """All batches, from the first to the last that is known of, without gaps."""
        last = max([*self._rows, *self._usage], default=0)
        started_at = ""
        for batch_id in range(1, last + 1):
            row = self._rows.get(batch_id)
            if row is None:
                row = self._worked_out(batch_id, started_at, unicode_version)
                self._rows[batch_id] = row
                self.rebuilt.append(batch_id)
            started_at = row[_COLUMNS.index("started_at")]
            yield row

    def _worked_out(
        self, batch_id: int, started_before: str, unicode_version: str
    ) -> tuple[Any, ...]:
        """A batch that was its own add, of the documents that have it."""
        usage = self._usage.get(batch_id, _Usage(0, ""))
        started_at = max(usage.seen_at, started_before) or timestamp()
        values = {
            **dict.fromkeys(_COLUMNS[:-1], 0),
            "batch_id": batch_id,
            "add_id": batch_id,
            "started_at": started_at,
            "finished_at": started_at,
            "source": "",
            "n_added": usage.documents,
            "unicode_version": unicode_version,
        }
        return tuple(values[name] for name in _COLUMNS[:-1])

    def has(self, batch_id: object) -> bool:
        """Whether there will be a batch of that number."""
        return batch_id in self._rows

    def balance(self, transaction: WriteTransaction, *, there: int, lost: int) -> None:
        """Make the counts of batches those of the documents that are there.

        A batch that was worked out takes what is missing; what was lost is a removal of its own.
        """
        added, removed = (_COLUMNS.index(name) for name in ("n_added", "n_removed"))
        counted = sum(row[added] - row[removed] for row in self._rows.values())
        if self.rebuilt:
            last = self.rebuilt[-1]
            more = self._rows[last][added] + there + lost - counted
            transaction.update_batch(last, {"n_added": max(more, 0), "n_removed": max(-more, 0)})
        else:
            lost = counted - there
        if lost:
            newest = transaction.snapshot.last_batch()
            started_at = timestamp_after(newest.started_at if newest else None)
            batch_id = transaction.open_batch(started_at=started_at, source="check --repair")
            counts = {"n_removed": max(lost, 0), "n_added": max(-lost, 0)}
            transaction.update_batch(batch_id, {**counts, "finished_at": timestamp()})
