"""kill -9 at any point: the index is sound, and the same work done again comes to the same end."""

from __future__ import annotations

import pkgutil
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import FormatError, Index
from tests.fault.repairs import damage
from tests.fault.soundness import faults_of
from tests.fault.steps import INDEX, State
from tests.fault.writer import (
    CHANGING,
    KILL_AFTER,
    KILL_BEFORE,
    KILL_HALF,
    MKDIR,
    PASS,
    RENAME,
    SYNC,
    TRUNCATE,
    WRITE,
    WriterProcess,
)
from tests.golden.test_indexes import FORMAT_1, history_of, unpack_postgres
from tests.postgres import PostgresUrl, fresh_schema

KILLS = 500
FIRST = ("create", "add_few")
WORK = ("add_batches", "add_together", "replace", "remove", "cluster", "compact", "reband")
WAYS = {"before": KILL_BEFORE, "half": KILL_HALF, "after": KILL_AFTER}


def call(kinds: int, part: str, way: str, nth: int = 1) -> dict[str, Any]:
    return {"fault": {"action": WAYS[way], "kinds": kinds, "part": part, "nth": nth}}


def function(name: str, when: str, nth: int = 1) -> dict[str, Any]:
    pkgutil.resolve_name(f"lshdb.{name}")  # a name that has moved fails short runs, too
    return {"killed_at": {"name": f"lshdb.{name}", "when": when, "nth": nth}}


NAMED = {
    "before the signatures are written": call(WRITE, "signatures.npy$", "before"),
    "when half of them are": call(WRITE, "signatures.npy$", "half"),
    "before they are synced": call(SYNC, "signatures.npy$", "before"),
    "after they are synced": call(SYNC, "signatures.npy$", "after"),
    "before the first page of the log": call(WRITE, "-wal$", "before"),
    "in the middle of the log": call(WRITE, "-wal$", "half", 40),
    "before the log is synced": call(SYNC, "-wal$", "before"),
    "when the commit is durable": call(SYNC, "-wal$", "after", 2),
    "before the header of the signatures": call(WRITE, "signatures.npy$", "half", 2),
    "in a checkpoint": call(WRITE, "index.db$", "half", 3),
    "before a checkpoint is synced": call(SYNC, "index.db$", "before"),
    "before the log is emptied": call(TRUNCATE, "-wal$", "before"),
    "after the log is emptied": call(TRUNCATE, "-wal$", "after"),
    "before bands are written": function("storage.bands.band_table:BandTable.append", "before"),
    "after bands are written": function("storage.bands.band_table:BandTable.append", "after", 2),
    "before orders are merged": function("storage.orders.freezing:write_orders", "before", 2),
    "after orders are merged": function("storage.orders.freezing:write_orders", "after", 2),
    "before clusters are written": function("storage.rows.edges:EdgeTables.put_state", "before"),
}
NAMED_BITS = {
    "before the vectors are written": call(WRITE, "vectors.npy$", "before"),
    "when half of the vectors are": call(WRITE, "vectors.npy$", "half"),
    "before the vectors are synced": call(SYNC, "vectors.npy$", "before"),
    "after the vectors are synced": call(SYNC, "vectors.npy$", "after"),
    "before the header of the vectors": call(WRITE, "vectors.npy$", "half", 2),
    "in the next generation of vectors": call(WRITE, "vectors.1.npy$", "half"),
    "before the next generation is synced": call(SYNC, "vectors.1.npy$", "before"),
}
"""With a vector file."""
NAMED_FIRST = {
    "before the folder is made": call(MKDIR, "", "before"),
    "after the folder is made": call(MKDIR, "", "after"),
    "in the first file": call(WRITE, "signatures.npy$", "half"),
    "in the schema": function("storage.place.creation:make_tables", "after"),
    "before index.toml": function(
        "storage.place.directory:IndexDirectory.write_description", "before"
    ),
    "before the rename": call(RENAME, "", "before"),
    "after the rename": call(RENAME, "", "after"),
}
ORDINARY = (
    "before they are synced", "in the middle of the log", "in a checkpoint",
    "when the commit is durable", "after orders are merged",
    "in the schema", "before the rename", "after the rename",
    "before the vectors are synced", "before the next generation is synced",
)  # fmt: skip


def kill_and_repeat(
    writer: WriterProcess, path: Path, documents: State, steps: tuple[str, ...], **task: Any
) -> tuple[bool, State]:
    """Kill a writer, look at what it left, let another do the same.

    Whether it was killed, and what the index holds in the end.
    """
    same = {name: task.get(name) for name in ("place", "bits")}
    killed = writer.run(path, documents, steps=steps, **task)
    assert killed.outcome in ("killed", "done"), killed.result
    assert faults_of(path, killed.allowed) == [], task
    again = writer.run(path, documents, steps=steps, **same)
    assert again.outcome == "done", (task, again.result)
    assert faults_of(path, again.allowed[:1], asks=True) == [], task
    return killed.outcome == "killed", again.allowed[0]


@pytest.mark.parametrize("where", NAMED)
@pytest.mark.long(when=lambda where: where not in ORDINARY)
def test_a_writer_is_killed(
    where: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
) -> None:
    assert kill_and_repeat(writer, copy_grown(), grown[1], WORK, **NAMED[where])[0]


@pytest.mark.parametrize("where", NAMED_BITS)
@pytest.mark.long(when=lambda where: where not in ORDINARY)
def test_a_writer_of_vectors_is_killed(
    where: str,
    writer: WriterProcess,
    grown_bits: tuple[Path, State],
    copy_grown_bits: Callable[[], Path],
) -> None:
    steps, how = ("add_batches", "remove", "compact"), NAMED_BITS[where]
    assert kill_and_repeat(writer, copy_grown_bits(), grown_bits[1], steps, **how, bits=True)[0]


@pytest.mark.parametrize("where", NAMED_FIRST)
@pytest.mark.long(when=lambda where: where not in ORDINARY)
def test_a_writer_is_killed_while_the_index_is_made(
    where: str, writer: WriterProcess, tmp_path: Path
) -> None:
    path = tmp_path / "root" / INDEX
    path.parent.mkdir()
    assert kill_and_repeat(writer, path, None, FIRST, **NAMED_FIRST[where])[0]


def random_kills(rng: random.Random, calls: int) -> Iterator[dict[str, Any]]:
    """At a call, before, in or after it, or at a time; without end."""
    while True:
        if rng.random() < 0.7:
            way = rng.choice(list(WAYS))
            yield call(CHANGING, "", way, rng.randrange(1, calls + 1))
        else:
            yield {"kill_after_seconds": rng.uniform(0, 0.15)}


@pytest.mark.parametrize("is_first", [False, True])
def test_a_writer_is_killed_anywhere(
    is_first: bool,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    steps, documents = (FIRST, None) if is_first else (WORK, grown[1])

    def prepared() -> Path:
        path = copy_grown()
        if is_first:
            shutil.rmtree(path)
        return path

    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    calls = writer.run(prepared(), documents, steps=steps, fault=counting).result["count"]
    kills = random_kills(random.Random(5), calls)
    done, wanted = 0, (KILLS // 2 if is_long else 2)
    while done < wanted:
        done += kill_and_repeat(writer, prepared(), documents, steps, **next(kills))[0]


@pytest.mark.parametrize("way", WAYS)
def test_an_upgrade_is_killed_at_every_call(
    way: str,
    writer: WriterProcess,
    unpack_format_1: Callable[[Path], State],
    tmp_path: Path,
    is_long: bool,
) -> None:
    """What is left is the old index, or the new one; the next upgrade ends it."""
    path = tmp_path / "root" / INDEX
    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    documents = unpack_format_1(path)
    whole = writer.run(path, documents, steps=("upgrade",), fault=counting)
    assert whole.outcome == "done", whole.result
    calls = whole.result["count"]
    names, states = {file.name.partition(".")[0] for file in path.iterdir()}, set()
    for nth in range(1, calls + 1, 1 if is_long else 1 + calls // 12):
        unpack_format_1(path)
        how = call(CHANGING, "", way, nth)
        killed = writer.run(path, documents, steps=("upgrade",), **how)
        assert killed.outcome == "killed", (nth, killed.result)
        try:
            Index.open(path).close()
        except FormatError as error:
            assert "has format 1; this version reads" in error.message
            states.add("old")
        else:
            assert faults_of(path, [documents]) == [], nth
            states.add("new")
        assert writer.run(path, documents, steps=("upgrade",)).outcome == "done", nth
        assert faults_of(path, [documents], writes=True) == [], nth
        assert {file.name.partition(".")[0] for file in path.iterdir()} == names, nth
        assert len([*path.glob("signatures*")]) == 1, nth
    assert states == {"old", "new"}


def test_a_repair_is_killed_at_every_call(
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    """What is left is the damaged index, or the sound one; the next repair ends it, once."""
    path, documents, rng = copy_grown(), grown[1], random.Random(8)
    damage(path)
    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    whole = writer.run(path, documents, steps=("repair",), fault=counting)
    assert whole.outcome == "done", whole.result
    calls, left = whole.result["count"], set()
    for nth in range(1, calls + 1) if is_long else [calls // 2]:
        way = rng.choice(list(WAYS))
        path = copy_grown()
        damage(path)
        killed = writer.run(path, documents, steps=("repair",), **call(CHANGING, "", way, nth))
        assert killed.outcome == "killed", (nth, way, killed.result)
        with Index.open(path) as index:
            left.add("damaged" if index.check() else "sound")
        assert faults_of(path, [documents], may_be_damaged=True, asks=True) == [], (nth, way)
        assert Index.repair(path).findings == [], (nth, way)
        assert [file.name for file in path.parent.iterdir()] == [INDEX], (nth, way)
    assert left == ({"damaged", "sound"} if is_long else {"damaged"})


@pytest.mark.parametrize("then", ["upgrade", "add_few"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_is_left_of_an_upgrade_that_was_killed_at_its_end(
    when: str,
    then: str,
    writer: WriterProcess,
    unpack_format_1: Callable[[Path], State],
    tmp_path: Path,
) -> None:
    """Whoever writes next removes what the upgrade has replaced."""
    path = tmp_path / "root" / INDEX
    documents = unpack_format_1(path)
    how = function("storage.place.directory:IndexDirectory.settle_description", when)
    killed = writer.run(path, documents, steps=("upgrade",), **how)
    assert killed.outcome == "killed", killed.result
    assert writer.run(path, documents, steps=(then,)).outcome == "done"
    rows = [file.name for file in path.glob("*.npy") if not file.name.startswith("orders.")]
    assert rows == ["signatures.1.npy"]
    assert not (path / "index.next.toml").exists()
    assert "format = 2" in (path / "index.toml").read_text()


UPGRADE_POSTGRES = {
    "before documents are read": ("maintain.format1:add_stored", "before", "old"),
    "before history is written": ("maintain.format1:_restore_history", "before", "old"),
    "before the tables are dropped": ("maintain.format1:drop_tables", "before", "old"),
    "after the tables are dropped": ("maintain.format1:drop_tables", "after", "old"),
    "before the commit": ("maintain.format1:transfer_rows", "after", "old"),
    "after the commit": ("maintain.upgrade:settle_upgrade", "before", "new"),
    "at the end": ("maintain.upgrade:settle_upgrade", "after", "new"),
}


@pytest.mark.parametrize("where", UPGRADE_POSTGRES)
def test_an_upgrade_in_postgres_is_killed(
    where: str,
    writer: WriterProcess,
    tmp_path: Path,
    postgres_url: PostgresUrl,
    postgres_schema: str,
) -> None:
    name, when, left = UPGRADE_POSTGRES[where]
    (tmp_path / "root").mkdir()
    archive = FORMAT_1 / "postgres" / "0006.tar.gz"
    path = unpack_postgres(archive, tmp_path / "root", "cosine", postgres_url, postgres_schema)
    before = history_of(path)
    killed = writer.run(path, {}, steps=("upgrade",), **function(name, when))
    assert killed.outcome == "killed", killed.result
    if left == "old":
        with pytest.raises(FormatError, match="has format 1; this version reads"):
            Index.open(path)
    else:
        Index.open(path).close()
    Index.upgrade(path)
    assert history_of(path) == before
    with Index.open(path) as index:
        assert index.check() == []


POSTGRES = {
    **{name: how for name, how in NAMED.items() if "log" not in name and "checkpoint" not in name},
    "when the commit is durable": {
        "killed_at": {
            "name": "lshdb.storage.dialects.postgresql.postgres_database:OpenPostgres.commit",
            "when": "after",
            "nth": 4,
        }
    },
    "before a commit": function("storage.transactions.changes:WriteTransaction.seal", "after", 3),
}
ORDINARY_POSTGRES = ("before a commit", "after bands are written")


@pytest.fixture
def place(postgres_url: PostgresUrl, postgres_schema: str) -> dict[str, str]:
    return {"database": postgres_url.lshdb, "schema": postgres_schema}


@pytest.fixture
def grown_postgres(
    writer: WriterProcess, tmp_path: Path, place: dict[str, str]
) -> tuple[Path, State]:
    """An index with runs; it goes on from one kill to the next, as making one takes a while."""
    path = tmp_path / "root" / INDEX
    path.parent.mkdir()
    outcome = writer.run(path, None, steps=("create", "add_few", "add_batches"), place=place)
    assert outcome.outcome == "done", outcome.result
    return path, outcome.allowed[0]


@pytest.mark.parametrize("where", POSTGRES)
@pytest.mark.long(when=lambda where: where not in ORDINARY_POSTGRES)
def test_a_writer_of_postgres_is_killed(
    where: str, writer: WriterProcess, grown_postgres: tuple[Path, State]
) -> None:
    assert kill_and_repeat(writer, *grown_postgres, WORK, **POSTGRES[where])[0]


@pytest.mark.parametrize("where", NAMED_FIRST)
@pytest.mark.long(when=lambda where: where not in ("in the schema", "before the rename"))
def test_a_writer_is_killed_while_an_index_of_postgres_is_made(
    where: str, writer: WriterProcess, tmp_path: Path, place: dict[str, str]
) -> None:
    path = tmp_path / "root" / INDEX
    path.parent.mkdir()
    assert kill_and_repeat(writer, path, None, FIRST, place=place, **NAMED_FIRST[where])[0]


@pytest.mark.parametrize("is_first", [False, True])
def test_a_writer_of_postgres_is_killed_anywhere(
    is_first: bool,
    writer: WriterProcess,
    grown_postgres: tuple[Path, State],
    postgres_url: PostgresUrl,
    tmp_path: Path,
    is_long: bool,
) -> None:
    """At any moment: what it sent last may still take effect when the next one comes."""
    rng = random.Random(6)
    path, documents = grown_postgres
    killed, longest = 0, 1.5
    while killed < (KILLS // 5 if is_long else 1):
        moment = {"kill_after_seconds": rng.uniform(0, longest)}
        if not is_first:
            work = (rng.choice(WORK),) if len(documents or {}) < 150 else ("expire", "compact")
            was_killed, documents = kill_and_repeat(writer, path, documents, work, **moment)
        else:
            with fresh_schema(postgres_url) as schema:
                place = {"database": postgres_url.lshdb, "schema": schema}
                made = tmp_path / "made" / INDEX
                made.parent.mkdir()
                was_killed, _ = kill_and_repeat(writer, made, None, FIRST, place=place, **moment)
                shutil.rmtree(made.parent)
        killed += was_killed
        longest *= 1.1 if was_killed else 0.7  # machines differ: most have to come before the end
