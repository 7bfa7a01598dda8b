"""Values that a caller gives, checked: what is no number of the kind asked for is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any, TypeVar

from lshdb.errors import ParameterError

__all__ = [
    "check_flag",
    "check_items",
    "check_key",
    "check_seconds",
    "check_whole",
    "lone_surrogate",
    "plain_number",
    "validate_body",
]

Item = TypeVar("Item")


def check_items(
    name: str, value: Iterable[Item], expected: str, *, hint: str | None = None
) -> Iterable[Item]:
    """The value; a ParameterError unless it is an iterable whose items can be what is expected.

    Strings, bytes and mappings are iterables too, of characters, numbers and keys, which nobody
    means who hands one over.
    """
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected {expected}",
            hint=hint,
        )
    return value


def check_key(name: str, value: object) -> str:
    """The value; a ParameterError unless it is a string, as every key is."""
    if not isinstance(value, str):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected a string",
            hint="keys are strings: str(17) is the key of what came in under the number 17",
        )
    return value


def check_whole(name: str, value: object, low: int, *, unit: str = "") -> int:
    """The value as an int; a ParameterError unless it is a whole number from ``low`` on."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r:.80}; expected a whole number")
    if value < low:
        raise ParameterError(f"{name} is {int(value)}{unit}; expected at least {low}{unit}")
    return int(value)


def check_seconds(name: str, value: object) -> float:
    """The value as a float; a ParameterError unless it is a number from 0 on; infinity is one."""
    if isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0.0:
        return float(value)
    raise ParameterError(f"{name} is {value!r:.80}; expected a number of seconds from 0 on")


def check_flag(name: str, value: object) -> bool:
    """The value; a ParameterError unless it is True or False."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r:.80}; expected True or False")
    return value


def plain_number(value: Any) -> Any:
    """A number of another library, NumPy's scalars say, as Python's own; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def validate_body(body: object) -> str | None:
    """Say why a body cannot be used.

    Parameters
    ----------
    body : str, list of str, tuple of str or set of str
        A text or ready tokens; anything else is a reason.

    Returns
    -------
    str or None
        The reason in one line, or None if the body is good. Costs one pass over the text.
    """
    if isinstance(body, str):
        position = lone_surrogate(body)
        if position is not None:
            return f"the text holds a lone surrogate at character {position + 1}"
        return None
    if not isinstance(body, list | tuple | AbstractSet):
        return (
            f"the text is of type {type(body).__name__}, expected a string, or a list, tuple or "
            "set of strings"
        )
    for number, token in enumerate(body, start=1):
        if not isinstance(token, str):
            fault = f"is of type {type(token).__name__}, expected a string"
        elif lone_surrogate(token) is not None:
            fault = "holds a lone surrogate"
        else:
            continue
        which = repr(token)[:40] if isinstance(body, AbstractSet) else str(number)
        return f"token {which} {fault}"
    return None


def lone_surrogate(text: str) -> int | None:
    """Index of the first lone surrogate."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return error.start
    return None
