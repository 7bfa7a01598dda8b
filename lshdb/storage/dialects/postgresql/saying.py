"""What the server's errors say to people, and what to do about them.

The server's own text can be several lines, with the place in a statement that the user never wrote.
Its first message says what is wrong; the hint goes by SQLSTATE.
"""

from __future__ import annotations

import psycopg

__all__ = ["hint_of", "said"]

_PRIVILEGES = (
    "ask the owner for the privileges that docs/postgres.md lists: CREATE on the database to make "
    "an index, USAGE on its schema and SELECT on its tables to read it, all on them to write"
)
_HINTS = {
    "42P01": "check URL and schema in index.toml, and that your role may use the schema "
    "(docs/postgres.md); or restore it from a copy",
    "25006": "writing needs the primary server, and a role for which transactions are not read-only"
    " (default_transaction_read_only)",
    "42501": _PRIVILEGES,
    "53": "see what the server has run out of: disk, memory or connections (max_connections)",
    "57014": "somebody cancelled it, or the role's statement_timeout did; docs/postgres.md says "
    "which settings a role needs",
    "57P": "the server was stopped or has ended the connection: run the command again",
    "08": "the connection was lost: run the command again when the server answers",
    "25P03": "the role's idle_in_transaction_session_timeout ended it; docs/postgres.md says which "
    "settings a role needs",
}


def said(error: BaseException) -> str:
    """The error's message in one line, without the statement."""
    error = getattr(error, "orig", None) or error
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        detail = error.diag.message_detail
        return " ".join(f"{error.diag.message_primary}{f' ({detail})' if detail else ''}".split())
    return " ".join(str(error).split())


def hint_of(error: BaseException, otherwise: str) -> str:
    """What to do about the error, where its SQLSTATE tells; else what is given."""
    error = getattr(error, "orig", None) or error
    state = getattr(error, "sqlstate", None)
    if state is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return _HINTS["08"] if lost else otherwise
    for length in (5, 3, 2):
        if state[:length] in _HINTS:
            return _HINTS[state[:length]]
    return otherwise
