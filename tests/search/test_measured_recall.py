"""Measured recall: against all pairs compared one by one, and against indexes that lose some."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, MeasuredRecall, ParameterError, RecallSlice, TextNotStoredError
from lshdb.search import all_rows, all_texts, measured_recall
from tests.conftest import family_corpus, make_text, pair_set
from tests.raw import change, rows_of
from tests.without_kernel import use_reference

Make = Callable[..., Index]
CORPUS = family_corpus(3, families=14)


_LEVELS: dict[str, dict[tuple[str, str], float]] = {}
"""What was compared in this process: the same bodies are asked about in several ways."""


def levels_of(index: Index, bodies: dict[str, Any]) -> dict[tuple[str, str], float]:
    names = ("metric", "scheme", "unit", "k", "bag", "dim", "dtype", "seed")
    name = f"{[getattr(index.params, each) for each in names]} {len(bodies)}"
    if name not in _LEVELS:
        family = index._family
        keys = [*bodies]
        points = family.points(family.contents([*bodies.values()]))
        one, other = np.triu_indices(len(keys), 1)
        found = [
            family.levels([points[i]], [points[j]])[0] if len(points[i]) and len(points[j]) else 0.0
            for i, j in zip(one.tolist(), other.tolist(), strict=True)
        ]
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        _LEVELS[name] = dict(zip(((keys[i], keys[j]) for i, j in pairs), found, strict=True))
    return _LEVELS[name]


def counts_of(
    index: Index, bodies: dict[str, Any], found: MeasuredRecall, drawn: set[str] | None = None
) -> list[tuple[int, int]]:
    """(pairs, found) of each slice, the slow way: every two bodies by themselves."""
    levels = levels_of(index, bodies)
    level = index.params.curve.level
    lowest = found.slices[-1]
    furthest = lowest.high if index.params.kind.is_distance else lowest.low
    reached = {
        threshold: {pair[:2] for pair in pair_set(index, threshold=threshold, verify="exact")}
        for threshold in (found.threshold, furthest)
    }
    result = []
    for one in found.slices:
        low, high = sorted((level(one.low), level(one.high)))
        pairs = hits = 0
        for key1, key2 in itertools.combinations(bodies, 2):
            if drawn is not None and not {key1, key2} & drawn:
                continue
            near = levels[key1, key2]
            if near == low if low == high else low <= near < high:
                asked = found.threshold if near >= level(found.threshold) else furthest
                pairs += 1
                hits += bool({(key1, key2), (key2, key1)} & reached[asked])
        result.append((pairs, hits))
    return result


def measured(found: MeasuredRecall) -> list[tuple[int, int]]:
    for one in (*found.slices, found.total):
        missed = one.no_band + one.too_few_slots + one.left_out + one.lost
        assert one.pairs == one.found + missed
        if one.recall is not None and one.lower is not None and one.upper is not None:
            assert 0 <= one.lower <= one.recall <= one.upper <= 1
            assert one.recall == one.found / one.pairs and 0 < one.effective <= one.pairs + 1e-9
    level = found.params.curve.level
    within = [
        one
        for one in found.slices
        if min(level(one.low), level(one.high)) >= level(found.threshold)
    ]
    assert found.total.pairs == sum(one.pairs for one in within)
    assert found.total.found == sum(one.found for one in within)
    assert [one.promise is None for one in found.slices] == [
        one not in within for one in found.slices
    ]
    return [(one.pairs, one.found) for one in found.slices]


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_texts, "_SHINGLE_BYTES", 2**27 // 300)
    monkeypatch.setattr(all_texts, "_TEXTS_ASK", 7)
    monkeypatch.setattr(measured_recall, "_PAIRS", 20)
    monkeypatch.setattr(measured_recall, "_EXPLAINED", 5)
    monkeypatch.setattr(all_rows, "_ROWS_ASK", 4)
    monkeypatch.setattr(all_rows, "_BLOCK_BYTES", 3 * 8 * 32)
    monkeypatch.setattr(all_rows, "_PAIRS", 2)
    monkeypatch.setattr(all_rows, "_ELEMENT_BYTES", 2**27 // 300)


def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    use_reference(monkeypatch)


WAYS = [plainly, in_blocks, without_kernel]
Way = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "parameters",
    [
        {"threshold": 0.7, "bands": 4, "rows": 6},
        {"threshold": 0.5, "k": 2, "bag": True, "bands": 3, "rows": 4},
        {"threshold": 0.8, "unit": "char"},
    ],
    ids=["words", "bags", "characters"],
)
def test_pairs_of_texts_are_those_compared_one_by_one(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], way: Way
) -> None:
    bodies = dict(CORPUS)
    index = make_index(**parameters)
    index.add(bodies.items())
    index.remove(["f003-0", "f003-copy"])
    del bodies["f003-0"], bodies["f003-copy"]
    index.add([("again", bodies["f001-0"]), ("empty", " ")])
    bodies["again"] = bodies["f001-0"]
    way(monkeypatch)
    found = index.recall(furthest=0.2)
    assert measured(found) == counts_of(index, bodies, found)
    assert sum(one.no_band for one in found.slices) and not found.lost
    assert found.slices[0].pairs >= 4 and found.is_exact and found.documents == len(bodies)


def vectors(seed: int, n: int = 60) -> list[np.ndarray]:
    """Groups of vectors, each near its first, at all distances."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 12))
    made = [
        centres[number % 6] + rng.normal(scale=0.03 * (number // 6) ** 1.3, size=12)
        for number in range(n)
    ]
    return [*made, made[0]]


def whole_numbers(seed: int) -> list[np.ndarray]:
    return [np.clip(np.round(3 * one + 10), 0, 30) for one in vectors(seed)]


def bits(seed: int, n: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    centres = rng.random((6, 70)) < 0.4
    made = [
        (centres[number % 6] ^ (rng.random(70) < 0.012 * (number // 6))).astype(int).tolist()
        for number in range(n)
    ]
    return [*made, made[0]]


def weights(seed: int, n: int = 50) -> list[dict[str, float]]:
    rng = random.Random(seed)
    centres = [{f"w{rng.randrange(60)}": rng.uniform(0.5, 4) for _ in range(15)} for _ in range(5)]
    made = [
        {word: weight * rng.uniform(1 - 0.015 * (number // 5), 1) for word, weight in one.items()}
        for number, one in zip(range(n), itertools.cycle(centres))
    ]
    return [*made, made[0], {"w1": 1.0}]


KINDS: dict[str, tuple[Any, dict[str, Any], float]] = {
    "cosine": (vectors, {"metric": "cosine", "dim": 12, "threshold": 0.9, "bands": 4,
                         "rows": 16, "num_perm": 64}, 0.3),
    "l1": (vectors, {"metric": "l1", "dim": 12, "threshold": 3.0, "bands": 3, "rows": 6,
                     "width": 8.0}, 9.0),
    "l2": (vectors, {"metric": "l2", "dim": 12, "threshold": 1.0, "dtype": "float64",
                     "bands": 3, "rows": 6, "width": 3.0}, 3.5),
    "unary": (whole_numbers, {"metric": "l1", "scheme": "unary", "dim": 12, "width": 30,
                              "threshold": 12, "dtype": "uint8", "bands": 4, "rows": 20}, 40),
    "hamming": (bits, {"metric": "hamming", "dim": 70, "threshold": 6, "bands": 4,
                       "rows": 16}, 20),
    "jaccard-bits": (bits, {"metric": "jaccard-bits", "dim": 70, "threshold": 0.8, "bands": 3,
                            "rows": 6, "num_perm": 32}, 0.3),
    "weighted": (weights, {"metric": "weighted-jaccard", "threshold": 0.9, "bands": 2,
                           "rows": 24}, 0.4),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_other_bodies_are_those_compared_one_by_one(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, kind: str, way: Way
) -> None:
    make_bodies, parameters, furthest = KINDS[kind]
    bodies = {f"d{number}": body for number, body in enumerate(make_bodies(1))}
    index = make_index(**parameters)
    index.add(bodies.items())
    index.remove("d7")
    del bodies["d7"]
    way(monkeypatch)
    found = index.recall(sample=None, furthest=furthest, memory=2**20)
    assert measured(found) == counts_of(index, bodies, found)
    assert sum(one.no_band for one in found.slices) and found.slices[0].pairs
    assert sum(one.pairs > 0 for one in found.slices) > 2


@pytest.mark.parametrize("way", [plainly, in_blocks])
def test_a_sample_counts_each_pair_of_a_drawn_document_once(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    bodies = dict(CORPUS)
    index = make_index(threshold=0.7, bands=4, rows=6)
    index.add(bodies.items())
    way(monkeypatch)
    held = rows_of(
        index.path, "SELECT key, signature_id FROM document WHERE signature_id IS NOT NULL"
    )
    found = index.recall(sample=25, seed=4, furthest=0.2)
    # Copies cannot be told apart: which of them was drawn does not matter for the counts.
    n_of = np.bincount([one for _, one in held])
    drawn = measured_recall._drawn(n_of, 25, 4)
    assert drawn.sum() == 25 and (drawn <= n_of).all()
    names: set[str] = set()
    for number, count in enumerate(drawn.tolist()):
        names |= set([key for key, one in held if one == number][:count])
    assert measured(found) == counts_of(index, bodies, found, names)
    assert found.sampled == 25 and not found.is_exact
    again = index.recall(sample=25, seed=4, furthest=0.2, workers=3)
    assert again == found != index.recall(sample=25, seed=5, furthest=0.2)


def test_a_cap_on_buckets_counts_as_a_loss(make_index: Make) -> None:
    rng = random.Random(5)
    text = make_text(rng, 60)
    texts = [(f"d{n:02}", f"{text} e{n % 12} f{n}") for n in range(24)]
    copies = [(f"c{n}", text) for n in range(5)]
    index = make_index(threshold=0.7)
    index.add([*texts, *copies])
    capped = index.recall(sample=None, max_bucket=4)
    pairs = pair_set(index, max_bucket=4)
    assert capped.total.found == len(pairs) < capped.total.pairs == len(pair_set(index))
    assert capped.total.left_out == capped.total.pairs - len(pairs) and not capped.lost
    assert capped.is_kept is False and capped.max_bucket == 4
    whole = index.recall(sample=None, max_bucket="none")
    assert whole.is_kept and whole.total.found == whole.total.pairs and whole.max_bucket is None


def without_band(path: Path, band: int) -> int:
    """Take the postings of one band out of an index; return how many there were."""
    ((lost,),) = rows_of(path, "SELECT count(*) FROM band")
    change(path, f"UPDATE band SET b{band} = -signature_id")  # alone in its bucket
    return int(lost)


@pytest.mark.sqlite("takes rows out of its tables")
@pytest.mark.usefixtures("no_orders")
def test_a_band_that_is_gone_is_noticed(make_index: Make, tmp_path: Path) -> None:
    index = make_index(threshold=0.7, bands=4, rows=6)
    index.add(CORPUS)
    sound = index.recall(sample=None)
    index.close()
    damaged = shutil.copytree(index.path, tmp_path / "damaged.lshdb")
    assert without_band(damaged, 2)
    with Index.open(damaged) as hurt:
        found = hurt.recall(sample=None)
        assert found.lost > 0 == sound.lost
        assert [one.pairs for one in found.slices] == [one.pairs for one in sound.slices]
        assert found.total.found + found.total.lost == sound.total.found
        assert found.total.found == len(pair_set(hurt))
        part = hurt.recall(sample=30)
        assert part.lost and part.total.found + part.total.lost <= sound.total.found


@pytest.mark.sqlite("changes its stored parameters")
def test_a_promise_that_the_bands_cannot_keep_is_not_kept(make_index: Make, tmp_path: Path) -> None:
    index = make_index(threshold=0.7, bands=2, rows=9)
    index.add(CORPUS)
    assert index.params.recall < 0.1 and index.recall(sample=None).is_kept
    index.close()
    lying = shutil.copytree(index.path, tmp_path / "lying.lshdb")
    # Where the parameters are stored twice, both say so.
    change(lying, "UPDATE parameter SET value = '0.99' WHERE name = 'recall'")
    told = lying / "index.toml"
    told.write_text(re.sub("(?m)^recall = .*$", "recall = 0.99", told.read_text()))
    with Index.open(lying) as other:
        assert other.params.recall == 0.99
        found = other.recall(sample=None)
        assert found.is_kept is False and found.at_threshold < 0.1
        # What was measured says so too, without the curve.
        assert found.total.is_kept is False


def test_beyond_the_threshold_the_promise_is_that_of_the_bands(make_index: Make) -> None:
    index = make_index(threshold=0.9)
    index.add(CORPUS)
    found = index.recall(threshold=0.5)
    assert found.threshold == 0.5 and found.promise == index.params.recall_at(0.5) < 0.9
    assert index.recall(threshold=0.95).promise == index.params.recall
    assert min(one.low for one in found.slices) == 0.2


def test_nothing_to_compare_says_nothing(make_index: Make) -> None:
    index = make_index(threshold=0.8)
    found = index.recall()
    assert found.documents == found.sampled == 0 and found.is_kept is None
    index.add([("a", "one two three four five six"), ("b", " ")])
    found = index.recall()
    assert found.documents == 1 and found.is_kept is None and found.total.recall is None
    assert all(one.expected is None and one.effective == 0 for one in found.slices)


def test_bodies_that_are_not_stored_cannot_be_compared(make_index: Make) -> None:
    with pytest.raises(TextNotStoredError, match="texts"):
        make_index("a.lshdb", store_text=False).recall()
    index = make_index("b.lshdb", metric="l2", dim=3, threshold=1.0, store_text=False)
    with pytest.raises(TextNotStoredError, match="vectors"):
        index.recall()


@pytest.mark.parametrize(
    "wrong",
    [{"sample": 0}, {"sample": 1.5}, {"threshold": 2.0}, {"furthest": -1}, {"seed": -1},
     {"max_bucket": 1}, {"memory": 7}, {"workers": 0}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make_index: Make, wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        make_index().recall(**wrong)


def test_wilson_is_wilson() -> None:
    """Agresti and Coull, The American Statistician 52 (1998): 0 of 10 is 0 to .278 at 95 %."""
    low, high = measured_recall.wilson(0.0, 10, 1.959964)
    assert low == 0 and high == pytest.approx(0.2775, abs=1e-4)
    low, high = measured_recall.wilson(0.8, 10, 1.959964)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    low, high = measured_recall.wilson(1.0, 40.5)
    assert high == 1.0 and low == pytest.approx(40.5 / (40.5 + 2.5758293**2))


def test_intervals_hold_what_is_expected(make_index: Make) -> None:
    """Over many seeds, for pairs that depend on each other: families of texts that are alike."""
    rng = random.Random(11)
    texts = []
    for family in range(10):
        words = make_text(rng, 100).split()
        others = [*words[:70], *make_text(rng, 30).split()]
        for number, text in enumerate((words, others)):
            texts += [(f"{family}{number}{n}", " ".join([*text, f"more{n}"])) for n in range(4)]
    inside, outside_if_independent, n = 0, 0, 20
    for seed in range(n):
        index = make_index(f"{seed}.lshdb", threshold=0.6, bands=4, rows=5, num_perm=20, seed=seed)
        index.add(texts)
        found = index.recall(sample=None, furthest=0.4)
        (one,) = [each for each in found.slices if each.pairs > 150]
        assert one.expected is not None and one.recall is not None
        assert one.lower is not None and one.upper is not None and one.effective < one.pairs / 4
        inside += one.lower <= one.expected <= one.upper
        low, high = measured_recall.wilson(one.recall, one.pairs)
        outside_if_independent += not low <= one.expected <= high
    assert inside >= n - 1
    assert outside_if_independent > n / 5  # so the test can tell


def test_slices_begin_at_round_numbers_and_at_the_threshold(make_index: Make) -> None:
    def edges(found: MeasuredRecall) -> list[float]:
        return [one.low for one in found.slices]

    index = make_index("a.lshdb", threshold=0.83)
    assert edges(index.recall()) == [
        1, 0.95, 0.9, 0.85, 0.83, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.53
    ]  # fmt: skip
    assert edges(make_index("d.lshdb", threshold=0.7).recall())[-2:] == [0.45, 0.4]
    index = make_index("b.lshdb", metric="hamming", dim=64, threshold=7)
    highs = [one.high for one in index.recall().slices]
    assert highs == [0, *range(1, 15)]
    index = make_index("c.lshdb", metric="l2", dim=4, threshold=0.3)
    found = index.recall(furthest=1.0)
    assert [one.high for one in found.slices] == [0, *(n / 10 for n in range(1, 11))]
    assert isinstance(found.slices[0], RecallSlice) and found.rows()[0]["high"] == 0
