"""Frozen orders in arrays: the kernel against the reference, and against brute force."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lshdb.kernel import compiled
from lshdb.params.order_layout import OrderLayout
from lshdb.signatures.band_orders import BandOrders, Place
from tests.without_kernel import (
    reference_find,
    reference_group,
    reference_sort,
    use_reference,
)

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
    orders = BandOrders({"bands": bands, "rows": 1, "slot_bits": 16})
    keys = some_keys(seed, sum(sizes), bands, kinds)
    parts = np.split(keys, np.cumsum(sizes)[:-1])
    rng = np.random.default_rng(seed)
    asked = np.unique(rng.choice(keys.reshape(-1), size=50))
    asked = rng.permutation(np.unique(np.concatenate([asked, asked ^ 1, asked ^ 2**31])))
    limit = int(rng.integers(1, len(keys) + 1))
    seed_of_sums = int(rng.integers(2**63))
    places: list[Place] = []
    files: list[Place] = []
    path = tmp_path_factory.mktemp("orders") / "order"
    first = 0
    try:
        for part in parts:
            planes = orders.sort(part)
            assert (planes == reference_sort(part)).all()
            packed = orders.pack(planes, seed_of_sums)
            with pytest.MonkeyPatch.context() as patch:
                use_reference(patch)
                assert (orders.pack(planes, seed_of_sums) == packed).all()
            places.append((packed, len(part), bands + 1, first, seed_of_sums))
            path.write_bytes(bytes(HEADER) + packed.tobytes())
            files.append((os.open(path, os.O_RDONLY), *places[-1][1:]))
            path.unlink()
            first += len(part)
        expected = brute(parts, asked, limit)
        for band in {band for band in (0, bands // 2, bands - 1) if band != 255}:
            base = band << 32
            low, high = np.sort(rng.choice(keys[:, band] & (2**32 - 1), size=2)).tolist()
            for first, last in ((base, base + 2**32 - 1), (base + low, base + high)):
                for above in (0, 1, 3):
                    groups = brute_groups(parts, band, first, last, limit, above)
                    for group, given in (
                        (orders.group, places), (orders.group, files), (reference_group, places)
                    ):  # fmt: skip
                        found_groups = group(given, first, last, limit, above=above)
                        assert [each.tolist() for each in found_groups] == groups
        for found in (
            orders.find(places, asked, limit),
            orders.find(files, asked, limit),
            reference_find(places, asked, limit),
        ):
            assert (found[0].tolist(), found[1].tolist()) == expected
    finally:
        for file in files:
            os.close(file[0])


@needs_kernel
@pytest.mark.parametrize("n", [16, 65_535, 65_536, 600_000])
def test_cells_are_packed_some_at_a_time_as_all_at_once(n: int) -> None:
    """Of a large order, whose rests have 16 bits, of small ones, whose rows have, and between."""
    orders, rng = BandOrders({"bands": 1, "rows": 1, "slot_bits": 32}), np.random.default_rng(n)
    keys = rng.integers(0, 2**32, (n, 1))
    keys[: n // 4] = keys[0]
    buckets, rows = orders.sort(keys)[:, 0]
    layout = OrderLayout(n, 1)
    whole = orders.pack(np.stack([buckets, rows])[:, np.newaxis], 5)
    assert len(whole) == layout.size
    with pytest.MonkeyPatch.context() as patch:
        use_reference(patch)
        assert (orders.pack(np.stack([buckets, rows])[:, np.newaxis], 5) == whole).all()
    middle = layout.n_cells // 2
    cut = int(np.searchsorted(buckets, middle << layout.rest_bits))
    parts = [
        orders.pack_cells(
            buckets[some], rows[some], layout=layout, order=0, cells=cells, place=place, seed=5
        )
        for some, cells, place in (
            (slice(cut), (0, middle), 0), (slice(cut, n), (middle, layout.n_cells), cut)
        )
    ]  # fmt: skip
    data = [column.tobytes() for columns in zip(*parts, strict=True) for column in columns]
    assert b"".join(data) == whole.tobytes()
    for cells in ((0, middle - 1), (1, layout.n_cells)):
        with pytest.raises(ValueError, match="not of these cells"):
            orders.pack_cells(buckets, rows, layout=layout, order=0, cells=cells, place=0, seed=5)


def test_a_posting_takes_six_and_a_half_bytes_at_a_million() -> None:
    assert OrderLayout(10**6, 17).size / (17 * 10**6) < 6.53
    assert OrderLayout(3, 17).size == 17 * (8 + 3 * 6)
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        assert OrderLayout(n, 1).size < 9 * n


@needs_kernel
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 15, 16, 17, 128, 129, 1000]),
    bit=st.integers(0, 7),
    place=st.floats(0, 1, exclude_max=True),
)
def test_a_flipped_bit_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, bit: int, place: float
) -> None:
    """By kernel and reference, in memory and in a file, in buckets of rows and of contents."""
    orders, rng = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32}), np.random.default_rng(seed)
    keys = some_keys(seed, n, 2, 2000)
    data = bytearray(orders.pack(orders.sort(keys), seed).tobytes())
    data[int(place * len(data))] ^= 1 << bit
    path = tmp_path_factory.mktemp("orders") / "order"
    path.write_bytes(bytes(HEADER) + data)
    asked = np.unique(keys)
    asked = rng.permutation(np.concatenate([asked, asked ^ 1]))[:150]
    failed = 0
    with path.open("rb") as file:
        for source, find in (
            (bytes(data), orders.find), (file.fileno(), orders.find),
            (bytes(data), reference_find), (file.fileno(), reference_find),
        ):  # fmt: skip
            for key in asked.reshape(-1, 1):
                try:
                    counts, ids = find([(source, n, 3, 0, seed)], key, n)
                except ValueError as error:
                    assert "damaged" in str(error)
                    failed += 1
                else:
                    assert (counts.tolist(), ids.tolist()) == brute([keys], key, n)
            for band in range(2):
                group = reference_group if find is reference_find else orders.group
                first, last = band << 32, (band + 1 << 32) - 1
                with contextlib.suppress(ValueError):
                    groups = group([(source, n, 3, 0, seed)], first, last, n, above=0)
                    expected = brute_groups([keys], band, first, last, n, 0)
                    assert [each.tolist() for each in groups] == expected
    assert failed or n > 17, "each cell of a small order is looked at"


@needs_kernel
def test_a_cell_of_another_place_file_or_order_is_an_error() -> None:
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    keys = some_keys(3, 12, 2, 2000)
    packed = orders.pack(orders.sort(keys), 8)
    cells = packed[: 3 * 8].reshape(3, 8)
    postings = packed[3 * 8 :].reshape(3, 12 * 6)
    swapped = np.concatenate([cells[[1, 0, 2]].reshape(-1), postings[[1, 0, 2]].reshape(-1)])
    assert orders.find([(packed, 12, 3, 0, 8)], keys[:, 0], 12)[1].tolist()
    for find in (orders.find, reference_find):
        for place in ((packed, 12, 3, 0, 9), (swapped, 12, 3, 0, 8)):
            with pytest.raises(ValueError, match="damaged"):
                find([place], keys[:1, 0], 12)


@needs_kernel
def test_a_file_that_ends_too_early_or_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 16})
    keys = some_keys(1, 5000, 2, 5000)
    data = bytes(HEADER) + orders.pack(orders.sort(keys)).tobytes()
    path = tmp_path / "order"
    path.write_bytes(data[: len(data) // 2])
    with open(path, "rb") as file, pytest.raises(ValueError, match="ends too early"):
        orders.find([(file.fileno(), 5000, 3, 0, 0)], keys[:, 1], 5000)
    with open(path, "rb") as file, pytest.raises(ValueError, match="ends too early"):
        orders.group([(file.fileno(), 5000, 3, 0, 0)], 1 << 32, (2 << 32) - 1, 5000, above=1)
    path.write_bytes(data)
    with open(path, "ab") as file, pytest.raises(OSError, match="Bad file descriptor"):
        orders.find([(file.fileno(), 5000, 3, 0, 0)], keys[:, 0], 5000)
    with open(path, "ab") as file, pytest.raises(OSError, match="Bad file descriptor"):
        orders.group([(file.fileno(), 5000, 3, 0, 0)], 0, 2**32 - 1, 5000, above=1)


@needs_kernel
@given(seed=st.integers(0, 2**32), n=st.integers(1, 3000), wild=st.sampled_from([0, 7, 2**32 - 1]))
def test_any_bytes_may_lie_in_an_order(seed: int, n: int, wild: int) -> None:
    """Bytes of somebody else: nothing is read outside them, and they are an error."""
    rng = np.random.default_rng(seed)
    layout = OrderLayout(n, 3)
    data = rng.integers(0, 256, layout.size, dtype=np.uint8)
    data[: layout.cell_offset(3)].view("<u4")[::2] %= n + 1
    data[: layout.cell_offset(3)].view("<u4")[rng.integers(0, 6)] = wild
    keys = rng.integers(0, 2**32, size=200) | rng.integers(0, 2, size=200) << 32
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    with pytest.raises(ValueError, match="damaged"):
        orders.find([(data, n, 3, 5, 0)], keys, 2**40)
    with pytest.raises(ValueError, match="damaged"):
        orders.group([(data, n, 3, 5, 0)] * 2, 7, 2**32 - 9, 2**40, above=0)


def test_a_row_that_does_not_exist_is_an_error() -> None:
    """Even where the sum is right."""
    orders = BandOrders({"bands": 2, "rows": 1, "slot_bits": 32})
    keys = some_keys(1, 10, 2, 5)
    planes = orders.sort(keys)
    planes[1, 0] = 10
    places: list[Place] = [(orders.pack(planes), 10, 3, 0, 0)]
    for find in (orders.find, reference_find):
        with pytest.raises(ValueError, match="damaged"):
            find(places, keys[:, 0], 100)
    for group in (orders.group, reference_group):
        with pytest.raises(ValueError, match="damaged"):
            group(places, 0, 2**32 - 1, 100, above=0)


@needs_kernel
@pytest.mark.parametrize(
    "order",
    [
        (np.zeros(59, "u1"), 2, 3, 0, 0), (np.zeros(60, "u1"), 2, 1, 0, 0), (-1, 2, 3, 0, 0),
        (np.zeros(60, "u1"), 2**33, 3, 0, 0), (np.zeros(60, "u1"), 2, 3, -1, 0),
        (2**40, 2, 3, 0, 0), (np.zeros(60, "u1"), 2, 3, 2**63 - 1, 0),
        (np.zeros(60, "u1"), -2, 3, 0, 0),
    ],
    ids=["short", "one", "descriptor", "rows", "first", "large", "last", "below"],
)  # fmt: skip
def test_an_order_that_cannot_be_is_refused(order: Place) -> None:
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
    four, two = np.zeros(4, "<u4"), np.zeros(2, "<u4")
    kernel.pack_cells(four, four, 0, 0, 1, 0, 0, 0, two, np.zeros(24, "u1"))
    for bits, first, end, postings in (
        (0, 0, 1, np.zeros(32, "u1")), (16, 0, 1, np.zeros(32, "u1")),
        (13, 0, 1, np.zeros(24, "u1")), (0, 0, 2, np.zeros(24, "u1")),
        (32, 0, 1, np.zeros(24, "u1")), (0, 1, 0, np.zeros(24, "u1")),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            kernel.pack_cells(four, four, bits, first, end, 0, 0, 0, two, postings)
