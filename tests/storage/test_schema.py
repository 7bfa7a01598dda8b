"""Models, migrations and revision numbers say the same, on either database."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from lshdb import FormatError, Index, IndexNotFoundError
from lshdb.params.metrics import METRICS
from lshdb.storage.dialects import Database, DatabasePlace, database_of
from lshdb.storage.dialects.sqlite.new_schema import STATEMENTS
from lshdb.storage.dialects.sqlite.trust import _band_objects
from lshdb.storage.tables import migrations
from lshdb.storage.tables.band_schema import make_bands
from tests.conftest import family_corpus
from tests.golden.make_index_families import SETTINGS, make_bodies
from tests.postgres import PostgresUrl, fresh_schema
from tests.storage.freeze_schemas import own_objects

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
    with contextlib.closing(database(path, place).open_writer()) as writer, writer.transaction():
        cursor = writer.driver.execute(statement)
        return cursor.fetchall() if cursor.description else []


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
    """The table of bands, which no migration makes, is left out."""
    from alembic import command
    from alembic.script import ScriptDirectory

    path = tmp_path / "x.lshdb"
    with Index.create(path, **place) as index:
        index.add(family_corpus(3)[:20])
    with contextlib.closing(database(path, place).open_writer()) as writer, writer.transaction():
        command.check(migrations._config(writer.alchemy))
        heads = ScriptDirectory.from_config(migrations._config(writer.alchemy)).get_heads()
    assert heads == [migrations.SCHEMA_REVISION] == [revision(path, place)]


def test_a_difference_would_be_found(tmp_path: Path, place: dict[str, str]) -> None:
    from alembic import command
    from alembic.util.exc import CommandError

    path = tmp_path / "x.lshdb"
    Index.create(path, **place).close()
    execute(path, place, "ALTER TABLE batch ADD COLUMN extra INTEGER")
    with contextlib.closing(database(path, place).open_writer()) as writer, writer.transaction():
        config = migrations._config(writer.alchemy)
        with pytest.raises(CommandError, match="extra"):
            command.check(config)


def test_an_older_schema_is_refused_until_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]
) -> None:
    monkeypatch.setattr(migrations, "known_revisions", lambda: {"0000", "0001"})
    path = tmp_path / "x.lshdb"
    Index.create(path, **place).close()
    assert Index.upgrade(path) == (migrations.SCHEMA_REVISION, migrations.SCHEMA_REVISION)
    revision(path, place, "0000")
    with pytest.raises(FormatError, match="revision 0000; this version needs 0001") as caught:
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
        "revision, down_revision = '9000', '0001'\n"
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
    assert "0001 (head)" in config.stdout.getvalue()
    execute(path, place, "CREATE TABLE extra (x INTEGER)")
    with pytest.raises(CommandError, match="extra"):
        command.check(alembic_config(path))
    execute(path, place, "DROP TABLE extra")
    command.upgrade(alembic_config(path), "head")
    with Index.open(path) as index:
        assert index.check() == []


def test_alembic_asks_for_an_index(tmp_path: Path) -> None:
    from alembic import command
    from alembic.util.exc import CommandError

    for argument, message in (("index=/nowhere", "no index at /nowhere"), ("", "-x index=PATH")):
        config = alembic_config(tmp_path)
        config.cmd_opts = Namespace(x=[argument] if argument else [])
        with pytest.raises(CommandError, match=message):
            command.upgrade(config, "head")


@pytest.mark.sqlite("its schema")
@pytest.mark.parametrize("bands", [1, 2, 17, 255])
def test_the_table_of_bands_is_made_as_trust_has_it(bands: int) -> None:
    """Word by word, as an index on somebody's disk has it."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        make_bands(connection, bands)
        rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").fetchall()
    assert own_objects([tuple(row) for row in rows]) == _band_objects(bands)


def test_a_reband_gives_the_table_other_columns(tmp_path: Path, place: dict[str, str]) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, bands=4, rows=8, **place) as index:
        index.add(family_corpus(3)[:20])
    for bands, rows in ((9, 4), (2, 8)):
        Index.reband(path, bands=bands, rows=rows)
        columns = {column for table, column in things(path, place) if table == "band"}
        assert columns == {"signature_id", *(f"b{band}" for band in range(bands))}
        with Index.open(path) as index:
            assert index.check() == []
            ((postings,),) = index.sql("SELECT count(*) FROM posting").rows
            assert postings == bands * index.stats().signatures


@pytest.mark.parametrize("metric", METRICS)
def test_the_view_of_neighbors_says_what_pairs_say(
    tmp_path: Path, place: dict[str, str], metric: str
) -> None:
    """Similarities and distances, of exact copies too, both ways round."""
    settings = SETTINGS.get(metric, {})
    bodies = make_bodies(metric) if settings else family_corpus(3)[:20]
    with Index.create(tmp_path / "x.lshdb", metric=metric, **settings, **place) as index:
        index.add(bodies)
        index.update_clusters()
        pairs = [
            (*keys, pair.similarity, pair.method, pair.distance)
            for pair in index.pairs()
            for keys in ((pair.key1, pair.key2), (pair.key2, pair.key1))
        ]
        statement = "SELECT key, neighbor, similarity, method, distance FROM neighbor"
        rows = sorted(tuple(row) for row in index.sql(statement).rows)
    assert rows == sorted(pairs)
    assert pairs
    assert {pair[-1] is not None for pair in pairs} == {METRICS[metric].is_distance}


def test_no_statement_of_the_schema_names_a_metric() -> None:
    words = set(" ".join(STATEMENTS).replace("'", " ").replace('"', " ").split())
    assert words.isdisjoint(METRICS)
