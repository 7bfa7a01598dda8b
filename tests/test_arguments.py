"""Values of the wrong kind, at every method: refused by name, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    Document,
    Index,
    ParameterError,
    Tokenizer,
    TokenizerError,
    estimate,
    read_documents,
)
from lshdb.errors import InputError

Make = Callable[..., Index]
WEST = timezone(timedelta(hours=-5))


def drained(found: object) -> object:
    return list(found) if isinstance(found, Iterable) else found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bag", "x"), ("bag", 1), ("store_text", 0), ("store_text", None), ("lowercase", 1),
        ("strip_accents", "no"), ("strip_punctuation", 0), ("recall", "x"), ("recall", True),
        ("recall", float("nan")), ("threshold", "0.5"), ("threshold", float("nan")), ("k", 1.5),
        ("num_perm", "128"), ("seed", True), ("stop_tokens", ["a"]), ("scheme", 1),
    ],
)  # fmt: skip
def test_of_an_index(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=name):
        Index.create(tmp_path / "a.lshdb", **{name: value})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        {"threshold": np.float32(0.5), "recall": np.float16(0.5), "num_perm": np.int64(64)},
        {"bands": np.uint8(4), "rows": np.int32(2), "k": np.int8(3), "seed": np.uint64(7)},
        {"metric": "l2", "threshold": np.int64(3), "dim": np.int64(4), "width": np.float32(2.5)},
        {"metric": "hamming", "threshold": np.uint8(3), "dim": np.uint16(40)},
    ],
)
def test_numpys_numbers_are_numbers(given: dict[str, Any], make_index: Make) -> None:
    index = make_index("a", **given)
    plain = {
        name: value if isinstance(value, str) else value.item() for name, value in given.items()
    }
    assert make_index("b", **plain).params == index.params
    with Index.open(index.path) as opened:
        assert opened.params == index.params
    kinds = {type(value) for value in index.params.items().values()}
    assert kinds <= {int, float, bool, str}


@pytest.mark.parametrize(
    ("name", "values", "ask"),
    [
        ("workers", [0, 1.5, "2", True], lambda index, one: index.add([("b", "c")], workers=one)),
        ("max_errors", [-1, 1.5, "2"], lambda index, one: index.add([("b", "c")], max_errors=one)),
        (
            "lock_timeout",
            [-1, "2", float("nan"), None],
            lambda index, one: index.add([("b", "c")], lock_timeout=one),
        ),
        ("top", [0, 1.5, "2", True], lambda index, one: index.query("a", top=one)),
        ("top", [0, 1.5, "2"], lambda index, one: index.neighbors(top=one)),
        ("threshold", [0, "1", 2, True], lambda index, one: index.query("a", threshold=one)),
        ("workers", [0, 1.5], lambda index, one: index.query_many([("a", "b")], workers=one)),
        ("workers", [0, 1.5], lambda index, one: index.pairs(workers=one)),
        ("max_bucket", [1, 2.5, "9"], lambda index, one: index.pairs(max_bucket=one)),
        ("memory", [1, 2.5e9, "9"], lambda index, one: index.pairs(memory=one)),
        ("batch", [0, 1.0, True, "first"], lambda index, one: index.pairs(since=one)),
        ("most", [-1, 2.5, "9", None], lambda index, one: index.buckets(most=one)),
        ("min_size", [1, 2.5, "9"], lambda index, one: index.clusters(min_size=one)),
        ("lock_timeout", [-1, "9"], lambda index, one: index.remove(["a"], lock_timeout=one)),
        (
            "since",
            ["2100-01-01", date(2100, 1, 1), None, 1, datetime.max.replace(tzinfo=WEST)],
            lambda index, one: index.expire(one),
        ),
    ],
)
def test_of_a_question(
    name: str, values: list[Any], ask: Callable[[Index, Any], object], make_index: Make
) -> None:
    index = make_index()
    index.add([("a", "one two three four five six")])
    for value in values:
        with pytest.raises(ParameterError, match=name):
            drained(ask(index, value))
    assert index.stats().documents == 1


def test_a_missing_time_of_pandas_is_no_time(make_index: Make) -> None:
    pandas = pytest.importorskip("pandas")
    index = make_index()
    index.add([("a", "one two three four five six")])
    for ask in (index.expire, lambda time: index.pairs(since=time)):
        with pytest.raises(ParameterError, match="since is NaT, of type NaTType; expected"):
            drained(ask(pandas.NaT))
    assert index.stats().documents == 1


def test_a_table_is_no_list_of_queries(make_index: Make) -> None:
    pandas = pytest.importorskip("pandas")
    index = make_index()
    frame = pandas.DataFrame({"id": ["q"], "text": ["one two three four five six"]})
    with pytest.raises(ParameterError, match="documents is a table"):
        index.query_many(frame)
    pairs = zip(frame["id"], frame["text"], strict=True)
    assert [key for key, _ in index.query_many(pairs)] == ["q"]
    assert [key for key, _ in index.query_many(frame["text"])] == ["0"]


def test_numbers_of_numpy_are_numbers(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three four five six")], workers=np.int64(1))
    assert index.query("one two three four five six", top=np.int32(1), threshold=np.float64(0.5))


@pytest.mark.parametrize("path", ["a\0b", "a\0*", "\0"])
def test_a_nul_in_a_path(path: str, tmp_path: Path) -> None:
    for call in (Index.open, Index.create, Index.upgrade):
        with pytest.raises(ParameterError, match="NUL"):
            call(tmp_path / path)
    with pytest.raises(InputError, match="NUL"):
        read_documents([path])


def test_stop_tokens_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="holds no letters"):
        Index.create(tmp_path / "a.lshdb", unit="url", stop_tokens=["17", "--"])
    with pytest.raises(ParameterError) as caught:
        Index.create(tmp_path / "a.lshdb", stop_tokens=["html"])
    assert caught.value.hint is not None and "--stop-tokens" in caught.value.hint
    with Index.create(tmp_path / "a.lshdb", unit="url", stop_tokens=[]) as index:
        assert index.params.stop_tokens == ""


def test_a_tokenizer_that_is_not_there_is_no_texts_fault(tmp_path: Path) -> None:
    split = Tokenizer(str.split, name="gone", version="1")
    with Index.create(tmp_path / "a.lshdb", tokenizer=split) as index:
        index.add([("a", "one two three")])
    with Index.open(tmp_path / "a.lshdb") as index:
        for ask in (
            lambda: index.add([("b", "four five six")]),
            lambda: list(index.query_many([("q", "one two three")])),
            lambda: index.query("one two three"),
        ):
            with pytest.raises(TokenizerError) as caught:
                ask()
            assert caught.value.message.startswith(
                "the index splits texts with the tokenizer gone 1: no tokenizer 'gone' is installed"
            )


DOCUMENT = Document("1", "a text of six or seven words")


@pytest.fixture
def numbered(make_index: Make) -> Index:
    index = make_index()
    index.add([("1", "one text of its own"), ("2", "another text"), ("12", "a third text")])
    return index


def keys_of(index: Index) -> list[str]:
    return [key for (key,) in index.sql("SELECT key FROM document ORDER BY key").rows]


def test_a_string_is_one_key(numbered: Index) -> None:
    assert numbered.remove("12").removed == 1 and keys_of(numbered) == ["1", "2"]
    assert numbered.remove("21").missing == ["21"] and keys_of(numbered) == ["1", "2"]
    assert numbered.remove(key for key in "1").removed == 1 and keys_of(numbered) == ["2"]


@pytest.mark.parametrize(
    "keys", [b"12", {"1": "2"}, [1], ["1", 2], [b"1"], 1, None, DOCUMENT, [DOCUMENT], [["1"]]]
)
def test_what_is_no_key_removes_nothing(keys: Any, numbered: Index) -> None:
    with pytest.raises(ParameterError, match="key"):
        numbered.remove(keys)
    assert keys_of(numbered) == ["1", "12", "2"]


@pytest.mark.parametrize(
    "documents",
    ["", "text", "ab", b"", b"text", {}, {"k": "text"}, {("k", "text"): 1}, DOCUMENT, 5, None,
     Path("x.jsonl")],
)  # fmt: skip
def test_one_thing_in_place_of_documents(documents: Any, numbered: Index) -> None:
    with pytest.raises(ParameterError, match=r"^documents is "):
        numbered.add(documents)
    with pytest.raises(ParameterError, match=r"^documents is "):
        numbered.query_many(documents)  # at once, and not when its answers are taken
    assert keys_of(numbered) == ["1", "12", "2"] and numbered.stats().batches == 1


def test_queries_are_pairs_or_documents(numbered: Index) -> None:
    wrong: list[Any] = [[("a",)], [(1, "x")], [("a", "b", "c")], [None], [5], [{"a": "b"}]]
    for documents in wrong:
        with pytest.raises(InputError, match="expected"):
            list(numbered.query_many(documents))
    given: list[Any] = [DOCUMENT, ("q", "another text"), ["r", "another text"]]
    answers = numbered.query_many(iter(given))
    assert [(key, len(hits)) for key, hits in answers] == [("1", 0), ("q", 1), ("r", 1)]
    bare: list[Any] = ["another text", ["another", "text", "here"], ("q", "another text")]
    answers = numbered.query_many(bare)
    assert [key for key, _ in answers] == ["0", "1", "q"]
    assert [key for key, _ in answers] == ["0", "1", "q"], "a list can be asked again"


@pytest.mark.parametrize("key", [1, b"1", ["1"], ("1",), {"1"}, 1.0, DOCUMENT])
def test_keys_are_strings(key: Any, numbered: Index) -> None:
    asked: list[Callable[[], object]] = [
        lambda: numbered.query(key=key),
        lambda: numbered.query(key=key, recall=0.9),
        lambda: numbered.show(key),
        lambda: numbered.explain(key, "1"),
        lambda: numbered.explain("1", key),
        lambda: numbered.explain(key, body="text"),
    ]
    for ask in asked:
        with pytest.raises(ParameterError, match="expected a string"):
            ask()


@pytest.mark.parametrize("other", ["x.lshdb", Path("x.lshdb"), None, 5, []])
def test_other_indexes_are_open_ones(other: Any, numbered: Index) -> None:
    with pytest.raises(ParameterError, match="expected an open Index"):
        numbered.merge(other)
    with pytest.raises(ParameterError, match="expected an open Index"):
        numbered.join(other)


@pytest.mark.parametrize("parameters", ["1", "", b"1", 1, {"1"}, iter("1")])
def test_parameters_of_a_statement_are_several(parameters: Any, numbered: Index) -> None:
    with pytest.raises(ParameterError, match=r"^parameters is "):
        numbered.sql("SELECT key FROM document WHERE key = ?", parameters)
    rows = numbered.sql("SELECT key FROM document WHERE key = ?", ["12"]).rows
    assert list(rows) == [("12",)]


@pytest.mark.parametrize("sample", ["texts", b"texts", {"k": "text"}, 5, DOCUMENT, [DOCUMENT]])
def test_a_sample_is_of_bodies(sample: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="sample"):
        Index.create(tmp_path / "a.lshdb", sample=sample)
    with pytest.raises(ParameterError, match="sample"):
        estimate(sample=sample)
    assert not any(tmp_path.iterdir())


def test_what_can_be_read_once_is_read_once(make_index: Make) -> None:
    """A sample has stop tokens looked at a second time, when a generator has nothing left."""
    urls = [f"http://a.org/one{'x' * n}/two{'y' * n}/three" for n in range(60)]
    given: dict[str, Any] = {"unit": "url", "k": 1}
    index = make_index("a", stop_tokens=(token for token in ("one", "two")), sample=urls, **given)
    assert index.params.stop_tokens == "one two"
    sampled = make_index("b", stop_tokens=["one", "two"], sample=iter(urls), **given)
    assert sampled.params == index.params
    assert make_index("c", stop_tokens="one two", **given).params.stop_tokens == "one two"


@pytest.mark.parametrize(
    "paths",
    ["x.jsonl", b"x.jsonl", Path("x.jsonl"), {"x.jsonl": 1}, 5, None, [b"x.jsonl"], [5], [["x"]]],
)
def test_paths_are_several_strings(paths: Any) -> None:
    with pytest.raises(ParameterError, match="path"):
        read_documents(paths)
