"""How long from documents on disk to their near-duplicate pairs on disk, here and elsewhere?

    python -m benchmarks.pairing CORPUS.jsonl[.gz]... | --generated N  [--gold GOLD.tsv[.gz]]...

Five-word shingles, threshold 0.8. The work begins with raw JSONL and ends with a file of pairs, and
with everything persisted that the contestant can persist. All do it in fresh processes, in turn, as
often as ``--repeats`` says; figures are medians. With ``--gold``, as many as corpora and in their
order, precision and recall stand beside the times: speed alone can be had by finding less.

Imports, and whatever else a first document costs, stand before the clock, or with ``--whole``
inside it, from the start of the process, or of the first command. ``--generated N --scanned``
takes made documents, as a scanner reads them, with their planted pairs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks._corpora import Corpus, from_file
from benchmarks._jobs import Run, in_rounds
from benchmarks._pair_jobs import run_in_fresh_process
from benchmarks._pair_tables import HEAD, NOTE, chosen, line, scored
from benchmarks._short import WORDS, short_corpus
from benchmarks._tables import disk, facts, table
from benchmarks._truth import Truth
from benchmarks.peers._contract import THRESHOLD
from benchmarks.peers.pairers import PAIRERS


def main(arguments: Sequence[str] | None = None, run: Run = run_in_fresh_process) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as name:
        print(facts(PAIRERS))
        print(disk(Path(name)))
        for number, path in enumerate([*options.corpus, *[None] * bool(options.generated)]):
            if path:
                corpus = from_file(path, Path(name), options.text_field, options.documents)
                gold = options.gold[number] if options.gold else None
            else:
                corpus, gold = short_corpus(
                    Path(name), options.generated, options.words, scanned=options.scanned
                )
            _report(corpus, gold and Truth.read(gold, THRESHOLD), Path(name), options, run)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="JSONL, plain or .gz")
    parser.add_argument(
        "--gold",
        type=Path,
        action="append",
        help="all pairs of the corpus with exact similarities (key, key, similarity), TSV",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--documents", type=int, help="only so many of each corpus, the first")
    parser.add_argument("--key-field", default="id")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--generated", type=int, metavar="N", help="so many made documents")
    parser.add_argument("--words", type=int, default=WORDS, help="words a generated document")
    parser.add_argument("--scanned", action="store_true", help="generated ones as from a scanner")
    parser.add_argument("--whole", action="store_true", help="start and imports inside the clock")
    parser.add_argument("--only", default="", help="contestants whose names begin so: a,b")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats is at least 1")
    if not options.corpus and not options.generated:
        parser.error("give a corpus, or --generated")
    if options.gold and len(options.gold) != len(options.corpus):
        parser.error("--gold is given once for each corpus, in their order")
    return options


def _report(
    corpus: Corpus, truth: Truth | None, folder: Path, options: argparse.Namespace, run: Run
) -> None:
    """Print the table of one corpus."""
    print(
        f"\n{'## ' if options.markdown else ''}{corpus.name}: {corpus.documents:,} documents, "
        f"{corpus.text_bytes / 1e6:,.1f} MB of text\n"
    )
    job = {
        "kind": "pair",
        "path": str(corpus.path),
        "key_field": options.key_field,
        "field": corpus.field,
        "output": str(folder / "pairs.tsv"),
        "whole": options.whole,
    }

    def judged(one_job: dict[str, object]) -> dict[str, object]:
        result = run(one_job)
        scored(result, folder / "pairs.tsv", truth)
        return result

    contestants = chosen(options.only)
    results = in_rounds([(one, 0) for one in contestants], job, options.repeats, judged)
    body = []
    for one in contestants:
        result = results.get((one, 0))
        if result is not None and result["documents"] != corpus.documents:
            raise SystemExit(
                f"{corpus.name}: {one.name} took {result['documents']:,.0f} documents; are the "
                f"keys in the field {options.key_field!r} there, and each once?"
            )
        body.append(line(one, result, results.get((PAIRERS[0], 0))))
    begin = "from the start of the process" if options.whole else "imports before the clock"
    print(f"File to pairs, {begin}\n")
    print(table(HEAD, body, markdown=options.markdown))
    print(f"\n{NOTE}", flush=True)


if __name__ == "__main__":
    main()
