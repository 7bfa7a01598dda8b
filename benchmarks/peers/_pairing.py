"""What a peer's module for pairs gives: ``pairer(variant, threads, folder)``.

The folder holds what is to outlive the process. Peers know documents by running numbers; what
number is which key is theirs to keep.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks._corpora import CHUNK
from benchmarks.peers._contract import Source


@dataclass(frozen=True)
class Pairer:
    """Documents to near-duplicate pairs.

    Attributes
    ----------
    fill : callable
        Take all documents of a file into the empty folder and persist whatever can be; how many.
    add : callable
        (older, newer): in a process that has not filled, add the documents of ``newer`` to those of
        ``older``, and persist all again. Those that cannot be saved read ``older`` once more;
        nobody else looks at it.
    pairs : callable
        After either, write the pairs with a document that it brought: key, key, similarity if it
        is known.
    close : callable
        Leave the folder to the next process.
    starts_processes : bool
        Whether the work is done in processes that it starts, and nothing in this one.
    """

    fill: Callable[[Source], int]
    add: Callable[[Source, Source], None]
    pairs: Callable[[Path], None]
    close: Callable[[], object] = lambda: None
    starts_processes: bool = False


def records(source: Source) -> Iterator[tuple[list[str], list[str]]]:
    """Keys and texts, a bounded number at a time."""
    with source.path.open("rb") as lines:
        while block := list(itertools.islice(lines, CHUNK)):
            objects = list(map(orjson.loads, block))
            yield (
                [each[source.key_field] for each in objects],
                [each[source.text_field] for each in objects],
            )


def write_pairs(output: Path, pairs: Iterable[tuple[str, str] | tuple[str, str, float]]) -> None:
    """One pair a line."""
    with output.open("w", encoding="utf-8") as lines:
        lines.writelines("\t".join(map(str, pair)) + "\n" for pair in pairs)


def save(path: Path, thing: Any) -> None:
    """Pickle to disk, in the place of what was there, synced."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        pickle.dump(thing, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.fsync(file.fileno())
    beside.replace(path)


def restore(path: Path) -> Any:
    """Give back what :func:`save` took."""
    with path.open("rb") as file:
        return pickle.load(file)
