"""``lshdb add``: inputs, the line at the end, rejections, what is made and when, locks, Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lshdb.cli._long_work
import lshdb.cli.add
import lshdb.ingest.add
from lshdb import Document, Index
from tests.cli.conftest import BASE, DOCUMENTS, OTHER, Run, jsonl, sound
from tests.sizes import set_sizes


def counts(path: Path) -> tuple[int, list[str]]:
    with Index.open(path) as index:
        return index.stats().documents, [batch.source for batch in index.batches()]


@pytest.fixture
def news(tmp_path: Path) -> Path:
    path = tmp_path / "news.jsonl"
    path.write_text(jsonl(DOCUMENTS))
    return path


def test_one_line_says_what_became_of_the_input(run: Run, tmp_path: Path, news: Path) -> None:
    index = tmp_path / "a.lshdb"
    first = run("add", index, news)
    line = (
        rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\dZ {re.escape(str(news))}: "
        r"added 4, exact copies 1; [\d,]+ documents/s; batch 1\n"
    )
    assert re.search(line + r"\Z", first.stderr, re.MULTILINE)
    assert f"making the index {index} with the defaults" in first.stderr

    news.write_text(jsonl([("base", OTHER), ("other", OTHER)]))
    second = run("add", index, news)
    assert f"Z {news}: added 0, replaced 1, unchanged 1, exact copies 1;" in second.stderr
    both = run("add", index, news, "-", "--night", "2026-11-07", stdin="")
    assert re.search(f"Z {news} and 1 more: added 0, .*; night 2026-11-07\n", both.stderr)
    of_pipe = run("add", index, "-", stdin=jsonl([("piped", BASE)]))
    assert "Z standard input: added 1, " in of_pipe.stderr
    assert first.stdout == second.stdout == ""
    assert counts(index)[0] == 5
    assert sound(index)


def test_batches_are_named_as_a_range(
    run: Run, tmp_path: Path, news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=2)
    assert run("add", tmp_path / "a.lshdb", news).stderr.endswith("; batches 1-2\n")


def test_nothing_added_is_said_too(run: Run, index_path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    out = run("add", index_path, tmp_path / "empty.jsonl").stderr
    why, added = out.splitlines()
    assert why == f"{tmp_path / 'empty.jsonl'} is empty"
    assert "empty.jsonl: added 0; 0 doc" in added


def test_inputs_of_every_kind(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "one.txt").write_text(BASE)
    (tmp_path / "two.csv").write_text(f"url,body\ntwo,{OTHER}\n")
    (tmp_path / "three.tsv").write_text(f"url\tbody\nthree\t{OTHER}\n")
    (tmp_path / "four.data").write_text(f"url,body\nfour,{OTHER}\n")
    index = tmp_path / "a.lshdb"
    run("add", index, folder)
    fields = ("--key-field", "url", "--text-field", "body")
    run("add", index, tmp_path / "two.csv", tmp_path / "three.tsv", *fields)
    run("add", index, tmp_path / "four.data", *fields, "--input", "csv")
    run("add", index, "-", stdin=jsonl([("five", OTHER)]))
    run("add", index, str(tmp_path / "*.csv"), *fields)
    with Index.open(index) as opened:
        keys = {key for (key,) in opened.sql("SELECT key FROM document").rows}
        sources = [batch.source for batch in opened.batches()]
    assert keys == {f"{folder}/one.txt".replace("//", "/"), "two", "three", "four", "five"}
    assert sources[1] == f"{tmp_path}/two.csv {tmp_path}/three.tsv"
    assert sources[3] == "-"


def test_rejections_are_reported_one_a_line_and_harmless(run: Run, tmp_path: Path) -> None:
    lines = [
        '{"id": "good", "text": "a b c d e f"}',
        "no json",
        '{"id": "lacks"}',
        '{"id": "nul\\u0000", "text": "x"}',
        '{"id": "' + "k" * 1025 + '", "text": "x"}',
        '{"id": "good", "text": "a b c d e f"}',
        '{"\\u001b[31mred\\nline": 1}',
        '{"id": 1.5, "text": "x"}',
    ]
    path = tmp_path / "bad.jsonl"
    path.write_bytes("\n".join(lines).encode() + b'\n{"id": "latin", "text": "\xe9"}\n')
    result = run("add", tmp_path / "a.lshdb", path, code=5)
    assert "added 1, " in result.stderr and "rejected 8;" in result.stderr
    reported = result.stderr.splitlines()[1:]
    numbers = [re.match(rf"{re.escape(str(path))}:(\d+): ", line) for line in reported]
    assert sorted(int(match[1]) for match in numbers if match) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert "\x1b" not in result.stderr
    assert sound(tmp_path / "a.lshdb")


def test_records_without_ids_and_texts_of_two_fields(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "papers.csv"
    path.write_text(f"title,abstract,year\nOne,{BASE},2001\nTwo,{OTHER},2002\n")
    index = tmp_path / "a.lshdb"
    said = run("add", index, path, code=1).stderr
    assert "no columns 'id' and 'text'; the columns are: 'title', 'abstract', 'year'" in said
    assert "give --key-field NAME or --row-keys, and --text-field NAME" in said
    assert "no document was accepted, and 1 " in said and not index.exists()
    assert "--key-field, --text-field and --row-keys" in said
    options = ("--row-keys", "--text-field", "title", "--text-field", "abstract")
    said = run("add", index, path, *options, "--keep-fields", "year, pages", "--k", "3").stderr
    assert "no record has the field 'pages' to keep" in said
    with Index.open(index) as opened:
        rows = opened.sql("SELECT key, name, value FROM document_field ORDER BY key").rows
        assert [tuple(row) for row in rows] == [
            (f"{path}:1", "year", "2001"), (f"{path}:2", "year", "2002"),
        ]  # fmt: skip
        assert opened.show(f"{path}:2").body == f"Two\n\n{OTHER}"
    for parameter, other, command in (("--threshold", ".5", "reband"), ("--k", "4", "reindex")):
        said = run("add", index, path, *options, parameter, other, code=1).stderr
        assert f"lshdb {command} " in said
    assert "both say where the keys come from" in run(
        "add", index, path, "--row-keys", "--key-field", "year", code=2
    ).stderr  # fmt: skip


def test_stops_after_too_many(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("no\n" * 10)
    result = run("add", tmp_path / "a.lshdb", path, "--max-errors", "3", code=1)
    assert "4 inputs were rejected and 3 are allowed" in result.stderr
    assert result.stdout == ""
    run("add", tmp_path / "a.lshdb", path, "--max-errors", "10", code=1)


def test_on_conflict(run: Run, index_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "again.jsonl"
    path.write_text(jsonl([("base", OTHER)]))
    refused = run("add", index_path, path, "--on-conflict", "error", code=1)
    assert "'base' is in the index already" in refused.stderr
    assert "unchanged 1" in run("add", index_path, path, "--on-conflict", "skip").stderr
    assert "replaced 1" in run("add", index_path, path).stderr
    assert sound(index_path)


@pytest.mark.parametrize("wrong", ["absent.jsonl", "no*.jsonl"])
def test_input_is_looked_for_before_an_index_is_made(
    run: Run, tmp_path: Path, news: Path, wrong: str
) -> None:
    result = run("add", tmp_path / "a.lshdb", news, tmp_path / wrong, code=1)
    assert wrong in result.stderr and "made" not in result.stderr
    assert not (tmp_path / "a.lshdb").exists()


def test_a_file_in_place_of_the_index(run: Run, news: Path) -> None:
    result = run("add", news, news, code=1)
    assert "is a file, and an index is a folder" in result.stderr


def test_a_folder_that_is_no_index(run: Run, tmp_path: Path, news: Path) -> None:
    assert "is no index: it is a folder without" in run("add", tmp_path, news, code=1).stderr
    (tmp_path / "empty").mkdir()
    run("add", tmp_path / "empty", news)
    assert counts(tmp_path / "empty")[0] == 4


@pytest.mark.parametrize("inside", ["", "index.toml", "nothing/there", "../news.lshdb"])
def test_the_index_is_not_its_own_input(run: Run, index_path: Path, inside: str) -> None:
    result = run("add", index_path, index_path / inside, code=2)
    assert "news.lshdb" in result.stderr and "not documents" in result.stderr
    assert counts(index_path)[0] == len(DOCUMENTS)


def test_a_folder_that_holds_the_index_is_read_without_it(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.txt").write_text(OTHER)
    monkeypatch.chdir(tmp_path)
    assert "added 1" in run("add", index_path, ".").stderr
    assert "added 1" in run("add", "news.lshdb", str(tmp_path)).stderr
    assert "unchanged 1" in run("add", index_path, "**/*").stderr


def test_the_source_is_short_and_printable(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new\nline"
    folder.mkdir()
    paths = [folder / f"{number:030d}.txt" for number in range(9)]
    for path in paths:
        path.write_text("some text of words")
    run("add", tmp_path / "a.lshdb", *paths)
    _, (source,) = counts(tmp_path / "a.lshdb")
    assert len(source) == 200 and source.endswith("…") and "new\\nline" in source


def test_a_line_a_minute_without_a_terminal(
    run: Run, tmp_path: Path, news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "so far" not in run("add", tmp_path / "a.lshdb", news).stderr
    monkeypatch.setattr(lshdb.cli._long_work, "_LINE_SECONDS", 0.0)
    lines = run("add", tmp_path / "b.lshdb", news).stderr.splitlines()
    assert re.fullmatch(r"4 documents so far, [\d,]+/s", lines[-2])


def test_locked_by_another_process(process: Callable[..., Any], index_path: Path) -> None:
    with open(index_path / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = process("add", index_path, "-", "--lock-timeout", "0.2", input=b"")
        also = process("upgrade", index_path, "--lock-timeout", "0")
    assert done.returncode == 3
    assert b"error: the index" in done.stderr and b"--lock-timeout" in done.stderr
    assert b"Traceback" not in done.stderr
    assert also.returncode == 3


def test_says_that_it_waits(run: Run, index_path: Path, news: Path) -> None:
    with open(index_path / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def let_go() -> None:
            time.sleep(0.3)
            fcntl.flock(lock, fcntl.LOCK_UN)

        releaser = threading.Thread(target=let_go)
        releaser.start()
        result = run("add", index_path, news, "--lock-timeout", "30")
        releaser.join()
    assert result.stderr.startswith("waiting up to 30 s for another process")
    assert "unchanged 4" in result.stderr


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
def test_a_timeout_is_a_number_of_seconds(run: Run, index_path: Path, seconds: str) -> None:
    assert "--lock-timeout" in run("add", index_path, "-", "--lock-timeout", seconds, code=2).stderr


def test_ctrl_c_says_what_stays(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[Document]:
        yield from (Document(str(number), f"{BASE} {number}") for number in range(25))
        raise KeyboardInterrupt

    set_sizes(monkeypatch, batch_documents=10)
    monkeypatch.setattr(lshdb.cli._documents_in, "read_documents", interrupted)
    result = run("add", tmp_path / "a.lshdb", "-", code=130)
    assert "interrupted; 20 documents are committed and stay (batches 1-2)" in result.stderr
    assert counts(tmp_path / "a.lshdb")[0] == 20
    assert sound(tmp_path / "a.lshdb")


def test_an_add_that_did_not_end_is_named_until_it_is_repeated(
    run: Run, tmp_path: Path, news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lshdb"
    night = [Document(str(number), f"{BASE} {number}") for number in range(25)]

    def interrupted(*_: object, **__: object) -> Iterator[Document]:
        yield from night
        raise KeyboardInterrupt

    set_sizes(monkeypatch, batch_documents=10)
    with monkeypatch.context() as patched:
        patched.setattr(lshdb.cli._documents_in, "read_documents", interrupted)
        run("add", path, "-", code=130)
    told = "the last add (-, begun "
    assert told in run("pairs", path, "--since", "last").stderr
    assert told in run("dedup", path, "--against").stderr
    assert told not in run("pairs", path).stderr
    listed = run("batches", path, "--format", "table")
    assert "the add of batches 1-2 has not ended" in listed.stderr
    rows = [
        json.loads(line) for line in run("batches", path, "--format", "jsonl").stdout.splitlines()
    ]
    assert [row["has_ended"] for row in rows] == [False, False]
    assert "the add before this one (-, begun " in run("add", path, news).stderr
    assert told not in run("pairs", path, "--since", "last").stderr
    with monkeypatch.context() as patched:
        patched.setattr(lshdb.cli._documents_in, "read_documents", lambda *_, **__: iter(night))
        result = run("add", path, "-")
    assert "20 of the unchanged documents came in with an add that did not end" in result.stderr
    assert "the add before" not in result.stderr
    assert len(run("pairs", path, "--since", "last", "--verify", "none").stdout.splitlines()) >= 300
    assert "not ended" not in run("batches", path, "--format", "table").stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "no document was accepted; the index"),
        ('{"id": 1.5}\n\nno json\n', "no document was accepted, and 2 were rejected; the index"),
    ],
)
def test_a_first_add_that_accepts_nothing_makes_no_index(
    run: Run, tmp_path: Path, lines: str, said: str
) -> None:
    path = tmp_path / "a.lshdb"
    result = run("add", path, "-", "--threshold", "0.5", stdin=lines, code=1)
    assert said in result.stderr and result.stdout == ""
    assert list(tmp_path.iterdir()) == []
    run("add", path, "-", stdin=jsonl(DOCUMENTS))
    assert run("add", path, "-", stdin=lines, code=5 if lines else 0).stdout == ""
    assert sound(path)


def test_a_file_of_records_makes_no_index(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"id": "a",\n "text": "b"}')
    result = run("add", tmp_path / "a.lshdb", tmp_path / "data.json", code=1)
    assert "looks like a JSON object" in result.stderr
    assert "JSON Lines" in result.stderr and "--input text" in result.stderr
    assert not (tmp_path / "a.lshdb").exists()
    run("add", tmp_path / "a.lshdb", tmp_path / "data.json", "--input", "text")
    assert counts(tmp_path / "a.lshdb")[0] == 1


def test_two_who_make_the_index_at_once(
    run: Run, tmp_path: Path, news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lshdb"
    create = Index.create.__func__  # type: ignore[attr-defined]

    def too_late(cls: type[Index], *args: Any, **options: Any) -> Index:
        create(cls, *args, **{**options, "deferred": False}).close()
        raise lshdb.LshdbError("cannot make the index: Directory not empty")

    monkeypatch.setattr(Index, "create", classmethod(too_late))
    assert "added 4," in run("add", path, news).stderr


def test_texts_of_one_shingle_are_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl([("a", "two words"), ("b", BASE), ("c", "")]))
    said = run("add", tmp_path / "a.lshdb", path).stderr.splitlines()
    assert said[1].startswith(
        "2 new documents have one shingle at most (5 words or fewer): nothing"
    )
    assert "one shingle" not in run("add", tmp_path / "a.lshdb", path).stderr
    path.write_text(
        jsonl([(str(number), f"{BASE} {number}") for number in range(101)] + [("x", "y")])
    )
    assert "one shingle" not in run("add", tmp_path / "b.lshdb", path).stderr


def test_bands_of_one_row_are_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl([("b", BASE)]))
    words = "threshold 0.1 at recall 0.99 makes bands of one row"
    assert words in run("add", tmp_path / "a.lshdb", path, "--threshold", 0.1).stderr
    assert words in run("init", tmp_path / "b.lshdb", "--threshold", 0.1).stderr
    assert "one row" not in run("init", tmp_path / "c.lshdb").stderr
