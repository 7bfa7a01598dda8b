"""Where two texts differ: words of each in their context, some of them.

Words are compared without regard to letter case and white space, in order, by the longest blocks
that both texts have (difflib). Only the beginnings of long texts are compared, which bounds the
time to some hundredths of a second a pair. This is a file of its own because it knows texts, and
nothing of samples.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from lshdb.advice.advice import WordDifference
from lshdb.shingling import word_spans

__all__ = ["MOST_WORDS", "word_differences"]

MOST_WORDS = 500
_MOST_CHARACTERS = 20_000
_SHOWN = 3
_CONTEXT = 4


def word_differences(text1: str, text2: str) -> tuple[tuple[WordDifference, ...], int]:
    """Return the first differences between two texts, and how many there are.

    Of a text of more than 500 words the first ones are compared.
    """
    is_long = max(len(text1), len(text2)) > _MOST_CHARACTERS
    text1, text2 = text1[:_MOST_CHARACTERS], text2[:_MOST_CHARACTERS]
    spans1, spans2 = (word_spans(text)[: MOST_WORDS + 1] for text in (text1, text2))
    is_cut = is_long or max(len(spans1), len(spans2)) > MOST_WORDS
    spans1, spans2 = spans1[:MOST_WORDS], spans2[:MOST_WORDS]
    words1 = [text1[start:end].casefold() for start, end in spans1]
    words2 = [text2[start:end].casefold() for start, end in spans2]
    matcher = SequenceMatcher(None, words1, words2, autojunk=False)
    found = [one for one in matcher.get_opcodes() if one[0] != "equal"]
    if is_cut and found and (found[-1][2], found[-1][4]) == (len(spans1), len(spans2)):
        found.pop()  # where the comparison ends, not where the texts differ

    def words(text: str, spans: list[tuple[int, int]], first: int, last: int) -> str:
        first = max(first, 0)
        return " ".join(text[start:end] for start, end in spans[first:last])

    shown = tuple(
        WordDifference(
            before=words(text1, spans1, first1 - _CONTEXT, first1),
            words1=words(text1, spans1, first1, last1),
            words2=words(text2, spans2, first2, last2),
            after=words(text1, spans1, last1, last1 + _CONTEXT),
        )
        for _, first1, last1, first2, last2 in found[:_SHOWN]
    )
    return shown, len(found)
