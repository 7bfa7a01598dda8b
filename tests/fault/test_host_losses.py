"""An index in Postgres whose writer's host loses power between the sync of its files and a COMMIT.

The writer is killed at a call, or before or after a COMMIT: the server has what it has got by then.
What the host's disk holds is one of the states of ``power_loss.py``; in each the index is what was
acknowledged, and the same work done again comes to the same end.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fault.power_loss import Disk, materialise, read_log
from tests.fault.soundness import faults_of
from tests.fault.steps import INDEX, State
from tests.fault.test_kill import call, function
from tests.fault.writer import CHANGING, MARK, PASS, SYNC, WriterProcess
from tests.postgres import PostgresUrl

STEPS = ("add_batches",)
COMMIT = "storage.dialects.postgresql.postgres_database:OpenPostgres.commit"
WHERE = {
    "before the COMMIT": function(COMMIT, "before", 3),
    "after the COMMIT": function(COMMIT, "after", 3),
    "before the files are synced": call(SYNC, "signatures.npy$", "before", 2),
    "after the files are synced": call(SYNC, "signatures.npy$", "after", 2),
}
ORDINARY = ("after the COMMIT",)


@pytest.fixture
def grown(
    writer: WriterProcess, tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> tuple[Path, State]:
    path = tmp_path / "root" / INDEX
    path.parent.mkdir()
    place = {"database": postgres_url.lshdb, "schema": postgres_schema}
    outcome = writer.run(path, None, steps=("create", "add_few"), place=place)
    assert outcome.outcome == "done", outcome.result
    return path, outcome.allowed[0]


def lose_host(
    writer: WriterProcess, path: Path, documents: State, rng: random.Random, images: int, **how: Any
) -> tuple[bool, list[str]]:
    """Kill a writer and take its host's power: whether it was killed, and what is wrong then.

    The first of the ``images`` of the disk has nothing but what is durable. The last one stays.
    """
    root, log = path.parent, path.parent.with_name("log")
    log.unlink(missing_ok=True)
    disk = Disk(root)
    killed = writer.run(path, documents, steps=STEPS, log=str(log), **how)
    assert killed.outcome in ("killed", "done"), killed.result
    for called in read_log(log):
        if called.kind != MARK:
            disk.apply(called)
    faults: list[str] = []
    for image in range(images):
        shutil.rmtree(root)
        root.mkdir()
        materialise(disk.crashed(rng, 0.5 if image else 0.0), root)
        faults += faults_of(path, killed.allowed)
    return killed.outcome == "killed", faults


@pytest.mark.parametrize("where", WHERE)
def test_the_writers_host_loses_power(
    where: str, writer: WriterProcess, grown: tuple[Path, State], is_long: bool
) -> None:
    if not (is_long or where in ORDINARY):
        pytest.skip("with --faults=long")
    path, documents = grown
    images = 20 if is_long else 1
    was_killed, faults = lose_host(
        writer, path, documents, random.Random(where), images, **WHERE[where]
    )
    assert was_killed and faults == []
    again = writer.run(path, documents, steps=STEPS)
    assert again.outcome == "done", again.result
    assert faults_of(path, again.allowed[:1], asks=True) == []


def test_the_writers_host_loses_power_at_any_call(
    writer: WriterProcess, grown: tuple[Path, State], is_long: bool
) -> None:
    """One loss after the other, at each call of a life that goes on."""
    if not is_long:
        pytest.skip("with --faults=long")
    path, documents = grown
    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    ran = writer.run(path, documents, steps=STEPS, fault=counting)
    calls, documents = ran.result["count"], ran.allowed[0]
    for nth in range(1, calls + 1):
        for way in ("before", "after"):
            rng = random.Random(f"{nth} {way}")
            how = call(CHANGING, "", way, nth)
            _, faults = lose_host(writer, path, documents, rng, 5, **how)
            assert faults == [], (nth, way)
            again = writer.run(path, documents, steps=STEPS)
            assert again.outcome == "done", (nth, way, again.result)
            documents = again.allowed[0]
            assert faults_of(path, [documents], asks=nth % 5 == 0) == [], (nth, way)
        if len(documents or {}) > 400:
            shrunk = writer.run(path, documents, steps=("expire", "compact"))
            assert shrunk.outcome == "done", shrunk.result
            documents = shrunk.allowed[0]


@pytest.mark.parametrize("plant", ["signatures_unsynced", "commits_swapped"])
def test_a_planted_bug_is_found(
    plant: str, writer: WriterProcess, grown: tuple[Path, State], is_long: bool
) -> None:
    if not is_long:
        pytest.skip("with --faults=long")
    path, documents = grown
    where = WHERE["after the COMMIT"]
    _, faults = lose_host(writer, path, documents, random.Random(1), 1, plants=(plant,), **where)
    assert faults
