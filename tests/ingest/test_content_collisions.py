"""Two contents in one bucket of the content band are two contents wherever one is looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from lshdb import Index
from lshdb.signatures.banding import content_keys
from lshdb.storage.tables.bodies import hash_body, raw_body
from tests.contract.conftest import DATABASES, Place
from tests.postgres import PostgresUrl, drop_schemas


def colliding_texts() -> tuple[str, str]:
    """Two texts whose content hashes begin with the same 32 bits."""
    seen: dict[bytes, str] = {}
    for number in range(2**20):
        text = f"content number {number} of many that are alike in nothing but this"
        start = hash_body(*raw_body(text))[:4]
        if start in seen:
            return seen[start], text
        seen[start] = text
    raise AssertionError("a million hashes of 32 bits are all different")


FIRST, SECOND = colliding_texts()


def test_they_collide() -> None:
    hashes = [hash_body(*raw_body(text)) for text in (FIRST, SECOND)]
    assert hashes[0] != hashes[1] and len(set(content_keys(hashes).tolist())) == 1


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("steps", [["abcd"], ["ab", "cd"], ["a", "b", "c", "d"], ["ac", "bd"]])
def test_an_add_tells_them_apart(
    tmp_path: Path, postgres_url: PostgresUrl, database: str, steps: list[str]
) -> None:
    """Whether they come in one batch, one commit or several; of each comes a copy."""
    texts = {"a": FIRST, "b": SECOND, "c": FIRST.upper(), "d": SECOND.upper()}
    place = Place(database, tmp_path, postgres_url.lshdb)
    with place.create("x") as index:
        for keys in steps:
            index.add((key, texts[key]) for key in keys)
        pairs = {(pair.key1, pair.key2) for pair in index.pairs(threshold=1.0)}
        assert pairs == {("a", "c"), ("b", "d")}
        assert index.stats().exact_copies == 2
        assert index.remove(["a", "c"]).removed == 2
        index.add([("e", FIRST)])  # whose bucket has another content
        assert {hit.key for hit in index.query(FIRST, threshold=1.0)} == {"e"}
        assert {hit.key for hit in index.query(SECOND, threshold=1.0)} == {"b", "d"}
        index.compact()
        index.add([("f", FIRST), ("g", SECOND)])
        assert {hit.key for hit in index.query(FIRST, threshold=1.0)} == {"e", "f"}
        assert index.check() == []
    drop_schemas(postgres_url, place.schemas)


def test_merge_and_repair_tell_them_apart(tmp_path: Path) -> None:
    for name, text in (("one", FIRST), ("other", SECOND)):
        with Index.create(tmp_path / name) as index:
            index.add([(name, text)])
    with Index.open(tmp_path / "one") as index:
        with Index.open(tmp_path / "other") as other:
            index.merge(other)
        index.add([("copy", SECOND)])
        assert [(pair.key1, pair.key2) for pair in index.pairs(threshold=1.0)] == [
            ("other", "copy")
        ]
    for orders in (tmp_path / "one").glob("orders.*"):
        orders.unlink()
    Index.repair(tmp_path / "one")
    with Index.open(tmp_path / "one") as index:
        assert {hit.key for hit in index.query(SECOND, threshold=1.0)} == {"copy", "other"}
        assert {hit.key for hit in index.query(FIRST, threshold=1.0)} == {"one"}
        assert index.check() == []
