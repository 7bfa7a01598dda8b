"""contract on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import Run
from tests.transient.test_contraction import CASCADE, hosts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "h.lshdb"
    with Index.create(path, unit="token", k=1, threshold=0.8, bands=128, rows=1) as index:
        index.add(hosts(CASCADE))
    return path


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "links.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in CASCADE))
    return path


ONCE = ["a\tp\t1", "a\ts\t1", "b\tp\t1", "b\ts\t1", "c\ta\t1", "c\tt\t1", "d\tb\t1", "d\tt\t1"]
REST = ["p\tx\t2", "p\ty\t2"]


def test_contract(run: Run, path: Path, links: Path) -> None:
    done = run("contract", path, links)
    assert done.stdout.splitlines() == [*ONCE, "e\tc\t1", "e\td\t1", "e\te\t1", *REST]
    assert done.stderr == (
        "15 links read, 0 lines rejected, 13 links left; 1 round, nodes merged: 1\n"
    )
    again = run("contract", path, "-", stdin=links.read_bytes(), code=0)
    assert again.stdout == done.stdout
    packed = links.with_suffix(".tsv.gz")
    packed.write_bytes(gzip.compress(links.read_bytes()))
    no_update = run("contract", path, packed, "--no-update", "--drop-loops", "--format", "jsonl")
    found = [json.loads(line) for line in no_update.stdout.splitlines()]
    assert found[0] == {"source": "a", "target": "p", "count": 1}
    assert len(found) == 12
    table = run("contract", path, "-", "--format", "table")
    assert "no links" in table.stderr


def test_repeat_and_mapping(run: Run, path: Path, links: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.tsv"
    run("contract", path, links, "--mapping", mapping)
    assert mapping.read_text() == "q\tp\n"
    done = run("contract", path, links, "--repeat", "--drop-loops", "--mapping", mapping)
    expected = ["a\tp\t2", "a\ts\t2", "c\ta\t2", "c\tt\t2", "e\tc\t2", *REST]
    assert done.stdout.splitlines() == expected
    assert done.stderr.endswith("4 rounds, nodes merged: 1, 1, 1, 0\n")
    assert mapping.read_text() == "b\ta\nd\tc\nq\tp\n"
    # What was there stays where nothing new is to be written.
    run("contract", path, tmp_path / "nothing", "--mapping", mapping, code=1)
    assert mapping.read_text() == "b\ta\nd\tc\nq\tp\n"
    for taken in ("-", links):
        refused = run("contract", path, links, "--mapping", taken, code=2)
        assert "is in use" in refused.stderr
    nowhere = tmp_path / "nowhere" / "mapping.tsv"
    assert "No such file" in run("contract", path, links, "--mapping", nowhere, code=1).stderr


def test_bad_lines(run: Run, path: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("q\tx\na q\nq\tx\t0\nq\tx\t2\n")
    done = run("contract", path, bad, code=5)
    assert done.stdout == "p\tx\t3\n"
    first, second, last = done.stderr.splitlines()
    assert first.startswith(f"{bad}:2: one cell, expected source, target")
    assert second.startswith(f"{bad}:3: the count is '0'")
    assert last.startswith("2 links read, 2 lines rejected, 1 link left")


def test_repeat_needs_sets_of_tokens(run: Run, index_path: Path, links: Path) -> None:
    refused = run("contract", index_path, links, "--repeat", code=2)
    assert "unit word, k 5" in refused.stderr
    assert "--unit token --k 1" in refused.stderr
    assert len(run("contract", index_path, links).stdout.splitlines()) == len(CASCADE)
