"""Power may go at any call: what was acknowledged is there, and everything fits together."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import os
from collections.abc import Callable

import pytest

from tests.fault.plants import OF_VECTORS, PLANTS
from tests.fault.power_loss import Recording, broken_by
from tests.fault.steps import LIFE, LIVES_FROM_OTHERS, SHORT_LIFE

STATES = 10_000
REWRITTEN = (("create", "add_few"), ("reband", "remove", "compact"))
LIFE_OF_BITS = (("create", "add_batches", "remove"), ("compact", "add_few"))
SHORT_RATE = 0.3
"""Random states a call over the short life: what finds each planted bug, whatever the seed."""


def test_every_state_after_a_power_loss_is_sound(
    record: Callable[..., Recording], is_long: bool
) -> None:
    """In threads, as an add runs on several cores: rows beside SQL, orders and log meanwhile."""
    life = record(workers=2)
    seen, found = _many(life, STATES) if is_long else broken_by(life, 0, 0.015)
    print(f"{len(seen)} distinct states over {len(life.calls)} calls")
    assert found == []
    assert len(seen) >= (STATES if is_long else 60)


def test_an_upgrade_is_done_or_not_after_a_power_loss(upgraded: Recording, is_long: bool) -> None:
    seen, found = _many(upgraded, STATES // 10) if is_long else broken_by(upgraded, 0, 0.05)
    print(f"{len(seen)} distinct states over {len(upgraded.calls)} calls")
    assert found == []
    assert len(seen) >= 10


def test_a_repair_is_done_or_can_be_done_again_after_a_power_loss(
    repaired: Recording, is_long: bool
) -> None:
    seen, found = _many(repaired, STATES // 10) if is_long else broken_by(repaired, 0, 0.05)
    print(f"{len(seen)} distinct states over {len(repaired.calls)} calls")
    assert found == []
    assert len(seen) >= 10


@pytest.mark.parametrize("how", LIVES_FROM_OTHERS)
def test_an_index_made_of_another_is_there_whole_or_not_at_all(
    record: Callable[..., Recording], is_long: bool, how: str
) -> None:
    life = record(LIVES_FROM_OTHERS[how])
    seen, found = _many(life, STATES // 10) if is_long else broken_by(life, 0, 0.1)
    print(f"{len(seen)} distinct states over {len(life.calls)} calls")
    assert found == []
    assert len(seen) >= 10


def _many(recording: Recording, wanted: int) -> tuple[set[bytes], list[str]]:
    """Seed after seed, a process a core, until there are enough distinct states."""
    workers = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    seen: set[bytes] = set()
    found: list[str] = []
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        for first in itertools.count(0, workers):
            tasks = [
                pool.submit(broken_by, recording, seed, 1.0)
                for seed in range(first, first + workers)
            ]
            before = len(seen)
            for task in tasks:
                digests, faults = task.result(3600)
                seen |= digests
                found += faults
            if found or len(seen) >= wanted or len(seen) == before:
                return seen, found


def test_a_short_life_is_sound(record: Callable[..., Recording]) -> None:
    """As thoroughly as the planted bugs are looked for: with one of them, this fails."""
    _, found = broken_by(record(SHORT_LIFE), 0, SHORT_RATE)
    assert found == []


def test_a_short_life_in_which_all_is_rewritten_is_sound(record: Callable[..., Recording]) -> None:
    """New generations and descriptions are there before a commit needs them."""
    _, found = broken_by(record(REWRITTEN), 0, SHORT_RATE)
    assert found == []


@pytest.mark.parametrize("plant", PLANTS)
def test_the_harness_finds_a_planted_bug(record: Callable[..., Recording], plant: str) -> None:
    """The order of writes and syncs is what is tested: breaking it must be seen as damage."""
    _, found = broken_by(record(SHORT_LIFE, (plant,)), 0, SHORT_RATE, enough=1)
    assert found
    assert "signatures.npy" in found[0]


def test_vectors_are_there_with_their_signatures(
    record: Callable[..., Recording], is_long: bool
) -> None:
    """The life of an index with a vector file, generations of which a compaction makes anew."""
    life = record(LIFE if is_long else LIFE_OF_BITS, bits=True)
    seen, found = _many(life, STATES) if is_long else broken_by(life, 0, 0.05)
    print(f"{len(seen)} distinct states over {len(life.calls)} calls")
    assert found == []
    assert len(seen) >= (STATES if is_long else 20)


def test_a_short_life_of_bits_is_sound(record: Callable[..., Recording]) -> None:
    """As :func:`test_a_short_life_is_sound`, for the bugs below."""
    _, found = broken_by(record(SHORT_LIFE, bits=True), 0, SHORT_RATE)
    assert found == []


@pytest.mark.parametrize("plant", OF_VECTORS)
def test_the_harness_finds_a_bug_planted_in_the_vector_file(
    record: Callable[..., Recording], plant: str
) -> None:
    _, found = broken_by(record(SHORT_LIFE, (plant,), bits=True), 0, SHORT_RATE, enough=1)
    assert found
    assert "vectors.npy" in found[0]
