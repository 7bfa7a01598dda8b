"""A reader beside a writer: asks, and looks for the one state that each answer is of.

The writer keeps two numbers in a file that all have mapped: of the last state that it knows to be
committed, and of the last one that it has begun to commit. An answer is that of one state, not
older than the first number was before the question, and not newer than the second was when the
first of the answer came; however slowly the rest of it is taken.

Run as ``python -m tests.fault.reader INDEX NUMBERS SEED SECONDS READER``; prints what it found.
"""

from __future__ import annotations

import itertools
import json
import mmap
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lshdb import Index, KeyNotFoundError, LshdbError, ParameterError
from tests.fault.history import RULES, history, random_body
from tests.fault.model import Model

__all__ = ["Numbers"]

Question = tuple[
    Callable[[Index], Iterable[Any]], Callable[[Model], Any], Callable[[list[Any]], Any]
]
"""How an index is asked, what a model answers, and what of an answer is compared with that."""


class Numbers:
    """``committed`` and ``begun``, shared between processes by a file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 16)
        self._values = memoryview(self._map).cast("q")

    def read(self) -> tuple[int, int]:
        return self._values[0], self._values[1]

    def begin(self, number: int) -> None:
        """Before a state can be seen."""
        self._values[1] = number

    def commit(self, number: int) -> None:
        """When it has been acknowledged."""
        self._values[0] = number


class States:
    """The last states of a history, by number; forgets those that are too old to be asked for."""

    def __init__(self, seed: int) -> None:
        made = (state for step in history(seed) for state in step.states)
        self._made = enumerate(made, 1)
        self._kept: dict[int, Model] = {}

    def between(self, first: int, last: int) -> Iterator[Model]:
        for number in [number for number in self._kept if number < first]:
            del self._kept[number]
        for wanted in range(first, last + 1):
            while wanted not in self._kept:
                number, model = next(self._made)
                if number >= first:
                    self._kept[number] = model
            yield self._kept[wanted]


def _query(rng: random.Random) -> Question:
    bodies = [random_body(rng) for _ in range(3)]

    def ask(index: Index) -> Iterator[Any]:
        for _, hits in index.query_many(
            [(str(i), body) for i, body in enumerate(bodies)], top=None
        ):
            yield [(hit.key, hit.similarity) for hit in hits]

    return ask, lambda model: [model.query(body) for body in bodies], list


def _pairs(rng: random.Random) -> Question:
    workers = rng.choice([1, 1, 2])

    def ask(index: Index) -> Iterator[Any]:
        return ((one.key1, one.key2, one.similarity) for one in index.pairs(workers=workers))

    return ask, lambda model: sorted(model.pairs()), sorted


def _newest_pairs(_rng: random.Random) -> Question:
    def ask(index: Index) -> Iterator[Any]:
        pairs = index.pairs(since="last", workers=1)
        return ((one.key1, one.key2, one.similarity) for one in pairs)

    return ask, lambda model: sorted(model.pairs(since=model.last_add)), sorted


def _grouped(
    ask: Callable[..., Iterator[Any]],
    row: Callable[[Any], Any],
    expected: Callable[[Model], Any],
    compared: Callable[[list[Any]], Any] = list,
    **how: Any,
) -> Question:
    """A question that rests on stored edges; there are none after a change of bands."""

    def asked(index: Index) -> Iterator[Any]:
        try:
            for one in ask(index, update=False, **how):
                yield row(one)
        except ParameterError as error:
            if "has no verified edges" not in error.message:
                raise
            yield "none"

    return asked, lambda model: ["none"] if model.edges is None else expected(model), compared


def _clusters(_rng: random.Random) -> Question:
    return _grouped(Index.clusters, lambda one: (one.label, one.keys), Model.clusters)


def _neighbors(_rng: random.Random) -> Question:
    return _grouped(
        Index.neighbors,
        lambda one: (one.key, one.neighbor, one.similarity),
        lambda model: sorted(model.neighbors()),
        sorted,
        top=1000,
    )


def _dedup(_rng: random.Random) -> Question:
    def expected(model: Model) -> list[Any]:
        kept = model.kept()
        return [(key, key in kept) for key in model.documents]

    return _grouped(Index.dedup, lambda one: (one.key, one.keep), expected)


def _stats(_rng: random.Random) -> Question:
    def ask(index: Index) -> list[Any]:
        stats = index.stats()
        return [(name, getattr(stats, name)) for name in Model(RULES).counts()]

    return ask, lambda model: list(model.counts().items()), list


def _show(rng: random.Random) -> Question:
    key = rng.choice(["state", f"k{rng.randrange(100)}"])

    def ask(index: Index) -> list[Any]:
        try:
            shown = index.show(key)
        except KeyNotFoundError:
            return []
        body = shown.body if isinstance(shown.body, str) else tuple(shown.body or ())
        return [(body, shown.document.batch_id, shown.document.doc_id, set(shown.copies))]

    def expected(model: Model) -> list[Any]:
        held = model.documents.get(key)
        if held is None:
            return []
        copies = {other for other, one in model.documents.items()
                  if other != key and one.signature == held.signature is not None}  # fmt: skip
        return [(held.body, held.batch, held.doc_id, copies)]

    return ask, expected, list


def _sql(_rng: random.Random) -> Question:
    statement = (
        "SELECT key, doc_id, batch_id, (SELECT count(*) FROM batch), "
        "(SELECT count(*) FROM posting WHERE posting.signature_id = document.signature_id) "
        "FROM document ORDER BY doc_id"
    )

    def expected(model: Model) -> list[Any]:
        bands = model.rules.bands
        return [
            (key, held.doc_id, held.batch, model.n_batches, bands * (held.signature is not None))
            for key, held in model.documents.items()
        ]

    return lambda index: map(tuple, index.sql(statement).rows), expected, list


def _bodies(index: Index) -> list[Any]:
    with index._store.reading() as snapshot:
        there = [(key, snapshot.body(doc_id)) for doc_id, key in list(snapshot.document_keys())]
    return [(key, body if isinstance(body, str) else tuple(body or ())) for key, body in there]


def _copy(rng: random.Random) -> Question:
    """Copied while the writer writes; what is in the copy is one state, and sound."""

    def ask(index: Index) -> list[Any]:
        path = index.path.with_name(f"copy{rng.randrange(2**40)}.lshdb")
        index.copy(path)
        with Index.open(path) as copy:
            found = [*_bodies(copy), *copy.check()]
        shutil.rmtree(path)
        return found

    return ask, lambda model: list(model.bodies()), list


def _check(_rng: random.Random) -> Question:
    return lambda index: index.check(), lambda model: [], list


QUESTIONS: dict[str, tuple[int, Callable[[random.Random], Question]]] = {
    "query": (6, _query), "pairs": (6, _pairs), "pairs since last": (4, _newest_pairs),
    "clusters": (5, _clusters), "neighbors": (4, _neighbors), "dedup": (3, _dedup),
    "stats": (4, _stats), "show": (6, _show), "sql": (4, _sql), "copy": (1, _copy),
    "check": (1, _check),
}  # fmt: skip
"""How often, and what."""


class Reader:
    """Asks question after question of an index that is opened anew now and then."""

    def __init__(self, path: Path, numbers: Path, seed: int, reader: int) -> None:
        self._path = path
        self._numbers = Numbers(numbers)
        self._states = States(seed)
        self._rng = random.Random(f"{seed} {reader}")
        self.answers = Counter[str]()
        self.overtaken = 0
        self.refused = 0
        self.faults: list[str] = []

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.faults:
            try:
                with Index.open(self._path) as index:
                    for _ in range(self._rng.randrange(1, 60)):
                        if time.monotonic() < end and not self.faults:
                            self._ask(index)
            except LshdbError as error:
                if "has been banded anew" not in error.message:
                    raise
                self.refused += 1

    def _ask(self, index: Index) -> None:
        rng = self._rng
        (name,) = rng.choices(list(QUESTIONS), [weight for weight, _ in QUESTIONS.values()])
        ask, expected, compared = QUESTIONS[name][1](rng)
        first, _ = self._numbers.read()
        answer = iter(ask(index))
        found = list(itertools.islice(answer, 1))
        _, last = self._numbers.read()
        if found and rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.1))
        found = compared([*found, *answer])
        self.answers[name] += 1
        self.overtaken += self._numbers.read()[0] > first
        states = list(self._states.between(first, last))
        if not any(found == expected(state) for state in states):
            self.faults.append(
                f"{name} answered {found}; states {first} to {last} are "
                f"{[expected(state) for state in states]}"
            )


def main() -> None:
    path, numbers, seed, seconds, number = sys.argv[1:]
    reader = Reader(Path(path), Path(numbers), int(seed), int(number))
    reader.run(float(seconds))
    names = ("answers", "overtaken", "refused", "faults")
    sys.stdout.write(json.dumps({name: getattr(reader, name) for name in names}) + "\n")


if __name__ == "__main__":
    main()
