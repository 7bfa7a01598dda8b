"""rensa: ``RMinHash.from_token_sets``, ``RMinHashLSH.insert_many`` and ``query_all``.

Only ``query_all`` gives keys, and it takes objects, so the digest matrix is of no use here: what it
gives is flags, which documents have a near-duplicate, not which one. The index pickles.

``own`` are the eight bands of the package's own benchmark for 128 slots and 0.8, and its candidates
as they are: the index does not look at signatures. ``wide`` are 16 bands of 6, for which it wants
96 slots, and candidates checked on the signatures, in NumPy, as one object at a time is slower.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rensa import RMinHash, RMinHashLSH

from benchmarks.peers._contract import NUM_PERM, THRESHOLD, Source
from benchmarks.peers._pairing import Pairer, records, restore, save, write_pairs
from benchmarks.peers._words import shingles

_SEED = 42
_SHAPES = {"own": (NUM_PERM, 8), "wide": (96, 16)}


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    slots, bands = _SHAPES[variant]
    keys: list[str] = []
    minhashes: list[Any] = []
    index = RMinHashLSH(THRESHOLD, slots, bands)
    signatures = None
    if variant == "wide":
        import numpy as np  # which its own bands do not need

        from benchmarks.peers._checking import Signatures, distinct

        signatures = Signatures(folder / "signatures", slots)

    def take(source: Source) -> None:
        for new_keys, texts in records(source):
            minhashes_here = RMinHash.from_token_sets(map(shingles, texts), slots, _SEED)
            index.insert_many(minhashes_here, len(keys))
            keys.extend(new_keys)
            minhashes.extend(minhashes_here)
            if signatures:
                digests = [minhash.digest() for minhash in minhashes_here]
                signatures.add(np.array(digests, dtype=np.uint32))
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
        for number, others in enumerate(index.query_all(minhashes), first):
            near = [other for other in others if other < number]
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
