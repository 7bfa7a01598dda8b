"""What people want to find, as a shingle and a threshold.

An aim says how two texts differ: a share p of their words. A shingle of k words survives with
probability q = (1 - p)^k, so two texts of which a share p differs have the similarity q / (2 - q).
The shingle is the longest of the usual ones with which that is 0.5 or more, since long shingles
tell texts apart that use the same words, and bands for a high threshold are cheap. The threshold is
that similarity, rounded down to a multiple of 0.05; or beside it, where there are fewest pairs:
then least depends on where the line is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lshdb.advice.advice import Choice, SimilarityHistogram
from lshdb.advice.similarity_counts import PairCounts
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions
from lshdb.signatures.estimates import tune

__all__ = ["AIMS", "Aim", "aims", "check_aim", "choice_of", "shingle_for", "threshold_for"]


@dataclass(frozen=True, slots=True)
class Aim:
    """What somebody wants to find.

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
_WORD_CHARACTERS = 6
_USABLE = 0.5
_RARE = 0.01
"""An aim that allows no more differing words finds texts without one as well as it can."""
_LOWEST, _HIGHEST, _STEP = 0.3, 0.95, 0.05
_REACH = 2
_EMPTIER = 0.75
"""A threshold moves where slices beside it hold less than this share of those at its own place."""


def aims() -> dict[str, Aim]:
    """Return what :func:`lshdb.advise` proposes parameters for, by name."""
    return dict(AIMS)


def check_aim(aim: object) -> None:
    """Raise ParameterError if an aim is none of :data:`AIMS`; None stands for all."""
    if aim is not None and aim not in AIMS:
        raise ParameterError(f"aim is {aim!r:.80}; expected one of " + ", ".join(AIMS))


def similarity_of(aim: Aim, unit: str, k: int, units: float) -> float:
    """Return how similar two texts of so many units are that differ as the aim says."""
    if aim.is_part:
        return (1.0 - aim.differing) / (1.0 + aim.differing)
    if unit in ("char", "byte"):
        k, units = k // _WORD_CHARACTERS + 2, units / _WORD_CHARACTERS  # the words a shingle meets
    differing = max(
        aim.differing, min(1.0, 1.0 / max(units, 1.0)) if aim.differing > _RARE else 0.0
    )
    kept = (1.0 - differing) ** k
    return kept / (2.0 - kept)


def shingle_for(aim: Aim, params: IndexParams, units: float, *, is_fixed: bool) -> int:
    """Return how many units a shingle has to have.

    Parameters
    ----------
    aim : Aim
    params : IndexParams
        Its k is taken where it will do.
    units : float
        Units of a text, in the middle of the sample.
    is_fixed : bool
        Whether k may not change.
    """
    unit, k = params.unit, params.k
    if is_fixed or unit not in _SHINGLES or aim.is_part:
        return k
    if similarity_of(aim, unit, k, units) >= _USABLE or aim.differing < _RARE:
        return k
    shorter = [one for one in _SHINGLES[unit] if one < k]
    usable = [one for one in shorter if similarity_of(aim, unit, one, units) >= _USABLE]
    return usable[0] if usable else min([*shorter, k])


def threshold_for(
    aim: Aim, counts: PairCounts, histogram: SimilarityHistogram, units: float
) -> tuple[float, str]:
    """Return a threshold for the shingles that were counted, and the reason in words."""
    expected = similarity_of(aim, counts.unit, counts.k, units)
    place = round(min(max(expected, _LOWEST), _HIGHEST) / _STEP - 0.499)
    first, last = round(_LOWEST / _STEP), round(_HIGHEST / _STEP)
    place = min(max(place, first), last)
    around = [one for one in range(place - _REACH, place + _REACH + 1) if first <= one <= last]
    pairs = {one: _around(histogram, one) for one in around}
    emptiest = min(around, key=lambda one: (pairs[one], abs(one - place)))
    is_valley = all(
        pairs.get(beside, _around(histogram, beside)) > pairs[emptiest]
        for beside in (emptiest - 1, emptiest + 1)
    )
    why = f"two texts that differ so have a similarity of about {expected:.2f}"
    if not aim.is_part and aim.differing > _RARE and units * aim.differing < 1.0:
        why = (
            f"texts are short: one word changed in one of middle length ({units:,.0f}) leaves a "
            f"similarity of about {expected:.2f}"
        )
    if emptiest != place and is_valley and pairs[emptiest] < _EMPTIER * pairs[place]:
        return round(emptiest * _STEP, 2), (
            f"{why}, and near that there are fewest pairs around {emptiest * _STEP:.2f}, so that "
            "least depends on where the line is drawn"
        )
    return round(place * _STEP, 2), why


def _around(histogram: SimilarityHistogram, place: int) -> float:
    """Return the pairs in the two slices beside a threshold."""
    return sum(one.pairs for one in histogram.slices[max(place - 1, 0) : place + 1])


def choice_of(
    name: str,
    purpose: str,
    threshold: float,
    reason: str,
    *,
    params: IndexParams,
    counts: PairCounts,
    command: Sequence[str],
) -> Choice:
    """Say what an index for a threshold and the counted shingles would find and cost.

    Parameters
    ----------
    name, purpose, reason : str
    threshold : float
    params : IndexParams
        Gives the recall, the scheme and the number of slots.
    counts : PairCounts
    command : sequence of str
        What makes the index, as words.
    """
    given: dict[str, Any] = {"recall": min(params.recall, 0.999), "num_perm": params.num_perm}
    made = CreateOptions(threshold=threshold, scheme=params.scheme, **given).params()
    documents = max(counts.documents, 2)
    cost = tune(documents=documents, threshold=threshold, scheme=params.scheme, **given)
    pairs, lower, upper = counts.at_least(threshold)
    levels, numbers = counts.means()
    chances = [made.recall_at(float(level)) for level in levels]
    candidates = float(sum(c * n for c, n in zip(chances, numbers.tolist(), strict=True)))
    first = round(threshold * 100)
    found = float(
        sum(c * n for c, n in zip(chances[first:], numbers[first:].tolist(), strict=True))
    )
    n_bytes = cost.signature_bytes + cost.posting_bytes + cost.document_bytes
    choice = Choice(
        aim=name, purpose=purpose, unit=counts.unit, k=counts.k, threshold=threshold,
        bands=made.bands, rows=made.rows, num_perm=made.num_perm, recall=made.recall,
        pairs=pairs, lower=lower, upper=upper, compared=counts.compared, found=found,
        candidates=candidates, bytes=n_bytes, add_seconds=cost.add_seconds, reason=reason,
        words="", command=" ".join(command),
    )  # fmt: skip
    return replace(choice, words=_words(choice, counts))


def _words(choice: Choice, counts: PairCounts) -> str:
    """Say in sentences what a choice finds and costs."""
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
