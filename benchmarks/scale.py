"""Does everything hold on a large corpus, in bounded memory, and is what was planted found?

    python benchmarks/make_corpus.py corpus.jsonl planted.tsv
    python -m benchmarks.scale corpus.jsonl --planted planted.tsv [--index PATH] [--both]

Builds an index, all by default, and then runs ``lshdb pairs``, ``clusters`` and ``dedup`` on it,
each as a process of its own with its output to a file. Documents are short, so that it is their
number that counts. Commands that this lshdb does not have are named. With ``--both`` all of it is
done in SQLite and then in Postgres.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks._servers import Place, add_server_option, places
from benchmarks._steps import Step, run_step
from benchmarks._tables import disk, facts, table
from benchmarks._truth import Truth
from benchmarks.peers.pairers import PAIRERS
from lshdb import Index

THRESHOLD = 0.8
_SCHEMA = "lshdb_benchmark"
_COMMANDS = ["pairs", "clusters", "dedup"]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = options.index or folder / "index.lshdb"
        with options.corpus.open("rb") as lines:
            documents = sum(1 for _ in lines)
        print(facts(PAIRERS[:1]))
        print(disk(index.parent))
        print(f"\n{options.corpus.name}: {documents:,} documents\n", flush=True)
        if not options.both:
            _measure(index, Place("SQLite", None), documents, folder, options)
            return
        with places(options.postgres_url) as both:
            for place in both:
                print(f"\n{place.name}\n")
                named = index.with_name(f"{place.name}-{index.name}")
                _measure(named, place, documents, folder, options)
                place.drop(_SCHEMA)


def _measure(
    index: Path, place: Place, documents: int, folder: Path, options: argparse.Namespace
) -> None:
    steps: list[tuple[str, Step | None]] = [
        ("add", _build(options.corpus, index, place, documents, folder, options.markdown))
    ]
    for command in _COMMANDS:
        output = folder / f"{command}.tsv"
        known = _knows(command)
        arguments = ["-m", "lshdb", command, str(index), "--format", "tsv"]
        steps.append((command, run_step(list(arguments), output) if known else None))
    _report(steps, index, documents, options.markdown)
    if options.planted:
        _score(folder / "pairs.tsv", options.planted, options.markdown)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", type=Path, help="plain JSONL, fields id and text")
    parser.add_argument("--planted", type=Path, help="key, key, exact similarity: TSV")
    parser.add_argument("--index", type=Path, help="where to make the index, which is then kept")
    parser.add_argument("--both", action="store_true", help="in SQLite and in Postgres")
    parser.add_argument("--markdown", action="store_true")
    add_server_option(parser)
    return parser.parse_args(arguments)


def _build(
    corpus: Path, index: Path, place: Place, documents: int, folder: Path, markdown: bool
) -> Step:
    """Make the index, and print how fast it went from beginning to end."""
    output = folder / "build.json"
    given = [corpus.resolve(), index.resolve(), documents, *place.keywords(_SCHEMA).values()]
    step = run_step(["-m", "benchmarks._building", *map(str, given)], output)
    built = json.loads(output.read_text())
    rates = built["rates"]
    head = ["tenth", *(str(number) for number in range(1, len(rates) + 1))]
    print(table(head, [["documents/s", *(f"{rate:,.0f}" for rate in rates)]], markdown=markdown))
    print(
        f"\nLast tenth by first {rates[-1] / rates[0]:.2f}; merging the runs and closing "
        f"{built['end']:.1f} s\n",
        flush=True,
    )
    return step


def _knows(command: str) -> bool:
    asked = [sys.executable, "-m", "lshdb", command, "--help"]
    return not subprocess.run(asked, capture_output=True, cwd=Path(__file__).parents[1]).returncode


def _report(
    steps: list[tuple[str, Step | None]], index: Path, documents: int, markdown: bool
) -> None:
    body = [
        [name, f"{step.seconds:,.1f}", f"{documents / step.seconds:,.0f}",
         f"{step.peak / 2**20:,.0f}", "" if name == "add" else f"{step.lines:,}"]
        if step
        else [name, "no such command", "", "", ""]
        for name, step in steps
    ]  # fmt: skip
    print(table(["step", "s", "documents/s", "peak MiB", "lines"], body, markdown=markdown))
    with Index.open(index) as opened:
        size = opened._store.bytes_on_disk()
    print(f"\nOn disk {size / 1e6:,.1f} MB, {size / documents:,.0f} bytes a document", flush=True)


def _score(found: Path, planted: Path, markdown: bool) -> None:
    """Print how many of the planted pairs are there, by their similarity."""
    slices = [number / 100 for number in range(80, 105, 5)]
    body = []
    for lowest, above in zip(slices, [*slices[1:], 2.0], strict=True):
        truth = Truth.read(planted, lowest, above)
        if truth.pairs:
            label = f"{lowest:.2f}" + (f"-{above:.2f}" if above < 2 else "")
            body.append([label, f"{len(truth.pairs):,}", f"{truth.score(found)[1]:.5f}"])
    truth = Truth.read(planted, THRESHOLD)
    precision, recall = truth.score(found)
    body.append(["together", f"{len(truth.pairs):,}", f"{recall:.5f}"])
    print()
    print(table(["similarity", "planted pairs", "found"], body, markdown=markdown))
    print(f"\nOf the pairs written {precision:.5f} were planted", flush=True)


if __name__ == "__main__":
    main()
