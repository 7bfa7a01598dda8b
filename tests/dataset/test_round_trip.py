"""An index as a dataset and back: every metric, several files, what other programs read."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    DamageError,
    FormatError,
    Index,
    IndexExistsError,
    LshdbError,
    ParameterError,
)
from lshdb.dataset.commits import Dataset
from lshdb.dataset.dataset_tables import COMMITS, NAMES
from lshdb.files.own_files import OWN_FOLDERS
from tests.answers import answers, lively_index
from tests.children.databases import child_path
from tests.exchange.test_exchange import stored

Make = Callable[..., Index]
RANDOM = np.random.default_rng(5)
VECTORS = [(f"v{number}", RANDOM.normal(size=16).tolist()) for number in range(12)]
BITS = [(f"b{number}", RANDOM.integers(0, 2, 64).astype(bool)) for number in range(12)]
LIVES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "cosine": ({"metric": "cosine", "dim": 16, "threshold": 0.9}, VECTORS),
    "l2": ({"metric": "l2", "dim": 16, "dtype": "float64", "threshold": 2.0}, VECTORS),
    "hamming": ({"metric": "hamming", "dim": 64, "threshold": 6}, BITS),
    "weights": (
        {"metric": "weighted-jaccard"},
        [("a", {"x": 1.5, "y": 2}), ("b", {"x": 1.5}), ("c", {"x": 1, "y": 2.0}), ("d", "x y z")],
    ),
    "bag": ({"bag": True, "k": 1}, [("a", "to be or not to be"), ("b", ["to", "be"]), ("c", "")]),
    "sets": ({}, [("a", {"one", "two", "three"}), ("b", ["one", "two", "three"])]),
    "urls": ({"unit": "url", "k": 2}, [("a", "http://x.example/a/b/c\nhttp://x.example/a/b/d")]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVES)
def test_every_metric_comes_back(make_index: Make, tmp_path: Path, name: str) -> None:
    parameters, documents = LIVES[name]
    index = make_index("a", **parameters)
    index.add(documents)
    index.add([(f"{key} again", body) for key, body in documents[:5]], night="second")
    list(index.clusters())
    index.export(tmp_path / "d", format="delta")
    with Index.from_export(tmp_path / "d", tmp_path / "b") as again:
        assert stored(again) == stored(index)
        assert list(again.pairs()) == list(index.pairs())
        assert [again.show(key).body == index.show(key).body for key, _ in documents]
        assert again.check() == []
        again.export(tmp_path / "e", format="delta")
    one, other = (Dataset.open(str(tmp_path / name)) for name in "de")
    for table in ("documents", "signatures", "postings", "edges", "fields", "nights"):
        left, right = (each.table(table).to_pyarrow_table() for each in (one, other))
        assert left == right, table


def test_a_dataset_elsewhere_comes_back(make_index: Make, tmp_path: Path) -> None:
    """Read by deltalake's own store, which reaches the same places as its log."""
    index = make_index("a", threshold=0.5)
    index.add([("a", "the same words stand here"), ("b", "the same words stand here again")])
    index.export(tmp_path / "d", format="delta")
    with Index.from_export(f"file://{tmp_path}/d/", tmp_path / "b") as again:
        assert stored(again) == stored(index)
        assert again.check() == []
    with pytest.raises(LshdbError, match=f"there is no dataset at file://{tmp_path}/none"):
        Index.from_export(f"file://{tmp_path}/none", tmp_path / "c")
    (file,) = (tmp_path / "d" / "documents").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DamageError, match=f"file://{tmp_path}/d/documents/{file.name} cannot"):
        Index.from_export(f"file://{tmp_path}/d", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_many_files_in_order(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr("lshdb.dataset.table_files._GROUP_ROWS", 7)
    monkeypatch.setattr("lshdb.dataset.table_files._FILE_ROWS", 20)
    monkeypatch.setattr("lshdb.dataset.dataset_export._GROUP_ROWS", 9)
    monkeypatch.setattr("lshdb.dataset.dataset_export.FILE_POSTINGS", 200)
    monkeypatch.setattr("lshdb.storage.bands.postings._POSTINGS", 50)
    index = lively_index(make_index, "a")
    index.export(tmp_path / "d", format="delta")
    dataset = Dataset.open(str(tmp_path / "d"))
    assert len(dataset.files("documents")) > 2
    assert len(dataset.files("signatures")) == 2
    files = sorted(dataset.segments()[0], key=lambda stored: stored.file.lows["bucket_key"])
    for stored_file in files:
        rows = parquet.read_table(stored_file.uri).to_pydict()
        order = list(zip(rows["bucket_key"], rows["signature_id"], strict=True))
        assert order == sorted(order) and set(rows["segment"]) == {0}
        ends = stored_file.file.lows["bucket_key"], stored_file.file.highs["bucket_key"]
        assert ends == (order[0][0], order[-1][0])
    highs = [stored_file.file.highs["bucket_key"] for stored_file in files]
    lows = [stored_file.file.lows["bucket_key"] for stored_file in files]
    assert len(files) > 2
    assert all(high <= low for high, low in zip(highs[:-1], lows[1:], strict=True))
    with Index.from_export(tmp_path / "d", tmp_path / "b") as again:
        assert stored(again) == stored(index)
        assert answers(again) == answers(index)
        assert again.check() == []


def test_other_programs_read_it(make_index: Make, tmp_path: Path) -> None:
    """With nothing of lshdb, at the versions that the newest commit names."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    from deltalake import DeltaTable

    index = lively_index(make_index, "a")
    list(index.clusters())
    index.export(tmp_path / "d", format="delta")
    folder = tmp_path / "d"
    (commit,) = DeltaTable(folder / "commits").to_pandas().to_dict("records")
    documents = DeltaTable(folder / "documents", version=commit["documents_version"])
    assert len(documents.to_pandas()) == json.loads(commit["counts"])["documents"]
    edges = list(index.sql("SELECT signature1, signature2, similarity, method FROM edge").rows)
    assert sorted(polars.read_delta(str(folder / "edges")).rows()) == sorted(edges)
    with duckdb.connect() as database:
        for name in ("documents", "postings"):
            table = DeltaTable(folder / name, version=commit[f"{name}_version"])
            database.register(name, table.to_pyarrow_dataset())
        joined = database.execute(
            "SELECT DISTINCT one.signature_id, other.signature_id FROM postings AS one "
            "JOIN postings AS other USING (bucket_key) "
            "WHERE one.signature_id < other.signature_id"
        ).fetchall()
    expected = index.sql(
        "SELECT DISTINCT one.signature_id, other.signature_id FROM posting AS one "
        "JOIN posting AS other USING (band, bucket) WHERE one.signature_id < other.signature_id"
    ).rows
    assert sorted(joined) == sorted(expected)
    assert joined


def test_damage_names_the_file(make_index: Make, tmp_path: Path) -> None:
    index = lively_index(make_index, "a")
    list(index.clusters())
    index.export(tmp_path / "d", format="delta")
    dataset = Dataset.open(str(tmp_path / "d"))
    for name in sorted({*NAMES} - {"postings"}):  # which are cut anew
        for path in [Path(found.uri) for found in dataset.files(name)[:1]]:
            data = path.read_bytes()
            path.write_bytes(data[:-1])
            with pytest.raises(DamageError) as caught:
                Index.from_export(tmp_path / "d", tmp_path / "b")
            assert str(path) in str(caught.value)
            path.write_bytes(data)
    path = Path(dataset.files("documents")[0].uri)
    path.rename(tmp_path / "aside")
    with pytest.raises(DamageError, match="cannot be read"):
        Index.from_export(tmp_path / "d", tmp_path / "b")
    (tmp_path / "aside").rename(path)
    assert sorted(os.listdir(tmp_path)) == ["a", "d"]
    Index.from_export(tmp_path / "d", tmp_path / "b").close()


def test_a_flipped_bit_changes_no_answer(make_index: Make, tmp_path: Path) -> None:
    """Pages have checksums; where a flip is not found, nothing depends on that bit."""
    index = lively_index(make_index, "a")
    index.export(tmp_path / "d", format="delta")
    dataset = Dataset.open(str(tmp_path / "d"))
    found = 0
    for name in ("documents", "signatures", "postings"):
        path = Path(dataset.files(name)[0].uri)
        data = path.read_bytes()
        for part in (3, 2):
            flipped = bytearray(data)
            flipped[len(data) // part] ^= 4
            path.write_bytes(flipped)
            try:
                Index.from_export(tmp_path / "d", tmp_path / f"{name}{part}").close()
            except DamageError as error:
                assert str(path) in str(error)
                found += 1
            else:
                with Index.open(tmp_path / f"{name}{part}") as again:
                    assert stored(again) == stored(index)
        path.write_bytes(data)
    assert found >= 3


def test_refusals(make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = lively_index(make_index, "a")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(IndexExistsError, match=r"there is something at .*there already"):
        index.export(tmp_path / "there", format="delta")
    with pytest.raises(ParameterError, match="inside the index"):
        index.export(index.path / "d", format="delta")
    with pytest.raises(LshdbError, match=r"the folder .* does not exist"):
        index.export(tmp_path / "none" / "d", format="delta")
    index.export(tmp_path / "d", format="delta")
    with pytest.raises(IndexExistsError, match="an index at"):
        Index.from_export(tmp_path / "d", index.path)
    with monkeypatch.context() as patch:
        patch.setattr("lshdb.dataset.commits.FORMAT", 0)
        with pytest.raises(FormatError, match="has format 2, but this version reads 0"):
            Index.from_export(tmp_path / "d", tmp_path / "b")
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(LshdbError, match="need deltalake") as caught:
        index.export(tmp_path / "e", format="delta")
    assert "[spark]" in str(caught.value.hint)
    with pytest.raises(LshdbError, match="need deltalake"):
        Index.from_export(tmp_path / "d", tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["a", "d", "there"]


def test_a_full_disk_leaves_nothing(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    index = lively_index(make_index, "a")
    monkeypatch.setattr("lshdb.dataset.table_files.TableWriter.write", write)
    with pytest.raises(LshdbError, match=r"cannot make the export .*: No space left") as caught:
        index.export(tmp_path / "d", format="delta")
    assert caught.value.hint
    assert os.listdir(tmp_path) == ["a"]


def test_interrupted_there_is_none(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)
    index = lively_index(make_index, "a")

    def interrupt(documents: int, total: int | None, unit: str) -> None:
        if unit == "documents" and documents >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.export(tmp_path / "d", format="delta", on_progress=interrupt)
    assert os.listdir(tmp_path) == ["a"]
    index.export(tmp_path / "d", format="delta")
    assert sorted(os.listdir(tmp_path)) == ["a", "d"]


STEPS = {
    "a table": "lshdb.dataset.commits._sync_log",
    "the files": "lshdb.dataset.dataset_export._write_signatures",
    "the folder": "lshdb.storage.place.creation.sync_directory",
    "the commit": "lshdb.dataset.commits._append",
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_there", [False, True])
def test_an_export_that_fails_leaves_nothing_and_is_tried_again(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_there: bool
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    index = lively_index(make_index, "a")
    if is_there:
        (tmp_path / "d").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(STEPS[step], fail)
        with pytest.raises(LshdbError, match="Input/output error"):
            index.export(tmp_path / "d", format="delta")
    assert sorted(os.listdir(tmp_path)) == (["a", "d"] if is_there else ["a"])
    assert not is_there or not os.listdir(tmp_path / "d")
    index.export(tmp_path / "d", format="delta")
    assert set(os.listdir(tmp_path / "d")) == {*NAMES, COMMITS} == OWN_FOLDERS
    assert len(Index.from_export(tmp_path / "d", tmp_path / "b")) == len(index)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.long(when=lambda step: step not in (next(iter(STEPS)), "the commit"))
def test_an_export_that_was_killed_is_tried_again(
    make_index: Make, tmp_path: Path, step: str
) -> None:
    """Also in another format, or an index is made there."""
    index = lively_index(make_index, "a")
    module, _, name = STEPS[step].rpartition(".")
    script = (
        f"import os, signal, sys; import {module} as module; from lshdb import Index\n"
        f"module.{name} = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with Index.open(sys.argv[1]) as index: index.export(sys.argv[2], format='delta')\n"
    )
    for number, form in enumerate(("delta", "jsonl", None)):
        target = tmp_path / f"d{number}"
        done = subprocess.run(
            [sys.executable, "-c", script, index.path, target],
            env={**os.environ, "PYTHONPATH": child_path()}, check=False,
        )  # fmt: skip
        assert done.returncode == -9 and not target.exists()
        if form is None:
            Index.create(target).close()
        else:
            index.export(target, format=form)
    assert sorted(os.listdir(tmp_path)) == ["a", "d0", "d1", "d2"]
    assert len(Index.from_export(tmp_path / "d0", tmp_path / "b")) == len(index)


def test_what_lshdb_did_not_make_is_not_removed(make_index: Make, tmp_path: Path) -> None:
    index = lively_index(make_index, "a")
    (tmp_path / ".d.new" / "documents").mkdir(parents=True)
    (tmp_path / ".d.new" / "documents" / "letter.txt").write_text("mine")
    with pytest.raises(LshdbError, match="it was not made by lshdb"):
        index.export(tmp_path / "d", format="delta")
    assert (tmp_path / ".d.new" / "documents" / "letter.txt").read_text() == "mine"
