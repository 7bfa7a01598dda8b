"""Look-ups and comparisons of many queries in one call: the kernel and its reference."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.cancel import stop_if_told
from lshdb.kernel import compiled, reference
from lshdb.signatures.band_orders import BandOrders

needs_kernel = pytest.mark.skipif(compiled is None, reason="there is no compiled kernel")

BANDS, ROWS, WORDS = 4, 2, 9
ORDERS = BandOrders({"bands": BANDS, "rows": ROWS, "slot_bits": 16})


def places_of(rows: Any, cuts: list[int]) -> list[Any]:
    """Orders of some rows, in several parts."""
    ends = sorted({0, len(rows), *cuts})
    return [
        (ORDERS.pack(ORDERS.sort(ORDERS.keys(rows[first:last]))), last - first, BANDS + 1, first, 0)
        for first, last in itertools.pairwise(ends)
    ]


def ask(kernel: Any, places: Any, limit: int, queries: Any, most: int, least: int, source: Any,
        offset: int, n: int) -> tuple[int, list[list[int]]]:  # fmt: skip
    keys = np.ascontiguousarray(ORDERS.keys(queries)[:, :BANDS])
    n_done, agreeing = kernel.find_agreeing(
        places, limit, keys, queries, most, least, source, offset, n, WORDS, BANDS, ROWS, False
    )
    return n_done, np.frombuffer(agreeing, np.int64).reshape(-1, 4).tolist()


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, WORDS))
def test_the_kernel_says_what_the_reference_says(seed: int, most: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (int(rng.integers(1, 60)), WORDS)).astype(np.uint16)
    queries = rng.integers(0, 3, (int(rng.integers(0, 12)), WORDS)).astype(np.uint16)
    places = places_of(rows, rng.integers(0, len(rows), 2).tolist())
    limit = int(rng.integers(0, len(rows) + 1))
    answers = [
        ask(kernel, places, limit, queries, most, least, rows, 0, len(rows))
        for kernel in (compiled, reference)
    ]
    assert answers[0] == answers[1]
    n_done, agreeing = answers[0]
    assert agreeing == [
        [number, place, int((row == query).sum()), matched]
        for number, query in enumerate(queries[:n_done])
        for place, row in enumerate(rows[:limit])
        if (matched := int((row == query)[: BANDS * ROWS].reshape(-1, ROWS).all(axis=1).sum()))
        and (row == query).sum() >= least
    ]
    assert n_done == len(queries) or len(agreeing) >= most


@pytest.mark.parametrize("kernel", [compiled, reference])
def test_rows_of_a_file_and_failures(tmp_path: Path, kernel: Any) -> None:
    if kernel is None:
        pytest.skip("there is no compiled kernel")
    rows = np.random.default_rng(1).integers(0, 2, (40, WORDS)).astype(np.uint16)
    places = places_of(rows, [])
    expected = ask(kernel, places, 40, rows[:5], 10**6, 0, rows, 0, 40)
    path = tmp_path / "rows"
    path.write_bytes(bytes(100) + rows.tobytes())
    with open(path, "rb") as file:
        source = file.fileno()
        assert ask(kernel, places, 40, rows[:5], 10**6, 0, source, 100, 40) == expected
        os.truncate(path, 100 + rows.nbytes - 1)
        with pytest.raises(ValueError, match="the file ends before a row"):
            ask(kernel, places, 40, rows[39:], 10**6, 0, source, 100, 40)
    with pytest.raises(IndexError):
        ask(kernel, places, 40, rows, 10**6, 0, rows[:20], 0, 20)
    damaged = [(places[0][0].copy(), *places[0][1:])]
    damaged[0][0][len(damaged[0][0]) // 3 :] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        ask(kernel, damaged, 40, rows, 10**6, 0, rows, 0, 40)


@needs_kernel
@pytest.mark.parametrize("place", range(12))
def test_what_does_not_fit_is_refused(place: int) -> None:
    rows = np.zeros((3, WORDS), dtype=np.uint16)
    keys = np.ascontiguousarray(ORDERS.keys(rows)[:, :BANDS])
    arguments = [places_of(rows, []), 3, keys, rows, 9, 0, rows, 0, 3, WORDS, BANDS, ROWS, False]
    compiled.find_agreeing(*arguments)
    arguments[place] = {
        0: [(rows, 3, BANDS + 1, 0, 0)], 1: 2**70, 2: keys[1:], 3: rows[1:], 4: 0, 5: 2**70,
        6: rows[1:], 7: -1, 8: -1, 9: 0, 10: 0, 11: 5,
    }[place]  # fmt: skip
    with pytest.raises((ValueError, OverflowError)):
        compiled.find_agreeing(*arguments)


@needs_kernel
def test_others_go_on_and_an_interrupt_is_heard() -> None:
    """All rows lie in one bucket, so each query is compared with each of them."""
    rows = np.zeros((60_000, WORDS), dtype=np.uint16)
    places = places_of(rows, [])
    is_late = threading.Event()
    threading.Timer(0.2, is_late.set).start()

    def stop() -> None:
        if is_late.is_set():
            raise KeyboardInterrupt

    compiled.hear_with(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(compiled, places, len(rows), rows, 2**62, WORDS + 1, rows, 0, len(rows))
    finally:
        compiled.hear_with(stop_if_told)
