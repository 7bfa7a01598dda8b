"""Words of two texts laid side by side: the kernel, its reference, and texts made to be slow."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.cancel import stop_if_told
from lshdb.kernel import compiled, reference
from tests.kernel.word_texts import Words, random_text, word_text

needs_kernel = pytest.mark.skipif(compiled is None, reason="there is no compiled kernel")


def align(
    kernel: Any, text1: Words, text2: Words, areas: Any, window: int, k: int
) -> list[list[int]]:
    spans = kernel.align_words(
        *text1, *text2, text1 is text2, np.array(areas, dtype=np.int64).reshape(-1, 4), window, k
    )
    return np.frombuffer(spans, dtype=np.int64).reshape(-1, 4).tolist()  # type: ignore[no-any-return]


def whole(text1: Words, text2: Words) -> list[int]:
    return [0, int(text1[1][-1]), 0, int(text2[1][-1])]


@needs_kernel
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 6), st.booleans())
def test_the_kernel_says_what_the_reference_says(
    seed: int, window: int, k: int, is_same: bool
) -> None:
    rng = np.random.default_rng(seed)
    text1 = random_text(rng, k)
    text2 = text1 if is_same else random_text(rng, k, like=text1)
    ends = max(whole(text1, text2)) if len(text1[0]) and len(text2[0]) else 5
    areas = rng.integers(-3, ends + 4, (int(rng.integers(0, 4)), 4))
    assert align(compiled, text1, text2, areas, window, k) == align(
        reference, text1, text2, areas, window, k
    )


@needs_kernel
def test_a_passage_is_found_where_it_is() -> None:
    rng = np.random.default_rng(1)
    ids1, ids2 = rng.integers(0, 2**60, 900), rng.integers(0, 2**60, 700)
    ids2[100:400] = ids1[500:800]
    text1, text2 = word_text(ids1, 3), word_text(ids2, 3)
    assert align(compiled, text1, text2, [whole(text1, text2)], 200, 3) == [[500, 800, 100, 400]]


@needs_kernel
def test_words_in_fewer_places_where_there_are_many_matches() -> None:
    """Nine million pairs of places are too many: only what stands in few places is compared."""
    rng = np.random.default_rng(4)
    passage = rng.integers(2**20, 2**60, 500)
    repeated = np.tile(np.arange(10_000), 30)
    text1 = word_text(np.concatenate([passage, repeated]), 3)
    text2 = word_text(np.concatenate([repeated, passage]), 3)
    expected = [[0, 500, len(repeated), len(repeated) + 500]]
    for kernel in (compiled, reference):
        assert align(kernel, text1, text2, [whole(text1, text2)], 200, 3) == expected


@needs_kernel
@pytest.mark.parametrize(
    "name", ["one word", "two words", "long period", "few words", "reversed", "itself"]
)
def test_no_text_is_slow(name: str) -> None:
    """A million words of each kind; what matters is that time does not grow with their square."""
    n = 1_000_000
    rng = np.random.default_rng(2)
    ids = {
        "one word": np.zeros(n, dtype=np.int64),
        "two words": np.arange(n) % 2,
        "long period": np.arange(n) % (n // 30),
        "few words": rng.integers(0, 32, n),
        "reversed": np.arange(n),
        "itself": rng.integers(0, 50_000, n),
    }[name]
    other = ids[::-1].copy() if name == "reversed" else np.roll(ids, 7)
    text1 = word_text(ids, 3)
    text2 = text1 if name == "itself" else word_text(other, 3)
    start = time.thread_time()
    align(compiled, text1, text2, [whole(text1, text2)], 200, 3)
    assert time.thread_time() - start < 30


@needs_kernel
def test_others_go_on_and_an_interrupt_is_heard() -> None:
    rng = np.random.default_rng(3)
    text = word_text(rng.integers(0, 32, 400_000), 3)
    other = word_text(rng.integers(0, 32, 400_000), 3)
    turns = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not is_over.is_set():
            turns += 1
            time.sleep(0.001)

    def stop() -> None:
        if turns > 20:
            raise KeyboardInterrupt

    counter = threading.Thread(target=count)
    counter.start()
    compiled.hear_with(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(50):
                align(compiled, text, other, [whole(text, other)], 200, 3)
    finally:
        is_over.set()
        compiled.hear_with(stop_if_told)
        counter.join()
    assert turns > 20


@needs_kernel
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5, 7, 8, 9])
def test_what_does_not_fit_is_refused(place: int) -> None:
    text = word_text(np.arange(9), 3)
    arguments = [*text, *text, False, np.zeros((1, 4), dtype=np.int64), 5, 3]
    arguments[place] = {8: 0, 9: 2**40}.get(place, np.zeros(5, dtype=np.int64))
    with pytest.raises(ValueError):
        compiled.align_words(*arguments)
