"""``dedup`` of files without an index writes what it writes with one, whichever way a file is read.

Where every record of a file is a document, its kept lines are copied as they lie. Else each record
is looked up by its key.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lshdb import Index, TransientIndex, read_documents
from lshdb.cli import dedup
from lshdb.documents.formats.passthrough import JsonLines
from tests.cli.conftest import Run, plain_surroundings, run
from tests.conftest import family_corpus
from tests.transient.test_same_answers import small_sizes, temporary

__all__ = ["plain_surroundings", "run", "temporary"]

LINES = [
    json.dumps({"id": key, "text": text, "n": len(text)}) for key, text in family_corpus(3, 20)
]
LINES += [json.dumps({"id": "last", "text": json.loads(LINES[0])["text"], "n": 7})]
TEXT = "\n".join(LINES) + "\n"


def copies(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file was copied by its lines, as files are written."""
    outcomes: list[bool] = []
    without = JsonLines.without

    def noted(self: JsonLines, lines: Any) -> Any:
        pieces = without(self, lines)
        outcomes.append(pieces is not None)
        return pieces

    monkeypatch.setattr(JsonLines, "without", noted)
    return outcomes


FILES: dict[str, tuple[bytes, list[bool], int]] = {
    "plain": (TEXT.encode(), [True], 0),
    "no line feed at the end": (TEXT.rstrip("\n").encode(), [True], 0),
    "blank lines": (b"\n \n" + TEXT.replace("\n", "\n\n").encode() + b"\n\n", [True], 0),
    "windows": (TEXT.replace("\n", "\r\n").encode(), [True], 0),
    "mark of UTF-8": (b"\xef\xbb\xbf" + TEXT.encode(), [True], 0),
    "UTF-16": (TEXT.encode("utf-16"), [False], 0),
    "a record without a text": ((TEXT + '{"id": "x"}\n').encode(), [], 5),
    "a line that is no record": ((TEXT + "[1]\n").encode(), [], 5),
    "a text without words": ((TEXT + '{"id": "x", "text": ""}\n').encode(), [True], 0),
}


@pytest.mark.parametrize(
    ("kind", "chunk"), [*((kind, 2**18) for kind in FILES), ("plain", 7), ("blank lines", 1)]
)
def test_the_output_is_that_of_an_index(
    run: Run, kind: str, chunk: int, tmp_path: Path, temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    data, copied, code = FILES[kind]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lshdb.documents.io.streams.CHUNK", chunk)
    Path("n.jsonl").write_bytes(data)
    outcomes = copies(monkeypatch)
    for options in (["--keep", "last"], ["--keep", "longest", "--row-keys"]):
        how = [*options, "--overwrite", "--decisions"]
        outcomes.clear()
        direct = run("dedup", "n.jsonl", "-o", "a.jsonl", *how, "a.tsv", code=code)
        assert outcomes == copied
        index = ["--index", f"{len(options)}.lshdb"]
        stored = run("dedup", "n.jsonl", "-o", "b.jsonl", *how, "b.tsv", *index, code=code)
        assert outcomes == copied  # an index knows records by their keys
        assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes() != data
        assert Path("a.tsv").read_bytes() == Path("b.tsv").read_bytes()
        assert direct.stderr.split(";")[0].splitlines()[-1] in stored.stderr


def test_marks_are_those_of_an_index(
    run: Run, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.jsonl").write_text(TEXT)
    outcomes = copies(monkeypatch)
    run("dedup", "n.jsonl", "-o", "a.jsonl", "--mark", "--keep", "field:n")
    run("dedup", "n.jsonl", "-o", "b.jsonl", "--mark", "--keep", "field:n", "--index", "i.lshdb")
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert not outcomes
    run("dedup", "n.jsonl", "-o", "c.jsonl", "--keep", "field:n")
    assert outcomes == [True]
    run("dedup", "i.lshdb", "n.jsonl", "-o", "d.jsonl", "--keep", "field:n")
    assert Path("c.jsonl").read_bytes() == Path("d.jsonl").read_bytes()


def test_several_files(
    run: Run, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them has a record that is no document; only there keys are looked up."""
    monkeypatch.chdir(tmp_path)
    small_sizes(monkeypatch, batch_documents=20, first_documents=20)
    half = len(LINES) // 2
    Path("in").mkdir()
    Path("in/1.jsonl").write_text("\n".join(LINES[:half]))
    Path("in/2.jsonl.gz").write_bytes(gzip.compress("\n".join(LINES[half:-20]).encode()))
    Path("in/3.jsonl").write_text('{"id": 9}\n' + "\n".join(LINES[-20:-10]) + "\n[]")
    Path("in/4.jsonl").write_text("")
    Path("in/5.jsonl").write_text("\n".join(LINES[-10:]))
    outcomes = copies(monkeypatch)
    direct = run("dedup", "in", "-o", "a", code=5)
    assert outcomes == [True] * 3
    stored = run("dedup", "in", "-o", "b", "--index", "i.lshdb", code=5)
    names = sorted(path.name for path in Path("b").iterdir())
    assert names == sorted(path.name for path in Path("a").iterdir())
    for name in names:
        read = gzip.decompress if name.endswith("gz") else bytes
        assert read(Path("a", name).read_bytes()) == read(Path("b", name).read_bytes())
    assert direct.stderr.split(";")[0].splitlines()[-1] in stored.stderr


def test_keys_that_come_again(tmp_path: Path, temporary: Path) -> None:
    """In Python the later record is rejected, and stays or goes with the first."""
    again = tmp_path / "n.jsonl"
    again.write_text(TEXT + LINES[3] + "\n")
    paths = [str(again)]
    results = []
    for make in (lambda: Index.create(tmp_path / "i.lshdb"), TransientIndex.create):
        with make() as index:
            index.add(read_documents(paths))
            written = index.dedup_files(paths, tmp_path / "out.jsonl", overwrite=True)
            results.append((written.files, written.newest_batch))
            results.append((tmp_path / "out.jsonl").read_bytes())
    assert results[:2] == results[2:]
    assert results[0][0][0].repeated == results[0][1] == 1


def test_a_file_that_changes_meanwhile_is_not_cut(
    run: Run, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.jsonl").write_text(TEXT)
    update_edges = dedup.update_edges

    def changed(*given: Any, **more: Any) -> None:
        update_edges(*given, **more)
        Path("n.jsonl").write_text(LINES[5] + "\n" + TEXT)

    monkeypatch.setattr(dedup, "update_edges", changed)
    said = run("dedup", "n.jsonl", "-o", "out.jsonl", code=1).stderr
    assert "n.jsonl has changed since it was read: no key" in said and "start again" in said
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_writing_says_how_much_of_the_files_is_read(
    suffix: str, tmp_path: Path, temporary: Path
) -> None:
    path = tmp_path / f"n.{suffix}"
    if suffix == "jsonl":
        path.write_text(TEXT)
    else:
        table = pyarrow.Table.from_pylist([json.loads(line) for line in LINES])
        pyarrow.parquet.write_table(table, path)
    seen: list[tuple[int, int | None, str]] = []
    with TransientIndex.create() as index:
        index.add(read_documents([path]))
        index.update_clusters()
        index.dedup_files([path], tmp_path / f"o.{suffix}", on_progress=lambda *at: seen.append(at))
    size = path.stat().st_size
    assert [at for at in seen if at[2] == "bytes"][-1] == (size, size, "bytes")
