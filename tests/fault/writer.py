"""The test's side of the writer process: the layer, the tasks, and what came of them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.children.databases import child_path
from tests.fault.steps import State

HERE = Path(__file__).parent

PASS, FAIL, SHORT, KILL_BEFORE, KILL_HALF, KILL_AFTER = range(6)
(
    CREATE, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, OPEN, READ, LOCK, MARK, UNKNOWN,
    LINK,
) = (1 << bit for bit in range(14))  # fmt: skip
CHANGING = CREATE | WRITE | TRUNCATE | SYNC | RENAME | UNLINK | MKDIR | RMDIR | LINK


def build_layer(folder: Path) -> Path:
    """Compile ``interpose.c``; OSError or CalledProcessError where that is not possible here."""
    library = folder / "interpose.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE"]
    compiler = os.environ.get("CC", "cc")
    command = [*compiler.split(), *flags, str(HERE / "interpose.c"), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return library


@dataclass(slots=True)
class Outcome:
    """What came of a task.

    Attributes
    ----------
    status : int
        Exit code of the child; -9 where it was killed.
    allowed : list of State
        What the index may hold now: the last state that was acknowledged and, where a commit was
        under way, the one after it.
    result : dict
        What the child said at its end; empty where it was killed.
    flips : list of tuple
        What each flipped bit did, as far as it came.
    """

    status: int
    allowed: list[State]
    result: dict[str, Any] = field(default_factory=dict)
    flips: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return "killed" if self.status < 0 else str(self.result.get("outcome", "nothing"))


class Expected:
    """What an index may hold, followed through a writer's marks."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.coming: list[State] = []

    def mark(self, kind: str, what: Any) -> None:
        if kind == "intend":
            self.coming = list(what)
        elif kind == "done":
            self.state = self.coming.pop(0)

    @property
    def allowed(self) -> list[State]:
        return [self.state, *self.coming[:1]]


class WriterProcess:
    """A writer process that is ready for tasks; a context manager."""

    def __init__(self, layer: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([child_path(), *sys.path])}
        before = environment.get("LD_PRELOAD")
        environment["LD_PRELOAD"] = f"{before}:{layer}" if before else str(layer)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HERE.parents[1],
        )
        list(self._told())

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _told(self) -> Iterator[tuple[str, Any]]:
        """What the process tells, up to the end of a task."""
        assert self._process.stdout is not None
        kind = ""
        while kind not in ("ready", "status"):
            line = self._process.stdout.readline()
            assert line, "the writer process has ended"
            with contextlib.suppress(ValueError):  # half a line of a child that was killed
                kind, what = json.loads(line)
                yield kind, what

    def run(self, path: Path, documents: State, **task: Any) -> Outcome:
        """Run a task on an index and wait for its end.

        Parameters
        ----------
        path : Path
            The index; faults strike in the folder in which it lies, and below.
        documents : dict or None
            What it holds.
        **task
            What to do: ``steps``, ``command``, ``question``, ``flips`` or ``cut``; and under what:
            ``fault``, ``plants``, ``log``, ``file_limit``, ``killed_at``, ``kill_after_seconds``,
            ``block_rows``, ``bits``: see ``driver.py``.
        """
        task |= {"path": str(path), "root": str(path.parent), "documents": documents}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        expected, status, result, flips = Expected(documents), 0, {}, []
        for kind, what in self._told():
            expected.mark(kind, what)
            if kind == "status":
                status = what
            elif kind == "outcome":
                result = what
            elif kind == "flip":
                flips.append(what)
        return Outcome(status, expected.allowed, result, flips)
