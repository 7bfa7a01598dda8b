"""Interrupt ``lshdb add`` before each line of our own code, one after the other.

    python interrupting.py FOLDER SIGNAL STEP FILE ...

Counted are the lines that are run of files whose path ends with one of those given, but for
those that set and take back what heeds the signal (``launch.py``); every STEPth is interrupted, in
a fork of this process, which has imported everything. No signal is heard between the end of a
``with`` and what it then calls, so that line counts once. Prints how many were, and for
each command that did not end as it should have a line of what it left and said.
"""

from __future__ import annotations

import dis
import enum
import faulthandler
import linecache
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from lshdb.cli import launch
from lshdb.cli._group import cli

UNHEEDED = {launch.__file__, signal.__file__, enum.__file__}
LINES = [f'{{"id": "{number}", "text": "the words of document {number}"}}\n' for number in range(4)]


def interrupt(folder: Path, number: int, nth: int, files: tuple[str, ...]) -> int:
    """Run the command in a fork, with a signal before the nth line; its exit code."""
    process = os.fork()
    if not process:
        said = os.open(folder / "said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(said, stream)
        faulthandler.dump_traceback_later(300, exit=True, file=2)  # where it hangs
        sys.argv = ["lshdb", "add", str(folder / "a.lshdb"), str(folder / "documents.jsonl")]
        _trace(folder, number, nth, files)
        try:
            launch.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _ends_with(frame: FrameType) -> bool:
    """Whether the line is that of a ``with`` whose block has ended."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    is_none = frame.f_code.co_code[frame.f_lasti] == dis.opmap["LOAD_CONST"]
    return is_none and line.startswith("with ")


def _trace(folder: Path, number: int, nth: int, files: tuple[str, ...]) -> None:
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        is_heeded = frame.f_code.co_filename not in UNHEEDED
        if event == "line" and is_heeded and not _ends_with(frame):
            lines += 1
            if lines == nth:
                sys.settrace(None)
                where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                (folder / "where").write_text(where)
                os.kill(os.getpid(), number)
        return count

    sys.settrace(lambda frame, *_: count if frame.f_code.co_filename.endswith(files) else None)


def main(folder: Path, number: int, step: int, files: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    (folder / "documents.jsonl").write_text("".join(LINES))
    # Once in this process, so that no fork has to import anything.
    cli.main(
        ["add", str(folder / "a.lshdb"), str(folder / "documents.jsonl")], standalone_mode=False
    )
    shutil.rmtree(folder / "a.lshdb")
    nth, tried = 1, 0
    while True:
        code = interrupt(folder, number, nth, files)
        said = (folder / "said").read_text()
        where = folder / "where"
        if not where.exists():
            break
        left = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
        word = launch.SIGNALS[signal.Signals(number)]
        is_told = code == 0 or (code == 128 + number and f"\n{word}" in f"\n{said}")
        if left or not is_told or "Traceback" in said:
            print("before", where.read_text(), "left", left, "ended", code, "said", repr(said))
        for name in ("a.lshdb", *left):
            shutil.rmtree(folder / name, ignore_errors=True)
        where.unlink()
        nth, tried = nth + step, tried + 1
    print(tried)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:]))
