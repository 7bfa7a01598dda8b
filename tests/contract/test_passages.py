"""An index of passages is the same on both databases, and so is what it says."""

from __future__ import annotations

import random
from typing import Any

from lshdb import Index
from tests.contract.conftest import Both, Place


def text(seed: int, n: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(10**5)}" for _ in range(n))


PASSAGE = text(1, 60)
DOCUMENTS = {
    "a": f"{text(2, 40)} {PASSAGE} {text(3, 30)} {PASSAGE}",
    "a#1": f"{PASSAGE} {text(4, 70)}",
    "ä/日本#7-9": f"{text(5, 30)} {' '.join(PASSAGE.split()[:45])}",
    "c": text(6, 100),
}


def test_windows_come_and_go_alike(both: Both) -> None:
    def live(place: Place) -> Any:
        said: list[Any] = []

        def tell(index: Index) -> None:
            said.append(sorted(index.texts(list(index)).items()))
            said.append(index.texts(["a", "a#1", "ä/日本#7-9"]))
            said.extend([list(index.passages()), sorted(index), len(index), index.check()])

        with place.create("p", passages=(20, 10)) as index:
            said.append(index.add(DOCUMENTS.items()))
            tell(index)
            said.append(index.add(DOCUMENTS.items()))
            said.append(index.query_passages(f"{text(8, 50)} {PASSAGE}"))
            said.append(index.query_passages(key="a"))
            said.append(index.explain_passages("a", "a#1"))
            said.append(index.add([("a", f"{text(9, 33)} {PASSAGE}"), ("c", DOCUMENTS["c"])]))
            said.append(list(index.passages(since="last")))
            tell(index)
            said.append(index.remove(["a#1", "none"]))
            tell(index)
        return said

    said = both.same(live)
    assert len(said[3]) == 6, "six passages: one document has two of them"
