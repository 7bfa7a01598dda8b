"""What the tests share: calling the command line in this process, in another, on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

import lshdb
from lshdb import Index
from lshdb.cli._group import cli
from tests.children.databases import child_path

ROOT = Path(lshdb.__file__).parents[1]
MODULE = [sys.executable, "-m", "lshdb"]
# Before a command, to have the most memory that it held, in KiB on Linux, as the last word on
# standard error. A small process starts it: what a process held before ``exec`` counts as its own
# afterwards, so a child of the tests themselves would have all of their memory.
MEASURED = [
    sys.executable,
    "-c",
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
    "sys.exit(code)",
]

Run = Callable[..., click.testing.Result]


def environment(**extra: str) -> dict[str, str]:
    """The surroundings of a child process, without what would change its output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"}
        and not name.startswith("PYTHON")
    }
    return {**kept, "PYTHONPATH": child_path(), **extra}


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Run:
    """Call the command line in this process; an unexpected exception fails the test."""

    def call(*args: object, code: int = 0, stdin: str | bytes = b"") -> click.testing.Result:
        result = click.testing.CliRunner().invoke(
            cli, [str(arg) for arg in args], input=stdin, catch_exceptions=False, prog_name="lshdb"
        )
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return result

    return call


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Call the command line in a process of its own."""

    def call(
        *args: object, command: list[str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        options.setdefault("stdin", subprocess.DEVNULL) if "input" not in options else None
        return subprocess.run(
            [*(command or MODULE), *map(str, args)],
            capture_output=True,
            env=environment(**options.pop("env", {})),
            cwd=options.pop("cwd", tmp_path),
            check=False,
            timeout=120,
            **options,
        )

    return call


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the command line in a process of its own, which ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*args: object, **options: Any) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [*MODULE, *map(str, args)],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=tmp_path,
            # A test run in the background has Ctrl-C ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            **options,
        )
        started.append(child)
        return child

    yield begin
    for child in started:
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture
def on_terminal(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Call the command line on a terminal of its own: exit code, and all that it showed."""

    def call(*args: object, columns: int = 100, typed: bytes = b"", **env: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        child = subprocess.Popen(
            [*MODULE, *map(str, args)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**{"TERM": "xterm-256color", **env}),
            cwd=tmp_path,
        )
        os.close(theirs)
        os.write(ours, typed)
        shown = bytearray()

        def watch() -> None:
            with contextlib.suppress(OSError):  # the other end is gone
                while data := os.read(ours, 65536):
                    shown.extend(data)

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = child.wait(timeout=120)
        watcher.join(timeout=10)
        os.close(ours)
        return code, shown.decode()

    return call


def words(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return [f"word{rng.randrange(10_000)}" for _ in range(count)]


def jsonl(documents: Any) -> str:
    """JSON Lines of (key, text) pairs."""
    return "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents)


BASE = " ".join(words(1))
NEAR = BASE + " one more"  # 56 of 58 shingles in common
FAR = " ".join([*words(1)[:30], *words(2)[:30]])
OTHER = " ".join(words(3))
DOCUMENTS = [("base", BASE), ("copy", BASE.upper()), ("near", NEAR), ("other", OTHER)]
NEAR_SIMILARITY = 56 / 58


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of ``DOCUMENTS``, made once."""
    path = tmp_path_factory.mktemp("built") / "built.lshdb"
    with Index.create(path) as index:
        index.add(DOCUMENTS, source="documents")
    return path


@pytest.fixture
def index_path(built: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    path = tmp_path / "news.lshdb"
    with Index.open(built) as index:
        index.copy(path)
    return path


def sound(path: Path) -> bool:
    """Whether an index is as it was written."""
    with Index.open(path) as index:
        return index.check() == []
