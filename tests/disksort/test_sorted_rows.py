"""Sorted sets and sums on disk: each pair once, in order, with a bounded part in memory."""

from __future__ import annotations

import pytest

import lshdb.disksort.sorted_rows as scratch
from lshdb.disksort.sorted_rows import Ranked, Scratch, Sums


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_each_pair_once_in_order(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", chunk)
    put_pairs = [
        ("b", "y"),
        ("a", "\U0001f600"),
        ("b", "x"),
        ("a", "\uffff"),
        ("b", "y"),
        ("", "\0"),
    ]
    with Scratch() as pairs:
        for source, (group, member) in enumerate(put_pairs):
            pairs.put(group, member, source)
            assert len(pairs._rows) < chunk or chunk == 1
        expected = sorted((*pair, put_pairs.index(pair)) for pair in set(put_pairs))
        assert list(pairs) == expected
        assert list(pairs) == expected
    assert pairs._connection is None


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_sums(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", chunk)
    with Sums() as sums:
        for number in range(20):
            sums.put("b", str(number % 3), number)
            sums.put("\U0001f600" if number % 2 else "\uffff", "", 1)
        assert list(sums) == [
            ("b", "0", sum(range(0, 20, 3))),
            ("b", "1", sum(range(1, 20, 3))),
            ("b", "2", sum(range(2, 20, 3))),
            ("\uffff", "", 10),
            ("\U0001f600", "", 10),
        ]
        assert len(sums._rows) < chunk
    assert sums._connection is None


@pytest.mark.parametrize("kind", [Scratch, Sums])
def test_a_reader_may_stop_after_it_is_closed(kind: type[Scratch] | type[Sums]) -> None:
    with kind() as rows:
        for number in range(5000):
            rows.put(f"{number:04}", "", 1)
        reader = iter(rows)
        assert next(reader) == ("0000", "", 1)
    reader.close()  # type: ignore[attr-defined]
    assert list(rows) == []


@pytest.mark.parametrize("kind", [Scratch, Sums])
def test_nothing_in_it_is_nothing(kind: type[Scratch] | type[Sums]) -> None:
    with kind() as rows:
        assert list(rows) == []


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_the_highest_first(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", chunk)
    put_rows = [("b", "x", 0.5), ("a", "y", 1.0), ("a", "x", 0.5), ("b", "x", 0.5), ("c", "", -2.5)]
    with Ranked() as ranked:
        for row in put_rows:
            ranked.put(*row)
        assert list(ranked) == sorted(put_rows, key=lambda row: (-row[2], row))
        assert len(ranked._rows) < chunk
    assert ranked._connection is None
