"""The signature file: a plain ``.npy`` of shape (n_signatures, num_perm), uint32, C order.

Stored: a version 1.0 header of 128 bytes, then the rows, 4 * num_perm bytes each, little-endian.
The header is padded, so the first number of the shape grows in place.

Decisions:

* Anyone can map it (``np.load(mmap_mode="r")``); here it is written with pwrite and read with
  pread. Under a map, a full disk and a file that another program cuts are SIGBUS, which ends the
  process; so they are errors. A row that is not in the page cache also comes 20 to 50 times sooner
  (through a map the system reads up to 2 MiB around it); one that is takes 1 us more.
* Of a small file all rows are kept in memory once many have been asked for.
* How many rows count is said by the database; those past that are overwritten by the next batch.
  The header's number is for NumPy: it is set after the commit, so at most a batch behind.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import weakref
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import DamageError, LshdbError
from lshdb.storage.descriptors import read_at, write_at

__all__ = ["HEADER_BYTES", "SignatureFile", "SignatureRows"]

HEADER_BYTES = 128
MOST_HELD_BYTES = 64 * 2**20
"""A file up to this size may all come into the process's memory."""
_ROW_DTYPE = np.dtype("<u4")
_COPY_BYTES = 2**30
_BLOCK_BYTES = 2**20
_CANNOT_COPY = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
"""What ``copy_file_range`` says where the file systems or the kernel cannot do it."""


def _header(n_rows: int, num_perm: int) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<u4", "fortran_order": False, "shape": (n_rows, num_perm)}
    )
    return buffer.getvalue()


class SignatureFile:
    """One generation of the signature file.

    Parameters
    ----------
    path : Path
    num_perm : int
        Slots a row.
    """

    def __init__(self, path: Path, num_perm: int) -> None:
        self.path = path
        self.num_perm = num_perm
        self.row_bytes = num_perm * _ROW_DTYPE.itemsize
        self._held: NDArray[np.uint32] | None = None
        self.n_taken = 0
        self._reader: int | None = None
        self.is_recognised = False

    def create(self) -> None:
        """Make an empty file; it must not exist."""
        header = _header(0, self.num_perm)
        with open(self.path, "xb") as file:
            file.write(header)
            file.flush()
            os.fsync(file.fileno())

    def write(self, n_rows: int, blocks: Iterable[NDArray[np.uint32]]) -> None:
        """Make the file with all its rows, and sync it; what lies there is replaced.

        Parameters
        ----------
        n_rows : int
        blocks : iterable of ndarray of uint32, shape (any, num_perm)
            n_rows rows in all.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        with open(self.path, "wb") as file:
            file.write(_header(n_rows, self.num_perm))
            for rows in blocks:
                file.write(np.ascontiguousarray(rows, dtype=_ROW_DTYPE).data)
            file.flush()
            os.fsync(file.fileno())

    def open(self) -> int:
        """Open the file for reading, once; the descriptor is closed with this object.

        A file that is open stays readable when a later generation has taken its place.

        Raises
        ------
        FileNotFoundError
            It is not there.
        LshdbError
            It may not be read.
        DamageError
            It cannot be read.
        """
        if self._reader is None:
            try:
                self._reader = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise
            except PermissionError as error:
                raise LshdbError(
                    f"you may not read the signature file {self.path}",
                    hint="ask its owner for read permission",
                ) from error
            except OSError as error:
                raise self._unreadable(error) from error
            weakref.finalize(self, os.close, self._reader)
        return self._reader

    def check_header(self, n_committed: int, *, is_writer: bool = False) -> int:
        """Compare the header and the length with what the database says; the header's rows.

        Parameters
        ----------
        n_committed : int
            Rows that the caller's state of the database counts.
        is_writer : bool
            Whether the caller holds the writer lock. For anyone else the header may count more
            rows: those of a commit since.

        Raises
        ------
        DamageError
            The file is absent, short, no ``.npy``, or has other rows than the index.
        """
        header = self._read(HEADER_BYTES, 0)
        shape = re.search(rb"'shape': \((\d{1,18}), ", header)
        n_rows = int(shape[1]) if shape else 0
        if header != _header(n_rows, self.num_perm):
            raise DamageError(
                f"the header of the signature file {self.path} is "
                f"{header[10:].decode('ascii', 'replace').strip()!r}; the index has "
                f"num_perm = {self.num_perm} slots of uint32 (<u4) a row",
                hint="the file is damaged or belongs to another index; put the right one back",
            )
        if is_writer and n_rows > n_committed:
            raise DamageError(
                f"the header of the signature file {self.path} counts {n_rows} rows, "
                f"the database {n_committed}",
                hint="the file belongs to another index or to a later copy of this one",
            )
        self._check_length(n_committed)
        return n_rows

    def check_block(self, first_row: int, n_rows: int, crc32: int) -> NDArray[np.uint32]:
        """Read some rows, and compare them with the CRC-32 that was written for them.

        Raises
        ------
        DamageError
            They are others.
        """
        data = self._block(first_row, n_rows)
        found = zlib.crc32(data)
        if found != crc32:
            raise DamageError(
                f"rows {first_row} to {first_row + n_rows - 1} of the signature file {self.path} "
                f"have CRC-32 {found:08x}; written was {crc32:08x}",
                hint="the file is damaged or belongs to another index; run lshdb check",
            )
        return self._as_rows(data, n_rows)

    def block_crc(self, first_row: int, n_rows: int) -> int:
        """CRC-32 of some rows as they lie; of those that are there, where the file is shorter."""
        return zlib.crc32(self._block(first_row, n_rows))

    def _block(self, first_row: int, n_rows: int) -> bytes:
        start = HEADER_BYTES + first_row * self.row_bytes
        there = self._size() - start if first_row >= 0 else 0  # if not damaged
        return self._read(max(0, min(n_rows * self.row_bytes, there)), start)

    def rows(self, n_committed: int) -> SignatureRows:
        """The committed rows, of which nothing is read yet.

        Raises
        ------
        DamageError
            The file is shorter than the committed rows.
        """
        self._check_length(n_committed)
        return SignatureRows(self, n_committed)

    def _check_length(self, n_committed: int) -> None:
        needed = HEADER_BYTES + n_committed * self.row_bytes
        size = self._size()
        if size < needed:
            raise DamageError(
                f"the signature file {self.path} is {size} bytes long; "
                f"{n_committed} rows need {needed}",
                hint="the file was cut; restore the index from a copy",
            )

    def take(self, signature_ids: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Copies of some committed rows: 1 us a row.

        Raises
        ------
        DamageError
            The file ends before a row does, or cannot be read.
        """
        size = self.row_bytes
        offsets = [HEADER_BYTES + size * one for one in signature_ids.tolist()]
        try:
            descriptor = self.open()
            data = b"".join(os.pread(descriptor, size, offset) for offset in offsets)
        except OSError as error:
            raise self._unreadable(error) from error
        if len(data) != size * len(offsets):  # less than was asked for may come at any time
            data = b"".join(self._read(size, offset) for offset in offsets)
        self.n_taken += len(signature_ids)
        return self._as_rows(data, len(signature_ids))

    def take_between(self, first_row: int, last_row: int) -> NDArray[np.uint32]:
        """Copies of the committed rows from one up to another, that one left out.

        Raises
        ------
        DamageError
            The file ends before they do, or cannot be read.
        """
        n_rows = last_row - first_row
        data = self._read(n_rows * self.row_bytes, HEADER_BYTES + first_row * self.row_bytes)
        return self._as_rows(data, n_rows)

    def _as_rows(self, data: bytes, n_rows: int) -> NDArray[np.uint32]:
        if len(data) != n_rows * self.row_bytes:
            raise DamageError(
                f"the signature file {self.path} ends before a row that is committed",
                hint="the file was cut; restore the index from a copy",
            )
        return np.frombuffer(data, dtype=_ROW_DTYPE).reshape(n_rows, self.num_perm)

    def all_rows(self, n_committed: int) -> NDArray[np.uint32] | None:
        """All committed rows, read once and kept, if that is worth it: None where it is not.

        It is for a file of up to 64 MiB of which an eighth has been taken row by row.

        Raises
        ------
        DamageError
            The file ends before they do, or cannot be read.
        """
        held = self._held  # which another thread may replace by a shorter one
        if held is None or len(held) < n_committed:
            is_large = n_committed * self.row_bytes > MOST_HELD_BYTES
            if is_large or self.n_taken * 8 < n_committed:
                return None
            held = self._held = self.take_between(0, n_committed)
            self.n_taken = 0
        return held[:n_committed]

    def _size(self) -> int:
        try:
            return os.fstat(self.open()).st_size
        except OSError as error:
            raise self._unreadable(error) from error

    def _read(self, size: int, offset: int) -> bytes:
        """Bytes from an offset on; fewer at the end of the file."""
        try:
            return read_at(self.open(), size, offset)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> DamageError:
        return DamageError(
            f"the signature file {self.path} cannot be read: {error.strerror or error}",
            hint="restore the index from a copy",
        )

    def copy_to(self, target: Path, n_committed: int) -> None:
        """Make a file with the committed rows, and sync it; it must not exist.

        Copied by the system (``copy_file_range``) where it can, else in blocks.

        Raises
        ------
        DamageError
            This file ends before the committed rows do.
        OSError
            It cannot be read, or the other not written.
        """
        end = HEADER_BYTES + n_committed * self.row_bytes
        source = self.open()
        with open(target, "xb", buffering=0) as copy:
            copy.write(_header(n_committed, self.num_perm))
            offset = HEADER_BYTES
            while offset < end:
                size = min(end - offset, _COPY_BYTES)
                copied = _copy_range(source, copy.fileno(), offset, size)
                if not copied:
                    raise DamageError(
                        f"the signature file {self.path} ends before a row that is committed",
                        hint="the file was cut; restore the index from a copy",
                    )
                offset += copied
            os.fsync(copy.fileno())

    def append(self, first_row: int, rows: NDArray[np.uint32]) -> None:
        """Write rows from ``first_row`` on and make them durable.

        Parameters
        ----------
        first_row : int
            The committed count; what lies from there on is overwritten.
        rows : ndarray of uint32, shape (n, num_perm)

        Raises
        ------
        OSError
            The disk is full or failed; nothing that was committed is touched.
        """
        data = np.ascontiguousarray(rows, dtype=_ROW_DTYPE).tobytes()
        with self._descriptor() as descriptor:
            write_at(descriptor, data, HEADER_BYTES + first_row * self.row_bytes)
            _sync_data(descriptor)

    def set_header(self, n_committed: int) -> None:
        """Bring the header's number of rows up to date; not synced, as nothing relies on it."""
        with self._descriptor() as descriptor:
            os.pwrite(descriptor, _header(n_committed, self.num_perm), 0)

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class SignatureRows:
    """The committed rows of a signature file: a slice or an array of ids gives copies of some.

    Parameters
    ----------
    file : SignatureFile
    n_committed : int
    """

    def __init__(self, file: SignatureFile, n_committed: int) -> None:
        self._file = file
        self._n_committed = n_committed

    def __len__(self) -> int:
        return self._n_committed

    def __getitem__(self, wanted: slice | NDArray[np.int64]) -> NDArray[np.uint32]:
        """Read some rows; with every row a ``pread``, or one for all of a slice without a step.

        Raises
        ------
        IndexError
            There is no such row.
        DamageError
            The file ends before a row does, or cannot be read.
        """
        if isinstance(wanted, slice):
            first, last, step = wanted.indices(len(self))
            if step == 1:
                return self._file.take_between(first, max(first, last))
            wanted = np.arange(first, last, step)
        self._check(wanted)
        held = self._file.all_rows(len(self))
        return self._file.take(wanted) if held is None else held[wanted]

    def among(
        self, signature_ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Rows with some signatures among them, and the place of each signature there.

        For :func:`lshdb.banding.compare_rows`: each distinct row is read once, or none where all
        rows are held.

        Raises
        ------
        IndexError, DamageError
            As for indexing.
        """
        self._check(signature_ids)
        held = self._file.all_rows(len(self))
        if held is not None:
            return held, signature_ids
        ids = distinct(signature_ids)
        return self._file.take(ids), np.searchsorted(ids, signature_ids)

    def _check(self, signature_ids: NDArray[np.int64]) -> None:
        outside = signature_ids.view(np.uint64) >= len(self)
        if outside.any():
            raise IndexError(
                f"there is no signature {signature_ids[outside][0]}; there are {len(self)}"
            )


def _copy_range(source: int, copy: int, offset: int, size: int) -> int:
    """Copy bytes at an offset to the same offset of another file; how many, 0 at the end."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, copy, size, offset, offset)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
    return os.pwrite(copy, os.pread(source, min(size, _BLOCK_BYTES), offset), offset)


def _sync_data(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)
