"""What counts as new: batches, nights, moments and cursors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from lshdb import DamageError, Document, Index, ParameterError

pytestmark = pytest.mark.fast

Make = Callable[..., Index]
EAST = timezone(timedelta(hours=5))
TEXT = "one two three four five six seven eight nine ten eleven twelve number {}"


def text(number: int) -> str:
    return TEXT.format(number)


def keys(index: Index, since: object) -> set[str]:
    """The newer keys of the pairs since then."""
    return {pair.key2 for pair in index.pairs(since=since)}  # type: ignore[arg-type]


@pytest.fixture
def index(make_index: Make) -> Index:
    """Four feeds in two nights, and a feed that belongs to none."""
    index = make_index(threshold=0.5)
    index.add([("a", text(0))], night="monday")
    index.add([("b", text(1))], night="monday")
    index.add([("c", text(2))])
    index.add([("d", text(3))], night="tuesday")
    index.add([("e", text(4))], night="tuesday")
    return index


def test_the_last_add_is_the_whole_night(index: Index) -> None:
    assert keys(index, "last") == {"d", "e"}
    assert {str(key) for (key,) in index.sql("SELECT key FROM new_document")} == {"d", "e"}
    index.add([("e", text(4))], night="tuesday")  # an empty feed
    assert keys(index, "last") == {"d", "e"}
    index.add([("f", text(5))])
    assert keys(index, "last") == {"f"}
    assert {str(key) for (key,) in index.sql("SELECT key FROM new_document")} == {"f"}


def test_batches_name_their_night(index: Index) -> None:
    assert [batch.night for batch in index.batches()] == [
        "monday", "monday", "", "tuesday", "tuesday",
    ]  # fmt: skip


def test_a_cursor_gives_each_pair_once_and_again_until_it_is_advanced(index: Index) -> None:
    index.advance("press", 3)
    for _ in range(2):
        new = index.pairs(since="@press")
        assert {pair.key2 for pair in new} == {"d", "e"}
    index.add([("f", text(5))])  # while the answer was being kept
    assert index.advance("press", new).batch_id == 5
    assert keys(index, "@press") == {"f"}
    assert index.advance("press").batch_id == 6
    assert keys(index, "@press") == set()
    found = index.sql("SELECT cursor_name, key FROM cursor_document")
    assert list(found) == []


@pytest.mark.parametrize("look_up", [0, 8, 10**9])
def test_copies_of_old_and_of_new_documents(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, look_up: int
) -> None:
    """However many signatures are looked up, and however many read in a row."""
    monkeypatch.setattr("lshdb.storage.transactions.snapshot._LOOK_UP", look_up)
    monkeypatch.setattr("lshdb.storage.tables.records.CHUNK", 7)

    def words(number: int) -> str:
        return " ".join(f"w{number}x{place}" for place in range(9))

    index = make_index(threshold=0.9)
    nights = [
        [(f"a{i}", words(i)) for i in range(100)],
        [(f"b{i}", words(i)) for i in range(0, 200, 9)],  # of old ones, and new ones behind
        [(f"c{i}", words(i % 230)) for i in range(190, 270)],  # of each other, too
        [(f"d{i}", words(i)) for i in (0, 5, 269, 300, 301)],
    ]
    for night in nights:
        index.add(night)
    index.remove(["a9", "c200", "d0"])
    night_of = {
        key: (number, text)
        for number, night in enumerate(nights, 1)
        for key, text in night
        if key not in {"a9", "c200", "d0"}
    }
    for since in (1, 2, 3, 4, 5):
        expected = {
            (key1, key2)
            for key1, (night1, text1) in night_of.items()
            for key2, (night2, text2) in night_of.items()
            if key1 < key2 and text1 == text2 and max(night1, night2) >= since
        }
        found = [(pair.key1, pair.key2) for pair in index.pairs(since=since)]
        assert sorted(found) == sorted(expected), since
        assert bool(expected) == (since < 5)


def test_cursors_are_in_sql(index: Index) -> None:
    index.advance("press", 4)
    index.advance("radio", 0)
    found = index.sql("SELECT cursor_name, count(*) FROM cursor_document GROUP BY 1 ORDER BY 1")
    assert list(found) == [("press", 1), ("radio", 5)]


def test_an_answer_of_another_index_moves_nothing(index: Index, make_index: Make) -> None:
    index.advance("press", 1)
    with make_index("other", threshold=0.5) as other:
        other.add([("a", text(0)), ("b", text(1))])
        other.add([("c", text(2))])
        foreign = other.pairs()
        list(foreign)
        with pytest.raises(ParameterError, match="another index"):
            index.advance("press", foreign)
    assert index.cursors()[0].batch_id == 1
    with Index.open(index.path) as again:
        own = again.pairs(since="@press")
        list(own)
        assert index.advance("press", own).batch_id == 5


def test_an_answer_that_knows_no_since_is_named(index: Index) -> None:
    joined = index.join(index)
    list(joined)
    with pytest.raises(ParameterError) as refused:
        index.advance("press", joined)
    assert "join" in str(refused.value.hint)


@pytest.mark.parametrize("question", ["clusters", "neighbors", "dedup"])
def test_other_questions_take_a_cursor_and_move_it(index: Index, question: str) -> None:
    index.advance("press", 4)
    options = {"against": True} if question == "dedup" else {}
    new = getattr(index, question)(since="@press", **options)
    found = list(new)
    if question == "clusters":
        assert [set(one.keys) for one in found] == [set("abcde")]
    elif question == "neighbors":
        assert {one.key for one in found} == {"e"}
    else:
        assert [one.key for one in found if not one.keep] == ["e"]
    index.add([("far", "nothing of this is in any other text of the index at all")])
    assert index.advance("press", new).batch_id == 5
    assert list(index.clusters(since="@press")) == []
    assert list(index.neighbors(since="@press")) == []


def test_edges_that_are_behind_do_not_move_a_cursor_past_them(index: Index) -> None:
    index.update_clusters()
    index.add([("f", text(5))])
    behind = index.clusters(update=False)
    list(behind)
    assert index.advance("press", behind).batch_id == 5


def test_a_cursor_never_moves_back_by_an_answer(index: Index) -> None:
    older = index.pairs()
    list(older)
    index.add([("f", text(5))])
    index.advance("press")
    assert index.advance("press", older).batch_id == 6
    assert index.advance("press", 2).batch_id == 2, "but it does by a number"


def test_an_answer_that_was_not_read_moves_nothing(index: Index) -> None:
    index.advance("press", 1)
    new = index.pairs(since="@press")
    next(new)
    with pytest.raises(ParameterError, match="not read to its end"):
        index.advance("press", new)
    assert index.cursors()[0].batch_id == 1
    list(new)
    assert index.advance("press", new).batch_id == 5
    everything = index.pairs()
    list(everything)
    next(iter(everything))
    new = everything
    with pytest.raises(ParameterError, match="not read to its end"):
        index.advance("press", new)


def test_moments(index: Index) -> None:
    now = datetime.now(UTC)
    assert keys(index, now - timedelta(hours=1)) == {"b", "c", "d", "e"}
    assert keys(index, "1h") == keys(index, "2w") == keys(index, f"{now:%Y-%m-%d}")
    assert keys(index, now + timedelta(hours=1)) == keys(index, "2100-01-01 06:00") == set()
    third = index.batches()[2].started_at
    assert keys(index, third) == {"c", "d", "e"}
    first = datetime.fromisoformat(index.batches()[0].started_at)
    assert keys(index, (first.replace(tzinfo=UTC) - timedelta(hours=1)).astimezone(EAST)) == {
        "b", "c", "d", "e",
    }  # fmt: skip
    assert keys(index, "0001-01-01") == keys(index, "999999h") == {"b", "c", "d", "e"}
    assert keys(index, "9999-12-31T23:00+05:00") == set()


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("@nobody", "there is no cursor 'nobody'; there are press"),
        ("yesterday", "expected a batch's number"),
        ("8 h", "expected a batch's number"),
        ("1000000000w", "expected a batch's number"),
        ("999999w", "since is 999999w, which is before the year 1"),
        ("999999999w", "before the year 1"),
        ("0001-01-01T00:00+05:00", "not within the years 1 to 9999 of UTC"),
        ("9999-12-31T23:00-05:00", "not within the years 1 to 9999 of UTC"),
        (datetime.min.replace(tzinfo=EAST), "not within the years 1 to 9999 of UTC"),
        (0, "there is no batch 0"),
        (6, "there is no batch 6; the index has 5"),
        (True, "there is no batch True"),
        (1.5, "there is no batch 1.5"),
    ],
)
def test_mistakes(index: Index, since: object, words: str) -> None:
    index.advance("press", 0)
    for question in (index.pairs, index.clusters, index.neighbors):
        with pytest.raises(ParameterError, match=words):
            question(since=since)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["", "@press", "a b", "-a", "a" * 101, "a\n", None, 7])
def test_names_that_are_none(index: Index, name: str) -> None:
    for call in (index.advance, index.remove_cursor):
        with pytest.raises(ParameterError, match="expected a name"):
            call(name)  # type: ignore[operator]
    if name:
        with pytest.raises(ParameterError, match="expected a name"):
            index.add([], night=name)


def test_cursors_are_removed(index: Index) -> None:
    index.advance("press", 1)
    assert index.remove_cursor("press") and not index.remove_cursor("press")
    assert index.cursors() == []


@pytest.mark.sqlite("a row is changed behind its back")
def test_what_a_cursor_has_not_seen_survives_a_copy_a_repair_and_compaction(
    index: Index, tmp_path: Path
) -> None:
    index.advance("press", 3)
    index.add([Document("f", text(5), fields={"year": 2020})], night="wednesday")
    index.compact()
    index.copy(tmp_path / "copy.lshdb")
    with closing(sqlite3.connect(index.path / "index.db")) as database:
        database.execute("UPDATE document SET n_chars = 7 WHERE key = 'a'")
        database.commit()
    index.close()
    assert Index.repair(index.path).findings
    for path in (tmp_path / "copy.lshdb", index.path):
        with Index.open(path) as other:
            assert other.check() == []
            assert [(one.name, one.batch_id) for one in other.cursors()] == [("press", 3)]
            assert keys(other, "@press") == {"d", "e", "f"}
            assert keys(other, "last") == {"f"}
            fields = "SELECT key, name, value FROM document_field"
            assert list(other.sql(fields)) == [("f", "year", 2020)]


@pytest.mark.sqlite("a row is changed behind its back")
@pytest.mark.parametrize("table", ["cursor", "night", "kept_field"])
def test_damage_is_found_and_not_used(index: Index, table: str) -> None:
    index.add([Document("f", text(5), fields={"year": 2020})], night="wednesday")
    index.advance("press", 3)
    rows = index.sql(f"SELECT * FROM {table}").rows
    before = list(rows)
    change = {
        "cursor": "UPDATE cursor SET batch_id = 5",
        "night": "UPDATE night SET name = 'tuesday' WHERE name = 'wednesday'",
        "kept_field": """UPDATE kept_field SET fields = '{"year":1020}'""",
    }
    with closing(sqlite3.connect(index.path / "index.db")) as database:
        database.execute(change[table])
        database.commit()
    assert [finding.kind for finding in index.check()] == [table]
    with pytest.raises(DamageError, match=f"table {table} is not as it was written"):
        if table == "kept_field":
            index.add([Document("f", text(5), fields={"year": 2021})])
        else:
            list(index.pairs(since="@press" if table == "cursor" else "last"))
    with closing(sqlite3.connect(index.path / "index.db")) as database:
        database.execute(f"DELETE FROM {table}")
        marks = ", ".join("?" * len(before[0]))
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", before)
        database.commit()
