"""Every kind of index has a report that makes sense, or an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, ParameterError
from tests.report.test_report import by_class, by_id, label_of, parse, require_harmless, text_of

STORY = "the council voted to close the old bridge over the river for repairs"
TEXTS = [(f"k{n}", f"{STORY} number{n // 2}") for n in range(12)]
TOKENS = [(key, text.split()) for key, text in TEXTS]
CENTRES = np.random.default_rng(1).normal(size=(6, 16))
VECTORS = [(f"k{n}", row) for n, row in enumerate(np.concatenate([CENTRES, CENTRES * 1.001]))]
BITS = [(f"k{n}", np.arange(64) < 40 + n % 5) for n in range(12)]

KINDS: dict[str, tuple[dict[str, Any], list[tuple[str, Any]], bool]] = {
    "no texts": ({"threshold": 0.5, "store_text": False}, TEXTS, False),
    "tokens": ({"unit": "token", "k": 1, "threshold": 0.5}, TOKENS, True),
    "sets": ({"unit": "token", "k": 1, "threshold": 0.5}, [(a, {*b}) for a, b in TOKENS], True),
    "bags of characters": ({"unit": "char", "bag": True, "threshold": 0.5}, TEXTS, True),
    "cosine": ({"metric": "cosine", "dim": 16, "threshold": 0.8}, VECTORS, False),
    "cosine without vectors": (
        {"metric": "cosine", "dim": 16, "threshold": 0.8, "store_text": False}, VECTORS, False,
    ),
    "l1": ({"metric": "l1", "dim": 16, "threshold": 2.0}, VECTORS, False),
    "l2": ({"metric": "l2", "dim": 16, "threshold": 0.5}, VECTORS, False),
    "hamming": ({"metric": "hamming", "dim": 64, "threshold": 6}, BITS, False),
    "hamming at 0": ({"metric": "hamming", "dim": 64, "threshold": 0}, BITS, False),
    "bits": ({"metric": "jaccard-bits", "dim": 64, "threshold": 0.6}, BITS, False),
    "weights": (
        {"metric": "weighted-jaccard", "threshold": 0.5},
        [(f"k{n}", {"a": 1.0, "b": 2.0, f"c{n % 4}": 0.2}) for n in range(8)], True,
    ),
    "hosts": (
        {"unit": "url-host", "threshold": 0.5},
        [(f"host{n}.org", {f"http://host{n}.org/page{m}" for m in range(9)}) for n in range(4)],
        False,
    ),
}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("kind", KINDS)
def test_it_shows_the_same_clusters_as_the_index(kind: str, tmp_path: Path) -> None:
    parameters, documents, has_texts = KINDS[kind]
    with Index.create(tmp_path / "x.lshdb", **parameters) as index:
        index.add(documents)
        index.remove(documents[0][0])
        report = index.report(tmp_path / "report.html", sample=5)
        expected = [cluster.label for cluster in index.clusters()]
        distance = index.params.kind.is_distance
    tree = parse(report.path)
    require_harmless(tree)
    cards = by_class(tree, "cluster")
    assert [label_of(card) for card in cards] == expected
    assert expected
    for card in cards:
        assert float(card.get("data-low")) <= float(card.get("data-high"))
        if kind != "hosts":
            assert bool(by_class(card, "text")) == has_texts
    words = text_of(by_id(tree, "candidates"))
    assert words == ("Candidates by distance" if distance else "Candidates by similarity")


@pytest.mark.parametrize("documents", [[], [("a", ""), ("b", " ")]], ids=["empty", "no shingles"])
def test_an_index_without_a_signature(tmp_path: Path, documents: list[Any]) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        if documents:
            index.add(documents)
        report = index.report(tmp_path / "report.html")
        index.report(tmp_path / "pages")
    tree = parse(report.path)
    assert report.clusters == 0
    assert "No two documents are near-duplicates" in text_of(tree)
    assert ("Nothing has been added yet" in text_of(tree)) == (not documents)
    parse(tmp_path / "pages" / "index.html")


def test_passages_have_no_clusters(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", passages=(8, 4)) as index:
        index.add((f"k{n}", " ".join(f"word{m}" for m in range(n, 60 + n))) for n in range(0, 9, 3))
        report = index.report(tmp_path / "report.html")
    tree = parse(report.path)
    assert not by_class(tree, "cluster") and not by_class(tree, "pair")
    assert "lshdb pairs --by document" in text_of(tree)


def test_without_stored_pairs_nothing_is_written(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5) as index:
        index.add(TEXTS)
        with pytest.raises(ParameterError, match="has no verified edges") as caught:
            index.report(tmp_path / "report.html", update=False)
        assert "lshdb clusters INDEX" in str(caught.value.hint)
        assert index.edge_state() is None and not (tmp_path / "report.html").exists()
        index.update_clusters()
        state = index.edge_state()
        index.add([("more", TEXTS[0][1])])
        index.report(tmp_path / "report.html", update=False)
        assert index.edge_state() == state


def test_who_may_not_write_to_the_index_gets_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lshdb import ReadOnlyError
    from lshdb.report import index_report

    with Index.create(tmp_path / "x.lshdb", threshold=0.5) as index:
        index.add(TEXTS)
        index.update_clusters()
        ready: Callable[..., Any] = index_report.ready_edges

        def refuse(*args: Any, update: bool, **more: Any) -> Any:
            if update:
                raise ReadOnlyError("may not be written")
            return ready(*args, update=update, **more)

        monkeypatch.setattr(index_report, "ready_edges", refuse)
        assert index.report(tmp_path / "report.html").clusters == 1


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": 1.5}, {"sample": -1}, {"threshold": 2.0}, {"overwrite": 1},
     {"cluster": 3}, {"since": "never"}],
    ids=str,
)  # fmt: skip
def test_wrong_arguments(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add(TEXTS[:2])
        with pytest.raises(ParameterError):
            index.report(tmp_path / "report.html", **wrong)
    assert not (tmp_path / "report.html").exists()
