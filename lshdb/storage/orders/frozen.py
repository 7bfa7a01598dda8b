"""What the frozen orders of an index answer: which signatures lie in which buckets.

:class:`OrderFolder` finds the files that cover the rows of a state, without a gap from row 0, and
keeps them open. Rows past them were committed by a writer that has not come to sort them, or that
was killed; who reads them sorts them (``uncovered.py``), once for a state.

An index may have been restored from a copy around a file, or another history of it copied over it.
So a file is used only if the commit of its last row drew the number in its name: that commit says
which rows came before it, too. And the last of its rows that counts is looked up in it.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lshdb.arrays import np
from lshdb.params.bucket_layout import (
    bands_of,
    key_ranges,
    range_of_band,
)
from lshdb.storage.orders.order_file import (
    Banding,
    OrderFile,
    OrderName,
    Place,
    order_names,
)
from lshdb.storage.orders.uncovered import UncoveredRows
from lshdb.storage.rowfiles.generations import Generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CommittedRows", "Cover", "OrderFolder", "covering"]

MOST_SORTED = 2_048
"""Rows that no file covers, and that need none: to sort them takes no longer than to ask SQL."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Why a sound file cannot be opened."""

Ids: TypeAlias = "NDArray[np.int64]"


class DamagedOrderError(ValueError):
    """A file differs from what was written."""

    def __init__(self, file: OrderFile, why: Exception) -> None:
        super().__init__(f"{file.path}: {why}")
        self.file = file


class CommittedRows(Protocol):
    """The rows of one state of an index; a snapshot has them."""

    @property
    def n_signatures(self) -> int:
        """How many there are."""

    @property
    def generation(self) -> Generation:
        """Their files, which are here."""

    def segments(self, ends: Iterable[int]) -> dict[int, int]:
        """Return the numbers that commits drew, by how many rows there were after each."""


def covering(names: list[OrderName]) -> list[OrderName]:
    """Return the files that cover rows from 0 on without a gap; of several, the longest."""
    chain: list[OrderName] = []
    end = 0
    for name in names:  # in order of their first rows
        if name.first == end:
            chain.append(name)
        elif chain and name.first == chain[-1].first:
            chain[-1] = max(chain[-1], name)
        else:
            continue
        end = chain[-1].last
    return chain


class Cover:
    """The orders of one state.

    Parameters
    ----------
    files : list of OrderFile
        Without a gap from row 0.
    n_signatures : int
        Rows that count.
    uncovered : UncoveredRows, optional
        The rows that no file covers.

    Attributes
    ----------
    n_covered : int
        Rows in files.
    """

    def __init__(
        self,
        banding: Banding,
        files: list[OrderFile],
        n_signatures: int,
        uncovered: UncoveredRows | None = None,
    ) -> None:
        self._banding = banding
        self._files = files
        self._n_signatures = n_signatures
        self.n_covered = files[-1].name.last if files else 0
        self._places: list[Place] = [file.place for file in files]
        self._mapped: list[OrderFile | UncoveredRows] = [*files]
        if uncovered is not None:
            self._mapped.append(uncovered)
            self._places += uncovered.places

    def find(self, keys: Ids) -> tuple[Ids, Ids]:
        """Find the signatures in some buckets.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)

        Returns
        -------
        counts, signature_ids : ndarray of int64, shape (n,) and (sum(counts),)
            One bucket after the other, each sorted.

        Raises
        ------
        OSError, ValueError
            A file cannot be read, or is not what was written.
        """
        return self._banding.find(self._places, keys, self._n_signatures)

    def of_contents(self, keys: Ids) -> Ids:
        """Find the signatures in some buckets, in no order, and keep nothing of the files.

        An add looks for its contents in many files. Each look-up brings some of a file into memory,
        more than it reads where the system keeps files in large pages. So a file is given back
        before the next one.

        Raises
        ------
        OSError
            A file cannot be read.
        DamagedOrderError
            It does not have the contents that were written.
        """
        members = [np.empty(0, np.int64)]
        for number, place in enumerate(self._places):
            try:
                members.append(self._banding.find([place], keys, self._n_signatures)[1])
            except ValueError as error:
                if number >= len(self._files):
                    raise
                raise DamagedOrderError(self._files[number], error) from error
            if number < len(self._files):
                self._files[number].rest()
        return np.concatenate(members)

    def members(self, keys: bytes | bytearray) -> bytes:
        """Find the signatures in the buckets of one query, as :meth:`find` does.

        Keys and signatures are native int64 as bytes: making arrays takes longer than the search.
        """
        return self._banding.members(self._places, keys, self._n_signatures)

    def agreeing(
        self,
        keys: Ids,
        rows: NDArray[Any],
        most: int,
        least: int,
        source: Any,
        offset: int,
        n: int,
    ) -> tuple[int, Ids] | None:
        """Find the signatures in the buckets of queries, and compare them; None if that fails.

        Parameters and results are those of :meth:`BandOrders.agreeing`.
        """
        try:
            return self._banding.agreeing(
                self._places, self._n_signatures, keys, rows, most, least, source, offset, n
            )
        except (IndexError, OSError, ValueError):  # of either file: smaller steps say which
            return None

    def grouped(self, first: int, last: int, *, above: int) -> tuple[Ids, Ids, Ids]:
        """Return the buckets with keys from first to last (inclusive), in order.

        Parameters
        ----------
        first, last : int
            Bucket keys; not of contents.
        above : int
            Only buckets with more signatures than this.

        Returns
        -------
        bucket_keys, sizes : ndarray of int64, shape (n,)
        signature_ids : ndarray of int64, shape (sum(sizes),)
            One bucket after the other, each sorted.

        Raises
        ------
        OSError, ValueError
            A file cannot be read, or is not what was written.
        """
        parts: list[tuple[Ids, Ids, Ids]] = [(np.empty(0, np.int64),) * 3]
        n_bands = self._banding.n_orders - 1
        for band in range(bands_of(first), min(bands_of(last) + 1, n_bands)):
            of_band = range_of_band(band)
            ends = max(first, of_band[0]), min(last, of_band[1])
            parts.append(self._banding.group(self._places, *ends, self._n_signatures, above=above))
            for mapped in self._mapped:  # else whoever reads all bands has all files in memory
                mapped.rest()
        if len(parts) == 2:
            return parts[1]
        keys, sizes, members = (np.concatenate(column) for column in zip(*parts, strict=True))
        return keys, sizes, members

    def ranges(self, n: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of keys (first, last) of all bands, in order, with about n postings each."""
        yield from key_ranges(bands=self._banding.n_orders - 1, parts=1 + self._n_signatures // n)


class OrderFolder:
    """The orders of an open index.

    Attributes
    ----------
    faults : list of str
        Files that are not used, and why.
    refused : set of OrderName
        Those files.
    damaged : set of OrderName
        Those of them that are of these rows, by their names.
    """

    def __init__(self, directory: Path, banding: Banding) -> None:
        self.directory = directory
        self.banding = banding
        self.faults: list[str] = []
        self._kept: tuple[str, int, Cover | None] | None = None
        self._guard = threading.Lock()
        self._files: dict[OrderName, OrderFile] = {}
        self.refused: set[OrderName] = set()
        self.damaged: set[OrderName] = set()

    def cover(self, rows: CommittedRows, *, sorts: bool = True) -> Cover | None:
        """Return the orders of a state; None where SQL must answer.

        Parameters
        ----------
        sorts : bool
            Sort the rows that no file covers; otherwise only if they are few.

        Raises
        ------
        DamageError
            These rows cannot be read.
        """
        with self._guard:  # threads that wait find what the first has sorted
            cover = self._cover(rows, sorts=sorts)
        if cover is None or sorts or rows.n_signatures - cover.n_covered <= MOST_SORTED:
            return cover
        return None

    def _cover(self, rows: CommittedRows, *, sorts: bool) -> Cover | None:
        latest, generation, n_signatures = self._kept, rows.generation, rows.n_signatures
        if latest is not None and latest[:2] == (generation.name, n_signatures):
            return latest[2]
        files, uncovered = self.files(rows), None
        n_covered = files[-1].name.last if files else 0
        if not sorts and n_signatures - n_covered > MOST_SORTED:
            return None
        cover = None
        try:
            if n_covered < n_signatures:
                signatures = generation.signatures
                uncovered = UncoveredRows(self.banding, signatures, n_covered, n_signatures)
            cover = Cover(self.banding, files, n_signatures, uncovered)
        except OSError as error:
            self.faults.append(f"rows that no order covers are not sorted: {error}")
        self._kept = (generation.name, n_signatures, cover)
        return cover

    def refuse(self, cover: Cover, error: Exception) -> None:
        """Do without a cover that has failed."""
        self.faults.append(str(error))
        if isinstance(error, DamagedOrderError):
            self.refused.add(error.file.name)  # its rows are sorted again
            self.damaged.add(error.file.name)
        latest = self._kept
        if latest is not None and latest[2] is cover:
            self._kept = (*latest[:2], None)

    def distrust(self, files: list[OrderFile], why: str) -> None:
        """Do without some files."""
        self.refused.update(file.name for file in files)
        self.faults.append(why)

    def files(self, rows: CommittedRows) -> list[OrderFile]:
        """Return the files that cover rows from 0 on without a gap.

        A file that cannot be used ends the chain, and is noted. A file may cover more rows than
        are committed in this state, if it was opened for a later one.

        Raises
        ------
        OSError
            This process cannot open more files.
        """
        opened: list[OrderFile] = []
        try:
            names = order_names(self.directory)
        except OSError as error:
            if error.errno in _SHORTAGES:
                raise
            self.faults.append(str(error))
            return opened
        for name in covering(self._own(names, rows)):
            try:
                file = self._files.get(name) or self._open(name, rows)
            except FileNotFoundError:  # merged into another since it was listed
                break
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in _SHORTAGES:
                    raise  # the file is sound, and an add removes what is refused
                self.refused.add(name)
                self.damaged.add(name)
                self.faults.append(str(error))
                break
            opened.append(file)
        self._files = {file.name: file for file in opened}
        return opened

    def damaged_files(self) -> Iterator[tuple[OrderName, OrderFile | ValueError]]:
        """Yield the damaged files; in place of one with another header or length, what is wrong."""
        for name in sorted(self.damaged):
            with contextlib.suppress(OSError):
                try:
                    yield name, OrderFile(self.directory, name, self.banding)
                except ValueError as error:
                    yield name, error

    def _own(self, names: list[OrderName], rows: CommittedRows) -> list[OrderName]:
        """Return the names of orders that, by their names, were made of these rows."""
        kind = (rows.generation.number, self.banding.name)
        names = [
            name
            for name in names
            if (name.generation, name.cut) == kind
            and name not in self.refused
            and (name.last <= rows.n_signatures or name in self._files)
        ]
        unknown = [name for name in names if name not in self._files]
        segments = rows.segments({name.last for name in unknown}) if unknown else {}
        foreign = [name for name in unknown if segments.get(name.last) != name.segment]
        for name in foreign:
            self.refused.add(name)
            self.faults.append(
                f"{self.directory / str(name)} is not of the rows of this index, but of those of "
                "another copy of it, or of an earlier state that was replaced"
            )
        return [name for name in names if name not in self.refused]

    def _open(self, name: OrderName, rows: CommittedRows) -> OrderFile:
        """Open a file, and look the last of its rows up in it.

        Raises
        ------
        OSError, ValueError
            It cannot be used.
        """
        banding = self.banding
        file = OrderFile(self.directory, name, banding)
        last = name.last - 1
        keys = banding.keys_of_row(rows.generation.signatures.row(last))
        # A few look-ups in a map would bring much of a small file into memory, and a long add opens
        # hundreds of them.
        ids = memoryview(banding.members([file.place_to_read], keys, name.last)).cast("q")
        if ids.tolist().count(last) != len(keys) // 8:
            raise ValueError(f"{file.path} is not of the rows that its name says")
        return file
