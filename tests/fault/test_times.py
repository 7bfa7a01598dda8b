"""Clocks that jump: what came in stays in order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from lshdb import Document, Index
from tests.clocks import TODAY, set_clock
from tests.conftest import make_text

Make = Callable[..., Index]
JUMPS = (-3600.0, 365 * 86400.0)


@pytest.mark.filterwarnings("ignore::lshdb.LshdbWarning")
@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_jumps_during_an_add_and_between_nights(
    jump: float, make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, clock, rng = make_index(), set_clock(monkeypatch), random.Random(3)

    def documents(night: int, jumps: bool) -> Iterator[tuple[str, str]]:
        for number in range(20):
            if number == 10 and jumps:
                clock.now += timedelta(seconds=jump)
            text = make_text(rng, 30) if number else "the one text that comes every night again"
            yield f"n{night}-{number}", text

    for night in range(6):
        clock.night(night)
        if night == 3:  # the whole of a night with the wrong clock
            clock.now += timedelta(seconds=jump)
        index.add(documents(night, night in (1, 4)), night=f"night-{night}")
        assert index.check() == []
        new = [{pair.key1, pair.key2} for pair in index.pairs(since="last")]
        assert len(new) == night and all(f"n{night}-0" in pair for pair in new)
    clock.night(6)
    assert len(index) == 120
    numbers = [batch.batch_id for batch in index.batches()]
    assert numbers == sorted(numbers)
    for since in ("8h", clock.now - timedelta(hours=8)):
        assert len(list(index.pairs(since=since))) in (0, 5, 9, 15)  # dated in the future, or not
    assert index.expire(TODAY - timedelta(hours=2), dry_run=True).removed == 0
    assert index.check() == []


def test_ages_go_by_hours_and_not_by_the_wall(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of summer time a wall clock shows an hour twice; times are kept in UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        index, clock = make_index(), set_clock(monkeypatch)
        clock.now = TODAY.replace(month=10, day=25, hour=0, minute=30)  # 02:30, and 02:30 again
        index.add([("first", "some words of the first text of this night")])
        clock.now += timedelta(hours=1)
        index.add([("second", "some words of the first text of this night")])
        clock.now += timedelta(minutes=10)
        assert [pair.key2 for pair in index.pairs(since="30m")] == ["second"]
        assert [(batch.n_added) for batch in index.batches()] == [1, 1]
        index.expire(clock.now - timedelta(minutes=30))
        assert list(index) == ["second"]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_years_before_1970_in_kept_fields(make_index: Make) -> None:
    index = make_index()
    fields = [{"year": 1455, "day": "1455-02-23"}, {"year": -44, "day": "-0044-03-15"}, {"year": 0}]
    texts = ["the same words in all of these texts"] * 3
    index.add([Document(str(i), texts[i], fields=fields[i]) for i in range(3)])
    assert index.fields(["0", "1", "2"]) == dict(zip("012", fields, strict=True))
    assert len(list(index.pairs())) == 3
