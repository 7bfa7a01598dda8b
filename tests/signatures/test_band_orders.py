"""Frozen orders in arrays: the kernel against the reference, and against brute force."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lshdb.kernel import compiled
from lshdb.params.index_params import Cut
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import bucket_keys, content_keys
from tests.without_kernel import reference_find, reference_group, reference_sort

HEADER = 128
kernel = compiled
needs_kernel = pytest.mark.skipif(kernel is None, reason="there is no compiled kernel")
pytestmark = pytest.mark.fast


def some_keys(seed: int, n: int, bands: int, kinds: int) -> NDArray[np.int64]:
    """Keys of n rows: few kinds of buckets, some of which differ in one bit alone."""
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, 2**32, size=kinds, dtype=np.int64)
    pool = np.concatenate([pool, pool ^ 1, pool ^ 2**24, [0, 2**32 - 1]])
    buckets = rng.choice(pool, size=(n, bands + 1))
    return buckets | np.array([*range(bands), 255], dtype=np.int64) << 32


def brute(
    parts: list[NDArray[np.int64]], asked: NDArray[np.int64], limit: int
) -> tuple[list[int], list[int]]:
    rows = np.concatenate(parts)[:limit]
    found = [np.flatnonzero((rows == key).any(axis=1)).tolist() for key in asked.tolist()]
    return [len(one) for one in found], [one for some in found for one in some]


def brute_groups(
    parts: list[NDArray[np.int64]], band: int, first: int, last: int, limit: int, above: int
) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for row, key in enumerate(np.concatenate(parts)[:limit, band].tolist()):
        if first <= key <= last:
            groups.setdefault(key, []).append(row)
    held = [(key, members) for key, members in sorted(groups.items()) if len(members) > above]
    return [
        [key for key, _ in held],
        [len(members) for _, members in held],
        [one for _, members in held for one in members],
    ]


@needs_kernel
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    bands=st.sampled_from([1, 3, 16, 254, 255]),
    kinds=st.integers(1, 500),
)
def test_kernel_and_reference_find_what_brute_force_finds(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int], bands: int, kinds: int
) -> None:
    orders = BandOrders({"bands": bands, "rows": 1, "slot_bits": 32})
    keys = some_keys(seed, sum(sizes), bands, kinds)
    parts = np.split(keys, np.cumsum(sizes)[:-1])
    rng = np.random.default_rng(seed)
    asked = np.unique(rng.choice(keys.reshape(-1), size=50))
    asked = rng.permutation(np.unique(np.concatenate([asked, asked ^ 1, asked ^ 2**55])))
    limit = int(rng.integers(1, len(keys) + 1))
    places: list[tuple[Any, int, int, int]] = []
    summed: list[tuple[Any, int, int, int]] = []
    files: list[tuple[Any, int, int, int]] = []
    path = tmp_path_factory.mktemp("orders") / "planes"
    first = 0
    try:
        for part in parts:
            planes = orders.sort(part)
            assert (planes == reference_sort(part)).all()
            places.append((planes.reshape(-1), len(part), bands + 1, first))
            summed.append((with_sums(orders, planes), *places[-1][1:]))
            path.write_bytes(bytes(HEADER) + summed[-1][0])
            files.append((os.open(path, os.O_RDONLY), *places[-1][1:]))
            path.unlink()
            first += len(part)
        expected = brute(parts, asked, limit)
        bands_asked = {band for band in (0, bands // 2, bands - 1) if band != 255}
        for band in bands_asked:
            base = band << 32
            low, high = np.sort(rng.choice(keys[:, band] & (2**32 - 1), size=2)).tolist()
            for first, last in ((base, base + 2**32 - 1), (base + low, base + high)):
                for above in (0, 1, 3):
                    groups = brute_groups(parts, band, first, last, limit, above)
                    for given in (places, files, summed):
                        found_groups = orders.group(given, first, last, limit, above=above)
                        assert [each.tolist() for each in found_groups] == groups
                    for given in (places, summed):
                        found_groups = reference_group(given, first, last, limit, above=above)
                        assert [each.tolist() for each in found_groups] == groups
        for found in (
            orders.find(places, asked, limit),
            orders.find(files, asked, limit),
            orders.find(summed, asked, limit),
            reference_find(places, asked, limit),
            reference_find(summed, asked, limit),
        ):
            assert (found[0].tolist(), found[1].tolist()) == expected
    finally:
        for file in files:
            os.close(file[0])


def with_sums(orders: BandOrders, planes: NDArray[np.uint32]) -> bytes:
    """Planes as they lie in a file."""
    return planes.tobytes() + orders.sums(planes[:, -1]).tobytes()


@needs_kernel
@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 63, 64, 65, 127, 128, 129, 1000]),
    bit=st.integers(0, 31),
    plane=st.integers(0, 1),
)
def test_a_damaged_entry_is_found_by_whoever_looks_beside_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, bit: int, plane: int
) -> None:
    """By kernel and reference, in memory and in a file, by contents that are there and others."""
    orders, rng = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32}), np.random.default_rng(seed)
    keys = some_keys(seed, n, 2, 2000)
    planes = orders.sort(keys)
    data = bytearray(with_sums(orders, planes))
    place = int(rng.integers(n))
    data[4 * ((plane * 3 + 2) * n + place) + bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("orders") / "order"
    path.write_bytes(bytes(HEADER) + data)
    near = planes[:, 2, place].astype(np.int64)
    key = np.array([255 << 32 | int(near[0])])
    with path.open("rb") as file:
        places = [(file.fileno(), n, 3, 0), (bytes(data), n, 3, 0)]
        for find in (orders.find, reference_find):
            for place in places if find == orders.find else places[1:]:
                with pytest.raises(ValueError, match=r"damaged|names a row"):
                    find([place], key, n)
                for asked in (key + 1, key - 1):  # whose neighbour it may be
                    with contextlib.suppress(ValueError):
                        ids = find([place], asked, n)[1].tolist()
                        assert ids == brute([keys], asked, n)[1]
        # Bands have no sums, and what lies elsewhere in the file is no matter.
        orders.find([(file.fileno(), n, 3, 0)], keys[:, 0], n)


def test_a_row_that_does_not_exist_is_an_error() -> None:
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    keys = some_keys(1, 10, 2, 5)
    planes = orders.sort(keys)
    planes[1, 0] = 10
    places = [(planes.reshape(-1), 10, 3, 0)]
    for find in (orders.find, reference_find):
        with pytest.raises(ValueError, match="names a row"):
            find(places, keys[:, 0], 100)
    for group in (orders.group, reference_group):
        with pytest.raises(ValueError, match="names a row"):
            group(places, 0, 2**32 - 1, 100, above=0)


@needs_kernel
def test_a_file_that_ends_too_early_or_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    keys = some_keys(1, 5000, 2, 5000)
    data = bytes(HEADER) + orders.sort(keys).tobytes()
    path = tmp_path / "planes"
    path.write_bytes(data[: len(data) // 2])
    with open(path, "rb") as file, pytest.raises(ValueError, match="ends too early"):
        orders.find([(file.fileno(), 5000, 3, 0)], keys[:, 1], 5000)
    with open(path, "rb") as file, pytest.raises(ValueError, match="ends too early"):
        orders.group([(file.fileno(), 5000, 3, 0)], 0, 2**32 - 1, 5000, above=1)
    path.write_bytes(data)
    with open(path, "ab") as file, pytest.raises(OSError, match="Bad file descriptor"):
        orders.find([(file.fileno(), 5000, 3, 0)], keys[:, 0], 5000)
    with open(path, "ab") as file, pytest.raises(OSError, match="Bad file descriptor"):
        orders.group([(file.fileno(), 5000, 3, 0)], 0, 2**32 - 1, 5000, above=1)


@needs_kernel
@given(seed=st.integers(0, 2**32), n=st.integers(1, 3000), wild=st.sampled_from([0, 7, 2**32 - 1]))
def test_any_numbers_may_lie_in_an_order(seed: int, n: int, wild: int) -> None:
    """Planes of somebody else: nothing is read outside them, and each id lies in the range."""
    rng = np.random.default_rng(seed)
    planes = rng.integers(0, 2**32, size=(2, 3, n), dtype=np.uint64).astype("<u4")
    planes[1] %= n
    planes[0, 1] = wild
    keys = rng.integers(0, 2**32, size=200, dtype=np.int64) | (
        rng.integers(0, 2, size=200, dtype=np.int64) << 32
    )
    keys[0], keys[1] = (1 << 32) | wild, int(planes[0, 0, n // 2])
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    counts, ids = orders.find([(planes.reshape(-1), n, 3, 5)], keys, 2**40)
    assert counts.sum() == len(ids) and ((ids >= 5) & (ids < n + 5)).all()
    first, last = np.sort(keys[:2] & (2**32 - 1)).tolist()
    groups = orders.group([(planes.reshape(-1), n, 3, 5)] * 2, first, last, 2**40, above=0)
    assert groups[1].sum() == len(groups[2]) <= 2 * n
    assert ((groups[0] >= 0) & (groups[0] <= last)).all(), "of another band"
    assert ((groups[2] >= 5) & (groups[2] < n + 5)).all()


@needs_kernel
@pytest.mark.parametrize(
    "order",
    [
        (np.zeros(11, "<u4"), 2, 3, 0), (np.zeros(12, "<u4"), 2, 1, 0), (-1, 2, 3, 0),
        (np.zeros(12, "<u4"), 2**33, 3, 0), (np.zeros(12, "<u4"), 2, 3, -1), (2**40, 2, 3, 0),
        (np.zeros(12, "<u4"), 2, 3, 2**63 - 1), (np.zeros(12, "<u4"), -2, 3, 0),
    ],
    ids=["short", "one", "descriptor", "rows", "first", "large", "last", "below"],
)  # fmt: skip
def test_an_order_that_cannot_be_is_refused(order: tuple[Any, int, int, int]) -> None:
    keys, counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
    with pytest.raises(ValueError):
        kernel.find_keys([order], keys, 10, counts)


@needs_kernel
def test_lengths_are_checked() -> None:
    keys, planes = np.zeros((4, 3), np.int64), np.zeros((2, 3, 4), "<u4")
    for n_orders, out in ((0, planes), (3, planes[:, :, :3].copy()), (257, planes), (5, planes)):
        with pytest.raises(ValueError):
            kernel.sort_orders(keys, n_orders, out)
    with pytest.raises(ValueError):
        kernel.find_keys([], keys.reshape(-1), 10, np.zeros(11, np.int64))
    with pytest.raises(TypeError):
        kernel.find_keys((), keys.reshape(-1), 10, np.zeros(12, np.int64))
    assert kernel.find_keys([], keys.reshape(-1), 10, np.ones(12, np.int64)) == b""
    for first, last, above in (
        (0, 1 << 32, 1),
        (255 << 32, (256 << 32) - 1, 1),
        (-1, -1, 1),
        (0, 1, -1),
    ):
        with pytest.raises(ValueError):
            kernel.group_keys([], first, last, 10, above)
    assert kernel.group_keys([], 0, 1, 10, 1) == (b"", b"", b"")


@pytest.mark.parametrize("bands", [1, 16, 128, 200])
def test_postings_of_rows_are_in_order_of_key_and_signature(bands: int) -> None:
    rng = np.random.default_rng(bands)
    cut: Cut = {"bands": bands, "rows": 1, "slot_bits": 32}
    rows = rng.integers(0, 5, (60, bands), dtype=np.uint32)  # few kinds, so that keys come twice
    hashes = [bytes(one) for one in rng.integers(0, 256, (60, 16), dtype=np.uint8)]
    orders = BandOrders(cut)
    blocks = orders.postings(orders.sorted_rows(rows, hashes), 7)
    keys, ids = map(np.concatenate, zip(*blocks, strict=True))
    columns = [*bucket_keys(rows, **cut).T, content_keys(hashes)]
    expected = sorted((key, at) for one in columns for at, key in enumerate(one.tolist(), 7))
    assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == expected
