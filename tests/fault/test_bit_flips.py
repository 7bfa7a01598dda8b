"""A bit flips in a file: it is found, or it changes no answer."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, LshdbError, LshdbWarning
from tests.fault.killing import copy_files
from tests.fault.questions import QUESTIONS_OF_ROWS
from tests.fault.soundness import documents_of
from tests.fault.steps import PARAMETERS, State
from tests.fault.writer import Outcome, WriterProcess

FLIPS = {"index.db": 4000, "signatures.npy": 1500, "index.toml": 500, "orders.*.npy": 500}
ORDINARY = {"index.db": 20, "signatures.npy": 8, "index.toml": 5, "orders.*.npy": 2}
HEADER_BYTES = 128


def sound_copy(copy_grown: Callable[[], Path], documents: State) -> tuple[Path, list[str]]:
    """An index at rest, in three files; and what to query it for."""
    path = copy_grown()
    for name in ("index.db-wal", "index.db-shm"):
        (path / name).unlink(missing_ok=True)
    return path, [text for text in (documents or {}).values() if text][:12]


def is_refused(found: Any) -> bool:
    return isinstance(found, dict) and "refused" in found


def bugs_of(found: dict[str, Any]) -> list[str]:
    """The last lines of what was raised and is no error of ours."""
    answers = [each for each in found.values() if isinstance(each, dict)]
    return [each["bug"].strip().split("\n")[-1] for each in answers if "bug" in each]


def flip(
    writer: WriterProcess, path: Path, texts: list[str], name: str, bits: list[int]
) -> list[tuple[int, dict[str, Any]]]:
    flips = [(name, bit) for bit in bits]
    outcome = writer.run(path, None, flips=flips, texts=texts)
    done = len(outcome.flips)
    assert outcome.outcome == "done", (
        f"{name}, bit {flips[done]}: {outcome.status} {outcome.result}"
    )
    return [(bit, found) for _, bit, found in outcome.flips]


@pytest.mark.fast
@pytest.mark.parametrize("name", FLIPS)
def test_a_flipped_bit_is_found_or_changes_nothing(
    name: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    path, texts = sound_copy(copy_grown, grown[1])
    rng = random.Random(f"flips of {name}")
    n_flips = (FLIPS if is_long else ORDINARY)[name]
    is_order = name.startswith("orders")
    name = max(path.glob(name), key=lambda file: file.stat().st_size).name
    n_bits = (path / name).stat().st_size * 8
    bits = [rng.randrange(n_bits) for _ in range(n_flips)]
    seen = Counter[str]()
    missed = []
    bugs: list[tuple[int, str]] = []
    for bit, found in flip(writer, path, texts, name, bits):
        bugs += [(bit, bug) for bug in bugs_of(found)]
        check = found.pop("check")
        others = [question for question, each in found.items() if not is_refused(each)]
        seen["found" if check else "not found"] += 1
        if others:
            seen["changed an answer"] += 1
            seen["and found"] += bool(check)
        if others and not check:
            missed.append((bit, others))
        if name == "signatures.npy" and bit >= HEADER_BYTES * 8:
            assert check, f"bit {bit} of a signature row"
        assert not is_order or (check and not others), f"bit {bit} of an order"
    print(name, dict(seen), "missed:", missed, "bugs:", bugs)
    wrong = [one for one in missed if {"query", "pairs"} & set(one[1])]
    assert bugs == []
    assert wrong == []
    assert len(missed) <= 0.01 * seen["changed an answer"]


ANSWERS: dict[str, Callable[[Index], object]] = {
    "query": lambda index: list(index.query("some words of a text", top=None, threshold=0)),
    "query many": lambda index: list(index.query_many(["some words of a text 1"] * 3)),
    "pairs": lambda index: list(index.pairs()),
    "pairs of the last add": lambda index: list(index.pairs(since="last")),
    "copies": lambda index: list(index.pairs(threshold=1.0)),
    "clusters": lambda index: list(index.clusters()),
    "clusters as they are": lambda index: list(index.clusters(update=False)),
    "dedup": lambda index: list(index.dedup()),
    "neighbors": lambda index: list(index.neighbors(k=1)),
    "join": lambda index: list(index.join(index)),
    "texts": lambda index: list(index.texts(["k0", "k1"])),
    "fields": lambda index: list(index.fields(["k0", "k1"])),
    "keys": lambda index: list(index),
}


def _declare(connection: sqlite3.Connection, before: str, after: str) -> None:
    """Change a column of the table of documents by name alone; its values stay."""
    connection.execute("PRAGMA writable_schema = ON")
    changed = connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) "
        "WHERE name = 'document' AND instr(sql, ?1)",
        (before, after),
    )
    assert changed.rowcount == 1
    connection.commit()
    connection.execute("PRAGMA writable_schema = RESET")


@pytest.mark.sqlite("edits the file of SQLite")
@pytest.mark.parametrize("key", [None, 2, 0.5, b"k0"])
def test_no_answer_has_a_key_that_is_no_text(key: object, tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, **PARAMETERS) as index:
        for start in (0, 4):
            index.add((f"k{n}", f"some words of a text {n // 3}") for n in range(start, start + 4))
        index.update_clusters()
    with contextlib.closing(sqlite3.connect(path / "index.db")) as connection:
        _declare(connection, '"key" TEXT NOT NULL', '"key" BLOB')
        connection.execute("UPDATE document SET key = ? WHERE key = 'k0'", (key,))
        _declare(connection, '"key" BLOB', '"key" TEXT NOT NULL')
    taken = {}
    for name, question in ANSWERS.items():
        with Index.open(path) as index:
            try:
                taken[name] = repr(question(index))
            except LshdbError:
                continue
    assert not [name for name, answer in taken.items() if repr(key) in answer]
    assert not {"pairs", "clusters", "clusters as they are", "dedup", "join", "keys"} & set(taken)


def test_a_flipped_bit_of_the_vector_file_is_found(
    writer: WriterProcess,
    grown_bits: tuple[Path, State],
    copy_grown_bits: Callable[[], Path],
    is_long: bool,
) -> None:
    """But in the header's number of rows, which nothing relies on."""
    path, bodies = sound_copy(copy_grown_bits, grown_bits[1])
    n_bits = (path / "vectors.npy").stat().st_size * 8
    bits = random.Random("flips of vectors").sample(range(n_bits), 1000 if is_long else 6)
    bugs: list[tuple[int, str]] = []
    for bit, found in flip(writer, path, bodies, "vectors.npy", bits):
        bugs += [(bit, bug) for bug in bugs_of(found)]
        others = [each for each in found.items() if each[0] != "check" and not is_refused(each[1])]
        assert found["check"] or (bit < HEADER_BYTES * 8 and not others), f"bit {bit}"
    assert bugs == []


def test_a_flipped_bit_of_the_log_leaves_a_state_that_was(tmp_path: Path, is_long: bool) -> None:
    """SQLite ends the log before the first frame that is damaged; the next writer says so."""
    base, path = tmp_path / "base.lshdb", tmp_path / "x.lshdb"
    states: list[dict[str, Any]] = []
    with (
        Index.create(path, **PARAMETERS) as index,
        contextlib.closing(sqlite3.connect(path / "index.db", isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")  # while it reads this state, the log is not emptied
        reader.execute("SELECT * FROM state").fetchall()
        for batch in range(5):
            index.add([(f"k{batch}-{n}", f"some words {batch} {n // 2}") for n in range(6)])
            states.append(documents_of(index))
        copy_files(path, base)
    assert (base / "index.db-wal").stat().st_size > 0
    rng, seen = random.Random(3), Counter[str]()
    for _ in range(500 if is_long else 3):
        shutil.rmtree(path)
        shutil.copytree(base, path)
        (path / "index.db-shm").unlink(missing_ok=True)
        bit = flip_one(path / "index.db-wal", rng)
        try:
            with Index.open(path) as index:
                findings, documents = index.check(), documents_of(index)
                assert findings or documents in [{}, *states], f"bit {bit}"
                seen["named" if findings else f"state {len(documents)}"] += 1
                if not findings:
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always", LshdbWarning)
                        index.add(states[-1].items())
                    is_said = "counted 15 rows" in "".join(str(one.message) for one in said)
                    assert is_said or documents == states[-1], f"bit {bit}"
                    assert (index.check(), documents_of(index)) == ([], states[-1]), f"bit {bit}"
        except LshdbError as error:
            assert error.message
            seen[type(error).__name__] += 1
    print(dict(seen))


def flip_one(file: Path, rng: random.Random) -> int:
    content = bytearray(file.read_bytes())
    bit = rng.randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    return bit


@pytest.mark.parametrize("question", QUESTIONS_OF_ROWS)
def test_a_signature_file_that_is_cut_in_the_middle_of_a_question(
    question: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    """The right answer or an error, and never SIGBUS, which would end the process that asks."""
    sizes = (0, HEADER_BYTES, (grown[0] / "signatures.npy").stat().st_size - 1)

    def asked(moment: int, size: int) -> Outcome:
        path, texts = sound_copy(copy_grown, grown[1])
        return writer.run(path, None, cut=question, moment=moment, size=size, texts=texts[:3])

    sound = asked(0, 0).result
    moments = range(1, sound["calls"] + 1, sound["calls"] // (400 if is_long else 4))
    ended = Counter[str]()
    for moment, size in zip(moments, itertools.cycle(sizes), strict=False):
        outcome = asked(moment, size)
        where = f"{question}, cut to {size} at call {moment} of {sound['calls']}"
        assert outcome.status == 0, f"{where}: signal {-outcome.status}"
        ended[outcome.outcome] += 1
        if outcome.outcome == "done":
            found = outcome.result["answer"]
            if found != sound["answer"]:
                assert question == "check" and "signature" in str(found), where
        else:
            assert outcome.outcome == "DamageError", (where, outcome.result)
    print(question, dict(ended))
    assert ended["DamageError"] or question == "check"
