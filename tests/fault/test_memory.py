"""Address space of 300, 500 and 800 MiB: a command does its work, or says that memory is short.

Nothing is lost then: the index is sound and holds what it held, or what the command was to put into
it, batch by batch. Nothing is left, in ``TMPDIR`` or beside the output. What a command says it has
done is the same as with all the memory there is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path

import click.testing
import pytest

from lshdb import Index
from lshdb.cli._group import cli
from lshdb.documents.formats import json_text
from lshdb.files.process import require_memory
from tests.cli.test_limits import limited

pytestmark = pytest.mark.sqlite("a server has memory of its own")

MEBIBYTES = (800, 500, 300)
UNLIMITED = 2**40
COMMANDS = {
    "add": "add NEW.lshdb FILE",
    "add to it": "add X MORE",
    "pairs": "pairs X -o OUT.tsv",
    "clusters": "clusters X -o OUT.tsv",
    "dedup": "dedup X --decisions OUT.csv",
    "dedup of files": "dedup FILE -o OUT.jsonl",
    "pairs of files": "pairs FILE -o OUT.tsv",
    "clusters of files": "clusters FILE -o OUT.tsv",
    "check": "check X",
    "neighbors": "neighbors X -o OUT.tsv",
    "all neighbors": "neighbors X --recall 0.9 -o OUT.tsv",
    "query": "query X MORE -o OUT.tsv",
    "join": "join X OTHER -o OUT.tsv",
    "recall": "recall X",
    "tune": "tune X",
    "report": "report X -o OUT.html",
    "merge": "merge OTHER X",
    "compact": "compact X",
    "reband": "reband X --threshold 0.7",
    "copy": "copy X NEW.lshdb",
    "reindex": "reindex X NEW.lshdb --k 3",
}
CHANGING = {
    "add": "NEW.lshdb", "add to it": "X", "merge": "OTHER", "compact": "X", "reband": "X",
    "copy": "NEW.lshdb", "reindex": "NEW.lshdb",
}  # fmt: skip


def short(folder: Path, n: int) -> None:
    """Documents of twenty words; one of ten is nearly one before it."""
    rng = random.Random(n)
    words = [f"w{number}" for number in range(5_000)]
    before: list[list[str]] = []
    with open(folder / "file.jsonl", "w") as file:
        for number in range(n):
            text = rng.choices(words, k=20)
            if before and number % 10 == 0:
                text = [*rng.choice(before)[:-1], "other"]
            if number % 100 == 1:
                before.append(text)
            file.write(json.dumps({"id": f"d{number}", "text": " ".join(text)}) + "\n")


def long(folder: Path, n: int, megabytes: int) -> None:
    """Documents of so many megabytes of words; every second is nearly the one before it."""
    rng = random.Random(n)
    letters = bytes(
        ord(string.ascii_lowercase[byte % 26]) if byte > 40 else 32 for byte in range(256)
    )
    text = ""
    with open(folder / "file.jsonl", "w") as file:
        for number in range(n):
            if number % 2 == 0:
                text = rng.randbytes(megabytes * 1_000_000).translate(letters).decode()
            file.write(json.dumps({"id": f"d{number}", "text": f"{text} {number}"}) + "\n")


KINDS: dict[str, Callable[[Path], None]] = {
    "300,000 short ones": lambda folder: short(folder, 300_000),
    "60 of 20 MB": lambda folder: long(folder, 60, 20),
}


def prepare(folder: Path, write: Callable[[Path], None]) -> None:
    """Make the files and the indexes that commands are run on."""
    folder.mkdir()
    write(folder)
    more = [{"id": f"m{number}", "text": f"some more words {number}"} for number in range(1_000)]
    (folder / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in more))
    for name, file in (("x", "file"), ("other", "more")):
        words = ["add", str(folder / f"{name}.lshdb"), str(folder / f"{file}.jsonl")]
        done = click.testing.CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.stderr
    with Index.open(folder / "x.lshdb") as index:
        index.remove(["d7"])


def keys_of(path: Path, *, is_new: bool) -> set[str]:
    """The keys of an index, which is checked if it is new; none if there is no index."""
    if not path.exists():
        return set()
    with Index.open(path) as index:
        assert not is_new or index.check() == []
        return {key for (key,) in index.sql("SELECT key FROM document").rows}


def outcome(folder: Path, name: str, mebibytes: int) -> tuple[int, list[str], str]:
    """Run a command on a copy: its exit code, the lines that it writes, and what it says.

    It leaves nothing else.
    """
    work = folder.with_name("work")
    shutil.rmtree(work, ignore_errors=True)
    (work / "temporary").mkdir(parents=True)
    stand_for = {
        "FILE": folder / "file.jsonl", "MORE": folder / "more.jsonl",
        "X": folder / "x.lshdb", "OTHER": folder / "other.lshdb",
    }  # fmt: skip
    changed = CHANGING.get(name, "")
    if changed in stand_for:
        stand_for[changed] = shutil.copytree(stand_for[changed], work / "changed.lshdb")
    words = [
        stand_for.get(word, work / word if word.startswith(("OUT", "NEW")) else word)
        for word in COMMANDS[name].split()
    ]
    path = Path(stand_for.get(changed, work / changed))
    before = keys_of(path, is_new=False) if changed else set()
    limit = mebibytes * 2**20 if mebibytes < UNLIMITED else UNLIMITED
    done = limited("RLIMIT_AS", limit, *words, TMPDIR=str(work / "temporary"))
    assert os.listdir(work / "temporary") == [], (name, mebibytes)
    assert [file for file in os.listdir(work) if file.startswith(".")] == [], (name, mebibytes)
    written = sorted(line for file in work.glob("OUT*") for line in file.read_text().splitlines())
    if changed:
        keys = keys_of(path, is_new=True)
        assert before <= keys, f"lost {sorted(before - keys)[:5]}"
        written = sorted(keys)
    return done.returncode, written, done.stderr


def judge(folder: Path, name: str, limits: tuple[int, ...]) -> dict[int, str]:
    """What came of a command under each limit: done, or what it said."""
    code, expected, said = outcome(folder, name, UNLIMITED)
    assert code in (0, 6), said
    came: dict[int, str] = {}
    for mebibytes in limits:
        code, written, said = outcome(folder, name, mebibytes)
        where = f"{name}, {mebibytes} MiB: exit code {code}, {said[-500:]}"
        assert code in (0, 1, 6), where
        if code == 1:
            assert "memory" in said and f"limit of this process is {mebibytes} MiB" in said, where
            assert name in CHANGING or written == [], f"{where}: half an answer is there"
            came[mebibytes] = next(line for line in said.splitlines() if "memory" in line)[:150]
        elif name != "report":  # which has its time
            assert written == expected, f"{where}: another answer"
    return came


@pytest.mark.parametrize("kind", KINDS)
def test_commands_in_little_memory(kind: str, tmp_path: Path, is_long: bool) -> None:
    if not is_long:
        pytest.skip("with --faults=long")
    folder = tmp_path / "sound"
    prepare(folder, KINDS[kind])
    for name in COMMANDS:
        print(f"{name}: {judge(folder, name, MEBIBYTES) or 'done'}")


SLICE = {"pairs": 130, "dedup of files": 130, "merge": 130, "recall": 130, "reindex": 140}
"""Some commands, and MiB with which they get a part of the way with 2,000 short documents."""


@pytest.mark.parametrize("name", SLICE)
def test_a_command_in_hardly_any_memory(name: str, tmp_path: Path) -> None:
    """It says so, or it does the whole of its work."""
    folder = tmp_path / "sound"
    prepare(folder, lambda made: short(made, 2_000))
    assert judge(folder, name, (SLICE[name],)).keys() <= {SLICE[name]}


def test_memory_is_asked_for_before_a_parser_would_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError):
        require_memory(2**62)
    asked: list[int] = []
    monkeypatch.setattr(json_text, "require_memory", asked.append)
    assert json_text.load_json(b"[1]") == [1]
    asked.clear()  # what the parser takes once
    assert len(json_text.load_json(b'"' + b"x" * 2**17 + b'"')) == 2**17
    assert asked[0] > 2**20
