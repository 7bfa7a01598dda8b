"""One job: a contestant's work, timed inside a process that does nothing else.

    python -m benchmarks._jobs < job.json

A job goes in as a JSON object and its result comes out as one. Imports and preparation stand before
the clock, so that it sees from opening the file to having all signatures, or one sketch of ready
sets. Memory is the peak of the whole process, its imports included.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._accuracy import errors
from benchmarks._corpora import chunks
from benchmarks.peers import CONTESTANTS, SKETCHERS, load

__all__ = ["Job", "Result", "Run", "run_here", "run_in_fresh_process"]

Job = dict[str, Any]
Result = dict[str, Any]
Run = Callable[[Job], Result]

_TIMES = 3


def run_in_fresh_process(job: Job) -> Result:
    """Run a job in a process of its own, with as many threads as the job names (0: as it likes)."""
    environment = dict(os.environ)
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.pop(name, None)
        if job["threads"]:
            environment[name] = str(job["threads"])
    if job["threads"] == 1:
        environment["RENSA_PIPELINE_QUEUE_CAP"] = "0"  # else a second thread, whatever Rayon has
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(job).encode(),
        stdout=subprocess.PIPE,
        env=environment,
        cwd=Path(__file__).parents[1],
        check=True,
    )
    result: Result = json.loads(done.stdout)
    return result


def run_here(job: Job) -> Result:
    """Run a job in this process."""
    return {"text": _text, "sketch": _sketch}[job["kind"]](job)


def _text(job: Job) -> Result:
    """Text to signatures; with pairs, the signatures' errors as well."""
    contestant = next(one for one in CONTESTANTS if one.name == job["name"])
    signer = load(contestant).signer(contestant.variant, job["threads"])
    signer.sign(["what is imported or made only once stands before the clock as well"])
    busy, begun = time.process_time(), time.perf_counter()
    texts = chunks(job["path"], job["field"])
    signed = signer.sign_all(texts) if signer.sign_all else list(map(signer.sign, texts))
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    result = {"seconds": seconds, "cpu": busy, "peak": _peak_memory()}
    if job.get("pairs"):
        rows = signer.rows(signed)
        if rows is not None:
            texts = [text for chunk in chunks(job["path"], job["field"]) for text in chunk]
            sets = [signer.shingles(text) for text in texts]
            result["rms"], result["expected"] = errors(rows, sets, job["pairs"])
    return result


def _sketch(job: Job) -> Result:
    """Ready sets to signatures: the median of a few rounds, since one is short."""
    contestant = next(one for one in SKETCHERS if one.name == job["name"])
    sketcher = load(contestant).sketcher(contestant.variant)
    with np.load(job["path"]) as arrays:
        hashes, lengths = arrays["hashes"], arrays["lengths"]
    ready = sketcher.ready(hashes, lengths)
    rounds = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        signed = sketcher.sketch(ready)
        rounds.append(time.perf_counter() - begun)
    result = {"seconds": statistics.median(rounds), "peak": _peak_memory()}
    if job.get("pairs"):
        sets = [part.tolist() for part in np.split(hashes, np.cumsum(lengths)[:-1])]
        result["rms"], result["expected"] = errors(sketcher.rows(signed), sets, job["pairs"])
    return result


def _peak_memory() -> int:
    """Bytes. On Linux ``getrusage`` may hand on the peak of the parent; VmHWM does not."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    print(json.dumps(run_here(json.load(sys.stdin))))
