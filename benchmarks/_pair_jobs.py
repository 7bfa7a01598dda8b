"""One job with pairs at its end, timed inside a process that does nothing else.

    python -m benchmarks._pair_jobs < job.json

``pair``: a file to pairs on disk. ``fill``: a file to whatever a contestant can persist. ``night``:
a copy of that, and a second file, to pairs with a new document and everything persisted again.

Imports, and whatever else a first document costs, stand before the clock: the whole job is done
with two documents first. With ``whole`` it is not, and the clock starts when the process does; or,
where the contestant's work is commands, when the first of them does. Only what the contestant
needs, and orjson, are imported here.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._memory import peak_memory, peak_memory_of_children
from benchmarks.peers import load
from benchmarks.peers._contract import Source
from benchmarks.peers._pairing import Pairer
from benchmarks.peers.pairers import PAIRERS

__all__ = ["run_in_fresh_process", "run_pairs_here"]

_FIRST = b'{"id": "1", "text": "what is made once stands before the clock as well"}\n'
_SECOND = _FIRST.replace(b'"1"', b'"2"')


def run_in_fresh_process(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a process of its own."""
    from benchmarks import _jobs  # imports much, and only the parent needs it

    job = {**job, "begun": time.time()} if job.get("whole") else job
    return _jobs.run_in_fresh_process(job, __name__)


def run_pairs_here(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in this process."""
    contestant = next(one for one in PAIRERS if one.name == job["name"])
    pairer = functools.partial(load(contestant).pairer, contestant.variant, job["threads"])
    work = {"pair": _pair, "fill": _fill, "night": _night}[job["kind"]]
    with tempfile.TemporaryDirectory() as name:
        if not job.get("whole"):
            _once(pairer, Path(name))
        return work(job, pairer, Path(name, "measured"))


def _once(pairer: Any, folder: Path) -> None:
    """All that a contestant does, with a document each time."""
    older, newer = (Source(folder / name, "id", "text") for name in ("1.jsonl", "2.jsonl"))
    older.path.write_bytes(_FIRST)
    newer.path.write_bytes(_SECOND)
    (folder / "first").mkdir()
    first = pairer(folder / "first")
    first.fill(older)
    first.pairs(folder / "pairs")
    first.close()
    second = pairer(folder / "first")
    second.add(older, newer)
    second.pairs(folder / "pairs")
    second.close()


def _processor_time() -> float:
    """Seconds of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class _Clock:
    """Since now; or since the process was started, but for the preparation."""

    def __init__(self, job: dict[str, Any], preparing: tuple[float, float] = (0.0, 0.0)) -> None:
        os.sync()  # what others wrote is not to be waited for
        self._begun, self._busy = time.time(), _processor_time()
        if job.get("whole"):
            self._begun, self._busy = job["begun"] + preparing[0], preparing[1]

    def seconds(self) -> float:
        return time.time() - self._begun

    def result(self, output: Path, folder: Path) -> dict[str, Any]:
        seconds, busy = self.seconds(), _processor_time() - self._busy
        with output.open("rb") as lines:
            pairs = sum(1 for _ in lines)
        return {
            "seconds": seconds,
            "cpu": busy,
            "peak": max(peak_memory(), peak_memory_of_children()),
            "disk": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            "pairs": pairs,
        }


def _begun(
    job: dict[str, Any], pairer: Any, folder: Path, preparing: tuple[float, float] = (0.0, 0.0)
) -> tuple[Pairer, _Clock]:
    """Make a contestant, inside the clock; commands start by themselves, without this process."""
    clock = _Clock(job, preparing)
    one: Pairer = pairer(folder)
    return one, _Clock({**job, "whole": False}) if one.starts_processes else clock


def _source(job: dict[str, Any], name: str) -> Source:
    return Source(Path(job[name]), job["key_field"], job["field"])


def _pair(job: dict[str, Any], pairer: Any, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    output = Path(job["output"])
    one, clock = _begun(job, pairer, folder)
    documents = one.fill(_source(job, "path"))
    filled = clock.seconds()
    one.pairs(output)
    one.close()
    result = clock.result(output, folder)
    return {**result, "filling": filled, "documents": documents}


def _fill(job: dict[str, Any], pairer: Any, folder: Path) -> dict[str, Any]:
    folder = Path(job["folder"])
    folder.mkdir()
    one = pairer(folder)
    documents = one.fill(_source(job, "path"))
    one.close()
    return {"documents": documents}


def _night(job: dict[str, Any], pairer: Any, folder: Path) -> dict[str, Any]:
    """What one night writes must not be there in the next: each has its own copy."""
    begun, busy = time.time(), _processor_time()
    if "ballast" in job:  # for a while after much was copied, processors are slower
        shutil.copytree(job["ballast"], folder.with_name("ballast"))
    if Path(job["folder"]).exists():
        shutil.copytree(job["folder"], folder)
    else:
        folder.mkdir()
    output = Path(job["output"])
    os.sync()
    preparing = time.time() - begun, _processor_time() - busy
    one, clock = _begun(job, pairer, folder, preparing)
    one.add(_source(job, "older"), _source(job, "path"))
    filled = clock.seconds()
    one.pairs(output)
    one.close()
    return {**clock.result(output, folder), "filling": filled}


if __name__ == "__main__":
    print(json.dumps(run_pairs_here(json.load(sys.stdin))))
