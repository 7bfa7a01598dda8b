"""Write the known answers of families: ``python -m tests.golden.make_vectors_families NEW_FILE``.

They come from ``plain_families.py`` alone, never from the code they test, and they are never made
again to make a test pass: see ``make_vectors.py``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.golden import plain_families as plain

SEEDS = (1, 2**63 - 1)


def vectors_of(kind: str) -> list[list[float]]:
    rng = random.Random(7)
    if kind == "whole":
        return [[0] * 5, [9] * 5, [rng.randrange(10) for _ in range(5)], [1, 0, 9, 3, 4]]
    # Quarters, so that every float type holds them.
    drawn = [[rng.randrange(-40, 41) / 4 for _ in range(dim)] for dim in (1, 5, 5, 300)]
    return [*drawn, [0.0, 0.0, 1.0], [-1.0] * 8]


BITS = ["1", "0110", "10" * 20, "1" * 65, format(random.Random(8).getrandbits(300), "0300b")]
WEIGHTS = [
    {"a": 1.0},
    {"a": 0.5, "b": 2.25, "rose": 1e-9, "日本": 1e9},
    {f"t{number}": 1.0 + number / 8 for number in range(40)},
]


def entry(metric: str, scheme: str, body: Any, seed: int) -> dict[str, Any]:
    """The answer for one body: the words of its row."""
    num_perm, width = 64, 0.0
    of = {"seed": seed, "num_perm": num_perm}
    if metric == "weighted-jaccard":
        num_perm = 16
        words = plain.icws(body, seed=seed, num_perm=num_perm)
    elif metric == "hamming":
        words = plain.pack(plain.sampled_bits(body, **of))
    elif metric == "jaccard-bits":
        num_perm = 16
        words = plain.bit_set(body, scheme=scheme, seed=seed, num_perm=num_perm)
    elif scheme == "unary":
        width = 9.0
        words = plain.pack(plain.unary(body, largest=9, **of))
    elif scheme in ("gaussian", "cauchy"):
        num_perm, width = 16, 2.5
        words = plain.stable(body, scheme=scheme, width=width, seed=seed, num_perm=num_perm)
    elif scheme == "hadamard":
        num_perm = 288
        words = plain.pack(plain.hadamard(body, seed=seed, num_perm=num_perm))
    else:
        words = plain.pack(plain.hyperplane(body, **of))
    return {
        "metric": metric, "scheme": scheme, "seed": seed, "num_perm": num_perm, "width": width,
        "body": body, "words": words,
    }  # fmt: skip


def entries() -> list[dict[str, Any]]:
    of_vectors = [
        ("cosine", "hyperplane"), ("cosine", "hadamard"), ("l2", "gaussian"), ("l1", "cauchy"),
    ]  # fmt: skip
    cases: list[tuple[str, str, Any]] = [
        (metric, scheme, body) for metric, scheme in of_vectors for body in vectors_of("any")
    ]
    cases += [("l1", "unary", body) for body in vectors_of("whole")]
    cases += [("hamming", "bits", body) for body in BITS]
    cases += [("jaccard-bits", scheme, body) for scheme in ("fss", "universal") for body in BITS]
    cases += [("weighted-jaccard", "icws", body) for body in WEIGHTS]
    return [entry(*case, seed) for case in cases for seed in SEEDS]


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in entries())
    with Path(sys.argv[1]).open("x", encoding="ascii") as file:
        file.write('{"vectors":[\n' + lines + "\n]}\n")
