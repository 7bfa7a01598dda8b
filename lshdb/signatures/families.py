"""Choose the family of hash functions for parameters, and the parameters for a sample of bodies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lshdb.arguments import check_items
from lshdb.arrays import np
from lshdb.errors import ParameterError
from lshdb.kernel.random_numbers import key_stream
from lshdb.params.index_params import IndexParams, check_metric
from lshdb.params.metrics import METRICS
from lshdb.shingling import Shingler
from lshdb.signatures.family import Family

if TYPE_CHECKING:
    from lshdb.params.options import CreateOptions

__all__ = [
    "MOST_BODIES",
    "family_of",
    "params_for",
    "sample_levels",
]


def family_of(params: IndexParams, split: Callable[[str], list[str]] | None = None) -> Family:
    """Return the family of an index.

    Parameters
    ----------
    params : IndexParams
    split : callable, optional
        Normalised text -> tokens, for unit ``tokenizer``.

    Raises
    ------
    ParameterError
        The unit is ``tokenizer`` and there is no function to split texts.
    """
    module, name = params.kind.families[params.scheme].split(".")
    family = getattr(import_module(f"lshdb.signatures.{module}"), name)
    arguments = () if params.kind.is_dense else (Shingler.of(params, split),)
    instance: Family = family(params, *arguments)
    return instance


MOST_BODIES = 2_000
_FEWEST = 50
_PAIRS = 20_000


def sample_levels(sample: Iterable[Any], options: CreateOptions) -> list[float]:
    """Exact levels of random pairs of a sample.

    Parameters
    ----------
    sample : iterable
        Bodies; of more than 2,000 the first ones are taken. Those that could be no document's are
        left out: an input from which a sample is taken may have some.
    options : CreateOptions
        Of the index that is to be made; those that only decide what is found make no difference.

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
    bodies = list(itertools.islice(sample, MOST_BODIES))
    if any(hasattr(body, "body") for body in bodies):
        raise ParameterError("the sample holds documents; expected bodies", hint=hint)
    plain = replace(options, bands=1, rows=1, recall=None, num_perm=None)
    check_metric(options.metric)
    if METRICS[options.metric].takes_width:
        plain = replace(plain, width=options.width or 1.0)
    family = family_of(plain.params())
    bodies = [body for body in bodies if family.refusal(body) is None]
    points = [point for point in family.points(family.contents(bodies)) if family.size(point)]
    if len(points) < _FEWEST:
        return []
    n = np.uint64(len(points))
    left = (key_stream(0, 0, _PAIRS) % n).astype(np.int64)
    ahead = (key_stream(0, _PAIRS, _PAIRS) % (n - np.uint64(1))).astype(np.int64)
    right = (left + 1 + ahead) % len(points)
    levels = family.levels([points[place] for place in left], [points[place] for place in right])
    return [float(level) for level in levels]


def params_for(options: CreateOptions, sample: Iterable[Any] | None) -> IndexParams:
    """Complete parameters, with bands that are chosen for a sample of bodies where there is one.

    Raises
    ------
    InputError, ParameterError
        As :func:`sample_levels` and :meth:`CreateOptions.params` raise them.
    """
    levels = [] if sample is None else sample_levels(sample, options)
    return options.params(levels or None)
