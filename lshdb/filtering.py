"""A file without the lines whose documents are to be dropped: what survives, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.raw import RawLine, key_of, read_raw_lines
from lshdb.errors import ParameterError
from lshdb.search.deduplication import Decisions
from lshdb.storage.snapshot import Snapshot

__all__ = ["FilterCounts", "Survivors", "field_values", "surviving_lines"]

_LINES = 1000
_LINE_BYTES = 4 * 2**20


@dataclass(slots=True)
class FilterCounts:
    """What became of the lines of a file; complete when all have been given.

    Attributes
    ----------
    kept, dropped : int
        Lines.
    unknown : int
        Of those kept, how many hold no document of the index.
    too_long : int
        Of those unknown, how many were over the limit and not looked into.
    """

    kept: int = 0
    dropped: int = 0
    unknown: int = 0
    too_long: int = 0


class Survivors(Iterator[bytes]):
    """Lines of a file that are kept, byte for byte; one over the limit comes in pieces.

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
    limit: int,
    counts: FilterCounts,
) -> Iterator[bytes]:
    """The lines of a JSON Lines file whose documents are kept, as they lie.

    A line that holds no document of the index is kept: nothing says that it repeats anything. So
    is a line over the limit, which could be no document.
    """
    for chunk in _some_lines(path, limit):
        keys = [key_of(line.record, key_field) for line in chunk]
        known = snapshot.documents_of_keys({key for key in keys if key is not None})
        numbers = [known[key].doc_id if key in known else -1 for key in keys]
        dropped = chosen.dropped(np.array(numbers, dtype=np.int64))
        for line, number, drop in zip(chunk, numbers, dropped.tolist(), strict=True):
            if drop:
                counts.dropped += 1
                continue
            if not line.continues:
                counts.kept += 1
                counts.unknown += number < 0 and not line.data.isspace()
                counts.too_long += not line.is_whole
            yield line.data


def _some_lines(path: str | os.PathLike[str], limit: int) -> Iterator[list[RawLine]]:
    """Lines to be looked up together: so many, or so many bytes."""
    chunk: list[RawLine] = []
    size = 0
    for line in read_raw_lines(path, limit=limit):
        chunk.append(line)
        size += len(line.data)
        if len(chunk) == _LINES or size >= _LINE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def field_values(
    snapshot: Snapshot, path: str | os.PathLike[str], keep: str, *, key_field: str, limit: int
) -> Callable[[NDArray[np.int64]], list[object]] | None:
    """Values of the field that ``keep`` names, by doc_id; None where it names none.

    The first line of a key counts.
    """
    if not keep.startswith("field:"):
        return None
    if os.fspath(path) == "-":
        raise ParameterError(
            "standard input can be read only once, and choosing by a field takes two passes",
            hint="write it to a file first",
        )
    field = keep.removeprefix("field:").removeprefix("-")

    def values(doc_ids: NDArray[np.int64]) -> list[object]:
        found: dict[int, object] = {}
        wanted = set(doc_ids.tolist())
        for chunk in _some_lines(path, limit):
            given: dict[str, object] = {}
            for line in chunk:
                key = key_of(line.record, key_field)
                if line.record is not None and key is not None and field in line.record:
                    given.setdefault(key, line.record[field])
            for key, document in snapshot.documents_of_keys(given).items():
                if document.doc_id in wanted:
                    found.setdefault(document.doc_id, given[key])
        return [found.get(doc_id) for doc_id in doc_ids.tolist()]

    return values
