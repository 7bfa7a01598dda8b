"""The same index in SQLite and in Postgres: how fast it is filled, and are the answers the same?

    python -m benchmarks.databases verses.jsonl [statutes.jsonl ...] [--repeats 3]

For each corpus ``lshdb add`` makes an index of it and ``lshdb pairs`` lists its pairs, each command
a process of its own, on both databases in turn. The lists are compared line for line, in order of
their lines.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks._servers import Place, add_server_option, places
from benchmarks._tables import disk, facts, table
from benchmarks.peers.pairers import PAIRERS

_SCHEMA = "lshdb_benchmark"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name, places(options.postgres_url) as both:
        print(disk(Path(name)))
        for corpus in options.corpora:
            _report(corpus, Path(name), both, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.databases", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpora", nargs="+", type=Path, help="JSONL, fields id and text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    add_server_option(parser)
    return parser.parse_args(arguments)


def _report(corpus: Path, folder: Path, both: list[Place], options: argparse.Namespace) -> None:
    with corpus.open("rb") as lines:
        documents = sum(1 for _ in lines)
    print(f"\n{corpus.name}: {documents:,} documents, median of {options.repeats}\n")
    times: dict[str, list[tuple[float, float]]] = {place.name: [] for place in both}
    lists: dict[str, list[bytes]] = {}
    for _ in range(options.repeats):
        for place in both:
            adding, pairing, found = _once(corpus, folder / "index.lshdb", place)
            times[place.name].append((adding, pairing))
            lists[place.name] = found
    adds, pairings = (
        {name: statistics.median(each[part] for each in all_) for name, all_ in times.items()}
        for part in (0, 1)
    )
    first = both[0].name
    body = [
        [place.name, f"{adds[place.name]:.2f}", f"{documents / adds[place.name]:,.0f}",
         f"{adds[first] / adds[place.name]:.2f}", f"{pairings[place.name]:.2f}",
         f"{pairings[first] / pairings[place.name]:.2f}", f"{len(lists[place.name]):,}"]
        for place in both
    ]  # fmt: skip
    head = ["database", "add s", "documents/s", "by SQLite", "pairs s", "by SQLite", "lines"]
    print(table(head, body, markdown=options.markdown))
    same = all(found == lists[first] for found in lists.values())
    print(f"\nThe lists of pairs are {'the same' if same else 'NOT the same'}, line for line")


def _once(corpus: Path, index: Path, place: Place) -> tuple[float, float, list[bytes]]:
    """Seconds of ``add`` and of ``pairs``, and the sorted lines of the latter."""
    try:
        begun = time.perf_counter()
        _run("add", str(index), str(corpus), *place.arguments(_SCHEMA))
        added = time.perf_counter()
        found = _run("pairs", str(index), "--format", "tsv")
        return added - begun, time.perf_counter() - added, sorted(found.splitlines())
    finally:
        place.drop(_SCHEMA)
        subprocess.run(["rm", "-rf", str(index)], check=True)


def _run(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "lshdb", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
