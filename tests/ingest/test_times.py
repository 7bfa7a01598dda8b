"""Times of documents: a row has those alone that are not its batch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb import Index
from tests.conftest import family_corpus
from tests.raw import change
from tests.sizes import set_sizes

CORPUS = family_corpus(2, families=3)
STORED = "SELECT key, added_at, last_seen_at FROM document ORDER BY key"
SHOWN = "SELECT key, added_at, last_seen_at FROM document_time ORDER BY key"
Times = dict[str, tuple[object, ...]]


def times(index: Index, statement: str) -> Times:
    return {str(key): tuple(of_key) for key, *of_key in index.sql(statement).rows}


def check_times(index: Index, expected: Times) -> None:
    documents = [index.show(key).document for key in index]
    assert {one.key: (one.added_at, one.last_seen_at) for one in documents} == expected
    assert times(index, SHOWN) == expected and index.check() == []


def test_a_row_has_the_times_that_its_batch_has_not(
    make_index: Callable[..., Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index()
    index.add(CORPUS)
    again, replaced, resumed = (key for key, _ in CORPUS[:3])
    assert set(times(index, STORED).values()) == {(None, None)}
    index.add([CORPUS[0], (replaced, "another text of some words")])

    def stops() -> Iterator[tuple[str, str]]:
        yield resumed, "a third text of some words"
        yield "new", "a fourth text of some words"
        raise ZeroDivisionError

    set_sizes(monkeypatch, batch_documents=2)
    with pytest.raises(ZeroDivisionError):
        index.add(stops())
    index.add([(resumed, "a third text of some words"), ("new", "a fourth text of some words")])

    first, second, third, fourth = (batch.started_at for batch in index.batches())
    expected: Times = {key: (first, first) for key, _ in CORPUS}
    expected |= {again: (first, second), replaced: (first, second)}
    expected |= {resumed: (first, fourth), "new": (third, fourth)}
    check_times(index, expected)
    stored = times(index, STORED)
    assert {key: row for key, row in stored.items() if row != (None, None)} == {
        again: (None, second),  # its batch is still the first
        replaced: (first, None),
        resumed: (first, None),
        "new": (third, None),
    }

    index.copy(tmp_path / "copy")
    index.export(tmp_path / "export")
    Index.from_export(tmp_path / "export", tmp_path / "loaded").close()
    for name in ("copy", "loaded"):
        with Index.open(tmp_path / name) as other:
            check_times(other, expected)
            assert times(other, STORED) == stored
    with Index.create(tmp_path / "merged") as merged:
        merged.merge(index)
        check_times(merged, expected)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lost_batch_has_the_time_of_its_neighbour(
    make_index: Callable[..., Index], number: int
) -> None:
    index = make_index()
    for at in range(3):
        index.add(CORPUS[4 * at : 4 * at + 4])
    index.add(CORPUS[:1])
    before = times(index, SHOWN)
    starts = [batch.started_at for batch in index.batches()]
    index.close()
    change(index.path, f"UPDATE batch SET started_at = 'never' WHERE batch_id = {number}")
    assert Index.repair(index.path).lost == []
    neighbour = starts[number - 2] if number > 1 else starts[1]
    expected = {
        key: tuple(neighbour if time == starts[number - 1] else time for time in of_key)
        for key, of_key in before.items()
    }
    with Index.open(index.path) as repaired:
        check_times(repaired, expected)
