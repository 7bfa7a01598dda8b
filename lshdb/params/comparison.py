"""Parameters that a caller expects of an index, compared with those it was made with.

What is expected is named as it was when the index was made: parameters by their own names, and the
options of :meth:`lshdb.Index.create` that are recorded in another form (``lowercase`` as a step of
the normalisation, stop tokens as one string).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from lshdb.errors import ParameterError, ParameterMismatchError
from lshdb.params.index_params import IndexParams
from lshdb.shingling import stop_token_list

__all__ = ["check_equal", "check_expected"]

_MOST_SHOWN = 200


def check_expected(
    path: object, params: IndexParams, expected: Mapping[str, Any], *, others: Mapping[str, Any]
) -> None:
    """Compare what is expected with what an index has.

    Parameters
    ----------
    path : path-like
        Of the index, for messages.
    params : IndexParams
    expected : mapping
        Name to value.
    others : mapping
        What the index has beside its parameters, name to value.

    Raises
    ------
    ParameterError
        There is no parameter of a name.
    ParameterMismatchError
        A value differs; names both.
    """
    stored: dict[str, Any] = {**params.items(), **params.options(), **others}
    for name, value in expected.items():
        if name not in stored:
            raise ParameterError(
                f"there is no parameter {name!r}", hint="one of " + ", ".join(stored)
            )
        if name == "stop_tokens":
            value = stop_token_list(value, params.normalisation)
        if stored[name] != value:
            raise ParameterMismatchError(
                f"the index {path} was made with {name} = {_shortened(stored[name])}, "
                f"and {_shortened(value)} was asked for",
                name=name,
                stored=stored[name],
                given=value,
                hint="parameters are fixed when an index is made; "
                "make another one for other parameters",
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
        What to say with the error.

    Raises
    ------
    ParameterMismatchError
        A parameter differs; names both values.
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
