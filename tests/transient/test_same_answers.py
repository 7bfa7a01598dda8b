"""An index that lasts for one question gives the answers of one that stays, item by item."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    AddResult,
    AllRejectedError,
    Document,
    Index,
    KeyNotFoundError,
    LshdbError,
    ParameterError,
    TooManyRejectedError,
    TransientIndex,
    deduplicate,
)
from lshdb.ingest import add_sizes
from tests.conftest import family_corpus
from tests.families import POLICIES, family

RNG = np.random.default_rng(3)


def words(n: int = 240) -> list[tuple[str, Any]]:
    """Texts in families, copies, texts without a shingle, and other scripts."""
    corpus: list[tuple[str, Any]] = list(family_corpus(7, families=n // 4))
    corpus += [(f"copy {number}", text) for number, (_, text) in enumerate(corpus[: n // 6])]
    corpus += [("empty", ""), ("blank", " \n"), ("one", "word"), ("ключ", "Съешь ещё этих мягких")]
    corpus += [("ключ 2", "съешь ЕЩЁ этих мягких"), ("漢", "漢字仮名交じり文の例" * 9)]
    corpus += [("漢 2", "漢字仮名交じり文の例" * 9 + "。"), ("long", "a b c d e f " * 30_000)]
    random.Random(1).shuffle(corpus)
    return corpus


def vectors(dim: int = 24) -> list[tuple[str, Any]]:
    centres = RNG.normal(size=(40, dim))
    points = np.repeat(centres, 4, axis=0) + RNG.normal(scale=0.05, size=(160, dim))
    points[7] = points[3]
    return [(f"v{number}", point) for number, point in enumerate(points.astype(np.float32))]


def bits() -> list[tuple[str, Any]]:
    centres = RNG.integers(0, 2, size=(40, 128), dtype=np.uint8)
    points = np.repeat(centres, 4, axis=0)
    flips = RNG.random(points.shape) < 0.03
    return [(f"b{number}", point) for number, point in enumerate(points ^ flips)]


def weights() -> list[tuple[str, Any]]:
    return [
        (key, {word: float(text.split().count(word)) for word in text.split()})
        for key, text in family_corpus(5, families=30)
    ]


def token_sets() -> list[tuple[str, Any]]:
    return [(key, set(text.split())) for key, text in family_corpus(6, families=30)]


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "words": (words, {}),
    "low threshold": (words, {"threshold": 0.3, "k": 2}),
    "characters": (words, {"unit": "char"}),
    "bytes": (words, {"unit": "byte"}),
    "bag": (words, {"bag": True, "k": 1}),
    "lines": (words, {"unit": "line", "k": 1}),
    "not stored": (words, {"store_text": False}),
    "stop words": (words, {"stop_words": ["w1", "w2"], "k": 2}),
    "universal": (words, {"scheme": "universal", "seed": 5}),
    "sets of tokens": (token_sets, {"unit": "token", "k": 1}),
    "weights": (weights, {"metric": "weighted-jaccard"}),
    "cosine": (vectors, {"metric": "cosine", "dim": 24}),
    "l2": (vectors, {"metric": "l2", "dim": 24, "threshold": 1.0}),
    "l1": (vectors, {"metric": "l1", "dim": 24, "threshold": 3.0}),
    "hamming": (bits, {"metric": "hamming", "dim": 128, "threshold": 12}),
    "bits": (bits, {"metric": "jaccard-bits", "dim": 128, "threshold": 0.8}),
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, which is empty at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def small_sizes(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Let an add take few documents at a time, so that there are many batches and files."""
    monkeypatch.setattr(add_sizes, "SIZES", add_sizes.AddSizes(**sizes))


def counts_of(result: AddResult) -> tuple[Any, ...]:
    rejections = [(rejection.source, rejection.reason) for rejection in result.rejections]
    return result.added, result.copies, result.short, result.rejected, rejections


def assert_same(documents: list[Any], parameters: dict[str, Any], path: Path) -> None:
    with (
        Index.create(path / "index.lshdb", **parameters) as index,
        TransientIndex.create(**parameters) as transient,
    ):
        assert counts_of(transient.add(documents)) == counts_of(index.add(documents))
        assert transient.params == index.params
        assert len(transient) == len(index)
        pairs = list(index.pairs())
        assert pairs
        assert list(transient.pairs()) == pairs
        assert list(transient.pairs(max_bucket=3)) == list(index.pairs(max_bucket=3))
        assert list(transient.clusters()) == list(index.clusters())
        representative = index.clusters(linkage="representative", min_size=3)
        assert list(transient.clusters(linkage="representative", min_size=3)) == list(
            representative
        )
        for keep in ("first", "last", "longest", "shortest"):
            assert list(transient.dedup(keep=keep)) == list(index.dedup(keep=keep))
        assert list(transient.dedup(only="drop")) == list(index.dedup(only="drop"))
        assert_same_queries(index, transient, documents[:30])


def assert_same_queries(index: Index, transient: TransientIndex, asked: list[Any]) -> None:
    key, body = asked[3]
    for workers in (1, 2):
        many = list(index.query_many(asked, top=4, workers=workers))
        assert list(transient.query_many(asked, top=4, workers=workers)) == many
    for how in ({"top": 3}, {"recall": 0.95}, {"verify": "signature", "top": None}):
        assert transient.query(body, **how) == index.query(body, **how)
        assert transient.query(key=key, **how) == index.query(key=key, **how)
    assert (key in transient, "none" in transient) == (True, False)
    with pytest.raises(KeyNotFoundError):
        transient.query(key="none")


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_and_unit(kind: str, tmp_path: Path, temporary: Path) -> None:
    make, parameters = KINDS[kind]
    assert_same(make(), parameters, tmp_path)


@pytest.mark.parametrize("kind", ["words", "cosine", "not stored"])
def test_many_batches_and_files(
    kind: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.storage.orders.freezing.MOST_SORTED", 10)
    monkeypatch.setattr("lshdb.storage.orders.frozen.MOST_SORTED", 10)
    small_sizes(monkeypatch, batch_documents=17, first_documents=9, commit_postings=600)
    make, parameters = KINDS[kind]
    assert_same(make(), parameters, tmp_path)


@pytest.mark.parametrize("kind", ["one_word", "sub_families", "boilerplate"])
def test_large_buckets_and_fields(kind: str, tmp_path: Path, temporary: Path) -> None:
    documents = [Document(text.key, text.text, fields=text.fields) for text in family(kind, 400)]
    parameters: dict[str, Any] = {"threshold": 0.5, "k": 1}
    with (
        Index.create(tmp_path / "index.lshdb", **parameters) as index,
        TransientIndex.create(**parameters) as transient,
    ):
        transient.add(documents)
        index.add(documents)
        state = index.update_clusters(max_bucket=20)
        made = transient.update_clusters(max_bucket=20)
        assert (made.hot_buckets, made.hot_pairs) == (state.hot_buckets, state.hot_pairs)
        assert transient.loss() == index.loss()
        for keep in POLICIES:
            assert list(transient.dedup(keep=keep)) == list(index.dedup(keep=keep))
        for fields in ({"agree": "score"}, {"differ": "score"}):
            assert list(transient.pairs(**fields)) == list(index.pairs(**fields))
            assert list(transient.clusters(**fields)) == list(index.clusters(**fields))
            assert list(transient.dedup(**fields)) == list(index.dedup(**fields))


def test_other_thresholds(tmp_path: Path, temporary: Path) -> None:
    with Index.create(tmp_path / "index.lshdb") as index, TransientIndex.create() as transient:
        transient.add(words())
        index.add(words())
        for threshold in (0.9, 0.5, 0.8):
            assert list(transient.clusters(threshold=threshold)) == list(
                index.clusters(threshold=threshold)
            )
        text = words()[0][1]
        for how in ({"recall": 1, "top": 5}, {"measure": "containment", "threshold": 0.5}):
            assert transient.query(text, **how) == index.query(text, **how)
        contained = index.pairs(measure="containment", threshold=0.9)
        assert list(transient.pairs(measure="containment", threshold=0.9)) == list(contained)
        below = index.pairs(below=0.95, limit=5)
        assert list(transient.pairs(below=0.95, limit=5)) == list(below)


def test_a_key_that_comes_again_is_rejected(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_sizes(monkeypatch, batch_documents=20, first_documents=20)
    documents = [*words(), *words()[:50], ("a\tb", "text"), ("a", "text"), ("a", "other")]
    with Index.create(tmp_path / "index.lshdb") as index, TransientIndex.create() as transient:
        assert counts_of(transient.add(documents)) == counts_of(index.add(documents))
        assert list(transient.dedup()) == list(index.dedup())


def test_keys_with_one_hash_are_two_keys(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = "lshdb.transient.document_names.hash_keys"
    monkeypatch.setattr(hashes, lambda keys: np.full(len(keys), 2**32, dtype=np.uint64))
    small_sizes(monkeypatch, batch_documents=2, first_documents=2)
    with TransientIndex.create() as transient:
        result = transient.add([(key, f"text of {key}") for key in "abcab"])
        assert (result.added, result.rejected) == (3, 2)
        assert transient._store.documents.names.rows_of(["c", "x", "a", "b"]).tolist() == [
            2,
            -1,
            0,
            1,
        ]


def test_passages_are_refused(temporary: Path) -> None:
    with TransientIndex.create(passages=(20, 10)) as transient:
        with pytest.raises(ParameterError, match="whole documents"):
            transient.add(words())
        assert len(transient) == 0
    texts = ["a b c d e f " * 9] * 2
    with pytest.raises(ParameterError, match="whole documents"):
        deduplicate(texts, passages=(20, 10))


@pytest.mark.fast
def test_what_an_add_refuses_is_refused(temporary: Path) -> None:
    with TransientIndex.create() as transient:
        with pytest.raises(AllRejectedError):
            transient.add([("", "text")])
        assert len(transient) == 0
    with TransientIndex.create() as transient, pytest.raises(TooManyRejectedError):
        transient.add([("", "text"), ("b", "text")], max_errors=0)
    with TransientIndex.create() as transient:
        transient.add([("a", "text")])
        with pytest.raises(LshdbError, match="once"):
            transient.add([("b", "text")])
    with pytest.raises(LshdbError, match="closed"):
        transient.dedup()


def test_a_full_disk_is_said(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lshdb.transient.spilled.write_at", fail)
    with TransientIndex.create() as transient, pytest.raises(LshdbError, match="No space") as info:
        transient.add(words())
    assert "TMPDIR" in f"{info.value.hint}"
