"""Values of a user's own statement, as SQLite would give them: numbers, texts, bytes, lists.

Everything else (times, JSON, ranges, addresses, rows) is the text that the server writes for it.
That loses nothing: Python has no infinite time, none before the year 1, and no JSON number of a
hundred digits. Whole numbers of more than 64 bits and fractions become floats, as in SQLite.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.numeric import IntDumper
from psycopg.types.string import TextLoader

__all__ = ["size_of", "use_plain_values"]

_KEPT = frozenset(
    {
        "bool", "bytea", "char", "bpchar", "varchar", "text", "name", "unknown", "float4", "float8",
        "int2", "int4", "int8", "oid", "numeric",
    }
)  # fmt: skip
"""Types whose values are numbers, texts and bytes in Python."""
_LARGEST = 2**63


class _NumericLoader(Loader):
    """A numeric as an int of 64 bits where it is written as one, else as a float."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        if text.lstrip("-").isdecimal() and -_LARGEST <= int(text) < _LARGEST:
            return int(text)
        return float(text)


class _TruthLoader(Loader):
    """A truth as 1 or 0."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


def use_plain_values(connection: psycopg.Connection[Any]) -> None:
    """Let a connection give plain values, and take numbers in the smallest type that holds them.

    ``substr(key, ?)`` is known for an integer, which a bigint does not become by itself.
    """
    adapters = connection.adapters
    adapters.register_dumper(int, IntDumper)
    for info in psycopg.adapters.types:
        if info.name not in _KEPT:
            adapters.register_loader(info.oid, TextLoader)
    adapters.register_loader("numeric", _NumericLoader)
    adapters.register_loader("bool", _TruthLoader)


def size_of(row: tuple[Any, ...]) -> int:
    """Bytes that a row takes, about."""
    return sum(len(value) if isinstance(value, str | bytes | list) else 8 for value in row)
