"""Candidate pairs of contents by their similarity, and those nearest to the threshold.

One pass over the candidates, as ``pairs`` makes them: a pair that shares a bucket is compared, and
lies within the threshold (a verified pair) or beyond it (a false candidate). Copies have one
signature and are no candidates. The pass ends after ``MOST_PAIRS``, so that its time is bounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import LeftOut
from lshdb.search.pairs import find_links
from lshdb.search.verification import MEMORY
from lshdb.signatures.banding import matching_bands
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["NearPair", "Spread", "agreeing_bands", "spread_of"]

MOST_PAIRS = 2_000_000
_BINS = 20
_NEAR = 0.1
"""Similarity on either side of the threshold that is near it."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bin:
    """Candidates with a similarity, or distance, of at least ``low`` and below ``high``."""

    low: float
    high: float
    false: int
    verified: int


@dataclass(frozen=True, slots=True)
class NearPair:
    """A pair near the threshold.

    Attributes
    ----------
    signature1, signature2 : int
        The smaller id first.
    level : float
        Similarity, or minus the distance.
    bands : tuple of int
        The bands in which both agree, from 0.
    """

    signature1: int
    signature2: int
    level: float
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Candidates by similarity.

    Attributes
    ----------
    bins : tuple of Bin
        In rising order of similarity or distance.
    false, verified : int
        Their sums.
    nearest : tuple of NearPair
        Pairs drawn evenly over the range near the threshold, the nearest to it first; from farther
        away only if there are too few.
    near_ends : tuple of (float, float)
        That range, as similarities or distances.
    near_counts : tuple of int
        Candidates in twenty equal parts of it, in the order of the bins.
    method : str
        ``exact`` or ``signature``.
    is_whole : bool
        Whether all candidates were compared, rather than the first ``MOST_PAIRS``.
    left_out : LeftOut
        Large buckets, which were not compared.
    """

    bins: tuple[Bin, ...]
    false: int
    verified: int
    nearest: tuple[NearPair, ...]
    near_ends: tuple[float, float]
    near_counts: tuple[int, ...]
    method: str
    is_whole: bool
    left_out: LeftOut


def spread_of(
    snapshot: Snapshot,
    family: Family,
    *,
    level: float,
    method: str,
    since: int | None,
    most: int | None,
    nearest: int,
    workers: int,
) -> Spread:
    """Compare the candidates of one state.

    Parameters
    ----------
    snapshot, family
        State to read, and family of its signatures.
    level : float
        The threshold.
    method : {"signature", "exact"}
        How candidates are compared.
    since : int, optional
        Only pairs with a document of this batch or a later one.
    most : int, optional
        The largest bucket that is compared.
    nearest : int
        Pairs near the threshold to draw.
    workers : int
        Threads that compare.
    """
    params, left_out = family.params, LeftOut(most)
    ends = _ends(params, level)
    lowest = min(params.curve.best - 1e-9, float(ends.min()))
    all_links = find_links(
        snapshot, family, threshold=lowest + 1e-6, method=method,
        new=None if since is None else snapshot.new_signatures(since), most=most,
        left_out=left_out, memory=MEMORY, workers=workers,
    )  # fmt: skip
    counts = np.zeros((2, len(ends) - 1), dtype=np.int64)
    near_edges = Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    near_range = _near_range(params, level)
    near_counts = np.zeros(_BINS, dtype=np.int64)
    n_seen, is_whole = 0, True
    for links in all_links:
        places = np.searchsorted(ends, links.similarities, side="right") - 1
        places = np.clip(places, 0, len(ends) - 2)
        is_verified = links.similarities >= level
        for row, chosen in enumerate((~is_verified, is_verified)):
            counts[row] += np.bincount(places[chosen], minlength=len(ends) - 1)
        near_counts += np.histogram(links.similarities, bins=_BINS, range=near_range)[0]
        near_edges = _nearest(near_edges, links, level, near_range, nearest)
        n_seen += len(links)
        if n_seen >= MOST_PAIRS:
            is_whole = False
            break
    bins = [
        Bin(params.curve.value(float(low)), params.curve.value(float(high)), *numbers)
        for (low, high), numbers in zip(
            itertools.pairwise(ends), counts.T.tolist(), strict=True
        )
    ]  # fmt: skip
    if params.kind.is_distance:
        bins = [Bin(bin_.high, bin_.low, bin_.false, bin_.verified) for bin_ in reversed(bins)]
    false, verified = counts.sum(axis=1).tolist()
    bands = agreeing_bands(snapshot, params, near_edges.left, near_edges.right)
    columns = (
        near_edges.left.tolist(),
        near_edges.right.tolist(),
        near_edges.similarities.tolist(),
        bands,
    )
    near = tuple(NearPair(*values) for values in zip(*columns, strict=True))
    near_ends = sorted(map(params.curve.value, near_range))
    return Spread(
        tuple(bins), false, verified, near, (near_ends[0], near_ends[1]),
        tuple(near_counts.tolist()[:: -1 if params.kind.is_distance else 1]),
        method, is_whole, left_out,
    )  # fmt: skip


def _ends(params: IndexParams, level: float) -> NDArray[np.float64]:
    """Return the levels between bins, rising; the threshold is one of them."""
    first = (3.0 * level or -1.0) if params.kind.is_distance else params.kind.lowest
    last = params.curve.best
    ends = np.linspace(first, last, _BINS + 1)
    near = int(np.abs(ends - level).argmin())
    if 0 < near < _BINS:
        ends[near] = level
    return ends


def _near_range(params: IndexParams, level: float) -> tuple[float, float]:
    """Return the levels between which pairs are near the threshold."""
    width = (0.2 * abs(level) or 1.0) if params.kind.is_distance else _NEAR
    lowest = -np.inf if params.kind.is_distance else params.kind.lowest
    return max(level - width, lowest), min(level + width, params.curve.best)


def _nearest(
    near_edges: Edges, links: Edges, level: float, ends: tuple[float, float], most: int
) -> Edges:
    """Merge pairs; keep those that are drawn, the nearest to the level first.

    One of each of ``most`` equal parts of the range is drawn, then another of each, and so on.
    Pairs beyond the range come last.
    """
    left = np.concatenate([near_edges.left, links.left])
    right = np.concatenate([near_edges.right, links.right])
    levels = np.concatenate([near_edges.similarities, links.similarities])
    draw = (left * 0x9E3779B1 + right * 0x85EBCA77) & 0xFFFFFFFF
    parts = np.floor((levels - ends[0]) / ((ends[1] - ends[0]) / most)).astype(np.int64)
    is_beyond = (levels < ends[0]) | (levels > ends[1])
    order = np.lexsort((right, left, draw, parts))
    starts = np.flatnonzero(np.diff(parts[order], prepend=np.iinfo(np.int64).min))
    ranks = np.empty(len(order), dtype=np.int64)
    sizes = np.diff(np.append(starts, len(order)))
    ranks[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    distances = np.abs(levels - level)
    drawn = np.lexsort((draw, distances, np.where(is_beyond, 0, ranks), is_beyond))[:most]
    drawn = drawn[np.lexsort((right[drawn], left[drawn], distances[drawn]))]
    return Edges(left[drawn], right[drawn], levels[drawn])


def agreeing_bands(
    snapshot: Snapshot, params: IndexParams, left: Ids, right: Ids
) -> list[tuple[int, ...]]:
    """Return the bands in which each pair agrees; empty if the rows are on another host."""
    if not snapshot.has_signatures or not len(left):
        return [()] * len(left)
    rows, places = snapshot.signatures.among(np.concatenate([left, right]))
    agree = matching_bands(rows[places[: len(left)]], rows[places[len(left) :]], **params.cut)
    return [tuple(np.flatnonzero(in_bands).tolist()) for in_bands in agree]


def first_documents(snapshot: Snapshot, signature_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Return (doc_id, key) of the first document of each signature that has one."""
    documents = snapshot.documents_of_signatures(sorted(set(signature_ids)))
    return {
        signature_id: (rows[0][0], rows[0][1]) for signature_id, rows in documents.items() if rows
    }
