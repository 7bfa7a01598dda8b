"""What becomes of a character that normalises alone, whatever stands beside it.

NFKC lets neighbours meet in two ways only: combining marks are sorted and composed with the letter
before them, and a few letters (Hangul vowels and finals, some signs of Indic scripts) are composed
with the letter before. A character whose decomposition begins with neither, before and after case
folding, leaves its neighbours alone; texts of such characters can be normalised one by one,
which is what the compiled kernel does with this table. Whatever is in doubt is left out of it:
the reference then normalises the whole text.
"""

from __future__ import annotations

from unicodedata import category, combining, normalize

__all__ = ["COMPLEX", "MOST_BYTES", "SPACE", "UNKNOWN", "fold_character", "table_entry"]

UNKNOWN, SPACE, COMPLEX = 0, 8, 9
MOST_BYTES = 7

# Letters (not marks) that compose with the letter before them: Hangul vowels and finals, Kirat Rai.
_COMPOSING = ((0x1160, 0x11FF), (0x16D63, 0x16D6A))


def fold_character(character: str, *, fold: bool) -> str | None:
    """Normalised form of one character, or None where its neighbours may matter.

    Parameters
    ----------
    character : str
        One code point.
    fold : bool
        Whether letter case is folded.

    Returns
    -------
    str or None
        NFKC, case-folded, NFKC again; O(1).
    """
    composed = normalize("NFKC", character)
    folded = composed.casefold() if fold else composed
    if not (_stands_apart(character) and _stands_apart(folded)):
        return None
    return normalize("NFKC", folded)


def table_entry(character: str, *, fold: bool) -> int:
    """The kernel's entry: so many bytes of UTF-8 in the low byte, the bytes above it.

    ``SPACE`` for white space, ``COMPLEX`` for a character that does not normalise alone, that
    becomes more than seven bytes, or that becomes white space and something else.
    """
    if 0xD800 <= ord(character) < 0xE000:
        return COMPLEX
    folded = fold_character(character, fold=fold)
    if folded is None:
        return COMPLEX
    if folded.isspace():
        return SPACE
    encoded = folded.encode()
    if not encoded or len(encoded) > MOST_BYTES or len(folded.split()) != 1 or folded[0].isspace():
        return COMPLEX
    return len(encoded) | int.from_bytes(encoded, "little") << 8


def _stands_apart(text: str) -> bool:
    first = normalize("NFKD", text)[0]
    return (
        not combining(first)
        and not category(first).startswith("M")
        and not any(low <= ord(first) <= high for low, high in _COMPOSING)
    )
