"""What an open index is to a program: a container, listings, and arguments that are checked."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    CreateOptions,
    DatabaseError,
    Index,
    IndexChangedError,
    InputError,
    LshdbError,
    ParameterError,
    QueryError,
    TextNotStoredError,
)
from lshdb.params.options import Parameters
from lshdb.storage.transactions import diagnosis
from lshdb.storage.transactions.writer import Writer
from tests.interrupts import every_interrupt

Make = Callable[..., Index]

WORDS = [f"word{number}" for number in range(40)]
TEXTS = [(f"k{number}", " ".join(WORDS[: 30 + number % 5])) for number in range(12)]
FAR = ("far", "nothing of this is in any of the other texts")


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(threshold=0.5)
    index.add([*TEXTS, FAR])
    return index


# A container


def test_an_index_has_a_length_keys_and_a_truth_value(make_index: Make) -> None:
    index = make_index()
    assert (len(index), list(index), bool(index), "a" in index) == (0, [], True, False)
    index.add([*TEXTS, FAR])
    index.add([("k1", "another text"), ("new", "")])
    index.remove(["k3", "k4", "absent"])
    expected = [key for key, _ in TEXTS if key not in ("k1", "k3", "k4")] + ["far"]
    assert sorted(index) == sorted([*expected, "k1", "new"])
    assert len(index) == index.stats().documents == len(list(index))
    assert "k1" in index and "new" in index
    others: list[object] = ["k3", "absent", "", 1, None, b"k1", "\ud800", "k\0"]
    assert not any(one in index for one in others)


def test_keys_are_streamed_in_the_order_in_which_they_came_in(index: Index) -> None:
    keys = iter(index)
    assert next(keys) == "k0"
    index.add([("later", "text")])
    assert [*keys] == [*(key for key, _ in TEXTS[1:]), "far"], "of the state that it began with"
    assert [*index][-1] == "later"


@pytest.mark.sqlite("the signature file is here")
def test_signatures_are_a_read_only_map(index: Index) -> None:
    rows = index.signatures
    assert type(rows) is np.memmap and rows.dtype == np.uint16
    assert rows.shape == (index.stats().signatures, index.params.row_words)
    assert not rows.flags.writeable and rows.mode == "r"
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1
    with index._store.reading() as snapshot:
        assert np.array_equal(rows, snapshot.signatures[:])
    before = rows.copy()
    index.remove(["k0", "far"])
    index.compact()
    assert len(index.signatures) < len(rows)
    index.close()
    assert np.array_equal(rows, before), "for as long as it is held"


@pytest.mark.sqlite("the signature file is here")
def test_signatures_of_an_empty_index(make_index: Make) -> None:
    assert make_index().signatures.shape == (0, 128)


@pytest.mark.parametrize("given", ["news.lshdb", Path("news.lshdb"), None])
def test_an_index_is_opened_and_not_called(given: Any) -> None:
    with pytest.raises(ParameterError, match="opens nothing by itself") as raised:
        Index(given)
    assert "Index.open" in str(raised.value.hint)


# Listings


def listings(index: Index, folder: Path) -> dict[str, Any]:
    file = folder / "a.jsonl"
    file.write_text("".join(f'{{"id": "{key}"}}\n' for key, _ in TEXTS))
    return {
        "pairs": index.pairs(),
        "clusters": index.clusters(),
        "dedup": index.dedup(),
        "neighbors": index.neighbors(),
        "filter": index.filter(file),
        "join": index.join(index),
        "query_many": index.query_many(TEXTS),
    }


def test_listings_are_iterated_as_often_as_you_like(index: Index, tmp_path: Path) -> None:
    for name, found in listings(index, tmp_path).items():
        first = list(found)
        assert first and list(found) == first, name
        assert [one for one, _ in zip(found, first, strict=True)] == first, name
        for _ in found:
            break
        assert list(found) == first, f"{name}: a loop that was left does not count"
        assert next(found) == first[0] and list(found) == first[1:], f"{name}: it goes on"
        assert list(found) == first, name
        begun = iter(found), iter(found)
        assert [*zip(*begun, strict=True)] == [*zip(first, first, strict=True)], name
        assert repr(found).startswith(f"{type(found).__name__}(index="), name
    assert "threshold=0.9" in repr(index.pairs(threshold=0.9))


def test_next_stays_at_the_end(index: Index) -> None:
    pairs = index.pairs()
    found = [next(pairs)]
    with pytest.raises(StopIteration):
        while True:
            found.append(next(pairs))
    with pytest.raises(StopIteration):
        next(pairs)
    assert len(list(pairs)) == len(found)


def test_a_listing_sees_what_was_added_since_it_was_iterated(index: Index) -> None:
    pairs = index.pairs()
    before = len(list(pairs))
    index.add([("copy", TEXTS[0][1])])
    assert len(list(pairs)) > before


def test_what_was_left_out_is_of_the_last_iteration(index: Index) -> None:
    pairs = index.pairs(max_bucket=2)
    numbers = []
    for _ in range(2):
        list(pairs)
        numbers.append((pairs.left_out.buckets, pairs.left_out.pairs, pairs.recall_lost))
    assert numbers[0] == numbers[1] and numbers[0][0] > 0


# Arguments


AT_ONCE: dict[str, Callable[[Index, Path], object]] = {
    "pairs since": lambda index, _: index.pairs(since=99),
    "pairs since a word": lambda index, _: index.pairs(since="first"),
    "clusters linkage": lambda index, _: index.clusters(linkage="single"),  # type: ignore[arg-type]
    "clusters min_size": lambda index, _: index.clusters(min_size=1),
    "clusters lock_timeout": lambda index, _: index.clusters(lock_timeout=-1),
    "clusters without update": lambda index, _: index.clusters(update=False),
    "dedup keep": lambda index, _: index.dedup(keep="best"),
    "dedup field": lambda index, _: index.dedup(keep="field:date"),
    "dedup only": lambda index, _: index.dedup(only="kept"),  # type: ignore[arg-type]
    "dedup since alone": lambda index, _: index.dedup(since=1),
    "dedup since": lambda index, _: index.dedup(against=True, since=99),
    "filter keep": lambda index, path: index.filter(path, keep="field:"),
    "filter of standard input": lambda index, _: index.filter("-", keep="field:date"),
    "filter since": lambda index, path: index.filter(path, against=True, since=99),
    "neighbors top": lambda index, _: index.neighbors(top=0),
    "neighbors without update": lambda index, _: index.neighbors(update=False),
    "join verify": lambda index, _: index.join(index, verify="no"),  # type: ignore[arg-type]
    "join threshold": lambda index, _: index.join(index, threshold=2),
    "query_many top": lambda index, _: index.query_many([], top=0),
    "query_many verify": lambda index, _: index.query_many([], verify="no"),  # type: ignore[arg-type]
    "query_many recall": lambda index, _: index.query_many([], recall=1.5),
    "query_many probe_limit": lambda index, _: index.query_many([], probe_limit=0),
    "query_many nothing wanted": lambda index, _: index.query_many([], top=None, recall=0.9),
    "query_many nearest unverified": lambda index, _: index.query_many(
        [], verify="none", recall=0.9
    ),
    "contract linkage": lambda index, path: index.contract(path, linkage="x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", list(AT_ONCE))
def test_arguments_are_checked_when_a_method_is_called(
    name: str, make_index: Make, tmp_path: Path
) -> None:
    index = make_index()
    index.add(TEXTS)
    with pytest.raises(ParameterError):
        AT_ONCE[name](index, tmp_path / "absent.jsonl")
    assert index.edge_state() is None, "nothing was brought up to date for it"


def test_a_method_that_needs_texts_says_so_at_once(make_index: Make) -> None:
    index = make_index(store_text=False)
    with pytest.raises(TextNotStoredError):
        index.query_many([], verify="exact")
    with pytest.raises(TextNotStoredError):
        index.pairs(verify="exact")


@pytest.mark.parametrize("name", ["clusters", "dedup", "neighbors"])
def test_edges_are_brought_up_to_date_by_the_call_and_iterating_reads(
    name: str, make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index()
    index.add(TEXTS)
    found = getattr(index, name)()
    state = index.edge_state()
    assert state is not None and state.batch_id == 1 and found.state == state
    index.add([("later", TEXTS[0][1])])
    monkeypatch.setattr(Writer, "__enter__", lambda _: pytest.fail("it writes"))
    assert list(found) and list(getattr(index, name)(update=False))
    assert index.edge_state() == state


def test_the_fields_of_creation_options_are_the_arguments_of_create() -> None:
    arguments = inspect.signature(Index.create).parameters
    others = {"path", "sample", "database", "schema", "index_bands", "deferred", "lock_timeout"}
    options = {field.name: field for field in dataclasses.fields(CreateOptions)}
    assert [name for name in arguments if name not in others] == [
        *[name for name in options if name not in ("tokenizer", "store_text")],
        "tokenizer", "store_text",
    ]  # fmt: skip
    for name, field in options.items():
        if name != "tokenizer":  # an object there, and its name and version here
            assert arguments[name].default == field.default, name
            assert arguments[name].annotation == field.type, name
        assert field.metadata["help"]


def test_parameters_by_name_are_the_fields_of_the_options() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(CreateOptions)}
    del fields["tokenizer"]
    named = {name: hint.__forward_arg__ for name, hint in Parameters.__annotations__.items()}
    assert named == fields


def test_creation_options_are_changed_by_replacing() -> None:
    options = CreateOptions(unit="url", stop_tokens=iter(["www", "com"]))
    assert options.stop_tokens == ("www", "com"), "an iterator can be read once"
    params = dataclasses.replace(options, threshold=0.6).params()
    assert (params.threshold, params.stop_tokens) == (0.6, "com www")
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.seed = 2  # type: ignore[misc]


# Distances


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"metric": "l2", "dim": 2, "threshold": 2}, [[0, 0], [0, 1], [0, 1]]),
        ({"metric": "l1", "dim": 2, "threshold": 2}, [[0, 0], [0, 1], [0, 1]]),
        ({"metric": "hamming", "dim": 8, "threshold": 2}, ["00000000", "00000001", "00000001"]),
    ],
)
def test_distances_are_said_as_such(make_index: Make, options: Any, rows: list[Any]) -> None:
    index = make_index(bands=20, rows=1, **options)
    index.add(zip("abc", rows, strict=True))
    found: list[Any] = [*index.query(rows[0]), *index.query(rows[0], recall=0.9)]
    found += [*index.pairs(), *index.join(index), *index.neighbors()]
    found += [one for one in index.dedup() if not one.keep]
    found.append(index.explain("a", "b"))
    assert {one.distance for one in found} == {0.0, 1.0}
    assert all(one.distance == -one.similarity for one in found)
    assert not any(np.signbit(one.distance) for one in found), "0.0, and not -0.0"
    assert all(one.distance is None for one in index.dedup(only="keep"))


def test_similarities_have_no_distance(index: Index) -> None:
    found: list[Any] = [*index.query(TEXTS[0][1]), *index.pairs(), *index.neighbors()]
    found += [*index.dedup(), *index.join(index), index.explain("k0", "k1")]
    assert all(one.distance is None for one in found)


# Statements


def test_rows_of_a_statement_are_iterated_once(index: Index) -> None:
    result = index.sql("SELECT key, doc_id FROM document ORDER BY doc_id LIMIT 2")
    assert result.columns == ("key", "doc_id") and "spent" not in repr(result)
    assert list(result) == [("k0", 1), ("k1", 2)]
    assert "spent" in repr(result)
    with pytest.raises(QueryError, match="have been taken"):
        list(result)


def test_rows_of_a_statement_as_a_table(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    statement = "SELECT key, n_chars, source FROM document WHERE doc_id < ? ORDER BY doc_id"
    table = index.sql(statement, (3,)).to_arrow()
    assert table.column_names == ["key", "n_chars", "source"]
    assert table.column("key").to_pylist() == ["k0", "k1"]
    empty = index.sql(statement, (0,)).to_arrow()
    assert empty.column_names == ["key", "n_chars", "source"] and len(empty) == 0
    assert isinstance(table, pyarrow.Table)
    for name, method in (("pyarrow", "to_arrow"), ("pandas", "to_pandas")):
        monkeypatch.setitem(sys.modules, name, None)
        result = index.sql(statement, (3,))
        with pytest.raises(LshdbError, match=f"{name}, which is not installed") as raised:
            getattr(result, method)()
        assert "pip install" in str(raised.value.hint)
        assert [key for key, _, _ in result] == ["k0", "k1"], "no row was taken"


# Another process bands the index anew


def test_an_index_opens_itself_again_after_a_reband(index: Index) -> None:
    pairs, begun = index.pairs(), iter(index.pairs(workers=1))
    first = next(begun)
    expected = {(one.key1, one.key2) for one in index.pairs()}
    Index.reband(index.path, threshold=0.9)
    assert index.params.threshold == 0.5, "nothing was asked yet"
    assert {(first.key1, first.key2)} | {(one.key1, one.key2) for one in begun} == expected
    assert len(list(pairs)) < len(expected), "asked anew, at the threshold of now"
    assert index.params.threshold == 0.9
    index.add([("copy", TEXTS[0][1])])
    Index.reband(index.path, threshold=0.6)
    index.add([("copy2", TEXTS[0][1])])
    assert index.params.threshold == 0.6 and {"copy", "copy2"} <= set(index)
    assert [hit.key for hit in index.query(key="copy", top=1)] == ["copy2"]
    assert index.check() == []


def test_threads_go_on_through_rebands(index: Index) -> None:
    """A service that was answering: 51 requests failed while an index was banded anew."""
    errors: list[BaseException] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                assert [hit.key for hit in index.query(FAR[1], top=1)] == ["far"]
                assert len(index.clusters(min_size=2).state.method) > 0
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for threshold in (0.6, 0.7, 0.5):
        Index.reband(index.path, threshold=threshold)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def test_an_index_that_changes_again_and_again_is_an_error_of_its_own(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def banded_anew(*_: object) -> None:
        raise IndexChangedError("again")

    monkeypatch.setattr("lshdb.storage.transactions.store.Store.check_banding", banded_anew)
    with pytest.raises(IndexChangedError):
        index.query("x")
    assert issubclass(IndexChangedError, LshdbError)


def test_a_closed_index_is_not_opened_again(index: Index) -> None:
    index.close()
    Index.reband(index.path, threshold=0.9)
    with pytest.raises(LshdbError, match="is closed"):
        index.query("x")


# Threads


@pytest.mark.sqlite("a server is asked once a question, and by all at once")
def test_a_slow_query_holds_up_no_other(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    answers: list[list[Any]] = []
    refusal = type(index._family).refusal

    def slow(family: Any, body: object) -> str | None:
        if body == "slow":
            begun.set()
            assert go_on.wait(30)
        return refusal(family, body)

    monkeypatch.setattr(type(index._family), "refusal", slow)
    thread = threading.Thread(target=lambda: answers.append(index.query("slow")))
    thread.start()
    assert begun.wait(30)
    for _ in range(3):
        assert index.query(FAR[1])[0].key == "far"
    assert not answers
    go_on.set()
    thread.join()
    assert answers == [[]]
    with pytest.raises(ParameterError):
        index.query()
    assert not index._handle._turns.is_taken, "given back, also after an error"


@pytest.mark.sqlite("a server is asked once a question, and by all at once")
def test_an_interrupt_at_every_place_keeps_no_turn(index: Index) -> None:
    """All later questions would wait for it."""
    handle = index._handle
    for interrupt in every_interrupt():
        with interrupt:
            handle.ask_in_turn(lambda store, family: None)
        assert not handle._turns.is_taken, interrupt.place
    assert interrupt.place > 8


def test_threads_get_the_answers_of_one(index: Index) -> None:
    expected = [index.query(text) for _, text in TEXTS]
    found: dict[int, list[Any]] = {}

    def ask(number: int) -> None:
        found[number] = [index.query(text) for _, text in TEXTS for _ in range(3)][::3]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(8))


# What the caller's own iterator raises


class OwnError(Exception):
    """Raised by no library."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [OwnError("x"), ValueError("x"), DatabaseError("x")])
def test_an_error_of_the_callers_passes_through_without_a_look_for_damage(
    index: Index, error: Exception, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_finding", lambda _: pytest.fail("it looks for damage"))

    def queries() -> Iterator[tuple[str, str]]:
        yield from itertools.islice(TEXTS, 3)
        raise error

    answers = index.query_many(queries(), workers=workers)
    assert [next(answers)[0] for _ in range(3)] == ["k0", "k1", "k2"]
    with pytest.raises(type(error)) as raised:
        next(answers)
    assert raised.value is error


def test_an_error_of_a_query_is_still_named(index: Index) -> None:
    with pytest.raises(InputError, match="query '1'"):
        list(index.query_many(["good", "\ud800"]))
