"""The one merge policy: how many segments there are, and how often a posting is copied."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.storage.orders.freezing import MOST_PARTS, RATIO, due

pytestmark = pytest.mark.fast

Segments = list[tuple[int, list[int]]]
"""Rows of each, and how often each of its pieces was copied."""


def merge(segments: Segments, n_new: int, *, of_add: int = 0, goes_on: bool = False) -> None:
    """Write a segment of new rows as the policy says."""
    n = due([size for size, _ in segments], n_new, of_add=of_add, goes_on=goes_on)
    assert 0 <= n <= (of_add if goes_on else len(segments))
    merged = segments[len(segments) - n :]
    del segments[len(segments) - n :]
    copies = [times + 1 for _, pieces in merged for times in pieces]
    segments.append((n_new + sum(size for size, _ in merged), [*copies, 0]))


def most_copies(n: int) -> float:
    """A posting's segment grows by 1 / RATIO or more each time; and its own add ends once."""
    return 1 + math.log(n, 1 + 1 / RATIO)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=300))
def test_nights_of_any_size_leave_few_segments_and_copy_each_posting_few_times(
    nights: list[int],
) -> None:
    segments: Segments = []
    for n, night in enumerate(nights, 1):
        merge(segments, night)
        sizes = [size for size, _ in segments]
        assert sum(sizes) == sum(nights[:n])
        assert all(size > RATIO * after for size, after in itertools.pairwise(sizes))
        assert len(sizes) <= 1 + math.log(sum(sizes), RATIO)
        assert max(max(pieces) for _, pieces in segments) <= most_copies(sum(sizes))


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(st.integers(1, 10**6), max_size=20),
    commits=st.lists(st.integers(1, 10**5), min_size=1, max_size=20),
    repeats=st.integers(1, 60),
)
def test_readers_of_a_long_add_look_into_few_segments(
    before: list[int], commits: list[int], repeats: int
) -> None:
    segments: Segments = []
    for night in before:
        merge(segments, night)
    n_before, rows = len(segments), sum(before)
    untouched = segments[:]
    for n_new in commits * repeats:
        merge(segments, n_new, of_add=len(segments) - n_before, goes_on=True)
        rows += n_new
        assert segments[:n_before] == untouched, "an add that goes on leaves those before it"
        assert len(segments) - n_before <= MOST_PARTS * (2 + math.log(rows, RATIO))
        assert max(max(pieces) for _, pieces in segments) <= most_copies(rows)
    merge(segments, 1, of_add=len(segments) - n_before)
    rows += 1
    assert len(segments) <= 1 + math.log(rows, RATIO)
    assert max(max(pieces) for _, pieces in segments) <= 1 + most_copies(rows)
    assert sum(size for size, _ in segments) == rows


def test_as_many_postings_each_time() -> None:
    """Equal commits are written once more for each level of 64."""
    segments: Segments = []
    for _ in range(64 * 64 + 64):
        merge(segments, 10_000, of_add=len(segments), goes_on=True)
    assert max(max(pieces) for _, pieces in segments) <= 2
    assert len(segments) <= 2 * MOST_PARTS
