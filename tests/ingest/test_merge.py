"""Merging: as if the documents had been added, but for their times, and without signing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import (
    ConflictError,
    DamageError,
    Index,
    ParameterError,
    ParameterMismatchError,
    TextNotStoredError,
    Tokenizer,
)
from tests.answers import answers, lively_index
from tests.conftest import family_corpus, pair_set
from tests.sizes import set_sizes

Make = Callable[..., Index]


def rows(index: Index, statement: str) -> list[tuple[object, ...]]:
    return list(index.sql(statement).rows)


@pytest.fixture
def no_signing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever signs a document fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a document was signed")

    monkeypatch.setattr("lshdb.ingest.ahead.sign_in_threads", fail)
    monkeypatch.setattr("lshdb.ingest.ahead.Ahead.begin", fail)


@pytest.mark.parametrize("store_text", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_an_empty_index_takes_everything_over(
    make_index: Make,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    store_text: bool,
    small: bool,
) -> None:
    index = lively_index(make_index, "a", store_text=store_text)
    into = make_index("into", threshold=0.5, store_text=store_text)
    request.getfixturevalue("no_signing")
    if small:
        set_sizes(monkeypatch, merge_documents=7)
    result = into.merge(index)
    assert result.added == index.stats().documents
    assert len(result.batches) == (-(-result.added // 7) if small else 1)
    assert answers(into, own_numbers=False) == answers(index, own_numbers=False)
    assert into.stats().unused_signatures == 0 < index.stats().unused_signatures
    assert pair_set(into, since="last") == pair_set(index)


def test_several_are_as_if_all_had_been_added(make_index: Make) -> None:
    corpus = family_corpus(3, families=9)
    parts = corpus[:20], corpus[20:45], corpus[40:]
    into, one, two = (make_index(f"i{number}", threshold=0.5) for number in range(3))
    for index, part in zip((into, one, two), parts, strict=True):
        index.add(part)
    whole = make_index("whole", threshold=0.5)
    whole.add(corpus)
    result = into.merge(one, two)
    assert (result.added, result.unchanged) == (len(corpus) - 20, 5)
    given, expected = answers(into, own_numbers=False), answers(whole, own_numbers=False)
    assert {key: shown.body for key, shown in given.pop("shown").items()} == {
        key: shown.body for key, shown in expected.pop("shown").items()
    }
    assert given == expected
    assert into.stats().signatures == whole.stats().signatures
    adds = rows(into, "SELECT add_id, source FROM batch")
    assert adds == [(1, ""), (2, str(one.path)), (2, str(two.path))]


def test_merging_again_changes_nothing(make_index: Make) -> None:
    index = lively_index(make_index, "a")
    into = make_index("into", threshold=0.5)
    into.add(family_corpus(11, families=3))
    into.merge(index)
    tables = ("SELECT * FROM document", "SELECT * FROM content", "SELECT * FROM signature_block")
    before = [rows(into, table) for table in tables]
    result = into.merge(index)
    assert (result.added, result.replaced, result.copies) == (0, 0, 0)
    assert result.unchanged == index.stats().documents
    assert [rows(into, table) for table in tables] == before


@pytest.mark.fast
@pytest.mark.sqlite("in its SQL")
def test_other_bands_give_other_postings(make_index: Make) -> None:
    index = lively_index(make_index, "a")
    into = make_index("into", threshold=0.7, bands=20, rows=6)
    other = make_index("other", threshold=0.7, bands=20, rows=6)
    into.merge(index)
    other.add([(key, index.show(str(key)).body or "") for (key,) in rows(index, KEYS)])
    assert pair_set(into) == pair_set(other)
    assert rows(into, POSTINGS) == rows(other, POSTINGS) != rows(index, POSTINGS)


KEYS = "SELECT key FROM document ORDER BY doc_id"
POSTINGS = (
    "SELECT hex(content_hash), band, bucket FROM document JOIN posting USING (signature_id) "
    "ORDER BY 1, 2"
)


def test_texts_may_be_left_behind_but_not_made_up(make_index: Make) -> None:
    index = lively_index(make_index, "a")
    bare = make_index("bare", threshold=0.5, store_text=False)
    bare.merge(index)
    assert bare.stats().documents == index.stats().documents
    assert rows(bare, "SELECT count(*) FROM content") == [(0,)]
    with pytest.raises(TextNotStoredError, match=r"bare was made with --no-text"):
        make_index("into", threshold=0.5).merge(index, bare)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("on_conflict", "body", "counts"),
    [("replace", "theirs", (1, 1, 1)), ("skip", "ours", (1, 0, 2))],
)
def test_keys_that_both_have(
    make_index: Make, on_conflict: str, body: str, counts: tuple[int, int, int]
) -> None:
    into, index = make_index("into"), make_index("a")
    into.add([("same", "one text in both"), ("key", "ours")])
    index.add([("same", "one text in both"), ("key", "theirs"), ("new", "one more")])
    first = rows(into, "SELECT added_at FROM document_time WHERE key = 'key'")
    times = dict(rows(index, "SELECT key, last_seen_at FROM document_time"))
    result = into.merge(index, on_conflict=on_conflict)
    assert (result.added, result.replaced, result.unchanged) == counts
    assert into.show("key").body == body
    assert rows(into, "SELECT added_at FROM document_time WHERE key = 'key'") == first
    assert dict(rows(into, "SELECT key, last_seen_at FROM document_time")) == times
    assert rows(into, "SELECT added_at FROM document_time WHERE key = 'new'") == [(times["new"],)]
    index.add([("key", "ours")])
    into.add([("key", "ours"), ("same", "one text in both")])
    seen = rows(into, "SELECT last_seen_at FROM document_time WHERE key = 'key'")
    into.merge(index, on_conflict=on_conflict)
    assert rows(into, "SELECT last_seen_at FROM document_time WHERE key = 'key'") == seen


def test_a_conflict_may_be_an_error(make_index: Make) -> None:
    into, index = make_index("into"), make_index("a")
    into.add([("key", "ours")])
    index.add([("new", "one more"), ("key", "theirs")])
    with pytest.raises(ConflictError, match="'key' is in the index already"):
        into.merge(index, on_conflict="error")
    with pytest.raises(ParameterError, match="on_conflict"):
        into.merge(index, on_conflict="whatever")
    assert rows(into, KEYS) == [("key",)]


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "num_perm": 64,
        "scheme": "universal",
        "seed": 2,
        "unit": "char",
        "k": 3,
        "bag": True,
        "lowercase": False,
    }.items(),
)
def test_what_decides_about_signatures_must_be_equal(
    make_index: Make, name: str, value: object
) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(ParameterMismatchError) as caught:
        make_index("into").merge(make_index("a", **given))
    assert caught.value.name == {"lowercase": "normalisation"}.get(name, name)


def test_other_units(make_index: Make, request: pytest.FixtureRequest) -> None:
    """No tokenizer is needed, and URLs stay hosts."""
    words = Tokenizer(str.split, name="words", version="1")
    for number, parameters in enumerate(({"unit": "url"}, {"tokenizer": words, "k": 2})):
        index = make_index(f"a{number}", **parameters)  # type: ignore[arg-type]
        index.add([("a", "http://a.example/some/path/here"), ("b", ["x.example/some/path/here"])])
        made = make_index(f"into{number}", **parameters)  # type: ignore[arg-type]
        with Index.open(made.path) as into:
            into.merge(index)
        assert pair_set(made) == pair_set(index)
        assert made.show("b").body == ["x.example/some/path/here"]


def test_an_index_is_not_merged_into_itself(make_index: Make, tmp_path: Path) -> None:
    index = lively_index(make_index, "a")
    (tmp_path / "link").symlink_to("a")
    with (
        Index.open(tmp_path / "link") as again,
        pytest.raises(ParameterError, match="others are to be merged into"),
    ):
        index.merge(again)
    shutil.copytree(index.path, tmp_path / "copy")
    with Index.open(tmp_path / "copy") as copy:
        assert index.merge(copy).unchanged == index.stats().documents


def test_damage_is_not_taken_over(make_index: Make, tmp_path: Path) -> None:
    """A flipped bit would get a good checksum in the index that takes the row over."""
    index = lively_index(make_index, "a")
    into = make_index("into", threshold=0.5)
    shutil.copytree(index.path, tmp_path / "damaged")
    file = tmp_path / "damaged" / "signatures.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with (
        Index.open(tmp_path / "damaged") as damaged,
        pytest.raises(DamageError, match="rows 0 to"),
    ):
        into.merge(damaged)
    assert into.stats().documents == 0


def test_nothing_of_an_empty_one(make_index: Make) -> None:
    into = make_index("into")
    assert into.merge(make_index("a"), make_index("b")).documents == 0
    assert into.merge().documents == 0


def test_what_is_committed_stays_when_a_merge_ends_early(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, merge_documents=10, commit_postings=0)
    index = lively_index(make_index, "a")
    into = make_index("into", threshold=0.5)

    def interrupt(result: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        into.merge(index, on_commit=interrupt)
    assert into.stats().documents == 10
    assert into.check() == []
    into.merge(index)
    assert answers(into, own_numbers=False) == answers(index, own_numbers=False)


def test_a_clock_that_was_ahead(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in after a merge, or after reindexing, has the time of the clock then."""
    index, into = make_index("a"), make_index("into")
    with monkeypatch.context() as patched:
        for module in ("ingest.pipeline", "storage.tables.records"):
            patched.setattr(f"lshdb.{module}.timestamp", lambda: "2100-01-01 00:00:00.000000")
        index.add([("key", "a text")])
    into.merge(index)
    index.reindex(tmp_path / "new")
    with Index.open(tmp_path / "new") as new:
        for one in (into, new):
            assert one.add([("key", "a text")]).unchanged == 1
            document = one.show("key").document
            assert document.added_at == "2100-01-01 00:00:00.000000" > document.last_seen_at
