"""Files of rows: plain ``.npy`` files of shape (n_signatures, n_columns), C order.

Two of them belong together, row by row: the signatures and, if they are kept, the vectors that were
signed (``generations.py``). A file is a version 1.0 header of 128 bytes, then the rows,
little-endian. The header is padded, so the first number of the shape grows in place.

Decisions:

* Anyone can map one (``np.load(mmap_mode="r")``); this module writes with pwrite and reads with
  pread. Under a map, a full disk or a file cut by another program raises SIGBUS, which ends the
  process; here it is an error. A row outside the page cache also comes 20 to 50 times sooner
  (through a map the system reads up to 2 MiB around it); one inside takes 1 us more.
* All rows of a small file are kept in memory once many have been asked for.
* The database says how many rows count; those past that are overwritten by the next batch. The
  header's number is for NumPy: it is set after the commit, so it is at most a batch behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lshdb.arrays import distinct, np
from lshdb.errors import DamageError, LshdbError, system_hint
from lshdb.files.descriptors import copy_range, read_at, sync_file, write_at
from lshdb.files.own_files import open_file
from lshdb.files.rights import create_file
from lshdb.phases.phase import Phase
from lshdb.storage.rowfiles.layouts import HEADER_BYTES, RowLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FileRows", "RowFile"]

_Result = TypeVar("_Result")

MOST_HELD_BYTES = 64 * 2**20
"""A file up to this size may be read into memory as a whole."""
PIECE_BYTES = 16 * 2**20
"""Bytes of a block that are read at a time: a block of any signatures, or a part of large
vectors."""
_COPY_BYTES = 2**30
_READS_OF_HEADER = 6
_WAY_OUT = (
    "restore the index from a copy, or let lshdb check --repair make the rows again from stored "
    "texts"
)


class RowFile:
    """One file of rows.

    Parameters
    ----------
    is_durable : bool
        Whether it outlives this process: only then it is synced.

    Attributes
    ----------
    what : str
        Its name in messages: the signature file, or the vector file.
    """

    def __init__(self, path: Path, layout: RowLayout, *, is_durable: bool = True) -> None:
        self.path = path
        self.layout = layout
        self._is_durable = is_durable
        self.what = f"{layout.kind} file"
        self.row_bytes = layout.row_bytes
        self._held: NDArray[Any] | None = None
        self.n_taken = 0
        self._reader: int | None = None

    def create(self) -> None:
        """Make an empty file; it must not exist."""
        header = self.layout.header(0)
        with open(create_file(self.path), "wb") as file:
            file.write(header)
            file.flush()
            self._sync(file.fileno())

    def write(
        self, n_rows: int, blocks: Iterable[NDArray[Any]], *, model: Path | None = None
    ) -> None:
        """Make the file with all its rows, and sync it; replace what lies there.

        Parameters
        ----------
        blocks : iterable of ndarray, shape (any, n_columns)
            n_rows rows in all.
        model : Path, optional
            The file that this one is written for, with its rights; the directory, if there is none.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        self.path.unlink(missing_ok=True)  # a link in its place is removed, not written through
        with open(create_file(self.path, model=model), "wb") as file:
            file.write(self.layout.header(n_rows))
            for rows in blocks:
                file.write(self.layout.data(rows))
            file.flush()
            self._sync(file.fileno())

    def open(self) -> int:
        """Open the file for reading, once; the descriptor is closed with this object.

        An open file stays readable when a later generation has replaced it.

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
                self._reader = open_file(self.path, os.O_RDONLY, owner=self)
            except FileNotFoundError:
                raise
            except PermissionError as error:
                raise LshdbError(
                    f"you may not read the {self.what} {self.path}",
                    hint="ask its owner for read permission",
                ) from error
            except OSError as error:
                raise self.unreadable(error) from error
        return self._reader

    def check_header(self, n_committed: int) -> int:
        """Compare the header and the length with the database; return the header's rows.

        The header may count more rows than are committed: those of a later commit, or of one that
        a restored database does not have.

        Parameters
        ----------
        n_committed : int
            Rows that count in the caller's state of the database.

        Raises
        ------
        DamageError
            The file is absent, short, not an ``.npy``, or has rows of another width or type.
        """
        for n_earlier in range(_READS_OF_HEADER):
            header = self._read(HEADER_BYTES, 0)
            n_rows = _counted(header)
            if header == self.layout.header(n_rows):
                break
            time.sleep(n_earlier / 1000)  # perhaps it was read while a writer wrote it
        else:
            raise DamageError(
                f"the header of the {self.what} {self.path} is "
                f"{header[10:].decode('ascii', 'replace').strip()!r}; the index has rows of "
                f"{self.layout.n_columns} {self.layout.dtype.name} ({self.layout.dtype.str})",
                hint="the file is damaged or belongs to another index; put the right one back",
            )
        self._check_length(n_committed)
        return n_rows

    def is_own(self) -> bool:
        """Return whether the file begins as one of this layout, or ends too early to tell.

        Raises
        ------
        OSError
            It cannot be opened, or is not a regular file.
        """
        descriptor = open_file(self.path, os.O_RDONLY)
        try:
            header = read_at(descriptor, HEADER_BYTES, 0)
        finally:
            os.close(descriptor)
        return self.layout.header(_counted(header)).startswith(header)

    def check_block(self, first_row: int, n_rows: int, crc32: int | None) -> None:
        """Compare some rows with the CRC-32 that was written for them.

        Raises
        ------
        DamageError
            They differ.
        """
        actual = self.block_crc(first_row, n_rows)
        if actual != crc32:
            raise self._differing(first_row, n_rows, actual, crc32)
        if self._size() < HEADER_BYTES + (first_row + n_rows) * self.row_bytes:
            raise self._ended()

    def checked(self, first_row: int, n_rows: int, crc32: int | None) -> Iterator[NDArray[Any]]:
        """Yield some rows, compared with the CRC-32 that was written for them.

        Large ones come in pieces of 16 MiB: then they are proved once the last is given.

        Raises
        ------
        DamageError
            They differ.
        """
        actual, last, left = 0, b"", n_rows
        for data in self._pieces(first_row, n_rows):
            if last:
                yield self._as_rows(last, len(last) // self.row_bytes)
                left -= len(last) // self.row_bytes
            actual, last = zlib.crc32(data, actual), data
        if actual != crc32:
            raise self._differing(first_row, n_rows, actual, crc32)
        yield self._as_rows(last, left)

    def _differing(
        self, first_row: int, n_rows: int, actual: int, written: int | None
    ) -> DamageError:
        expected = "none" if written is None else f"{written:08x}"
        return DamageError(
            f"rows {first_row} to {first_row + n_rows - 1} of the {self.what} {self.path} "
            f"have CRC-32 {actual:08x}; expected {expected}",
            hint="the file is damaged or belongs to another index; run lshdb check",
        )

    def block_crc(self, first_row: int, n_rows: int) -> int:
        """Return the CRC-32 of some rows, or of those that exist if the file is shorter."""
        crc = 0
        for data in self._pieces(first_row, n_rows):
            crc = zlib.crc32(data, crc)
        return crc

    def _pieces(self, first_row: int, n_rows: int) -> Iterator[bytes]:
        """Yield the bytes of some rows, up to the end of the file."""
        start = HEADER_BYTES + first_row * self.row_bytes
        n_bytes = self._size() - start if first_row >= 0 else 0  # if not damaged
        left = max(0, min(n_rows * self.row_bytes, n_bytes))
        piece = max(1, PIECE_BYTES // self.row_bytes) * self.row_bytes
        while left and (data := self._read(min(piece, left), start)):  # it may be cut meanwhile
            yield data
            start, left = start + len(data), left - len(data)

    def rows(self, n_committed: int) -> FileRows:
        """Return the committed rows; nothing is read yet.

        Raises
        ------
        DamageError
            The file is shorter than the committed rows.
        """
        self._check_length(n_committed)
        return FileRows(self, n_committed)

    def _check_length(self, n_committed: int) -> None:
        needed = self.n_bytes(n_committed)
        size = self._size()
        if size < needed:
            raise DamageError(
                f"the {self.what} {self.path} is {size} bytes long; "
                f"{n_committed} rows need {needed}",
                hint=f"the file was cut, or is older than the database; {_WAY_OUT}",
            )

    def row(self, signature_id: int) -> bytes:
        """Return the bytes of one committed row.

        Raises
        ------
        DamageError
            The file ends before it does, or cannot be read.
        """
        data = self._read(self.row_bytes, HEADER_BYTES + self.row_bytes * signature_id)
        if len(data) != self.row_bytes:
            raise self._ended()
        return data

    def take(self, signature_ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return copies of some committed rows; rows that follow each other are read at once.

        It takes 1 us a read.

        Raises
        ------
        DamageError
            The file ends before a row does, or cannot be read.
        """
        size = self.row_bytes
        starts = np.flatnonzero(np.diff(signature_ids, prepend=signature_ids[:1] - 2) != 1)
        counts = np.diff(starts, append=len(signature_ids))
        offsets = (HEADER_BYTES + size * signature_ids[starts]).tolist()
        reads = list(zip((size * counts).tolist(), offsets, strict=True))
        try:
            descriptor = self.open()
            data = b"".join(os.pread(descriptor, *place) for place in reads)
        except OSError as error:
            raise self.unreadable(error) from error
        if len(data) != size * len(signature_ids):  # a read may return less at any time
            data = b"".join(self._read(*place) for place in reads)
        self.n_taken += len(signature_ids)
        return self._as_rows(data, len(signature_ids))

    def take_between(self, first_row: int, last_row: int) -> NDArray[Any]:
        """Return copies of the committed rows from one up to another, which is left out.

        Raises
        ------
        DamageError
            The file ends before they do, or cannot be read.
        """
        n_rows = last_row - first_row
        data = self._read(n_rows * self.row_bytes, HEADER_BYTES + first_row * self.row_bytes)
        return self._as_rows(data, n_rows)

    def mapped(self, n_committed: int) -> np.memmap[Any, np.dtype[Any]]:
        """Return the committed rows as a read-only map, valid for as long as it is held.

        A new descriptor is mapped: a compaction may remove the name meanwhile, and never the file.

        Raises
        ------
        DamageError
            The file is shorter than the committed rows.
        """
        self._check_length(n_committed)
        with os.fdopen(os.dup(self.open()), "rb") as file:
            return np.memmap(
                file,
                dtype=self.layout.dtype,
                mode="r",
                offset=HEADER_BYTES,
                shape=(n_committed, self.layout.n_columns),
            )

    def _as_rows(self, data: bytes, n_rows: int) -> NDArray[Any]:
        if len(data) != n_rows * self.row_bytes:
            raise self._ended()
        return np.frombuffer(data, dtype=self.layout.dtype).reshape(n_rows, self.layout.n_columns)

    def _ended(self) -> DamageError:
        return DamageError(
            f"the {self.what} {self.path} ends before a committed row",
            hint="the file was cut; restore the index from a copy",
        )

    def all_rows(self, n_committed: int) -> NDArray[Any] | None:
        """Return all committed rows, read once and kept; None if that does not pay.

        It pays for a file of up to 64 MiB if an eighth of it has been taken row by row.

        Raises
        ------
        DamageError
            The file ends before they do, or cannot be read.
        """
        in_memory = self._held  # another thread may replace it by a shorter one
        if in_memory is None or len(in_memory) < n_committed:
            is_large = n_committed * self.row_bytes > MOST_HELD_BYTES
            if is_large or self.n_taken * 8 < n_committed:
                return None
            in_memory = self._held = self.take_between(0, n_committed)
            self.n_taken = 0
        return in_memory[:n_committed]

    def _size(self) -> int:
        try:
            return os.fstat(self.open()).st_size
        except OSError as error:
            raise self.unreadable(error) from error

    def _read(self, size: int, offset: int) -> bytes:
        """Return bytes from an offset on; fewer at the end of the file."""
        try:
            return read_at(self.open(), size, offset)
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: OSError) -> LshdbError:
        """Return a DamageError, unless the process or the disk is the reason."""
        hint = system_hint(error)
        kind = DamageError if hint is None else LshdbError
        return kind(
            f"the {self.what} {self.path} cannot be read: {error.strerror or error}",
            hint=hint or "restore the index from a copy",
        )

    def n_bytes(self, n_committed: int) -> int:
        """Return the size of a file of the committed rows."""
        return HEADER_BYTES + n_committed * self.row_bytes

    def copy_to(self, target: Path, n_committed: int) -> None:
        """Make a file with the committed rows, and sync it; it must not exist.

        The system copies it (``copy_file_range``) if it can; otherwise in blocks.

        Raises
        ------
        DamageError
            This file ends before the committed rows do.
        OSError
            This file cannot be read, or the other not written.
        """
        end = self.n_bytes(n_committed)
        source = self.open()
        with (
            open(create_file(target), "wb", buffering=0) as copy,
            Phase("bytes", end) as phase,
        ):
            write_at(copy.fileno(), self.layout.header(n_committed), 0)
            offset = HEADER_BYTES
            while offset < end:
                size = min(end - offset, _COPY_BYTES)
                copied = copy_range(source, copy.fileno(), offset, size)
                if not copied:
                    raise DamageError(
                        f"the {self.what} {self.path} ends before a committed row",
                        hint="the file was cut; restore the index from a copy",
                    )
                offset += copied
                phase.reached(offset)
            sync_file(copy.fileno())

    def append(self, first_row: int, rows: NDArray[Any]) -> None:
        """Write rows from ``first_row`` on and make them durable.

        Parameters
        ----------
        first_row : int
            The committed count; what lies from there on is overwritten.
        rows : ndarray, shape (n, n_columns)

        Raises
        ------
        OSError
            The disk is full or failed; committed rows are not touched.
        """
        data = self.layout.data(rows)
        with self._descriptor() as descriptor:
            write_at(descriptor, data, HEADER_BYTES + first_row * self.row_bytes)
            if self._is_durable:
                _sync_data(descriptor)

    def set_header(self, n_committed: int) -> None:
        """Update the number of rows in the header; not synced, because nothing relies on it."""
        with self._descriptor() as descriptor:
            write_at(descriptor, self.layout.header(n_committed), 0)

    def _sync(self, descriptor: int) -> None:
        if self._is_durable:
            sync_file(descriptor)

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        descriptor = open_file(self.path, os.O_RDWR)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _counted(header: bytes) -> int:
    """Return the rows that a header counts; 0 if it gives no number."""
    shape = re.search(rb"'shape': \((\d{1,18}), ", header)
    return int(shape[1]) if shape else 0


def _sync_data(descriptor: int) -> None:
    sync_file(descriptor, data_only=True)


class FileRows:
    """The committed rows of a file; a slice or an array of ids gives copies of some."""

    def __init__(self, file: RowFile, n_committed: int) -> None:
        self._file = file
        self._n_committed = n_committed

    def __len__(self) -> int:
        return self._n_committed

    def __getitem__(self, places: slice | NDArray[np.int64]) -> NDArray[Any]:
        """Read some rows: a ``pread`` for each, or one for a slice without a step.

        Raises
        ------
        IndexError
            There is no such row.
        DamageError
            The file ends before a row does, or cannot be read.
        """
        if isinstance(places, slice):
            first, last, step = places.indices(len(self))
            if step == 1:
                return self._file.take_between(first, max(first, last))
            places = np.arange(first, last, step)
        self._check(places)
        in_memory = self._file.all_rows(len(self))
        return self._file.take(places) if in_memory is None else in_memory[places]

    def whole(self) -> NDArray[Any] | None:
        """Return all rows if they are held in memory; the caller who gets None reads them.

        A small file is held from the second call on.

        Raises
        ------
        DamageError
            The file ends before a row does, or cannot be read.
        """
        in_memory = self._file.all_rows(len(self))
        if in_memory is None:
            self._file.n_taken += len(self)
        return in_memory

    def among(self, signature_ids: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return rows that include some signatures, and the place of each signature among them.

        For :func:`lshdb.signatures.banding.compare_rows`: each distinct row is read once, or not at
        all if all rows are held.

        Raises
        ------
        IndexError, DamageError
            As for indexing.
        """
        self._check(signature_ids)
        in_memory = self._file.all_rows(len(self))
        if in_memory is not None:
            return in_memory, signature_ids
        ids = distinct(signature_ids)
        return self._file.take(ids), np.searchsorted(ids, signature_ids)

    def row(self, signature_id: int) -> bytes:
        """Return the bytes of one row.

        Raises
        ------
        IndexError, DamageError
            As for indexing.
        """
        if not 0 <= signature_id < len(self):
            raise IndexError(f"there is no signature {signature_id}; there are {len(self)}")
        return self._file.row(signature_id)

    def read_in_place(self, read: Callable[[Any, int, int], _Result], n_wanted: int) -> _Result:
        """Let the kernel read some rows one by one, in the file or in memory.

        Parameters
        ----------
        read : callable
            Takes all rows if they are held, else the descriptor of the file; the offset of row 0 in
            that file; and the number of rows.

        Raises
        ------
        DamageError
            The file cannot be read, or ends too early.
        """
        in_memory = self._file.all_rows(len(self))
        if in_memory is not None:
            return read(in_memory, 0, len(self))
        self._file.n_taken += n_wanted
        try:
            return read(self._file.open(), HEADER_BYTES, len(self))
        except OSError as error:
            raise self._file.unreadable(error) from error
        except ValueError:
            self._file.take(np.array([len(self) - 1]))  # says where the file ends
            raise

    def of_documents(self, signature_ids: Sequence[int | None]) -> NDArray[Any]:
        """Return the vectors of some documents, by their signatures (shape (n, n_columns)).

        A document without a signature has bits of which none is set.

        Raises
        ------
        IndexError, DamageError
            As for indexing.
        """
        ids = np.array(
            [-1 if signature_id is None else signature_id for signature_id in signature_ids],
            dtype=np.int64,
        )
        is_signed = np.array(
            [signature_id is not None for signature_id in signature_ids], dtype=bool
        )
        layout = self._file.layout
        vectors = np.zeros((len(ids), layout.n_columns), dtype=layout.dtype)
        vectors[is_signed] = self[ids[is_signed]]
        return vectors

    def _check(self, signature_ids: NDArray[np.int64]) -> None:
        outside = signature_ids.view(np.uint64) >= len(self)
        if outside.any():
            raise IndexError(
                f"there is no signature {signature_ids[outside][0]}; there are {len(self)}"
            )
