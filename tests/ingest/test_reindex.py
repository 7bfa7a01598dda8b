"""Reindexing: what an add of the same texts would give, but for times, and all or nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lshdb import (
    Index,
    IndexExistsError,
    ParameterError,
    TextNotStoredError,
    Tokenizer,
    TokenizerError,
)
from lshdb.ingest.reindex import changed_params
from lshdb.shingling import UNITS, URL_UNITS
from tests.answers import answers, lively_index
from tests.chosen import choose_params
from tests.sizes import set_sizes

Make = Callable[..., Index]
URL: dict[str, Any] = {"unit": "url", "stop_tokens": ["x"]}
WORDS = Tokenizer(str.split, name="words", version="1")


def documents(index: Index) -> list[tuple[str, Any]]:
    keys = [str(key) for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
    return [(key, index.show(key).body) for key in keys]


TIMES = (
    "SELECT dated.key, source, dated.added_at, dated.last_seen_at FROM document_time AS dated "
    "JOIN document ON document.doc_id = dated.doc_id ORDER BY dated.doc_id"
)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"threshold": 0.7},
        {"unit": "char", "num_perm": 96},
        {"tokenizer": WORDS, "k": 2},
        {"store_text": False, "seed": 4, "bands": 20, "rows": 4},
        {"unit": "url"},
    ],
)
def test_it_is_what_an_add_would_give(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    index = lively_index(make_index, "a", threshold=0.5)
    expected = make_index("expected", **{"threshold": 0.5, **given})
    expected.add(documents(index))
    set_sizes(monkeypatch, batch_documents=11)
    result = index.reindex(tmp_path / "new", **given)
    assert result.added == index.stats().documents
    with Index.open(tmp_path / "new", tokenizer=given.get("tokenizer")) as new:
        assert new.params == expected.params
        assert list(new.sql(TIMES).rows) == list(index.sql(TIMES).rows)
        found, wanted = answers(new, own_numbers=False), answers(expected, own_numbers=False)
        for one in (found, wanted):
            one["shown"] = {key: (shown.body, shown.copies) for key, shown in one["shown"].items()}
        assert found == wanted
        assert new.stats().unused_signatures == 0
        assert new.stats().uuid != index.stats().uuid
        new.add([("later", "a text that comes in later")])
        added = dict(new.sql("SELECT key, added_at FROM document_time").rows)
        assert all(added["later"] > time for key, time in added.items() if key != "later")
    assert sorted(os.listdir(tmp_path)) == ["a", "expected", "new"]


def test_nothing_given_changes_nothing() -> None:
    for unit in UNITS:
        tokenizer = "words 1" if unit == "tokenizer" else ""
        for lowercase in (None, True, False):
            params = choose_params(
                unit=unit,
                tokenizer=tokenizer,
                lowercase=lowercase,
                strip_accents=True,
                digits="zero",
                bands=7,
                rows=3,
                stop_tokens=["ab", "cd"] if unit in URL_UNITS else None,
            )
            assert changed_params(params, {}) == params


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ({}, {"threshold": 0.6}, {"threshold": 0.6}),
        ({"recall": 0.9}, {"threshold": 0.6}, {"threshold": 0.6, "recall": 0.9}),
        ({"recall": 0.9}, {"recall": 0.95}, {"recall": 0.95}),
        ({"recall": 0.9}, {"bands": 4, "rows": 2}, {"bands": 4, "rows": 2}),
        ({"threshold": 1.0, "bands": 1, "rows": 9}, {"threshold": 0.9}, {"threshold": 0.9}),
        ({"k": 3}, {"unit": "char"}, {"unit": "char"}),
        ({"k": 3}, {"unit": "word"}, {"k": 3}),
        ({"lowercase": False}, {"unit": "byte"}, {"unit": "byte"}),
        ({"digits": "zero"}, {"k": 2}, {"k": 2, "digits": "zero"}),
        (URL, {"k": 1}, {**URL, "k": 1}),
        (URL, {"unit": "word"}, {}),
        ({"tokenizer": "words 1"}, {"unit": "word"}, {}),
        ({"tokenizer": "words 1"}, {"seed": 3}, {"tokenizer": "words 1", "seed": 3}),
    ],
)
def test_what_is_not_given_is_as_it_was(
    before: dict[str, Any], given: dict[str, Any], after: dict[str, Any]
) -> None:
    changed = changed_params(choose_params(**before), given)
    assert changed == choose_params(**after)


def test_refusals(make_index: Make, tmp_path: Path) -> None:
    index = lively_index(make_index, "a")
    bare = make_index("bare", store_text=False)
    with pytest.raises(TextNotStoredError, match="needs the texts"):
        bare.reindex(tmp_path / "new")
    with pytest.raises(ParameterError, match="no parameter 'treshold'"):
        index.reindex(tmp_path / "new", treshold=0.5)
    with pytest.raises(ParameterError, match="go together"):
        index.reindex(tmp_path / "new", bands=5)
    with pytest.raises(ParameterError, match="inside the index"):
        index.reindex(index.path / "new")
    with pytest.raises(IndexExistsError):
        index.reindex(bare.path)
    with pytest.raises(TokenizerError, match="no tokenizer 'none'"):
        index.reindex(tmp_path / "new", tokenizer="none")
    assert sorted(os.listdir(tmp_path)) == ["a", "bare"]


def test_interrupted_there_is_none(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=11)
    index = lively_index(make_index, "a")

    def interrupt(result: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.reindex(
            tmp_path / "new", on_commit=interrupt, database=f"sqlite:///{tmp_path / 'new.db'}"
        )
    assert os.listdir(tmp_path) == ["a"]


def test_the_tokenizer_given_when_opened_is_kept(make_index: Make, tmp_path: Path) -> None:
    index = make_index("a", tokenizer=WORDS, k=2)
    index.add([("one", "some words of a text"), ("other", "some  words of a text")])
    index.reindex(tmp_path / "new", threshold=0.9)
    with Index.open(tmp_path / "new", tokenizer=WORDS) as new:
        assert new.query("some words of a text")[0].similarity == 1.0
    with Index.open(index.path) as unnamed, pytest.raises(TokenizerError, match="'words'"):
        unnamed.reindex(tmp_path / "other")


def test_an_empty_index(make_index: Make, tmp_path: Path) -> None:
    assert make_index("a").reindex(tmp_path / "new", unit="char").documents == 0
    with Index.open(tmp_path / "new") as new:
        assert (new.params.unit, new.stats().documents) == ("char", 0)


L2: dict[str, Any] = {"metric": "l2", "threshold": 2.0, "dim": 6}
L1: dict[str, Any] = {**L2, "metric": "l1"}


@pytest.mark.parametrize(
    ("before", "given"),
    [
        (L2, {"threshold": 30.0}),
        (L2, {"recall": 0.9, "width": 8.0}),
        (L1, {"num_perm": 4000, "threshold": 3.0}),
        (L1, {"metric": "l2", "threshold": 3.0}),
        ({**L1, "scheme": "unary", "width": 200}, {"threshold": 20.0}),
        ({**L2, "metric": "cosine", "threshold": 0.95, "num_perm": 4096}, {"recall": 0.5}),
    ],
)
def test_slots_and_width_of_vectors_go_with_the_bands(
    make_index: Make, tmp_path: Path, before: dict[str, Any], given: dict[str, Any]
) -> None:
    rng = random.Random(3)
    bodies = [[float(rng.randrange(200)) for _ in range(6)] for _ in range(80)]
    index = make_index("a", **before)
    index.add((str(number), body) for number, body in enumerate(bodies))
    index.reindex(tmp_path / "new", **given)
    index.reindex(tmp_path / "same", seed=9)
    expected = make_index("expected", **{**before, "num_perm": None, **given, "sample": bodies})
    assert expected.params.num_perm != index.params.num_perm
    with Index.open(tmp_path / "new") as new, Index.open(tmp_path / "same") as same:
        assert new.params == expected.params
        assert same.params == replace(index.params, seed=9)
