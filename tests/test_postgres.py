"""The PostgreSQL of the tests is what it says it is, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine, text

from tests.postgres import PostgresServer, PostgresUrl, ServerError, fresh_schema, listening

MakePostgres = Callable[..., PostgresServer]


def test_the_server_answers_both_forms_of_its_url(postgres_url: PostgresUrl) -> None:
    question = "SELECT current_setting('server_version_num')::int"
    with psycopg.connect(postgres_url.psycopg) as connection:
        (version,) = connection.execute(question).fetchone()  # type: ignore[misc]
    assert 14 <= version // 10000 <= 18
    engine = create_engine(postgres_url.lshdb)
    with engine.connect() as alchemy:
        assert alchemy.execute(text(question)).scalar_one() == version
    engine.dispose()


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_url_is_taken_in_either_form(scheme: str) -> None:
    url = PostgresUrl.parse(f"{scheme}://user:word@host:1/base?sslmode=require")
    assert url.psycopg == "postgresql://user:word@host:1/base?sslmode=require"
    assert url.lshdb == "postgresql+psycopg://user:word@host:1/base?sslmode=require"
    with pytest.raises(ServerError, match="postgresql://"):
        PostgresUrl.parse("sqlite:///base")


def schemas(url: PostgresUrl) -> set[str]:
    with psycopg.connect(url.psycopg) as connection:
        return {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace")}


def test_a_schema_is_fresh_and_dropped(postgres_url: PostgresUrl, postgres_schema: str) -> None:
    assert postgres_schema not in schemas(postgres_url)
    with fresh_schema(postgres_url) as made, fresh_schema(postgres_url) as unmade:
        assert len({postgres_schema, made, unmade}) == 3
        with psycopg.connect(postgres_url.psycopg) as connection:
            name = sql.Identifier(made)
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
            connection.execute(sql.SQL("CREATE TABLE {}.t (n bigint)").format(name))
        assert made in schemas(postgres_url)
    assert not {made, unmade} & schemas(postgres_url)


def test_a_server_stops_crashes_recovers_and_goes_without_a_trace(
    make_postgres: MakePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    server = make_postgres(work_mem="5MB", application_name="it's")
    with psycopg.connect(server.url.psycopg) as connection:
        show = {
            name: connection.execute(f"SHOW {name}").fetchone()[0]  # type: ignore[index,arg-type]
            for name in ("work_mem", "application_name", "listen_addresses", "fsync")
        }
        assert show == {
            "work_mem": "5MB",
            "application_name": "it's",
            "listen_addresses": "",
            "fsync": "off",
        }
        connection.execute("CREATE TABLE kept AS SELECT 17 AS n")
    status = (server.directory / "data" / "postmaster.pid").read_text().splitlines()
    assert status[5].strip() == "", "the address of a TCP port"

    with psycopg.connect(server.url.psycopg) as lost:
        lost.execute("INSERT INTO kept VALUES (18)")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            lost.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url.psycopg)
    server.start()
    server.restart()
    with psycopg.connect(server.url.psycopg) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(17,)]
    assert "was not properly shut down" in (server.directory / "log").read_text()

    server.remove()
    assert not server.directory.exists()
    server.remove()


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    root = Path(__file__).parent.parent
    owner = subprocess.Popen(
        [sys.executable, "-c", "import time; from tests.postgres import PostgresServer; "
         "print(PostgresServer().directory, flush=True); time.sleep(600)"],
        cwd=root, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        try:
            assert listening(directory)
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while directory.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not directory.exists()


def test_a_server_that_cannot_be_made_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Path] = []
    keep = PostgresServer.remove
    monkeypatch.setattr(
        PostgresServer, "remove", lambda self: (made.append(self.directory), keep(self))
    )
    with pytest.raises(ServerError, match=r"(?s)pg_ctl.*work_mem"):
        PostgresServer({"work_mem": "plenty"})
    assert len(made) == 1
    assert not made[0].exists()


def test_without_a_server_a_test_fails_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(postgres_url): pass\n")
    way = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.conftest",
         "--rootdir", tmp_path, "--postgres-url", "postgresql://u:secret@/none?host=/nowhere",
         "test_it.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": way}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "PostgreSQL: none (the PostgreSQL given for the tests: connection" in ran.stdout
    assert "1 error" in ran.stdout
    assert "secret" not in ran.stdout
