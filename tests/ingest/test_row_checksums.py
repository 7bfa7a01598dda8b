"""Checksums of rows: by columns in the kernel, and row by row in the reference."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb.ingest.batch import row_checksums
from lshdb.kernel import compiled
from lshdb.storage.tables.records import row_checksum
from tests.without_kernel import use_reference

pytestmark = pytest.mark.fast
kernel = compiled
needs_kernel = pytest.mark.skipif(kernel is None, reason="no kernel")

VALUES = st.one_of(
    st.none(),
    st.text(),
    st.binary(max_size=40),
    st.integers(-(2**63), 2**63 - 1),
)


@needs_kernel
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=20))
def test_the_kernel_agrees_with_the_reference(rows: list[tuple[Any, ...]]) -> None:
    columns = tuple(zip(*rows, strict=True))
    assert kernel.row_checksums(columns) == [row_checksum(row) for row in rows]


@needs_kernel
@pytest.mark.parametrize("value", [*map(chr, range(256)), "\u2028", "\ud7ff", "\U0001f600", ""])
def test_every_character_is_written_as_in_the_reference(value: str) -> None:
    assert kernel.row_checksums(((f"a{value}b",), (value,))) == [
        row_checksum([f"a{value}b", value])
    ]


@needs_kernel
def test_lines_of_every_length_fit() -> None:
    """A line grows as it is written: no length may end where its room does."""
    texts = tuple("x" * length for length in range(700))
    escaped = tuple("\x01" * length for length in range(700))
    assert kernel.row_checksums((texts, escaped)) == [
        row_checksum(row) for row in zip(texts, escaped, strict=True)
    ]
    for length in range(300):  # each by itself, so that the room is new
        assert kernel.row_checksums((("x" * length,),)) == [row_checksum(["x" * length])]
        assert kernel.row_checksums(((b"x" * length,),)) == [row_checksum([b"x" * length])]


@needs_kernel
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([(1,)], TypeError),
        ((), TypeError),
        (([1],), TypeError),
        (((1.5,),), TypeError),
        (((True,),), TypeError),
        (((1, 2), (1,)), ValueError),
        (((2**63,),), OverflowError),
        ((("\ud800",),), UnicodeEncodeError),
    ],
)
def test_other_columns_are_refused(columns: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        kernel.row_checksums(columns)


def test_what_the_kernel_refuses_has_the_checksum_of_the_reference() -> None:
    assert row_checksums([[0.25, 2], ["a", "b"]]) == [
        row_checksum([0.25, "a"]),
        row_checksum([2, "b"]),
    ]
    assert row_checksums([[True, 2**63]]) == [row_checksum([True]), row_checksum([2**63])]
    with pytest.raises(ValueError, match="argument 2"):
        row_checksums([[1, 2], [1]])


@pytest.mark.parametrize("has_kernel", [True, False])
def test_rows_have_the_checksum_that_the_format_promises(
    monkeypatch: pytest.MonkeyPatch, has_kernel: bool
) -> None:
    if not has_kernel:
        use_reference(monkeypatch)
    row = b'[1,"a\\"\\u001f\xc3\xbc",null,"00ff",-7]'
    assert row_checksums([[1], ['a"\x1fü'], [None], [b"\x00\xff"], [-7]]) == [zlib.crc32(row)]


def test_an_empty_table_has_no_checksum() -> None:
    assert row_checksums([[], []]) == []


@needs_kernel
def test_long_rows_are_summed_whole() -> None:
    noise = random.Random(1).randbytes(100_001)
    assert kernel.row_checksums(((noise,),)) == [row_checksum([noise])]
