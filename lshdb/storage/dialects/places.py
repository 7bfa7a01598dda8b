"""Where a database is, as ``index.toml`` says it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DatabasePlace"]


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a database is.

    Attributes
    ----------
    url : str or None
        Without a password; None for the file ``index.db`` in the index.
    schema : str or None
        In a Postgres database; None for one of the index's own name.
    """

    url: str | None = None
    schema: str | None = None
