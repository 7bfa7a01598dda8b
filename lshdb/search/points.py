"""Signatures -> the points that exact verification compares, from texts or from vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from lshdb.errors import DamageError
from lshdb.signatures.family import Family, Point
from lshdb.storage.transactions.snapshot import QuerySnapshot

__all__ = ["Points", "TextPoints", "VectorPoints", "points_of"]

_CACHE_BYTES = 128 * 2**20
_ARRAY_BYTES = 256
"""Memory of an array and its place in a dictionary, besides its elements."""
_PREPARED = 512
_GROUP_CHARACTERS = 4 * 2**20


class Points(ABC):
    """Points by signature id."""

    def prepare(self, signature_ids: list[int]) -> None:
        """Get some ready together if that is faster than one by one.

        Give those that you will ask for first, first.
        """
        return

    @abstractmethod
    def get(self, signature_ids: list[int]) -> dict[int, Point]:
        """Return the points of some signatures, each of which a document has.

        Raises
        ------
        DamageError
            A text or a vector is missing, or is not what was written.
        """


def points_of(snapshot: QuerySnapshot, family: Family, *, most_bytes: int = _CACHE_BYTES) -> Points:
    """Return the points of an index.

    Parameters
    ----------
    snapshot : QuerySnapshot
        Its texts, or vectors, are stored.
    family : Family
        Of the same parameters.
    most_bytes : int
        Memory for what is kept.
    """
    if family.params.keeps_vectors:
        return VectorPoints(snapshot)
    return TextPoints(snapshot, family, most_bytes=most_bytes)


class VectorPoints(Points):
    """Rows of the vector file, read as they are asked for."""

    def __init__(self, snapshot: QuerySnapshot) -> None:
        self._snapshot = snapshot

    def get(self, signature_ids: list[int]) -> dict[int, Point]:
        """Return rows by signature id."""
        rows = self._snapshot.vectors[np.array(signature_ids, dtype=np.int64)]
        return dict(zip(signature_ids, rows, strict=True))


class TextPoints(Points):
    """Points of texts, the least recently used dropped first.

    Parameters
    ----------
    snapshot : QuerySnapshot
    family : Family
        Of the same parameters.
    most_bytes : int
        Memory for the points; those of the present request are kept whatever they take.
    """

    def __init__(
        self,
        snapshot: QuerySnapshot,
        family: Family,
        *,
        most_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._most_bytes = most_bytes
        self._bytes = 0
        self._points: OrderedDict[int, Point] = OrderedDict()

    def prepare(self, signature_ids: list[int]) -> None:
        """Get some ready together, which is faster than one by one, in at most half the memory.

        Give those that you will ask for first, first.
        """
        missing = [each for each in signature_ids[:_PREPARED] if each not in self._points]
        room = self._most_bytes // 2
        for signature_id, point in self._read(missing):
            self._points[signature_id] = point
            self._bytes += _memory(point)
            room -= _memory(point)
            if room < 0:
                break
        self._drop_oldest(len(signature_ids))

    def get(self, signature_ids: list[int]) -> dict[int, Point]:
        """Return points by signature id; each miss reads and shingles one text.

        Raises
        ------
        DamageError
            The text of a document is missing.
        """
        found: dict[int, Point] = {}
        missing = []
        for signature_id in signature_ids:
            point = self._points.get(signature_id)
            if point is None:
                missing.append(signature_id)
            else:
                self._points.move_to_end(signature_id)
                found[signature_id] = point
        for signature_id, point in self._read(missing):
            found[signature_id] = self._points[signature_id] = point
            self._bytes += _memory(point)
        self._drop_oldest(len(signature_ids))
        if len(found) != len(set(signature_ids)):
            lost = min(set(signature_ids) - found.keys())
            raise DamageError(f"the text of signature {lost} is missing", hint="run lshdb check")
        return found

    def _drop_oldest(self, kept: int) -> None:
        while self._bytes > self._most_bytes and len(self._points) > kept:
            _, dropped = self._points.popitem(last=False)
            self._bytes -= _memory(dropped)

    def _read(self, signature_ids: list[int]) -> Iterator[tuple[int, Point]]:
        """Read texts and shingle them, a few megabytes of text at a time."""
        stored = self._snapshot.bodies_of_signatures(signature_ids)
        while group := list(_first(stored, _GROUP_CHARACTERS)):
            points = self._family.points(self._family.contents([body for _, body in group]))
            yield from zip((signature_id for signature_id, _ in group), points, strict=True)


def _memory(point: Point) -> int:
    arrays = point if isinstance(point, tuple) else (point,)
    return sum(array.nbytes + _ARRAY_BYTES for array in arrays)


def _first(
    stored: Iterator[tuple[int, str | list[str] | frozenset[str]]], most: int
) -> Iterator[tuple[int, str | list[str] | frozenset[str]]]:
    """Take from an iterator until it has given this many characters."""
    for signature_id, body in stored:
        yield signature_id, body
        most -= len(body) if isinstance(body, str) else sum(map(len, body))
        if most <= 0:
            return
