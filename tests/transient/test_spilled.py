"""Rows, names and signatures of documents in files give back what came in."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from lshdb.transient import document_names
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
