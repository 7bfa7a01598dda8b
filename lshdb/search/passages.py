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
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_flag, check_key, check_whole
from lshdb.arrays import distinct
from lshdb.errors import DamageError, InputError, ParameterError, no_document
from lshdb.handle import ColumnTable, Handle
from lshdb.ingest.cut_documents import whole_texts
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.search.alignment import AlignedText, Aligner
from lshdb.search.candidates import LeftOut
from lshdb.search.pair_columns import LINES
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
    "PassageColumns",
    "PassageSearch",
    "explain_passages",
    "query_passages",
    "require_passages",
]


Ids = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True)
class PassageColumns:
    """Some passages as columns: place i of each list is of one passage.

    Attributes
    ----------
    keys1, starts1, ends1, words1, keys2, starts2, ends2, words2, similarities : list
        What a :class:`Passage` says.
    texts1, texts2 : list of str, or None
        The passages, where they were asked for.
    method : {"exact"}
    """

    keys1: list[str]
    starts1: list[int]
    ends1: list[int]
    words1: list[int]
    keys2: list[str]
    starts2: list[int]
    ends2: list[int]
    words2: list[int]
    similarities: list[float]
    texts1: list[str] | None = None
    texts2: list[str] | None = None
    method: str = "exact"

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.keys1)

    def passages(self) -> Iterator[Passage]:
        """Yield the passages one by one."""
        return map(Passage, *self.values())

    def values(self) -> list[Sequence[Any]]:
        """Return the columns of a table of the passages, in the order of the fields of one."""
        none = [None] * len(self)
        return [
            self.keys1, self.starts1, self.ends1, self.words1,
            self.keys2, self.starts2, self.ends2, self.words2,
            self.similarities, [self.method] * len(self), self.texts1 or none, self.texts2 or none,
        ]  # fmt: skip


_MOST_WORDS = 16_000_000
"""Words of texts that are kept for the next pairs of documents; some 30 bytes each."""
_MOST_CHARACTERS = 2**20
"""Characters of passages whose similarities are computed together, or those of one passage."""
_PAIRS_A_READ = 32
"""Pairs of documents whose texts are read by one statement."""


class _WordsOfTexts:
    """Texts of documents as words, put together from their windows."""

    def __init__(self, snapshot: Snapshot, aligner: Aligner) -> None:
        self._snapshot, self._aligner = snapshot, aligner
        self._known: OrderedDict[str, AlignedText] = OrderedDict()
        self._size = 0

    def load(self, keys: Sequence[str]) -> list[AlignedText]:
        """Return the texts of distinct documents, which are in the index."""
        missing = [key for key in keys if key not in self._known]
        for key, text in whole_texts(self._snapshot, missing).items():
            words = self._known[key] = self._aligner.words(text)
            self._size += len(words)
        texts = [self._known[key] for key in keys]
        for key in keys:
            self._known.move_to_end(key)
        while self._size > _MOST_WORDS and len(self._known) > len(texts):
            _, gone = self._known.popitem(last=False)
            self._size -= len(gone)
        return texts


class PassageSearch(ColumnTable[Passage, PassageColumns]):
    """Passages that recur, as they are found: documents in order of key, passages of their text.

    Attributes
    ----------
    left_out : LeftOut
        For the last iteration that has begun: what ``max_bucket`` left out.
    """

    ITEM = Passage
    EACH = PassageColumns.passages

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

    def _columns(self, store: Store, family: Family) -> Generator[PassageColumns]:
        """Yield the passages of one state."""
        self.newest_batch, self.left_out = None, LeftOut(self._most)
        room = self._limit
        with store.reading() as snapshot:
            keys, pairs = self._window_pairs(snapshot, store, family)
            blocks = _aligned(snapshot, family, _by_documents(keys, pairs), most=room)
            for block in blocks:
                yield block.columns(family, with_text=self._with_text)
                store.require_open()
                if room is not None:
                    room -= len(block)
                    if not room:
                        return
            self.newest_batch = snapshot.newest_batch()

    def _window_pairs(
        self, snapshot: Snapshot, store: Store, family: Family
    ) -> tuple[list[str], Ids]:
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
        blocks = [np.zeros((0, 2), dtype=np.int64)]
        with closing(window_pairs):
            for block in window_pairs:
                numbers = [[*map(windows.__getitem__, keys)] for keys in (block.keys1, block.keys2)]
                blocks.append(np.array(numbers, dtype=np.int64).T)
                store.require_open()
        places = np.array(windows.places, dtype=np.int64).reshape(-1, 3)
        pairs = places[np.concatenate(blocks)].reshape(-1, 6)
        return list(windows.documents), _apart(pairs)


class _WindowNumbers(dict[str, int]):
    """Keys of windows to numbers, in the order in which they are first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, int] = {}
        self.places: list[tuple[int, int, int]] = []

    def __missing__(self, key: str) -> int:
        place = parse_window_key(key)
        if place is None:
            raise DamageError(f"the key {key!r} is not that of a window", hint="run lshdb check")
        document = self.documents.setdefault(place.document, len(self.documents))
        self.places.append((document, place.start, place.end))
        number = self[key] = len(self)
        return number


def _apart(pairs: Ids) -> Ids:
    """Leave out pairs of windows of one document that overlap."""
    document1, start1, end1, document2, start2, end2 = pairs.T
    overlap = (document1 == document2) & (start1 < end2) & (start2 < end1)
    separate: Ids = pairs[~overlap]
    return separate


@dataclass(frozen=True, slots=True)
class _SimilarAreas:
    """Where windows of pairs of documents are similar.

    Attributes
    ----------
    keys : list of str
        Documents.
    pairs : ndarray of int64, shape (n, 4)
        The numbers of two documents, the first of their areas and how many they have.
    areas : ndarray of int64, shape (m, 4)
        First and last character (left out) in the first document and in the second.
    """

    keys: list[str]
    pairs: Ids
    areas: Ids

    @classmethod
    def of(cls, keys: list[str], rows: Ids) -> _SimilarAreas:
        """Gather rows (document, start, end) of one and the other, in order of documents."""
        documents = rows[:, [0, 3]]
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = (documents[1:] != documents[:-1]).any(axis=1)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(firsts, append=len(rows))
        pairs = np.column_stack([documents[firsts], firsts, counts])
        return cls(keys, pairs, rows[:, [1, 2, 4, 5]])


def _by_documents(keys: list[str], pairs: Ids) -> _SimilarAreas:
    """Put similar windows in the order of the keys of their documents."""
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
    return _SimilarAreas.of([keys[place] for place in ordered], rows)


Side = tuple[str, str]
"""The key of a document and its text."""


class _PassageBlock:
    """Passages whose similarities are computed together."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, int, int, int, str, int, int, int]] = []
        self._texts: list[str] = []
        self.n_characters = 0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, side1: Side, side2: Side, span: Sequence[int]) -> None:
        """Add what :meth:`Aligner.align` says of a passage of two documents."""
        _, first1, last1, first2, last2, start1, end1, start2, end2 = span
        (key1, text1), (key2, text2) = side1, side2
        self._rows.append(
            (key1, start1, end1, last1 - first1, key2, start2, end2, last2 - first2)
        )  # fmt: skip
        self._texts += text1[start1:end1], text2[start2:end2]
        self.n_characters += end1 - start1

    def columns(self, family: Family, *, with_text: bool) -> PassageColumns:
        """Return the passages with their similarities; each text is shingled once."""
        texts = self._texts[::2], self._texts[1::2]
        numbers: dict[str, int] = {}
        places = np.array(
            [[numbers.setdefault(text, len(numbers)) for text in side] for side in texts],
            dtype=np.int64,
        )
        points = family.gather(family.contents(list(numbers)))
        similarities = family.levels_among(points, places[0], points, places[1])
        columns: list[Any] = [*map(list, zip(*self._rows, strict=True))]
        columns += [similarities.tolist(), *(texts if with_text else ())]
        return PassageColumns(*columns)


def _aligned(
    snapshot: Snapshot,
    family: Family,
    similar: _SimilarAreas,
    *,
    most: int | None = None,
    query: AlignedText | None = None,
) -> Iterator[_PassageBlock]:
    """Yield the first passages of pairs of documents, or of a query and documents.

    A query is the first of the documents, and of each of the pairs.
    """
    aligner = Aligner(family.params)
    known = _WordsOfTexts(snapshot, aligner)
    block = _PassageBlock()
    queries = [] if query is None else [query]
    n = len(similar.pairs)
    starts = range(0, n, _PAIRS_A_READ)
    for start in counting(starts, "pairs", n, lambda _: _PAIRS_A_READ):
        pairs = similar.pairs[start : start + _PAIRS_A_READ]
        documents = distinct(pairs[:, :2].ravel())
        keys = [similar.keys[document] for document in documents.tolist()]
        texts = queries + known.load(keys[len(queries) :])
        sides = [(key, text.text) for key, text in zip(keys, texts, strict=True)]
        numbers = np.searchsorted(documents, pairs[:, :2])
        first_area, n_areas = pairs[0, 2], pairs[:, 3].sum()
        spans = aligner.align(
            texts,
            np.column_stack([numbers, pairs[:, 2] - first_area, pairs[:, 3]]),
            similar.areas[first_area : first_area + n_areas],
        )
        of_pair = [(sides[first], sides[second]) for first, second in numbers.tolist()]
        for span in spans.tolist():
            side1, side2 = of_pair[span[0]]
            block.put(side1, side2, span)
            if block.n_characters > _MOST_CHARACTERS or len(block) in (most, LINES):
                yield block
                most = None if most is None else most - len(block)
                block = _PassageBlock()
    if len(block):
        yield block


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
        cuts = cut_windows(text, *window)
        windows = ((str(number), text[start:end]) for number, (start, end) in enumerate(cuts))
        areas_of: dict[str, list[tuple[int, ...]]] = {}
        for number, hits in request.answers(snapshot, family, windows, workers=workers):
            for hit in hits:
                place = parse_window_key(hit.key)
                if place is not None and place.document != key:
                    area = (*cuts[int(number)], place.start, place.end)
                    areas_of.setdefault(place.document, []).append(area)
        rows = [
            (0, start1, end1, number, start2, end2)
            for number, document in enumerate(sorted(areas_of), start=1)
            for start1, end1, start2, end2 in areas_of[document]
        ]
        keys = [QUERY_KEY if key is None else key, *sorted(areas_of)]
        similar = _SimilarAreas.of(keys, np.array(rows, dtype=np.int64).reshape(-1, 6))
        words = Aligner(family.params).words(text)
        passages = [
            passage
            for block in _aligned(snapshot, family, similar, query=words)
            for passage in block.columns(family, with_text=with_text).passages()
        ]
        return sorted(
            passages, key=lambda answer: (answer.start1, answer.end1, answer.key2, answer.start2)
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
        number2, whole = int(key2 != key1), [0, len(words.text), 0, len(words2.text)]
        block = _PassageBlock()
        for span in aligner.align(
            [words, words2], np.array([[0, number2, 0, 1]]), np.array([whole])
        ).tolist():
            block.put((key1, words.text), (key2, words2.text), span)
        return [*block.columns(family, with_text=with_text).passages()] if len(block) else []


def _whole_text(snapshot: Snapshot, key: str) -> str:
    texts = whole_texts(snapshot, [key])
    if key not in texts:
        raise no_document(key)
    return texts[key]
