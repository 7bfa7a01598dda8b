"""Characters that the interpreter's version of Unicode does not assign.

To it they are no letters, have no case and do not decompose; a later version may take them for
words, or normalise them, and sign the same text otherwise. Assigned characters normalise alike in
every version.
"""

from __future__ import annotations

from unicodedata import category

__all__ = ["count_unassigned"]


def count_unassigned(content: str | list[str]) -> int:
    """Number of characters of a canonical content that are not assigned (category Cn).

    Costs nothing for ASCII, and 2 ns a character where all are printable, as they are in most
    normalised texts.
    """
    if not isinstance(content, str):
        return sum(map(count_unassigned, content))
    if content.isascii() or content.isprintable():
        return 0
    return sum(category(character) == "Cn" for character in content)
