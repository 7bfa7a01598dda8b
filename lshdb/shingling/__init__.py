"""Document -> shingle hashes: normalise, tokenise, shingle. Pure: values in, arrays out."""

from lshdb.shingling.content import Content, canonical_content, shingle_hashes
from lshdb.shingling.normalise import NORMALISATION, normalise
from lshdb.shingling.tokens import SPACELESS_RANGES, split_words

__all__ = [
    "NORMALISATION",
    "SPACELESS_RANGES",
    "Content",
    "canonical_content",
    "normalise",
    "shingle_hashes",
    "split_words",
]
