"""Parameters in words: what shingles are made of, and how texts are normalised."""

from __future__ import annotations

from lshdb import IndexParams

__all__ = ["UNIT_NAMES", "contents_in_words", "described", "texts_in_words"]

UNIT_NAMES = {
    "word": "word",
    "char": "character",
    "byte": "byte",
    "line": "line",
    "token": "token",
    "url": "URL token",
    "tokenizer": "token",
}
"""The name of one unit; the choices of ``--unit``."""

_STEPS = {
    "accents": "accents dropped",
    "digits": "numbers as 0",
    "punctuation": "punctuation as blanks",
}


def contents_in_words(params: IndexParams) -> tuple[str, str]:
    """Describe what is compared, as a name and details: shingles, weights, vectors or bits."""
    if params.kind.body == "vector":
        return "vectors", f"{params.dim:,} numbers as {params.dtype}, by {params.metric}"
    if params.kind.body == "bits":
        return "bits", f"{params.dim:,}, by {params.metric}"
    if params.kind.body == "weights":
        return "weights", f"of tokens, or of {_shingles_in_words(params)}, by {params.metric}"
    return "shingles", _shingles_in_words(params)


def _shingles_in_words(params: IndexParams) -> str:
    """Describe a shingle, and say whether repeats count."""
    plural = f"{UNIT_NAMES[params.unit]}{'s' * (params.k > 1)}"
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    place = " with their place in the path" if params.unit == "url" else ""
    is_counted = params.bag or params.kind.body == "weights"
    repeats = "counted again where they repeat" if is_counted else "as a set"
    return f"{params.k} {plural}{by}{place}, {repeats}"


def element_in_words(params: IndexParams) -> str:
    """Name the element that a body needs at least one of to be compared."""
    return "bit that is set" if params.kind.is_dense else UNIT_NAMES[params.unit]


def texts_in_words(params: IndexParams) -> str | None:
    """Describe how texts are normalised; None for the usual way, or if there are no texts."""
    if params.kind.is_dense:
        return None
    steps = params.normalisation.split("-")
    if steps == ["nfkc", "casefold", "space"]:
        return None
    if steps == ["none"]:
        return "used as they are"
    said = ["letter case folded" if "casefold" in steps else "letter case kept"]
    said += [_STEPS[step] for step in steps if step in _STEPS]
    return ", ".join(said)


def described(params: IndexParams) -> str:
    """Describe threshold and contents in a few words, for a note."""
    if params.kind.is_dense:
        what = "bits" if params.kind.body == "bits" else params.dtype
        said = "distance" if params.kind.is_distance else "threshold"
        return f"{params.metric}, {said} {params.threshold:g}, {params.dim:,} {what}"
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    unit = {"tokenizer": "token", "url": "token URL"}.get(params.unit, params.unit)
    metric = "weighted-jaccard, " if params.kind.body == "weights" else ""
    return f"{metric}threshold {params.threshold:g}, {params.k}-{unit} shingles{by}"
