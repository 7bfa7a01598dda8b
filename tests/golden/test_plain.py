"""The plain path agrees with what others publish: mmh3 and SplitMix64."""

from __future__ import annotations

import random

import mmh3
import pytest

from tests.golden import plain


@pytest.mark.parametrize("seed", [0, 1, 2, 2**31, 2**32 - 1])
def test_murmur_is_that_of_mmh3_at_every_length(seed: int) -> None:
    rng = random.Random(seed)
    for length in [*range(70), 127, 128, 129, 1000]:
        data = rng.randbytes(length)
        assert plain.murmur3_x64_128(data, seed) == mmh3.hash64(data, seed, signed=False)


def test_murmur_known_answers() -> None:
    # The empty string hashes to zero, and the phrase is the one named in lshdb.shingling.shingles.
    assert plain.murmur3_x64_128(b"") == (0, 0)
    phrase = "to be or not to"
    assert plain.murmur3_x64_128(phrase.encode())[0] == mmh3.hash64(phrase, signed=False)[0]


def test_mix64_known_answers() -> None:
    # The first numbers of SplitMix64 from seed 1234567, as published with its reference code.
    assert [plain.key_of_seed(1234567, number) for number in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@pytest.mark.parametrize("number", [0, 1, 255, 8191])
@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
def test_a_seed_is_found_for_any_key(number: int, key: int) -> None:
    assert plain.key_of_seed(plain.seed_with_key(number, key), number) == key


def test_ranges_do_not_overlap() -> None:
    for (_, last), (first, _) in zip(plain.RANGES, plain.RANGES[1:], strict=False):
        assert last < first
