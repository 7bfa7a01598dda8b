"""A file without the lines whose documents are to be dropped: what survives, byte for byte."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.raw import key_of, read_raw_lines
from lshdb.search.deduplication import Decisions
from lshdb.storage.snapshot import Snapshot

__all__ = ["FilterCounts", "Survivors", "field_values", "surviving_lines"]

_LINES = 1000


@dataclass(slots=True)
class FilterCounts:
    """What became of the lines of a file; complete when all have been given.

    Attributes
    ----------
    kept, dropped : int
        Lines.
    unknown : int
        Of those kept, how many hold no document of the index.
    """

    kept: int = 0
    dropped: int = 0
    unknown: int = 0


class Survivors(Iterator[bytes]):
    """Lines of a file that are kept, byte for byte.

    Attributes
    ----------
    counts : FilterCounts
        Complete when the last line has been given.
    """

    def __init__(self, lines: Iterator[bytes], counts: FilterCounts) -> None:
        self._lines = lines
        self.counts = counts

    def __next__(self) -> bytes:
        return next(self._lines)


def surviving_lines(
    snapshot: Snapshot,
    chosen: Decisions,
    path: str | os.PathLike[str],
    *,
    key_field: str,
    counts: FilterCounts,
) -> Iterator[bytes]:
    """The lines of a JSON Lines file whose documents are kept, as they lie.

    A line that holds no document of the index is kept: nothing says that it repeats anything.
    """
    lines = read_raw_lines(path)
    while chunk := list(itertools.islice(lines, _LINES)):
        keys = [key_of(record, key_field) for _, record in chunk]
        known = snapshot.documents_of_keys({key for key in keys if key is not None})
        numbers = [known[key].doc_id if key in known else -1 for key in keys]
        dropped = chosen.dropped(np.array(numbers, dtype=np.int64))
        for (line, _), number, drop in zip(chunk, numbers, dropped.tolist(), strict=True):
            if drop:
                counts.dropped += 1
                continue
            counts.kept += 1
            counts.unknown += number < 0 and not line.isspace()
            yield line


def field_values(
    snapshot: Snapshot, path: str | os.PathLike[str], *, key_field: str, field: str
) -> Callable[[NDArray[np.int64]], list[object]]:
    """Values of a field of the lines, by doc_id; the first line of a key counts."""

    def values(doc_ids: NDArray[np.int64]) -> list[object]:
        found: dict[int, object] = {}
        wanted = set(doc_ids.tolist())
        lines = read_raw_lines(path)
        while chunk := list(itertools.islice(lines, _LINES)):
            given: dict[str, object] = {}
            for _, record in chunk:
                key = key_of(record, key_field)
                if record is not None and key is not None and field in record:
                    given.setdefault(key, record[field])
            for key, document in snapshot.documents_of_keys(given).items():
                if document.doc_id in wanted:
                    found.setdefault(document.doc_id, given[key])
        return [found.get(doc_id) for doc_id in doc_ids.tolist()]

    return values
