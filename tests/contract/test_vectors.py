"""An index with a vector file: every change of it, and what it says, are the same on both."""

from __future__ import annotations

from typing import Any

import numpy as np

from lshdb import DamageError, Index, SignaturesElsewhereError
from tests.conftest import pair_set
from tests.contract.conftest import Both, Place
from tests.raw import change

PARAMETERS: dict[str, Any] = {
    "metric": "jaccard-bits", "dim": 40, "threshold": 0.7, "bands": 8, "rows": 3,
}  # fmt: skip
TABLES = (
    "(SELECT signature_file, n_signatures, next_doc_id FROM state) AS one",
    "document",
    "content",
    "signature_block",
    "parameter",
)


def bodies() -> dict[str, str]:
    """Pairs that are alike, a copy, and one of which no bit is set."""
    bits = np.repeat(np.random.default_rng(2).integers(0, 2, (20, 40)), 2, axis=0)
    bits[1::2, 7] ^= 1
    found = ["".join(map(str, row)) for row in bits.tolist()]
    return {f"b{number:02d}": body for number, body in enumerate([*found, found[3], "0" * 40])}


def said(index: Index) -> list[Any]:
    """What the index answers, and holds: rows without times, and files without their segments."""
    found: list[Any] = [sorted(pair_set(index)), index.check(), index.stats().vector_bytes]
    keys = [key for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
    found += [(key, index.show(key).plain_body, index.show(key).copies) for key in keys]
    found.append([(hit.key, hit.similarity) for hit in index.query(bodies()["b00"], top=5)])
    for table in TABLES:
        result = index.sql(f"SELECT * FROM {table} ORDER BY 1")
        kept = [place for place, name in enumerate(result.columns) if name != "checksum"]
        found.append([tuple(row[place] for place in kept) for row in result.rows])
    for path in sorted(index.path.glob("*.npy")):
        if path.name.startswith("orders"):  # whose sums depend on the number of a segment
            found.append((path.name.split(".")[:4], path.stat().st_size))
        else:
            found.append((path.name, path.read_bytes()))
    return found


def test_the_life_of_an_index_of_bits(both: Both) -> None:
    def live(place: Place) -> Any:
        found = []
        items = list(bodies().items())
        with place.create("a", **PARAMETERS) as index:
            index.add(items[:15])
            index.add(items[15:])
            index.add([("b02", items[9][1])])
            index.remove(["b05", "b06", "b07"])
            index.update_clusters()
            found += [said(index), index.compact().dropped, said(index)]
            index.export(place.folder / "files")
            index.export(place.folder / "dataset", format="delta")
            index.copy(place.folder / "copy", **place.database())
            with place.create("merged", **PARAMETERS) as into:
                into.merge(index)
                found.append(said(into))
        for name, folder in (("back", "files"), ("again", "dataset")):
            path = place.folder / name
            Index.from_export(place.folder / folder, path, **place.database()).close()
        for name in ("copy", "back", "again"):
            with Index.open(place.folder / name) as index:
                found.append(said(index))
        return found

    answers = both.same(live)
    assert len(answers[0][0]) > 10
    assert answers[0][1] == []


def test_damage_is_found_and_repaired(both: Both) -> None:
    def repair(place: Place) -> Any:
        with place.create("a", **PARAMETERS) as index:
            index.add(bodies().items())
        path = place.folder / "a" / "vectors.npy"
        content = bytearray(path.read_bytes())
        content[-2] ^= 8
        path.write_bytes(content)
        change(place.folder / "a", "UPDATE document SET n_chars = 3 WHERE key = 'b09'")
        found: list[Any] = []
        with Index.open(place.folder / "a") as index:
            found.append([(one.kind, one.where) for one in index.check()])
            try:
                list(index.pairs())
            except DamageError as error:
                found.append(error.message)
        result = Index.repair(place.folder / "a")
        found += [result.lost, result.documents]
        with Index.open(place.folder / "a") as index:
            found.append(said(index))
        return found

    found = both.same(repair)
    assert found[2] == ["b39"]
    assert found[4][1] == []


def test_many_queries_while_the_files_lie_elsewhere(both: Both) -> None:
    """Of Postgres, which answers a query at once, before and after files have been recognised."""
    _, place = both.places
    with place.create("a", **PARAMETERS) as index:
        index.add(bodies().items())
        before = [index.query(body, top=3) for body in bodies().values()]
        assert [index.query(body, top=3) for body in bodies().values()] == before
        there = place.folder / "there"
        there.mkdir()
        (there / "index.toml").write_bytes((index.path / "index.toml").read_bytes())
    with Index.open(there) as other:
        for body in bodies().values():
            assert {hit.method for hit in other.query(body)} <= {"none"}
        try:
            other.query(bodies()["b00"], verify="exact")
        except SignaturesElsewhereError as error:
            assert "vectors" in error.message
        else:
            raise AssertionError("it has no vectors to verify with")
