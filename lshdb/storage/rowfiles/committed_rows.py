"""The committed rows of a file, read as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct

if TYPE_CHECKING:
    from lshdb.storage.rowfiles.row_file import RowFile

__all__ = ["Rows"]


class Rows:
    """The committed rows of a file; a slice or an array of ids gives copies of some.

    Parameters
    ----------
    file : RowFile
    n_committed : int
    """

    def __init__(self, file: RowFile, n_committed: int) -> None:
        self._file = file
        self._n_committed = n_committed

    def __len__(self) -> int:
        return self._n_committed

    def __getitem__(self, wanted: slice | NDArray[np.int64]) -> NDArray[Any]:
        """Read some rows: a ``pread`` for each, or one for a slice without a step.

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
        held = self._file.all_rows(len(self))
        if held is not None:
            return held, signature_ids
        ids = distinct(signature_ids)
        return self._file.take(ids), np.searchsorted(ids, signature_ids)

    def of_documents(self, signature_ids: Sequence[int | None]) -> NDArray[Any]:
        """Return the vectors of some documents, by their signatures (shape (n, n_columns)).

        A document without a signature has bits of which none is set.

        Raises
        ------
        IndexError, DamageError
            As for indexing.
        """
        ids = np.array([-1 if one is None else one for one in signature_ids], dtype=np.int64)
        is_signed = np.array([one is not None for one in signature_ids], dtype=bool)
        layout = self._file.layout
        found = np.zeros((len(ids), layout.n_columns), dtype=layout.dtype)
        found[is_signed] = self[ids[is_signed]]
        return found

    def _check(self, signature_ids: NDArray[np.int64]) -> None:
        outside = signature_ids.view(np.uint64) >= len(self)
        if outside.any():
            raise IndexError(
                f"there is no signature {signature_ids[outside][0]}; there are {len(self)}"
            )
