"""The databases that a benchmark compares, in one run: SQLite, and a Postgres of its own."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from tests.postgres import PostgresServer, PostgresUrl

__all__ = ["Place", "add_server_option", "places"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where new indexes go.

    Attributes
    ----------
    name : str
    url : str or None
        As ``--database`` takes it.
    """

    name: str
    url: str | None

    def arguments(self, schema: str) -> list[str]:
        """Options of the command line for a new index."""
        return [] if self.url is None else ["--database", self.url, "--schema", schema]

    def keywords(self, schema: str) -> dict[str, str]:
        """The same for ``Index.create``."""
        return {} if self.url is None else {"database": self.url, "schema": schema}

    def drop(self, schema: str) -> None:
        """Drop the schema of an index, where there is one."""
        if self.url is not None:
            with psycopg.connect(PostgresUrl.parse(self.url).psycopg, autocommit=True) as server:
                server.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())
                server.execute("CHECKPOINT")


def add_server_option(parser: argparse.ArgumentParser) -> None:
    """Let a server be given."""
    parser.add_argument(
        "--postgres-url",
        help="a server for the benchmark; by default the one that the tests bring, with fsync",
    )


@contextlib.contextmanager
def places(url: str | None) -> Iterator[list[Place]]:
    """SQLite and Postgres; a server that is started here is gone at the end."""
    server = None if url else PostgresServer({"fsync": "on"})
    try:
        given = PostgresUrl.parse(url) if url else server.url  # type: ignore[union-attr]
        yield [Place("SQLite", None), Place(f"PostgreSQL {given.version()}", given.lshdb)]
    finally:
        if server is not None:
            server.remove()
