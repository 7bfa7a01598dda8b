"""``lshdb spark`` prints the lines of ``lshdb add`` and the command of the same name."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import deltalake
import pyarrow as pa
import pytest
from packaging.requirements import Requirement
from pyspark.sql import functions as sf

import lshdb.spark
from lshdb.cli._group import cli
from lshdb.documents.formats.passthrough import MARKS
from tests.conftest import family_corpus
from tests.docs.blocks import ROOT, blocks
from tests.spark_session import java_home

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def run(*words: str, code: int | None = 0) -> click.testing.Result:
    done = click.testing.CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert code is None or done.exit_code == code, done.stderr
    return done


def test_files_give_the_lines_of_an_index(spark: Any, tmp_path: Path) -> None:
    file, index = tmp_path / "a.jsonl", str(tmp_path / "a.lshdb")
    documents = sorted(family_corpus(3, families=5))
    records = [json.dumps({"nr": key, "body": text}) + "\n" for key, text in documents]
    file.write_text("".join([*records, "no json\n"]))
    reading = (str(file), "--key-field", "nr", "--text-field", "body", "--threshold", "0.5")
    run("add", index, *reading, code=5)
    found = run("spark", "pairs", *reading, code=5)
    assert sorted(found.stdout.splitlines()) == sorted(run("pairs", index).stdout.splitlines())
    assert "1 row rejected; lshdb spark rejected lists them" in found.stderr
    assert run("spark", "rejected", *reading).stdout == "\tthe key is null\n"


def test_a_dataset_is_added_to_and_asked(spark: Any, tmp_path: Path, is_long: bool) -> None:
    """By the answers of one machine, which adds the same files in the order of their keys."""
    data, index = str(tmp_path / "d"), str(tmp_path / "a.lshdb")
    documents = sorted(family_corpus(4, families=5))
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file, some in zip(files, (documents[:9], documents[9:]), strict=True):
        file.write_text("".join(json.dumps({"id": k, "text": text}) + "\n" for k, text in some))
        run("add", index, str(file), "--threshold", "0.5")
    add = ("spark", "add", "--index", data, "--threshold", "0.5")
    said = run(*add, str(files[0]), "--night", "monday").stderr
    assert f"making the dataset {data}: " in said and "added 9" in said
    files[1].write_text(files[1].read_text() + "no json\n")
    assert "rejected 1; " in run(*add, str(files[1]), code=5).stderr
    questions = (
        ("pairs", "--since", "2", "--threshold", "0.7"),
        ("clusters", "--threshold", "0.7"),
        ("dedup", "--keep", "longest", "--only", "drop"),
    )
    for question in questions if is_long else questions[:1]:
        found = run("spark", *question, "--index", data).stdout.splitlines()
        assert sorted(found) == sorted(run(*question, index).stdout.splitlines()) != []
    hits = run("spark", "query", "--index", data, str(files[0])).stdout.splitlines()
    assert len(hits) > 9 and all(
        f"{key}\t{key}\t1.000000\texact" in hits for key, _ in documents[:9]
    )
    wrong = run("spark", "query", "--index", data, "--k", "3", str(files[0]), code=1)
    assert "was made with k = 5, but 3 was given" in wrong.stderr
    missing = run("spark", "pairs", "--index", str(tmp_path / "none"), code=1).stderr
    assert str(tmp_path / "none") in missing
    keeping = (
        ("compact", "documents: 1 file, signatures: 1 file, postings: 1 file"),
        ("vacuum", "0 files removed"),
        ("upgrade", "the dataset has format 2"),
    )
    for question, said in keeping if is_long else keeping[:1]:
        assert run("spark", question, "--index", data).stderr == f"{said}\n"


QUOTED = ("--quote", '"')


@pytest.mark.long
def test_tsv_has_quotes_where_it_shows_them(spark: Any, tmp_path: Path) -> None:
    words = "one two three four five six seven"
    bare = f'id\ttext\na\t"{words}\nb\t{words}"\nc\t5" {words}\n'
    quoted = f'id\ttext\na\t"{words}\tand"\nb\t"{words}\n""and"""\nc\t5 {words}\n'
    for name, content in (("bare", bare), ("quoted", quoted)):
        file = tmp_path / f"{name}.tsv"
        file.write_text(content)
        for more in ((), ("--quote", "none"), QUOTED):
            index = str(tmp_path / f"{name}{len(more)}{more == QUOTED}.lshdb")
            code = run("add", index, str(file), "--threshold", "0.3", *more, code=None).exit_code
            found = run("spark", "pairs", str(file), "--threshold", "0.3", *more, code=None).stdout
            expected = run("pairs", index).stdout.splitlines()
            if code == 0:
                assert sorted(found.splitlines()) == sorted(expected) != []
            assert more or len(found.splitlines()) == 3
    said = run("spark", "pairs", str(file), "--quote", "ab", code=2).stderr
    assert "quote is 'ab'" in said


def test_mistakes_are_told_of_before_spark_starts() -> None:
    pairs = ("spark", "pairs", "a.jsonl")
    assert "threshold is 7" in run(*pairs, "--threshold", "7", code=2).stderr
    assert "--keep is not for pairs" in run(*pairs, "--keep", "last", code=2).stderr
    assert "missing argument FILE...: files" in run("spark", "pairs", code=2).stderr
    assert "add needs --index" in run("spark", "add", "a.jsonl", code=2).stderr
    assert "compact needs --index" in run("spark", "compact", code=2).stderr
    assert "leave out one of them" in run(*pairs, "--index", "d", code=2).stderr
    assert "--since is for a dataset" in run(*pairs, "--since", "2", code=2).stderr
    dataset = ("spark", "pairs", "--index", "d", "--key-field", "nr")
    assert "--key-field is for files" in run(*dataset, code=2).stderr
    assert "--night is not for pairs" in run(*pairs, "--night", "x", code=2).stderr
    assert "'x'; expected NAME=VALUE" in run(*pairs, "--conf", "x", code=2).stderr


def test_input_that_cannot_be_read_is_an_error(spark: Any, tmp_path: Path) -> None:
    said = run("spark", "pairs", str(tmp_path / "none.jsonl"), code=1).stderr
    assert "the input cannot be read" in said and "none.jsonl" in said
    said = run("spark", "pairs", str(tmp_path / "a.pdf"), code=2).stderr
    assert "do not tell one format" in said
    (tmp_path / "_a.jsonl").write_text('{"id": "a", "text": "b"}')
    for hidden in (tmp_path / "_a.jsonl", "s3a://bucket/b.jsonl._COPYING_"):
        said = run("spark", "pairs", str(hidden), "--input", "jsonl", code=1).stderr
        assert f"{hidden}: Spark passes over files" in said
    for elsewhere in ("s3a://bucket/b.jsonl", "s3://bucket/b.jsonl"):
        said = run("spark", "pairs", elsewhere, code=1).stderr
        assert "cannot be read" in said and "hadoop-aws:VERSION" in said
    (tmp_path / "stream" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "stream" / "_spark_metadata" / "0").write_text("no log")
    said = run("spark", "pairs", str(tmp_path / "stream"), "--input", "parquet", code=1).stderr
    assert "the input cannot be read: java" in said and "Traceback" not in said


@pytest.mark.long
def test_a_delta_table_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "text": ["one two three four five six"] * 2})
    deltalake.write_deltalake(tmp_path / "t", rows)
    deltalake.write_deltalake(tmp_path / "t", rows.slice(0, 1), mode="overwrite")
    for path in (tmp_path / "t", f"{tmp_path}/?"):
        said = run("spark", "pairs", str(path), "--input", "parquet", code=1).stderr
        assert "is a Delta table" in said and "format('delta')" in said
    for log, name in (
        ("metadata/v1.metadata.json", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
    ):
        (tmp_path / name / log).parent.mkdir(parents=True)
        (tmp_path / name / log).write_text("{}")
        said = run("spark", "pairs", f"{tmp_path}/{name}", "--input", "parquet", code=1).stderr
        assert f"is a table of Apache {name}" in said and f"format('{name.lower()}')" in said
    files = [str(one) for one in (tmp_path / "t").glob("*.parquet")]
    said = run("spark", "pairs", *files, "--input", "parquet", code=5).stderr
    assert "1 row rejected" in said  # the one that the table has no more


@pytest.mark.long
def test_the_guide_gives_what_stands_there(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = blocks(ROOT / "docs/guides/spark.md")
    names: dict[str, Any] = {"spark": spark}
    shown = [one for one in page if one.kind == "python with spark"]
    assert len(shown) == 2
    for block in shown:
        exec(compile(block.text, str(block), "exec"), names)
        assert capsys.readouterr().out == block.output


def test_the_extra_brings_what_batches_of_arrow_need() -> None:
    """Spark asks for pandas, which its package brings only with an extra of its own."""
    wanted = map(Requirement, importlib.metadata.requires("lshdb") or [])
    extras = {
        extra
        for one in wanted
        if one.name == "pyspark" and one.marker and one.marker.evaluate({"extra": "spark"})
        for extra in one.extras
    }
    brought = map(Requirement, importlib.metadata.requires("pyspark") or [])
    assert "pandas" in {
        one.name
        for one in brought
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
    }


@pytest.mark.parametrize("chosen", ["", "-XX:+UseG1GC", "in a file"])
def test_a_session_starts_with_a_quick_jvm_and_the_users_options_win(
    chosen: str, tmp_path: Path
) -> None:
    """By a Java that works for Spark's launcher, and notes how Spark itself would be started.

    Java refuses to start with two garbage collectors.
    """
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.executor.extraJavaOptions -XX:+UseZGC\n" if chosen == "in a file" else "\n"
    )
    in_file, chosen = chosen == "in a file", chosen if chosen.startswith("-") else ""
    home = java_home(tmp_path)
    java, noted = home / "bin" / "java", tmp_path / "noted"
    real = java.rename(java.with_name("real"))
    java.write_text(
        f'#!/bin/sh\ncase "$*" in\n*spark.launcher.Main*) exec {real} "$@" ;;\n'
        f'*) echo "$*" > {noted}; exit 1 ;;\nesac\n'
    )
    java.chmod(0o755)
    given = "-XX:TieredStopAtLevel=4"
    asked = {"spark.driver.extraJavaOptions": f"{given} {chosen}".strip()}
    code = (
        "import os, lshdb, lshdb.spark as spark\n"
        "try:\n"
        f"    spark.connect('local', {asked}).__enter__()\n"
        "except lshdb.LshdbError as error: print(error)\n"
        "print(os.environ['SPARK_SUBMIT_OPTS'])\n"
    )
    surroundings = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK", "PYSPARK"))
    }
    surroundings |= {"JAVA_HOME": str(home), "SPARK_SUBMIT_OPTS": "-Done=1"}
    surroundings["SPARK_CONF_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=surroundings, capture_output=True, text=True, check=True
    )
    error, left = done.stdout.splitlines()
    assert error.startswith("Spark does not start: ") and left == "-Done=1"
    words = noted.read_text().split()
    places = [words.index(one) for one in ("-XX:TieredStopAtLevel=1", "-Done=1", given)]
    assert places == sorted(places)
    assert ("-XX:+UseParallelGC" in words) == (not chosen and not in_file)
    assert words[words.index("spark.io.compression.codec=zstd") - 1] == "--conf"


def test_executors_write_answers_to_folders(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that are printed, and ``_SUCCESS`` last; only to what is empty."""
    from lshdb.spark import written_folders

    file, folder = tmp_path / "a.jsonl", tmp_path / "clusters"
    documents = sorted(family_corpus(3, families=3))
    file.write_text("".join(json.dumps({"id": k, "text": text}) + "\n" for k, text in documents))
    asked = ("spark", "clusters", str(file), "--threshold", "0.5")
    (folder / "_temporary" / "0" / "task_1").mkdir(parents=True)  # a driver died
    (folder / "_temporary" / "0" / "task_1" / "part-0").write_text("half")
    printed = run(*asked, "--json").stdout.splitlines()
    said = run(*asked, "-o", str(folder)).stderr
    assert said == f"{len(printed)} rows in {folder}\n" != "0"
    assert {"_SUCCESS"} == {path.name for path in folder.iterdir() if path.name[0] == "_"}
    found = [row.asDict() for row in spark.read.parquet(str(folder)).collect()]
    assert sorted(map(str, found)) == sorted(map(str, map(json.loads, printed)))
    said = run(*asked, "-o", str(folder), code=1).stderr
    assert f"{folder} exists already and is not empty" in said
    monkeypatch.setattr(written_folders, "MOST_PRINTED", 0)
    file.write_text("no json\n")
    refused = run("spark", "rejected", str(file), code=2)
    assert "one process prints 0 at most" in refused.stderr and not refused.stdout


@pytest.mark.long
def test_a_folder_has_the_distances_that_are_printed(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    vectors = [[n // 2 + 0.25 * (n % 2), 1.0, 0.5] for n in range(6)]
    file.write_text(
        "".join(json.dumps({"id": f"v{n}", "text": one}) + "\n" for n, one in enumerate(vectors))
    )
    asked = ("spark", "dedup", str(file), "--metric", "l2", "--dim", "3", "--threshold", "0.5")
    printed = run(*asked, "--format", "csv").stdout.splitlines()
    run(*asked, "--format", "csv", "-o", str(tmp_path / "dedup"))
    assert set(lines_in(tmp_path / "dedup")) == set(printed) != set()
    assert "distance" in printed[0] and "similarity" not in printed[0]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_folder_has_all_rows_or_no_success(spark: Any, tmp_path: Path, form: str) -> None:
    rows = [("a", None, 0.5), ('b "c",', "x", 1 / 128), ("d", None, None)]
    answer = spark.createDataFrame(rows, "key string, kept string, similarity double")
    failing = answer.selectExpr("if(key = 'a', key, raise_error('lost')) key")
    with pytest.raises(Exception, match="lost"):
        lshdb.spark.write_answer(failing, str(tmp_path / form), form)
    assert not [path for path in (tmp_path / form).iterdir() if path.name[0] != "."]
    assert lshdb.spark.write_answer(answer, str(tmp_path / form), form) == 3
    assert (tmp_path / form / "_SUCCESS").exists()
    read = spark.read.schema(answer.schema)
    read = read.option("header", True).option("escape", '"').csv if form == "csv" else read.json
    if form == "csv":  # as of one machine
        rows[1] = (*rows[1][:2], 0.007812)
        assert "a,,0.500000" in lines_in(tmp_path / form)
    assert sorted(map(tuple, read(str(tmp_path / form)).collect())) == sorted(rows)
    none = f"file://{tmp_path}/none"
    assert lshdb.spark.write_answer(answer.where("key = 'z'"), none, form) == 0


def test_mistakes_about_folders_are_told_of_before_spark_starts() -> None:
    clean = ("spark", "deduplicate", "a.jsonl")
    assert "no --format" in run(*clean, "-o", "x/", "--json", code=2).stderr
    assert "--output FOLDER/" in run(*clean, code=2).stderr
    said = run("spark", "neighbors", "a.jsonl", "--linkage", "component", code=2).stderr
    assert "--linkage is not for neighbors" in said
    assert "--mark is not for pairs" in run("spark", "pairs", "a.jsonl", "--mark", code=2).stderr
    said = run("spark", "pairs", "a.jsonl", "-o", "s3a://x/y", "--format", "tsv", code=2).stderr
    assert "executors write parquet, csv, jsonl" in said


TEXT = "the same words stand here once more and again"


def lines_in(folder: Path) -> list[str]:
    files = sorted(folder.glob("part-*"))
    return sorted(line for file in files for line in file.read_text().split("\n")[:-1])


@pytest.mark.long
def test_clean_lines_are_those_of_the_input(spark: Any, tmp_path: Path) -> None:
    """Byte for byte, in folders of the same partitions; marked ones with fields behind."""
    lines = [
        f'{{"text": "{TEXT}", "id": 1, "more": [1.50, {{"b": null}}]}}',
        f'{{"id": "2", "text": "{TEXT}"}} ', "no json", "", '{"other": "é"}', "[3]", "{}",
    ]  # fmt: skip
    for day, some in (("a", lines[:1]), ("b", lines[1:])):
        (tmp_path / "in.jsonl" / f"day={day}").mkdir(parents=True)
        (tmp_path / "in.jsonl" / f"day={day}" / "x.jsonl").write_text("\n".join(some) + "\n")
    asked = ("spark", "deduplicate", str(tmp_path / "in.jsonl"), "-o")
    said = run(*asked, str(tmp_path / "clean"), code=5).stderr
    assert said.splitlines()[0] == f"6 rows in {tmp_path}/clean"
    assert lines_in(tmp_path / "clean" / "day=a") == lines[:1]
    assert lines_in(tmp_path / "clean" / "day=b") == sorted(lines[2:])
    run(*asked, str(tmp_path / "marked"), "--mark", code=5)
    marks = '"lshdb_keep":false,"lshdb_cluster":"1","lshdb_kept_as":"1","lshdb_similarity":1.0}'
    kept = '"lshdb_keep":true,"lshdb_cluster":null,"lshdb_kept_as":null,"lshdb_similarity":null}'
    assert lines_in(tmp_path / "marked" / "day=b") == sorted(
        [f"{lines[1][:-2]},{marks} ", "no json", "", '{"other": "é",' + kept, "[3]", "{" + kept]
    )


def test_clean_cells_are_those_of_the_input(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text('id,more,text\na," x ",one\nb,"",two\nc,"1,""2",\n')
    how: dict[str, Any] = {"key": "id", "columns": ["text"]}
    records = lshdb.spark.FileRecords.read(spark, [str(file)], **how)
    records.write(records.rows.where("id <> 'b'"), str(tmp_path / "out.csv"))
    assert lines_in(tmp_path / "out.csv") == ["a, x ,one", 'c,"1,""2",', "id,more,text"]
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a", "lshdb_keep": true}\n')
    records = lshdb.spark.FileRecords.read(spark, [str(tmp_path / "in.jsonl")], **how)
    nothing = {name: sf.lit(None) for name in MARKS}
    with pytest.raises(Exception, match="it is marked"):
        records.write(records.rows.withColumns(nothing), str(tmp_path / "again"))
    spark.range(3).selectExpr("id", "id % 2 as part", "'x' as text").write.partitionBy(
        "part"
    ).parquet(str(tmp_path / "in.parquet"))
    records = lshdb.spark.FileRecords.read(spark, [str(tmp_path / "in.parquet")], **how)
    records.write(records.rows, str(tmp_path / "out.parquet"))
    assert spark.read.parquet(str(tmp_path / "out.parquet")).schema == records.rows.schema
    assert {path.name for path in (tmp_path / "out.parquet").glob("part=*")} == {"part=0", "part=1"}
