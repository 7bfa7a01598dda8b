"""What keeps an index in order over the years; ``Index`` inherits it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.transfers import Transfers

if TYPE_CHECKING:
    from lshdb.rewriting import RewriteResult

__all__ = ["Upkeep"]

Path_ = str | os.PathLike[str]


class Upkeep(Transfers):
    """Compaction, other bands, another schema."""

    def compact(self, *, lock_timeout: float = 60.0) -> RewriteResult:
        """Give back the space of documents that were removed or replaced.

        Signatures that no document has any longer are left out of a new signature file, together
        with their postings and edges; what is left becomes one posting run; free pages of the
        database go back to the file system. Documents, clusters and every answer stay the same.
        :meth:`stats` says how much there is to be gained (``reclaimable_bytes``).

        Parameters
        ----------
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RewriteResult

        Raises
        ------
        LockedError
            Another process is writing.
        DamageError
            What would be written anew is not as it was written; nothing was changed.
        DatabaseError
            The disk or the database failed; nothing was changed, or only the space not given back.

        Notes
        -----
        One transaction: killed at any moment, the index is as it was before or as it is after.
        Readers go on meanwhile, with the state that they see. It needs room for a second copy of
        the index, about 300 MiB of memory and 8 bytes for each signature, and time as for reading
        and writing all but the texts.
        """
        from lshdb.rewriting import compact_store

        return compact_store(self._store, lock_timeout=lock_timeout)

    @staticmethod
    def reband(
        path: Path_,
        *,
        threshold: float | None = None,
        recall: float | None = None,
        bands: int | None = None,
        rows: int | None = None,
        lock_timeout: float = 60.0,
    ) -> RewriteResult:
        """Cut the signatures of an index into other bands, for another threshold or recall.

        From the signatures as they are stored: no text is needed, and nothing is signed again. It
        compacts the index on the way (:meth:`compact`). Edges and clusters are found anew when they
        are asked for next. Static, because an index that is open keeps the parameters that it was
        opened with: it has to be opened again.

        Parameters
        ----------
        path : path-like
        threshold, recall, bands, rows : optional
            As for :meth:`Index.create`; what is not given is as it is, but for bands and rows,
            which are chosen by threshold and recall.
        lock_timeout : float
            Seconds to wait for another writer.

        Returns
        -------
        RewriteResult

        Raises
        ------
        ParameterError
            Nothing is given, a value is out of range, or the signatures have too few slots for it.
        IndexNotFoundError, LockedError, DamageError, DatabaseError
            As for :meth:`compact`.

        Notes
        -----
        Killed at any moment, the index is as it was before or as it is after. The cost is that of
        :meth:`compact`.
        """
        from lshdb.rewriting import reband_index

        options = {"threshold": threshold, "recall": recall, "bands": bands, "rows": rows}
        given = {name: value for name, value in options.items() if value is not None}
        return reband_index(Path(path), given, lock_timeout=lock_timeout)

    @staticmethod
    def upgrade(path: Path_, *, lock_timeout: float = 60.0) -> tuple[str | None, str]:
        """Bring an index's schema up to date, in one transaction.

        Returns
        -------
        tuple of str
            Revision before (None for none), and after.

        Raises
        ------
        IndexNotFoundError, LockedError, DatabaseError
        FormatError
            The index was made by a newer version.
        """
        from lshdb.storage.upgrading import upgrade_index

        return upgrade_index(Path(path), lock_timeout=lock_timeout)
