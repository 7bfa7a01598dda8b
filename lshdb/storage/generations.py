"""Generations of the signature file: ``signatures.npy``, ``signatures.1.npy``, and so on.

Rows below the committed count are never changed, so what is to lose rows is written anew, under the
next name, and the commit that refers to it makes it the index's. What lies there under another
name is of a writer that was killed before its commit, or before it could remove what its commit had
replaced; the next writer removes it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.blocks import Block, extend_blocks
from lshdb.storage.directory import sync_directory
from lshdb.storage.signature_file import SignatureFile

__all__ = ["clear_generations", "next_generation", "write_generation"]

_NAME = re.compile(r"signatures(?:\.(\d{1,18}))?\.npy")


def next_generation(current: SignatureFile) -> SignatureFile:
    """The generation after one, which does not exist yet."""
    found = _NAME.fullmatch(current.path.name)
    number = int(found[1] or 0) + 1 if found else 1
    return SignatureFile(current.path.with_name(f"signatures.{number}.npy"), current.num_perm)


def write_generation(
    file: SignatureFile, n_rows: int, blocks: Iterable[NDArray[np.uint32]]
) -> list[Block]:
    """Write a whole signature file, and make it and its name durable.

    Parameters
    ----------
    file : SignatureFile
        What lies there already is replaced: nothing refers to it.
    n_rows : int
    blocks : iterable of ndarray of uint32, shape (any, num_perm)
        n_rows rows in all.

    Returns
    -------
    list of Block
        CRC-32 of what was to be written.

    Raises
    ------
    OSError
        The disk is full or failed.
    """
    found: list[Block] = []

    def counted() -> Iterator[NDArray[np.uint32]]:
        for rows in blocks:
            extend_blocks(found, rows)
            yield rows

    file.write(n_rows, counted())
    sync_directory(file.path.parent)
    return found


def clear_generations(current: SignatureFile) -> None:
    """Remove all generations but the one that the committed state refers to."""
    folder: Path = current.path.parent
    for path in folder.glob("signatures*.npy"):
        if path.name != current.path.name and _NAME.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()
