"""What is wrong with how commands end: each list of them in a child of little memory and time.

Run as a module, it forks a child for each line of standard input: a folder and commands, in JSON. A
child writes a line of JSON for each command that begins, and for what is wrong with its end; then
comes a line with its exit status. It is a process without threads that forks: those of deltalake do
not outlive a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing

from lshdb.cli._group import cli
from tests.children.databases import child_path
from tests.children.waiting import killed_late

__all__ = ["Complaining"]

SECONDS, MEMORY = 60, 3 * 2**30
"""For all commands together, and beside what the process has before them."""
CODES = {0, 1, 2, 4, 5, 6}


class Complaining:
    """The process that forks; a context manager."""

    def __enter__(self) -> Complaining:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([child_path(), *sys.path])},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def of(self, folder: Path, commands: list[list[str]]) -> list[str]:
        """Run commands in a folder: what is wrong."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), commands]) + "\n")
        self._process.stdin.flush()
        wrong, command = [], ""
        with killed_late(self._process.pid, 2 * SECONDS):
            while True:
                kind, what = json.loads(self._process.stdout.readline())
                if kind == "begin":
                    command = what
                elif kind == "wrong":
                    wrong.append(f"{command}: {what}")
                else:
                    return wrong + ([f"{command}: ended by signal {-what}"] if what else [])


def tell(kind: str, what: Any) -> None:
    os.write(1, json.dumps([kind, what]).encode() + b"\n")


def child(folder: str, commands: list[list[str]]) -> None:
    """Never returns."""
    with contextlib.suppress(BaseException):
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        if sys.platform == "linux":
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        signal.alarm(SECONDS)
        for words in commands:
            tell("begin", f"{' '.join(words):.60}")
            try:
                for what in _complaints(words):
                    tell("wrong", what)
            except BaseException as error:
                tell("wrong", f"raised {error!r:.300}")
    os._exit(0)


def _complaints(words: list[str]) -> Iterator[str]:
    done = click.testing.CliRunner().invoke(cli, words, prog_name="lshdb")
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if not isinstance(done.exception, SystemExit | None):
        yield f"ended with {done.exception!r:.300}"
    elif done.exit_code not in CODES or (done.exit_code in (1, 2) and not errors):
        yield f"ended with {done.exit_code} and said {done.stderr:.300}"
    if len(errors) > 1 or "Traceback" in done.stderr or "out of memory" in done.stderr:
        yield f"said {done.stderr:.300}"
    for line in lines:
        if not line.replace("\t", " ").isprintable():
            yield f"said {line!r:.200}"
    if any(len(line) > 6_000 for line in errors):
        yield "said more than 6,000 characters"


def main() -> None:
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(*json.loads(line))
        tell("status", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


if __name__ == "__main__":
    main()
