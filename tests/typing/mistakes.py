"""A user's mistakes, each of which a type checker finds: an unused ``ignore`` is an error."""

from __future__ import annotations

from lshdb import Index


def mistakes(index: Index) -> None:
    Index.create("a.lshdb", metric="euclid")  # type: ignore[arg-type]
    Index.create("a.lshdb", unit="words")  # type: ignore[arg-type]
    Index.create("a.lshdb", digits="zeros")  # type: ignore[arg-type]
    Index.open("a.lshdb", treshold=0.8)  # type: ignore[call-arg]
    Index.open("a.lshdb", k="five")  # type: ignore[arg-type]
    index.reindex("b.lshdb", units="char")  # type: ignore[call-arg]
    index.query("text", verify="exactly")  # type: ignore[arg-type]
    index.query(17)  # type: ignore[arg-type]
    index.add([("a", 17)])  # type: ignore[list-item]
    index.add([("a", "one")], on_conflict="ignore")  # type: ignore[arg-type]
    index.clusters(linkage="single")  # type: ignore[arg-type]
    index.dedup(only="kept")  # type: ignore[arg-type]
    index.export("folder", format="csv")  # type: ignore[arg-type]
    index.signatures.distance  # type: ignore[attr-defined]  # noqa: B018
    index.query("text")[0].score  # type: ignore[attr-defined]  # noqa: B018
