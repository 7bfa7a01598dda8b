"""Parameters in words: what shingles are made of, what is done to texts first."""

from __future__ import annotations

from lshdb import IndexParams

__all__ = ["UNIT_NAMES", "described", "shingles_in_words", "texts_in_words"]

UNIT_NAMES = {
    "word": "word",
    "char": "character",
    "byte": "byte",
    "line": "line",
    "token": "token",
    "url": "URL token",
    "tokenizer": "token",
}
"""One of each unit, for people; the choices of ``--unit``."""

_STEPS = {
    "accents": "accents dropped",
    "digits": "numbers as 0",
    "punctuation": "punctuation as blanks",
}


def shingles_in_words(params: IndexParams) -> str:
    """What a shingle is, and whether repeats count."""
    plural = f"{UNIT_NAMES[params.unit]}{'s' * (params.k > 1)}"
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    place = " with their place in the path" if params.unit == "url" else ""
    repeats = "counted again where they repeat" if params.bag else "as a set"
    return f"{params.k} {plural}{by}{place}, {repeats}"


def texts_in_words(params: IndexParams) -> str | None:
    """What is done to texts; None where it is the usual for words and characters."""
    steps = params.normalisation.split("-")
    if steps == ["nfkc", "casefold", "space"]:
        return None
    if steps == ["none"]:
        return "used as they are"
    said = ["letter case folded" if "casefold" in steps else "letter case kept"]
    said += [_STEPS[step] for step in steps if step in _STEPS]
    return ", ".join(said)


def described(params: IndexParams) -> str:
    """Threshold and shingles in a few words, for a note."""
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    unit = {"tokenizer": "token", "url": "token URL"}.get(params.unit, params.unit)
    return f"threshold {params.threshold:g}, {params.k}-{unit} shingles{by}"
