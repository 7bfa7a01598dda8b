"""Bucket keys: the documented layout, and equal exactly where the slots of a band are."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb.params.bands import MAX_BANDS
from lshdb.params.bucket_layout import BUCKET_BITS, CONTENT_BAND, FIRST_CONTENT_KEY, LAST_KEY
from lshdb.signatures.banding import bucket_keys, content_keys, matching_bands
from tests.golden import plain

pytestmark = pytest.mark.fast

BANDINGS = [(1, 1), (1, 128), (128, 1), (25, 5), (9, 13), (42, 3), (127, 1), (2, 64)]


def random_rows(seed: int, n: int, num_perm: int, values: int = 2**16) -> NDArray[np.uint16]:
    return np.random.default_rng(seed).integers(0, values, (n, num_perm), dtype=np.uint16)


def band_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """What lies above the bucket, as anyone who reads the stored keys would take it."""
    return keys >> 32


def test_the_numbers_of_the_layout() -> None:
    assert BUCKET_BITS == 32
    assert CONTENT_BAND == 255
    assert MAX_BANDS == 255


@pytest.mark.parametrize(("bands", "rows"), BANDINGS)
def test_keys_are_the_documented_ones(bands: int, rows: int) -> None:
    signatures = random_rows(bands, 20, 128)
    signatures[0] = 0
    signatures[1] = 2**16 - 1
    keys = bucket_keys(signatures, bands=bands, rows=rows)
    assert keys.dtype == np.int64
    assert keys.shape == (20, bands)
    for signature, row in zip(signatures.tolist(), keys.tolist(), strict=True):
        assert row == plain.bucket_keys(signature, bands=bands, rows=rows)


def test_all_255_bands() -> None:
    signatures = random_rows(1, 50, 512)
    keys = bucket_keys(signatures, bands=255, rows=2)
    assert (band_of(keys) == np.arange(255)).all()
    assert (keys >= 0).all()
    assert keys[0].tolist() == plain.bucket_keys(signatures[0].tolist(), bands=255, rows=2)
    assert (band_of(keys) != CONTENT_BAND).all()


def test_sorted_keys_keep_each_band_together() -> None:
    keys = np.sort(bucket_keys(random_rows(2, 300, 255), bands=255, rows=1), axis=None)
    changes = np.flatnonzero(np.diff(band_of(keys)))
    assert len(changes) == 254
    assert band_of(keys[[0, -1]]).tolist() == [0, 254]


def test_buckets_fill_their_32_bits() -> None:
    """10,000 keys: a bit is set half of the time, give or take 5 standard errors of 1/200."""
    buckets = bucket_keys(random_rows(3, 1000, 50), bands=10, rows=5).reshape(-1)
    set_bits = ((buckets[:, None] >> np.arange(BUCKET_BITS)) & 1).mean(axis=0)
    assert np.abs(set_bits - 0.5).max() < 5 / 200
    assert len(np.unique(buckets)) == buckets.size


def test_the_same_slots_in_another_band_are_in_another_bucket() -> None:
    signatures = np.full((1, 100), 7, dtype=np.uint16)
    keys = bucket_keys(signatures, bands=20, rows=5)
    assert len(np.unique(keys & (2**BUCKET_BITS - 1))) == 20


def test_the_order_of_slots_matters() -> None:
    signatures = np.array([[1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2]], dtype=np.uint16)
    assert len(np.unique(bucket_keys(signatures, bands=1, rows=3))) == 4


def test_slots_past_the_bands_are_not_used() -> None:
    signatures = random_rows(4, 10, 128)
    others = signatures.copy()
    others[:, 125:] += 1
    keys = bucket_keys(signatures, bands=25, rows=5)
    assert (bucket_keys(others, bands=25, rows=5) == keys).all()
    assert (bucket_keys(signatures[:, :125], bands=25, rows=5) == keys).all()
    assert matching_bands(signatures, others, bands=25, rows=5).all()
    others[:, 124] += 1
    changed = bucket_keys(others, bands=25, rows=5) != keys
    assert changed[:, :24].any() == np.False_
    assert changed[:, 24].all()


def test_too_few_slots_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reshape|out of range"):
        bucket_keys(random_rows(5, 3, 10), bands=4, rows=3)


@pytest.mark.parametrize(("bands", "rows"), BANDINGS)
def test_no_rows(bands: int, rows: int) -> None:
    none = np.empty((0, 128), dtype=np.uint16)
    assert bucket_keys(none, bands=bands, rows=rows).shape == (0, bands)
    assert matching_bands(none, none, bands=bands, rows=rows).shape == (0, bands)


def test_rows_as_they_lie_in_a_file() -> None:
    """Read-only, little-endian whatever the machine, and not contiguous."""
    signatures = random_rows(6, 30, 128)
    expected = bucket_keys(signatures, bands=25, rows=5)
    stored = np.frombuffer(signatures.astype("<u2").tobytes(), dtype="<u2").reshape(30, 128)
    assert not stored.flags.writeable
    assert (bucket_keys(stored, bands=25, rows=5) == expected).all()
    assert (bucket_keys(stored[::3], bands=25, rows=5) == expected[::3]).all()
    swapped = signatures.astype(">u4")
    assert (bucket_keys(swapped, bands=25, rows=5) == expected).all()


# Matching bands


@pytest.mark.parametrize(("bands", "rows"), BANDINGS)
def test_bands_match_where_keys_are_equal(bands: int, rows: int) -> None:
    """Slots of few values, so that many bands agree and many differ in one slot."""
    left = random_rows(7, 400, 128, values=2)
    right = left.copy()
    rng = np.random.default_rng(8)
    right[rng.random(right.shape) < 0.7 / rows] ^= 1
    matching = matching_bands(left, right, bands=bands, rows=rows)
    assert matching.dtype == np.bool_
    assert matching.shape == (400, bands)
    assert 0.05 < matching.mean() < 0.95
    equal = bucket_keys(left, bands=bands, rows=rows) == bucket_keys(right, bands=bands, rows=rows)
    assert (matching == equal).all()
    slow = [
        [
            one[band * rows : (band + 1) * rows] == other[band * rows : (band + 1) * rows]
            for band in range(bands)
        ]
        for one, other in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert matching.tolist() == slow


def test_one_slot_decides() -> None:
    left = random_rows(9, 1, 20)
    for slot in range(20):
        right = left.copy()
        right[0, slot] ^= 1 << slot % 16
        matching = matching_bands(left, right, bands=4, rows=5)[0].tolist()
        assert matching == [band != slot // 5 for band in range(4)]


# Slots of one bit

SHAPES = [
    (8, 20, 5), (8, 4, 32), (16, 7, 33), (64, 50, 20), (4, 1, 64), (8, 2, 64), (15, 14, 17),
    (9, 2, 65), (13, 1, 208), (1, 16, 1),
]  # fmt: skip


@pytest.mark.parametrize(("words", "bands", "rows"), SHAPES)
def test_keys_of_bits_are_those_of_the_words_that_hold_them(
    words: int, bands: int, rows: int
) -> None:
    rng = np.random.default_rng(words)
    signatures = rng.integers(0, 2**16, (5, words), dtype=np.uint16)
    keys = bucket_keys(signatures, bands=bands, rows=rows, slot_bits=1)
    for signature, found in zip(signatures.tolist(), keys.tolist(), strict=True):
        slots = [word >> bit & 1 for word in signature for bit in range(16)]
        for band in range(bands):
            of_band = slots[band * rows : (band + 1) * rows]
            assert found[band] == plain.bucket_key(band, of_band, slot_bits=1)


@pytest.mark.parametrize(("words", "bands", "rows"), SHAPES)
def test_a_bit_that_differs_is_in_its_band_alone(words: int, bands: int, rows: int) -> None:
    one = np.random.default_rng(1).integers(0, 2**16, (1, words), dtype=np.uint16)
    for bit in range(16 * words):
        other = one.copy()
        other[0, bit // 16] ^= np.uint16(1 << bit % 16)
        agree = matching_bands(one, other, bands=bands, rows=rows, slot_bits=1)[0].tolist()
        assert agree == [band != bit // rows for band in range(bands)]


# Content


def test_content_keys() -> None:
    rng = random.Random(1)
    hashes = [rng.randbytes(16) for _ in range(200)] + [bytes(16), b"\xff" * 16]
    keys = content_keys(hashes)
    assert keys.dtype == np.int64
    assert keys.tolist() == [plain.content_key(content_hash) for content_hash in hashes]
    assert (band_of(keys) == CONTENT_BAND).all()
    assert keys[-1] == LAST_KEY == (256 << 32) - 1
    assert keys[-2] == FIRST_CONTENT_KEY == 255 << 32


def test_content_keys_use_the_first_32_bits_and_no_others() -> None:
    content_hash = bytes(range(16))
    (key,) = content_keys([content_hash])
    for byte in range(16):
        changed = bytearray(content_hash)
        changed[byte] ^= 0x80
        assert (content_keys([bytes(changed)])[0] != key) == (byte < 4)


def test_no_content() -> None:
    assert content_keys([]).shape == (0,)
    assert content_keys([]).dtype == np.int64
