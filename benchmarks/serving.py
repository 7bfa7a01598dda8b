"""How long does an answer over HTTP take, alone and while documents come in?

    python -m benchmarks.serving CORPUS.jsonl [--queries 1000] [--connections 8] [--threshold 0.8]

Nine tenths of a corpus are added, and ``lshdb serve`` is started on the index. Connections that
stay open then ask for texts of the corpus, one after the other, so many queries in all: once alone,
and once while ``lshdb add`` brings the last tenth. Every answer must have status 200 and name the
document of the text. Printed are the median, the 99th percentile and the largest time of an answer
in milliseconds, with the connection's and the client's own part, and how many failed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from benchmarks._tables import disk, facts, table
from benchmarks.peers.pairers import PAIRERS


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(disk(folder))
        lines = options.corpus.read_bytes().splitlines(keepends=True)
        most = len(lines) * 9 // 10
        first, last = folder / "first.jsonl", folder / "last.jsonl"
        first.write_bytes(b"".join(lines[:most]))
        last.write_bytes(b"".join(lines[most:]))
        index = folder / "index.lshdb"
        _lshdb("add", str(index), str(first), "--threshold", str(options.threshold))
        documents = [orjson.loads(line) for line in lines[:most]]
        body = []
        with _server(index) as server:
            for beside in ("nothing", "lshdb add"):
                adding = None
                if beside != "nothing":
                    adding = subprocess.Popen(_command("add", str(index), str(last)))
                times, failed = _ask(server, documents, options.queries, options.connections)
                was_beside = adding is not None and adding.poll() is None
                if adding is not None and adding.wait():
                    raise SystemExit("lshdb add failed")
                cuts = statistics.quantiles(times, n=100)
                row = [beside, f"{len(times):,}", str(failed)]
                row += [f"{1e3 * one:.1f}" for one in (cuts[49], cuts[98], max(times))]
                body.append([*row, "to the end" if was_beside else ""])
        print(f"\n{options.corpus.name}, {options.connections} connections\n")
        head = ["beside", "queries", "failed", "median ms", "99 % ms", "largest ms", "add ran"]
        print(table(head, body, markdown=options.markdown))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", type=Path, help="JSONL, fields id and text")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lshdb", "-q", *arguments]


def _lshdb(*arguments: str) -> None:
    subprocess.run(_command(*arguments), check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _server(index: Path) -> Iterator[str]:
    """Serve an index while the block lasts; gives host and port."""
    command = [sys.executable, "-m", "lshdb", "serve", str(index), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield urlsplit(next(iter(process.stdout or ())).split()[-1]).netloc
        finally:
            process.terminate()


def _ask(
    server: str, documents: list[dict[str, str]], queries: int, connections: int
) -> tuple[list[float], int]:
    """Ask from so many threads; return the seconds of each answer, and how many were wrong."""
    step = max(1, len(documents) // queries)
    left: Iterator[dict[str, str]] = iter(
        list(itertools.islice(itertools.cycle(documents[::step]), queries))
    )
    lock = threading.Lock()
    times: list[float] = []
    failed = 0

    def work() -> None:
        with contextlib.closing(http.client.HTTPConnection(server)) as connection:
            while document := following():
                ask(connection, document)

    def following() -> dict[str, str] | None:
        with lock:
            return next(left, None)

    def ask(connection: http.client.HTTPConnection, document: dict[str, str]) -> None:
        nonlocal failed
        asked = orjson.dumps({"text": document["text"], "top": 100})
        begun = time.perf_counter()
        connection.request("POST", "/api/query", asked, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = orjson.loads(answer.read())
        seconds = time.perf_counter() - begun
        keys = {hit["key"] for hit in found.get("hits", ())}
        with lock:
            times.append(seconds)
            failed += answer.status != 200 or document["id"] not in keys

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, failed


if __name__ == "__main__":
    main()
