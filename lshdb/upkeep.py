"""What keeps an index in order over the years; ``Index`` inherits it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.signatures.families import family_of
from lshdb.storage.store import Store
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter
from lshdb.transfers import Transfers

if TYPE_CHECKING:
    from lshdb.maintain.check.findings import Finding
    from lshdb.maintain.repair import RepairResult
    from lshdb.maintain.rewrite import RewriteResult

__all__ = ["Upkeep"]

Path_ = str | os.PathLike[str]


class Upkeep(Transfers):
    """Compaction, other bands, another schema, checking and repairing."""

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
        from lshdb.maintain.rewrite import compact_store

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
        from lshdb.maintain.rewrite import reband_index

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
        from lshdb.maintain.upgrade import upgrade_index

        return upgrade_index(Path(path), lock_timeout=lock_timeout)

    def check(
        self, *, quick: bool = False, on_note: Callable[[str], None] | None = None
    ) -> list[Finding]:
        """Compare everything on disk with what was written; an empty list for a sound index.

        Parameters
        ----------
        quick : bool
            Look at headers, counts and small tables alone; see ``docs/check.md`` for what is then
            not seen.
        on_note : callable, optional
            Called with what is worth knowing and no damage, a sentence each.
        """
        from lshdb.maintain.check import check_store

        return check_store(self._store, quick=quick, on_note=on_note)

    @staticmethod
    def repair(
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        lock_timeout: float = 60.0,
        workers: int | None = None,
    ) -> RepairResult:
        """Check an index, and where anything is damaged, make it anew of all that can be proved.

        What has a good source is worked out again: signatures, postings, copies and counts. Other
        documents are moved into a file beside the index and named. Edges and clusters are found
        again when they are asked for. See ``docs/check.md``.

        Parameters
        ----------
        path : path-like
        tokenizer : Tokenizer or str, optional
            As for :meth:`open`.
        lock_timeout : float
            Seconds to wait for another writer.
        workers : int, optional
            Threads that sign; one a core by default.

        Returns
        -------
        RepairResult
            Without findings nothing was changed.

        Raises
        ------
        IndexNotFoundError, FormatError, ParameterMismatchError, DamageError
            There is no index, or what names its parameters is damaged; nothing was changed.
        LockedError, DatabaseError, TokenizerError
            Nothing was changed.
        """
        from lshdb.maintain.repair import repair_store
        from lshdb.threads import choose_workers

        tokenizer = given_tokenizer(tokenizer)
        with contextlib.closing(Store.open(Path(path), is_damaged=True)) as store:
            name = store.params.tokenizer
            split = splitter(name, tokenizer) if name else None
            family = family_of(store.params, split)
            workers = choose_workers(workers)
            return repair_store(store, family, lock_timeout=lock_timeout, workers=workers)
