"""lshdb itself: texts through normalisation, the kernel's tokeniser and its sketch."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers._contract import (
    NUM_PERM,
    THRESHOLD,
    WORDS_A_SHINGLE,
    Adder,
    Signer,
    Sketcher,
    Source,
)
from lshdb import AllRejectedError, Index, read_documents
from lshdb.params.options import CreateOptions
from lshdb.shingling import Shingler, canonical_content, shingle_hashes
from lshdb.signatures import canonical_contents, sign_contents
from lshdb.signatures.sets import sketch
from lshdb.threads import work_ahead

_CHARACTERS_A_TASK = 2**20


def signer(variant: str, threads: int) -> Signer:
    params = CreateOptions(num_perm=NUM_PERM, k=WORDS_A_SHINGLE, scheme=variant).params()
    shingler = Shingler.of(params)

    def sign(texts: list[str]) -> NDArray[np.uint32]:
        contents = canonical_contents(shingler, texts)
        return sign_contents(
            contents, unit="word", k=WORDS_A_SHINGLE, bag=False, scheme=variant,
            num_perm=NUM_PERM, seed=1,
        )[0]  # fmt: skip

    def sign_all(chunks: Iterator[list[str]]) -> list[NDArray[np.uint32]]:
        """Read on while threads sign, as the library does with queries."""
        tasks = _tasks(itertools.chain.from_iterable(chunks))
        return list(work_ahead(sign, tasks, workers=threads))

    def shingles(text: str) -> Collection[Any]:
        content = canonical_content(text)
        return shingle_hashes(content, unit="word", k=WORDS_A_SHINGLE, bag=False).tolist()

    return Signer(sign, np.concatenate, shingles, sign_all=sign_all)


def sketcher(variant: str) -> Sketcher:
    return Sketcher(
        ready=lambda hashes, lengths: (hashes, lengths),
        sketch=lambda ready: sketch(*ready, scheme=variant, num_perm=NUM_PERM, seed=1),
        rows=lambda rows: rows,
    )


def adder(variant: str, threads: int, folder: Path) -> Adder:
    def add(source: Source) -> int:
        path = folder / "index.lshdb"
        with Index.create(
            path, threshold=THRESHOLD, num_perm=NUM_PERM, k=WORDS_A_SHINGLE, scheme=variant
        ) as index:
            documents = read_documents(
                [source.path], key_field=source.key_field, text_field=source.text_field
            )
            try:
                return index.add(documents, workers=threads or None).documents
            except AllRejectedError:  # the benchmark says what may be the matter
                return 0

    return add


def _tasks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Texts enough for some milliseconds of work."""
    task: list[str] = []
    size = 0
    for text in texts:
        task.append(text)
        size += len(text)
        if size >= _CHARACTERS_A_TASK:
            yield task
            task, size = [], 0
    if task:
        yield task
