"""Running Alembic's migrations from ``migrations/`` (in the wheel ``lshdb/_migrations``).

Nothing migrates on open: an index with another schema is refused, with a hint at ``lshdb upgrade``.
All migrations of one upgrade are one transaction; killed in the middle, it leaves the old schema.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.errors import DamageError, FormatError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

__all__ = [
    "SCHEMA_REVISION",
    "check_revision",
    "known_revisions",
    "script_directory",
    "stored_versions",
    "upgrade",
]

SCHEMA_REVISION = "0001"
"""Revision of the schema that this version reads and writes; the newest in ``migrations/``."""


def script_directory() -> Path:
    """Return where the migrations lie: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for place in (package / "_migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise FormatError(
        f"the migrations are missing: neither {package / '_migrations'} nor "
        f"{package.parent / 'migrations'} is there",
        hint="install lshdb again",
    )


def check_revision(stored: str | None, path: Path) -> None:
    """Compare an index's schema revision with this version's.

    Raises
    ------
    FormatError
        They differ; the message says which is newer.
    DamageError
        It is no revision at all.
    """
    if stored == SCHEMA_REVISION:
        return
    if stored in known_revisions():
        raise FormatError(
            f"the index {path} has schema revision {stored}; this version needs {SCHEMA_REVISION}",
            hint=f"bring it up to date with: lshdb upgrade {path}",
        )
    if isinstance(stored, str) and re.fullmatch("[0-9]{4}", stored) and stored > SCHEMA_REVISION:
        raise FormatError(
            f"the index {path} has schema revision {stored}; this version knows up to "
            f"{SCHEMA_REVISION}",
            hint="it was made by a newer lshdb; install that",
        )
    raise DamageError(
        f"the schema revision of the index {path} is {stored!r}, which no lshdb has written",
        hint="restore the index from a copy",
    )


def known_revisions() -> set[str]:
    """Return :data:`SCHEMA_REVISION`, and all from which there is a way to it."""
    versions = script_directory() / "versions"
    return {path.name.partition("_")[0] for path in versions.glob("[0-9]*_*.py")}


def stored_versions(connection: Connection) -> tuple[str | None, int | None]:
    """Return the schema revision and the format that a database of any version says it has."""
    from sqlalchemy import text

    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    stored_format = connection.execute(text("SELECT format FROM state")).scalar()
    return None if revision is None else str(revision), stored_format


def upgrade(connection: Connection) -> None:
    """Bring the schema to :data:`SCHEMA_REVISION`, inside the connection's open transaction."""
    from alembic import command

    command.upgrade(_config(connection), "head")


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_directory()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
