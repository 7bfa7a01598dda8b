r"""Text -> normalised text, by a recorded procedure: the names of its steps.

Two documents that differ only in what the steps take away (by default letter case, compatibility
forms such as ligatures and full-width letters, composed or decomposed accents, and white space)
have one normalised text, so they are exact copies of each other to the index.

The steps, always in this order, joined by hyphens to the name that is stored with an index:

``nfkc``
    Unicode's compatibility composition.
``casefold``
    full case folding; NFKC once more after it where ``nfkc`` is a step, because folding alone can
    leave text that is not in NFKC (the Unicode standard, section 5.18).
``accents``
    NFD, without the characters of category Mn (non-spacing marks), composed again: NFKC where
    ``nfkc`` is a step, else NFC.
``digits``
    every maximal match of ``\d+(?:[.,]\d+)*`` becomes ``0``.
``punctuation``
    every character of a category P* or S* becomes one blank.
``space`` or ``lines``
    white space, as ``str.split`` knows it, collapsed to one blank and none at the ends: of the
    whole text, or of each line (``str.splitlines``), where empty lines are dropped and the others
    joined with line feeds.

No step at all is ``none``. Normalising twice changes nothing, whatever the steps (a test tries
every combination): no step makes again what one before it has taken away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal
from unicodedata import category, normalize

from lshdb.errors import ParameterError

__all__ = ["NORMALISATION", "STEPS", "join_steps", "normalise", "parse_steps"]

NORMALISATION = "nfkc-casefold-space"
"""The procedure for words and characters, unless something else is asked for."""

STEPS = ("nfkc", "casefold", "accents", "digits", "punctuation", "space", "lines")
"""Every step, in order; ``space`` and ``lines`` exclude each other."""

_NO_STEP = "none"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def parse_steps(name: str) -> tuple[str, ...]:
    """The steps of a procedure.

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
        A step is unknown, comes twice, or is not in its place.
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
    """The name of a procedure; the order is put right and what is no step is left out."""
    given = set(steps)
    return "-".join(step for step in STEPS if step in given) or _NO_STEP


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
        By default NFKC, case-folded, runs of white space turned into one blank, none at the ends.

    Raises
    ------
    ParameterError
        There is no such procedure.

    Notes
    -----
    O(n) time and memory; ASCII text skips what cannot change it. Assigned characters normalise
    alike in every Unicode version.
    """
    is_ascii = text.isascii()
    if steps == NORMALISATION:  # nearly always; worth a way of its own
        if is_ascii:
            return " ".join(text.lower().split())
        return " ".join(normalize("NFKC", normalize("NFKC", text).casefold()).split())
    wanted = _parsed(steps)
    form: Literal["NFC", "NFKC"] = "NFKC" if "nfkc" in wanted else "NFC"
    if "nfkc" in wanted and not is_ascii:
        text = normalize("NFKC", text)
    if "casefold" in wanted:
        text = text.lower() if is_ascii else text.casefold()
        if "nfkc" in wanted and not is_ascii:
            text = normalize("NFKC", text)
    if "accents" in wanted and not is_ascii:
        text = normalize("NFD", text)
        marks = {ord(c): None for c in set(text) if category(c) == "Mn"}
        text = normalize(form, text.translate(marks))
    if "digits" in wanted:
        text = _NUMBER.sub("0", text)
    if "punctuation" in wanted:
        text = text.translate({ord(c): " " for c in set(text) if category(c)[0] in "PS"})
    if "space" in wanted:
        return " ".join(text.split())
    if "lines" in wanted:
        lines = (" ".join(line.split()) for line in text.splitlines())
        return "\n".join(line for line in lines if line)
    return text
