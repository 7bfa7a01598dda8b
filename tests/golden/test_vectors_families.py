"""Families of hash functions, and the plain ones beside them, give the answers written down.

These vectors are never made again to make a test pass: see ``make_vectors.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lshdb.params.index_params import IndexParams
from lshdb.params.metrics import METRICS
from lshdb.signatures.families import family_of
from tests.golden.make_vectors_families import entry

VECTORS = json.loads(Path(__file__).with_name("vectors_families.json").read_text("ascii"))[
    "vectors"
]


@pytest.mark.parametrize("known", VECTORS, ids=lambda known: f"{known['metric']}-{known['scheme']}")
def test_known_answers(known: dict[str, Any]) -> None:
    kind = METRICS[known["metric"]]
    dense = {"dim": len(known["body"]), "dtype": "bits" if kind.body == "bits" else "float64"}
    family = family_of(
        IndexParams(
            metric=known["metric"], scheme=known["scheme"], num_perm=known["num_perm"],
            seed=known["seed"], width=known["width"], bands=1, rows=1, threshold=0.5, recall=0.9,
            **(dense if kind.is_dense else {}),
        )
    )  # fmt: skip
    assert family.refusal(known["body"]) is None
    rows, _ = family.sign_contents(family.contents([known["body"]]))
    assert rows[0].tolist() == known["words"]


@pytest.mark.parametrize("known", VECTORS, ids=lambda known: f"{known['metric']}-{known['scheme']}")
def test_the_plain_path_still_gives_them(known: dict[str, Any]) -> None:
    again = entry(known["metric"], known["scheme"], known["body"], known["seed"])
    assert again == known


def test_every_family_is_there() -> None:
    known = {(each["metric"], each["scheme"]) for each in VECTORS}
    expected = {(metric, scheme) for metric, kind in METRICS.items() for scheme in kind.families}
    assert expected - known == {("jaccard", "fss"), ("jaccard", "universal")}  # in vectors.json
    assert len(VECTORS) == 92
