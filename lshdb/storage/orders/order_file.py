"""One file of frozen orders: bucket keys of a range of signatures, sorted band by band.

    orders.GENERATION.CUT.FIRST-LAST.SEGMENT.CRC.npy

It is a plain ``.npy`` of uint32, shape (2, n_orders, n): for each band, and for the contents, the
n buckets in order, and beside each the signature's number, counted from FIRST. Behind the array
there are sums of the contents' entries, as :meth:`Banding.sums` gives them: an add that finds no
content there writes it anew, so what it finds must be what was written. Committed rows never
change, so neither does what the file says: it is written once, under a temporary name, and removed
one day. Its name says which rows it covers, by which cut, the number that the commit of the last of
them drew (table ``segment``), and the CRC-32 of all its bytes. Histories of an index that part, as
two copies of it do, draw different numbers; so a file of one is not taken for the other's, however
alike their rows are.

It is derived: without it, or where it is not as it should be, SQL gives the same answers.

A file that is cut while it is mapped ends the process. So only a file that nobody but its reader,
or root, may change is mapped; any other is read by ``pread``.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lshdb.arrays import np
from lshdb.disksort.descriptors import copy_range, read_at, sync_file, write_at
from lshdb.storage.place.directory import sync_directory
from lshdb.storage.place.own_files import new_file, open_file
from lshdb.storage.rowfiles.layouts import npy_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NEXT_NAME",
    "Banding",
    "OrderFile",
    "OrderName",
    "is_order",
    "order_names",
    "write_orders",
]

HEADER_BYTES = 128
BUCKET, PLACE = range(2)
ENTRY_BYTES = 8
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

    @property
    def n_summed(self) -> int:
        """How many entries have one sum."""

    def keys(self, rows: NDArray[Any], contents: dict[int, bytes] | None = None) -> Ids:
        """Return bucket keys (int64, shape (n, n_orders)), the content band's last.

        ``contents`` has content hashes by the number of the row.
        """

    def sort(self, keys: Ids) -> Planes:
        """Return the columns of keys, sorted: uint32, shape (2, n_orders, n)."""

    def sums(self, entries: Planes) -> Planes:
        """Return sums of the entries of the last order (shape (2, n)), for :meth:`find`."""

    def find(
        self, places: Sequence[tuple[Any, int, int, int]], keys: Ids, limit: int
    ) -> tuple[Ids, Ids]:
        """Return numbers of signatures below a limit for each key, and the signatures."""

    def group(
        self,
        places: Sequence[tuple[Any, int, int, int]],
        first: int,
        last: int,
        limit: int,
        *,
        above: int,
    ) -> tuple[Ids, Ids, Ids]:
        """Return the larger buckets of a range: their keys, sizes and signatures below a limit."""

    def keys_of_row(self, row: bytes) -> bytes | bytearray:
        """Return the bucket keys of one row, native int64, without the content band's."""

    def members(
        self, places: list[tuple[Any, int, int, int]], keys: bytes | bytearray, limit: int
    ) -> bytes:
        """Return the signatures alone, native int64 as bytes."""


@dataclass(frozen=True, slots=True, order=True)
class OrderName:
    """What the name of a file says.

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
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        generation, first, last = int(found[1]), int(found[3]), int(found[4])
        if not first < last <= first + 2**32:
            return None
        return cls(first, last, generation, found[2], int(found[5], 16), int(found[6], 16))

    def __str__(self) -> str:
        """Return the name of the file."""
        rows = f"{self.generation}.{self.cut}.{self.first}-{self.last}"
        return f"orders.{rows}.{self.segment:016x}.{self.crc:08x}.npy"


def order_names(directory: Path) -> list[OrderName]:
    """Return the names of the orders in a directory, sorted by what they cover."""
    found = (OrderName.of(name) for name in os.listdir(directory) if name.startswith("orders."))
    return sorted(name for name in found if name is not None)


def is_order(path: Path) -> bool:
    """Return whether a file begins as orders do, or ends too early to tell.

    Raises
    ------
    OSError
        It cannot be opened, or is not a regular file.
    """
    descriptor = open_file(path, os.O_RDONLY)
    try:
        found = read_at(descriptor, len(_BEGINNING), 0)
    finally:
        os.close(descriptor)
    return _BEGINNING.startswith(found)


def _header(n_orders: int, n: int) -> bytes:
    return npy_header("<u4", (2, n_orders, n))


_BEGINNING = _header(1, 1).partition(b"1, 1)")[0]


class OrderFile:
    """An open file of orders.

    Parameters
    ----------
    directory : Path
    name : OrderName
    banding : Banding
        Says how many orders it must have.

    Attributes
    ----------
    name : OrderName
    n : int
        Signatures in it.
    words : memoryview or None
        All planes, if the file is mapped.
    descriptor : int

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
        self.path = directory / str(name)
        self.descriptor = open_file(self.path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.descriptor)
        there = os.fstat(self.descriptor)
        size = HEADER_BYTES + ENTRY_BYTES * n_orders * self.n + 4 * -(-self.n // banding.n_summed)
        header = _header(n_orders, self.n)
        if there.st_size != size or read_at(self.descriptor, HEADER_BYTES, 0) != header:
            raise ValueError(f"the header or the length of {self.path} is not that of its name")
        is_own = there.st_uid in (os.geteuid(), 0) and not there.st_mode & (
            stat.S_IWGRP | stat.S_IWOTH
        )
        self.words: memoryview | None = None
        if is_own:
            self._map = mmap.mmap(self.descriptor, size, access=mmap.ACCESS_READ)
            self.words = memoryview(self._map)[HEADER_BYTES:]

    @property
    def place(self) -> tuple[Any, int, int, int]:
        """The file as :meth:`Banding.find` takes it."""
        source = self.descriptor if self.words is None else self.words
        return source, self.n, self.n_orders, self.name.first

    @property
    def place_to_read(self) -> tuple[int, int, int, int]:
        """The same, to be read and not mapped."""
        return self.descriptor, self.n, self.n_orders, self.name.first

    def rest(self) -> None:
        """Give back the memory of what was looked up in the map; it stays in the system's cache."""
        if self.words is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def row(self, plane: int, order: int, start: int, stop: int) -> Planes:
        """Return some numbers of a plane, in place if the file is mapped.

        Raises
        ------
        OSError
            The file cannot be read.
        ValueError
            It ends too early.
        """
        if self.words is None:
            return self._read(plane, order, start, stop)
        begin = (plane * self.n_orders + order) * self.n
        return np.frombuffer(self.words[4 * (begin + start) : 4 * (begin + stop)], dtype="<u4")

    def _read(self, plane: int, order: int, start: int, stop: int) -> Planes:
        """Return the same, read and not mapped."""
        begin = (plane * self.n_orders + order) * self.n
        size = 4 * (stop - start)
        data = read_at(self.descriptor, size, HEADER_BYTES + 4 * (begin + start))
        if len(data) != size:
            raise ValueError(f"{self.path} ends too early")
        return np.frombuffer(data, dtype="<u4")

    def part(self, order: int, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return buckets from one place to another, and their signatures.

        They are read and not mapped: who takes all of a file part by part would have all of it in
        memory, a gigabyte for five million documents.

        Raises
        ------
        OSError, ValueError
            As for :meth:`row`; or a signature is not among those of the file.
        """
        buckets = self._read(BUCKET, order, start, stop).astype(np.int64)
        places = self._read(PLACE, order, start, stop).astype(np.int64)
        if len(places) and places.max() >= self.n:
            raise ValueError(f"{self.path} names a signature that it does not have")
        return buckets, places + self.name.first

    def copy_to(self, directory: Path) -> None:
        """Copy the file into another directory, where it must not exist, and sync it.

        Raises
        ------
        OSError
            This file cannot be read, or the other not written.
        """
        with open(directory / self.path.name, "xb", buffering=0) as copy:
            offset = 0
            while copied := copy_range(self.descriptor, copy.fileno(), offset, _COPY_BYTES):
                offset += copied
            sync_file(copy.fileno())

    def crc32(self) -> int:
        """Return the CRC-32 of all its bytes."""
        return _crc32(self.descriptor)


def _crc32(descriptor: int) -> int:
    found = offset = 0
    while data := os.pread(descriptor, _READ_BYTES, offset):
        found, offset = zlib.crc32(data, found), offset + len(data)
    return found


def write_orders(
    directory: Path,
    *,
    generation: int,
    banding: Banding,
    first: int,
    last: int,
    segment: int,
    fill: Callable[[int], None],
) -> OrderName:
    """Write a file of orders, sync it, and bring it to its place.

    Parameters
    ----------
    directory : Path
    generation : int
    banding : Banding
    first, last : int
    segment : int
    fill : callable
        Given a descriptor, it writes the planes behind the header.

    Raises
    ------
    OSError
        The disk is full or failed; there is no such file then.
    """
    with new_file(directory / NEXT_NAME) as descriptor:
        os.pwrite(descriptor, _header(banding.n_orders, last - first), 0)
        fill(descriptor)
        _write_sums(descriptor, banding, last - first)
        sync_file(descriptor, data_only=True)
        name = OrderName(first, last, generation, banding.name, segment, _crc32(descriptor))
        os.rename(directory / NEXT_NAME, directory / str(name))
    sync_directory(directory)
    return name


def _write_sums(descriptor: int, banding: Banding, n: int) -> None:
    """Write the sums of the contents' entries behind the planes, which are there."""
    end = HEADER_BYTES + ENTRY_BYTES * banding.n_orders * n
    step = _READ_BYTES // banding.n_summed * banding.n_summed
    for start in range(0, n, step):
        stop = min(start + step, n)
        entries = np.empty((2, stop - start), dtype="<u4")
        for plane in (BUCKET, PLACE):
            at = ((plane + 1) * banding.n_orders - 1) * n + start
            data = read_at(descriptor, 4 * (stop - start), HEADER_BYTES + 4 * at)
            entries[plane] = np.frombuffer(data, dtype="<u4")
        write_at(descriptor, banding.sums(entries).tobytes(), end + 4 * (start // banding.n_summed))
