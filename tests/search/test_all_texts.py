"""All texts against some: exact answers however little is shared, in memory that is bounded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, Document, Index, NearestHits, Neighbor, ParameterError
from lshdb.kernel import compiled
from lshdb.search import all_texts
from lshdb.signatures import sharing
from tests.brute import jaccard, shingle_set
from tests.conftest import edited, family_corpus
from tests.raw import change
from tests.without_kernel import use_reference

WORDS = 2
Corpus = dict[str, str]


def corpus(n: int = 90) -> Corpus:
    """Texts of a few words, most of them with little in common, some of them alike."""
    rng = np.random.default_rng(5)
    texts = {
        f"t{number:03}": " ".join(f"w{word}" for word in rng.zipf(1.6, rng.integers(1, 30)) % 40)
        for number in range(n)
    }
    return texts | {"copy": texts["t000"], "another copy": texts["t000"], "empty": " "}


def index_at(path: Path, texts: Corpus, **options: Any) -> Index:
    index = Index.create(path, **({"k": WORDS, "threshold": 0.9} | options))
    index.add(texts.items())
    return index


def nearest(texts: Corpus, key: str | None, text: str) -> list[tuple[str, float]]:
    """All that share something, the most similar first."""
    own = shingle_set(text, WORDS)
    levels = [
        (other, jaccard(own, shingle_set(body, WORDS)))
        for other, body in texts.items()
        if other != key
    ]
    found = [(other, level) for other, level in levels if level > 0]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_texts, "_SHINGLE_BYTES", 2**28 // 200)
    monkeypatch.setattr(all_texts, "_TEXTS_ASK", 7)
    monkeypatch.setattr(all_texts, "_TEXTS_READ", 3)


def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    use_reference(monkeypatch)


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


WAYS = [plainly, in_blocks, without_kernel]
Way = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("way", WAYS)
def test_a_query_of_recall_1_gives_the_nearest_however_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    texts = corpus()
    way(monkeypatch)
    with index_at(tmp_path / "a.lshdb", texts) as index:
        for key, top in (
            ("t001", 10),
            ("t001", 1),
            ("t000", 3),
            ("copy", 1),
            ("t044", None),
            ("empty", 5),
        ):
            question: dict[str, Any] = {"top": top, "recall": 1, "threshold": 0.01}
            answer = index.query(key=key, **question)
            found = [(hit.key, hit.similarity) for hit in answer]
            assert found == nearest(texts, key, texts[key])[:top]
            of_text = index.query(texts[key], **question)
            found = [(hit.key, hit.similarity) for hit in of_text]
            assert found == nearest(texts, None, texts[key])[:top]
            assert all(hit.method == "exact" for hit in answer)
            assert isinstance(answer, NearestHits)
            assert answer.recall == 1.0


def test_many_queries_get_the_answers_of_single_ones(tmp_path: Path) -> None:
    texts = corpus()
    with index_at(tmp_path / "a.lshdb", texts) as index:
        queries = [Document(key, text) for key, text in texts.items()]
        single = [(one.key, index.query(one.body, top=4, recall=1)) for one in queries]
        assert list(index.query_many(queries, top=4, recall=1)) == single
        assert list(index.query_many(queries, top=4, recall=1, workers=3)) == single
        above = index.query(texts["t001"], recall=1, threshold=0.1, top=None)
        assert 0 < len(above) < len(nearest(texts, None, texts["t001"]))
        assert min(hit.similarity for hit in above) >= 0.1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("top", [1, 4, 1000])
def test_neighbors_with_recall_are_the_nearest_of_each_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, top: int
) -> None:
    texts = corpus()
    way(monkeypatch)
    with index_at(tmp_path / "a.lshdb", texts) as index:
        found: dict[str, list[Neighbor]] = {}
        for one in index.neighbors(top=top, recall=0.9):
            found.setdefault(one.key, []).append(one)
        oldest = {key: number for number, key in enumerate(texts)}
        for key, text in texts.items():
            near = nearest(texts, key, text)
            near.sort(key=lambda each: (-each[1], oldest[each[0]]))
            given = found.get(key, [])
            assert [(one.neighbor, one.similarity) for one in given] == near[:top]
            assert [one.rank for one in given] == list(range(1, len(given) + 1))
        assert index.edge_state() is None


def test_neighbors_with_recall_of_new_documents_and_above_a_threshold(tmp_path: Path) -> None:
    texts = corpus()
    with index_at(tmp_path / "a.lshdb", texts) as index:
        new_ones = {"new": edited(random.Random(1), texts["t030"], 1), "same": texts["t040"]}
        index.add(new_ones.items())
        everything = list(index.neighbors(top=5, recall=1))
        new = index.neighbors(top=5, recall=1, since="last")
        assert list(new) == [one for one in everything if one.key in ("new", "same")]
        assert new.newest_batch == 2
        above = list(index.neighbors(top=5, recall=1, threshold=0.2))
        assert above == [one for one in everything if one.similarity >= 0.2] != everything
        every = list(index.neighbors(top=1000, recall=1))
        under = list(index.neighbors(top=1000, recall=1, below=0.3))
        expected = [(one.key, one.neighbor) for one in every if one.similarity < 0.3]
        assert [(one.key, one.neighbor) for one in under] == expected != []
        hits = index.query(texts["t001"], recall=1, below=0.3, top=None, threshold=0.01)
        known = texts | new_ones
        expected_hits = [one for one in nearest(known, None, texts["t001"]) if one[1] < 0.3]
        assert [(hit.key, hit.similarity) for hit in hits] == expected_hits
        index.remove(["t030", "t040"])
        assert not {"t030", "t040"} & {one.neighbor for one in index.neighbors(recall=1)}
        rows = {(one.key, one.neighbor) for one in index.neighbors(recall=1, top=2)}
        assert ("same", "t040") not in rows and len(rows) > 100


def test_other_units_and_tokens_and_bags_are_compared(tmp_path: Path) -> None:
    texts = dict(family_corpus(5))
    kinds: dict[str, Any] = {
        "chars": {"unit": "char", "k": 4},
        "bytes": {"unit": "byte", "k": 3},
        "bags": {"bag": True},
    }
    for name, options in kinds.items():
        with index_at(tmp_path / name, texts, **options) as index:
            key = next(iter(texts))
            levels = [(other, index.similarity(texts[key], texts[other])) for other in texts]
            levels = [each for each in levels if each[0] != key and each[1] > 0]
            levels.sort(key=lambda each: (-each[1], each[0]))
            hits = index.query(key=key, recall=1, top=6)
            assert [(hit.key, hit.similarity) for hit in hits] == levels[:6]
    with Index.create(tmp_path / "tokens.lshdb", k=1, threshold=0.9) as index:
        index.add([("a", ["x", "y", "z"]), ("b", ["z"]), ("c", ["v"])])
        assert [(one.key, one.neighbor) for one in index.neighbors(recall=1)] == [
            ("a", "b"),
            ("b", "a"),
        ]


def test_an_empty_index_has_no_nearest(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        assert list(index.neighbors(recall=1)) == []
        answer = index.query("nothing is there", recall=1)
        assert (answer, answer.truncated) == ([], 0)


def test_what_has_no_texts_to_compare_is_refused(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", store_text=False) as index:
        with pytest.raises(ParameterError, match="stores none"):
            index.query("a", recall=1)
        with pytest.raises(ParameterError, match="above 0 and below 1"):
            index.neighbors(recall=1)
    vectors = Index.create(tmp_path / "b.lshdb", metric="cosine", dim=4)
    with vectors as index, pytest.raises(ParameterError, match="metric cosine"):
        index.query(np.ones(4, np.float32), recall=1)
    with Index.create(tmp_path / "c.lshdb") as index:
        for wrong in ({"recall": 0}, {"recall": 1.5}, {"recall": True}, {"recall": 1, "top": 0},
                      {"recall": 1, "threshold": 2}):  # fmt: skip
            with pytest.raises(ParameterError):
                index.neighbors(**wrong)
        for wrong in ({"verify": "signature"}, {"probe_limit": True}, {"verify": "none"}):
            with pytest.raises(ParameterError, match="recall 1 compares all texts"):
                index.query("a", recall=1, **wrong)


def test_a_lost_text_is_damage_and_no_shorter_answer(tmp_path: Path) -> None:
    with index_at(tmp_path / "a.lshdb", corpus()) as index:
        change(tmp_path / "a.lshdb", "DELETE FROM content WHERE doc_id = 7")
        with pytest.raises(DamageError, match="text of signature"):
            index.query("w1 w2 w3", recall=1)
        with pytest.raises(DamageError, match="text of signature"):
            list(index.neighbors(recall=1))


def test_a_table_is_kept_while_many_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = sharing.SetTable

    def counted(hashes: np.ndarray, counts: np.ndarray) -> sharing.SetTable:
        made.append(len(counts))
        return plain(hashes, counts)

    monkeypatch.setattr(all_texts, "SetTable", counted)
    texts = corpus()
    with index_at(tmp_path / "a.lshdb", texts) as index:
        assert len(list(index.query_many(texts.values(), recall=1, top=2))) == len(texts)
    assert len(made) == 1


@pytest.mark.skipif(compiled is None, reason="no compiler made the kernel")
def test_of_many_texts_that_are_all_alike_few_ask_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_pairs: list[int] = []
    plain = sharing.SetTable.sharing

    def counted(*values: Any, **wish: Any) -> Any:
        columns = plain(*values, **wish)
        n_pairs.append(len(columns[0]))
        return columns

    monkeypatch.setattr(sharing.SetTable, "sharing", counted)
    text = " ".join(f"w{number}" for number in range(20))
    texts = {f"t{number}": f"{text} x{number}" for number in range(900)}
    with index_at(tmp_path / "a.lshdb", texts) as index:
        assert index.recall(sample=800).total.pairs == 900 * 899 // 2 - 100 * 99 // 2
    assert sum(n_pairs) == 800 * 900
    assert max(n_pairs) <= 2**19


@pytest.mark.skipif(compiled is None, reason="no compiler made the kernel")
def test_every_document_above_the_threshold_is_among_the_nearest(tmp_path: Path) -> None:
    """What stored pairs list is part of what all texts give, in the same order."""
    with Index.create(tmp_path / "a.lshdb", threshold=0.4, bands=128, rows=1) as index:
        index.add(family_corpus(20))
        stored = list(index.neighbors(top=1000))
        found = list(index.neighbors(top=1000, recall=1, threshold=0.4))
        assert [one for one in found if one in stored] == stored
        assert len(found) >= len(stored) > 40
