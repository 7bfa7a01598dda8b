"""Indexes of the columns of ``band``: a choice on SQLite, which everything keeps."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from lshdb import Index, ParameterError
from lshdb.storage.tables import band_schema
from tests.conftest import family_corpus
from tests.postgres import PostgresUrl, fresh_schema
from tests.raw import change, raw

TEXTS = family_corpus(3)[:20]
NAMES = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'band'"
SQLITE = pytest.mark.sqlite("Postgres always has them")


def indexed(path: Path) -> set[str]:
    """The columns with an index; all is sound, and ``stats`` says the same."""
    with raw(path) as execute:
        names = {name.removeprefix("ix_band_") for (name,) in execute(NAMES).fetchall()}
    with Index.open(path) as index:
        assert index.stats().index_bands is bool(names)
        assert index.check() == []
    return names


def columns(bands: int) -> set[str]:
    return {f"b{band}" for band in range(bands)}


@SQLITE
def test_they_are_made_at_the_end_of_the_first_add(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Index.create(path, bands=3, rows=4, index_bands=True) as index:
        with raw(path) as execute:
            assert execute(NAMES).fetchall() == []
        index.add(TEXTS)
        plan = " ".join(
            row[-1] for row in index.sql("EXPLAIN QUERY PLAN SELECT * FROM band WHERE b1 = 7").rows
        )
    assert "ix_band_b1" in plan
    assert indexed(path) == columns(3)


@SQLITE
def test_reband_turns_them_on_and_off_and_rewrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Index.create(path, bands=3, rows=4) as index:
        index.add(TEXTS)
        index.remove([TEXTS[0][0]])
        index.update_clusters()
        state, pairs = index.edge_state(), list(index.pairs())
        n_signatures = index.stats().signatures
    for is_wanted in (True, True, False, False):
        result = Index.reband(path, index_bands=is_wanted)
        assert (result.signatures, result.dropped) == (n_signatures, 0)
        assert indexed(path) == (columns(3) if is_wanted else set())
    with Index.open(path) as index:
        assert index.edge_state() == state and list(index.pairs()) == pairs
    Index.reband(path, bands=2, rows=4, index_bands=True)
    assert indexed(path) == columns(2)
    Index.reband(path, bands=4, rows=2, index_bands=False)
    assert indexed(path) == set()
    with pytest.raises(ParameterError, match="no parameter"):
        Index.reband(path)


@SQLITE
def test_every_way_to_another_index_keeps_the_choice(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Index.create(path, bands=3, rows=4, index_bands=True) as index:
        index.add(TEXTS[:15])
        index.remove([key for key, _ in TEXTS[:4]])
        assert index.compact().dropped
        index.copy(tmp_path / "copy")
        for format in ("jsonl", "delta"):
            index.export(tmp_path / format, format=format)
            Index.from_export(tmp_path / format, tmp_path / f"from {format}").close()
        with Index.create(tmp_path / "other", bands=3, rows=4) as other:
            other.add(TEXTS)
            index.merge(other)
            other.merge(index)
    Index.upgrade(path)
    for name in ("a", "copy", "from jsonl", "from delta"):
        assert indexed(tmp_path / name) == columns(3), name
    assert indexed(tmp_path / "other") == set()
    Index.reband(path, bands=5, rows=2)
    assert indexed(path) == columns(5)
    change(path, "UPDATE document SET n_chars = n_chars + 1")
    assert Index.repair(path).documents
    assert indexed(path) == columns(5)


@SQLITE
def test_a_writer_makes_what_one_before_was_killed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    index = Index.create(path, bands=3, rows=4, index_bands=True)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), index:
        patch.setattr(band_schema, "index_bands", _interrupt)
        index.add(TEXTS[:10])
    assert Index.open(path).stats().documents == 10
    with raw(path) as execute:
        assert execute(NAMES).fetchall() == []
    with Index.open(path) as index:
        index.add(TEXTS[10:12])
    assert indexed(path) == columns(3)


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@SQLITE
def test_an_index_of_the_users_own_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    Index.create(path, bands=3, rows=4).close()
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        database.execute("CREATE INDEX mine ON band (b1, b2)")
        database.execute("CREATE INDEX ix_band_b0 ON band (b0)")
        database.commit()
    with Index.open(path) as index:
        index.add(TEXTS)
        assert {name for (name,) in index.sql(NAMES).rows} == {"mine", "ix_band_b0"}
    Index.reband(path, index_bands=True)
    with Index.open(path) as index:
        assert len(list(index.sql(NAMES))) == 4


def test_postgres_always_has_them(
    tmp_path: Path, postgres_url: PostgresUrl, pytestconfig: pytest.Config
) -> None:
    names = (
        "SELECT indexname::text FROM pg_indexes WHERE schemaname = current_schema() "
        "AND tablename = 'band' AND indexname LIKE 'ix%' ORDER BY 1"
    )
    expected = [(f"ix_band_b{band}",) for band in range(3)]
    with fresh_schema(postgres_url) as schema, fresh_schema(postgres_url) as other:
        path = tmp_path / "a"
        options = {"database": postgres_url.lshdb}
        with Index.create(path, bands=3, rows=4, **options, schema=schema) as index:
            index.add(TEXTS)
            assert index.stats().index_bands
            assert [tuple(row) for row in index.sql(names).rows] == expected
            index.export(tmp_path / "export")
        with pytest.raises(ParameterError, match="always indexed"):
            Index.reband(path, index_bands=False)
        Index.reband(path, index_bands=True)
        Index.from_export(tmp_path / "export", tmp_path / "b", **options, schema=other).close()
        with Index.open(tmp_path / "b") as index:
            assert [tuple(row) for row in index.sql(names).rows] == expected
            index.copy(tmp_path / "c")
        Index.reband(path, bands=2, rows=4)
        with Index.open(path) as index:
            assert [tuple(row) for row in index.sql(names).rows] == expected[:2]
    is_postgres = pytestconfig.getoption("--database") == "postgres"  # the copy's, then
    assert Index.open(tmp_path / "c").stats().index_bands is is_postgres
