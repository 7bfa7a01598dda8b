"""Records: a mapping from names to JSON values becomes a document.

Decided: an integer is accepted as a key and becomes its decimal text; other numbers are refused,
because their text depends on the program that prints them. The text is a string, an array of
strings (tokens, used unchanged), or ``{"set": [...]}`` (tokens without order). If vectors, bits or
weights are expected, any string, array or object passes, and ``add`` checks its numbers.

Several text fields are joined in the order in which they are named, with a blank line between. A
field that is missing, null or empty is passed over; a record that has none of them is rejected. So
a title without an abstract is a document, and a record of another kind is not.

A row key is the path, a colon and the number of the line, row or record, counted from 1. It is the
same whatever other files are read with it, and changes if a row is inserted before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Self

from lshdb.documents.document import (
    Document,
    Fields,
    SeenFields,
    json_kind,
    missing_fields,
    validate_body,
    validate_key,
)
from lshdb.documents.io.streams import OpenFile

__all__ = ["JOINT", "NoDocumentError", "Records", "absent", "joined", "row_prefix"]

JOINT = "\n\n"
"""What stands between the texts of several fields."""


class NoDocumentError(Exception):
    """A record is not a document; the message is the reason."""


def row_prefix(file: OpenFile) -> str | None:
    """Return what stands before a row's number in its key; None if rows have keys of their own."""
    return f"{file.key}:" if file.fields.row_keys else None


def joined(texts: Iterable[str | None]) -> str | None:
    """Return texts with a blank line between them; None if all are None."""
    present = [text for text in texts if text is not None]
    return JOINT.join(filter(None, present)) if present else None


class Records:
    """Makes documents of records.

    Parameters
    ----------
    fields : Fields
        Their names.
    seen : SeenFields
        Notes which fields to keep there are.
    prefix : str or None
        Stands before row numbers that are keys; None if records have keys of their own.
    """

    def __init__(self, fields: Fields, seen: SeenFields, prefix: str | None) -> None:
        self._fields = fields
        self._key_field = fields.key_name
        self._prefix = prefix
        self._bodies = fields.bodies
        self._is_joined = fields.is_joined
        self._is_text = fields.is_text
        self._keep = fields.keep
        self._seen = seen

    @classmethod
    def of_file(cls, file: OpenFile) -> Self:
        """Return that of the records of a file."""
        return cls(file.fields, file.seen, row_prefix(file))

    def document(self, record: Mapping[str, Any], number: int, source: str) -> Document:
        """Return the document in a record.

        Parameters
        ----------
        record : mapping
            Names to values, as JSON has them.
        number : int
            Of the line, row or record, from 1.
        source : str
            For messages.

        Raises
        ------
        NoDocumentError
            The record holds none.
        """
        key_field, body_field = self._key_field, self._bodies[0]
        if body_field not in record:
            body_field = next((field for field in self._bodies if field in record), body_field)
        if body_field not in record or (self._prefix is None and key_field not in record):
            missing = absent(self._fields, record)
            raise NoDocumentError(missing_fields("field", missing, record, self._fields))

        if self._prefix is not None:
            key = f"{self._prefix}{number}"
        else:
            key = record[key_field]
            is_whole = isinstance(key, Integral) and not isinstance(key, bool)
            if is_whole and -(2**63) <= key < 2**64:
                key = str(int(key))
            elif not isinstance(key, str):
                kind = json_kind(key)
                raise NoDocumentError(
                    f"key {key_field!r} is {kind}, expected a string or an integer"
                )
        body = self._joined(record) if self._is_joined else self._body(record, body_field)
        reason = validate_key(key)
        if reason is None and self._is_text and not isinstance(body, str):
            reason = validate_body(body)  # a parsed string has no surrogates
        if reason is not None:
            raise NoDocumentError(reason)
        if not self._keep:
            return Document(key, body, source)
        kept_fields = {name: record[name] for name in self._keep if name in record}
        self._seen.note(kept_fields, record)
        return Document(key, body, source, kept_fields or None)

    def _body(self, record: Mapping[str, Any], field: str) -> Any:
        body = record[field]
        if isinstance(body, dict) and list(body) == ["set"] and isinstance(body["set"], list):
            body = _set(body["set"], field)
        is_text = self._is_text
        # What is no value of JSON, as in a dict of a caller, is judged as any body of Python.
        if body is None or isinstance(body, int | float) or (is_text and isinstance(body, dict)):
            kind = json_kind(body)
            what, expected = (
                ("text", "a string or an array of strings")
                if is_text
                else ("body", "an array, a string or an object")
            )
            raise NoDocumentError(f"{what} {field!r} is {kind}, expected {expected}")
        return body

    def _joined(self, record: Mapping[str, Any]) -> str:
        values = [record.get(name) for name in self._bodies]
        for field, value in zip(self._bodies, values, strict=True):
            if value is not None and not isinstance(value, str):
                raise NoDocumentError(
                    f"text {field!r} is {json_kind(value)}, expected a string: texts of several "
                    "fields are joined"
                )
        text = joined(values)
        if text is None:
            names = " and ".join(map(repr, self._bodies))
            raise NoDocumentError(f"the texts {names} are all missing or null")
        return text


def absent(fields: Fields, present: Iterable[str]) -> list[str]:
    """Return the fields that a record or a table must have and does not."""
    names = set(present)
    needs_key = not fields.row_keys and fields.keys is None
    missing = [fields.key_name] if needs_key and fields.key_name not in names else []
    if names.isdisjoint(fields.bodies):
        missing += fields.bodies if fields.is_joined else fields.bodies[:1]
    return missing


def _set(tokens: list[object], field: str) -> frozenset[str]:
    """Return the tokens of a set."""
    for number, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            kind = json_kind(token)
            raise NoDocumentError(f"token {number} of the set {field!r} is {kind}, not a string")
    return frozenset(tokens)  # type: ignore[arg-type]
