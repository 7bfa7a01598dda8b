"""The body of a request -> the text of a form, or the request of a program.

All of it is called in the thread of a question, because its time grows with the body. Decoding
cannot be interrupted and holds Python's global lock, so what it may make is bounded before: a body
of 16 MiB can hold 5 million empty lists, which ``json`` takes seconds for.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError

__all__ = ["InvalidRequestError", "form_text", "json_request", "message_of"]

MOST_FIELDS = 16
"""Fields of a form; ours has one."""
MOST_VALUES = 1_000_000
"""Texts, lists, objects and commas in a body of JSON; it is decoded in a tenth of a second."""

_PIECE = 2**20
_COUNTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[,\[{]', re.DOTALL)
"""A text that does not end goes to the end, so that nothing is looked at twice."""

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidRequestError(Exception):
    """A body is invalid; the message names the part."""


def form_text(body: bytes) -> str:
    """Return the field ``text`` of a form as browsers send it.

    Raises
    ------
    InvalidRequestError
        It has no such field, or too many fields.
    """
    fields = body.split(b"&", MOST_FIELDS)
    if len(fields) > MOST_FIELDS:
        raise InvalidRequestError(f"the form has more than {MOST_FIELDS} fields")
    for field in fields:
        name, _, value = field.partition(b"=")
        if name == b"text":
            return _unquoted(value.replace(b"+", b" ")).replace("\r\n", "\n")
    raise InvalidRequestError("the form has no field 'text'")


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


def message_of(where: tuple[Any, ...], message: str) -> str:
    """Return the part of a request that is wrong, and its fault."""
    return f"{'.'.join(str(part) for part in where)}: {message.removeprefix('Value error, ')}"
