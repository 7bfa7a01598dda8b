"""Where an add's time goes: the library's functions wrapped with timers, in this process alone.

A stage's seconds are its own: what it spends inside another stage is counted there. A timer costs
about a microsecond a call, part of it inside the stage and part in the one around it; both parts
are measured beforehand on a function that does nothing, as the least of many rounds, taken off, and
shown in a line of their own. Calls from other threads than the one that adds are not timed: that
one waits for them in a stage that is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

__all__ = ["Stages", "watched"]

_REST = "the rest"
_TIMERS = "these timers, as estimated"
_ROUNDS = 20
_TRIALS = 1000


class Stages:
    """Seconds and calls by stage."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._open: list[_Frame] = []
        self._inside = self._outside = 0.0
        self._calibrate()

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do the work that is to be divided into stages."""
        return self.timed(_REST, work)(*arguments)

    def timed(
        self, stage: str, function: Callable[..., Any], *, whole: bool = False
    ) -> Callable[..., Any]:
        """The same function, timed; ``whole`` counts stages inside it as it."""
        figures = self._stages.setdefault(stage, _Stage())
        clock, thread_of, opened = time.perf_counter, threading.get_ident, self._open
        thread = thread_of()

        def call(*arguments: Any, **named: Any) -> Any:
            if (opened and opened[-1].whole) or thread_of() != thread:
                return function(*arguments, **named)
            frame = _Frame(whole)
            opened.append(frame)
            begun = clock()
            try:
                return function(*arguments, **named)
            finally:
                elapsed = clock() - begun
                opened.pop()
                figures.seconds += elapsed - frame.seconds
                figures.calls += 1
                figures.calls_within += frame.calls
                if opened:
                    opened[-1].seconds += elapsed
                    opened[-1].calls += 1

        return call

    def iterated(self, stage: str, items: Iterable[Any]) -> Iterator[Any]:
        """The same items, the making of each timed."""
        following = self.timed(stage, iter(items).__next__)
        while True:
            try:
                item = following()
            except StopIteration:
                return
            yield item

    def table(self) -> list[tuple[str, float, int]]:
        """Stage, seconds and calls, the longest first; the rest and the timers' own cost last."""
        table = [
            (
                name,
                stage.seconds - stage.calls * self._inside - stage.calls_within * self._outside,
                stage.calls,
            )
            for name, stage in self._stages.items()
        ]
        table.sort(key=lambda line: (line[0] == _REST, -line[1]))
        calls = sum(stage.calls for stage in self._stages.values())
        return [*table, (_TIMERS, calls * (self._inside + self._outside), calls)]

    def _calibrate(self) -> None:
        def nothing(argument: object) -> None:
            pass

        figures = self._stages[""] = _Stage()
        timed = self.timed("", nothing)
        self._open.append(_Frame(whole=False))
        rounds = []
        for _ in range(_ROUNDS):
            before = figures.seconds
            rounds.append((_seconds(nothing), _seconds(timed), figures.seconds - before))
        self._open.clear()
        del self._stages[""]
        alone, together, within = map(min, zip(*rounds, strict=True))
        self._inside = max(within - alone, 0.0) / _TRIALS
        self._outside = max(together - within, 0.0) / _TRIALS


@dataclass(slots=True)
class _Stage:
    """What a stage has come to; ``calls_within`` are those of stages directly inside it."""

    seconds: float = 0.0
    calls: int = 0
    calls_within: int = 0


@dataclass(slots=True)
class _Frame:
    """A call that has not ended, and what stages directly inside it took."""

    whole: bool
    seconds: float = 0.0
    calls: int = 0


def _seconds(function: Callable[[object], object]) -> float:
    begun = time.perf_counter()
    for _ in range(_TRIALS):
        function(None)
    return time.perf_counter() - begun


@contextlib.contextmanager
def watched(stages: Stages) -> Iterator[None]:
    """Wrap what an add of lshdb goes through, until the end of the block."""
    from benchmarks.peers import lshdb_
    from lshdb import Index
    from lshdb.documents.formats import objects
    from lshdb.ingest import add as adding
    from lshdb.ingest.ahead import Ahead
    from lshdb.ingest.pipeline import AddRun
    from lshdb.storage.bands.band_table import BandTable
    from lshdb.storage.dialects.sqlite.sqlite_database import OpenSqlite, SqliteDatabase
    from lshdb.storage.rowfiles.row_file import RowFile
    from lshdb.storage.transactions.changes import WriteTransaction
    from lshdb.storage.transactions.snapshot import Snapshot
    from lshdb.storage.transactions.store import Store
    from lshdb.storage.transactions.writer import Writer

    checking = "validation, cutting into batches"
    classifying = "known keys"
    signing = "hashing, compressing and signing texts"
    knowing = "known contents"
    banding = "bucket keys and sorting, or waiting for them"
    synced = "signature file: CRC-32, write, sync"
    documents = "document rows"
    functions: list[tuple[Any, str, str]] = [
        (objects, "validate_key", checking),
        (AddRun, "_classify", classifying),
        (Snapshot, "documents_of_keys", classifying),
        (Ahead, "begin", signing),
        (Ahead, "complete", signing),
        (Ahead, "contents", signing),
        (AddRun, "_share", knowing),
        (Snapshot, "signatures_of_contents", knowing),
        (Ahead, "sign", signing),
        (AddRun, "_write_rows", banding),
        (WriteTransaction, "record_signatures", synced),
        (RowFile, "append", synced),
        (BandTable, "append", "band rows"),
        (AddRun, "_write_documents", documents),
        (WriteTransaction, "insert_documents", documents),
        (WriteTransaction, "put_bodies", "content rows"),
    ]
    wholes: list[tuple[Any, str, str]] = [
        (Index, "create", "making the empty index"),
        (Writer, "__enter__", "opening the database, locking"),
        (OpenSqlite, "commit", "commit, with checkpoints on the way"),
        (Store, "freeze", "frozen orders: sort, write, sync"),
        (SqliteDatabase, "rest", "checkpoint at the end"),
    ]
    generators: list[tuple[Any, str, str]] = [
        (lshdb_, "read_documents", "reading and parsing"),
        (adding, "in_batches", checking),
    ]
    with contextlib.ExitStack() as patches:

        def wrap(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
            patches.enter_context(mock.patch.object(owner, name, replacement))

        for owner, name, stage in functions:
            wrap(owner, name, stages.timed(stage, getattr(owner, name)))
        for owner, name, stage in wholes:
            wrap(owner, name, stages.timed(stage, getattr(owner, name), whole=True))
        for owner, name, stage in generators:
            wrap(owner, name, _iterating(stages, stage, getattr(owner, name)))
        yield


def _iterating(
    stages: Stages, stage: str, function: Callable[..., Iterable[Any]]
) -> Callable[..., Iterator[Any]]:
    from lshdb.documents.blocks import DocumentStream

    def iterating(*arguments: Any, **named: Any) -> Iterator[Any]:
        items = function(*arguments, **named)
        if isinstance(items, DocumentStream):
            iterated = stages.iterated(stage, items.by_blocks())
            return DocumentStream(iterated, is_at_hand=items.is_at_hand)
        return stages.iterated(stage, items)

    return iterating
