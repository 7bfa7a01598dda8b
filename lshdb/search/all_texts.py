"""All texts of an index against some: what they share, exactly and however little it is.

Every text is shingled, and a table of all shingles is made in memory (``signatures/sharing.py``).
It gives what shares a shingle with a text, and how many. Neither signatures nor buckets are asked,
so nothing is missed and there is no recall to reckon with. The table lives as long as the question:
texts are shingled in threads at some 70 MB a second and core, which takes less time than it would
to read what an index of shingles has on disk.

If the shingles are too many for the memory, texts are taken in blocks of as many as fit. Each block
of texts that ask is compared with each block of all, so a question about all documents in b blocks
shingles each text b + 1 times.

The same table says which texts contain another: the containment of A in B is the share of A's
shingles that B has. A passage that is quoted whole has the containment 1 in a book with which its
similarity is near 0, so no signature would find it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import Phase
from lshdb.search.pair_columns import LINES, PairColumns
from lshdb.search.verification import MEMORY, Hit, Hits, NearestHits, grouped_bodies, missing_text
from lshdb.signatures.family import Family, Point
from lshdb.signatures.sets import SetFamily
from lshdb.signatures.sharing import SetTable
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import in_chunks, work_ahead

__all__ = [
    "AllTexts",
    "AllTextsSearch",
    "Shared",
    "TextSets",
    "blocks_within",
    "check_containment",
    "contained_pairs",
    "has_texts",
    "require_texts",
]

Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_SHINGLE_BYTES = 32
"""Memory of a shingle in a block and in its table, and of one in a block of as many that asks."""
_TEXTS_READ = 512
_TEXTS_ASK = 1024
"""Texts that are shingled together, and that ask together at most."""
_PAIRS = 2**19
"""Pairs that texts that ask together may find in a block; those of one text are not cut."""


@dataclass(frozen=True, slots=True)
class TextSets:
    """The shingles of some texts.

    Attributes
    ----------
    ids : ndarray of int64, shape (n,)
        Their signatures.
    hashes : ndarray of uint64
        The distinct shingle hashes of each, one text after the other.
    counts : ndarray of int64, shape (n,)
        How many each has.
    """

    ids: Ids
    hashes: Hashes
    counts: Ids

    def parts(self, size: int) -> Iterator[TextSets]:
        """Yield the same in parts of so many texts."""
        return self.cut(
            slice(first, min(first + size, len(self.ids)))
            for first in range(0, len(self.ids), size)
        )

    def cut(self, parts: Iterable[slice]) -> Iterator[TextSets]:
        """Yield parts, each of at least one text."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        for part in parts:
            hashes = self.hashes[ends[part.start] : ends[part.stop]]
            yield TextSets(self.ids[part], hashes, self.counts[part])


@dataclass(frozen=True, slots=True)
class Shared:
    """Levels between some texts and all stored ones.

    Attributes
    ----------
    asking : ndarray of int64, shape (n,)
        Signatures of the texts, or their numbers.
    places : ndarray of int64, shape (m,)
        Which of them asks, in order.
    ids : ndarray of int64, shape (m,)
        The signature that was found.
    levels : ndarray of float64, shape (m,)
    """

    asking: Ids
    places: Ids
    ids: Ids
    levels: NDArray[np.float64]


def has_texts(params: IndexParams) -> bool:
    """Return whether an index has stored texts, or tokens, to compare."""
    return params.kind.body == "text" and params.store_text


def require_texts(params: IndexParams, what: str) -> None:
    """Raise ParameterError if an index has no stored texts to compare.

    Parameters
    ----------
    params : IndexParams
    what : str
        What the caller wants, as the beginning of the message.
    """
    if not has_texts(params):
        has = "stores none" if params.kind.body == "text" else f"has metric {params.metric}"
        raise ParameterError(
            f"{what} compares the texts of an index, and this one {has}",
            hint="lshdb query --recall 0.99 finds the nearest of one document by signatures",
        )


def check_containment(
    params: IndexParams,
    verify: str | None,
    recall: float | None = None,
    probe_limit: int | bool = False,
) -> None:
    """Raise ParameterError if containment cannot be asked for, or not with these options."""
    require_texts(params, "containment")
    if verify not in (None, "exact"):
        raise ParameterError(
            f"containment is counted in the texts, and verify is {verify!r}",
            hint="leave verify out",
        )
    if recall is not None or probe_limit is not False:
        raise ParameterError(
            "containment compares all texts, so nothing is missed or left out",
            hint="leave out recall and probe_limit",
        )


class AllTexts:
    """The sets of all texts of a snapshot.

    Parameters
    ----------
    snapshot : IndexState
    family : Family
        Of an index of texts that are stored; see :func:`require_texts`.
    workers : int
        Threads that shingle and compare.
    memory : int
        Bytes for the shingles of texts; a text is held whatever it takes.

    Attributes
    ----------
    ids : ndarray of int64
        The signatures that a document has, sorted.
    """

    def __init__(
        self, snapshot: IndexState, family: Family, *, workers: int, memory: int = MEMORY
    ) -> None:
        self._snapshot, self._family, self._workers = snapshot, cast(SetFamily, family), workers
        # The user's own function may not be called by several threads.
        self._shinglers = workers if family.split is None else 1
        self.ids, self._sizes = snapshot.set_sizes()
        self._most = max(1, memory // _SHINGLE_BYTES)
        self._blocks = blocks_within(self._sizes, self._most)
        self._held: TextSets | None = None
        self._only: SetTable | None = None
        self._work = Phase("texts")

    def sharing_with(
        self, ids: Ids | None = None, *, unit: str = "texts", **wish: Any
    ) -> Iterator[Shared]:
        """Do what :meth:`sharing` does for the texts of some signatures, by default of all.

        It counts them by the unit: each text that is shingled, or compared with a block, is a step.
        """
        is_only = len(self._blocks) == 1
        is_held = ids is None and is_only
        asking = self.ids if ids is None else ids
        blocks = blocks_within(self._sizes[np.searchsorted(self.ids, asking)], self._most)
        n_tables = 0 if is_held else 1 if is_only else len(blocks)
        steps = len(asking) * (1 + len(self._blocks)) + len(self.ids) * n_tables
        with Phase(unit, len(asking), steps=steps) as self._work:
            for block in blocks:
                own = self._read(asking[block])
                self._held = own if is_held else None
                yield from self.sharing(own, **wish)

    def sharing(
        self, asking: TextSets, *, most: int | None = None, **wish: Any
    ) -> Iterator[Shared]:
        """Yield for each text the stored texts that share shingles with it, itself included.

        Parameters
        ----------
        asking : TextSets
        most, **wish
            As for :meth:`~lshdb.signatures.sharing.SetTable.sharing`.

        Yields
        ------
        Shared
            For parts of the asking texts, in order.

        Raises
        ------
        DamageError
            A text is missing or cannot be decoded.
        """
        parts: list[TextSets] = []

        def compared(number: int) -> Generator[Shared]:
            ids, table = self._table(number)
            if not number:
                parts.extend(_asking_together(asking, table))

            def compare(part: TextSets) -> Shared:
                columns = table.sharing(part.hashes, part.counts, most=most, **wish)
                return Shared(part.ids, columns[0], ids[columns[1]], columns[2])

            with closing(work_ahead(compare, parts, workers=self._workers)) as results:
                for shared in results:
                    self._work.add(len(shared.asking))
                    yield shared

        if len(self._blocks) == 1:
            yield from compared(0)
            return
        results = [list(compared(number)) for number in range(len(self._blocks))]
        yield from (_best(part_results, most) for part_results in zip(*results, strict=True))

    def hashes_of(self, signature_id: int) -> Hashes:
        """Return the shingle hashes of the text of a signature."""
        return self._read(np.array([signature_id], dtype=np.int64)).hashes

    def _table(self, number: int) -> tuple[Ids, SetTable]:
        """Return the signatures of a block and the table of their sets; an only table is kept."""
        if self._only is not None:
            return self.ids, self._only
        sets = self._held or self._read(self.ids[self._blocks[number]])
        table = SetTable(sets.hashes, sets.counts)
        if len(self._blocks) == 1:
            self._only = table
        return sets.ids, table

    def _read(self, ids: Ids) -> TextSets:
        """Read and shingle the texts of some signatures."""
        bodies = self._snapshot.bodies_of_signatures(ids.tolist())
        groups = grouped_bodies(bodies, most=_TEXTS_READ)
        with closing(work_ahead(self._shingled, groups, workers=self._shinglers)) as shingled:
            parts = [TextSets(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))]
            for part in shingled:
                parts.append(part)
                self._work.add(len(part.ids))
        sets = TextSets(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )
        if len(sets.ids) < len(ids):
            raise missing_text(int(np.setdiff1d(ids, sets.ids)[0]))
        return _in_order(sets)

    def _shingled(self, group: Sequence[tuple[int, Any]]) -> TextSets:
        family = self._family
        hashes, counts = family.sets(family.contents([body for _, body in group]))
        return TextSets(
            np.array([signature_id for signature_id, _ in group], dtype=np.int64), hashes, counts
        )


def blocks_within(sizes: Ids, most: int) -> list[slice]:
    """Cut texts into blocks of as many shingles as memory holds; a larger text is a block.

    Parameters
    ----------
    sizes : ndarray of int64
        Shingles of each text.
    most : int
        Shingles of a block.
    """
    ends = np.cumsum(sizes)
    blocks, first, before = [], 0, 0
    while first < len(sizes):
        fitting = int(np.searchsorted(ends, before + most, side="right"))
        last = max(first + 1, fitting)
        blocks.append(slice(first, last))
        first, before = last, int(ends[last - 1])
    return blocks


def _asking_together(asking: TextSets, table: SetTable) -> Iterator[TextSets]:
    """Yield the texts in parts: as many as are at hand, but of those that find many texts few."""
    for part in asking.parts(_TEXTS_ASK):
        yield from part.cut(blocks_within(table.reach(part.hashes, part.counts), _PAIRS))


def _in_order(sets: TextSets) -> TextSets:
    """Return sets in order of their ids; one database gives them so, another does not."""
    order = np.argsort(sets.ids, kind="stable")
    if (order[1:] > order[:-1]).all():
        return sets
    counts = sets.counts[order]
    begins = (np.cumsum(sets.counts) - sets.counts)[order]
    places = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return TextSets(sets.ids[order], sets.hashes[places], counts)


def _best(results: Sequence[Shared], most: int | None) -> Shared:
    """Merge the results of blocks for the same texts: the best, and all that tie with the last."""
    places = np.concatenate([shared.places for shared in results])
    ids = np.concatenate([shared.ids for shared in results])
    levels = np.concatenate([shared.levels for shared in results])
    order = np.lexsort((-levels, places))
    places, ids, levels = places[order], ids[order], levels[order]
    if most is not None and len(places):
        starts = np.searchsorted(places, places)
        ends = np.searchsorted(places, places, side="right")
        lasts = np.minimum(starts + most, ends) - 1
        keep = levels >= levels[lasts]
        places, ids, levels = places[keep], ids[keep], levels[keep]
    return Shared(results[0].asking, places, ids, levels)


def contained_pairs(
    snapshot: IndexState,
    family: Family,
    *,
    threshold: float,
    since: int | None,
    memory: int,
    workers: int,
) -> Generator[PairColumns]:
    """Yield every document with each other that contains a share of its shingles.

    A pair is directed: the first document is contained in the second. Two documents that contain
    each other are two pairs.

    Parameters
    ----------
    threshold : float
        Lowest share.
    since : int, optional
        Only pairs with a document of this batch or a later one. All texts are compared.
    memory : int
        Bytes for the shingles of texts.
    """
    texts = AllTexts(snapshot, family, workers=workers, memory=memory)
    for shared in texts.sharing_with(is_part=True, least=threshold):
        documents = snapshot.documents_of_signatures(
            distinct(np.concatenate([shared.asking, shared.ids])).tolist()
        )
        ids = shared.asking[shared.places].tolist()
        rows = zip(ids, shared.ids.tolist(), shared.levels.tolist(), strict=True)
        pairs = (
            (key, other_key, level)
            for left, right, level in rows
            for doc_id, key, batch_id in documents[left]
            for other_id, other_key, other_batch in documents[right]
            if doc_id != other_id and (since is None or max(batch_id, other_batch) >= since)
        )
        for chunk in in_chunks(pairs, LINES):
            keys, keys2, levels = (list(column) for column in zip(*chunk, strict=True))
            yield PairColumns(keys, keys2, levels, "exact")


class AllTextsSearch:
    """Answers queries by comparing all texts; each answer has the recall 1.

    Parameters
    ----------
    snapshot : IndexState
    family : Family
        Of an index of texts that are stored.
    top : int or None
        Most answers.
    threshold : float or None
        Lowest similarity of an answer; None for any above 0.
    below : float or None
        Similarity that answers stay below; None for any.
    is_part : bool
        Whether a document's similarity is the share of the query's shingles that it has.
    workers : int
    """

    def __init__(
        self,
        snapshot: IndexState,
        family: Family,
        *,
        top: int | None,
        threshold: float | None,
        below: float | None,
        is_part: bool = False,
        workers: int = 1,
    ) -> None:
        self._snapshot, self._family = snapshot, family
        self._top, self._least, self._below = top, threshold or 0.0, below
        self._is_part = is_part
        self._texts = AllTexts(snapshot, family, workers=workers)

    def nothing(self) -> NearestHits:
        """Return the answer to a query without shingles."""
        return NearestHits(recall=1.0)

    def search(
        self, signatures: NDArray[np.uint16], points: Sequence[Point | None]
    ) -> Sequence[Hits]:
        """Return the most similar documents of each query; its signature is not needed."""
        return self.search_points([(point, None) for point in points])

    def search_points(
        self, queries: Sequence[tuple[Point | None, int | None]]
    ) -> list[NearestHits]:
        """Return the most similar documents of each query.

        Parameters
        ----------
        queries : sequence of (Point, int or None)
            The query, and the doc_id of a document that is left out of its answer.
        """
        hashes = [np.asarray(point, dtype=np.uint64) for point, _ in queries]
        return self._answers(hashes, [doc_id for _, doc_id in queries])

    def search_document(self, document: StoredDocument) -> NearestHits:
        """Return the documents most similar to one of the index, without itself."""
        number = document.signature_id
        if number is None:
            return self.nothing()
        return self._answers([self._texts.hashes_of(number)], [document.doc_id])[0]

    def _answers(self, queries: list[Hashes], left_out: list[int | None]) -> list[NearestHits]:
        n = len(queries)
        asking = TextSets(
            np.arange(n),
            np.concatenate(queries),
            np.array([len(query) for query in queries], np.int64),
        )
        # The document that asks may be the only one of its signature. Those that contain a text are
        # counted, too, as there is no order of which the first are enough.
        most = None
        if self._top is not None and not self._is_part:
            most = self._top + any(doc_id is not None for doc_id in left_out)
        answers = []
        sharing = self._texts.sharing(
            asking, is_part=self._is_part, most=most, least=self._least, below=self._below
        )
        for shared in sharing:
            documents = self._snapshot.documents_of_signatures(distinct(shared.ids).tolist())
            hits: list[list[Hit]] = [[] for _ in shared.asking]
            own = [left_out[number] for number in shared.asking.tolist()]
            columns = shared.places.tolist(), shared.ids.tolist(), shared.levels.tolist()
            for place, signature_id, level in zip(*columns, strict=True):
                hits[place] += [
                    Hit(key, level, "exact")
                    for doc_id, key, _ in documents[signature_id]
                    if doc_id != own[place]
                ]
            for ranked in hits:
                ranked.sort(key=lambda hit: (-hit.similarity, hit.key))
                answer = NearestHits(ranked[: self._top], checked=len(self._texts.ids), recall=1.0)
                answer.truncated = len(ranked) - len(answer) if self._is_part else 0
                answers.append(answer)
        return answers or [NearestHits(recall=1.0) for _ in queries]  # an index without texts
