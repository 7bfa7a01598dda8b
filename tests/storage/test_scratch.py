"""The sorted set on disk: each pair once, in order, with a bounded part in memory."""

from __future__ import annotations

import pytest

import lshdb.storage.dialects.scratch as scratch
from lshdb.storage.dialects.scratch import Scratch


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_each_pair_once_in_order(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", chunk)
    given = [("b", "y"), ("a", "\U0001f600"), ("b", "x"), ("a", "\uffff"), ("b", "y"), ("", "\0")]
    with Scratch() as pairs:
        for source, (group, member) in enumerate(given):
            pairs.put(group, member, source)
            assert len(pairs._rows) < chunk or chunk == 1
        expected = sorted((*pair, given.index(pair)) for pair in set(given))
        assert list(pairs) == expected
        assert list(pairs) == expected
    assert pairs._connection is None


def test_nothing_in_it_is_nothing() -> None:
    with Scratch() as pairs:
        assert list(pairs) == []
