"""``lshdb pairs``: all, since a batch, by method; a stream whatever the format."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.cli._output import Column, print_listing
from tests.cli.conftest import (
    BASE,
    MEASURED,
    MODULE,
    NEAR,
    NEAR_SIMILARITY,
    OTHER,
    Run,
    environment,
)

PAIRS = {("base", "copy", "1.000000"), ("base", "near", f"{NEAR_SIMILARITY:.6f}"),
         ("copy", "near", f"{NEAR_SIMILARITY:.6f}")}  # fmt: skip


def found(out: str) -> set[tuple[str, ...]]:
    return {tuple(line.split("\t")[:3]) for line in out.splitlines()}


def test_every_pair_once(run: Run, index_path: Path) -> None:
    out = run("pairs", index_path).stdout
    assert found(out) == PAIRS and out.count("\n") == 3
    assert all(line.endswith("\texact") for line in out.splitlines())
    assert found(run("pairs", index_path, "--threshold", "1").stdout) == {
        ("base", "copy", "1.000000")
    }
    signature = run("pairs", index_path, "--verify", "signature").stdout
    assert all(line.endswith("\tsignature") for line in signature.splitlines())


def test_since_a_batch_and_since_the_last_add(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.open(index_path) as index:
        monkeypatch.setattr("lshdb.ingest.add.BATCH_DOCUMENTS", 1)
        index.add([("new", OTHER), ("newer", NEAR)])
    new = {("other", "new", "1.000000")}
    newer = {("near", "newer", "1.000000")} | {
        (old, "newer", f"{NEAR_SIMILARITY:.6f}") for old in ("base", "copy")
    }
    assert found(run("pairs", index_path, "--since", "last").stdout) == new | newer
    assert found(run("pairs", index_path, "--since", "2").stdout) == new | newer
    assert found(run("pairs", index_path, "--since", "3").stdout) == newer
    assert found(run("pairs", index_path, "--since", "1").stdout) == PAIRS | new | newer
    for since, words in (("9", "there is no batch 9"), ("monday", "'monday'"), ("0", "batch 0")):
        assert words in run("pairs", index_path, "--since", since, code=2).stderr


def test_no_threshold_without_verification(run: Run, index_path: Path) -> None:
    result = run("pairs", index_path, "--verify", "none", "--threshold", "0.9")
    assert "does not apply" in result.stderr
    assert {line.split("\t")[3] for line in result.stdout.splitlines()} == {"none"}


def test_a_table_ends_with_the_number_of_pairs(run: Run, index_path: Path) -> None:
    assert run("pairs", index_path, "--format", "table").stderr == "3 pairs\n"
    nothing = run("pairs", index_path, "--format", "table", "--since", "1", "--threshold", "1")
    assert nothing.stderr == "1 pair\n"


class Tracked(str):
    """A text that knows how many of its kind there are."""

    alive = 0
    most = 0

    def __new__(cls, text: str) -> Tracked:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        Tracked.alive -= 1


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "table"])
def test_rows_are_let_go_as_they_are_written(form: str, capsysbinary: object) -> None:
    Tracked.alive = Tracked.most = 0
    rows = ((Tracked(f"key{n}"), n / 7) for n in range(20_000))
    columns = (Column("key"), Column("similarity", "similarity"))
    assert print_listing(columns, rows, form) == 20_000
    assert Tracked.most < 2_000


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of one text six hundred times: 179,700 pairs."""
    path = tmp_path_factory.mktemp("copies") / "copies.lshdb"
    with Index.create(path) as index:
        index.add((f"copy-{number:04d}", BASE) for number in range(600))
    return path


@pytest.mark.parametrize("form", ["tsv", "table"])
def test_memory_does_not_grow_with_the_pairs(form: str, copies: Path, index_path: Path) -> None:
    """Held as rows they would take a hundred bytes each and more: over 18 MB."""

    def peak(path: Path) -> int:
        done = subprocess.run(
            [*MEASURED, *MODULE, "pairs", str(path), "--format", form],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
            check=True,
        )
        return int(done.stderr.split()[-1])

    assert peak(copies) - peak(index_path) < 8 * 1024  # kilobytes
