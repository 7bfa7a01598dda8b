"""One index in several threads, across a fork, under a storm of signals, and when it is closed."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, LockedError, LshdbError
from lshdb.storage.dialects.sqlite import SqliteDatabase
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.layouts import RowLayout
from lshdb.storage.rowfiles.row_file import RowFile
from tests.children.waiting import SECONDS, end_of, join_all, killed_late
from tests.conftest import family_corpus, pair_set

Make = Callable[..., Index]


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(k=2)
    index.add(family_corpus(7))
    return index


# Closing


def streams(index: Index, file: Path) -> dict[str, Iterator[Any]]:
    documents = [(str(number), text) for number, (_, text) in enumerate(family_corpus(7))]
    with open(file, "w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"id": key}) + "\n" for key, _ in family_corpus(7))
    return {
        "pairs": index.pairs(),
        "clusters": index.clusters(),
        "dedup": index.dedup(),
        "neighbors": index.neighbors(),
        "filter": index.filter(file),
        "query_many": index.query_many(documents),
        "query_many in threads": index.query_many(documents, workers=2),
        "sql": index.sql("SELECT key FROM document").rows,
        "join": index.join(index),
        "keys": iter(index),
        "nearest neighbors": index.neighbors(recall=0.9),
        "pairs of a night": index.pairs(since=1),
    }


def test_iterators_end_with_an_error_when_the_index_is_closed(index: Index, tmp_path: Path) -> None:
    list(index.clusters())  # edges are up to date
    begun = streams(index, tmp_path / "a.jsonl")
    for name, stream in begun.items():
        assert next(stream), name
    index.close()
    for name, stream in begun.items():
        with pytest.raises(LshdbError, match=r"the index .* is closed"):
            next(stream)
        assert list(stream) == [], name
    with pytest.raises(LshdbError, match="is closed"):
        next(index.pairs())
    with pytest.raises(LshdbError, match="is closed"):
        index.add([("a", "b")])


# Forks


def in_child(work: Callable[[], object]) -> str:
    """Do something in a fork of this process: what it raised, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        said = ""
        try:
            work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error} {getattr(error, 'hint', None) or ''}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe, killed_late(child):
        said = pipe.read().decode()
        assert os.waitpid(child, 0)[1] == 0
    return said


def test_an_index_that_came_by_a_fork_must_be_opened_again(index: Index) -> None:
    before = pair_set(index)
    text = family_corpus(7)[0][1]
    running = index.pairs()
    next(running)
    for work in (
        lambda: index.query(text),
        lambda: next(running),
        lambda: next(index.pairs()),
        lambda: index.add([("new", text)]),
        lambda: index.remove(["u001"]),
        lambda: index.sql("SELECT 1"),
        index.stats,
    ):
        said = in_child(work)
        assert said.startswith("LshdbError: the index ") and "came from it by a fork" in said

    def again() -> None:
        index.close()
        with Index.open(index.path) as opened:
            assert pair_set(opened) == before
            opened.add([("child", "a b c")])

    said = in_child(again)
    assert "was in use in the process that this one" in said and "spawn or forkserver" in said
    assert len(list(running)) == len(before) - 1
    assert in_child(again) == ""
    assert index.query(key="f000-0") and index.check() == []
    assert index.stats().documents == len(family_corpus(7)) + 1


def _listed(path: Path) -> list[str]:
    """The keys of an index, while its runs are replaced in the middle of the listing."""
    with Index.open(path) as index:
        rows = index.sql("SELECT key, length(body) FROM document JOIN content USING (doc_id)").rows
        found = [next(rows)]
        found += _while_another_writes(path, rows)
    return [key for key, _ in found]


def _while_another_writes(path: Path, rows: Iterator[Any]) -> list[Any]:
    subprocess.run([sys.executable, "-c", _REWRITE, str(path)], check=True, timeout=300)
    return list(rows)


_REWRITE = """
import sys
from lshdb import Index
with Index.open(sys.argv[1]) as index:
    index.remove([key for (key,) in index.sql("SELECT key FROM document").rows][::3])
    index.compact()
    index.add([(f"new {i}", f"{i} of the new documents") for i in range(300)])
"""


@pytest.mark.parametrize("use", ["lists", "lists in SQL", "writes", "nothing", "closed"])
def test_a_child_opens_what_its_parent(index: Index, use: str) -> None:
    """It answers rightly, or refuses: SQLite's record of locks survives the fork, they do not."""
    keys = sorted(key for key, _ in family_corpus(7))
    list(index.clusters())

    def ask() -> None:
        found = _listed(index.path)
        assert sorted(found) == keys, (len(found), len(set(found)), len(keys))

    if use == "lists":
        rows: Any = index.pairs()
        next(rows)
    elif use == "lists in SQL":
        rows = index.sql("SELECT key FROM document").rows
        next(rows)
    elif use == "closed":
        index.close()
    elif use == "writes":
        said = []

        def documents() -> Iterator[tuple[str, str]]:
            yield "first", "one two three"
            said.append(in_child(ask))

        index.add(documents())
        assert "was in use in the process" in said[0]
        return
    said = [in_child(ask)]
    if "lists" in use:
        assert "was in use in the process" in said[0] and "spawn or forkserver" in said[0]
        assert next(rows) and list(rows)
        del rows
        said = [in_child(ask)]
    assert said == [""]


def test_a_child_opens_another_index_than_its_parent(make_index: Make) -> None:
    index, other = make_index("a.lshdb"), make_index("b.lshdb")
    for one in (index, other):
        one.add(family_corpus(7))
    other.close()
    rows = index.pairs()
    next(rows)
    assert in_child(lambda: _listed(other.path)) == ""
    grandchild: list[str] = []

    def child() -> None:
        with Index.open(other.path) as opened:
            running = opened.sql("SELECT key FROM document").rows
            next(running)
            for path in (index.path, other.path):
                grandchild.append(in_child(lambda path=path: Index.open(path)))  # type: ignore[misc]
            assert all("was in use in the process" in said for said in grandchild), grandchild

    assert in_child(child) == ""
    assert list(rows) and index.check() == []


def test_a_spawned_process_opens_what_its_parent_lists(index: Index) -> None:
    text = family_corpus(7)[0][1]
    rows = index.pairs()
    next(rows)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found,) = pool.starmap_async(_answer, [(index.path, text)]).get(SECONDS)
    assert found == len(index.query(text, top=None)) and list(rows)


_CHILD_ENDS = """
import os, sys, threading
from lshdb import Index
from lshdb.storage.dialects.sqlite import connections

used, idle = Index.open(sys.argv[1]), Index.open(sys.argv[1])
idle.stats()
rows = used.sql("SELECT key FROM document").rows
next(rows)
closed = []

def documents():
    yield "first", "one two three"
    child = os.fork()
    if child == 0:
        raise SystemExit(0)
    assert os.waitpid(child, 0)[1] == 0
    yield "second", "four five six"

used.add(documents())
assert len(list(rows)) + 1 == int(sys.argv[2])
print(sorted(os.listdir(sys.argv[1])))
"""


def test_a_child_that_ends_takes_nothing_from_its_parent(index: Index) -> None:
    """Its interpreter takes apart what it has of the parent's connections, in its last moments."""
    index.close()
    before = len(family_corpus(7))
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD_ENDS, str(index.path), str(before)],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0 and ended.stderr == "", ended.stderr
    assert "index.db-shm" in ended.stdout and "index.db-wal" in ended.stdout
    with Index.open(index.path) as again:
        assert again.check() == [] and again.stats().documents == before + 2


def _answer(path: Path, text: str) -> int:
    with Index.open(path) as index:
        return len(index.query(text, top=None))


def test_a_pool_of_forks_beside_an_open_index(index: Index) -> None:
    texts = [text for _, text in family_corpus(7)[:12]]
    expected = [len(index.query(text, top=None)) for text in texts]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        asked = pool.starmap_async(_answer, [(index.path, text) for text in texts])
        found = asked.get(SECONDS)
    assert found == expected


def test_a_child_does_not_keep_its_parents_lock(index: Index) -> None:
    """It is forked in the middle of an add, as a pool made by a generator is, and lives on."""
    wake, sleep = os.pipe()
    children = []

    def documents() -> Iterator[tuple[str, str]]:
        yield "first", "one two three"
        child = os.fork()
        if child == 0:
            os.close(sleep)
            os.read(wake, 1)
            os._exit(0)
        children.append(child)
        yield "second", "four five six"

    try:
        index.add(documents())
        with Index.open(index.path) as other:
            other.add([("third", "seven eight nine")], lock_timeout=0.0)
    finally:
        os.close(sleep)
        os.close(wake)
        for child in children:
            assert end_of(child) == 0


def test_a_child_that_leaves_an_add_takes_nothing_with_it(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stack is unwound through the writer, whose lock and transactions are its parent's."""
    said, parent = tmp_path / "said", os.getpid()
    rest = SqliteDatabase.rest
    monkeypatch.setattr(
        SqliteDatabase,
        "rest",
        lambda database, connection: (
            rest(database, connection)
            if os.getpid() == parent
            else (tmp_path / "checkpointed").touch()
        ),
    )

    def documents() -> Iterator[tuple[str, str]]:
        yield "first", "one two three"
        child = os.fork()
        if child == 0:
            raise SystemExit
        assert end_of(child) == 0
        with Index.open(index.path) as other, pytest.raises(LockedError):
            other.add([("x", "y")], lock_timeout=0.0)
        yield "second", "four five six"

    try:
        index.add(documents())
    finally:
        if os.getpid() != parent:
            try:  # whatever comes, this one goes on with no other test
                kind = type(sys.exception()).__name__
                index.close()
                said.write_text(kind)
            finally:
                os._exit(0)
    assert said.read_text() == "SystemExit" and not (tmp_path / "checkpointed").exists()
    assert {"first", "second"} <= {key for (key,) in index.sql("SELECT key FROM document").rows}


def test_a_child_that_gives_the_lock_back_has_none(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "lock", 0.0)
    lock.acquire()
    assert in_child(lock.release) == ""
    assert (tmp_path / "lock").read_text().startswith(f"{os.getpid()} ")
    with pytest.raises(LockedError):
        WriterLock(tmp_path / "lock", 0.0).acquire()
    lock.release()


def test_a_child_does_not_remove_an_index_that_is_being_made(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", deferred=True) as index:
        assert in_child(index.close) == ""
        index.add([("a", "one two three")])
    with Index.open(tmp_path / "a.lshdb") as index:
        assert index.stats().documents == 1 and index.check() == []


_FORKED_IN_A_TRANSACTION = """
import os, sys
from pathlib import Path
from lshdb.storage.dialects.sqlite import SqliteDatabase

connection = SqliteDatabase(Path(sys.argv[1])).open_writer()
execute = connection.driver.execute
rows = [(os.urandom(300),) for _ in range(3000)]

def insert():
    connection.driver.executemany("INSERT INTO t (b) VALUES (?)", rows)

with connection.transaction():
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    execute("CREATE INDEX i ON t (b)")
execute("PRAGMA cache_size=10")  # pages go to the log before the commit
with connection.transaction():
    insert()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    insert()
with connection.transaction():
    print(*execute("SELECT count(*) FROM t").fetchone())
    print(*execute("PRAGMA integrity_check").fetchone())
"""


def test_a_child_that_ends_does_not_undo_its_parents_transaction(tmp_path: Path) -> None:
    """To roll it back would change the index of the log in memory that both share."""
    ended = subprocess.run(
        [sys.executable, "-c", _FORKED_IN_A_TRANSACTION, str(tmp_path / "a.db")],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.stdout.split() == ["6000", "ok"], ended.stderr


# Threads


def test_two_threads_want_the_last_idle_connection(index: Index) -> None:
    class Taken(list[Any]):
        """Another thread takes what there is, between the look and the taking."""

        def pop(self, *_: Any) -> Any:
            self.clear()
            return super().pop()

    readers = index._store.readers
    taken = Taken(readers._idle)
    assert taken
    readers._idle = taken
    assert index.stats().documents == len(family_corpus(7))
    readers._idle = [*taken]


def test_two_threads_hold_the_signatures(tmp_path: Path) -> None:
    class Overtaken(RowFile):
        """A thread that reads an older state puts its fewer rows in the place of any other."""

        @property
        def _held(self) -> Any:
            return self.__dict__.get("rows held")

        @_held.setter
        def _held(self, value: Any) -> None:
            self.__dict__["rows held"] = None if value is None else value[:1]

    file = Overtaken(tmp_path / "signatures.npy", RowLayout("signature", "<u4", 4))
    file.create()
    file.append(0, np.arange(12, dtype=np.uint32).reshape(3, 4))
    file.n_taken = 3
    held = file.all_rows(3)
    assert held is not None and held.shape == (3, 4)


def test_eight_threads_ask_while_one_adds(make_index: Make) -> None:
    index = make_index(k=2)
    corpus = family_corpus(7)
    index.add(corpus)
    expected = {key: {hit.key for hit in index.query(text, top=None)} for key, text in corpus[:40]}
    base = pair_set(index)
    failures: list[str] = []
    over = threading.Event()

    def watched(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not over.is_set():
                    work()
            except BaseException:
                failures.append(traceback.format_exc())

        return threading.Thread(target=run, daemon=True)

    texts = dict(corpus)
    keys = itertools.cycle(expected)

    def query() -> None:
        key = next(keys)
        found = {hit.key for hit in index.query(texts[key], top=None)}
        assert found == expected[key], key

    def pairs() -> None:
        assert base <= pair_set(index)

    def counts() -> None:
        stats = index.stats()
        assert stats.documents >= len(corpus)
        numbers = [batch.batch_id for batch in index.batches()]
        assert numbers == list(range(1, len(numbers) + 1))

    threads = [watched(work) for work in (query, query, query, query, pairs, pairs, counts, counts)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    number = 0
    while time.monotonic() - begun < 1 and not failures:
        number += 1
        index.add([(f"new-{number}-{i}", f"unlike {number} {i} all others") for i in range(20)])
    over.set()
    join_all(threads)
    assert not failures, failures[0]
    assert index.stats().documents == len(corpus) + 20 * number


# Interrupted system calls, and a clock that goes backwards


@contextlib.contextmanager
def storm() -> Iterator[list[int]]:
    """A signal every half millisecond, with a handler that does nothing: EINTR everywhere."""
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        yield came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_storm_of_signals(tmp_path: Path) -> None:
    corpus = family_corpus(5, families=60)
    with storm() as came, Index.create(tmp_path / "a.lshdb", k=2) as index:
        for start in range(0, len(corpus), 40):
            index.add(corpus[start : start + 40])
        index.remove([corpus[0][0]])
        found = pair_set(index)
        assert index.check() == []
    assert len(came) > 100
    with Index.create(tmp_path / "b.lshdb", k=2) as calm:
        calm.add(corpus)
        calm.remove([corpus[0][0]])
        assert pair_set(calm) == found


@pytest.mark.filterwarnings("ignore:an earlier add began")
def test_a_clock_that_goes_backwards(make_index: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    import lshdb.storage.tables.records as times

    now = [datetime(2030, 6, 1, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return now[0]

    monkeypatch.setattr(times, "datetime", Clock)
    monkeypatch.setattr(time, "time", lambda: now[0].timestamp())
    index = make_index()
    years = (2030, 2029, 1990, 2031, 2000, 1990)
    for number, year in enumerate(years):
        now[0] = datetime(year, 6, 1, tzinfo=UTC)
        index.add([("again", "one two three four five six"), (f"of {number}", f"only {number}")])
    starts = [batch.started_at for batch in index.batches()]
    assert [int(start[:4]) for start in starts] == list(years), "not what the clock said"
    assert len(set(starts)) == len(years), "two adds have one time"
    times_of = "SELECT added_at, last_seen_at FROM document_time WHERE key = 'again'"
    assert list(index.sql(times_of).rows) == [(starts[0], starts[-1])]


@pytest.mark.skipif(sys.platform == "darwin", reason="folders of other users are shared there")
def test_a_folder_that_cannot_be_written_to(index: Index, tmp_path: Path) -> None:
    """As an ordinary user, in a child: root may write anywhere."""
    expected = pair_set(index)
    text = family_corpus(7)[0][1]
    index.close()
    for path in index.path.iterdir():
        path.chmod(0o444)
    index.path.chmod(0o555)
    opened = []
    for folder in (index.path, *index.path.parents):  # the way to it must be open to that user
        mode = folder.stat().st_mode
        if not mode & 0o001:
            if folder.stat().st_uid != os.getuid():
                pytest.skip(f"{folder} is closed to others and not ours")
            opened.append((folder, mode))
            folder.chmod(mode | 0o001)

    def ask() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        with Index.open(index.path) as read:
            assert pair_set(read) == expected
            assert read.query(text) and read.check() == []
            assert list(read.sql("SELECT count(*) FROM document").rows)
            with pytest.raises(LshdbError, match="cannot write to the index"):
                read.add([("a", "b")])
            with pytest.raises(LshdbError, match="cannot write to the index"):
                read.remove(["u001"])
        with pytest.raises(LshdbError, match="cannot make the index"):
            Index.create(index.path / "inner.lshdb")

    try:
        assert in_child(ask) == ""
    finally:
        index.path.chmod(0o755)
        for path in index.path.iterdir():
            path.chmod(0o644)
        for folder, mode in opened:
            folder.chmod(mode)
