"""What makes one index of another: copies, merges, exports; ``Index`` inherits it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.errors import ParameterError
from lshdb.groups import Groups
from lshdb.storage.dialects import DatabasePlace
from lshdb.tokenizers import Tokenizer, given_tokenizer

if TYPE_CHECKING:
    from lshdb.ingest.pipeline import AddResult

__all__ = ["Transfers", "check_index"]

Path_ = str | os.PathLike[str]


class Transfers(Groups):
    """Copies, merges, reindexing, exports."""

    def copy(self, path: Path_, *, database: str | None = None, schema: str | None = None) -> None:
        """Copy the index as it is now, while others read it and write to it.

        The copy holds one committed state and keeps the uuid: it is the same index at one moment.
        Where both are written to afterwards, their files must not be exchanged.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        database : str, optional
            URL of the copy's database, where it is not to be ``index.db`` in the directory,
            wherever the database of this index lies.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            The path lies inside the index.
        LockedError
            Another process is making the same copy.
        DamageError, DatabaseError, LshdbError
            The index cannot be read or the copy not written; there is no copy.

        Notes
        -----
        As fast as the files can be read and written, without memory to speak of. The copy is
        synced and then renamed into place: killed before the end, there is none.
        """
        from lshdb.storage.place.copy import copy_index

        copy_index(self._store, Path(path), place=DatabasePlace(database, schema))

    def export(
        self,
        path: Path_,
        *,
        format: str = "jsonl",
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the index as it is now to files in open formats, while others write to it.

        Everything that is needed to make it again: documents with their texts, batches, signatures,
        postings, edges and clusters; ``docs/export.md`` describes them.
        :meth:`lshdb.Index.from_export` makes an index of them.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        format : {"jsonl", "parquet"}
            Of the tables; postings too are a Parquet file, or else ``.npy``. Parquet needs the
            extra ``lshdb[parquet]``.
        on_progress : callable, optional
            Called with the number of documents written so far.

        Raises
        ------
        IndexExistsError
            Something is at the path already.
        ParameterError
            There is no such format, or the path lies inside the index.
        DamageError
            Signatures or texts are not what was written.
        LockedError, DatabaseError, LshdbError
            Also where pyarrow is not installed; there is no export.

        Notes
        -----
        Streamed; memory is that of some thousand documents. The directory is synced and then
        renamed into place: killed before the end, there is none.
        """
        from lshdb.exchange.exporter import export_store

        export_store(self._store, Path(path), tables=format, on_progress=on_progress)

    def reindex(
        self,
        path: Path_,
        *,
        tokenizer: Tokenizer | str | None = None,
        database: str | None = None,
        schema: str | None = None,
        workers: int | None = None,
        on_commit: Callable[[AddResult], None] | None = None,
        **parameters: Any,
    ) -> AddResult:
        """Make another index of the stored texts, with other parameters.

        What is not given is as it is here. Where one of threshold, recall, bands, rows and
        num_perm is given, bands and rows are chosen as for a new index, for this index's recall
        unless another is given. Another unit brings its own k and its own way with letter case,
        another metric, which must take the same bodies, its own scheme, threshold and signature;
        another scheme, whose slots are bits where they were words, its own signature and width.

        Documents come in the same order, with their keys and sources and the times at which they
        first and last came in. Their batches are those of the new index.

        Parameters
        ----------
        path : path-like
            Directory to be made; its parent must exist.
        tokenizer, database, **parameters
            As for :meth:`lshdb.Index.create`.
        workers : int, optional
            Threads that sign; one a core by default.
        on_commit : callable, optional
            Called after each commit with the counts so far.

        Returns
        -------
        AddResult

        Raises
        ------
        TextNotStoredError
            The index was made without texts.
        ParameterError
            A value is out of range, there is no such parameter, or the path lies inside the index.
        IndexExistsError
            Something is at the path already.
        TokenizerError, LockedError, DamageError, DatabaseError

        Notes
        -----
        The new index is there when it is whole: killed before, or on any error, there is none.
        This one is read in the state that it has at the beginning. Memory as for :meth:`add`.
        """
        from lshdb.ingest.reindex import reindex_store

        return reindex_store(
            self._store,
            Path(path),
            family=self._family,
            tokenizer=given_tokenizer(tokenizer),
            place=DatabasePlace(database, schema),
            workers=workers,
            on_commit=on_commit,
            given=parameters,
        )

    def merge(
        self,
        *others: Transfers,
        on_conflict: str = "replace",
        lock_timeout: float = 60.0,
        on_commit: Callable[[AddResult], None] | None = None,
    ) -> AddResult:
        """Take over the documents of other indexes, without signing any of them again.

        One index after the other, in batches that are committed as they fill, all of them one add.
        A content that is here already shares its signature. Documents keep the times at which they
        first and last came in; of a key that both have the earlier index says the first.

        Parameters
        ----------
        *others : Index
            Made with the same parameters; bands, rows, threshold, recall and stored texts may
            differ, but an index that stores texts takes nothing from one that stores none. Each is
            read in the state that it has when the merge begins, and is not changed.
        on_conflict : {"replace", "skip", "error"}
            What becomes of a key that is here, or in an earlier one of the others, with another
            text. The same text is always left as it is.
        lock_timeout : float
            Seconds to wait for another writer of this index.
        on_commit : callable, optional
            Called after each commit with the counts so far.

        Returns
        -------
        AddResult

        Raises
        ------
        ParameterMismatchError
            A parameter that decides about signatures differs; names both values.
        ParameterError
            This index is one of the others, or one of them is no index.
        TextNotStoredError
            This index stores texts and another does not.
        ConflictError
            ``on_conflict="error"`` and a key is here with another text.
        DamageError
            Signatures or texts of another index are not what was written.
        LockedError, DatabaseError

        Notes
        -----
        Whatever is raised, batches that were committed before stay; merging again leaves them
        unchanged and adds the rest. Cost and memory go with what comes in.
        """
        from lshdb.ingest.merge import merge_stores

        for number, other in enumerate(others, start=1):
            check_index(f"index {number} to merge", other)
        return merge_stores(
            self._store,
            [other._store for other in others],
            on_conflict=on_conflict,
            lock_timeout=lock_timeout,
            on_commit=on_commit,
        )


def check_index(name: str, value: object) -> None:
    """Refuse what is no open index, such as a path, or a list of indexes."""
    if not isinstance(value, Transfers):
        raise ParameterError(
            f"{name} is {value!r:.80}, of type {type(value).__name__}; expected an open Index",
            hint="open it with Index.open(path); give several one by one, a list as *indexes",
        )
