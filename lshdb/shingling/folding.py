"""The table of characters that can be normalised alone, whatever their neighbours are.

NFKC joins neighbours in two ways only: it sorts combining marks by their class, and it composes
some marks and a few letters (such as Hangul vowels and finals) with the letter before them. If a
character's decomposition begins with neither, before and after case folding, it does not change
what is before it, so a text may be cut there. If it does not end with a mark either, it changes
none of its neighbours. The same is true of a mark that never composes, if it is already in order
(a Thai vowel, an Indic virama). The compiled kernel normalises such characters one by one with
this table. Doubtful characters are left out of it: the kernel cuts the text before and after them,
and ``normalise_segment`` normalises what is between.
"""

from __future__ import annotations

from unicodedata import category, combining, is_normalized, normalize

from lshdb.shingling.composition import composing_seconds, normal_form

__all__ = ["APART", "COMPLEX", "MARK", "MOST_BYTES", "SPACE", "UNKNOWN", "fold_character",
           "normalise_segment", "table_entries", "table_entry"]  # fmt: skip

UNKNOWN, SPACE, COMPLEX, APART, MARK = 0, 8, 9, 10, 16
MOST_BYTES = 7


def fold_character(character: str, *, fold: bool) -> str | None:
    """Return the normalised form of one character, or None if its neighbours may matter.

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
    """Return the kernel's entry: the length in UTF-8 in the low byte, the bytes above it.

    The entry is ``SPACE`` for white space and ``COMPLEX`` for a character that does not normalise
    alone. It is ``APART`` for a character that does not change what is before it, but changes what
    follows, or becomes more than seven bytes, or white space and something else. A mark has
    ``MARK`` added to its length and its combining class in the top byte.
    """
    if 0xD800 <= ord(character) < 0xE000:
        return COMPLEX
    if combining(character):
        unchanged = is_normalized("NFKD", character) and character.casefold() == character
        if not unchanged or _composes(character):
            return COMPLEX
        return combining(character) << 56 | MARK + _as_it_is(character)
    folded = fold_character(character, fold=fold)
    if folded is None:
        composed = normalize("NFKC", character)
        forms = (character, composed.casefold() if fold else composed)
        return APART if all(map(_starts_apart, forms)) else COMPLEX
    if folded.isspace():
        return SPACE
    size = len(folded.encode())
    if not size or size > MOST_BYTES or folded.split() != [folded]:
        return APART
    return _as_it_is(folded)


def table_entries(first: int, last: int, *, fold: bool) -> list[int]:
    """Return the entries of the code points first to last - 1.

    One look is enough for a range that normalising leaves unchanged: letters, as in most blocks of
    Han, unassigned or private-use characters. A range of Hangul syllables needs no look.
    """
    block = "".join(map(chr, range(first, last)))
    if block[0] >= "\uac00" and block[-1] <= "\ud7a3":
        return list(map(_as_it_is, block))
    if (
        set(map(category, block)) <= {"Lo", "Ll", "Lu", "Nd", "Co", "Cn"}
        and is_normalized("NFKD", block)
        and (not fold or block.casefold() == block)
        and not any(map(_composes, block))
    ):
        return list(map(_as_it_is, block))
    return [table_entry(character, fold=fold) for character in block]


def normalise_segment(text: str, *, fold: bool) -> str:
    """Apply NFKC, fold case if asked to, and turn each run of white space into one blank."""
    text = normal_form("NFKC", text)
    if fold:
        text = normal_form("NFKC", text.casefold())
    return " ".join(f".{text}.".split())[1:-1]


def _as_it_is(character: str) -> int:
    encoded = character.encode()
    return len(encoded) | int.from_bytes(encoded, "little") << 8


def _stands_apart(text: str) -> bool:
    """Return whether a character changes none of its neighbours, including marks after it."""
    return _starts_apart(text) and not combining(normalize("NFKC", text)[-1])


def _starts_apart(text: str) -> bool:
    """Return whether a character leaves the text before it unchanged."""
    first = normalize("NFKD", text)[0]
    return not combining(first) and not _composes(first)


def _composes(character: str) -> bool:
    """Return whether a character can compose with the one before it.

    Few letters do: Hangul vowels and finals, and those of Kirat Rai.
    """
    if category(character)[0] == "M":
        return character in composing_seconds()
    return "\u1160" <= character <= "\u11ff" or "\U00016d63" <= character <= "\U00016d6a"
