"""Nights of several feeds, with failures at every step: nothing is lost between them."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from lshdb.files import whole_files
from tests.brute import brute_pairs
from tests.cli.conftest import DOCUMENTS, ROOT, Run, environment, jsonl

FEEDS = ("press", "radio", "empty", "wire", "blogs")
NIGHTS = 2
FAULTS = ("after a batch", "before a batch", "none")
GUIDE = ROOT / "docs" / "guides" / "nightly.md"

CHILD = """
import os, sys
import dataclasses
import lshdb.index, lshdb.ingest.add_sizes
from lshdb.storage.transactions.writer import Writer
fault, argv = sys.argv[1], sys.argv[2:]
sizes = dataclasses.replace(lshdb.ingest.add_sizes.SIZES, batch_documents=4)
lshdb.ingest.add_sizes.SIZES = sizes
if fault == "after a batch":
    plain = Writer.commit
    def run(self, work):
        plain(self, work)
        os._exit(9)
    Writer.commit = run
elif fault == "before a batch":
    Writer.commit = lambda self, work: os._exit(9)
elif fault == "before the cursor moves":
    lshdb.index.Index.advance = lambda *given, **named: os._exit(9)
elif fault == "before the pairs":
    lshdb.index.Index.pairs = lambda *given, **named: os._exit(9)
sys.argv[1:] = argv
from lshdb.cli.launch import main
main()
"""


@pytest.fixture
def lshdb(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own, which may die at some point."""

    def call(*args: object, fault: str = "none", **options: Any) -> Any:
        return subprocess.run(
            [sys.executable, "-c", CHILD, fault, *map(str, args)],
            env=environment(),
            cwd=tmp_path,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            **{"capture_output": True, **options},
        )

    return call


def feeds(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(night, file) of every feed; each has documents like those of other feeds and nights."""
    rng = random.Random(17)
    words = [f"word{number}" for number in range(400)]
    stories = [[rng.choice(words) for _ in range(40)] for _ in range(8)]
    numbers = itertools.count()
    for night in range(NIGHTS):
        for feed in FEEDS:
            path = tmp_path / f"{feed}-{night}.jsonl"
            lines = []
            for _ in range(0 if feed == "empty" else 7):
                story = list(rng.choice(stories))
                story[rng.randrange(40)] = "changed"
                document = {"id": f"{feed}/{next(numbers)}", "text": " ".join(story)}
                lines.append(json.dumps(document) + "\n")
            path.write_text("".join(lines))
            yield f"night-{night}", path


def texts(tmp_path: Path) -> list[tuple[str, str]]:
    lines = (line for path in tmp_path.glob("*.jsonl") for line in path.read_text().splitlines())
    return [(one["id"], one["text"]) for one in map(json.loads, lines)]


def pairs_in(text: str) -> set[frozenset[str]]:
    return {frozenset(line.split("\t")[:2]) for line in text.splitlines()}


def test_what_a_cursor_gave_is_all_pairs_whatever_failed(
    lshdb: Callable[..., Any], tmp_path: Path, is_long: bool
) -> None:
    rng = random.Random(5)
    seen: set[frozenset[str]] = set()
    lshdb("init", "news.lshdb", "--threshold", "0.5")
    lshdb("cursors", "news.lshdb", "press", "--set", "start")
    for night, some in itertools.groupby(feeds(tmp_path), key=lambda one: one[0]):
        for _, path in some:
            for fault in rng.sample(FAULTS, k=2 if is_long else 1):
                lshdb("add", "news.lshdb", path, "--night", night, fault=fault)
            added = lshdb("add", "news.lshdb", path, "--night", night)
            assert added.returncode == 0, added.stderr
            if path.name.startswith("radio"):  # a reader who does not wait for the night to end
                seen |= pairs_in(ask(lshdb).stdout)
        dying = ask(lshdb, fault="before the cursor moves")
        assert dying.returncode == 9
        with open("/dev/full", "w") as full:
            failed = ask(lshdb, stdout=full, stderr=subprocess.PIPE, capture_output=False)
        assert failed.returncode == 1, failed.stderr
        assert "No space left" in failed.stderr
        repeated = ask(lshdb)
        assert pairs_in(repeated.stdout) == pairs_in(dying.stdout) != set()
        seen |= pairs_in(repeated.stdout)
        assert ask(lshdb).stdout == ""
    with Index.open(tmp_path / "news.lshdb") as index:
        assert seen == {frozenset((pair.key1, pair.key2)) for pair in index.pairs()}
        assert index.check() == []
        assert {batch.night for batch in index.batches()} == {f"night-{n}" for n in range(NIGHTS)}
    brute = {frozenset((one, other)) for one, other, *_ in brute_pairs(texts(tmp_path), 0.5)}
    assert seen == brute


def ask(lshdb: Callable[..., Any], **options: Any) -> Any:
    return lshdb("pairs", "news.lshdb", "--since", "@press", "--advance", **options)


def job() -> str:
    """The script of the guide."""
    found = re.search(r"```sh\n(#!/bin/sh\n.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (0, "before a batch"),
        (0, "after a batch"),
        (1, "before a batch"),
        (2, "after a batch"),
        (3, "before the cursor moves"),
    ],
)
def test_the_job_of_the_guide_loses_nothing_if_a_step_fails(
    step: int, fault: str, tmp_path: Path
) -> None:
    """Each step dies once, at its end or in its middle; the next run of the job makes it good."""
    text = " ".join(f"word{number}" for number in range(60))
    (tmp_path / "night.sh").write_text(job())
    for name in ("press", "radio", "wire"):
        lines = [
            json.dumps({"id": f"{name}{number}", "text": f"{text} {name} {number}"})
            for number in range(6)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        subprocess.run(["gzip", "-f", tmp_path / f"{name}.jsonl"], check=True)
    shim = tmp_path / "lshdb"
    (tmp_path / "child.py").write_text(CHILD)
    shim.write_text(
        "#!/bin/sh\n"
        "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count\n"
        f'fault=none; [ $n = {step} ] && fault="{fault}"\n'
        f'exec {sys.executable} child.py "$fault" "$@"\n'
    )
    shim.chmod(0o755)
    path = f"{tmp_path}:{environment()['PATH']}"

    def night() -> int:
        return subprocess.run(
            ["sh", "night.sh"], cwd=tmp_path, env=environment(PATH=path), check=False,
            capture_output=True, timeout=120,
        ).returncode  # fmt: skip

    assert night() != 0
    assert night() == 0
    (repeats,) = tmp_path.glob("repeats-*.tsv")
    with Index.open(tmp_path / "news.lshdb") as index:
        everything = {frozenset((pair.key1, pair.key2)) for pair in index.pairs()}
        assert len(everything) == 18 * 17 / 2
    assert pairs_in(repeats.read_text()) == everything


def test_add_with_pairs_writes_what_two_commands_write(run: Run, tmp_path: Path) -> None:
    """Line for line, feed for feed, with one cursor and with ``last``."""
    for name in ("one", "two"):
        run("init", tmp_path / name, "--threshold", "0.5")
    for night, path in itertools.islice(feeds(tmp_path), len(FEEDS) + 2):
        add = ("add", path, "--night", night)
        run("add", tmp_path / "two", *add[1:])
        for since in (("last",), ("@press", "--advance")):
            said = run("add", tmp_path / "one", *add[1:], "--pairs", *since)
            expected = run("pairs", tmp_path / "two", "--since", *since)
            assert said.stdout == expected.stdout
            assert said.stderr.endswith(expected.stderr)
    for name in ("one", "two"):
        with Index.open(tmp_path / name) as index:
            assert [cursor.batch_id for cursor in index.cursors()] == [len(index.batches())]
    assert said.stdout


@pytest.mark.parametrize("fault", ["before the pairs", "before the cursor moves"])
def test_a_kill_after_the_add_leaves_the_pairs_to_the_next_night(
    fault: str, lshdb: Callable[..., Any], run: Run, tmp_path: Path
) -> None:
    index = tmp_path / "news.lshdb"
    first, second = (path for _, path in itertools.islice(feeds(tmp_path), 2))
    run("add", index, first, "--threshold", "0.5", "--pairs", "@press", "--advance")
    killed = lshdb("add", index, second, "--pairs", "@press", "--advance", fault=fault)
    assert killed.returncode == 9
    again = run("add", index, second, "--pairs", "@press", "--advance", "-o", tmp_path / "new.csv")
    assert "unchanged 7" in again.stderr and not again.stdout
    with Index.open(index) as opened:
        newest = {frozenset((pair.key1, pair.key2)) for pair in opened.pairs(since=2)}
        assert [cursor.batch_id for cursor in opened.cursors()] == [len(opened.batches())]
    lines = (tmp_path / "new.csv").read_text().splitlines()[1:]
    assert {frozenset(line.split(",")[:2]) for line in lines} == newest != set()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--advance"], "--advance moves a cursor: name it with --pairs @NAME"),
        (["--pairs", "last", "--advance"], "--advance moves a cursor: name it with --pairs @NAME"),
        (["--pairs", "@a b", "--advance"], "expected a name"),
        (["--pairs", "@press"], "there is no cursor 'press'"),
        (["--pairs", "tomorrow"], "expected a batch's number"),
        (["--pairs", "last", "--rejects", "-"], "both write to standard output"),
    ],
)
def test_a_mistake_about_the_pairs_adds_nothing(
    options: list[str], words: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(DOCUMENTS))
    assert words in run("add", tmp_path / "a", tmp_path / "a.jsonl", *options, code=2).stderr
    assert not (tmp_path / "a").exists()


def test_add_lists_pairs_beside_rejections_and_leaves_its_output_out(
    run: Run, tmp_path: Path
) -> None:
    folder, index = tmp_path / "feeds", tmp_path / "a.lshdb"
    folder.mkdir()
    (folder / "a.jsonl").write_text(jsonl(DOCUMENTS) + "no document\n")
    add = ("add", index, folder, "--pairs", "@press", "--advance", "-o", folder / "new.tsv")
    said = run(*add, code=5)
    assert "added 4" in said.stderr and "3 pairs" in said.stderr
    written = (folder / "new.tsv").read_text()
    assert written == run("pairs", index).stdout
    assert "unchanged 4" in run(*add, code=5).stderr
    assert (folder / "new.tsv").read_text() == ""
    summary = run("add", index, folder, "-o", tmp_path / "summary.jsonl", code=5)
    assert json.loads((tmp_path / "summary.jsonl").read_text())["unchanged"] == 4
    assert "unchanged" not in summary.stderr


def test_a_reader_who_takes_the_first_lines_moves_nothing(run: Run, tmp_path: Path) -> None:
    """``| head``: the rest was not read."""
    index = tmp_path / "a.lshdb"
    with Index.create(index, threshold=0.5) as made:
        made.add((f"k{number}", "the same text for everybody") for number in range(300))
    command = f"{sys.executable} -m lshdb pairs {index} --since @press --advance | head -1"
    subprocess.run(["sh", "-c", command], env=environment(), check=False, capture_output=True)
    with Index.open(index) as again:
        assert [cursor.batch_id for cursor in again.cursors()] == [0]
    assert len(run("pairs", index, "--since", "@press").stdout.splitlines()) == 300 * 299 / 2


@pytest.mark.parametrize("what", ["sync_file", "sync_directory"])
def test_a_cursor_waits_until_the_file_is_on_disk(
    what: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes and its name: a loss of power must not take what counts as read."""
    index, path = tmp_path / "a.lshdb", tmp_path / "out.csv"
    with Index.create(index, threshold=0.5) as made:
        made.add([("a", "one two three four five six"), ("b", "one two three four five six")])
    question = ("pairs", index, "--since", "@press", "--advance", "-o", path)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(whole_files, what, fail)
        assert "Input/output error" in run(*question, code=1).stderr
    with Index.open(index) as again:
        assert [cursor.batch_id for cursor in again.cursors()] == [0]
    run(*question)
    assert len(path.read_text().splitlines()) == 2
    with Index.open(index) as again:
        assert [cursor.batch_id for cursor in again.cursors()] == [1]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["pairs", "--advance"], "--advance moves a cursor: name it with --since @NAME"),
        (["pairs", "--since", "last", "--advance"], "--advance moves a cursor"),
        (["pairs", "--since", "@press"], "there is no cursor 'press'"),
        (["pairs", "--since", "tomorrow"], "expected a batch's number"),
        (["clusters", "--since", "9"], "there is no batch 9"),
        (["cursors", "--set", "1"], "need the NAME of a cursor"),
        (["cursors", "press", "--set", "1", "--remove"], "give either"),
        (["cursors", "press", "--set", "soon"], "expected a batch's number, start or now"),
        (["cursors", "press", "--set", "9"], "there is no batch 9"),
        (["cursors", "press", "--remove"], "there is no cursor 'press'"),
        (["cursors", "a b", "--set", "1"], "expected a name"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, command: list[str], words: str) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add([("a", "some words in a text of its own")])
    name, *options = command
    assert words in run(name, tmp_path / "a.lshdb", *options, code=2).stderr


def test_cursors_are_listed_set_and_removed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path) as index:
        index.add([("a", "some words in a text of its own")])
    assert run("cursors", path, "--format", "table").stderr == "no cursors\n"
    assert "up to batch 1" in run("cursors", path, "press", "--set", "now").stderr
    assert "up to batch 0" in run("cursors", path, "radio", "--set", "start").stderr
    listed = [line.split("\t")[:3] for line in run("cursors", path).stdout.splitlines()]
    assert listed == [["press", "1", "1"], ["radio", "0", "1"]]
    assert "is removed" in run("cursors", path, "press", "--remove").stderr
    assert [line.split("\t")[0] for line in run("cursors", path).stdout.splitlines()] == ["radio"]
