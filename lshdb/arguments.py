"""Check the arguments of a caller: a value of the wrong kind raises ParameterError."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

from lshdb.errors import ParameterError, UnknownParameterError, hide_credentials

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "MEASURES",
    "Digits",
    "Keep",
    "Linkage",
    "Measure",
    "MetricName",
    "OnConflict",
    "OnConflictOfAdd",
    "Only",
    "TableFormat",
    "Unit",
    "Verify",
    "check_choice",
    "check_flag",
    "check_folder_name",
    "check_items",
    "check_key",
    "check_moment",
    "check_name",
    "check_names",
    "check_seconds",
    "check_whole",
    "checks_names",
    "lone_surrogate",
    "parse_moment",
    "plain_number",
    "printable",
    "refuse_unknown",
    "refuse_url",
    "validate_body",
]

Item = TypeVar("Item")
_Called = ParamSpec("_Called")
_Answer = TypeVar("_Answer")

MEASURES = ("similarity", "containment")
"""What a question compares: by the metric of the index, or which share of one is in another."""
FILE_ENDINGS = frozenset((
    "arrow", "feather", "ipc", "avro", "orc", "parquet", "pq", "npy", "npz", "pkl", "pickle",
    "json", "jsonl", "ndjson", "csv", "tsv", "tab", "txt", "log", "md", "xml", "yaml", "yml",
    "toml", "ipynb", "htm", "html", "xhtml", "pdf", "ps", "doc", "docx", "odt", "rtf", "epub",
    "ppt", "pptx", "xls", "xlsx", "ods", "db", "duckdb", "sqlite", "sqlite3", "bib", "bibtex",
    "nbib", "ris", "warc", "wet", "bmp", "gif", "jpeg", "jpg", "png", "svg", "tif", "tiff", "webp",
    "7z", "br", "bz2", "gz", "lz4", "lzma", "tar", "tgz", "xz", "zip", "zst", "zstd",
))  # fmt: skip
"""What follows the last dot in the name of a file, and hardly ever in that of a folder."""
_NAME_LENGTH = 100
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_NAME = re.compile(rf"[^\W_][\w.:-]{{0,{_NAME_LENGTH - 1}}}")

MetricName: TypeAlias = Literal[
    "jaccard", "cosine", "hamming", "l1", "l2", "weighted-jaccard", "jaccard-bits"
]
Unit: TypeAlias = Literal["word", "char", "byte", "line", "token", "url", "url-host", "tokenizer"]
Digits: TypeAlias = Literal["keep", "zero"]
Verify: TypeAlias = Literal["none", "signature", "exact"]
Measure: TypeAlias = Literal["similarity", "containment"]
OnConflict: TypeAlias = Literal["replace", "skip", "error"]
OnConflictOfAdd: TypeAlias = Literal["replace", "skip", "error", "unite"]
Linkage: TypeAlias = Literal["component", "representative"]
Keep: TypeAlias = Literal["first", "last", "longest", "shortest"] | str
"""Or ``field:NAME``, or ``field:-NAME``."""
Only: TypeAlias = Literal["all", "keep", "drop"]
TableFormat: TypeAlias = Literal["jsonl", "parquet", "delta"]


def check_names(function: str, names: Iterable[str], expected: Collection[str]) -> None:
    """Raise UnknownParameterError for a keyword that a function does not take.

    Parameters
    ----------
    function : str
        Its name, for the message.
    names, expected : iterable of str
        Names of keywords.

    Raises
    ------
    UnknownParameterError
    """
    for name in names:
        if name not in expected:
            import difflib

            near = difflib.get_close_matches(name, expected, n=1, cutoff=0.55)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownParameterError(
                f"{function} takes no parameter {name!r}{meant}",
                hint=f"it takes {', '.join(expected)}",
            )


def refuse_unknown(function: Callable[..., object], options: Iterable[str]) -> None:
    """Raise UnknownParameterError for a keyword that a function does not take.

    Call it when a call has failed with a TypeError.
    """
    import inspect

    parameters = inspect.signature(function).parameters.values()
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        names = [
            parameter.name for parameter in parameters if parameter.name not in ("self", "cls")
        ]
        check_names(function.__qualname__, options, names)


def checks_names(function: Callable[_Called, _Answer]) -> Callable[_Called, _Answer]:
    """Have a function name a keyword that it does not take, and suggest another."""

    @functools.wraps(function)
    def checked(*args: _Called.args, **options: _Called.kwargs) -> _Answer:
        try:
            return function(*args, **options)
        except TypeError:
            refuse_unknown(function, options)
            raise

    return checked


def check_items(
    name: str, value: Iterable[Item], expected: str, *, hint: str | None = None
) -> Iterable[Item]:
    """Return the value; raise ParameterError unless it is an iterable of items.

    Strings, bytes and mappings are refused. They are iterables too, of characters, numbers and
    keys, but a caller who passes one does not mean those.
    """
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected {expected}",
            hint=hint,
        )
    return value


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise ParameterError unless the value is one of the choices."""
    if value not in choices:
        raise ParameterError(f"{name} is {value!r:.80}; expected one of {', '.join(choices)}")


def refuse_url(path: str) -> None:
    """Raise ParameterError if something is to be written to a URL."""
    if url := re.match(r"[A-Za-z][\w+.-]+://", path):
        raise ParameterError(
            f"{url[0]}... is a URL, and outputs are written to this machine",
            hint="give a path, and copy it there afterwards",
        )


def check_folder_name(path: str, because: str, *, hint: str = "") -> None:
    """Raise ParameterError if a folder is to be made, and the path is the name of something else.

    A name that ends in ``/`` is that of a folder, and so is the name of a folder that is there.

    Parameters
    ----------
    path : str
    because : str
        Why it has to be a folder, for the message.
    hint : str
        What to do; by default, to end the name in ``/``.
    """
    if not path:
        raise ParameterError("the output has no name", hint="name a folder")
    refuse_url(path)
    if path == "-":
        raise ParameterError(
            f"- stands for standard output, and {because}", hint="give the path of a folder"
        )
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    if ending in FILE_ENDINGS and not os.path.isdir(path):
        raise ParameterError(
            f"{path!r:.200} is the name of a file, and {because}",
            hint=hint or f"give another name, or end it in / if a folder is meant: {path}/",
        )


def check_key(name: str, value: object) -> str:
    """Return the value; raise ParameterError unless it is a string, as every key is."""
    if not isinstance(value, str):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected a string",
            hint="keys are strings: pass str(17) for a document that was added with the number 17",
        )
    return value


def check_name(name: str, value: object) -> str:
    """Return the value; raise ParameterError unless it is a name of a cursor or a night.

    Letters, digits and ``_ . : -``, at most 100; it begins with a letter or a digit.
    """
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ParameterError(
        f"{name} is {value!r:.80}; expected a name of letters, digits and _ . : - "
        f"that begins with a letter or a digit, at most {_NAME_LENGTH} characters"
    )


def check_whole(name: str, value: object, low: int, *, unit: str = "") -> int:
    """Return the value as an int; raise ParameterError unless it is whole and at least ``low``."""
    # The class of most values; asking for the others takes 2 us.
    if type(value) is not int and (not isinstance(value, Integral) or isinstance(value, bool)):
        raise ParameterError(f"{name} is {value!r:.80}; expected a whole number")
    if value < low:
        raise ParameterError(f"{name} is {int(value)}{unit}; expected at least {low}{unit}")
    return int(value)


def check_seconds(name: str, value: object) -> float:
    """Return the value as a float; raise ParameterError unless it is at least 0 or infinity."""
    if isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0.0:
        return float(value)
    raise ParameterError(f"{name} is {value!r:.80}; expected a number of seconds, 0 or more")


def check_moment(name: str, value: object) -> datetime:
    """Return a datetime in UTC, as which one without a zone counts.

    Raises
    ------
    ParameterError
        It is none, or not within the years 1 to 9999 of UTC.
    """
    from datetime import UTC, datetime

    # The missing time of pandas is a datetime that is not equal to itself.
    if not isinstance(value, datetime) or value != value:
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected a datetime"
        )
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ParameterError(
            f"{name} is {value}, which is not within the years 1 to 9999 of UTC"
        ) from None


def parse_moment(
    name: str, text: str, expected: str, *, now: datetime | None, dates: bool = True
) -> datetime:
    """Return the moment in UTC that a text names: a date, with a time or without, or an age.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    text : str
        A date as ISO 8601 has it; or up to nine digits and s, m, h, d or w, as ``8h``.
    expected : str
        What the argument may be, in words.
    now : datetime or None
        What an age is counted back from; None if it may be none.
    dates : bool
        Whether it may be a date.

    Raises
    ------
    ParameterError
        It is neither, or not within the years 1 to 9999 of UTC.
    """
    from datetime import datetime, timedelta

    age = None if now is None else re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if now is not None and age is not None:
        try:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        except OverflowError:
            raise ParameterError(f"{name} is {text}, which is before the year 1") from None
    try:
        moment = datetime.fromisoformat(text) if dates else None
    except ValueError:
        moment = None
    if moment is None:
        raise ParameterError(f"{name} is {text!r:.80}; expected {expected}")
    return check_moment(name, moment)


def check_flag(name: str, value: object) -> bool:
    """Return the value; raise ParameterError unless it is True or False."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r:.80}; expected True or False")
    return value


def plain_number(value: Any) -> Any:
    """Convert a number of another library, such as NumPy, to Python's; return others unchanged."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def validate_body(body: object) -> str | None:
    """Return the reason why a body cannot be used.

    Parameters
    ----------
    body : str, list of str, tuple of str or set of str
        A text or tokens; anything else gives a reason.

    Returns
    -------
    str or None
        The reason in one line, or None if the body is valid. Costs one pass over the text.
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
    """Return the index of the first lone surrogate."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return error.start
    return None


def printable(text: str) -> str:
    """Return a name for messages: escapes for what does not print, and no credentials of a URL."""
    text = hide_credentials(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not decode
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
