"""Make tiny indexes of the other kinds of a format: ``python -m tests.golden.make_index_kinds``.

Other schemes, units, bags, stop words, no stored texts, indexed bands, a text dictionary. Run once
for every schema, as ``make_index.py`` says; ``test_indexes.py`` holds the answers against
``kinds/answers.json``, which an independent run of the reference kernel gave, too.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

from lshdb import Document, Index
from tests.golden.make_index import WORDS, pack_all

FOLDER = Path(__file__).with_name("indexes") / "kinds"
TEXTS: dict[str, dict[str, Any]] = {
    "universal": {"scheme": "universal"},
    "bag": {"bag": True, "k": 1},
    "dictionary": {},
    "characters": {"unit": "char", "strip_accents": True, "digits": "zero"},
    "bytes": {"unit": "byte", "k": 7},
    "lines": {"unit": "line", "k": 1},
    "stop-words": {"stop_words": ["ein", "mit"], "strip_punctuation": True},
    "without-texts": {"store_text": False},
    "indexed-bands": {"index_bands": True},
    "own-bands": {"bands": 20, "rows": 3, "num_perm": 60},
}
VECTORS: dict[str, dict[str, Any]] = {
    "hadamard": {"metric": "cosine", "threshold": 0.95, "scheme": "hadamard", "dim": 12},
    "cauchy": {"metric": "l1", "threshold": 4, "dim": 12, "dtype": "float16"},
    "without-vectors": {"metric": "l2", "threshold": 2, "dim": 12, "store_text": False},
}
KINDS = TEXTS | {kind: {"num_perm": 64} | settings for kind, settings in VECTORS.items()}


def make_bodies(kind: str) -> list[tuple[str, Any]]:
    """Families of four, each member a little change away from the one before; a copy.

    A dictionary for texts is trained on 64 texts of 128 KiB together, or on more.
    """
    rng = random.Random(20261127)
    bodies: list[tuple[str, Any]] = []
    families, n_words = (18, 320) if kind == "dictionary" else (6, 60)
    for family in range(families):
        words = [f"{rng.choice(WORDS)}{rng.randrange(30)}" for _ in range(n_words)]
        numbers = [rng.randrange(-20, 20) for _ in range(12)]
        for member in range(4):
            words[rng.randrange(n_words)] = f"Änderung {member},"
            numbers[rng.randrange(12)] += rng.choice((-1, 1))
            lines = (" ".join(words[start : start + 4]) for start in range(0, n_words, 4))
            body = [number / 4 for number in numbers] if kind in VECTORS else "\n".join(lines)
            bodies.append((f"family{family}/{member}", body))
    return [*bodies, ("copy", bodies[0][1])]


def build(path: Path, kind: str) -> None:
    """An index of three commits, and so of several order files; a document was removed."""
    bodies = make_bodies(kind)
    with Index.create(path, **{"threshold": 0.6} | KINDS[kind]) as index:
        index.add([Document(key, body, fields={"year": -44}) for key, body in bodies[:-8]])
        index.add(bodies[-10:-2], night="monday")
        index.add(bodies[-2:], night="monday")
        index.remove(["family4/2"])


def answers(index: Index, kind: str) -> dict[str, Any]:
    """What is asked of each; similarities to nine digits, signatures as a hash of all of them."""
    rows = index.signatures
    return {
        "pairs": sorted(
            [*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method]
            for pair in index.pairs()
        ),
        "last": len(list(index.pairs(since="last"))),
        "query": [
            [hit.key, round(hit.similarity, 9)]
            for hit in index.query(make_bodies(kind)[5][1], top=4)
        ],
        "signatures": [*rows.shape, hashlib.sha256(rows.tobytes()).hexdigest()],
        "dictionaries": next(index.sql("SELECT count(*) FROM text_dictionary").rows)[0],
        "buckets": hashlib.sha256(
            repr(sorted(index.sql("SELECT band, bucket, signature_id FROM posting").rows)).encode()
        ).hexdigest(),
    }


def main() -> None:
    """Build the indexes and pack them as ``kinds/<schema revision>.tar.gz``."""
    pack_all(KINDS, build, FOLDER)


if __name__ == "__main__":
    main()
