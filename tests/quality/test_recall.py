"""What the index promises to find, it finds: recall by similarity, precision, unbiased estimates.

The corpora are generated: pairs of documents of known exact similarity, spread over the whole
range, among unrelated ones. Seeds are fixed, so these tests give the same result each time; the
tolerances are those of sampling.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from lshdb import Index, candidate_probability
from tests.brute import brute_pairs
from tests.conftest import family_corpus, pair_set

Make = Callable[..., Index]
SLICES = 10


def planted_pairs(
    seed: int, pairs: int, size: int
) -> tuple[list[tuple[str, list[str]]], list[float]]:
    """Documents of ready tokens, two by two with similarities spread over 0.3 to 1."""
    rng = random.Random(seed)
    documents: list[tuple[str, list[str]]] = []
    similarities = []
    for pair in range(pairs):
        similarity = 0.3 + 0.7 * (pair + 0.5) / pairs
        shared = round(2 * size * similarity / (1 + similarity))
        tokens = [f"{rng.getrandbits(48):x}" for _ in range(2 * size - shared)]
        documents.append((f"{pair}a", tokens[:size]))
        documents.append((f"{pair}b", tokens[size - shared :]))
        similarities.append(shared / (2 * size - shared))
    return documents, similarities


@pytest.mark.parametrize("scheme", ["fss", "universal"])
@pytest.mark.parametrize(("threshold", "seed"), [(0.8, 1), (0.5, 2)])
@pytest.mark.long(when=lambda scheme, threshold: (scheme == "fss") != (threshold == 0.8))
def test_recall_by_similarity_follows_the_s_curve(
    make_index: Make, scheme: str, threshold: float, seed: int
) -> None:
    index = make_index(threshold=threshold, scheme=scheme, k=1, seed=seed)
    documents, similarities = planted_pairs(seed, pairs=2500, size=300)
    index.add(documents)
    found = {(pair.key1, pair.key2): pair.similarity for pair in index.pairs(threshold=0.01)}
    sums = [[0.0, 0.0, 0.0, 0] for _ in range(SLICES)]
    for pair, similarity in enumerate(similarities):
        expected = index.params.recall_at(similarity)
        keys = (f"{pair}a", f"{pair}b")
        if keys in found:
            assert found[keys] == pytest.approx(similarity, abs=1e-12)
        cell = sums[min(int(similarity * SLICES), SLICES - 1)]
        cell[0] += keys in found
        cell[1] += expected
        cell[2] += expected * (1 - expected)
        cell[3] += 1
    assert len(found) == sum(cell[0] for cell in sums), "unrelated documents were paired"
    for number, (hits, expected, variance, count) in enumerate(sums):
        if count:
            # 4.5 standard deviations, and one pair for the discreteness of small numbers.
            assert abs(hits - expected) <= 4.5 * math.sqrt(variance) + 1, (number / SLICES, count)
    above = [pair for pair, similarity in enumerate(similarities) if similarity >= threshold]
    recall = sum((f"{pair}a", f"{pair}b") in found for pair in above) / len(above)
    assert recall >= 0.99


@pytest.mark.parametrize("scheme", ["fss", "universal"])
@pytest.mark.parametrize("threshold", [0.8, 0.5])
def test_precision_and_recall_on_families_of_texts(
    make_index: Make, scheme: str, threshold: float
) -> None:
    corpus = family_corpus(11, families=100)
    index = make_index(threshold=threshold, scheme=scheme)
    index.add(corpus)
    expected, found = brute_pairs(corpus, threshold), pair_set(index)
    assert len(expected) > 150
    assert found <= expected
    assert len(found) >= 0.99 * len(expected)


@pytest.mark.parametrize("scheme", ["fss", "universal"])
def test_estimates_of_the_index_are_unbiased(make_index: Make, scheme: str) -> None:
    index = make_index(threshold=0.5, scheme=scheme, k=1)
    documents, similarities = planted_pairs(5, pairs=800, size=60)
    index.add(documents)
    estimates = {
        (pair.key1, pair.key2): pair.similarity
        for pair in index.pairs(threshold=0.01, verify="signature")
    }
    differences = [
        estimates[f"{pair}a", f"{pair}b"] - similarity
        for pair, similarity in enumerate(similarities)
        if similarity > 0.6  # below, what is found is a selection, and so biased upwards
    ]
    bound = math.sqrt(sum(s * (1 - s) for s in similarities if s > 0.6) / 128)
    assert abs(sum(differences)) <= 4.5 * bound


def test_short_documents_are_found_at_least_as_often_as_promised(make_index: Make) -> None:
    """Sets far smaller than a signature: slots are dependent there, in our favour."""
    index = make_index(threshold=0.8, k=1)
    rng = random.Random(4)
    documents = []
    for pair in range(4000):
        tokens = [f"{rng.getrandbits(40):x}" for _ in range(10)]
        documents += [(f"{pair}a", tokens[:9]), (f"{pair}b", tokens[1:])]
    index.add(documents)
    found = sum(1 for _ in index.pairs())
    promised = candidate_probability(0.8, index.params.bands, index.params.rows)
    assert found >= 4000 * promised - 4.5 * math.sqrt(4000 * promised * (1 - promised))
