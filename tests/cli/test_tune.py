"""``lshdb tune`` on texts: what it shows, in each format and width, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

import lshdb
from lshdb import Index
from tests.advice.test_similarity_counts import corpus
from tests.cli.conftest import Run, jsonl

DOCUMENTS = corpus(300)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "news.jsonl"
    path.write_text(jsonl(DOCUMENTS))
    return path


@pytest.mark.fast
def test_json_is_the_record_of_the_library(run: Run, file: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add(DOCUMENTS)
        stored = index.advise(aim="editions", sample=50)
    given = lshdb.advise(DOCUMENTS, aim="editions", sample=50)
    for path, found in ((file, given), (index.path, stored)):
        said = run("tune", path, "--aim", "editions", "--sample", "50", "--json").stdout
        assert json.loads(said) == json.loads(json.dumps(found.record()))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_page_fits_its_width(
    run: Run, file: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("tune", file, "--sample", "200", "--format", "table").stdout.splitlines()
    commands = [line for line in lines if line.startswith("  lshdb ")]
    assert len(commands) == len(lshdb.aims())
    assert max(map(cell_len, lines)) <= width
    page = "\n".join(lines)
    for part in ("Near 0.5", "Near 0.9", "What to take", "The S-curve of 16 bands", "boilerplate"):
        assert part in page
    assert page.count("…") < 40 or width < 80  # words that differ are there to be read


def test_labels_are_taken_from_a_file(run: Run, file: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.tsv"
    labels.write_text("d0\td1\tno\nd0\tnone\tyes\n")
    page = run("tune", file, "--labels", labels, "--format", "table").stdout
    assert "there is no document: 'none'" in page and "0 labels yes and 1 no" in page
    labels.write_text("d0 d1 no\n")
    said = run("tune", file, "--labels", labels, code=1)
    assert "labels.tsv:1 is" in said.stderr and not said.stdout


def test_texts_cannot_act_on_the_terminal(run: Run, tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(20))
    hostile = [
        ("k\x1b[2J1", f"{words} \x1b[31mred"),
        ("k\u202e2", f"{words} \x1b]0;title\x07 blue"),
    ]
    (tmp_path / "a.jsonl").write_text(jsonl(hostile))
    page = run("tune", tmp_path / "a.jsonl", "--format", "table").stdout
    assert "Near 0.8" in page and "\\x1b[2J" in page
    assert not {"\x1b", "\x07", "\u202e"} & set(page)


def test_what_is_no_document_is_reported(run: Run, file: Path) -> None:
    with file.open("a") as more:
        more.write('{"id": "x"}\nnonsense\n')
    said = run("tune", file, "--json", code=5)
    assert json.loads(said.stdout)["rejected"] == 2 and "news.jsonl:301" in said.stderr


def test_folders_are_read_as_add_reads_them(run: Run, tmp_path: Path) -> None:
    for key, text in DOCUMENTS[:12]:
        (tmp_path / f"{key}.txt").write_text(text)
    words = (tmp_path, "--include", "d1*.txt", "--relative", "--json")
    found = json.loads(run("tune", *words).stdout)
    assert found["documents"] == 3  # d1, d10, d11


def test_output_goes_to_a_file(run: Run, file: Path, tmp_path: Path) -> None:
    assert run("tune", file, "-o", tmp_path / "a.json", "--format", "table").stdout == ""
    assert "What to take" in (tmp_path / "a.json").read_text()
    run("tune", file, "-o", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["documents"] == 300


def test_options_that_make_no_difference_are_refused(run: Run, file: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add(DOCUMENTS[:9])
    for words, expected in (
        ((file, "--far", "0.3"), "--far is for vectors and bits"),
        ((file, "--documents", "9"), "--documents is for vectors and bits"),
        (("--aim", "editions"), "--aim is for texts"),
        (("--sample", "9"), "--sample is for texts"),
        ((index.path, "--k", "3"), "has its own parameters, and --k is for a new index"),
        ((index.path, file), "is an index; give it alone"),
    ):
        said = run("tune", *words, code=2)
        assert expected in said.stderr and not said.stdout, words


def test_mistakes_have_no_traceback(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(jsonl(DOCUMENTS[:1]))
    for words, expected in (
        ((tmp_path / "one.jsonl",), "there is one document, and a pair takes two"),
        ((tmp_path / "none.jsonl",), "none.jsonl"),
        ((tmp_path / "none.lshdb",), "there is no index at"),
    ):
        assert expected in run("tune", *words, code=1).stderr
    with Index.create(tmp_path / "a.lshdb", store_text=False) as index:
        index.add(DOCUMENTS[:9])
    assert "compares the texts" in run("tune", index.path, code=2).stderr
