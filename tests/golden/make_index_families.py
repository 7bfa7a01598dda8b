"""Make tiny indexes of vectors, bits and weights: ``python -m tests.golden.make_index_families``.

Run once for every schema, at the version that writes it. What was made is kept for ever, as
``make_index.py`` says; ``test_indexes.py`` holds the answers against ``families/answers.json``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.golden.make_index import pack_all

FOLDER = Path(__file__).with_name("indexes") / "families"
SETTINGS: dict[str, dict[str, Any]] = {
    "cosine": {"threshold": 0.95, "num_perm": 64, "dim": 12, "dtype": "float32"},
    "hamming": {"threshold": 6, "num_perm": 64, "dim": 70},
    "l1": {
        "threshold": 4,
        "num_perm": 64,
        "dim": 12,
        "dtype": "uint8",
        "scheme": "unary",
        "width": 64,
    },
    "l2": {"threshold": 2, "num_perm": 64, "dim": 12, "dtype": "float64"},
    "weighted-jaccard": {"threshold": 0.6, "num_perm": 64},
    "jaccard-bits": {"threshold": 0.7, "num_perm": 64, "dim": 70},
}


def make_bodies(metric: str) -> list[tuple[str, Any]]:
    """Six families of three, each member a little change away from the one before; a copy."""
    rng = random.Random(20261122)
    bodies: list[tuple[str, Any]] = []
    for family in range(6):
        if metric in ("hamming", "jaccard-bits"):
            bits = [rng.randrange(2) for _ in range(70)]
        numbers = [rng.randrange(0, 40) for _ in range(12)]
        for member in range(3):
            at = rng.randrange(12)
            numbers[at] = max(0, numbers[at] + rng.choice((-1, 1)))
            body: Any
            if metric in ("hamming", "jaccard-bits"):
                bits[at] ^= 1
                body = "".join(map(str, bits))
            elif metric == "weighted-jaccard":
                body = {f"t{place}": number / 4 for place, number in enumerate(numbers) if number}
            elif metric == "l1":
                body = list(numbers)
            else:
                body = [number / 4 - 3 for number in numbers]
            bodies.append((f"family{family}/{member}", body))
    return [*bodies, ("copy", bodies[0][1])]


def build(path: Path, metric: str, **place: str) -> None:
    """An index with a document that was seen again, a replaced one and a removed one."""
    from lshdb import Index

    bodies = make_bodies(metric)
    with Index.create(path, metric=metric, **SETTINGS[metric], **place) as index:
        index.add(bodies[:12], source="first")
        index.add(bodies[10:], source="second")
        index.add([("family5/2", bodies[0][1])])
        index.remove(["family4/2"])
        list(index.clusters())


def main() -> None:
    """Build the indexes and pack them as ``families/<schema revision>.tar.gz``."""
    pack_all(SETTINGS, build, FOLDER)


if __name__ == "__main__":
    main()
