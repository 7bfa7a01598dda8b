"""gaoya: texts as they are, through its own analyser in Rust.

Two ways, since neither does just what the others do. ``signatures`` calls ``bulk_hash_docs`` of the
native index, which gives signatures only, as lists of Python integers, and which the Python class
does not wrap. ``insert`` calls the documented ``par_bulk_insert_docs``, which keeps them in Rust,
but puts them into an LSH index as well. Threads are set by RAYON_NUM_THREADS before the start.

For adding, the index chooses bands by the threshold (21 of 6 slots at 0.8, so 126 of the 128), and
keeps ids by ``smallvec``, the fastest of its containers here and the one it advises for few
near-duplicates.

Its words are cut at ASCII punctuation and ASCII white space.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from gaoya.minhash import MinHashStringIndex
from numpy.typing import NDArray

from benchmarks.peers._contract import (
    NUM_PERM,
    THRESHOLD,
    WORDS_A_SHINGLE,
    Adder,
    Signer,
    Source,
    numbered,
)

_BANDS = 16
_WORD = re.compile(f"[^{re.escape(string.punctuation)} \t\n\r\f]+")


def signer(variant: str, threads: int) -> Signer:
    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=0.5,
        num_bands=_BANDS,
        band_size=NUM_PERM // _BANDS,
        analyzer="word",
        lowercase=True,
        ngram_range=(WORDS_A_SHINGLE, WORDS_A_SHINGLE),
        id_container="vec",
    )
    if variant == "signatures":
        return Signer(index.minhash_index.bulk_hash_docs, _rows, _shingles)
    numbers = itertools.count()

    def insert(texts: list[str]) -> None:
        index.par_bulk_insert_docs([next(numbers) for _ in texts], texts)

    return Signer(insert, lambda parts: None, _shingles)


def _rows(parts: list[Any]) -> NDArray[np.uint32]:
    return np.concatenate([np.array(part, dtype=np.uint32) for part in parts])


def _shingles(text: str) -> Collection[Any]:
    words = _WORD.findall(text.lower())
    return set(zip(*(words[i:] for i in range(WORDS_A_SHINGLE)), strict=False))


def adder(variant: str, threads: int, folder: Path) -> Adder:
    def add(source: Source) -> int:
        index = MinHashStringIndex(
            hash_size=32,
            jaccard_threshold=THRESHOLD,
            num_bands=None,
            band_size=None,
            num_hashes=NUM_PERM,
            analyzer="word",
            lowercase=True,
            ngram_range=(WORDS_A_SHINGLE, WORDS_A_SHINGLE),
            id_container="smallvec",
        )
        return numbered(
            lambda numbers, texts: index.par_bulk_insert_docs(list(numbers), texts), source
        )

    return add
