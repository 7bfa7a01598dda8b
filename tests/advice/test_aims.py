"""Aims: which shingle and threshold are proposed, and what is said of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import lshdb
from lshdb import Index
from lshdb.advice.aims import propose
from lshdb.advice.planted import PlantedPairs
from lshdb.advice.similarity_counts import SimilarityCounts
from lshdb.params.options import CreateOptions
from lshdb.signatures.families import family_of
from tests.advice.test_similarity_counts import corpus, shingles

DOCUMENTS = corpus(400)
AIMS = lshdb.aims()


def choices(documents: list[tuple[str, str]], **options: object) -> dict[str, lshdb.Choice]:
    found = lshdb.advise(documents, **options)  # type: ignore[arg-type]
    return {one.aim: one for one in found.choices}


@pytest.mark.fast
def test_each_aim_has_a_choice_that_an_index_takes(tmp_path: object) -> None:
    found = choices(DOCUMENTS)
    assert list(found) == list(AIMS)
    for name, one in found.items():
        with Index.create(f"{tmp_path}/{name}", threshold=one.threshold, k=one.k) as index:
            index.add(DOCUMENTS)
            params = index.params
            assert (params.bands, params.rows, params.num_perm) == (
                one.bands, one.rows, one.num_perm,
            )  # fmt: skip
            pairs = len(list(index.pairs()))
        assert abs(pairs - one.pairs) <= max(2, 0.02 * one.pairs)
        assert one.pairs == one.lower == one.upper and one.found <= one.pairs <= one.candidates + 3


def test_a_stricter_aim_has_a_higher_threshold_for_the_same_shingle() -> None:
    found = choices(DOCUMENTS, k=5)
    assert {one.k for one in found.values()} == {5}
    thresholds = [found[name].threshold for name in ("exact-copies", "near-copies", "editions")]
    assert thresholds == sorted(thresholds, reverse=True) and len(set(thresholds)) == 3


def test_texts_with_many_differences_take_short_shingles() -> None:
    found = choices(DOCUMENTS)
    assert found["exact-copies"].k == 5 and found["editions"].k == 2
    assert "--k" in found["editions"].command and "--k" not in found["exact-copies"].command


def test_short_texts_are_said_to_be_short() -> None:
    short = [(key, " ".join(text.split()[:12])) for key, text in DOCUMENTS]
    one = choices(short)["near-copies"]
    assert one.threshold < choices(DOCUMENTS)["near-copies"].threshold + 0.01
    assert "texts are short, with 12 units" in one.reason


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("aim", [*AIMS])
def test_a_threshold_is_never_above_what_such_texts_have(aim: str, k: int) -> None:
    """By brute force: of texts that differ so, 99 in 100 are at the threshold or above."""
    rng = random.Random(k)
    (one,) = lshdb.advise(DOCUMENTS, aim=aim, k=k).choices
    differing, levels = AIMS[aim].differing, []
    for _, text in DOCUMENTS:
        words = text.split()
        if AIMS[aim].is_part:
            words[len(words) // 2 :] = [
                f"n{rng.randrange(10**6)}" for _ in words[len(words) // 2 :]
            ]
        else:
            n = sum(rng.random() < differing for _ in words)
            for place in rng.sample(range(len(words)), n):
                words[place] = f"n{rng.randrange(10**6)}"
        left, right = shingles(text, k), shingles(" ".join(words), k)
        levels.append(len(left & right) / len(left | right))
    assert sum(level >= one.threshold for level in levels) >= 0.98 * len(levels)


@pytest.mark.parametrize(
    ("emptiest", "is_moved"), [(None, False), (-0.1, True), (0.1, False), (-0.3, False)]
)
def test_a_threshold_goes_down_to_where_fewest_pairs_are(
    emptiest: float | None, is_moved: bool
) -> None:
    """Near what the aim says, never above it, and only if there is a valley."""
    family = family_of(CreateOptions().params())
    planted = PlantedPairs([text for _, text in DOCUMENTS], 1)
    aim = AIMS["near-copies"]

    def proposed(seen: np.ndarray) -> tuple[float, str]:
        none = np.zeros(21, dtype=np.int64)
        counts = SimilarityCounts("word", 5, 100, 100, 200.0, seen, none, none, ())
        return propose(
            aim, family.params, planted, lambda _: counts, lambda _: family, is_fixed=True
        )[:2]

    seen = np.arange(10_100, 0, -100)
    threshold, why = proposed(seen)
    assert "fewest" not in why
    if emptiest is not None:
        middle = round(100 * (threshold + emptiest))
        seen[middle - 5 : middle + 5] = 1
    moved, why = proposed(seen)
    assert moved == pytest.approx(threshold + (emptiest or 0.0) * is_moved)
    assert ("fewest" in why) == is_moved


def test_texts_without_words_have_nothing_that_could_differ() -> None:
    found = choices([("a", ""), ("b", ""), ("c", "!")])
    assert all(
        one.threshold >= 0.1 and "no text has a word" in one.reason for one in found.values()
    )


def test_tokens_are_exchanged_as_words_are() -> None:
    texts = choices(DOCUMENTS, k=3)
    tokens = choices([(key, text.split()) for key, text in DOCUMENTS], unit="token", k=3)
    for name, one in texts.items():
        assert tokens[name].threshold == pytest.approx(one.threshold, abs=0.051)


def test_the_words_have_the_numbers() -> None:
    one = choices(DOCUMENTS)["near-copies"]
    for said in (
        f"{one.pairs:,.0f} pairs",
        f"{one.bands} bands of {one.rows} rows",
        AIMS[one.aim].purpose,
    ):
        assert said in one.words
    some = lshdb.advise(DOCUMENTS, sample=100, aim="near-copies")
    assert "(between" in some.choices[0].words and "100 of 400 documents" in some.remarks[0]


def test_commands_for_an_index_fit_it(tmp_path: object) -> None:
    with Index.create(f"{tmp_path}/a.lshdb", threshold=0.4) as index:
        index.add(DOCUMENTS)
        found = {one.aim: one.command for one in index.advise().choices}
    assert found["exact-copies"] == "lshdb pairs INDEX --threshold 0.5"
    assert found["boilerplate"] == "lshdb reband INDEX --threshold 0.25"
    assert found["editions"].startswith("lshdb reindex INDEX NEW --threshold")


def test_other_units_keep_what_they_are() -> None:
    hosts = [(f"h{i}", f"http://a.example/{i % 3}/b/c\nhttp://a.example/x/y") for i in range(20)]
    found = choices(hosts, unit="url")
    assert {one.unit for one in found.values()} == {"url"} and {
        one.k for one in found.values()
    } == {2}
    chars = choices(DOCUMENTS, unit="char")
    assert {one.unit for one in chars.values()} == {"char"}


def test_the_command_has_the_options_that_were_given() -> None:
    (one,) = lshdb.advise(
        DOCUMENTS, aim="exact-copies", unit="char", bag=True, lowercase=False, digits="zero",
        threshold=0.5, store_text=True, strip_accents=False,
    ).choices  # fmt: skip
    assert one.command == (
        f"lshdb add INDEX FILE... --threshold {one.threshold:g} --unit char --bag --keep-case "
        "--digits zero"
    )
