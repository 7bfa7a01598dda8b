"""Every unit from end to end: the pairs and answers of an index are those of plain sets."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lshdb import Index, Tokenizer
from tests.conftest import edited, make_text, pair_set
from tests.golden import plain

SURE = {"threshold": 0.4, "bands": 128, "rows": 1, "num_perm": 128}
SEMICOLONS = Tokenizer(lambda text: text.split(";"), name="semicolons", version="1")


def corpus(between: str, start: str = "") -> list[tuple[str, str]]:
    """Families of edited texts whose words stand on lines, between semicolons, in paths."""
    rng = random.Random(5)
    documents = []
    for family in range(12):
        original = make_text(rng, 40)
        for member in range(4):
            pieces = edited(rng, original, member * 2).replace("bad", "B\xe4D").split()
            text = between.join(start + " ".join(pieces[at : at + 2]) for at in range(0, 40, 2))
            documents.append((f"f{family}-{member}", text))
    return documents


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize(
    ("options", "between", "start"),
    [
        ({"unit": "byte", "k": 6}, "\n", ""),
        ({"unit": "line", "k": 1}, "\r\n", ""),
        ({"unit": "token", "k": 2}, "\n", ""),
        ({"unit": "url", "stop_tokens": ["f"]}, "\n", "http://h.com/a/"),
        ({"unit": "word", "k": 2, "lowercase": False, "digits": "zero"}, " ", ""),
        ({"unit": "char", "strip_accents": True, "strip_punctuation": True}, "-", ""),
        ({"tokenizer": SEMICOLONS, "k": 1}, ";", ""),
    ],
    ids=lambda value: str(value.get("unit", "own")) if isinstance(value, dict) else None,
)
def test_pairs_are_those_of_plain_sets(
    make_index: Callable[..., Index], options: dict[str, Any], between: str, start: str, bag: bool
) -> None:
    documents = corpus(between, start)
    index = make_index(bag=bag, **options, **SURE)
    index.add(documents[:30], workers=1)
    index.add(documents[30:], workers=3)
    params = index.params
    sets = {}
    for key, text in documents:
        body = text.split(";") if params.tokenizer else text
        unit = "token" if params.tokenizer else params.unit
        shingles = plain.shingles(
            body, unit=unit, k=params.k, steps=params.normalisation,
            stop_tokens=params.stop_tokens.split(),
        )  # fmt: skip
        sets[key] = Counter(shingles if bag else set(shingles))
    expected = set()
    for (key1, one), (key2, other) in itertools.combinations(sorted(sets.items()), 2):
        similarity = (one & other).total() / (one | other).total()
        if similarity >= 0.4:
            expected.add((key1, key2, round(similarity, 9)))
    assert len(expected) > 20
    assert pair_set(index) == expected
    key, text = documents[0]
    near = {hit.key: round(hit.similarity, 9) for hit in index.query(text)}
    assert near.pop(key) == 1.0
    assert near == {
        (b if a == key else a): similarity for a, b, similarity in expected if key in (a, b)
    }
    assert index.count_shingles(text) == sets[key].total()
    assert {key: index.show(key).document.n_shingles for key in sets} == {
        key: shingles.total() for key, shingles in sets.items()
    }
