"""The words in which two texts differ, with their context."""

from __future__ import annotations

import pytest

from lshdb.advice.differences import MOST_CHARACTERS, word_differences

STEPS = "ignorable-nfkc-casefold-space"


@pytest.mark.fast
def test_what_differs_is_shown_with_its_context() -> None:
    one = "a b c d e f g h i j k l m n o p q r s t u v w x y z and much more text here"
    two = one.replace(" f ", " F  ").replace(" k ", " new words ").replace(" u ", " ")
    found, n = word_differences(one, two, steps=STEPS)
    assert n == 2 and [(each.words1, each.words2) for each in found] == [
        ("k", "new words"),
        ("u", ""),
    ]
    assert (found[0].before, found[0].after) == ("g h i j", "l m n o")
    assert word_differences(one, one.upper(), steps=STEPS) == ((), 0)


def test_few_of_many_differences_are_shown() -> None:
    one = " ".join(f"w{i}" for i in range(300))
    two = " ".join(f"w{i}" if i % 30 else "x" for i in range(300))
    found, n = word_differences(one, two, steps=STEPS)
    assert n == 10 and len(found) == 3 and found[0].before == ""


def test_the_end_of_the_comparison_is_no_difference() -> None:
    long = " ".join(f"w{i}" for i in range(MOST_CHARACTERS))
    found, n = word_differences(long, "new " + long, steps=STEPS)
    assert n == 1 and found[0].words2 == "new"
