"""``lshdb.pairs`` and ``lshdb.clusters`` of a table answer as an index of its rows does."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import lshdb
from lshdb import Index, InputError, LshdbWarning, ParameterError, UnknownParameterError
from tests.transient.test_same_answers import temporary, words

__all__ = ["temporary"]

ROWS = [{"text": text, "title": key} for key, text in words(120)]
KINDS: dict[str, Any] = {
    "dicts": list,
    "strings": lambda rows: [row["text"] for row in rows],
    "arrow": pyarrow.Table.from_pylist,
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_answers_are_those_of_an_index(kind: str, tmp_path: Path, temporary: Path) -> None:
    table = KINDS[kind](ROWS)
    with Index.create(tmp_path / "index.lshdb", k=3, threshold=0.6) as index:
        index.add((str(number), row["text"]) for number, row in enumerate(ROWS))
        pairs = lshdb.pairs(table, k=3, threshold=0.6)
        assert list(pairs) == list(index.pairs()) != []
        assert list(pairs) == list(index.pairs())  # a listing is asked again
        clusters = lshdb.clusters(table, k=3, threshold=0.6, workers=1)
        assert list(clusters) == list(index.clusters()) != []
    assert list(temporary.iterdir())
    del pairs, clusters
    gc.collect()
    assert not list(temporary.iterdir())


def test_columns_and_rows_that_are_no_texts(temporary: Path) -> None:
    table = [{"a": "a b c", "b": "d e f g"}, {"a": None, "b": None}, {"a": "a b c", "b": "d e f g"}]
    for text in ("b", ["a", "b"]):
        assert [(pair.key1, pair.key2) for pair in lshdb.pairs(table, text=text)] == [("0", "2")]
        assert [cluster.keys for cluster in lshdb.clusters(table, text=text)] == [("0", "2")]
    with pytest.warns(LshdbWarning, match="1 row is not compared: row 1"):
        assert list(lshdb.pairs([{"text": text} for text in ("a b c", b"\xff", "a b c")]))
    for nothing in ([], [{"text": None}]):
        assert list(lshdb.pairs(nothing)) == list(lshdb.clusters(nothing)) == []


def test_what_is_refused_is_what_deduplicate_refuses(temporary: Path) -> None:
    for call in (lshdb.deduplicate, lshdb.pairs, lshdb.clusters):
        with pytest.raises(ParameterError, match="no column 'body'"):
            call([{"text": "a"}], text="body")
        with pytest.raises(InputError, match="expected a text"):
            call([{"text": 7}])
        with pytest.raises(ParameterError, match="table"):
            call(json)
        with pytest.raises(UnknownParameterError, match=f"{call.__name__}.*treshold"):
            call(["a"], treshold=0.5)
