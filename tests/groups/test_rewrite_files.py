"""Files written again with only the records that are kept."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Document, Index, InputError, LshdbError, ParameterError, read_documents

pytestmark = pytest.mark.fast
Make = Callable[..., Index]

ROWS = [
    {"id": "a", "n": 2, "text": "w1 w2 w3 w4 w5"},
    {"id": "b", "n": 7, "text": "w2 w3 w4 w5 w6"},
    {"id": "c", "n": 1, "text": "w3 w4 w5 w6 w7"},
    {"id": "d", "n": None, "text": "x1 x2 x3"},
    {"id": "e", "n": 9, "text": "W1 w2 w3   w4 w5"},
]
"""Of a, b and e the first is kept; see test_deduplication.py."""


@pytest.fixture
def index(make_index: Make) -> Index:
    made = make_index(threshold=0.6, k=1, bands=128, rows=1)
    made.add((row["id"], row["text"]) for row in ROWS)
    return made


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_lines_are_passed_on_byte_for_byte(index: Index, tmp_path: Path) -> None:
    a, b, c, d, e = json_lines(ROWS).splitlines(keepends=True)
    odd = b'  {"id":"d" , "text":"\\u0041"}\t\r\n'
    data = b"\xef\xbb\xbf" + a + b"\n" + b + c + d + odd + b"[1]\n" + e + b"no json"
    (tmp_path / "all.jsonl").write_bytes(data)
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(data))
    done = index.dedup_files([tmp_path / "all.jsonl", tmp_path / "all.jsonl.gz"], tmp_path / "out")
    kept = b"\xef\xbb\xbf" + a + b"\n" + c + d + odd + b"[1]\nno json"
    assert (tmp_path / "out/all.jsonl").read_bytes() == kept
    assert gzip.decompress((tmp_path / "out/all.jsonl.gz").read_bytes()) == kept
    one, _ = done.files
    assert (one.kept, one.dropped, one.unknown, one.repeated) == (6, 2, 2, 1)
    assert (done.kept, done.dropped, done.repeated) == (12, 4, 7)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf \n"])
@pytest.mark.parametrize("mark", [False, True])
def test_an_array_under_the_name_of_lines_is_refused(
    index: Index, tmp_path: Path, start: bytes, mark: bool
) -> None:
    """Its last element is a line of JSON: without that line the file is no JSON any more."""
    lines = json_lines([*ROWS[2:], ROWS[0], ROWS[1]]).splitlines()
    (tmp_path / "all.jsonl").write_bytes(start + b"[\n" + b",\n".join(lines) + b"\n]\n")
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS))
    with pytest.raises(InputError, match=r"all\.jsonl is a JSON array") as caught:
        index.dedup_files([tmp_path / "a.jsonl", tmp_path / "all.jsonl"], tmp_path / "x", mark=mark)
    assert "jq -c" in str(caught.value.hint)
    with pytest.raises(InputError, match=r"all\.jsonl is a JSON array"):
        list(index.filter(tmp_path / "all.jsonl"))
    assert not (tmp_path / "x").exists()


def test_records_of_csv_keep_their_quotes_and_line_ends(index: Index, tmp_path: Path) -> None:
    records = [
        b'\xef\xbb\xbf"id",note,"text"\r\n',
        b'a,"two\r\nlines, and a ""quote""",x\n',
        b"\n",
        b"b,gone,x\r\n",
        b'"e","gone\n\n",x\r\n',
        b"bad,too,many,cells\n",
        b'd,5" pipe,""\r\n',
        b"c,last,without end",
    ]
    (tmp_path / "all.csv").write_bytes(b"".join(records))
    done = index.dedup_files([tmp_path / "all.csv"], tmp_path / "kept.csv")
    # A blank line goes with the record after it.
    stay = [records[i] for i in (0, 1, 5, 6, 7)]
    assert (tmp_path / "kept.csv").read_bytes() == b"".join(stay)
    assert (done.kept, done.dropped, done.unknown) == (4, 2, 1)


TSV = {
    "bare": [
        b"id\ttext\r\n", b'a\t"once\n', b'b\t5" gone\n', b"\n", b'd\tupon" a\r time\n', b'"\tx\n',
        b'e\tgone"\n', b'"a\t"\n', b"bad\n", b'c\t""last',
    ],
    "quoted": [
        b'\xef\xbb\xbfid\ttext\n', b"a\tx\n", b"b\tgone\n", b'd\t"two\r\nlines\tand ""x"""\n',
        b'"e"\t"gone\n\n"\n', b'"c"\t"last"',
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", TSV)
@pytest.mark.parametrize("limit", [10, 2**20])
def test_records_of_tsv_stay_byte_for_byte(
    kind: str, limit: int, index: Index, tmp_path: Path
) -> None:
    records = TSV[kind]
    path, kept, marked = tmp_path / "all.tsv", tmp_path / "kept.tsv", tmp_path / "marked.tsv"
    path.write_bytes(b"".join(records))
    index.dedup_files([path], kept, max_document_bytes=limit)
    goes = (b"b\t", b"e\t", b'"e"\t') if limit > 10 else (b"b\t", b"e\t")
    # A blank line goes with the record after it.
    assert kept.read_bytes() == b"".join(each for each in records if not each.startswith(goes))
    index.dedup_files([path], marked, mark=True)
    again = [one for one in read(marked) if one.key != "bad"]  # its cells were completed
    assert [(one.key, one.body) for one in again] == [(one.key, one.body) for one in read(path)]
    assert [one.fields["lshdb_keep"] for one in again] == [
        "false" if one.key in "be" else "true" for one in again
    ]


def read(path: Path) -> list[Any]:
    found = read_documents([path], keep_fields=["lshdb_keep"], on_note=lambda _: None)
    return [one for one in found if isinstance(one, Document)]


def test_marks_that_need_quotes_are_refused_where_there_are_none(
    make_index: Make, tmp_path: Path
) -> None:
    index = make_index(threshold=0.6, k=1, bands=128, rows=1)
    index.add([("a\tb", "w1 w2 w3"), ("b", "w1 w2 w3")])
    (tmp_path / "all.tsv").write_bytes(b'id\ttext\nb\t5" w1 w2 w3\n')
    with pytest.raises(InputError, match="has no quotes") as caught:
        index.dedup_files([tmp_path / "all.tsv"], tmp_path / "marked.tsv", mark=True)
    assert "--mark" in str(caught.value.hint) and not (tmp_path / "marked.tsv").exists()


def test_a_record_over_the_limit_is_passed_on(index: Index, tmp_path: Path) -> None:
    head, long = b"id,text\na,x\nb,y\n", b'f,"' + (b"z" * 900 + b"\n") * 6000 + b'"\n'
    (tmp_path / "all.csv").write_bytes(head + long + b"e,x\nc,x\n")
    index.dedup_files([tmp_path / "all.csv"], tmp_path / "kept.csv", max_document_bytes=1000)
    assert (tmp_path / "kept.csv").read_bytes() == b"id,text\na,x\n" + long + b"c,x\n"


def parquet(path: Path, rows: list[dict[str, Any]], **how: Any) -> None:
    types = [("id", pa.string()), ("n", pa.int16()), ("text", pa.large_string())]
    schema = pa.schema(types, metadata={"huggingface": "{}"})
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **how)


def test_parquet_keeps_schema_compression_and_row_groups(index: Index, tmp_path: Path) -> None:
    codecs = {"id": "snappy", "n": "none", "text": "zstd"}
    rows = ROWS * 5
    path, out = tmp_path / "all.parquet", tmp_path / "kept.parquet"
    parquet(path, rows, row_group_size=6, compression=codecs, use_dictionary=["id"])
    index.dedup_files([path], out)
    before, after = pq.ParquetFile(path), pq.ParquetFile(out)
    assert after.read().to_pylist() == [row for row in rows if row["id"] in "acd"]
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    groups = [after.metadata.row_group(i) for i in range(after.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [6, 6, 3]
    for column in range(3):
        ours, theirs = groups[0].column(column), before.metadata.row_group(0).column(column)
        assert (ours.compression, ours.encodings) == (theirs.compression, theirs.encodings)


def test_a_table_without_rows_keeps_its_schema(index: Index, tmp_path: Path) -> None:
    parquet(tmp_path / "all.parquet", [])
    (tmp_path / "some.csv").write_bytes(b"id,text\n")
    (tmp_path / "none.jsonl").write_bytes(b"")
    (tmp_path / "README.md").write_text("What lies beside the data is left out.")
    done = index.dedup_files([str(tmp_path / "*.*")], tmp_path / "out")
    assert (len(done.files), done.left_out) == (3, 2)  # the text and the index
    assert pq.read_schema(tmp_path / "out/all.parquet").names == ["id", "n", "text"]
    assert (tmp_path / "out/some.csv").read_bytes() == b"id,text\n"
    assert (tmp_path / "out/none.jsonl").read_bytes() == b""


MARKED = {
    "a": (True, "a", None, None),
    "b": (False, "a", "a", 4 / 6),
    "c": (True, "a", None, None),
    "d": (True, None, None, None),
    "e": (False, "a", "a", 1.0),
}
NAMES = ["lshdb_keep", "lshdb_cluster", "lshdb_kept_as", "lshdb_similarity"]


def test_marks_of_json_lines(index: Index, tmp_path: Path) -> None:
    odd = b'{} \r\n[1]\n\n{"id": "z"}'
    (tmp_path / "all.jsonl").write_bytes(json_lines(ROWS) + odd)
    done = index.dedup_files([tmp_path / "all.jsonl"], tmp_path / "out.jsonl", mark=True)
    assert (done.kept, done.dropped, done.unknown) == (6, 2, 3)
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    for row, line in zip(ROWS, lines, strict=False):
        assert line.startswith(json.dumps(row).encode()[:-1])
        assert json.loads(line) == row | dict(zip(NAMES, MARKED[str(row["id"])], strict=True))
    none = b'"lshdb_keep":true,"lshdb_cluster":null,"lshdb_kept_as":null,"lshdb_similarity":null}'
    assert lines[5:] == [b"{" + none + b" \r\n", b"[1]\n", b"\n", b'{"id": "z",' + none]
    with pytest.raises(InputError, match="has a field 'lshdb_keep' already"):
        index.dedup_files([tmp_path / "out.jsonl"], tmp_path / "x.jsonl", mark=True)


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_marks_of_csv(index: Index, tmp_path: Path, quoting: Any) -> None:
    with (tmp_path / "all.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=quoting)
        writer.writerow(["id", "note"])
        writer.writerows([row["id"], 'two\nlines, "quoted"'] for row in ROWS)
        file.write("\r\nshort\r\n")
    index.dedup_files([tmp_path / "all.csv"], tmp_path / "out.csv", mark=True)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [[row[name] for name in NAMES] for row in rows[:5]] == [
        ["true" if keep else "false", cluster or "", kept_as or "", str(similarity or "")]
        for keep, cluster, kept_as, similarity in MARKED.values()
    ]
    assert rows[5] == {"id": "short", "note": "", "lshdb_keep": "true"} | dict.fromkeys(
        NAMES[1:], ""
    )
    data = (tmp_path / "out.csv").read_bytes()
    assert data.count(b"\r\n") == 8 and (b'"lshdb_keep"' in data) == (quoting == csv.QUOTE_ALL)
    with pytest.raises(InputError, match="is marked"):
        index.dedup_files([tmp_path / "out.csv"], tmp_path / "x.csv", mark=True)


def test_a_marked_record_over_the_limit_is_marked_at_its_end(index: Index, tmp_path: Path) -> None:
    long = b'f,"' + (b"z" * 900 + b"\n") * 6000 + b'"'
    (tmp_path / "all.csv").write_bytes(b"id,text\na,x\n" + long + b"\nc,x\n")
    paths = [tmp_path / "all.csv"]
    index.dedup_files(paths, tmp_path / "out.csv", mark=True, max_document_bytes=1000)
    lines = (tmp_path / "out.csv").read_bytes().split(b"\n")
    assert (lines[1], lines[-3], lines[-2]) == (b"a,x,true,a,,", b'",true,,,', b"c,x,true,a,,")


def test_marks_of_parquet(index: Index, tmp_path: Path) -> None:
    parquet(tmp_path / "all.parquet", ROWS, row_group_size=2, compression={"id": "gzip"})
    index.dedup_files([tmp_path / "all.parquet"], tmp_path / "out.parquet", mark=True)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.select(["id", "n", "text"]).equals(pq.read_table(tmp_path / "all.parquet"))
    assert [tuple(row.values()) for row in table.select(NAMES).to_pylist()] == [*MARKED.values()]
    types = [pa.bool_(), pa.string(), pa.string(), pa.float64()]
    assert [table.schema.field(name).type for name in NAMES] == types
    assert table.schema.metadata == {b"huggingface": b"{}"}
    with pytest.raises(InputError, match="is marked"):
        index.dedup_files([tmp_path / "out.parquet"], tmp_path / "x.parquet", mark=True)


def test_rows_are_their_own_keys(make_index: Make, tmp_path: Path) -> None:
    index = make_index(threshold=0.6, k=1, bands=128, rows=1)
    paths = [tmp_path / f"all.{one}" for one in ("jsonl", "csv", "parquet")]
    paths[0].write_bytes(b"\n" + json_lines(ROWS))
    with paths[1].open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "n", "text"])
        writer.writeheader()
        writer.writerows(ROWS)
    parquet(paths[2], ROWS)
    for path in paths:
        from lshdb import read_documents

        index.add(read_documents([path], row_keys=True))
    # The first file has all that is kept: one text is one, wherever it is.
    done = index.dedup_files(paths, tmp_path / "out", row_keys=True)
    assert [(one.kept, one.dropped, one.unknown) for one in done.files] == [
        (3, 2, 0), (0, 5, 0), (0, 5, 0),
    ]  # fmt: skip


def test_a_field_of_records_or_of_the_index_decides(index: Index, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_bytes(json_lines(ROWS))
    index.dedup_files([tmp_path / "all.jsonl"], tmp_path / "out.jsonl", keep="field:n")
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    kept = [json.loads(line)["id"] for line in lines]
    assert kept == ["c", "d", "e"]
    (tmp_path / "all.csv").write_text(
        "id,n\n" + "".join(f"{row['id']},{10 if row['id'] == 'b' else 9}\n" for row in ROWS)
    )
    index.dedup_files([tmp_path / "all.csv"], tmp_path / "out.csv", keep="field:n")
    assert (tmp_path / "out.csv").read_text() == "id,n\nb,10\nd,9\n"
    with pytest.raises(ParameterError, match="no record has a field 'date'"):
        index.dedup_files([tmp_path / "all.csv"], tmp_path / "x.csv", keep="field:date")


def test_outputs_lie_as_their_inputs(index: Index, tmp_path: Path) -> None:
    for name in ("in/en/a.jsonl", "in/de/a.jsonl", "in/de/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(json_lines(ROWS))

    def written(*paths: Path | str) -> list[str]:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        index.dedup_files(paths, out)
        return sorted(path.relative_to(out).as_posix() for path in out.rglob("*.jsonl"))

    every = ["de/a.jsonl", "de/b.jsonl", "en/a.jsonl"]
    assert written(tmp_path / "in") == every
    assert written(str(tmp_path / "in/**/*.jsonl")) == every
    assert written(tmp_path / "in/en/a.jsonl", tmp_path / "in/de/a.jsonl") == every[::2]
    assert written(tmp_path / "in/de/a.jsonl", tmp_path / "in/de/b.jsonl") == ["a.jsonl", "b.jsonl"]
    assert written(tmp_path / "in/en/a.jsonl") == ["a.jsonl"]


def test_what_cannot_be_written_is_refused_before_anything_is(index: Index, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for path in (one, other):
        path.write_bytes(json_lines(ROWS))
    (tmp_path / "alien.jsonl").write_bytes(b'{"id": "z"}\n' * 3)
    (tmp_path / "text.txt").write_text("some text")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/one.jsonl").write_bytes(json_lines(ROWS))
    out = tmp_path / "out"
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(one)
    refused: list[tuple[type[LshdbError], str, list[Path], Path]] = [
        (LshdbError, "exists already", [one], other),
        (ParameterError, "is an input", [one], one),
        (ParameterError, "is an input", [one, other], tmp_path),
        (ParameterError, "is an input", [one], tmp_path / "link.jsonl"),
        (ParameterError, "is inside the input", [tmp_path / "in"], tmp_path / "in/out"),
        (ParameterError, "another format", [one], tmp_path / "out.csv"),
        (LshdbError, "is no folder", [one], tmp_path / "text.txt"),
        (LshdbError, "is no folder", [one], Path("/dev/null")),
        (ParameterError, "another format", [one], tmp_path / "out.jsonl.gz"),
        (ParameterError, "same file", [one, tmp_path / "link.jsonl"], out),
        (ParameterError, "named twice", [one, one], out),
        (LshdbError, "is a file, and 2 files", [one, other], tmp_path / "alien.jsonl"),
        (InputError, "none of the 3 records", [one, tmp_path / "alien.jsonl"], out),
        (InputError, "not of a format", [one, tmp_path / "text.txt"], out),
        (LshdbError, "inside the index", [one], index.path / "one.jsonl"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for error, message, paths, output in refused:
        overwrite = message == "is an input"
        with pytest.raises(error, match=message):
            index.dedup_files(paths, output, overwrite=overwrite)
    with pytest.raises(OSError, match="a named pipe"):
        index.dedup_files([one], tmp_path / "pipe.jsonl", overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_is_replaced_whole_and_links_stay(index: Index, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_bytes(json_lines(ROWS))
    target = tmp_path / "real.jsonl"
    target.write_text("old")
    target.chmod(0o600)
    (tmp_path / "link.jsonl").symlink_to(target)
    index.dedup_files([tmp_path / "all.jsonl"], tmp_path / "link.jsonl", overwrite=True)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(target.read_bytes().splitlines()) == 3
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_breaks_off_leaves_no_half_of_it(index: Index, tmp_path: Path) -> None:
    whole = gzip.compress(json_lines(ROWS * 300) + os.urandom(50_000).hex().encode())
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS))
    (tmp_path / "b.jsonl.gz").write_bytes(whole[:-100])
    done = []
    with pytest.raises(InputError, match=r"b.jsonl.gz .* truncated"):
        index.dedup_files(
            [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"], tmp_path / "out", on_file=done.append
        )
    assert [Path(one.output).name for one in done] == ["a.jsonl"]
    assert os.listdir(tmp_path / "out") == ["a.jsonl"]


KILLED = """
import os, signal, sys
from lshdb import Index
import lshdb.files.whole_files as whole_files
whole_files.sync_file = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
Index.open(sys.argv[1]).dedup_files([sys.argv[2]], sys.argv[3])
"""


def test_a_killed_writer_leaves_no_file_and_is_no_obstacle(index: Index, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_bytes(json_lines(ROWS))
    names = [str(index.path), str(tmp_path / "all.jsonl"), str(tmp_path / "out.jsonl")]
    killed = subprocess.run([sys.executable, "-c", KILLED, *names])
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.jsonl").exists()
    aside = tmp_path / ".out.jsonl.lshdb-part"
    assert aside.exists()
    index.dedup_files([names[1]], names[2])
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 3
    assert not aside.exists()


def test_two_processes_do_not_write_one_output(index: Index, tmp_path: Path) -> None:
    from lshdb.files.whole_files import whole_file

    (tmp_path / "all.jsonl").write_bytes(json_lines(ROWS))
    target = str(tmp_path / "out.jsonl")
    with whole_file(target) as file:
        file.write(b"first\n")
        with pytest.raises(LshdbError, match="another process is writing"):
            index.dedup_files([tmp_path / "all.jsonl"], target)
        Path(target).write_bytes(b"came meanwhile\n")
        with pytest.raises(LshdbError, match="exists already"), whole_file(target):
            pass
        Path(target).unlink()
    assert Path(target).read_bytes() == b"first\n"
    with pytest.raises(LshdbError, match="exists already"), whole_file(str(tmp_path / "x")) as file:
        (tmp_path / "x").write_bytes(b"came meanwhile")
    assert (tmp_path / "x").read_bytes() == b"came meanwhile"
