"""The writer process: loads everything once, then forks a child for each task that it is given.

Run with the layer of ``interpose.c`` preloaded. A task is a line of JSON on standard input; what
the child has to tell are lines on standard output, and the last is its exit status. A fork costs
10 ms where a new interpreter with SQLAlchemy and Alembic costs a second, and thousands of faults
are tried.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

LAYER = ctypes.CDLL(None)
SECONDS = 900
"""What a task may take; then it says where it is, and ends."""


def preload() -> None:
    """Import what a child imports late, which takes longer than its task; nothing goes to disk."""
    for name in (
        "alembic.command",
        "alembic.config",
        "numpy.ma",
        "psycopg",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite",
        "lshdb.ingest.add",
        "lshdb.maintain.check",
        "lshdb.groups.update",
        "lshdb.exchange.importer",
        "lshdb.exchange.exporter",
        "lshdb.ingest.merge",
        "lshdb.ingest.remove",
        "lshdb.maintain.repair",
        "lshdb.maintain.rewrite",
        "lshdb.maintain.upgrade",
        "lshdb.signatures.bits",
        "lshdb.maintain.copy",
        "lshdb.storage.dialects.postgresql",
        "lshdb.storage.tables.schema",
        "tests.fault.plants",
        "tests.fault.questions",
        "tests.fault.steps",
    ):
        importlib.import_module(name)
    importlib.import_module("lshdb.kernel")


def tell(kind: str, what: Any) -> str:
    """Write a line to standard output: a pipe, so that no limit on files strikes here."""
    line = json.dumps([kind, what])
    rest = memoryview(line.encode() + b"\n")
    while rest:
        rest = rest[os.write(1, rest) :]
    return line


def perform(task: dict[str, Any]) -> dict[str, Any]:
    """In the child: arm the layer, run the steps or the command, say how it ended."""
    from lshdb import LshdbError
    from lshdb.storage.rowfiles import layouts as blocks
    from tests.fault.plants import OF_VECTORS, PLANTS
    from tests.fault.questions import answer, cut_meanwhile, flipped
    from tests.fault.steps import Work, run_steps

    if task.get("block_rows"):
        blocks.BLOCK_ROWS = task["block_rows"]
    for plant in task.get("plants", ()):
        (PLANTS | OF_VECTORS)[plant]()

    def say(kind: str, what: Any) -> None:
        LAYER.fault_mark(tell(kind, what).encode())

    LAYER.fault_root(os.path.realpath(task["root"]).encode())
    if task.get("log"):
        LAYER.fault_record(task["log"].encode())
    fault = task.get("fault")
    if fault:
        LAYER.fault_arm(
            fault["action"], fault["kinds"], fault.get("part", "").encode(),
            ctypes.c_long(fault["nth"]), fault.get("error", 0), fault.get("lasting", 0),
        )  # fmt: skip
    if task.get("killed_at"):
        _kill_at(**task["killed_at"])
    if task.get("file_limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["file_limit"], resource.RLIM_INFINITY))
    path, outcome = Path(task["path"]), {"outcome": "done"}
    try:
        if "command" in task:
            outcome = _command(task["command"])
        elif "question" in task:
            outcome["answer"] = answer(path, task["question"], task["texts"])
        elif "flips" in task:
            for flip in flipped(path, task["texts"], task["flips"]):
                say("flip", flip)
        elif "cut" in task:
            outcome |= cut_meanwhile(path, task["cut"], task["texts"], task["size"], task["moment"])
        else:
            kind = {"bits": task.get("bits", False), "workers": task.get("workers", 1)}
            work = Work(path, task["documents"], say, task.get("place"), **kind)
            run_steps(task["steps"], work)
    except LshdbError as error:
        outcome = {"outcome": type(error).__name__, "message": error.message, "hint": error.hint}
    except BaseException:
        import traceback

        outcome = {"outcome": "bug", "message": traceback.format_exc()}
    outcome["count"] = LAYER.fault_count()
    LAYER.fault_arm(0, 0, b"", ctypes.c_long(0), 0, 0)
    return outcome


def _kill_at(name: str, when: str, nth: int = 1) -> None:
    """Kill the process before or after the nth call of a function, given as ``module:name``."""
    module, _, path = name.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, last = path.split(".")
    for one in outer:
        owner = getattr(owner, one)
    function, calls = getattr(owner, last), []

    def killed(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **named)
        if len(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, killed)


def _command(arguments: list[str]) -> dict[str, Any]:
    """Run the command line, with what it prints in files."""
    import contextlib
    import io

    from lshdb.cli._group import run

    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.argv = ["lshdb", *arguments]
        try:
            code: Any = run()
        except SystemExit as end:
            code = end.code
    out.seek(0)
    err.seek(0)
    return {"outcome": "ended", "code": code or 0, "stdout": out.read(), "stderr": err.read()}


def child(task: dict[str, Any]) -> None:
    """Never returns."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    code = 70
    try:
        tell("outcome", perform(task))
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    preload()
    from tests.fault.steps import make_tiny

    make_tiny()
    tell("ready", None)
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(task)
        if task.get("kill_after_seconds") is not None:
            time.sleep(task["kill_after_seconds"])
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"\n")  # whoever was killed may have left half a line
        tell("status", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
