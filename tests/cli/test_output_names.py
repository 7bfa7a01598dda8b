"""What a command writes has the name that it was given: honoured in its format, or refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.json
import pyarrow.parquet as pq
import pytest

from lshdb import Index, InputError, ParameterError
from lshdb.arguments import FILE_ENDINGS
from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._output import FORMATS
from lshdb.documents.registry import BY_EXTENSION, COMPRESSIONS
from tests.cli.conftest import BASE, Run, jsonl

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NOT_WRITTEN = ["xlsx", "XLSX", "docx", "pdf", "db", "html", "arrow", "yaml", "lshdb", "svg", "zip"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    index_path.rename("i.lshdb")
    records = [("a", BASE), ("b", BASE), ("c", "another text that has some six words")]
    Path("n.jsonl").write_text(jsonl(records))
    for name, part in (("a", records[:2]), ("b", records[2:])):
        Path("shards").mkdir(exist_ok=True)
        Path("shards", f"{name}.jsonl").write_text(jsonl(part))
    return tmp_path


def names() -> set[str]:
    return {path.name for path in Path().iterdir()}


def test_one_name_for_what_a_command_writes() -> None:
    """No other option of any command is -o, and listings, reports, pictures and exports have it."""
    writes = {
        "add", "batches", "check", "clusters", "contract", "cursors", "dedup", "explain", "export",
        "join", "neighbors", "pairs", "plot", "query", "recall", "report", "show", "spark", "sql",
        "stats", "tune",
    }  # fmt: skip
    for name in COMMANDS:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        options = [param.opts for param in command.params]
        assert (["-o", "--output"] in options) == (name in writes), name
        assert not any("--to" in opts for opts in options)
        assert sum("-o" in opts for opts in options) == (name in writes)


@pytest.mark.parametrize("ending", NOT_WRITTEN)
def test_a_listing_is_not_written_as_something_else(run: Run, ending: str) -> None:
    before = names()
    for command in (
        ("pairs", "i.lshdb", "-o"), ("stats", "i.lshdb", "-o"), ("clusters", "i.lshdb", "-o"),
        ("query", "i.lshdb", "--text", BASE, "-o"), ("sql", "i.lshdb", "SELECT 1", "-o"),
        ("dedup", "i.lshdb", "--decisions"), ("dedup", "i.lshdb", "--filter", "n.jsonl", "-o"),
        ("add", "new.lshdb", "n.jsonl", "--rejects"),
        ("contract", "i.lshdb", "n.jsonl", "--mapping"),
    ):  # fmt: skip
        refused = run(*command, f"out.{ending}", code=2).stderr
        said = f"error: out.{ending}: a .{ending.lower()} file is not written"
        assert refused.startswith(said), command
    assert names() == before
    run("pairs", "i.lshdb", "-o", f"out.{ending}", "--format", "csv")  # as it is asked for
    assert Path(f"out.{ending}").read_text().startswith("key1,key2,")


def test_a_spreadsheet_is_told_of_csv(run: Run) -> None:
    assert "a spreadsheet opens .csv" in run("pairs", "i.lshdb", "-o", "x.xlsx", code=2).stderr


@pytest.mark.parametrize("name", ["out", "out.2026-11-26", "OUT.TSV", "a.b/out", "x.tab"])
def test_other_names_are_tsv(run: Run, name: str) -> None:
    Path("a.b").mkdir()
    run("pairs", "i.lshdb", "--output", name)
    assert Path(name).read_text() == run("pairs", "i.lshdb", "--format", "tsv").stdout


@pytest.mark.parametrize(
    ("ending", "unpack"),
    [
        ("gz", gzip.decompress), ("bz2", bz2.decompress), ("xz", lzma.decompress),
        ("zst", zstd.decompress),
    ],
)  # fmt: skip
def test_a_compressed_name_is_compressed(
    run: Run, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    for form in ("tsv", "csv", "jsonl"):
        run("pairs", "i.lshdb", "-o", f"p.{form}.{ending}")
        plain = run("pairs", "i.lshdb", "--format", form).stdout_bytes
        assert unpack(Path(f"p.{form}.{ending}").read_bytes()) == plain != b""
    run("dedup", "i.lshdb", "--filter", "n.jsonl", "-o", f"n.jsonl.{ending}", code=1)
    run("add", "n.lshdb", "n.jsonl")
    run("dedup", "n.lshdb", "--filter", "n.jsonl", "-o", f"n.jsonl.{ending}")
    lines = unpack(Path(f"n.jsonl.{ending}").read_bytes()).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "c"]
    for how in ((f"p.parquet.{ending}",), (f"p.{ending}", "--format", "parquet")):
        refused = run("pairs", "i.lshdb", "-o", *how, code=2).stderr
        assert "Parquet is compressed inside" in refused


def test_standard_output_by_its_name(run: Run, process: Callable[..., object]) -> None:
    plain = run("pairs", "i.lshdb").stdout
    assert plain and run("pairs", "i.lshdb", "-o", "-").stdout == plain
    assert "-" not in names()
    # Opened by its name, a file that a shell opened would begin anew.
    with Path("log").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        process_run(file, "pairs", "i.lshdb", "-o", "/dev/stdout")
    assert Path("log").read_text() == "before\n" + plain


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="a folder of Linux")
def test_a_file_in_shared_memory_is_a_file(run: Run) -> None:
    """And no device, which would be appended to."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "p.tsv"
        path.write_text("what was here before\n")
        run("pairs", "i.lshdb", "-o", path)
        assert path.read_text() == run("pairs", "i.lshdb").stdout


def process_run(stdout: io.BufferedWriter, *args: str) -> None:
    import subprocess

    from tests.cli.conftest import MODULE, environment

    subprocess.run([*MODULE, *args], stdout=stdout, env=environment(), check=True)


def test_a_listing_needs_a_place(run: Run) -> None:
    for path, code, message in (
        ("shards", 2, "shards is a folder, and one file is written"),
        ("new/", 2, "new/ is a folder, and one file is written"),
        ("", 2, "the output has no name"),
        ("i.lshdb/out.tsv", 2, "is inside an index"),
        ("no/out.tsv", 1, "the folder"),
    ):
        for command in (("pairs", "i.lshdb"), ("clusters", "i.lshdb")):
            refused = run(*command, "-o", path, code=code).stderr
            assert message in refused and "hint: " in refused, path


@pytest.mark.parametrize(
    "command",
    [
        ("query", "i.lshdb", "n.jsonl", "-o", "n.jsonl"),
        ("query", "i.lshdb", "n.jsonl", "--output=./n.jsonl"),
        ("tune", "n.jsonl", "-o", "n.jsonl", "--json"),
        ("contract", "i.lshdb", "n.jsonl", "-o", "n.jsonl"),
        ("dedup", "i.lshdb", "--filter", "n.jsonl", "-o", "n.jsonl"),
        ("dedup", "n.jsonl", "-o", "m.jsonl", "--decisions", "n.jsonl"),
    ],
)
def test_an_input_is_not_written_over(run: Run, command: tuple[str, ...]) -> None:
    before = Path("n.jsonl").read_bytes()
    assert "n.jsonl is an input" in run(*command, code=2).stderr
    assert Path("n.jsonl").read_bytes() == before


def test_a_page_is_named_by_its_ending(run: Run) -> None:
    run("explain", "i.lshdb", "base", "near", "-o", "pair.html")
    run("explain", "i.lshdb", "base", "near", "--html", "-o", "other.HTM")
    assert Path("pair.html").read_bytes() == Path("other.HTM").read_bytes()
    assert Path("pair.html").read_text().startswith("<!DOCTYPE html>")
    for how in (("--html", "-o", "pair.tsv"), ("-o", "pair.html", "--diff"), ("-o", "pair.pdf")):
        run("explain", "i.lshdb", "base", "near", *how, code=2)


@pytest.mark.parametrize("name", ["r.pdf", "r.docx", "r.html.gz", "r.md", "r.xml", "r.parquet"])
def test_a_report_is_a_page_or_a_folder(run: Run, name: str) -> None:
    refused = run("report", "i.lshdb", "-o", name, code=2).stderr
    assert f"'{name}' is the name of a file, and a report is a page of HTML" in refused
    assert name not in names()
    run("report", "i.lshdb", "-o", f"{name}/")
    assert Path(name, "index.html").is_file()
    run("report", "i.lshdb", "-o", "report.2026-11-26")
    assert Path("report.2026-11-26", "index.html").is_file()
    assert run("report", "i.lshdb", "-o", "-", "--sample", "0").stderr.startswith("wrote ")
    assert "-" not in names()


@pytest.mark.parametrize("name", ["-", "x", "x.jpg", "x.html", "x.svg/", "shards", "no/x.svg"])
def test_a_picture_is_a_file_of_a_kind(run: Run, name: str) -> None:
    before = names()
    code = 1 if name == "no/x.svg" else 2
    assert "error: " in run("plot", "s-curve", "i.lshdb", "-o", name, code=code).stderr
    assert "error: " in run("tune", "n.jsonl", "--plot", name, code=code).stderr
    assert names() == before


@pytest.mark.parametrize("name", ["-", "x.parquet", "x.zip", "x.jsonl", "x.tar.gz"])
def test_an_export_is_a_folder(run: Run, name: str) -> None:
    before = names()
    for form in ("jsonl", "parquet", "delta"):
        refused = run("export", "i.lshdb", "-o", name, "--format", form, code=2).stderr
        assert "an export is a folder" in refused
        with Index.open("i.lshdb") as index, pytest.raises(ParameterError):
            index.export(name, format=form)  # type: ignore[arg-type]
    assert names() == before
    if name != "-":
        run("export", "i.lshdb", "-o", f"{name}/", "--format", "parquet")
        assert Path(name, "index.json").is_file()


def test_an_export_by_position_is_told_the_option(run: Run) -> None:
    refused = run("export", "i.lshdb", "files", code=2).stderr
    assert "missing option -o/--output DIR: the folder to write" in refused


@pytest.mark.parametrize("name", ["x.parquet", "x.xlsx", "x.docx", "x.db", "x.tar.gz", "x.csv"])
def test_files_go_to_a_folder_or_to_a_file_of_their_format(run: Run, name: str) -> None:
    before = names()
    refused = run("dedup", "shards/", "-o", name, code=2).stderr
    assert f"'{name}' is the name of a file, and 2 files are to be written" in refused
    assert "error: " in run("dedup", "n.jsonl", "-o", name, code=2).stderr
    run("add", "n.lshdb", "n.jsonl")
    assert "error: " in run("dedup", "n.lshdb", "n.jsonl", "-o", name, code=2).stderr
    with Index.open("n.lshdb") as index, pytest.raises(ParameterError):
        index.dedup_files(["n.jsonl"], name)
    assert names() == before | {"n.lshdb"}
    run("dedup", "shards/", "-o", f"{name}/")
    assert {path.name for path in Path(name).iterdir()} == {"a.jsonl", "b.jsonl"}
    run("dedup", "n.jsonl", "-o", name)  # into the folder that is there


def test_files_to_standard_output(run: Run) -> None:
    run("add", "n.lshdb", "n.jsonl")
    table = pyarrow.json.read_json("n.jsonl")
    pq.write_table(table, "n.parquet")
    Path("n.jsonl.gz").write_bytes(gzip.compress(Path("n.jsonl").read_bytes()))
    before = names()
    for index in ((), ("n.lshdb",)):
        done = run("dedup", *index, "n.jsonl", "-o", "-")
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["a", "c"]
        assert "1 file written to standard output in" in done.stderr
        assert done.stderr.startswith("3 records read, 2 kept, 1 dropped")
        packed = run("dedup", *index, "n.jsonl.gz", "-o", "-").stdout_bytes
        assert gzip.decompress(packed) == done.stdout_bytes
        columns = run("dedup", *index, "n.parquet", "-o", "-").stdout_bytes
        assert pq.read_table(io.BytesIO(columns))["id"].to_pylist() == ["a", "c"]
    for several in (("shards",), ("shards/*.jsonl",), ("n.jsonl", "shards/b.jsonl")):
        refused = run("dedup", *several, "-o", "-", code=2).stderr
        assert "- stands for standard output, and" in refused
    assert names() == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":memory:", "':memory:' is the name of none"),
        ("-", "- stands for standard output"),
        ("x.db", "'x.db' is the name of a file"),
        ("x.jsonl", "'x.jsonl' is the name of a file"),
        ("X.Parquet", "'X.Parquet' is the name of a file"),
        ("postgresql://u:secret@host/db", "postgresql://... is a URL"),
        ("s3://bucket/x", "s3://... is a URL"),
        ("file:///tmp/x", "file://... is a URL"),
    ],
)
def test_an_index_is_a_folder_on_disk(run: Run, name: str, message: str) -> None:
    before = names()
    with pytest.raises(ParameterError) as told:
        Index.create(name)
    assert "an index is a folder on disk" in told.value.message and message in told.value.message
    assert told.value.hint and "secret" not in str(told.value)
    for command in (
        ("init", "--", name), ("copy", "i.lshdb", "--", name), ("reindex", "i.lshdb", "--", name),
        ("dedup", "n.jsonl", "-o", "m.jsonl", "--index", name),
    ):  # fmt: skip
        assert message in run(*command, code=2).stderr, command
    assert message in run("add", "--", name, "n.jsonl", code=2).stderr
    assert names() == before


def test_names_that_look_like_others_make_an_index() -> None:
    for name in ("news", "news.lshdb", "v1.2", "2026.11.26", "a:b", ".hidden", "c.idx"):
        Index.create(name).close()
    os.mkdir("x.db")  # a folder that is there is one
    Index.create("x.db").close()


def test_every_name_of_an_input_is_one_of_a_file() -> None:
    endings = {*BY_EXTENSION, *(one.extension for one in COMPRESSIONS.values())}
    endings |= {f".{form}" for form in FORMATS if form != "table"}
    assert {ending.removeprefix(".") for ending in endings} <= FILE_ENDINGS


def test_an_input_that_cannot_be_written_is_still_named(run: Run) -> None:
    with Index.open("i.lshdb") as index, pytest.raises(InputError):
        index.dedup_files(["missing.jsonl"], "-")


def test_no_output_goes_to_a_url(run: Run) -> None:
    before = names()
    for line in (
        ("pairs", "i.lshdb", "-o", "s3://bucket/x.tsv"),
        ("dedup", "i.lshdb", "--decisions", "https://host/x.csv"),
        ("report", "i.lshdb", "-o", "s3://bucket/r.html"),
        ("report", "i.lshdb", "-o", "gs://bucket/r"),
        ("export", "i.lshdb", "-o", "s3://bucket/x"),
        ("dedup", "n.jsonl", "-o", "s3://bucket/n.jsonl"),
        ("dedup", "shards", "-o", "s3://bucket/clean/"),
        ("plot", "s-curve", "i.lshdb", "-o", "ftp://host/x.svg"),
    ):
        said = run(*line, code=2).stderr
        assert "://... is a URL, and outputs are written to this machine" in said, line
    assert names() == before


def test_no_output_is_without_a_name(run: Run) -> None:
    before = names()
    for line in (
        ("pairs", "i.lshdb"), ("report", "i.lshdb"), ("export", "i.lshdb"), ("dedup", "n.jsonl"),
        ("plot", "s-curve", "i.lshdb"),
    ):  # fmt: skip
        assert "error: " in run(*line, "-o", "", code=2).stderr
    assert names() == before


def test_decisions_go_where_they_are_asked_for(run: Run) -> None:
    run("add", "n.lshdb", "n.jsonl")
    listed = run("dedup", "n.lshdb").stdout
    assert run("dedup", "n.lshdb", "--decisions", "-").stdout == listed
    assert run("dedup", "n.lshdb", "n.jsonl", "-o", "a/", "--decisions", "-").stdout == listed
    assert run("dedup", "n.lshdb", "n.jsonl", "-o", "b/").stdout == ""
    for place in ("x.jsonl", "-"):
        said = run("dedup", "n.jsonl", "-o", place, "--decisions", place, code=2).stderr
        assert f"--output and --decisions are both {place}" in said
    assert "x.jsonl" not in names()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told_before_the_work(run: Run) -> None:
    Path("theirs").mkdir(mode=0o555)
    for line, name in (
        (("report", "i.lshdb"), "x.html"), (("plot", "s-curve", "i.lshdb"), "x.svg"),
        (("clusters", "i.lshdb"), "x.tsv"),
    ):  # fmt: skip
        said = run(*line, "-o", f"theirs/{name}", code=1).stderr
        assert "may not be written to" in said
