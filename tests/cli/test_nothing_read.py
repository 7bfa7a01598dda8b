"""Input that holds no document: why, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

RECORD = '{"id": "a", "text": "one two three four five six"}\n'


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {
        "ignored/.git/HEAD": "", "ignored/.gitignore": "*", "ignored/d/a.jsonl": RECORD,
        "hidden/.a.jsonl": RECORD, "excluded/a.jsonl": RECORD, "job/_SUCCESS": "",
        "parts/part-0.csv": "", "parts/part-1.csv": "", "a.jsonl": "", "a.json": "", "a.csv": "",
        "a.parquet": "", "a.jsonl.gz": "", "head.csv": "id,text\n", "ok.jsonl": RECORD,
    }  # fmt: skip
    for name, content in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "empty/folder").mkdir(parents=True)


CASES = [
    (("ignored",), "all files in ignored were left out; --no-gitignore also reads"),
    (("hidden",), "all files in hidden were left out; --hidden also reads"),
    (("excluded", "--include", "*.py"), "excluded were left out; check --include and --exclude"),
    (("job",), "all files in job were left out; name such a file"),
    (("empty",), "no file in empty"),
    (("empty", "job"), "all files in empty, job were left out"),
    (("parts",), "are empty"),
    (("a.jsonl",), "a.jsonl is empty"),
    (("a.json",), "a.json is empty"),
    (("a.jsonl", "a.json"), "a.jsonl, a.json are empty"),
    (("head.csv",), "no document in head.csv"),
]


@pytest.mark.parametrize(("words", "said"), CASES)
def test_add_says_why_and_gives_no_advice_on_fields(
    words: tuple[str, ...], said: str, run: Run
) -> None:
    told = run("add", "x.lshdb", *words, code=1).stderr
    assert said in told and "--key-field" not in told and "no document was accepted" in told
    run("add", "y.lshdb", "ok.jsonl")
    told = run("add", "y.lshdb", *words).stderr
    assert said in told and "added 0" in told


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl.gz"])
def test_an_empty_file_that_cannot_be_is_named_so(name: str, run: Run) -> None:
    told = run("add", "x.lshdb", name, code=1).stderr
    assert f"{name}" in told and "the input is empty" in told and "--key-field" not in told


def test_an_empty_pipe(run: Run) -> None:
    told = run("add", "x.lshdb", "-", code=1).stderr
    assert "check the command before the pipe" in told and "--key-field" not in told


@pytest.mark.parametrize(("words", "said"), CASES[:5])
def test_tune_and_query_say_it_too(words: tuple[str, ...], said: str, run: Run) -> None:
    assert said in run("tune", *words, code=1).stderr
    run("add", "y.lshdb", "ok.jsonl")
    if "--include" not in words:
        assert said in run("query", "y.lshdb", *words).stderr


def test_dedup_says_what_was_left_out(run: Run) -> None:
    told = run("dedup", "ignored", "--output", "out", code=1).stderr
    assert "no file of records in ignored" in told and "1 ignored by .gitignore" in told
    assert "--no-gitignore also reads" in told
    assert "no file in empty" in run("dedup", "empty", "--output", "out", code=1).stderr
    told = run("dedup", "a.jsonl", "--output", "out", code=1).stderr
    assert "no record in a.jsonl" in told and "--key-field" not in told


def test_dedup_counts_files_as_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "eight").mkdir()
    for number in range(8):
        (tmp_path / f"eight/{number}.csv").write_text("id;text\na;b\n")
    told = run("dedup", "eight", "--output", "out", "--row-keys", code=1).stderr
    assert "no record of the 8 files was accepted" in told and "8 records" not in told
    (tmp_path / "eight/ok.csv").write_text("id,text\na,one two three four five six\n")
    (tmp_path / "eight/none.csv").write_text("")
    for number in range(8):
        (tmp_path / f"eight/{number}.csv").unlink()
    run("dedup", "eight", "--output", "out")
    assert (tmp_path / "out/none.csv").read_bytes() == b""
