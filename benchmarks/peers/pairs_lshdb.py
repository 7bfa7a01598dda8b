"""lshdb: ``Index.create``, ``add(read_documents([path]))``, ``pairs()``, each as it comes.

The variant ``signature`` stores no texts and checks candidates on their signatures. ``commands`` is
``lshdb add`` and ``lshdb pairs``, each a process that starts inside the clock.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import orjson

from benchmarks.peers._contract import NUM_PERM, THRESHOLD, WORDS_A_SHINGLE, Source
from benchmarks.peers._pairing import Pairer, write_pairs
from lshdb import AllRejectedError, Index, read_documents


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    path = folder / "index.lshdb"
    if variant == "commands":
        return _commands(path)
    since: str | None = None
    index: Index

    def take(source: Source) -> int:
        documents = read_documents(
            [source.path], key_field=source.key_field, text_field=source.text_field
        )
        try:
            return index.add(documents, workers=threads or None).documents
        except AllRejectedError:  # the benchmark says what may be the matter
            return 0

    def fill(source: Source) -> int:
        nonlocal index
        index = Index.create(
            path,
            threshold=THRESHOLD,
            num_perm=NUM_PERM,
            k=WORDS_A_SHINGLE,
            store_text=variant == "exact",
        )
        return take(source)

    def add(older: Source, newer: Source) -> None:
        nonlocal index, since
        index, since = Index.open(path), "last"
        take(newer)

    def pairs(output: Path) -> None:
        found = index.pairs(since=since)
        write_pairs(output, ((pair.key1, pair.key2, pair.similarity) for pair in found))

    return Pairer(fill, add, pairs, lambda: index.close())


def _commands(path: Path) -> Pairer:
    made = [f"--threshold={THRESHOLD}", f"--num-perm={NUM_PERM}", f"--k={WORDS_A_SHINGLE}"]
    since: list[str] = []

    def run(*arguments: str | Path, output: int | IO[bytes]) -> bytes:
        command = [sys.executable, "-m", "lshdb", "-q", *map(str, arguments)]
        return subprocess.run(command, stdout=output).stdout

    def take(source: Source, *options: str) -> int:
        fields = f"--key-field={source.key_field}", f"--text-field={source.text_field}"
        summary = run("add", path, source.path, *fields, *options, "--json", output=subprocess.PIPE)
        # Without a summary nothing was added, and the benchmark says what may be the matter.
        return int(orjson.loads(summary or b'{"added": 0}')["added"])

    def fill(source: Source) -> int:
        return take(source, *made)

    def add(older: Source, newer: Source) -> None:
        since.append("--since=last")
        take(newer)

    def pairs(output: Path) -> None:
        with output.open("wb") as file:
            run("pairs", path, *since, output=file)

    return Pairer(fill, add, pairs, starts_processes=True)
