"""Sets that share values with others: by the table, and one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lshdb.kernel import compiled, reference
from lshdb.signatures.sharing import SetTable
from tests.without_kernel import use_reference

Sets = list[set[int]]


def any_sets(seed: int, n: int, values: int) -> Sets:
    """Sets of some of a few values, which lie anywhere; the first is empty."""
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2**64, values, dtype=np.uint64)
    sizes = [0, *rng.integers(1, min(values, 12), n - 1).tolist()]
    return [set(rng.choice(known, size, replace=False).tolist()) for size in sizes]


def arrays(sets: Sets) -> tuple[np.ndarray, np.ndarray]:
    values = [value for one in sets for value in sorted(one)]
    return np.array(values, dtype=np.uint64), np.array([len(one) for one in sets], dtype=np.int64)


def table_of(hashes: np.ndarray, counts: np.ndarray, bits: int) -> tuple[np.ndarray, ...]:
    n = len(hashes)
    table = np.empty(2**bits + 1, np.uint32), np.empty(n, np.uint64), np.empty(n, np.uint32)
    reference.table_sets(hashes, counts, bits, *table)
    return table


def level(one: set[int], other: set[int], *, is_part: bool) -> float:
    common = len(one & other)
    return common / (len(one) if is_part else len(one | other)) if common else 0.0


@pytest.fixture(params=["kernel", "reference"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "reference":
        use_reference(monkeypatch)
    elif compiled is None:
        pytest.skip("no compiler made the kernel")
    return str(request.param)


@pytest.mark.fast
@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("below", [None, 0.5])
@pytest.mark.parametrize(("most", "least"), [(None, 0.0), (1, 0.0), (3, 0.0), (3, 0.25), (60, 0.5)])
def test_the_best_sets_are_found_and_all_as_good_as_the_last(
    way: str, is_part: bool, most: int | None, least: float, below: float | None
) -> None:
    table, asking = any_sets(1, 50, 40), any_sets(2, 30, 40)
    asking[5:8] = table[5:8]
    found = SetTable(*arrays(table)).sharing(
        *arrays(asking), is_part=is_part, most=most, least=least, below=below
    )
    assert (np.diff(found[0]) >= 0).all()
    expected = set()
    for number, one in enumerate(asking):
        levels = [level(one, other, is_part=is_part) for other in table]
        if below is not None:
            levels = [each if each < below else 0.0 for each in levels]
        lowest = sorted(levels)[-most] if most is not None and most < len(levels) else 0.0
        expected |= {
            (number, place, each)
            for place, each in enumerate(levels)
            if each > 0 and each >= max(least, lowest)
        }
    assert len(found[0]) == len(expected)
    assert set(zip(*(column.tolist() for column in found), strict=True)) == expected


@pytest.mark.fast
def test_one_value_in_many_sets_and_values_of_one_bucket(way: str) -> None:
    """All values begin with the same bits, so that only whole values tell them apart."""
    sets = [{7, number} for number in range(8, 2000)]
    places, found, levels = SetTable(*arrays(sets)).sharing(*arrays([{7, 9}, {11}, {5}]), most=2)
    assert places.tolist() == [0] * 1992 + [1]
    assert levels[found == 1].tolist() == [1.0]
    assert sorted(set(levels[:1992].tolist())) == [1 / 3, 1.0]
    assert (found[-1], levels[-1]) == (3, 0.5)


@pytest.mark.fast
def test_a_table_of_nothing_and_nothing_that_asks(way: str) -> None:
    nothing, some = arrays([]), arrays([{1, 2}])
    assert len(SetTable(*nothing).sharing(*some)[0]) == 0
    assert len(SetTable(*some).sharing(*nothing)[0]) == 0
    assert len(SetTable(*arrays([set(), set()])).sharing(*arrays([set()]))[0]) == 0


@pytest.mark.fast
def test_counts_that_do_not_fit_are_refused(way: str) -> None:
    hashes, _ = arrays([{1, 2, 3}])
    for counts in ([2], [4], [3, 1], [-1, 4], []):
        with pytest.raises(ValueError, match=r"counts"):
            SetTable(hashes, np.array(counts, dtype=np.int64))


@pytest.mark.fast
@pytest.mark.parametrize("bits", [1, 4, 9])
def test_the_kernel_makes_the_table_of_the_reference(bits: int) -> None:
    kernel = compiled
    if kernel is None:
        pytest.skip("no compiler made the kernel")
    hashes, counts = arrays(any_sets(3, 60, 90))
    expected = table_of(hashes, counts, bits)
    table = [np.zeros_like(each) for each in expected]
    kernel.table_sets(hashes, counts, bits, *table)
    for each, right in zip(table, expected, strict=True):
        assert np.array_equal(each, right)
    starts, values, _ = table
    for bucket, (start, end) in enumerate(pairwise(starts.tolist())):
        assert ((values[start:end] >> np.uint64(64 - bits)) == bucket).all()


@pytest.mark.fast
@pytest.mark.parametrize("spoilt", ["starts", "owners", "counts", "most", "bits"])
def test_the_kernel_refuses_numbers_that_point_outside(spoilt: str) -> None:
    kernel = compiled
    if kernel is None:
        pytest.skip("no compiler made the kernel")
    hashes, sizes = arrays([{2**63 + 1, 2, 3}, {3, 4}])
    starts, values, owners = table_of(hashes, sizes, 1)
    counts, most, bits = sizes.copy(), 2, 1
    assert kernel.find_sharing(1, starts, values, owners, sizes, hashes, counts, False, 2, 0.0, 9.0)
    if spoilt == "starts":
        starts[1] = 9
    elif spoilt == "owners":
        owners[:] = 2
    elif spoilt == "counts":
        counts[1] = 3
    most = 0 if spoilt == "most" else most
    bits = 0 if spoilt == "bits" else bits
    with pytest.raises(ValueError, match=r"outside|out of range"):
        kernel.find_sharing(
            bits, starts, values, owners, sizes, hashes, counts, False, most, 0.0, 9.0
        )
