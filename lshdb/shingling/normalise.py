r"""Normalise texts by a recorded procedure, named after its steps, and check them for limits.

Two documents that differ only in what the steps remove (by default letter case, compatibility
forms such as ligatures and full-width letters, composed or decomposed accents, characters that
nobody sees, and white space) have the same normalised text, so the index treats them as exact
copies.

The steps have a fixed order. Joined by hyphens, they are the name that an index stores:

``ignorable``
    Default-ignorable characters are left out (``words.IGNORABLE_RANGES``): soft hyphens, zero-width
    spaces and joiners, byte order marks, signs of direction, variation selectors, tags.
``nfkc``
    Unicode's compatibility composition.
``casefold``
    Full case folding. If ``nfkc`` is a step, NFKC follows once more, because folding alone can
    leave text that is not in NFKC (the Unicode standard, section 5.18).
``accents``
    NFD, without the marks that are written above, below or through a letter which stands without
    them (combining classes 1, 10 to 36 and 202 to 240: accents, Hebrew points, Arabic vowels),
    composed again: to NFKC if ``nfkc`` is a step, else to NFC. Vowel signs (class 0), nuktas (7),
    voicing marks of kana (8) and viramas (9) stay, because without them a word is another one.
``digits``
    Every maximal match of ``\d+(?:[.,]\d+)*`` becomes ``0``.
``punctuation``
    Every character of a category P* or S* becomes one blank.
``space`` or ``lines``
    White space, as in ``str.split``, becomes one blank, and is removed at the ends: of the whole
    text, or of each line (``str.splitlines``); empty lines are dropped and the others joined with
    line feeds.

A procedure without steps is named ``none``. Normalising twice changes nothing, whatever the steps
(a test tries every combination): no step brings back what an earlier step removed.

``ignorable-nfkc-casefold`` is Unicode's toNFKC_Casefold (chapter 3.13) of the text's NFKC form.

Limit: characters that the interpreter's version of Unicode does not assign are not letters, have
no case and do not decompose. A later version may treat them as words, or normalise them, and then
the same text gets another signature. Assigned characters normalise alike in every version.

The compiled kernel normalises most characters one by one, with a table of those whose neighbours
do not matter (:func:`table_entries`). NFKC joins neighbours in two ways only: it sorts combining
marks by their class, and it composes some marks and a few letters (such as Hangul vowels and
finals) with the letter before them. If a character's decomposition begins with neither, before and
after case folding, it does not change what is before it, so a text may be cut there. If it does not
end with a mark either, it changes none of its neighbours. The same is true of a mark that never
composes, if it is already in order (a Thai vowel, an Indic virama). Doubtful characters are left
out of the table: the kernel cuts the text before and after them, and :func:`normalise_segment`
normalises what is between. A character that is left out has an entry without a result, and what is
before it meets what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from unicodedata import category, combining, is_normalized, normalize

from lshdb.arrays import np
from lshdb.errors import ParameterError
from lshdb.shingling.composition import (
    PIECE,
    Form,
    composing_seconds,
    in_pieces,
    is_boundary,
    normal_form,
    normal_pieces,
)
from lshdb.shingling.words import holds_ignorable, without_ignorable

__all__ = [
    "APART",
    "COMPLEX",
    "IGNORED",
    "MARK",
    "MOST_BYTES",
    "MOST_GROWTH",
    "MOST_NORMALISED",
    "NORMALISATION",
    "SPACE",
    "STEPS",
    "UNKNOWN",
    "count_unassigned",
    "fold_character",
    "join_steps",
    "normalise",
    "normalise_segment",
    "parse_steps",
    "point_kinds",
    "refuse_growth",
    "table_entries",
    "table_entry",
]

NORMALISATION = "ignorable-nfkc-casefold-space"
"""The default procedure for words and characters."""

STEPS = ("ignorable", "nfkc", "casefold", "accents", "digits", "punctuation", "space", "lines")
"""Every step, in order; ``space`` and ``lines`` exclude each other."""

MOST_NORMALISED = 64 * 2**20
"""Most bytes of UTF-8 that a normalised text may have, unless the text has half as many itself."""

MOST_GROWTH = 33
"""Most bytes of UTF-8 that one character becomes: U+FDFA, in every Unicode version so far."""

_CODE_POINTS = 0x110000
_NO_STEP = "none"
_DIGITS = r"\d+"
_MORE_DIGITS = r"(?<=0)[.,]0"


def parse_steps(name: str) -> tuple[str, ...]:
    """Return the steps of a procedure.

    Parameters
    ----------
    name : str
        Steps joined by hyphens, or ``none``.

    Returns
    -------
    tuple of str

    Raises
    ------
    ParameterError
        A step is unknown, repeated, or out of order.
    """
    if isinstance(name, str):
        steps = () if name == _NO_STEP else tuple(name.split("-"))
        if join_steps(steps) == name and not {"space", "lines"} <= set(steps):
            return steps
    raise ParameterError(
        f"normalisation is {name!r}; expected none, or some of "
        f"{', '.join(STEPS[:-1])} or {STEPS[-1]}, in this order, joined by hyphens"
    )


def join_steps(steps: Iterable[str]) -> str:
    """Return the name of a procedure; steps are put in order and unknown ones left out."""
    return "-".join(filter(set(steps).__contains__, STEPS)) or _NO_STEP


_parsed = lru_cache(maxsize=128)(parse_steps)


def normalise(text: str, steps: str = NORMALISATION) -> str:
    """Normalise one text.

    Parameters
    ----------
    text : str
        Any text without lone surrogates.
    steps : str
        Name of the procedure.

    Returns
    -------
    str
        By default NFKC_Casefold (no ignorable characters, NFKC, case-folded), runs of white space
        turned into one blank, none at the ends.

    Raises
    ------
    ParameterError
        The procedure is unknown.

    Notes
    -----
    O(n) time and memory for every text, in steps of some hundred milliseconds at most;
    signals are handled between them. ASCII text skips the steps that cannot change it. Assigned
    characters normalise alike in every Unicode version.
    """
    is_ascii = text.isascii()
    if steps == NORMALISATION:  # nearly always, so it has a fast path
        if is_ascii:
            return _collapsed(in_pieces(str.lower, text))
        text = in_pieces(without_ignorable, text)
        if len(text) > PIECE:
            return _collapsed_pieces(_folded_pieces(text), _collapse)
        return _collapse(normal_form("NFKC", normal_form("NFKC", text).casefold()))
    chosen = _parsed(steps)
    form: Form = "NFKC" if "nfkc" in chosen else "NFC"
    if "ignorable" in chosen:
        text = in_pieces(without_ignorable, text)
    if "nfkc" in chosen and not is_ascii:
        text = normal_form("NFKC", text)
    if "casefold" in chosen:
        text = in_pieces(str.lower if is_ascii else str.casefold, text)
        if "nfkc" in chosen and not is_ascii:
            text = normal_form("NFKC", text)
    if "accents" in chosen and not is_ascii:
        text = normal_form(form, in_pieces(_without_accents, normal_form("NFD", text)))
    if "digits" in chosen:
        text = _numbers_as_zero(text)
    if "punctuation" in chosen:
        text = in_pieces(_without_punctuation, text)
    if "space" in chosen:
        return _collapsed(text)
    if "lines" in chosen:
        return _collapsed(text, lines=True)
    return text


_ACCENTS = frozenset([1, *range(10, 37), *range(202, 241)])
"""Combining classes of the marks that a letter stands without."""


def _without_accents(text: str) -> str:
    return text.translate({ord(c): None for c in set(text) if combining(c) in _ACCENTS})


def _without_punctuation(text: str) -> str:
    return text.translate({ord(c): " " for c in set(text) if category(c)[0] in "PS"})


def _numbers_as_zero(text: str) -> str:
    r"""Replace every match of ``\d+(?:[.,]\d+)*`` by 0.

    Two steps, because a repeated group takes memory for each repetition: digits become 0, and then
    whatever continues the number after a 0 is dropped.
    """
    parts: list[str] = []
    ended = False  # whether the parts so far end with digits
    for at in range(0, len(text), PIECE):
        part = re.sub(_DIGITS, "0", text[at : at + PIECE])
        parts.append(part[1:] if ended and part[0] == "0" else part)
        ended = part[-1] == "0"
    text = "".join(parts)
    start, parts = 0, []
    while start < len(text):
        stop = start + PIECE
        stop += text[stop - 2 : stop] in ("0.", "0,")  # include the 0 that may follow
        before = text[start - 1 : start]
        parts.append(re.sub(_MORE_DIGITS, "", before + text[start:stop])[len(before) :])
        start = stop
    return "".join(parts)


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _collapse_lines(text: str) -> str:
    return "\n".join(filter(None, map(_collapse, text.splitlines())))


def _collapsed(text: str, *, lines: bool = False) -> str:
    """Collapse white space to single blanks and strip the ends: of the text, or of each line."""
    collapse = _collapse_lines if lines else _collapse
    if len(text) <= PIECE:
        return collapse(text)
    pieces = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    return _collapsed_pieces(pieces, collapse)


def _collapsed_pieces(pieces: Iterable[str], collapse: Callable[[str], str]) -> str:
    """Collapse a text in pieces: a list of all words would take more memory than the text."""
    parts: list[str] = []
    gap = ""  # the collapsed white space at the end of the parts so far
    for piece in pieces:
        collapsed = collapse(piece)
        before = _gap(piece[: len(piece) - len(piece.lstrip())], collapse)
        gap = max(gap, before, key=_GAPS.index)
        if collapsed:
            parts += [gap, collapsed] if parts else [collapsed]
            gap = _gap(piece[len(piece.rstrip()) :], collapse)
    return "".join(parts)


_GAPS = ("", " ", "\n")


def _gap(space: str, collapse: Callable[[str], str]) -> str:
    if collapse is _collapse_lines and len(f"{space}.".splitlines()) > 1:
        return "\n"
    return " " if space else ""


def _folded_pieces(text: str) -> Iterator[str]:
    """Apply NFKC, case folding and NFKC to a long text, without holding intermediate results."""
    pending = ""
    for piece in normal_pieces("NFKC", text):
        folded = piece.casefold()
        if pending and is_boundary(pending[-1], folded[0]):
            yield normal_form("NFKC", pending)
            pending = ""
        pending += folded
    yield normal_form("NFKC", pending)


def refuse_growth(text: str, steps: str) -> str | None:
    """Return why a text is too long once normalised, without normalising it.

    Parameters
    ----------
    text : str
        The text as given.
    steps : str
        Name of the procedure.

    Returns
    -------
    str or None
        The reason in one line, or None if the text is acceptable.

    Notes
    -----
    Adds up the length of each character's own normalised form. Together they are shorter, or a few
    bytes longer if marks prevent a composition. O(n), 25 ns per character, and 8 MiB; free for
    ASCII and for texts of up to two million characters.
    """
    if len(text) * MOST_GROWTH <= MOST_NORMALISED or text.isascii():
        return None
    most = max(MOST_NORMALISED, 2 * sum(len(piece.encode()) for piece in _cut(text)))
    if len(text) * MOST_GROWTH <= most:
        return None
    counts = np.zeros(_CODE_POINTS, dtype=np.int64)
    for piece in _cut(text):
        points = np.frombuffer(piece.encode("utf-32-le"), dtype="<u4")
        counts += np.bincount(points, minlength=len(counts))
    growing = join_steps({"ignorable", "nfkc", "casefold"} & set(parse_steps(steps)))
    code_points = np.flatnonzero(counts)
    size = sum(
        count * len(normalise(chr(point), growing).encode())
        for point, count in zip(code_points.tolist(), counts[code_points].tolist(), strict=True)
    )
    if size <= most:
        return None
    return (
        f"normalised, the text has more bytes than the limit of {most:,} "
        "(64 MiB, or twice the bytes of the text)"
    )


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


_PIECE = 512
"""Characters examined together; an odd character costs one piece and not the whole text."""
_UNPRINTABLE = "\n\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
"""Assigned and not printable, and common: a soft hyphen is in nine of ten texts of some corpora."""


def count_unassigned(content: str | list[str]) -> int:
    """Count the characters of a canonical content that are not assigned (category Cn).

    Free for ASCII, and 2 ns per character if all are printable, as in most normalised texts, or
    are those of ``_UNPRINTABLE``. Only a piece that holds another unprintable character (one for
    private use) is examined more closely, for 10 to 80 ns per character.
    """
    if not isinstance(content, str):
        return sum(map(count_unassigned, content))
    if content.isascii() or content.isprintable():
        return 0
    for character in _UNPRINTABLE:
        if character in content:
            content = content.replace(character, "")
    pieces = (content[start : start + _PIECE] for start in range(0, len(content), _PIECE))
    return sum(map(_count_in_piece, pieces))


def _count_in_piece(piece: str) -> int:
    if piece.isprintable():
        return 0
    distinct = set(piece)
    if 4 * len(distinct) > len(piece):  # then checking each one costs no more
        return sum(category(character) == "Cn" for character in piece)
    return sum(piece.count(character) for character in distinct if category(character) == "Cn")


def point_kinds(first: int, last: int) -> list[int]:
    """Return for the code points first to last - 1: 1 if Unicode assigns them, else 2."""
    return [1 + (category(chr(point)) == "Cn") for point in range(first, last)]


UNKNOWN, SPACE, COMPLEX, APART, IGNORED, MARK = 0, 8, 9, 10, 16, 16
MOST_BYTES = 7


def fold_character(character: str, *, fold: bool) -> str | None:
    """Return the normalised form of one character, or None if its neighbours may matter.

    An ignorable character is not asked for.

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

    The entry is ``SPACE`` for white space, ``IGNORED`` for a character that is left out, and
    ``COMPLEX`` for a character that does not normalise alone. It is ``APART`` for a character that
    does not change what is before it, but changes what follows, or becomes more than seven bytes,
    or white space and something else. A mark has ``MARK`` added to its length and its combining
    class in the top byte.
    """
    if 0xD800 <= ord(character) < 0xE000:
        return COMPLEX
    if holds_ignorable(ord(character), ord(character)):
        return IGNORED
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
        and not holds_ignorable(first, last - 1)
    ):
        return list(map(_as_it_is, block))
    return [table_entry(character, fold=fold) for character in block]


def normalise_segment(text: str, *, fold: bool) -> str:
    """Do as :func:`normalise`, but keep a blank at the ends, which may be within the text."""
    text = normal_form("NFKC", without_ignorable(text))
    if fold:
        text = normal_form("NFKC", text.casefold())
    return " ".join(f".{text}.".split())[1:-1]


def _as_it_is(character: str) -> int:
    encoded = character.encode()
    return len(encoded) | int.from_bytes(encoded, "little") << 8


def _stands_apart(text: str) -> bool:
    """Return whether a character never interacts with its neighbours, nor with marks after it."""
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
