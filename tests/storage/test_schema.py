"""Models, migrations and revision numbers say the same."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lshdb import FormatError, Index, IndexNotFoundError
from lshdb.storage import migrations
from lshdb.storage.dialects import sqlite as dialect


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
    engine = dialect.open_writer_engine(tmp_path / "x.lshdb" / "index.db")
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
    assert Index.upgrade(path) == ("0002", "0002")
    revision(path, "0000")
    with pytest.raises(FormatError, match="revision 0000; this version needs 0002") as caught:
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
    (scripts / "versions" / "0003.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        "revision, down_revision = '0003', '0002'\n"
        "def upgrade():\n"
        "    op.add_column('batch', sa.Column('extra', sa.Text))\n"
        "    op.create_table('extra', sa.Column('x', sa.Text))\n"
        "    raise OSError('stopped')\n"
    )
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
    monkeypatch.setattr("lshdb.storage.upgrading.SCHEMA_REVISION", "0003")
    with pytest.raises(OSError, match="stopped"):
        Index.upgrade(path)
    assert revision(path) == "0002"
    with Index.open(path) as index:
        tables = {row[0] for row in index.sql("SELECT name FROM sqlite_master").rows}
        columns = index.sql("SELECT * FROM batch").columns
    assert "extra" not in tables
    assert "extra" not in columns


def test_an_index_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """Bucket sizes are counted and dead signatures found as if they had been from the start."""
    path = tmp_path / "x.lshdb"
    with Index.create(path, k=1) as index:
        index.add([("a", "one two three"), ("b", "one two three four"), ("c", "other words")])
        index.add([("a", "one two five"), ("d", "one two three four")])
    with sqlite3.connect(path / "index.db") as database:
        sizes = database.execute("SELECT * FROM bucket_stat").fetchall()
        for view in ("cluster", "neighbor", "bucket_size", "new_document"):
            database.execute(f"DROP VIEW {view}")
        for table in ("bucket_stat", "signature_release", "edge", "edge_state", "cluster_member"):
            database.execute(f"DROP TABLE {table}")
        database.execute("ALTER TABLE batch DROP COLUMN n_removed")
        database.execute(
            "CREATE VIEW new_document AS SELECT * FROM document "
            "WHERE batch_id >= (SELECT max(add_id) FROM batch)"
        )
    database.close()
    revision(path, "0001")
    with pytest.raises(FormatError, match="revision 0001; this version needs 0002"):
        Index.open(path)
    assert Index.upgrade(path) == ("0001", "0002")
    with Index.open(path) as index:
        assert index.check() == []
        assert [tuple(row) for row in index.sql("SELECT * FROM bucket_stat").rows] == sizes
        released = index.sql("SELECT signature_id FROM signature_release").rows
        assert [tuple(row) for row in released] == [(0,)]
        assert [one.keys for one in index.clusters(threshold=0.7)] == [("b", "d")]
        assert index.check() == []
