"""The mixer and the stream of keys, against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lshdb.kernel.random_numbers import GOLDEN, key_stream, mix64
from tests.golden import plain

pytestmark = pytest.mark.fast

EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**61 - 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


def test_mix64_is_the_plain_one_and_leaves_its_argument() -> None:
    rng = random.Random(1)
    numbers = EDGES + [rng.getrandbits(64) for _ in range(1000)]
    values = np.array(numbers, dtype=np.uint64)
    assert mix64(values).tolist() == [plain.mix64(number) for number in numbers]
    assert values.tolist() == numbers
    assert mix64(values.reshape(1, -1)[:, ::2]).tolist() == [
        [plain.mix64(number) for number in numbers[::2]]
    ]


def test_each_input_bit_flips_half_of_the_output_bits() -> None:
    """4096 numbers: the rate of one pair of bits has standard error 1/128; 5.5 of them."""
    numbers = np.random.default_rng(2).integers(0, 2**64, 4096, dtype=np.uint64)
    mixed = mix64(numbers)
    for bit in range(64):
        flipped = mixed ^ mix64(numbers ^ np.uint64(1 << bit))
        rates = ((flipped[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
        assert np.abs(rates - 0.5).max() < 5.5 / 128, bit


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - GOLDEN])
def test_key_stream(seed: int) -> None:
    expected = [plain.key_of_seed(seed, number) for number in range(300)]
    assert key_stream(seed, 0, 300).tolist() == expected
    assert key_stream(seed, 17, 5).tolist() == expected[17:22]
    assert key_stream(seed, 299, 1).tolist() == expected[299:]
    assert key_stream(seed, 3, 0).tolist() == []
    assert plain.GOLDEN == GOLDEN
