"""Word diffs: both texts come back whole, equal words are equal, and no text is slow."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb import (
    Index,
    InputError,
    KeyNotFoundError,
    ParameterError,
    TextDiff,
    TextNotStoredError,
)
from lshdb.search import word_diff
from lshdb.search.word_diff import diff_texts
from lshdb.shingling import normalise, word_spans
from lshdb.shingling.normalise import NORMALISATION

Make = Callable[..., Index]

WORDS = ["the", "The", "of", "a", "ﬁrst", "first", "party", "中", "ü", "3", "--", "\n", "\r\n", "…"]
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


def compare(text1: str, text2: str) -> TextDiff:
    found = diff_texts(text1, text2, steps=NORMALISATION)
    assert_whole(found)
    return found


def words(text: str) -> list[str]:
    return [normalise(text[start:end], NORMALISATION) for start, end in word_spans(text)]


def assert_whole(found: TextDiff) -> None:
    """Parts give both texts; what is called equal or moved is; lines are where parts begin."""
    sides = ("", "")
    for part in found.parts:
        assert part.kind in ("same", "deleted", "inserted", "moved-from", "moved-to")
        text1, text2 = found.texts_of(part)
        assert part.line1 == len((found.text1[: part.start1] + "x").splitlines())
        assert part.line2 == len((found.text2[: part.start2] + "x").splitlines())
        sides = sides[0] + text1 * part.is_first, sides[1] + text2 * part.is_second
        if part.kind in ("same", "moved-from", "moved-to"):
            assert words(text1) == words(text2)
            assert text1
            assert text2
        else:
            assert not (text1 and text2)
            assert text1 or text2
    assert sides == (found.text1, found.text2)
    assert found.n_moved == sum(
        len(words(found.texts_of(part)[0])) for part in found.parts if part.kind == "moved-from"
    )
    assert (found.words1, found.words2) == (len(words(found.text1)), len(words(found.text2)))


def marked(found: TextDiff) -> str:
    marks = {"same": "{}", "deleted": "[-{}-]", "inserted": "{{+{}+}}"}
    marks |= {"moved-from": "<{}>", "moved-to": ">{}<"}
    return "".join(
        marks[part.kind].format(found.texts_of(part)[0 if part.is_first else 1])
        for part in found.parts
    )


@settings(max_examples=300, deadline=None)
@given(texts, texts)
def test_any_two_texts_come_back_whole(text1: str, text2: str) -> None:
    found = compare(text1, text2)
    back = compare(text2, text1)
    assert (found.words1, found.words2) == (back.words2, back.words1)


@settings(max_examples=100, deadline=None)
@given(texts)
def test_a_text_is_equal_to_itself(text: str) -> None:
    found = compare(text, text)
    assert [part.kind for part in found.parts] == ["same"] * bool(text)
    assert found.n_same == len(words(text))


@pytest.mark.fast
def test_one_word_is_replaced() -> None:
    found = compare(
        "The party may demur within twenty days.", "the ﬁrst party may demur in thirty days"
    )
    assert marked(found) == "The {+ﬁrst +}party may demur [-within twenty -]{+in thirty +}days."


def test_words_that_differ_in_what_normalisation_drops_are_equal() -> None:
    assert marked(compare("Ofﬁce  HOURS", "office hours")) == "Ofﬁce  HOURS"


@pytest.mark.parametrize(
    ("text1", "text2", "kinds"),
    [
        ("... !", "...\n!", ["same"]),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\U0001f469", ["same"]),
        ("...", "....", ["deleted", "inserted"]),
        ("gov\xadernment of all", "government of\u200b all", ["same"]),
        ("\u0915\u093f \u0939\u0948", "\u0915\u0940 \u0939\u0948", ["deleted", "inserted", "same"]),
    ],
)
def test_marks_count_and_what_nobody_sees_does_not(
    text1: str, text2: str, kinds: list[str]
) -> None:
    assert [part.kind for part in compare(text1, text2).parts] == kinds


def test_a_passage_was_moved() -> None:
    first = "one two three four five six seven eight nine ten eleven twelve"
    moved = "this sentence stood at the end before"
    found = compare(f"{first} {moved}", f"{moved} {first}")
    assert found.n_moved == 7
    assert found.n_same == 12
    assert marked(found) == f">{moved} <{first} <{moved}>"
    there, here = (part for part in found.parts if part.kind.startswith("moved"))
    assert (there.start1, there.end2) == (len(first) + 1, len(moved) + 1)
    assert (here.start1, here.end1, here.start2, here.end2) == (
        there.start1, there.end1, there.start2, there.end2,
    )  # fmt: skip


def test_short_repeats_are_not_moved() -> None:
    found = compare("a b c d e and so on for a while", "and so on for a while d c b")
    assert not found.n_moved


def test_a_common_word_inside_a_new_sentence_belongs_to_the_change() -> None:
    found = compare(
        "begin here: nobody knows what the old one said about it. end here",
        "begin here: everybody can see how the new text reads today. end here",
    )
    assert [part.kind for part in found.parts] == ["same", "deleted", "inserted", "same"]


def test_parts_have_the_lines_of_the_texts_as_they_are() -> None:
    text1 = "one two three four five\r\nsix seven eight\rnine ten\u2028eleven old twelve"
    text2 = "one two three four five six seven\n\neight nine ten eleven new twelve"
    lines = {part.kind: (part.line1, part.line2) for part in compare(text1, text2).parts[1:3]}
    assert lines == {"deleted": (4, 3), "inserted": (4, 3)}


@pytest.mark.parametrize("n_moved", [0, 1, 3])
def test_planted_changes_are_what_is_found(n_moved: int) -> None:
    rng = random.Random(n_moved)
    for _ in range(20):
        before = [f"w{rng.randrange(3_000)}" for _ in range(2_000)]
        blocks = [before[at : at + 100] for at in range(0, 2_000, 100)]
        for number in range(n_moved):
            blocks.insert(1 + 4 * number, blocks.pop(15 + number))
        after = [word for block in blocks for word in block]
        edits = sorted(rng.sample(range(0, 2_000, 50), 10))
        for place in edits:
            after[place] = f"new{place}"
        found = compare(" ".join(before), " ".join(after))
        assert found.n_same + found.n_moved >= 2_000 - 10 - 12 * n_moved
        assert abs(found.n_moved - 100 * n_moved) <= 12 * n_moved
        assert not found.is_coarse


def test_what_is_too_long_is_one_change_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_diff, "_MOST_BITS", 30)
    found = compare("p q " * 6, "q p " * 6)
    assert found.is_coarse
    assert not compare("a b c", "a d c").is_coarse


@pytest.mark.parametrize(
    "sides",
    [
        ("x" * 200_000, "x" * 200_000 + "y"),
        ("a " * 60_000, "a " * 50_000),
        ("a b " * 20_000, "b a " * 20_000),
        (" ".join(map(str, range(40_000))), " ".join(map(str, range(40_000, 80_000)))),
        (" ".join(map(str, range(30_000))), " ".join(map(str, range(29_999, -1, -1)))),
        ("中文" * 20_000, "中" * 10_000 + "文" * 10_000),
    ],
    ids=["no blank", "one word", "period", "nothing shared", "reversed", "characters"],
)
def test_no_text_is_slow(sides: tuple[str, str]) -> None:
    """Tables of bits are bounded, so that these take tenths of a second and no more memory."""
    cells: list[int] = []
    common = word_diff._common

    def counted(left: Any, right: Any) -> Any:
        found = common(left, right)
        cells.append(0 if found is None else len(left) * len(right))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_diff, "_common", counted)
        found = diff_texts(*sides, steps=NORMALISATION)
    assert "".join(found.texts_of(part)[0] for part in found.parts if part.is_first) == sides[0]
    assert "".join(found.texts_of(part)[1] for part in found.parts if part.is_second) == sides[1]
    assert len(found.parts) < 100


def test_hunks_have_what_differs_and_some_words_around_it() -> None:
    rest = " ".join(f"w{i}" for i in range(100))
    found = compare(f"{rest} old {rest}\nthe end", f"{rest} new {rest}\nThe end, added")
    first, second = found.hunks(context=2)
    assert [found.texts_of(part)[1] or found.texts_of(part)[0] for part in first] == [
        "w98 w99 ", "old ", "new ", "w0 w1 ",
    ]  # fmt: skip
    assert [found.texts_of(part)[1] for part in second] == ["The end, ", "added"]
    assert (second[0].line1, second[1].line2) == (2, 2)
    assert found.hunks(context=200) == [found.parts]
    assert compare("a b c", "A b c").hunks() == []


# Of an index


def test_documents_of_an_index(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three"), ("b", "one three"), ("t", ["x", "y"]), ("s", {"x", "y"})])
    assert marked(index.diff("a", "b")) == "one [-two -]three"
    assert marked(index.diff("a", body="One two THREE four")) == "one two three{+four+}"
    assert marked(index.diff("t", "s")) == "x y"
    assert index.diff("s", "a").text1 == "x\ny"
    with pytest.raises(KeyNotFoundError, match="no document has the key 'z'"):
        index.diff("a", "z")
    with pytest.raises(ParameterError, match="either a second key or a body"):
        index.diff("a")
    with pytest.raises(InputError, match="cannot be used"):
        index.diff("a", body="\ud800")


def test_indexes_without_words(make_index: Make) -> None:
    bare = make_index("bare", store_text=False)
    bare.add([("a", "one two three")])
    with pytest.raises(TextNotStoredError, match="--no-text"):
        bare.diff("a", "a")
    weights = make_index("weights", metric="weighted-jaccard")
    weights.add([("a", {"x": 1.0})])
    with pytest.raises(ParameterError, match="have no words to compare"):
        weights.diff("a", "a")


def test_windows_and_documents_of_an_index_of_passages(make_index: Make) -> None:
    index = make_index(k=3, passages=(20, 10))
    text = " ".join(f"word{i}" for i in range(50))
    index.add([("a", text), ("b", text.replace("word30", "other"))])
    assert "[-word30 -]{+other +}" in marked(index.diff("a", "b"))
    window = next(key for key in index if key.startswith("a#0-"))
    assert index.diff(window, "b").text1 == text[: len(index.diff(window, "b").text1)]


@pytest.mark.parametrize("n_words", [4, 30, 1000])
def test_places_taken_as_one_are_as_good_as_each_by_itself(n_words: int) -> None:
    """Also where a run before them covers the first ones in one text alone."""
    n_covered = 0
    for seed in range(400):
        rng = random.Random(seed)
        first = [rng.randrange(n_words) for _ in range(200)]
        second = list(first)
        for _ in range(6):
            start = rng.randrange(len(second))
            passage = second[start : start + rng.randrange(1, 20)]
            del second[start : start + len(passage)]
            place = rng.randrange(len(second) + 1)
            second[place:place] = rng.choice([passage, passage[:-1], [*passage, 0], []])
        ids1, ids2 = np.array(first), np.array(second)
        anchors = word_diff._anchors(ids1, ids2)
        alone = [
            word_diff._EqualRun(anchor.first1 + i, anchor.first2 + i, 1)
            for anchor in anchors
            for i in range(anchor.n)
        ]
        found = word_diff._extended(ids1, ids2, anchors)
        assert found == word_diff._extended(ids1, ids2, alone)
        heads = [word_diff._EqualRun(*anchor[:2], 1) for anchor in anchors]
        n_covered += found != word_diff._extended(ids1, ids2, heads)
    assert n_covered or n_words != 30
