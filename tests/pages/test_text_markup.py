"""How two texts are shown: every word of each, in order, and marked where they differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb.pages import text_markup
from lshdb.pages.text_markup import LONGEST, Piece, ShownText, first_words, unchanged_text
from lshdb.shingling.normalise import NORMALISATION

WORDS = st.lists(
    st.sampled_from(["the", "a", "of", "council", "bridge", "river", "rain", "night"]), max_size=40
)


def show_texts(left: str, right: str) -> tuple[ShownText, ShownText]:
    """Both texts of all rows, one after the other, as two columns show them."""
    sides = text_markup.side_by_side(left, right, steps=NORMALISATION)
    texts = []
    for own, others, n_cut in zip(
        ("left", "right"),
        (("right", "ins", "moved"), ("left", "del", "gap", "moved-from")),
        sides.n_cut,
        strict=True,
    ):
        pieces: list[Piece] = []
        for row in sides.rows:
            for piece in ([Piece("fold", row.fold)] if row.fold else []) + list(row.pieces):
                if piece.kind in others:
                    continue
                kind = "same" if piece.kind in (own, "gap") else piece.kind
                if pieces and pieces[-1].kind == kind == "same":
                    pieces[-1] = Piece("same", pieces[-1].text + piece.text)
                else:
                    pieces.append(Piece(kind, piece.text, piece.line))
        texts.append(ShownText(tuple(pieces), n_cut))
    return texts[0], texts[1]


def show_difference(left: str, right: str) -> ShownText:
    return text_markup.show_difference(left, right, steps=NORMALISATION)


def words(pieces: tuple[Piece, ...], *kinds: str) -> list[str]:
    return [word for piece in pieces if piece.kind in kinds for word in piece.text.split()]


@given(WORDS, WORDS)
def test_nothing_is_lost_or_made_up(one: list[str], other: list[str]) -> None:
    left, right = show_texts(" ".join(one), " ".join(other))
    assert words(left.pieces, "same", "del", "moved-from") == one
    assert words(right.pieces, "same", "ins", "moved") == other
    merged = show_difference(" ".join(one), " ".join(other))
    assert words(merged.pieces, "same", "ins", "moved") == other
    assert words(left.pieces, "same") == words(right.pieces, "same")


@pytest.mark.fast
def test_what_differs_is_marked() -> None:
    shown = show_difference("close the OLD bridge today", "Close the new bridge today or not")
    assert shown.pieces == (
        Piece("same", "Close the "), Piece("del", "OLD"), Piece("same", " "), Piece("ins", "new"),
        Piece("same", " bridge today "), Piece("ins", "or not"),
    )  # fmt: skip


def test_a_passage_that_moved_is_no_new_one() -> None:
    passage = "this passage has more than six words and moves"
    rest = " ".join(f"word{number}" for number in range(30))
    left, right = show_texts(f"{passage}\n{rest} end", f"{rest}\n{passage} end")
    assert [piece.kind for piece in left.pieces] == ["moved-from", "same"]
    assert [piece.kind for piece in right.pieces] == ["same", "moved", "same"]
    assert left.pieces[0].text == right.pieces[1].text == passage
    assert [left.pieces[0].line, right.pieces[1].line] == [2, 1]


def test_long_texts_fold_to_what_differs() -> None:
    same = [f"word{number}" for number in range(500)]
    left, right = show_texts(" ".join([*same, "a", *same]), " ".join([*same, "b", *same]))
    kinds = [piece.kind for piece in right.pieces if piece.text != " "]
    assert kinds == ["fold", "same", "ins", "same", "fold"]
    assert right.pieces[0].text == "… 485 words alike …"
    assert right.n_shown < 400 and left.n_cut == right.n_cut == 0


def test_a_fold_counts_lines_where_there_are_some() -> None:
    lines = [" ".join(f"word{10 * line + n}" for n in range(10)) for line in range(30)]
    left, right = "\n".join([*lines, "the OLD end"]), "\n".join([*lines, "the new end"])
    sides = text_markup.side_by_side(left, right, steps=NORMALISATION, keep_folds=True)
    assert [row.fold for row in sides.rows] == ["… 29 lines alike …", ""]
    (kept,) = sides.rows[0].pieces
    assert text_markup.SOFT_BREAK in kept.text
    assert kept.text.split() == " ".join(lines).split()[: len(kept.text.split())]
    without = text_markup.side_by_side(left, right, steps=NORMALISATION)
    assert without.rows[0].pieces == ()


def test_what_counts_as_equal_is_shown_as_either_text_has_it() -> None:
    """Each word stands once, but where it is written differently, or another line ends."""
    left = "Whoever takes the Ferry at night pays double, said the reeve,\nand the miller agreed."
    right = "Whoever takes the ferry at night pays double; said the reeve, and the miller\nagreed."
    (row,) = text_markup.side_by_side(left, right, steps=NORMALISATION).rows
    assert [(piece.kind, piece.text) for piece in row.pieces] == [
        ("same", "Whoever takes the "), ("left", "Ferry"), ("right", "ferry"),
        ("same", " at night pays double"), ("left", ","), ("right", ";"),
        ("same", " said the reeve, "), ("break-left", "\x85"), ("same", "and the miller "),
        ("break-right", "\x85"), ("same", "agreed."),
    ]  # fmt: skip


SCANNED = """IN ALL CASES

the party shall give notice to the opposite
party, and file his answer to the suit in
the office of the clerk.
And no more."""
CODE = """def answer(question: str) -> list[str]:
    return [question for _ in range(len(it))]
import sys
print(answer(SOMETHING_LONG_ENOUGH_TO_FLOW))"""


@pytest.mark.parametrize(
    ("text", "flowing"),
    [(SCANNED, SCANNED.replace("opposite\n", "opposite\x85").replace("in\nthe", "in\x85the")),
     (CODE, CODE), ("a\nb\nc", "a\nb\nc"), ("x" * 999 + "\ny", "x" * 999 + "\ny"),
     ("- a point of many words in a long list\n- and a second one of the same length", None)],
    ids=["scan", "code", "short", "long", "list"],
)  # fmt: skip
def test_only_the_ends_of_full_lines_of_prose_flow(text: str, flowing: str | None) -> None:
    shown = unchanged_text(text)
    assert shown.pieces[0].text == (flowing or text)
    assert shown.is_code == (text is CODE)


def test_first_words_end_with_a_word() -> None:
    assert first_words("one  two\nthree four", 12) == "one two"
    assert first_words("one", 12) == "one" and first_words("x" * 99, 12) == "x" * 12
    assert first_words("prop\xad\nerty", 12) == "prop\xaderty"


def test_a_megabyte_without_a_blank_is_cut() -> None:
    shown = show_difference("a" * 1_000_000, "b" + "a" * 1_000_000)
    assert shown.n_cut == 1_000_001 - LONGEST and shown.n_shown < 3 * LONGEST
    assert unchanged_text("a" * 1_000_000).n_cut == 1_000_000 - LONGEST


def test_bodies_that_are_no_texts() -> None:
    assert unchanged_text(["a", "b"]).pieces[0].text == "a b"
    assert unchanged_text(frozenset({"b", "a"})).pieces[0].text == "a\nb"
    assert unchanged_text({"b": 2.0, "a": 0.5}).pieces[0].text == "a 0.5\nb 2"
