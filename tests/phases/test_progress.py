"""on_progress: which phases long calls tell, what they count, and how they end early."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lshdb
from lshdb import Index, ParameterError
from lshdb.phases.phase import Phase, counting, telling
from tests.golden.test_indexes import FORMAT_1, unpack

Make = Callable[..., Index]
Calls = list[tuple[int, int | None, str]]
WORDS = ["the", "same", "words", "in", "all", "of", "them", "but", "for", "the", "last", "one"]
TEXTS = [(f"k{i}", " ".join([*WORDS[i % 3 :], str(i)])) for i in range(40)]


@pytest.fixture(autouse=True)
def _at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)


def heard(work: Callable[..., Any]) -> Calls:
    """Every call of a function that a method got."""
    calls: Calls = []
    answer = work(on_progress=lambda *call: calls.append(call))
    if isinstance(answer, Iterator):
        list(answer)
    return calls


def phases(calls: Calls) -> list[tuple[str, int | None]]:
    """The phases of some calls, in order, each with its total; they must count up to it."""
    ends: list[tuple[str, int | None]] = []
    before: tuple[int, int | None, str] = (0, 0, "")
    for n_done, total, unit in calls:
        is_new = unit != before[2] or n_done < before[0]
        assert n_done == 0 if is_new else total in (before[1], n_done), (before, n_done, total)
        if is_new:
            ends.append((unit, None))
        ends[-1] = (unit, total)
        before = n_done, total, unit
        assert total is None or n_done <= total
    return ends


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index("a", threshold=0.5)
    index.add(TEXTS)
    return index


WORK: dict[str, Callable[[Index, Path], tuple[Callable[..., Any], list[str]]]] = {
    "pairs": lambda index, _: (index.pairs, ["postings", "pairs"]),
    "containment": lambda index, _: (
        lambda **how: index.pairs(measure="containment", **how), ["texts"],
    ),
    "clusters": lambda index, _: (index.clusters, ["postings", "pairs", "clusters"]),
    "update_clusters": lambda index, _: (index.update_clusters, ["postings", "pairs"]),
    "dedup": lambda index, _: (index.dedup, ["postings", "pairs", "documents"]),
    "neighbors": lambda index, _: (index.neighbors, ["postings", "pairs", "signatures"]),
    "nearest": lambda index, _: (lambda **how: index.neighbors(recall=1, **how), ["texts"]),
    "query_many": lambda index, _: (lambda **how: index.query_many(TEXTS, **how), ["queries"]),
    "join": lambda index, _: (lambda **how: index.join(index, **how), ["postings"]),
    "recall": lambda index, _: (index.recall, ["documents", "postings"]),
    "advise": lambda index, _: (
        lambda **how: index.advise(aim="exact-copies", sample=10, **how), ["documents"],
    ),
    "check": lambda index, _: (index.check, ["blocks of signatures", "signatures", "documents"]),
    "copy": lambda index, path: (lambda **how: index.copy(path / "b", **how), ["bytes"]),
    "reindex": lambda index, path: (
        lambda **how: index.reindex(path / "b", k=2, **how), ["documents"],
    ),
    "export": lambda index, path: (
        lambda **how: index.export(path / "b", **how), ["documents", "signatures", "postings"],
    ),
    "remove": lambda index, _: (lambda **how: index.remove(["k1", "k2"], **how), ["documents"]),
    "report": lambda index, path: (
        lambda **how: index.report(path / "b.html", sample=0, **how), ["clusters"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORK)
def test_a_call_tells_its_phases(index: Index, tmp_path: Path, name: str) -> None:
    work, units = WORK[name](index, tmp_path)
    told = phases(heard(work))
    assert [unit for unit, _ in told if unit in units][-len(units) :] == units
    assert all(total for _, total in told), "every phase ends with its total"


class StoppedError(OSError):
    """What a caller's function raises; it must not be taken for the disk's."""


@pytest.mark.parametrize("name", WORK)
def test_an_error_ends_the_call(index: Index, tmp_path: Path, name: str) -> None:
    work, units = WORK[name](index, tmp_path)
    calls: Calls = []

    def stop(*call: Any) -> None:
        calls.append(call)
        if call[2] == units[-1]:
            raise StoppedError

    with pytest.raises(StoppedError):
        answer = work(on_progress=stop)
        list(answer if isinstance(answer, Iterator) else ())
    n_calls = len(calls)
    assert len(index) == 40 and index.check() == []
    assert len(calls) == n_calls, "nobody hears what comes after it"
    assert not (tmp_path / "b").exists() and not (tmp_path / "b.html").exists()


def test_an_add_counts_what_is_stored(make_index: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"id": key, "text": text}) for key, text in TEXTS]
    path.write_text("\n".join(lines))
    index = make_index("a")
    calls: Calls = []
    stored: list[int] = []

    def note(*call: Any) -> None:
        calls.append(call)
        stored.append(len(index))

    index.add(lshdb.read_documents([path]), on_progress=note)
    size = path.stat().st_size
    assert calls[0] == (0, size, "bytes") and calls[-1] == (size, size, "bytes")
    assert stored[-1] == 40
    assert {n_done for (n_done, _, _), n in zip(calls, stored, strict=True) if n == 0} == {0}


@pytest.mark.parametrize("is_sized", [True, False])
def test_an_add_of_documents(make_index: Make, is_sized: bool) -> None:
    index = make_index("a")
    documents = TEXTS if is_sized else iter(TEXTS)
    calls = heard(lambda **how: index.add(documents, **how))
    assert calls[0] == (0, 40 if is_sized else None, "documents")
    assert calls[-1] == (40, 40, "documents")


def test_an_add_that_is_ended_keeps_its_commits(make_index: Make) -> None:
    index = make_index("a")

    def stop(n_done: int, *_: Any) -> None:
        if n_done:
            raise StoppedError

    with pytest.raises(StoppedError):
        index.add(TEXTS, on_progress=stop)
    assert len(index) == 40 and index.check() == []
    assert index.add(TEXTS).unchanged == 40


def test_tables_and_samples_tell(tmp_path: Path) -> None:
    texts = [text for _, text in TEXTS]
    for function in (lshdb.deduplicate, lshdb.pairs, lshdb.clusters):
        calls = heard(lambda function=function, **how: function(texts, threshold=0.5, **how))
        assert [unit for unit, _ in phases(calls)][:3] == ["documents", "postings", "pairs"]


@pytest.mark.sqlite("Postgres hands over rows, not a file")
def test_a_copy_counts_the_bytes_of_all_its_files(index: Index, tmp_path: Path) -> None:
    calls = heard(lambda **how: index.copy(tmp_path / "b", **how))
    files = [path for path in (tmp_path / "b").iterdir() if path.suffix in (".npy", ".db")]
    assert phases(calls) == [("bytes", sum(path.stat().st_size for path in files))]
    assert len(files) == len(calls) - 2 == 3, "a call for each file, and both ends"


def test_an_upgrade_counts_documents(tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database, database:
        (n,) = database.execute("SELECT count(*) FROM document").fetchone()
    calls = heard(lambda **how: Index.upgrade(path, **how))
    assert calls[0] == (0, n, "documents")
    assert phases(calls)[:2] == [("documents", n)] * 2 and phases(calls)[2][0] == "signatures"


BODIES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "texts": ({}, [text for _, text in TEXTS]),
    "weights": ({"metric": "weighted-jaccard"}, [{"a": 1.0, str(i): 2.0} for i in range(40)]),
    "vectors": ({"metric": "cosine", "dim": 2}, [[1.0, float(i)] for i in range(40)]),
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("is_cut", [False, True])
def test_recall_goes_on_within_a_block(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, kind: str, is_cut: bool
) -> None:
    monkeypatch.setattr("lshdb.search.all_rows._BLOCK_BYTES", 2**14)  # of vectors
    for place in ("all_texts._SHINGLE_BYTES", "all_rows._ELEMENT_BYTES") if is_cut else ():
        monkeypatch.setattr(f"lshdb.search.{place}", 2**13)
    parameters, bodies = BODIES[kind]
    index = make_index("a", **parameters)
    index.add([(f"k{number}", body) for number, body in enumerate(bodies)])
    calls = heard(lambda **how: index.recall(memory=2**20, workers=1, **how))
    reached = [n_done for n_done, total, unit in calls if (total, unit) == (40, "documents")]
    assert reached == sorted(reached) and len({*reached} - {0, 40}) > 0
    assert phases(calls)[0] == ("documents", 40)


def test_queries_of_files_tell() -> None:
    with lshdb.TransientIndex.create(threshold=0.5) as index:
        index.add(TEXTS)
        calls = heard(lambda **how: index.query_many(TEXTS, **how))
    assert phases(calls) == [("queries", 40)]


def test_what_cannot_be_called_is_named(index: Index) -> None:
    with pytest.raises(ParameterError, match="on_progress is True, and cannot be called"):
        index.pairs(on_progress=True)  # type: ignore[arg-type]


def test_a_phase_that_was_told_without_a_total_ends_with_one() -> None:
    calls: Calls = []
    with telling(lambda *call: calls.append(call)):
        list(counting((), "blocks"))
        list(counting((), "rows", 0))
    assert calls == [(0, None, "blocks"), (0, 0, "blocks")], "and a phase of nothing is not told"


@pytest.mark.fast
def test_a_sum_counts_phases_within_it_and_steps_are_shares_of_units() -> None:
    calls: Calls = []
    with telling(lambda *call: calls.append(call)):
        with Phase("bytes", 9, is_sum=True):
            assert list(counting("ab", "bytes", 6, lambda _: 3)) and list(
                counting("ab", "lines", 2)
            )
            assert list(counting([3], "bytes", size=lambda size: size))
        with Phase("documents", 2, steps=8) as phase:
            for _ in range(4):
                phase.add(2)
    assert [n_done for n_done, _, unit in calls if unit == "bytes"] == [0, 3, 6, 6, 6, 9, 9]
    assert [n_done for n_done, _, unit in calls if unit == "documents"] == [0, 0, 1, 1, 2, 2]


@pytest.mark.fast
def test_of_phases_within_each_other_the_outermost_speaks() -> None:
    calls: Calls = []
    with telling(lambda *call: calls.append(call)), Phase("files", 2) as files:
        for _ in counting("ab", "lines", 2):
            files.add(1)
    assert set(calls) == {(0, 2, "files"), (1, 2, "files"), (2, 2, "files")}


def test_a_listing_is_heard_only_while_it_works(index: Index) -> None:
    """Other work between two items is not its own."""
    calls: Calls = []
    pairs = index.pairs(on_progress=lambda *call: calls.append(call))
    next(pairs)
    n_calls = len(calls)
    index.check()
    assert n_calls and len(calls) == n_calls
    list(pairs)  # ends its transaction


@pytest.mark.fast
def test_it_is_called_at_most_twenty_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 3600)
    calls: Calls = []
    with telling(lambda *call: calls.append(call)):
        assert sum(counting(range(100), "numbers", lambda: 100)) == 4950
    assert calls == [(0, 100, "numbers"), (100, 100, "numbers")]


@pytest.mark.fast
def test_what_the_function_does_itself_is_not_counted() -> None:
    calls: Calls = []

    def note(*call: Any) -> None:
        calls.append(call)
        assert list(counting("ab", "letters", 2)) == ["a", "b"]

    with telling(note):
        assert list(counting(range(2), "numbers", 2)) == [0, 1]
    assert {unit for _, _, unit in calls} == {"numbers"} and len(calls) == 4
