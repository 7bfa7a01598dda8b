"""How fast do texts become signatures, here and elsewhere?

    python -m benchmarks.signing [CORPUS.jsonl[.gz]...] [--generated] [--repeats 5] [--threads 1,2]

Every run ends with kinds of text (``_kinds.py``): scanned pages, other scripts, decomposed
accents, odd line ends, very short and very long texts, each beside clean ASCII; without a corpus
there is nothing else.

The work is what every user pays for: raw JSONL on disk, parsed, cut into words, made into 128-slot
signatures of 5-word shingles. Every contestant does it in a fresh process, in turn with the others,
as often as ``--repeats`` says; times are medians. A second table sketches the same ready hashes on
one thread. Beside each speed stands the error of the signatures it bought. The peers come with
``pip install -e '.[bench]'``; those that are missing are listed as such.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks._accuracy import Pairs, find_pairs, hashes_of
from benchmarks._corpora import Corpus, from_file, generated, texts_of
from benchmarks._jobs import Result, Run, in_rounds, run_in_fresh_process
from benchmarks._kinds import report
from benchmarks._tables import facts, ratios, table
from benchmarks.peers import CONTESTANTS, SKETCHERS, Contestant

_TEXT_HEAD = [
    "contestant", "threads", "s", "min-max", "CPU s", "MB/s", "documents/s", "peak MiB",
    "speed to lshdb", "lshdb is", "RMS error",
]  # fmt: skip
_SKETCH_HEAD = [
    "contestant", "given", "ns/set", "ns/element", "min-max ms", "speed to lshdb", "lshdb is",
    "RMS error",
]  # fmt: skip


def main(arguments: Sequence[str] | None = None, run: Run = run_in_fresh_process) -> None:
    options = _options(arguments)
    print(facts())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpora = [from_file(path, folder, options.text_field) for path in options.corpus]
        if options.generated:
            corpora += [
                generated(folder, options.documents, ascii_only=ascii_only)
                for ascii_only in (True, False)
            ]
        rates = [_report(corpus, folder, options, run) for corpus in corpora]
        job = {"kind": "text", "name": CONTESTANTS[0].name}
        report(job, options, folder, run)
    if options.generated and rates[-1] and rates[-2]:
        _compare_letters(rates[-2], rates[-1])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.signing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="JSONL, plain or .gz")
    parser.add_argument("--generated", action="store_true", help="add the generated corpora")
    parser.add_argument("--documents", type=int, default=50_000, help="in a generated corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", default="1,2", help="of those that can be told (1,2)")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--pairs", type=int, default=2000, help="to measure errors on")
    parser.add_argument("--sketched", type=int, default=20_000, help="documents sketched alone")
    parser.add_argument("--kinds", default="", help="of text, whose names begin so: a,b")
    parser.add_argument("--kind-bytes", type=int, default=1_000_000, help="of each kind of text")
    parser.add_argument("--only", default="", help="contestants whose names begin so: a,b")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    options.threads = [int(count) for count in options.threads.split(",")]
    if min(options.threads, default=0) < 1 or options.repeats < 1:
        parser.error("--threads and --repeats are at least 1")
    if options.kind_bytes < 1:
        parser.error("--kind-bytes is at least 1")
    return options


def _report(
    corpus: Corpus, folder: Path, options: argparse.Namespace, run: Run
) -> dict[str, float]:
    """Print the tables of one corpus; returns documents a second of lshdb's lines."""
    pairs = find_pairs(texts_of(corpus), options.pairs)
    sample, pairs = _sample(corpus, pairs, folder)
    print(
        f"\n{'## ' if options.markdown else ''}{corpus.name}: {corpus.documents:,} documents, "
        f"{corpus.text_bytes / 1e6:,.1f} MB of text\n"
    )

    lines = [
        (one, threads)
        for one in _chosen(CONTESTANTS, options)
        for threads in {"given": options.threads, "any": [0], "one": [1]}[one.threads]
    ]
    job = {"kind": "text", "path": str(corpus.path), "field": corpus.field}
    check = {"kind": "text", "path": str(sample.path), "field": sample.field, "pairs": pairs}
    results = _measure(lines, job, check, options, run)
    first = min(options.threads)
    reference = results.get((CONTESTANTS[0], first))
    print(f"Text to signatures, compared with {CONTESTANTS[0].name} at threads {first}\n")
    body = [_text_line(corpus, *line, results.get(line), reference) for line in lines]
    print(table(_TEXT_HEAD, body, markdown=options.markdown))
    _print_expected(results, len(pairs))

    sets = _save_sets(corpus, folder / "sets.npz", options.sketched)
    _save_sets(sample, folder / "sample.npz", sample.documents)
    lines = [(one, 1) for one in _chosen(SKETCHERS, options)]
    job = {"kind": "sketch", "path": str(folder / "sets.npz")}
    check = {"kind": "sketch", "path": str(folder / "sample.npz"), "pairs": pairs}
    sketched = _measure(lines, job, check, options, run)
    reference = sketched.get((SKETCHERS[0], 1))
    print(f"\nSketch alone: one thread, {sets[0]:,} sets of {sets[1] / sets[0]:,.1f} elements\n")
    body = [_sketch_line(one, sketched.get((one, 1)), reference, *sets) for one, _ in lines]
    print(table(_SKETCH_HEAD, body, markdown=options.markdown), flush=True)
    return {
        f"{one.name}, threads {threads}": corpus.documents / result["seconds"]
        for (one, threads), result in results.items()
        if one.package == "lshdb"
    }


def _chosen(contestants: list[Contestant], options: argparse.Namespace) -> list[Contestant]:
    return [one for one in contestants if one.name.startswith(tuple(options.only.split(",")))]


def _sample(corpus: Corpus, pairs: Pairs, folder: Path) -> tuple[Corpus, Pairs]:
    """The documents of the pairs as a corpus of their own, and the pairs by their places in it."""
    places = {number: place for place, number in enumerate(sorted({n for p in pairs for n in p}))}
    path = folder / f"{corpus.path.stem}-sample.jsonl"
    with path.open("wb") as output:
        for number, text in enumerate(texts_of(corpus)):
            if number in places:
                output.write(orjson.dumps({"text": text}) + b"\n")
    renumbered = [(places[left], places[right]) for left, right in pairs]
    return Corpus(corpus.name, path, "text", len(places), 0), renumbered


def _save_sets(corpus: Corpus, path: Path, limit: int) -> tuple[int, int]:
    """Ready shingle hashes of the first documents; returns how many sets and elements."""
    sets = [hashes_of(text) for text in itertools.islice(texts_of(corpus), limit)]
    sets = [hashes for hashes in sets if len(hashes)]
    lengths = np.array([len(hashes) for hashes in sets], dtype=np.int64)
    hashes = np.concatenate(sets) if sets else np.empty(0, dtype=np.uint64)
    np.savez(path, hashes=hashes, lengths=lengths)
    return len(sets), len(hashes)


def _measure(
    lines: list[tuple[Contestant, int]],
    job: dict[str, Any],
    check: dict[str, Any],
    options: argparse.Namespace,
    run: Run,
) -> dict[tuple[Contestant, int], Result]:
    """Run all in rounds; then the errors of each, outside the times."""
    results = in_rounds(lines, job, options.repeats, run)
    for one, threads in results:
        if check["pairs"]:
            checked = run({**check, "name": one.name, "threads": threads})
            results[one, threads] |= {k: v for k, v in checked.items() if k in ("rms", "expected")}
    return results


def _text_line(
    corpus: Corpus,
    one: Contestant,
    threads: int,
    result: Result | None,
    reference: Result | None,
) -> list[str]:
    name = [one.name, str(threads or "any")]
    if result is None:
        return [*name, "not installed", *[""] * (len(_TEXT_HEAD) - 3)]
    seconds = result["seconds"]
    return [
        *name,
        f"{seconds:.3f}",
        "-".join(f"{bound:.3f}" for bound in result["range"]),
        f"{result['cpu']:.3f}",
        f"{corpus.text_bytes / 1e6 / seconds:.1f}",
        f"{corpus.documents / seconds:,.0f}",
        f"{result['peak'] / 2**20:,.0f}",
        *_ratios(result, reference),
    ]


def _sketch_line(
    one: Contestant, result: Result | None, reference: Result | None, sets: int, elements: int
) -> list[str]:
    if result is None:
        return [one.name, one.given, "not installed", *[""] * (len(_SKETCH_HEAD) - 3)]
    return [
        one.name,
        one.given,
        f"{result['seconds'] / sets * 1e9:,.0f}",
        f"{result['seconds'] / elements * 1e9:,.2f}",
        "-".join(f"{bound * 1e3:.1f}" for bound in result["range"]),
        *_ratios(result, reference),
    ]


def _ratios(result: Result, reference: Result | None) -> list[str]:
    """Speed by lshdb's, the other way round, and the error."""
    error = f"{result['rms']:.4f}" if "rms" in result else "n/a"
    return [*ratios(result, reference), error]


def _print_expected(results: dict[tuple[Contestant, int], Result], pairs: int) -> None:
    expected = [result["expected"] for result in results.values() if "expected" in result]
    if expected:
        print(
            f"\nErrors on {pairs:,} pairs; 128 independent slots would have "
            f"{statistics.median(expected):.4f}."
        )


def _compare_letters(plain: dict[str, float], other: dict[str, float]) -> None:
    print("\nASCII : non-ASCII, documents/s of the generated corpora\n")
    for name, rate in plain.items():
        print(f"{name}: {rate:,.0f} : {other[name]:,.0f}, {rate / other[name]:.2f} times")


if __name__ == "__main__":
    main()
