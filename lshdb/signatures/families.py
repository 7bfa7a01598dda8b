"""Parameters -> the family of hash functions of an index."""

from __future__ import annotations

from collections.abc import Callable

from lshdb.params import IndexParams
from lshdb.shingling import Shingler
from lshdb.signatures.family import Family

__all__ = ["family_of"]


def family_of(params: IndexParams, split: Callable[[str], list[str]] | None = None) -> Family:
    """The family of an index.

    Parameters
    ----------
    params : IndexParams
    split : callable, optional
        Normalised text -> tokens, for unit ``tokenizer``.

    Raises
    ------
    ParameterError
        The unit is ``tokenizer`` and there is no function that splits.
    """
    from lshdb.signatures.sets import SetFamily

    return SetFamily(params, Shingler.of(params, split))
