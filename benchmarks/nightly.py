"""What does a night cost: a last tenth that comes to nine tenths, here and elsewhere?

    python -m benchmarks.nightly CORPUS.jsonl[.gz]... | --generated N  [--repeats 3] [--gold GOLD]
    python -m benchmarks.nightly --grow 100000 [--repeats 9]

Nine tenths of a corpus are taken in and persisted, outside the clock. Then a fresh process opens
what there is, adds the last tenth, writes the near-duplicates of the new documents to disk (among
themselves, and with the older ones), and has everything persisted again. Those that cannot persist
anything build it all again, inside the clock. Imports, and whatever else a first document costs,
stand before the clock, or with ``--whole`` inside it, from the start of the process, or of the
first command.

With ``--grow``, lshdb alone: what 1,000 new documents and their pairs cost at so many documents, at
ten times as many, and the one by the other.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from benchmarks._corpora import Corpus, from_file
from benchmarks._growth import growth
from benchmarks._jobs import Run, in_rounds
from benchmarks._pair_jobs import run_in_fresh_process
from benchmarks._pair_tables import HEAD, NOTE, chosen, line, scored
from benchmarks._short import WORDS, short_corpus, split
from benchmarks._tables import disk, facts, table
from benchmarks._truth import Truth
from benchmarks.peers._contract import THRESHOLD
from benchmarks.peers.pairers import PAIRERS


def main(arguments: Sequence[str] | None = None, run: Run = run_in_fresh_process) -> None:
    options = _options(arguments)
    print(facts(PAIRERS))
    print(disk(Path(tempfile.gettempdir())))
    if options.grow:
        with tempfile.TemporaryDirectory() as name:
            _report_growth(Path(name), options, run)
    for number, path in enumerate([*options.corpus, *[None] * bool(options.generated)]):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if path:
                corpus = from_file(path, folder, options.text_field, options.documents)
                gold = options.gold[number] if options.gold else None
            else:
                corpus, gold = short_corpus(
                    folder, options.generated, options.words, scanned=options.scanned
                )
            truth = gold and Truth.read(gold, THRESHOLD)
            _report(corpus, truth, folder, options, run)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nightly", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="JSONL, plain or .gz")
    parser.add_argument("--generated", type=int, default=0, help="a corpus of so many documents")
    parser.add_argument("--grow", type=int, default=0, help="documents before growing tenfold")
    parser.add_argument("--words", type=int, default=WORDS, help="words a generated document")
    parser.add_argument("--scanned", action="store_true", help="generated ones as from a scanner")
    parser.add_argument(
        "--gold",
        type=Path,
        action="append",
        help="all pairs of the corpus with exact similarities (key, key, similarity), TSV",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="start and imports inside the clock")
    parser.add_argument("--documents", type=int, help="only so many of each corpus, the first")
    parser.add_argument("--key-field", default="id")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--only", default="", help="contestants whose names begin so: a,b")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    if not options.corpus and not options.generated and not options.grow:
        parser.error("one of CORPUS, --generated and --grow is needed")
    if options.repeats < 1:
        parser.error("--repeats is at least 1")
    if options.gold and len(options.gold) != len(options.corpus):
        parser.error("--gold is given once for each corpus, in their order")
    return options


def _report(
    corpus: Corpus, truth: Truth | None, folder: Path, options: argparse.Namespace, run: Run
) -> None:
    """Print the table of one corpus."""
    new = corpus.documents // 10
    older, newer = split(corpus.path, folder, [corpus.documents - new, new])
    if truth is not None:
        truth = truth.touching(set(_keys(newer, options.key_field)))
    print(
        f"\n{'## ' if options.markdown else ''}{corpus.name}: {new:,} documents come to "
        f"{corpus.documents - new:,}\n"
    )
    shared = {"key_field": options.key_field, "field": corpus.field}
    contestants = [one for one in chosen(options.only) if one.version()]
    folders = {one.name: folder / f"index-{place}" for place, one in enumerate(contestants)}
    for one in contestants:
        if one.saves:
            job = {**shared, "kind": "fill", "path": str(older), "folder": str(folders[one.name])}
            run({**job, "name": one.name, "threads": 0})

    def night(one_job: dict[str, object]) -> dict[str, object]:
        result = run({**one_job, "folder": str(folders[str(one_job["name"])])})
        scored(result, folder / "pairs.tsv", truth)
        return result

    job = {
        **shared,
        "kind": "night",
        "older": str(older),
        "path": str(newer),
        "output": str(folder / "pairs.tsv"),
        "whole": options.whole,
    }
    results = in_rounds([(one, 0) for one in contestants], job, options.repeats, night)
    reference = results.get((PAIRERS[0], 0))
    body = [line(one, results.get((one, 0)), reference) for one in chosen(options.only)]
    begin = "From the start of the process" if options.whole else "From opening the index"
    print(f"{begin} to pairs written and everything persisted\n")
    print(table(HEAD, body, markdown=options.markdown))
    print(f"\n{NOTE} Where nothing is kept, all is built again.", flush=True)


def _keys(path: Path, field: str) -> Iterator[str]:
    with path.open("rb") as lines:
        for each in lines:
            yield orjson.loads(each)[field]


def _report_growth(folder: Path, options: argparse.Namespace, run: Run) -> None:
    """Print what a thousand documents cost in a small index and in a large one."""
    head = ["documents before", "s", "min-max", "index s", "pairs s", "peak MiB", "pairs"]
    body, medians = [], []
    for size, results in growth(folder, options.grow, options.repeats, options.words, run):
        seconds = [each["seconds"] for each in results]
        medians.append(statistics.median(seconds))
        middle = {key: statistics.median(each[key] for each in results) for key in results[0]}
        body.append(
            [
                f"{size:,}",
                f"{medians[-1]:.4f}",
                f"{min(seconds):.4f}-{max(seconds):.4f}",
                f"{middle['filling']:.4f}",
                f"{middle['seconds'] - middle['filling']:.4f}",
                f"{middle['peak'] / 2**20:,.0f}",
                f"{middle['pairs']:,.0f}",
            ]
        )
    print("\n1,000 documents and the pairs they are in, lshdb, a fresh process each time\n")
    print(table(head, body, markdown=options.markdown))
    print(f"\nTenfold size, {medians[1] / medians[0]:.2f} times the cost", flush=True)


if __name__ == "__main__":
    main()
