"""After hundreds of nights of changes: the answers of an index made of what is left, at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lshdb import Index
from tests.answers import answers
from tests.conftest import edited, make_text

Make = Callable[..., Index]
NIGHTS = 200
PARAMETERS: dict[str, Any] = {"threshold": 0.5, "k": 2}


class Life:
    """An index, and the random changes of its nights."""

    def __init__(self, make_index: Make, verify: str) -> None:
        self.rng = random.Random(verify)
        self.make = make_index
        self.verify = verify
        self.index = make_index("life.lshdb", **PARAMETERS)
        self.texts: dict[str, str] = {}
        self.ends: list[datetime] = []
        self.number = 0

    def documents(self) -> dict[str, str]:
        """Tonight's: new ones, edits and copies of what is there, corrections, and what stayed."""
        rng, there = self.rng, list(self.texts)
        found: dict[str, str] = {}
        for _ in range(rng.randrange(1, 20)):
            kind = rng.random()
            self.number += 1
            key = f"d{self.number:05d}"
            if there and kind < 0.15:
                key = rng.choice(there)  # stays as it is
                text = self.texts[key]
            elif there and kind < 0.7:
                text = edited(rng, self.texts[rng.choice(there)] or "one", rng.choice([0, 1, 2, 5]))
                key = rng.choice(there) if kind < 0.3 else key
            else:
                text = "" if kind > 0.98 else make_text(rng, rng.randrange(3, 60))
            found[key] = text.upper() if kind > 0.65 else text
        return found

    def night(self) -> None:
        rng, index, documents = self.rng, self.index, self.documents()
        if rng.random() < 0.1:
            with self.make(f"other{self.number}.lshdb", **PARAMETERS) as other:
                other.add(documents.items(), workers=1)
                index.merge(other)
        else:
            index.add(documents.items(), workers=1)
        if rng.random() < 0.7:
            index.update_clusters(verify=self.verify, workers=1)
        if rng.random() < 0.4:
            index.remove(rng.sample(list(self.texts), min(len(self.texts), rng.randrange(9))))
        if len(self.ends) > 25 and rng.random() < 0.2:
            index.expire(self.ends[-20])
        if rng.random() < 0.1:
            index.compact()
        self.ends.append(datetime.now(UTC))
        self.texts = documents_of(index)


def documents_of(index: Index) -> dict[str, str]:
    """Key to text, in the order in which they came in."""
    with index._store.reading() as snapshot:
        rows = list(snapshot.document_keys())
        return {key: str(snapshot.body(doc_id)) for doc_id, key in rows}


def compared(index: Index) -> dict[str, Any]:
    """All that does not depend on when documents came in."""
    found = answers(index, own_numbers=False)
    del found["shown"]
    for keep in ("first", "last", "longest"):
        found[f"dedup {keep}"] = list(index.dedup(keep=keep))
    found["representatives"] = list(index.clusters(linkage="representative"))
    return found


@pytest.mark.parametrize("verify", ["exact", "signature"])
def test_a_life_ends_like_a_beginning(make_index: Make, is_long: bool, verify: str) -> None:
    life = Life(make_index, verify)
    life.index.update_clusters(verify=verify)
    nights = NIGHTS if is_long else 14
    for night in range(1, nights + 1):
        life.night()
        if night % 50 and night < nights:
            continue
        fresh = make_index(f"fresh{night}.lshdb", **PARAMETERS)
        fresh.add(life.texts.items())
        fresh.update_clusters(verify=verify)
        assert compared(life.index) == compared(fresh), night
        stats = life.index.stats()
        assert stats.clusters > 3
