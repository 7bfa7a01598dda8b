"""``lshdb recall``: what it lists, what it says of the promise, and its exit codes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lshdb import Index
from tests.cli.conftest import Run
from tests.conftest import family_corpus
from tests.raw import change

CORPUS = family_corpus(3, families=14)


@pytest.fixture
def index_at(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "a.lshdb", threshold=0.7, bands=4, rows=6) as index:
        index.add(CORPUS)
    return index.path


def test_it_lists_slices_and_judges_the_promise(run: Run, index_at: Path) -> None:
    done = run("recall", index_at, "--sample", "all", "--furthest", "0.5", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    with Index.open(index_at) as index:
        found = index.recall(sample=None, furthest=0.5)
    assert rows == json.loads(json.dumps(found.rows()))
    total = found.total
    assert f"found {total.found} of {total.pairs} pairs of similarity 0.7 and more" in done.stderr
    assert f"{total.no_band} pairs missed because no band agrees" in done.stderr
    assert "compared all documents" in done.stderr and "nothing speaks against" in done.stderr
    table = run("recall", index_at, "--sample", "all", "--format", "table").stdout
    assert re.split(r"\s+", table.splitlines()[0].strip())[:5] == [
        "low", "high", "pairs", "found", "recall",
    ]  # fmt: skip
    assert len(table.splitlines()) == 2 + len(found.slices) + 2  # two more, down to 0.4
    some = run("recall", index_at, "--sample", "9", "--seed", "2")
    assert "compared 9 of 75 documents" in some.stderr


def test_an_empty_index_keeps_no_promise_and_breaks_none(run: Run, tmp_path: Path) -> None:
    Index.create(tmp_path / "empty.lshdb").close()
    assert "there is no pair" in run("recall", tmp_path / "empty.lshdb").stderr


def test_a_promise_that_is_not_kept_has_its_own_exit_code(run: Run, tmp_path: Path) -> None:
    with Index.create(tmp_path / "b.lshdb", threshold=0.7) as index:
        index.add(CORPUS)
    done = run("recall", index.path, "--sample", "all", "--max-bucket", "2", code=6)
    assert "missed through --max-bucket" in done.stderr
    assert "the promise, 0.99, is not kept" in done.stderr
    quiet = run("-q", "recall", index.path, "--max-bucket", "2", code=6)
    assert quiet.stderr == "the promise, 0.99, is not kept\n"


@pytest.mark.sqlite("changes its stored parameters")
def test_a_promise_beyond_its_bands_is_named(run: Run, index_at: Path) -> None:
    change(index_at, "UPDATE parameter SET value = '0.99' WHERE name = 'recall'")
    told = index_at / "index.toml"
    told.write_text(re.sub("(?m)^recall = .*$", "recall = 0.99", told.read_text()))
    done = run("recall", index_at, code=6)
    assert "4 bands of 6 rows find a pair at 0.7 with probability 0.3939" in done.stderr


@pytest.mark.sqlite("takes rows out of its tables")
@pytest.mark.usefixtures("no_orders")
def test_lost_pairs_are_damage(run: Run, index_at: Path, tmp_path: Path) -> None:
    hurt = shutil.copytree(index_at, tmp_path / "hurt.lshdb")
    change(hurt, "UPDATE band SET b2 = -signature_id")
    done = run("recall", hurt, "--sample", "all", code=4)
    assert re.search(
        r"the index lost [\d,]+ pairs that share a bucket; run lshdb check", done.stderr
    )
    assert run("check", hurt, code=4)


@pytest.mark.parametrize("wrong", ["0", "x", "-3", "1.5"])
def test_a_sample_is_a_number_or_all(run: Run, index_at: Path, wrong: str) -> None:
    assert "'all' or a number" in run("recall", index_at, "--sample", wrong, code=2).stderr


def test_an_interrupt_ends_it(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Vectors that take half a minute; the interrupt comes while they are compared."""
    vectors = np.random.default_rng(1).normal(size=(6000, 1024)).astype(np.float32)
    with Index.create(tmp_path / "l1.lshdb", metric="l1", dim=1024, bands=1, rows=32,
                      num_perm=32, threshold=1.0, width=9.0) as index:  # fmt: skip
        index.add(zip(map(str, range(6000)), vectors, strict=True))
    child = start("recall", index.path, "--sample", "all")
    time.sleep(1.5)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130 and out == b"" and b"interrupted" in err, err
