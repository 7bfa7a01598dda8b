"""Characters that the interpreter's version of Unicode does not assign.

To it they are no letters, have no case and do not decompose; a later version may take them for
words, or normalise them, and sign the same text otherwise. Assigned characters normalise alike in
every version.
"""

from __future__ import annotations

from unicodedata import category

__all__ = ["count_unassigned"]

_PIECE = 512
"""Characters looked at together. A soft hyphen costs one piece and not the whole text."""


def count_unassigned(content: str | list[str]) -> int:
    """Number of characters of a canonical content that are not assigned (category Cn).

    Costs nothing for ASCII, and 2 ns a character where all are printable, as they are in most
    normalised texts. Only a piece of the text that holds one that is not printable (a soft hyphen,
    a private-use character) is looked at more closely, for 10 to 80 ns a character.
    """
    if not isinstance(content, str):
        return sum(map(count_unassigned, content))
    if content.isascii() or content.isprintable():
        return 0
    pieces = (content[start : start + _PIECE] for start in range(0, len(content), _PIECE))
    return sum(map(_count_in_piece, pieces))


def _count_in_piece(piece: str) -> int:
    if piece.isprintable():
        return 0
    distinct = set(piece)
    if 4 * len(distinct) > len(piece):  # each by itself is then no dearer
        return sum(category(character) == "Cn" for character in piece)
    return sum(piece.count(character) for character in distinct if category(character) == "Cn")
