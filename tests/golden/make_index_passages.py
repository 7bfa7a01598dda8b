"""Make the tiny index of passages of a schema: ``python -m tests.golden.make_index_passages``.

Run once for every schema, at a checkout of the version that writes it. What was made is kept for
ever: ``test_indexes.py`` opens each, and holds its answers against ``answers.json``.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import Any

from lshdb import Index
from tests.golden.make_index import pack

FOLDER = Path(__file__).parent / "indexes" / "passages"


def text(seed: int, n: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"wörd{rng.randrange(10**5)}" for _ in range(n))


PASSAGE = text(1, 50)
DOCUMENTS = {
    "a": f"{text(2, 40)} {PASSAGE} {text(3, 30)} {PASSAGE}",
    "a#0-9": f"{PASSAGE.upper()} {text(4, 60)}",
    "日本": "日本語の文章は文字ごとに単語になります",
    "none": "... !",
}


def answers(index: Index) -> dict[str, Any]:
    """What is asked of each; similarities to nine digits."""
    return {
        "windows": sorted(index.texts(list(index)).items()),
        "passages": [[*astuple(one)[:8], round(one.similarity, 9)] for one in index.passages()],
        "query": [[one.start1, one.end1, one.key2] for one in index.query_passages(PASSAGE)],
    }


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.lshdb"
        with Index.create(path, passages=(20, 10), num_perm=64, recall=0.9) as index:
            index.add([("a", "an earlier text"), ("gone", PASSAGE)])
            index.add(DOCUMENTS.items())
            index.remove("gone")
            index.compact()
        pack([path], FOLDER)


if __name__ == "__main__":
    main()
