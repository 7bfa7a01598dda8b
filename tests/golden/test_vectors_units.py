"""Known answers of the other units and normalisations; never made again to make a test pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb.shingling import Shingler, canonical_content, shingle_hashes
from lshdb.signatures import shingle_content, sign, sign_contents
from lshdb.signatures.banding import bucket_keys
from tests.golden import plain
from tests.golden.make_vectors import (
    describe_hashes,
    describe_keys,
    describe_signature,
    describe_text,
    long_text,
)
from tests.golden.make_vectors_units import SHINGLINGS, TEXTS, URL_SHINGLINGS, URLS

VECTORS = json.loads(Path(__file__).with_name("vectors_units.json").read_text(encoding="ascii"))[
    "vectors"
]


def _name(vector: dict[str, Any]) -> str:
    return "-".join(str(vector[name]).replace(" ", "-") for name in ("name", "unit", "k", "steps"))


def _body(vector: dict[str, Any]) -> Any:
    return long_text() if vector["body"] is None else vector["body"]


@pytest.mark.parametrize("vector", VECTORS, ids=_name)
def test_known_answers(vector: dict[str, Any]) -> None:
    unit, k, bag, steps = (vector[name] for name in ("unit", "k", "bag", "steps"))
    stop_tokens = frozenset(vector.get("stop_tokens", "").split())
    shingler = Shingler(unit, k, bag, steps, stop_tokens)
    content = shingler.canonical(_body(vector))
    if "shingles" in vector:
        assert content == "\n".join(vector["shingles"])
    if "normalised" in vector:
        assert content == canonical_content(_body(vector), steps)
        assert describe_text(str(content)) == vector["normalised"]
    hashes = shingle_hashes(content, unit=unit, k=k, bag=bag)
    assert shingle_content(content, unit=unit, k=k, bag=bag).tolist() == hashes.tolist()
    described = describe_hashes(hashes.tolist())
    assert described == {name: vector[name] for name in described}
    rows, counts = sign_contents(
        [content], unit=unit, k=k, bag=bag, scheme="fss", num_perm=128, seed=1
    )
    assert counts.tolist() == [vector["count"]]
    if vector["count"]:
        assert describe_signature(rows[0].tolist()) == vector["signature"]
        assert (rows == sign([hashes], scheme="fss", num_perm=128, seed=1)).all()
        keys = bucket_keys(rows, bands=25, rows=5)[0].tolist()
        assert describe_keys(keys)["keys"] == vector["keys"]
    else:
        assert not np.any(rows)


@pytest.mark.parametrize("vector", VECTORS, ids=_name)
def test_the_plain_path_still_gives_them(vector: dict[str, Any]) -> None:
    unit, k, bag, steps = (vector[name] for name in ("unit", "k", "bag", "steps"))
    hashes = plain.shingle_hashes(
        _body(vector), unit=unit, k=k, bag=bag, steps=steps,
        stop_tokens=vector.get("stop_tokens", "").split(),
    )  # fmt: skip
    described = describe_hashes(hashes)
    assert described == {name: vector[name] for name in described}


def test_the_vectors_cover_what_they_should() -> None:
    listed = [(vector["name"], vector["body"], vector["unit"]) for vector in VECTORS]
    for name, body in TEXTS:
        shown = None if len(body) > 2000 else body
        wanted = [unit for unit, *_ in SHINGLINGS if isinstance(body, str) or unit == "line"]
        assert [unit for n, b, unit in listed if n == name and b == shown] == wanted
    for name, body in URLS:
        found = [v for v in VECTORS if v["name"] == name and v["unit"] == "url"]
        assert [v["body"] for v in found] == [body] * len(URL_SHINGLINGS)


def test_the_example_of_the_mirrored_url() -> None:
    (first,) = [v for v in VECTORS if v["name"] == "mirror" and v["k"] == 2 and not v["bag"]]
    assert first["shingles"] == [
        "cellblock inmates 0", "dilbert personal 2", "inmates dilbert 1", "personal foo 3",
    ]  # fmt: skip
