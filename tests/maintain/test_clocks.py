"""A night with the clock ahead, or behind: later nights, ``expire`` and ``--since`` are right."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lshdb import Index, LshdbWarning
from lshdb.storage.tables.records import as_timestamp, possible_times
from tests.answers import answers
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


OUT_OF_ORDER = [
    ({2: -9000.0}, [3]),
    ({5: -9000.0}, [6]),
    ({3: -2.5, 4: -2.5}, [4, 5]),
    ({1: 2.5}, [2]),
    ({2: 400.0, 3: -9000.0}, [3, 4]),
]
"""Days by which the clocks of nights were wrong, and the batches whose times are."""


@pytest.mark.parametrize(("wrong", "batches"), OUT_OF_ORDER)
def test_a_time_that_is_out_of_order(
    make_index: Make, clock: Clock, wrong: dict[int, float], batches: list[int]
) -> None:
    """What came in then does not expire before its time, and is new until the night after it."""
    index = make_index(threshold=0.4)
    grown(index, clock, wrong=wrong)
    last_right = max({*range(1, 6)} - {*batches})
    assert new_keys(index, "2h") == new_keys(index, last_right + 1)
    notes: list[str] = []
    assert index.check(on_note=notes.append) == []
    assert [
        note.split(" began, by the time")[0] for note in notes if "a clock was wrong" in note
    ] == [
        f"{len(names)} batch{'es' * (len(names) > 1)} ({', '.join(names)})"
        for names in [[str(n) for n in batches if wrong[n - 1] < 100]]
    ]
    everything = clock.now + timedelta(hours=1)
    n_wrong = sum(len(NIGHTS[number]) for number in wrong)
    with pytest.warns(LshdbWarning, match="--mend-times dates them"):
        assert index.expire(everything, dry_run=True).removed == len(CORPUS) - n_wrong
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LshdbWarning)
        assert index.expire(TODAY + timedelta(hours=1)).removed == len(NIGHTS[0])
    assert index.mend_times().batches == batches
    starts = [batch.started_at for batch in index.batches()][:6]
    assert starts == sorted(starts) and starts[-1] <= f"{clock.now:%Y-%m-%d %H:%M:%S.%f}"
    assert index.check() == [] and index.mend_times().batches == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", LshdbWarning)
        assert index.expire(everything).removed == len(CORPUS) - len(NIGHTS[0])


def test_the_fewest_times_are_wrong() -> None:
    """As a search through all ways to leave some out finds them."""
    now, rng = TODAY + timedelta(days=9), random.Random(1)

    def ascends(moments: Iterable[datetime]) -> bool:
        return all(first <= second for first, second in itertools.pairwise(moments))

    for _ in range(200):
        moments = [TODAY + timedelta(days=rng.randrange(12)) for _ in range(rng.randrange(8))]
        possible = possible_times([as_timestamp(moment) for moment in moments], as_timestamp(now))
        right = [moment for place, moment in enumerate(moments) if place not in possible]
        assert ascends(right) and all(moment <= now for moment in right)
        candidates = [moment for moment in moments if moment <= now]
        most = max(
            n
            for n in range(len(candidates) + 1)
            if any(map(ascends, itertools.combinations(candidates, n)))
        )
        assert len(right) == most
        mended = [possible.get(place, as_timestamp(at)) for place, at in enumerate(moments)]
        assert mended == sorted(mended) and possible_times(mended, as_timestamp(now)) == {}


def test_clocks_of_hosts_that_differ_by_minutes_are_right() -> None:
    starts = [as_timestamp(TODAY + timedelta(minutes=minute)) for minute in (4, 0, 5, 3, 9)]
    assert possible_times(starts, as_timestamp(TODAY + timedelta(minutes=6))) == {}


def merge(index: Index, path: Path) -> None:
    with Index.create(path, threshold=0.4) as merged:
        merged.merge(index)


def export_and_import(index: Index, path: Path) -> None:
    index.export(path.with_suffix(".export"))
    Index.from_export(path.with_suffix(".export"), path).close()


TIMES = ("batches", "shown")
"""Answers that say when something came in."""
WAYS: dict[str, Callable[[Index, Path], object]] = {
    "copy": lambda index, path: index.copy(path),
    "merge": merge,
    "reindex": lambda index, path: index.reindex(path, k=4),
    "import": export_and_import,
}


@pytest.mark.parametrize("way", WAYS)
def test_wrong_times_can_be_mended_in_what_is_made_of_an_index(
    make_index: Make, clock: Clock, tmp_path: Path, way: str
) -> None:
    index = make_index(threshold=0.4)
    grown(index, clock, wrong={1: -9000.0, 5: 400.0})
    path = tmp_path / "made.lshdb"
    WAYS[way](index, path)
    with Index.open(path) as made:
        made.mend_times()
        with warnings.catch_warnings():
            warnings.simplefilter("error", LshdbWarning)
            made.expire(clock.now - timedelta(days=3.5))
        assert {*NIGHTS[5]} & {*made.texts(list(made)).items()} == {*NIGHTS[5]}
        assert made.check() == []


@pytest.mark.filterwarnings("ignore:documents that are dated later")
def test_each_question_while_the_newest_batch_lies_in_the_future(
    make_index: Make, clock: Clock, tmp_path: Path
) -> None:
    """All but ages is as it would be with the right clock."""
    asked: list[dict[str, object]] = []
    nights: dict[str, dict[int, float]] = {"right": {}, "ahead": {5: 400.0}}
    for name, wrong in nights.items():
        index = make_index(name, threshold=0.4)
        clock.night(0)
        index.add(NIGHTS[0])
        index.advance("m")
        grown(index, clock, wrong=wrong)
        page = tmp_path / f"{name}.html"
        index.report(page)
        asked.append(
            {
                **{asks: said for asks, said in answers(index).items() if asks not in TIMES},
                "last": new_keys(index, "last"),
                "cursor": new_keys(index, "@m"),
                "8h": new_keys(index, "8h"),
                "dedup": list(index.dedup(keep="last")),
            }
        )
        assert page.stat().st_size > 10_000
        assert index.expire(clock.now - timedelta(hours=2), dry_run=True).removed == len(
            {key for night in NIGHTS[:5] for key, _ in night}
        )
    assert asked[0] == asked[1]


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
