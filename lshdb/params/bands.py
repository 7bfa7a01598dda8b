"""Choose bands and rows, and the width for cutting projections: recall first, then cost.

With b bands of r rows and slots that are equal with probability p, two documents become a candidate
pair with probability 1 - (1 - p^r)^b (Mining of Massive Datasets, section 3.4.2). An index verifies
its candidates, so a missed pair is the only real error. Recall is therefore a condition, and the
cost is that of postings and of false candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lshdb.arrays import distinct, np
from lshdb.errors import ParameterError
from lshdb.params.bucket_layout import CONTENT_BAND
from lshdb.params.metrics import (
    DEFAULT_METRIC,
    JACCARD,
    METRICS,
    TYPICAL_DOCUMENTS,
    Curve,
    curve_of,
)

__all__ = [
    "MAX_BANDS",
    "Background",
    "PricedBands",
    "bands_needed",
    "candidate_probability",
    "cheapest_banding",
    "choose_bands",
    "choose_width",
    "typical_background",
]

MAX_BANDS = CONTENT_BAND
_SAMPLE_LEVELS = 200
_VECTOR_COST = 0.125
_BY_CHANCE = 2.0**-16
"""Probability that two different slots are equal: they have 16 bits."""


def candidate_probability(agreement: float, bands: int, rows: int) -> float:
    """Return the probability 1 - (1 - p^r)^b that a pair shares a bucket.

    Parameters
    ----------
    agreement : float
        p, the probability of an equal slot, 0 to 1: for min-hash the Jaccard similarity.
    bands, rows : int
        b and r.

    Returns
    -------
    float
        Exact to rounding, even if p^r is tiny.
    """
    if agreement >= 1.0:
        return 1.0
    return -math.expm1(bands * math.log1p(-(agreement**rows)))


@dataclass(frozen=True, slots=True)
class Background:
    """How similar the other documents, most of them unrelated, are to one.

    Attributes
    ----------
    levels : tuple of float
        Levels of similarity, below the threshold.
    documents : tuple of float
        The number of documents at each level.
    candidate_cost : float
        Cost of a false candidate, in postings: 1 for texts, an eighth for vectors and bits.
        Comparing two signatures takes some 0.2 us; writing a posting takes 1 us and 16 bytes. A
        candidate among texts may have to be read.
    slot_cost : float
        Cost of a slot that the bands use, in postings: 0 if signatures have a fixed length.
    """

    levels: tuple[float, ...]
    documents: tuple[float, ...]
    candidate_cost: float = 1.0
    slot_cost: float = 0.0

    @classmethod
    def of_sample(cls, metric: str, levels: Sequence[float], threshold: float) -> Background:
        """Return the background of a million documents, given the levels of some pairs.

        Levels are grouped into about a hundred, finer near the threshold: the nearest make the
        most candidates, and every choice of bands is evaluated against all groups.
        """
        far = np.sort(np.array([level for level in levels if level < threshold]))[::-1]
        ends = distinct(np.geomspace(1, max(len(far), 1), _SAMPLE_LEVELS).round().astype(int))
        count = TYPICAL_DOCUMENTS / max(1, len(levels))
        groups = [group for group in np.split(far, ends[:-1]) if len(group)]
        return cls(
            tuple(float(group.mean()) for group in groups),
            tuple(count * len(group) for group in groups),
            _candidate_cost(metric),
        )


def typical_background(metric: str, curve: Curve, threshold: float) -> Background:
    """Return the background of a million documents of a typical corpus.

    Parameters
    ----------
    metric : str
    curve : Curve
    threshold : float
        As a level.
    """
    levels, documents = zip(*METRICS[metric].background(curve, threshold), strict=True)
    return Background(levels, documents, _candidate_cost(metric))


def _candidate_cost(metric: str) -> float:
    return _VECTOR_COST if METRICS[metric].is_dense else 1.0


@dataclass(frozen=True, slots=True)
class PricedBands:
    """A choice of bands.

    Attributes
    ----------
    bands, rows : int
    cost : float
        Postings and false candidates for one document.
    """

    bands: int
    rows: int
    cost: float


def cheapest_banding(
    curve: Curve, level: float, recall: float, num_perm: int, background: Background
) -> PricedBands | None:
    """Return the cheapest bands that find a pair at a level with probability >= recall.

    Among all (b, r) with b r <= num_perm and 1 - (1 - p^r)^b >= R, this is the one with the lowest
    cost per document: b postings, b r slots, and the false candidates in its background.

    Parameters
    ----------
    curve : Curve
    level : float
        The threshold.
    recall : float
        R, above 0 and below 1.
    num_perm : int
        Slots of a signature.
    background : Background

    Returns
    -------
    PricedBands or None
        None if no choice reaches the recall.
    """
    agree = curve.probability(level)
    far = [curve.probability(far_level) for far_level in background.levels]
    far = [p + (1.0 - p) * _BY_CHANCE for p in far]
    best: PricedBands | None = None
    for rows in range(1, num_perm + 1):
        bands = bands_needed(agree**rows, recall)
        if bands is None:
            break
        if candidate_probability(agree, bands, rows) < recall:
            bands += 1
        if bands * rows > num_perm or bands > MAX_BANDS:
            continue
        cost = bands * (1.0 + rows * background.slot_cost)
        cost += background.candidate_cost * sum(
            count * candidate_probability(p, bands, rows)
            for p, count in zip(far, background.documents, strict=True)
        )
        if best is None or cost < best.cost:
            best = PricedBands(bands, rows, cost)
    return best


def choose_bands(
    threshold: float,
    recall: float,
    num_perm: int,
    *,
    curve: Curve = JACCARD,
    background: Background | None = None,
) -> tuple[int, int]:
    """Choose (bands, rows) so that a pair at the threshold is found with probability >= recall.

    Parameters
    ----------
    threshold : float
        As a level: a similarity, or minus a distance.
    recall : float
        Above 0 and below 1.
    num_perm : int
        Slots of a signature.
    curve : Curve
        The family's curve; min-hash by default.
    background : Background, optional
        By default that of a typical corpus of texts.

    Returns
    -------
    tuple of int
        bands, rows; see :func:`cheapest_banding`. An optimiser that weighs misses against false
        candidates finds only 40 % of the pairs at exactly the Jaccard similarity 0.8 (9 bands of 13
        rows).

    Raises
    ------
    ParameterError
        No choice reaches the recall.
    """
    if background is None:
        background = typical_background(DEFAULT_METRIC, curve, threshold)
    banding = cheapest_banding(curve, threshold, recall, num_perm, background)
    if banding is None:
        what = "distance" if curve.is_distance else "similarity"
        raise ParameterError(
            f"no bands and rows within {num_perm} slots find a pair at {what} "
            f"{curve.value(threshold):g} with probability {recall:g}",
            hint="raise --num-perm, or lower --recall, or "
            f"{'lower' if curve.is_distance else 'raise'} --threshold",
        )
    return banding.bands, banding.rows


def bands_needed(agree: float, recall: float) -> int | None:
    """Return the bands needed for a recall if each agrees with ``agree``; None if very many."""
    if agree >= 1.0:
        return 1
    if agree < 1e-12:
        return None
    return max(1, math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9))


def choose_width(
    scheme: str, threshold: float, recall: float, num_perm: int, background: Background
) -> float:
    """Return the width for cutting projections that allows the cheapest bands.

    The widths tried lie between half and 64 times the threshold distance, in steps of the fourth
    root of two.

    Parameters
    ----------
    scheme : str
        One that cuts projections.
    threshold : float
        As a level: minus a distance above 0.
    recall, num_perm, background
        As for :func:`cheapest_banding`.

    Raises
    ------
    ParameterError
        No width and choice of bands reaches the recall.
    """
    best: tuple[float, float] | None = None
    for step in range(-4, 25):
        width = -threshold * 2.0 ** (step / 4)
        curve = curve_of(scheme, width=width)
        banding = cheapest_banding(curve, threshold, recall, num_perm, background)
        if banding is not None and (best is None or banding.cost < best[0]):
            best = banding.cost, width
    if best is None:
        raise ParameterError(
            f"no width finds a pair at distance {-threshold:g} with probability {recall:g} within "
            f"{num_perm} slots",
            hint="raise --num-perm, or lower --recall",
        )
    return float(f"{best[1]:.6g}")
