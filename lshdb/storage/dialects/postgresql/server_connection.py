"""A connection to the server, or to a pooler that lends one for each transaction.

PgBouncer in transaction mode hands the server's connection to the next client at each COMMIT. A
setting of the session would be gone then, and be the next client's; so would a prepared statement.

Decided: behind a pooler of any mode, nothing is set but within a transaction, as the first thing
after BEGIN (``SET LOCAL``), and nothing is prepared. Directly at the server, the session has the
settings, and statements are prepared: questions would take a multiple of their time otherwise. A
pooler makes up the process number that it gives to a client, which tells the two cases apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

__all__ = ["ServerConnection", "quoted"]

_PREPARED_AFTER = 2


class ServerConnection(psycopg.Connection[Any]):
    """A connection with settings, see above.

    Attributes
    ----------
    opening : str
        The statement that each transaction must begin with after BEGIN; empty if there is none.
    """

    opening = ""

    def use(self, schema: str, settings: Mapping[str, str]) -> None:
        """Let statements find the tables of a schema, and have the server's settings.

        Raises
        ------
        psycopg.Error
        """
        both = {"search_path": f"{quoted(schema)}, pg_temp", **settings}
        row = self.execute("SELECT pg_backend_pid()").fetchone()
        if row == (self.info.backend_pid,):
            self.execute(_setting(both, is_local=False))
            self.prepare_threshold = _PREPARED_AFTER
        else:
            self.opening = _setting(both, is_local=True)
            self.prepare_threshold = None

    def begin(self, how: str = "READ ONLY") -> None:
        """Begin a transaction, on a connection with autocommit."""
        for statement in self.beginning(how):
            self.execute(statement.encode())

    def beginning(self, how: str) -> tuple[str, ...]:
        """Return the statements that begin a transaction."""
        return (f"BEGIN {how}", self.opening) if self.opening else (f"BEGIN {how}",)

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Run a block in a transaction, or a part of one."""
        with super().transaction(savepoint_name, force_rollback) as transaction:
            self.open()
            yield transaction

    def open(self) -> None:
        """Make the settings of a transaction that has begun, or begin one."""
        if self.opening:
            self.execute(self.opening.encode())


def quoted(schema: str) -> str:
    """Return a schema's name, quoted for statements."""
    return '"' + schema.replace('"', '""') + '"'


def _setting(settings: Mapping[str, str], *, is_local: bool) -> str:
    """Return one statement that makes settings, however the server reads backslashes."""
    calls = []
    for name, value in settings.items():
        text = value.replace("\\", "\\\\").replace("'", "''")
        calls.append(f"pg_catalog.set_config('{name}', E'{text}', {str(is_local).lower()})")
    return f"SELECT {', '.join(calls)}"
