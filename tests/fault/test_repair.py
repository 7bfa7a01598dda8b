"""A bit flips in a value, or anywhere in a file; the index is repaired, and sound after that.

All documents are then there with right answers, or named as lost.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import DamageError, Index
from tests.conftest import family_corpus
from tests.fault.repairs import repaired
from tests.fault.steps import edited, new_body
from tests.fault.test_python_life import Alarm

PARAMETERS: dict[str, Any] = {"threshold": 0.6, "k": 1, "num_perm": 16, "bands": 4, "rows": 4}
DOCUMENTS = family_corpus(11, families=5)
TABLES = (
    "state", "batch", "document", "content", "signature_block", "segment", "edge",
    "edge_state", "cluster_member", "signature_release", "band",
)  # fmt: skip
FLIPS = {"values": 2000, "index.db": 2000, "signatures.npy": 500}
ORDINARY = {"values": 18, "index.db": 8, "signatures.npy": 3}


BITS: dict[str, Any] = {
    "metric": "jaccard-bits", "dim": 256, "threshold": 0.6, "num_perm": 16, "bands": 4, "rows": 4,
}  # fmt: skip


@pytest.fixture(scope="module", params=[True, False], ids=["texts", "no texts"])
def sound(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """An index with replaced and removed documents, and clusters; what is in it."""
    path = tmp_path_factory.mktemp("sound") / "x.lshdb"
    with Index.create(path, store_text=request.param, **PARAMETERS) as index:
        index.add(DOCUMENTS[:20])
        index.add(DOCUMENTS[20:])
        index.add([("f000-1", DOCUMENTS[9][1]), ("empty", ""), ("tokens", ["a", "b", "c"])])
        index.remove(["f001-2", "u002"])
        index.update_clusters()
        assert index.check() == []
    documents: dict[str, Any] = dict(DOCUMENTS)
    documents |= {"f000-1": DOCUMENTS[9][1], "empty": "", "tokens": ["a", "b", "c"]}
    yield path, {key: body for key, body in documents.items() if key not in ("f001-2", "u002")}


def flip_value(path: Path, table: str, rng: random.Random) -> str:
    """Flip one bit of one value in a table; what was done."""
    database = sqlite3.connect(path / "index.db", isolation_level=None)
    try:
        database.execute("PRAGMA ignore_check_constraints=ON")
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        rows = database.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        if not rows:
            return f"nothing in {table}"
        row = rng.choice(rows)
        place = rng.randrange(len(columns))
        value = flipped_value(row[place], rng)
        keys = [column for column in columns if row[columns.index(column)] is not None]
        condition = " AND ".join(f"{key} = ?" for key in keys)
        values = [row[columns.index(key)] for key in keys]
        database.execute(
            f"UPDATE OR IGNORE {table} SET {columns[place]} = ? WHERE {condition}", [value, *values]
        )
        return f"{table}.{columns[place]} of {row!r:.60}: {value!r:.30}"
    finally:
        database.close()


def flipped_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, int):
        return value ^ 1 << rng.randrange(40)
    if isinstance(value, float):
        return value + 2.0 ** -rng.randrange(1, 30)
    if value is None:
        return 1
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    if not raw:
        return "x"
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(7)
    return bytes(raw) if isinstance(value, bytes) else raw.decode()


def flip_bit(path: Path, name: str, rng: random.Random) -> str:
    content = bytearray((path / name).read_bytes())
    bit = rng.randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    (path / name).write_bytes(content)
    return f"bit {bit} of {name}"


@pytest.mark.parametrize("what", FLIPS)
def test_an_index_with_a_flipped_bit_is_repaired(
    what: str, sound: tuple[Path, dict[str, Any]], tmp_path: Path, is_long: bool
) -> None:
    rng = random.Random(f"repairs of {what}")
    seen = Counter[str]()
    bad = []
    for number in range((FLIPS if is_long else ORDINARY)[what]):
        path = tmp_path / str(number) / "x.lshdb"
        shutil.copytree(sound[0], path)
        table = TABLES[number % len(TABLES)]
        done = flip_value(path, table, rng) if what == "values" else flip_bit(path, what, rng)
        outcome, faults = repaired(path, sound[1])
        seen[outcome] += 1
        bad += [f"{done}: {outcome}: {fault}" for fault in faults]
        if outcome == "refused" and what != "index.db":
            bad.append(f"{done}: refused")
        shutil.rmtree(path.parent)
    print(what, dict(seen))
    assert bad == []
    assert seen["refused"] <= max(1, 0.05 * sum(seen.values()))
    if what == "signatures.npy":  # rows are proved by texts, or by their postings
        assert set(seen) <= {"sound", "repaired", "lost"} and seen["repaired"]


def test_a_repair_that_is_interrupted_is_done_or_can_be_done_again(
    sound: tuple[Path, dict[str, Any]], tmp_path: Path, is_long: bool
) -> None:
    rng, alarm, seconds = random.Random(9), Alarm(), 0.05
    seen = Counter[str]()
    before = signal.signal(signal.SIGALRM, alarm.ring)
    try:
        for number in range(300 if is_long else 1):
            path = tmp_path / str(number) / "x.lshdb"
            shutil.copytree(sound[0], path)
            done = flip_bit(path, "signatures.npy", rng)
            try:
                alarm.is_set = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, seconds))
                Index.repair(path)
                alarm.is_set = False
                seconds *= 0.9
            except KeyboardInterrupt:
                seen["interrupted"] += 1
                seconds *= 1.1
            except DamageError:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                alarm.is_set = False
            files = path.parent.glob("*.quarantine-*")
            lines = [line for file in files for line in file.read_text().splitlines()]
            gone = {json.loads(line)["id"] for line in lines if line.endswith("}")}
            outcome, faults = repaired(path, sound[1], gone)
            seen[outcome] += 1
            assert faults == [], (number, done)
            left = {entry.name for entry in path.parent.iterdir()} - {path.name}
            assert all("quarantine" in name for name in left), left
            shutil.rmtree(path.parent)
    finally:
        signal.signal(signal.SIGALRM, before)
    print(dict(seen))


@pytest.fixture(scope="module")
def sound_bits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An index of bits with replaced and removed documents, copies and one without a set bit."""
    path = tmp_path_factory.mktemp("bits") / "x.lshdb"
    rng = random.Random(3)
    bodies = [new_body(rng, BITS) for _ in range(20)]
    bodies += [edited(rng, body, BITS) for body in bodies] + bodies[:3] + ["00" * 32]
    documents = {f"b{number:02d}": body for number, body in enumerate(bodies)}
    with Index.create(path, **BITS) as index:
        index.add(documents.items())
        documents["b05"] = edited(rng, bodies[9], BITS)
        index.add([("b05", documents["b05"])])
        index.remove(["b07", "b30"])
        index.update_clusters()
        assert index.check() == []
    return path, {key: body for key, body in documents.items() if key not in ("b07", "b30")}


OF_BITS = {"values": 1000, "vectors.npy": 500, "signatures.npy": 500}
ORDINARY_OF_BITS = {"values": 4, "vectors.npy": 3, "signatures.npy": 2}


@pytest.mark.parametrize("what", OF_BITS)
def test_an_index_of_vectors_with_a_flipped_bit_is_repaired(
    what: str, sound_bits: tuple[Path, dict[str, Any]], tmp_path: Path, is_long: bool
) -> None:
    """All but the document of a vector that is no longer its own are there."""
    rng = random.Random(f"repairs of {what}")
    seen = Counter[str]()
    bad = []
    for number in range((OF_BITS if is_long else ORDINARY_OF_BITS)[what]):
        path = tmp_path / str(number) / "x.lshdb"
        shutil.copytree(sound_bits[0], path)
        table = ("document", "signature_block", "state", "batch")[number % 4]
        done = flip_value(path, table, rng) if what == "values" else flip_bit(path, what, rng)
        outcome, faults = repaired(path, sound_bits[1])
        seen[outcome] += 1
        bad += [f"{done}: {outcome}: {fault}" for fault in faults]
        shutil.rmtree(path.parent)
    print(what, dict(seen))
    assert bad == []
    if what == "vectors.npy":
        assert seen["lost"]  # a row of it is all that there is of a vector
    elif what == "signatures.npy":  # signed again
        assert set(seen) <= {"sound", "repaired"} and seen["repaired"]
    assert not seen["refused"]
