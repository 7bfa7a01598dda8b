"""What a writer does under faults: named steps, small and fast, over one index.

A step says before each commit what the index is to hold then (``intend``), and after it that the
commit was acknowledged (``done``). To try another change of an index under every fault, write a
step and put its name into ``LIFE``.

A state of an index is its documents, key to body. ``None`` is no index at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lshdb import DatabaseError, Index
from lshdb.ingest import add_sizes
from lshdb.ingest.add_sizes import AddSizes
from tests.raw import is_sqlite

State = dict[str, Any] | None

INDEX = "x.lshdb"
PARAMETERS: dict[str, Any] = {"threshold": 0.6, "k": 1, "num_perm": 16, "bands": 4, "rows": 3}
BITS: dict[str, Any] = {
    "metric": "jaccard-bits", "dim": 512,
    "threshold": 0.6, "num_perm": 16, "bands": 4, "rows": 3,
}  # fmt: skip
"""Of an index with a vector file."""
BATCH = 10
"""Documents a batch; their 50 postings make a run of their own."""
BLOCK_ROWS = 8
"""Signature rows under one CRC-32."""
EXPORTED = "files"
"""Where an export goes, beside the index."""
LIFE = (
    ("create", "add_few"),
    ("add_few", "cluster"),
    ("add_batches",),
    ("replace", "remove"),
    ("hold", "add_batches", "replace", "cluster", "let_go", "add_again"),
    ("add_batches", "commit_fails", "remove", "cluster"),
    ("merge", "expire", "replace"),
    ("compact", "add_few", "add_together", "remove"),
    ("hold", "reband", "let_go", "add_batches", "cluster"),
    ("hold", "remove", "compact", "let_go", "add_few"),
)
"""The steps of one index's life: each group is a process of its own."""
SHORT_LIFE = (("create", "add_few"), ("commit_fails", "add_few"))
LIVES_FROM_OTHERS = {
    "copy": (("copy", "add_few"),),
    "export and import": (("export_import", "add_few"),),
}
"""Of indexes that are made of another one."""


def new_body(rng: random.Random, parameters: dict[str, Any]) -> str:
    """A text of some words, or bits of which an eighth are set."""
    if "dim" not in parameters:
        return " ".join(f"w{rng.randrange(400)}" for _ in range(rng.randrange(5, 14)))
    n_bytes = parameters["dim"] // 8
    return "".join(f"{1 << rng.randrange(8):02x}" for _ in range(n_bytes))


def edited(rng: random.Random, body: str, parameters: dict[str, Any]) -> str:
    """A body with another word, or another bit set or unset."""
    if "dim" not in parameters:
        words = body.split()
        words[rng.randrange(len(words))] = f"new{rng.randrange(99)}"
        return " ".join(words)
    bits = bytearray.fromhex(body)
    bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
    return bits.hex()


class Work:
    """An index that is worked on, and what it holds.

    Parameters
    ----------
    path : Path
    documents : dict or None
        What it holds now.
    say : callable
        Takes ``("intend", states)`` and ``("done", number of states reached)``.
    place : dict, optional
        Where the database of a new index is: ``database`` and ``schema``.
    bits : bool
        Whether it is an index of bits, whose bodies are hexadecimal digits, and not of texts.
    workers : int
        Threads of an add: with one, what a thread would do is done when it is waited for.
    """

    def __init__(
        self,
        path: Path,
        documents: State,
        say: Callable[[str, Any], None],
        place: dict[str, str] | None = None,
        *,
        bits: bool = False,
        workers: int = 1,
    ) -> None:
        self.parameters = BITS if bits else PARAMETERS
        self.workers = workers
        self.path = path
        self.documents = documents
        self.say = say
        self.place = place or {}
        self.held: list[Any] = []

    def change(
        self, states: list[dict[str, Any]], do: Callable[[Callable[[], None]], None]
    ) -> None:
        """Say what comes, do it, and say what has come.

        Parameters
        ----------
        states : list of dict
            What the index holds after each commit.
        do : callable
            Is given what it may call after each commit but the last.
        """
        self.say("intend", states)
        reached = 0

        def committed() -> None:
            nonlocal reached
            if reached < len(states):
                self.documents = states[reached]
                reached += 1
                self.say("done", 1)

        do(committed)
        while reached < len(states):
            committed()

    def texts(self, n: int) -> dict[str, Any]:
        """New documents: some alike, some copies, some like what is there, one without a word."""
        there = self.documents or {}
        rng = random.Random(len(there) * 1009 + sum(map(len, there)))
        found: dict[str, Any] = {}
        texts = [text for text in there.values() if text and isinstance(text, str)]
        for number in range(n):
            if texts and rng.random() < 0.4:
                body = rng.choice(texts)
                if rng.random() < 0.6:
                    body = edited(rng, body, self.parameters)
            else:
                body = new_body(rng, self.parameters)
            texts.append(body)
            found[f"k{len(there) + number}-{rng.randrange(1000)}"] = body
        if n > 5:
            found[f"empty{len(there)}"] = "00" * (self.parameters.get("dim", 0) // 8)
        return found

    def states_of(self, documents: dict[str, Any]) -> list[dict[str, Any]]:
        """What the index holds after each batch, as documents come in."""
        items, states = list(documents.items()), [self.documents or {}]
        for start in range(0, len(items), BATCH):
            states.append(states[-1] | dict(items[start : start + BATCH]))
        return states[1:]

    def add(self, documents: dict[str, Any]) -> None:
        """Add documents, in batches of ``BATCH``."""

        def do(committed: Callable[[], None]) -> None:
            with Index.open(self.path) as index:
                index.add(documents.items(), workers=self.workers, on_commit=lambda _: committed())

        self.change(self.states_of(documents), do)

    @contextlib.contextmanager
    def other(self, documents: dict[str, Any]) -> Iterator[Index]:
        """Another index, of some documents, where no fault strikes."""
        with (
            tempfile.TemporaryDirectory() as folder,
            Index.create(Path(folder) / "other.lshdb", **self.parameters) as index,
        ):
            index.add(documents.items(), workers=1)
            index.update_clusters(workers=1)
            yield index


def create(work: Work) -> None:
    """Unless it was made before the writer was killed, and the steps are done again."""

    def do(_committed: Callable[[], None]) -> None:
        if not work.path.exists():
            Index.create(work.path, **work.parameters, **work.place).close()

    work.change([{}], do)


def add_few(work: Work) -> None:
    """Into the active run."""
    work.add(work.texts(4))


def add_batches(work: Work) -> None:
    """Batches that make runs of their own, which are merged at the end."""
    work.add(work.texts(4 * BATCH))


def add_together(work: Work) -> None:
    """Batches of one commit; of one each in Postgres, which may ask for a commit to be repeated."""
    documents = work.texts(3 * BATCH)
    states = work.states_of(documents)

    def do(committed: Callable[[], None]) -> None:
        sizes = dataclasses.replace(add_sizes.SIZES, commit_postings=10**6)
        with patch.object(add_sizes, "SIZES", sizes), Index.open(work.path) as index:
            index.add(documents.items(), workers=1, on_commit=lambda _: committed())

    work.change(states[-1:] if is_sqlite(work.path) else states, do)


def add_again(work: Work) -> None:
    """What is there already: only the time of it changes."""
    work.add(dict(list((work.documents or {}).items())[:8]))


def replace(work: Work) -> None:
    """Other texts for keys that are there, one of which becomes a copy."""
    texts = list(work.texts(6).values())
    keys = list(work.documents or {})[1:7]
    work.add(dict(zip(keys, texts, strict=False)))


def remove(work: Work) -> None:
    documents = work.documents or {}
    keys = list(documents)[::5]
    left = {key: text for key, text in documents.items() if key not in keys}

    def do(_committed: Callable[[], None]) -> None:
        with Index.open(work.path) as index:
            index.remove(keys)

    work.change([left], do)


def cluster(work: Work) -> None:
    """Edges and clusters brought up to date: no document changes."""

    def do(_committed: Callable[[], None]) -> None:
        with Index.open(work.path) as index:
            index.update_clusters(workers=1)

    work.change([work.documents or {}], do)


def commit_fails(work: Work) -> None:
    """A batch whose COMMIT takes effect and then reports an error; the next add goes on."""
    from lshdb.storage.dialects.sqlite.sqlite_database import OpenSqlite

    commit, calls = OpenSqlite.commit, []

    def commit_and_fail(connection: OpenSqlite) -> None:
        commit(connection)
        calls.append(1)
        if len(calls) == 1:  # of the batch: nothing else is committed
            raise OSError(5, "Input/output error")

    documents = work.texts(BATCH - 1)

    def do(_committed: Callable[[], None]) -> None:
        OpenSqlite.commit = commit_and_fail  # type: ignore[method-assign]
        try:
            with Index.open(work.path) as index:
                index.add(documents.items(), workers=1)
        except DatabaseError as error:
            if "is not known" not in error.message:
                raise
        finally:
            OpenSqlite.commit = commit  # type: ignore[method-assign]

    work.change([(work.documents or {}) | documents], do)


def hold(work: Work) -> None:
    """A reader keeps the write-ahead log from being emptied, so that it is written on and reset."""
    connection = sqlite3.connect(work.path / "index.db", isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM state").fetchall()
    work.held.append(connection)


def let_go(work: Work) -> None:
    for connection in work.held:
        connection.close()


def merge(work: Work) -> None:
    """Documents of another index, some with keys that are here and some with contents."""
    documents = work.texts(2 * BATCH)
    documents |= dict(zip(list(work.documents or {})[:3], documents.values(), strict=False))

    def do(committed: Callable[[], None]) -> None:
        with work.other(documents) as other, Index.open(work.path) as index:
            index.merge(other, on_commit=lambda _: committed())

    work.change(work.states_of(documents), do)


def expire(work: Work) -> None:
    """The third of the documents that has been away the longest, in one batch."""
    with Index.open(work.path) as index:
        rows = list(index.sql("SELECT last_seen_at, key FROM document_time ORDER BY 1").rows)
    since = str(rows[len(rows) // 3][0])
    left = {key for seen, key in rows if str(seen) >= since}

    def do(_committed: Callable[[], None]) -> None:
        with Index.open(work.path) as index:
            index.expire(datetime.fromisoformat(since).replace(tzinfo=UTC))

    documents = work.documents or {}
    work.change([{key: text for key, text in documents.items() if key in left}], do)


def compact(work: Work) -> None:
    """Signatures that nobody has any longer left out: no document changes."""

    def do(_committed: Callable[[], None]) -> None:
        with Index.open(work.path) as index:
            index.compact()

    work.change([work.documents or {}], do)


def reband(work: Work) -> None:
    """Other bands: no document changes."""

    def do(_committed: Callable[[], None]) -> None:
        with Index.open(work.path) as index:
            rows = 2 if index.params.rows == 3 else 3
        Index.reband(work.path, bands=5, rows=rows)

    work.change([work.documents or {}], do)


def add_new(work: Work) -> None:
    """The index comes into being with its first batch."""
    documents = work.texts(2 * BATCH)

    def do(committed: Callable[[], None]) -> None:
        with Index.create(work.path, deferred=True, **work.parameters, **work.place) as index:
            index.add(documents.items(), workers=1, on_commit=lambda _: committed())

    work.change(work.states_of(documents), do)


def copy(work: Work) -> None:
    """The index comes into being as the copy of another one."""
    documents = work.texts(2 * BATCH)

    def do(_committed: Callable[[], None]) -> None:
        with work.other(documents) as other:
            other.copy(work.path, **work.place)

    work.change([documents], do)


def export_import(work: Work) -> None:
    """The index comes into being of an export of another one, which goes beside it."""
    documents = work.texts(2 * BATCH)

    def do(_committed: Callable[[], None]) -> None:
        exported = work.path.parent / EXPORTED
        with work.other(documents) as other:
            other.export(exported)
        Index.from_export(exported, work.path).close()

    work.change([documents], do)


def upgrade(work: Work) -> None:
    """From format 1."""

    def do(_committed: Callable[[], None]) -> None:
        Index.upgrade(work.path, workers=1)

    work.change([work.documents or {}], do)


def repair(work: Work) -> None:
    """Of an index that is damaged, with everything proved by something else."""

    def do(_committed: Callable[[], None]) -> None:
        result = Index.repair(work.path, workers=1)
        if not result.findings or result.lost:
            raise AssertionError(result)

    work.change([work.documents or {}], do)


STEPS: dict[str, Callable[[Work], None]] = {
    step.__name__: step
    for step in (
        create, add_few, add_batches, add_together, add_again, replace, remove, cluster,
        commit_fails, hold, let_go, merge, expire, compact, reband, add_new, copy, export_import,
        upgrade, repair,
    )
}  # fmt: skip


def run_steps(names: Iterable[str], work: Work) -> None:
    for name in names:
        STEPS[name](work)


def make_tiny(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Lower the sizes at which batches, blocks and orders begin, so that little data makes many.

    ``put`` sets an attribute; pytest's takes it back at the end of a test.
    """
    from lshdb.ingest import pipeline
    from lshdb.storage.dialects.sqlite import SqliteDatabase
    from lshdb.storage.orders import freezing
    from lshdb.storage.rowfiles import layouts as blocks

    sizes = AddSizes(batch_documents=BATCH, merge_documents=BATCH, commit_postings=0)
    put(add_sizes, "SIZES", sizes)
    put(blocks, "BLOCK_ROWS", BLOCK_ROWS)
    put(freezing, "MOST_SORTED", 1)  # orders are merged on the way, four at a time
    put(freezing, "MOST_PARTS", 3)
    for known in (pipeline.WrittenContents, pipeline.WrittenDocuments):
        defaults = known.__init__.__kwdefaults__
        put(known.__init__, "__kwdefaults__", {**defaults, "bits": 12})  # 16 MiB: 50 ms
    open_writer = SqliteDatabase.open_writer

    def open_tiny_writer(database: SqliteDatabase) -> Any:
        connection = open_writer(database)
        connection.driver.execute("PRAGMA wal_autocheckpoint=30")
        return connection

    put(SqliteDatabase, "open_writer", open_tiny_writer)
