"""Labels: reading them, and which threshold agrees best with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import lshdb
from lshdb import InputError, ParameterError
from tests.advice.test_similarity_counts import corpus, shingles

DOCUMENTS = corpus(300)
TEXTS = dict(DOCUMENTS)


def similarity(one: str, other: str) -> float:
    sets = shingles(TEXTS[one]), shingles(TEXTS[other])
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def labelled(line: float) -> list[tuple[str, str, bool]]:
    """Every pair that shares something, and yes from a similarity on."""
    keys = [*TEXTS]
    pairs = [(one, two) for i, one in enumerate(keys) for two in keys[i + 1 : i + 6]]
    levels = {pair: similarity(*pair) for pair in pairs}
    return [(*pair, level >= line) for pair, level in levels.items() if level > 0]


@pytest.mark.fast
def test_the_threshold_that_agrees_best_is_proposed() -> None:
    labels = labelled(0.6)
    advice = lshdb.advise(DOCUMENTS, labels=labels, aim="near-copies", k=5)
    found = advice.labels
    assert found is not None and found.threshold == 0.6
    assert (found.yes, found.no) == (
        sum(one[2] for one in labels),
        sum(not one[2] for one in labels),
    )
    best = next(row for row in found.rows if row.threshold == 0.6)
    assert best.precision == best.recall == best.f1 == 1.0
    assert advice.choices[0].aim == "labels" and advice.choices[0].threshold == 0.6
    for row in found.rows:
        levels = [(similarity(one, two), answer) for one, two, answer in labels]
        assert row.found_yes == sum(a and s >= row.threshold - 1e-9 for s, a in levels)
        assert row.found_no == sum(not a and s >= row.threshold - 1e-9 for s, a in levels)
        assert row.found_yes + row.missed_yes == found.yes
        assert row.found_no + row.missed_no == found.no
        if row.precision is not None:
            assert row.precision_lower is not None and row.precision_upper is not None
            assert row.precision_lower <= row.precision <= row.precision_upper


def test_what_labels_lack_is_said() -> None:
    labels = [("d0", "gone", True), ("d0", "d1", True), ("d1", "d0", False), ("d2", "d3", True)]
    advice = lshdb.advise(DOCUMENTS, labels=labels)
    found, said = advice.labels, "\n".join(advice.remarks)
    assert found is not None and found.threshold is None
    assert found.missing == ("gone",) and found.contradictions == (("d0", "d1"),)
    assert (found.yes, found.no) == (1, 0)
    assert "there is no document: 'gone'" in said and "both yes and no: 'd0' and 'd1'" in said
    assert "1 labels say yes and 0 no: without both" in said
    assert all(one.aim != "labels" for one in advice.choices)
    some = labelled(0.6)
    few = [*[one for one in some if one[2]][:3], *[one for one in some if not one[2]][:30]]
    said = "\n".join(lshdb.advise(DOCUMENTS, labels=few).remarks)
    assert "fewer than 20 of a kind" in said


def test_labelled_documents_count_that_are_not_drawn() -> None:
    found = lshdb.advise(DOCUMENTS, labels=labelled(0.6), sample=20, k=5).labels
    assert found is not None and found.threshold == 0.6 and not found.missing


def test_an_index_gives_the_same_answer(tmp_path: Path) -> None:
    labels = labelled(0.6)
    with lshdb.Index.create(tmp_path / "a.lshdb") as index:
        index.add(DOCUMENTS)
        stored = index.advise(labels=[*labels, ("d0", "gone", True)], aim="near-copies").labels
    assert stored is not None and stored.missing == ("gone",)
    given = lshdb.advise(DOCUMENTS, labels=labels, aim="near-copies").labels
    assert given is not None and stored.rows == given.rows


def test_labels_are_read_with_their_escapes(tmp_path: Path) -> None:
    file = tmp_path / "labels.tsv"
    file.write_text(
        "\ufeffkey1\tkey2\tlabel\na\\tb\tc\\\\d\tyes\n\nx\ty\tNO\r\ne\tf\tyes\t0.8\n",
        encoding="utf-8",
    )
    assert lshdb.read_labels(file) == [
        ("a\tb", "c\\d", True), ("x", "y", False), ("e", "f", True),
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["a\tb", "a\tb\tperhaps", "a b yes", "\tb\tyes", "a\t\tno"])
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "labels.tsv"
    file.write_text(f"a\tb\tyes\n{line}\n")
    with pytest.raises(InputError, match=r"labels\.tsv:2 is .*; expected key1, key2 and yes or no"):
        lshdb.read_labels(file)


def test_files_that_hold_no_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the labels"):
        lshdb.read_labels(tmp_path / "none.tsv")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        lshdb.read_labels(tmp_path / "b")


@pytest.mark.parametrize("labels", [[("a", "b")], [("a", "b", "yes")], [("a", "a", True)], ["ab"]])
def test_labels_that_are_none_are_refused(labels: list[object]) -> None:
    with pytest.raises(ParameterError, match="label"):
        lshdb.advise(DOCUMENTS, labels=labels)  # type: ignore[arg-type]
