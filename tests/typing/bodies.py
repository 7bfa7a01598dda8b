"""A user's program: documents and queries in every form that the documentation promises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import lshdb
from lshdb import Body, Document, Index


def texts(path: str) -> None:
    with Index.create(path, threshold=0.8) as index:
        index.add([("a", "one two three"), ("b", ["one", "two"]), ("c", ("one", "two"))])
        index.add([("d", {"one", "two"}), ("e", frozenset({"one"}))])
        index.add({"f": "one two"}.items())
        index.add((Document("g", "one two"), Document("h", ["one"])))
        index.add(lshdb.read_documents(["news.jsonl"]))
        index.query("one two")
        index.query(["one", "two"])
        index.query({"one", "two"})
        index.query(key="a", top=None, verify="signature")
        index.similarity("one", ["one"])
        index.explain("a", body="one two")
        index.explain("a", "b")


class Relation:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Frame:
    iloc: list[int]
    columns: list[str]


def tables(path: str, relation: Relation, frame: Frame) -> None:
    with Index.create(path) as index:
        index.add(relation, key="url", text=["title", "body"], keep=("date", "source"))
        index.add(frame, key=None, text="body", keep="date", source="frame")


def vectors(path: str) -> None:
    rng = np.random.default_rng(1)
    rows: NDArray[np.float32] = rng.normal(size=(10, 8)).astype(np.float32)
    sample: list[NDArray[np.float32]] = list(rows)
    with Index.create(path, metric="cosine", dim=8, sample=sample) as index:
        index.add([(str(number), row) for number, row in enumerate(rows)])
        index.add([("list", [0.5] * 8), ("tuple", (1,) * 8), ("scalars", list(rows[0]))])
        index.query(rows[0])
        index.query([0.0, 1.5])
        index.query(rows[0].tolist(), recall=0.9)
        for key, hits in index.query_many(rows):
            print(key, [hit.similarity for hit in hits])


def weights(path: str) -> None:
    floats: dict[str, float] = {"one": 0.5}
    whole: dict[str, int] = {"one": 2}
    with Index.create(path, metric="weighted-jaccard") as index:
        index.add([("a", floats), ("b", whole)])
        index.query(floats)
        index.query({"one": 1})


def bare(index: Index, bodies: list[str]) -> Iterator[tuple[str, int]]:
    for key, hits in index.query_many(bodies, workers=None):
        yield key, len(hits)
    for key, hits in index.query_many([("a", "one two"), ("b", "three")]):
        yield key, len(hits)


def any_body(index: Index, body: Body) -> float:
    return index.similarity(body, body)
