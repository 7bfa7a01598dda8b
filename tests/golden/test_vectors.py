"""lshdb, and the plain path beside it, still give the answers that were written down.

These vectors are never made again to make a test pass: see ``make_vectors.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb.shingling import canonical_content, shingle_hashes
from lshdb.signatures import SCHEMES, sign
from lshdb.signatures.banding import bucket_keys
from tests.golden import plain
from tests.golden.make_vectors import (
    INPUTS,
    SHINGLINGS,
    SIGNATURES,
    SIGNATURES_OF,
    describe_hashes,
    describe_keys,
    describe_signature,
    describe_text,
)

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="ascii"))[
    "vectors"
]


class Lshdb:
    """The path under test, in the terms of the plain one."""

    @staticmethod
    def normalise(text: str) -> str:
        content = canonical_content(text)
        assert isinstance(content, str)
        return content

    @staticmethod
    def shingle_hashes(body: str | list[str], *, unit: str, k: int, bag: bool) -> list[int]:
        return shingle_hashes(canonical_content(body), unit=unit, k=k, bag=bag).tolist()

    @staticmethod
    def signature(hashes: list[int], *, scheme: str, num_perm: int, seed: int) -> list[int]:
        elements = np.array(hashes, dtype=np.uint64)
        return sign([elements], scheme=scheme, num_perm=num_perm, seed=seed)[0].tolist()

    @staticmethod
    def bucket_keys(signature: list[int], *, bands: int, rows: int) -> list[int]:
        row = np.array([signature], dtype=np.uint16)
        return bucket_keys(row, bands=bands, rows=rows)[0].tolist()


class Plain:
    """The plain path."""

    normalise = staticmethod(plain.normalise)
    shingle_hashes = staticmethod(plain.shingle_hashes)
    bucket_keys = staticmethod(plain.bucket_keys)

    @staticmethod
    def signature(hashes: list[int], *, scheme: str, num_perm: int, seed: int) -> list[int]:
        return plain.SCHEMES[scheme](hashes, num_perm=num_perm, seed=seed)


@pytest.fixture(params=[Lshdb, Plain], ids=["lshdb", "plain"])
def path(request: pytest.FixtureRequest) -> Any:
    return request.param


def _answers(entry: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """The stored answers to what was described; an entry holds its parameters too."""
    return {name: entry[name] for name in described}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"].replace(" ", "-"))
def test_known_answers(vector: dict[str, Any], path: Any) -> None:
    body = vector["body"]
    if isinstance(body, str):
        assert describe_text(path.normalise(body)) == vector["normalised"]
    stored = vector["shinglings"]
    for shingling in stored:
        hashes = path.shingle_hashes(
            body, unit=shingling["unit"], k=shingling["k"], bag=shingling["bag"]
        )
        expected = stored[shingling.get("hashes_of", stored.index(shingling))]
        described = describe_hashes(hashes)
        assert described == _answers(expected, described), shingling
        for entry in shingling.get("signatures", []):
            signature = path.signature(
                hashes, scheme=entry["scheme"], num_perm=entry["num_perm"], seed=entry["seed"]
            )
            assert len(signature) == entry["num_perm"]
            keys = path.bucket_keys(signature, bands=entry["bands"], rows=entry["rows"])
            assert len(keys) == entry["bands"]
            described = describe_signature(signature) | describe_keys(keys)
            assert described == _answers(entry, described), entry


def test_the_vectors_cover_what_they_should() -> None:
    assert {scheme for scheme, *_ in SIGNATURES} == set(SCHEMES)
    assert [(vector["name"], vector["body"]) for vector in VECTORS] == INPUTS
    for vector in VECTORS:
        stored = vector["shinglings"]
        assert [(entry["unit"], entry["k"], entry["bag"]) for entry in stored] == SHINGLINGS
        for entry, shingling in zip(stored, SHINGLINGS, strict=True):
            original = stored[entry["hashes_of"]] if "hashes_of" in entry else entry
            wanted = SIGNATURES_OF.get(shingling, 1 if original is entry else 0)
            signed = [
                tuple(signature[name] for name in ("scheme", "seed", "num_perm", "bands", "rows"))
                for signature in entry.get("signatures", [])
            ]
            assert signed == (SIGNATURES[:wanted] if original["count"] else [])


def test_the_vectors_tell_inputs_apart() -> None:
    """An input that repeats another one's answers is meant to."""
    same: dict[str, list[str]] = {}
    for vector in VECTORS:
        first = vector["shinglings"][0]
        if first["count"]:
            same.setdefault(first["sha256"], []).append(vector["name"])
    assert [names for names in same.values() if len(names) > 1] == [
        ["accents composed", "accents decomposed"]
    ]
