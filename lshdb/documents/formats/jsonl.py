"""JSON Lines: documents out of the objects, or the lines as they lie.

Each line is an object with the key in one field and the body in another.

Decided: every line is independent. A bad line is rejected, and the next one is read as usual.
Blank lines are skipped. An integer is accepted as a key and becomes its decimal text; other numbers
are refused, because their text depends on the program that prints them. The text is a string, an
array of strings (tokens, used unchanged), or ``{"set": [...]}`` (tokens without order). If vectors,
bits or weights are expected, any string, array or object passes, and ``add`` checks its numbers. If
a field occurs twice in an object, the last one counts, which is the parser's rule.

:func:`read_raw_lines` is for passing lines on unchanged. It rejects nothing: a line without an
object has ``record`` None, and the caller decides what to do with it. A line over the limit is
yielded in pieces as it is read, so that it is neither held nor lost.

Limits: integers have 64 bits; nesting is at most about 1,000 deep (the parser's limits).
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from lshdb.documents.document import (
    Document,
    Rejected,
    json_kind,
    shown_names,
    validate_body,
    validate_key,
)
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines

__all__ = ["RawLine", "key_of", "read_jsonl", "read_raw_lines"]


class _NoDocumentError(Exception):
    """A line is not a document; the message is the reason."""


def read_jsonl(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read JSON Lines.

    Yields
    ------
    Document or Rejected
        One for each line that is not blank, in order.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line.
    """
    name, fields, limit = file.name, file.fields, file.limit
    key_field, body_fields, is_text = fields.key_name, fields.bodies, fields.is_text
    for number, line in enumerate(split_lines(file.chunks, limit), start=1):
        source = f"{name}:{number}"
        if isinstance(line, TooLong):
            reason = f"the line has {line.size:,} bytes, more than the limit of {limit:,}"
            yield Rejected(source, reason)
            continue
        line = line.rstrip(b" \t\r")
        if not line:
            continue
        try:
            yield _document(line, key_field, body_fields, is_text, source)
        except _NoDocumentError as error:
            yield Rejected(source, str(error))


def _document(
    line: bytes, key_field: str, body_fields: tuple[str, ...], is_text: bool, source: str
) -> Document:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _NoDocumentError(_no_json(line, error)) from error
    if not isinstance(record, dict):
        raise _NoDocumentError(f"the line is {json_kind(record)}, expected an object")
    body_field = body_fields[0]
    if body_field not in record:
        body_field = next((each for each in body_fields if each in record), body_field)
    if key_field not in record or body_field not in record:
        field = body_field if key_field in record else key_field
        raise _NoDocumentError(f"no field {field!r}; the fields are: {shown_names(record)}")

    key = record[key_field]
    if type(key) is int:
        key = str(key)
    elif not isinstance(key, str):
        kind = json_kind(key)
        raise _NoDocumentError(f"key {key_field!r} is {kind}, expected a string or an integer")
    body = record[body_field]
    if isinstance(body, dict) and list(body) == ["set"] and isinstance(body["set"], list):
        body = _set(body["set"], body_field)
    if not isinstance(body, (str, list, frozenset)) and (is_text or not isinstance(body, dict)):
        kind = json_kind(body)
        what, expected = (
            ("text", "a string or an array of strings")
            if is_text
            else ("body", "an array, a string or an object")
        )
        raise _NoDocumentError(f"{what} {body_field!r} is {kind}, expected {expected}")
    reason = validate_key(key)
    if reason is None and is_text and isinstance(body, list | frozenset):
        reason = validate_body(body)  # a parsed string has no surrogates
    if reason is not None:
        raise _NoDocumentError(reason)
    return Document(key, body, source)


def _set(tokens: list[object], field: str) -> frozenset[str]:
    """Return the tokens of a set."""
    for number, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            kind = json_kind(token)
            raise _NoDocumentError(f"token {number} of the set {field!r} is {kind}, not a string")
    return frozenset(tokens)  # type: ignore[arg-type]


def _no_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"not valid UTF-8 at byte {undecodable.start + 1} of the line"
    message = error.msg
    if "surrogate" in message:
        message = "an escape stands for a lone surrogate"
    return f"not valid JSON: {message} (column {error.colno})"


class RawLine(NamedTuple):
    """A line, or a piece of one that is over the limit.

    Attributes
    ----------
    data : bytes
        With the line end, if it has been read.
    record : dict or None
        The object in the line.
    continues : bool
        Whether this piece continues the line of the piece before it.
    is_whole : bool
        Whether it is a whole line.
    """

    data: bytes
    record: dict[str, Any] | None
    continues: bool = False
    is_whole: bool = True


def read_raw_lines(path: str | os.PathLike[str], *, limit: int) -> Iterator[RawLine]:
    """Read the lines of a JSON Lines file, plain or compressed.

    Parameters
    ----------
    path : path-like
    limit : int
        The longest line that is parsed, in bytes without its line feed.

    Raises
    ------
    InputError
        The path cannot be read to its end; the lines before that point have been yielded.
    """
    with open_single(path, input_format="jsonl") as (_, chunks):
        for piece in _pieces(chunks, limit):
            yield piece if not piece.is_whole else piece._replace(record=_object(piece.data))


def key_of(record: dict[str, Any] | None, key_field: str) -> str | None:
    """Return the key that ``read_documents`` would take from an object; None if it has none."""
    key = None if record is None else record.get(key_field)
    if type(key) is int:
        return str(key)
    return key if isinstance(key, str) else None


def _pieces(chunks: Iterator[bytes], limit: int) -> Iterator[RawLine]:
    """Yield lines, and pieces of lines over the limit, without parsing them."""
    held: list[bytes] = []
    size, in_pieces = 0, False
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            piece = chunk[start:end]
            start = end
            ended = piece.endswith(b"\n")
            held.append(piece)
            size += len(piece)
            if in_pieces or size - ended > limit:
                yield RawLine(b"".join(held), None, continues=in_pieces, is_whole=False)
                in_pieces = not ended
            elif ended:
                yield RawLine(b"".join(held), None)
            else:
                continue
            held.clear()
            size = 0
    if held:
        yield RawLine(b"".join(held), None)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
