"""A folder in ``TMPDIR``, gone when nobody needs it, wherever Ctrl-C comes.

An interrupt comes between any two steps of Python. ``tempfile`` makes a folder first and arranges
then that it is removed, and an interrupt while it is removed leaves the rest: of 829 interrupted
calls of :func:`lshdb.pairs` and its like, 21 left a folder. ``shutil.rmtree`` may even raise
another error instead, since it then closes a descriptor twice.

So a folder is noted before it is made, and until it is removed. Where even the finalizer was
interrupted, the next folder that is made removes it, or the end of the process.

A killed process leaves its folder, perhaps with gigabytes, and a job that runs out of memory does
so every night. So a folder is locked as long as it is needed, and the next process that makes one
there removes those of its user that nobody has locked. Where folders cannot be locked (NFS, for
one), they are made all the same, and what a killed process leaves stays.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import secrets
import tempfile
import weakref
from pathlib import Path
from typing import Self

from lshdb.cancel import on_interruption
from lshdb.errors import system_hint
from lshdb.files.aside import AsideFolder
from lshdb.files.process import Process

__all__ = ["TemporaryFolder", "temporary_hint"]

_NAMES = re.compile("lshdb-[0-9a-f]{16}")
_ANY_FILE = re.compile(".*", re.DOTALL)
_CANNOT_LOCK = frozenset({errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system says that has no locks on folders; the first is of NFS."""


def temporary_hint(error: Exception) -> str:
    """Return what to do where a temporary file has failed."""
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    known = system_hint(error) if isinstance(error, OSError) and not is_full else None
    return known or "make room there, or name another folder in the environment variable TMPDIR"


class TemporaryFolder:
    """A folder of files for this user alone; removed when this is closed or forgotten.

    A context manager. A process that is forked leaves the folder to its parent.

    Attributes
    ----------
    path : Path

    Raises
    ------
    OSError
        It cannot be made.
    """

    def __init__(self) -> None:
        _remove_forgotten()
        on_interruption(_remove_all)
        parent = tempfile.gettempdir()
        _remove_abandoned(parent)
        self.path = Path(parent, f"lshdb-{secrets.token_hex(8)}")
        self._name = str(self.path)
        self._locked = AsideFolder(self._name, _ANY_FILE, mode=0o700)
        _MADE[self._name] = weakref.ref(self), Process()
        weakref.finalize(self, _remove, self._name)
        try:
            self._locked.take()
        except OSError as error:
            if error.errno not in _CANNOT_LOCK or self._locked.descriptor < 0:
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it."""
        _remove(self._name)


_MADE: dict[str, tuple[weakref.ref[TemporaryFolder], Process]] = {}
"""Folders that may be there, and who needs them."""


_SEARCHED: set[str] = set()
"""Where this process has looked for folders of others."""


def _remove_abandoned(parent: str) -> None:
    """Remove what killed processes of this user have left there; once in a process."""
    if parent in _SEARCHED:
        return
    _SEARCHED.add(parent)
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAMES.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        AsideFolder(entry.path, _ANY_FILE).remove()


def _remove(name: str) -> None:
    try:
        _try_to_remove(name)
    except BaseException:  # Ctrl-C
        _try_to_remove(name)
        raise


def _try_to_remove(name: str) -> None:
    _, process = _MADE.get(name, (None, None))
    if process is not None and process.is_this:
        with contextlib.suppress(OSError):
            for file in os.listdir(name):
                os.unlink(os.path.join(name, file))
            os.rmdir(name)
        _MADE.pop(name, None)


@atexit.register
def _remove_forgotten() -> None:
    for name, (folder, _) in list(_MADE.items()):
        if folder() is None:
            _remove(name)


def _remove_all() -> None:
    for name in list(_MADE):
        _remove(name)
