"""dedup FILES --output: a dataset without its near-duplicates, in one command."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import json
import lzma
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb.files.aside import AsideFile
from tests.cli.conftest import MEASURED, MODULE, Run

Start = Callable[..., subprocess.Popen[bytes]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which every command must leave empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def corpus(n_documents: int) -> list[dict[str, Any]]:
    """Documents of which each tenth repeats the one five before it, but for its last word."""
    draw = random.Random(7)
    rows: list[dict[str, Any]] = []
    for number in range(n_documents):
        text = " ".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=1)[0] * 3 for _ in range(2))
        text += " " + " ".join(str(draw.randrange(10**6)) for _ in range(40)) + " é"
        if number % 10 == 9:
            text = str(rows[number - 5]["text"]).rpartition(" ")[0] + " other"
        rows.append({"text": text, "meta": {"n": number, "tags": ["x", None]}})
    return rows


def test_a_dataset_of_shards_without_ids(run: Run, tmp_path: Path, temporary: Path) -> None:
    rows = corpus(800)
    types = pa.struct([("n", pa.int32()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema([("text", pa.string()), ("meta", types)], {"huggingface": '{"info": {}}'})
    data = tmp_path / "dataset/data"
    data.mkdir(parents=True)
    (tmp_path / "dataset/README.md").write_text("A dataset.")
    for shard in range(8):
        table = pa.Table.from_pylist(rows[shard * 100 : shard * 100 + 100], schema)
        name = f"train-{shard:05d}-of-00008.parquet"
        pq.write_table(table, data / name, row_group_size=40, compression="zstd")
    out = tmp_path / "clean"
    done = run("dedup", tmp_path / "dataset", "--output", out)
    assert "there is no field id, so path and row number are the keys" in done.stderr
    assert "800 records read, 720 kept, 80 dropped; 8 files written" in done.stderr
    assert "1 other file was left out" in done.stderr
    names = sorted(path.name for path in (out / "data").iterdir())
    assert names == sorted(path.name for path in data.iterdir())
    table = pa.concat_tables(pq.read_table(out / "data" / name) for name in names)
    assert table.to_pylist() == [row for i, row in enumerate(rows) if i % 10 != 9]
    assert table.schema.equals(pq.read_schema(data / names[0]), check_metadata=True)
    assert table.schema.metadata == {b"huggingface": b'{"info": {}}'}
    first = pq.ParquetFile(out / "data" / names[0]).metadata
    assert [first.row_group(i).num_rows for i in range(3)] == [40, 40, 10]
    assert first.row_group(0).column(0).compression == "ZSTD"
    assert not os.listdir(temporary)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be"])
def test_a_table_in_another_encoding(
    run: Run, tmp_path: Path, temporary: Path, encoding: str
) -> None:
    rows = corpus(100)
    lines = ["Schlüssel;text;Zahl\r\n"]
    for number, row in enumerate(rows):
        lines.append(f'é{number};"{row["text"]}; ""ä"" \n";{number},5\r\n')
    data = "".join(lines).encode(encoding)
    kept = "".join(line for i, line in enumerate(lines) if i % 10 or not i).encode(encoding)
    if encoding == "utf-16-be":
        data, kept = codecs.BOM_UTF16_BE + data, codecs.BOM_UTF16_BE + kept
    path, out = tmp_path / "all.csv", tmp_path / "out"
    path.write_bytes(data)
    how = ["--delimiter", ";", "--key-field", "Schlüssel"]
    if encoding == "latin-1":
        how += ["--encoding", encoding]
    done = run("dedup", path, "--output", out, *how)
    assert "100 records read, 90 kept, 10 dropped" in done.stderr
    assert (out / "all.csv").read_bytes() == kept
    # The same with an index, and marks.
    index = tmp_path / "all.lshdb"
    run("add", index, path, *how)
    run("dedup", index, path, "--output", tmp_path / "marked.csv", "--mark", *how)
    decoding = encoding if encoding == "latin-1" else "utf-16"
    with (tmp_path / "marked.csv").open(newline="", encoding=decoding) as file:
        found = list(csv.DictReader(file, delimiter=";"))
    assert found[9]["lshdb_kept_as"] == "é4" and found[9]["text"].endswith('; "ä" \n')
    assert not os.listdir(temporary)


def test_options_that_do_nothing_are_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text('{"id": "a", "text": "some text"}\n')
    index = tmp_path / "all.lshdb"
    run("add", index, path)
    for how in (["--delimiter", ";"], ["--encoding", "nonsense"]):
        run("dedup", index, path, "--output", tmp_path / "out", *how, code=2)
        run("dedup", path, "--output", tmp_path / "out", *how, code=2)
        run("dedup", index, *how, code=2)
    assert not (tmp_path / "out").exists()


def test_a_key_that_the_encoding_does_not_have(run: Run, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text('{"id": "Ω", "text": "some text"}\n')
    (tmp_path / "all.csv").write_bytes("id;text\né;some text\n".encode("latin-1"))
    index, how = tmp_path / "all.lshdb", ["--encoding", "latin-1", "--delimiter", ";"]
    run("add", index, tmp_path / "all.jsonl")
    run("add", index, tmp_path / "all.csv", *how)
    out = tmp_path / "out.csv"
    refused = run("dedup", index, tmp_path / "all.csv", "--output", out, "--mark", *how, code=1)
    assert "'Ω' cannot be written in iso8859-1" in refused.stderr
    assert not out.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_full_disk_is_said_of_the_file_that_was_to_be(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, path = corpus(30), tmp_path / f"all.{name.partition('.')[2]}"
    pq.write_table(pa.Table.from_pylist(rows), path)
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def take(aside: AsideFile) -> bool:
        aside.descriptor = os.open("/dev/full", os.O_RDWR)
        return True

    monkeypatch.setattr(AsideFile, "take", take)
    said = run("dedup", path, "--output", tmp_path / name, code=1).stderr.splitlines()
    assert said[-2:] == [
        f"error: {tmp_path / name}: No space left on device",
        "hint: make room there, or name another place",
    ]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_what_was_compressed_is_compressed_again(
    run: Run, tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    data = b'{"id": 1, "text": "some text"}\n{"id": 2, "text": "some text"}\n'
    suffix = {gzip: "gz", lzma: "xz", bz2: "bz2"}
    ending = next(name for module, name in suffix.items() if module.compress is compress)
    module = next(module for module in suffix if module.compress is compress)
    for name in (f"all.jsonl.{ending}", "misnamed.jsonl"):
        (tmp_path / name).write_bytes(compress(data))
        run("dedup", tmp_path / name, "--output", tmp_path / "out")
        assert module.decompress((tmp_path / "out" / name).read_bytes()) == data[:31]


def test_options_of_reading_and_of_the_index(run: Run, tmp_path: Path, temporary: Path) -> None:
    with (tmp_path / "all.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["url", "title", "body"])
        writer.writerow(["u1", "a b", "c d e f g h"])
        writer.writerow(["u2", "a b", "c d e f g i"])
        writer.writerow(["u3", "z b", "x d e f g i"])
        writer.writerow(["u4", "", ""])
    how = ["--key-field", "url", "--text-field", "title", "--text-field", "body"]
    how += ["--k", 1, "--threshold", 0.7, "--bands", 64, "--rows", 1]
    path, out = tmp_path / "all.csv", tmp_path / "out.csv"
    done = run("dedup", path, "--output", out, "--mark", "--keep", "last", *how)
    assert done.stderr.startswith("4 records read, 3 kept, 1 dropped; 1 file written")
    with out.open(newline="") as file:
        marks = [row["lshdb_kept_as"] for row in csv.DictReader(file)]
    assert marks == ["u2", "", "", ""]
    index = tmp_path / "kept.lshdb"
    run("dedup", path, "--output", tmp_path / "x.csv", "--index", index, *how)
    assert "\t2\t" in run("clusters", index, "--format", "tsv").stdout
    again = run("dedup", path, "--output", tmp_path / "y.csv", "--index", index, *how)
    assert "adding to the index" in again.stderr
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "y.csv").read_bytes()
    assert not os.listdir(temporary)


def test_records_that_are_no_documents_stay(run: Run, tmp_path: Path) -> None:
    path, out = tmp_path / "all.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"text": "a b c d e f"}\nno json\n{"text": null}\n{"text": "a b c d e f"}\n')
    done = run("dedup", path, "--output", out, code=5)
    assert "all.jsonl:2: not valid JSON" in done.stderr
    assert "2 of the kept records have no document in the index" in done.stderr
    assert out.read_text() == path.read_text()[: -len('{"text": "a b c d e f"}\n')]
    path.write_text('{"body": "a"}\n' * 3)
    nothing = run("dedup", path, "--output", tmp_path / "x.jsonl", code=1)
    assert "all.jsonl was accepted as a document" in nothing.stderr
    assert not (tmp_path / "x.jsonl").exists()
    path.write_text("")
    empty = run("dedup", path, "--output", tmp_path / "x.jsonl", code=1)
    assert "no record in" in empty.stderr and "is empty" in empty.stderr


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("b.csv", "id,text\ra,a b c d e f\r", "has no usable header: a carriage return"),
        ("b.jsonl", '[{"id": "a", "text": "a b c d e f"}]', "is a JSON array"),
    ],
)
def test_a_file_that_cannot_be_written_again_is_refused_before_any_is_written(
    run: Run, tmp_path: Path, temporary: Path, name: str, data: str, said: str
) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "a b c d e f"}\n')
    (tmp_path / name).write_text(data)
    out = tmp_path / "out"
    done = run("dedup", tmp_path / "a.jsonl", tmp_path / name, "--row-keys", "-o", out, code=1)
    assert f"{name} {said}" in done.stderr and "restore" not in done.stderr
    assert not out.exists() and not os.listdir(temporary)


def test_an_array_called_lines_is_read_where_nothing_is_written_again(
    run: Run, tmp_path: Path
) -> None:
    rows = [{"id": key, "text": "a b c d e f"} for key in "ab"]
    (tmp_path / "a.jsonl").write_text(json.dumps(rows))
    assert run("pairs", tmp_path / "a.jsonl").stdout == "a\tb\t1.000000\texact\n"
    assert run("clusters", tmp_path / "a.jsonl").stdout.split()[-1] == "b"
    asked = run("query", "--in", tmp_path / "a.jsonl", "--text", "a b c d e f").stdout
    assert len(asked.splitlines()) == 2
    run("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out", code=1)


@pytest.mark.parametrize("texts", [["one text", "another text"], ["one text", "one text"]])
def test_keys_that_come_twice_are_refused(
    run: Run, tmp_path: Path, temporary: Path, texts: list[str]
) -> None:
    path, out = tmp_path / "all.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts))
    done = run("dedup", path, "--output", out, code=1)
    assert "all.jsonl:2: the key '1' came before, so" in done.stderr and "--row-keys" in done.stderr
    assert not out.exists() and not os.listdir(temporary)
    run("dedup", path, "--output", out, "--row-keys")
    assert len(out.read_text().splitlines()) == len(set(texts))


def test_decisions_are_written_beside_the_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those by which the files are written: a field of the records counts, kept or not."""
    monkeypatch.chdir(tmp_path)
    same = "the council voted on monday to close the old bridge over the river"
    records = [("a", 1, same), ("b", 2, same), ("c", 3, "another text of some words")]
    Path("all.jsonl").write_text(
        "".join(json.dumps({"id": i, "n": n, "text": text}) + "\n" for i, n, text in records)
    )
    how = ("--keep", "field:n", "--decisions", "decisions.csv")
    done = run("dedup", "all.jsonl", "-o", "out.jsonl", *how)
    assert done.stdout == ""
    kept = [json.loads(line)["id"] for line in Path("out.jsonl").read_text().splitlines()]
    rows = [line.split(",") for line in Path("decisions.csv").read_text().splitlines()]
    assert kept == ["b", "c"]
    assert rows[0] == ["key", "decision", "kept_key", "similarity", "method"]
    assert [row[:3] for row in rows[1:]] == [
        ["a", "drop", "b"],
        ["b", "keep", ""],
        ["c", "keep", ""],
    ]
    run("add", "i.lshdb", "all.jsonl")
    how = ("--decisions", "dropped.jsonl", "--only", "drop")
    run("dedup", "i.lshdb", "all.jsonl", "-o", "out/", *how)
    [dropped] = [json.loads(line) for line in Path("dropped.jsonl").read_text().splitlines()]
    assert (dropped["key"], dropped["kept_key"]) == ("b", "a")
    assert run("dedup", "i.lshdb", *how).stdout == ""
    assert json.loads(Path("dropped.jsonl").read_text()) == dropped
    run("dedup", "i.lshdb", "--filter", "all.jsonl", "-o", "lines.jsonl")
    lines = run("dedup", "i.lshdb", "--filter", "all.jsonl").stdout
    assert Path("lines.jsonl").read_text() == lines != ""
    refused = run("dedup", "i.lshdb", "--filter", "all.jsonl", *how, code=2).stderr
    assert "--filter writes lines as they are, and no list of decisions" in refused


def test_what_is_an_index_and_what_is_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text('{"id": "a", "text": "some text"}\n')
    index, out = tmp_path / "index", tmp_path / "out"
    run("add", index, path)
    for wrong, message in (
        ([path], "is not an index; to write it again"),
        ([path, "--output", out, "--against"], "--against is for an index with documents"),
        ([path, "--output", out, "--since", "1"], "--since is for an index with documents"),
        ([path, "--output", out, "--no-update"], "--no-update is for an index with documents"),
        ([path, "--output", out, "--only", "drop"], "--decisions FILE names a file for it"),
        ([path, index, "--output", out], "is an index; name one index, before the files"),
        ([index, "--output", out], "the list of decisions goes to --decisions FILE"),
        ([index, path, "--output", out, "--k", 3], "--k is for files without an index"),
        ([index, path, "--output", out, "--text-field", "t"], "--text-field is for files without"),
        ([index, path, "--output", out, "--index", out], "--index is for files without"),
        ([index, "--workers", 1], "--workers is for files without"),
        ([path, "--output", out, "--metric", "cosine", "--dim", 0], "dim"),
    ):
        assert message in run("dedup", *wrong, code=2).stderr, wrong
    for name, message in (("no.lshdb", "there is no index"), ("no", "no such file or directory")):
        assert message in run("dedup", tmp_path / name, path, "--output", out, code=1).stderr
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(
    start: Start, tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in corpus(60_000)))
    child = start("dedup", path, "--output", tmp_path / "out")
    deadline = time.monotonic() + 60
    while not os.listdir(temporary) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    child.send_signal(number)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 128 + number, stderr
    assert not os.listdir(temporary)
    assert not (tmp_path / "out").exists() or not os.listdir(tmp_path / "out")


def test_memory_does_not_grow_with_the_file(process: Process, tmp_path: Path) -> None:
    """The second file has 200 MB more than the first, in row groups of 2 MB.

    The first is long enough to fill what is read ahead. The same run takes 150 MB once and 190 the
    next time, for its threads and their allocators, so the least of up to three runs counts.
    """
    index, least = tmp_path / "i.lshdb", {}
    (tmp_path / "few.jsonl").write_text('{"id": "0:1", "text": "t 1"}\n')
    process("add", index, tmp_path / "few.jsonl")
    draw = random.Random(1)
    for n_groups in (20, 120):
        path = tmp_path / f"{n_groups}.parquet"
        schema = pa.schema([("id", pa.string()), ("text", pa.string())])
        with pq.ParquetWriter(path, schema, compression="none") as writer:
            for group in range(n_groups):
                rows = [
                    {"id": f"{group}:{i}", "text": draw.randbytes(1000).hex()} for i in range(1000)
                ]
                writer.write_table(pa.Table.from_pylist(rows, schema))
        runs = []
        for number in range(3):
            out = f"{path}.{number}/"
            command = [*MEASURED, *MODULE, "dedup", str(index), str(path), "--output", out]
            done = process(command=command)
            assert pq.read_metadata(out + path.name).num_row_groups == n_groups, done.stderr
            runs.append(int(done.stderr.split()[-1]))
            if min(runs) < least.get(20, 0) + 50_000:
                break
        least[n_groups] = min(runs)
    assert least[120] - least[20] < 50_000, least


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("form", ["new_file", "new_stream"])
def test_arrow_keeps_form_and_compression(
    run: Run, tmp_path: Path, form: str, compression: str | None
) -> None:
    rows = corpus(100)
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"of": "the table"})
    path, out = tmp_path / "all.arrow", tmp_path / "out"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with getattr(pa.ipc, form)(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=30)
    done = run("dedup", path, "--output", out)
    assert "100 records read, 90 kept, 10 dropped" in done.stderr
    data = (out / "all.arrow").read_bytes()
    opened = (pa.ipc.open_file if form == "new_file" else pa.ipc.open_stream)(data)
    found = opened.read_all()
    assert found.to_pylist() == [row for i, row in enumerate(rows) if i % 10 != 9]
    assert found.schema.equals(table.schema, check_metadata=True)
    assert [len(batch) for batch in found.to_batches()] == [27, 27, 27, 9]
    magic = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}
    assert {name for name, one in magic.items() if one in data} == ({compression} - {None})
    if form == "new_file":  # files of Polars have no message at the beginning
        stored = path.read_bytes()
        path.write_bytes(stored[:8] + b"\4\0\0\0\xf2\xff\xff\xff" + stored[16:])
        run("dedup", path, "--output", tmp_path / "again.arrow")
        assert (tmp_path / "again.arrow").read_bytes() == data
    run("dedup", path, "--output", tmp_path / "marked.arrow", "--mark")
    marked = (tmp_path / "marked.arrow").read_bytes()
    opened = (pa.ipc.open_file if form == "new_file" else pa.ipc.open_stream)(marked)
    kept = opened.read_all().column("lshdb_keep").to_pylist()
    assert kept == [i % 10 != 9 for i in range(100)]


NOTES = [f"a note of some length, number {i:02}" for i in range(100)]


@pytest.mark.parametrize(
    "make_notes",
    [
        lambda: pa.array(NOTES, pa.string_view()),
        lambda: pa.array([{"a": [x]} for x in NOTES], pa.struct({"a": pa.list_(pa.string_view())})),
        lambda: pa.array([[note] for note in NOTES], pa.list_(pa.string_view(), 1)),
        lambda: pa.RunEndEncodedArray.from_arrays(
            pa.array([40, 100], pa.int32()), pa.array(NOTES[:2])
        ),
    ],
    ids=["views", "views in structures", "lists of one view", "runs"],
)
def test_columns_of_which_pyarrow_chooses_no_rows(
    run: Run, tmp_path: Path, make_notes: Callable[[], Any]
) -> None:
    if not hasattr(pa, "string_view"):
        pytest.skip("views came with pyarrow 16")
    rows, notes = corpus(100), make_notes()
    table = pa.Table.from_pylist(rows).append_column("note", notes)
    path, out = tmp_path / "all.arrow", tmp_path / "out.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    run("dedup", path, "--output", out)
    written = pa.ipc.open_file(out.read_bytes()).read_all()
    assert written.schema == table.schema
    assert written.to_pylist() == [row for i, row in enumerate(table.to_pylist()) if i % 10 != 9]
    if not pa.types.is_fixed_size_list(notes.type):  # the parts of its views keep all
        assert NOTES[9].encode() not in out.read_bytes()
    if not pa.types.is_run_end_encoded(notes.type):
        path, out = tmp_path / "all.parquet", tmp_path / "out.parquet"
        pq.write_table(table, path)
        run("dedup", path, "--output", out)
        assert pq.read_table(out).equals(written)


def test_a_saved_dataset_is_one_again(run: Run, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = corpus(100)
    splits = {"train": datasets.Dataset.from_list(rows), "test": datasets.Dataset.from_list(rows)}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "hf", num_shards={"train": 3, "test": 1})
    done = run("dedup", tmp_path / "hf", "--output", tmp_path / "clean")
    assert "200 records read, 90 kept, 110 dropped; 4 files written" in done.stderr
    before = datasets.load_from_disk(tmp_path / "hf")
    clean = datasets.load_from_disk(tmp_path / "clean")
    # The folder of the test split comes first by name.
    assert [*clean["test"]] == [row for i, row in enumerate(rows) if i % 10 != 9]
    assert len(clean["train"]) == 0 and clean["train"].features == before["train"].features
    assert clean["test"]._fingerprint != before["test"]._fingerprint
    run("dedup", tmp_path / "hf" / "train", "--output", tmp_path / "marked", "--mark")
    marked = datasets.load_from_disk(tmp_path / "marked")
    assert marked["lshdb_keep"][:] == [i % 10 != 9 for i in range(100)]
    assert str(marked.features["lshdb_kept_as"]) == "Value('string')"
    # Some files of a dataset alone are files like others.
    one = tmp_path / "hf/train/data-00000-of-00003.arrow"
    run("dedup", one, "--output", tmp_path / "one")
    assert os.listdir(tmp_path / "one") == [one.name]


def test_what_is_taken_from_folders(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.jsonl", "in/b.jsonl", "in/.c.jsonl", "in/d.jsonl"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text('{"text": "some text"}\n')
    Path("in/.gitignore").write_text("d.jsonl\n")
    done = run("dedup", "in", "--output", "out", "--exclude", "b.jsonl")
    assert sorted(os.listdir("out")) == ["a.jsonl"]
    assert "1 record read, 1 kept" in done.stderr
    run("dedup", "in", "--output", "every", "--hidden", "--no-gitignore")
    assert sorted(os.listdir("every")) == [".c.jsonl", "a.jsonl", "b.jsonl", "d.jsonl"]
    assert (
        "no file of records"
        in run("dedup", "in", "--output", "x", "--include", "*.csv", code=1).stderr
    )
    # Keys that do not begin with the folder.
    how = ["--row-keys", "--relative"]
    run("add", "i.lshdb", "in", *how)
    assert run("show", "i.lshdb", "a.jsonl:1").stdout
    done = run("dedup", "i.lshdb", "in", "--output", "relative", *how)
    assert "2 records read, 1 kept, 1 dropped" in done.stderr
    run("dedup", "in", "--output", "y", "--relative", code=2)
    run("dedup", "i.lshdb", "--no-gitignore", code=2)
    run("dedup", "i.lshdb", "--hidden", code=2)
