"""Writing frozen orders: for new rows, and merged so that there are few files.

After an add, the rows that no file covers are sorted into a new one. It takes in the files before
it that are not more than ``RATIO`` times as large, so a row is rewritten a few times in the life of
an index, and there are about log(n) / log(``RATIO``) files. New rows that fit into the memory of a
step are sorted at once, more in parts; files and parts are merged order by order.

An add of several batches does not wait for its end: after each commit it sorts the new rows into a
file, so that its readers need not, and merges these files at the end. They take the place of the
parts that it would sort there. On the way it merges only files of like size, when there are
``MOST_PARTS`` of them, so that a row is rewritten once in 10 million documents and twice in 42
million. (All files of the add together, each time, made the twentieth million of one add take three
times as long as the first.)

The writer does this under its lock, and commits nothing: readers take the new file when they see
it, and files that it replaces stay readable to those who have opened them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from lshdb.arrays import np
from lshdb.files.descriptors import read_at, write_at
from lshdb.params.order_layout import HEADER_BYTES, OrderLayout
from lshdb.storage.orders.frozen import MOST_SORTED, CommittedRows, OrderFolder, covering
from lshdb.storage.orders.order_file import (
    NEXT_NAME,
    Banding,
    OrderName,
    OrderWriter,
    is_order,
    order_names,
    write_orders,
)
from lshdb.storage.orders.uncovered import Contents, keys_between, rows_at_once
from lshdb.threads import work_ahead

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SortedRows", "clear_orders", "due", "freeze_rows"]

RATIO = 4
MOST_PARTS = 64
"""Files of like size that an add leaves before it ends; a look-up takes .1 us in each."""
_MERGED_BYTES = 16 * 2**20
"""Entries that are read from all parts at once, by all threads."""
_ENTRY_BYTES = 40
"""A bucket, a signature, their sorted copies and the order."""

Ids: TypeAlias = "NDArray[np.int64]"


class SortedRows(NamedTuple):
    """Rows whose bucket keys somebody has sorted.

    Attributes
    ----------
    first : int
        The signature of the first row.
    planes : ndarray of uint32, shape (2, n_orders, n)
        As :meth:`Banding.sort` gives them; every row has a document, or had one when it was made.
    """

    first: int
    planes: NDArray[np.uint32]

    @property
    def last(self) -> int:
        """The signature behind the last row."""
        return self.first + int(self.planes.shape[2])


class Part(Protocol):
    """A sorted range of rows that is merged with others."""

    n: int

    def part(self, order: int, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return buckets and signatures from one place of an order to another."""


class _MemoryPart:
    """Sorted rows in memory."""

    def __init__(self, first: int, planes: NDArray[np.uint32]) -> None:
        self.n = planes.shape[2]
        self._first = first
        self._planes = planes

    def part(self, order: int, start: int, stop: int) -> tuple[Ids, Ids]:
        buckets, places = self._planes[:, order, start:stop].astype(np.int64)
        return buckets, places + self._first


class _FilePart:
    """Sorted rows in a file without a name."""

    def __init__(self, descriptor: int, first: int, planes: NDArray[np.uint32]) -> None:
        _, self.n_orders, self.n = planes.shape
        self._first = first
        self._descriptor = descriptor
        write_at(descriptor, _data(planes), 0)

    def part(self, order: int, start: int, stop: int) -> tuple[Ids, Ids]:
        columns = []
        for plane in range(2):
            begin = (plane * self.n_orders + order) * self.n + start
            data = read_at(self._descriptor, 4 * (stop - start), 4 * begin)
            columns.append(np.frombuffer(data, dtype="<u4").astype(np.int64))
        buckets, places = columns
        return buckets, places + self._first


def due(sizes: Sequence[int], n_new: int, *, of_add: int = 0, goes_on: bool = False) -> int:
    """Return how many of the last segments are merged with new rows. Pure.

    At the end of an add those are its own, and the ones before that are at most ``RATIO`` times as
    large as all behind them. So each segment is more than ``RATIO`` times as large as the next, and
    each time that a posting is copied, its segment grows by a fourth or more. While an add goes on,
    they are its last ones that are at most ``RATIO`` times as large as what comes after, if they
    are ``MOST_PARTS``; and so on with those before them.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each segment, in order of rows.
    n_new : int
        Rows that no segment covers, which follow.
    of_add : int
        How many of the last segments came in the add that brought the new rows.
    goes_on : bool
        That add has not ended.
    """
    n_merged, size = 0, n_new
    if not goes_on:
        while n_merged < len(sizes) and (n_merged < of_add or sizes[-1 - n_merged] <= RATIO * size):
            n_merged += 1
            size += sizes[-n_merged]
        return n_merged
    while True:
        level = n_merged
        while level < of_add and sizes[-1 - level] <= RATIO * size:
            level += 1
        if level - n_merged < MOST_PARTS:
            return n_merged
        size += sum(sizes[len(sizes) - level : len(sizes) - n_merged])
        n_merged = level


def freeze_rows(
    folder: OrderFolder,
    committed: CommittedRows,
    contents: Contents,
    *,
    add_start: int | None = None,
    goes_on: bool = False,
    ready: SortedRows | None = None,
    workers: int = 1,
) -> OrderName | None:
    """Sort the rows that no file covers into a new file; None if there are none.

    Parameters
    ----------
    add_start : int, optional
        The rows from here on came in one add: its files are merged, whatever their sizes.
    goes_on : bool
        That add has not ended. Its new rows get a file of their own, unless they are so few that
        readers sort them; or one with the add's last files, if these are ``MOST_PARTS`` of like
        size.
    ready : SortedRows, optional
        Used if they are just the rows that no file covers; any other rows are read and sorted.
    workers : int
        Threads that merge files, an order each.

    Raises
    ------
    OSError
        The disk is full or failed; nothing is left of what was add_start.
    DamageError
        The rows cannot be read.
    """
    generation, n_signatures = committed.generation, committed.n_signatures
    chain = [file for file in folder.files(committed) if file.name.last <= n_signatures]
    covered = chain[-1].name.last if chain else 0
    segment = committed.segments([n_signatures]).get(n_signatures)
    if covered == n_signatures or segment is None:
        clear_orders(folder.directory, committed, folder.banding.name, refused=folder.refused)
        return None
    n_new = n_signatures - covered
    if goes_on and n_new <= MOST_SORTED:
        return None
    of_add = 0 if add_start is None else sum(file.name.first >= add_start for file in chain)
    n_kept = len(chain) - due([file.n for file in chain], n_new, of_add=of_add, goes_on=goes_on)
    absorbed = chain[n_kept:]
    first = absorbed[0].name.first if absorbed else covered
    banding, rows = folder.banding, generation.signatures
    is_ready = ready is not None and (ready.first, ready.last) == (covered, n_signatures)
    piece = n_signatures - covered if is_ready else rows_at_once(banding)

    def sort(begin: int, end: int) -> NDArray[np.uint32]:
        if ready is not None and (ready.first, ready.last) == (begin, end):
            return ready.planes
        return banding.sort(keys_between(banding, rows, begin, end, contents))

    def fill(descriptor: int) -> None:
        if not absorbed and n_signatures - first <= piece:
            packed = banding.pack(sort(first, n_signatures), segment)
            write_at(descriptor, packed.data, HEADER_BYTES)
            return
        for file in absorbed:  # what is written anew must not make damage good
            if file.crc32() != file.name.crc:
                raise ValueError(f"{file.path} is not what was written")
        parts: list[Part] = list(absorbed)
        with contextlib.ExitStack() as opened:
            if n_signatures - covered <= piece:
                parts.append(_MemoryPart(covered, sort(covered, n_signatures)))
            else:
                from tempfile import TemporaryFile

                for begin in range(covered, n_signatures, piece):
                    scratch = opened.enter_context(TemporaryFile(dir=folder.directory, buffering=0))
                    end = min(begin + piece, n_signatures)
                    parts.append(_FilePart(scratch.fileno(), begin, sort(begin, end)))
            n, most = n_signatures - first, max(1, _MERGED_BYTES // _ENTRY_BYTES // workers)
            merge = partial(_merge, descriptor, parts, banding, n, first, segment, most)
            for _ in work_ahead(merge, range(banding.n_orders), workers=workers):
                pass

    try:
        name = write_orders(
            folder.directory,
            generation=generation.number,
            banding=banding,
            first=first,
            last=n_signatures,
            segment=segment,
            is_durable=generation.is_durable,
            fill=fill,
        )
    except ValueError as error:
        if not absorbed:
            raise
        folder.distrust(absorbed, str(error))  # their rows are sorted again
        return freeze_rows(
            folder, committed, contents,
            add_start=add_start, goes_on=goes_on, ready=ready, workers=workers,
        )  # fmt: skip
    clear_orders(folder.directory, committed, banding.name, refused=folder.refused)
    return name


def _data(words: NDArray[np.uint32]) -> memoryview:
    return words.reshape(-1).view(np.uint8).data


def _merge(
    descriptor: int,
    parts: list[Part],
    banding: Banding,
    n: int,
    first: int,
    segment: int,
    most: int,
    order: int,
) -> None:
    """Write one order of all parts together behind the header of a file."""
    writer = OrderWriter(descriptor, banding, OrderLayout(n, banding.n_orders), order, segment)
    for buckets, ids in _in_blocks(parts, order, most):
        in_order, entries = banding.sort(buckets.reshape(-1, 1))[:, 0]
        # Not ids[entries]: short of memory, NumPy 2.4 ends the process where it must cast an index.
        writer.add(in_order, (ids.take(entries) - first).astype("<u4"))
    writer.close()


def _in_blocks(parts: list[Part], order: int, most: int) -> Iterator[tuple[Ids, Ids]]:
    """Yield the entries of an order of all parts, in blocks of about ``most``.

    The buckets of a block lie below those of the next one; of equal ones, those of an earlier part
    come first. A block is not sorted in itself. Of each part as much is read at once as the part
    has of all entries: buckets are hashes, so all parts get on at the same pace.
    """
    n_entries = sum(part.n for part in parts)
    blocks = [1 + most * part.n // n_entries for part in parts]
    n_read = [0] * len(parts)
    waiting = [(np.empty(0, np.int64), np.empty(0, np.int64))] * len(parts)
    while True:
        for number, part in enumerate(parts):
            if not len(waiting[number][0]) and n_read[number] < part.n:
                stop = min(n_read[number] + blocks[number], part.n)
                waiting[number] = part.part(order, n_read[number], stop)
                n_read[number] = stop
        # Everything up to the least of the last buckets that were read can be written; where a part
        # is at its end, it sets no limit.
        ends = [
            int(buckets[-1])
            for number, (buckets, _) in enumerate(waiting)
            if len(buckets) and n_read[number] < parts[number].n
        ]
        ready = []
        for number, (buckets, ids) in enumerate(waiting):
            end = int(np.searchsorted(buckets, min(ends), "left")) if ends else len(buckets)
            ready.append((buckets[:end], ids[:end]))
            waiting[number] = buckets[end:], ids[end:]
        keys, ids = (np.concatenate(columns) for columns in zip(*ready, strict=True))
        if len(keys):
            yield keys, ids
        elif not ends:
            return
        else:  # a bucket as large as a block: take more of it
            for number, part in enumerate(parts):
                if len(waiting[number][0]) and n_read[number] < part.n:
                    stop = min(n_read[number] + blocks[number], part.n)
                    more = part.part(order, n_read[number], stop)
                    waiting[number] = (
                        np.concatenate([waiting[number][0], more[0]]),
                        np.concatenate([waiting[number][1], more[1]]),
                    )
                    n_read[number] = stop


def clear_orders(
    directory: Path, rows: CommittedRows, cut: str | None, *, refused: Container[OrderName] = ()
) -> None:
    """Remove files that are not needed; under the writer's lock.

    Those are files of other generations or cuts, of rows that are not these, within the range of
    another file, and what a killed writer left half written. A file that does not begin as an
    order does is not one, whatever its name, and stays.

    Parameters
    ----------
    cut : str or None
        The cut whose files stay; None for all of them.
    refused : container of OrderName, optional
        Files that are known not to be what their names say.
    """
    try:
        (directory / NEXT_NAME).unlink(missing_ok=True)
        names = order_names(directory)
    except OSError:
        return
    generation = rows.generation.number
    segments = rows.segments({name.last for name in names}) if names else {}
    own = [
        name
        for name in names
        if name.generation == generation
        and name.segment == segments.get(name.last)
        and name not in refused
        and cut in (None, name.cut)
    ]
    needed: set[OrderName] = set()
    for own_cut in {name.cut for name in own}:
        needed.update(covering([name for name in own if name.cut == own_cut]))
    for name in names:
        if name not in needed:
            with contextlib.suppress(OSError):
                if is_order(directory / str(name)):
                    os.unlink(directory / str(name))
