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
from tests.children.databases import child_path
from tests.children.waiting import killed_late
from tests.conftest import family_corpus

ROOT = Path(lshdb.__file__).parents[1]
LAUNCHERS = {
    "module": [sys.executable, "-m", "lshdb"],
    "cli.py": [sys.executable, str(ROOT / "cli.py")],
    "entry point": [sys.executable, "-c", "from lshdb.cli.launch import main; main()"],
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
        [".py"] if is_long else ["/place/creation.py", "/place/lock.py", "/transactions/store.py"]
    )
    script = str(ROOT / "tests" / "fault" / "interrupting.py")
    step = 1 if is_long else 17
    ended = subprocess.run(
        [sys.executable, script, tmp_path, str(int(number)), str(step), *files],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": child_path()},
        timeout=3600,
    )
    assert not ended.returncode, ended.stderr
    *found, tried = ended.stdout.splitlines()
    assert not found, "\n".join(found)
    assert int(tried) >= 10, ended.stderr


def test_an_exception_that_comes_up_where_none_can_be_raised(tmp_path: Path) -> None:
    """While an object is freed, Python says that it ignores exceptions, and goes on."""
    command = (
        "import os, signal, sys, time\n"
        "import lshdb.cli._group\n"
        "class Freed:\n"
        "    def __del__(self): os.kill(os.getpid(), getattr(signal, sys.argv[1])); time.sleep(0)\n"
        "def run(**_):\n"
        "    Freed()\n"
        "    time.sleep(30)\n"
        "lshdb.cli._group.run = run\n"
        "from lshdb.cli.launch import main\n"
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


def test_a_postponed_signal_in_the_middle_of_a_long_statement(tmp_path: Path) -> None:
    """It comes again as SIGALRM, which the main thread may not hear for minutes."""
    statement = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000) "
        "SELECT count(*) FROM n"
    )
    command = (
        "import signal, sqlite3, sys\n"
        "import lshdb.cli._group\n"
        "from lshdb.cli import launch\n"
        "from lshdb.cli._long_work import prompt_interrupts\n"
        "def run(**_):\n"
        "    with prompt_interrupts():\n"
        "        launch._raise_later(getattr(signal, sys.argv[1]))\n"
        "        sqlite3.connect(':memory:').execute(sys.argv[2]).fetchall()\n"
        "lshdb.cli._group.run = run\n"
        "launch.main()\n"
    )
    for name, code, said in (("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")):
        ended = subprocess.run(
            [sys.executable, "-c", command, name, statement],
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
    with killed_late(child.pid):
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
    with killed_late(child.pid):
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(0.01)
    assert child.returncode == 0


TEXTS = {
    "marks in the wrong order": ("a" + "\u0301" * 9_000_000 + "\u0316" * 9_000_000, ()),
    "marks that come apart": ("a" + "\u0344\u0316" * 4_000_000, ("--strip-accents",)),
    "ligatures": ("\ufdfa" * 2_000_000, ("--unit", "char")),
    "numbers": ("1,2.é" * 6_000_000, ("--digits", "zero")),
    "letters": ("abcdefghijk" * 3_000_000, ("--unit", "char", "--bag")),
}
"""Each takes seconds of processor time."""


def random_text(length: int) -> str:
    return random.Random(length).randbytes(length // 2 + 1).hex()[:length]


def write_hostile(kind: str, folder: Path) -> list[str]:
    """Write a document, or several, on which an add works for long: the arguments of that add."""
    path = folder / "hostile.txt"
    if kind in TEXTS:
        text, options = TEXTS[kind]
        path.write_text(text, encoding="utf-8")
        return [path.name, *options]
    if kind == "many slots":
        path.write_text(random_text(40_000_000))
        return [path.name, "--unit", "char", "--scheme", "universal", "--num-perm", "4096"]
    if kind == "bag":
        path.write_text(random_text(30_000_000))
        return [path.name, "--unit", "char", "--bag"]
    if kind == "weights":
        path.write_text(random_text(4_000_000))
        return [path.name, "--unit", "char", "--metric", "weighted-jaccard"]
    assert kind == "in threads"  # which only the main thread can tell of a signal
    path = path.with_suffix(".jsonl")
    with path.open("w") as file:
        for number in range(40):
            file.write(f'{{"id": "{number}", "text": "{number} {random_text(1_000_000)}"}}\n')
    return [path.name, "--unit", "char", "--scheme", "universal", "--num-perm", "4096",
            "--workers", "2"]  # fmt: skip


KINDS = [*TEXTS, "many slots", "bag", "weights", "in threads"]
TELLING = """
import os, sys, threading, time
seconds = float(sys.argv.pop(1))
def tell():
    while time.process_time() < seconds:
        time.sleep(0.01)
    os.write(1, b"here\\n")
threading.Thread(target=tell, daemon=True).start()
from lshdb.cli.launch import main
main()
"""
"""The command line, which tells when it has taken so many seconds of processor time."""


def start_telling(seconds: float, *arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", TELLING, str(seconds), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": child_path()},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def end(child: subprocess.Popen[bytes]) -> tuple[int, str, float]:
    """Wait for a child: its exit code, what it has said, its processor time."""
    assert child.stdout is not None and child.stderr is not None
    with killed_late(child.pid):
        said = child.stderr.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    child.stderr.close()
    return child.returncode, said, usage.ru_utime + usage.ru_stime


def slowness() -> float:
    """How much slower this machine is just now than one at rest; at least 1."""
    begun = time.monotonic()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.monotonic() - begun) / 0.1)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Processor time of an add of a short text."""
    folder = tmp_path_factory.mktemp("usual")
    (folder / "short.txt").write_text("a short text")
    code, said, seconds = end(start_telling(1e9, "add", "short.lshdb", "short.txt", cwd=folder))
    assert code == 0, said
    return seconds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long(
    when=lambda kind, number: (list(KINDS).index(kind) % 2 == 0) == (number == signal.SIGTERM)
)
def test_an_add_of_a_hostile_document(
    kind: str, number: signal.Signals, usual: float, tmp_path: Path
) -> None:
    """It is at work on the document when the signal comes, and ends within seconds."""
    arguments = write_hostile(kind, tmp_path)
    moment = usual + random.Random(f"{kind} {number}").uniform(0.5, 1.5)
    child = start_telling(moment, "add", "hostile.lshdb", *arguments, cwd=tmp_path)
    assert child.stdout is not None
    with killed_late(child.pid):
        line = child.stdout.readline()
    assert line == b"here\n", "the add has ended before it was interrupted"
    begun = time.monotonic()
    child.send_signal(number)
    code, said, taken = end(child)
    seconds = time.monotonic() - begun
    factor = slowness()
    assert code == 128 + number, said
    assert said.splitlines()[-1].startswith("interrupted" if number == 2 else "terminated")
    assert "Traceback" not in said and "Exception ignored" not in said
    assert taken - moment < 5 * factor and seconds < 5 * factor, (taken - moment, seconds, factor)


HEARING = """
import signal, sys, time
last, longest = time.thread_time(), 0.0
def tick(*_):
    global last, longest
    now = time.thread_time()
    longest, last = max(longest, now - last), now
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
from lshdb.cli._group import run
code = run()
tick()
signal.setitimer(signal.ITIMER_REAL, 0)
begun = time.thread_time()
sum(number * number for number in range(1_000_000))
print(longest, max(1.0, (time.thread_time() - begun) / 0.1), time.thread_time())
sys.exit(code)
"""
"""The command line; prints its longest stretch of processor time in which no signal was heard."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_how_long_no_signal_is_heard(kind: str, tmp_path: Path) -> None:
    """Of the whole add, and not of one moment: never for much longer than a second."""
    arguments = write_hostile(kind, tmp_path)
    if "--workers" not in arguments:
        arguments += ["--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", HEARING, "add", "hostile.lshdb", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": child_path()},
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    longest, factor, whole = map(float, done.stdout.split()[-3:])
    assert whole > 2, "the work is too short to tell anything"
    assert longest < 1.5 * factor, (longest, factor, whole)
