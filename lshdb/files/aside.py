"""What is written under another name until it is whole, by one process alone.

Ctrl-C may come between any two steps, also just behind the one that makes something, or takes its
lock. So whoever writes has an object from the beginning: what that opens is closed when it is
freed, and :meth:`Aside.remove` removes what was made, whether or not anybody was told of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from abc import ABC, abstractmethod

from lshdb.files.descriptors import open_prepared
from lshdb.files.own_files import open_file

__all__ = ["Aside", "AsideFile", "AsideFolder"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What ``renameat2`` says where the file system or the kernel cannot do it."""


class Aside(ABC):
    """See the module.

    Attributes
    ----------
    path : str
        The other name.
    descriptor : int
    """

    def __init__(self, path: str) -> None:
        self.path, self.descriptor = path, -1

    def take(self) -> bool:
        """Make it, unless a killed process has left it, and lock it.

        Returns
        -------
        bool
            False if another process has it.

        Raises
        ------
        OSError
        """
        while True:
            self._open(is_new=True)
            if not self._lock():
                return False
            if self._is_in_place():  # else it was renamed or removed before it was locked
                return True

    def remove(self) -> None:
        """Remove it, unless another process has it, or it cannot be removed."""
        with contextlib.suppress(OSError):
            if self.descriptor < 0 or not self._is_in_place():
                self._open(is_new=False)
            if self._lock() and self._is_in_place():
                self._unlink()

    def _lock(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_in_place(self) -> bool:
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(self.descriptor), there)

    @abstractmethod
    def _open(self, *, is_new: bool) -> None: ...

    @abstractmethod
    def _unlink(self) -> None: ...


class AsideFile(Aside):
    """A file; it is empty when it has been taken."""

    def take(self) -> bool:
        """See :class:`Aside`."""
        is_taken = super().take()
        if is_taken:
            os.ftruncate(self.descriptor, 0)
        return is_taken

    def _open(self, *, is_new: bool) -> None:
        flags = os.O_RDWR | (os.O_CREAT if is_new else 0)
        self.descriptor = open_file(self.path, flags, owner=self)

    def _unlink(self) -> None:
        os.unlink(self.path)


class AsideFolder(Aside):
    """A folder of files; it may have content. It is removed only if all have names of its own.

    Parameters
    ----------
    path : str
    names : re.Pattern
        Names of its files.
    mode : int
        Rights of a new one, but for those that the umask takes away.
    """

    def __init__(self, path: str, names: re.Pattern[str], *, mode: int = 0o777) -> None:
        super().__init__(path)
        self._names, self._mode = names, mode

    def _open(self, *, is_new: bool) -> None:
        if is_new:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, self._mode)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = open_prepared(self.path, flags, 0, lambda _: None, owner=self)

    def _unlink(self) -> None:
        self.clear()
        os.rmdir(self.path)

    def clear(self) -> bool:
        """Remove its files; False if there are others, and nothing is removed."""
        names = os.listdir(self.path)
        if not all(map(self._names.fullmatch, names)):
            return False
        for name in names:
            os.unlink(os.path.join(self.path, name))
        return True

    def exchange(self, target: str) -> bool:
        """Let it and another folder change names in one step; False if that cannot be done here.

        ``rename`` would put it only into the place of an empty folder. Afterwards :meth:`remove`
        removes the other one. Only Linux has the call, and not for every file system.

        Raises
        ------
        OSError
            One of them is not there, or what is around them may not be written.
        """
        import ctypes

        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if renameat2 is None:
            return False
        own_name, target_name = os.fsencode(self.path), os.fsencode(target)
        if not renameat2(_AT_FDCWD, own_name, _AT_FDCWD, target_name, _RENAME_EXCHANGE):
            return True
        error = ctypes.get_errno()
        if error in _CANNOT_EXCHANGE:
            return False
        raise OSError(error, os.strerror(error), self.path, None, target)
