"""What ``--since last`` means: the last add that changed something, with what belongs to it.

An add that did not end and the one that brings the same documents again are one: its pairs are
those of the whole input, however often it was interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pytest

from lshdb import AllRejectedError, ConflictError, Index, TooManyRejectedError
from lshdb.documents.document import Rejected
from tests.conftest import family_corpus, pair_set
from tests.raw import change
from tests.sizes import set_sizes

Make = Callable[..., Index]
Item = tuple[str, str]

OLD = family_corpus(21, families=4)
NIGHT = [(f"night-{key}", text) for key, text in family_corpus(21, families=8)]
OTHER = [(f"other-{key}", text) for key, text in family_corpus(21, families=3)]


class Stopped(Exception):
    """The input breaks off."""


def stopped_after(items: list[Item], n: int) -> Iterator[Item]:
    yield from items[:n]
    raise Stopped


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, batch_documents=8, merge_documents=8)
    set_sizes(monkeypatch, commit_postings=0)


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(threshold=0.6)
    index.add(OLD)
    return index


@pytest.fixture
def whole(make_index: Make) -> set[tuple[str, str, float]]:
    """The pairs of the night, where nothing was interrupted."""
    index = make_index("whole.lshdb", threshold=0.6)
    index.add(OLD)
    index.add(NIGHT)
    pairs = pair_set(index, since="last")
    assert len(pairs) > 50
    return pairs


def new_keys(index: Index) -> set[str]:
    return {str(key) for (key,) in index.sql("SELECT key FROM new_document").rows}


def unfinished(index: Index) -> set[int]:
    return {batch.add_id for batch in index.batches() if not batch.has_ended}


def interrupt(index: Index, n: int, items: list[Item] = NIGHT) -> None:
    with pytest.raises(Stopped):
        index.add(stopped_after(items, n))


def test_an_add_repeated_leaves_last_as_it_was(index: Index, whole: set[object]) -> None:
    index.add(NIGHT)
    dropped = {one.key for one in index.dedup(against=True) if not one.keep}
    assert dropped
    for _ in range(2):
        result = index.add(NIGHT)
        assert (result.added, result.replaced, result.unchanged) == (0, 0, len(NIGHT))
        assert pair_set(index, since="last") == whole
        assert new_keys(index) == {key for key, _ in NIGHT}
        assert {one.key for one in index.dedup(against=True) if not one.keep} == dropped


def test_an_add_that_brought_nothing_is_not_last(index: Index, whole: set[object]) -> None:
    index.add(NIGHT)
    index.add([])
    with pytest.raises(AllRejectedError) as nothing:
        index.add([Rejected("file:1", "no object")])
    index.add([(OLD[0][0], "another text")], on_conflict="skip")
    assert pair_set(index, since="last") == whole
    assert index.batches()[nothing.value.result.batches[0] - 1].n_rejected == 1


def test_a_removal_is_not_last(index: Index) -> None:
    index.add(NIGHT)
    index.remove([OLD[0][0], NIGHT[0][0]])
    assert new_keys(index) == {key for key, _ in NIGHT[1:]}
    index.remove([key for key, _ in NIGHT])
    assert new_keys(index) == set()
    assert pair_set(index, since="last") == set()


def test_an_add_that_only_replaced_is_last(index: Index) -> None:
    index.add(NIGHT)
    index.add([*NIGHT[:20], (NIGHT[20][0], NIGHT[6][1])])
    assert new_keys(index) == {NIGHT[20][0]}


def test_an_add_that_left_windows_out_is_last(make_index: Make) -> None:
    index = make_index("windows.lshdb", passages=(20, 10))
    words = [f"w{number}" for number in range(60)]
    index.add([("old", " ".join(words)), ("older", " ".join(words)), ("cut", " ".join(words[9:]))])
    result = index.add([("cut", " ".join(words[20:])), ("new", "another text")])
    assert result.added and result.stale
    documents = [{one.key1, one.key2} for one in index.passages(since="last")]
    assert documents and all("cut" in one for one in documents)


@pytest.mark.parametrize("stops", [[8], [20], [31, 3, 20, 33], [9, 9], [len(NIGHT)]])
def test_an_interrupted_add_and_its_repetition_are_one(
    index: Index, whole: set[object], stops: list[int]
) -> None:
    for stop in stops:
        interrupt(index, stop)
        assert unfinished(index) == {b.add_id for b in index.batches() if b.add_id > 3}
    result = index.add(NIGHT)
    committed = max(stop // 8 * 8 for stop in stops)
    assert (result.added, result.resumed) == (len(NIGHT) - committed, committed)
    assert pair_set(index, since="last") == whole
    assert new_keys(index) == {key for key, _ in NIGHT}
    assert unfinished(index) == set()


def test_also_where_another_feed_was_added_in_between(index: Index, whole: set[object]) -> None:
    interrupt(index, 20)
    index.add(OTHER)
    assert new_keys(index) == {key for key, _ in OTHER}
    assert len(unfinished(index)) == 1
    index.add(NIGHT)
    assert new_keys(index) == {key for key, _ in NIGHT}
    assert pair_set(index, since="last") >= whole


def test_what_another_feed_brings_again_is_its_own_and_the_rest_stays(index: Index) -> None:
    interrupt(index, 20)
    index.add([*OTHER, NIGHT[2]])
    assert new_keys(index) == {key for key, _ in [*OTHER, NIGHT[2]]}
    assert len(unfinished(index)) == 1
    index.add(NIGHT)
    assert new_keys(index) == {key for key, _ in NIGHT} - {NIGHT[2][0]}


def test_an_add_that_replaced_is_resumed(index: Index) -> None:
    changed = [(key, text + " and one more") for key, text in OLD]
    interrupt(index, 16, changed)
    index.add(changed)
    assert new_keys(index) == {key for key, _ in changed}


@pytest.mark.parametrize("on_conflict", ["skip", "error"])
def test_by_every_way_to_deal_with_conflicts(index: Index, on_conflict: str) -> None:
    interrupt(index, 20)
    index.add(NIGHT, on_conflict=on_conflict)
    assert new_keys(index) == {key for key, _ in NIGHT}


def test_skipping_another_text_takes_nothing_over(index: Index) -> None:
    interrupt(index, 8)
    index.add([(NIGHT[0][0], "quite another text"), ("fresh", "a text")], on_conflict="skip")
    assert new_keys(index) == {"fresh"}
    assert unfinished(index) == {index.batches()[-2].add_id}


def test_an_add_that_an_error_stopped_did_not_end(index: Index) -> None:
    bad = [*NIGHT, (OLD[0][0], "another text")]
    with pytest.raises(ConflictError):
        index.add(bad, on_conflict="error")
    assert len(unfinished(index)) == 1
    index.add(NIGHT)
    assert unfinished(index) == set()
    broken = [Rejected("file:9", "no object")]
    with pytest.raises(TooManyRejectedError):
        index.add([*OTHER[:8], *broken, *OTHER[8:]], max_errors=0)
    assert len(unfinished(index)) == 1
    index.add(OTHER)
    assert new_keys(index) == {key for key, _ in OTHER}


@pytest.mark.parametrize("n", [0, 7, 8, 9, 16])
def test_an_add_that_ends_leaves_no_mark(index: Index, n: int) -> None:
    """Also where the input ends with a full batch, or with rejected lines after one."""
    index.add(NIGHT[:n])
    with nullcontext() if n else pytest.raises(AllRejectedError):
        index.add([*OTHER[: n // 2], *[Rejected("file:1", "no")] * 9])
    assert unfinished(index) == set()


def test_what_was_removed_in_between_leaves_no_mark(index: Index) -> None:
    interrupt(index, 16)
    index.remove([key for key, _ in NIGHT])
    index.add(OTHER)
    assert unfinished(index) == set()


def test_a_merge_is_resumed(index: Index, make_index: Make) -> None:
    other = make_index("other.lshdb", threshold=0.6)
    other.add(NIGHT)

    def stop(result: object) -> None:
        if len(result.batches) == 2:  # type: ignore[attr-defined]
            raise Stopped

    with pytest.raises(Stopped):
        index.merge(other, on_commit=stop)
    assert len(unfinished(index)) == 1
    assert index.merge(other).resumed == 16
    assert new_keys(index) == {key for key, _ in NIGHT}
    assert unfinished(index) == set()


@pytest.mark.sqlite("damages its file")
def test_a_repaired_index_is_resumed(index: Index) -> None:
    interrupt(index, 20)
    index.close()
    change(index.path, "UPDATE document SET n_chars = n_chars + 1 WHERE doc_id = 1")
    with Index.open(index.path) as damaged:
        assert damaged.check() != []
    Index.repair(index.path)
    with Index.open(index.path) as repaired:
        assert repaired.check() == []
        assert len(unfinished(repaired)) == 1
        assert repaired.add(NIGHT).resumed == 16
        assert new_keys(repaired) == {key for key, _ in NIGHT}


@pytest.mark.sqlite("damages its file")
def test_a_mark_of_an_add_that_is_not_there_is_found(index: Index) -> None:
    index.close()
    change(index.path, "INSERT INTO unfinished_add VALUES (99)")
    with Index.open(index.path) as damaged:
        (finding,) = damaged.check(quick=True)
        assert "add 99 as unfinished, which does not exist" in finding.what
    Index.repair(index.path)


def test_a_copy_is_resumed(index: Index, tmp_path: Path) -> None:
    interrupt(index, 20)
    index.copy(tmp_path / "copy.lshdb")
    index.compact()
    for path in (index.path, tmp_path / "copy.lshdb"):
        with Index.open(path) as one:
            assert len(unfinished(one)) == 1
            assert one.add(NIGHT).resumed == 16
            assert new_keys(one) == {key for key, _ in NIGHT}
            assert one.check() == []


def test_another_index_made_of_an_interrupted_one(index: Index, tmp_path: Path) -> None:
    """All of it is the last add of a reindexed one; an import takes every add as ended."""
    interrupt(index, 20)
    index.reindex(tmp_path / "new.lshdb", threshold=0.7)
    with Index.open(tmp_path / "new.lshdb") as new:
        assert len(new_keys(new)) == len(OLD) + 16
        assert unfinished(new) == set()
    index.export(tmp_path / "export")
    with Index.from_export(tmp_path / "export", tmp_path / "import.lshdb") as new:
        assert unfinished(new) == set()
        assert new.check() == []
        assert new_keys(new) == {key for key, _ in NIGHT[:16]}


WRITER = """
import os, signal, sys
from lshdb import Index
from lshdb.ingest import add_sizes
add_sizes.SIZES = add_sizes.AddSizes(batch_documents=8, commit_postings=0)
from tests.ingest.test_last_add import NIGHT
def stop(result):
    if len(result.batches) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
with Index.open(sys.argv[1]) as index:
    index.add(NIGHT, on_commit=stop)
"""


def test_an_add_that_was_killed_is_resumed(index: Index, whole: set[object]) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", WRITER, str(index.path)],
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": "."}, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert unfinished(index)
    result = index.add(NIGHT)
    assert result.resumed == 24
    assert pair_set(index, since="last") == whole


def test_clusters_are_kept_up_to_date(index: Index, make_index: Make) -> None:
    list(index.clusters())
    interrupt(index, 20)
    list(index.clusters())
    index.add(NIGHT)
    other = make_index("other.lshdb", threshold=0.6)
    other.add(OLD)
    other.add(NIGHT)
    assert [asdict(one) for one in index.clusters()] == [asdict(one) for one in other.clusters()]
