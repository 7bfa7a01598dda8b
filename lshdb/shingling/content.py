"""A document's body under an index's parameters: its canonical content and its shingle hashes.

A body is a text, or a list of ready tokens. A text is normalised; ready tokens are used exactly as
they are, whatever the unit of the index. Two bodies with the same canonical content have the same
shingles, so the index keeps one signature for both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.shingling.normalise import normalise
from lshdb.shingling.shingles import char_shingles, hash_shingles, word_shingles
from lshdb.shingling.tokens import split_words

__all__ = ["Content", "canonical_content", "shingle_hashes"]

Content = str | Sequence[str]


def canonical_content(body: str | Sequence[str]) -> Content:
    """The normalised text of a text; ready tokens unchanged."""
    return normalise(body) if isinstance(body, str) else body


def shingle_hashes(content: Content, *, unit: str, k: int, bag: bool) -> NDArray[np.uint64]:
    """Shingle and hash one canonical content.

    Parameters
    ----------
    content : str or sequence of str
        What :func:`canonical_content` returned.
    unit : {"word", "char"}
        What a text's shingles are made of; ready tokens are shingled as words.
    k : int
        Tokens a shingle, at least 1.
    bag : bool
        Whether repeated shingles count again.

    Returns
    -------
    ndarray of uint64, shape (n,)
        Sorted distinct hashes; empty for a document without tokens.
    """
    if not isinstance(content, str):
        shingles = word_shingles(content, k)
    elif unit == "word":
        shingles = word_shingles(split_words(content), k)
    else:
        shingles = char_shingles(content, k)
    return hash_shingles(shingles, bag=bag)
