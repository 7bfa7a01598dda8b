"""What can be asked of an index has one answer, wherever the index lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lshdb import Index, LshdbError
from lshdb.signatures.banding import bucket_keys
from tests.answers import WORDLESS
from tests.conftest import family_corpus
from tests.contract.conftest import Both, Place

CORPUS = family_corpus(11, families=8)
TEXT = CORPUS[8][1]
Ask = Callable[[Index], Any]


def numbers(index: Index) -> list[str]:
    """The counts that an index says of itself; sizes and indexes are the database's own."""
    stats = index.stats(max_bucket=2)
    own = {
        "path", "database", "index_bands", "database_bytes", "log_bytes", "reclaimable_bytes",
    }  # fmt: skip
    return [f"{name} {getattr(stats, name)}" for name in type(stats).__slots__ if name not in own
            and name not in ("uuid", "created_at")]  # fmt: skip


def left_out(index: Index) -> Any:
    found = index.pairs(max_bucket=2)
    return sorted(map(repr, found)), found.left_out, found.loss


def buckets_counted(index: Index) -> Any:
    stats = index.stats()
    return stats.shared_buckets, stats.largest_bucket, stats.bucket_pairs, index.buckets(most=9)


def nearest(index: Index) -> Any:
    """Hits, and what was looked at for them: all, and as far as a limit goes."""
    answers = [
        index.query(TEXT, recall=0.9, top=3),
        index.query(key="f001-0", threshold=0.1, probe_limit=2),
    ]
    return [(list(one), vars(one)) for one in answers]


def members(index: Index) -> list[int]:
    """Signatures by bucket and alone are the same."""
    with index._store.reading() as snapshot:
        rows = snapshot.signatures[: snapshot.n_signatures]
        keys = np.unique(bucket_keys(rows[::3], **index.params.cut))
        alone: list[int] = np.sort(snapshot.postings.members(keys)).tolist()
        assert alone == np.sort(snapshot.postings.grouped_of(keys).members).tolist()
        assert len(alone) > len(keys)
    return alone


QUESTIONS: dict[str, Ask] = {
    "nearest": nearest,
    "members of buckets": members,
    **{
        f"query {verify} {top}": lambda index, verify=verify, top=top: index.query(
            TEXT, verify=verify, top=top, threshold=0.3
        )
        for verify in (None, "exact", "signature", "none")
        for top in (2, None)
    },
    "query of a key": lambda index: index.query(key="f001-0"),
    "query of a copy": lambda index: index.query(key="f000-copy", threshold=1.0),
    "query of tokens": lambda index: index.query(["the", "same", "tokens", "twice", "over"]),
    "query of nothing": lambda index: index.query(""),
    "query of what is not there": lambda index: index.query("nothing at all like any of it " * 3),
    "query_many": lambda index: list(index.query_many(CORPUS[:12], top=3)),
    **{
        f"pairs {options}": lambda index, options=options: sorted(
            (*sorted((one.key1, one.key2)), one.similarity, one.method)
            for one in index.pairs(**options)
        )
        for options in (
            {}, {"threshold": 0.3}, {"verify": "exact"}, {"verify": "signature"},
            {"verify": "none"}, {"since": 1}, {"since": 2}, {"since": "last"},
            {"since": 2, "max_bucket": 3}, {"memory": 2**20}, {"workers": 1},
        )
    },
    "pairs with large buckets left out": left_out,
    **{
        f"clusters {options}": lambda index, options=options: list(
            index.clusters(update=False, **options)
        )
        for options in ({}, {"threshold": 0.8}, {"min_size": 3}, {"linkage": "representative"})
    },
    **{
        f"dedup {options}": lambda index, options=options: list(
            index.dedup(update=False, **options)
        )
        for options in (
            {}, {"keep": "last"}, {"keep": "longest"}, {"only": "keep"}, {"only": "drop"},
            {"against": True}, {"against": True, "since": 2}, {"threshold": 0.9},
        )
    },
    "neighbors": lambda index: list(index.neighbors(update=False)),
    "nearest neighbors": lambda index: list(index.neighbors(top=1, threshold=0.7, update=False)),
    "nearest neighbors of all": lambda index: list(index.neighbors(top=3, recall=1)),
    "nearest of all texts": lambda index: list(index.query(TEXT, top=20, recall=1)),
    "what contains a text": lambda index: list(
        index.query(TEXT, top=20, measure="containment", threshold=0.1)
    ),
    "what contains what": lambda index: sorted(
        (one.key1, one.key2, one.similarity)
        for one in index.pairs(measure="containment", threshold=0.3)
    ),
    "what stored pairs lack": lambda index: index.loss(),
    "buckets counted": buckets_counted,
    "edge state": lambda index: index.edge_state(),
    "explain": lambda index: index.explain("f001-0", "f001-1"),
    "explain a text": lambda index: index.explain("f001-0", body=TEXT),
    "explain copies": lambda index: index.explain("tokens", "tokens 2"),
    "show": lambda index: [
        index.show(key) for (key,) in index.sql("SELECT key FROM document ORDER BY key").rows
    ],
    "batches": lambda index: index.batches(),
    "stats": numbers,
    "params": lambda index: index.params.items(),
    "check": lambda index: [index.check(), index.check(quick=True)],
    "similarity": lambda index: index.similarity(TEXT, CORPUS[9][1]),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["a", "signed"])
def test_it_has_one_answer(lived: Both, name: str, question: str) -> None:
    """Refused by both in the same words, where it is refused."""

    def ask(place: Any) -> Any:
        with Index.open(place.folder / name) as index:
            try:
                return QUESTIONS[question](index)
            except LshdbError as error:
                return type(error).__name__, error.message, error.hint

    lived.same(ask)


def test_the_answers_are_not_all_empty(lived: Both) -> None:
    """What is known of the documents: a family of four, with one copy, is one cluster."""

    def ask(place: Any) -> Any:
        with Index.open(place.folder / "a") as index:
            return (
                [hit.key for hit in index.query(key="f003-0", top=3)],
                sorted(index.show("f003-0").copies),
                len(list(index.pairs())),
                [sorted(one.keys) for one in index.clusters(update=False)][:1],
            )

    nearest, copies, pairs, clusters = lived.same(ask)
    assert nearest[0] == "f003-copy" and set(nearest[1:]) <= {f"f003-{n}" for n in range(1, 4)}
    assert copies == ["f003-copy"]
    assert pairs == 34 and clusters


def test_a_join_across_the_databases(lived: Both) -> None:
    """Two on SQLite, two on Postgres, one on each: the same pairs."""
    found = []
    for here in lived.places:
        for there in lived.places:
            with Index.open(here.folder / "a") as one, Index.open(there.folder / "a") as other:
                pairs = one.join(other, threshold=0.6)
                found.append(sorted((pair.key1, pair.key2, pair.similarity) for pair in pairs))
    assert len(found[0]) > 34
    assert found == [found[0]] * 4


def test_a_graph_is_folded_alike(lived: Both, tmp_path: Any) -> None:
    links = tmp_path / "links.tsv"
    keys = [key for key, _ in CORPUS]
    links.write_text("".join(f"{a}\t{b}\t2\n" for a, b in zip(keys, keys[3:], strict=False)))

    def ask(place: Any) -> Any:
        with Index.open(place.folder / "a") as index:
            found = index.contract(links, update=False, drop_loops=True)
            return list(found), found.merged

    folded, merged = lived.same(ask)
    assert folded and merged


def test_texts_without_a_word_are_copies_of_the_same_text_alone(both: Both) -> None:
    def ask(place: Place) -> Any:
        with place.create("wordless.lshdb", threshold=0.1) as index:
            index.add(WORDLESS)
            index.add([("word", "a b"), ("unseen", "\u200b"), ("blank", " ")])
            pairs = sorted((pair.key1, pair.key2, pair.similarity) for pair in index.pairs())
            clusters = sorted(found.keys for found in index.clusters())
            hits = [hit.key for hit in index.query("...")]
            dropped = sorted(one.key for one in index.dedup() if not one.keep)
            assert index.check() == []
            return pairs, clusters, hits, dropped, index.stats().empty_documents

    pairs, clusters, hits, dropped, empty = both.same(ask)
    names = sorted({key[:-2] for key, _ in WORDLESS})
    assert pairs == [(f"{name} 1", f"{name} 2", 1.0) for name in names]
    assert clusters == [(f"{name} 1", f"{name} 2") for name in names]
    assert hits == ["dots 1", "dots 2"]
    assert dropped == [f"{name} 2" for name in names]
    assert empty == 2
