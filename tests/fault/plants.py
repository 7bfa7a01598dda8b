"""Bugs, to be planted into a writer: the harness must find what each of them breaks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from lshdb.storage.rowfiles import row_file
from lshdb.storage.rowfiles.layouts import HEADER_BYTES
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.transactions.writer import Writer


def signatures_unsynced() -> None:
    """The fdatasync of the signature file is left out."""
    row_file._sync_data = lambda descriptor: None


def commits_swapped() -> None:
    """SQL is committed first, and then signature rows are written and synced."""
    _postpone(lambda file: True)


def _postpone(is_late: Callable[[RowFile], bool]) -> None:
    append, attempt = RowFile.append, Writer._attempt
    later: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def swapped(writer: Writer) -> Iterator[Any]:
        with attempt(writer) as running:
            yield running
        while later:
            later.pop(0)()

    def postpone(file: RowFile, first_row: int, rows: Any) -> None:
        if is_late(file):
            later.append(lambda: append(file, first_row, rows))
        else:
            append(file, first_row, rows)

    RowFile.append = postpone  # type: ignore[method-assign]
    Writer._attempt = swapped  # type: ignore[method-assign]


def tail_cut_on_error() -> None:
    """What a batch appended is cut off when its COMMIT reports an error, which yet took effect."""
    append, attempt = RowFile.append, Writer._attempt
    sizes: list[tuple[RowFile, int]] = []

    @contextlib.contextmanager
    def cutting(writer: Writer) -> Iterator[Any]:
        sizes.clear()
        try:
            with attempt(writer) as running:
                yield running
        except BaseException:
            for file, size in sizes:
                _cut(file, size)
            raise

    def remember(file: RowFile, first_row: int, rows: Any) -> None:
        sizes.append((file, HEADER_BYTES + first_row * file.row_bytes))
        append(file, first_row, rows)

    RowFile.append = remember  # type: ignore[method-assign]
    Writer._attempt = cutting  # type: ignore[method-assign]


def _cut(file: RowFile, size: int) -> None:
    with open(file.path, "r+b") as opened:
        opened.truncate(size)
        os.fsync(opened.fileno())


def vectors_unsynced() -> None:
    """The fdatasync of the vector file is left out."""
    append, sync = RowFile.append, row_file._sync_data

    def unsynced(file: RowFile, first_row: int, rows: Any) -> None:
        is_vector = file.layout.kind == "vector"
        row_file._sync_data = (lambda descriptor: None) if is_vector else sync
        append(file, first_row, rows)

    RowFile.append = unsynced  # type: ignore[method-assign]


def vectors_after_the_commit() -> None:
    """Signature rows are written and synced, SQL is committed, and then come the vectors."""
    _postpone(lambda file: file.layout.kind == "vector")


PLANTS: dict[str, Callable[[], None]] = {
    plant.__name__: plant for plant in (signatures_unsynced, commits_swapped, tail_cut_on_error)
}
OF_VECTORS: dict[str, Callable[[], None]] = {
    plant.__name__: plant for plant in (vectors_unsynced, vectors_after_the_commit)
}
"""Those that only an index with a vector file has."""
