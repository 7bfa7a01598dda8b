"""The life of an index that readers look on at: the same steps and states from the same seed.

Whoever knows the seed knows every state, so a reader can say which of them an answer is of. Every
addition renews the document ``state``, whose text no other state has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fault.model import Body, Model, Rules

__all__ = ["RULES", "SIZE", "Step", "history", "random_body"]

SIZE = 4
"""Documents a batch."""
DOCUMENTS = 60
RULES = Rules()
FAMILIES = 8


@dataclass(frozen=True)
class Step:
    """One change.

    Attributes
    ----------
    name : {"add", "remove", "expire", "cluster", "compact", "reband"}
    what : object
        Documents, or keys, or the number of the step since which documents must have come in, or
        what the bands are to be.
    states : list of Model
        After each commit.
    """

    name: str
    what: Any
    states: list[Model]


def random_body(rng: random.Random) -> Body:
    """A text of a family, at times an exact copy, as tokens, or next to nothing."""
    if rng.random() < 0.06:
        return rng.choice(["", "one", "  ", ["one"], []])
    family = rng.randrange(FAMILIES)
    words = [f"w{family}x{number * family % 7}" for number in range(10)]
    for _ in range(rng.choice([0, 0, 1, 1, 2, 6])):
        words[rng.randrange(len(words))] = f"e{rng.randrange(6)}"
    if rng.random() < 0.1:
        return words
    text = " ".join(words)
    return text.upper() + " " if rng.random() < 0.1 else text


def history(seed: int) -> Iterator[Step]:
    """Steps without end; each begins with the last state of the one before."""
    rng = random.Random(seed)
    model, number = Model(RULES), 0
    while True:
        name, what, states = _next(rng, model, number)
        model = states[-1] if states else model
        yield Step(name, what, states)
        number += 1


def _next(rng: random.Random, model: Model, number: int) -> tuple[str, Any, list[Model]]:
    keys = list(model.documents)
    chance = rng.random()
    if number == 1 or chance < 0.2:
        return "cluster", None, model.cluster()
    if chance < 0.35 and len(keys) > 5:
        gone = [key for key in rng.sample(keys, rng.randrange(1, SIZE + 1)) if key != "state"]
        return "remove", gone, model.remove(gone, size=SIZE)
    if len(keys) > DOCUMENTS or chance > 0.97:
        since = sorted(held.seen for held in model.documents.values())[len(keys) // 3 :]
        return "expire", since[0], model.expire(since[0], size=SIZE)
    if chance > 0.91:
        return "compact", None, model.compact()
    if chance > 0.89:
        bands, rows = rng.choice([(8, 2), (16, 1), (5, 3)])
        how = {"threshold": rng.choice([0.4, 0.5, 0.7]), "bands": bands, "rows": rows}
        return "reband", how, model.reband(**how)
    items: list[tuple[str, Body]] = [("state", f"this is state {number} of many words")]
    for _ in range(rng.randrange(3 * SIZE)):
        items.append((f"k{rng.randrange(2 * DOCUMENTS)}", random_body(rng)))
    items += _again(rng, model)
    rng.shuffle(items)
    return "add", items, model.add(items, now=number, size=SIZE)


def _again(rng: random.Random, model: Model) -> Sequence[tuple[str, Body]]:
    """Some of what is there, as it is."""
    there = [(key, held.body) for key, held in model.documents.items() if key != "state"]
    some = rng.sample(there, min(len(there), rng.randrange(3)))
    return [(key, body if isinstance(body, str) else list(body)) for key, body in some]
