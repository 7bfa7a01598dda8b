"""What shingles can be made of, with the defaults that come with each.

``word``, ``char``, ``byte``, ``line`` and ``token`` cut a normalised text in a fixed way
(``content.py``); ``url`` takes a list of URLs for the set of their paths (``urls.py``);
``tokenizer`` takes the tokens that a function of the user's own gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from lshdb.shingling.normalise import NORMALISATION

__all__ = ["UNITS", "Unit"]

_LINES = "nfkc-casefold-lines"


@dataclass(frozen=True, slots=True)
class Unit:
    """Defaults of a unit.

    Attributes
    ----------
    k : int
        Units a shingle.
    normalisation : str
        What is done to a text first. What is meant for machines (bytes, tokens) is left as it is.
    """

    k: int
    normalisation: str


UNITS = {
    "word": Unit(5, NORMALISATION),
    "char": Unit(9, NORMALISATION),
    "byte": Unit(9, "none"),
    "line": Unit(3, _LINES),
    "token": Unit(5, "space"),
    "url": Unit(2, _LINES),
    "tokenizer": Unit(5, "none"),
}
"""Every unit by name."""
