"""FastSketchLSH: lists of strings by ``batch``, ready hashes by ``batch_csr``, its flat form.

``batch`` takes strings as they are; handing it bytes is no faster, and they would have to be made.

An index is filled by ``LSH.insert``, a matrix at a time; the package has no threshold, and 16 bands
are those of its own example for 128 slots.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from FastSketchLSH import LSH, FastSimilaritySketch

from benchmarks.peers._contract import (
    NUM_PERM,
    Adder,
    Signer,
    Sketcher,
    Source,
    numbered,
    offsets,
)
from benchmarks.peers._words import shingles

_BANDS = 16


def signer(variant: str, threads: int) -> Signer:
    sketch = FastSimilaritySketch(size=NUM_PERM, seed=42)
    return Signer(
        sign=lambda texts: sketch.batch([shingles(text) for text in texts], num_threads=threads),
        rows=np.concatenate,
        shingles=lambda text: set(shingles(text)),
    )


def sketcher(variant: str) -> Sketcher:
    sketch = FastSimilaritySketch(size=NUM_PERM, seed=42)
    return Sketcher(
        ready=lambda hashes, lengths: (hashes, offsets(lengths)),
        sketch=lambda ready: sketch.batch_csr(*ready, prehashed=True, num_threads=1),
        rows=lambda rows: rows,
    )


def adder(variant: str, threads: int, folder: Path) -> Adder:
    sketch = FastSimilaritySketch(size=NUM_PERM, seed=42)

    def add(source: Source) -> int:
        index = LSH(num_perm=NUM_PERM, num_bands=_BANDS, num_threads=threads)

        def insert(numbers: range, texts: list[str]) -> None:
            index.insert(sketch.batch([shingles(text) for text in texts], num_threads=threads))

        return numbered(insert, source)

    return add
