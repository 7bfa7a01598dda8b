"""The kernel's columns of whole texts: every column as the reference has it, in any thread."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.kernel import compiled, lookup_tables
from lshdb.params.options import CreateOptions
from lshdb.shingling import count_unassigned, normalise
from lshdb.signatures.families import family_of, params_for
from lshdb.signatures.family import Family, SignedTexts
from lshdb.storage.tables.bodies import (
    HEADER_BYTES,
    RAW_HEADERS,
    WITHOUT_DICTIONARY,
    hash_body,
)

kernel = compiled
pytestmark = pytest.mark.skipif(kernel is None, reason="no compiled kernel")

ODD = (
    "aB \u2019\ufb01\u00a0\u3000\u2028\u0130\u00dfé가각中\u1e9e\U0001f600\0\x1c"
    "e\u0301\u1100\u1161\u0b47\uff9e\u0345\u0378\u0e38\u0e49\u0323\U000e0fff\U0010ffff\ufffe"
)
TEXTS = st.lists(st.one_of(st.text(), st.text(alphabet=ODD, max_size=400)), max_size=6)
LEVELS = ["plain", "avx2", "avx512"]


def family(**options: Any) -> Family:
    return family_of(params_for(CreateOptions(**options), None), None)


def by_steps(one: Family, texts: list[str]) -> SignedTexts:
    """The same columns, a step at a time."""
    contents = one.contents(texts)
    hashes = [hash_body("text", content.encode()) for content in contents]
    return SignedTexts(hashes, list(map(count_unassigned, contents)), *one.sign_contents(contents))


def is_same(left: SignedTexts, right: SignedTexts) -> bool:
    return (
        (left.hashes, left.n_unassigned) == (right.hashes, right.n_unassigned)
        and np.array_equal(left.rows, right.rows)
        and np.array_equal(left.counts, right.counts)
    )


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    try:
        kernel.use_level(request.param)
    except ValueError:
        pytest.skip("this machine does not have these instructions")
    yield request.param
    kernel.use_level()


@pytest.mark.parametrize("person", [b"", b"text", b"tokens", bytes(range(16))])
def test_hashes_are_those_of_hashlib(person: bytes) -> None:
    rng = random.Random(7)
    sizes = [0, 1, 63, 64, 127, 128, 129, 255, 256, 257, 1000, 5 * 128]
    texts = ["".join(chr(rng.randrange(128)) for _ in range(size)) for size in sizes]
    texts += ["é" * size for size in sizes] + ["\U0001f600中" * size for size in sizes]
    hashes = bytearray(16 * len(texts))
    assert kernel.hash_texts(texts, person, None, 1, hashes) is None
    for number, text in enumerate(texts):
        expected = hashlib.blake2b(text.encode(), digest_size=16, person=person).digest()
        assert hashes[16 * number : 16 * number + 16] == expected, len(text)


def test_texts_that_lie_behind_their_headers_are_the_frames_of_raw_bodies() -> None:
    texts = ["", "a", "é" * 99, "é" * 100, "é" * 101, "x" * 200, "x" * 201, "中" * 3000]
    hashes = bytearray(16 * len(texts))
    made, plain = kernel.hash_texts(texts, b"text", RAW_HEADERS, HEADER_BYTES, hashes)
    assert plain == [4, 6, 7]
    for number, (text, one) in enumerate(zip(texts, made, strict=True)):
        raw = text.encode()
        assert one == (raw if number in plain else WITHOUT_DICTIONARY.pack(raw))
        assert hashes[16 * number : 16 * number + 16] == hash_body("text", raw)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False},
        {"unit": "char", "k": 3},
        {"bag": True, "k": 1},
        {"scheme": "universal", "num_perm": 64},
    ],
)
@settings(max_examples=60, deadline=None)
@given(texts=TEXTS)
def test_columns_are_those_of_the_steps(options: dict[str, Any], texts: list[str]) -> None:
    one = family(**options)
    assert one.takes_texts
    assert is_same(one.sign_texts(texts, b"text"), by_steps(one, texts))


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS)
def test_columns_are_those_of_the_reference(texts: list[str]) -> None:
    signed = family().sign_texts(texts, b"text")
    for text, digest, n in zip(texts, signed.hashes, signed.n_unassigned, strict=True):
        content = normalise(text)
        assert (digest, n) == (hash_body("text", content.encode()), count_unassigned(content))


def test_columns_at_every_level(level: str) -> None:
    one, texts = family(), ["".join(ODD[i:] + "words in between " * i) for i in range(30)]
    assert is_same(one.sign_texts(texts, b"text"), by_steps(one, texts)), level


def test_a_text_that_is_better_normalised_as_a_whole() -> None:
    """More different segments than the memo may miss, between texts that need no Python."""
    rng = random.Random(3)
    marks = [chr(point) for point in range(0x300, 0x360)]
    odd = "".join("e" + "".join(rng.sample(marks, 5)) for _ in range(300))
    one, texts = family(), ["before it", odd, "é after it", odd + "x"]
    assert kernel.normalise([odd], True, *lookup_tables.folding_table(True)) == [None]
    assert is_same(one.sign_texts(texts, b"text"), by_steps(one, texts))


def test_many_threads_sign_at_once() -> None:
    """Each with a memo of its own, on one table that they fill meanwhile."""
    lookup_tables.folding_table.cache_clear()
    lookup_tables.kinds_table.cache_clear()
    rng, one = random.Random(9), family()
    points = [
        *range(0x20, 0x250),
        *range(0x300, 0x370),
        *range(0x900, 0xE80),
        *range(0xAC00, 0xAD00),
    ]
    parts = [
        ["".join(chr(rng.choice(points)) for _ in range(200)) for _ in range(40)] for _ in range(16)
    ]
    found: list[SignedTexts | None] = [None] * len(parts)
    numbers = itertools.count()

    def work() -> None:
        for number in iter(lambda: next(numbers), None):
            if number >= len(parts):
                return
            found[number] = one.sign_texts(parts[number], b"text")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part, signed in zip(parts, found, strict=True):
        assert signed is not None
        assert is_same(signed, by_steps(one, part))


def test_the_interpreter_goes_on_while_texts_are_signed() -> None:
    """A thread that needs the lock gets it during one call."""
    one, texts = family(), ["some words to be signed, again and again. " * 20_000] * 12
    begun, ended, seen = threading.Event(), threading.Event(), []

    def look() -> None:
        begun.set()
        while not ended.is_set():
            seen.append(ended.wait(0.001))

    thread = threading.Thread(target=look)
    thread.start()
    begun.wait()
    before = len(seen)
    one.sign_texts(texts, b"text")
    during = len(seen) - before
    ended.set()
    thread.join()
    assert during > 3


def arguments(n: int, texts: list[Any]) -> dict[str, Any]:
    table, fill, memo, segment = lookup_tables.folding_table(True)
    kinds, learn = lookup_tables.kinds_table()
    return {
        "texts": texts, "fold": 1, "table": table, "fill": fill, "memo": np.array(memo),
        "segment": segment, "whole": normalise, "kinds": kinds, "learn": learn, "person": b"text",
        "unit": 0, "k": 1, "bag": False, "scheme": 0, "num_perm": 8,
        "constants": lookup_tables.constants("fss", 8, 1), "hashes": bytearray(16 * n),
        "unassigned": np.zeros(n, dtype=np.int64), "rows": np.zeros((n, 8), dtype=np.uint16),
        "counts": np.zeros(n, dtype=np.int64),
    }  # fmt: skip


def test_texts_that_are_normalised_already() -> None:
    texts = ["As They ARE  ", "É\u0301 中", ""]
    given = arguments(3, texts) | {"fold": -1}
    kernel.sign_texts(*given.values())
    expected = [hash_body("text", text.encode()) for text in texts]
    assert [bytes(given["hashes"][i : i + 16]) for i in (0, 16, 32)] == expected
    assert given["counts"].tolist() == [3, 2, 0]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"fold": 2}, ValueError, "fold is out of range"),
        ({"person": bytes(17)}, ValueError, "person"),
        ({"table": np.zeros(5, dtype=np.uint64)}, ValueError, "table has 40 bytes"),
        ({"memo": np.zeros(5, dtype=np.uint64)}, ValueError, "memo has 40 bytes"),
        ({"kinds": bytearray(5)}, ValueError, "kinds has 5 bytes"),
        ({"hashes": bytearray(15)}, ValueError, "hashes has 15 bytes"),
        ({"unassigned": np.zeros(2, dtype=np.int64)}, ValueError, "unassigned has 16 bytes"),
        ({"rows": np.zeros(7, dtype=np.uint16)}, ValueError, "rows has 14 bytes"),
        ({"counts": np.zeros(0, dtype=np.int64)}, ValueError, "counts has 0 bytes"),
        ({"num_perm": 0}, ValueError, "num_perm is out of range"),
        ({"unit": 9}, ValueError, "unit or k"),
        ({"texts": [b"bytes"]}, TypeError, "text 0 is bytes, expected str"),
        ({"texts": ["a lone \ud800"]}, UnicodeEncodeError, "surrogates"),
        ({"texts": ["a lone \ud800"], "fold": -1}, ValueError, "lone surrogate"),
        (
            {"texts": ["\u0378"], "kinds": bytearray(0x110000), "learn": lambda block: None},
            ValueError,
            "did not fill block 3",
        ),
        (
            {"texts": ["é"], "table": np.zeros(0x110000, dtype=np.uint64), "fill": lambda block: 0},
            ValueError,
            "did not fill block 0",
        ),
        ({"texts": ["\ud800"], "whole": lambda text: 5}, TypeError, "whole returned int"),
    ],
)
def test_calls_that_cannot_be_right(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = arguments(1, ["a text"]) | changes
    with pytest.raises(error, match=message):
        kernel.sign_texts(*given.values())


def test_hashing_calls_that_cannot_be_right() -> None:
    with pytest.raises(ValueError, match="hashes has 15 bytes"):
        kernel.hash_texts(["a"], b"text", None, 1, bytearray(15))
    with pytest.raises(ValueError, match="width is out of range"):
        kernel.hash_texts(["a"], b"text", b"", 0, bytearray(16))
    with pytest.raises(ValueError, match="lone surrogate"):
        kernel.hash_texts(["a", "\udc80"], b"text", None, 1, bytearray(32))
    with pytest.raises(TypeError, match="text 1 is int"):
        kernel.hash_texts(["a", 5], b"text", None, 1, bytearray(32))
