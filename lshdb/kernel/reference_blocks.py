"""The reference of the kernel's function on many queries at a time.

A file of its own, because it joins the references of orders and of rows, which do not know each
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lshdb.kernel.reference_orders import Place, find_keys
from lshdb.kernel.reference_rows import SLOT, compare_found


def find_agreeing(
    orders: list[Place], limit: int, keys: Any, rows: Any, most: int, least: int, source: Any,
    offset: int, n_rows: int, words: int, bands: int, height: int, is_bits: bool,
) -> tuple[int, bytes]:  # fmt: skip
    """Look up the buckets of queries, and compare each query with the signatures in them."""
    of_queries = np.frombuffer(keys, np.int64).reshape(-1, bands)
    signed = np.frombuffer(rows, SLOT).reshape(-1, words)
    agreeing: list[tuple[int, int, int, int]] = []
    n_done = 0
    for own, row in zip(of_queries, signed, strict=True):
        if n_done and len(agreeing) >= most:
            break
        ids = find_keys(orders, own, limit, np.empty(bands, np.int64))
        compared = compare_found(
            row, ids, least, source, offset, n_rows, words, bands, height, is_bits
        )
        agreeing += [(n_done, *numbers) for numbers in compared]
        n_done += 1
    return n_done, np.array(agreeing, dtype=np.int64).tobytes()
