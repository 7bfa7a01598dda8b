"""lshdb: an index of cosines on disk, asked by key and by vector, with multi-probe or without.

Signatures have 1,024 bits, or as many as the bands need. Effort ``own buckets`` looks into the
query's own alone; the others are the ``recall`` asked for. On one thread, also while adding.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers._searching import TOP, Found
from lshdb import Document, Index, NearestHits, read_documents

_LEAST_BITS = 1024
_NEAR = 0.6
"""The cosine of what is a tenth neighbour, about: buckets are in the order for this one."""
_OWN = "own buckets"
_ALL = 2**40


class Searching:
    """By an index of the bands and rows named."""

    efforts = (_OWN, "0.5", "0.8", "0.9", "0.95", "0.99")

    def __init__(self, variant: str) -> None:
        self._bands, self._rows = map(int, variant.split())

    def build(self, vectors: Path, folder: Path) -> None:
        self._vectors = np.load(vectors, mmap_mode="r")
        num_perm = max(_LEAST_BITS, -(-self._bands * self._rows // 32) * 32)
        path = folder / "vectors.lshdb"
        with Index.create(
            path, metric="cosine", dim=self._vectors.shape[1], threshold=_NEAR,
            bands=self._bands, rows=self._rows, num_perm=num_perm,
        ) as index:  # fmt: skip
            index.add(read_documents([vectors], body="vector"), workers=1)
        self._index = Index.open(path)

    def one(self, number: int, effort: str) -> Found:
        answer = self._index.query(key=str(number), top=TOP, **_options(effort))
        numbers = [int(hit.key) for hit in answer]
        if not isinstance(answer, NearestHits):
            return Found(numbers)
        return Found(numbers, answer.checked, answer.buckets)

    def many(self, numbers: Sequence[int], effort: str) -> list[Sequence[int]]:
        """By vector, so that each finds itself, too."""
        documents = (Document(str(number), self._vectors[number]) for number in numbers)
        answers = self._index.query_many(documents, top=TOP + 1, **_options(effort))
        return [[int(hit.key) for hit in hits if hit.key != key][:TOP] for key, hits in answers]


def _options(effort: str) -> dict[str, float]:
    if effort == _OWN:  # no limit, but an answer that says what it looked at
        return {"threshold": -0.999, "probe_limit": _ALL}
    return {"recall": float(effort)}


searcher = Searching
