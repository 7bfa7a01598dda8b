"""The compiled kernel gives the bits of the reference, on any text and at every vector level."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.cancel import stop_if_told
from lshdb.kernel import compiled, kernel_name, lookup_tables
from lshdb.shingling import NORMALISATION, normalise, shingle_hashes
from lshdb.signatures import sign_contents
from lshdb.signatures.banding import (
    bucket_keys,
    compare_rows,
    first_agreements,
    matching_bands,
)
from lshdb.signatures.sets import (
    compare_contents,
    compare_sets,
    exact_similarity,
    shingle_content,
    shingle_contents,
)
from tests.signatures.collisions import words_that_begin_alike
from tests.without_kernel import (
    reference_agreement,
    reference_keys,
    reference_sketch,
    use_reference,
)

ROOT = Path(__file__).parents[2]
kernel = compiled


def levels() -> list[str]:
    found = []
    for name in ("plain", "avx2", "avx512"):
        try:
            found.append(kernel.use_level(name))
        except ValueError:
            continue
    kernel.use_level()
    return found


def reference(texts: list[str], scheme: str, num_perm: int, **shingling: object):  # type: ignore[no-untyped-def]
    rows = np.zeros((len(texts), num_perm), dtype=np.uint16)
    counts = np.zeros(len(texts), dtype=np.int64)
    for place, text in enumerate(texts):
        hashes = shingle_hashes(text, **shingling)  # type: ignore[arg-type]
        counts[place] = len(hashes)
        if len(hashes):
            lengths = np.array([len(hashes)])
            rows[place] = reference_sketch(scheme, hashes, lengths, num_perm, 5)[0]
    return rows, counts


def test_the_kernel_is_built_where_these_tests_run() -> None:
    assert kernel is not None
    assert kernel_name().startswith("compiled (")
    assert levels()[0] == "plain"


TEXTS = st.lists(
    st.one_of(
        st.text(),
        st.text(
            alphabet="ab _,.\n\u0301\u093f\u00ad\u00e9\u0416\u4e2d\u0e01\u0e34\U0001f600"
            "\U00020000\0",
            max_size=80,
        ),
        st.lists(st.sampled_from(["to", "be", "or", "not", "é", "中"]), max_size=60).map(" ".join),
        st.text(alphabet="ab \n\n", max_size=60),
        st.text(alphabet="abz09_ Z.,-'@[`{/:\t\x1f\x7f", min_size=30, max_size=200),
    ),
    max_size=6,
)


@pytest.mark.parametrize("level", levels() if kernel else [])
@pytest.mark.parametrize("scheme", ["fss", "universal"])
@settings(max_examples=120, deadline=None)
@given(
    texts=TEXTS,
    unit=st.sampled_from(["word", "char", "byte", "line", "token", "url"]),
    k=st.integers(1, 9),
    bag=st.booleans(),
    num_perm=st.sampled_from([1, 7, 16, 128]),
)
def test_arbitrary_texts(
    level: str, scheme: str, texts: list[str], unit: str, k: int, bag: bool, num_perm: int
) -> None:
    steps = {"byte": "none", "line": "nfkc-lines", "url": "lines"}.get(unit, NORMALISATION)
    texts = [normalise(text, steps) for text in texts]
    kernel.use_level(level)
    try:
        rows, counts = sign_contents(
            texts, unit=unit, k=k, bag=bag, scheme=scheme, num_perm=num_perm, seed=5
        )
    finally:
        kernel.use_level()
    expected = reference(texts, scheme, num_perm, unit=unit, k=k, bag=bag)
    assert np.array_equal(counts, expected[1])
    assert np.array_equal(rows, expected[0])
    for text in texts:
        hashes = shingle_content(text, unit=unit, k=k, bag=bag)
        assert np.array_equal(hashes, shingle_hashes(text, unit=unit, k=k, bag=bag))


@pytest.mark.parametrize("level", levels() if kernel else [])
@pytest.mark.parametrize("scheme", ["fss", "universal"])
@settings(max_examples=40, deadline=None)
@given(
    pattern=st.text(alphabet="ab \n中é\U0001f600", min_size=1, max_size=30),
    seed=st.integers(0, 2**32),
    length=st.integers(1, 1000),
    unit=st.sampled_from(["word", "char", "byte", "line", "token", "url"]),
    k=st.sampled_from([1, 2, 5, 9, 40, 10_000]),
    num_perm=st.sampled_from([1, 7, 16, 128, 300]),
    pieces=st.sampled_from([1, 2, 3, 10, 100]),
)
def test_long_texts_are_signed_in_pieces_as_the_reference_does(
    level: str,
    scheme: str,
    pattern: str,
    seed: int,
    length: int,
    unit: str,
    k: int,
    num_perm: int,
    pieces: int,
) -> None:
    """With a piece of one shingle a text of 17 bytes is long, and a part has 32 hashes."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices(pattern, k=length)), pattern * (length // len(pattern)), "a b"]
    texts = [normalise(text, "lines" if unit == "url" else "none") for text in texts]
    kernel.use_level(level)
    kernel.use_pieces(pieces)
    try:
        rows, counts = sign_contents(
            texts, unit=unit, k=k, bag=False, scheme=scheme, num_perm=num_perm, seed=5
        )
        points = [shingle_content(text, unit=unit, k=k, bag=False) for text in texts]
        numbers = compare_contents(texts[0], texts[1], unit=unit, k=k, bag=False)
    finally:
        kernel.use_pieces()
        kernel.use_level()
    expected = reference(texts, scheme, num_perm, unit=unit, k=k, bag=False)
    assert np.array_equal(counts, expected[1])
    assert np.array_equal(rows, expected[0])
    for text, point in zip(texts, points, strict=True):
        assert np.array_equal(point, shingle_hashes(text, unit=unit, k=k, bag=False))
    common = len(np.intersect1d(points[0], points[1]))
    assert numbers == (common, len(points[0]), len(points[1]))


def test_a_text_of_megabytes_as_its_sorted_hashes() -> None:
    """Long enough for pieces of the usual size, two parts, and a sketch of each."""
    rng = np.random.default_rng(6)
    text = rng.integers(97, 123, 2_500_000, dtype=np.uint8).tobytes().decode()
    expected = shingle_hashes(text[:200_000], unit="char", k=9, bag=False)
    assert np.array_equal(shingle_content(text[:200_000], unit="char", k=9, bag=False), expected)
    whole = shingle_content(text, unit="char", k=9, bag=False)
    assert (whole[1:] > whole[:-1]).all() and np.isin(expected, whole).all()
    for scheme in ("fss", "universal"):
        rows, counts = sign_contents(
            [text], unit="char", k=9, bag=False, scheme=scheme, num_perm=128, seed=5
        )
        lengths = np.array([len(whole)])
        row = np.empty((1, 128), dtype=np.uint16)
        numbers = lookup_tables.constants(scheme, 128, 5)
        kernel.sketch(whole, lengths, lookup_tables.SCHEMES[scheme], 128, numbers, row)
        assert counts[0] == len(whole)
        assert np.array_equal(rows, row)


def test_pieces_have_a_size() -> None:
    for wrong in (-1, 2**21):
        with pytest.raises(ValueError, match="out of range"):
            kernel.use_pieces(wrong)
    kernel.use_pieces()


@pytest.mark.parametrize("level", levels() if kernel else [])
@pytest.mark.parametrize("fold", [False, True])
@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.one_of(
            st.text(),
            st.text(alphabet=[chr(point) for point in range(128)], max_size=150),
            st.text(alphabet=[chr(point) for point in range(256)], max_size=150),
            st.text(
                alphabet="aB \u2019\ufb01\u00a0\u3000\u2028\u0130\u00dfé가각中\u1e9e\U0001f600"
            ),
            st.text(alphabet="กाaÉ \u0e38\u0e39\u0e48\u0e49\u094d\u0323\u064e\u0651\u0653\u05b4"),
            st.text(alphabet="e\u0301 \u1100\u1161\u11a8\u0b47\u0b3e\uff9e\uff76\u0345α"),
        ),
        max_size=6,
    ),
)
def test_texts_are_normalised_as_the_reference_does(
    level: str, fold: bool, texts: list[str]
) -> None:
    kernel.use_level(level)
    try:
        found = kernel.normalise(texts, fold, *lookup_tables.folding_table(fold))
    finally:
        kernel.use_level()
    for text, normalised in zip(texts, found, strict=True):
        if normalised is None:
            assert not text.isascii()
            assert len(text) > 64 or re.search("[\ud800-\udfff]", text)
        elif fold:
            assert normalised == normalise(text)
        else:
            assert normalised == normalise(text, "ignorable-nfkc-space")


def test_a_table_that_stays_empty_is_an_error() -> None:
    with pytest.raises(ValueError, match="block 0"):
        kernel.normalise(["é"], True, TABLE.copy(), lambda block: None, MEMO.copy(), str)


def test_repetitions_that_hash_alike_are_one_element() -> None:
    """Of length zero with seed 1, and one zero byte with seed 0: MurmurHash3 has one value."""
    rows, counts = sign_contents(
        [["", "", "\0"]], unit="word", k=1, bag=True, scheme="fss", num_perm=16, seed=5
    )
    expected = reference([["", "", "\0"]], "fss", 16, unit="word", k=1, bag=True)  # type: ignore[list-item]
    assert counts.tolist() == expected[1].tolist() == [2]
    assert np.array_equal(rows, expected[0])


@settings(max_examples=200, deadline=None)
@given(
    bodies=st.lists(st.lists(st.text(max_size=5), max_size=30), max_size=4),
    k=st.integers(1, 6),
    bag=st.booleans(),
)
def test_ready_tokens(bodies: list[list[str]], k: int, bag: bool) -> None:
    rows, counts = sign_contents(
        bodies, unit="word", k=k, bag=bag, scheme="fss", num_perm=16, seed=5
    )
    expected = reference(bodies, "fss", 16, unit="word", k=k, bag=bag)  # type: ignore[arg-type]
    assert np.array_equal(counts, expected[1])
    assert np.array_equal(rows, expected[0])


@pytest.mark.parametrize(
    "tokens",
    [["\0", "\0", ""], ["", "\0", "\0"], ["", "", "\0"], ["\0", "", "", "\0"], ["a\0"] * 4 + ["a"]],
)
def test_elements_of_a_bag_that_have_one_hash_count_once(tokens: list[str]) -> None:
    """Zero bytes at the end change only the length, which MurmurHash3 xors to the seed."""
    hashes = shingle_hashes(tokens, unit="word", k=1, bag=True)
    assert len(hashes) < len(tokens)
    _, counts = sign_contents(
        [tokens], unit="word", k=1, bag=True, scheme="fss", num_perm=16, seed=5
    )
    assert counts.tolist() == [len(hashes)]
    text = "\n".join(filter(None, tokens))
    hashes = shingle_content(text, unit="line", k=1, bag=True)
    assert np.array_equal(hashes, shingle_hashes(text, unit="line", k=1, bag=True))


@settings(max_examples=100, deadline=None)
@given(
    left=st.lists(st.sampled_from("abcde"), max_size=40).map(" ".join),
    right=st.lists(st.sampled_from("abcde"), max_size=40).map(" ".join),
    bag=st.booleans(),
)
def test_two_texts_are_compared_by_their_shingles(left: str, right: str, bag: bool) -> None:
    for unit, number in (("word", 0), ("char", 1)):
        sets = [
            set(shingle_hashes(text, unit=unit, k=2, bag=bag).tolist()) for text in (left, right)
        ]
        expected = (len(sets[0] & sets[1]), len(sets[0]), len(sets[1]))
        assert kernel.compare_texts(left, right, number, 2, bag) == expected


@pytest.mark.parametrize("level", levels() if kernel else [])
def test_rows_are_compared_as_the_reference_does(level: str) -> None:
    rng = np.random.default_rng(4)
    for num_perm, bands, height in ((1, 1, 1), (7, 2, 3), (128, 16, 6), (255, 255, 1), (90, 1, 90)):
        left_rows = rng.integers(0, 2, (40, num_perm), dtype=np.uint16)
        right_rows = left_rows[rng.integers(0, 40, 30)] ^ (rng.random((30, num_perm)) < 0.1)
        right_rows = right_rows.astype(np.uint16)
        left, right = rng.integers(0, 40, 200), rng.integers(0, 30, 200)
        kernel.use_level(level)
        found = compare_rows(left_rows, left, right_rows, right, bands=bands, rows=height)
        kernel.use_level()
        expected = reference_agreement(left_rows[left], right_rows[right], bands=bands, rows=height)
        assert np.array_equal(found.equal, expected.equal)
        assert np.array_equal(found.matched, expected.matched)
        assert np.array_equal(found.first, expected.first)
        assert found.first.min() == -1 or bands == num_perm
        for outside in (-1, 40):
            with pytest.raises(IndexError):
                compare_rows(left_rows, np.array([outside]), right_rows, right[:1], bands=1, rows=1)


@pytest.mark.parametrize("level", levels() if kernel else [])
def test_rows_of_bits_are_compared_as_the_reference_does(level: str) -> None:
    rng = np.random.default_rng(5)
    shapes = (
        (1, 1, 1),
        (2, 4, 7),
        (6, 2, 33),
        (16, 3, 70),
        (17, 255, 1),
        (128, 100, 20),
        (9, 1, 129),
    )
    for words, bands, height in shapes:
        left_rows = rng.integers(0, 2**16, (40, words), dtype=np.uint16)
        flipped = rng.random((30, words)) < 0.3
        flips = np.uint16(1) << rng.integers(0, 16, (30, words), dtype=np.uint16)
        origin = rng.integers(0, 40, 30)
        right_rows = left_rows[origin] ^ np.where(flipped, flips, np.uint16(0))
        left, right = rng.integers(0, 40, 200), rng.integers(0, 30, 200)
        left[:30], right[:30] = origin, np.arange(30)  # some of these agree in whole bands
        cut = {"bands": bands, "rows": height, "slot_bits": 1}
        kernel.use_level(level)
        found = compare_rows(left_rows, left, right_rows, right, **cut)
        kernel.use_level()
        expected = reference_agreement(left_rows[left], right_rows[right], **cut)
        assert np.array_equal(found.equal, expected.equal)
        assert np.array_equal(found.matched, expected.matched)
        assert np.array_equal(found.first, expected.first)
        assert found.matched.max() > 0


def test_every_code_point_is_classed_as_the_reference_does() -> None:
    """Between letters, so that a character that is part of a word, a word or none shows."""
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 4096):
        text = "".join(f"a{point}b " for point in points[start : start + 4096])
        hashes = shingle_content(text, unit="word", k=1, bag=True)
        assert np.array_equal(hashes, shingle_hashes(text, unit="word", k=1, bag=True)), start


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000, 300_000])
def test_shingles_of_every_length_of_bytes(length: int) -> None:
    for text in ("x" * length, "é" * length, ("x" * length + " ") * 3, "ab " * length):
        for k in (1, 2, 5):
            for unit in ("word", "char"):
                hashes = shingle_content(text, unit=unit, k=k, bag=False)
                assert np.array_equal(hashes, shingle_hashes(text, unit=unit, k=k, bag=False))


def test_sketches_of_every_size_at_every_level() -> None:
    rng = np.random.default_rng(1)
    lengths = np.array([1, 2, 3, 5, 31, 32, 33, 100, 255, 256, 257, 1000, 5000])
    hashes = rng.integers(0, 2**64, lengths.sum(), dtype=np.uint64)
    hashes[:3] = (0, 2**64 - 1, 2**61 - 1)
    for scheme, number in lookup_tables.SCHEMES.items():
        for num_perm in (1, 64, 100, 128, 4096):
            expected = reference_sketch(scheme, hashes, lengths, num_perm, 2)
            for level in levels():
                kernel.use_level(level)
                rows = np.empty((len(lengths), num_perm), dtype=np.uint16)
                numbers = lookup_tables.constants(scheme, num_perm, 2)
                kernel.sketch(hashes, lengths, number, num_perm, numbers, rows)
                assert np.array_equal(rows, expected), (scheme, num_perm, level)
    kernel.use_level()


def test_bucket_keys_equal_the_reference() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2**16, (300, 255), dtype=np.uint16)
    cuts = ((1, 1, 16), (16, 6, 16), (255, 1, 16), (1, 255, 16), (35, 7, 16), (50, 5, 16))
    of_bits = ((1, 1, 1), (255, 16, 1), (1, 4080, 1), (63, 64, 1), (62, 65, 1), (200, 20, 1))
    for bands, height, slot_bits in (*cuts, *of_bits):
        cut = {"bands": bands, "rows": height, "slot_bits": slot_bits}
        keys = np.empty((300, bands), dtype=np.int64)
        kernel.bucket_keys(rows, 255, slot_bits, bands, height, keys)
        expected = reference_keys(rows, bands, height, slot_bits)
        assert np.array_equal(keys, expected)
        assert np.array_equal(bucket_keys(rows[::2], **cut), expected[::2])


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdeé中"), max_size=40).map(" ".join), max_size=9),
    more=st.lists(st.lists(st.text(max_size=3), max_size=9), max_size=2),
    bag=st.booleans(),
    unit=st.sampled_from(["word", "char"]),
)
def test_sets_of_many_texts_are_those_of_each(
    texts: list[str], more: list[list[str]], bag: bool, unit: str
) -> None:
    options = {"unit": unit, "k": 2, "bag": bag}
    parts, sets, points = [], [], []
    for part, contents in enumerate((texts, [], [*texts[:2], *more])):
        hashes, counts = shingle_contents(contents, **options)
        of_part = [shingle_hashes(content, **options) for content in contents]
        assert counts.tolist() == list(map(len, of_part))
        assert np.array_equal(hashes, np.concatenate([np.empty(0, np.uint64), *of_part]))
        ends = np.cumsum(counts)
        sets += [(part, *row) for row in zip(ends - counts, counts, strict=True)]
        parts.append(hashes)
        points += of_part
    m = len(points)
    left, right = np.repeat(np.arange(m), m), np.tile(np.arange(m), m)
    expected = [exact_similarity(one, other) for one in points for other in points]
    found = compare_sets(parts, np.array(sets, np.int64).reshape(-1, 3), left, right)
    assert found.tolist() == expected


def test_sets_outside_their_parts_are_refused() -> None:
    part, common = np.arange(10, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    outside = [(1, 0, 3), (-1, 0, 3), (0, -1, 3), (0, 0, -1), (0, 0, 11), (0, 8, 3), (0, 11, 0),
               (2**62, 0, 1), (0, 2**63 - 1, 1), (0, 1, 2**63 - 1)]  # fmt: skip
    for one in [*outside, (0, 7, 3)]:
        sets = np.array([one, (0, 0, 10)], dtype=np.int64)
        for pair in (np.array([0, 1]), np.array([1, 0])):
            if one in outside:
                with pytest.raises(IndexError, match="outside"):
                    kernel.compare_sets([part], sets, pair[:1], pair[1:], common)
            else:
                kernel.compare_sets([part], sets, pair[:1], pair[1:], common)
                assert common == 3
    for number in (-1, 2, 2**62, -(2**63)):
        with pytest.raises(IndexError, match="outside"):
            kernel.compare_sets([part], sets, np.array([0]), np.array([number]), common)


@pytest.mark.parametrize("kind", ["random", "close", "chosen", "long"])
def test_sets_compared_with_many_share_what_they_share(kind: str) -> None:
    """Whether they fit into a table or not: chosen values meet in one cell of it, or fill it."""
    rng = np.random.default_rng(4)
    values = rng.integers(0, 2**64, 4000 if kind == "long" else 300, dtype=np.uint64)
    if kind == "close":
        values = np.arange(300, dtype=np.uint64)  # 0 and 1, which fill the cells, among them
    if kind == "chosen":
        values = np.arange(300, dtype=np.uint64) * np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
    sizes = [0, 1, 2, 7, 8, 9, 100, len(values) - 1, len(values)]
    parts = [np.unique(rng.choice(values, size, replace=False)) for size in sizes]
    sets = np.array([[number, 0, size] for number, size in enumerate(sizes)])
    left, right = np.indices((len(sizes), len(sizes))).reshape(2, -1)
    expected = [len(np.intersect1d(parts[i], parts[j])) for i, j in zip(left, right, strict=True)]
    for level in levels():
        common = np.empty(len(left), dtype=np.int64)
        kernel.use_level(level)
        try:
            kernel.compare_sets(parts, sets, left, right, common)
        finally:
            kernel.use_level()
        assert (level, common.tolist()) == (level, expected)


@pytest.mark.parametrize("n", [1, 2, 3, 100, 5000, 16_384, 16_385, 20_000])
def test_hashes_of_any_number_are_sorted(n: int) -> None:
    check_sorted([f"w{number}" for number in range(n)])


@pytest.mark.parametrize("n", [2, 30, 300])
def test_hashes_that_begin_alike_are_sorted(n: int) -> None:
    """As only chosen words have them: by their first bits alone they stay as they come."""
    check_sorted(words_that_begin_alike(300)[:n])
    check_sorted([*words_that_begin_alike(300)[:n], *(f"w{number}" for number in range(900))])


def check_sorted(words: list[str]) -> None:
    text, counts = " ".join(words), np.zeros(1, dtype=np.int64)
    found = np.frombuffer(kernel.shingle_texts([text], 4, 1, False, counts), np.uint64)
    assert counts == len(words)
    assert np.array_equal(found, shingle_hashes(text, unit="tokenizer", k=1, bag=False))


def bucket_case(slot_bits: int) -> tuple[Any, ...]:
    """Rows of few values, so that many bands agree, and buckets of all sizes."""
    rng = np.random.default_rng(slot_bits)
    bands, height, words = (6, 3, 20) if slot_bits == 16 else (7, 9, 4)
    rows = (rng.random((40, words)) < 0.2).astype(np.uint16)
    if slot_bits == 1:
        rows = rng.integers(0, 2**16, (40, words), dtype=np.uint16)
        rows &= rng.integers(0, 2**16, (40, words), dtype=np.uint16)
        rows &= rng.integers(0, 2**16, (40, words), dtype=np.uint16)
    sizes = np.array([0, 1, 2, 3, 9, 17, 2, 2], dtype=np.int64)
    of_band = rng.integers(0, bands + 1, len(sizes))
    members = np.concatenate([rng.permutation(40)[:size] for size in sizes])
    return rows, of_band, sizes, members, {"bands": bands, "rows": height, "slot_bits": slot_bits}


@pytest.mark.parametrize("slot_bits", [16, 1])
@pytest.mark.parametrize("is_hot", [False, True])
@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("way", ["compiled", "reference"])
def test_pairs_of_buckets_are_compared_as_one_by_one(
    slot_bits: int, is_hot: bool, is_file: bool, way: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of marked members with all, and of buckets without a band whatever theirs is.

    Agreement in a band before does not count where the bucket is hot.
    """
    if way == "reference":
        use_reference(monkeypatch)
    rows, of_band, sizes, members, cut = bucket_case(slot_bits)
    slots = rows.shape[1] * (16 // slot_bits)
    suffices = np.arange(slots + 1) >= slots * 0.55
    ends = np.cumsum(sizes)
    marks = np.random.default_rng(4).random(len(members)) < 0.7
    of_band[-1] = -1
    pairs = [
        (members[one], members[other], band)
        for end, size, band in zip(ends, sizes, of_band, strict=True)
        for one, other in itertools.combinations(range(end - size, end), 2)
        if marks[one] or marks[other]
    ]
    left, right, bands = np.array(pairs).T
    found = reference_agreement(rows[left], rows[right], **cut)
    agree = matching_bands(rows[left], rows[right], **cut)
    keys = bucket_keys(rows, **cut)
    hot = np.unique(keys[::2]) if is_hot else None
    if hot is not None:
        agree &= ~np.isin(keys[left], hot) | (np.arange(cut["bands"]) >= bands[:, None])
    first = np.where(agree.any(axis=1), agree.argmax(axis=1), -1)
    is_first = (first == bands) & (bands >= 0)
    keep = (is_first | (bands < 0)) & suffices[found.equal]
    expected = np.stack((left, right, found.equal, found.matched), axis=1)[keep]
    assert 5 < len(expected) < len(pairs)
    path = tmp_path / "rows"
    path.write_bytes(b"head" + rows.tobytes())
    with path.open("rb") as file:
        source = (file.fileno(), 4, len(rows)) if is_file else (rows, 0, len(rows))
        buckets, words = (of_band, sizes, members, marks), rows.shape[1]
        how = {**cut, "hot": hot}
        got = first_agreements(buckets, source, words, suffices, **how)
        assert got.tolist() == expected.tolist()


def test_rows_of_a_file_that_share_a_place_are_told_apart(tmp_path: Path) -> None:
    """More members than the kernel keeps rows of: each pair whose rows have one place is there."""
    n, words = 400, 2200  # of this size 256 are kept
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 3, (n, words), dtype=np.uint16)
    path = tmp_path / "rows"
    path.write_bytes(rows.tobytes())
    buckets = np.zeros(1, np.int64), np.array([n]), np.arange(n), np.ones(n, bool)
    suffices = np.arange(words + 1) >= words * 0.35
    how: Any = {"bands": 50, "rows": 2}
    expected = first_agreements(buckets, (rows, 0, n), words, suffices, **how)
    with path.open("rb") as file:
        found = first_agreements(buckets, (file.fileno(), 0, n), words, suffices, **how)
    assert len(expected) > 100 and np.array_equal(found, expected)


def test_members_and_rows_that_are_not_there() -> None:
    rows, of_band, sizes, members, cut = bucket_case(16)
    marks, suffices = np.ones(len(members), dtype=bool), np.ones(21, dtype=bool)
    how: Any = cut
    for place, wrong in ((3, 40), (3, -1), (30, 2**62), (30, -(2**63))):
        spoilt = members.copy()
        spoilt[place] = wrong
        with pytest.raises(IndexError, match="outside"):
            first_agreements((of_band, sizes, spoilt, marks), (rows, 0, 40), 20, suffices, **how)
    for wrong in (-1, 18, 2**62):
        spoilt = sizes.copy()
        spoilt[5] = wrong
        with pytest.raises(IndexError, match="outside"):
            first_agreements((of_band, spoilt, members, marks), (rows, 0, 40), 20, suffices, **how)
    with open("/dev/null", "rb") as file:
        source = (file.fileno(), 0, 40)
        with pytest.raises(ValueError, match="ends before a row"):
            first_agreements((of_band, sizes, members, marks), source, 20, suffices, **how)
    with pytest.raises(OSError):
        first_agreements((of_band, sizes, members, marks), (10**6, 0, 40), 20, suffices, **how)


def test_common_values() -> None:
    rng = np.random.default_rng(3)
    for n, m in ((0, 0), (0, 5), (1, 1), (100, 3), (5000, 5000)):
        left = np.unique(rng.integers(0, 6000, n)).astype(np.uint64)
        right = np.unique(rng.integers(0, 6000, m)).astype(np.uint64)
        assert kernel.count_common(left, right) == len(np.intersect1d(left, right))


def test_the_interpreter_goes_on_while_the_kernel_works() -> None:
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    text = " ".join(str(number) for number in range(400_000))
    shingle_content(text, unit="word", k=5, bag=False)
    done.set()
    thread.join()
    assert len(ticks) > 3


NUMBERS = np.zeros(256, dtype=np.uint64)
ROW, COUNT = np.zeros((1, 128), dtype=np.uint16), np.zeros(1, dtype=np.int64)
SMALL, COUNTS = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint16)
MARKED = COUNT, np.ones(1, dtype=np.uint8)
YES = np.ones(129, dtype=bool)
TABLE, MEMO = np.zeros(0x110000, dtype=np.uint64), np.zeros(0x20000, dtype=np.uint64)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sign_contents", (["x"], 5, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["x"], 0, 0, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["x"], 0, 5, False, 2, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["x"], 0, 5, False, 0, 129, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["x"], 0, 5, False, 0, -1, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["x"] * 2, 0, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", ([b"x"], 0, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", (["\ud800"], 0, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("shingle_text", ("\udfff", 0, 5, False)),
        ("shingle_text", ("x", 0, -5, False)),
        ("shingle_texts", (["x", "\udfff"], 0, 5, False, np.zeros(2, dtype=np.int64))),
        ("shingle_texts", (["x", b"x"], 0, 5, False, np.zeros(2, dtype=np.int64))),
        ("shingle_texts", (["x"], 5, 5, False, COUNT)),
        ("shingle_texts", (["x"], 0, 0, False, COUNT)),
        ("shingle_texts", (["x"], 0, 5, False, SMALL)),
        ("shingle_texts", ("x", 0, 5, False, COUNT)),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, ROW, 0, 1, 128, 2, 6, False, bytes(9), YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, COUNT, b"", ROW, 0, 1, 128, 2, 6, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, SMALL, *MARKED, ROW, 0, 1, 128, 2, 6, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, ROW, 0, 2, 128, 2, 6, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, ROW, -1, 1, 128, 2, 6, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, -1, 0, 1, 128, 2, 6, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, ROW, 0, 1, 128, 2, 65, False, None, YES),
        ),
        (
            "agreeing_pairs",
            (COUNT, COUNT, *MARKED, ROW, 0, 1, 128, 2, 6, False, None, YES[1:]),
        ),
        ("compare_sets", ((NUMBERS,), np.zeros((1, 3), np.int64), COUNT, COUNT, COUNT)),
        ("compare_sets", ([NUMBERS, "x"], np.zeros((1, 3), np.int64), COUNT, COUNT, COUNT)),
        ("compare_sets", ([bytes(9)], np.zeros((1, 3), np.int64), COUNT, COUNT, COUNT)),
        ("compare_sets", ([NUMBERS], np.zeros(4, np.int64), COUNT, COUNT, COUNT)),
        ("compare_sets", ([NUMBERS], np.zeros((1, 3), np.int64), COUNT, SMALL, COUNT)),
        ("compare_sets", ([NUMBERS], np.zeros((1, 3), np.int64), COUNT, COUNT, SMALL)),
        ("compare_sets", ([NUMBERS], np.zeros((1, 3), np.int64), COUNT, COUNT, bytes(8))),
        ("sketch", (NUMBERS, np.array([257]), 0, 128, NUMBERS, ROW)),
        ("sketch", (NUMBERS, np.array([0]), 0, 128, NUMBERS, ROW)),
        ("sketch", (NUMBERS, np.array([-1]), 0, 128, NUMBERS, ROW)),
        ("sketch", (NUMBERS, np.array([255]), 0, 128, NUMBERS, ROW)),
        ("sketch", (NUMBERS, np.array([256]), 0, 128, NUMBERS[:5], ROW)),
        ("bucket_keys", (ROW, 128, 16, 2, 65, np.zeros(2, dtype=np.int64))),
        ("bucket_keys", (ROW, 128, 16, 0, 1, np.zeros(2, dtype=np.int64))),
        ("bucket_keys", (ROW, 128, 16, 2, 6, np.zeros(3, dtype=np.int64))),
        ("bucket_keys", (ROW, 127, 16, 2, 6, np.zeros(2, dtype=np.int64))),
        ("bucket_keys", (ROW, 128, 1, 2, 1025, np.zeros(2, dtype=np.int64))),
        ("bucket_keys", (ROW, 128, 8, 2, 6, np.zeros(2, dtype=np.int64))),
        ("bucket_keys", (ROW, 8193, 1, 2, 6, np.zeros(2, dtype=np.int64))),
        ("sign_contents", ([["x", 1]], 0, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("sign_contents", ([["x", "\ud800"]], 0, 5, False, 0, 128, NUMBERS, ROW, COUNT)),
        ("count_common", (b"123", b"12345678")),
        ("compare_rows", (ROW, COUNT, ROW, COUNT, 0, 1, 1, SMALL, SMALL, SMALL)),
        ("compare_rows", (ROW, COUNT, ROW, COUNT, 128, 2, 65, SMALL, SMALL, SMALL)),
        ("compare_rows", (ROW, COUNT, ROW, COUNT, 128, 2, 6, SMALL, COUNT, SMALL)),
        ("compare_rows", (ROW, SMALL, ROW, COUNT, 128, 2, 6, SMALL, SMALL, SMALL)),
        ("count_common", (memoryview(bytes(17))[1:], bytes(8))),
        ("sketch", (NUMBERS, np.array([256]), 0, 128, memoryview(bytes(2049))[1:], ROW)),
        ("count_in_rows", (ROW, ROW, 0, 16, 1, 0, COUNTS)),
        ("count_in_rows", (ROW, ROW, 4097, 16, 1, 0, COUNTS)),
        ("count_in_rows", (ROW[:0], ROW[:0], 4096, 1, 0, 0, COUNTS[:0])),
        ("count_in_rows", (ROW, ROW, 128, 2, 1, 0, COUNTS)),
        ("count_in_rows", (ROW, ROW, 128, 16, 1, 1, COUNTS)),
        ("count_in_rows", (ROW, ROW, 128, 16, 1, -1, COUNTS)),
        ("count_in_rows", (ROW, ROW, 128, 16, 2**62, 0, COUNTS)),
        ("count_in_rows", (ROW, np.zeros((2, 128), np.uint16), 128, 16, 1, 0, COUNTS)),
        ("rank_counts", (COUNTS, -1, COUNT)),
        ("rank_counts", (COUNTS, 2**16, COUNT)),
        ("rank_counts", (COUNTS, 0, SMALL)),
        ("compare_texts", ("x", "\ud800", 0, 5, False)),
        ("compare_texts", ("x", "y", 7, 5, False)),
        ("normalise", ([b"x"], True, TABLE, int, MEMO, str)),
        ("normalise", (["x"], True, TABLE[1:], int, MEMO, str)),
        ("normalise", (["x"], True, TABLE, int, MEMO[1:], str)),
        ("normalise", (["x"], True, TABLE, int, b"", str)),
        ("normalise", (["é"], True, np.full(0x110000, 9, np.uint64), int, MEMO, len)),
        ("normalise", (["é"], True, np.full(0x110000, 9, np.uint64), int, MEMO, int)),
        ("use_level", ("none such",)),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        getattr(kernel, name)(*arguments)


def test_lengths_that_change_while_they_are_used_lead_nowhere() -> None:
    """Rows written over the lengths: the second length is then some hash or other."""
    lengths = np.array([4, 5], dtype=np.int64)
    hashes, numbers = np.arange(9, dtype=np.uint64), lookup_tables.constants("fss", 2, 1)
    both = np.concatenate([lengths, lengths]).view(np.uint16)
    with pytest.raises(ValueError, match="lengths changed"):
        kernel.sketch(hashes, both[:8], 0, 2, numbers, both[4:8])


def work_for_long(name: str) -> Callable[[], object]:
    """A call of the kernel that takes a quarter of a second or more, with little memory."""
    rng = np.random.default_rng(1)
    n, num_perm = 200_000, 4096
    text = rng.bytes(1_500_000).hex()
    tokens = [text[at : at + 6] for at in range(0, len(text), 6)]
    hashes = np.sort(rng.integers(0, 2**63, 4_000_000).astype(np.uint64))
    unsorted = rng.integers(0, 2**63, 12_000_000 if name == "a table of sets" else 1, np.uint64)
    numbers = lookup_tables.constants("universal", num_perm, 1)
    row, one = np.zeros((1, num_perm), np.uint16), np.zeros(1, np.int64)
    pairs = rng.integers(0, 256, (2, n))
    rows = rng.integers(0, 2, (256, num_perm)).astype(np.uint16)
    equal = [np.zeros(n, np.int32) for _ in range(3)]
    some, many = hashes[:n].copy(), np.zeros(200, np.int64)

    def sign(content: object, *, unit: int, bag: bool) -> object:
        return kernel.sign_contents([content], unit, 5, bag, 1, num_perm, numbers, row, one)

    calls: dict[str, Callable[[], object]] = {
        "a text": lambda: sign(text[:900_000], unit=1, bag=False),
        "a long text": lambda: sign(text, unit=1, bag=False),
        "a bag": lambda: [kernel.shingle_text(text, 1, 9, True) for _ in range(3)],
        "tokens": lambda: sign(tokens, unit=0, bag=False),
        "a sketch": lambda: kernel.sketch(some, np.array([n]), 1, num_perm, numbers, row),
        "weights": lambda: kernel.sample_weights(
            some, np.ones(n), np.zeros(n), np.array([n]), 1024, hashes[: 3 * 1024].copy(),
            row[:, :1024].copy(),
        ),
        "rows": lambda: kernel.compare_rows(
            rows, pairs[0], rows, pairs[1], num_perm, 255, 16, *equal
        ),
        "keys": lambda: kernel.bucket_keys(
            np.zeros((60_000, num_perm), np.uint16), num_perm, 16, 255, 16,
            np.zeros((60_000, 255), np.int64),
        ),
        "texts": lambda: kernel.shingle_texts([text[:100_000]] * 200, 1, 9, False, many),
        "sets": lambda: kernel.compare_sets(
            [hashes], np.array([[0, 0, len(hashes)]]), *np.zeros((3, 200), np.int64)
        ),
        "all rows": lambda: kernel.count_in_rows(
            rows, np.tile(rows, (40, 1)), num_perm, 16, 40 * 256, 0,
            np.zeros((256, 40 * 256), np.uint16),
        ),
        "a table of sets": lambda: kernel.table_sets(
            unsorted, np.array([len(unsorted)]), 20, np.zeros(2**20 + 1, np.uint32),
            np.zeros(len(unsorted), np.uint64), np.zeros(len(unsorted), np.uint32),
        ),
        "what sets share": lambda: kernel.find_sharing(
            1, np.array([0, 9999, 9999], np.uint32), hashes[:9999], np.zeros(9999, np.uint32),
            np.array([9999]), hashes[:99_999] >> 1, np.array([99_999]), False, 1, 0.0, 1.0,
        ),
        "two texts": lambda: kernel.compare_texts(text * 2, text[::-1] * 2, 1, 9, True),
    }  # fmt: skip
    return calls[name]


class Told(BaseException):
    pass


@pytest.mark.parametrize(
    "name",
    ["a text", "a long text", "a bag", "tokens", "a sketch", "weights", "rows", "keys", "two texts",
     "texts", "sets", "all rows", "a table of sets", "what sets share"]
)  # fmt: skip
def test_long_work_asks_whether_to_stop(name: str) -> None:
    """In the thread that works, about ten times a second; and a signal is looked for as often."""
    work = work_for_long(name)

    def told() -> None:
        raise Told

    kernel.hear_with(told)
    try:
        begun = time.thread_time()
        with pytest.raises(Told):
            work()
        assert time.thread_time() - begun < 2
    finally:
        kernel.hear_with(stop_if_told)


def test_without_a_kernel_the_reference_runs_and_says_so_once() -> None:
    script = """
import sys, warnings
sys.modules["lshdb.kernel.compiled"] = None
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from lshdb.signatures import kernel_name, sign_contents
    options = dict(unit="word", k=5, bag=False, scheme="fss", num_perm=16, seed=5)
    rows, counts = sign_contents(["to be or not to be that is", "", ["a", "b"]], **options)
    sign_contents(["x"], **options)
print(kernel_name(), len(caught), caught[0].category.__name__, rows.tolist(), counts.tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows, counts = sign_contents(
        ["to be or not to be that is", "", ["a", "b"]],
        unit="word", k=5, bag=False, scheme="fss", num_perm=16, seed=5,
    )  # fmt: skip
    expected = f"reference 1 KernelWarning {rows.tolist()} {counts.tolist()}\n"
    assert done.stdout == expected
