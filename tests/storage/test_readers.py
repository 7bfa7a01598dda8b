"""What a reader keeps between two questions, and when it looks again."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.conftest import family_corpus

CORPUS = family_corpus(11)


def statements(index: Index, question: Any) -> list[str]:
    """What an open index asks SQLite meanwhile."""
    (reader,) = index._store.readers._idle
    asked: list[str] = []
    reader._connection.set_trace_callback(asked.append)  # type: ignore[attr-defined]
    question()
    reader._connection.set_trace_callback(None)  # type: ignore[attr-defined]
    return asked


@pytest.mark.sqlite("its statements are counted")
@pytest.mark.fast
def test_the_state_is_read_once_for_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path) as index, Index.open(path) as other:
        index.add(CORPUS)
        key, body = CORPUS[3]
        for _ in range(2):
            assert key in [hit.key for hit in index.query(body, verify="exact")]
        warm = statements(index, lambda: index.query(body, verify="exact"))
        assert not any("FROM state" in one for one in warm)
        assert [one for one in warm if one.startswith("PRAGMA")] == ["PRAGMA data_version"]
        assert len(warm) == 4  # BEGIN, version, documents with texts, ROLLBACK
        other.remove([key])
        asked = statements(index, lambda: index.query(body, verify="exact"))
        assert sum("FROM state" in one for one in asked) == 1
        assert key not in [hit.key for hit in index.query(body, verify="exact")]
        index.add([(key, body)])  # by the same index, through its writer's connection
        assert key in [hit.key for hit in index.query(body, verify="exact")]
        assert not any("FROM state" in one for one in statements(index, lambda: index.query(body)))


@pytest.mark.sqlite("its driver's connections are looked at")
@pytest.mark.parametrize(
    ("opened", "name"),
    [
        (lambda database: database.open_reader(), "_connection"),
        (lambda database: database.open_guarded(None), "_connection"),
        (lambda database: database.open_writer(), "driver"),
    ],
)
def test_a_connection_is_closed_before_the_collector_can_do_so(
    opened: Callable[[Any], Any], name: str, tmp_path: Path
) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        owner = opened(index._store.database)
        connection, cycle = getattr(owner, name), [owner]
        connection.execute("SELECT key FROM document").fetchall()
        cycle.append(cycle)
        del owner, cycle
        gc.collect()
        assert connection.is_closed


def test_an_index_goes_on_when_an_iterator_is_left_in_a_cycle(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", threshold=0.3) as index:
        index.add(CORPUS)
        for _ in range(3):
            for rows in (index.pairs(), index.sql("SELECT key FROM document").rows):
                begun = iter(rows)
                assert next(begun)
                cycle: list[Any] = [rows, begun]
                cycle.append(cycle)
                del rows, begun, cycle
                gc.collect()
            assert index.query(CORPUS[3][1])


def test_a_commit_of_another_process_is_seen_by_the_next_question(tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path) as index:
        index.add(CORPUS)
        assert not index.query("a text of other words for the next question to find")
        for round_ in range(3):
            text = f"a text of other words for the next question to find, {round_}"
            added = f"lshdb.Index.open({str(path)!r}).add([({text!r}, {text!r})])"
            subprocess.run(
                [sys.executable, "-c", f"import lshdb; {added}"], check=True, timeout=300
            )
            assert text in [hit.key for hit in index.query(text)]
            assert text in [hit.key for hit in index.query(text, verify="signature")]
