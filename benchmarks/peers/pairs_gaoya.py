"""gaoya: texts as they are, ``par_bulk_insert_docs`` and ``par_bulk_query`` by its own analyser.

For 128 slots and 0.8 the index chooses 21 bands of 6 slots. ``few`` are 9 bands of 13, which are
faster and find less. Candidates are checked on their signatures. It has no way to ask for what it
holds, so the texts are analysed a second time. Nothing of it can be saved: each night it takes in
the older documents again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gaoya.minhash import MinHashStringIndex

from benchmarks.peers._contract import NUM_PERM, THRESHOLD, WORDS_A_SHINGLE, Source
from benchmarks.peers._pairing import Pairer, records, write_pairs

_SHAPES = {"own": (None, None, NUM_PERM), "few": (9, 13, None)}


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    keys: list[str] = []
    blocks: list[list[str]] = []
    bands, rows, slots = _SHAPES[variant]
    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        num_bands=bands,
        band_size=rows,
        num_hashes=slots,
        analyzer="word",
        lowercase=True,
        ngram_range=(WORDS_A_SHINGLE, WORDS_A_SHINGLE),
        id_container="smallvec",
    )

    def fill(source: Source) -> int:
        for new_keys, texts in records(source):
            index.par_bulk_insert_docs(list(range(len(keys), len(keys) + len(texts))), texts)
            keys.extend(new_keys)
            blocks.append(texts)
        return len(keys)

    def found() -> Iterator[tuple[str, str, float]]:
        number = len(keys) - sum(map(len, blocks))
        for texts in blocks:
            for near in index.par_bulk_query(texts, return_similarity=True):
                for other, similarity in near:
                    if other < number:
                        yield keys[other], keys[number], similarity
                number += 1

    def pairs(output: Path) -> None:
        write_pairs(output, found())

    def add(older: Source, newer: Source) -> None:
        fill(older)
        blocks.clear()
        fill(newer)

    return Pairer(fill, add, pairs)
