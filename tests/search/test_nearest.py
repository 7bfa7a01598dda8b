"""The nearest documents by all signatures: the same answers as by buckets, or more of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Document, Index, NearestHits
from lshdb.search import nearest, row_counts
from lshdb.storage.rowfiles import row_file
from tests.conftest import edited, family_corpus
from tests.without_kernel import use_reference

DIM, N, TOP = 24, 400, 10


def cloud(seed: int = 1) -> np.ndarray:
    """Vectors in clusters, of several lengths."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((20, DIM))
    rows = centres[rng.integers(0, 20, N)] + 0.6 * rng.standard_normal((N, DIM))
    return (rows * rng.lognormal(0.0, 1.0, (N, 1))).astype(np.float32)


def vectors_at(path: Path, rows: np.ndarray, /, **changes: Any) -> Index:
    """An index whose own buckets find little."""
    made: dict[str, Any] = {
        "metric": "cosine",
        "dim": DIM,
        "threshold": 0.9,
        "bands": 4,
        "rows": 16,
    }
    index = Index.create(path, **(made | changes))
    index.add((str(number), row) for number, row in enumerate(rows))
    return index


def answer_of(index: Index, *body: Any, **question: Any) -> NearestHits:
    found = index.query(*body, **{"top": TOP, "recall": 0.9} | question)
    assert isinstance(found, NearestHits)
    return found


def only_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_counts, "MOST_HELD_BYTES", -1)
    monkeypatch.setattr(row_counts, "_READ_SECONDS", 1.0)


@pytest.mark.parametrize("verify", ["exact", "signature"])
def test_both_ways_give_a_document_the_same_similarity_and_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: str
) -> None:
    rows = cloud()
    with vectors_at(tmp_path / "a.lshdb", rows) as index:
        by_all = [answer_of(index, row, verify=verify) for row in rows[:40]]
        only_buckets(monkeypatch)
        by_buckets = [answer_of(index, row, verify=verify) for row in rows[:40]]
    for all_of, some in zip(by_all, by_buckets, strict=True):
        assert (all_of.buckets, all_of.checked, all_of.left) == (0, N, 0)
        assert some.buckets > 0
        level = {hit.key: hit.similarity for hit in all_of}
        both = [hit for hit in some if hit.key in level]
        assert len(both) >= TOP // 2
        assert [level[hit.key] for hit in both] == [hit.similarity for hit in both]
        assert [hit.key for hit in all_of if hit in both] == [hit.key for hit in both]
        assert all_of.recall is not None and all_of.recall >= 0.9


def test_by_signature_the_ten_best_of_all_are_found_ties_in_order_of_key(tmp_path: Path) -> None:
    rows = cloud()
    with vectors_at(tmp_path / "a.lshdb", rows, bands=1, num_perm=32) as index:
        signatures = np.asarray(index.signatures)
        for number in range(20):
            answer = answer_of(index, key=str(number), verify="signature")
            equal = 32 - np.bitwise_count(signatures ^ signatures[number]).sum(axis=1)
            others = [place for place in range(N) if place != number]
            best = sorted(others, key=lambda place: (-int(equal[place]), str(place)))[:TOP]
            assert [hit.key for hit in answer] == [str(place) for place in best]
            assert answer.recall == 1.0


def test_held_rows_read_rows_threads_and_the_reference_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = cloud()
    queries = [Document(str(number), row) for number, row in enumerate(rows[:150])]
    with vectors_at(tmp_path / "a.lshdb", rows) as index:
        question = {"top": TOP, "recall": 0.9}
        expected = [answer_of(index, query.body) for query in queries]

        def answers(workers: int) -> list[NearestHits]:
            found = index.query_many(queries, workers=workers, **question)
            return [each for _, each in found if isinstance(each, NearestHits)]

        monkeypatch.setattr(row_counts, "_PIECE_BYTES", 256)  # 4 rows
        assert answers(1) == answers(3) == expected
        monkeypatch.setattr(row_counts, "_COUNT_BYTES", 5 * 2 * N)  # 5 queries a pass
        assert answers(2) == expected
        monkeypatch.setattr(row_file, "MOST_HELD_BYTES", 0)
        assert answers(3) == expected
        use_reference(monkeypatch)
        assert answers(1) == expected


def test_a_small_file_is_held_from_the_second_pass_on_and_a_large_one_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = row_file.RowFile.take_between

    def counted(self: row_file.RowFile, first: int, last: int) -> Any:
        read.append((last - first) if self.layout.kind == "signature" else 0)
        return plain(self, first, last)

    with vectors_at(tmp_path / "a.lshdb", cloud()) as index:
        monkeypatch.setattr(row_file.RowFile, "take_between", counted)
        row = np.ones(DIM, dtype=np.float32)
        for total in (N, 2 * N, 2 * N):
            answer_of(index, row)
            assert sum(read) == total
    with Index.open(tmp_path / "a.lshdb") as index:
        read.clear()
        monkeypatch.setattr(row_file, "MOST_HELD_BYTES", 0)
        for total in (N, 2 * N, 3 * N):
            answer_of(index, row)
            assert sum(read) == total


def test_removed_documents_and_copies_and_the_one_that_asks(tmp_path: Path) -> None:
    rows = cloud()
    with vectors_at(tmp_path / "a.lshdb", rows) as index:
        near = [hit.key for hit in answer_of(index, key="0")]
        index.remove([near[0], near[3]])
        index.add([("a copy", rows[int(near[1])]), ("my copy", rows[0])])
        answer = answer_of(index, key="0")
        keys = [hit.key for hit in answer]
        assert keys[0] == "my copy" and answer[0].similarity == 1.0
        assert keys[1:3] == sorted([near[1], "a copy"])
        assert not {"0", near[0], near[3]} & set(keys)
        assert len(set(keys)) == TOP
        assert answer.checked == N - 2


def test_a_threshold_ends_the_answer_and_no_document_above_it_is_missed(tmp_path: Path) -> None:
    rows = cloud()
    units = rows / np.linalg.norm(rows.astype(np.float64), axis=1)[:, None]
    with vectors_at(tmp_path / "a.lshdb", rows, num_perm=1024) as index:
        found = wanted = 0
        for number in range(30):
            answer = answer_of(index, key=str(number), top=None, threshold=0.6)
            near = np.flatnonzero(units @ units[number] >= 0.6)
            assert {int(hit.key) for hit in answer} <= set(near.tolist()) - {number}
            found, wanted = found + len(answer), wanted + len(near) - 1
    assert wanted > 100
    assert found >= 0.9 * wanted


def test_own_buckets_do_where_an_index_was_made_for_what_is_asked(tmp_path: Path) -> None:
    corpus = family_corpus(12)
    with Index.create(tmp_path / "a.lshdb", threshold=0.5, recall=0.99, k=2) as index:
        index.add(corpus)
        answer = answer_of(index, corpus[0][1], top=1)
        assert (answer.buckets, answer[0].similarity) == (index.params.bands, 1.0)
        assert answer.checked < len(corpus) / 2


def test_texts_are_found_beyond_their_own_buckets(tmp_path: Path) -> None:
    """The own buckets of an index for 0.95 hold hardly any of the texts that share half."""
    rng, corpus = random.Random(4), family_corpus(30)
    asked = [edited(rng, text, 6) for _, text in corpus[::5]]
    options: dict[str, Any] = {"threshold": 0.95, "k": 2, "num_perm": 256}
    with Index.create(tmp_path / "a.lshdb", **options) as index:
        index.add(corpus)
        found = wanted = 0
        for text in asked:
            answer = answer_of(index, text, top=4)
            own = answer_of(index, text, top=4, recall=None, probe_limit=10**6, threshold=0.01)
            assert {hit.key for hit in own if hit.similarity >= answer[-1].similarity} <= {
                hit.key for hit in answer
            }
            assert answer.checked == index.stats().signatures > own.checked
            every = sorted((index.similarity(text, other) for _, other in corpus), reverse=True)
            near = [level for level in every[:4] if level > 0.0]
            found += sum(hit.similarity >= near[-1] for hit in answer)
            wanted += len(near)
            assert answer.recall is not None and answer.recall >= 0.9
    assert wanted > 3 * len(asked)
    assert found >= 0.9 * wanted


def test_all_texts_are_compared_where_the_best_by_signature_are_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = [
        (str(number), f"the same words {number} of {number * 7} in each") for number in range(99)
    ]
    with Index.create(tmp_path / "a.lshdb", threshold=0.95, k=1) as index:
        index.add(corpus)
        by_signature = answer_of(index, "the same words in some", top=40)
        monkeypatch.setattr(nearest, "_MOST_TEXTS", 45)
        by_texts = answer_of(index, "the same words in some", top=40)
    assert by_signature.buckets > 0 and by_signature.recall is not None
    assert 0.9 <= by_signature.recall < 1.0
    assert (by_texts.buckets, by_texts.recall) == (0, 1.0)
    assert len(by_texts) == len(by_signature) == 40


def _planted_below_signatures() -> list[tuple[str, str]]:
    """Ten documents of 200 words that share six, which hardly any slot of a signature shows."""
    rng = random.Random(7)
    documents = []
    for number in range(10):
        own = [f"w{rng.randrange(10**6)}" for _ in range(194)]
        place = rng.randrange(150)
        own[place:place] = ["six", "words", "that", "all", "have", "here"]
        documents.append((f"d{number}", " ".join(own)))
    return documents


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("has_key", [False, True])
def test_texts_that_share_too_little_for_signatures_are_found(
    tmp_path: Path, has_key: bool, many: bool
) -> None:
    """Ten documents share six words, so two shingles of 391: nine are near each of them."""
    corpus = _planted_below_signatures()
    with Index.create(tmp_path / "a.lshdb", threshold=0.8) as index:
        index.add([*corpus, *family_corpus(30)])
        for key, text in corpus:
            if many:
                ((_, answer),) = index.query_many([(key, text)], top=12, recall=0.95)
            else:
                answer = answer_of(
                    index, *(() if has_key else (text,)), top=12, recall=0.95,
                    **({"key": key} if has_key else {}),
                )  # fmt: skip
            own = 0 if has_key and not many else 1
            assert isinstance(answer, NearestHits) and answer.recall == 1.0
            assert {hit.key for hit in answer} >= {other for other, _ in corpus if other != key}
            assert len(answer) == 9 + own


def test_the_recall_that_is_asked_for_is_reached_where_all_is_far(tmp_path: Path) -> None:
    """Against a comparison with all, of texts whose tenth nearest shares next to nothing."""
    rng = random.Random(3)
    vocabulary = [f"v{number}" for number in range(400)]
    corpus = [
        (str(number), " ".join(rng.choices(vocabulary, k=rng.choice([8, 30, 200]))))
        for number in range(400)
    ]
    with Index.create(tmp_path / "a.lshdb", threshold=0.8, k=2) as index:
        index.add(corpus)
        reached = wanted = 0
        for key, text in corpus[::20]:
            every = sorted(
                (index.similarity(text, other) for name, other in corpus if name != key),
                reverse=True,
            )
            least = min((level for level in every[:10] if level > 0.0), default=1.0)
            answer = answer_of(index, key=key, top=10, recall=0.95)
            reached += sum(hit.similarity >= least for hit in answer)
            wanted += sum(level > 0.0 for level in every[:10])
            assert answer.recall is not None and answer.recall >= 0.95
    assert wanted > 100 and reached >= 0.95 * wanted


def test_without_texts_an_answer_says_what_is_not_known(tmp_path: Path) -> None:
    """By signature, all of what an estimate shows is found; weights have no table of all texts."""
    with Index.create(tmp_path / "a.lshdb", threshold=0.8, store_text=False) as index:
        index.add(_planted_below_signatures())
        assert answer_of(index, _planted_below_signatures()[0][1], top=9, recall=0.95).recall == 1.0
    with Index.create(tmp_path / "w.lshdb", metric="weighted-jaccard", threshold=0.8) as index:
        index.add([("a", {"x": 1.0, "y": 2.0}), ("b", {"z": 1.0})])
        answer = answer_of(index, {"x": 1.0, "y": 2.0}, top=5, recall=0.95)
        assert [hit.key for hit in answer] == ["a"] and answer.recall is None
        assert answer_of(index, {"x": 1.0, "y": 2.0}, top=1, recall=0.95).recall is not None


def test_texts_that_share_nothing_are_no_answers(tmp_path: Path) -> None:
    with Index.create(tmp_path / "a.lshdb", k=1) as index:
        index.add([("a", "one two three"), ("b", "four five six")])
        assert [hit.key for hit in answer_of(index, "one two nine")] == ["a"]
        assert answer_of(index, "of other words").recall == 1.0
        assert answer_of(index, "  ").recall == 1.0


def test_buckets_go_on_where_that_is_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimates decide: a large file is scanned once many buckets are needed."""
    rows = cloud()
    monkeypatch.setattr(row_counts, "MOST_HELD_BYTES", -1)
    with vectors_at(tmp_path / "a.lshdb", rows) as index:
        mixed = answer_of(index, rows[0])
        assert mixed.checked == N and mixed.buckets > 0
        monkeypatch.setattr(nearest, "_BUCKET_SECONDS", 0.0)
        monkeypatch.setattr(nearest, "_CANDIDATE_SECONDS", 0.0)
        assert answer_of(index, rows[0]).checked < N


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"metric": "l2", "threshold": 2.0, "bands": 8, "rows": 4},
        {"metric": "l2", "threshold": 2.0, "bands": 8, "rows": 4, "store_text": False},
    ],
)
def test_neighbors_with_recall_are_what_each_document_finds(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    rows = cloud()[:100]
    rows[17] = rows[16]
    with vectors_at(tmp_path / "a.lshdb", rows, **changes) as index:
        index.remove(["30"])
        index.add([("new", rows[5] * 1.001)])
        found: dict[str, list[tuple[str, float, float | None]]] = {}
        asked = index.neighbors(top=3, recall=0.95)
        for one in asked:
            found.setdefault(one.key, []).append((one.neighbor, one.similarity, one.distance))
            assert one.rank == len(found[one.key])
        by_query = {
            key: [
                (hit.key, hit.similarity, hit.distance)
                for hit in index.query(key=key, top=3, recall=0.95)
            ]
            for key in index
        }
        assert found == by_query
        assert found["16"][0][0] == "17" and "30" not in found
        assert 0.95 <= asked.reached <= 1.0  # type: ignore[union-attr]
        new = list(index.neighbors(top=3, recall=0.95, since="last"))
        assert [(one.neighbor, one.similarity, one.distance) for one in new] == found["new"]
        assert {one.key for one in new} == {"new"}
        near = list(index.neighbors(top=100, recall=0.95, threshold=0.9 if not changes else 1.5))
        assert 0 < len(near) < 100 * 99
        under = index.neighbors(top=100, recall=0.95, below=0.9 if not changes else 1.5)
        both = {(one.key, one.neighbor) for one in near}
        assert not both & {(one.key, one.neighbor) for one in under}


def test_neighbors_with_recall_find_the_nearest_vectors(tmp_path: Path) -> None:
    rows = cloud(2)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    levels = units.astype(np.float64) @ units.T.astype(np.float64)
    np.fill_diagonal(levels, -2.0)
    best = np.argsort(-levels, axis=1)[:, :TOP]
    with vectors_at(tmp_path / "a.lshdb", rows, num_perm=512) as index:
        found = {(one.key, one.neighbor) for one in index.neighbors(top=TOP, recall=0.95)}
    hits = [(str(n), str(other)) in found for n in range(N) for other in best[n]]
    assert sum(hits) / len(hits) >= 0.95
