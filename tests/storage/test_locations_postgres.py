"""Where an index may lie in Postgres, how it is reached, and that nothing is left elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lshdb import (
    DatabaseError,
    Index,
    IndexExistsError,
    LshdbError,
    ParameterError,
    QueryError,
    ReadOnlyError,
)
from lshdb.errors import install_command
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.children.waiting import join_all
from tests.cli.conftest import MODULE, environment
from tests.conftest import family_corpus
from tests.postgres import LIBPQ, LSHDB, PostgresServer, PostgresUrl

SECRET = "s3cr3t word"
NAMES = [
    'Weird "name" -- x;\n\\', "100% %s %(x)s {schema} ?1 :name $1", "Schöne Grüße 名 ' OR 1=1",
    "é" * 31 + "x", "select",
]  # fmt: skip


@pytest.fixture(autouse=True)
def untouched(postgres_url: PostgresUrl) -> Iterator[None]:
    """What a test makes it removes; nothing in the whole database is different afterwards."""
    before = everything(postgres_url)
    yield
    assert everything(postgres_url) == before


def everything(url: PostgresUrl, but: str = "") -> set[tuple[Any, ...]]:
    """Whatever has a name in the whole database, but for what is in one schema."""
    statement = (
        "SELECT 'namespace', nspname::text, '' FROM pg_namespace WHERE nspname <> %(but)s "
        "AND nspname !~ '^pg_(toast_)?temp_' "
        "UNION ALL SELECT 'class', relname::text, nspname::text FROM pg_class "
        "JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname NOT IN (%(but)s, 'pg_toast') "
        "UNION ALL SELECT 'proc', proname::text, nspname::text FROM pg_proc "
        "JOIN pg_namespace AS n ON n.oid = pronamespace WHERE nspname <> %(but)s "
        "UNION ALL SELECT 'type', typname::text, nspname::text FROM pg_type "
        "JOIN pg_namespace AS n ON n.oid = typnamespace WHERE nspname NOT IN (%(but)s, 'pg_toast') "
        "UNION ALL SELECT 'role', rolname::text, '' FROM pg_roles "
        "UNION ALL SELECT 'setting', setdatabase::text, setconfig::text FROM pg_db_role_setting "
        "UNION ALL SELECT 'extension', extname::text, '' FROM pg_extension "
        "UNION ALL SELECT 'large object', oid::text, '' FROM pg_largeobject_metadata "
        "UNION ALL SELECT 'lock', locktype, objid::text FROM pg_locks WHERE locktype = 'advisory'"
    )
    with psycopg.connect(url.psycopg) as connection:
        return set(connection.execute(statement, {"but": but}).fetchall())


@pytest.fixture
def admin(postgres_url: PostgresUrl) -> Iterator[Callable[..., Any]]:
    """Run statements as who may do anything; ``{}`` is a quoted name."""
    with psycopg.connect(postgres_url.psycopg, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")

        def run(statement: str, *names: str) -> list[Any]:
            done = connection.execute(
                sql.SQL(statement).format(*map(sql.Identifier, names))  # type: ignore[arg-type]
            )
            return done.fetchall() if done.description else []

        yield run


@pytest.mark.sqlite("all that is made in Postgres is listed")
@pytest.mark.parametrize("schema", NAMES)
def test_a_life_of_every_command_leaves_nothing_outside(
    schema: str, tmp_path: Path, postgres_url: PostgresUrl, admin: Callable[..., Any]
) -> None:
    before = everything(postgres_url, schema)
    path, corpus = tmp_path / "x.lshdb", family_corpus(7)
    try:
        with Index.create(path, database=postgres_url.lshdb, schema=schema, threshold=0.5) as index:
            index.add(corpus[:60])
            index.add(corpus[50:90])
            index.remove([corpus[3][0]])
            assert len(list(index.pairs())) > 10
            assert list(index.query(corpus[5][1]))
            assert list(index.clusters())
            assert index.stats().database == f"{postgres_url.lshdb} (schema {schema})"
            index.compact()
        Index.reband(path, threshold=0.6)
        with Index.open(path) as index:
            assert Index.upgrade(path) == (SCHEMA_REVISION, SCHEMA_REVISION)
            assert list(index.sql("SELECT current_schema()").rows) == [(schema,)]
            with pytest.raises(QueryError):
                index.sql("SELECT lo_create(0), 1/0")
            assert index.check() == []
            assert everything(postgres_url, schema) == before
            index.copy(tmp_path / "copy.lshdb")
        with Index.open(tmp_path / "copy.lshdb") as index:
            assert index.check() == []
    finally:
        admin("DROP SCHEMA IF EXISTS {} CASCADE", schema)
    assert everything(postgres_url) == before


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("é" * 32, "64 bytes"), ("x" * 64, "64 bytes"), ("pg_x", "reserved"),
        ("information_schema", "reserved"), ("$user", "reserved"), ("", "empty"), ("a\0b", "NUL"),
        ("\ud800", "UTF-8"),
    ],
)  # fmt: skip
def test_names_that_cannot_be(
    schema: str, why: str, tmp_path: Path, postgres_url: PostgresUrl
) -> None:
    with pytest.raises(ParameterError, match=why):
        Index.create(tmp_path / "x.lshdb", database=postgres_url.lshdb, schema=schema)
    assert os.listdir(tmp_path) == []


def test_a_schema_is_of_no_use_with_sqlite(tmp_path: Path) -> None:
    for place in ({"schema": "a"}, {"schema": "a", "database": "sqlite:///x.db"}):
        with pytest.raises(ParameterError, match="SQLite"):
            Index.create(tmp_path / "x.lshdb", **place)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("was_there", [False, True])
def test_everything_is_gone_where_making_fails(
    was_there: bool, tmp_path: Path, postgres_url: PostgresUrl, admin: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In the middle of the tables, before the first commit, and after it."""
    place = {"database": postgres_url.lshdb, "schema": "half made"}
    if was_there:
        admin("CREATE SCHEMA {}", "half made")
    before = everything(postgres_url)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("lshdb.storage.place.creation.with_checksum", lambda row: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                Index.create(tmp_path / "x.lshdb", **place)
        assert everything(postgres_url) == before
        index = Index.create(tmp_path / "x.lshdb", deferred=True, **place)
        assert everything(postgres_url) != before
        index.close()
        assert everything(postgres_url) == before
        code = (
            "import os, sys; from lshdb import Index\n"
            "index = Index.create(sys.argv[1], deferred=True, database=sys.argv[2], "
            "schema='half made')\nos.kill(os.getpid(), 9)"
        )
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "x.lshdb", postgres_url.lshdb],
            check=False,
            timeout=300,
        )
        assert everything(postgres_url) != before
        with Index.create(tmp_path / "x.lshdb", **place) as index:
            index.add([("a", "one two three")])
            assert index.check() == []
    finally:
        admin("DROP SCHEMA IF EXISTS {} CASCADE", "half made")


def test_one_that_comes_second_leaves_the_first_alone(
    tmp_path: Path, postgres_url: PostgresUrl, admin: Callable[..., Any]
) -> None:
    """Two hosts make an index in one schema at once; one of them is told so."""
    place = {"database": postgres_url.lshdb, "schema": "two hosts"}
    outcomes: list[object] = []

    def make(number: int) -> None:
        try:
            with Index.create(tmp_path / f"{number}.lshdb", **place) as index:
                index.add([("a", "one two three")])
            outcomes.append(number)
        except IndexExistsError as error:
            outcomes.append(error.hint)

    try:
        threads = [
            threading.Thread(target=make, args=(number,), daemon=True) for number in range(3)
        ]
        for thread in threads:
            thread.start()
        join_all(threads)
        (made,) = [found for found in outcomes if isinstance(found, int)]
        assert len(outcomes) == 3
        with Index.open(tmp_path / f"{made}.lshdb") as index:
            assert index.check() == []
            assert index.stats().documents == 1
        assert os.listdir(tmp_path) == [f"{made}.lshdb"]
    finally:
        admin("DROP SCHEMA IF EXISTS {} CASCADE", "two hosts")


@pytest.mark.parametrize(
    "thing",
    ["TABLE {}.state (x int)", "VIEW {}.v AS SELECT 1", "SEQUENCE {}.s", "TYPE {}.t AS ENUM ('a')",
     "FUNCTION {}.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
)  # fmt: skip
def test_a_schema_with_something_in_it_is_refused(
    thing: str, tmp_path: Path, postgres_url: PostgresUrl, admin: Callable[..., Any]
) -> None:
    admin("CREATE SCHEMA {}", "taken")
    try:
        admin(f"CREATE {thing}", "taken")
        before = everything(postgres_url)
        with pytest.raises(
            IndexExistsError, match=r"there is something, '.*', in the schema taken"
        ):
            Index.create(tmp_path / "x.lshdb", database=postgres_url.lshdb, schema="taken")
        assert everything(postgres_url) == before
        assert os.listdir(tmp_path) == []
    finally:
        admin("DROP SCHEMA {} CASCADE", "taken")


# Roles


@pytest.fixture
def role(postgres_url: PostgresUrl, admin: Callable[..., Any]) -> Iterator[str]:
    """A role that may log in and nothing else; with it a schema "given", which is dropped."""
    name = "lshdb test reader"
    admin("CREATE ROLE {} LOGIN", name)
    yield name
    admin("DROP SCHEMA IF EXISTS {} CASCADE", "given")
    admin("DROP OWNED BY {}", name)
    admin("DROP ROLE {}", name)


def as_role(url: PostgresUrl, role: str) -> str:
    separator = "&" if "?" in url.lshdb else "?"
    return f"{url.lshdb}{separator}user={role.replace(' ', '%20')}"


def test_a_role_that_may_not_make_a_schema(
    tmp_path: Path, postgres_url: PostgresUrl, role: str, admin: Callable[..., Any]
) -> None:
    place = {"database": as_role(postgres_url, role), "schema": "given"}
    with pytest.raises(DatabaseError, match="permission denied for database") as caught:
        Index.create(tmp_path / "x.lshdb", **place)
    assert "lshdb guide postgres" in (caught.value.hint or "")
    admin("CREATE SCHEMA {}", "given")
    before = everything(postgres_url)
    with pytest.raises(DatabaseError, match="permission denied for schema given"):
        Index.create(tmp_path / "x.lshdb", **place)
    assert everything(postgres_url) == before
    admin("GRANT USAGE, CREATE ON SCHEMA {} TO {}", "given", role)
    Index.create(tmp_path / "x.lshdb", deferred=True, **place).close()
    assert everything(postgres_url) == before, "the schema that was given stays, and empty"
    with Index.create(tmp_path / "x.lshdb", **place) as index:
        index.add(family_corpus(1)[:20])
        assert index.check() == []


def test_what_a_reader_needs(
    tmp_path: Path, postgres_url: PostgresUrl, role: str, admin: Callable[..., Any]
) -> None:
    """As docs/postgres.md says it: USAGE and SELECT, also on what is made later."""
    path = tmp_path / "x.lshdb"
    with Index.create(path, database=postgres_url.lshdb, schema="given", threshold=0.5) as index:
        index.add(family_corpus(1)[:40])
    reader = tmp_path / "reader.lshdb"
    reader.mkdir()
    toml = (path / "index.toml").read_text()
    (reader / "index.toml").write_text(
        toml.replace(postgres_url.lshdb, as_role(postgres_url, role))
    )
    with pytest.raises(DatabaseError, match='relation "state" does not exist') as caught:
        Index.open(reader)
    assert "may use the schema" in (caught.value.hint or "")
    admin("GRANT USAGE ON SCHEMA {} TO {}", "given", role)
    with pytest.raises(DatabaseError, match="permission denied for table") as denied:
        Index.open(reader)
    assert "SELECT" in (denied.value.hint or "")
    admin("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}", "given", role)
    admin("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO {}", "given", role)
    with Index.open(path) as index:
        index.add(family_corpus(2)[:40])
        expected = sorted((pair.key1, pair.key2) for pair in index.pairs())
        index.update_clusters()
        index.add([("later", "of something else altogether")])
    with Index.open(reader) as index:
        assert sorted((pair.key1, pair.key2) for pair in index.pairs()) == expected
        assert list(index.query(family_corpus(2)[3][1]))
        assert list(index.sql("SELECT count(*) FROM posting").rows) != [(0,)]
        assert index.stats().documents >= 40
        with pytest.raises(ReadOnlyError, match="your role may not write") as refused:
            index.remove([family_corpus(2)[3][0]])
        assert "GRANT" not in refused.value.message and "SELECT" in (refused.value.hint or "")
    for file in path.glob("*.npy"):
        shutil.copy(file, reader)
    with Index.open(reader) as index:
        with pytest.raises(ReadOnlyError, match="its clusters are not up to date"):
            index.clusters()
        found = list(index.clusters(update=False))
        assert found
    asked = subprocess.run(
        [*MODULE, "clusters", reader], capture_output=True, text=True, env=environment()
    )
    assert (asked.returncode, asked.stdout.count("\n")) == (0, sum(len(c.keys) for c in found))
    assert "are not compared" in asked.stderr
    with pytest.raises(IndexExistsError):
        Index.create(tmp_path / "y.lshdb", database=postgres_url.lshdb, schema="given")


def test_who_may_do_all_but_owns_nothing_is_told_to_use_the_owner(
    postgres_url: PostgresUrl, admin: Callable[..., Any], role: str, tmp_path: Path
) -> None:
    path, other = tmp_path / "n.lshdb", tmp_path / "other.lshdb"
    with Index.create(path, database=postgres_url.lshdb, schema="given") as index:
        index.add(family_corpus(2)[:8])
    shutil.copytree(path, other)
    toml = (path / "index.toml").read_text()
    (other / "index.toml").write_text(toml.replace(postgres_url.lshdb, as_role(postgres_url, role)))
    admin("GRANT ALL ON SCHEMA {} TO {}", "given", role)
    admin("GRANT ALL ON ALL TABLES IN SCHEMA {} TO {}", "given", role)
    with pytest.raises(DatabaseError, match="must be owner of") as refused:
        Index.reband(other, recall=0.999)
    assert "use the role that owns them" in (refused.value.hint or "")
    Index.reband(path, recall=0.999)
    with Index.open(path) as index:
        assert index.check() == []


# Ways


@pytest.fixture(scope="module")
def locked() -> Iterator[PostgresServer]:
    """A server that asks for a password."""
    server = PostgresServer()
    try:
        with psycopg.connect(server.url.psycopg, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE me LOGIN PASSWORD '{SECRET}'")
            connection.execute("CREATE DATABASE mine OWNER me")
            connection.execute("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 OWNER me")
        server.allow("local all me scram-sha-256")
        yield server
    finally:
        server.remove()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def address(server: PostgresServer, scheme: str = LSHDB) -> str:
    return server.url.psycopg.replace(LIBPQ, scheme).replace("postgres@/postgres", "me@/mine")


WAYS = ["password", "passfile", "home", "service", "service in the URL", "all", "passfile in URL"]


@pytest.mark.parametrize("scheme", [LIBPQ, LSHDB, "postgres://"])
@pytest.mark.parametrize("way", WAYS)
def test_a_password_comes_from_anywhere_but_the_url(
    way: str, scheme: str, locked: PostgresServer, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, url = str(locked.directory), address(locked, scheme)
    passfile = tmp_path / ("pass" if "passfile" in way else ".pgpass")
    passfile.write_text(f"*:*:mine:me:{SECRET}\n")
    passfile.chmod(0o600)
    services = tmp_path / "services"
    services.write_text(
        f"[there]\nhost={folder}\nport=5432\nuser=me\ndbname=mine\npassword={SECRET}\n"
    )
    if way == "password":
        bare.setenv("PGPASSWORD", SECRET)
    elif way == "passfile":
        bare.setenv("PGPASSFILE", str(passfile))
    elif way == "passfile in URL":
        url += f"&passfile={passfile}"
    elif way.startswith("service"):
        bare.setenv("PGSERVICEFILE", str(services))
        url = f"{scheme}/?service=there" if "URL" in way else f"{scheme}/"
        if "URL" not in way:
            bare.setenv("PGSERVICE", "there")
    elif way == "all":
        url = f"{scheme}/"
        for name, value in (("HOST", folder), ("PORT", "5432"), ("USER", "me"),
                            ("DATABASE", "mine"), ("PASSWORD", SECRET)):  # fmt: skip
            bare.setenv(f"PG{name}", value)
    if way not in ("home",):
        (tmp_path / ".pgpass").unlink(missing_ok=True)
    elif not _home_counts():
        bare.setenv("PGPASSFILE", str(passfile))
    path = tmp_path / "x.lshdb"
    schema = f"{way} {scheme}"
    with Index.create(path, database=url, schema=schema) as index:
        index.add([("a", "one two three")])
    with Index.open(path) as index:
        assert index.check() == []
        assert index.stats().database == f"{url} (schema {schema})"
    toml = (path / "index.toml").read_text()
    assert f'database = "{url}"\nschema = "{schema}"\n' in toml
    assert SECRET not in toml


def _home_counts() -> bool:
    """Whether libpq takes the home folder from the environment; older ones ask the system."""
    return psycopg.pq.version() >= 140000


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3cr3t%20word@/mine", "postgresql:///mine?password=s3cr3t%20word",
     "postgresql+psycopg://me@/mine?sslpassword=s3cr3t%20word"],
)  # fmt: skip
def test_a_password_in_the_url_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*MODULE, "init", tmp_path / "x.lshdb", "--database", url],
        capture_output=True, text=True, env=environment(),
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2
    assert "holds a password" in done.stderr
    assert "PGPASSWORD" in done.stderr
    assert "s3cr3t" not in done.stderr + done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "says", "kind"),
    [
        (("", ""), "fe_sendauth: no password supplied", DatabaseError),
        (("/mine", "/other"), "no password supplied", DatabaseError),
        (("me@/mine", "postgres@/other"), 'database "other" does not exist', DatabaseError),
        (("me@/mine", "nobody@/mine"), 'role "nobody" does not exist', DatabaseError),
        (("host=", "host=/nowhere"), "No such file or directory", DatabaseError),
        (("me@/mine?host=", "me@no.such.host.invalid/mine?options="), "resolve|translate",
         DatabaseError),
        (("me@/mine", "postgres@/latin"), "keeps texts in LATIN1", DatabaseError),
        (("&port=5432", "&port=x"), "invalid integer value|invalid port", DatabaseError),
        (("&port=5432", "&nonsense=1"), 'cannot be read: invalid URI query parameter: "nonsense"',
         ParameterError),
    ],
)  # fmt: skip
def test_what_cannot_be_reached_is_said(
    change: tuple[str, str], says: str, kind: type[LshdbError], locked: PostgresServer,
    bare: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    url = address(locked).replace(*change) if change[0] else address(locked)
    with pytest.raises(kind, match=says) as caught:
        Index.create(tmp_path / "x.lshdb", database=url)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert os.listdir(tmp_path) == []


def test_a_server_that_is_down(
    make_postgres: Callable[..., PostgresServer], tmp_path: Path, bare: pytest.MonkeyPatch
) -> None:
    server = make_postgres()
    path = tmp_path / "x.lshdb"
    with Index.create(path, database=server.url.lshdb) as index:
        index.add([("a", "one two three")])
        server.stop()
        with pytest.raises(DatabaseError, match=r"cannot reach the database .*\(schema x\)"):
            index.query("one two three")
    for arguments in (["stats"], ["query", "--text", "x"], ["check"], ["sql", "SELECT 1"],
                      ["add", os.devnull], ["upgrade"]):  # fmt: skip
        done = subprocess.run(
            [*MODULE, arguments[0], path, *arguments[1:]],
            capture_output=True, text=True, env=environment(), check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 1, done
        assert done.stderr.startswith("error: cannot reach the database"), done.stderr
        assert "hint: check that the server runs" in done.stderr
        assert "Traceback" not in done.stderr
    server.start()
    with Index.open(path) as index:
        assert index.check() == []


def test_without_psycopg_the_extra_is_named(tmp_path: Path) -> None:
    """Import as where it is not installed."""
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from lshdb.cli.launch import main; sys.argv = ['lshdb', *sys.argv[1:]]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "init", tmp_path / "x.lshdb", "--database",
         "postgresql:///mine"], capture_output=True, text=True, env=environment(), check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "needs psycopg" in done.stderr
    assert install_command("postgres") in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_schema_that_another_index_has_by_now_is_not_written_to(
    tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    place = {"database": postgres_url.lshdb, "schema": postgres_schema}
    with Index.create(tmp_path / "one.lshdb", **place) as index:
        with psycopg.connect(postgres_url.psycopg) as connection:
            connection.execute(
                sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(postgres_schema))
            )
        Index.create(tmp_path / "other.lshdb", **place).close()
        for ask in (
            lambda: index.add([("k", "some words")]),
            lambda: index.remove("k"),
            lambda: index.query("some words"),
        ):
            with pytest.raises(LshdbError, match="uuid"):
                ask()
    with Index.open(tmp_path / "other.lshdb") as other:
        assert other.stats().documents == 0 and other.check() == []
