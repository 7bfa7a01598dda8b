"""Fuzz the compiled kernel: any bytes become arguments, and the reference says what comes out.

    python tests/fuzz_kernel.py --seconds 300
    python tests/fuzz_kernel.py --input 00ff17        # one input again, as a failure prints it

Every input is a string of bytes, read as a chain of choices: which function, which options, which
texts or arrays. Inputs that lead to something new (a function, a unit, sizes, a width of
characters, an outcome) are kept and mutated. Each is run at every level of instructions that the
machine has. Nothing here is collected by pytest; ``tests/signatures/test_fuzzing.py`` runs it for a
moment and shows that it notices a wrong kernel, ``bash tests/sanitize.sh --fuzz 120`` runs it under
the sanitizers.

With the same ``--seed`` the same inputs come in the same order. The work is done in a child
process, so that an input that kills it, or never ends, is reported too.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import mmap
import os
import random
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import combining

import mmh3
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from lshdb.kernel import compiled, lookup_tables, reference
from lshdb.kernel.lookup_tables import SCHEMES, unit_number
from lshdb.kernel.random_numbers import Purpose, keys
from lshdb.shingling import NORMALISATION, normalise, shingle_hashes
from lshdb.shingling.normalise import APART, COMPLEX, table_entry
from tests.choices import Choices
from tests.kernel.word_texts import random_text
from tests.signatures.collisions import words_of_hash, words_that_meet
from tests.without_kernel import (
    reference_agreement,
    reference_counts,
    reference_keys,
    reference_ranks,
    reference_sketch,
)

LONGEST_INPUT = 400
SECONDS_AN_INPUT = 120
"""An input that takes longer is reported as one that hangs; the slowest take about a second."""

REFUSALS = (ValueError, TypeError, OverflowError, IndexError, BufferError)


class Mismatch(AssertionError):
    """The kernel did something else than the reference."""


# ------------------------------------------------------------------------------------------ texts

SURROGATE = re.compile("[\ud800-\udfff]")
INTERESTING = (
    "ab _,.\n\t\0AZ09@[`{/:\x1c\x1f\x7f\x80\x85\xa0\xdf\xe9\u0130\u0301\u0345\u0416\u0e01\u0e34"
    "\xad\u093f\u0915\u064e\u200b\u034f\ufe0f\u1100\u1161\u11a8\u1e9e\u2019\u2028\u3000\u4e2d\uac00\ufb01\ufdfa\uff76\uff9e\uffff"
    "\U00010000\U0001b16f\U0001f600\U0001ffff\U00020000\U0003ffff\U00040000\U0010ffff"
)
WORDS = ("to", "be", "or", "not", "é", "中", "a", "x" * 15, "y" * 16, "z" * 33, "")
TIMES = (*(1,) * 14, 0, 2, 3, 8, 15, 16, 17, 31, 32, 33, 64, 255, 1000, 20_000)


def cut_bytes(choices: Choices) -> str:
    """Any bytes; what is not UTF-8 gives lone surrogates."""
    return choices.take(choices.number(64)).decode("utf-8", "surrogateescape")


def latin(choices: Choices) -> str:
    return choices.take(choices.number(64)).decode("latin-1")


def any_points(choices: Choices) -> str:
    return "".join(chr(choices.number(0x110000)) for _ in range(choices.number(12)))


def near_points(choices: Choices) -> str:
    """Characters of one script, or about the end of one."""
    first = choices.number(0x110000)
    return "".join(chr(min(first + near, 0x10FFFF)) for near in choices.take(choices.number(40)))


def interesting(choices: Choices) -> str:
    return "".join(choices.pick(INTERESTING) for _ in range(choices.number(40)))


def some_words(choices: Choices) -> str:
    return " ".join(choices.pick(WORDS) for _ in range(choices.number(30)))


def at_an_edge(choices: Choices) -> str:
    """A character about the end of a vector."""
    before, after = choices.pick("x X\n"), choices.pick("y Y\n")
    return before * choices.number(70) + choices.pick(INTERESTING) + after * choices.number(70)


def truncated(choices: Choices) -> str:
    """A character without its last bytes."""
    whole = choices.pick(INTERESTING).encode()
    return whole[: choices.number(4)].decode("utf-8", "surrogateescape")


def meeting_words(choices: Choices) -> str:
    """Words chosen to meet in a table of hashes, and to fill what is next to their places."""
    words = words_that_meet(400, places=2**12, within=64)
    first = choices.number(len(words))
    return " ".join(words[first : first + 1 + choices.number(len(words))]) + " "


def words_of_one_hash_each(choices: Choices) -> str:
    """Different words, of 16 characters, whose hashes are one or the other."""
    return "".join(choices.pick(same_words()) + " " for _ in range(choices.number(12)))


@lru_cache(maxsize=1)
def same_words() -> tuple[str, ...]:
    return (*words_of_hash(0, 3), *words_of_hash(2**64 - 1, 3))


PARTS = (
    interesting, some_words, at_an_edge, near_points, any_points, latin, cut_bytes, truncated,
    meeting_words, words_of_one_hash_each,
)  # fmt: skip


def any_text(choices: Choices) -> str:
    longest = 40_000 if choices.rarely(32) else 2_500
    parts = []
    for _ in range(choices.number(6)):
        part = choices.pick(PARTS)(choices)
        parts.append(part * min(choices.pick(TIMES), longest // (len(part) or 1)))
    text = choices.pick(("", " ", "\n", "\0")).join(parts)[:longest]
    return text if choices.rarely(8) else SURROGATE.sub("\ufffd", text)


def any_content(choices: Choices) -> str | list[str]:
    if choices.number(4):
        return any_text(choices)
    words = (*WORDS, *same_words(), "\0", "\U0001f600", " ")
    tokens = [choices.pick(words) for _ in range(choices.number(40))]
    if choices.rarely(4):
        tokens.append(any_text(choices))
    return tokens * choices.pick((1, 1, 2, 100))


def encodes(*contents: str | list[str]) -> bool:
    return not any(
        SURROGATE.search(content if isinstance(content, str) else "".join(content))
        for content in contents
    )


def width(text: str) -> int:
    """Bytes of a character in CPython's memory; 0 for ASCII."""
    return 0 if text.isascii() else 1 + (max(text) > "\xff") + (max(text) > "\uffff")


# ----------------------------------------------------------------------------------------- arrays

GUARD = 64
GUARD_BYTE = 0xA5
FEW_PERMS = (16, 1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 24, 31, 33, 64, 100)
MANY_PERMS = (127, 128, 255, 256, 1000, 4095, 4096)


class Output:
    """An array to be written, with bytes on both sides that must stay as they are."""

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._bytes = np.full(size + 2 * GUARD, GUARD_BYTE, dtype=np.uint8)
        self.array = self._bytes[GUARD : GUARD + size].view(dtype).reshape(shape)

    def check(self) -> None:
        for side in (self._bytes[:GUARD], self._bytes[-GUARD:]):
            expect("bytes outside the output", bool((side == GUARD_BYTE).all()), True)

    def untouched(self) -> bool:
        return bool((self._bytes == GUARD_BYTE).all())


def any_num_perm(choices: Choices) -> int:
    return choices.pick(MANY_PERMS if choices.rarely(32) else FEW_PERMS)


def any_hashes(choices: Choices, count: int) -> NDArray[np.uint64]:
    hashes = choices.rng().integers(0, 2**64, count, dtype=np.uint64)
    special = np.array([0, 2**64 - 1, 2**61 - 1, 2**61, 1, 2**32], dtype=np.uint64)
    for _ in range(choices.number(6) if count else 0):
        hashes[choices.number(count)] = choices.pick(special)
    return hashes


# --------------------------------------------------------------------------------------- checking


def expect(what: str, found: object, expected: object) -> None:
    if isinstance(expected, np.ndarray):
        same = isinstance(found, np.ndarray) and np.array_equal(found, expected)
    else:
        same = type(found) is type(expected) and found == expected
    if not same:
        raise Mismatch(f"{what}: found {shown(found)}, expected {shown(expected)}")


def expect_refused(what: str, call: Callable[..., object], *arguments: object) -> str:
    try:
        found = call(*arguments)
    except REFUSALS as error:
        return type(error).__name__
    raise Mismatch(f"{what} was not refused: {shown(arguments)} gave {shown(found)}")


def shown(value: object) -> str:
    text = repr(value).replace("\n", "")
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


def levels(kernel: Any) -> list[str]:
    found = []
    for name in ("plain", "avx2", "avx512"):
        try:
            found.append(kernel.use_level(name))
        except ValueError:
            continue
    kernel.use_level()
    return found


def at_every_level(kernel: Any, check: Callable[[str], None]) -> None:
    try:
        for name in LEVELS:
            kernel.use_level(name)
            check(name)
    finally:
        kernel.use_level()


# ---------------------------------------------------------------------------------------- targets
# Each makes arguments of choices, compares, and returns what was special about them.


def fuzz_contents(kernel: Any, choices: Choices) -> Hashable:
    unit = choices.pick(("word", "char", "byte", "line", "token", "url"))
    number, k = unit_number(unit, choices.pick((5, 1, 2, 3, 9, 64, sys.maxsize)))
    bag = bool(choices.number(2))
    scheme, num_perm = choices.pick(tuple(SCHEMES)), any_num_perm(choices)
    seed = choices.pick((5, 0, 2**64 - 1))
    contents = [any_content(choices) for _ in range(choices.number(4))]
    if unit == "url":  # canonical: no empty line
        contents = [
            "\n".join(filter(None, content.split("\n"))) if isinstance(content, str) else content
            for content in contents
        ]
    texts = [content for content in contents if isinstance(content, str)]
    options = f"unit={unit} k={k} bag={bag} scheme={scheme} num_perm={num_perm} seed={seed}"

    if not encodes(*contents):
        return unit, refuse_surrogates(kernel, contents, number, k, bag)

    sets = [shingle_hashes(content, unit=unit, k=k, bag=bag) for content in contents]
    while num_perm > 1 and sum(map(len, sets)) * num_perm > 1 << 21:
        num_perm //= 2  # the reference takes long
    constants = lookup_tables.constants(scheme, num_perm, seed)
    counts = np.array([len(hashes) for hashes in sets], dtype=np.int64)
    rows = Output((len(contents), num_perm), np.uint16).array  # of nothing: left as it is
    if counts.any():
        rows[counts > 0] = reference_sketch(
            scheme, np.concatenate(sets), counts[counts > 0], num_perm, seed
        )

    def check(level: str) -> None:
        outputs = Output(rows.shape, np.uint16), Output(counts.shape, np.int64)
        scheme_number = SCHEMES[scheme]
        kernel.sign_contents(
            contents, number, k, bag, scheme_number, num_perm, constants,
            *(output.array for output in outputs),
        )  # fmt: skip
        for output in outputs:
            output.check()
        where = f"({level}, {options}) of {shown(contents)}"
        expect(f"counts {where}", outputs[1].array, counts)
        expect(f"rows {where}", outputs[0].array, rows)
        for content, hashes in zip(contents, sets, strict=True):
            if isinstance(content, str):
                found = np.frombuffer(kernel.shingle_text(content, number, k, bag), np.uint64)
                expect(f"shingles ({level}, {options}) of {shown(content)}", np.sort(found), hashes)
        if len(texts) > 1:
            left, right = (
                shingle_hashes(text, unit=unit, k=k, bag=bag) for text in (texts[0], texts[-1])
            )
            expected = (len(np.intersect1d(left, right)), len(left), len(right))
            found = kernel.compare_texts(texts[0], texts[-1], number, k, bag)
            expect(f"comparison {where}", found, expected)
        together = Output((len(texts),), np.int64)
        found = kernel.shingle_texts(texts, number, k, bag, together.array)
        together.check()
        all_of = [shingle_hashes(text, unit=unit, k=k, bag=bag) for text in texts]
        expect(f"sizes together {where}", together.array.tolist(), list(map(len, all_of)))
        joined = np.concatenate([np.empty(0, np.uint64), *all_of])
        expect(f"shingles together {where}", np.frombuffer(found, np.uint64), joined)

    at_every_level(kernel, check)
    sizes = tuple(sorted({int(count).bit_length() for count in counts}))
    return unit, k, bag, scheme, num_perm, sizes, max(map(width, texts), default=-1)


def refuse_surrogates(
    kernel: Any, contents: list[str | list[str]], number: int, k: int, bag: bool
) -> Hashable:
    """Lone surrogates have no UTF-8: an exception, and never a signature."""
    rows, counts = np.empty((len(contents), 16), np.uint16), np.empty(len(contents), np.int64)
    constants = lookup_tables.constants("fss", 16, 5)
    outcomes = set()

    def check(level: str) -> None:
        what = f"a lone surrogate ({level})"
        arguments = (contents, number, k, bag, 0, 16, constants, rows, counts)
        outcomes.add(expect_refused(what, kernel.sign_contents, *arguments))
        for text in contents:
            if isinstance(text, str) and not encodes(text):
                expect_refused(what, kernel.shingle_text, text, number, k, bag)
                expect_refused(what, kernel.compare_texts, text, "x", number, k, bag)
                expect_refused(what, kernel.compare_texts, "x", text, number, k, bag)

    at_every_level(kernel, check)
    expect("refusals of lone surrogates", outcomes, {"UnicodeEncodeError"})
    return "surrogate", len(contents)


@lru_cache(maxsize=1 << 16)
def stands_alone(character: str, fold: bool) -> bool:
    return table_entry(character, fold=fold) not in (COMPLEX, APART)


def in_order(text: str) -> bool:
    """Whether no combining class is below that of a mark right before it."""
    classes = list(map(combining, text))
    return not any(0 < after < before for before, after in pairwise(classes))


def may_be_left(text: str, fold: bool) -> bool:
    """Whether the kernel may leave a text to the reference: so do 65 segments met first, or a long
    one, or a lone surrogate; never characters that normalise alone."""
    if text.isascii() or (all(stands_alone(one, fold) for one in set(text)) and in_order(text)):
        return False
    return len(text) > 64 or not encodes(text)


def fuzz_normalise(kernel: Any, choices: Choices) -> Hashable:
    fold = bool(choices.number(2))
    texts = [any_text(choices) for _ in range(choices.number(4))]
    table, fill, memo, segment = lookup_tables.folding_table(fold)
    if choices.rarely(4):
        memo = np.zeros_like(memo)
    steps = NORMALISATION if fold else "ignorable-nfkc-space"
    expected = [normalise(text, steps) for text in texts]
    left = set()

    def check(level: str) -> None:
        found = kernel.normalise(texts, fold, table, fill, memo, segment)
        for number, text in enumerate(texts):
            if found[number] is None and may_be_left(text, fold):
                found[number] = expected[number]
                left.add(number)
        expect(f"normalised ({level}, fold={fold}) {shown(texts)}", found, expected)

    at_every_level(kernel, check)
    sizes = tuple(sorted({len(text).bit_length() for text in texts}))
    return fold, sizes, max(map(width, texts), default=-1), len(left) > 0


def fuzz_odd_table(kernel: Any, choices: Choices) -> Hashable:
    """A table with anything in it: an exception or a text, but never a crash."""
    rng = choices.rng()
    entries = rng.integers(0, 2**64, 256, dtype=np.uint64)
    entries[rng.random(256) < 0.9] = choices.pick(
        (0x4102, 0x8, 0x9, 0x7, 0x0, 0xA, 0xFF, 0x2000001)
    )
    table = np.zeros(0x110000, dtype=np.uint64)
    memo = np.zeros(0x20000, dtype=np.uint64)
    if choices.rarely(2):
        memo[:] = rng.integers(0, 2**64, len(memo), dtype=np.uint64)
    made = choices.pick(("", " ", " a ", "a" * 38, "\xe9" * 20, "b" * 5000, "\udfff", None))
    filled: set[int] = set()
    kind = choices.number(4)

    def fill(block: int) -> None:
        if kind == 1:
            raise ValueError(block)
        if kind == 2:
            return
        filled.add(block)
        table[block * 256 : block * 256 + 256] = entries
        if kind == 3:  # another normalisation in the middle of this one
            kernel.normalise(["\xe9" * 300], False, table, fill, memo, segment)

    def segment(part: str) -> Any:
        if kind == 3 and len(part) == 1:
            kernel.normalise(["\xe9" * 300], False, table, fill, memo, segment)
        return made

    text = any_text(choices) + "\xe9" * choices.number(100)

    def check(level: str) -> None:
        for block in filled:
            table[block * 256 : block * 256 + 256] = 0
        filled.clear()
        try:
            (found,) = kernel.normalise([text], True, table, fill, memo, segment)
        except (ValueError, RecursionError, TypeError):
            return
        expect(f"type ({level})", isinstance(found, str | None), True)

    at_every_level(kernel, check)
    return kind, width(text)


def fuzz_sketch(kernel: Any, choices: Choices) -> Hashable:
    scheme, num_perm = choices.pick(tuple(SCHEMES)), any_num_perm(choices)
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 22, 23, 24, 25, 31, 33, 64, 255, 1000, 3000)
    lengths = np.array([choices.pick(sizes) for _ in range(choices.number(6))], dtype=np.int64)
    hashes = any_hashes(choices, int(lengths.sum()))
    if choices.rarely(4):  # repeats make no difference
        hashes[:] = hashes[: 1 + choices.number(9)].repeat(len(hashes))[: len(hashes)]
    while num_perm > 1 and len(hashes) * num_perm > 1 << 20:
        num_perm //= 2
    expected = np.empty((0, num_perm), dtype=np.uint16)
    if len(lengths):
        expected = reference_sketch(scheme, hashes, lengths, num_perm, 3)
    constants = lookup_tables.constants(scheme, num_perm, 3)

    def check(level: str) -> None:
        rows = Output(expected.shape, np.uint16)
        number = SCHEMES[scheme]
        kernel.sketch(hashes, lengths, number, num_perm, constants, rows.array)
        rows.check()
        what = f"sketch ({level}, {scheme}, {num_perm}) of sets of {lengths.tolist()}"
        expect(what, rows.array, expected)

    at_every_level(kernel, check)
    return scheme, num_perm, tuple(sorted(set(lengths.tolist())))


def fuzz_sample_weights(kernel: Any, choices: Choices) -> Hashable:
    num_perm = any_num_perm(choices)
    sizes = (1, 2, 3, 10, 65, 300)
    lengths = np.array([choices.pick(sizes) for _ in range(choices.number(6))], dtype=np.int64)
    hashes = any_hashes(choices, int(lengths.sum()))
    scale = choices.pick((1.0, 0.0, 40.0, 340.0))
    weights = np.exp(scale * (2.0 * choices.rng().random(len(hashes)) - 1.0))
    while num_perm > 1 and len(hashes) * num_perm > 1 << 20:
        num_perm //= 2
    expected = np.zeros((len(lengths), num_perm), dtype=np.uint16)
    rows = Output(expected.shape, np.uint16)
    slot_keys = keys(3, Purpose.WEIGHTS, 0, 3 * num_perm)
    logs = np.log(weights)
    reference.sample_weights(hashes, weights, logs, lengths, num_perm, slot_keys, expected)
    kernel.sample_weights(hashes, weights, logs, lengths, num_perm, slot_keys, rows.array)
    rows.check()
    expect(f"{num_perm} samples of sets of {lengths.tolist()}", rows.array, expected)
    return num_perm, scale, tuple(sorted(set(lengths.tolist())))


def fuzz_walsh_hadamard(kernel: Any, choices: Choices) -> Hashable:
    size, n = 1 << choices.number(12), choices.number(5)
    rows = choices.rng().integers(-(2**20), 2**20, (n, size)).astype(np.float64)
    found = Output(rows.shape, np.float64)
    found.array[:] = rows
    kernel.walsh_hadamard(found.array, size)
    found.check()
    for half in (1 << bit for bit in range(size.bit_length() - 1)):
        pairs = rows.reshape(n, size // (2 * half), 2, half)
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        rows = np.stack([left + right, left - right], axis=2).reshape(n, size)
    expect(f"transform of {n} rows of {size}", found.array, rows)
    return size, n


def any_rows(choices: Choices, num_perm: int) -> NDArray[np.uint16]:
    shape = (choices.number(40), num_perm)
    return choices.rng().integers(0, choices.pick((2, 3, 2**16)), shape, dtype=np.uint16)


def fuzz_bucket_keys(kernel: Any, choices: Choices) -> Hashable:
    num_perm = any_num_perm(choices)
    slot_bits = choices.pick((16, 1))
    slots = num_perm * 16 // slot_bits
    bands = 1 + choices.number(min(slots, 255))
    height = 1 + choices.number(slots // bands)
    rows = any_rows(choices, num_perm)
    keys = Output((len(rows), bands), np.int64)
    kernel.bucket_keys(rows, num_perm, slot_bits, bands, height, keys.array)
    keys.check()
    expected = reference_keys(rows, bands, height, slot_bits)
    expect(f"bucket keys of {bands} bands of {height}", keys.array, expected)
    return slot_bits, bands.bit_length(), height.bit_length(), len(rows).bit_length()


def fuzz_compare_rows(kernel: Any, choices: Choices) -> Hashable:
    num_perm = any_num_perm(choices)
    slot_bits = choices.pick((16, 1))
    slots = num_perm * 16 // slot_bits
    bands = 1 + choices.number(min(slots, 255))
    height = 1 + choices.number(slots // bands)
    many = [any_rows(choices, num_perm) for _ in range(2)]
    n = choices.number(100) if all(map(len, many)) else 0
    left, right = (choices.rng().integers(0, max(len(rows), 1), n) for rows in many)
    outside = n > 0 and choices.rarely(4)
    if outside:
        side = choices.number(2)
        wrong = choices.pick((-1, len(many[side]), -(2**63), 2**63 - 1, 2**32))
        (left, right)[side][choices.number(n)] = wrong

    def check(level: str) -> None:
        outputs = [Output((n,), np.int32) for _ in range(3)]
        arrays = [output.array for output in outputs]
        arguments = (many[0], left, many[1], right, num_perm, bands, height, *arrays)
        compare = kernel.compare_rows if slot_bits == 16 else kernel.compare_bits
        if outside:
            expect_refused("a row outside", compare, *arguments)
        else:
            compare(*arguments)
            rows = many[0][left], many[1][right]
            expected = reference_agreement(*rows, bands=bands, rows=height, slot_bits=slot_bits)
            for name, found in zip(("equal", "matched", "first"), arrays, strict=True):
                expect(f"{name} ({level}, {num_perm})", found, getattr(expected, name))
        for output in outputs:
            output.check()

    at_every_level(kernel, check)
    return num_perm, slot_bits, bands.bit_length(), n.bit_length(), outside


def fuzz_scan(kernel: Any, choices: Choices) -> Hashable:
    words = any_num_perm(choices)
    slot_bits = choices.pick((16, 1)) if words * 16 < 2**16 else 16
    queries, rows = (any_rows(choices, words) for _ in range(2))
    before, after = choices.number(5), choices.number(5)
    room, least = choices.pick((0, 1, 7, 1000)), choices.pick((0, 1, words, 2**16 - 1))
    expected = np.zeros((len(queries), before + len(rows) + after), dtype=np.uint16)
    reference_counts(queries, rows, slot_bits=slot_bits, counts=expected, first=before)

    def check(level: str) -> None:
        counts = Output(expected.shape, np.uint16)
        counts.array[:] = 0
        width = expected.shape[1]
        kernel.count_in_rows(queries, rows, words, slot_bits, width, before, counts.array)
        expect(f"counts ({level}, {words})", counts.array, expected)
        counts.check()
        for line in expected:
            best = Output((room,), np.int64)
            found = kernel.rank_counts(line, least, best.array)
            places, number = reference_ranks(line, least, room)
            expect("how many count", found, number)
            expect(f"the best of {len(line)}", best.array[:found], places)
            best.check()

    at_every_level(kernel, check)
    return words, slot_bits, len(queries).bit_length(), len(rows).bit_length(), room, least


def fuzz_sharing(kernel: Any, choices: Choices) -> Hashable:
    """Sets in a table, and probes against it; or numbers that point outside."""
    rng, below = choices.rng(), choices.pick((2, 5, 300))
    values = np.sort(rng.integers(0, 2**64, below, dtype=np.uint64))

    def any_sets() -> tuple[np.ndarray, np.ndarray]:
        sizes = [choices.number(min(below, 40) + 1) for _ in range(choices.pick((0, 1, 3, 30)))]
        sets = [np.empty(0, np.uint64), *(rng.choice(values, size, False) for size in sizes)]
        return np.concatenate(sets), np.array(sizes, dtype=np.int64)

    (hashes, counts), (asking, sizes) = any_sets(), any_sets()
    bits, outside = 1 + choices.number(12), choices.rarely(4)
    most, least = choices.pick((1, 2, 10**6)), choices.pick((0.0, 0.3, 1.0))
    expected = (
        np.empty(2**bits + 1, np.uint32), np.empty(len(hashes), np.uint64),
        np.empty(len(hashes), np.uint32),
    )  # fmt: skip
    reference.table_sets(hashes, counts, bits, *expected)
    table = Output((2**bits + 1,), np.uint32), Output(hashes.shape, np.uint64)
    owners = Output(hashes.shape, np.uint32)
    arrays = [each.array for each in (*table, owners)]
    wrong = choices.pick((counts + 1, counts - 1)) if outside and len(counts) else None
    if wrong is not None:
        expect_refused("counts", kernel.table_sets, hashes, wrong, bits, *arrays)
    kernel.table_sets(hashes, counts, bits, *arrays)
    for each, found, right in zip((*table, owners), arrays, expected, strict=True):
        expect(f"a table of {bits} bits", found, right)
        each.check()
    is_part = bool(choices.number(2))
    wish = is_part, most, least, choices.pick((math.inf, 1.0, 0.4))
    found = kernel.find_sharing(bits, *expected, counts, asking, sizes, *wish)
    triples = np.frombuffer(found, dtype=np.int64).reshape(-1, 3)
    order = np.lexsort(triples.T[::-1])
    right = np.frombuffer(
        reference.find_sharing(bits, *expected, counts, asking, sizes, *wish), dtype=np.int64
    ).reshape(-1, 3)
    expect("what sets share", triples[order], right)
    if outside:
        place = choices.number(4)
        spoilt = [*expected, counts, asking, sizes]
        if place < 3 and spoilt[place].size:
            spoilt[place] = spoilt[place].copy()
            spoilt[place].flat[choices.number(spoilt[place].size)] = 2**32 - 1
        with contextlib.suppress(*REFUSALS):
            kernel.find_sharing(bits, *spoilt, *wish)
    return below, bits, most, least, is_part, outside, len(triples).bit_length()


def fuzz_count_common(kernel: Any, choices: Choices) -> Hashable:
    n, m = (choices.pick((0, 1, 2, 8, 100, 3000)) for _ in range(2))
    below = choices.pick((4, 100, 5000, 2**64))
    left = np.unique(choices.rng().integers(0, below, n, dtype=np.uint64))
    right = np.unique(choices.rng().integers(0, below, m, dtype=np.uint64))
    common = len(np.intersect1d(left, right))
    expect("common values", kernel.count_common(left, right), common)
    sets = np.array([[0, 0, len(left)], [1, 0, len(right)], [0, 0, 0]], dtype=np.int64)
    counts = Output((8,), np.int64)
    numbers = np.array([0, 1, 0, 2, 1, 1, 1, 1]), np.array([1, 0, 0, 1, 0, 1, 2, 0])
    kernel.compare_sets([left, right], sets, *numbers, counts.array)
    counts.check()
    expected = [common, common, len(left), 0, common, len(right), 0, common]
    expect("common values of pairs", counts.array.tolist(), expected)
    return n, m, below


def fuzz_cut_grams(kernel: Any, choices: Choices) -> Hashable:
    """Words of a text as it is, and hashes of k of them."""
    way, k = choices.pick((1, 0, -1)), choices.pick((3, 1, 2, 9, 2**30))
    text = any_text(choices)

    def hash_word(word: str) -> int:
        data = (normalise(word) if way > 0 else word).encode("utf-8", "surrogatepass")
        number: int = mmh3.hash64(data, signed=False)[0]
        return number

    expected = reference.cut_grams(text, way, k, hash_word)
    found = kernel.cut_grams(text, way, k, hash_word)
    expect(f"words (way={way} k={k}) of {shown(text)}", found, expected)
    return way, k, width(text), (len(expected) // 24).bit_length()


def fuzz_align_words(kernel: Any, choices: Choices) -> Hashable:
    """Passages of pairs of texts; or pairs that point outside, or words in any order."""
    k, window = choices.pick((3, 1, 2, 6)), choices.pick((20, 1, 2, 7, 64, 2**30))
    rng, way = choices.rng(), choices.pick(("sound", "sound", "outside", "odd words"))
    texts = [random_text(rng, k)]
    texts += [random_text(rng, k, like=texts[0]) for _ in range(choices.number(3))]
    areas = rng.integers(-3, 1300, (choices.number(9), 4))
    if len(areas) and choices.rarely(4):
        areas[choices.number(len(areas)), choices.number(4)] = choices.pick((2**63 - 1, -(2**63)))
    n_pairs = 1 + choices.number(5)
    firsts = rng.integers(0, len(areas) + 1, n_pairs)
    counts = rng.integers(0, len(areas) + 1 - firsts)
    pairs = np.column_stack([rng.integers(0, len(texts), (n_pairs, 2)), firsts, counts])
    if way == "outside":
        pairs[choices.number(n_pairs), choices.number(4)] = choices.pick((-1, 9, 2**63 - 1))
        expect_refused("a pair", kernel.align_words, texts, pairs, areas, window, k)
        return way
    if way == "odd words":  # no text has them: any passages, or none
        for text in texts:
            rng.shuffle(text.reshape(-1))
        with contextlib.suppress(*REFUSALS):
            kernel.align_words(texts, pairs, areas, window, k)
        return way
    expected = reference.align_words(texts, pairs, areas, window, k)
    found = kernel.align_words(texts, pairs, areas, window, k)
    expect(f"passages (window={window} k={k}) of {shown((texts, pairs, areas))}", found, expected)
    return way, k, window, len(texts), (len(expected) // 72).bit_length()


def templates() -> tuple[tuple[str, tuple[Any, ...], dict[int, int]], ...]:
    """Arguments that fit; and of each buffer, of how many bytes more or fewer it fits as well."""
    numbers, row = lookup_tables.constants("fss", 8, 1), np.zeros((2, 8), dtype=np.uint16)
    two, table = np.zeros(2, dtype=np.int64), np.zeros(0x110000, dtype=np.uint64)
    memo = np.zeros(0x20000, dtype=np.uint64)
    hashes, lengths = np.arange(9, dtype=np.uint64), np.array([4, 5], dtype=np.int64)
    counts = np.zeros(2, dtype=np.int32)
    keys, lines = np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3), dtype=np.uint16)
    contents = ["to be", ["or", "not"]]
    return (
        ("sign_contents", (contents, 0, 2, False, 0, 8, numbers, row, two), {6: 0, 7: 0, 8: 0}),
        ("shingle_text", ("to be", 0, 2, False), {}),
        ("shingle_texts", (["to be", "or"], 0, 2, False, two), {4: 0}),
        (
            "compare_sets",
            ([hashes, hashes[:3]], np.array([[0, 0, 9], [1, 0, 3]]), two, two, two.copy()),
            {1: 24, 2: 0, 3: 0, 4: 0},
        ),
        (
            "agreeing_pairs",
            (
                two,
                two.copy() + 2,
                np.array([0, 1, 1, 0]),
                np.array([1, 0, 1, 1], np.uint8),
                row,
                0,
                2,
                8,
                3,
                2,
                False,
                np.array([0, 2**32]),
                np.ones(9, np.uint8),
            ),
            {0: 0, 1: 0, 3: 0, 4: 0, 11: 8, 12: 0},
        ),
        ("sketch", (hashes, lengths, 1, 8, numbers, row), {0: 0, 1: 0, 4: 0, 5: 0}),
        ("bucket_keys", (row, 8, 16, 3, 2, keys), {0: 0, 5: 0}),
        ("count_common", (hashes, hashes), {0: 8, 1: 8}),
        (
            "compare_rows",
            (row, two, row, two, 8, 3, 2, counts, counts.copy(), counts.copy()),
            {0: 16, 1: 0, 2: 16, 3: 0, 7: 0, 8: 0, 9: 0},
        ),
        (
            "compare_bits",
            (row, two, row, two, 8, 3, 35, counts, counts.copy(), counts.copy()),
            {0: 16, 1: 0, 2: 16, 3: 0, 7: 0, 8: 0, 9: 0},
        ),
        ("count_in_rows", (row, row, 8, 1, 3, 1, lines), {0: 0, 1: 16, 6: 0}),
        ("rank_counts", (lines, 1, two), {0: 2, 2: 8}),
        (
            "table_sets",
            (
                hashes,
                lengths,
                1,
                np.zeros(3, np.uint32),
                np.zeros(9, np.uint64),
                np.zeros(9, np.uint32),
            ),
            {0: 0, 1: 0, 3: 0, 4: 0, 5: 0},
        ),
        (
            "find_sharing",
            (
                1,
                np.array([0, 9, 9], np.uint32),
                hashes,
                np.zeros(9, np.uint32),
                lengths,
                hashes,
                lengths,
                False,
                2,
                0.5,
                0.9,
            ),
            {1: 0, 2: 0, 3: 0, 4: 8, 5: 8, 6: 8},
        ),
        ("compare_texts", ("to be", "or not", 0, 2, False), {}),
        (
            "sample_weights",
            (hashes, np.ones(9), np.zeros(9), lengths, 2, hashes[:6].copy(), row[:, :2].copy()),
            {0: 0, 1: 0, 2: 0, 3: 0, 5: 0, 6: 0},
        ),
        ("walsh_hadamard", (np.ones(16), 8), {0: 64}),
        ("normalise", (["to be"], True, table, int, memo, str), {2: 0, 4: 0}),
        ("cut_grams", ("To be", 1, 2, len), {}),
        (
            "align_words",
            ([np.zeros((3, 4), np.int64)], np.array([0, 0, 0, 1]), np.zeros(4, np.int64), 5, 2),
            {1: 32, 2: 32},
        ),
    )


OUTPUTS = {
    "sign_contents": (7, 8), "sketch": (5,), "bucket_keys": (5,), "compare_rows": (7, 8, 9),
    "compare_bits": (7, 8, 9), "sample_weights": (6,), "shingle_texts": (4,), "compare_sets": (4,),
    "count_in_rows": (6,), "rank_counts": (2,), "table_sets": (3, 4, 5),
}  # fmt: skip
NUMBERS = {  # place: least and greatest that fit
    "sign_contents": {1: (0, 4), 2: (1, sys.maxsize), 4: (0, 1), 5: (8, 8)},
    "shingle_text": {1: (0, 4), 2: (1, sys.maxsize)},
    "shingle_texts": {1: (0, 4), 2: (1, sys.maxsize)},
    "agreeing_pairs": {5: (0, 2**62), 6: (2, 2), 7: (8, 8), 8: (1, 4), 9: (1, 2)},
    "sketch": {2: (0, 1), 3: (8, 8)},
    "bucket_keys": {1: (8, 8), 2: (16, 16), 3: (3, 3), 4: (1, 2)},
    "compare_rows": {4: (8, 8), 5: (1, 4), 6: (1, 2)},
    "compare_bits": {4: (8, 8), 5: (1, 3), 6: (1, 42)},
    "sample_weights": {4: (2, 2)},
    "count_in_rows": {2: (8, 8), 3: (1, 1), 4: (3, 3), 5: (0, 1)},
    "rank_counts": {1: (0, 2**16 - 1)},
    "table_sets": {2: (1, 1)},
    "find_sharing": {0: (1, 1), 8: (1, sys.maxsize)},
    "walsh_hadamard": {1: (8, 8)},
    "compare_texts": {2: (0, 4), 3: (1, sys.maxsize)},
    "cut_grams": {1: (-1, 1), 2: (1, 2**30)},
    "align_words": {3: (1, 2**30), 4: (1, 2**30)},
}
ODD_NUMBERS = (-1, 0, 3, 5, 7, 9, 4096, 4097, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63))
ODD_OBJECTS = (None, 3, 1.5, "x", b"x", [], ["x", 1], [b"x"], ["\ud800"], {}, object())


def fuzz_refusals(kernel: Any, choices: Choices) -> Hashable:
    """Arguments that fit but for one; the one must be refused, and nothing may be written."""
    name, fitting, buffers = choices.pick(templates())
    arguments = list(fitting)
    place, way = spoil(choices, name, arguments, buffers)
    if way is None:  # the change happens to fit
        return name, place
    outputs = [arguments[i] for i in OUTPUTS.get(name, ()) if i != place]
    before = [output.tobytes() for output in outputs]
    what = f"{name} with argument {place} spoilt ({way})"
    outcome = expect_refused(what, getattr(kernel, name), *arguments)
    if way != "late content":
        expect(what, [output.tobytes() for output in outputs], before)
    return name, place, way, outcome


def spoil(
    choices: Choices, name: str, arguments: list[Any], buffers: dict[int, int]
) -> tuple[int, str | None]:
    """Change one argument so that it does not fit: its place, and how (None where it fits)."""
    place = choices.number(len(arguments))
    argument = arguments[place]
    if place in buffers:
        whole = np.frombuffer(argument.tobytes(), dtype=np.uint8)
        way = choices.pick(("length", "alignment", "read-only", "stride", "type"))
        if way == "length":
            longer = choices.pick((-1, 1, -4, 4, -8, 8, -3, 64, 2**20, -len(whole), -9))
            size = max(len(whole) + longer, 0)
            if size == len(whole) or (buffers[place] and (size - len(whole)) % buffers[place] == 0):
                return place, None
            arguments[place] = np.resize(whole, size) if size else np.empty(0, dtype=np.uint8)
        elif way == "alignment" and np.asarray(argument).itemsize > 1:
            arguments[place] = np.resize(whole, len(whole) + 8)[1 : len(whole) + 1]
        elif way == "read-only" and place in OUTPUTS.get(name, ()):
            arguments[place] = argument.tobytes()
        elif way == "stride":
            elements = np.asarray(argument)  # constants come as a memoryview
            arguments[place] = np.resize(elements, 2 * elements.size)[::2]
        elif way == "type":
            # A number may be a descriptor.
            arguments[place] = choices.pick((None, 1.5, "x", [], object()))
            if (name, place) == ("agreeing_pairs", 11) and arguments[place] is None:
                return place, None  # no bucket is large
        else:
            return place, None
        return place, way
    if place in NUMBERS.get(name, {}):
        least, greatest = NUMBERS[name][place]
        number = choices.pick(ODD_NUMBERS)
        if not least <= number <= greatest:
            arguments[place] = number
            return place, "number"
        return place, None
    if isinstance(argument, str):
        arguments[place] = choices.pick((None, 3, b"x", ["x"], "\ud800", "a\udfff"))
        is_fit = name == "cut_grams" and isinstance(arguments[place], str)  # a blank for it
        return place, None if is_fit else "text"
    if isinstance(argument, list):
        wrong = choices.pick((3, None, b"x", ["x", 1], ["\ud800"], "\udc80", object()))
        if name == "normalise" and isinstance(wrong, str):  # is left to the reference
            return place, None
        if choices.rarely(4):
            arguments[place] = choices.pick((None, (), 3, "to be"))
            return place, "contents"
        arguments[place] = [*argument[:-1], wrong]
        # Lists are read one after the other: what stands before the wrong one may be signed.
        return place, "late content" if isinstance(wrong, str | list) else "content"
    return place, None


def fuzz_aliases(kernel: Any, choices: Choices) -> Hashable:
    """One buffer as input and output. What comes out is nobody's business, but no byte outside."""
    name, fitting, buffers = choices.pick(
        [one for one in templates() if one[0] in OUTPUTS and len(one[2]) > 1]
    )
    arguments = list(fitting)
    output = choices.pick(OUTPUTS[name])
    shared = choices.pick([place for place in buffers if place != output])
    memory = np.resize(
        np.frombuffer(arguments[shared].tobytes(), dtype=np.uint8),
        max(arguments[place].nbytes for place in (output, shared)),
    ).copy()
    for place in (output, shared):
        arguments[place] = memory[: arguments[place].nbytes]
    if name == "sketch" and choices.number(2):  # rows as long as the lengths
        arguments[1] = arguments[5] = np.array([4, 5], dtype=np.int64)
        arguments[2:5] = [choices.number(2), 2, lookup_tables.constants("fss", 2, 1)]
    try:
        getattr(kernel, name)(*arguments)
    except REFUSALS as error:
        return name, output, shared, type(error).__name__
    return name, output, shared


TARGETS: tuple[Callable[[Any, Choices], Hashable], ...] = (
    *(fuzz_contents,) * 8,
    *(fuzz_normalise,) * 4,
    *(fuzz_sketch, fuzz_sample_weights, fuzz_walsh_hadamard,) * 2,
    *(fuzz_refusals,) * 3,
    fuzz_odd_table, fuzz_bucket_keys, fuzz_compare_rows, fuzz_scan, fuzz_count_common, fuzz_aliases,
    fuzz_sharing, fuzz_cut_grams, fuzz_align_words,
)  # fmt: skip
LEVELS: list[str] = []


def run_input(kernel: Any, data: bytes) -> Hashable:
    """Run one input; what was special about it. Mismatch, or whatever was raised unasked."""
    if not LEVELS:
        LEVELS.extend(levels(kernel))
    choices = Choices(data)
    target = choices.pick(TARGETS)
    return target.__name__, target(kernel, choices)


# ---------------------------------------------------------------------------------------- the run


class Failed(Exception):
    """An input on which the kernel is wrong."""

    def __init__(self, data: bytes, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}\nrun it again: {command(data)}")
        self.data = data


def command(data: bytes) -> str:
    return f"python tests/fuzz_kernel.py --input {data.hex()}"


def mutated(rng: random.Random, corpus: list[bytes]) -> bytes:
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, size = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 4, 16, 64))
        match rng.randrange(5):
            case 0:
                data[at : at + size] = rng.randbytes(size)
            case 1:
                data[at:at] = rng.randbytes(size)
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                other = rng.choice(corpus)
                data[at:] = other[rng.randrange(len(other) + 1) :]
    return bytes(data[:LONGEST_INPUT])


def fuzz(
    kernel: Any,
    *,
    seed: int,
    seconds: float,
    most: int | None = None,
    before: Callable[[bytes], None] = lambda data: None,
) -> tuple[int, int]:
    """Run inputs until the time is over: how many there were, and how many different outcomes.

    Raises
    ------
    Failed
        With the input, made shorter where it fails all the same.
    """
    rng = random.Random(seed)
    corpus, seen, done = [bytes(8)], set[Hashable](), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and done != most:
        fresh = rng.randrange(4) == 0
        data = rng.randbytes(rng.randrange(LONGEST_INPUT)) if fresh else mutated(rng, corpus)
        before(data)
        try:
            outcome = run_input(kernel, data)
        except Exception as error:
            short = shortened(kernel, data, before)
            raise Failed(short, failure(kernel, short) or error) from error
        done += 1
        if outcome not in seen:
            seen.add(outcome)
            corpus.append(data)
    return done, len(seen)


def failure(kernel: Any, data: bytes) -> Exception | None:
    try:
        run_input(kernel, data)
    except Exception as error:
        return error
    return None


def shortened(kernel: Any, data: bytes, before: Callable[[bytes], None]) -> bytes:
    """The input without the pieces that it fails without, for ten seconds at most."""
    end = time.monotonic() + 10
    size = len(data)
    while size and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            without = data[:at] + data[at + size :]
            before(without)
            if failure(kernel, without) is None:
                at += size
            else:
                data = without
        size //= 2
    return data


ENDED = 1


def watch(work: Callable[[Callable[[bytes], None]], int]) -> int:
    """Do the work in a child that leaves each input in shared memory; report one that killed it."""
    shared = mmap.mmap(-1, LONGEST_INPUT + 8)

    def before(data: bytes) -> None:
        shared[4 : 8 + len(data)] = len(data).to_bytes(4, "little") + data
        signal.alarm(SECONDS_AN_INPUT)

    sys.stdout.flush()
    with (
        warnings.catch_warnings()
    ):  # of threads: those of NumPy's linear algebra, which is not used
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = work(before)
        shared[:2] = bytes([ENDED, code])
        return (
            code  # and end as always, so that leaks are looked for, with an exit code of their own
        )
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise
    if shared[0] == ENDED and code >= 0:
        return shared[1]
    size = int.from_bytes(shared[4:8], "little")
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    if code == -signal.SIGALRM:
        how += f" (it ran for {SECONDS_AN_INPUT} s)"
    print(f"CRASHED with {how}\nrun it again: {command(shared[8 : 8 + size])}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the compiled kernel.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--input", type=bytes.fromhex, default=None, help="run only this, in hex")
    options = parser.parse_args()
    kernel = compiled
    if kernel is None:
        print("there is no compiled kernel to fuzz")
        return 2
    print(f"kernel {kernel.__file__} ({', '.join(levels(kernel))})")
    if options.input is not None:
        print("ended well:", run_input(kernel, options.input))
        return 0
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:g} s")

    def work(before: Callable[[bytes], None]) -> int:
        start = time.monotonic()
        try:
            done, outcomes = fuzz(kernel, seed=seed, seconds=options.seconds, before=before)
        except Failed as failed:
            print(f"FAILED\n{failed}")
            return 1
        took = time.monotonic() - start
        print(f"{done} inputs in {took:.0f} s, {done / took:.0f}/s, {outcomes} outcomes: all well")
        return 0

    return watch(work)


if __name__ == "__main__":
    sys.exit(main())
