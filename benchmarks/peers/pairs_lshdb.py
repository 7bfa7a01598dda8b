"""lshdb: ``Index.create``, ``add(read_documents([path]))``, ``pairs()``, each as it comes.

The variant ``signature`` stores no texts and checks candidates on their signatures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers._contract import NUM_PERM, THRESHOLD, WORDS_A_SHINGLE, Source
from benchmarks.peers._pairing import Pairer, write_pairs
from lshdb import Index, read_documents


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    path = folder / "index.lshdb"

    def add(index: Index, source: Source) -> int:
        documents = read_documents(
            [source.path], key_field=source.key_field, text_field=source.text_field
        )
        return index.add(documents, workers=threads or None).documents

    def fill(source: Source) -> int:
        with Index.create(
            path,
            threshold=THRESHOLD,
            num_perm=NUM_PERM,
            k=WORDS_A_SHINGLE,
            store_text=variant == "exact",
        ) as index:
            return add(index, source)

    def found(index: Index, since: str | None) -> Iterator[tuple[str, str, float]]:
        for pair in index.pairs(since=since):
            yield pair.key1, pair.key2, pair.similarity

    def pairs(output: Path) -> None:
        with Index.open(path) as index:
            write_pairs(output, found(index, None))

    def night(older: Source, newer: Source, output: Path) -> None:
        with Index.open(path) as index:
            add(index, newer)
            write_pairs(output, found(index, "last"))

    return Pairer(fill, pairs, night)
