"""Tens of thousands of small commits, beside readers: nothing that they leave grows, nor a cost.

What grows with the documents themselves is theirs: pages of the database, rows, and levels of
orders, about one for each fivefold.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from lshdb import Index
from tests.children.waiting import join_all
from tests.conftest import edited, make_text

Make = Callable[..., Index]
MIB = 2**20


def resident() -> float:
    """Memory of this process in MiB; 0 where the system does not say."""
    if not sys.platform.startswith("linux"):
        return 0.0
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def n_files_open() -> int:
    """Files that this process has open; sockets and pipes are of the tests before."""
    if not sys.platform.startswith("linux"):
        return len(os.listdir("/dev/fd"))
    n = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            n += os.readlink(f"/proc/self/fd/{name}").startswith("/")
    return n


@dataclass
class Diary:
    """What was measured after each commit, and how it was at the beginning and at the end."""

    path: Path
    columns: dict[str, list[float]] = field(default_factory=dict)

    def note(self, **seconds: float) -> None:
        files = {file.name: file.stat().st_size for file in os.scandir(self.path)}
        measured = {
            "files": len(files),
            "orders": sum(name.startswith("orders") for name in files),
            "log MiB": files.get("index.db-wal", 0) / MIB,
            "descriptors": n_files_open(),
            "memory MiB": resident(),
            **{f"{name} ms": value * 1000 for name, value in seconds.items()},
        }
        for name, value in measured.items():
            self.columns.setdefault(name, []).append(value)

    def ends(self, name: str, share: float = 0.05) -> tuple[float, float]:
        """The median of the first part of a column, and that of the last."""
        column = self.columns[name]
        n = max(1, int(len(column) * share))
        return statistics.median(column[:n]), statistics.median(column[-n:])

    def say(self, what: str) -> None:
        """Print a line for each column: shown by ``-s``, and where a test fails."""
        for name, column in self.columns.items():
            first, last = self.ends(name)
            print(f"{what}: {name}: first {first:.2f}, last {last:.2f}, most {max(column):.2f}")


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    begun = time.thread_time()
    yield
    seconds[name] = time.thread_time() - begun


@contextmanager
def readers(path: Path, ask: Callable[[Index], Any], n: int) -> Iterator[None]:
    """Threads that ask again and again, each with an index of its own."""
    is_over, failures = threading.Event(), []

    def read() -> None:
        try:
            with Index.open(path) as index:
                while not is_over.wait(0.01):
                    ask(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        join_all(threads)
    assert not failures, failures[0]


def test_thousands_of_adds_of_one_document(make_index: Make, is_long: bool) -> None:
    index, rng = make_index(k=2), random.Random(9)
    n_adds = 20_000 if is_long else 24
    diary = Diary(index.path)
    for number in range(n_adds):
        seconds: dict[str, float] = {}
        with timed(seconds, "add"):
            index.add([(f"k{number}", make_text(rng, 30))], workers=1)
        text = make_text(rng, 30)
        with timed(seconds, "query"):
            index.query(text, top=3)
        with timed(seconds, "since"):
            list(index.pairs(since="last"))
        if number % 10 == 0:
            with timed(seconds, "open"), Index.open(index.path) as own:
                own.query(text, top=3)
        else:
            seconds["open"] = diary.columns["open ms"][-1] / 1000
        diary.note(**seconds)
    diary.say(f"{n_adds} adds")
    assert len(index) == n_adds and index.check() == []
    columns = diary.columns
    assert max(columns["files"]) < 20 and max(columns["log MiB"]) < 1
    first, last = diary.ends("descriptors")
    while_segments_merge = 24 if is_long else 12
    assert last <= first + 8 and max(columns["descriptors"]) <= first + while_segments_merge
    if is_long:
        for name in ("add ms", "query ms", "since ms", "open ms"):
            first, last = diary.ends(name)
            assert last < 2 * first, name
        assert columns["memory MiB"][-1] < columns["memory MiB"][n_adds // 10] + 32


WEEK, FEEDS, KEPT_WEEKS = 7, 5, 4


def test_nights_of_five_feeds_beside_two_readers(make_index: Make, is_long: bool) -> None:
    """Once a week the oldest documents go, and the index is compacted."""
    index, rng = make_index(k=2, threshold=0.5), random.Random(4)
    nights = 400 if is_long else 8
    diary, texts = Diary(index.path), {"first": make_text(rng, 30)}
    index.add(texts.items())
    weeks: list[Any] = []

    def ask(own: Index) -> None:
        own.query(texts["first"], top=3)
        list(own.pairs(since="last"))
        list(own.sql("SELECT count(*) FROM document").rows)

    with readers(index.path, ask, 2):
        for night in range(nights):
            seconds: dict[str, float] = {"expire": 0.0, "compact": 0.0}
            with timed(seconds, "add"):
                for feed in range(FEEDS):
                    old = texts[rng.choice([*texts][-40:])]
                    new = [edited(rng, old, 1), make_text(rng, 30)]
                    documents = {f"{night}-{feed}-{n}": text for n, text in enumerate(new)}
                    index.add(documents.items(), workers=1, night=f"night-{night}")
                    texts |= documents
            with timed(seconds, "clusters"):
                index.update_clusters(workers=1)
            if night % WEEK == WEEK - 1:
                weeks.append(index.batches()[-1].finished_at)
                with timed(seconds, "expire"):
                    if len(weeks) > KEPT_WEEKS:
                        index.expire(datetime.fromisoformat(weeks[-1 - KEPT_WEEKS]))
                with timed(seconds, "compact"):
                    index.compact()
            diary.note(**seconds)
    diary.say(f"{nights} nights")
    assert index.check() == []
    columns = diary.columns
    assert max(columns["files"]) < 20 and max(columns["log MiB"]) < 8
    if is_long:
        assert len(index) < FEEDS * 2 * WEEK * (KEPT_WEEKS + 2)


def test_a_reader_that_holds_its_state_while_others_commit(make_index: Make, is_long: bool) -> None:
    """Its answer is that of its state. The log grows for as long, and is emptied behind it."""
    index, rng = make_index(k=2), random.Random(5)
    index.add((f"old{number}", make_text(rng, 30)) for number in range(50))
    n_commits = 600 if is_long else 12
    with Index.open(index.path) as reader:
        rows, pairs = reader.sql("SELECT key FROM document").rows, reader.pairs()
        first = next(rows)
        next(pairs, None)
        diary = Diary(index.path)
        for number in range(n_commits):
            seconds: dict[str, float] = {}
            with timed(seconds, "add"):
                index.add([(f"k{number}", make_text(rng, 30))], workers=1)
            with timed(seconds, "query"):
                index.query(make_text(rng, 30), top=3)
            if number % 6 == 5:
                index.remove([f"old{number // 12}"])
                index.compact()
            diary.note(**seconds)
        diary.say(f"{n_commits} commits")
        assert sorted(key for (key,) in [first, *rows]) == sorted(f"old{n}" for n in range(50))
    index.add([("last", make_text(rng, 30))])
    after = Diary(index.path)
    after.note()
    after.say("after it")
    assert after.columns["log MiB"] == [0]
    assert after.columns["files"][0] < 20
    # Files of orders that were replaced stay open for a while; one a commit would be 12 and more.
    assert after.columns["descriptors"][0] <= diary.columns["descriptors"][0] + 8
    assert index.check() == []


def test_an_index_that_is_replaced_again_and_again(make_index: Make, tmp_path: Path) -> None:
    """An open index keeps nothing of those that lay at its path before."""
    index = make_index("a.lshdb")
    index.add([("a", "some words of a text")])
    index.query("some words of a text")
    columns = []
    for number in range(12):
        other = make_index("b.lshdb")
        other.add([(f"a{number}", "some words of a text")])
        other.close()
        index.path.rename(tmp_path / f"former{number}.lshdb")
        other.path.rename(index.path)
        assert index.refresh()
        assert [hit.key for hit in index.query("some words of a text")] == [f"a{number}"]
        columns.append(len(os.listdir("/dev/fd")))
    assert columns[-1] <= columns[1]
