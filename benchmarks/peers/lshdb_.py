"""lshdb itself: texts through normalisation, the kernel's tokeniser and its sketch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers._contract import NUM_PERM, WORDS_A_SHINGLE, Signer, Sketcher
from lshdb.params import IndexParams
from lshdb.shingling import Shingler, canonical_content, shingle_hashes
from lshdb.signatures.contents import sketch
from lshdb.signing import sign_bodies as library_sign_bodies


def sign_bodies(bodies: list[str], params: IndexParams, workers: int) -> NDArray[np.uint32]:
    """Sign texts as ``lshdb`` signs queries by the file."""
    return library_sign_bodies(bodies, Shingler.of(params), params, workers=workers)[0]


def signer(variant: str, threads: int) -> Signer:
    params = IndexParams.choose(num_perm=NUM_PERM, k=WORDS_A_SHINGLE, scheme=variant)

    def shingles(text: str) -> Collection[Any]:
        content = canonical_content(text)
        return shingle_hashes(content, unit="word", k=WORDS_A_SHINGLE, bag=False).tolist()

    return Signer(lambda texts: sign_bodies(texts, params, threads), np.concatenate, shingles)


def sketcher(variant: str) -> Sketcher:
    return Sketcher(
        ready=lambda hashes, lengths: (hashes, lengths),
        sketch=lambda ready: sketch(*ready, scheme=variant, num_perm=NUM_PERM, seed=1),
        rows=lambda rows: rows,
    )
