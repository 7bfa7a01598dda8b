"""A writer killed inside this process: its files are copied at that moment, and it is thrown out.

For every kind of call in which the state on disk is half of something: signature rows half
written, a transaction open before its COMMIT, committed rows with the header still to come. It
costs a copy and no process, so that a state machine can do it thousands of times; that the layers
below survive a real kill at any call is what ``test_kill.py`` shows.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from lshdb.maintain import rewrite
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.transactions import store
from lshdb.storage.transactions.changes import WriteTransaction

__all__ = ["MOMENTS", "REWRITING", "Killed", "Killing", "copy_files"]

MOMENTS = [
    *(("rows", nth) for nth in range(1, 4)),
    *(("commit", nth) for nth in range(1, 10)),
    *(("header", nth) for nth in range(1, 4)),
]
"""The nth time in the middle of signature rows, before a COMMIT, and before the header follows one.

So many as an add of a few batches has.
"""
REWRITING = [("generation", 1), ("commit", 1), ("clearing", 1), ("clearing", 2)]
"""When a generation of signatures is written, before the COMMIT that names it, and before others
are removed: by a writer that begins, and after that COMMIT.
"""


class Killed(BaseException):
    """Thrown where the process would have ended."""


def copy_files(path: Path, copy: Path) -> None:
    """Copy as they lie, by another process: closing a file here would free SQLite's locks on it."""
    subprocess.run(["cp", "-R", str(path), str(copy)], check=True, timeout=120)


class Killing:
    """For the length of a block: the nth of those moments of a kind is the last one.

    Parameters
    ----------
    at : tuple of str and int, or None
        One of ``MOMENTS`` or ``REWRITING``; None for never.
    path, copy : Path
        An index, and where its files of that moment go.

    Attributes
    ----------
    happened : bool
        Whether there were so many moments.
    committed : int
        Batches that were committed before.
    """

    def __init__(self, at: tuple[str, int] | None, path: Path, copy: Path) -> None:
        self._at = at
        self._calls = Counter[str]()
        self._path = path
        self._copy = copy
        self._patch = pytest.MonkeyPatch()
        self.happened = False
        self.committed = 0

    def _moment(self, name: str) -> None:
        self._calls[name] += 1
        if self._at == (name, self._calls[name]):
            copy_files(self._path, self._copy)
            self.happened = True
            raise Killed

    def __enter__(self) -> Killing:
        if self._at is not None:
            self._wrap(RowFile, "append", self._append)
            self._wrap(RowFile, "set_header", self._set_header)
            self._wrap(RowFile, "write", self._write)
            self._wrap(WriteTransaction, "seal", self._seal)
            self._wrap(rewrite, "clear_generations", self._clear)
            self._wrap(store, "clear_generations", self._clear)
        return self

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        plain = getattr(owner, name)
        self._patch.setattr(owner, name, lambda *given, **how: wrapper(plain, *given, **how))

    def _append(self, plain: Callable[..., None], file: Any, first: int, rows: Any) -> None:
        plain(file, first, rows[: len(rows) // 2])
        self._moment("rows")
        plain(file, first, rows)

    def _write(self, plain: Callable[..., None], file: Any, *given: Any, **how: Any) -> None:
        plain(file, *given, **how)
        self._moment("generation")

    def _clear(self, plain: Callable[..., None], current: Any) -> None:
        self._moment("clearing")
        plain(current)

    def _set_header(self, plain: Callable[..., None], file: Any, n_rows: int) -> None:
        self._moment("header")
        plain(file, n_rows)

    def _seal(self, plain: Callable[..., bool], transaction: WriteTransaction) -> bool:
        is_changed = plain(transaction)
        self._moment("commit")
        self.committed += transaction.batch_id is not None  # COMMIT is all that follows
        return is_changed

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._patch.undo()
        return kind is Killed
