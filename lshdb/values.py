"""Values that a caller gives, checked: what is no number of the kind asked for is refused."""

from __future__ import annotations

from numbers import Integral, Real

from lshdb.errors import ParameterError

__all__ = ["check_flag", "check_seconds", "check_share", "check_whole"]


def check_whole(name: str, value: object, low: int, *, unit: str = "") -> int:
    """The value as an int; a ParameterError unless it is a whole number from ``low`` on."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r:.80}; expected a whole number")
    if value < low:
        raise ParameterError(f"{name} is {int(value)}{unit}; expected at least {low}{unit}")
    return int(value)


def check_share(name: str, value: object) -> float:
    """The value as a float; a ParameterError unless it is a number above 0 and up to 1."""
    if isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) <= 1.0:
        return float(value)
    raise ParameterError(f"{name} is {value!r:.80}; expected a number above 0, up to 1")


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
