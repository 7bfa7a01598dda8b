"""Exact levels of many pairs: as pair by pair, whatever is kept in memory and whoever works."""

from __future__ import annotations

import itertools
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, Index, Tokenizer
from lshdb.search import exact_levels
from lshdb.search.exact_levels import levels_between
from lshdb.signatures.families import family_of
from lshdb.storage.transactions.snapshot import Snapshot

WORKERS = [1, 2, 5]


def bodies(n: int) -> list[Any]:
    """Texts of every length with words in common, and some lists and sets of tokens."""
    rng = random.Random(7)
    words = [f"wörd{number}" if number % 3 else f"word{number}" for number in range(90)]
    texts: list[Any] = []
    for number in range(n):
        some = rng.choices(words, k=rng.choice([1, 4, 30, 300]))
        texts.append(" ".join([*some, str(number)]))
        if number % 11 == 3:
            texts[-1] = [*some, str(number)]
        if number % 11 == 7:
            texts[-1] = frozenset([*some, str(number)])
    return texts


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("levels") / "x.lshdb"
    long = " ".join(f"word{number}" for number in range(150_000))
    assert len(long) > 2**20
    with Index.create(path, k=2) as index:
        index.add([(f"d{number}", body) for number, body in enumerate([*bodies(200), long])])
    return path


def blocks_of(ids: int, n: int, size: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    blocks = [(rng.integers(0, ids, size), rng.integers(0, ids, size)) for _ in range(n)]
    return [*blocks, (np.array([ids - 1]), np.array([0])), blocks[0]]


def expected_levels(snapshot: Snapshot, family: Any, blocks: list[tuple[Any, Any]]) -> list[Any]:
    found = dict(snapshot.bodies_of_signatures(range(201)))
    points = dict(zip(found, family.points(family.contents(list(found.values()))), strict=True))
    return [
        family.levels([points[one] for one in left], [points[one] for one in right]).tolist()
        for left, right in ((left.tolist(), right.tolist()) for left, right in blocks)
    ]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("most_bytes", [0, 60_000, 2**30])
@pytest.mark.parametrize(("texts", "size"), [(512, 2**20), (3, 2**20), (512, 900)])
def test_levels_are_those_of_each_pair(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    most_bytes: int,
    texts: int,
    size: int,
) -> None:
    monkeypatch.setattr(exact_levels, "_GROUP_TEXTS", texts)
    monkeypatch.setattr(exact_levels, "_GROUP_BYTES", size)
    with Index.open(path) as index, index._store.reading() as snapshot:
        family = family_of(index.params)
        levels = levels_between(snapshot, family, most_bytes=most_bytes, workers=workers)
        for blocks in (blocks_of(201, 12, 30), blocks_of(201, 1, 400), []):
            found = list(levels.of(iter(blocks)))
            assert [block for block, _ in found] == blocks
            expected = expected_levels(snapshot, family, blocks)
            assert [each.tolist() for _, each in found] == expected


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read: list[int] = []
    original = Snapshot.packed_bodies_of_signatures

    def counted(self: Snapshot, ids: Any, **how: int) -> Any:
        read.extend(ids)
        return original(self, ids, **how)

    monkeypatch.setattr(Snapshot, "packed_bodies_of_signatures", counted)
    return read


@pytest.mark.parametrize("workers", WORKERS)
def test_a_text_is_read_once_if_there_is_room(
    path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    read = count_reads(monkeypatch)
    with Index.open(path) as index, index._store.reading() as snapshot:
        levels: Any = levels_between(
            snapshot, family_of(index.params), most_bytes=2**30, workers=workers
        )
        for _ in range(3):
            assert len(list(levels.of(blocks_of(200, 30, 20)))) == 32
            assert len(levels._sets._parts) < 32 + 12  # of each block, and those ahead
    assert sorted(read) == sorted(set(read))


def test_memory_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a block needs not is dropped; groups and their places do not add up."""
    monkeypatch.setattr(exact_levels, "_GROUP_TEXTS", 4)
    with Index.open(path) as index, index._store.reading() as snapshot:
        levels: Any = levels_between(snapshot, family_of(index.params), most_bytes=10_000)
        for _ in levels.of(itertools.chain(*(blocks_of(200, 40, 3) for _ in range(5)))):
            held = sum(part.nbytes for part in levels._sets._parts)
            assert held == levels._sets._bytes
            assert held <= 10_000 + 6 * 4 * 301 * 8
            assert len(levels._sets._parts) < 80
            assert len(levels._sets._numbers) == sum(map(len, levels._sets._ids)) < 80


SHAPES: dict[str, list[tuple[int, int]]] = {
    "families of two": [(one, one + 1) for one in range(0, 200, 2)],
    "far apart": [(one, one + 100) for one in range(100)],
    "a chain": [(one, one + 1) for one in range(199)],
    "a star": [(0, one) for one in range(1, 200)],
    "all with all": list(itertools.combinations(range(60), 2)),
}
MOST_MADE = {
    "families of two": 200, "far apart": 200, "a chain": 300, "a star": 200, "all with all": 150,
}  # fmt: skip
"""Sets that are made, of two hundred texts, or sixty."""


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_block_that_does_not_fit_is_compared_in_parts(
    path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, shape: str
) -> None:
    """Memory is bounded within one block, and few texts are read again."""
    monkeypatch.setattr(exact_levels, "_GROUP_TEXTS", 4)
    held: list[int] = []
    n_made: list[int] = []
    original = exact_levels._SetCache.fill

    def fill(self: Any, group: Any, hashes: Any, counts: Any) -> None:
        original(self, group, hashes, counts)
        held.append(self._bytes)
        n_made.append(len(counts))

    monkeypatch.setattr(exact_levels._SetCache, "fill", fill)
    ends = np.array(SHAPES[shape])
    block = ends[:, 0].copy(), ends[:, 1].copy()
    with Index.open(path) as index, index._store.reading() as snapshot:
        family = family_of(index.params)
        levels: Any = levels_between(snapshot, family, most_bytes=20_000, workers=workers)
        (expected,) = expected_levels(snapshot, family, [block])
        ((_, found),) = levels.of([block])
    assert found.tolist() == expected
    assert max(held) <= 2 * 20_000 + (2 * workers + 1) * 4 * 301 * 8
    assert sum(n_made) <= MOST_MADE[shape]


@pytest.mark.sqlite("a row is changed behind its back")
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "long", "no text"])
def test_damage_comes_in_its_turn_and_names_the_text(
    tmp_path: Path, workers: int, damage: str
) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, k=2) as index:
        index.add([(f"d{number}", body) for number, body in enumerate(bodies(60))])
    connection = sqlite3.connect(path / "index.db")
    doc_id, body = connection.execute(
        "SELECT doc_id, body FROM content "
        "WHERE form = 'text' AND doc_id > 20 AND length(body) > 300"
    ).fetchone()
    bodies_of = {
        "cut": body[:-9], "flipped": body[:99] + bytes([body[99] ^ 4]) + body[100:],
        "long": body + b"\0", "no text": b"\x28\xb5\x2f\xfd\x20\x02\x11\0\0\xc3\xc3",
    }  # fmt: skip
    if damage == "missing":
        connection.execute("DELETE FROM content WHERE doc_id = ?", (doc_id,))
    else:
        row = (bodies_of[damage], doc_id)
        connection.execute("UPDATE content SET body = ? WHERE doc_id = ?", row)
    connection.commit()
    connection.close()
    first = doc_id - 1
    said = f"signature {first} is missing" if damage == "missing" else f"doc_id {doc_id}\\b"
    blocks = [(np.array([one]), np.array([one + 1])) for one in range(50)]
    with Index.open(path) as index, index._store.reading() as snapshot:
        levels = levels_between(
            snapshot, family_of(index.params), most_bytes=2**20, workers=workers
        )
        for _ in range(2):  # and again: what was begun is forgotten
            found = []
            with pytest.raises(DamageError, match=said):
                found.extend(levels.of(blocks))
            assert len(found) == first - 1
        assert len(list(levels.of(blocks[: first - 1]))) == first - 1


@pytest.mark.parametrize("workers", WORKERS)
def test_threads_end_with_an_iteration_that_is_dropped(path: Path, workers: int) -> None:
    before = threading.active_count()
    with Index.open(path) as index, index._store.reading() as snapshot:
        levels = levels_between(
            snapshot, family_of(index.params), most_bytes=2**20, workers=workers
        )
        blocks = blocks_of(201, 40, 9)
        expected = expected_levels(snapshot, family_of(index.params), blocks)
        iteration = levels.of(iter(blocks))
        next(iteration)
        iteration.close()  # type: ignore[attr-defined]
        assert threading.active_count() == before
        assert [each.tolist() for _, each in levels.of(blocks)] == expected


def test_the_users_own_tokenizer_is_called_by_one_thread(tmp_path: Path) -> None:
    callers = set()

    def split(text: str) -> list[str]:
        callers.add(threading.get_ident())
        return text.split()

    tokenizer = Tokenizer(split, name="mine", version="1")
    with Index.create(tmp_path / "x.lshdb", unit="tokenizer", tokenizer=tokenizer) as index:
        index.add([(f"d{n}", "the same words come again " * 3 + str(n)) for n in range(40)])
        callers.clear()
        assert len(list(index.pairs(threshold=0.1, workers=4))) > 500
    assert callers == {threading.get_ident()}
