"""Two texts -> what is equal, deleted, inserted and moved between them, word by word.

People read the texts as they were given, so parts are ranges of these, with the numbers of their
lines. Words are compared as the index normalises them: a word that differs in letter case or in a
ligature alone is equal.

Decided: words are laid side by side in three steps.

1. Runs of ``_GRAM`` words that occur once in both texts, in the longest rising order, hold the
   texts together (patience sorting; Bram Cohen's patience diff does the same with lines). They are
   made longer at both ends by equal words.
2. What is between two of them is compared by its longest common subsequence, in rows of bits
   (Crochemore et al., A fast and practical bit-vector algorithm for the longest common subsequence
   problem, 2001). Its table may take ``_MOST_BITS``; more is one change, and the diff says that it
   is coarse.
3. Up to ``_MOST_SCRAPS`` equal words that are fewer than what changed on both sides of them belong
   to the change: two common words in the middle of a new sentence help nobody.

A passage that was deleted in one place and inserted in another, of ``LEAST_MOVED`` words or more,
is moved. The longest passages are taken first.

Time is O(n log n) for n words, and a step for each 64 cells of the tables. A megabyte takes some
seconds at most, whatever it holds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.document import Body
from lshdb.errors import InputError, ParameterError, no_document
from lshdb.search.explain import texts_of_keys
from lshdb.shingling import cut_words, normalise, word_spans
from lshdb.signatures.family import Family
from lshdb.storage.transactions.store import Store

__all__ = [
    "LEAST_MOVED",
    "DiffPart",
    "TextDiff",
    "diff_documents",
    "diff_texts",
    "readable_text",
]

LEAST_MOVED = 6
"""Words of the shortest passage that counts as moved."""

_GRAM = 4
_MOST_BITS = 2**28
"""Of one table: 32 MiB, as of two passages of 16,000 words."""
_MOST_SCRAPS = 3
_MOST_PLACES = 8
"""A run of words that was deleted or inserted in more places is no sign of a moved passage."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPart:
    """A part of two texts.

    Attributes
    ----------
    kind : {"same", "deleted", "inserted", "moved-from", "moved-to"}
        ``deleted`` and ``moved-from`` are ranges of the first text, ``inserted`` and ``moved-to``
        of the second, ``same`` of both.
    start1, end1, start2, end2 : int
        Characters of either text; the end is left out. The range is empty in the text that does not
        have the part. Where a passage was moved, the other range is where it is in that text.
    line1, line2 : int
        The lines on which these ranges begin, from 1 on.
    """

    kind: str
    start1: int
    end1: int
    start2: int
    end2: int
    line1: int
    line2: int

    @property
    def is_first(self) -> bool:
        """Whether the part belongs to the first text."""
        return self.kind in ("same", "deleted", "moved-from")

    @property
    def is_second(self) -> bool:
        """Whether the part belongs to the second text."""
        return self.kind in ("same", "inserted", "moved-to")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDiff:
    """The result of :meth:`lshdb.Index.diff`.

    Attributes
    ----------
    text1, text2 : str
        As they are stored. Tokens are joined with blanks; those of a set stand one a line, sorted.
    parts : tuple of DiffPart
        In the order of both texts. The parts of the first text give all of it when they are joined,
        and so do those of the second.
    words1, words2 : int
        Words of the texts.
    n_same, n_moved : int
        Words that are equal, and words that were moved.
    is_coarse : bool
        Whether some part was too long to be compared word by word.
    """

    text1: str
    text2: str
    parts: tuple[DiffPart, ...]
    words1: int
    words2: int
    n_same: int
    n_moved: int
    is_coarse: bool

    def texts_of(self, part: DiffPart) -> tuple[str, str]:
        """Return a part as it reads in the first text and in the second."""
        return self.text1[part.start1 : part.end1], self.text2[part.start2 : part.end2]

    def hunks(self, *, context: int = 8) -> list[tuple[DiffPart, ...]]:
        """Return the differences, each with some equal words around it.

        Parameters
        ----------
        context : int
            Words on each side of a change. What is equal between two changes is whole where it is
            not longer than these, and two words more for what would stand for the rest.

        Returns
        -------
        list of tuple of DiffPart
            Parts in order. One hunk ends where something was left out, and the next begins.
        """
        cutter = _Cutter(self)
        hunks: list[list[DiffPart]] = [[]]
        for place, part in enumerate(self.parts):
            if part.kind != "same":
                hunks[-1].append(part)
                continue
            before = context if place else 0
            behind = context if place < len(self.parts) - 1 else 0
            head, tail = cutter.cut(part, before, behind)
            if tail is None:
                hunks[-1].append(part)
                continue
            hunks[-1] += head
            hunks.append(list(tail))
        return [tuple(hunk) for hunk in hunks if any(part.kind != "same" for part in hunk)]


class _Cutter:
    """Cuts parts that are equal."""

    def __init__(self, diff: TextDiff) -> None:
        self._texts = diff.text1, diff.text2
        self._lines: tuple[_Lines, _Lines] | None = None

    def cut(
        self, part: DiffPart, before: int, behind: int
    ) -> tuple[list[DiffPart], list[DiffPart] | None]:
        """Return some words of its beginning, and of its end; None if they are all of it."""
        ranges = (part.start1, part.end1), (part.start2, part.end2)
        cuts = [
            _cuts([first for first, _ in word_spans(text[start:end])], end - start)
            for text, (start, end) in zip(self._texts, ranges, strict=True)
        ]
        n = len(cuts[0]) - 1
        if n <= before + behind + 2 or len(cuts[1]) != n + 1:
            return [part], None
        self._lines = self._lines or (_Lines(self._texts[0]), _Lines(self._texts[1]))
        pieces = []
        for first, last in ((0, before), (n - behind, n)):
            (start1, end1), (start2, end2) = (
                (start + int(cut[first]), start + int(cut[last]))
                for (start, _), cut in zip(ranges, cuts, strict=True)
            )
            piece = replace(
                part, start1=start1, end1=end1, start2=start2, end2=end2,
                line1=self._lines[0].at(start1), line2=self._lines[1].at(start2),
            )  # fmt: skip
            pieces.append([piece] if last > first else [])
        return pieces[0], pieces[1]


class _EqualRun(NamedTuple):
    """Equal words: the first in either text, and how many."""

    first1: int
    first2: int
    n: int


def readable_text(body: Any) -> str:
    """Return a body as people read it: tokens joined with blanks, or one a line for a set.

    Parameters
    ----------
    body : str, list or set of str, or dict
        A dict is a stored set, ``{"set": [...]}``, as :meth:`lshdb.Index.texts` gives it.
    """
    if isinstance(body, str):
        return body
    if isinstance(body, dict):
        body = set(body["set"])
    if isinstance(body, set | frozenset):
        return "\n".join(sorted(map(str, body)))
    return " ".join(map(str, body))


def diff_documents(
    store: Store, family: Family, key1: str, key2: str | None, body: Body | None
) -> TextDiff:
    """Compare a document with another one, or with a body; see :meth:`lshdb.Index.diff`."""
    params = family.params
    if (key2 is None) == (body is None):
        raise ParameterError("a document is compared with either a second key or a body")
    if params.kind.body != "text":
        raise ParameterError(
            f"documents of an index of metric {params.metric} have no words to compare",
            hint="explain says how similar they are",
        )
    keys = [key1] if key2 is None else [key1, key2]
    stored = texts_of_keys(store, family, keys)
    for key in keys:
        if key not in stored:
            raise no_document(key)
    texts = [readable_text(stored[key]) for key in keys]
    if body is not None:
        reason = family.refusal(body)
        if reason is not None:
            raise InputError(f"the text to compare with cannot be used: {reason}")
        texts.append(readable_text(body))
    return diff_texts(*texts, steps=params.normalisation)


def diff_texts(text1: str, text2: str, *, steps: str) -> TextDiff:
    """Compare two texts word by word.

    Parameters
    ----------
    text1, text2 : str
    steps : str
        The normalisation of words.

    Returns
    -------
    TextDiff
    """
    numbers: dict[str, int] = {}
    folded: dict[str, int] = {}
    sides = [_words(text, steps, numbers, folded) for text in (text1, text2)]
    (starts1, ids1), (starts2, ids2) = sides
    cuts = _cuts(starts1, len(text1)), _cuts(starts2, len(text2))
    has_no_words = not (len(ids1) or len(ids2)) and len(cuts[0]) == len(cuts[1])
    if has_no_words and normalise(text1, steps) == normalise(text2, steps):
        runs, is_coarse = [_EqualRun(0, 0, len(cuts[0]) - 1)], False
    else:
        runs, is_coarse = _aligned(ids1, ids2)
    runs = [run for run in _without_scraps(runs, len(ids1), len(ids2)) if run.n]
    moved = _moved(ids1, ids2, runs)
    parts = _parts(runs, moved, cuts)
    lines = _Lines(text1), _Lines(text2)
    return TextDiff(
        text1=text1,
        text2=text2,
        parts=tuple(
            replace(part, line1=lines[0].at(part.start1), line2=lines[1].at(part.start2))
            for part in parts
        ),
        words1=len(ids1),
        words2=len(ids2),
        n_same=sum(run.n for run in runs) if len(ids1) else 0,
        n_moved=sum(run.n for run in moved),
        is_coarse=is_coarse,
    )


class _Lines:
    """Finds the line of a character."""

    def __init__(self, text: str) -> None:
        starts, at = [0], 0
        for line in text.splitlines(keepends=True):
            at += len(line)
            starts.append(at)
        self._starts = starts if text and text[-1].splitlines() == [""] else starts[:-1] or [0]

    def at(self, place: int) -> int:
        return bisect_right(self._starts, place)


def _words(
    text: str, steps: str, numbers: dict[str, int], folded: dict[str, int]
) -> tuple[Ids, Ids]:
    """Return where words begin and a number for each, the same for words that are equal."""
    words, starts, _ = cut_words(text)
    for word in dict.fromkeys(words):
        if word not in numbers:
            numbers[word] = folded.setdefault(normalise(word, steps), len(folded))
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    return starts, ids


def _cuts(starts: Sequence[int] | Ids, n: int) -> Ids:
    """Return where words begin, the first with the text, and where the text ends.

    What is behind a word belongs to it. A text without words is like one word.
    """
    cuts = np.zeros(max(len(starts), 1) + 1 if n else 1, dtype=np.int64)
    if n:
        cuts[1:-1], cuts[-1] = starts[1:], n
    return cuts


# Step 1: runs of words that occur once


def _aligned(ids1: Ids, ids2: Ids) -> tuple[list[_EqualRun], bool]:
    """Return runs of equal words in order, and whether some part was too long."""
    runs: list[_EqualRun] = []
    is_coarse = False
    before = _EqualRun(0, 0, 0)
    anchors = _extended(ids1, ids2, _anchors(ids1, ids2))
    for anchor in [*anchors, _EqualRun(len(ids1), len(ids2), 0)]:
        first1, first2 = before.first1 + before.n, before.first2 + before.n
        between = _common(ids1[first1 : anchor.first1], ids2[first2 : anchor.first2])
        is_coarse |= between is None
        runs += [
            _EqualRun(first1 + between_run.first1, first2 + between_run.first2, between_run.n)
            for between_run in between or ()
        ]
        runs.append(anchor)
        before = anchor
    return _joined(run for run in runs if run.n), is_coarse


def _joined(runs: Iterator[_EqualRun] | Sequence[_EqualRun]) -> list[_EqualRun]:
    """Join runs that touch in both texts."""
    joined: list[_EqualRun] = []
    for run in runs:
        if joined:
            last = joined[-1]
            if (last.first1 + last.n, last.first2 + last.n) == run[:2]:
                joined[-1] = last._replace(n=last.n + run.n)
                continue
        joined.append(run)
    return joined


def _grams(ids: Ids, n: int) -> NDArray[np.uint64]:
    """Return a hash of the n words from each word on."""
    grams = np.zeros(max(len(ids) - n + 1, 0), dtype=np.uint64)
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    for place in range(n):
        grams *= np.uint64(0xBF58476D1CE4E5B9)
        grams += mixed[place : place + len(grams)]
    return grams


def _anchors(ids1: Ids, ids2: Ids) -> list[_EqualRun]:
    """Return the places of runs of words that occur once in both, in the longest rising order.

    Places that follow one another in both texts come as one, with their number.
    """
    once1, places1 = _once(_grams(ids1, _GRAM))
    once2, places2 = _once(_grams(ids2, _GRAM))
    _, at1, at2 = np.intersect1d(once1, once2, assume_unique=True, return_indices=True)
    by_place = np.argsort(places1[at1])
    left, right = places1[at1][by_place], places2[at2][by_place]
    chain = _longest_rising(right)
    left, right = left[chain], right[chain]
    for place in range(_GRAM):
        are_equal = ids1[left + place] == ids2[right + place]
        left, right = left[are_equal], right[are_equal]
    follows = (np.diff(left, prepend=-2) == 1) & (np.diff(right, prepend=-2) == 1)
    firsts = np.flatnonzero(~follows)
    columns = left[firsts], right[firsts], np.diff(firsts, append=len(left))
    return list(map(_EqualRun, *(column.tolist() for column in columns)))


def _once(grams: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Ids]:
    values, places, counts = np.unique(grams, return_index=True, return_counts=True)
    return values[counts == 1], places[counts == 1].astype(np.int64)


def _longest_rising(values: Ids) -> Ids:
    """Return the places of a longest rising subsequence of distinct values; O(n log n)."""
    tails, places, before = (array("q") for _ in range(3))
    for place, value in enumerate(array("q", values.tobytes())):
        length = bisect_right(tails, value)
        before.append(places[length - 1] if length else -1)
        if length < len(tails):
            tails[length], places[length] = value, place
        else:
            tails.append(value)
            places.append(place)
    chain = array("q")
    place = places[-1] if places else -1
    while place >= 0:
        chain.append(place)
        place = before[place]
    return np.array(chain, dtype=np.int64)[::-1]


def _extended(ids1: Ids, ids2: Ids, anchors: Sequence[_EqualRun]) -> list[_EqualRun]:
    """Make anchors longer by equal words at both ends, and also begin and end the texts so."""
    runs: list[_EqualRun] = []
    end1 = end2 = 0
    for anchor in [_EqualRun(0, 0, 1), *anchors, _EqualRun(len(ids1), len(ids2), 1)]:
        n_behind = max(end1 - anchor.first1, end2 - anchor.first2, 0)
        if n_behind >= anchor.n:
            continue
        first1, first2 = anchor.first1 + n_behind, anchor.first2 + n_behind
        back = _equal(ids1[end1:first1][::-1], ids2[end2:first2][::-1])
        on = _equal(ids1[first1:], ids2[first2:])
        runs.append(_EqualRun(first1 - back, first2 - back, back + on))
        end1, end2 = first1 + on, first2 + on
    return [run for run in runs if run.n]


def _equal(left: Ids, right: Ids) -> int:
    """Return how many words are equal from the beginning on; looks no farther than needed."""
    n, n_equal, step = min(len(left), len(right)), 0, 16
    while n_equal < n:
        stop = min(n_equal + step, n)
        differ = np.flatnonzero(left[n_equal:stop] != right[n_equal:stop])
        if len(differ):
            return n_equal + int(differ[0])
        n_equal, step = stop, 2 * step
    return n


# Step 2: the longest common subsequence


def _common(left: Ids, right: Ids) -> list[_EqualRun] | None:
    """Return the longest common subsequence as runs; None if its table is too large."""
    # Words that only one of them has are in no common subsequence.
    places1, places2 = np.flatnonzero(np.isin(left, right)), np.flatnonzero(np.isin(right, left))
    left, right = left[places1], right[places2]
    n, m = len(left), len(right)
    if n * m > _MOST_BITS:
        return None
    everything = (1 << m) - 1
    masks: dict[int, int] = {}
    for place, word in enumerate(right.tolist()):
        masks[word] = masks.get(word, 0) | 1 << place
    words = left.tolist()
    row, rows = everything, [everything]
    for word in words:
        matched = row & masks.get(word, 0)
        row = (row + matched | row - matched) & everything
        rows.append(row)
    # A zero bit j of row i: word j lengthens what the first i words have in common with the first.
    runs: list[_EqualRun] = []
    i, j = n, m
    while i and j:
        bit = 1 << (j - 1)
        if rows[i] & bit:
            j -= 1
        elif not rows[i - 1] & bit:
            i -= 1
        else:
            i, j = i - 1, j - 1
            runs.append(_EqualRun(int(places1[i]), int(places2[j]), 1))
    return _joined(runs[::-1])


# Step 3: changes in one piece


def _without_scraps(runs: Sequence[_EqualRun], n1: int, n2: int) -> list[_EqualRun]:
    """Leave out runs that are shorter than the changes on both sides of them."""
    long_runs = [_EqualRun(0, 0, 0)]
    for run in [*runs, _EqualRun(n1, n2, 0)]:
        while len(long_runs) > 1:
            last = long_runs[-1]
            if last.n > _MOST_SCRAPS or last.n >= min(
                _change(long_runs[-2], last), _change(last, run)
            ):
                break
            long_runs.pop()
        long_runs.append(run)
    return long_runs[1:-1]


def _change(before: _EqualRun, after: _EqualRun) -> int:
    """Return the words between two runs, in the text that has more of them."""
    return max(after.first1 - before.first1, after.first2 - before.first2) - before.n


# Moved passages


def _moved(ids1: Ids, ids2: Ids, runs: Sequence[_EqualRun]) -> list[_EqualRun]:
    """Return passages that were deleted in one place and inserted in another, in order."""
    gaps1 = _free(len(ids1), [(run.first1, run.n) for run in runs])
    gaps2 = _free(len(ids2), [(run.first2, run.n) for run in runs])
    places1, places2 = _matches(
        _grams(ids1, LEAST_MOVED), _grams(ids2, LEAST_MOVED), _inside(gaps1), _inside(gaps2)
    )
    order = np.lexsort((places1, places2 - places1))
    places1, places2 = places1[order], places2[order]
    breaks = np.flatnonzero((np.diff(places1) != 1) | (np.diff(places2) != 1)) + 1
    firsts = [0, *breaks.tolist()] if len(places1) else []
    lengths = np.diff([*firsts, len(places1)]) if firsts else ()
    repeats = [
        _EqualRun(int(places1[at]), int(places2[at]), int(n) + LEAST_MOVED - 1)
        for at, n in zip(firsts, lengths, strict=True)
    ]
    free1, free2 = _flags(gaps1, len(ids1)), _flags(gaps2, len(ids2))
    moved: list[_EqualRun] = []
    for run in sorted(repeats, key=lambda repeat: (-repeat.n, repeat)):
        here, there2 = (
            free1[run.first1 : run.first1 + run.n],
            free2[run.first2 : run.first2 + run.n],
        )
        is_moved = here & there2 & (ids1[run.first1 :][: run.n] == ids2[run.first2 :][: run.n])
        start, n = _longest(is_moved)
        if n >= LEAST_MOVED:
            here[start : start + n] = there2[start : start + n] = False
            moved.append(_EqualRun(run.first1 + start, run.first2 + start, n))
    return sorted(moved)


def _free(n: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of words that are in no run."""
    ends = [0, *(first + length for first, length in spans)]
    return list(zip(ends, [*(first for first, _ in spans), n], strict=True))


def _inside(gaps: Sequence[tuple[int, int]]) -> Ids:
    """Return the words from which on LEAST_MOVED words are in one range."""
    starts = [np.arange(first, last - LEAST_MOVED + 1) for first, last in gaps]
    return np.concatenate([np.empty(0, dtype=np.int64), *starts])


def _flags(gaps: Sequence[tuple[int, int]], n: int) -> NDArray[np.bool_]:
    flags = np.zeros(n, dtype=bool)
    for first, last in gaps:
        flags[first:last] = True
    return flags


def _matches(
    grams1: NDArray[np.uint64], grams2: NDArray[np.uint64], places1: Ids, places2: Ids
) -> tuple[Ids, Ids]:
    """Return the pairs of places with equal hashes, but for hashes in many places."""
    order = places2[np.argsort(grams2[places2], kind="stable")]
    in_order = grams2[order]
    low = np.searchsorted(in_order, grams1[places1], side="left")
    counts = np.searchsorted(in_order, grams1[places1], side="right") - low
    counts[counts > _MOST_PLACES] = 0
    left = np.repeat(places1, counts)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    return left, order[np.repeat(low, counts) + offsets]


def _longest(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the start and the length of the longest range of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return 0, 0
    best = int(np.argmax(lengths))
    return int(starts[best]), int(lengths[best])


# Words -> characters


def _parts(
    runs: Sequence[_EqualRun], moved: Sequence[_EqualRun], cuts: tuple[Ids, Ids]
) -> Iterator[DiffPart]:
    """Yield the parts of both texts in order; lines are not known yet."""
    from1 = list(moved)
    to2 = sorted(moved, key=lambda run: run.first2)
    cuts1, cuts2 = cuts
    at1 = at2 = 0

    def part(kind: str, first1: int, last1: int, first2: int, last2: int) -> DiffPart:
        return DiffPart(
            kind=kind, start1=int(cuts1[first1]), end1=int(cuts1[last1]),
            start2=int(cuts2[first2]), end2=int(cuts2[last2]), line1=0, line2=0,
        )  # fmt: skip

    for run in [*runs, _EqualRun(len(cuts1) - 1, len(cuts2) - 1, 0)]:
        while at1 < run.first1:
            if from1 and from1[0].first1 == at1:
                first_part = from1.pop(0)
                yield part(
                    "moved-from",
                    at1,
                    at1 + first_part.n,
                    first_part.first2,
                    first_part.first2 + first_part.n,
                )
                at1 += first_part.n
            else:
                stop = min(run.first1, from1[0].first1 if from1 else run.first1)
                yield part("deleted", at1, stop, at2, at2)
                at1 = stop
        while at2 < run.first2:
            if to2 and to2[0].first2 == at2:
                first_part = to2.pop(0)
                yield part(
                    "moved-to",
                    first_part.first1,
                    first_part.first1 + first_part.n,
                    at2,
                    at2 + first_part.n,
                )
                at2 += first_part.n
            else:
                stop = min(run.first2, to2[0].first2 if to2 else run.first2)
                yield part("inserted", at1, at1, at2, stop)
                at2 = stop
        if run.n:
            yield part("same", at1, at1 + run.n, at2, at2 + run.n)
            at1, at2 = at1 + run.n, at2 + run.n
