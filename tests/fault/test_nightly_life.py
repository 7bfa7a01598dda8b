"""After hundreds of nights of changes: the answers of an index made of what is left, at once."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lshdb import Index
from tests.answers import answers
from tests.clocks import set_clock
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


YEAR, KEPT_DAYS, WEEK = 300, 28, 7
AHEAD = 150
"""The night on which the clock is ahead by more than a year."""


def tonight(rng: random.Random, number: int, texts: dict[str, str]) -> dict[str, str]:
    """As many documents each night: new ones, repeats of recent ones, and some that come again."""
    documents = {f"{number:03d}-{at}": make_text(rng, 40) for at in range(20)}
    recent = list(texts)[-200:]
    for at in range(20) if recent else ():
        documents[f"{number:03d}-repeat-{at}"] = edited(rng, texts[rng.choice(recent)], at % 4)
    documents |= {key: texts[key] for key in recent[-5:]}
    return documents


@pytest.mark.filterwarnings("ignore:an earlier add began")
def test_three_hundred_nights(
    make_index: Make, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of the nightly guide: add, read by a cursor; once a week expire and compact.

    Each week reads what came in once, keeps as much as the one before, and takes as long. At the
    end all is as in an index that was made of what is left.
    """
    rng, clock = random.Random(300), set_clock(monkeypatch)
    nights = YEAR if is_long else 3 * WEEK
    index = make_index("year.lshdb", **PARAMETERS)
    index.advance("morning", 0)
    texts: dict[str, str] = {}
    seconds: list[float] = []
    sizes: list[int] = []
    n_read = 0
    for number in range(1, nights + 1):
        clock.night(number, hours=500 * 24 if number == AHEAD else 0)
        documents = tonight(rng, number, texts)
        begun = time.process_time()
        index.add(documents.items(), workers=1, night=f"night-{number}")
        answer = index.pairs(since="@morning")
        n_read += sum(1 for _ in answer)
        index.advance("morning", answer)
        index.update_clusters(workers=1)
        clock.night(number, hours=1)
        if number == AHEAD:
            assert index.mend_times().documents == len(documents)
        seconds.append(time.process_time() - begun)
        texts |= documents
        if number % WEEK == 0:
            index.expire(clock.now - timedelta(days=KEPT_DAYS))
            index.compact()
            kept = documents_of(index)
            texts = {key: text for key, text in texts.items() if key in kept}
            sizes.append(sum(file.stat().st_size for file in index.path.iterdir()))
            assert len(texts) < 45 * (KEPT_DAYS + WEEK)
    assert n_read > 10 * nights
    assert index.check() == []
    left = documents_of(index)
    assert left == {key: texts[key] for key in left} and len(left) == len(texts)
    fresh = make_index("fresh.lshdb", **PARAMETERS)
    fresh.add(left.items())
    fresh.update_clusters()
    assert compared(index) == compared(fresh)
    if is_long:
        full = 2 * KEPT_DAYS  # from then on, as much leaves as comes in
        third = (nights - full) // 3
        early, late = (
            statistics.median(part) for part in (seconds[full:][:third], seconds[-third:])
        )
        assert late < 1.3 * early, f"a night took {early:.3f} s, and takes {late:.3f} s"
        weeks = len(sizes) // 3
        assert max(sizes[-weeks:]) < 1.1 * max(sizes[full // WEEK :][:weeks]), sizes
