"""Every example in README.md and docs/ is run and gives what stands there."""

from __future__ import annotations

import contextlib
import grp
import io
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import psycopg
import pytest

from lshdb import Index
from lshdb.cli._group import cli
from tests.cli.conftest import environment
from tests.conftest import family_corpus
from tests.docs.blocks import KINDS, PAGES, ROOT, RUN, Block, blocks, groups
from tests.pgbouncer import program as pgbouncer_program
from tests.postgres import PostgresServer, PostgresUrl, process_account, programs

ALL = [found for path in PAGES for found in blocks(path)]


SUDO = """
# As the program of that name: sudo -u USER [-g GROUP] lshdb ...
import contextlib, grp, io, os, pwd, sys, tempfile

import lshdb.cli.launch
from lshdb.cli._group import cli

# That user may not be allowed to read the library, so all of it is loaded before.
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \\
        contextlib.redirect_stderr(io.StringIO()):
    os.environ["XDG_CACHE_HOME"] = index = folder + "/cache"
    index, feed = folder + "/x.lshdb", folder + "/a.jsonl"
    with open(feed, "w") as file:
        for key in "ab":
            file.write(f'{{"id": "{key}", "text": "one two three four five six"}}\\n')
    for words in (["add", index, feed], ["remove", index, "b"], ["compact", index],
                  ["pairs", index], ["check", index]):
        with contextlib.suppress(SystemExit):
            cli.main(words)

user, group, words = pwd.getpwnam(sys.argv[2]), None, sys.argv[3:]
assert sys.argv[1] == "-u"
if words[0] == "-g":
    group, words = grp.getgrnam(words[1]).gr_gid, words[2:]
assert words[0] == "lshdb"
os.setgroups([])
os.setgid(user.pw_gid if group is None else group)
os.setuid(user.pw_uid)
sys.argv[:] = words
sys.exit(lshdb.cli.launch.main())
"""


def named(found: list[Block]) -> str:
    return f"{found[0].page}: {found[0].name}"


def test_every_example_is_run_or_says_why_not() -> None:
    wrong = [str(b) for b in ALL if b.language in RUN and b.kind not in KINDS - {"output"}]
    assert not wrong, f"say above each what it is, as tests/docs/blocks.py describes: {wrong}"
    nameless = [str(b) for b in ALL if b.kind and not b.name]
    assert not nameless
    unknown = [str(b) for b in ALL if b.kind and b.kind not in KINDS]
    assert not unknown
    assert sum(b.kind.startswith("session") for b in ALL) >= 9
    assert sum(b.kind == "sql" for b in ALL) >= 6


def test_no_comment_stands_alone() -> None:
    """A comment that is not right above its block would leave it out."""
    for path in PAGES:
        page = path.read_text()
        marks = re.findall(r"^[ ]*<!-- (?:session|python|sql|not run|output)\b", page, re.MULTILINE)
        found = blocks(path)
        assert len(marks) == sum(bool(b.kind) + bool(b.output) for b in found), path


# Sessions


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``lshdb`` and ``python`` for the shell, which are those of the tests."""
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("lshdb", "-m lshdb"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "sudo").write_text(f"#!{sys.executable}\n{SUDO}")
    (folder / "sudo").chmod(0o755)
    return folder


def run(command: str, folder: Path, program: Path, **extra: str) -> str:
    """What a command prints, on either output, by ``sh``."""
    path = f"{program}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=environment(PATH=path, **extra),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # The page shows a terminal, where no line begins with the time.
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ", "", done.stdout, flags=re.MULTILINE)


def matches(expected: str, given: str) -> bool:
    """Equal, where ``...`` in what is expected stands for anything within a line."""
    pattern = re.escape(expected.rstrip()).replace(re.escape("..."), "[^\n]*")
    pattern = pattern.replace("documents/s", "documents?/s")  # a slow machine adds one in a second
    return re.fullmatch(pattern, given.rstrip()) is not None


def hold_session(session: str, folder: Path, program: Path, **environment: str) -> None:
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert session.startswith("$ ")
    assert "".join(f"$ {command}\n{expected}" for command, expected in steps) == session
    for command, expected in steps:
        if re.fullmatch(r"cat [\w.-]+", command):
            file = folder / command.removeprefix("cat ")
            if not file.exists():
                file.write_text(expected)
        given = run(command, folder, program, **environment)
        assert matches(expected, given), f"$ {command}\n{given}"


@pytest.mark.parametrize("found", list(groups("session")), ids=named)
def test_session(
    found: list[Block], tmp_path: Path, program: Path, request: pytest.FixtureRequest
) -> None:
    if found[0].name == "backup" and request.config.getoption("--database") == "postgres":
        pytest.skip("a copy of the folder has no rows of Postgres")
    for part in found:
        hold_session(part.text, tmp_path, program)


@pytest.mark.parametrize("found", list(groups("session in postgres")), ids=named)
def test_session_in_postgres(
    found: list[Block],
    tmp_path: Path,
    program: Path,
    postgres_url: PostgresUrl,
    postgres_schema: str,
) -> None:
    """With the page's service file, and a schema of another name."""
    settings = psycopg.conninfo.conninfo_to_dict(postgres_url.psycopg)
    lines = [f"{name}={value}" for name, value in settings.items()]
    (tmp_path / "services").write_text("\n".join(["[press]", *lines, ""]))
    for part in found:
        (schema,) = set(re.findall(r"--schema (\w+)", part.text))
        session = part.text.replace(schema, postgres_schema)
        hold_session(session, tmp_path, program, PGSERVICEFILE=str(tmp_path / "services"))


@pytest.fixture
def services(tmp_path: Path, program: Path) -> Iterator[Path]:
    """A service file of a server, its standby and another server; psql and the like for the shell.

    They are of a version for these servers, which those of the system may not be. Each test has its
    own, since one of them promotes the standby.
    """
    for name in ("psql", "pg_dump", "pg_restore"):
        (program / name).write_text(f'#!/bin/sh\nexec "{programs() / name}" "$@"\n')
        (program / name).chmod(0o755)
    with contextlib.ExitStack() as running:

        def start(primary: PostgresServer | None = None) -> PostgresServer:
            server = PostgresServer(primary=primary)
            running.callback(server.remove)
            return server

        primary = start()
        servers = {"press": primary, "standby": start(primary), "spare": start()}
        lines = []
        for name, server in servers.items():
            lines += [f"[{name}]", "user=postgres", "dbname=postgres", f"host={server.directory}"]
        file = tmp_path / "services"
        file.write_text("\n".join([*lines, ""]))
        yield file


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users can go to, which a folder of pytest is not."""
    with tempfile.TemporaryDirectory(prefix="lshdb-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def has_account(name: str, group: str) -> bool:
    try:
        pwd.getpwnam(name)
        grp.getgrnam(group)
    except KeyError:
        return False
    return True


@pytest.mark.sqlite("about files")
@pytest.mark.skipif(
    os.getuid() != 0 or not (has_account("www-data", "www-data") and has_account("news", "users")),
    reason="only root can become other users, whom this system may not have",
)
@pytest.mark.parametrize("found", list(groups("session as root")), ids=named)
def test_session_as_root(found: list[Block], open_folder: Path, program: Path) -> None:
    for part in found:
        hold_session(part.text, open_folder, program)


@pytest.mark.skipif(pgbouncer_program() is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("found", list(groups("session with pgbouncer")), ids=named)
def test_session_with_pgbouncer(
    found: list[Block], open_folder: Path, program: Path, services: Path
) -> None:
    """With other folders for the sockets; PgBouncer does not run as root."""
    sockets = open_folder / "run"
    sockets.mkdir()
    sockets.chmod(0o777)
    account = process_account()
    name = pwd.getpwuid(account["user"]).pw_name if account else ""
    (program / "pgbouncer").write_text(
        f'#!/bin/sh\nexec {pgbouncer_program()} {f"--user={name}" if name else ""} "$@"\n'
    )
    (program / "pgbouncer").chmod(0o755)
    (server,) = set(re.findall(r"^host=(.*)\n(?=\n|\[standby)", services.read_text(), re.MULTILINE))
    try:
        for part in found:
            text = part.text.replace("/run/pgbouncer", str(sockets))
            hold_session(text.replace("/run/postgresql", server), open_folder, program)
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((sockets / "pid").read_text()), signal.SIGKILL)


READ_ONLY = "is on a standby server, which only reads"


def test_what_writes_on_a_standby_says_so(tmp_path: Path, program: Path, services: Path) -> None:
    def ran(command: str) -> str:
        return run(command, tmp_path, program, PGSERVICEFILE=str(services))

    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "some words of a text that is short"}\n')
    url = "postgresql+psycopg:///?service=press"
    assert "added 1" in ran(f"lshdb add x.lshdb a.jsonl --database '{url}' --schema standing")
    (tmp_path / "x.lshdb" / "index.toml").write_text(
        (tmp_path / "x.lshdb" / "index.toml").read_text().replace("=press", "=standby")
    )
    deadline = time.monotonic() + 60
    while "no documents" in (said := ran("lshdb stats x.lshdb")) or "error" in said:
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
    for command in (
        "compact", "add x.lshdb a.jsonl", "remove x.lshdb a", "reband x.lshdb --threshold 0.7",
        "cursors x.lshdb m --set now", "pairs x.lshdb --since @m --advance",
        "check x.lshdb --mend-times", "clusters",
    ):  # fmt: skip
        said = ran(f"lshdb {command if ' ' in command else f'{command} x.lshdb'}")
        assert READ_ONLY in said, f"{command}: {said}"
        assert "primary" in said or command == "clusters", said
        assert "free space" not in said
    assert ran("lshdb pairs x.lshdb") == "no pairs\n"
    assert ran("lshdb check x.lshdb").endswith("no findings\n")


@pytest.mark.parametrize("found", list(groups("session with a standby")), ids=named)
def test_session_with_a_standby(
    found: list[Block], tmp_path: Path, program: Path, services: Path
) -> None:
    for part in found:
        hold_session(part.text, tmp_path, program, PGSERVICEFILE=str(services))


# Python


@pytest.mark.parametrize("found", list(groups("python with a peer")), ids=named)
def test_python_with_a_peer(
    found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(found[0].name)
    run_python(found, tmp_path, monkeypatch)


@pytest.mark.parametrize("found", list(groups("python")), ids=named)
def test_python(
    found: list[Block],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    of_sqlite = any(re.search(r"\btext\(doc_id\)|index\.db", part.text) for part in found)
    if of_sqlite and request.config.getoption("--database") == "postgres":
        pytest.skip("about a file of SQLite")
    run_python(found, tmp_path, monkeypatch)


def run_python(found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of one name, and compare what they print."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for part in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * part.line + part.text, part.page, "exec"), names)
        assert matches(part.output, printed.getvalue()), f"{part}\n{printed.getvalue()}"
    for value in names.values():
        if isinstance(value, Index):
            value.close()


# SQL


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    corpus = family_corpus(7)
    with Index.create(tmp_path_factory.mktemp("sql") / "x.lshdb", threshold=0.5) as index:
        index.add([("mon-1", corpus[0][1] + " and more"), *corpus[:60]])
        index.add(corpus[60:])
        assert list(index.clusters())
        yield index


@pytest.mark.parametrize("found", list(groups("sql")), ids=named)
def test_sql(found: list[Block], index: Index) -> None:
    for part in found:
        statement = part.text
        if "postgres" in index.stats().database:
            statement = statement.replace("group_concat", "string_agg")
            if "text(" in statement:
                pytest.skip("Postgres cannot decompress what is stored")
        assert list(index.sql(statement).rows), part


# Commands that are only named


def commands_named() -> Iterator[tuple[str, str]]:
    """Lines of shell code that call lshdb, outside of sessions."""
    for path in PAGES:
        page = path.relative_to(ROOT).as_posix()
        code = [b.text for b in blocks(path) if b.language in {"sh", "bash"}]
        code += re.findall(r"(?<=\n\n)(?:    .*\n)+", path.read_text())
        for line in "\n".join(code).replace("\\\n", " ").splitlines():
            for command in re.split(r"\|\||&&|[|;{}()]", line):
                if re.match(r"\s*lshdb [a-z]", command):
                    yield page, command.strip()


@pytest.mark.parametrize(("page", "command"), list(commands_named()))
def test_commands_that_are_named_exist(page: str, command: str) -> None:
    """Their options, too; what they would do is not tried."""
    words = shlex.split(command, comments=True)
    words = [word for word in words if not re.fullmatch(r"\d?>&?\S*|<.*", word)]
    group = click.Context(cli, info_name="lshdb", **cli.context_settings)
    made = cli.get_command(group, words[1])
    assert made is not None, command
    context = click.Context(made, info_name=words[1], parent=group)
    made.make_parser(context).parse_args(list(words[2:]))
