"""Compute the levels of pairs in a sample of documents, to choose bands that tell them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from lshdb.arguments import check_items
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import choose_params
from lshdb.signatures.families import family_of
from lshdb.signatures.random_numbers import key_stream

__all__ = ["MOST_BODIES", "params_for", "sample_levels"]

MOST_BODIES = 2_000
_FEWEST = 50
_PAIRS = 20_000


def sample_levels(sample: Iterable[Any], options: Mapping[str, Any]) -> list[float]:
    """Return the exact levels of random pairs of a sample.

    Parameters
    ----------
    sample : iterable
        Bodies; the first 2,000 are used. Bodies that the index would reject are left out, because
        the input may hold some.
    options : mapping
        Options of the index to create, as for :func:`~lshdb.params.options.choose_params`; those
        that only decide what is found make no difference.

    Returns
    -------
    list of float
        The levels of up to 20,000 pairs, the same each time; empty for fewer than 50 bodies, which
        are too few.

    Raises
    ------
    ParameterError
        An option cannot be used, or the sample is not an iterable of bodies.
    """
    hint = "pass the bodies alone, such as [text for key, text in documents]"
    check_items("sample", sample, "an iterable of bodies", hint=hint)
    some = list(itertools.islice(sample, MOST_BODIES))
    if any(hasattr(body, "body") for body in some):
        raise ParameterError("the sample holds documents; expected bodies", hint=hint)
    plain = {**options, "bands": 1, "rows": 1, "recall": None, "num_perm": None}
    if plain.get("metric") in ("l1", "l2"):
        plain["width"] = plain.get("width") or 1.0
    family = family_of(choose_params(**plain))
    some = [body for body in some if family.refusal(body) is None]
    points = [point for point in family.points(family.contents(some)) if family.size(point)]
    if len(points) < _FEWEST:
        return []
    n = np.uint64(len(points))
    left = (key_stream(0, 0, _PAIRS) % n).astype(np.int64)
    other = (key_stream(0, _PAIRS, _PAIRS) % (n - np.uint64(1))).astype(np.int64)
    right = (left + 1 + other) % len(points)
    levels = family.levels([points[one] for one in left], [points[one] for one in right])
    return [float(level) for level in levels]


def params_for(options: Mapping[str, Any], sample: Iterable[Any] | None) -> IndexParams:
    """Complete the parameters, and choose the bands for a sample if there is one.

    Parameters
    ----------
    options : mapping
        As for :func:`~lshdb.params.options.choose_params`.
    sample : iterable or None
        Bodies.

    Raises
    ------
    InputError, ParameterError
        As the two functions raise them.
    """
    if isinstance(options.get("stop_tokens"), Iterator):  # an iterator can be read only once
        options = {**options, "stop_tokens": list(options["stop_tokens"])}
    levels = [] if sample is None else sample_levels(sample, options)
    return choose_params(**options, levels=levels or None)
