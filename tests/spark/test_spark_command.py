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

from lshdb.cli._group import cli
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


def test_a_dataset_is_added_to_and_asked(spark: Any, tmp_path: Path) -> None:
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
    for question in (
        ("pairs", "--since", "2", "--threshold", "0.7"),
        ("clusters", "--threshold", "0.7"),
        ("dedup", "--keep", "longest", "--only", "drop"),
    ):
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


QUOTED = ("--quote", '"')


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
        assert len(run("spark", "pairs", str(file), "--threshold", "0.3").stdout.splitlines()) == 3
    said = run("spark", "pairs", str(file), "--quote", "ab", code=2).stderr
    assert "quote is 'ab'" in said


def test_mistakes_are_told_of_before_spark_starts() -> None:
    pairs = ("spark", "pairs", "a.jsonl")
    assert "threshold is 7" in run(*pairs, "--threshold", "7", code=2).stderr
    assert "--keep is not for pairs" in run(*pairs, "--keep", "last", code=2).stderr
    assert "missing argument FILE...: files" in run("spark", "pairs", code=2).stderr
    assert "add needs --index" in run("spark", "add", "a.jsonl", code=2).stderr
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


def test_a_delta_table_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "text": ["one two three four five six"] * 2})
    deltalake.write_deltalake(tmp_path / "t", rows)
    deltalake.write_deltalake(tmp_path / "t", rows.slice(0, 1), mode="overwrite")
    for path in (tmp_path / "t", f"{tmp_path}/?"):
        said = run("spark", "pairs", str(path), "--input", "parquet", code=1).stderr
        assert "is a Delta table" in said and "format('delta')" in said
    files = [str(one) for one in (tmp_path / "t").glob("*.parquet")]
    said = run("spark", "pairs", *files, "--input", "parquet", code=5).stderr
    assert "1 row rejected" in said  # the one that the table has no more


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
