"""What a user gives -> complete parameters: bands from threshold and recall, k from the unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lshdb.arguments import check_flag, plain_number
from lshdb.errors import ParameterError
from lshdb.params.bands import (
    Background,
    candidate_probability,
    choose_bands,
    choose_width,
    typical_background,
)
from lshdb.params.curves import Curve, curve_of
from lshdb.params.index_params import (
    MAX_WORDS,
    IndexParams,
    check_dim,
    check_metric,
    check_num_perm,
    check_threshold,
    check_width,
    slot_bits,
)
from lshdb.params.metrics import DTYPES, METRICS
from lshdb.shingling import (
    DEFAULT_STOP_TOKENS,
    UNITS,
    join_steps,
    parse_steps,
    stop_token_list,
)

__all__ = ["check_recall", "choose_params"]

_NUM_PERM = 128
_LEAST_BITS = 256
"""Bits of a signature at least: with fewer an estimate says little."""
_MOST_BITS = 16_384
_SLOT_COST = 1.0 / 160.0
"""Of a bit of a signature, in postings, which take some 20 bytes."""


def choose_params(
    *,
    metric: str = "jaccard",
    threshold: float | None = None,
    recall: float | None = None,
    bands: int | None = None,
    rows: int | None = None,
    num_perm: int | None = None,
    scheme: str | None = None,
    seed: int = 1,
    dim: int | None = None,
    dtype: str | None = None,
    width: float | None = None,
    levels: Iterable[float] | None = None,
    store_text: bool = True,
    **of_texts: Any,
) -> IndexParams:
    """Complete parameters from what a user gives.

    Parameters
    ----------
    metric : str
    threshold : float, optional
        Similarity or distance; 0.8 for similarities, and to be given for distances.
    recall : float, optional
        Promised probability of finding a pair at the threshold; 0.99 unless bands are given.
    bands, rows : int, optional
        Both or neither, and not together with recall; the recall is then what they give.
    num_perm : int, optional
        Slots; for sets 128. For vectors and bits as many as the bands need, and 256 bits at least.
    scheme : str, optional
        The metric's first by default.
    seed, store_text
        As the attributes of :class:`IndexParams`.
    dim : int, optional
        Needed for vectors and bits.
    dtype : str, optional
        For vectors; ``float32`` by default. That of an array, if it is one of them, will do.
    width : float, optional
        For l1 and l2, chosen with the bands by default; for scheme ``unary``, needed.
    levels : iterable of float, optional
        Of pairs of a sample of documents: what the bands, and the width, have to hold apart from
        the threshold. A typical corpus by default.
    unit, k, bag, lowercase, strip_accents, strip_punctuation, digits, stop_tokens, tokenizer
        For texts, as of :meth:`lshdb.Index.create`.

    Raises
    ------
    ParameterError
        A value is out of range, is not for the metric, or no bands reach the recall.
    """
    threshold, recall, bands, rows = map(plain_number, (threshold, recall, bands, rows))
    num_perm, seed, dim, width = map(plain_number, (num_perm, seed, dim, width))
    check_metric(metric)
    kind = METRICS[metric]
    scheme = kind.schemes[0] if scheme is None else scheme
    if scheme not in kind.schemes:
        raise ParameterError(
            f"scheme is {scheme!r}; expected {' or '.join(map(repr, kind.schemes))} "
            f"for metric {metric}"
        )
    threshold = _threshold(metric, threshold)
    if num_perm is not None:
        check_num_perm(num_perm, scheme)
    fixed: dict[str, Any] = {"metric": metric, "scheme": scheme, "seed": seed}
    fixed["store_text"] = store_text
    if kind.is_dense:
        fixed |= _vector_options(metric, dim, dtype, of_texts)
    else:
        for name, value in (("dim", dim), ("dtype", dtype)):
            if value is not None:
                raise ParameterError(f"{name} is for vectors, and the metric is {metric}")
        fixed |= _text_options(metric, **of_texts)
    most = num_perm or _most_slots(metric, scheme)
    promised = 0.99 if recall is None else recall
    check_recall(promised)
    is_projected = scheme in ("cauchy", "gaussian")
    if width is not None or not is_projected:
        check_width(scheme, width or 0.0)
    level = 0.0 - threshold if kind.is_distance else threshold
    slot_cost = _SLOT_COST * slot_bits(scheme) if kind.is_dense and num_perm is None else 0.0
    if levels is None:
        any_curve = curve_of(metric, scheme, dim=dim or 1, width=width or 1.0)
        far = typical_background(metric, any_curve, level)
    else:
        far = Background.of_sample(metric, list(levels), level)
    far = replace(far, slot_cost=slot_cost)
    if is_projected and width is None:
        width = choose_width(scheme, level, promised, most, far)
    curve = curve_of(metric, scheme, dim=dim or 0, width=width or 0.0)
    if (bands is None) != (rows is None):
        raise ParameterError("bands and rows are given together or not at all")
    if bands is not None and rows is not None:
        if recall is not None:
            raise ParameterError(
                "recall chooses bands and rows, so it cannot be given together with them"
            )
        promised = _given_recall(curve, level, bands, rows)
    else:
        bands, rows = choose_bands(level, promised, most, curve=curve, background=far)
    return IndexParams(
        bands=bands,
        rows=rows,
        num_perm=num_perm or _slots_for(scheme, bands * rows, is_estimate=not store_text),
        threshold=float(threshold),
        recall=float(promised),
        width=float(width or 0.0),
        **fixed,
    )


def _threshold(metric: str, threshold: float | None) -> float:
    threshold = METRICS[metric].threshold if threshold is None else threshold
    if threshold is None:
        raise ParameterError(
            f"metric {metric} is a distance, and has no usual threshold",
            hint="give --threshold, the largest distance that counts as near",
        )
    check_threshold(metric, threshold)
    return threshold


def check_recall(recall: object) -> None:
    """Refuse what is no promised probability."""
    recall = plain_number(recall)
    if not (isinstance(recall, int | float) and recall is not True and 0.0 < recall < 1.0):
        raise ParameterError(f"recall is {recall!r}; expected a number above 0 and below 1")


def _given_recall(curve: Curve, level: float, bands: int, rows: int) -> float:
    """What bands and rows give; they are checked first."""
    for name, value in (("bands", bands), ("rows", rows)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ParameterError(f"{name} is {value!r}; expected a whole number from 1 on")
    return candidate_probability(curve.probability(level), bands, rows)


def _most_slots(metric: str, scheme: str) -> int:
    if not METRICS[metric].is_dense or (slot_bits(scheme) == 32 and metric == "jaccard-bits"):
        return _NUM_PERM
    return _MOST_BITS if slot_bits(scheme) == 1 else MAX_WORDS


def _slots_for(scheme: str, used: int, *, is_estimate: bool) -> int:
    """Slots of a signature of which so many are used by bands; more where it is all there is."""
    if slot_bits(scheme) == 1:
        return max(_LEAST_BITS * (4 if is_estimate else 1), -(-used // 32) * 32)
    if scheme not in ("cauchy", "gaussian"):
        return _NUM_PERM
    return max(used, _NUM_PERM) if is_estimate else used


def _vector_options(
    metric: str, dim: int | None, dtype: str | None, of_texts: dict[str, Any]
) -> dict[str, Any]:
    for name, value in of_texts.items():
        if value not in (None, False, "", "keep"):
            raise ParameterError(
                f"{name} is for texts, and the metric is {metric}", hint=f"leave {name} out"
            )
    if dim is None:
        raise ParameterError(
            f"metric {metric} needs the dimension of its vectors",
            hint="give --dim, or let lshdb add make the index, which takes it from the input",
        )
    check_dim(dim)
    is_bits = METRICS[metric].body == "bits"
    # That of an array is none of its names, but says one.
    return {"dim": dim, "dtype": str(dtype or ("bits" if is_bits else DTYPES[0]))}


def _text_options(
    metric: str,
    *,
    unit: str | None = None,
    k: int | None = None,
    bag: bool = False,
    lowercase: bool | None = None,
    strip_accents: bool = False,
    strip_punctuation: bool = False,
    digits: str = "keep",
    stop_tokens: Iterable[str] | None = None,
    tokenizer: str = "",
) -> dict[str, Any]:
    unit = ("tokenizer" if tokenizer else "word") if unit is None else unit
    if unit not in UNITS:
        raise ParameterError(f"unit is {unit!r}; expected one of " + ", ".join(UNITS))
    if bag and metric == "weighted-jaccard":
        raise ParameterError(
            "bag counts repeated shingles, and so do weights already", hint="leave --bag out"
        )
    normalisation = _normalisation(unit, lowercase, strip_accents, strip_punctuation, digits)
    if stop_tokens is not None and unit != "url":
        raise ParameterError(
            f"stop_tokens are for unit url, and the unit is {unit}",
            hint="leave --stop-tokens out, or make an index of --unit url",
        )
    recorded = ""
    if unit == "url":
        given = DEFAULT_STOP_TOKENS if stop_tokens is None else stop_tokens
        recorded = stop_token_list(given, normalisation)
    return {
        "unit": unit,
        "k": UNITS[unit].k if k is None else plain_number(k),
        "bag": bag,
        "normalisation": normalisation,
        "stop_tokens": recorded,
        "tokenizer": tokenizer,
    }


def _normalisation(
    unit: str, lowercase: bool | None, strip_accents: bool, strip_punctuation: bool, digits: str
) -> str:
    """The unit's own steps, with those that options add and without those they take away."""
    if digits not in ("keep", "zero"):
        raise ParameterError(f'digits is {digits!r}; expected "keep" or "zero"')
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
