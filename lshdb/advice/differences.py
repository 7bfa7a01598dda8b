"""Where two texts differ: the first few differences, each with some words around it.

The words are laid side by side by ``search/word_diff.py``. Only the beginnings of long texts are
compared, which bounds the time. This is a file of its own because it knows texts, and nothing of
samples.
"""

from __future__ import annotations

from lshdb.advice.advice import WordDifference
from lshdb.search.word_diff import TextDiff, diff_texts

__all__ = ["MOST_CHARACTERS", "word_differences"]

MOST_CHARACTERS = 20_000
_SHOWN = 3
_CONTEXT = 4


def word_differences(
    text1: str, text2: str, *, steps: str
) -> tuple[tuple[WordDifference, ...], int]:
    """Return the first differences between two texts, and how many there are.

    Parameters
    ----------
    text1, text2 : str
        Their first 20,000 characters are compared.
    steps : str
        The normalisation of words.
    """
    is_cut = max(len(text1), len(text2)) > MOST_CHARACTERS
    diff = diff_texts(text1[:MOST_CHARACTERS], text2[:MOST_CHARACTERS], steps=steps)
    changes = _changes(diff)
    if is_cut and diff.parts and diff.parts[-1].kind != "same":
        changes.pop()  # where the comparison ends, not where the texts differ
    return tuple(_shown(diff, *change) for change in changes[:_SHOWN]), len(changes)


def _changes(diff: TextDiff) -> list[tuple[int, int]]:
    """Return the first part of each change, and the part after its last."""
    changes: list[tuple[int, int]] = []
    for place, part in enumerate(diff.parts):
        if part.kind == "same":
            continue
        if changes and changes[-1][1] == place:
            changes[-1] = changes[-1][0], place + 1
        else:
            changes.append((place, place + 1))
    return changes


def _shown(diff: TextDiff, first: int, last: int) -> WordDifference:
    parts = diff.parts

    def words(of: range) -> tuple[list[str], list[str]]:
        first_text = "".join(diff.texts_of(parts[at])[0] for at in of if parts[at].is_first)
        second_text = "".join(diff.texts_of(parts[at])[1] for at in of if parts[at].is_second)
        return first_text.split(), second_text.split()

    ones, twos = words(range(first, last))
    before = words(range(max(first - 1, 0), first))[0]
    after = words(range(last, min(last + 1, len(parts))))[0]
    return WordDifference(
        words1=" ".join(ones),
        words2=" ".join(twos),
        before=" ".join(before[-_CONTEXT:]),
        after=" ".join(after[:_CONTEXT]),
    )
