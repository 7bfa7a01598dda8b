"""Choose the family of hash functions for an index's parameters."""

from __future__ import annotations

from collections.abc import Callable

from lshdb.params.index_params import IndexParams
from lshdb.shingling import Shingler
from lshdb.signatures.family import Family

__all__ = ["family_of"]


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
    if params.kind.is_dense:
        return _dense_family(params)
    shingler = Shingler.of(params, split)
    if params.metric == "weighted-jaccard":
        from lshdb.signatures.weighted import WeightedFamily

        return WeightedFamily(params, shingler)
    from lshdb.signatures.sets import SetFamily

    return SetFamily(params, shingler)


def _dense_family(params: IndexParams) -> Family:
    """Return the family of vectors or bits; modules are imported only when needed."""
    if params.metric == "hamming":
        from lshdb.signatures.bits import SampledBitFamily

        return SampledBitFamily(params)
    if params.metric == "jaccard-bits":
        from lshdb.signatures.bits import BitSetFamily

        return BitSetFamily(params)
    if params.scheme == "hyperplane":
        from lshdb.signatures.hyperplanes import HyperplaneFamily

        return HyperplaneFamily(params)
    if params.scheme == "hadamard":
        from lshdb.signatures.hyperplanes import HadamardFamily

        return HadamardFamily(params)
    if params.scheme == "unary":
        from lshdb.signatures.bits import UnaryFamily

        return UnaryFamily(params)
    from lshdb.signatures.stable import StableFamily

    return StableFamily(params)
