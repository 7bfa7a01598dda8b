"""What makes one index of another: copies; ``Index`` inherits it."""

from __future__ import annotations

import os
from pathlib import Path

from lshdb.groups import Groups

__all__ = ["Transfers"]

Path_ = str | os.PathLike[str]


class Transfers(Groups):
    """Copies of an index."""

    def copy(self, path: Path_, *, database: str | None = None) -> None:
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
        from lshdb.storage.copying import copy_index

        copy_index(self._store, Path(path), database_url=database)
