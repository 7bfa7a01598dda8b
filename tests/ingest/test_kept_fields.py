"""Fields kept with a document, from the input through every change of the index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import AllRejectedError, Document, Index

pytestmark = pytest.mark.fast

Make = Callable[..., Index]
TEXT = "some words of a text that is long enough to have shingles of its own"


def fields(index: Index) -> dict[str, dict[str, Any]]:
    keys = (key for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id"))
    return {key: index.show(key).fields for key in keys}


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index("a", threshold=0.5)
    index.add(
        [
            Document("a", TEXT, fields={"year": 2020, "tags": ["x", "ü"], "none": None}),
            Document("b", TEXT + " and more", fields={"day": date(2026, 1, 31), "n": np.int64(3)}),
            ("c", "something else"),
            Document("d", "", fields={}),
        ]
    )
    return index


@pytest.mark.sqlite("a column of Postgres has one type")
def test_they_are_shown_as_json_keeps_them(index: Index) -> None:
    assert fields(index) == {
        "a": {"year": 2020, "tags": ["x", "ü"], "none": None},
        "b": {"day": "2026-01-31", "n": 3},
        "c": {},
        "d": {},
    }
    found = index.sql("SELECT key, name, value FROM document_field ORDER BY key, name")
    assert list(found) == [
        ("a", "none", None), ("a", "tags", '["x","ü"]'), ("a", "year", 2020),
        ("b", "day", "2026-01-31"), ("b", "n", 3),
    ]  # fmt: skip


def test_an_unchanged_document_gets_new_fields_and_keeps_those_that_do_not_come(
    index: Index,
) -> None:
    index.add([Document("a", TEXT, fields={"year": 2021}), ("b", TEXT + " and more")])
    assert fields(index)["a"] == {"year": 2021}
    assert fields(index)["b"] == {"day": "2026-01-31", "n": 3}
    assert index.batches()[-1].n_unchanged == 2


def test_a_replaced_document_has_the_fields_it_came_with(index: Index) -> None:
    index.add([("a", TEXT + " but other"), Document("c", "and else", fields={"year": 1})])
    assert fields(index)["a"] == {}
    assert fields(index)["c"] == {"year": 1}


def test_all_windows_of_a_document_have_the_fields_that_it_came_with(make_index: Make) -> None:
    words = [f"w{number}" for number in range(60)]
    index = make_index("p", passages=(20, 10))
    index.add([Document("a", " ".join(words), fields={"year": 1})])
    added = index.add([("a", " ".join([*words[:40], *["other"] * 20]))])
    assert added.unchanged == 3
    assert set(map(str, fields(index).values())) == {"{}"}
    index.add([Document("a", " ".join(words), fields={"year": 2})])
    index.add([("a", " ".join(words))])
    assert set(map(str, fields(index).values())) == {"{'year': 2}"}
    assert index.check() == []


def test_a_document_that_was_cut_has_those_of_its_windows(make_index: Make) -> None:
    index = make_index("p", passages=(20, 10))
    index.add([Document("a", TEXT * 3, fields={"year": 2}), ("b", TEXT)])
    assert index.fields(["a", "b", "none", "a#0"]) == {"a": {"year": 2}, "b": {}}


def test_a_skipped_document_changes_nothing(index: Index) -> None:
    index.add([Document("a", "another text", fields={"year": 1})], on_conflict="skip")
    assert fields(index)["a"]["year"] == 2020


def test_a_removed_document_takes_them_along(index: Index) -> None:
    index.remove(["a"])
    index.add([("a", TEXT)])
    assert fields(index)["a"] == {}


def test_they_go_wherever_documents_go(index: Index, make_index: Make, tmp_path: Path) -> None:
    before = fields(index)
    index.reindex(tmp_path / "other unit", unit="char")
    index.copy(tmp_path / "copy")
    index.export(tmp_path / "files")
    Index.from_export(tmp_path / "files", tmp_path / "imported").close()
    index.compact()
    assert fields(index) == before
    for name in ("other unit", "copy", "imported"):
        with Index.open(tmp_path / name) as other:
            assert fields(other) == before, name
            assert other.check() == []
    into = make_index("into", threshold=0.5)
    into.add([Document("a", "this comes first", fields={"mine": True}), ("z", "last")])
    into.merge(index, on_conflict="skip")
    assert fields(into) == {**before, "a": {"mine": True}, "z": {}}
    into.merge(index)
    assert fields(into) == {**before, "z": {}}


def test_vectors_keep_them_too(make_index: Make, tmp_path: Path) -> None:
    index = make_index("v", metric="cosine", dim=3, threshold=0.9)
    index.add([Document("a", [1.0, 2.0, 3.0], fields={"word": "one"}), ("b", [3.0, 2.0, 1.0])])
    index.reindex(tmp_path / "w", threshold=0.8)
    with Index.open(tmp_path / "w") as other:
        assert fields(other) == fields(index) == {"a": {"word": "one"}, "b": {}}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({1: "a name that is a number"}, "cannot be stored"),
        ({"a": object()}, "cannot be stored"),
        ({"a": "nul \0 inside"}, "hold a NUL"),
        ({"a": ["\\\0"]}, "hold a NUL"),
        ({"a": b"\xff"}, "cannot be stored: JSON has nothing for binary values"),
        ({"a": 10**5_000}, "the fields 'a' cannot be stored"),
    ],
)
def test_fields_that_cannot_be_stored_reject_their_document(
    make_index: Make, wrong: Any, words: str
) -> None:
    index = make_index("x")
    with pytest.raises(AllRejectedError, match=words):
        index.add([Document("a", TEXT, fields=wrong)])


def test_a_backslash_and_digits_are_no_nul(make_index: Make) -> None:
    index = make_index("x")
    index.add([Document("a", TEXT, fields={"a": "\\u0000"})])
    assert fields(index) == {"a": {"a": "\\u0000"}}
