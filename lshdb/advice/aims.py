"""What people want to find, as a shingle and a threshold.

An aim says how two texts differ: a share of their words. How similar such texts are is tried on the
texts of the sample (``planted.py``). The threshold is the highest multiple of 0.05 with which an
index finds these pairs as often as its recall promises; or below it, where there are fewest pairs:
then least depends on where the line is drawn. It is never above, since what is below a threshold
is not found at all. The shingle is the longest of the usual ones with which that is 0.5 or more:
long shingles tell texts apart that use the same words, and bands for a high threshold are cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.advice.advice import Choice, SimilarityHistogram
from lshdb.advice.planted import PlantedPairs
from lshdb.advice.similarity_counts import SimilarityCounts
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions
from lshdb.signatures.estimates import estimate
from lshdb.signatures.family import Family

__all__ = ["AIMS", "Aim", "aims", "check_aim", "choice_of", "propose"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Aim:
    """A purpose that parameters can be proposed for.

    Attributes
    ----------
    purpose : str
        In words.
    differing : float
        The share of words in which two texts differ.
    is_part : bool
        Whether these stand together, as where two texts share a part, or all over the texts.
    """

    purpose: str
    differing: float
    is_part: bool = False


AIMS = {
    "exact-copies": Aim(
        "the same text again, apart from letter case, blanks and a rare slip", 0.004
    ),
    "near-copies": Aim("the same text with some words changed, about one in fifty", 0.02),
    "editions": Aim(
        "revised, corrected or badly scanned versions of a text, about one word in ten differs",
        0.1,
    ),
    "boilerplate": Aim(
        "texts that share half of their words in one piece, as forms, templates and notices do",
        0.5,
        is_part=True,
    ),
}

_SHINGLES = {
    "word": (5, 3, 2), "token": (5, 3, 2), "tokenizer": (5, 3, 2), "char": (9, 7, 5),
    "byte": (9, 7, 5), "line": (3, 2, 1),
}  # fmt: skip
_RARE = 0.01
"""Of an aim that allows no more differing words, texts without one count as well."""
_STEP = 0.05
_LOWEST, _USABLE, _HIGHEST = 2, 10, 19
"""Thresholds are proposed from 0.1 to 0.95, in steps; from 0.5 on, no shorter shingle is tried."""
_REACH = 2
_MOST_RECALL = 0.999
_MARGIN = 0.25
"""Planted pairs are a sample: what an index misses of them is at most 0.75 of what it may miss."""
_EMPTIER = 0.75
"""A threshold moves where slices beside it hold less than this share of those at its own place."""


def aims() -> dict[str, Aim]:
    """Return the aims that :func:`lshdb.advise` knows, by name."""
    return dict(AIMS)


def check_aim(aim: object) -> None:
    """Raise ParameterError if an aim is none of :data:`AIMS`; None stands for all."""
    if aim is not None and aim not in AIMS:
        raise ParameterError(f"aim is {aim!r:.80}; expected one of " + ", ".join(AIMS))


def propose(
    aim: Aim,
    params: IndexParams,
    planted: PlantedPairs,
    counted: Callable[[int], SimilarityCounts],
    family: Callable[[int], Family],
    *,
    is_fixed: bool,
) -> tuple[float, str, SimilarityCounts]:
    """Return a threshold for an aim, the reason in words, and the pairs by the shingle to take.

    Parameters
    ----------
    aim : Aim
    params : IndexParams
        Its k is taken where it will do; its recall is what must be reached.
    planted : PlantedPairs
        Texts of the sample, in which words are exchanged as the aim says.
    counted, family : callable
        Give the pairs of the sample, and what shingles texts, by the number of units of a shingle.
    is_fixed : bool
        Whether k may not change.
    """
    sizes = [params.k]
    if not is_fixed and not aim.is_part:
        sizes += [k for k in _SHINGLES.get(params.unit, ()) if k < params.k]
    proposals: list[tuple[int, float, int, Floats]] = []
    for k in sizes:
        levels = planted.similarities(
            family(k), differing=aim.differing, is_part=aim.is_part,
            at_least_one=aim.differing > _RARE,
        )  # fmt: skip
        place, reached = _highest(levels, params)
        proposals.append((place, reached, k, levels))
        if place >= _USABLE:
            break
    place, reached, k, levels = max(proposals, key=lambda proposal: proposal[:2])
    counts = counted(k)
    histogram = counts.histogram()
    why = _similarities_in_words(aim, levels, counts.units)
    if reached < params.recall:
        why += (
            f"; an index for {place * _STEP:.2g} finds {reached:.1%} of them: the other texts are "
            "too short to tell"
        )
    around = range(max(place - _REACH, _LOWEST), place + 1)
    pairs = {lower: _around(histogram, lower) for lower in (*around, around.start - 1, place + 1)}
    emptiest = min(around, key=lambda lower: (pairs[lower], place - lower))
    is_valley = pairs[emptiest - 1] > pairs[emptiest] < pairs[emptiest + 1]
    if emptiest != place and is_valley and pairs[emptiest] < _EMPTIER * pairs[place]:
        place = emptiest
        why += (
            f". Below that, there are fewest pairs around {emptiest * _STEP:.2f}, so that least "
            "depends on where the line is drawn"
        )
    return round(place * _STEP, 2), why, counts


def _highest(levels: Floats, params: IndexParams) -> tuple[int, float]:
    """Return the highest threshold whose index finds pairs as promised, in steps.

    And the share of the pairs that it finds. Where no threshold finds enough of all pairs, as some
    texts are too short, those count that the lowest one finds.
    """
    recall = min(params.recall, _MOST_RECALL)
    least = recall + _MARGIN * (1.0 - recall)
    reachable = levels[levels >= _LOWEST * _STEP]
    candidates = levels if len(reachable) >= least * len(levels) else reachable
    if not len(candidates):
        return _HIGHEST, 0.0
    place = min(max(int(np.quantile(candidates, 1.0 - recall) / _STEP + 1e-9), _LOWEST), _HIGHEST)
    while True:
        options = CreateOptions(
            threshold=round(place * _STEP, 2), scheme=params.scheme, recall=recall,
            num_perm=params.num_perm,
        ).params()  # fmt: skip
        chances = [options.recall_at(float(s)) for s in levels if s >= options.threshold]
        n_found = sum(chances)
        if n_found >= least * len(candidates) or place == _LOWEST:
            return place, n_found / len(levels)
        place -= 1


def _similarities_in_words(aim: Aim, levels: Floats, units: float) -> str:
    """Say how similar texts are that differ as an aim says."""
    if not len(levels):
        return "no text has a word that could differ"
    middle, low = np.quantile(levels, [0.5, 0.01]).tolist()
    why = (
        f"of two texts that differ so, half have a similarity of {middle:.2f} or more, and 99 % "
        f"of {low:.2f} or more"
    )
    if not aim.is_part and aim.differing > _RARE and units * aim.differing < 1.0:
        why = f"texts are short, with {units:,.0f} units in the middle: {why}"
    return why


def _around(histogram: SimilarityHistogram, place: int) -> float:
    """Return the pairs in the two slices beside a threshold."""
    return sum(part.pairs for part in histogram.slices[max(place - 1, 0) : place + 1])


def choice_of(
    name: str,
    purpose: str,
    threshold: float,
    reason: str,
    *,
    params: IndexParams,
    counts: SimilarityCounts,
    command: Sequence[str],
) -> Choice:
    """Estimate yield and cost of an index with a threshold and the counted shingles.

    Parameters
    ----------
    name, purpose, reason : str
    threshold : float
    params : IndexParams
        Gives the recall, the scheme and the number of slots.
    counts : SimilarityCounts
    command : sequence of str
        What makes the index, as words.
    """
    options: dict[str, Any] = {
        "recall": min(params.recall, _MOST_RECALL),
        "num_perm": params.num_perm,
    }
    chosen = CreateOptions(threshold=threshold, scheme=params.scheme, **options).params()
    documents = max(counts.documents, 2)
    cost = estimate(documents=documents, threshold=threshold, scheme=params.scheme, **options)
    pairs, lower, upper = counts.at_least(threshold)
    levels, numbers = counts.means()
    chances = [chosen.recall_at(float(level)) for level in levels]
    candidates = float(sum(c * n for c, n in zip(chances, numbers.tolist(), strict=True)))
    first = round(threshold * 100)
    n_found = float(
        sum(c * n for c, n in zip(chances[first:], numbers[first:].tolist(), strict=True))
    )
    n_bytes = cost.signature_bytes + cost.posting_bytes + cost.document_bytes
    choice = Choice(
        aim=name, purpose=purpose, unit=counts.unit, k=counts.k, threshold=threshold,
        bands=chosen.bands, rows=chosen.rows, num_perm=chosen.num_perm, recall=chosen.recall,
        pairs=pairs, lower=lower, upper=upper, compared=counts.compared, found=n_found,
        candidates=candidates, bytes=n_bytes, add_seconds=cost.add_seconds, reason=reason,
        words="", command=" ".join(command),
    )  # fmt: skip
    return replace(choice, words=_words(choice, counts))


def _words(choice: Choice, counts: SimilarityCounts) -> str:
    """Describe yield and cost of a choice in sentences."""
    is_exact = counts.compared == counts.documents
    pairs = f"{choice.pairs:,.0f} pairs" if choice.pairs else "No pairs"
    if not is_exact:
        about = f"About {pairs}" if choice.pairs else pairs
        pairs = f"{about} (between {choice.lower:,.0f} and {choice.upper:,.0f})"
    unit = _UNITS.get(choice.unit, choice.unit) + ("s" if choice.k > 1 else "")
    expected = choice.found / choice.pairs if choice.pairs else choice.recall
    wrong = max(choice.candidates - choice.found, 0.0)
    return (
        f"Finds {choice.purpose}. {pairs} are at {choice.threshold:g} or more, by shingles of "
        f"{choice.k} {unit}. {choice.bands} bands of {choice.rows} rows find {expected:.1%} of "
        f"such pairs and compare {wrong:,.0f} other pairs in vain. The documents take "
        f"{_size(choice.bytes)} besides their texts, and some {_seconds(choice.add_seconds)} to "
        "add."
    )


_UNITS = {"char": "character", "tokenizer": "token", "url": "URL token", "url-host": "URL token"}


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1g} s"


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"
