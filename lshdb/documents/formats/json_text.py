"""JSON as the world writes it: what the strict parser refuses is read by Python's own.

NaN, Infinity, numbers beyond those of the machine and halves of surrogate pairs are no JSON, but
programs write them. A record must not be lost because of one in a field that nobody asks for. So
bytes that the fast parser refuses go to the one of the standard library, which takes just these.

A number that 64 bits do not hold exactly is rounded by both parsers. :func:`exact_value` reads it
again, as a string of its digits.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from lshdb.documents.document import Document, Rejected, json_kind, validate_body
from lshdb.documents.formats.objects import NoDocumentError, Records
from lshdb.documents.io.encodings import undecodable
from lshdb.documents.io.streams import OpenFile
from lshdb.documents.values import json_value
from lshdb.files.process import require_memory

__all__ = ["JsonRecords", "exact_value", "load_json"]

_PARSER_BYTES = 10 * 2**20
"""What the parser takes when it is first used."""
_LONG, _BYTES_A_BYTE = 2**16, 16
"""Bytes of a record before which memory is asked for, and what the parser takes for a byte."""


class JsonRecords:
    """Makes a document, or a rejection, of the bytes of one record.

    Parameters
    ----------
    what : {"line", "record"}
        What the bytes are, for messages.
    """

    def __init__(self, file: OpenFile, what: str) -> None:
        self._encoding, self._what = file.encoding, what
        self._records = Records.of_file(file)

    def item(self, data: bytes, number: int, source: str) -> Document | Rejected:
        """Return the document in a record, or why there is none."""
        try:
            record, is_strict = _loaded(data)
            if not isinstance(record, dict):
                raise NoDocumentError(
                    f"the {self._what} is {json_kind(record)}, expected an object"
                )
            document = self._records.document(record, number, source)
        except orjson.JSONDecodeError as error:
            return Rejected(source, _not_json(data, error, self._encoding, self._what))
        except NoDocumentError as error:
            return Rejected(source, str(error))
        reason = None
        if not is_strict and isinstance(document.body, str):
            reason = validate_body(document.body)
        if reason is not None:
            return Rejected(source, reason)
        if document.fields is None:
            return document
        fields = {name: exact_value(data, name, value) for name, value in document.fields.items()}
        return replace(document, fields=fields)


def load_json(data: bytes) -> Any:
    """Return the value that bytes hold.

    Raises
    ------
    orjson.JSONDecodeError
    """
    return _loaded(data)[0]


def _loaded(data: bytes) -> tuple[Any, bool]:
    """Return the value that bytes hold, and whether they are JSON in the strict sense."""
    if _parser_is_ready() and len(data) > _LONG:
        require_memory(_BYTES_A_BYTE * len(data))
    try:
        return orjson.loads(data), True
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8"), parse_int=_rounded), False
        except (ValueError, RecursionError):
            pass
        raise


@functools.cache
def _parser_is_ready() -> bool:
    """Return True, once the parser has its own memory."""
    require_memory(_PARSER_BYTES)
    orjson.loads(b"0")
    return True


def _rounded(digits: str) -> int | float:
    """Return a whole number as the strict parser does: beyond 64 bits as a float."""
    number = _exact(digits)
    return number if isinstance(number, int) else float(digits)


def exact_value(data: bytes, name: str, value: Any) -> Any:
    """Return the value of a field of a record, without the loss of numbers beyond 64 bits.

    Parameters
    ----------
    data : bytes
        The record.
    value : JSON value
        Of the field, as :func:`load_json` read it.
    """
    try:
        if not _may_be_rounded(value):
            return value
        record = json.loads(data.decode("utf-8-sig"), parse_int=_exact, parse_float=_exact_fraction)
        return json_value(record[name])
    except RecursionError:  # nested too deeply to be kept
        return value


def _may_be_rounded(value: Any) -> bool:
    if isinstance(value, float):
        return abs(value) >= 2**63
    if isinstance(value, list | dict):
        return any(map(_may_be_rounded, value if isinstance(value, list) else value.values()))
    return False


def _exact(digits: str) -> int | Decimal:
    if len(digits) < 19:
        return int(digits)
    number = Decimal(digits)
    return int(number) if -(2**63) <= number < 2**64 else number


def _exact_fraction(digits: str) -> float | Decimal:
    number = float(digits)
    if math.isinf(number):
        with contextlib.suppress(InvalidOperation):  # an exponent of more than 18 digits
            return Decimal(digits)
    return number


def _not_json(data: bytes, error: orjson.JSONDecodeError, encoding: str | None, what: str) -> str:
    """Return why bytes are no JSON.

    Parameters
    ----------
    encoding : str or None
        The one that the user named.
    what : str
        What the bytes are: a line, or a record.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return undecodable(f"at byte {wrong.start + 1} of the {what}", encoding)
    return f"not valid JSON: {error.msg} (column {error.colno})"
