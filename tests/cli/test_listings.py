"""The four forms of a listing, and what they make of keys that could do harm."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lshdb import Index
from lshdb.cli import _parquet
from lshdb.files.whole_files import whole_file
from tests.cli.conftest import BASE, DOCUMENTS, NEAR_SIMILARITY, OTHER, Run, jsonl

ODD = 'tab\there\nline\\back\r\x1b[31mred\x9b\u202e"quote",comma'


@pytest.fixture
def odd_index(tmp_path: Path) -> Path:
    path = tmp_path / "odd.lshdb"
    with Index.create(path) as index:
        index.add([(ODD, BASE), ("plain", BASE)])
    return path


def test_tsv_has_no_header_and_four_escapes(run: Run, odd_index: Path) -> None:
    out = run("pairs", odd_index, "--format", "tsv").stdout
    escaped = ODD
    for raw, shown in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        escaped = escaped.replace(raw, shown)
    assert out == f"{escaped}\tplain\t1.000000\texact\n"


def test_csv_is_read_back_by_any_reader(run: Run, odd_index: Path) -> None:
    out = run("pairs", odd_index, "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(out, newline=""))) == [
        ["key1", "key2", "similarity", "method"],
        [ODD, "plain", "1.000000", "exact"],
    ]


def test_jsonl_is_by_column_with_full_precision(
    run: Run, odd_index: Path, index_path: Path
) -> None:
    (line,) = run("pairs", odd_index, "--format", "jsonl").stdout.splitlines()
    assert json.loads(line) == {
        "key1": ODD, "key2": "plain", "similarity": 1.0, "method": "exact",
    }  # fmt: skip
    lines = run("pairs", index_path, "--format", "jsonl").stdout.splitlines()
    assert {json.loads(line)["similarity"] for line in lines} == {1.0, NEAR_SIMILARITY}


def test_a_table_shows_escapes(run: Run, odd_index: Path) -> None:
    out = run("pairs", odd_index, "--format", "table").stdout
    assert 'tab\\there\\nline\\back\\r\\x1b[31mred\\x9b\\u202e"quote",comma' in out
    assert out.splitlines()[0].split() == ["key1", "key2", "similarity", "method"]
    assert out.splitlines()[2].endswith("plain      1.0000  exact")


@pytest.mark.parametrize("form", ["table", "tsv", "csv", "jsonl"])
def test_nothing_that_a_terminal_obeys_reaches_it(
    on_terminal: Callable[..., tuple[int, str]], odd_index: Path, form: str
) -> None:
    code, shown = on_terminal("pairs", odd_index, "--format", form, NO_COLOR="1")
    assert code == 0 and "red" in shown
    assert not set(shown) & {"\x1b", "\x9b", "\u202e", "\t"} - ({"\t"} if form == "tsv" else set())
    if form == "jsonl":
        assert json.loads(shown.splitlines()[0])["key1"] == ODD


def test_other_outputs_do_not_obey_keys_either(
    on_terminal: Callable[..., tuple[int, str]], odd_index: Path
) -> None:
    for command in (("show", odd_index, ODD), ("query", odd_index, "--key", ODD)):
        code, shown = on_terminal(*command, NO_COLOR="1")
        assert code == 0 and "\\x1b[31mred" in shown and "\x1b" not in shown
    code, shown = on_terminal("show", odd_index, "\x1b]0;title\x07")
    assert code == 1 and "\x1b" not in shown and "\x07" not in shown


def test_the_default_is_a_table_on_a_terminal_and_tsv_elsewhere(
    run: Run, index_path: Path, on_terminal: Callable[..., tuple[int, str]]
) -> None:
    piped = run("pairs", index_path).stdout
    assert piped == run("pairs", index_path, "--format", "tsv").stdout
    _, shown = on_terminal("pairs", index_path, NO_COLOR="1")
    assert shown.splitlines()[0].split() == ["key1", "key2", "similarity", "method"]


def test_every_listing_takes_every_format(run: Run, index_path: Path) -> None:
    listings = (
        ("pairs",), ("explain", "base", "near"), ("query", "--text", BASE), ("show", "base"),
        ("stats",), ("batches",),
        ("sql", "SELECT key FROM document"), ("check",),
    )  # fmt: skip
    for name, *rest in listings:
        for form in ("table", "tsv", "jsonl", "csv"):
            out = run(name, index_path, *rest, "--format", form).stdout
            assert bool(out) == (name != "check" or form == "csv"), (name, form)
        assert "--format is 'xml'" in run(name, index_path, *rest, "--format", "xml", code=2).stderr


def test_show(run: Run, index_path: Path) -> None:
    (line,) = run("show", index_path, "base", "--format", "jsonl").stdout.splitlines()
    shown = json.loads(line)
    assert (shown["key"], shown["text"], shown["copies"]) == ("base", BASE, ["copy"])
    assert len(shown["content_hash"]) == 32 and shown["batch_id"] == 1

    lines = run("show", index_path, "base", "--format", "tsv").stdout.splitlines()
    assert dict(line.split("\t") for line in lines)["text"] == BASE
    assert "copies\tcopy" in lines
    records = list(
        csv.reader(io.StringIO(run("show", index_path, "base", "--format", "csv").stdout))
    )
    assert records[0] == ["field", "value"] and ["text", BASE] in records

    assert "no document has the key 'zz'" in run("show", index_path, "zz", code=1).stderr


def test_show_folds_a_text_and_keeps_its_lines(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add(
            [("poem", f"{BASE}\n\tindented\x1b[0m\nend"), ("tokens", ["a b", "c"]), ("no", "")]
        )
    monkeypatch.setenv("COLUMNS", "50")
    out = run("show", tmp_path / "a.lshdb", "poem", "--format", "table").stdout
    lines = out.splitlines()
    assert max(map(len, lines)) <= 50 and " " * 18 + "indented\\x1b[0m" in lines
    assert "".join(out.split()).endswith("".join(BASE.split()) + "indented\\x1b[0mend")
    assert (
        "text          a b | c"
        in run("show", tmp_path / "a.lshdb", "tokens", "--format", "table").stdout
    )
    empty = run("show", tmp_path / "a.lshdb", "no", "--format", "table").stdout
    assert "signature_id  none: no token" in empty and "copies        none" in empty


def test_show_without_texts(run: Run, tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", store_text=False) as index:
        index.add([(str(number), BASE) for number in range(20)])
    out = run("show", tmp_path / "a.lshdb", "0", "--format", "table").stdout
    assert "text          not stored" in out and "and 9 more" in out
    shown = json.loads(run("show", tmp_path / "a.lshdb", "0", "--format", "jsonl").stdout)
    assert shown["text"] is None and len(shown["copies"]) == 19


def test_stats(run: Run, index_path: Path) -> None:
    stats = json.loads(run("stats", index_path, "--format", "jsonl").stdout)
    expected = {"documents": 4, "exact_copies": 1, "batches": 1, "threshold": 0.8, "k": 5}
    assert {name: stats[name] for name in expected} == expected
    assert stats["path"] == str(index_path)
    lines = run("stats", index_path, "--format", "tsv").stdout.splitlines()
    assert dict(line.split("\t") for line in lines)["signature_bytes"] == str(
        stats["signature_bytes"]
    )
    table = run("stats", index_path, "--format", "table").stdout
    assert "signature_bytes      896 bytes (896 bytes)" in table
    assert run("stats", index_path).stdout == table, "people read it in a pipe, too"


def test_batches(run: Run, index_path: Path) -> None:
    (line,) = run("batches", index_path, "--format", "jsonl").stdout.splitlines()
    batch = json.loads(line)
    expected = {"batch_id": 1, "add_id": 1, "source": "documents", "n_added": 4, "n_copies": 1}
    assert {name: batch[name] for name in expected} == expected
    tsv = run("batches", index_path).stdout.rstrip("\n").split("\t")
    assert batch["has_ended"] is True
    assert tsv == [str(value).lower() for value in batch.values()]
    table = run("batches", index_path, "--format", "table").stdout
    assert "copies" in table and "documents" in table
    assert "rejected" not in table, "a count that is 0 in all rows takes no room"


def test_batches_fit_a_terminal_and_say_the_night(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "press.jsonl").write_text(jsonl([("base", BASE), ("press", OTHER)]) + "no json\n")
    run("add", index_path, tmp_path / "press.jsonl", "--night", "2026-11-07", code=5)
    head, _, first, second = run("batches", index_path, "--format", "table").stdout.splitlines()
    assert head.split()[:3] == ["batch", "finished", "(UTC)"]
    assert head.split()[-3:] == ["done", "night", "source"]
    assert " yes " in first and " yes " in second and "2026" in second
    assert max(map(len, (head, first, second))) <= 80


def test_batches_of_a_new_index(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path / "a.lshdb")
    result = run("batches", tmp_path / "a.lshdb", "--format", "table")
    assert (result.stdout, result.stderr) == ("", "nothing was added yet\n")


# JSON, Parquet, files


@pytest.mark.fast
def test_json_is_one_array(run: Run, index_path: Path) -> None:
    lines = run("pairs", index_path, "--format", "jsonl").stdout.splitlines()
    found = json.loads(run("pairs", index_path, "--format", "json").stdout)
    assert found == [json.loads(line) for line in lines] and len(found) == 3
    nothing = run("query", index_path, "--text", "nothing like it", "--format", "json")
    assert json.loads(nothing.stdout) == []
    assert json.loads(run("stats", index_path, "--format", "json").stdout)["documents"] == 4


def test_tsv_has_a_header_on_request(run: Run, index_path: Path) -> None:
    plain = run("pairs", index_path, "--format", "tsv").stdout
    with_names = run("pairs", index_path, "--format", "tsv", "--header").stdout
    assert with_names == "key1\tkey2\tsimilarity\tmethod\n" + plain
    assert "key1" not in plain


def test_parquet_has_types_and_row_groups(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_parquet, "_ROWS", 2)
    rows = [json.loads(line) for line in run("pairs", index_path, "--json").stdout.splitlines()]
    run("pairs", index_path, "-o", tmp_path / "pairs.parquet")
    file = pq.ParquetFile(tmp_path / "pairs.parquet")
    assert file.num_row_groups == 2 and file.read().to_pylist() == rows
    assert [str(field.type) for field in file.schema_arrow] == [
        "string", "string", "double", "string",
    ]  # fmt: skip
    piped = run("pairs", index_path, "--format", "parquet").stdout_bytes
    assert pq.read_table(io.BytesIO(piped)).to_pylist() == rows


def test_parquet_of_a_select(run: Run, index_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    run("sql", index_path, "SELECT doc_id, key, 0.5 AS x, NULL AS y FROM document", "-o", path)
    table = pq.read_table(path)
    assert [str(field.type) for field in table.schema] == ["int64", "string", "double", "string"]
    assert table.num_rows == 4
    run("sql", index_path, "SELECT key FROM document WHERE false", "-o", path)
    assert pq.read_table(path).num_rows == 0


@pytest.mark.sqlite("Postgres refuses values of two types itself")
def test_parquet_whose_types_change(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_parquet, "_ROWS", 1)
    select = "SELECT 1 AS a UNION ALL SELECT 'b'"
    refused = run("sql", index_path, select, "-o", tmp_path / "a.parquet", code=1)
    assert "the column a began with values of type int64" in refused.stderr
    assert "CAST" in refused.stderr
    piped = run("sql", index_path, select, "--format", "parquet", code=1).stdout_bytes
    with pytest.raises(Exception, match=r"Parquet|magic"):
        pq.read_table(io.BytesIO(piped))
    assert [path.name for path in tmp_path.iterdir()] == ["news.lshdb"]


def test_parquet_is_not_for_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], index_path: Path
) -> None:
    code, shown = on_terminal("pairs", index_path, "--format", "parquet")
    assert code == 2 and "--output FILE" in shown


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a"])
def test_a_file_has_the_format_of_its_name(
    run: Run, index_path: Path, tmp_path: Path, name: str
) -> None:
    form = {"a.txt": "table", "a": "tsv"}.get(name, name.partition(".")[2])
    done = run("pairs", index_path, "-o", tmp_path / name)
    assert done.stdout == ""
    assert (tmp_path / name).read_text() == run("pairs", index_path, "--format", form).stdout
    run("pairs", index_path, "-o", tmp_path / name, "--format", "csv")
    assert (tmp_path / name).read_text().startswith("key1,key2,")


def test_a_file_is_replaced_when_all_is_written(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    refused = run("sql", index_path, "SELECT nothing", "-o", path, code=1)
    assert refused.stderr.startswith("error: ") and path.read_text() == "old"

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lshdb.cli._output.csv_line", fail)
    assert "No space left" in run("pairs", index_path, "-o", path, code=1).stderr
    assert path.read_text() == "old"
    assert {one.name for one in tmp_path.iterdir()} == {"news.lshdb", "out.csv"}


def test_a_file_that_cannot_be_written(run: Run, index_path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    missing = tmp_path / "link" / "no" / "a.csv"
    refused = run("pairs", index_path, "-o", missing, code=1).stderr
    assert f"cannot write {missing}: the folder" in refused
    assert f"{tmp_path} is a folder" in run("pairs", index_path, "-o", tmp_path, code=2).stderr


def test_a_file_keeps_its_place_and_permissions(run: Run, index_path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "out.csv", tmp_path / "out.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    run("pairs", index_path, "-o", link)
    assert link.is_symlink() and real.read_text().startswith("key1,key2,")
    assert real.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in real.parent.iterdir()] == ["out.csv"]


def test_a_link_in_the_way_of_a_file_is_not_followed(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    """In a folder of several users, somebody may have laid it there."""
    victim, path = tmp_path / "victim", tmp_path / "out.csv"
    victim.write_text("of another")
    path.write_text("old")
    for name in (f"out.csv.part-{os.getpid()}", ".out.csv.lshdb-part"):
        (tmp_path / name).symlink_to(victim)
    refused = run("pairs", index_path, "-o", path, code=1).stderr
    assert f"{tmp_path}/.out.csv.lshdb-part: it is a symbolic link" in refused
    assert (victim.read_text(), path.read_text()) == ("of another", "old")


def test_two_processes_do_not_write_one_file(run: Run, index_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with whole_file(str(path)) as file:
        file.write(b"first")
        refused = run("pairs", index_path, "-o", path, code=1).stderr
        assert f"{path}: another process is writing this file" in refused
    assert path.read_bytes() == b"first"


def test_a_device_and_a_pipe_are_written_as_they_are(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    run("pairs", index_path, "-o", os.devnull)
    assert not os.path.isfile(os.devnull)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        run("pairs", index_path, "-o", tmp_path / "pipe")
        assert os.read(reader, 2**16) == run("pairs", index_path).stdout_bytes
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert {one.name for one in tmp_path.iterdir()} == {"news.lshdb", "pipe"}


def test_add_gives_its_summary_as_a_record(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(DOCUMENTS))
    done = run("add", tmp_path / "a.lshdb", tmp_path / "a.jsonl", "--json")
    record = json.loads(done.stdout)
    assert record.pop("seconds") > 0
    assert record == {
        "added": 4, "replaced": 0, "unchanged": 0, "copies": 1, "resumed": 0, "united": 0,
        "cut": 0, "stale": 0, "short": 0, "rejected": 0, "batches": [1],
    }  # fmt: skip
    assert "added 4" not in done.stderr
