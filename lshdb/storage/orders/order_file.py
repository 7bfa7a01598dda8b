"""One file of frozen orders: bucket keys of a range of signatures, sorted band by band.

    orders.GENERATION.CUT.FIRST-LAST.SEGMENT.CRC.npy

It is a plain ``.npy`` of bytes: for each band, and for the contents, the postings of the signatures
from FIRST to LAST, in cells (``params/order_layout.py``). Each cell has a sum of what is in it,
which a look-up compares, seeded with SEGMENT. Committed rows never change, so neither does what the
file says: it is written once, under a temporary name, and removed one day. Its name says which rows
it covers, by which cut, the number that the commit of the last of them drew (table ``segment``),
and the CRC-32 of all its bytes. Histories of an index that part, as two copies of it do, draw
different numbers; so a file of one is not taken for the other's, however alike their rows are, and
neither is a part of it.

It is derived: without it, a reader sorts the rows, or SQL gives the same answers.

A file that is cut while it is mapped ends the process. So only a file that nobody but its reader,
or root, may change is mapped, and only if that leaves most addresses of the process; any other is
read by ``pread``.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lshdb.arrays import np
from lshdb.files.descriptors import copy_range, read_at, sync_directory, sync_file, write_at
from lshdb.files.own_files import new_file, open_file
from lshdb.files.process import has_addresses_for
from lshdb.files.rights import create_file
from lshdb.params.order_layout import CELL, HEADER_BYTES, OrderLayout
from lshdb.phases.phase import Phase
from lshdb.storage.rowfiles.generations import generation_name
from lshdb.storage.rowfiles.layouts import npy_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NEXT_NAME",
    "Banding",
    "OrderFile",
    "OrderName",
    "OrderWriter",
    "Place",
    "is_order",
    "order_names",
    "write_orders",
]

NEXT_NAME = "orders.next.npy"
"""The file that is being written."""

_NAME = re.compile(
    r"orders\.(\d{1,18})\.([0-9a-z]{1,32})\.(\d{1,18})-(\d{1,18})"
    r"\.([0-9a-f]{16})\.([0-9a-f]{8})\.npy"
)
_READ_BYTES = 2**20
_COPY_BYTES = 2**30

Planes: TypeAlias = "NDArray[np.uint32]"
Ids: TypeAlias = "NDArray[np.int64]"
Place: TypeAlias = tuple[Any, int, int, int, int]
"""Orders for :meth:`Banding.find`: packed or a descriptor; rows; orders; first signature; seed."""


class Banding(Protocol):
    """How rows become bucket keys, and how these are sorted and found.

    Made by who knows what a row means; see ``signatures/band_orders.py``.
    """

    @property
    def name(self) -> str:
        """Tells this way from others for the same rows; small letters and digits."""

    @property
    def n_orders(self) -> int:
        """One for each band, and one for contents."""

    def keys(self, rows: NDArray[Any], contents: dict[int, bytes] | None = None) -> Ids:
        """Return bucket keys (int64, shape (n, n_orders)), the content band's last.

        ``contents`` has content hashes by the number of the row.
        """

    def sort(self, keys: Ids) -> Planes:
        """Return the columns of keys, sorted: uint32, shape (2, n_orders, n)."""

    def pack(self, planes: Planes, seed: int = 0) -> NDArray[np.uint8]:
        """Return sorted columns as they lie in a file, behind its header."""

    def pack_cells(
        self,
        buckets: Planes,
        rows: Planes,
        *,
        layout: OrderLayout,
        order: int,
        cells: tuple[int, int],
        place: int,
        seed: int,
    ) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """Return some cells of an order as they lie in a file: their directory and postings."""

    def find(self, places: Sequence[Place], keys: Ids, limit: int) -> tuple[Ids, Ids]:
        """Return numbers of signatures below a limit for each key, and the signatures."""

    def group(
        self,
        places: Sequence[Place],
        first: int,
        last: int,
        limit: int,
        *,
        above: int,
    ) -> tuple[Ids, Ids, Ids]:
        """Return the larger buckets of a range: their keys, sizes and signatures below a limit."""

    def keys_of_row(self, row: bytes) -> bytes | bytearray:
        """Return the bucket keys of one row, native int64, without the content band's."""

    def members(self, places: list[Place], keys: bytes | bytearray, limit: int) -> bytes:
        """Return the signatures alone, native int64 as bytes."""

    def agreeing(
        self,
        places: list[Place],
        limit: int,
        keys: Ids,
        rows: NDArray[Any],
        most: int,
        least: int,
        source: Any,
        offset: int,
        n: int,
    ) -> tuple[int, Ids]:
        """Return how many queries are done, and what agrees with these in a band."""


@dataclass(frozen=True, slots=True, order=True)
class OrderName:
    """The parts of a file's name.

    Attributes
    ----------
    first, last : int
        The signatures that it covers; the last is left out.
    generation : int
        Number of the generation of the row files.
    cut : str
        Name of the banding.
    segment : int
        Number of the commit that wrote the last of the rows.
    crc : int
        CRC-32 of the file.
    """

    first: int
    last: int
    generation: int
    cut: str
    segment: int
    crc: int

    @classmethod
    def of(cls, name: str) -> OrderName | None:
        """Take a name apart; None if it is not that of an order."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        generation, first, last = int(match[1]), int(match[3]), int(match[4])
        if not first < last <= first + 2**32:
            return None
        return cls(first, last, generation, match[2], int(match[5], 16), int(match[6], 16))

    def __str__(self) -> str:
        """Return the name of the file."""
        rows = f"{self.generation}.{self.cut}.{self.first}-{self.last}"
        return f"orders.{rows}.{self.segment:016x}.{self.crc:08x}.npy"


def order_names(directory: Path) -> list[OrderName]:
    """Return the names of the orders in a directory, sorted by their rows."""
    names = []
    for entry in os.listdir(directory):
        if entry.startswith("orders.") and (name := OrderName.of(entry)) is not None:
            names.append(name)
    return sorted(names)


def is_order(path: Path) -> bool:
    """Return whether a file begins as orders do, or ends too early to tell.

    Raises
    ------
    OSError
        It cannot be opened, or is not a regular file.
    """
    descriptor = open_file(path, os.O_RDONLY)
    try:
        beginning = read_at(descriptor, len(_BEGINNING), 0)
    finally:
        os.close(descriptor)
    return _BEGINNING.startswith(beginning)


_BEGINNING = npy_header("|u1", (1,)).partition(b"(")[0]


class OrderFile:
    """An open file of orders.

    Parameters
    ----------
    banding : Banding
        Says how many orders it must have.

    Attributes
    ----------
    n : int
        Signatures in it.
    words : memoryview or None
        What follows the header, if the file is mapped.

    Raises
    ------
    OSError
        It is not there, cannot be opened, or is not a regular file.
    ValueError
        It is not what its name says, or has another number of orders.
    """

    def __init__(self, directory: Path, name: OrderName, banding: Banding) -> None:
        self.name = name
        self.n = name.last - name.first
        self.n_orders = n_orders = banding.n_orders
        self._starts: dict[int, Ids] = {}
        self.path = directory / str(name)
        self.descriptor = open_file(self.path, os.O_RDONLY, owner=self)
        status = os.fstat(self.descriptor)
        self.layout = OrderLayout(self.n, n_orders)
        self.n_bytes = size = HEADER_BYTES + self.layout.size
        header = npy_header("|u1", (self.layout.size,))
        if status.st_size != size or read_at(self.descriptor, HEADER_BYTES, 0) != header:
            raise ValueError(f"the header or the length of {self.path} is not that of its name")
        is_own = status.st_uid in (os.geteuid(), 0) and not status.st_mode & (
            stat.S_IWGRP | stat.S_IWOTH
        )
        self.words: memoryview | None = None
        if is_own and has_addresses_for(size):
            with contextlib.suppress(OSError):  # it is read then
                self._map = mmap.mmap(self.descriptor, size, access=mmap.ACCESS_READ)
                self.words = memoryview(self._map)[HEADER_BYTES:]

    @property
    def place(self) -> Place:
        """The file as :meth:`Banding.find` takes it."""
        if self.words is None:
            return self.place_to_read
        return self.words, self.n, self.n_orders, self.name.first, self.name.segment

    @property
    def place_to_read(self) -> Place:
        """The same, to be read and not mapped."""
        return self.descriptor, self.n, self.n_orders, self.name.first, self.name.segment

    def rest(self) -> None:
        """Give back the memory of pages that were read; the system's cache keeps them."""
        if self.words is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _read(self, begin: int, end: int) -> bytes:
        """Return bytes behind the header, read and not mapped."""
        data = read_at(self.descriptor, end - begin, HEADER_BYTES + begin)
        if len(data) != end - begin:
            raise ValueError(f"{self.path} ends too early")
        return data

    def part(self, order: int, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return buckets from one place to another, and their signatures.

        They are read and not mapped: who takes all of a file part by part would have all of it in
        memory, a gigabyte for five million documents. Sums are not compared.

        Raises
        ------
        OSError
            The file cannot be read.
        ValueError
            It ends too early, its cells are in no order, or a signature is not among those of the
            file.
        """
        layout = self.layout
        starts = self._starts.get(order)
        if starts is None:
            data = self._read(layout.cell_offset(order), layout.cell_offset(order + 1))
            starts = np.append(np.frombuffer(data, CELL)["place"], self.n).astype(np.int64)
            if starts[0] != 0 or (np.diff(starts) < 0).any():
                raise ValueError(f"{self.path} has cells that are in no order")
            self._starts[order] = starts
        data = self._read(layout.posting_offset(order, start), layout.posting_offset(order, stop))
        postings = np.frombuffer(data, layout.posting)
        places = postings["row"].astype(np.int64)
        if len(places) and places.max() >= self.n:
            raise ValueError(f"{self.path} names a signature that it does not have")
        first, last = np.searchsorted(starts, [start, stop - 1], "right") - 1
        ends = np.clip(starts[first : last + 2], start, stop)
        sizes = ends[1:] - ends[:-1]
        buckets = np.repeat(np.arange(first, last + 1) << layout.rest_bits, sizes)
        buckets |= postings["rest"]
        if stop == self.n:
            self._starts.pop(order, None)
        return buckets, places + self.name.first

    def copy_to(self, directory: Path) -> None:
        """Copy the file into another directory, where it must not exist, and sync it.

        Raises
        ------
        OSError
            This file cannot be read, or the other not written.
        """
        with (
            open(create_file(directory / self.path.name), "wb", buffering=0) as copy,
            Phase("bytes", self.n_bytes) as phase,
        ):
            while copied := copy_range(self.descriptor, copy.fileno(), phase.n_done, _COPY_BYTES):
                phase.add(copied)
            sync_file(copy.fileno())

    def crc32(self) -> int:
        """Return the CRC-32 of all its bytes."""
        return _crc32(self.descriptor)


def _crc32(descriptor: int) -> int:
    crc = offset = 0
    while data := os.pread(descriptor, _READ_BYTES, offset):
        crc, offset = zlib.crc32(data, crc), offset + len(data)
    return crc


def write_orders(
    directory: Path,
    *,
    generation: int,
    banding: Banding,
    first: int,
    last: int,
    segment: int,
    is_durable: bool,
    fill: Callable[[int], None],
) -> OrderName:
    """Write a file of orders, sync it if it is durable, and bring it to its place.

    Parameters
    ----------
    fill : callable
        Given a descriptor, it writes what follows the header.

    Raises
    ------
    OSError
        The disk is full or failed; there is no such file then.
    """
    rows = directory / generation_name(generation)  # orders show what rows show
    with new_file(directory / NEXT_NAME, model=rows) as descriptor:
        size = OrderLayout(last - first, banding.n_orders).size
        write_at(descriptor, npy_header("|u1", (size,)), 0)
        fill(descriptor)
        if is_durable:
            sync_file(descriptor, data_only=True)
        name = OrderName(first, last, generation, banding.name, segment, _crc32(descriptor))
        os.rename(directory / NEXT_NAME, directory / str(name))
    if is_durable:
        sync_directory(directory)
    return name


class OrderWriter:
    """One order of a file, written as its postings come, in order.

    Parameters
    ----------
    seed : int
        The number of the file's segment.
    """

    def __init__(
        self, descriptor: int, banding: Banding, layout: OrderLayout, order: int, seed: int
    ) -> None:
        self._descriptor = descriptor
        self._pack = partial(banding.pack_cells, layout=layout, order=order, seed=seed)
        self._layout = layout
        self._order = order
        self._cell = self._place = 0
        self._postings: Planes = np.empty((2, 0), dtype="<u4")

    def add(self, buckets: Planes, rows: Planes) -> None:
        """Take postings (uint32, shape (n,)), and write all whole cells."""
        self._postings = np.concatenate([self._postings, [buckets, rows]], axis=1)
        last = int(self._postings[0, -1]) >> self._layout.rest_bits
        n = int(np.searchsorted(self._postings[0], last << self._layout.rest_bits))
        self._write(n, last)

    def close(self) -> None:
        """Write the rest of the file."""
        self._write(self._postings.shape[1], self._layout.n_cells)

    def _write(self, n: int, end: int) -> None:
        buckets, rows = self._postings[:, :n]
        directory, postings = self._pack(buckets, rows, cells=(self._cell, end), place=self._place)
        for offset, column in (
            (self._layout.cell_offset(self._order, self._cell), directory),
            (self._layout.posting_offset(self._order, self._place), postings),
        ):
            write_at(self._descriptor, column.view(np.uint8).data, HEADER_BYTES + offset)
        self._postings = self._postings[:, n:]
        self._cell, self._place = end, self._place + n
