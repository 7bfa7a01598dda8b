"""Build an index in this process, and print how fast each tenth of it went.

    python -m benchmarks._building CORPUS.jsonl INDEX DOCUMENTS [DATABASE SCHEMA]

Commits are the only moments at which it is known how much is on disk; where a tenth ends is put
between the two that it lies between. What comes after the last commit (merging of the runs,
checkpoint) belongs to no tenth and is printed by itself.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from lshdb import Index, read_documents

__all__ = ["build"]

TENTHS = 10


def build(
    corpus: str, path: str, documents: int, database: str | None = None, schema: str | None = None
) -> dict[str, object]:
    """Documents a second in each tenth, and seconds from the last commit to the end."""
    done, at = [0], [time.perf_counter()]

    def committed(result: object) -> None:
        done.append(result.documents)  # type: ignore[attr-defined]
        at.append(time.perf_counter())

    with Index.create(path, database=database, schema=schema) as index:
        result = index.add(read_documents([corpus]), on_commit=committed)
        end = time.perf_counter()
    if result.documents != documents:
        raise SystemExit(f"{corpus}: {result.documents:,} of {documents:,} documents were taken")
    borders = np.interp(np.linspace(0, documents, TENTHS + 1), done, at)
    rates = documents / TENTHS / np.diff(borders)
    return {"rates": rates.tolist(), "end": end - at[-1]}


if __name__ == "__main__":
    print(json.dumps(build(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
