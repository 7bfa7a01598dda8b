"""One index in Postgres, and several hosts: each has an index directory of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lshdb import (
    DamageError,
    Document,
    Index,
    IndexChangedError,
    LockedError,
    LshdbError,
    SignaturesElsewhereError,
)
from lshdb.cli._documents_in import add_watched
from lshdb.cli._long_work import AddProgress
from lshdb.storage.dialects.postgresql.postgres_database import OpenPostgres, PostgresDatabase
from lshdb.storage.dialects.postgresql.postgres_session import PostgresSession
from lshdb.storage.transactions.changes import WriteTransaction
from tests.children.waiting import join_all, killed_late
from tests.conftest import pair_set
from tests.fault.soundness import documents_of
from tests.fault.steps import BATCH, PARAMETERS, make_tiny
from tests.postgres import PostgresUrl

Host = Callable[..., Path]


def texts(first: int, last: int) -> dict[str, str]:
    """Documents, two and two alike."""
    return {
        f"k{n}": f"w{n} " + " ".join(f"{letter}{n // 2}" for letter in "abcdefgh")
        for n in range(first, last)
    }


@pytest.fixture
def here(
    tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    make_tiny(monkeypatch.setattr)
    path = tmp_path / "here.lshdb"
    place = {"database": postgres_url.lshdb, "schema": postgres_schema}
    with Index.create(path, **PARAMETERS, **place) as index:
        index.add(texts(0, 20).items(), workers=1)
    return path


@pytest.fixture
def there(here: Path) -> Host:
    """A directory of the same index on another host: the description alone, or all files."""

    def make(name: str = "there.lshdb", *, whole: bool = False) -> Path:
        path = here.with_name(name)
        if whole:
            shutil.copytree(here, path)
        else:
            path.mkdir()
            shutil.copy(here / "index.toml", path)
        return path

    return make


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Somebody else, in a process of their own, is in the middle of an add."""
    code = (
        "import sys; from lshdb import Index\n"
        "def come():\n"
        "    yield 'held', 'some words'\n"
        "    print('at it', flush=True); sys.stdin.read()\n"
        "from lshdb.storage.transactions.changes import WriteTransaction as T\n"
        "put = T.insert_documents\n"
        "def slow(self, rows):\n"
        "    put(self, rows); print('at it', flush=True); sys.stdin.read()\n"
        "T.insert_documents = slow\n"
        "Index.open(sys.argv[1]).add([('held', 'some words')], workers=1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    with process, killed_late(process.pid):
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "at it\n"
        writing.process = process  # type: ignore[attr-defined]
        yield
        process.stdin.close()
        process.wait()


def test_writers_of_two_hosts_wait_for_each_other(here: Path, there: Host) -> None:
    other = there()
    with Index.open(other) as index, writing(here):
        pid = writing.process.pid  # type: ignore[attr-defined]
        for timeout in (0.0, 0.3):
            begun = time.monotonic()
            with pytest.raises(LockedError) as caught:
                index.remove(["k1"], lock_timeout=timeout)
            assert timeout <= time.monotonic() - begun < timeout + 2
            said = caught.value.message
            assert f"process {pid} on {socket.gethostname()}" in said
            assert f"since {datetime.now(UTC):%Y-%m-%d}" in said
            assert f"waited {timeout:g} s" in said
            assert str(other) in said
            assert caught.value.pid == pid
        let_go = threading.Timer(0.5, writing.process.stdin.close)  # type: ignore[attr-defined]
        let_go.start()
        begun = time.monotonic()
        assert index.remove(["k1"], lock_timeout=30).removed == 1
        assert time.monotonic() - begun > 0.3
        join_all([let_go])
    with Index.open(here) as index:
        assert index.check() == []
        assert documents_of(index).keys() == texts(0, 20).keys() - {"k1"} | {"held"}


def test_a_session_of_somebody_else_is_named(
    here: Path, postgres_url: PostgresUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to a role that may not see what others do."""
    with Index.open(here) as index, psycopg.connect(postgres_url.psycopg) as stranger:
        number = int.from_bytes(__import__("uuid").UUID(index._store.uuid).bytes[:8], signed=True)
        stranger.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
        with pytest.raises(LockedError, match=rf"the session {stranger.info.backend_pid} of "):
            index.remove(["k1"], lock_timeout=0)
        stranger.rollback()
        assert index.remove(["k1"], lock_timeout=0).removed == 1


def test_a_command_loses_nothing_if_another_host_is_faster(
    here: Path, postgres_url: PostgresUrl, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who takes the lock after an add has looked, and before its first batch, is waited for."""
    more = [Document(*item) for item in texts(30, 40).items()]
    with Index.open(here) as index, psycopg.connect(postgres_url.psycopg) as stranger:
        number = int.from_bytes(__import__("uuid").UUID(index._store.uuid).bytes[:8], signed=True)
        let_go = threading.Timer(0.5, stranger.rollback)

        def come() -> Iterator[Document]:
            yield from more[:1]
            stranger.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
            let_go.start()
            yield from more[1:]

        result = add_watched(index, come(), AddProgress(), source="", lock_timeout=30, workers=1)
        join_all([let_go])
        assert result.added == len(more)
        assert documents_of(index).keys() == texts(0, 20).keys() | texts(30, 40).keys()
    assert "waiting up to 30 s for another process" in capsys.readouterr().err


def test_another_host_removes_in_the_middle_of_an_add(here: Path, there: Host) -> None:
    other = there()
    gone: list[str] = []

    def come() -> Iterator[tuple[str, str]]:
        for number, item in enumerate(texts(20, 60).items()):
            if number % BATCH == BATCH // 2:
                with Index.open(other) as index:
                    some = [f"k{number}", f"k{number + 20 - BATCH}"]
                    gone.extend(some)
                    assert index.remove(some).removed + len(index.remove(some).missing) >= 2
            yield item

    with Index.open(here) as index:
        assert index.add(come(), workers=1).added == 40
        assert index.check() == []
        left = {key: text for key, text in texts(0, 60).items() if key not in gone}
        assert documents_of(index) == left
        with Index.open(other) as away:
            away.expire(datetime.now(UTC) + timedelta(days=1))
            assert documents_of(away) == {}
        index.add(left.items(), workers=1)
        assert (documents_of(index), index.check()) == (left, [])


def test_a_copy_of_the_files_that_is_behind_is_refused(here: Path, there: Host) -> None:
    """For writing and for reading: it is not read as if it were the index's."""
    behind, bare = there("behind.lshdb", whole=True), there()
    with Index.open(behind) as early:
        expected = pair_set(early, workers=1)
        with Index.open(here) as index:
            index.add(texts(20, 40).items(), workers=1)
            now = pair_set(index, workers=1)
        assert now > expected
        with pytest.raises(DamageError):
            early.add(texts(40, 41).items(), workers=1)
        with pytest.raises(DamageError):
            pair_set(early, workers=1)
    with pytest.raises(DamageError, match="signature file"):
        Index.open(behind)
    with Index.open(bare) as away, pytest.raises(SignaturesElsewhereError):
        away.add(texts(40, 41).items(), workers=1)
    with Index.open(here) as index:
        assert index.check() == []
        assert documents_of(index) == texts(0, 40)


def test_rows_of_a_killed_writer_do_not_pass_for_another_hosts(
    here: Path, there: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is as long as the file, with rows of a batch that never was."""
    with monkeypatch.context() as patch, Index.open(here) as index:
        patch.setattr(WriteTransaction, "update_batch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            index.add(
                {f"other{n}": f"quite other{n} words{n}" for n in range(9)}.items(), workers=1
            )
    behind = there("behind.lshdb", whole=True)
    with Index.open(here) as index:
        index.add(texts(20, 29).items(), workers=1)
    with pytest.raises(DamageError, match="CRC-32"):
        Index.open(behind)


@pytest.mark.parametrize("left", [0, 1000], ids=["", "rows of a killed writer"])
def test_two_hosts_with_all_files_do_not_write_in_turn(left: int, here: Path, there: Host) -> None:
    """The one that began is told, and nothing of it is in whose rows would be missing."""
    with open(here / "signatures.npy", "ab") as file:
        file.write(bytes(left))

    def come() -> Iterator[tuple[str, str]]:
        for number, item in enumerate(texts(20, 40).items()):
            if number == BATCH + 1:
                with Index.open(there("other.lshdb", whole=True)) as other:
                    other.add(texts(90, 95).items(), workers=1)
            yield item

    with Index.open(here) as index, pytest.raises(DamageError, match="signature file"):
        index.add(come(), workers=1)
    with Index.open(here.with_name("other.lshdb")) as other:
        assert other.check() == []
        assert documents_of(other) == texts(0, 30) | texts(90, 95)


def test_bands_that_another_host_cuts_anew_are_not_written_to(here: Path, there: Host) -> None:
    """In the middle of an add: what was committed before stays."""

    def come() -> Iterator[tuple[str, str]]:
        for number, item in enumerate(texts(20, 40).items()):
            if number == BATCH + 1:
                Index.reband(there("other.lshdb", whole=True), bands=4, rows=2)
            yield item

    with (
        Index.open(here) as index,
        pytest.raises(LshdbError, match=r"banded anew since it was opened.* is not in$") as caught,
    ):
        index.add(come(), workers=1)
    assert not isinstance(caught.value, IndexChangedError)  # or the add would begin again
    with Index.open(here.with_name("other.lshdb")) as banded:
        assert banded.check() == []
        assert documents_of(banded) == texts(0, 30)


def test_a_lost_commit_is_asked_for_again_under_the_lock(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may still be at it when the connection is gone."""
    calls: list[str] = []
    commit, lock = OpenPostgres.commit, PostgresDatabase.lock
    has_mark = PostgresSession.has_mark

    def lose(connection: OpenPostgres) -> None:
        commit(connection)
        calls.append("commit")
        if calls.count("commit") == 1:
            raise psycopg.OperationalError("the connection is lost")

    def ask(session: PostgresSession, mark: str) -> bool:
        calls.append("ask")
        return calls.count("ask") > 1 and has_mark(session, mark)

    def take(*arguments: Any, **options: Any) -> None:
        calls.append("lock")
        lock(*arguments, **options)

    monkeypatch.setattr(OpenPostgres, "commit", lose)
    monkeypatch.setattr(PostgresSession, "has_mark", ask)
    monkeypatch.setattr(PostgresDatabase, "lock", take)
    with Index.open(here) as index:
        assert index.add([("more", "some words")], workers=1).added == 1
        first = calls.index("ask")
        assert calls[first - 1 : first + 3] == ["commit", "ask", "lock", "ask"]
        assert index.check() == []


def until_it_waits(session: psycopg.Connection, url: PostgresUrl) -> None:
    """Wait until a session waits for a lock."""
    waits, end = "SELECT FROM pg_locks WHERE NOT granted AND pid = %s", time.monotonic() + 60
    with psycopg.connect(url.psycopg, autocommit=True) as looking:
        while not looking.execute(waits, (session.info.backend_pid,)).fetchall():
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_deadlock_is_got_over(
    here: Path, postgres_url: PostgresUrl, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that holds a row the writer wants, and then wants one that the writer holds."""
    update = f'UPDATE "{postgres_schema}".document SET source = source WHERE key = %s'
    put, tries = WriteTransaction.insert_documents, []
    with psycopg.connect(postgres_url.psycopg) as stranger:
        stranger.execute("SET deadlock_timeout = '10min'")
        stranger.execute("SET statement_timeout = '1min'")

        def meet(self: WriteTransaction, rows: list[tuple[object, ...]]) -> None:
            tries.append(1)
            if len(tries) == 1:
                stranger.execute(update, ("k1",))
                self.execute("UPDATE document SET source = source WHERE key = ?", ("k2",))
                wants = threading.Thread(target=stranger.execute, args=(update, ("k2",)))
                wants.daemon = True
                wants.start()
                until_it_waits(stranger, postgres_url)  # or nobody would see the deadlock
                self.execute("UPDATE document SET source = source WHERE key = ?", ("k1",))
            stranger.rollback()
            put(self, rows)

        monkeypatch.setattr(WriteTransaction, "insert_documents", meet)
        with Index.open(here) as index:
            result = index.add(texts(20, 23).items(), workers=1)
            assert (result.added, len(result.batches), len(tries)) == (3, 1, 2)
            assert (documents_of(index), index.check()) == (texts(0, 23), [])


def test_a_role_that_wants_everything_serializable(
    here: Path, there: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_isolation=serializable")
    other = there()
    errors: list[BaseException] = []

    def add(first: int) -> None:
        try:
            with Index.open(here) as index:
                index.add(texts(first, first + 20).items(), workers=1)
        except BaseException as error:
            errors.append(error)

    adding = threading.Thread(target=add, args=(20,), daemon=True)
    adding.start()
    with Index.open(other) as index:
        for number in range(10):
            index.remove([f"k{number}"])
            index.query("w1 w2 w3", verify="none")
    join_all([adding])
    with Index.open(here) as index:
        assert errors == []
        assert (documents_of(index), index.check()) == (texts(10, 40), [])


def test_an_add_that_waits_for_a_strangers_lock_can_be_interrupted(
    here: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    code = (
        "import sys; from lshdb import Index\n"
        "index = Index.open(sys.argv[1]); print('here', flush=True)\n"
        "index.add([('new', 'some words')], workers=1)\n"
    )
    with psycopg.connect(postgres_url.psycopg) as stranger:
        stranger.execute(f'LOCK TABLE "{postgres_schema}".content IN EXCLUSIVE MODE'.encode())
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(here)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            # A test run in the background has Ctrl-C ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        with process, killed_late(process.pid, 60):
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            waits = "SELECT FROM pg_locks WHERE NOT granted AND relation IS NOT NULL"
            with psycopg.connect(postgres_url.psycopg, autocommit=True) as looking:
                end = time.monotonic() + 20
                while not looking.execute(waits).fetchall() and time.monotonic() < end:
                    time.sleep(0.05)
                process.send_signal(signal.SIGINT)
                assert process.wait(10) != 0
                assert looking.execute(waits).fetchall() == []
    with Index.open(here) as index:
        assert (documents_of(index), index.check()) == (texts(0, 20), [])
        assert index.add([("new", "some words")], workers=1, lock_timeout=1).added == 1
