"""What is kept of families in large buckets, by every order of preference: as by brute force."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lshdb import Document, Index, UncheckedWarning, deduplicate
from lshdb.groups.missed_pairs import MissedPairs
from lshdb.storage.rows.edges import Edges
from tests.brute import jaccard, shingle_set
from tests.families import KINDS, POLICIES, THRESHOLD, allows, check_kept, family

Make = Callable[..., Index]
HOW: dict[str, dict[str, list[str]]] = {
    "all": {}, "agree": {"agree": ["year"]}, "differ": {"differ": ["source"]},
    "both": {"agree": ["year"], "differ": ["source"]}, "alone": {"agree": ["score"]},
}  # fmt: skip


def added(make_index: Make, documents: list[Any], *, cap: int, nights: int = 1) -> Index:
    index = make_index(threshold=THRESHOLD)
    step = -(-len(documents) // nights)
    for start in range(0, len(documents), step):
        index.add(
            Document(one.key, one.text, "", one.fields) for one in documents[start : start + step]
        )
    index.update_clusters(max_bucket=cap)
    return index


def kept_keys(index: Index, **how: Any) -> dict[str, str | None]:
    answer = index.dedup(**how)
    found = {one.key: one.kept_key for one in answer}
    assert answer.unchecked is None
    return found


def is_found(index: Index) -> Callable[[str, str], bool]:
    return lambda one, other: index.explain(one, other).is_found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long(when=lambda kind: kind not in ("chain", "boilerplate"))
def test_what_is_kept_of_a_family(make_index: Make, kind: str) -> None:
    """A cap of 10 makes buckets of a hundred large ones, as 1,000 does for thousands."""
    documents = family(kind, 220, seed=1)
    index = added(make_index, documents, cap=10)
    assert index.edge_state().hot_buckets  # type: ignore[union-attr]
    for keep in POLICIES:
        for how in HOW.values():
            found = kept_keys(index, keep=keep, **how)
            check_kept(documents, found, keep, is_found=is_found(index), **how)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_of_a_family_that_older_documents_began(make_index: Make, kind: str) -> None:
    documents = family(kind, 200, seed=2)
    index = added(make_index, documents, cap=10, nights=2)
    for keep in POLICIES:
        for how in HOW.values():
            found = kept_keys(index, keep=keep, against=True, **how)
            check_kept(documents, found, keep, old=100, is_found=is_found(index), **how)


@pytest.mark.parametrize("n", [99, 100, 101])
def test_families_about_the_cap(make_index: Make, n: int) -> None:
    documents = family("one_word", n, seed=n)
    index = added(make_index, documents, cap=100)
    for keep in POLICIES:
        for how in HOW.values():
            check_kept(documents, kept_keys(index, keep=keep, **how), keep, **how)


@pytest.mark.parametrize("n", [100, 1000, 1001, 5000, 50_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long(when=lambda n: n > 100)
def test_families_of_all_sizes(make_index: Make, kind: str, n: int) -> None:
    """With the cap that nobody asked for."""
    documents = family(kind, n, seed=n)
    index = added(make_index, documents, cap=1000)
    for keep in POLICIES:
        for how in ({}, HOW["agree"], HOW["differ"]):
            found = kept_keys(index, keep=keep, **how)
            if n <= 5000 or sum(kept_key is None for kept_key in found.values()) <= 3000:
                check_kept(documents, found, keep, is_found=is_found(index), **how)


@pytest.mark.parametrize("keep", POLICIES)
@pytest.mark.parametrize("kind", ["one_word", "sub_families"])
def test_a_family_costs_a_comparison_a_document_whatever_is_kept(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, kind: str, keep: str
) -> None:
    """And forty families in one bucket forty, where all pairs would be 125 for each document."""
    documents = family(kind, 250, seed=3)
    index = added(make_index, documents, cap=4)
    n_leaders = {"one_word": 1, "sub_families": 40}[kind]
    monkeypatch.setattr("lshdb.groups.missed_pairs.MOST_PAIRS", 2 * n_leaders * len(documents))
    found = kept_keys(index, keep=keep)
    assert check_kept(documents, found, keep) == n_leaders


def test_nothing_is_compared_for_fields_of_which_each_document_has_its_own(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = family("one_word", 300, seed=4)
    for number, one in enumerate(documents):
        one.fields = {"doi": f"10.1/{number}", "source": "a"}
    index = added(make_index, documents, cap=4)
    monkeypatch.setattr("lshdb.groups.missed_pairs.MOST_PAIRS", 0)
    for how in ({"agree": ["doi"]}, {"differ": ["source"]}, {"agree": ["doi"], "differ": ["doi2"]}):
        if "doi2" in how.get("differ", ()):
            index.add([Document("other", documents[0].text, "", {"doi2": "x"})])
        assert set(kept_keys(index, keep="last", **how).values()) == {None}


def nothing_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each bucket had too many pairs, also for a first leader."""
    monkeypatch.setattr("lshdb.search.candidates.LEADERS", 0)
    none = Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    monkeypatch.setattr(MissedPairs, "_of_group", lambda *_: (none, True))


@pytest.mark.parametrize("how", [{}, HOW["agree"], HOW["differ"]], ids=["all", "agree", "differ"])
@pytest.mark.parametrize("against", [False, True])
def test_what_was_not_compared_is_a_warning(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, how: dict[str, list[str]], against: bool
) -> None:
    """What is said is a count where there are few pairs: that of brute force."""
    documents = family("one_word", 120, seed=5)
    nothing_compared(monkeypatch)
    monkeypatch.setattr("lshdb.search.loss.VERIFIED", 100_000)
    index = added(make_index, documents, cap=2, nights=2)
    answer = index.dedup(keep="last", against=against, **how)  # type: ignore[arg-type]
    with pytest.warns(UncheckedWarning, match="99 % interval") as caught:
        kept = {one.key for one in answer if one.keep}
    assert caught[0].filename == __file__
    astray = [
        (one, other)
        for number, one in enumerate(documents)
        for other in documents[number + 1 :]
        if one.key in kept and other.key in kept and allows(one, other, **how)
        and not (against and (number >= 60 or int(other.key[1:]) < 60))
        and jaccard(shingle_set(one.text), shingle_set(other.text)) >= THRESHOLD
    ]  # fmt: skip
    assert answer.unchecked is not None
    assert answer.unchecked.value == len(astray) > 0
    assert f"{len(astray):,} of them" in str(caught[0].message)


def test_deduplicate_says_nothing_where_all_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = family("one_word", 240, seed=6)
    monkeypatch.setattr("lshdb.groups.update.MAX_BUCKET", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean = deduplicate([one.text for one in documents], keep="last", threshold=THRESHOLD)
    assert clean == [documents[-1].text]


def test_deduplicate_warns_of_what_was_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = family("one_word", 240, seed=7)
    nothing_compared(monkeypatch)
    monkeypatch.setattr("lshdb.groups.update.MAX_BUCKET", 4)
    with pytest.warns(UncheckedWarning, match="near-duplicates") as caught:
        deduplicate([one.text for one in documents], keep="last", threshold=THRESHOLD)
    assert caught[0].filename == __file__
