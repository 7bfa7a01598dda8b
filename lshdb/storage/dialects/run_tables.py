"""What a database must do for posting runs: each database in the form that it is fast with."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError

__all__ = ["BAND_SQL", "BUCKET_SQL", "NOT_CONTENT_SQL", "RunTables", "run_table"]

_BUCKET_MASK = 2**56 - 1
_CONTENT_RANGE = (-(2**56), -1)
"""First and last bucket key of band 255, the content band, in two's complement."""

BAND_SQL = "bucket_key >> 56 & 255"
BUCKET_SQL = f"bucket_key & {_BUCKET_MASK}"
NOT_CONTENT_SQL = f"bucket_key NOT BETWEEN {_CONTENT_RANGE[0]} AND {_CONTENT_RANGE[1]}"

Ids = NDArray[np.int64]
_NAME = re.compile(r"posting_run_\d{1,19}")


def run_table(name: object) -> str:
    """Return the name of a run's table, from the table ``run``, if it is a valid one.

    It goes into statements unchanged, also into those that drop tables.

    Raises
    ------
    DamageError
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise DamageError(
        f"the table run names {name!r}, which is not a table of postings",
        hint="run lshdb check, and restore the index from a copy",
    )


class RunTables(ABC):
    """The tables of posting runs, inside one session; the table ``run`` lists the runs.

    A run is a set of (bucket key, signature id), kept in order of both.
    """

    posting_bytes: ClassVar[int]
    """What a posting takes on disk, about."""

    @abstractmethod
    def create(self, run_id: int, table: str, *, is_active: bool) -> None:
        """Make the table of a run; an active one takes postings bit by bit, others at once."""

    @abstractmethod
    def insert(self, run_id: int, table: str, keys: Ids, signature_ids: Ids) -> None:
        """Insert sorted postings; none of them may exist already."""

    @abstractmethod
    def merge(self, run_id: int, target: str, sources: Sequence[str]) -> None:
        """Insert all postings of some runs into a new one; the largest source comes last."""

    @abstractmethod
    def complete(self, run_id: int, table: str) -> None:
        """Finish a run that is not active, after its postings have been inserted."""

    @abstractmethod
    def publish(self, tables: Sequence[str]) -> None:
        """Let the view ``posting`` show these runs, which are those of the table ``run``."""

    @abstractmethod
    def retire(self, tables: Sequence[str]) -> None:
        """Give up runs that the table ``run`` does not list any more."""

    @abstractmethod
    def bucket_sizes(self, table: str) -> str:
        """Return a SELECT of (band, size, number of buckets) of a run, without the content band."""

    @abstractmethod
    def names(self) -> set[str]:
        """Return the names of all posting runs, whether the table ``run`` lists them or not."""

    @abstractmethod
    def counts(self, table: str, keys: Ids) -> dict[int, int]:
        """Return the number of postings of some buckets, by key, if there are any."""

    @abstractmethod
    def of(self, tables: Sequence[str], keys: Ids) -> tuple[Ids, Ids]:
        """Return (bucket keys, signature ids) of some distinct buckets, in no order."""

    def members(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the signature ids of some distinct buckets, in no order, perhaps repeated."""
        return self.of(tables, keys)[1]

    @abstractmethod
    def shared(self, tables: Sequence[str], first: int, last: int, *, above: int = 1) -> Ids:
        """Return (bucket key, signature id) of buckets in a range with over ``above`` postings.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            Sorted.
        """

    @abstractmethod
    def shared_of(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the same for the given buckets."""

    @abstractmethod
    def in_order(self, tables: Sequence[str], *, contents: bool, block: int) -> Iterator[Ids]:
        """Yield every posting in order, as blocks of (bucket key, signature id), shape (n, 2).

        Parameters
        ----------
        tables : sequence of str
        contents : bool
            Include those of the content band.
        block : int
            Postings at a time.
        """
