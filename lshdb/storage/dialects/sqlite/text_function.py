"""``text(doc_id)``: a function of SQLite that gives the stored text of a document.

``content.body`` is compressed, which SQL cannot undo. The function reads the row on the connection
of the statement that calls it, so both see one committed state, and what limits that connection
(authorizer, progress handler) limits this, too. A text is never longer than one value may be,
whatever the frame or the document's row say: an index may come from elsewhere.

SQLite reports only that a function raised an exception, and which is lost. So a caller who wants to
say more gives ``failed``. It is a file of its own because connections that others open, as
Datasette does, get the function, too.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from lshdb.errors import QueryError
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec, codec_of, needs_dictionary

__all__ = ["LONGEST_VALUE", "count_in_file", "register_text"]

LONGEST_VALUE = 256 * 2**20
"""Bytes of one value: four documents of the usual limit."""

_STATEMENT = (
    "SELECT content.form, content.body, document.n_chars FROM content "
    "LEFT JOIN document ON document.doc_id = content.doc_id WHERE content.doc_id = ?"
)


def count_in_file(path: Path, statement: str) -> int:
    """Return the count that a statement gives of a file, beside connections that others open.

    It is 0 where the file cannot be read.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            (count,) = connection.execute(statement).fetchone()
    except sqlite3.Error:
        return 0
    return int(count)


def register_text(
    connection: sqlite3.Connection,
    *,
    before: Callable[[], None] = lambda: None,
    failed: Callable[[BaseException], None] = lambda _: None,
) -> None:
    """Give a connection the function ``text``.

    Parameters
    ----------
    connection : sqlite3.Connection
        Of the database of an index.
    before : callable
        Called before each text; may raise to end the statement.
    failed : callable
        Told what was raised, before SQLite drops it.
    """
    codecs: list[BodyCodec] = []

    def codec() -> BodyCodec:
        if not codecs:
            row = connection.execute("SELECT body, hash FROM text_dictionary").fetchone()
            if row is None:
                return WITHOUT_DICTIONARY  # a later commit may bring one
            codecs.append(codec_of(*row))
        return codecs[0]

    def text(doc_id: object) -> str | None:
        try:
            before()
            return _text(connection, codec, doc_id)
        except BaseException as error:
            failed(error)
            raise

    connection.create_function("text", 1, text, deterministic=True)


def _text(
    connection: sqlite3.Connection, codec: Callable[[], BodyCodec], doc_id: object
) -> str | None:
    """Return a text; tokens as JSON; None for no document, and where no text is stored."""
    if doc_id is None:
        return None
    if not isinstance(doc_id, int):
        raise QueryError(
            f"text() was given {doc_id!r:.60}; expected a doc_id, a whole number",
            hint="SELECT text(doc_id) FROM document WHERE key = '...'",
        )
    row = connection.execute(_STATEMENT, (doc_id,)).fetchone()
    if row is None:
        return None
    form, body, n_chars = row
    if not (isinstance(form, str) and isinstance(body, bytes)):
        body = b""  # which no frame is: the message names the document
    unpacking = codec() if needs_dictionary(body) else WITHOUT_DICTIONARY
    return unpacking.unpack_plain(form, body, n_chars=n_chars, doc_id=doc_id, most=LONGEST_VALUE)
