"""Which passage of which document recurs where, in an index of windows.

Pairs of similar windows are found as any pairs are. They are gathered by the two documents that
they are of, and joined where they lie side by side in both; there the texts are compared word by
word (``alignment.py``), which says where a passage begins and ends. Its similarity is that of the
two passages, from their own shingles.

Neighbouring windows of a document share their words, so a pair of windows of one document counts
only if the two do not overlap: then the document repeats itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_flag, check_key, check_whole
from lshdb.errors import DamageError, InputError, ParameterError, no_document
from lshdb.handle import Handle, ListingTable
from lshdb.ingest.cut_documents import whole_texts
from lshdb.params.index_params import IndexParams
from lshdb.search.alignment import AlignedText, Aligner, Area, Span, merge_blocks
from lshdb.search.candidates import LeftOut
from lshdb.search.pairs import find_pairs
from lshdb.search.query import QueryOptions
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import asked_level, check_limits, level_of
from lshdb.shingling import cut_windows, parse_window_key
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

__all__ = [
    "Passage",
    "PassageSearch",
    "explain_passages",
    "query_passages",
    "require_passages",
]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document, and where it recurs.

    Attributes
    ----------
    key1 : str
        The document, or the query.
    start1, end1 : int
        First and last character (left out) in its text as it was added, counted from 0 in code
        points: ``text[start1:end1]`` is the passage.
    words1 : int
        Words of the passage there.
    key2, start2, end2, words2
        The same of the other document. Of two documents the one whose key comes first in the order
        of code points is the first; in one document, the earlier passage.
    similarity : float
        Of the two passages, from their shingles.
    method : {"exact"}
    text1, text2 : str or None
        The passages, where they were asked for.
    """

    key1: str
    start1: int
    end1: int
    words1: int
    key2: str
    start2: int
    end2: int
    words2: int
    similarity: float
    method: str = "exact"
    text1: str | None = None
    text2: str | None = None


def require_passages(params: IndexParams, path: object) -> tuple[int, int]:
    """Return the window of an index of passages; refuse another index."""
    if params.window is None:
        raise ParameterError(
            f"the index {path} keeps whole documents, not passages of them",
            hint="make an index with --passages 200:100, and add the documents to that",
        )
    return params.window


_MOST_WORDS = 16_000_000
"""Words of texts that are kept for the next pairs of documents; some 40 bytes each."""
_MOST_CHARACTERS = 2**20
"""Characters of passages whose similarities are computed together, or those of two documents."""
_PAIRS_A_READ = 32
"""Pairs of documents whose texts are read by one statement."""


class _WordsOfTexts:
    """Texts of documents as words, put together from their windows."""

    def __init__(self, snapshot: Snapshot, aligner: Aligner) -> None:
        self._snapshot, self._aligner = snapshot, aligner
        self._known: OrderedDict[str, AlignedText] = OrderedDict()
        self._size = 0

    def load(self, keys: Iterable[str]) -> dict[str, AlignedText]:
        """Return the texts of documents; one that is not in the index is absent."""
        unique_keys = list(dict.fromkeys(keys))
        missing = [key for key in unique_keys if key not in self._known]
        for key, text in whole_texts(self._snapshot, missing).items():
            words = self._known[key] = self._aligner.words(text)
            self._size += len(words.starts)
        texts = {key: self._known[key] for key in unique_keys if key in self._known}
        for key in texts:
            self._known.move_to_end(key)
        while self._size > _MOST_WORDS and len(self._known) > len(texts):
            _, gone = self._known.popitem(last=False)
            self._size -= len(gone.starts)
        return texts


class PassageSearch(ListingTable[Passage]):
    """Passages that recur, as they are found: documents in order of key, passages of their text.

    Attributes
    ----------
    left_out : LeftOut
        For the last iteration that has begun: what ``max_bucket`` left out.
    """

    ITEM = Passage

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        *,
        threshold: float | None,
        since: Since,
        max_bucket: int | str | None,
        memory: int,
        workers: int | None,
        limit: int | None,
        with_text: bool,
    ) -> None:
        super().__init__(
            handle, threshold=threshold, since=since, max_bucket=max_bucket, limit=limit
        )
        require_passages(store.params, store.path)
        asked_level(store, threshold, "exact")
        check_limits(max_bucket, memory)
        check_since(store, since)
        check_flag("with_text", with_text)
        self._limit = None if limit is None else check_whole("limit", limit, 1)
        self._threshold, self._since, self._with_text = threshold, since, with_text
        self._most = max_bucket if isinstance(max_bucket, int) else None
        self._memory, self._workers = memory, choose_workers(workers)
        self.left_out = LeftOut(self._most)

    def _items(self, store: Store, family: Family) -> Iterator[Passage]:
        """Yield the passages of one state."""
        self.newest_batch, self.left_out = None, LeftOut(self._most)
        room = self._limit
        with store.reading() as snapshot:
            keys, pairs = self._window_pairs(snapshot, store, family)
            grouped = _by_documents(keys, pairs)
            for passage in _aligned(snapshot, family, grouped, with_text=self._with_text):
                yield passage
                store.require_open()
                room = None if room is None else room - 1
                if room == 0:
                    return
            self.newest_batch = snapshot.newest_batch()

    def _window_pairs(
        self, snapshot: Snapshot, store: Store, family: Family
    ) -> tuple[list[str], NDArray[np.int64]]:
        """Return documents, and similar windows: (document, start, end) of one and the other."""
        window_pairs = find_pairs(
            snapshot,
            family,
            threshold=level_of(store.params, self._threshold),
            method="exact",
            since=first_new_batch(snapshot, self._since),
            most=self._most,
            left_out=self.left_out,
            memory=self._memory,
            workers=self._workers,
        )
        windows = _WindowNumbers()
        blocks = [np.zeros((0, 6), dtype=np.int64)]
        with closing(window_pairs):
            for block in window_pairs:
                rows = [
                    windows.of(key1) + windows.of(key2)
                    for key1, key2 in zip(block.keys1, block.keys2, strict=True)
                ]
                blocks.append(_apart(np.array(rows, dtype=np.int64)))
                store.require_open()
        return windows.documents(), np.concatenate(blocks)


class _WindowNumbers:
    """Documents by number, so that a pair of windows is six numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[str, tuple[int, int, int]] = {}

    def of(self, key: str) -> tuple[int, int, int]:
        """Return the number of a window's document, and its first and last character."""
        known_number = self._known.get(key)
        if known_number is None:
            place = parse_window_key(key)
            if place is None:
                raise DamageError(
                    f"the key {key!r} is not that of a window", hint="run lshdb check"
                )
            number = self._numbers.setdefault(place.document, len(self._numbers))
            known_number = self._known[key] = (number, place.start, place.end)
        return known_number

    def documents(self) -> list[str]:
        """Return the keys of the documents by number."""
        return list(self._numbers)


def _apart(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out pairs of windows of one document that overlap."""
    document1, start1, end1, document2, start2, end2 = pairs.T
    overlap = (document1 == document2) & (start1 < end2) & (start2 < end1)
    separate: NDArray[np.int64] = pairs[~overlap]
    return separate


Group = tuple[str, str, list[Area]]
"""Two documents, and where windows of them are similar."""


def _by_documents(keys: Sequence[str], pairs: NDArray[np.int64]) -> Iterator[Group]:
    """Yield pairs of documents in order of their keys, with the blocks of their windows."""
    ranks = np.empty(len(keys), dtype=np.int64)
    ordered = sorted(range(len(keys)), key=keys.__getitem__)
    ranks[ordered] = np.arange(len(keys))
    windows1, windows2 = pairs[:, :3].copy(), pairs[:, 3:].copy()
    windows1[:, 0], windows2[:, 0] = ranks[windows1[:, 0]], ranks[windows2[:, 0]]
    turned = (windows1[:, 0] > windows2[:, 0]) | (
        (windows1[:, 0] == windows2[:, 0]) & (windows1[:, 1] > windows2[:, 1])
    )
    windows1[turned], windows2[turned] = windows2[turned], windows1[turned]
    order = np.lexsort((windows2[:, 1], windows1[:, 1], windows2[:, 0], windows1[:, 0]))
    rows = np.hstack([windows1, windows2])[order]
    bounds = np.flatnonzero(np.any(np.diff(rows[:, [0, 3]], axis=0) != 0, axis=1)) + 1
    for part in np.split(rows, bounds) if len(rows) else ():
        names = keys[ordered[part[0, 0]]], keys[ordered[part[0, 3]]]
        yield *names, [Area(*row) for row in part[:, [1, 2, 4, 5]].tolist()]


def _aligned(
    snapshot: Snapshot,
    family: Family,
    groups: Iterator[Group],
    *,
    with_text: bool,
    query: tuple[str, AlignedText] | None = None,
) -> Iterator[Passage]:
    """Yield the passages of pairs of documents, or of a query and documents."""
    aligner = Aligner(family.params)
    texts = _WordsOfTexts(snapshot, aligner)
    numbered = enumerate(groups)
    for _, chunk in groupby(numbered, key=lambda item: item[0] // _PAIRS_A_READ):
        pairs_read = [group for _, group in chunk]
        named = {key for key1, key2, _ in pairs_read for key in (key1, key2)}
        if query is not None:
            named.discard(query[0])
        words = texts.load(sorted(named))
        if query is not None:
            words[query[0]] = query[1]
        aligned: list[_AlignedSpan] = []
        n_characters = 0
        for key1, key2, blocks in pairs_read:
            side1, side2 = (key1, words[key1]), (key2, words[key2])
            for span in aligner.align(side1[1], side2[1], merge_blocks(blocks)):
                aligned.append((side1, side2, span))
                start, end = side1[1].characters(span.first1, span.last1)
                n_characters += end - start
            if n_characters > _MOST_CHARACTERS:
                yield from _passages(family, aligned, with_text=with_text)
                aligned, n_characters = [], 0
        yield from _passages(family, aligned, with_text=with_text)


_AlignedSpan = tuple[tuple[str, AlignedText], tuple[str, AlignedText], Span]
"""Two documents, each with its key, and where they share a passage."""


def _passages(
    family: Family, aligned: Sequence[_AlignedSpan], *, with_text: bool
) -> Iterator[Passage]:
    """Yield passages with their similarities, which are computed together."""
    places = [
        (*words1.characters(first1, last1), *words2.characters(first2, last2))
        for (_, words1), (_, words2), (first1, last1, first2, last2) in aligned
    ]
    texts = [
        text
        for ((_, words1), (_, words2), _), (start1, end1, start2, end2) in zip(
            aligned, places, strict=True
        )
        for text in (words1.text[start1:end1], words2.text[start2:end2])
    ]
    points = family.gather(family.contents(texts))
    numbers = np.arange(len(aligned))
    similarities = family.levels_among(points, 2 * numbers, points, 2 * numbers + 1)
    for number, similarity in enumerate(similarities.tolist()):
        (key1, _), (key2, _), (first1, last1, first2, last2) = aligned[number]
        start1, end1, start2, end2 = places[number]
        yield Passage(
            key1, start1, end1, last1 - first1,
            key2, start2, end2, last2 - first2,
            similarity,
            "exact",
            *(texts[2 * number : 2 * number + 2] if with_text else (None, None)),
        )  # fmt: skip


QUERY_KEY = "text"
"""Stands for the key of a query that has none."""


def query_passages(
    store: Store,
    family: Family,
    text: str | None,
    *,
    key: str | None,
    threshold: float | None,
    with_text: bool,
    workers: int | None,
) -> list[Passage]:
    """Return where passages of a text recur; see :meth:`lshdb.Index.query_passages`."""
    window = require_passages(store.params, store.path)
    check_flag("with_text", with_text)
    if (text is None) == (key is None):
        raise ParameterError("passages are looked for of either a text or a key")
    request = QueryOptions.of(store, None, threshold, "exact", None, False, None, "similarity")
    workers = choose_workers(workers)
    with store.reading() as snapshot:
        if key is not None:
            text = _whole_text(snapshot, check_key("key", key))
        if not isinstance(text, str):
            raise InputError(f"a query of passages is a text, and {type(text).__name__} was given")
        reason = family.refusal(text)
        if reason is not None:
            raise InputError(f"the text cannot be used as a query: {reason}")
        own = QUERY_KEY if key is None else key
        cuts = cut_windows(text, *window)
        windows = ((str(number), text[start:end]) for number, (start, end) in enumerate(cuts))
        blocks_of: dict[str, list[Area]] = {}
        for number, hits in request.answers(snapshot, family, windows, workers=workers):
            for hit in hits:
                place = parse_window_key(hit.key)
                if place is not None and place.document != key:
                    blocks = blocks_of.setdefault(place.document, [])
                    blocks.append(Area(*cuts[int(number)], place.start, place.end))
        # The query is told from a document of its key by a name that no document has.
        name = "\0"
        groups = ((name, document, blocks_of[document]) for document in sorted(blocks_of))
        words = Aligner(family.params).words(text)
        passages = _aligned(snapshot, family, groups, with_text=with_text, query=(name, words))
        return sorted(
            (replace(passage, key1=own) for passage in passages),
            key=lambda answer: (answer.start1, answer.end1, answer.key2, answer.start2),
        )


def explain_passages(
    store: Store, family: Family, key1: str, key2: str, *, with_text: bool
) -> list[Passage]:
    """Return the passages that two documents share; see :meth:`lshdb.Index.explain_passages`."""
    require_passages(store.params, store.path)
    check_flag("with_text", with_text)
    with store.reading() as snapshot:
        aligner = Aligner(family.params)
        words = aligner.words(_whole_text(snapshot, check_key("key1", key1)))
        words2 = words
        if key2 != key1:
            words2 = aligner.words(_whole_text(snapshot, check_key("key2", key2)))
        whole = Area(0, len(words.text), 0, len(words2.text))
        spans = aligner.align(words, words2, [whole])
        aligned = [((key1, words), (key2, words2), span) for span in spans]
        return list(_passages(family, aligned, with_text=with_text))


def _whole_text(snapshot: Snapshot, key: str) -> str:
    texts = whole_texts(snapshot, [key])
    if key not in texts:
        raise no_document(key)
    return texts[key]
