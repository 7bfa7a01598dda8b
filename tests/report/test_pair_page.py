"""The page of a pair: what explain and the diff say, in HTML that is sound and escaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lshdb import Index, KeyNotFoundError, ParameterError
from tests.report.test_report import HOSTILE, HOSTILE_KEYS, by_class, by_id, parse, text_of

Make = Callable[..., Index]


def texts_of(tree: Any) -> list[str]:
    """The left and the right column, as the style shows them, and the folds."""

    def text(element: Any, others: set[str]) -> str:
        names = {element.tag, *(element.get("class") or "").split()}
        if names & others:
            return ""
        parts = [element.text or ""]
        for child in element:
            parts += [text(child, others), child.tail or ""]
        return "".join(parts)

    columns = [
        "".join(text(side, others) for side in by_class(tree, "side"))
        for others in ({"ins", "b"}, {"del", "u", "i"})
    ]
    return columns + [text(fold, set()) for fold in by_class(tree, "fold")]


@pytest.mark.fast
def test_what_differs_stands_side_by_side(make_index: Make) -> None:
    index = make_index(k=2, threshold=0.3)
    moved = "a sentence of more than six words moves"
    rest = " ".join(f"w{number}" for number in range(90))
    index.add([("old", f"{moved}\nthe OLD end {rest}"), ("new", f"the new end {rest}\n{moved}")])
    tree = parse(index.explain_page("old", "new"))
    explanation = index.explain("old", "new")
    facts = {text_of(row[0]): text_of(row[1]) for row in tree.iter("tr")}
    assert facts["exact similarity"] == f"{explanation.exact:.3f}"
    assert facts["bands that agree"].startswith(
        f"{len(explanation.matched_bands)} of {explanation.bands}: "
    )
    assert facts["words"] == "92 are equal, of 101 and 101; 8 were moved"
    assert text_of(by_id(tree, "verdict")) == "Near-duplicates"
    assert [element.text for element in tree.iter("del")] == ["OLD"]
    assert [element.text for element in tree.iter("ins")] == ["new"]
    assert [element.get("title") for element in by_class(tree, "moved")] == [
        "moved, line 2 of the other text", "moved, line 1 of the other text",
    ]  # fmt: skip
    left, right, fold = texts_of(tree)
    assert left.startswith(f"moved, line 2 of the other text: {moved}")
    assert "words alike" in fold
    assert right.endswith(moved)
    cards = [element for element in tree.iter("details") if element.get("class") == "card"]
    summaries = [text_of(element.find("summary")) for element in cards]
    assert summaries == [
        f"{len(explanation.shared or ())} in both",
        f"{len(explanation.only1 or ())} only in old",
        f"{len(explanation.only2 or ())} only in new",
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_and_keys_stay_text(make_index: Make, text: str) -> None:
    index = make_index()
    keys = HOSTILE_KEYS
    index.add([(key, f"{text} {number}") for number, key in enumerate(keys)])
    for first, second in [(keys[0], keys[1]), (keys[2], keys[3])]:
        tree = parse(index.explain_page(first, second))
        (script,) = tree.iter("script")
        assert "alert" not in script.text
        for element in tree.iter():
            assert element.tag not in {"img", "svg", "iframe"}
            assert not [name for name in element.attrib if name.startswith("on")]
        assert not set("".join(tree.itertext())) & {"\u202e", "\x1b", "\u2066"}
    if "<script>" in text:
        assert "<script>alert(1)</script>" in texts_of(tree)[0]


def test_with_a_text_without_texts_and_with_vectors(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three four five six")])
    assert "the text given" in text_of(parse(index.explain_page("a", body="one two")))
    bare = make_index("bare", store_text=False)
    bare.add([("a", "one two three four five six"), ("b", "one two three four five six seven")])
    said = text_of(parse(bare.explain_page("a", "b")))
    assert "not known: texts are not stored" in said
    assert "The index does not store texts." in said
    vectors = make_index("vectors", metric="l2", dim=3, threshold=1.0)
    vectors.add([("a", np.zeros(3, np.float32)), ("b", np.ones(3, np.float32))])
    said = text_of(parse(vectors.explain_page("a", "b")))
    assert "exact distance" in said
    assert "1.732" in said
    assert "These are no texts." in said
    with pytest.raises(KeyNotFoundError):
        index.explain_page("a", "z")
    with pytest.raises(ParameterError):
        index.explain_page("a")
