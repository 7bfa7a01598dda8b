"""Parameters: the S-curve, the choice of bands against brute force, and every refusal."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, IndexParams, ParameterError, estimate
from lshdb.params.index_params import FORMAT, candidate_probability, choose_bands
from tests.chosen import choose_params

# The S-curve


@pytest.mark.parametrize(
    ("similarity", "printed"),
    [
        (0.2, "0.006"),
        (0.3, "0.047"),
        (0.4, "0.186"),
        (0.5, "0.470"),
        (0.6, "0.802"),
        (0.7, "0.975"),
    ],
)
def test_the_textbooks_table(similarity: float, printed: str) -> None:
    """Mining of Massive Datasets, figure 3.8: 20 bands of 5 rows."""
    assert f"{candidate_probability(similarity, 20, 5):.3f}" == printed


def test_the_last_line_of_the_textbooks_table() -> None:
    assert f"{candidate_probability(0.8, 20, 5):.4f}" == "0.9996"


@pytest.mark.parametrize(
    "similarity", [1e-300, 1e-100, 1e-30, 1e-9, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.95, 0.999999]
)
@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (1, 20), (20, 5), (9, 13), (255, 1), (255, 4)])
def test_exact_to_rounding(similarity: float, bands: int, rows: int) -> None:
    """Against rational arithmetic, also where 1 - s^r in floating point is 1."""
    exact = 1 - (1 - Fraction(similarity) ** rows) ** bands
    expected = float(exact)
    measured = candidate_probability(similarity, bands, rows)
    if expected < 1e-300:
        assert measured <= 1e-300
    else:
        assert measured == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (20, 5), (255, 16)])
def test_the_ends_of_the_curve(bands: int, rows: int) -> None:
    assert candidate_probability(0.0, bands, rows) == 0.0
    assert candidate_probability(1.0, bands, rows) == 1.0


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (20, 5), (9, 13), (255, 1), (1, 128)])
def test_the_curve_rises(bands: int, rows: int) -> None:
    values = [candidate_probability(step / 1000, bands, rows) for step in range(1001)]
    assert values == sorted(values)
    assert all(0.0 <= value <= 1.0 for value in values)


def test_more_bands_find_more_and_more_rows_fewer() -> None:
    for step in range(1, 100):
        similarity = step / 100
        by_bands = [candidate_probability(similarity, bands, 5) for bands in range(1, 60)]
        assert by_bands == sorted(by_bands)
        by_rows = [candidate_probability(similarity, 20, rows) for rows in range(1, 60)]
        assert by_rows == sorted(by_rows, reverse=True)


# The choice of bands

THRESHOLDS = (0.05, 0.2, 0.3, 0.5, 0.65, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0)
RECALLS = (0.05, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999)
NUM_PERMS = (1, 2, 5, 16, 64, 100, 128, 256, 300)


def recall_of(threshold: float, bands: int, rows: int) -> float:
    return 1.0 - (1.0 - threshold**rows) ** bands


@cache
def false_candidates(threshold: float, bands: int, rows: int) -> float:
    """Candidates below the threshold among a million of exponential similarity with mean 0.05.

    By Gauss and Legendre's rule on 8 pieces, so not by the sums of the code that is tested.
    """
    total = 0.0
    points, weights = np.polynomial.legendre.leggauss(24)
    for piece in range(8):
        width = threshold / 8
        s = (piece + (points + 1) / 2) * width
        found = 1.0 - (1.0 - s**rows) ** bands
        total += float((weights * found * np.exp(-s / 0.05) / 0.05).sum()) * width / 2
    return 1e6 * total


def feasible(threshold: float, recall: float, num_perm: int) -> Iterator[tuple[int, int]]:
    for rows in range(1, num_perm + 1):
        for bands in range(1, min(255, num_perm // rows) + 1):
            if recall_of(threshold, bands, rows) >= recall:
                yield bands, rows


@pytest.mark.parametrize("num_perm", NUM_PERMS)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_choice_is_sound_and_the_cheapest(threshold: float, num_perm: int) -> None:
    for recall in RECALLS:
        costs = {
            (bands, rows): bands + false_candidates(threshold, bands, rows)
            for bands, rows in feasible(threshold, recall, num_perm)
        }
        if not costs:
            with pytest.raises(ParameterError, match="no bands and rows"):
                choose_bands(threshold, recall, num_perm)
            continue
        bands, rows = choose_bands(threshold, recall, num_perm)
        assert bands * rows <= num_perm
        assert 1 <= bands <= 255
        assert candidate_probability(threshold, bands, rows) >= recall
        # Both integrals are approximations; a choice within a thousandth of the best is the best.
        assert costs[bands, rows] <= min(costs.values()) * 1.001


def test_recall_is_met_on_a_fine_grid() -> None:
    for step in range(30, 101):
        threshold = step / 100
        for recall in (0.5, 0.9, 0.95, 0.99):
            try:
                bands, rows = choose_bands(threshold, recall, 128)
            except ParameterError:
                assert recall_of(threshold, 128, 1) < recall
                continue
            assert candidate_probability(threshold, bands, rows) >= recall
            assert bands * rows <= 128


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.95, 0.99])
def test_recall_is_met_where_a_band_more_is_just_needed(threshold: float) -> None:
    """A recall that some choice just reaches, and the next larger one, which it just misses."""
    for recall in (0.05, 0.5, 0.9, 0.99, 0.9999):
        bands, rows = choose_bands(threshold, recall, 256)
        reached = candidate_probability(threshold, bands, rows)
        assert choose_bands(threshold, reached, 256) == (bands, rows)
        missed = math.nextafter(reached, 1.0)
        again = choose_bands(threshold, missed, 256)
        assert again != (bands, rows)
        assert candidate_probability(threshold, *again) >= missed


def test_never_more_than_255_bands() -> None:
    """With 4096 slots and a low threshold more would be wanted."""
    bands, rows = choose_bands(0.012, 0.95, 4096)
    assert (bands <= 255, rows) == (True, 1)
    assert recall_of(0.012, bands, rows) >= 0.95
    with pytest.raises(ParameterError):
        choose_bands(0.01, 0.95, 4096)


def test_what_cannot_be_promised_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        choose_bands(0.1, 0.9999999, 128)
    assert "128 slots" in str(caught.value)
    assert "0.1 " in str(caught.value)
    assert "0.9999999" in str(caught.value) or "probability 1" in str(caught.value)
    assert caught.value.hint is not None
    assert "--num-perm" in caught.value.hint


def test_the_usual_optimisers_choice_would_miss_most() -> None:
    """The numbers that the docstring gives: 9 bands of 13 find 40 % of the pairs at 0.8."""
    assert candidate_probability(0.8, 9, 13) == pytest.approx(0.40, abs=0.005)
    assert recall_of(0.8, *choose_bands(0.8, 0.99, 128)) >= 0.99


# IndexParams


def good(**changes: Any) -> IndexParams:
    given: dict[str, Any] = {"bands": 20, "rows": 5, "threshold": 0.8, "recall": 0.99}
    return IndexParams(**(given | changes))


def test_defaults() -> None:
    params = choose_params()
    assert params.metric == "jaccard"
    assert params.scheme == "fss"
    assert params.num_perm == 128
    assert params.seed == 1
    assert params.threshold == 0.8
    assert params.recall == 0.99
    assert params.unit == "word"
    assert params.k == 5
    assert params.bag is False
    assert params.text_rules == 2
    assert params.normalisation == "ignorable-nfkc-casefold-space"
    assert params.store_text is True
    assert (params.bands, params.rows) == choose_bands(0.8, 0.99, 128)
    assert FORMAT == 2


def test_choose_passes_everything_on() -> None:
    given: dict[str, Any] = {
        "threshold": 0.7,
        "recall": 0.9,
        "num_perm": 64,
        "unit": "char",
        "k": 7,
        "scheme": "universal",
        "seed": 2**63 - 1,
        "bag": True,
        "store_text": False,
    }
    params = choose_params(**given)
    assert {name: getattr(params, name) for name in given} == given
    assert (params.bands, params.rows) == choose_bands(0.7, 0.9, 64)
    assert params.recall_at(0.7) >= 0.9


@pytest.mark.parametrize(("unit", "k"), [("word", 5), ("char", 9)])
def test_k_comes_with_the_unit(unit: str, k: int) -> None:
    assert choose_params(unit=unit).k == k
    assert choose_params(unit=unit, k=3).k == 3


def test_given_bands_state_their_recall() -> None:
    params = choose_params(threshold=0.5, bands=20, rows=5)
    assert (params.bands, params.rows) == (20, 5)
    assert params.recall == candidate_probability(0.5, 20, 5)
    assert params.recall_at(0.5) == params.recall
    assert choose_params(threshold=1, bands=1, rows=128).recall == 1.0


def test_numbers_are_stored_as_floats() -> None:
    params = choose_params(threshold=1)
    assert type(params.threshold) is float
    assert type(params.recall) is float
    assert params.bands == 1


def test_recall_at_is_the_curve() -> None:
    params = good()
    for similarity in (0.0, 0.3, 0.8, 1.0):
        assert params.recall_at(similarity) == candidate_probability(similarity, 20, 5)


def test_items() -> None:
    params = good(bag=True)
    items = params.items()
    assert list(items) == [
        "metric",
        "scheme",
        "num_perm",
        "seed",
        "bands",
        "rows",
        "threshold",
        "recall",
        "text_rules",
        "unit",
        "k",
        "bag",
        "normalisation",
        "stop_tokens",
        "tokenizer",
        "store_text",
    ]
    assert IndexParams(**items) == params
    assert items["bag"] is True


def test_parameters_do_not_change() -> None:
    params = good()
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.seed = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        IndexParams("jaccard")  # type: ignore[misc, call-arg]
    assert params == good()
    assert params != good(seed=2)
    assert hash(params) == hash(good())


@pytest.mark.parametrize(
    "edge",
    [
        {"num_perm": 4096},
        {"num_perm": 100},
        {"num_perm": 1, "bands": 1, "rows": 1},
        {"seed": 0},
        {"seed": 2**63 - 1},
        {"num_perm": 255, "bands": 255, "rows": 1},
        {"num_perm": 4096, "bands": 1, "rows": 4096},
        {"k": 1},
        {"k": 255},
        {"threshold": 1.0},
        {"threshold": 1},
        {"threshold": 5e-324},
        {"recall": 0.0},
        {"recall": 1.0},
        {"scheme": "universal"},
        {"unit": "char"},
        {"bag": True},
        {"store_text": False},
    ],
    ids=repr,
)
def test_the_edges_are_allowed(edge: dict[str, Any]) -> None:
    params = good(**edge)
    assert {name: getattr(params, name) for name in edge} == edge


NAN = math.nan


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("metric", ["angle", "", "Jaccard", None]),
        ("scheme", ["minhash", "", "FSS", None, 1]),
        ("unit", ["bytes", "", "words", None, 5]),
        (
            "normalisation",
            ["nothing", "", None, "space-nfkc", "nfkc-nfkc", "space-lines", "nfkc-none"],
        ),
        ("num_perm", [0, -1, 4097, 128.0, True, "128", None, 99]),
        ("seed", [-1, 2**63, 2**64, 1.0, False, "1", None]),
        ("bands", [0, -1, 256, 20.0, True, "20", None, 26]),
        ("rows", [0, -1, 4097, 5.0, True, "5", None, 7]),
        ("k", [0, -1, 256, 5.0, True, "5", None]),
        ("threshold", [0, 0.0, -0.1, 1.0000001, NAN, math.inf, True, "0.8", None]),
        ("recall", [-0.1, 1.1, NAN, math.inf]),
    ],
)
def test_what_is_refused(name: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ParameterError) as caught:
            good(**{name: value})
        message = str(caught.value)
        assert name in message, (value, message)
        assert "expected" in message or "slots" in message, (value, message)
        assert repr(value) in message or "slots" in message, (value, message)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bands": 20}, "together"),
        ({"rows": 5}, "together"),
        ({"bands": 20, "rows": 5, "recall": 0.9}, "recall chooses bands"),
        ({"bands": 0, "rows": 5}, "bands is 0"),
        ({"bands": 256, "rows": 1, "num_perm": 4096}, "bands is 256"),
        ({"bands": 5, "rows": 0}, "rows is 0"),
        ({"bands": 5, "rows": 2.5}, "rows is 2.5"),
        ({"bands": 26, "rows": 5}, "130 slots"),
        ({"recall": 0.0}, "recall is 0.0"),
        ({"recall": 1.0}, "recall is 1.0"),
        ({"recall": 1.5}, "recall is 1.5"),
        ({"recall": NAN}, "recall is nan"),
        ({"threshold": 0.0}, "threshold is 0.0"),
        ({"threshold": 1.5}, "threshold is 1.5"),
        ({"threshold": NAN}, "threshold is nan"),
        ({"threshold": NAN, "bands": 20, "rows": 5}, "threshold is nan"),
        ({"threshold": "0.8"}, "threshold is '0.8'"),
        ({"threshold": 0.02}, "no bands and rows"),
        ({"num_perm": 0}, "num_perm is 0"),
        ({"num_perm": 4097}, "num_perm is 4097"),
        ({"num_perm": 2}, "no bands and rows"),
        ({"unit": "bytes"}, "unit is 'bytes'"),
        ({"unit": "bytes", "k": 5}, "unit is 'bytes'"),
        ({"k": 0}, "k is 0"),
        ({"k": 256}, "k is 256"),
        ({"scheme": "simhash"}, "scheme is 'simhash'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "seed is 9223372036854775808"),
    ],
    ids=repr,
)
def test_what_choose_refuses(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        choose_params(**given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "given"),
    [
        ("hamming", {"threshold": math.inf}),
        ("hamming", {"threshold": 2**20 + 1}),
        ("hamming", {"threshold": NAN}),
        ("l1", {"threshold": 1e308}),
        ("l1", {"threshold": 10**400}),
        ("l2", {"threshold": 5e-324}),
        ("l2", {"threshold": math.inf}),
        ("l2", {"threshold": 1, "width": 10**400}),
        ("l2", {"threshold": 1, "width": 1e-300}),
        ("l2", {"threshold": 1, "width": NAN}),
        ("cosine", {"threshold": -1}),
        ("cosine", {"dtype": np.float32}),
        ("cosine", {"dtype": np.dtype("i1")}),
        ("cosine", {"sample": 5}),
        ("cosine", {"sample": "abc"}),
        (["l2"], {}),
    ],
)
@pytest.mark.parametrize("bands", [{}, {"bands": 1, "rows": 2}])
def test_what_no_vectors_have(
    metric: Any, given: dict[str, Any], bands: dict[str, int], tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="; expected"):
        Index.create(tmp_path / "a", metric=metric, dim=8, **given, **bands)
    assert not list(tmp_path.iterdir())


def test_the_ends_of_what_vectors_may_have() -> None:
    for metric, threshold in (("l1", 1e-100), ("l2", 1e-100), ("l1", 1e200), ("l2", 1e200)):
        params = choose_params(metric=metric, dim=8, threshold=threshold)
        assert params.recall_at(threshold) >= 0.99 > params.recall_at(20 * threshold)
    for threshold in (0, 2**20):
        choose_params(metric="hamming", dim=8, threshold=threshold, bands=1, rows=1)


def test_the_type_and_the_sample_may_be_those_of_an_array(tmp_path: Path) -> None:
    array = np.random.default_rng(1).normal(size=(60, 8)).astype("f2")
    given = {"metric": "cosine", "dim": 8, "dtype": array.dtype}
    with Index.create(tmp_path / "a", **given, sample=iter(array)) as index:
        assert index.params.dtype == "float16" and type(index.params.dtype) is str
        chosen = index.params
    with Index.create(tmp_path / "b", **given, sample=list(array)) as index:
        assert index.params == chosen


def test_far_is_a_number() -> None:
    for far in ("x", True, [1]):
        with pytest.raises(ParameterError, match=r"far is .*expected a number"):
            estimate(metric="l2", dim=3, threshold=1, far=far)  # type: ignore[arg-type]
