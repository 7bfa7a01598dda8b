"""One query in few calls of the kernel: the same bits as step by step, whoever calls."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.cancel import stop_if_told
from lshdb.kernel import compiled, lookup_tables
from lshdb.kernel.random_numbers import key_list, key_stream
from lshdb.shingling import NORMALISATION, normalise, shingle_hashes
from lshdb.signatures import sign_contents
from tests.without_kernel import reference_agreement, reference_keys

kernel = compiled
NUMBERS = lookup_tables.constants("fss", 128, 1)
ROW = np.zeros(128, dtype=np.uint16)
IDS = np.zeros(1, dtype=np.int64)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(["to", "be", "or", "not", "é", "中"]), max_size=40).map(" ".join),
)


@pytest.mark.parametrize("scheme", ["fss", "universal"])
@settings(max_examples=80, deadline=None)
@given(
    text=TEXTS,
    others=st.lists(TEXTS, max_size=4),
    unit=st.sampled_from([("word", 0), ("char", 1)]),
    k=st.integers(1, 6),
    bag=st.booleans(),
    pieces=st.sampled_from([0, 1, 3]),
)
def test_texts(
    scheme: str, text: str, others: list[str], unit: tuple[str, int], k: int, bag: bool, pieces: int
) -> None:
    text, *others = (normalise(one, NORMALISATION) for one in (text, *others))
    name, number = unit
    how = (number, k, bag)
    numbers = lookup_tables.constants(scheme, 32, 5)
    kernel.use_pieces(pieces)  # small ones: any text is long
    try:
        point, row, keys = kernel.sign_query(
            text, *how, lookup_tables.SCHEMES[scheme], 32, numbers, 5, 6
        )
        shared = kernel.share_with(point, others, *how)
    finally:
        kernel.use_pieces()
    hashes = shingle_hashes(text, unit=name, k=k, bag=bag)
    assert np.array_equal(np.sort(np.frombuffer(point, np.uint64)), hashes)
    if not len(hashes):
        assert (row, keys) == (b"", b"")
        return
    rows, _ = sign_contents([text], unit=name, k=k, bag=bag, scheme=scheme, num_perm=32, seed=5)
    assert row == rows.tobytes() and keys == reference_keys(rows, 5, 6).tobytes()
    sets = [shingle_hashes(other, unit=name, k=k, bag=bag) for other in others]
    assert shared == [(len(np.intersect1d(hashes, one)), len(one)) for one in sets]


@pytest.mark.parametrize("in_memory", [True, False])
def test_rows_in_memory_and_in_a_file(tmp_path: Path, in_memory: bool) -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2, (500, 24)).astype(np.uint16)
    query = rows[17]
    ids = rng.integers(0, 500, 700)
    expected = reference_agreement(np.repeat(query[None], 500, 0), rows, bands=4, rows=6)
    path = tmp_path / "rows"
    path.write_bytes(bytes(100) + rows.tobytes())
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for least in (0, 13, 25):
            source, offset = (rows, 0) if in_memory else (descriptor, 100)
            found = kernel.compare_found(query, ids, least, source, offset, 500, 24, 4, 6, False)
            assert found == [
                (one, expected.equal[one], expected.matched[one])
                for one in sorted(set(ids.tolist()))
                if expected.matched[one] and expected.equal[one] >= least
            ]
            assert bool(found) == (least < 25)
        nothing = ids[:0]
        assert kernel.compare_found(query, nothing, 0, source, offset, 500, 24, 4, 6, False) == []
        for wrong in (-1, 500, 2**62, -(2**63)):
            with pytest.raises(IndexError):
                kernel.compare_found(
                    query, np.array([3, wrong]), 0, source, offset, 500, 24, 4, 6, False
                )
    finally:
        os.close(descriptor)


def test_rows_of_the_most_bits_are_read_from_a_file(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).integers(0, 2**16, (3, 8192), dtype=np.uint16)
    path = tmp_path / "rows"
    path.write_bytes(rows.tobytes())
    with open(path, "rb") as file:
        for source in (file.fileno(), rows):
            arguments = (source, 0, 3, 8192, 2, 65_536, True)
            found = kernel.compare_found(rows[1], np.array([1]), 0, *arguments)
            assert found == [(1, 131_072, 2)]
            with pytest.raises(ValueError, match="out of range"):
                kernel.compare_found(rows[1], np.array([1]), 0, source, 0, 3, 8193, 2, 5, True)


def test_a_file_that_ends_too_early_or_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(128 * 2 * 3 - 1))
    with open(path, "rb") as file:
        arguments = (file.fileno(), 0, 3, 128, 4, 6, False)
        assert len(kernel.compare_found(ROW, np.arange(2), 0, *arguments)) == 2
        with pytest.raises(ValueError, match="ends before a row"):
            kernel.compare_found(ROW, np.arange(3), 0, *arguments)
    with pytest.raises(OSError):
        kernel.compare_found(ROW, np.arange(2), 0, *arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sign_query", ("x", 5, 5, False, 0, 128, NUMBERS, 4, 6)),
        ("sign_query", ("x", 0, 0, False, 0, 128, NUMBERS, 4, 6)),
        ("sign_query", ("x", 0, 5, False, 2, 128, NUMBERS, 4, 6)),
        ("sign_query", ("x", 0, 5, False, 0, 5000, NUMBERS, 4, 6)),
        ("sign_query", ("x", 0, 5, False, 0, 128, NUMBERS[1:], 4, 6)),
        ("sign_query", ("x", 0, 5, False, 0, 128, NUMBERS, 256, 1)),
        ("sign_query", ("x", 0, 5, False, 0, 128, NUMBERS, 4, 33)),
        ("sign_query", ("\ud800", 0, 5, False, 0, 128, NUMBERS, 4, 6)),
        ("sign_query", (b"x", 0, 5, False, 0, 128, NUMBERS, 4, 6)),
        ("compare_found", (ROW[1:], IDS, 0, ROW, 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS.tobytes()[1:], 0, ROW, 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, ROW, 0, 2, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, ROW, 0, -1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, 0, -1, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, 0, 0, 2**62, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, 0, 2**63 - 1, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, -1, 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, 2**40, 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, 2**80, 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, "rows", 0, 1, 128, 4, 6, False)),
        ("compare_found", (ROW, IDS, 0, ROW, 0, 1, 128, 4, 33, False)),
        ("share_with", (b"1234567", ["x"], 0, 5, False)),
        ("share_with", (memoryview(bytes(9))[1:], ["x"], 0, 5, False)),
        ("share_with", (bytes(8), ("x",), 0, 5, False)),
        ("share_with", (bytes(8), ["x", 1], 0, 5, False)),
        ("share_with", (bytes(8), ["x", "\ud800"], 0, 5, False)),
        ("share_with", (bytes(8), ["x"], 9, 5, False)),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        getattr(kernel, name)(*arguments)


def test_any_hashes_may_be_given_as_a_set() -> None:
    """Zero, values that repeat, and many that fall into one place of a table."""
    text = "to be or not to be that is the question"
    hashes = shingle_hashes(text, unit="word", k=5, bag=False)
    crowd = np.arange(1, 4000, dtype=np.uint64)
    for given_ in (np.zeros(3, np.uint64), np.repeat(hashes, 3), np.concatenate([crowd, hashes])):
        [(common, size)] = kernel.share_with(given_, [text], 0, 5, False)
        assert (common, size) == (len(np.intersect1d(given_, hashes)), len(hashes))


class Told(BaseException):
    pass


@pytest.mark.parametrize("name", ["sign", "compare", "share"])
def test_long_work_asks_whether_to_stop(name: str, tmp_path: Path) -> None:
    text = random.Random(1).randbytes(1_500_000).hex()
    numbers = lookup_tables.constants("universal", 4096, 1)
    many = 2_000_000
    with open(tmp_path / "rows", "wb") as file:
        file.truncate(4 * many)
    calls = {
        "sign": lambda: kernel.sign_query(text, 1, 5, False, 1, 4096, numbers, 4, 6),
        "compare": lambda: kernel.compare_found(
            ROW[:1], np.arange(many), 2, rows.fileno(), 0, many, 1, 1, 1, False
        ),
        "share": lambda: kernel.share_with(numbers, [text] * 40, 1, 5, False),
    }

    def told() -> None:
        raise Told

    kernel.hear_with(told)
    try:
        with open(tmp_path / "rows", "rb") as rows, pytest.raises(Told):
            calls[name]()
    finally:
        kernel.hear_with(stop_if_told)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_keys_without_arrays(seed: int) -> None:
    assert key_list(seed, 3, 40) == key_stream(seed, 3, 40).tolist()
