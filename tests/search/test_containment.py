"""What contains a text: the share of its shingles, exactly, in documents of any length."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Document, Index, ParameterError
from lshdb.search import all_texts
from tests.brute import shingle_set
from tests.conftest import make_text
from tests.without_kernel import use_reference

Corpus = dict[str, str]
K = 3


def corpus() -> Corpus:
    """Books, passages of them with some words changed, and a copy of each kind."""
    rng = random.Random(4)
    texts = {f"book {number}": make_text(rng, 150 + 60 * number) for number in range(6)}
    for number in range(24):
        words = texts[f"book {number % 6}"].split()
        first = rng.randrange(len(words) - 30)
        passage = words[first : first + 30]
        for _ in range(number % 5):
            passage[rng.randrange(30)] = f"changed{rng.randrange(99)}"
        texts[f"passage {number}"] = " ".join(passage)
    return texts | {
        "book again": texts["book 2"],
        "passage again": texts["passage 0"],
        "empty": "",
    }


def containment(one: str, other: str) -> float:
    own = shingle_set(one, K)
    return len(own & shingle_set(other, K)) / len(own) if own else 0.0


def containers(texts: Corpus, text: str, threshold: float) -> list[tuple[str, float]]:
    found = [(key, containment(text, other)) for key, other in texts.items()]
    return sorted(
        ((key, share) for key, share in found if share >= threshold),
        key=lambda each: (-each[1], each[0]),
    )


def brute_pairs(texts: Corpus, threshold: float) -> set[tuple[str, str, float]]:
    return {
        (key, other, share)
        for key, text in texts.items()
        for other, share in containers(texts, text, threshold)
        if other != key
    }


def pairs_of(index: Index, **asked: Any) -> set[tuple[str, str, float]]:
    found = list(index.pairs(measure="containment", **asked))
    listed = {(one.key1, one.key2, one.similarity) for one in found}
    assert len(listed) == len(found) and {one.method for one in found} <= {"exact"}
    return listed


@pytest.fixture
def texts() -> Corpus:
    return corpus()


@pytest.fixture
def index(tmp_path: Path, texts: Corpus) -> Any:
    with Index.create(tmp_path / "a.lshdb", k=K, threshold=0.8) as made:
        made.add(texts.items())
        yield made


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_texts, "_SHINGLE_BYTES", 2**28 // 300)
    monkeypatch.setattr(all_texts, "_TEXTS_ASK", 5)


def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    use_reference(monkeypatch)


@pytest.mark.parametrize("way", [plainly, in_blocks, without_kernel])
def test_every_document_that_contains_a_text_is_found(
    monkeypatch: pytest.MonkeyPatch,
    index: Index,
    texts: Corpus,
    way: Callable[[pytest.MonkeyPatch], None],
) -> None:
    way(monkeypatch)
    for threshold in (0.3, 0.8, 1.0):
        for key in ("passage 0", "passage 3", "passage 9", "book 2", "empty"):
            asked = {"measure": "containment", "threshold": threshold, "top": None}
            hits = index.query(texts[key], **asked)
            expected = containers(texts, texts[key], threshold)
            assert [(hit.key, hit.similarity) for hit in hits] == expected
            by_key = index.query(key=key, **asked)
            assert list(by_key) == [hit for hit in hits if hit.key != key]
        assert pairs_of(index, threshold=threshold) == brute_pairs(texts, threshold)


def test_a_passage_that_is_too_unlike_its_book_for_signatures_is_found(
    index: Index, texts: Corpus
) -> None:
    passage = texts["passage 5"]
    assert index.similarity(passage, texts["book 5"]) < 0.1
    assert "book 5" not in {hit.key for hit in index.query(passage)}
    hits = index.query(passage, measure="containment")
    assert [(hit.key, hit.similarity) for hit in hits] == [("book 5", 1.0), ("passage 5", 1.0)]
    many = dict(index.query_many([Document("p", passage)] * 2, measure="containment", workers=2))
    assert many == {"p": hits}


def test_what_top_leaves_out_is_counted_and_below_leaves_out_the_whole(
    index: Index, texts: Corpus
) -> None:
    everything = index.query(texts["passage 0"], measure="containment", threshold=0.01, top=None)
    first = index.query(texts["passage 0"], measure="containment", threshold=0.01, top=2)
    assert list(first) == everything[:2]
    assert first.truncated == len(everything) - 2 > 0
    wanted = {"measure": "containment", "threshold": 0.3, "below": 1.0}
    hits = index.query(texts["passage 3"], **wanted)
    found = [each for each in containers(texts, texts["passage 3"], 0.3) if each[1] < 1.0]
    assert [(hit.key, hit.similarity) for hit in hits] == found != []
    expected = {one for one in brute_pairs(texts, 0.3) if one[2] < 1.0}
    assert pairs_of(index, threshold=0.3, below=1.0) == expected != set()


def test_pairs_of_new_documents_between_folders_and_up_to_a_limit(
    index: Index, texts: Corpus
) -> None:
    more = {"new/part": texts["book 1"][:300], "old/whole": texts["book 1"], "new/book": "a b c d"}
    index.add(more.items())
    everything = brute_pairs(texts | more, 0.8)
    new = {one for one in everything if {one[0], one[1]} & set(more)}
    assert pairs_of(index, since="last") == new
    assert pairs_of(index, cross=("new", "old")) == {("new/part", "old/whole", 1.0)}
    assert pairs_of(index, cross=("old", "new")) == set()
    assert len(pairs_of(index, limit=3)) == 3
    assert pairs_of(index, memory=2**20, workers=1) == everything
    search = index.pairs(measure="containment")
    assert len(list(search)) == len(everything)
    assert (search.newest_batch, search.left_out.buckets) == (2, 0)


def test_removed_documents_contain_nothing(index: Index, texts: Corpus) -> None:
    index.remove(["book 2", "passage 1"])
    left = {key: text for key, text in texts.items() if key not in ("book 2", "passage 1")}
    assert pairs_of(index, threshold=0.5) == brute_pairs(left, 0.5)


def test_what_cannot_be_asked_together_is_refused(index: Index, tmp_path: Path) -> None:
    for wrong in ({"recall": 0.9}, {"probe_limit": 9}, {"verify": "signature"}, {"threshold": 2}):
        with pytest.raises(ParameterError):
            index.query("a b c", measure="containment", **wrong)  # type: ignore[arg-type]
    for wrong in ({"max_bucket": 9}, {"verify": "none"}, {"threshold": 0}):
        with pytest.raises(ParameterError):
            index.pairs(measure="containment", **wrong)  # type: ignore[arg-type]
    for ask in (index.pairs, lambda measure: index.query("a", measure=measure)):
        with pytest.raises(ParameterError, match="expected one of similarity, containment"):
            ask(measure="jaccard")
    without_texts = Index.create(tmp_path / "b.lshdb", store_text=False)
    with without_texts as other, pytest.raises(ParameterError, match="stores none"):
        other.pairs(measure="containment")
    vectors = Index.create(tmp_path / "c.lshdb", metric="l2", dim=3, threshold=1)
    with vectors as other, pytest.raises(ParameterError, match="metric l2"):
        other.query(np.ones(3, np.float32), measure="containment")
