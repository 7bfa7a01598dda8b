"""datasketch: ``MinHash.bulk``, then ``MinHashLSH.insert`` and ``query`` one by one; pickled.

MurmurHash3 is the hash function, as it is the fastest at hand. ``own`` are the bands that the index
chooses for 128 slots and 0.8 (9 of 13), and its candidates as they are. ``wide`` are 16 bands of 6,
and candidates checked on the signatures, in NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mmh3
import numpy as np
from datasketch import MinHash, MinHashLSH

from benchmarks.peers._checking import Signatures, distinct
from benchmarks.peers._contract import NUM_PERM, THRESHOLD, Source
from benchmarks.peers._pairing import Pairer, records, restore, save, write_pairs
from benchmarks.peers._words import encoded_shingles


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    keys: list[str] = []
    minhashes: list[Any] = []
    signatures = Signatures(folder / "signatures", NUM_PERM) if variant == "wide" else None
    params = (16, 6) if variant == "wide" else None
    index = MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERM, params=params)

    def take(source: Source) -> None:
        for new_keys, texts in records(source):
            minhashes_here = MinHash.bulk(
                map(encoded_shingles, texts),
                num_perm=NUM_PERM,
                hashfunc=mmh3.mmh3_32_uintdigest,
            )
            for number, minhash in enumerate(minhashes_here, len(keys)):
                index.insert(number, minhash, check_duplication=False)
            keys.extend(new_keys)
            minhashes.extend(minhashes_here)
            if signatures:
                signatures.add(np.stack([minhash.hashvalues for minhash in minhashes_here]))
        save(folder / "index", (index, keys))
        if signatures:
            signatures.save()

    def fill(source: Source) -> int:
        take(source)
        return len(keys)

    def pairs(output: Path) -> None:
        first = len(keys) - len(minhashes)
        left: list[int] = []
        right: list[int] = []
        for number, minhash in enumerate(minhashes, first):
            near = [other for other in index.query(minhash) if other < number]
            left += near
            right += [number] * len(near)
        if signatures:
            checked = signatures.check(*distinct(left, right), THRESHOLD)
            write_pairs(output, ((keys[one], keys[other], share) for one, other, share in checked))
        else:
            both = zip(left, right, strict=True)
            write_pairs(output, ((keys[one], keys[other]) for one, other in both))

    def add(older: Source, newer: Source) -> None:
        nonlocal index
        index, old_keys = restore(folder / "index")
        keys.extend(old_keys)
        take(newer)

    return Pairer(fill, add, pairs)
