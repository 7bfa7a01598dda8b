"""Words and shingles in Python, for the peers that leave them to their user.

``zip`` over shifted lists is the fastest of the plain ways to write it. A text with fewer words
than a shingle is one shingle.
"""

from __future__ import annotations

import re

from benchmarks.peers._contract import WORDS_A_SHINGLE

_WORD = re.compile(r"\w+")


def shingles(text: str) -> list[str]:
    """Five-word shingles joined by blanks, in the order of the text."""
    words = _WORD.findall(text.lower())
    if len(words) < WORDS_A_SHINGLE:
        return [" ".join(words)]
    return list(map(" ".join, zip(*(words[i:] for i in range(WORDS_A_SHINGLE)), strict=False)))


def encoded_shingles(text: str) -> list[bytes]:
    """The same in UTF-8; encoding the words first spares a call a shingle."""
    words = [word.encode() for word in _WORD.findall(text.lower())]
    if len(words) < WORDS_A_SHINGLE:
        return [b" ".join(words)]
    return list(map(b" ".join, zip(*(words[i:] for i in range(WORDS_A_SHINGLE)), strict=False)))
