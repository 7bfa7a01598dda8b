"""Index parameters: what is stored with an index, the S-curve, and the choice of bands.

Parameters are part of the data. They are fixed when an index is made; everything that opens it
compares and refuses what differs (:class:`lshdb.errors.ParameterMismatchError`).

The S-curve: with b bands of r rows, two documents of similarity s become a candidate pair with
probability 1 - (1 - s^r)^b (Mining of Massive Datasets, section 3.4.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeGuard

from lshdb.errors import ParameterError
from lshdb.shingling import (
    DEFAULT_STOP_TOKENS,
    NORMALISATION,
    UNITS,
    join_steps,
    parse_steps,
    stop_token_list,
)
from lshdb.values import check_flag

__all__ = ["FORMAT", "IndexParams", "candidate_probability", "choose_bands"]

FORMAT = 1
"""Number of the on-disk format that this version writes and reads."""

_MAX_BANDS = 255
_MAX_NUM_PERM = 4096

# The corpus that the choice of bands has in mind: a million documents whose unrelated pairs have
# similarities that fall off exponentially with mean 0.05. Shingles of common phrases and
# boilerplate make such pairs; it is their number that r rows a band cut down.
_TYPICAL_DOCUMENTS = 1e6
_TYPICAL_BACKGROUND = 0.05


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """Probability 1 - (1 - s^r)^b that a pair of that similarity shares a bucket.

    Parameters
    ----------
    similarity : float
        s, 0 to 1.
    bands, rows : int
        b and r.

    Returns
    -------
    float
        Exact to rounding also where s^r is tiny.
    """
    if similarity >= 1.0:
        return 1.0
    return -math.expm1(bands * math.log1p(-(similarity**rows)))


def _false_candidates(threshold: float, bands: int, rows: int, steps: int = 200) -> float:
    """Expected candidates below the threshold, for one document of the typical corpus."""
    width = threshold / steps
    mass = 0.0
    for step in range(steps):
        s = (step + 0.5) * width
        density = math.exp(-s / _TYPICAL_BACKGROUND) / _TYPICAL_BACKGROUND
        mass += candidate_probability(s, bands, rows) * density * width
    return _TYPICAL_DOCUMENTS * mass


def choose_bands(threshold: float, recall: float, num_perm: int) -> tuple[int, int]:
    """Choose (bands, rows) so that a pair at the threshold is found with probability >= recall.

    Among all (b, r) with b r <= num_perm and 1 - (1 - t^r)^b >= R, take the one with the lowest
    cost a document: b postings, and the false candidates expected in a corpus of a million
    documents whose unrelated pairs have exponentially distributed similarity with mean 0.05. A
    candidate counts as much as a posting. The index verifies its candidates, so recall is a
    condition and not a term of the cost: an optimiser that weighs misses against false candidates
    finds only 40 % of the pairs at exactly t = 0.8 (9 bands of 13 rows).

    Parameters
    ----------
    threshold : float
        t, above 0 and up to 1.
    recall : float
        R, above 0 and below 1.
    num_perm : int
        Slots of a signature.

    Returns
    -------
    tuple of int
        bands, rows.

    Raises
    ------
    ParameterError
        Where no choice reaches the recall.
    """
    best: tuple[float, int, int] | None = None
    for rows in range(1, num_perm + 1):
        agree = threshold**rows
        if agree >= 1.0:
            bands = 1
        elif agree < 1e-12:
            break
        else:
            bands = max(1, math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9))
        if bands * rows > num_perm or bands > _MAX_BANDS:
            continue
        if candidate_probability(threshold, bands, rows) < recall:
            bands += 1
            if bands * rows > num_perm or bands > _MAX_BANDS:
                continue
        cost = bands + _false_candidates(threshold, bands, rows)
        if best is None or cost < best[0]:
            best = (cost, bands, rows)
    if best is None:
        raise ParameterError(
            f"no bands and rows within {num_perm} slots find a pair at similarity {threshold:g} "
            f"with probability {recall:g}",
            hint="raise --num-perm, or lower --recall, or raise --threshold",
        )
    return best[1], best[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexParams:
    """The parameters an index was made with.

    Attributes
    ----------
    metric : str
        ``"jaccard"``.
    scheme : {"fss", "universal"}
        Min-hash scheme.
    num_perm : int
        Slots of a signature, 1 to 4096.
    seed : int
        Of the scheme's hash functions, 0 to 2^63 - 1.
    bands, rows : int
        b and r; bands 1 to 255, bands * rows at most num_perm.
    threshold : float
        Similarity from which on pairs are near-duplicates, inclusive; above 0, up to 1.
    recall : float
        Probability that a pair at the threshold is found.
    unit : {"word", "char", "byte", "line", "token", "url", "tokenizer"}
        What shingles are made of.
    k : int
        Units a shingle, 1 to 255.
    bag : bool
        Whether repeated shingles count again.
    normalisation : str
        The steps of the normalisation (:mod:`lshdb.shingling.normalise`).
    stop_tokens : str
        Tokens left out of URLs, sorted and joined by blanks; empty unless the unit is ``url``.
    tokenizer : str
        Name and version of the tokenizer, with a blank between; empty unless the unit is
        ``tokenizer``.
    store_text : bool
        Whether texts are kept for exact verification.
    """

    metric: str = "jaccard"
    scheme: str = "fss"
    num_perm: int = 128
    seed: int = 1
    bands: int
    rows: int
    threshold: float
    recall: float
    unit: str = "word"
    k: int = 5
    bag: bool = False
    normalisation: str = NORMALISATION
    stop_tokens: str = ""
    tokenizer: str = ""
    store_text: bool = True

    def __post_init__(self) -> None:
        _check("metric", self.metric, self.metric == "jaccard", '"jaccard"')
        _check("scheme", self.scheme, self.scheme in ("fss", "universal"), '"fss" or "universal"')
        _check_unit(self.unit)
        parse_steps(self.normalisation)
        _check_stop_tokens(self.unit, self.stop_tokens)
        _check_tokenizer(self.unit, self.tokenizer)
        _check_integer("num_perm", self.num_perm, 1, _MAX_NUM_PERM)
        _check_integer("seed", self.seed, 0, 2**63 - 1)
        _check_integer("bands", self.bands, 1, _MAX_BANDS)
        _check_integer("rows", self.rows, 1, _MAX_NUM_PERM)
        _check_integer("k", self.k, 1, 255)
        _check_threshold(self.threshold)
        good = _is_number(self.recall) and 0.0 <= self.recall <= 1.0
        _check("recall", self.recall, good, "a number from 0 to 1")
        check_flag("bag", self.bag)
        check_flag("store_text", self.store_text)
        if self.bands * self.rows > self.num_perm:
            raise ParameterError(
                f"{self.bands} bands of {self.rows} rows need {self.bands * self.rows} slots "
                f"and a signature has num_perm = {self.num_perm}",
                hint="raise --num-perm, or lower --bands or --rows",
            )

    @classmethod
    def choose(
        cls,
        *,
        threshold: float = 0.8,
        recall: float | None = None,
        bands: int | None = None,
        rows: int | None = None,
        num_perm: int = 128,
        unit: str | None = None,
        k: int | None = None,
        scheme: str = "fss",
        seed: int = 1,
        bag: bool = False,
        lowercase: bool | None = None,
        strip_accents: bool = False,
        strip_punctuation: bool = False,
        digits: str = "keep",
        stop_tokens: Iterable[str] | None = None,
        tokenizer: str = "",
        store_text: bool = True,
    ) -> IndexParams:
        """Complete parameters from what a user gives: bands from threshold and recall, k from unit.

        Parameters
        ----------
        threshold : float
            Above 0, up to 1.
        recall : float, optional
            Promised probability of finding a pair at the threshold; 0.99 unless bands are given.
        bands, rows : int, optional
            Both or neither, and not together with recall; the recall is then what they give.
        num_perm, scheme, seed, bag, tokenizer, store_text
            As the attributes.
        unit, k : optional
            As the attributes. The unit is ``word``, or ``tokenizer`` where one is given; k goes by
            the unit (``lshdb.shingling.UNITS``).
        lowercase : bool, optional
            Whether letter case is folded; by default for word, char, line and url.
        strip_accents, strip_punctuation : bool
            Whether accents are dropped, and punctuation and symbols turned into blanks.
        digits : {"keep", "zero"}
            Whether every number becomes 0.
        stop_tokens : iterable of str, optional
            For unit ``url``: in place of the default list.

        Raises
        ------
        ParameterError
            A value is out of range, or no bands reach the recall.
        """
        _check_threshold(threshold)
        _check_integer("num_perm", num_perm, 1, _MAX_NUM_PERM)
        unit = ("tokenizer" if tokenizer else "word") if unit is None else unit
        _check_unit(unit)
        normalisation = _normalisation(unit, lowercase, strip_accents, strip_punctuation, digits)
        if stop_tokens is not None and unit != "url":
            raise ParameterError(
                f"stop_tokens are for unit url, and the unit is {unit}",
                hint="leave --stop-tokens out, or make an index of --unit url",
            )
        if unit == "url":
            given = DEFAULT_STOP_TOKENS if stop_tokens is None else stop_tokens
            recorded_stop_tokens = stop_token_list(given, normalisation)
        else:
            recorded_stop_tokens = ""
        if (bands is None) != (rows is None):
            raise ParameterError("bands and rows are given together or not at all")
        if bands is not None and rows is not None:
            if recall is not None:
                raise ParameterError(
                    "recall chooses bands and rows, so it cannot be given together with them"
                )
            _check_integer("bands", bands, 1, _MAX_BANDS)
            _check_integer("rows", rows, 1, _MAX_NUM_PERM)
            recall = candidate_probability(threshold, bands, rows)
        else:
            recall = 0.99 if recall is None else recall
            good = _is_number(recall) and 0.0 < recall < 1.0
            _check("recall", recall, good, "a number above 0 and below 1")
            bands, rows = choose_bands(threshold, recall, num_perm)
        return cls(
            scheme=scheme,
            num_perm=num_perm,
            seed=seed,
            bands=bands,
            rows=rows,
            threshold=float(threshold),
            recall=float(recall),
            unit=unit,
            k=UNITS[unit].k if k is None else k,
            bag=bag,
            normalisation=normalisation,
            stop_tokens=recorded_stop_tokens,
            tokenizer=tokenizer,
            store_text=store_text,
        )

    def recall_at(self, similarity: float) -> float:
        """Probability that a pair of that similarity is found."""
        return candidate_probability(similarity, self.bands, self.rows)

    def items(self) -> dict[str, str | int | float | bool]:
        """Name to value, in the order of the attributes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def options(self) -> dict[str, str | bool]:
        """The options of :meth:`choose` that are recorded as steps of the normalisation."""
        steps = parse_steps(self.normalisation)
        return {
            "lowercase": "casefold" in steps,
            "strip_accents": "accents" in steps,
            "strip_punctuation": "punctuation" in steps,
            "digits": "zero" if "digits" in steps else "keep",
        }


def _normalisation(
    unit: str, lowercase: bool | None, strip_accents: bool, strip_punctuation: bool, digits: str
) -> str:
    """The unit's own steps, with those that options add and without those they take away."""
    _check("digits", digits, digits in ("keep", "zero"), '"keep" or "zero"')
    steps = set(parse_steps(UNITS[unit].normalisation))
    if lowercase is not None:
        check_flag("lowercase", lowercase)
        steps = steps | {"casefold"} if lowercase else steps - {"casefold"}
    added = {
        "accents": check_flag("strip_accents", strip_accents),
        "punctuation": check_flag("strip_punctuation", strip_punctuation),
        "digits": digits == "zero",
    }
    return join_steps(steps | {step for step, wanted in added.items() if wanted})


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ParameterError(f"{name} is {value!r}; expected {expected}")


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _check(name, value, good, f"a whole number from {low} to {high}")


def _check_threshold(value: object) -> None:
    good = _is_number(value) and 0.0 < value <= 1.0
    _check("threshold", value, good, "a number above 0, up to 1")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_unit(value: object) -> None:
    good = isinstance(value, str) and value in UNITS
    _check("unit", value, good, "one of " + ", ".join(UNITS))


def _check_stop_tokens(unit: str, value: object) -> None:
    good = isinstance(value, str) and value == " ".join(sorted(set(value.split())))
    _check("stop_tokens", value, good, "distinct tokens, sorted, with single blanks between them")
    if value and unit != "url":
        raise ParameterError(f"stop_tokens are for unit url, and the unit is {unit}")


def _check_tokenizer(unit: str, value: object) -> None:
    expected = "a name and a version with a blank between them"
    if unit == "tokenizer" and value == "":
        raise ParameterError(
            "unit tokenizer needs a tokenizer",
            hint="give --tokenizer NAME, or tokenizer= in Python",
        )
    if unit == "tokenizer" or not isinstance(value, str):
        good = isinstance(value, str) and value == " ".join(value.split()) and value.count(" ") == 1
        _check("tokenizer", value, good, expected)
    elif value:
        raise ParameterError(f"a tokenizer is for unit tokenizer, and the unit is {unit}")
