"""Clusters against brute force, from scratch and kept up to date."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lshdb import Index, ParameterError
from lshdb.search import candidates
from tests.brute import brute_pairs
from tests.conftest import family_corpus
from tests.raw import change, rows_of

Make = Callable[..., Index]


def union_find(
    documents: dict[str, str], order: list[str], threshold: float, k: int = 5
) -> list[tuple[str, tuple[str, ...]]]:
    """Clusters of all pairs by brute force: (label, members in order), as ``clusters`` says."""
    root = {key: key for key in documents}

    def top(key: str) -> str:
        while root[key] != key:
            key = root[key]
        return key

    for one, other, _ in brute_pairs(documents.items(), threshold, k=k):
        root[top(one)] = top(other)
    groups: dict[str, list[str]] = {}
    for key in order:
        groups.setdefault(top(key), []).append(key)
    found = [tuple(group) for group in groups.values() if len(group) > 1]
    return [
        (group[0], group)
        for group in sorted(found, key=lambda group: (-len(group), order.index(group[0])))
    ]


def rows(index: Index, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in index.sql(statement).rows]


def listed(index: Index, **how: object) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.label, one.keys) for one in index.clusters(**how)]  # type: ignore[arg-type]


def sure(make_index: Make, threshold: float = 0.5, **more: object) -> Index:
    """An index that misses nothing worth the name: a band a slot."""
    return make_index(f"t{threshold}.lshdb", threshold=threshold, bands=128, rows=1, **more)


CHAIN = {
    # Neighbours share 4 of 6 words; those two apart 2 of 8.
    "a": "w1 w2 w3 w4 w5",
    "b": "w2 w3 w4 w5 w6",
    "c": "w3 w4 w5 w6 w7",
    "d": "w4 w5 w6 w7 w8",
    "e": "w5 w6 w7 w8 w9",
}


@pytest.mark.fast
def test_clusters_are_those_of_brute_force(make_index: Make) -> None:
    corpus = dict(family_corpus(11))
    for threshold in (0.3, 0.5, 0.8):
        index = sure(make_index, threshold)
        index.add(corpus.items())
        expected = union_find(corpus, list(corpus), threshold)
        assert expected
        assert listed(index) == expected
        assert listed(index, min_size=3) == [one for one in expected if len(one[1]) > 2]
        assert index.check() == []


def test_a_higher_threshold_needs_no_new_pass(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = dict(family_corpus(12))
    index = sure(make_index, 0.3)
    index.add(corpus.items())
    index.update_clusters()
    monkeypatch.setattr("lshdb.groups.update.find_links", None)
    for threshold in (0.3, 0.45, 0.6, 0.9, 1.0):
        assert listed(index, threshold=threshold) == union_find(corpus, list(corpus), threshold)


def test_a_lower_threshold_finds_everything_anew(make_index: Make) -> None:
    corpus = dict(family_corpus(13))
    index = sure(make_index, 0.8)
    index.add(corpus.items())
    assert index.update_clusters().threshold == 0.8
    assert listed(index, threshold=0.4) == union_find(corpus, list(corpus), 0.4)
    assert index.update_clusters().threshold == 0.4
    assert listed(index) == union_find(corpus, list(corpus), 0.8)


@pytest.mark.fast
def test_a_chain_is_one_cluster_or_is_cut(make_index: Make) -> None:
    index = sure(make_index, 0.6, k=1)
    index.add(CHAIN.items())
    assert listed(index) == [("a", ("a", "b", "c", "d", "e"))]
    # a stands for b; c, not like a, for d; e stands alone.
    assert listed(index, linkage="representative") == [("a", ("a", "b")), ("c", ("c", "d"))]
    with pytest.raises(ParameterError, match="linkage is 'x'"):
        listed(index, linkage="x")
    with pytest.raises(ParameterError, match="min_size is 1"):
        listed(index, min_size=1)


def test_a_star_is_one_cluster_around_its_centre_or_many(make_index: Make) -> None:
    """Every leaf shares three of five words with the centre and at most one with another leaf."""
    words = [f"c{number}" for number in range(6)]
    leaves = {
        f"leaf{number}": " ".join([*words[2 * number : 2 * number + 2], f"x{number}", f"y{number}"])
        for number in range(3)
    }
    corpus = {**leaves, "centre": " ".join(words)}
    index = sure(make_index, 0.25, k=1)
    index.add(corpus.items())
    assert listed(index) == [("leaf0", ("leaf0", "leaf1", "leaf2", "centre"))]
    # The first leaf came in before the centre and takes it.
    assert listed(index, linkage="representative") == [("leaf0", ("leaf0", "centre"))]
    index.remove(["leaf0"])
    index.add([("leaf0", leaves["leaf0"])])
    index.remove(["leaf1", "leaf2"])
    index.add([("leaf1", leaves["leaf1"]), ("leaf2", leaves["leaf2"])])
    assert listed(index, linkage="representative") == [
        ("centre", ("centre", "leaf0", "leaf1", "leaf2"))
    ]
    index.remove(["centre"])
    assert listed(index) == []


def test_every_member_is_similar_to_its_representative(make_index: Make) -> None:
    corpus = dict(family_corpus(14))
    index = sure(make_index, 0.4)
    index.add(corpus.items())
    index.add([("copy", corpus["f003-0"])])
    corpus["copy"] = corpus["f003-0"]
    found = listed(index, linkage="representative")
    assert found
    for label, keys in found:
        for key in keys:
            assert index.similarity(corpus[label], corpus[key]) >= 0.4
    labels = [label for label, _ in found]
    for place, one in enumerate(labels):
        for other in labels[place + 1 :]:
            assert index.similarity(corpus[one], corpus[other]) < 0.4


def test_pairs_that_share_a_bucket_but_not_a_text_stay_two_clusters(make_index: Make) -> None:
    """Clusters are of verified pairs, not of buckets: one bucket holds all four."""
    index = sure(make_index, 0.5, k=1)
    index.add(
        [
            ("a", "z s1 s2 s3 s4"),
            ("b", "z s1 s2 s3 s5"),
            ("c", "z t1 t2 t3 t4"),
            ("d", "z t1 t2 t3 t5"),
        ]
    )
    assert rows(index, "SELECT max(size) FROM bucket") == [(4,)]
    for verify in ("exact", "signature"):
        index.update_clusters(verify=verify)
        assert listed(index, update=False) == [("a", ("a", "b")), ("c", ("c", "d"))]


def test_a_group_of_copies_is_one_signature_and_no_edges(make_index: Make) -> None:
    index = sure(make_index, 0.5, k=1)
    index.add([(f"c{number:04d}", "one two three four five") for number in range(3000)])
    index.add([("near", "one two three four six"), ("far", "nine")])
    [(label, keys)] = listed(index)
    assert (label, len(keys)) == ("c0000", 3001)
    assert rows(index, "SELECT count(*) FROM edge") == [(1,)]
    assert index.check() == []


def hot_bucket(n: int) -> list[tuple[str, str]]:
    """Unlike documents that all share a boilerplate of a few words."""
    return [
        (
            f"u{number:03d}",
            "common words at the head " + " ".join(f"x{number}y{i}" for i in range(40)),
        )
        for number in range(n)
    ]


def test_a_hot_bucket_of_unlike_documents_is_not_paired(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = sure(make_index, 0.5, k=1)
    index.add(hot_bucket(300))
    index.add([("twin", hot_bucket(300)[7][1] + " and more")])
    compared = 0
    plain = candidates.compare_rows

    def counted(*args, **more):  # type: ignore[no-untyped-def]
        nonlocal compared
        compared += len(args[1])
        return plain(*args, **more)

    monkeypatch.setattr(candidates, "compare_rows", counted)
    state = index.update_clusters(max_bucket=20)
    assert listed(index) == [("u007", ("u007", "twin"))]
    assert state.hot_buckets > 0
    assert state.hot_pairs > 0
    assert state.recall_lost == 0.0  # all pairs of the large buckets are looked at: no pair
    sizes = [size for (size,) in rows(index, "SELECT size FROM bucket WHERE size > 20")]
    assert state.hot_buckets == len(sizes)
    assert compared <= sum(sizes) * candidates.LEADERS  # linear, where pairs would be quadratic


def test_a_hot_bucket_of_like_documents_is_linked(make_index: Make) -> None:
    base = [f"w{number}" for number in range(60)]
    corpus = {
        f"d{number:03d}": " ".join([*base[: number % 60], f"n{number}", *base[number % 60 + 1 :]])
        for number in range(80)
    }
    index = sure(make_index, 0.8, k=1)
    index.add(corpus.items())
    assert listed(index) == union_find(corpus, list(corpus), 0.8, k=1)
    [(full,)] = rows(index, "SELECT count(*) FROM edge")
    assert index.update_clusters(max_bucket=20).hot_buckets
    assert listed(index) == union_find(corpus, list(corpus), 0.8, k=1)
    [(few,)] = rows(index, "SELECT count(*) FROM edge")
    assert few < full / 3
    # The leader goes: what hung together by it finds another one.
    [(leader, _)] = rows(
        index, "SELECT key, count(*) FROM neighbor GROUP BY key ORDER BY 2 DESC LIMIT 1"
    )
    index.remove([leader])
    del corpus[leader]
    assert listed(index) == union_find(corpus, list(corpus), 0.8, k=1)


def test_what_hung_together_by_a_leader_finds_another(make_index: Make) -> None:
    """One band of one slot, so that the star around the leader is all there is."""
    words = [f"w{number}" for number in range(60)]
    corpus = {f"d{number}": " ".join([*words, f"n{number}"]) for number in range(12)}
    index = make_index(threshold=0.8, bands=1, rows=1, k=1)
    index.add(corpus.items())
    assert index.update_clusters(max_bucket=5).hot_buckets == 1
    [(label, keys)] = listed(index)
    assert len(keys) > 9  # all whose first slot is that of a common word
    assert rows(index, "SELECT count(*) FROM edge") == [(len(keys) - 1,)]
    index.remove([label])
    assert [members for _, members in listed(index)] == [keys[1:]]


def test_without_update_nothing_is_written_and_what_is_missing_is_said(make_index: Make) -> None:
    index = sure(make_index, 0.5)
    index.add(family_corpus(15))
    with pytest.raises(ParameterError, match="has no verified edges"):
        listed(index, update=False)
    before = listed(index)
    text = family_corpus(15)[0][1]
    index.add([("late", text + " and more")])
    assert listed(index, update=False) == before
    assert listed(index) != before
    index.remove(["f000-0", "f000-copy", "late"])  # a label goes, and an end of edges
    for how in ({}, {"threshold": 0.6}, {"linkage": "representative"}):
        stale = [(keys, len(keys)) for _, keys in listed(index, update=False, **how)]
        assert stale
        assert not any({"f000-0", "f000-copy", "late"} & set(keys) for keys, _ in stale)
    assert not any(one.key == "late" for one in index.neighbors(update=False))
    assert not any(one.kept_key == "f000-0" for one in index.dedup(update=False))
    with pytest.raises(ParameterError, match=r"only down to 0\.5"):
        listed(index, update=False, threshold=0.3)
    with pytest.raises(ParameterError, match="verified pairs"):
        index.update_clusters(verify="none")


def test_only_what_is_touched_changes(make_index: Make) -> None:
    """Rows of other clusters are not even rewritten: a mark set on them survives."""
    corpus = dict(family_corpus(16))
    index = sure(make_index, 0.3)
    index.add(corpus.items())
    clusters = listed(index)
    touched, other = clusters[0], clusters[1]
    # A wrong label in the other cluster: an update that touched it would put it right.
    change(
        index.path,
        "UPDATE cluster_member SET label = 999999 WHERE label = "
        "(SELECT doc_id FROM document WHERE key = ?)",
        other[0],
    )
    index.remove([touched[1][0]])
    index.add([("new", corpus[touched[1][1]])])
    index.update_clusters()
    statement = "SELECT count(*) FROM cluster_member WHERE label = 999999"
    (left,) = rows_of(index.path, statement)
    assert left[0] > 0
    assert {finding.where.split(",")[0] for finding in index.check()} == {"table cluster_member"}
    index.update_clusters(max_bucket=2000)  # another cap: everything anew


KEYS = [f"k{number}" for number in range(12)]
TEXTS = [
    " ".join(words)
    for words in (
        *(CHAIN[key].split() for key in "abcde"),
        ("w1", "w2", "w3", "w4", "w6"),
        ("W1", "w2", "w3", "w4", "w5"),
        ("x1", "x2", "x3"),
        ("x1", "x2", "x3", "x4"),
        ("w9", "x1", "x2", "x3"),
        (),
    )
]


class Clusters(RuleBasedStateMachine):
    """Adds, replacements and removals in any order: as from scratch, and as by brute force."""

    @initialize(max_bucket=st.sampled_from([None, 3]))
    def begin(self, max_bucket: int | None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.index = Index.create(
            Path(self.folder.name) / "i.lshdb", k=1, threshold=0.5, bands=128, rows=1
        )
        self.texts: dict[str, str] = {}
        self.max_bucket = max_bucket

    @rule(documents=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=5))
    def add(self, documents: dict[str, str]) -> None:
        self.index.add(documents.items())
        for key, text in documents.items():
            self.texts[key] = text

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=3))
    def remove(self, keys: list[str]) -> None:
        result = self.index.remove(keys)
        assert result.removed == len({key for key in keys if self.texts.pop(key, None) is not None})

    @rule()
    def update(self) -> None:
        self.index.update_clusters(max_bucket=self.max_bucket)

    @rule(threshold=st.sampled_from([0.5, 0.65, 0.9]))
    def compare(self, threshold: float) -> None:
        self.index.update_clusters(max_bucket=self.max_bucket)
        if self.max_bucket is None:
            order = [key for (key,) in rows(self.index, "SELECT key FROM document ORDER BY doc_id")]
            expected = union_find(self.texts, order, threshold, k=1)
            assert listed(self.index, threshold=threshold, update=False) == expected
        linked = {
            frozenset((one, other))
            for one, other, _ in brute_pairs(self.texts.items(), threshold, k=1)
        }
        for decision in self.index.dedup(threshold=threshold, update=False, only="drop"):
            assert frozenset((decision.key, decision.kept_key)) in linked

    @invariant()
    def is_sound(self) -> None:
        if hasattr(self, "index"):
            assert self.index.check() == []

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.close()
            self.folder.cleanup()


Clusters.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestClusters = Clusters.TestCase


def test_the_view_says_what_the_command_says(make_index: Make) -> None:
    index = sure(make_index, 0.4)
    index.add(family_corpus(17))
    index.add([("copy", family_corpus(17)[5][1])])
    expected = {key: label for label, keys in listed(index) for key in keys}
    found = rows(index, "SELECT key, label FROM cluster")
    assert dict(found) == expected
    assert len(found) == len(expected)
