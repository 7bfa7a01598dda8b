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
    SPACELESS_RANGES,
    UNITS,
    Content,
    Shingler,
    canonical_content,
    shingle_counts,
    shingle_hashes,
    shingle_texts,
    split_words,
    stop_word_list,
    word_spans,
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

__all__ = [
    "DEFAULT_STOP_TOKENS",
    "NORMALISATION",
    "SPACELESS_RANGES",
    "STEPS",
    "UNITS",
    "URL_UNITS",
    "Content",
    "Shingler",
    "Window",
    "canonical_content",
    "count_unassigned",
    "cut_windows",
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
