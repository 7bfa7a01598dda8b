"""Folders that Spark, Hadoop, Dask and Delta Lake write: data is read, and nothing else."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Document, Index, InputError, Rejected, WalkCounts, read_documents

Put = Callable[..., Path]


def table(*keys: str) -> pa.Table:
    return pa.table({"id": list(keys), "text": [f"some words of {key}" for key in keys]})


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Write files below ``t``: Parquet of a key by the ending, else a text."""
    monkeypatch.chdir(tmp_path)
    number = 0

    def files(*names: str, **contents: str) -> Path:
        nonlocal number
        for name in [*names, *contents]:
            path = tmp_path / "t" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in contents:
                content = contents[name].encode()
                path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
            elif path.name.removesuffix("._COPYING_").endswith(".parquet"):
                number += 1
                pq.write_table(table(f"k{number}"), path)
            else:
                path.write_text(name)
        return tmp_path / "t"

    return files


def read(*paths: str, **how: Any) -> tuple[list[str], list[str], WalkCounts]:
    """Return the keys, the reasons of rejections, and what was left out."""
    counts = WalkCounts()
    items = list(read_documents(paths or ["t"], counts=counts, on_note=lambda _: None, **how))
    keys = [item.key for item in items if isinstance(item, Document)]
    return keys, [item.reason for item in items if isinstance(item, Rejected)], counts


JOBS = {
    "Spark": ("part-00000-x.c000.snappy.parquet", "_SUCCESS"),
    "Databricks": (
        "part-0.parquet",
        "_SUCCESS",
        "_started_7",
        "_committed_7",
        "_committed_vacuum9",
    ),
    "Dask": ("part.0.parquet", "_metadata", "_common_metadata"),
    "a job that runs": ("part-0.parquet", "_temporary/0/task/part-1.parquet", "_temporary/0/x"),
    "a copy that runs": ("part-0.parquet", "part-1.parquet._COPYING_"),
    "a stream": ("part-0.parquet", "_spark_metadata/0", "_spark_metadata/1", "_spark_metadata/2"),
    "Hadoop": ("part-0.parquet", "_logs/history/job_1.xml", "_logs/history/job_2", "_SUCCESS"),
    "partitions": ("day=1/part-0.parquet", "_SUCCESS", "day=1/_SUCCESS", "day=1/_committed_1"),
    "names without an ending": ("part-0.parquet", "job", "started", "committed"),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("path", ["t", "t/", "t/*", "./t", "t/**/*"])
def test_markers_are_no_documents(name: str, path: str, put: Put) -> None:
    put(*JOBS[name])
    keys, rejected, counts = read(path, exclude=["/t/job", "job", "started", "committed"])
    assert (keys, rejected) == (["k1"], [])
    assert counts.left_out["markers"] > 0 or name.startswith("names")


def test_names_without_an_ending_never_outvote_parquet(put: Put) -> None:
    put("part-0.parquet", *(f"log/{number}" for number in range(9)))
    keys, _, counts = read()
    assert keys[-1] == "k1" and counts.left_out["binary"] == 0
    shutil.rmtree("t")
    put("a.arrow", "b", "c", "d")
    with pa.OSFile("t/a.arrow", "wb") as file, pa.ipc.new_file(file, table("k").schema) as writer:
        writer.write_table(table("k"))
    assert read()[0][0] == "k"


@pytest.mark.fast
def test_a_job_may_write_names_without_an_ending(put: Put) -> None:
    path = put("_SUCCESS", "day=1/x.parquet", "_tmp.1/x.parquet")
    for folder in ("day=1", "_tmp.1"):
        (path / folder / "x.parquet").rename(path / folder / "000000_0")
    keys, rejected, counts = read()
    assert (keys, rejected, counts.left_out["markers"]) == (["k1"], [], 2)
    put(**{"day=2/part-00000": ROW + ROW.replace("a", "b"), "day=3/part-00000": "A text."})
    keys, rejected, counts = read()
    assert keys == ["k1", "t/day=3/part-00000"] and rejected == []
    assert counts.left_out["other"] == 1


@pytest.mark.fast
def test_a_partition_may_begin_with_an_underscore(put: Put) -> None:
    put("_day=1/part-0.parquet", "_day=2/part-0.parquet", "_SUCCESS", "_x/_day=3/part-0.parquet")
    keys, _, counts = read()
    assert keys == ["k1", "k2"] and counts.left_out["markers"] == 2


@pytest.mark.fast
@pytest.mark.parametrize("path", ["t", "t/*"])
def test_folders_of_texts_stay_as_they_are(path: str, put: Put) -> None:
    names = ["_config.yml", "_layouts/x.html", "_posts/a.md", "_posts/b.md", "about.md", "i.html"]
    put(*names, "_data/x.csv", "assets/search.json")
    keys, rejected, counts = read(path, input_format="text")
    assert len(keys) == 8 and not rejected and not counts.left_out
    keys, rejected, counts = read(path)
    assert {"t/_posts/a.md", "t/_posts/b.md", "t/_config.yml", "t/about.md"} <= set(keys)
    assert not counts.left_out["markers"]
    shutil.rmtree("t")
    put("__init__.py", "_version.py", "a.py", "table.parquet", "_native/x.c")
    assert len(read(path)[0]) >= 4


@pytest.mark.fast
def test_what_is_named_is_read(put: Put) -> None:
    put("part-0.parquet", "_odd.parquet", "_SUCCESS", "_dir/a.parquet")
    assert read("t/_odd.parquet")[0] == ["k2"]
    assert read("t/_*.parquet")[0] == ["k2"]
    assert read("t/_dir")[0] == ["k3"]
    assert read("t/_SUCCESS")[0] == ["t/_SUCCESS"]
    keys, _, counts = read("t")
    assert keys == ["k1"] and str(counts) == "3 markers of jobs (such as _SUCCESS)"


def test_dedup_files_and_urls_pass_over_markers_too(put: Put, tmp_path: Path) -> None:
    put("part-0.parquet", "part-1.parquet", "_SUCCESS", "_temporary/0/part-2.parquet")
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add(read_documents(["t"]))
        done = index.dedup_files(["t"], tmp_path / "out")
    assert [Path(one.path).name for one in done.files] == ["part-0.parquet", "part-1.parquet"]
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.put("t", "/t", recursive=True)
    assert read("memory://t")[:2] == (["k1", "k2"], [])
    assert read("memory://t/*")[:2] == (["k1", "k2"], [])
    memory.pipe("/t/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(InputError, match="is a Delta table"):
        read("memory://t")
    memory.store.clear()


ROW = '{"id": "a", "text": "one two"}\n'


@pytest.mark.fast
@pytest.mark.parametrize(
    "names",
    [
        ("part-00000-x.json",), ("part-00000-x-c000.json.gz",), ("x-00000-of-00002.json",),
        ("export-000000000000.json",), ("anything.json", "_SUCCESS"), ("x.json", "_started_1"),
    ],
)  # fmt: skip
def test_a_part_of_one_json_row(names: tuple[str, ...], put: Put) -> None:
    put(**dict.fromkeys(names, ROW))
    for path in ("t", f"t/{names[0]}", "t/*.json*"):
        assert read(path)[:2] == (["a"], [])
    put(**{names[0]: f'[{ROW.strip()}, {{"id": "b", "text": "x"}}]'})
    assert read(f"t/{names[0]}")[0] == ["a", "b"]


@pytest.mark.fast
def test_one_json_object_that_is_no_part(put: Put) -> None:
    put(**{"settings.json": ROW, "rows.json": ROW + ROW.replace("a", "b")})
    keys, rejected, counts = read()
    assert (keys, len(rejected) + counts.left_out["other"]) == (["a", "b"], 1) or rejected
    with pytest.raises(InputError, match=r"settings\.json"):
        read("t/settings.json")


@pytest.mark.fast
@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet", "arrow", "bib"])
def test_an_empty_part_is_no_rejection(ending: str, put: Put) -> None:
    put(**{f"part-00000.{ending}": "", "part-00001.jsonl": ROW})
    keys, rejected, counts = read()
    assert (keys, rejected, str(counts)) == (["a"], [], "1 empty")


# Delta Lake


def live(path: Path) -> list[str]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def check(path: Path) -> None:
    """Compare what is read with what the library of Delta Lake reads."""
    for given in (path, f"{path}/", f"{path}/*", path.parent, f"{path}/**/*.parquet"):
        keys, rejected, _ = read(str(given))
        assert sorted(keys) == live(path) and not rejected, given


def test_a_delta_table_is_read_by_its_log(tmp_path: Path) -> None:
    path = tmp_path / "w" / "t"
    write = deltalake.write_deltalake
    write(path, table("a", "b", "c"))
    check(path)
    write(path, table("d"), mode="append")
    check(path)
    delta = deltalake.DeltaTable(path)
    delta.delete("id = 'b'")
    check(path)
    shutil.copy(next(path.glob("*.parquet")), path / "uncommitted.parquet")
    delta.create_checkpoint()
    check(path)
    delta.optimize.compact()
    check(path)
    for number in range(3):
        write(path, table(f"e{number}"), mode="append")
    assert len(live(path)) == 6
    check(path)
    for commit in sorted((path / "_delta_log").glob("*.json"))[:3]:
        commit.unlink()  # as a clean-up of the log does, once there is a checkpoint
    check(path)
    write(path, table("z"), mode="overwrite")
    check(path)
    keys, _, counts = read(str(path))
    assert keys == ["z"] and counts.left_out["stale"] > 3
    assert "not in their Delta table" in str(counts)


def test_a_delta_table_with_partitions(tmp_path: Path) -> None:
    rows = table("a", "b", "c").append_column("day", pa.array(["x y", "x/y", "é"]))
    path = tmp_path / "w" / "t"
    deltalake.write_deltalake(path, rows, partition_by=["day"])
    deltalake.DeltaTable(path).delete("id = 'b'")
    check(path)
    place = next(folder for folder in path.glob("day=*") if "20y" in folder.name)
    assert read(str(place))[0] == ["a"]
    deltalake.DeltaTable(path).delete("id = 'a'")
    assert read(str(place))[0] == []


def test_a_delta_table_is_written_again_by_its_log(tmp_path: Path) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, table("a", "b"))
    deltalake.write_deltalake(path, table("c", "d"), mode="overwrite")
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add(read_documents([path]))
        done = index.dedup_files([path], tmp_path / "out")
    [one] = done.files
    assert (one.kept, one.dropped, done.unknown) == (2, 0, 0)


def log(path: Path, *actions: dict[str, Any], version: int = 0) -> None:
    place = path / "_delta_log" / f"{version:020}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text("".join(json.dumps(action) + "\n" for action in actions))


ADD = {"add": {"path": "part-0.parquet", "size": 1}}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("actions", "word"),
    [
        ([{"add": ADD["add"] | {"deletionVector": VECTOR}}], "deletion vectors"),
        ([ADD, {"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}], "mapped"),
        ([ADD, {"protocol": {"readerFeatures": ["catalogManaged"]}}], "catalogManaged"),
        ([ADD, {"protocol": {"minReaderVersion": 9}}], "version 9"),
        ([{"add": {"path": "s3://bucket/x.parquet"}}], "elsewhere"),
        ([{"add": {}}], "without a path"),
        ([7], "cannot be read"),
    ],
)
@pytest.mark.parametrize("path", ["t", "t/*", "."])
def test_a_delta_table_that_files_do_not_tell_is_refused_by_name(
    actions: list[Any], word: str, path: str, put: Put
) -> None:
    log(put("part-0.parquet", "part-1.parquet"), *actions)
    keys, [reason], _ = read(path)
    assert keys == [] and "is a Delta table" in reason and word in reason


@pytest.mark.fast
def test_a_log_that_is_not_whole(put: Put) -> None:
    path = put("part-0.parquet", "part-1.parquet")
    log(path, ADD, version=3)
    assert "is not whole" in read()[1][0]
    shutil.rmtree(path / "_delta_log")
    (path / "_delta_log").mkdir()
    assert "is not whole" in read()[1][0]
    log(path, ADD)
    log(
        path, {"remove": {"path": "part-0.parquet"}}, {"add": {"path": "part-1.parquet"}}, version=1
    )
    assert read()[:2] == (["k2"], [])
    log(path, {"add": {"path": "gone.parquet"}}, version=2)
    keys, [reason], _ = read()
    assert keys == ["k2"] and "in the log of its Delta table" in reason
    # A vector of an older commit, and the same file with another one.
    log(path, {"add": {"path": "gone.parquet", "deletionVector": VECTOR}}, version=2)
    assert "deletion vectors" in read()[1][0]
    log(path, {"remove": {"path": "gone.parquet", "deletionVector": VECTOR}}, version=3)
    assert read()[:2] == (["k2"], [])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("marker", "name"),
    [(".hoodie/hoodie.properties", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_tables_of_other_kinds_are_refused_by_name(marker: str, name: str, put: Put) -> None:
    put("data/part-0.parquet", marker)
    keys, [reason], _ = read()
    assert keys == [] and f"is a table of Apache {name}" in reason
