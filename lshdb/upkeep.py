"""What keeps an index good for years: checking it, repairing it, bringing its schema up to date."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.shingling import Shingler
from lshdb.storage.store import Store
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter
from lshdb.transfers import Transfers

if TYPE_CHECKING:
    from lshdb.checking.findings import Finding
    from lshdb.repairing import RepairResult

__all__ = ["Upkeep"]

Path_ = str | os.PathLike[str]


class Upkeep(Transfers):
    """The questions about the index itself; :class:`lshdb.Index` has them."""

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
        from lshdb.checking import check_store

        return check_store(self._store, quick=quick, on_note=on_note)

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
        from lshdb.repairing import repair_store
        from lshdb.threads import choose_workers

        tokenizer = given_tokenizer(tokenizer)
        with contextlib.closing(Store.open(Path(path), is_damaged=True)) as store:
            name = store.params.tokenizer
            split = splitter(name, tokenizer) if name else None
            shingler = Shingler.of(store.params, split)
            workers = choose_workers(workers)
            return repair_store(store, shingler, lock_timeout=lock_timeout, workers=workers)
