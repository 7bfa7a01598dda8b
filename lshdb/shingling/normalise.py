"""Text -> normalised text: NFKC, case-folded, white space collapsed.

Two documents that differ only in letter case, in compatibility forms (ligatures, full-width
letters, composed or decomposed accents) or in white space have one normalised text, so they are
exact copies of each other to the index.

The order is NFKC, case folding, NFKC again: folding alone can leave text that is not in NFKC (the
Unicode standard, section 5.18, says so of its own NFKC_Casefold). A test checks over all code
points that normalising twice changes nothing. ASCII text skips all of it but lower-casing.
"""

from __future__ import annotations

from unicodedata import normalize

__all__ = ["NORMALISATION", "normalise"]

NORMALISATION = "nfkc-casefold-space"
"""Name of the procedure, stored with every index."""


def normalise(text: str) -> str:
    """Normalise one text.

    Parameters
    ----------
    text : str
        Any text without lone surrogates.

    Returns
    -------
    str
        NFKC, case-folded, runs of white space turned into one blank, none at the ends.

    Notes
    -----
    O(n) time and memory. Assigned characters normalise alike in every Unicode version; white space
    is what ``str.split`` splits at.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    return " ".join(folded.split())
