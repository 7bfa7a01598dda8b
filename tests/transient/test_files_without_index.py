"""``pairs`` and ``clusters`` of files print what they print of an index of these files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from tests.conftest import family_corpus
from tests.transient.test_same_answers import temporary

__all__ = ["plain_surroundings", "run", "temporary"]

RECORDS = [
    {"id": f"d/{number % 3}/{key}", "text": text, "year": str(1990 + number % 2)}
    for number, (key, text) in enumerate([*family_corpus(3, families=12), ("same", "a b c d e f")])
]
RECORDS += [{"id": "same 2", "text": "a b c d e f", "year": "1990"}]


def as_table(delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "text", "year"], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(RECORDS)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the same records in several formats."""
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    Path("n.jsonl").write_text(lines)
    Path("n.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    Path("n.json").write_text(json.dumps(RECORDS))
    Path("n.csv").write_text(as_table(","))
    Path("n.tsv").write_text(as_table("\t"))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), "n.parquet")
    pyarrow.feather.write_feather(pyarrow.Table.from_pylist(RECORDS), "n.arrow")
    Path("src").mkdir()
    for number, record in enumerate(RECORDS):
        Path(f"src/{number}.txt").write_text(record["text"])
    rng = np.random.default_rng(5)
    points = np.repeat(rng.normal(size=(10, 16)), 3, axis=0)
    np.save("v.npy", (points + rng.normal(scale=0.05, size=points.shape)).astype(np.float32))
    bits = np.repeat(rng.integers(0, 2, size=(10, 64), dtype=np.uint8), 3, axis=0)
    np.save("b.npy", bits ^ (rng.random(bits.shape) < 0.02).astype(np.uint8))
    weights = [
        {"id": str(number), "weights": dict.fromkeys(record["text"].split(), 1.5)}
        for number, record in enumerate(RECORDS)
    ]
    Path("w.jsonl").write_text("".join(json.dumps(record) + "\n" for record in weights))
    return tmp_path


def assert_same(run: Run, files: list[str], making: list[str], *asking: str) -> None:
    """Both commands write the same of files as of an index, and say the same at the end."""
    run("add", "i.lshdb", *files, *making)
    for command in ("pairs", "clusters"):
        stored = run(command, "i.lshdb", *asking)
        direct = run(command, *files, *making, *asking)
        assert direct.stdout == stored.stdout
        assert direct.stdout.count("\n") > 3
        assert direct.stderr.endswith(stored.stderr)


@pytest.mark.parametrize(
    ("files", "making"),
    [
        ("n.jsonl", []),
        ("n.jsonl.gz", ["--threshold", "0.5", "--unit", "char"]),
        ("n.json", ["--no-text"]),
        ("n.csv", ["--text-field", "text", "--text-field", "year"]),
        ("n.tsv", ["--row-keys"]),
        ("n.parquet", ["--k", "2", "--seed", "3"]),
        ("n.arrow", []),
        ("src", ["--include", "1*.txt", "--include", "2*.txt"]),
        ("src/*.txt n.csv", []),
        ("v.npy", ["--metric", "cosine", "--threshold", "0.9"]),
        ("v.npy", ["--metric", "l2", "--threshold", "1"]),
        ("b.npy", ["--metric", "hamming", "--threshold", "6", "--dim", "64"]),
        ("w.jsonl", ["--metric", "weighted-jaccard"]),
    ],
)
def test_every_format(
    run: Run, folder: Path, temporary: Path, files: str, making: list[str]
) -> None:
    assert_same(run, files.split(), making, "--format", "jsonl")


@pytest.mark.parametrize("output", ["table", "tsv", "csv", "jsonl", "json"])
def test_every_output(run: Run, folder: Path, temporary: Path, output: str) -> None:
    making = ["--keep-fields", "year"]
    assert_same(run, ["n.jsonl"], making, "--format", output, "--with-text", "--with-fields")


@pytest.mark.parametrize(
    "asking",
    ["pairs --agree year", "pairs --differ year", "pairs --by-directory", "pairs --verify none",
     "pairs --sort similarity --limit 3", "pairs --cross d/0 d/1", "pairs --below 0.9",
     "pairs --measure containment", "pairs --max-bucket 3", "pairs --verify signature",
     "clusters --min-size 3 --linkage representative", "clusters --agree year",
     "clusters --max-bucket 2", "clusters --verify signature"],
)  # fmt: skip
def test_every_question(run: Run, folder: Path, temporary: Path, asking: str) -> None:
    command, *options = asking.split()
    run("add", "i.lshdb", "n.jsonl", "--keep-fields", "year", "--threshold", "0.6")
    stored = run(command, "i.lshdb", *options)
    making = ["--keep-fields", "year", "--threshold", "0.6", "--workers", "1"]
    direct = run(command, "n.jsonl", *making, *options)
    assert direct.stdout == stored.stdout != ""
    assert direct.stderr.endswith(stored.stderr)


def test_standard_input_and_rejections(run: Run, folder: Path, temporary: Path) -> None:
    lines = Path("n.jsonl").read_text() + '{"id": "x"}\n'
    direct = run("pairs", "-", stdin=lines, code=5)
    assert direct.stdout == run("pairs", "n.jsonl").stdout
    assert "no field 'text'" in direct.stderr
    assert f"{len(RECORDS)} documents read, 1 rejected" in direct.stderr
    assert run("clusters", "-", stdin=lines, code=5).stdout == run("clusters", "n.jsonl").stdout


def test_records_without_keys(run: Run, folder: Path, temporary: Path) -> None:
    Path("k.jsonl").write_text('{"text": "a b c d e f"}\n' * 2)
    direct = run("pairs", "k.jsonl")
    assert direct.stdout.startswith("k.jsonl:1\tk.jsonl:2\t1.0")
    assert "path and row number are the keys" in direct.stderr


def test_a_list_in_the_folder_that_is_read_is_no_input(
    run: Run, folder: Path, temporary: Path
) -> None:
    for _ in range(2):
        said = run("pairs", "src", "-o", "src/pairs.txt").stderr
        assert f"{len(RECORDS)} documents read" in said


def test_what_is_an_index_and_what_is_not(
    run: Run, folder: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", "index", "n.jsonl")
    own = run("pairs", "n.jsonl").stdout
    assert run("pairs", "index").stdout == own
    monkeypatch.setenv("LSHDB_INDEX", "index")
    assert run("pairs").stdout == own
    assert "k0" not in run("pairs", "src", "--k", "2").stdout  # not those of the index
    assert "a part of the index" in run("pairs", "index/signatures.npy", code=1).stderr
    Path("index/index.toml").unlink()
    assert "has lost index.toml" in run("clusters", "index", code=1).stderr


EVERY = ("pairs", "clusters", "dedup")


@pytest.mark.parametrize(
    ("stage", "commands"),
    [
        ("lshdb.cli._long_work.AddProgress.watch", EVERY),
        ("lshdb.transient.transient_add.freeze_rows", EVERY),
        ("lshdb.transient.transient_state.TransientState.document_columns", EVERY[:2]),
        ("lshdb.groups.rewrite_files._Judge.take", EVERY[2:]),
    ],
)
def test_an_interruption_leaves_nothing(
    run: Run,
    folder: Path,
    temporary: Path,
    stage: str,
    commands: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interruptions = []

    def interrupted(*_: object, **__: object) -> None:
        interruptions.append(list(temporary.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, interrupted)
    for command in commands:
        output = "out.jsonl" if command == "dedup" else "out.tsv"
        said = run(command, "n.jsonl", "-o", output, code=130).stderr
        assert said.endswith("interrupted\n")
        assert not Path(output).exists()
    assert all(len(folders) == 1 for folders in interruptions)
    assert len(interruptions) == len(commands)


@pytest.mark.parametrize(
    ("files", "making", "asking"),
    [
        ("n.jsonl", ["--threshold", "0.5"], ["n.tsv"]),
        ("n.jsonl", [], ["n.csv", "n.parquet", "--top", "all", "--workers", "2"]),
        ("n.json", ["--k", "2"], ["--text", RECORDS[0]["text"], "--recall", "0.9"]),
        ("n.parquet", ["--unit", "char"], ["--key", "same 2", "--json"]),
        ("src n.csv", [], ["n.jsonl", "--measure", "containment", "--with-text"]),
        ("n.jsonl.gz", ["--no-text"], ["n.jsonl", "--verify", "signature", "--below", "0.9"]),
        ("n.jsonl", ["--keep-fields", "year"], ["n.jsonl", "--vote", "year"]),
        ("n.jsonl", ["--keep-fields", "year"], ["--key", "same 2", "--with-fields"]),
        ("v.npy", ["--metric", "cosine"], ["--key", "3", "--recall", "0.9", "--top", "4"]),
        ("v.npy", ["--metric", "l2", "--threshold", "1"], ["v.npy"]),
        ("b.npy", ["--metric", "hamming", "--threshold", "6", "--dim", "64"], ["b.npy"]),
        (
            "w.jsonl",
            ["--metric", "weighted-jaccard"],
            ["--vector", '{"a": 1.5}', "--recall", "0.9"],
        ),
    ],
)
def test_a_query_of_files(
    run: Run, folder: Path, temporary: Path, files: str, making: list[str], asking: list[str]
) -> None:
    run("add", "i.lshdb", *files.split(), *making)
    stored = run("query", "i.lshdb", *asking)
    places = [word for file in files.split() for word in ("--in", file)]
    direct = run("query", *places, *asking, *making)
    assert direct.stdout == stored.stdout != ""
    assert direct.stderr.endswith(stored.stderr)


def test_what_is_searched_and_asked_may_come_from_a_pipe(
    run: Run, folder: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Path("n.jsonl").read_bytes()
    asked = run("query", "--in", "n.jsonl", "n.jsonl").stdout
    assert run("query", "--in", "n.jsonl", stdin=lines).stdout == asked
    assert run("query", "--in", "-", "n.jsonl", stdin=lines).stdout == asked
    monkeypatch.setenv("LSHDB_INDEX", "i.lshdb")
    assert run("query", "n.jsonl", "--in", "n.jsonl").stdout == asked


def test_a_query_is_of_an_index_or_of_files(run: Run, folder: Path, temporary: Path) -> None:
    run("add", "i.lshdb", "n.jsonl")
    for words in (["--in", "i.lshdb", "--text", "x"], ["i.lshdb", "--in", "n.jsonl", "n.csv"]):
        said = run("query", *words, code=2).stderr
        assert "i.lshdb is an index, and --in is for files without one" in said
    assert "or --in FILE to search files" in run("query", code=2).stderr
    assert "standard input is searched" in run("query", "--in", "-", code=2).stderr
    said = run("query", "--in", "n.jsonl", "--vector", "[1, 2]", code=2).stderr
    assert "and n.jsonl holds texts" in said
    assert "no such option --unit" in run("query", "i.lshdb", "--unit", "char", code=2).stderr
    assert "--unit" in run("query", "--help").stdout
    Path("bad.jsonl").write_text('{"id": "1", "text": "a b c d e f"}\n{"id": "2"}\n')
    assert "1 rejected" in run("query", "--in", "bad.jsonl", "--text", "a b c d e f", code=5).stderr
    said = run("query", "--in", "nowhere.jsonl", "--text", "x", code=1).stderr
    assert "nowhere.jsonl: no such file" in said


def test_fields_that_nobody_keeps_are_named(run: Run, folder: Path, temporary: Path) -> None:
    run("add", "i.lshdb", "n.jsonl")
    for words in (["i.lshdb"], ["n.jsonl"]):
        said = run("pairs", *words, "--agree", "year").stderr
        assert "no document has a kept field, so year tells no two documents apart" in said
        assert "kept field" not in run("pairs", *words).stderr
