"""Turn documents into shingle hashes: normalise, tokenise, shingle. Pure: values in, arrays out."""

from lshdb.shingling.normalise import (
    NORMALISATION,
    STEPS,
    count_unassigned,
    join_steps,
    normalise,
    parse_steps,
    refuse_growth,
)
from lshdb.shingling.shingles import (
    UNITS,
    Content,
    Shingler,
    canonical_content,
    shingle_counts,
    shingle_hashes,
    shingle_texts,
    stop_word_list,
)
from lshdb.shingling.url_shingles import (
    DEFAULT_STOP_TOKENS,
    URL_UNITS,
    host_shingles,
    split_url,
    stop_token_list,
    url_shingles,
)
from lshdb.shingling.windows import Window, cut_windows, parse_window_key, window_key
from lshdb.shingling.words import (
    SPACELESS_RANGES,
    TEXT_RULES,
    cut_words,
    split_words,
    word_spans,
)

__all__ = [
    "DEFAULT_STOP_TOKENS",
    "NORMALISATION",
    "SPACELESS_RANGES",
    "STEPS",
    "TEXT_RULES",
    "UNITS",
    "URL_UNITS",
    "Content",
    "Shingler",
    "Window",
    "canonical_content",
    "count_unassigned",
    "cut_windows",
    "cut_words",
    "host_shingles",
    "join_steps",
    "normalise",
    "parse_steps",
    "parse_window_key",
    "refuse_growth",
    "shingle_counts",
    "shingle_hashes",
    "shingle_texts",
    "split_url",
    "split_words",
    "stop_token_list",
    "stop_word_list",
    "url_shingles",
    "window_key",
    "word_spans",
]
