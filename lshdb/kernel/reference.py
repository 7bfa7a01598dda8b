"""The functions of the compiled kernel in Python, with the same names, arguments and results.

``compiled.pyi`` has their signatures, and the C says what each does. Arguments are buffers; results
that are not returned are written into buffers of the caller, as there. A module of its own, because
it is what stands for the compiled one; the steps are in the files beside it. What only steers that
one (``use_level``, ``use_pieces``, ``hear_with``) has nothing to steer here.
"""

from lshdb.kernel.reference_blocks import find_agreeing
from lshdb.kernel.reference_orders import find_keys, group_keys, pack_cells, sort_orders
from lshdb.kernel.reference_pages import lay_rows, row_checksums
from lshdb.kernel.reference_passages import align_words, cut_grams
from lshdb.kernel.reference_rows import (
    agreeing_pairs,
    bucket_keys,
    compare_bits,
    compare_found,
    compare_rows,
    count_in_rows,
    rank_counts,
)
from lshdb.kernel.reference_sets import (
    compare_sets,
    count_common,
    find_sharing,
    sample_weights,
    sketch,
    table_sets,
    walsh_hadamard,
)
from lshdb.kernel.reference_texts import (
    compare_texts,
    hash_texts,
    normalise,
    scan_lines,
    share_with,
    shingle_text,
    shingle_texts,
    sign_contents,
    sign_query,
    sign_texts,
)

__all__ = [
    "agreeing_pairs",
    "align_words",
    "bucket_keys",
    "compare_bits",
    "compare_found",
    "compare_rows",
    "compare_sets",
    "compare_texts",
    "count_common",
    "count_in_rows",
    "cut_grams",
    "find_agreeing",
    "find_keys",
    "find_sharing",
    "group_keys",
    "hash_texts",
    "lay_rows",
    "normalise",
    "pack_cells",
    "rank_counts",
    "row_checksums",
    "sample_weights",
    "scan_lines",
    "share_with",
    "shingle_text",
    "shingle_texts",
    "sign_contents",
    "sign_query",
    "sign_texts",
    "sketch",
    "sort_orders",
    "table_sets",
    "walsh_hadamard",
]
