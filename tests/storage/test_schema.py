"""Models, migrations and revision numbers say the same, on either database."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from lshdb import FormatError, Index, IndexNotFoundError
from lshdb.params.index_params import FORMAT
from lshdb.storage.dialects import Database, DatabasePlace, database_of
from lshdb.storage.dialects.sqlite.trust import words_of
from lshdb.storage.tables import migrations, run_tables
from lshdb.storage.tables.records import row_checksum
from tests.conftest import family_corpus
from tests.golden.test_indexes import unpack
from tests.postgres import PostgresUrl, fresh_schema

Make = Callable[[], Path]
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(
    params=[pytest.param("sqlite", marks=pytest.mark.sqlite("it names both")), "postgresql"]
)
def place(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Where an index is to have its database, as options of ``Index.create``."""
    if request.param == "sqlite":
        yield {}
        return
    url: PostgresUrl = request.getfixturevalue("postgres_url")
    with fresh_schema(url) as schema:
        yield {"database": url.lshdb, "schema": schema}


def database(path: Path, place: dict[str, str]) -> Database:
    return database_of(DatabasePlace(place.get("database"), place.get("schema")), path)


def execute(path: Path, place: dict[str, str], statement: str) -> list[Any]:
    engine = database(path, place).open_engine()
    with engine.begin() as connection:
        result = connection.exec_driver_sql(statement)
        rows = [tuple(row) for row in result.fetchall()] if result.returns_rows else []
    engine.dispose()
    return rows


def revision(path: Path, place: dict[str, str], new: str | None = None) -> str:
    if new is not None:
        execute(path, place, f"UPDATE alembic_version SET version_num = '{new}'")
    ((found,),) = execute(path, place, "SELECT version_num FROM alembic_version")
    return str(found)


def things(path: Path, place: dict[str, str]) -> set[tuple[str, str]]:
    """Tables and their columns."""
    if place:
        statement = (
            "SELECT table_name::text, column_name::text FROM information_schema.columns "
            "WHERE table_schema = current_schema()"
        )
    else:
        statement = (
            "SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c"
        )
    return set(execute(path, place, statement))


def test_migrations_make_what_the_models_say(tmp_path: Path, place: dict[str, str]) -> None:
    """Also where posting runs have come meanwhile."""
    from alembic import command
    from alembic.script import ScriptDirectory

    path = tmp_path / "x.lshdb"
    with Index.create(path, **place) as index:
        index.add(family_corpus(3)[:20])
    engine = database(path, place).open_engine()
    with engine.begin() as connection:
        command.check(migrations._config(connection))
        heads = ScriptDirectory.from_config(migrations._config(connection)).get_heads()
    engine.dispose()
    assert heads == [migrations.SCHEMA_REVISION] == [revision(path, place)]


def test_a_difference_would_be_found(tmp_path: Path, place: dict[str, str]) -> None:
    from alembic import command
    from alembic.util.exc import CommandError

    path = tmp_path / "x.lshdb"
    Index.create(path, **place).close()
    execute(path, place, "ALTER TABLE batch ADD COLUMN extra INTEGER")
    engine = database(path, place).open_engine()
    with engine.begin() as connection, pytest.raises(CommandError, match="extra"):
        command.check(migrations._config(connection))
    engine.dispose()


def test_an_older_schema_is_refused_until_upgraded(tmp_path: Path, place: dict[str, str]) -> None:
    path = tmp_path / "x.lshdb"
    Index.create(path, **place).close()
    assert Index.upgrade(path) == (migrations.SCHEMA_REVISION, migrations.SCHEMA_REVISION)
    revision(path, place, "0000")
    with pytest.raises(FormatError, match="revision 0000; this version needs 0008") as caught:
        Index.open(path)
    assert "lshdb upgrade" in (caught.value.hint or "")
    revision(path, place, "9999")
    for attempt in (Index.open, Index.upgrade):
        with pytest.raises(FormatError, match="9999") as caught:
            attempt(path)
        assert "newer" in (caught.value.hint or "")
    with pytest.raises(IndexNotFoundError):
        Index.upgrade(tmp_path / "none")


def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]
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
        "revision, down_revision = '9000', '0008'\n"
        "def upgrade():\n"
        "    op.add_column('batch', sa.Column('extra', sa.Text))\n"
        "    op.create_table('extra', sa.Column('x', sa.Text))\n"
        "    raise OSError('stopped')\n"
    )
    path = tmp_path / "x.lshdb"
    Index.create(path, **place).close()
    before = things(path, place)
    assert ("batch", "checksum") in before
    monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
    monkeypatch.setattr("lshdb.maintain.upgrade.SCHEMA_REVISION", "9000")
    with pytest.raises(OSError, match="stopped"):
        Index.upgrade(path)
    assert revision(path, place) == migrations.SCHEMA_REVISION
    assert things(path, place) == before


@pytest.mark.parametrize("first", ["0001", "0002", "0003", "0004"])
def test_rows_of_an_older_schema_are_brought_along(
    tmp_path: Path, first: str, place: dict[str, str]
) -> None:
    """Made by the migrations up to then, filled with the rows of an index, and upgraded.

    What later revisions compute from these rows must be what a new index has.
    """
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5, **place) as index:
        index.add(family_corpus(3)[:60])
        index.add(family_corpus(3)[40:80])
        index.remove(["f001-1", "f002-2"])
        index.add([("f003-1", "quite another text than there was before this one came in")])
        if first != "0001":
            list(index.clusters())
        expected = contents(index)
        answers = sorted(index.pairs(), key=repr)
    take_back(path, place, first)
    with pytest.raises(FormatError, match=f"revision {first}"):
        Index.open(path)
    assert Index.upgrade(path) == (first, migrations.SCHEMA_REVISION)
    with Index.open(path) as index:
        assert contents(index) == expected
        assert sorted(index.pairs(), key=repr) == answers
        assert [finding for finding in index.check() if first != "0001"] == []
        index.add(family_corpus(5)[:10])
        assert len(list(index.clusters())) > 3


def contents(index: Index) -> dict[str, list[Any]]:
    """Rows that a migration makes, or gives a checksum."""
    statements = {
        "state": "SELECT * FROM state", "document": "SELECT * FROM document ORDER BY doc_id",
        "bucket_stat": "SELECT * FROM bucket_stat ORDER BY run_id, band, size",
        "unused": "SELECT DISTINCT signature_id FROM signature_release WHERE NOT EXISTS (SELECT 1 "
                  "FROM document WHERE document.signature_id = signature_release.signature_id) "
                  "ORDER BY 1",
        "posting": "SELECT * FROM posting ORDER BY bucket_key, signature_id",
        "new": "SELECT key FROM new_document ORDER BY key",
    }  # fmt: skip
    found = {name: list(index.sql(statement).rows) for name, statement in statements.items()}
    # Those that came in before schema 0003 do not say how many characters were unassigned, and a
    # row's checksum is of that, too; ``check`` compares it.
    found["document"] = [row[:-2] for row in found["document"]]
    return found


def take_back(path: Path, place: dict[str, str], first: str) -> None:
    """Make the schema as an older version had it, by its migrations, with the rows there are."""
    from alembic import command

    made = path.with_name("older.lshdb")
    older = place and {**place, "schema": f"{place['schema']}-older"}
    target = database(made, older)
    made.mkdir()
    engine = target.open_engine()
    with engine.begin() as connection:
        target.prepare(connection, "0" * 8)
        command.upgrade(migrations._config(connection), first)
    engine.dispose()
    columns: dict[str, list[str]] = {}
    for table, column in sorted(things(made, older)):
        columns.setdefault(table, []).append(column)
    source = database(path, place).open_reader()
    engine = target.open_engine()
    views = {"posting", "bucket", "new_document", "document_bucket", "bucket_size", "cluster",
             "neighbor", "stored_posting", "alembic_version"}  # fmt: skip
    order = ["state", "parameter", "batch", "document", "content", "run", "bucket_stat"]
    tables = [*order, *sorted(columns.keys() - set(order) - views)]
    with engine.begin() as connection:
        rows, new = source.begin(), target.session(connection)
        for table in [table for table in tables if table in columns]:
            names = ", ".join(f'"{name}"' for name in columns[table])
            marks = ", ".join("?" * len(columns[table]))
            new.execute_many(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",
                rows.execute(f"SELECT {names} FROM {table}").fetchall(),
            )
        runs = rows.execute("SELECT run_id, table_name, is_active FROM run").fetchall()
        for run_id, name, is_active in runs:
            new.run_tables.create(run_id, name, is_active=bool(is_active))
            for block in rows.run_tables.in_order([name], contents=True, block=1000):
                new.run_tables.insert(run_id, name, block[:, 0], block[:, 1])
            if not is_active:
                new.run_tables.complete(run_id, name)
        new.run_tables.publish([name for _, name, _ in runs])
    engine.dispose()
    source.end()
    source.close()
    swap(path, made, place, older)


def swap(path: Path, made: Path, place: dict[str, str], older: dict[str, str]) -> None:
    """Put the older database in the place of the index's."""
    if not place:
        for suffix in ("-wal", "-shm"):
            (path / f"index.db{suffix}").unlink(missing_ok=True)
        (made / "index.db").replace(path / "index.db")
        return
    execute(path, place, f'DROP SCHEMA "{place["schema"]}" CASCADE')
    execute(made, older, f'ALTER SCHEMA "{older["schema"]}" RENAME TO "{place["schema"]}"')


def alembic_config(path: Path) -> Any:
    """What `alembic -x index=PATH` reads from a checkout."""
    from alembic.config import Config

    return Config(
        CHECKOUT / "alembic.ini", cmd_opts=Namespace(x=[f"index={path}"]), stdout=StringIO()
    )


def test_alembic_works_from_a_checkout(tmp_path: Path, place: dict[str, str]) -> None:
    from alembic import command
    from alembic.util.exc import CommandError

    path = tmp_path / "x.lshdb"
    with Index.create(path, **place) as index:
        index.add(family_corpus(3)[:20])
    command.check(alembic_config(path))
    config = alembic_config(path)
    command.current(config)
    assert "0008 (head)" in config.stdout.getvalue()
    execute(path, place, "CREATE TABLE extra (x INTEGER)")
    with pytest.raises(CommandError, match="extra"):
        command.check(alembic_config(path))
    execute(path, place, "DROP TABLE extra")
    command.upgrade(alembic_config(path), "head")
    with Index.open(path) as index:
        assert index.check() == []


def relabel(path: Path) -> None:
    """Give an index of format 1 today's format number: one of an older schema of today's format."""
    description = path / "index.toml"
    text = description.read_text("utf-8")
    description.write_text(text.replace("format = 1\n", f"format = {FORMAT}\n"), "utf-8")
    execute(path, {}, f"UPDATE state SET format = {FORMAT}")
    ((*values, _checksum),) = execute(path, {}, "SELECT * FROM state")
    execute(path, {}, f"UPDATE state SET checksum = {row_checksum(values)}")


def test_alembic_upgrades_an_older_index_as_its_only_writer(tmp_path: Path) -> None:
    from alembic import command
    from alembic.util.exc import CommandError

    path = tmp_path / "x.lshdb"
    unpack(CHECKOUT / "tests/golden/indexes/0006.tar.gz", tmp_path).rename(path)
    relabel(path)
    command.upgrade(alembic_config(path), "head")
    assert revision(path, {}) == migrations.SCHEMA_REVISION
    Index.open(path).close()
    for argument, message in (("index=/nowhere", "no index at /nowhere"), ("", "-x index=PATH")):
        config = alembic_config(path)
        config.cmd_opts = Namespace(x=[argument] if argument else [])
        with pytest.raises(CommandError, match=message):
            command.upgrade(config, "head")


def test_runs_are_made_as_they_always_were(tmp_path: Path) -> None:
    """Word by word, as an index on somebody's disk has them."""
    names = ["posting_run_1", "posting_run_7"]
    drop, view = run_tables.sqlite_view(names)
    arms = [
        "SELECT CAST(bucket_key >> 32 AS INTEGER) AS band, "
        "CAST(bucket_key & 4294967295 AS INTEGER) AS bucket, bucket_key, signature_id "
        f"FROM {name} WHERE bucket_key < 1095216660480"
        for name in names
    ]
    arms.insert(0, "SELECT band, bucket, bucket_key, signature_id FROM no_posting")
    assert words_of(drop) == "DROP VIEW IF EXISTS posting"
    assert words_of(view) == words_of("CREATE VIEW posting AS " + " UNION ALL ".join(arms))
    assert words_of(run_tables.sqlite_run("posting_run_7")) == words_of(
        "CREATE TABLE posting_run_7 (bucket_key INTEGER NOT NULL, signature_id INTEGER NOT NULL, "
        "PRIMARY KEY (bucket_key, signature_id)) WITHOUT ROWID"
    )
