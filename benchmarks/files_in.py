"""Files in, answer out: ``lshdb pairs FILE`` and ``dedup FILE`` beside gaoya and daft in memory.

    python -m benchmarks.files_in CORPUS | --tree FOLDER | --generated N [--words 25] [--scanned]
        [--truth TSV] [--field text] [--key-field id] [--suffixes .c,.h,.py] [--repeats 3]
        [--markdown]

Whole processes in turn, from start to end, with reading and writing. CORPUS is JSON Lines, also
compressed. Of a FOLDER, such as one with two versions of a source tree, each file with one of the
suffixes is a document. Recall is that of ``pairs``: of the pairs in TSV (key, key, exact
similarity) or that were planted; without either, of those that lshdb finds and verifies when it
looks for 0.9999 of them. ``lshdb's`` is the time of lshdb as a part of the peer's: by the clock,
and of the processor. Peers that are not installed are left out, and the one that ``--without``
names.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks._short import short_corpus
from benchmarks._steps import Step, run_step
from benchmarks._tables import facts, table
from benchmarks._truth import Truth
from benchmarks.peers._contract import THRESHOLD
from benchmarks.peers.pairers import PAIRERS

_JOBS = ("dedup", "pairs")
_PEERS = {"gaoya": "gaoya_files", "daft": "daft_files"}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = options.truth
        if options.generated:
            made, truth = short_corpus(
                folder, options.generated, options.words, scanned=options.scanned
            )
            corpus = made.path
        else:
            corpus = folder / "corpus.jsonl"
            with corpus.open("w", encoding="utf-8") as lines:
                for key, text in _documents(options):
                    lines.write(json.dumps({"id": key, "text": text}, ensure_ascii=False) + "\n")
        if truth is None:
            truth = folder / "truth.tsv"
            run_step([*_lshdb("pairs", corpus, truth), "--recall", "0.9999"], folder / "log")
        print(facts(PAIRERS[:1]))
        print(f"{corpus.stat().st_size / 1e6:,.1f} MB\n", flush=True)
        _compare(corpus, Truth.read(truth, THRESHOLD), folder, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.files_in", description=__doc__.splitlines()[0]
    )
    corpus = parser.add_mutually_exclusive_group(required=True)
    corpus.add_argument("corpus", type=Path, nargs="?")
    corpus.add_argument("--tree", type=Path)
    corpus.add_argument("--generated", type=int, default=0, metavar="N")
    parser.add_argument("--words", type=int, default=25)
    parser.add_argument("--scanned", action="store_true", help="generated ones as from a scanner")
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--field", default="text")
    parser.add_argument("--key-field", default="id")
    parser.add_argument("--suffixes", default=".c,.h,.py")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without", choices=_PEERS, help="a peer that takes no part")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _documents(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each document."""
    if options.tree is not None:
        suffixes = tuple(options.suffixes.split(","))
        for path in sorted(options.tree.rglob("*")):
            if path.name.endswith(suffixes) and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                yield str(path.relative_to(options.tree)), text
        return
    opener = gzip.open if options.corpus.suffix == ".gz" else open
    with opener(options.corpus, "rb") as lines:
        for line in lines:
            record = json.loads(line)
            if isinstance(record.get(options.field), str):
                yield str(record[options.key_field]), record[options.field]


def _lshdb(job: str, corpus: Path, output: Path) -> list[str]:
    how = ["--overwrite"] if job == "dedup" else ["--format", "tsv"]
    return ["-m", "lshdb", job, str(corpus), "--output", str(output), "-q", *how]


def _compare(corpus: Path, truth: Truth, folder: Path, options: argparse.Namespace) -> None:
    peers = [name for name in _PEERS if importlib.util.find_spec(name) and name != options.without]
    names = ["lshdb", *peers]
    steps: dict[tuple[str, str], list[Step]] = {}
    for _ in range(options.repeats):
        for job in _JOBS:
            for name in names:
                output = folder / f"{name}.{'jsonl' if job == 'dedup' else 'tsv'}"
                command = _lshdb(job, corpus, output)
                if name != "lshdb":
                    module = f"benchmarks.peers.{_PEERS[name]}"
                    command = ["-m", module, job, str(corpus), str(output)]
                steps.setdefault((job, name), []).append(run_step(command, folder / "log"))
    body = []
    for (job, name), runs in steps.items():
        ours, theirs = _medians(steps[job, "lshdb"]), _medians(runs)
        precision, recall = truth.score(folder / f"{name}.tsv")
        body.append([
            job, name, *(f"{value:.2f}" for value in theirs),
            *(f"{own / other:.2f}" for own, other in zip(ours, theirs, strict=True)),
            f"{max(step.peak for step in runs) / 2**20:,.0f}",
            f"{recall:.4f}" if job == "pairs" else "", f"{precision:.4f}" if job == "pairs" else "",
        ])  # fmt: skip
    head = ["job", "by", "s", "processor s", "lshdb's", "processor", "peak MiB", "recall",
            "precision"]  # fmt: skip
    print(table(head, body, markdown=options.markdown))


def _medians(runs: list[Step]) -> tuple[float, float]:
    """Return the median seconds of runs, and of the processor."""
    return (
        statistics.median(step.seconds for step in runs),
        statistics.median(step.processor for step in runs),
    )


if __name__ == "__main__":
    main()
