"""Words of two texts laid side by side: the kernel, its reference, and texts made to be slow."""

from __future__ import annotations

import threading
import time
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.cancel import stop_if_told
from lshdb.kernel import compiled, reference
from lshdb.shingling import normalise
from tests.kernel.word_texts import Words, random_text, word_text

needs_kernel = pytest.mark.skipif(compiled is None, reason="there is no compiled kernel")


def align(
    kernel: Any, text1: Words, text2: Words, areas: Any, window: int, k: int
) -> list[list[int]]:
    areas = np.array(areas, dtype=np.int64).reshape(-1, 4)
    texts = [text1] if text1 is text2 else [text1, text2]
    pairs = np.array([[0, len(texts) - 1, 0, len(areas)]])
    spans = np.frombuffer(kernel.align_words(texts, pairs, areas, window, k), dtype=np.int64)
    rows = spans.reshape(-1, 9)
    assert not rows[:, 0].any()
    assert (rows[:, 5] == text1[0][rows[:, 1]]).all() and (rows[:, 7] == text2[0][rows[:, 3]]).all()
    assert (rows[:, [6, 8]] == 4 * rows[:, [2, 4]] - 1).all(), "words have three characters"
    return rows[:, 1:5].tolist()  # type: ignore[no-any-return]


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
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_pairs_of_many_texts_are_aligned_as_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [random_text(rng, 3) for _ in range(3)]
    texts += [random_text(rng, 3, like=text) for text in texts]
    areas = rng.integers(0, 150, (12, 4))
    firsts = rng.integers(0, 9, 7)
    counts = rng.integers(0, 4, 7)
    pairs = np.column_stack([rng.integers(0, len(texts), (7, 2)), firsts, counts])
    expected = [
        [number, *span]
        for number, (text1, text2, first, n) in enumerate(pairs.tolist())
        for span in align(reference, texts[text1], texts[text2], areas[first : first + n], 20, 3)
    ]
    for kernel in (compiled, reference):
        rows = np.frombuffer(kernel.align_words(texts, pairs, areas, 20, 3), np.int64)
        assert rows.reshape(-1, 9)[:, :5].tolist() == expected


@needs_kernel
def test_areas_that_touch_are_one_for_both() -> None:
    """Windows of one word, and areas with common ends, where one character more decides."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        text1, text2 = (word_text(rng.integers(0, 8, 60), 1) for _ in range(2))
        areas = 12 * np.sort(rng.integers(0, 9, (4, 2, 2)), axis=2).reshape(4, 4)
        expected = align(reference, text1, text2, areas, 1, 1)
        assert align(compiled, text1, text2, areas, 1, 1) == expected


_ODD = (
    "aZ_09 .,\u00e9\u00c9\u00df\ufb01\u0130\u0301\u00ad\u200d\u0e01\u0e33\u4e2d\u3164\u064b\u0628"
    "\U0001f600\U000e0100\ud800\0"
)


@needs_kernel
@settings(max_examples=150, deadline=None)
@given(st.text() | st.text(alphabet=_ODD), st.integers(-1, 1), st.integers(1, 6))
def test_words_are_cut_and_hashed_as_the_reference_does(text: str, way: int, k: int) -> None:
    asked: list[str] = []

    def hash_word(word: str) -> int:
        asked.append(word)
        return hash_of(word)

    cut = compiled.cut_grams(text, way, k, hash_word)
    assert cut == reference.cut_grams(text, way, k, hash_of)
    assert all(not word.isascii() for word in asked) or way < 0


def hash_of(word: str) -> int:
    hashed: int = mmh3.hash64(normalise(word).encode(), signed=False)[0]
    return hashed


@needs_kernel
def test_words_of_any_length_are_hashed_alike() -> None:
    """The kernel hashes short words of ASCII, Python all others."""
    text = " ".join("Ab" * n for n in range(1, 300))
    cuts = [
        kernel.cut_grams(text, way, 3, hash_of)
        for kernel in (compiled, reference)
        for way in (1, -1)
    ]
    assert cuts[0] == cuts[1] == cuts[2] == cuts[3]


@needs_kernel
def test_a_hash_that_is_none_is_refused() -> None:
    for answer in (-1, 2**64, "x", None):
        with pytest.raises((OverflowError, TypeError)):
            compiled.cut_grams("\u00e9 a", 1, 1, lambda _, answer=answer: answer)
    with pytest.raises(ZeroDivisionError):
        compiled.cut_grams("\u00e9 a", 1, 1, lambda _: 1 // 0)
    for way, k in ((2, 3), (-2, 3), (1, 0), (1, 2**40)):
        with pytest.raises(ValueError):
            compiled.cut_grams("a", way, k, hash_of)


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
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, [np.zeros(5, dtype=np.int64)]),
        (0, [np.zeros(3, dtype=np.int64)]),
        (0, [np.zeros(25, dtype=np.int8)[1:]] * 2),
        (1, np.zeros(5, dtype=np.int64)),
        (1, np.array([[0, 2, 0, 1]])),
        (1, np.array([[-1, 0, 0, 1]])),
        (1, np.array([[0, 1, 0, 2]])),
        (1, np.array([[0, 1, 2, 0]])),
        (1, np.array([[0, 1, -1, 1]])),
        (1, np.array([[0, 1, 1, 2**62]])),
        (2, np.zeros(5, dtype=np.int64)),
        (3, 0),
        (3, 2**40),
        (4, 0),
        (4, 2**40),
    ],
)
def test_what_does_not_fit_is_refused(place: int, value: Any) -> None:
    text = word_text(np.arange(9), 3)
    arguments: list[Any] = [
        [text, text],
        np.array([[0, 1, 0, 1]]),
        np.zeros((1, 4), np.int64),
        5,
        3,
    ]
    compiled.align_words(*arguments)
    arguments[place] = value
    with pytest.raises(ValueError):
        compiled.align_words(*arguments)
