"""``on_conflict="unite"``: an incremental crawl gains evidence about a host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import DamageError, Index, ParameterError, TextNotStoredError
from tests.raw import change
from tests.sizes import set_sizes

Make = Callable[..., Index]

pytestmark = pytest.mark.fast

MONDAY = "http://a.com/1/x\nhttp://a.com/2/y"
TUESDAY = "http://a.com/2/y\nhttp://a.com/0/z"
BOTH = "http://a.com/0/z\nhttp://a.com/1/x\nhttp://a.com/2/y"


def counts(index: Index, *documents: tuple[str, Any]) -> tuple[int, int, int, int]:
    result = index.add(documents, on_conflict="unite")
    return result.added, result.replaced, result.united, result.unchanged


@pytest.mark.parametrize("unit", ["url", "url-host"])
def test_a_later_list_joins_the_stored_one(make_index: Make, unit: str) -> None:
    index = make_index(unit=unit)
    other = ("b.org", "http://b.org/p/q")
    assert counts(index, ("a.com", MONDAY), other) == (2, 0, 0, 0)
    assert counts(index, ("a.com", TUESDAY), other) == (0, 1, 1, 1)
    assert index.texts(["a.com"])["a.com"] == BOTH
    for again in (TUESDAY, MONDAY, BOTH, "http://a.com/1/x\n"):
        assert counts(index, ("a.com", again)) == (0, 0, 0, 1)
    assert index.texts(["a.com"])["a.com"] == BOTH
    at_once = make_index("at-once.lshdb", unit=unit)
    at_once.add([("a.com", BOTH)])
    assert index.show("a.com").document.content_hash == at_once.show("a.com").document.content_hash
    assert index.check() == []


def test_a_list_in_another_order_stays_as_it_is_until_it_grows(make_index: Make) -> None:
    index = make_index(unit="url")
    backwards = "http://a.com/2/y\nhttp://a.com/1/x"
    assert counts(index, ("a.com", backwards)) == (1, 0, 0, 0)
    assert counts(index, ("a.com", MONDAY)) == (0, 0, 0, 1)
    assert index.texts(["a.com"])["a.com"] == backwards
    assert counts(index, ("a.com", TUESDAY)) == (0, 1, 1, 0)
    assert index.texts(["a.com"])["a.com"] == BOTH


def test_lists_that_were_packed_ahead_are_packed_again(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch after one of new documents is worked on as if all of it were new."""
    set_sizes(monkeypatch, batch_documents=4)
    index = make_index(unit="url")
    index.add([("a.com", MONDAY)])
    new = [(f"{number}.org", f"http://{number}.org/x/y") for number in range(12)]
    assert counts(index, *new, ("a.com", TUESDAY)) == (12, 1, 1, 0)
    assert index.texts(["a.com"])["a.com"] == BOTH
    assert index.check() == []


def test_mirrors_are_found_when_enough_is_known(make_index: Make) -> None:
    """Each night brings other pages of the two hosts; only all of them together are alike."""
    index = make_index(unit="url", threshold=0.8)
    pages = [f"/papers/{name}/all" for name in ("ab", "cd", "ef", "gh", "ij", "kl")]
    for number in range(3):
        one, other = pages[number::3], pages[(number + 1) % 3 :: 3]
        index.add(
            [(host, "\n".join(host + page for page in some))
             for host, some in (("one.example", one), ("two.example", other))],
            on_conflict="unite",
        )  # fmt: skip
        found = [(pair.key1, pair.key2, pair.similarity) for pair in index.pairs(since="last")]
        assert found == ([("one.example", "two.example", 1.0)] if number == 2 else [])


def test_lists_and_sets_are_united_too(make_index: Make) -> None:
    index = make_index(unit="url")
    index.add([("a", ["http://a/x/y"]), ("b", {"http://b/x/y"}), ("c", "http://c/x/y")])
    more = {key: f"http://{key}/u/v" for key in "abc"}
    assert counts(index, ("a", more["a"]), ("b", [more["b"]]), ("c", {more["c"]})) == (0, 3, 3, 0)
    assert index.texts(list("abc")) == {
        "a": ["http://a/u/v", "http://a/x/y"],
        "b": ["http://b/u/v", "http://b/x/y"],
        "c": "http://c/u/v\nhttp://c/x/y",
    }
    assert index.check() == []


def test_a_key_that_comes_twice_in_one_add_is_reported(make_index: Make) -> None:
    index = make_index(unit="url")
    index.add([("a.com", MONDAY)])
    twice = [("a.com", TUESDAY), ("a.com", "http://a.com/7/seven")]
    result = index.add(twice, on_conflict="unite")
    assert (result.united, result.rejected) == (1, 1)
    assert index.texts(["a.com"])["a.com"] == BOTH


def test_a_missing_list_is_damage_and_nothing_is_lost(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", unit="url") as index:
        index.add([("a.com", MONDAY), ("b.org", TUESDAY)])
        change(index.path, "DELETE FROM content WHERE doc_id = 1")
        with pytest.raises(DamageError, match=r"the URLs of 'a\.com' are missing"):
            counts(index, ("b.org", MONDAY), ("a.com", TUESDAY))
        assert index.texts(["b.org"])["b.org"] == TUESDAY


def test_other_indexes_refuse_it(make_index: Make) -> None:
    for options, said in (
        ({}, "index has unit word"),
        ({"unit": "url", "metric": "weighted-jaccard"}, "index has metric weighted-jaccard"),
        ({"metric": "cosine", "dim": 2}, "index has metric cosine"),
    ):
        index = make_index(f"{len(said)}.lshdb", **options)
        with pytest.raises(ParameterError, match=said):
            index.add([], on_conflict="unite")
    without = make_index("without.lshdb", unit="url", store_text=False)
    with pytest.raises(TextNotStoredError, match="stores no texts"):
        without.add([("a.com", MONDAY)], on_conflict="unite")
    with pytest.raises(ParameterError, match=r'expected "replace", "skip", "error" or "unite"'):
        without.add([], on_conflict="join")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match='expected "replace", "skip" or "error"'):
        without.merge(without, on_conflict="unite")  # type: ignore[arg-type]
