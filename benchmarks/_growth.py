"""The same small night on an index, and on one ten times as large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks._jobs import Result, Run
from benchmarks._short import short_corpus, split
from benchmarks.peers.pairers import PAIRERS

__all__ = ["NEW", "growth"]

NEW = 1000


def growth(
    folder: Path, documents: int, repeats: int, words: int, run: Run
) -> Iterator[tuple[int, list[Result]]]:
    """Documents there before, and a result for each night.

    The small index has the last tenth of what the large one has, as what comes next has its near-
    duplicates there: so both find about the same. Both are filled at once; every night is one of
    the parts after that, and begins with the index as it was filled. Before each, the large index
    is copied, too.
    """
    sizes = [9 * documents, documents, *[NEW] * repeats]
    corpus, _ = short_corpus(folder, sum(sizes), words)
    [large] = split(corpus.path, folder, [10 * documents])
    large = large.rename(folder / "large.jsonl")
    _, small, *parts = split(corpus.path, folder, sizes)
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
