"""Values of fields: the JSON value that is kept, and the order in which values stand.

Values come from JSON, from cells, from columns and from Python. :func:`json_value` gives what an
index keeps of one. :func:`order_key` gives bytes that sort as such values do. Whoever chooses by a
field takes these two, so files, an index, tables and Spark choose alike.

JSON has few types, so values that it lacks are strings: decimal numbers, whole numbers beyond 64
bits, infinities, dates, times (ISO 8601), durations (ISO 8601), UUIDs. A cell of CSV is a string as
well. Therefore :func:`order_key` reads strings: one that is a number, a time or a duration is
compared as such.

Decided: what has no order beside others is told apart (:func:`kind_of`), and the caller refuses it.
A digit date in another form than ISO 8601, a decimal comma or a version is no text that may be
compared letter by letter: ``9,5`` would come after ``10,5``.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import re
import uuid
from calendar import monthrange
from collections.abc import Mapping
from typing import Any

from lshdb.arguments import lone_surrogate

__all__ = ["iso_duration", "iso_instant", "json_value", "kind_of", "order_key", "text_key"]

_LEAST, _MOST = -(2**63), 2**64 - 1
_EPOCH = datetime.datetime(1970, 1, 1)
_CYCLE_DAYS = 146_097
"""The calendar repeats itself after 400 years."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def json_value(value: Any) -> Any:
    """Return the JSON value that is kept for a value of Python.

    NaN becomes null, and a lone surrogate U+FFFD. Binary values that are UTF-8 become texts.

    Raises
    ------
    TypeError
        JSON has nothing for it.
    """
    if isinstance(value, enum.Enum):
        return json_value(value.value)
    if isinstance(value, str):
        return str(value) if lone_surrogate(value) is None else _SURROGATES.sub("\ufffd", value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if _LEAST <= value <= _MOST else str(int(value))
    if isinstance(value, float | decimal.Decimal):
        return _fraction(value)
    if isinstance(value, datetime.date | datetime.time):
        # A missing time of pandas is a time that is not equal to itself.
        return value.isoformat() if value == value else None
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _decoded(bytes(value))
    if isinstance(value, Mapping):
        return {_name(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return _of_numpy(value)


def _fraction(value: Any) -> float | str | None:
    is_float = isinstance(value, float)
    if math.isnan(value) if is_float else value.is_nan():
        return None
    if math.isinf(value) if is_float else value.is_infinite():
        return "Infinity" if value > 0 else "-Infinity"
    return float(value) if is_float else str(value)


def _duration(value: datetime.timedelta) -> str | None:
    if value != value:  # a missing one of pandas
        return None
    microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    # Those of pandas have nanoseconds.
    return iso_duration(microseconds * 1_000 + getattr(value, "nanoseconds", 0))


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TypeError("JSON has nothing for binary values that are not UTF-8") from error


def _name(name: Any) -> str:
    """Return the name of a member: a map may have keys that are no strings."""
    value = json_value(name)
    if isinstance(value, str):
        return value
    import orjson

    return orjson.dumps(value).decode()


def _of_numpy(value: Any) -> Any:
    """Return the JSON value of a scalar or an array of NumPy; anything else is given back."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("M", "m") and not value.shape:
        text = str(value)
        if text == "NaT":
            return None
        return text if kind == "M" else iso_duration(int(value.astype("m8[ns]").astype("i8")))
    if kind in ("M", "m"):
        return [_of_numpy(inner) for inner in value]
    if kind and hasattr(value, "tolist"):
        return json_value(value.tolist())
    return value


def iso_instant(
    count: int, per_second: int, zone: datetime.tzinfo | None = None, *, is_zoned: bool = False
) -> str:
    """Return a time as ISO 8601 has it, also beyond the years 1 to 9999 of Python's times.

    Parameters
    ----------
    count : int
        Since the beginning of 1970, in UTC if the time has a zone.
    per_second : int
        How many of them make a second.
    is_zoned : bool
        Whether it has a zone, known or not; in an unknown one UTC is shown.
    """
    seconds, rest = divmod(count, per_second)
    offset = ""
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
        if is_zoned:
            moment = moment.replace(tzinfo=datetime.UTC)
            if zone is not None:
                moment = moment.astimezone(zone)
            text = moment.isoformat()
            text, offset = text[:19], text[19:]
        else:
            text = moment.isoformat()
    except OverflowError:
        days, seconds = divmod(seconds, 86_400)
        cycles, day = divmod(days + _EPOCH.toordinal() - 1, _CYCLE_DAYS)
        moment = datetime.datetime.fromordinal(day + 1) + datetime.timedelta(seconds=seconds)
        text = f"{moment.year + 400 * cycles:+05d}{moment.isoformat()[4:]}"
        offset = "+00:00" if is_zoned else ""
    return f"{text}{_digits(rest, per_second)}{offset}"


def iso_duration(nanoseconds: int) -> str:
    """Return a duration as ISO 8601 has it, in days, hours, minutes and seconds: ``P9DT1.5S``."""
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    days, seconds = divmod(seconds, 86_400)
    parts = [(seconds // 3600, "H"), (seconds // 60 % 60, "M")]
    time = "".join(f"{number}{unit}" for number, unit in parts if number)
    if seconds % 60 or rest or not (days or time):
        time += f"{seconds % 60}{_digits(rest, 10**9).rstrip('0')}S"
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"


def _digits(rest: int, per_second: int) -> str:
    """Return the part of a second, in six digits or nine; nothing if it is zero."""
    if not rest:
        return ""
    nanoseconds = rest * (10**9 // per_second)
    if nanoseconds % 1_000:
        return f".{nanoseconds:09d}"
    return f".{nanoseconds // 1_000:06d}"


# The order of values

_NUMBER, _TIME, _DURATION, _TEXT = b"n", b"t", b"d", b"s"
_UNCLEAR, _BINARY, _ARRAY, _OBJECT = b"?", b"b", b"[", b"{"
_KINDS = {
    _NUMBER: "a number",
    _TIME: "a date or a time",
    _DURATION: "a duration or a time of day",
    _TEXT: "a text",
    _UNCLEAR: "a number or a date in a form that is not read",
    _BINARY: "a binary value that is not UTF-8",
    _ARRAY: "an array",
    _OBJECT: "an object",
}
_ORDERED = (_NUMBER, _TIME, _DURATION, _TEXT)

_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,17}))?")
_INSTANT = re.compile(
    r"([+-]?[0-9]{4,12})-([0-9]{2})(?:-([0-9]{2})(?:(?:[Tt]| +)"
    r"([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"\s*([Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)?(?:\[[^\]]*\])?)?)?"
)
_ISO_DURATION = re.compile(
    r"([+-]?)P(?:([0-9.]+)W)?(?:([0-9.]+)D)?(?:T(?:([0-9.]+)H)?(?:([0-9.]+)M)?(?:([0-9.]+)S)?)?"
)
_CLOCK = re.compile(
    r"(?:([+-]?[0-9]+) days?,? ?)?(?:([+-]?)([0-9]+):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
)
_MAIL = re.compile(r"(?:[A-Za-z]{3,9},? )?(?:[0-9]{1,2} )?[A-Z][a-z]{2} [0-9 :+A-Z()-]+")
_UNREAD = re.compile(
    # 9,5  1.000  1.10.2  9 %
    r"[$€£]? ?[+-]?(?:[0-9]+(?:[.,'’ _][0-9]+)*[.,]?) ?[$€£%]?"
    # 12.05.2026  1/9/24 10:05
    r"|[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}\.?(?:[T ]+[0-9]{1,2}:.*)?"
    # 10:05 pm
    r"|[0-9]{1,2}(?::[0-9]{2}){1,2}[ 0-9.,APMapmZz:+-]*"
    # P1Y
    r"|[+-]?P[0-9][0-9.,YMWDTHS-]*"
)
"""Numbers, dates, times and durations in other forms."""
_WORDS = {
    "nan": None, "NaN": None, "NAN": None, "-nan": None, "-NaN": None,
    "true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0",
    "inf": b"n\x04", "Inf": b"n\x04", "INF": b"n\x04", "+inf": b"n\x04",
    "Infinity": b"n\x04", "+Infinity": b"n\x04", "infinity": b"n\x04",
    "-inf": b"n\x00", "-Inf": b"n\x00", "-INF": b"n\x00", "-Infinity": b"n\x00",
    "-infinity": b"n\x00",
}  # fmt: skip
_COMPLEMENT = bytes.maketrans(b"0123456789", b"9876543210")
_LONGEST_NUMBER = 1_000
_BIAS = 2**127
_OF_UNIT = (604_800, 86_400, 3_600, 60, 1)


def kind_of(key: bytes) -> tuple[str, bool]:
    """Describe a value in words, and return whether values of its kind have an order."""
    return _KINDS[key[:1]], key[:1] in _ORDERED


def text_key(text: str) -> bytes:
    """Return the key of a text that is compared as text, even if it looks like a number."""
    return _TEXT + text.encode("utf-8", "surrogatepass")


def order_key(value: Any) -> bytes | None:
    """Return bytes that sort as values of one kind do; None for a missing value and NaN.

    The first byte is the kind. Numbers are exact, times are instants (UTC where they have no zone)
    to the nanosecond, a date is its midnight, and a text is compared by code points.

    Parameters
    ----------
    value : JSON value
        As :func:`json_value` returns it, or as JSON has it; or bytes.
    """
    kind = type(value)
    if value is None:
        return None
    if kind is bool:
        return _number("1" if value else "0")
    if kind is int:
        return _number(str(value))
    if kind is float:
        return _of_word(str(value)) if math.isinf(value) or value != value else _number(repr(value))
    if kind is str:
        return _of_text(value)
    if isinstance(value, bytes):
        return _BINARY
    return _ARRAY if isinstance(value, list) else _OBJECT


def _of_word(word: str) -> bytes | None:
    read = _WORDS[word]
    return _number(read) if isinstance(read, str) else read


def _of_text(text: str) -> bytes | None:
    bare = text.strip()
    if not bare:
        return None
    if bare in _WORDS:
        return _of_word(bare)
    if bare[0] in "0123456789+-.P":
        key = _number(bare) or _instant(bare) or _iso_duration(bare) or _clock(bare)
        if key is not None:
            return key
    if len(bare) < 60 and _MAIL.fullmatch(bare):
        key = _mail_date(bare)
        if key is not None:
            return key
    if _UNREAD.fullmatch(bare):
        return _UNCLEAR
    return text_key(text)


def _number(text: str) -> bytes | None:
    """Return the key of a decimal number: its sign, its exponent, its digits."""
    match = _DECIMAL.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    if match is None:
        return None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    digits = whole + fraction
    if not digits:
        return None
    bare = digits.lstrip("0")
    if not bare:
        return b"n\x02"
    power = len(whole) - (len(digits) - len(bare)) - 1 + int(exponent)
    shown = bare.rstrip("0").encode()
    if sign == "-":
        return b"n\x01" + (2**63 - power).to_bytes(8) + shown.translate(_COMPLEMENT) + b"\xff"
    return b"n\x03" + (2**63 + power).to_bytes(8) + shown


def _instant(text: str) -> bytes | None:
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3] or 1)
    hour, minute, second = (int(match[i] or 0) for i in (4, 5, 6))
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(year % 400 + 400, month)[1]:
        return None
    if hour > 24 or minute > 59 or second > 60:
        return None
    cycles, within = divmod(year, 400)
    day_of_cycle = datetime.date(within + 400, month, day).toordinal() - _CYCLE_DAYS
    days = cycles * _CYCLE_DAYS + day_of_cycle - _EPOCH.toordinal()
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - _offset(match[8])
    return _moment(seconds, match[7])


def _moment(seconds: int, fraction: str | None) -> bytes:
    return _TIME + (seconds * 10**9 + _nanoseconds(fraction) + _BIAS).to_bytes(16)


def _nanoseconds(fraction: str | None) -> int:
    return int((fraction or "0")[:9].ljust(9, "0"))


def _offset(zone: str | None) -> int:
    """Return the seconds by which a zone is ahead of UTC."""
    if zone is None or not zone.startswith(("+", "-")):
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3_600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if zone[0] == "-" else seconds


def _mail_date(text: str) -> bytes | None:
    """Return the key of a date as mail and HTTP write it: ``Tue, 09 Jan 2024 05:00:00 GMT``."""
    from email.utils import parsedate_tz  # with sockets, which no other value needs

    read = parsedate_tz(text) or parsedate_tz(f"{text} 00:00:00")
    if read is None:
        return None
    year, month, day, hour, minute, second = read[:6]
    try:
        days = datetime.date(year, month, day).toordinal() - _EPOCH.toordinal()
        return _moment(days * 86_400 + hour * 3_600 + minute * 60 + second - (read[9] or 0), None)
    except (ValueError, OverflowError):  # parts of a date may have any number of digits
        return None


def _iso_duration(text: str) -> bytes | None:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        return None
    total = decimal.Decimal(0)
    for part, seconds in zip(match.groups()[1:], _OF_UNIT, strict=True):
        if part is not None:
            try:
                total += decimal.Decimal(part) * seconds
            except decimal.InvalidOperation:
                return None
    return _length(total, is_negative=match[1] == "-")


def _length(seconds: decimal.Decimal, *, is_negative: bool) -> bytes | None:
    nanoseconds = int(seconds.scaleb(9))
    if nanoseconds >= _BIAS:
        return None
    return _DURATION + (_BIAS + (-nanoseconds if is_negative else nanoseconds)).to_bytes(16)


def _clock(text: str) -> bytes | None:
    """Return the key of a time of day, or of a duration as Python and pandas show it."""
    match = _CLOCK.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    if match is None or (match[1] is None and match[3] is None):
        return None
    days, sign, *times, fraction = match.groups()
    hours, minutes, seconds = (int(part or 0) for part in times)
    length = (hours * 3_600 + minutes * 60 + seconds) * 10**9 + _nanoseconds(fraction)
    length = int(days or 0) * 86_400 * 10**9 + (-length if sign == "-" else length)
    return _DURATION + (_BIAS + length).to_bytes(16) if abs(length) < _BIAS else None
