"""What does Apache Spark cost on the cores that one machine has, and who finds what?

    python -m benchmarks.on_spark CORPUS.jsonl... [--gold GOLD.tsv]... [--repeats 3] [--hot 200000]
    python -m benchmarks.on_spark --stages [CORPUS.jsonl...] [--documents 200000] \\
        [--skew bucket=1000000] [--skew component=1000000] [--skew star=1000000] \\
        [--skew chain=1000000] [--skew buckets=10000x2000] [--check]

Pairs of a corpus at 0.8, from its file to files of pairs: by ``lshdb add`` and ``lshdb pairs`` as
two processes, by ``lshdb.spark.pairs``, and by Spark ML's ``MinHashLSH`` with as few tables as find
about as much, verified by Spark itself. ``--hot N`` asks for the clusters of N texts that differ in
one word, which share a bucket. The contestants take turns, each in a process of its own: ``cold``
is all of it, with the start of Spark; ``first`` the first answer of a session; ``warm`` the median
of those after it. ``shuffled`` are the bytes that stages wrote for others, ``cpu`` the processor's
seconds of a warm answer, with the JVM and all of its workers, ``cold cpu`` that of a cold one, and
``JVM`` and ``worker`` are their peaks.

``--stages`` writes the rows that ``deduplicate`` keeps and tells of each stage, a document: the
processor's time, the bytes read, shuffled and spilled; and what the largest task read from others
and held in memory of the JVM, and the driver's heap after it. Of documents made by ``make_corpus``;
of one bucket; of one component whose buckets are small, with keys in any order or in that of the
chain; of one that is a star; and of many large buckets. ``--check`` compares the keys that are kept
with those of ``lshdb dedup``.
"""

from __future__ import annotations

import argparse
import hashlib
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
import pyarrow.parquet

from benchmarks import make_corpus
from benchmarks._steps import run_step
from benchmarks._tables import facts, table
from benchmarks._truth import Truth
from benchmarks.peers.pairers import PAIRERS

THRESHOLD = 0.8
_HEAD = [
    "contestant", "cold s", "cold cpu s", "first s", "warm s", "us a document", "cpu s",
    "shuffled a document", "JVM MiB", "worker MiB", "lines", "precision", "recall",
]  # fmt: skip
_STAGE_HEAD = [
    "stage", "s", "cpu us", "read B", "shuffled B", "spilled B", "task read MiB", "task memory MiB",
    "driver heap MiB",
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    if options.stages or options.documents or options.skew:
        _tell_stages(options)
        return
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
    parser.add_argument("--stages", action="store_true", help="what each stage takes")
    parser.add_argument("--documents", type=int, action="append", default=[], help="make so many")
    parser.add_argument("--words", type=int, default=25, help="of the documents that are made")
    parser.add_argument("--skew", action="append", default=[], help="bucket=N, component=N, "
                        "chain=N, star=N or buckets=NxM")  # fmt: skip
    parser.add_argument("--check", action="store_true", help="compare with one machine")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="heap of the JVM")
    parser.add_argument("--only", default="one,lshdb,Spark", help="contestants that begin so")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _alike(count: int, family: int = 0) -> Iterator[bytes]:
    """Lines of texts of 120 words, of which one is another in each: 0.84 alike, or more."""
    words = [f"word{family}of{number}" if family else f"word{number}" for number in range(120)]
    for number in range(count):
        place = number % len(words)
        text = " ".join([*words[:place], f"other{number}", *words[place + 1 :]])
        yield orjson.dumps({"id": f"d{family * count + number:07d}", "text": text}) + b"\n"


def _chain(count: int, *, is_ordered: bool) -> Iterator[bytes]:
    """Lines of texts of 60 words, each of which lacks the first two of the one before it.

    Neighbours are 0.93 alike, and 0.81 the third on, so that buckets have some members, and the
    component has all texts. Keys are in order, or in none.
    """
    for number in range(count):
        text = " ".join(f"w{place}" for place in range(2 * number, 2 * number + 60))
        key = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=8).hexdigest()
        yield orjson.dumps({"id": f"d{number:07d}" if is_ordered else key, "text": text}) + b"\n"


def _star(count: int) -> Iterator[bytes]:
    """Lines of a text of 120 words, and of copies with two other words.

    Copies are 0.84 like the text, and 0.77 at most like each other, but for some hundred each.
    """
    words = [f"word{number}" for number in range(120)]
    places = [(one, other) for one in range(5, 115) for other in range(one + 5, 115)]
    for number in range(count):
        edited = list(words)
        for place in places[number % len(places)] if number else ():
            edited[place] = f"other{number}at{place}"
        yield orjson.dumps({"id": f"d{number:07d}", "text": " ".join(edited)}) + b"\n"


def _skewed(kind: str) -> Iterator[bytes]:
    name, _, size = kind.partition("=")
    if name == "bucket":
        return _alike(int(size))
    if name == "star":
        return _star(int(size))
    if name in ("component", "chain"):
        return _chain(int(size), is_ordered=name == "chain")
    if name == "buckets":
        n, members = map(int, size.split("x"))
        return (line for family in range(n) for line in _alike(members, family + 1))
    raise SystemExit(f"--skew is {kind!r}; expected one of those that --help names")


def _tell_stages(options: argparse.Namespace) -> None:
    """Tell what each stage of ``deduplicate`` takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [(folder / f"{kind}.jsonl", _skewed(kind)) for kind in options.skew]
        for corpus, lines in made:
            with corpus.open("wb") as file:
                file.writelines(lines)
        for count in options.documents:
            corpus = folder / f"{count}-of-{options.words}-words.jsonl"
            make_corpus.write(corpus, folder / "pairs.tsv", count, options.words, 0.8, 1)
            made.append((corpus, iter(())))
        for corpus in [*options.corpora, *(corpus for corpus, _ in made)]:
            with corpus.open("rb") as file:
                documents = sum(1 for _ in file)
            given = ["stages", "deduplicate", corpus.resolve(), folder / "rows", 1,
                     options.master, options.memory]  # fmt: skip
            run_step(["-m", "benchmarks._spark_job", *map(str, given)], folder / "job.json")
            report = json.loads((folder / "job.json").read_text().splitlines()[-1])
            size = corpus.stat().st_size / documents
            print(
                f"\n{corpus.name}: {documents:,} documents of {size:,.0f} bytes on "
                f"{options.master}, heap {options.memory}; {report['pairs']:,} pairs of small "
                f"buckets, {report['edges']:,} verified, {report['drops']:,} dropped\n"
            )
            body = [_stage_line(stage, documents) for stage in report["stages"]]
            print(table(_STAGE_HEAD, [*body, _whole_line(report["stages"], documents)],
                        markdown=options.markdown))  # fmt: skip
            names = ("driver_python", "driver_jvm", "executor", "worker")
            peaks = [report[name] / 2**20 for name in names]
            print("peaks in MiB: Python of the driver {:,.0f}, its JVM {:,.0f}, the largest other "
                  "JVM {:,.0f}, Python worker {:,.0f}".format(*peaks), flush=True)  # fmt: skip
            if options.check:
                print(_compared_with_one_machine(corpus, folder), flush=True)


def _compared_with_one_machine(corpus: Path, folder: Path) -> str:
    """Say how many keys Spark and one machine keep, and how many of them only one keeps."""
    ordered, kept = folder / "ordered.jsonl", folder / "kept.jsonl"
    with corpus.open("rb") as lines, ordered.open("wb") as file:
        file.writelines(sorted(lines, key=lambda line: str(orjson.loads(line)["id"])))
    asked = ["-m", "lshdb", "-q", "dedup", ordered, "--threshold", THRESHOLD, "--output", kept]
    step = run_step([*map(str, asked), "--overwrite"], folder / "dedup")
    with kept.open("rb") as lines:
        of_one = {orjson.loads(line)["id"] for line in lines}
    of_spark = set(pyarrow.parquet.read_table(folder / "rows", columns=["id"])["id"].to_pylist())
    return (
        f"Spark keeps {len(of_spark):,} keys, one machine {len(of_one):,}, {len(of_spark ^ of_one)}"
        f" of which the other does not keep ({step.seconds:.1f} s)"
    )


def _stage_line(stage: dict[str, Any], documents: int) -> list[str]:
    return [
        stage["stage"],
        f"{stage['seconds']:.1f}",
        f"{1e6 * stage['cpu'] / documents:.1f}",
        *(f"{stage[name] / documents:,.0f}" for name in ("read", "shuffled", "spilled")),
        *(f"{stage[name] / 2**20:,.1f}" for name in ("task_bytes", "task_memory", "driver_heap")),
    ]


def _whole_line(stages: list[dict[str, Any]], documents: int) -> list[str]:
    of_all: dict[str, Any] = {"stage": "all"}
    for name in ("seconds", "cpu", "read", "shuffled", "spilled"):
        of_all[name] = sum(stage[name] for stage in stages)
    for name in ("task_bytes", "task_memory", "driver_heap"):
        of_all[name] = max(stage[name] for stage in stages)
    return _stage_line(of_all, documents)


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
    cpu = _cpu_of_children() - before
    rounds = [{"seconds": seconds, "cpu": cpu, "shuffled": 0.0}] * 2
    peak = max(add.peak, step.peak)
    return {
        "cold": seconds, "cold_cpu": cpu, "rounds": rounds, "peak_jvm": 0, "peak_worker": peak
    }  # fmt: skip


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
        f"{statistics.median(run['cold_cpu'] for run in runs):.1f}",
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
