"""What becomes of a character that normalises alone, whatever stands beside it.

NFKC lets neighbours meet in two ways only: combining marks are sorted by their class, and some
marks and a few letters (Hangul vowels and finals, say) are composed with the letter before them. A
character whose decomposition begins with neither, before and after case folding, leaves what stands
before it alone, so a text may be cut there. Where it ends with no mark either it leaves all its
neighbours alone, and so does a mark that never composes where it stands in order already (a Thai
vowel, an Indic virama). Such characters can be normalised one by one, which is what the compiled
kernel does with this table. Whatever is in doubt is left out of it: the kernel then cuts the text
before and behind, and ``normalise_segment`` normalises what is between.
"""

from __future__ import annotations

from unicodedata import category, combining, is_normalized, normalize

from lshdb.shingling.composition import composing_seconds, normal_form

__all__ = ["APART", "COMPLEX", "MARK", "MOST_BYTES", "SPACE", "UNKNOWN", "fold_character",
           "normalise_segment", "table_entries", "table_entry"]  # fmt: skip

UNKNOWN, SPACE, COMPLEX, APART, MARK = 0, 8, 9, 10, 16
MOST_BYTES = 7


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

    ``SPACE`` for white space, ``COMPLEX`` for a character that does not normalise alone. ``APART``
    for one that does not matter to what stands before it, but to what stands behind it, or that
    becomes more than seven bytes, or white space and something else. A mark has ``MARK`` added to
    its length and its combining class in the top byte.
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
    """Entries of the code points first to last - 1.

    Where all of them are letters that normalising leaves alone, as in most blocks of Han, or not
    assigned, or for private use, one look at all is enough; none where all are Hangul syllables.
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
    """NFKC, letter case folded or kept, runs of white space as one blank, at the ends too."""
    text = normal_form("NFKC", text)
    if fold:
        text = normal_form("NFKC", text.casefold())
    return " ".join(f".{text}.".split())[1:-1]


def _as_it_is(character: str) -> int:
    encoded = character.encode()
    return len(encoded) | int.from_bytes(encoded, "little") << 8


def _stands_apart(text: str) -> bool:
    """Whether a character leaves its neighbours alone, marks after it included."""
    return _starts_apart(text) and not combining(normalize("NFKC", text)[-1])


def _starts_apart(text: str) -> bool:
    """Whether a character leaves what stands before it alone."""
    first = normalize("NFKD", text)[0]
    return not combining(first) and not _composes(first)


def _composes(character: str) -> bool:
    """Whether some composition puts a character together with the one before it.

    The letters that do, Hangul vowels and finals and those of Kirat Rai, are few and known.
    """
    if category(character)[0] == "M":
        return character in composing_seconds()
    return "\u1160" <= character <= "\u11ff" or "\U00016d63" <= character <= "\U00016d6a"
