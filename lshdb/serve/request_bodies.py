"""The body of a request -> the fields of a form, or the request of a program.

All of it is called in the thread of a question, because its time grows with the body. Decoding
cannot be interrupted and holds Python's global lock, so what it may make is bounded before: a body
of 16 MiB can hold 5 million empty lists, which ``json`` takes seconds for.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError

__all__ = [
    "InvalidRequestError",
    "form_fields",
    "json_request",
    "message_of",
    "real_number",
    "whole_number",
]

MOST_FIELDS = 16
"""Fields of a form; ours has three."""
MOST_VALUES = 1_000_000
"""Texts, lists, objects and commas in a body of JSON; it is decoded in a tenth of a second."""

_PIECE = 2**20
_COUNTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[,\[{]', re.DOTALL)
"""A text that does not end goes to the end, so that nothing is looked at twice."""

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidRequestError(Exception):
    """A body is invalid; the message names the part."""


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form as browsers send it; of several with one name, the first.

    Raises
    ------
    InvalidRequestError
        It has no field ``text``, or too many fields.
    """
    fields = body.split(b"&", MOST_FIELDS)
    if len(fields) > MOST_FIELDS:
        raise InvalidRequestError(f"the form has more than {MOST_FIELDS} fields")
    values: dict[str, str] = {}
    for field in fields:
        name, _, value = field.partition(b"=")
        text = _unquoted(value.replace(b"+", b" ")).replace("\r\n", "\n")
        values.setdefault(name.decode("latin-1"), text)
    if "text" not in values:
        raise InvalidRequestError("the form has no field 'text'")
    return values


def _unquoted(value: bytes) -> str:
    """Decode percent signs, piece by piece: decoding takes 20 times the memory of its input."""
    pieces, start = [], 0
    while start < len(value):
        end = start + _PIECE
        cut = value.find(b"%", end - 2, end)  # an escape is not cut in two
        end = max(cut, start + 1) if cut >= 0 else end
        pieces.append(unquote_to_bytes(value[start:end]))
        start = end
    return b"".join(pieces).decode("utf-8", "replace")


def json_request(body: bytes, model: type[_Model]) -> _Model:
    """Parse the request of a program.

    Raises
    ------
    InvalidRequestError
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"the body is not JSON: byte {error.start} is not UTF-8"
        ) from None
    for n, _ in enumerate(_COUNTED.finditer(text)):
        if n >= MOST_VALUES:
            raise InvalidRequestError(f"the body has more than {MOST_VALUES:,} values")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequestError(
            f"the body is not JSON, at character {error.pos}: {error.msg}"
        ) from None
    except ValueError as error:
        raise InvalidRequestError(f"the body holds a number that is too long: {error}") from None
    except RecursionError:
        raise InvalidRequestError("the body is nested too deeply") from None
    if not isinstance(data, dict):
        raise InvalidRequestError("the body is not a JSON object")
    for name in data:
        if name not in model.model_fields:
            raise InvalidRequestError(f"{name[:80]}: there is no such name")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise InvalidRequestError(message_of(first["loc"], first["msg"])) from None


def whole_number(
    values: Mapping[str, str], name: str, default: int, lowest: int, highest: int
) -> int:
    """Return a whole number of a form or an address; the default if it was left empty.

    Raises
    ------
    InvalidRequestError
    """
    text = values.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
        raise InvalidRequestError(
            f"{name} is {text[:40]}; expected a whole number from {lowest:,} to {highest:,}"
        )
    return int(text)


def real_number(values: Mapping[str, str], name: str, default: float) -> float:
    """Return a finite number of a form or an address; the default if it was left empty.

    Raises
    ------
    InvalidRequestError
    """
    text = values.get(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidRequestError(f"{name} is {text[:40]}; expected a number such as {default:g}")
    return number


def message_of(where: tuple[Any, ...], message: str) -> str:
    """Return the part of a request that is wrong, and its fault."""
    return f"{'.'.join(str(part) for part in where)}: {message.removeprefix('Value error, ')}"
