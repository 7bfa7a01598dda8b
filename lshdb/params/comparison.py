"""Compare the parameters that a caller expects with those of an index.

The caller names parameters as when creating an index: by their own names, or as those options of
:meth:`lshdb.Index.create` that are stored in another form (``lowercase`` as a step of the
normalisation, stop tokens as one string).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from lshdb.errors import ParameterError, ParameterMismatchError
from lshdb.params.index_params import IndexParams
from lshdb.shingling import stop_token_list

__all__ = ["check_equal", "check_expected"]

_MOST_SHOWN = 200
_OF_BANDS = frozenset({"threshold", "recall", "bands", "rows"})
_BANDING_HINT = "lshdb reband changes threshold, recall and bands of an index in place"
_OTHER_HINT = "lshdb reindex makes another index, with other parameters, from the stored texts"


def check_expected(
    path: object, params: IndexParams, expected: Mapping[str, Any], *, others: Mapping[str, Any]
) -> None:
    """Compare the expected parameters with those of an index.

    Parameters
    ----------
    path : path-like
        The index, for messages.
    params : IndexParams
    expected : mapping
        Name to value.
    others : mapping
        What the index stores besides its parameters, name to value.

    Raises
    ------
    ParameterError
        A name is not a parameter.
    ParameterMismatchError
        A value differs; the error names both.
    """
    stored: dict[str, Any] = {**params.items(), **params.options(), **others}
    for name, value in expected.items():
        if name not in stored:
            raise ParameterError(
                f"unknown parameter {name!r}", hint="use one of " + ", ".join(stored)
            )
        if name == "stop_tokens":
            value = stop_token_list(value, params.normalisation)
        if stored[name] != value:
            raise ParameterMismatchError(
                f"the index {path} was made with {name} = {_shortened(stored[name])}, "
                f"but {_shortened(value)} was given",
                name=name,
                stored=stored[name],
                given=value,
                hint=_BANDING_HINT if name in _OF_BANDS else _OTHER_HINT,
            )


def check_equal(
    here: tuple[object, IndexParams],
    there: tuple[object, IndexParams],
    *,
    may_differ: Container[str],
    hint: str,
) -> None:
    """Compare the parameters of two indexes.

    Parameters
    ----------
    here, there : tuple of path-like and IndexParams
    may_differ : container of str
        Parameters that are not compared.
    hint : str
        The hint of the error.

    Raises
    ------
    ParameterMismatchError
        A parameter differs; the error names both values.
    """
    (path, params), (other_path, other_params) = here, there
    others = other_params.items()
    for name, value in params.items().items():
        if name not in may_differ and others[name] != value:
            raise ParameterMismatchError(
                f"{name} is {_shortened(value)} in {path} and "
                f"{_shortened(others[name])} in {other_path}",
                name=name,
                stored=value,
                given=others[name],
                hint=hint,
            )


def _shortened(value: object) -> str:
    text = repr(value)
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"
    )
