"""Weighted Jaccard similarity: exact, and as consistent weighted sampling estimates it."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lshdb.kernel.random_numbers import GOLDEN, Purpose
from lshdb.shingling import shingle_hashes
from lshdb.signatures import sign
from lshdb.signatures.weighted import sketch
from tests.golden.plain import key_of_seed, mix64
from tests.signatures.families import make, points_of, slots_of

TEXTS = (
    "a rose is a rose is a rose is a rose and a rose is not a daisy",
    "a rose is a rose is a daisy is a rose and a rose is not a rose",
    "a daisy is a daisy",
    "",
)


def plain_similarity(left: dict[str, float], right: dict[str, float]) -> Fraction:
    tokens = left.keys() | right.keys()
    pairs = [(Fraction(left.get(t, 0)), Fraction(right.get(t, 0))) for t in tokens]
    larger = sum(map(max, pairs))
    return Fraction(sum(map(min, pairs)), larger) if larger else Fraction(0)


def random_weights(rng: random.Random, n: int) -> dict[str, float]:
    return {
        f"t{rng.randrange(2 * n)}": rng.choice([0, 1, rng.gammavariate(0.5, 3)]) for _ in range(n)
    }


def test_levels_are_those_of_a_plain_computation() -> None:
    rng = random.Random(1)
    family = make("weighted-jaccard", "icws")
    for n in (0, 1, 2, 5, 30, 300):
        for _ in range(10):
            both = [random_weights(rng, n), random_weights(rng, n + rng.randrange(4))]
            points = points_of(family, both)
            (found,) = family.levels(points[:1], points[1:])
            assert found == pytest.approx(float(plain_similarity(*both)), rel=1e-14)
            assert family.levels(points[1:], points[:1])[0] == found


@pytest.mark.parametrize("k", [1, 2, 5])
def test_counts_give_the_similarity_of_bags_exactly(k: int) -> None:
    family = make("weighted-jaccard", "icws", k=k)
    contents = family.contents(list(TEXTS))
    points = family.points(contents)
    bags = [set(shingle_hashes(each, unit="word", k=k, bag=True).tolist()) for each in contents]
    for i in range(len(TEXTS)):
        for j in range(len(TEXTS)):
            either = len(bags[i] | bags[j])
            expected = len(bags[i] & bags[j]) / either if either else 0.0
            assert family.levels([points[i]], [points[j]]).tolist() == [expected]
            assert family.compare(contents[i], contents[j]) == expected


def test_the_estimate_agrees_with_bag_min_hash() -> None:
    rng = random.Random(2)
    texts = [" ".join(rng.choices("abcdefgh", [9, 7, 5, 3, 2, 1, 1, 1], k=120)) for _ in range(2)]
    shares: dict[str, list[float]] = {"icws": [], "bag": []}
    for seed in range(1, 41):
        family = make("weighted-jaccard", "icws", k=1, seed=seed)
        points = points_of(family, list(texts))
        slots = slots_of(family, points)
        shares["icws"].append(float((slots[0] == slots[1]).mean()))
        bags = [shingle_hashes(text, unit="word", k=1, bag=True) for text in texts]
        rows = sign(bags, scheme="universal", num_perm=128, seed=seed)
        shares["bag"].append(float((rows[0] == rows[1]).mean()))
    (level,) = family.levels(points[:1], points[1:])
    assert 0.5 < level < 0.95
    error = math.sqrt(level * (1.0 - level) / (40 * 128))
    for found in shares.values():
        assert abs(np.mean(found) - level) <= 4.5 * error
    # Independent slots: the variance over seeds is that of the binomial distribution.
    ratio = np.var(shares["icws"], ddof=1) / (level * (1.0 - level) / 128)
    assert abs(ratio - 1.0) <= 4.5 * math.sqrt(2 / 39)


def test_a_text_a_list_and_weights_are_the_same_elements() -> None:
    family = make("weighted-jaccard", "icws", k=1)
    weights: dict[str, Any] = {"rose": 4, "is": 3, "a": np.float32(4), "daisy": 0}
    bodies: list[Any] = ["a rose is a rose is a rose is a Rose", TEXTS[0].split()[:11], weights]
    points = points_of(family, bodies)
    for hashes, counts in points:
        assert hashes.tolist() == points[0][0].tolist()
        assert counts.tolist() == points[0][1].tolist()
        assert sorted(counts.tolist()) == [3.0, 4.0, 4.0]
        assert (np.diff(hashes.astype(object)) > 0).all()
    assert family.contents([weights]) == [{"a": 4.0, "is": 3.0, "rose": 4.0}]
    assert list(family.contents([weights])[0]) == ["a", "is", "rose"]


def test_a_weight_that_sums_do_not_show_gives_no_similarity_above_1() -> None:
    family = make("weighted-jaccard", "icws")
    rng = random.Random(11)
    for n in range(1, 200):
        weights = {f"t{number}": rng.random() for number in range(n % 40 + 1)}
        both = points_of(family, [weights, weights | {"more": 1e-17}])
        for left, right in (both, both[::-1]):
            assert 1.0 - 1e-15 <= family.levels([left], [right])[0] <= 1.0


def test_elements_and_sizes() -> None:
    family = make("weighted-jaccard", "icws", k=1)
    contents = family.contents(["b a b", {"y": 0.5, "x": 0.0}, {}, ""])
    assert [family.elements(content) for content in contents] == [["b", "b", "a"], ["y"], [], []]
    rows, sizes = family.sign_contents(contents)
    assert sizes.tolist() == [2, 1, 0, 0]
    assert rows.any(axis=1).tolist() == [True, True, False, False]
    assert family.levels(*[family.points(contents[2:3])] * 2).tolist() == [0.0]
    assert family.n_unassigned({"a": 1.0, "\U000e0fff": 1.0}) == 1


def plain_slot(elements: list[tuple[int, float]], seed: int, slot: int) -> int:
    """One slot by the definition, in Python's own numbers."""
    drawn = [key_of_seed(seed, int(Purpose.WEIGHTS) * 2**56 + 3 * slot + i) for i in range(3)]
    best = None
    for x, weight in sorted(elements):
        words = [mix64(x ^ key) for key in drawn]
        p, q = (
            (word // 2**32 + 0.5) / 2**32 * ((word % 2**32 + 0.5) / 2**32) for word in words[:2]
        )
        b, c, r = (words[2] // 2**12 + 0.5) / 2**52, -math.log(p), -math.log(q)
        t = math.floor(math.log(weight) / r + b)
        rank = math.log(c) - r * (t - b + 1)
        if best is None or rank < best[0]:
            best = rank, mix64((x + t * GOLDEN) % 2**64) % 2**16
    assert best is not None
    return best[1]


@pytest.mark.parametrize("n", [1, 2, 7, 60, 700])
def test_slots_are_those_of_the_definition(n: int) -> None:
    rng = random.Random(n)
    scales = [1e-149, 1e-3, 1.0, 1.0, 50.0, 1e150] if n < 60 else [1.0]
    sets = [
        [(rng.getrandbits(64), rng.choice(scales) * rng.uniform(0.1, 1.0)) for _ in range(n)]
        for _ in range(3)
    ]
    ordered = [sorted(each) for each in sets]
    rows = sketch(
        np.array([x for each in ordered for x, _ in each], dtype=np.uint64),
        np.array([weight for each in ordered for _, weight in each]),
        np.full(3, n, dtype=np.int64),
        num_perm=24,
        seed=5,
    )
    for each, row in zip(sets, rows.tolist(), strict=True):
        assert row == [plain_slot(each, 5, slot) for slot in range(24)]


def test_sampling_is_consistent() -> None:
    """More of an element only ever makes a slot go over to that element."""
    family = make("weighted-jaccard", "icws", num_perm=512)
    weights = {f"t{number}": 1.0 + number for number in range(10)}
    points = points_of(family, [weights, weights | {"t3": 4.1}, weights | {"t3": 9.0}])
    few, more, most = family.sign(points)
    (alone,) = family.sign(points_of(family, [{"t3": 9.0}]))
    assert (most[most != few] == alone[most != few]).all()
    assert (more != few).sum() < (most != few).sum()
