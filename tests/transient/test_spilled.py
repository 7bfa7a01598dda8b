"""Rows, names and signatures of documents in files give back what came in."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from lshdb import TransientIndex
from lshdb.transient import document_names, spilled
from lshdb.transient.document_names import DocumentNames
from lshdb.transient.document_signatures import DocumentSignatures
from lshdb.transient.spilled import SpilledBytes, SpilledRows

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_signatures_and_rows_are_those_of_a_plain_list(share: float) -> None:
    rng, plain, highest = random.Random(5), [], -1
    signatures = DocumentSignatures()
    for size in (1, 40, 0, 7, 100):
        batch = []
        for _ in range(size):
            is_other = rng.random() < share
            batch.append(rng.randint(-1, highest) if is_other else highest + 1)
            highest = max(highest, batch[-1])
        signatures.append(np.array(batch, dtype=np.int64))
        plain += batch
    ids = np.arange(highest + 1)
    rows = {number: [row for row, each in enumerate(plain) if each == number] for number in ids}
    assert (len(signatures), signatures.n_signatures) == (len(plain), highest + 1)
    assert signatures.n_without == plain.count(-1)
    assert signatures.of(np.arange(len(plain))).tolist() == plain
    assert signatures.first_rows(ids).tolist() == [rows[number][0] for number in ids]
    assert signatures.counts(ids).tolist() == [len(rows[number]) for number in ids]
    asked = ids[1::2]
    assert signatures.rows_of(asked).tolist() == [row for number in asked for row in rows[number]]
    shared, counts = signatures.shared()
    assert dict(zip(shared.tolist(), counts.tolist(), strict=True)) == {
        number: len(each) for number, each in rows.items() if len(each) > 1
    }


def test_rows_and_values_come_back_in_any_order(tmp_path: Path) -> None:
    rows, values = SpilledRows(tmp_path, "<i4", 2), SpilledBytes(tmp_path)
    columns = np.arange(60, dtype=np.int32).reshape(30, 2)
    texts = [b"x" * (number * 700 % 5000) + bytes([number]) for number in range(30)]
    for start, stop in ((0, 1), (1, 1), (1, 30)):
        rows.append(columns[start:stop])
        values.append(texts[start:stop])
    numbers = np.array([29, 3, 4, 5, 3, 0])
    assert (rows.take(numbers) == columns[numbers]).all()
    assert (np.concatenate(list(rows.blocks())) == columns).all()
    assert values.take(np.sort(numbers)) == [texts[number] for number in np.sort(numbers)]
    assert [text for block in values.blocks() for text in block] == texts
    assert len(rows.take(numbers[:0])) == len(values.take(numbers[:0])) == 0
    rows.close()
    values.close()


def test_long_values_come_back_alone_and_short_ones_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "_READ_BYTES", 1000)
    values = SpilledBytes(tmp_path)
    texts = [bytes([number]) * (5000 if number % 7 == 3 else 90) for number in range(50)]
    values.append(texts)
    for numbers in (np.arange(50), np.array([3]), np.array([1, 2, 10, 17, 18, 40]), np.arange(0)):
        found = [(numbers[part].tolist(), block) for part, block in values.take_blocks(numbers)]
        assert [number for part, _ in found for number in part] == numbers.tolist()
        assert all(block == [texts[number] for number in part] for part, block in found)
        assert all(len(block) == 1 or len(b"".join(block)) <= 1000 for _, block in found)
        assert len(found) < len(numbers) or len(numbers) <= 1
    values.close()


def test_texts_of_files_are_read_some_at_a_time() -> None:
    """By whatever asks for all of them: one of 3 MB is in memory, not twenty."""
    with TransientIndex.create() as index:
        index.add((f"d{number}", f"{number} and more words " * 150_000) for number in range(20))
        with index._store.reading() as state:
            ids = range(20)
            for lists in (
                (bodies for _, bodies in state.bodies_in_groups([*range(1, 21)], n_bytes=2**20)),
                state.packed_bodies_of_signatures([*ids], n_bytes=2**20),
                ([body] for _, body in state.bodies_of_signatures([*ids])),
                ([body] for _, body in state.bodies_of_documents(range(1, 21))),
            ):
                tracemalloc.start()
                assert sum(map(len, lists)) == 20
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < 20_000_000


@pytest.mark.parametrize("part", [1, 8, 1000])
def test_a_key_is_found_in_memory_and_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(document_names, "_PART", part)
    names = DocumentNames(tmp_path)
    keys = [f"key {number}" for number in range(40)]
    for start in range(0, 40, 3):
        names.append(keys[start : start + 3], [f"s:{key}" for key in keys[start : start + 3]])
    assert names.rows_of(["none", *keys[::-1]]).tolist() == [-1, *range(39, -1, -1)]
    assert list(names.keys()) == keys
    assert names.take(np.array([7, 2, 7])) == [(keys[n], f"s:{keys[n]}") for n in (7, 2, 7)]
    names.close()
