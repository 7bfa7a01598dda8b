"""Ctrl-C and SIGTERM at any moment of a command: the exit code says so, and the index is sound."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lshdb
from lshdb import Index
from tests.children.placing import child_path
from tests.conftest import family_corpus

ROOT = Path(lshdb.__file__).parents[1]
LAUNCHERS = {
    "module": [sys.executable, "-m", "lshdb"],
    "cli.py": [sys.executable, str(ROOT / "cli.py")],
    "entry point": [sys.executable, "-c", "from lshdb.launching import main; main()"],
}
STARTED = 0.2
"""More of a command's time than the interpreter takes, before any of our code: its own affair."""


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    import json

    path = tmp_path / "documents.jsonl"
    lines = (json.dumps({"id": key, "text": text}) for key, text in family_corpus(3, families=30))
    path.write_text("\n".join(lines) + "\n")
    return path


def start(*arguments: object, launcher: str = "module", cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*LAUNCHERS[launcher], *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": child_path()},
        # A test run in the background has Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_add_that_is_interrupted_anywhere(
    number: signal.Signals, tmp_path: Path, documents: Path, is_long: bool
) -> None:
    rng = random.Random(int(number))
    begun = time.monotonic()
    whole = start("add", "whole.lshdb", documents, cwd=tmp_path)
    whole.communicate(timeout=60)
    assert whole.returncode == 0
    seconds = time.monotonic() - begun
    word = b"interrupted" if number == signal.SIGINT else b"terminated"
    ended = []
    wanted = 300 if is_long else 1
    for attempt in itertools.count():
        if attempt >= wanted and (128 + number in ended or attempt > 9):
            break
        path = tmp_path / f"{attempt}.lshdb"
        child = start("add", path, documents, launcher=rng.choice([*LAUNCHERS]), cwd=tmp_path)
        time.sleep(seconds * rng.uniform(STARTED, 1))
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
        assert b"Traceback" not in said and b"Exception ignored" not in said, said.decode()
        assert child.returncode in (0, 128 + number), (child.returncode, said)
        if child.returncode:
            assert said.splitlines()[-1].startswith(word)
        ended.append(child.returncode)
        if path.exists():
            with Index.open(path) as index:
                assert index.check() == []
                assert index.stats().documents in (0, 160), "a batch is in by half"
    assert 128 + number in ended
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not left, "an index that was being made aside was left there"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_every_line_that_makes_an_index(
    number: signal.Signals, tmp_path: Path, is_long: bool
) -> None:
    """An exception may come between the statement that makes something and the ``try`` behind."""
    files = (
        [".py"] if is_long else ["/storage/creation.py", "/storage/lock.py", "/storage/store.py"]
    )
    script = str(ROOT / "tests" / "fault" / "interrupting.py")
    step = 1 if is_long else 7 if number == signal.SIGINT else 17
    ended = subprocess.run(
        [sys.executable, script, tmp_path, str(int(number)), str(step), *files],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": child_path()},
    )
    assert not ended.returncode, ended.stderr
    *found, tried = ended.stdout.splitlines()
    assert not found, "\n".join(found)
    assert int(tried) >= 10, ended.stderr


def test_an_exception_that_comes_up_where_none_can_be_raised(tmp_path: Path) -> None:
    """While an object is freed, Python says that it ignores exceptions, and goes on."""
    command = (
        "import os, signal, sys, time\n"
        "import lshdb.cli\n"
        "class Freed:\n"
        "    def __del__(self): os.kill(os.getpid(), getattr(signal, sys.argv[1])); time.sleep(0)\n"
        "def run():\n"
        "    Freed()\n"
        "    time.sleep(30)\n"
        "lshdb.cli.run = run\n"
        "from lshdb.launching import main\n"
        "main()\n"
    )
    for name, code, said in (("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")):
        ended = subprocess.run(
            [sys.executable, "-c", command, name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": child_path()},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert (ended.returncode, ended.stderr) == (code, f"{said}\n")


@pytest.mark.parametrize("launcher", [*LAUNCHERS])
def test_while_the_program_is_being_loaded(launcher: str, tmp_path: Path) -> None:
    """An import hook stops in the middle of one, where the signal is to come."""
    hook = tmp_path / "sitecustomize.py"
    hook.write_text(
        "import sys, time\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numpy':\n"
        "            sys.stderr.write('here\\n'); sys.stderr.flush(); time.sleep(60)\n"
        "sys.meta_path.insert(0, Stop())\n"
    )
    child = subprocess.Popen(
        [*LAUNCHERS[launcher], "stats", "no.lshdb"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), child_path()])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.stderr is not None
    assert child.stderr.readline() == b"here\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 130
    assert child.stderr.read() == b"interrupted\n"
    child.stderr.close()


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path, documents: Path) -> None:
    child = subprocess.Popen(
        [*LAUNCHERS["module"], "add", "a.lshdb", documents],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": child_path()},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert child.returncode == 0


HOSTILE = {
    "marks in the wrong order": ("a" + "\u0301" * 3_000_000 + "\u0316" * 3_000_000, ()),
    "marks that come apart": ("a" + "\u0344\u0316" * 3_000_000, ("--strip-accents",)),
    "ligatures": ("\ufdfa" * 2_000_000, ("--unit", "char")),
    "numbers": ("1,2.é" * 2_000_000, ("--digits", "zero")),
    "letters": ("abcdefghijk" * 3_000_000, ("--unit", "char", "--scheme", "universal")),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", HOSTILE)
def test_an_add_of_a_hostile_text(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    """A signal is heard about every second: within half a minute on any machine."""
    text, options = HOSTILE[kind]
    (tmp_path / "short.txt").write_text("a short text")
    (tmp_path / "hostile.txt").write_text(text, encoding="utf-8")
    begun = time.monotonic()
    start("add", "short.lshdb", "short.txt", cwd=tmp_path).communicate(timeout=60)
    seconds = time.monotonic() - begun
    child = start("add", "hostile.lshdb", "hostile.txt", *options, cwd=tmp_path)
    time.sleep(seconds * random.Random(kind).uniform(1, 2))
    begun = time.monotonic()
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert time.monotonic() - begun < 30
    assert child.returncode in (0, 128 + number), said
    assert b"Traceback" not in said
