"""How fast do documents on disk become an index, here and elsewhere?

    python -m benchmarks.adding [CORPUS.jsonl[.gz]...] [--repeats 3] [--profile] [--markdown]

The work begins with raw JSONL on disk. lshdb's ends with everything committed to an index on disk:
texts, signatures, postings, synced, runs merged. That of the peers ends with signatures or bands of
equal size in an index in memory, which keeps no text and is gone with the process. All do it in
fresh processes, in turn, as often as ``--repeats`` says; figures are medians. ``--profile`` runs
lshdb once more with timers around the library's functions and says where its time goes. Every run
ends with kinds of text (``_kinds.py``), each beside clean ASCII, of lshdb on one thread; without a
corpus there is nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._corpora import Corpus, from_file
from benchmarks._jobs import Result, Run, in_rounds, run_in_fresh_process
from benchmarks._kinds import report
from benchmarks._tables import disk, facts, ratios, table
from benchmarks.peers import ADDERS, Contestant

_HEAD = [
    "contestant", "threads", "s", "min-max", "CPU s", "MB/s", "documents/s", "peak MiB",
    "on disk MB", "speed to lshdb", "lshdb is",
]  # fmt: skip

Line = tuple[Contestant, int]


def main(arguments: Sequence[str] | None = None, run: Run = run_in_fresh_process) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(facts())
        print(disk(folder))
        for path in options.corpus:
            corpus = from_file(path, folder, options.text_field, options.documents)
            _report(corpus, options, run)
        job = {"kind": "add", "name": ADDERS[0].name, "key_field": "id"}
        report(job, options, folder, run)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adding", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="JSONL, plain or .gz")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--documents", type=int, help="only so many of each corpus, the first")
    parser.add_argument("--kinds", default="", help="of text, whose names begin so: a,b")
    parser.add_argument("--kind-bytes", type=int, default=1_000_000, help="of each kind of text")
    parser.add_argument("--key-field", default="id")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--only", default="", help="contestants whose names begin so: a,b")
    parser.add_argument("--profile", action="store_true", help="where lshdb's time goes")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.kind_bytes < 1:
        parser.error("--repeats and --kind-bytes are at least 1")
    return options


def _report(corpus: Corpus, options: argparse.Namespace, run: Run) -> None:
    """Print the tables of one corpus."""
    print(
        f"\n{'## ' if options.markdown else ''}{corpus.name}: {corpus.documents:,} documents, "
        f"{corpus.text_bytes / 1e6:,.1f} MB of text\n"
    )
    lines = [
        (one, threads)
        for one in ADDERS
        if one.name.startswith(tuple(options.only.split(",")))
        for threads in {"given": [0, 1], "any": [0], "one": [1]}[one.threads]
    ]
    job = {
        "kind": "add",
        "path": str(corpus.path),
        "key_field": options.key_field,
        "field": corpus.field,
    }
    results = in_rounds(lines, job, options.repeats, run)
    for (one, _), result in results.items():
        if result["documents"] != corpus.documents:
            raise SystemExit(
                f"{corpus.name}: {one.name} took {result['documents']:,.0f} documents; are the "
                f"keys in the field {options.key_field!r} there, and each once?"
            )
    reference = results.get((ADDERS[0], 0))
    print(f"File to index, compared with {ADDERS[0].name} on as many threads as cores\n")
    body = [_line(corpus, *line, results.get(line), reference) for line in lines]
    print(table(_HEAD, body, markdown=options.markdown), flush=True)
    if reference is not None:
        print("\n" + _on_disk(corpus, reference))
        if options.profile:
            _profile(corpus, [line for line in lines if line[0] is ADDERS[0]], job, options, run)


def _line(
    corpus: Corpus, one: Contestant, threads: int, result: Result | None, reference: Result | None
) -> list[str]:
    name = [one.name, str(threads or "any")]
    if result is None:
        return [*name, "not installed", *[""] * (len(_HEAD) - 3)]
    seconds = result["seconds"]
    return [
        *name,
        f"{seconds:.3f}",
        "-".join(f"{bound:.3f}" for bound in result["range"]),
        f"{result['cpu']:.3f}",
        f"{corpus.text_bytes / 1e6 / seconds:.1f}",
        f"{corpus.documents / seconds:,.0f}",
        f"{result['peak'] / 2**20:,.0f}",
        f"{result['disk'] / 1e6:,.1f}" if result["disk"] else "none",
        *ratios(result, reference),
    ]


def _on_disk(corpus: Corpus, result: Result) -> str:
    total, signatures, orders = result["disk"], result["signatures"], result["orders"]
    return (
        f"On disk {total:,.0f} bytes: signatures {signatures:,.0f}, frozen orders {orders:,.0f}, "
        f"database and the rest {total - signatures - orders:,.0f}; "
        f"{total / corpus.documents:,.0f} a document, "
        f"{total / corpus.text_bytes:.2f} times the text."
    )


def _profile(
    corpus: Corpus, lines: list[Line], job: dict[str, Any], options: argparse.Namespace, run: Run
) -> None:
    """Print the stages of one more run of each line, in the order of the first."""
    head = ["stage"]
    columns: list[dict[str, list[str]]] = []
    for one, threads in lines:
        result = run({**job, "name": one.name, "threads": threads, "profile": True})
        stages = result["stages"]
        total = sum(seconds for _, seconds, _ in stages)
        head += [f"s, threads {threads or 'any'}", "us/document", "%", "calls"]
        columns.append(
            {
                stage: [
                    f"{seconds:.3f}",
                    f"{seconds / corpus.documents * 1e6:.2f}",
                    f"{seconds / total * 100:.1f}",
                    f"{calls:,}",
                ]
                for stage, seconds, calls in [*stages, ("together", total, 1)]
            }
        )
    names = list(dict.fromkeys(stage for column in columns for stage in column))
    body = [
        [name, *(cell for column in columns for cell in column.get(name, [""] * 4))]
        for name in names
    ]
    print("\nWhere the time goes: one run each with timers, a stage without those inside it\n")
    print(table(head, body, markdown=options.markdown), flush=True)


if __name__ == "__main__":
    main()
