"""A night with the clock ahead, or behind: later nights, ``expire`` and ``--since`` are right."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lshdb import Index, LshdbWarning
from tests.clocks import TODAY, Clock, set_clock
from tests.conftest import family_corpus
from tests.raw import change, rows_of

CORPUS = family_corpus(3, families=12)
NIGHTS = [CORPUS[start::6] for start in range(6)]

Make = Callable[..., Index]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return set_clock(monkeypatch)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "an earlier add began", LshdbWarning)
        yield


def grown(index: Index, clock: Clock, *, wrong: dict[int, float], nights: int = 6) -> None:
    """A night a day; some have a clock that is wrong by so many days."""
    for number in range(nights):
        clock.night(number, hours=24 * wrong.get(number, 0))
        index.add(NIGHTS[number])
    clock.night(nights - 1, hours=1)


def new_keys(index: Index, since: object) -> set[str]:
    return {key for pair in index.pairs(since=since) for key in (pair.key1, pair.key2)}


@pytest.mark.parametrize("wrong", [{2: 400.0}, {2: 400.0, 3: 20.0}, {2: -9000.0}, {}])
def test_later_nights_have_their_own_times(
    make_index: Make, clock: Clock, wrong: dict[int, float]
) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong=wrong)
    starts = [batch.started_at[:10] for batch in index.batches()]
    expected = [TODAY + timedelta(days=n + wrong.get(n, 0)) for n in range(6)]
    assert starts == [f"{time:%Y-%m-%d}" for time in expected]
    before_last = 3 if 3 in wrong else 5  # those ahead count with the one after them
    for hours, number in ((2, 6), (26, before_last)):
        assert new_keys(index, f"{hours}h") == new_keys(index, number)
        assert new_keys(index, clock.now - timedelta(hours=hours)) == new_keys(index, number)
    assert new_keys(index, 6) < new_keys(index, 5) < new_keys(index, 1)


def test_since_counts_a_night_of_the_future_with_the_night_after_it(
    make_index: Make, clock: Clock
) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong={2: 400.0})
    assert new_keys(index, "50h") == new_keys(index, 3)  # from 4 on, and 3 was before it
    assert new_keys(index, "26h") == new_keys(index, 5)
    clock.night(8)
    assert new_keys(index, "2h") == set()
    assert new_keys(index, TODAY + timedelta(days=401)) == set()
    clock.night(2, hours=1)  # as on the morning after, had no night followed
    grown_then = make_index("then", threshold=0.4)
    grown(grown_then, clock, wrong={2: 400.0}, nights=3)
    assert new_keys(grown_then, "2h") == new_keys(grown_then, 3) != set()


def test_expire_takes_all_but_those_of_the_night_itself(make_index: Make, clock: Clock) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong={2: 400.0})
    clock.night(100)
    with pytest.warns(LshdbWarning, match=rf"clock that was ahead, stay: {len(NIGHTS[2])};"):
        removed = index.expire(clock.now - timedelta(days=90)).removed
    assert removed == len(CORPUS) - len(NIGHTS[2])
    index.mend_times()
    assert index.expire(clock.now - timedelta(days=90)).removed == len(NIGHTS[2])
    assert index.stats().documents == 0
    assert index.check() == []


def test_what_comes_in_again_has_the_time_of_the_right_clock(
    make_index: Make, clock: Clock
) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong={2: 400.0}, nights=3)
    key, text = NIGHTS[2][0]
    assert index.show(key).document.last_seen_at > "2027"
    index.add([(key, text), (NIGHTS[2][1][0], "another text of some words altogether")])
    for again in (key, NIGHTS[2][1][0]):
        document = index.show(again).document
        assert document.last_seen_at[:10] == f"{clock.now:%Y-%m-%d}"
        assert document.added_at > "2027"
    assert index.check() == []


def test_an_add_says_so_and_check_names_what_is_dated_wrongly(
    make_index: Make, clock: Clock
) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong={1: 400.0, 2: 400.0}, nights=3)
    with pytest.warns(LshdbWarning, match=r"an earlier add began on 2027-.*--mend-times"):
        index.add(NIGHTS[3])
    notes: list[str] = []
    assert index.check(on_note=notes.append) == []
    n_documents = len(NIGHTS[1]) + len(NIGHTS[2])
    (note,) = [note for note in notes if "later than now" in note]
    assert note.startswith(f"2 batches (2, 3) and {n_documents} documents came in later than now")
    index.mend_times()
    notes.clear()
    assert index.check(on_note=notes.append) == []
    assert not [note for note in notes if "later than now" in note]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LshdbWarning)
        index.add(NIGHTS[4])


@pytest.mark.parametrize("wrong", [{2: 400.0}, {2: 400.0, 3: 300.0}, {5: 400.0}, {0: 9000.0}])
def test_mending_gives_the_latest_possible_times(
    make_index: Make, clock: Clock, wrong: dict[int, float]
) -> None:
    index = make_index(threshold=0.4)
    clock.night(0, hours=24 * wrong.get(0, 0))
    index.advance("m", 0)
    grown(index, clock, wrong=wrong)
    index.update_clusters()
    before = index.batches()
    mended = index.mend_times()
    assert mended.batches == [number + 1 for number in wrong]
    assert mended.documents == sum(len(NIGHTS[number]) for number in wrong)
    after = index.batches()
    starts = [batch.started_at for batch in after]
    assert starts == sorted(starts)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if number not in wrong:
            assert old == new
            continue
        later = [n for n in range(number + 1, 6) if n not in wrong]
        expected = TODAY + timedelta(days=later[0]) if later else clock.now
        assert new.started_at[:16] == f"{expected:%Y-%m-%d %H:%M}"
        assert new.finished_at >= new.started_at
    times = index.sql(
        "SELECT batch_id, min(added_at), max(added_at), min(last_seen_at), max(last_seen_at) "
        "FROM document_time GROUP BY batch_id ORDER BY batch_id"
    ).rows
    assert [tuple(row) for row in times] == [
        (number, *[starts[number - 1]] * 4) for number in range(1, 7)
    ]
    now = f"{clock.now:%Y-%m-%d %H:%M:%S}"
    for table, column in (("state", "created_at"), ("cursor", "advanced_at")):
        assert rows_of(index.path, f"SELECT max({column}) FROM {table}")[0][0] <= now + ".9"
    assert index.check() == []
    assert index.mend_times().batches == []
    for hours, start in ((2, starts[5]), (26, starts[4])):
        assert new_keys(index, f"{hours}h") == new_keys(index, starts.index(start) + 1)


def test_documents_that_a_merge_brought_with_a_later_time(
    make_index: Make, clock: Clock, tmp_path: Path
) -> None:
    """No batch of the index began at that time: the batch that brought them did later."""
    source, index = make_index("source", threshold=0.4), make_index("into", threshold=0.4)
    clock.night(400)
    source.add(NIGHTS[0])
    clock.night(1)
    index.add(NIGHTS[1])
    clock.night(2)
    index.merge(source)
    clock.night(3)
    assert index.mend_times().documents == len(NIGHTS[0])
    document = index.show(NIGHTS[0][0][0]).document
    assert document.added_at == document.last_seen_at == index.batches()[1].started_at
    assert index.check() == []


def test_a_damaged_document_stops_mending_and_nothing_is_changed(
    make_index: Make, clock: Clock
) -> None:
    from lshdb import DamageError

    index = make_index(threshold=0.4)
    grown(index, clock, wrong={2: 400.0})
    doc_id = rows_of(index.path, "SELECT max(doc_id) FROM document WHERE batch_id = 3")[0][0]
    change(index.path, "UPDATE document SET n_chars = n_chars + 1 WHERE doc_id = ?", doc_id)
    before = index.batches()
    with pytest.raises(DamageError):
        index.mend_times()
    assert index.batches() == before
    change(index.path, "UPDATE document SET n_chars = n_chars - 1 WHERE doc_id = ?", doc_id)
    assert index.mend_times().batches == [3]
