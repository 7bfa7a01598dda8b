"""Exact levels of many pairs of stored texts or vectors, block by block, on several threads.

A text is read by SQL in the thread that asks, because a connection has one thread at a time. What
follows is done ahead in other threads, a group of texts at a time: it is decompressed, normalised
and cut into shingles, whose sorted hashes stay in one array for the group. The pairs of a block are
compared as soon as its last group is there, in one call of the kernel. So each text is shingled
once, as long as its group stays in memory; the group that was needed longest ago is dropped first.

Where the sets of a block take more than half of the memory, it is compared in parts: some sets stay
until they have met all the others, which are read again for the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import DamageError
from lshdb.phases.phase import counting
from lshdb.search.components import by_component
from lshdb.search.verification import points_of
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily, compare_sets
from lshdb.storage.rows.edges import Edges
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec, size_of_body
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import work_ahead

__all__ = ["ExactLevels", "LevelsAcross", "check_exactly", "levels_between"]

Ids = NDArray[np.int64]
PairBlock: TypeAlias = tuple[Ids, Ids]
"""Pairs of signatures: left ids and right ids."""
StoredText: TypeAlias = tuple[int, int, str, bytes]
"""A text as it is stored: (signature_id, doc_id, form, packed)."""

_BLOCK_PAIRS = 1024
_MOST_PAIRS = 16_384
"""Pairs of the first block and of the largest."""
_GROUP_TEXTS = 512
_GROUP_BYTES = 2**20
"""Texts, and bytes of them, that are shingled together."""
_MOST_SET_BYTES = 8
"""Bytes of a set for a byte of its text: one hash at most."""


def check_exactly(levels: ExactLevels, links: Edges, threshold: float) -> Iterator[Edges]:
    """Yield the pairs that hold by their texts or vectors, block by block.

    Each text is read once, if those of a component fit into the memory.
    """
    order = by_component(links.left, links.right)

    def blocks() -> Iterator[PairBlock]:
        start = 0
        while start < len(order):
            places = order[start : start + levels.block_pairs]
            yield links.left[places], links.right[places]
            start += len(places)

    checked = counting(levels.of(blocks()), "pairs", len(order), lambda block: len(block[1]))
    for (left, right), exact in checked:
        keep = exact >= threshold
        if keep.any():
            yield Edges(left[keep], right[keep], exact[keep])


class ExactLevels(ABC):
    """Compares the texts or vectors of pairs of signatures.

    Attributes
    ----------
    block_pairs : int
        How many pairs the next block should have.
    """

    block_pairs = _BLOCK_PAIRS

    @abstractmethod
    def of(self, blocks: Iterable[PairBlock]) -> Iterator[tuple[PairBlock, NDArray[np.float64]]]:
        """Yield each block and its levels, in order.

        Raises
        ------
        DamageError
            A text or a vector is missing, or is not what was written.
        """


class TextSource(Protocol):
    """Where packed texts of signatures come from: a snapshot, or :class:`_TwoSources`."""

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[StoredText]]:
        """Yield lists of some ``n_bytes`` each."""

    def n_chars_of(self, doc_id: int) -> object:
        """Return the length of a document from its row; None if there is no row."""

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return the codec of these texts, which were read last."""


class _TwoSources:
    """Texts of two indexes: signature i of the first is number 2 i, of the second 2 i + 1."""

    def __init__(self, first: TextSource, second: TextSource) -> None:
        self._sources = first, second
        self._current = first

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[StoredText]]:
        """Yield the bodies of the first index, then of the second."""
        for side, source in enumerate(self._sources):
            ids = [number >> 1 for number in signature_ids if number & 1 == side]
            for rows in source.packed_bodies_of_signatures(ids, n_bytes=n_bytes):
                self._current = source
                yield [(2 * row[0] + side, *row[1:]) for row in rows]

    def n_chars_of(self, doc_id: int) -> object:
        """Return the length of a document of the index that was read last."""
        return self._current.n_chars_of(doc_id)

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return that of the index that was read last."""
        return self._current.codec_for(frames)


class LevelsAcross:
    """Compares the texts of pairs of signatures of two indexes.

    Parameters
    ----------
    first, second : IndexState
        Their texts are stored.
    family : SetFamily
        Of the parameters of both.
    most_bytes : int
        Memory for the sets of shingles that are kept.
    workers : int
        Threads that shingle texts.
    """

    def __init__(
        self,
        first: TextSource,
        second: TextSource,
        family: SetFamily,
        *,
        most_bytes: int,
        workers: int,
    ) -> None:
        self._levels = _SetLevels(_TwoSources(first, second), family, most_bytes, workers)

    def of(self, left: Ids, right: Ids) -> NDArray[np.float64]:
        """Return the similarities of signatures of the first and the second, which documents have.

        Raises
        ------
        DamageError
            A text is missing, or is not what was written.
        """
        order = np.lexsort((right, left))
        exact = np.empty(len(order))
        ones, twos = 2 * left[order], 2 * right[order] + 1

        def blocks() -> Iterator[PairBlock]:
            start = 0
            while start < len(order):
                end = start + self._levels.block_pairs
                yield ones[start:end], twos[start:end]
                start = end

        start = 0
        for (part, _), levels in self._levels.of(blocks()):
            exact[order[start : start + len(part)]] = levels
            start += len(part)
        return exact


def levels_between(
    snapshot: IndexState, family: Family, *, most_bytes: int, workers: int = 1
) -> ExactLevels:
    """Return how the pairs of an index are compared.

    Parameters
    ----------
    snapshot : IndexState
        Its texts, or vectors, are stored.
    family : Family
        Of the same parameters.
    most_bytes : int
        Memory for what is kept.
    workers : int
        Threads for sets of shingles; other points are made in the caller's.
    """
    if isinstance(family, SetFamily):
        return _SetLevels(snapshot, family, most_bytes, workers)
    return _PointLevels(snapshot, family, most_bytes)


class _PointLevels(ExactLevels):
    """Levels of points of any family."""

    def __init__(self, snapshot: IndexState, family: Family, most_bytes: int) -> None:
        self._points = points_of(snapshot, family, most_bytes=most_bytes)
        self._family = family

    def of(self, blocks: Iterable[PairBlock]) -> Iterator[tuple[PairBlock, NDArray[np.float64]]]:
        for left, right in blocks:
            ids = np.stack([left, right], axis=1).reshape(-1).tolist()
            points = self._points.get(list(dict.fromkeys(ids)))
            ones, twos = (
                [points[number] for number in ids[0::2]],
                [points[number] for number in ids[1::2]],
            )
            yield (left, right), self._family.levels(ones, twos)


@dataclass(slots=True)
class _TextGroup:
    """Texts that are shingled together.

    Attributes
    ----------
    slot : int
        Their place in the memory of a :class:`_SetCache`.
    rows : list of StoredText
    codec : BodyCodec
        What unpacks them.
    n_bytes : int
        Of the texts, before compression; characters or tokens of a long one.
    body : object
        Instead, one long body.
    part : _PartOfBlock or None
        What can be compared when these sets are there.
    """

    slot: int
    rows: list[StoredText]
    codec: BodyCodec
    n_bytes: int
    body: Any = None
    part: _PartOfBlock | None = None


@dataclass(slots=True)
class _PartOfBlock:
    """Pairs of a block that are compared together.

    Attributes
    ----------
    block : PairBlock
        The whole block.
    places : ndarray of int64
        Which of its pairs.
    is_last : bool
        Whether these are the last ones.
    """

    block: PairBlock
    places: Ids
    is_last: bool


class _SetCache:
    """Sets of shingles by signature, in groups that are dropped as wholes.

    A group has a slot from the time when its texts are read, before its sets are there.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = self._bytes_filled = self._n_filled = self._text_bytes = 0
        self._numbers: dict[int, int] = {}
        self._ids: list[list[int]] = []
        self._parts: list[NDArray[np.uint64]] = []
        self._needed: list[int] = []
        self._free: list[int] = []
        self._sets = np.zeros((0, 3), dtype=np.int64)

    def missing(self, ids: Iterable[int], block: int) -> list[int]:
        """Return which signatures have no place yet; the others stay until this block is done."""
        missing = []
        for signature_id in ids:
            number = self._numbers.get(signature_id)
            if number is None:
                missing.append(signature_id)
            else:
                self._needed[number // _GROUP_TEXTS] = block
        return missing

    def group(
        self, rows: list[StoredText], block: int, codec: BodyCodec, n_bytes: int, body: Any = None
    ) -> _TextGroup:
        """Return a new group, with a place for each text; it stays until this block is done."""
        if not self._free:
            self._free.append(len(self._parts))
            self._parts.append(np.empty(0, dtype=np.uint64))
            self._ids.append([])
            self._needed.append(block)
            if len(self._parts) * _GROUP_TEXTS > len(self._sets):
                more = np.zeros((len(self._sets) + 64 * _GROUP_TEXTS, 3), dtype=np.int64)
                self._sets = np.concatenate([self._sets, more])
        slot = self._free.pop()
        first, ids = slot * _GROUP_TEXTS, [row[0] for row in rows]
        self._needed[slot], self._ids[slot] = block, ids
        self._numbers.update(zip(ids, range(first, first + len(ids)), strict=True))
        return _TextGroup(slot, rows, codec, n_bytes, body)

    def fill(self, group: _TextGroup, hashes: NDArray[np.uint64], counts: Ids) -> None:
        """Put the sets of a group where they belong; an empty group gives its slot back."""
        if not len(counts):
            self._free.append(group.slot)
            return
        first = group.slot * _GROUP_TEXTS
        places = self._sets[first : first + len(counts)]
        places[:, 0], places[:, 1], places[:, 2] = group.slot, np.cumsum(counts) - counts, counts
        self._parts[group.slot] = hashes
        self._bytes += hashes.nbytes
        self._n_filled += len(counts)
        self._bytes_filled += hashes.nbytes
        self._text_bytes += group.n_bytes

    def fitting(self, n_bytes: int) -> int:
        """Estimate how many sets fit into some bytes, by the mean size of those stored so far."""
        return n_bytes * self._n_filled // max(1, self._bytes_filled)

    def fitting_text(self, n_bytes: int) -> int:
        """Estimate of how many bytes of texts the sets fit into some bytes, likewise."""
        if self._text_bytes == 0:
            return n_bytes // _MOST_SET_BYTES
        return n_bytes * self._text_bytes // max(1, self._bytes_filled)

    def compare(self, left: Ids, right: Ids) -> NDArray[np.float64]:
        """Return the similarities of pairs of signatures whose sets are there."""
        ids = distinct(np.concatenate([left, right]))
        numbers = np.fromiter(map(self._numbers.__getitem__, ids.tolist()), np.int64, len(ids))
        left_numbers, right_numbers = (
            numbers[np.searchsorted(ids, ends)] for ends in (left, right)
        )
        return compare_sets(self._parts, self._sets, left_numbers, right_numbers)

    def drop_oldest(self, block: int) -> None:
        """Drop groups until the memory suffices, but none that a later block needs."""
        while self._bytes > self._most_bytes:
            full = [slot for slot, part in enumerate(self._parts) if len(part)]
            slot = min(full, key=self._needed.__getitem__)
            if self._needed[slot] > block:
                return
            self._bytes -= self._parts[slot].nbytes
            self._parts[slot] = np.empty(0, dtype=np.uint64)
            for signature_id in self._ids[slot]:
                del self._numbers[signature_id]
            self._ids[slot] = []
            self._free.append(slot)


class _SetLevels(ExactLevels):
    """Jaccard similarities of stored texts."""

    def __init__(
        self, source: TextSource, family: SetFamily, most_bytes: int, workers: int
    ) -> None:
        self._source = source
        self._family = family
        self._most_bytes = most_bytes
        # The user's own function may not be called by several threads.
        self._workers = workers if family.split is None else 1
        self._sets = _SetCache(most_bytes)
        self._begun = self._done = 0

    def of(self, blocks: Iterable[PairBlock]) -> Iterator[tuple[PairBlock, NDArray[np.float64]]]:
        levels = np.empty(0)
        try:
            with closing(
                work_ahead(self._shingled, self._read(blocks), workers=self._workers)
            ) as shingled:
                for group, hashes, counts in shingled:
                    self._sets.fill(group, hashes, counts)
                    part = group.part
                    if part is not None:
                        left, right = (ends[part.places] for ends in part.block)
                        if len(levels) < len(part.block[0]):
                            levels = np.empty(len(part.block[0]))
                        levels[part.places] = self._sets.compare(left, right)
                        if part.is_last:
                            yield part.block, levels
                            levels = np.empty(0)
                        self._done += 1
                        self._sets.drop_oldest(self._done)
                        self._choose_block()
        except BaseException:  # places without their sets
            self._sets = _SetCache(self._most_bytes)
            raise

    def _choose_block(self) -> None:
        """Let blocks grow, as their sets take a quarter of the memory at most.

        The more texts are sorted before they are read, the fewer pages of the database are visited.
        """
        most = min(self._sets.fitting(self._most_bytes // 4) // 2, 2 * self.block_pairs)
        self.block_pairs = min(max(most, _BLOCK_PAIRS), _MOST_PAIRS)

    def _read(self, blocks: Iterable[PairBlock]) -> Iterator[_TextGroup]:
        """Read the texts that are not in memory; the last group of a part of a block says so."""
        for block in blocks:
            places = np.arange(len(block[0]))
            while len(places):
                places = yield from self._read_some(block, places)

    def _read_some(self, block: PairBlock, places: Ids) -> Generator[_TextGroup, None, Ids]:
        """Read some texts, and all that they are compared with; return which pairs are left.

        Of one part after the other the texts are read, and those that have no pair in a later one
        may go.
        """
        later, is_first = places[:0], True
        missing = self._missing_of(block, places, self._begun + 1)
        while len(places):
            self._begun += 1
            last: _TextGroup | None = None
            read: set[int] = set()
            for group in self._groups(missing):
                if last is not None:
                    yield last
                last = group
                read.update(row[0] for row in group.rows)
            last = last or self._sets.group([], self._begun, WITHOUT_DICTIONARY, 0)
            here, rest = places, places[:0]
            if len(read) < len(missing):
                unread = np.array([one for one in missing if one not in read])
                rest, here = _split(block, places, unread)
                if is_first:
                    rest, later = _split(block, rest, np.array(list(read)))
                    is_first = False
                missing = self._missing_of(block, rest, self._begun + 1)  # what is here stays
            last.part = _PartOfBlock(block, here, is_last=not len(rest) and not len(later))
            yield last
            places = rest
        return later

    def _missing_of(self, block: PairBlock, places: Ids, number: int) -> list[int]:
        """Return which signatures of some pairs have no place; the others stay until ``number``."""
        ids = distinct(np.concatenate([ends[places] for ends in block]))
        return self._sets.missing(ids.tolist(), number)

    def _groups(self, missing: list[int]) -> Iterator[_TextGroup]:
        """Read texts, in groups, until their sets may take half of the memory."""
        sets, block, n_found = self._sets, self._begun, 0
        current: list[StoredText] = []
        room, codec = _GROUP_BYTES, WITHOUT_DICTIONARY
        still = sets.fitting_text(self._most_bytes // 2)
        for row, fitting in self._stored(missing):
            if n_found and still <= 0:
                break
            n_found += 1
            size = size_of_body(row[3])
            is_full = size is None or size > room or len(current) == _GROUP_TEXTS
            if current and (is_full or codec is not fitting):
                yield sets.group(current, block, codec, _GROUP_BYTES - room)
                current, room = [], _GROUP_BYTES
            codec = fitting
            current.append(row)
            if size is not None:
                room -= size
                still -= size
                continue
            _, doc_id, form, packed = row
            length = partial(self._source.n_chars_of, doc_id)
            body = codec.unpack(form, packed, n_chars=length, doc_id=doc_id)
            still -= len(body)
            yield sets.group(current, block, codec, len(body), body)
            current, room = [], _GROUP_BYTES
        if current:
            yield sets.group(current, block, codec, _GROUP_BYTES - room)
        if n_found < len(missing) and (still > 0 or not n_found):
            message = f"the text of signature {min(sets.missing(missing, block))} is missing"
            raise DamageError(message, hint="run lshdb check")

    def _stored(self, ids: list[int]) -> Iterator[tuple[StoredText, BodyCodec]]:
        """Yield texts as they are stored, and what unpacks them."""
        lists = self._source.packed_bodies_of_signatures(ids, n_bytes=_GROUP_BYTES // 4)
        for rows in lists:
            codec = self._source.codec_for(row[3] for row in rows)
            for row in rows:
                yield row, codec

    def _shingled(self, group: _TextGroup) -> tuple[_TextGroup, NDArray[np.uint64], Ids]:
        rows = [row[1:] for row in group.rows]
        bodies = group.codec.unpack_many(rows) if group.body is None else [group.body]
        group.rows, group.body = [], None
        family = self._family
        hashes, counts = family.sets(family.contents(bodies))
        return group, hashes, counts


def _split(block: PairBlock, places: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Return which of some pairs have one of these signatures, and which have none."""
    left, right = (ends[places] for ends in block)
    has_one = np.isin(left, ids) | np.isin(right, ids)
    return places[has_one], places[~has_one]
