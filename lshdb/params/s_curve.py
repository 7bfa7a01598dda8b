"""The S-curve of an index as data: how probably a pair of each similarity is found.

With b bands of r rows and slots that are equal with probability p, a pair shares a bucket with
probability 1 - (1 - p^r)^b. The curve is steepest near p = (1/b)^(1/r) (Mining of Massive Datasets,
section 3.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lshdb.arguments import check_whole
from lshdb.params.bands import candidate_probability
from lshdb.params.index_params import IndexParams

__all__ = ["SCurve", "s_curve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SCurve:
    """The S-curve of bands and rows.

    Attributes
    ----------
    similarities : tuple of float
        Similarities in rising order, from 0 (cosine: -1) to 1; or distances, from 0 on. The
        threshold is one of them.
    found : tuple of float
        Probability that a pair of each is found.
    is_distance : bool
        Whether ``similarities`` are distances.
    bands, rows : int
    threshold, recall : float
        What the index promises: a pair at the threshold is found with this probability.
    at_threshold : float
        The probability there by this curve.
    steepest : float
        The similarity or distance at which slots are equal with probability (1/b)^(1/r).
    false_positives, false_negatives : float
        Mean probability that a pair beyond the threshold is a candidate, and that one within it is
        none, if all similarities (or distances up to the last) were equally frequent.
    """

    similarities: tuple[float, ...]
    found: tuple[float, ...]
    is_distance: bool
    bands: int
    rows: int
    threshold: float
    recall: float
    at_threshold: float
    steepest: float
    false_positives: float
    false_negatives: float


def s_curve(params: IndexParams, *, steps: int = 100, furthest: float | None = None) -> SCurve:
    """Return the S-curve of an index's bands.

    Parameters
    ----------
    params : IndexParams
    steps : int
        Equal steps from the first similarity or distance to the last.
    furthest : float, optional
        The largest distance; by default three times the threshold, or for bits that are sampled
        all of them if these are fewer. For a similarity the lowest; 0 by default, -1 for cosine.

    Raises
    ------
    ParameterError
        ``steps`` is not a whole number of at least 1.
    """
    check_whole("steps", steps, 1)
    first, last = _ends(params, furthest)
    values = {first + (last - first) * step / steps for step in range(steps + 1)}
    similarities = sorted(values | {params.threshold})
    probabilities = [params.recall_at(value) for value in similarities]
    place = similarities.index(params.threshold)
    curve = params.curve
    share = (1.0 / params.bands) ** (1.0 / params.rows)
    near = slice(0, place + 1) if params.kind.is_distance else slice(place, None)
    far = slice(place, None) if params.kind.is_distance else slice(0, place + 1)
    missed = [1.0 - probability for probability in probabilities]
    return SCurve(
        similarities=tuple(similarities),
        found=tuple(probabilities),
        is_distance=params.kind.is_distance,
        bands=params.bands,
        rows=params.rows,
        threshold=params.threshold,
        recall=params.recall,
        at_threshold=candidate_probability(
            curve.probability(params.level), params.bands, params.rows
        ),
        steepest=curve.value(curve.at_shares([share])[0]),
        false_positives=_mean(similarities[far], probabilities[far]),
        false_negatives=_mean(similarities[near], missed[near]),
    )


def _ends(params: IndexParams, furthest: float | None) -> tuple[float, float]:
    if not params.kind.is_distance:
        lowest = params.kind.lowest if furthest is None else min(furthest, params.threshold)
        return lowest, 1.0
    if furthest is None:
        furthest = min(3.0 * params.threshold or params.dim, params.curve.furthest)
    return 0.0, max(furthest, params.threshold)


def _mean(values: Sequence[float], heights: Sequence[float]) -> float:
    """Return the mean height by the trapezoidal rule; that of a single point is its own."""
    width = values[-1] - values[0]
    if not width:
        return heights[0]
    steps = zip(values, values[1:], heights, heights[1:], strict=False)
    return sum((after - value) * (low + high) / 2.0 for value, after, low, high in steps) / width
