"""Order files that are foreign, stale, cut, swapped or flipped change no answer."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index
from lshdb.signatures.banding import bucket_keys

FAULTS, ORDINARY = 1000, 25


def texts(seed: int, first: int, n: int) -> list[tuple[str, str]]:
    """Near-duplicates of ten stems, and a few copies."""
    rng = random.Random(seed)
    stems = [" ".join(f"w{rng.randrange(400)}" for _ in range(40)) for _ in range(10)]
    documents = []
    for number in range(first, first + n):
        words = rng.choice(stems).split()
        for _ in range(rng.randrange(4)):
            words[rng.randrange(40)] = f"w{rng.randrange(400)}"
        documents.append((f"key{number}", " ".join(words)))
    return documents


FIRST, SECOND, OTHER = texts(1, 0, 160), texts(2, 160, 24), texts(3, 160, 24)


def answers(path: Path) -> Any:
    with Index.open(path) as index:
        with index._store.reading() as snapshot:
            # Near-duplicates agree in many bands, and are found although one lost a posting.
            rows = snapshot.signature_file.take_between(0, snapshot.n_signatures)
            keys = np.unique(bucket_keys(rows, **index.params.cut))
            buckets = snapshot.postings.grouped_of(keys)
            columns = (buckets.keys, buckets.sizes, buckets.members)
            postings = [column.tolist() for column in columns]
        return (
            postings,
            sorted((pair.key1, pair.key2, pair.similarity) for pair in index.pairs()),
            [
                [(hit.key, hit.similarity) for hit in index.query(text)]
                for _, text in [*FIRST[::40], *SECOND[::12], *OTHER[::12]]
            ],
        )


def order_files(path: Path) -> list[Path]:
    return sorted(path.glob("orders.*.npy"))


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """An index of two segments, its first state, and another history since then."""
    folder = tmp_path_factory.mktemp("histories")
    with Index.create(folder / "before") as index:
        index.add(FIRST)
    for name, documents in (("index", SECOND), ("other", OTHER)):
        shutil.copytree(folder / "before", folder / name)
        with Index.open(folder / name) as index:
            index.add(documents)
    return folder / "index", folder / "before", folder / "other"


def put_foreign(path: Path, other: Path, _: Path, rng: random.Random) -> None:
    """A file of another history lies there, under its name or that of one of ours."""
    file, foreign = rng.choice(order_files(path)), rng.choice(order_files(other))
    (file if rng.random() < 0.7 else path / foreign.name).write_bytes(foreign.read_bytes())


def put_part(path: Path, other: Path, before: Path, rng: random.Random) -> None:
    """Bytes of another file, from one place to another, lie at the same place."""
    file = rng.choice(order_files(path))
    data, foreign = file.read_bytes(), rng.choice(order_files(other) + order_files(before))
    begin = rng.randrange(128, len(data))
    end = min(begin + 8 * rng.randrange(1, 2000), len(data))
    file.write_bytes(data[:begin] + foreign.read_bytes()[begin:end] + data[end:])


def put_stale(path: Path, _: Path, before: Path, rng: random.Random) -> None:
    """The file of an earlier state lies there, alone or under another name."""
    stale = rng.choice(order_files(before))
    file = rng.choice(order_files(path))
    if rng.random() < 0.3:
        file.unlink()
        file = path / stale.name
    file.write_bytes(stale.read_bytes())


def cut(path: Path, _: Path, before: Path, rng: random.Random) -> None:
    file = rng.choice(order_files(path))
    data = file.read_bytes()
    n = rng.randrange(len(data))
    file.write_bytes(data[:n] if rng.random() < 0.5 else data[:n] + bytes(len(data) - n))


def swap(path: Path, _: Path, before: Path, rng: random.Random) -> None:
    """Two stretches of a file change places."""
    file = rng.choice(order_files(path))
    data = bytearray(file.read_bytes())
    n = 8 * rng.choice([1, 2, 8, 100])
    one, other = (128 + 8 * rng.randrange((len(data) - 128 - n) // 8) for _ in range(2))
    data[one : one + n], data[other : other + n] = data[other : other + n], data[one : one + n]
    file.write_bytes(data)


def flip(path: Path, _: Path, before: Path, rng: random.Random) -> None:
    file = rng.choice(order_files(path))
    data = bytearray(file.read_bytes())
    bit = rng.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [put_foreign, put_part, put_stale, cut, swap, flip], ids=lambda how: how.__name__
)
def test_an_order_file_that_is_not_right_changes_no_answer(
    histories: tuple[Path, Path, Path],
    tmp_path: Path,
    damage: Callable[[Path, Path, Path, random.Random], None],
    is_long: bool,
) -> None:
    index, before, other = histories
    expected = answers(index)
    assert len(order_files(index)) > 1 and expected[0]
    for seed in range(FAULTS if is_long else ORDINARY):
        path = tmp_path / "x"
        shutil.copytree(index, path)
        damage(path, other, before, random.Random(seed))
        assert answers(path) == expected, f"{damage.__name__}, seed {seed}"
        shutil.rmtree(path)
