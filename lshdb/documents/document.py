"""What every reader shares: documents and rejections, fields, rules for keys, words for messages.

A reader yields a ``Document``, or a ``Rejected`` with the reason. A source that cannot be read to
its end raises ``BrokenSourceError``, which this package catches and never lets out.

Decided: a key is at most 1,024 bytes of UTF-8, so that it fits any database's index entry. It
holds no NUL, which PostgreSQL's text refuses. Keys and texts hold no lone surrogates: UTF-8 cannot
carry them and no shingle hash is defined for them. A text may hold NUL. Nothing is trimmed or
normalised: two keys are the same only if they are the same characters.

The checks return reasons and do not raise, because a bad document is counted and skipped. Nothing
from the input reaches a message unchanged: control characters, lone surrogates and bytes of a file
name that are not UTF-8 are shown as escapes, and lists are cut short.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias

from lshdb.arguments import lone_surrogate, printable, validate_body
from lshdb.documents.rejected import Rejected
from lshdb.errors import InputError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BODIES",
    "MAX_DOCUMENT_BYTES",
    "MAX_KEY_BYTES",
    "REFERENCE_FIELDS",
    "Body",
    "BrokenSourceError",
    "DamagedDataError",
    "Document",
    "Fields",
    "Given",
    "Rejected",
    "SeenFields",
    "given_document",
    "json_fields",
    "json_kind",
    "missing_fields",
    "shown_names",
    "shown_paths",
    "system_reason",
    "validate_body",
    "validate_key",
    "validate_source_and_fields",
]


class BrokenSourceError(Exception):
    """A source cannot be read any further.

    Attributes
    ----------
    reason : str
        Why, in one line.
    line : int or None
        The line that was being read, if the reader counts lines.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = None


class DamagedDataError(BrokenSourceError):
    """Compressed data is truncated or corrupt.

    Attributes
    ----------
    start : int or None
        Where in the file the step began that failed, if others were read behind it.
    is_corrupt : bool
        Whether what came last may be wrong: a gzip member is not merely cut.
    """

    start: int | None = None
    is_corrupt: bool = False


if TYPE_CHECKING:
    Body: TypeAlias = (
        str
        | Sequence[str]
        | AbstractSet[str]
        | Mapping[str, float]
        | Sequence[SupportsFloat]
        | NDArray[Any]
    )
else:  # NumPy is not imported for the sake of a name
    Body = str | Sequence | AbstractSet | Mapping
"""A text; a list or tuple of ready tokens, or a set of them, that are used as they are; weights by
token; a vector or bits: a 1-D array, a list or tuple of numbers, or a string of binary or
hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document on its way into the index, or a query.

    Attributes
    ----------
    key : str
        The user's identifier.
    body : str, list, tuple, set, dict or ndarray
        The text, tokens in order or as a set, weights of tokens, a vector or bits.
    source : str
        Where it came from, for messages: ``file``, ``file:line`` or ``file: row n``.
    fields : mapping of str to JSON values, optional
        Kept with the document, and not part of its similarity: a date, an author, a URL.
    """

    key: str
    body: Body
    source: str = ""
    fields: Mapping[str, Any] | None = None


Given: TypeAlias = "Document | Rejected | tuple[str, Body]"
"""What ``add`` accepts."""


def given_document(item: object) -> Document:
    """Return the document that a caller gave, as a ``Document`` or as a pair of key and body.

    Raises
    ------
    InputError
        The item is neither.
    """
    if isinstance(item, Document):
        return item
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
        raise InputError(
            f"the documents hold {item!r:.200}; expected (key, text) or (key, tokens), with a "
            "string as key",
            hint=_pairs_of(item),
        )
    return Document(item[0], item[1])


def _pairs_of(item: object) -> str:
    """Return a hint: how to make pairs of the given object."""
    if isinstance(item, str):
        return (
            "each text needs a key: key=None numbers them, or pass (key, text) pairs; for a "
            "dict, pass its .items(); files are read by lshdb.read_documents"
        )
    if isinstance(item, dict):
        return "pass pairs such as ((row['id'], row['text']) for row in rows)"
    if isinstance(item, tuple | list) and len(item) == 2:
        return "keys are strings: pass str(key)"
    return "pass pairs of key and body"


MAX_DOCUMENT_BYTES = 64 * 2**20
"""The default for the longest line, CSV record or text file."""
MAX_KEY_BYTES = 1024
"""The longest key, in bytes of UTF-8."""
REFERENCE_FIELDS = (
    "title", "authors", "year", "journal", "volume", "issue", "pages", "doi", "database",
)  # fmt: skip
"""Fields that readers of references keep; a field of these names is always known."""


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def json_fields(fields: Mapping[str, Any]) -> str:
    """Return kept fields as a JSON object, in the order given (:func:`.values.json_value`).

    Raises
    ------
    InputError
        A name is not a string, or a value cannot be written as JSON.
    """
    import orjson

    from lshdb.documents.values import json_value

    try:
        values = {name: json_value(value) for name, value in fields.items()}
        text = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"the fields {_shown_values(fields)} cannot be stored: {error}",
            hint="give names with texts, numbers, times, lists or mappings of these",
        ) from error
    if _NUL.search(text):
        raise InputError(
            f"the fields {_shown_values(fields)} hold a NUL, which no database keeps in a field",
            hint="remove it",
        )
    return text


def _shown_values(fields: Mapping[str, Any]) -> str:
    """Return fields for a message; only their names if the values cannot be shown."""
    try:
        return f"{fields!r:.200}"
    except (RecursionError, ValueError):  # too deep, or a number of 4,301 digits
        return shown_names(map(str, fields))


def validate_key(key: str) -> str | None:
    """Return the reason why a key cannot be used.

    Parameters
    ----------
    key : str
        The user's identifier of a document.

    Returns
    -------
    str or None
        The reason in one line, or None if the key is valid.
    """
    if type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES and "\0" not in key:
        return None  # a shortcut for nearly every key: a third of the time
    if not isinstance(key, str):
        return f"the key is of type {type(key).__name__}, expected a string"
    if not key:
        return "the key is empty"
    position = lone_surrogate(key)
    if position is not None:
        return f"the key holds a lone surrogate at character {position + 1}"
    if "\0" in key:
        return f"the key holds a NUL at character {key.index(chr(0)) + 1}"
    size = len(key.encode("utf-8"))
    if size > MAX_KEY_BYTES:
        return f"the key has {size:,} bytes in UTF-8, at most {MAX_KEY_BYTES:,} are allowed"
    return None


def validate_source_and_fields(document: Document) -> str | None:
    """Return the reason why the source or the fields of a caller's document cannot be kept.

    Names and values of fields are not looked at (:func:`json_fields`).
    """
    source, fields = document.source, document.fields
    if not isinstance(source, str):
        return f"the source is of type {type(source).__name__}, expected a string"
    position = lone_surrogate(source)
    if position is not None:
        return f"the source holds a lone surrogate at character {position + 1}"
    if "\0" in source:
        return f"the source holds a NUL at character {source.index(chr(0)) + 1}"
    if fields is not None and not isinstance(fields, Mapping):
        kind = type(fields).__name__
        return f"the fields are of type {kind}, expected values by name, as in a dict"
    return None


BODIES = ("text", "weights", "vector", "bits")
"""The kinds of bodies; a metric requires one of them (``lshdb.params.metrics``)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The caller's options for fields, columns and arrays; None for those not given.

    Attributes
    ----------
    key, vector : str or None
        Names of the fields that hold the key, and the vector or the bits.
    body : str or None
        The kind of bodies to read, one of ``BODIES``.
    keys : path-like or None
        A side file with the keys.
    dim : int or None
        Numbers, or bits, that each vector must have, if known.
    text : tuple of str
        Names of the fields that hold the text or the weights; several texts are joined.
    row_keys : bool
        Whether path and row number are the key.
    keep : tuple of str
        Names of the fields whose values are kept with the document.
    delimiter : str or None
        What stands between the cells of CSV.
    encoding : str or None
        Of files of text, if it is not UTF-8.
    quote : str or None
        What quotes the cells of CSV and TSV, or ``none``.
    """

    key: str | None = None
    vector: str | None = None
    body: str | None = None
    keys: str | os.PathLike[str] | None = None
    dim: int | None = None
    text: tuple[str, ...] = ()
    row_keys: bool = False
    keep: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    quote: str | None = None

    def refuse_columns(self, n_columns: int) -> str | None:
        """Return why an array of ``n_columns`` cannot hold the vectors; None if it may."""
        if self.dim is None or n_columns == self.dim:
            return None
        if self.body != "bits":
            return f"holds vectors of {n_columns:,} numbers, expected {self.dim:,}"
        n_bytes = -(-self.dim // 8)
        if n_columns == n_bytes:
            return None
        return (
            f"holds rows of {n_columns:,}, expected {self.dim:,} bits, or {n_bytes:,} bytes of "
            "packed bits"
        )

    @property
    def key_name(self) -> str:
        """The field that holds the key."""
        return "id" if self.key is None else self.key

    @property
    def is_dense(self) -> bool:
        """Whether bodies are vectors or bits."""
        return self.body in ("vector", "bits") or (self.body is None and self.vector is not None)

    @property
    def is_text(self) -> bool:
        """Whether all bodies are texts or tokens."""
        return self.body != "weights" and not self.is_dense

    @property
    def bodies(self) -> tuple[str, ...]:
        """The fields that may hold the body; the first one present counts, unless it is joined."""
        if self.is_dense:
            return (self.vector or "vector",)
        if self.body == "weights" and not self.text:
            return ("text", "weights")
        return self.text or ("text",)

    @property
    def may_be_texts(self) -> bool:
        """Whether the caller names no field, so that every file may be one text."""
        said = (self.key, self.vector, self.keys, self.text, self.keep, self.row_keys)
        return not any((*said, self.delimiter, self.quote)) and self.body in (None, "text")

    @property
    def is_joined(self) -> bool:
        """Whether the text is put together from several fields."""
        return len(self.text) > 1

    def check(self) -> None:
        """Refuse options that contradict one another.

        Raises
        ------
        ParameterError
        """
        if self.body is not None and self.body not in BODIES:
            raise ParameterError(f"body is {self.body!r}, expected one of {', '.join(BODIES)}")
        for name, names in (("text_field", self.text), ("keep_fields", self.keep)):
            if not all(isinstance(field, str) and field for field in names):
                raise ParameterError(f"{name} is {names!r}, expected names of fields")
            if len(set(names)) < len(names):
                raise ParameterError(f"{name} names a field twice: {', '.join(names)}")
        delimiter = self.delimiter
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
            raise ParameterError(
                f"delimiter is {delimiter!r}, expected one character, and no quote or line end",
                hint="give ';', '|' or tab",
            )
        quote = self.quote
        if quote not in (None, "none"):
            is_one = len(quote) == 1 and quote.isascii() and quote not in "\r\n\0"
            if not is_one or quote == (delimiter or ","):
                raise ParameterError(
                    f"quote is {quote!r}, expected none, or one ASCII character other than the "
                    "delimiter and line ends",
                    hint="give none if cells are not quoted",
                )
        if self.row_keys and (self.key is not None or self.keys is not None):
            option = "key_field" if self.keys is None else "keys"
            raise ParameterError(
                f"row_keys and {option} both say where the keys come from",
                hint="leave out --row-keys, or "
                + ("--key-field" if self.keys is None else "--keys"),
            )
        if self.is_dense and self.text:
            raise ParameterError(
                "text_field is for texts, but vectors are expected",
                hint="name the field of the vectors with --vector-field",
            )
        if not self.is_dense and self.vector is not None:
            raise ParameterError(
                f"vector_field is for vectors and bits, but {self.body} is expected",
                hint="name the field with --text-field",
            )


class SeenFields:
    """Which fields to be kept have come up in the input.

    Parameters
    ----------
    names : sequence of str
        The fields to be kept.

    Attributes
    ----------
    unseen : dict of str to None
        Those that no record has had so far, in order.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.unseen = dict.fromkeys(names)
        self._present: list[str] = []

    def note(self, kept_names: Iterable[str], present: Iterable[str]) -> None:
        """Note the fields of a record that were kept, and all that it has."""
        if self.unseen:
            for name in kept_names:
                self.unseen.pop(name, None)
            if self.unseen:
                self._present = list(present)

    def report(self) -> str | None:
        """Return which fields no record has had; None if every one has come up."""
        if not self.unseen:
            return None
        is_single = len(self.unseen) == 1
        last = f"; the last one has: {shown_names(self._present)}" if self._present else ""
        fields = f"field{'' if is_single else 's'} {shown_names(self.unseen)}"
        return f"no record has the {fields} to keep{last}"


_NAMES_SHOWN = 8
_PATHS_SHOWN = 4
_NAME_WIDTH = 40


def shown_names(names: Iterable[str]) -> str:
    """Return field names as a short list: ``'a', 'b' and 3 more``."""
    every = list(names)
    if not every:
        return "none"
    shown = ", ".join(repr(_shortened(name)) for name in every[:_NAMES_SHOWN])
    more = len(every) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def shown_paths(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return paths as a short list, each whole: ``a, b and 3 more``."""
    every = [printable(os.fspath(path)) for path in paths]
    more = len(every) - _PATHS_SHOWN
    return ", ".join(every[:_PATHS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def missing_fields(
    kind: str, missing: Sequence[str], present: Iterable[str], fields: Fields, *, side: str = ""
) -> str:
    """Return that fields are missing, which ones there are, and which options help.

    Parameters
    ----------
    kind : {"field", "column"}
    missing, present : iterable of str
    fields : Fields
        What the caller asked for.
    side : str
        Another option that gives keys, if the format has one.
    """
    advice = []
    if fields.key_name in missing and not fields.row_keys:
        options = ["--key-field NAME", *([side] if side else []), "--row-keys"]
        advice.append(" or ".join(options))
    if any(field in missing for field in fields.bodies):
        advice.append("--vector-field NAME" if fields.is_dense else "--text-field NAME")
    plural = "s" if len(missing) > 1 else ""
    names = " and ".join(map(repr, map(_shortened, missing)))
    return (
        f"no {kind}{plural} {names}; the {kind}s are: {shown_names(present)}; "
        f"give {', and '.join(advice)}"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."


def json_kind(value: object) -> str:
    """Return JSON's name for a value, with its article, or the type of what is none of JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return "an integer"
    if isinstance(value, int | float):
        return "a number that is not a 64-bit integer"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else f"of type {type(value).__name__}"


def system_reason(error: OSError) -> str:
    """Return the system's text for an error, without the path."""
    return error.strerror or str(error) or type(error).__name__
