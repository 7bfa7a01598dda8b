"""``lshdb init``: what it makes, what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lshdb import Index, candidate_probability
from tests.cli.conftest import Run, sound
from tests.postgres import PostgresUrl

pytestmark = pytest.mark.fast


def test_says_what_was_chosen_and_what_it_promises(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    out = run("init", path).stderr
    with Index.open(path) as index:
        params = index.params
    assert (params.threshold, params.recall, params.num_perm, params.k) == (0.8, 0.99, 128, 5)
    used = params.bands * params.rows
    assert f"{params.bands} of {params.rows} rows each, which use {used} of the 128 slots" in out
    for similarity in (0.7, 0.8):
        found = candidate_probability(similarity, params.bands, params.rows)
        assert f"{found:.4f}  at similarity {similarity:g}" in out
    assert "> 0.9999  at similarity 0.9" in out
    assert sound(path)


def test_every_option_reaches_the_index(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    options = (
        "--threshold 0.5 --bands 30 --rows 4 --num-perm 200 --scheme universal --seed 7 "
        "--unit char --k 6 --bag --no-text"
    )
    out = run("init", path, *options.split()).stderr
    with Index.open(path) as index:
        items = index.params.items()
    expected = {
        "threshold": 0.5, "bands": 30, "rows": 4, "num_perm": 200, "scheme": "universal",
        "seed": 7, "unit": "char", "k": 6, "bag": True, "store_text": False,
    }  # fmt: skip
    assert {name: items[name] for name in expected} == expected
    assert "6 characters, counted again where they repeat" in out
    assert "similarities are estimates" in out


def test_the_similarity_above_is_capped(run: Run, tmp_path: Path) -> None:
    out = run("init", tmp_path / "a.lshdb", "--threshold", "0.95").stderr
    points = [
        line.split("similarity ")[1].split()[0] for line in out.splitlines() if "at s" in line
    ]
    assert points == ["0.85", "0.95", "1"]


def test_the_database_can_lie_elsewhere(run: Run, tmp_path: Path) -> None:
    made = run("init", tmp_path / "a.lshdb", "--database", f"sqlite:///{tmp_path}/elsewhere.db")
    assert f"  database     {tmp_path}/elsewhere.db\n" in made.stderr
    assert (
        f"database\t{tmp_path}/elsewhere.db\n"
        in run("stats", tmp_path / "a.lshdb", "--format", "tsv").stdout
    )
    assert (tmp_path / "elsewhere.db").is_file()
    assert not (tmp_path / "a.lshdb" / "index.db").exists()
    assert sound(tmp_path / "a.lshdb")


def test_in_a_schema_of_postgres(
    run: Run, tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    path, place = tmp_path / "a.lshdb", f"{postgres_url.lshdb} (schema {postgres_schema})"
    options = ("--database", postgres_url.lshdb, "--schema", postgres_schema)
    assert f"  database     {place}\n" in run("init", path, *options).stderr
    assert f"database\t{place}\n" in run("stats", path, "--format", "tsv").stdout
    other = run("init", tmp_path / "b.lshdb", *options, code=1)
    assert (
        f"there is an index in the schema {postgres_schema} of {postgres_url.lshdb}" in other.stderr
    )
    refused = run("init", tmp_path / "b.lshdb", "--schema", "x", code=2)
    assert "SQLite" in refused.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.lshdb"]
    assert sound(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--bands 20", "bands and rows"),
        ("--bands 20 --rows 5 --recall 0.9", "recall"),
        ("--threshold 0", "threshold is 0.0"),
        ("--threshold nan", "threshold is nan"),
        ("--recall 1", "recall is 1.0"),
        ("--num-perm 4 --threshold 0.3", "no bands and rows within 4 slots"),
        ("--k 0", "k is 0"),
        ("--scheme md5", "--scheme is 'md5'; expected one of"),
        ("--seed x", "--seed is 'x'; expected a whole number"),
    ],
)
def test_what_cannot_be_is_usage_and_makes_nothing(
    run: Run, tmp_path: Path, options: str, words: str
) -> None:
    result = run("init", tmp_path / "a.lshdb", *options.split(), code=2)
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_never_over_something(run: Run, index_path: Path) -> None:
    result = run("init", index_path, code=1)
    assert "there is an index" in result.stderr and "hint: " in result.stderr
    assert sound(index_path)


@pytest.mark.sqlite("Postgres always has them")
def test_bands_are_indexed_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    names = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'band' ORDER BY 1"
    run("init", path, "--index-bands", "--bands", "3", "--rows", "4")
    with Index.open(path) as index:
        index.add([("a", "some words of a text"), ("b", "some words of a text"), ("c", "others")])
        assert [name for (name,) in index.sql(names)] == ["ix_band_b0", "ix_band_b1", "ix_band_b2"]
    Index.reband(path, bands=2, rows=4)
    with Index.open(path) as index:
        assert [name for (name,) in index.sql(names)] == ["ix_band_b0", "ix_band_b1"]
        assert index.check() == []
    run("init", tmp_path / "b.lshdb")
    with Index.open(tmp_path / "b.lshdb") as index:
        assert list(index.sql(names)) == []
