"""What does Apache Spark cost on the cores that one machine has, and who finds what?

    python -m benchmarks.on_spark CORPUS.jsonl... [--gold GOLD.tsv]... [--repeats 3] [--hot 200000]

Pairs of a corpus at 0.8, from its file to files of pairs: by ``lshdb add`` and ``lshdb pairs`` as
two processes, by ``lshdb.spark.pairs``, and by Spark ML's ``MinHashLSH`` with as few tables as find
about as much, verified by Spark itself. ``--hot N`` asks for the clusters of N texts that differ in
one word, which share a bucket. The contestants take turns, each in a process of its own: ``cold``
is all of it, with the start of Spark; ``first`` the first answer of a session; ``warm`` the median
of those after it. ``shuffled`` are the bytes that stages wrote for others, ``cpu`` the processor's
seconds of a warm answer, with the JVM and all of its workers, ``JVM`` and ``worker`` their peaks.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks._steps import run_step
from benchmarks._tables import facts, table
from benchmarks._truth import Truth
from benchmarks.peers.pairers import PAIRERS

THRESHOLD = 0.8
_HEAD = [
    "contestant", "cold s", "first s", "warm s", "us a document", "cpu s", "shuffled a document",
    "JVM MiB", "worker MiB", "lines", "precision", "recall",
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        golds = [*options.gold, *[None] * len(options.corpora)]
        for corpus, gold in zip(options.corpora, golds, strict=False):
            _compare(corpus, gold, "pairs", folder, options)
        if options.hot:
            corpus = folder / f"{options.hot}-texts-of-one-bucket.jsonl"
            with corpus.open("wb") as file:
                file.writelines(_alike(options.hot))
            _compare(corpus, None, "clusters", folder, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.on_spark", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpora", type=Path, nargs="*", help="plain JSONL, fields id and text")
    parser.add_argument("--gold", type=Path, action="append", default=[], help="of each corpus")
    parser.add_argument("--repeats", type=int, default=3, help="of warm answers and of processes")
    parser.add_argument("--hot", type=int, default=0, help="clusters of so many texts")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="heap of the JVM")
    parser.add_argument("--only", default="one,lshdb,Spark", help="contestants that begin so")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _alike(count: int) -> Iterator[bytes]:
    """Lines of texts of 120 words, of which one is another in each: 0.84 alike, or more."""
    words = [f"word{number}" for number in range(120)]
    for number in range(count):
        place = number % len(words)
        text = " ".join([*words[:place], f"other{number}", *words[place + 1 :]])
        yield orjson.dumps({"id": f"d{number:07d}", "text": text}) + b"\n"


def _compare(
    corpus: Path, gold: Path | None, question: str, folder: Path, options: argparse.Namespace
) -> None:
    with corpus.open("rb") as lines:
        documents = sum(1 for _ in lines)
    contestants = [
        one
        for one in ("one machine", "lshdb.spark", "Spark ML")
        if one.startswith(tuple(options.only.split(",")))
        and (one != "Spark ML" or question == "pairs")
    ]
    print(f"\n{corpus.name}: {question} of {documents:,} documents\n", flush=True)
    runs: dict[str, list[dict[str, Any]]] = {one: [] for one in contestants}
    times = options.repeats
    for turn in range(times):
        for one in contestants:
            if one == "one machine":
                found = _on_one_machine(corpus, question, folder)
            elif turn and one == "Spark ML":
                continue  # the slowest, once
            else:
                found = _on_spark(one, corpus, question, folder, options)
            runs[one].append(found)
    truth = None if gold is None else Truth.read(gold, THRESHOLD)
    body = [_line(one, documents, runs[one], folder / one, truth) for one in contestants]
    print(table(_HEAD, body, markdown=options.markdown), flush=True)


def _on_one_machine(corpus: Path, question: str, folder: Path) -> dict[str, Any]:
    index = folder / "index.lshdb"
    subprocess.run(["rm", "-rf", str(index)], check=True)
    before = _cpu_of_children()
    add = run_step(["-m", "lshdb", "-q", "add", str(index), str(corpus)], folder / "add")
    asked = ["-m", "lshdb", "-q", question, str(index), "--format", "tsv"]
    step = run_step(asked, folder / "one machine")
    seconds = add.seconds + step.seconds
    rounds = [{"seconds": seconds, "cpu": _cpu_of_children() - before, "shuffled": 0.0}] * 2
    peak = max(add.peak, step.peak)
    return {"cold": seconds, "rounds": rounds, "peak_jvm": 0, "peak_worker": peak}


def _on_spark(
    one: str, corpus: Path, question: str, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    name = "ml" if one == "Spark ML" else "lshdb"
    output = folder / "rows"
    rounds = 1 + (options.repeats if name == "lshdb" else 1)
    given = [name, question, corpus.resolve(), output, rounds, options.master, options.memory]
    begun = time.perf_counter()
    run_step(["-m", "benchmarks._spark_job", *map(str, given)], folder / "job.json")
    whole = time.perf_counter() - begun
    found: dict[str, Any] = json.loads((folder / "job.json").read_text().splitlines()[-1])
    found["cold"] = whole - sum(one["seconds"] for one in found["rounds"][1:])
    with (folder / one).open("wb") as file:
        for part in sorted(output.glob("part-*")):
            file.write(part.read_bytes())
    return found


def _line(
    one: str, documents: int, runs: list[dict[str, Any]], output: Path, truth: Truth | None
) -> list[str]:
    warm = [each for run in runs for each in run["rounds"][1:]]
    seconds = statistics.median(each["seconds"] for each in warm)
    score = ("", "") if truth is None else tuple(f"{part:.4f}" for part in truth.score(output))
    with output.open("rb") as lines:
        n_lines = sum(1 for _ in lines)
    return [
        one,
        f"{statistics.median(run['cold'] for run in runs):.1f}",
        f"{statistics.median(run['rounds'][0]['seconds'] for run in runs):.1f}",
        f"{seconds:.2f}",
        f"{1e6 * seconds / documents:.1f}",
        f"{statistics.median(each['cpu'] for each in warm):.1f}",
        f"{warm[-1]['shuffled'] / documents:,.0f}",
        f"{max(run['peak_jvm'] for run in runs) / 2**20:,.0f}",
        f"{max(run['peak_worker'] for run in runs) / 2**20:,.0f}",
        f"{n_lines:,}",
        *score,
    ]


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
