"""The same small night on an index, and on one ten times as large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from benchmarks._jobs import Result, Run
from benchmarks._short import short_corpus, split
from benchmarks.peers.pairers import PAIRERS

__all__ = ["NEW", "growth"]

NEW = 1000


def growth(
    folder: Path, documents: int, repeats: int, words: int, run: Run
) -> Iterator[tuple[int, list[Result]]]:
    """Documents there before, and a result for each night.

    The small index has the near-duplicates of what comes next, and besides the last of the large
    one's documents: so both find the same pairs. Both are filled at once; every night is one of the
    parts after that, and begins with the index as it was filled. Before each, the large index is
    copied, too.
    """
    sizes = [10 * documents, *[NEW] * repeats]
    corpus, planted = short_corpus(folder, sum(sizes), words)
    large, *parts = split(corpus.path, folder, sizes)
    small = _with_near_duplicates(large, parts, planted, documents)
    fillings = [(10 * documents, large), (documents, small)]
    ballast = str(folder / f"index-{10 * documents}")
    results = {}
    for size, older in fillings:
        index = folder / f"index-{size}"
        shared = {"name": PAIRERS[0].name, "threads": 0, "key_field": "id", "field": "text"}
        run({**shared, "kind": "fill", "path": str(older), "folder": str(index)})
        night = {**shared, "kind": "night", "older": str(older), "folder": str(index)}
        night |= {"output": str(folder / "pairs.tsv"), "ballast": ballast}
        results[size] = [run({**night, "path": str(part)}) for part in parts]
    yield from sorted(results.items())


def _with_near_duplicates(large: Path, parts: list[Path], planted: Path, size: int) -> Path:
    """Write so many documents of a file: near-duplicates of those in parts, and the last others."""
    new = {key for part in parts for key, _ in _documents(part)}
    wanted: set[str] = set()
    with planted.open() as lines:
        for line in lines:
            pair = set(line.split("\t")[:2])
            if pair & new:
                wanted |= pair - new
    keys = [key for key, _ in _documents(large)]
    others = [key for key in keys if key not in wanted]
    kept = set(keys) - set(others[: len(keys) - size])
    small = large.with_name("small.jsonl")
    with small.open("wb") as output:
        output.writelines(line for key, line in _documents(large) if key in kept)
    return small


def _documents(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)["id"], line
