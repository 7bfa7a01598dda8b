"""Models, migrations and revision numbers say the same."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lshdb import FormatError, Index, IndexNotFoundError
from lshdb.storage import migrations
from lshdb.storage.dialects.sqlite import SqliteDatabase


def revision(path: Path, new: str | None = None) -> str:
    with sqlite3.connect(path / "index.db") as database:
        if new is not None:
            database.execute("UPDATE alembic_version SET version_num = ?", (new,))
        (found,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    database.close()
    return str(found)


def test_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    Index.create(tmp_path / "x.lshdb").close()
    engine = SqliteDatabase(tmp_path / "x.lshdb" / "index.db").open_engine()
    with engine.begin() as connection:
        command.check(migrations._config(connection))
        heads = ScriptDirectory.from_config(migrations._config(connection)).get_heads()
    engine.dispose()
    assert heads == [migrations.SCHEMA_REVISION] == [revision(tmp_path / "x.lshdb")]


def test_an_older_schema_is_refused_until_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    assert Index.upgrade(path) == ("0003", "0003")
    revision(path, "0000")
    with pytest.raises(FormatError, match="revision 0000; this version needs 0003") as caught:
        Index.open(path)
    assert "lshdb upgrade" in (caught.value.hint or "")
    revision(path, "9999")
    for attempt in (Index.open, Index.upgrade):
        with pytest.raises(FormatError, match="9999") as caught:
            attempt(path)
        assert "newer" in (caught.value.hint or "")
    with pytest.raises(IndexNotFoundError):
        Index.upgrade(tmp_path / "none")


def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps of DDL and then an error: the first must be gone with the rest."""
    scripts = tmp_path / "scripts"
    source = migrations.script_directory()
    (scripts / "versions").mkdir(parents=True)
    for name in ("env.py", "script.py.mako"):
        (scripts / name).write_text((source / name).read_text())
    for version in (source / "versions").glob("*.py"):
        (scripts / "versions" / version.name).write_text(version.read_text())
    (scripts / "versions" / "9000.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        "revision, down_revision = '9000', '0003'\n"
        "def upgrade():\n"
        "    op.add_column('batch', sa.Column('extra', sa.Text))\n"
        "    op.create_table('extra', sa.Column('x', sa.Text))\n"
        "    raise OSError('stopped')\n"
    )
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
    monkeypatch.setattr("lshdb.storage.upgrading.SCHEMA_REVISION", "9000")
    with pytest.raises(OSError, match="stopped"):
        Index.upgrade(path)
    assert revision(path) == "0003"
    with Index.open(path) as index:
        tables = {row[0] for row in index.sql("SELECT name FROM sqlite_master").rows}
        columns = index.sql("SELECT * FROM batch").columns
    assert "extra" not in tables
    assert "extra" not in columns
