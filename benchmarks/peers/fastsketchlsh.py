"""FastSketchLSH: lists of strings by ``batch``, ready hashes by ``batch_csr``, its flat form.

``batch`` takes strings as they are; handing it bytes is no faster, and they would have to be made.
"""

from __future__ import annotations

import numpy as np
from FastSketchLSH import FastSimilaritySketch

from benchmarks.peers._contract import NUM_PERM, Signer, Sketcher, offsets
from benchmarks.peers._words import shingles


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
