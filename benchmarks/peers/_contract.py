"""What a peer's module gives.

``signer(variant, threads)``, ``adder(variant, threads, folder)``, and ``sketcher(variant)`` if it
can. The folder is for those that keep their index on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._corpora import chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUM_PERM = 128
THRESHOLD = 0.8
WORDS_A_SHINGLE = 5


@dataclass(frozen=True)
class Signer:
    """Texts to signatures.

    Attributes
    ----------
    sign : callable
        List of texts -> signatures in the form the peer gives them; this is timed.
    rows : callable
        All that ``sign`` returned, in order -> array (n, slots), or None where the peer shows no
        signatures. Not timed.
    shingles : callable
        Text -> the set the peer means by it, against which its estimates are held.
    sign_all : callable, optional
        All lists of texts, one after the other, where the peer has a way to read on while it signs;
        timed in the place of ``sign``.
    """

    sign: Callable[[list[str]], Any]
    rows: Callable[[list[Any]], NDArray[Any] | None]
    shingles: Callable[[str], Collection[Any]]
    sign_all: Callable[[Iterator[list[str]]], list[Any]] | None = None


@dataclass(frozen=True)
class Sketcher:
    """Ready hashes to signatures.

    Attributes
    ----------
    ready : callable
        (hashes, lengths) -> the peer's fastest input. Not timed.
    sketch : callable
        That input -> signatures; this is timed.
    rows : callable
        Signatures -> array (n, slots). Not timed.
    """

    ready: Callable[[NDArray[np.uint64], NDArray[np.int64]], Any]
    sketch: Callable[[Any], Any]
    rows: Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """A plain JSONL file on disk."""

    path: Path
    key_field: str
    text_field: str


Adder = Callable[[Source], int]
"""Make an index, add all documents of a file, say how many; all of it is timed."""


def numbered(insert: Callable[[range, list[str]], object], source: Source) -> int:
    """Insert the texts of a file, a list at a time, under numbers for keys."""
    done = 0
    for texts in chunks(source.path, source.text_field):
        insert(range(done, done + len(texts)), texts)
        done += len(texts)
    return done


def offsets(lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where each set begins, and where the last one ends."""
    import numpy as np  # not every contestant needs it

    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
