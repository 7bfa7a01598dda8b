"""One job: a contestant's work, timed inside a process that does nothing else.

    python -m benchmarks._jobs < job.json

A job goes in as a JSON object and its result comes out as one. Imports and preparation stand before
the clock, so that it sees from opening the file to having all signatures, or one sketch of ready
sets, or from making an index to having all documents in it. Memory is the peak of the whole
process, its imports included.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._accuracy import errors
from benchmarks._corpora import chunks
from benchmarks._memory import peak_memory
from benchmarks._stages import Stages, watched
from benchmarks.peers import ADDERS, CONTESTANTS, SKETCHERS, Contestant, load
from benchmarks.peers._contract import Source

__all__ = ["Job", "Result", "Run", "in_rounds", "run_here", "run_in_fresh_process"]

Job = dict[str, Any]
Result = dict[str, Any]
Run = Callable[[Job], Result]

_TIMES = 3


def run_in_fresh_process(job: Job, module: str = __name__) -> Result:
    """Run a job in a process of its own, with as many threads as the job names (0: as it likes).

    The module is the one that runs it when started by ``python -m``.
    """
    environment = dict(os.environ)
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.pop(name, None)
        if job["threads"]:
            environment[name] = str(job["threads"])
    if job["threads"] == 1:
        environment["RENSA_PIPELINE_QUEUE_CAP"] = "0"  # else a second thread, whatever Rayon has
    done = subprocess.run(
        [sys.executable, "-m", module],
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
    return {"text": _text, "sketch": _sketch, "add": _add}[job["kind"]](job)


def in_rounds(
    lines: Sequence[tuple[Contestant, int]], job: Job, repeats: int, run: Run
) -> dict[tuple[Contestant, int], Result]:
    """Run all in turn, round after round, so that a slow minute of the machine hits all alike.

    Results are medians, with the range of the seconds; those not installed have none.
    """
    present = [line for line in lines if line[0].version()]
    rounds: dict[tuple[Contestant, int], list[Result]] = {line: [] for line in present}
    for number in range(repeats):
        for one, threads in present:
            result = run({**job, "name": one.name, "threads": threads})
            rounds[one, threads].append(result)
            print(
                f"round {number + 1} {job['kind']}: {one.name}, {result['seconds']:.3f} s",
                file=sys.stderr,
            )
    results = {}
    for line, each in rounds.items():
        results[line] = {key: statistics.median(r[key] for r in each) for key in each[0]}
        results[line]["range"] = [f([r["seconds"] for r in each]) for f in (min, max)]
    return results


def _text(job: Job) -> Result:
    """Text to signatures; with pairs, the signatures' errors as well."""
    contestant = next(one for one in CONTESTANTS if one.name == job["name"])
    signer = load(contestant).signer(contestant.variant, job["threads"])
    signer.sign(["what is imported or made only once stands before the clock as well"])
    busy, begun = time.process_time(), time.perf_counter()
    texts = chunks(job["path"], job["field"])
    signed = signer.sign_all(texts) if signer.sign_all else list(map(signer.sign, texts))
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    result = {"seconds": seconds, "cpu": busy, "peak": peak_memory()}
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
    result = {"seconds": statistics.median(rounds), "peak": peak_memory()}
    if job.get("pairs"):
        sets = [part.tolist() for part in np.split(hashes, np.cumsum(lengths)[:-1])]
        result["rms"], result["expected"] = errors(sketcher.rows(signed), sets, job["pairs"])
    return result


def _add(job: Job) -> Result:
    """A file to an index in a temporary folder; with ``profile``, stage by stage."""
    contestant = next(one for one in ADDERS if one.name == job["name"])
    adder = load(contestant).adder
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, part) for part in ("first", "measured")]
        for folder in folders:
            folder.mkdir()
        first = Source(folders[0] / "one.jsonl", "id", "text")
        first.path.write_bytes(
            b'{"id": "1", "text": "what is made once, before the clock as well"}\n'
        )
        adder(contestant.variant, job["threads"], folders[0])(first)
        add = adder(contestant.variant, job["threads"], folders[1])
        source = Source(Path(job["path"]), job["key_field"], job["field"])
        os.sync()  # what others wrote is not to be waited for
        if job.get("profile"):
            stages = Stages()
            with watched(stages):
                documents = stages.run(add, source)
            return {"documents": documents, "stages": stages.table()}
        busy, begun = time.process_time(), time.perf_counter()
        documents = add(source)
        seconds, busy = time.perf_counter() - begun, time.process_time() - busy
        files = [path for path in folders[1].rglob("*") if path.is_file()]
        return {
            "seconds": seconds,
            "cpu": busy,
            "peak": peak_memory(),
            "documents": documents,
            "disk": sum(path.stat().st_size for path in files),
            "signatures": sum(p.stat().st_size for p in files if p.name == "signatures.npy"),
            "orders": sum(p.stat().st_size for p in files if p.name.startswith("orders.")),
        }


if __name__ == "__main__":
    print(json.dumps(run_here(json.load(sys.stdin))))
