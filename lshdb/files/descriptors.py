"""Read and write at an offset of an open file, and make it durable.

The system may read or write fewer bytes than it was asked for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["copy_range", "open_prepared", "read_at", "sync_directory", "sync_file", "write_at"]

_BLOCK_BYTES = 2**20
_CANNOT_COPY = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
"""What ``copy_file_range`` says where the file systems or the kernel cannot do it."""

_CANNOT_FLUSH = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL})
"""What ``F_FULLFSYNC`` says where the file system, a network's for one, cannot do it."""


_GUARDS: dict[int, weakref.ref[Any]] = {}
"""Of objects with which a descriptor is closed."""


def open_prepared(
    path: Path | str,
    flags: int,
    mode: int,
    prepare: Callable[[int], object],
    *,
    owner: object = None,
) -> int:
    """Open a file, prepare it, and return its descriptor; whatever comes between closes it.

    Ctrl-C comes behind a call, also one that has just opened a file, and nobody would have its
    descriptor. So a list takes it within that call. Where it belongs to an owner, a weak reference
    to that is there before, and what it calls takes no step of Python, as ``weakref.finalize``
    does: it takes itself out of a table, and closes what is in the list, if that is not done.

    Parameters
    ----------
    owner : object, optional
        The file is closed when it is freed.

    Raises
    ------
    OSError
        From :func:`os.open`, or from what prepares it.
    """
    opened: list[int] = []
    closing = map(os.close, opened)
    if owner is not None:
        number = id(closing)
        ending = zip(map(_GUARDS.pop, (number,)), closing, strict=False)
        _GUARDS[number] = weakref.ref(owner, partial(next, ending))
    try:
        opened.extend(map(os.open, [path], [flags], [mode]))
        prepare(opened[0])
    except BaseException:
        next(closing, None)
        raise
    return opened[0]


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return bytes from an offset on; fewer at the end of the file.

    Raises
    ------
    OSError
    """
    parts = []
    while size and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all bytes from an offset on.

    Raises
    ------
    OSError
        The disk is full or failed; a part of them may be there.
    """
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def copy_range(source: int, copy: int, offset: int, size: int) -> int:
    """Copy bytes to the same offset of another file; return their number, 0 at the end."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, copy, size, offset, offset)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
    return os.pwrite(copy, os.pread(source, min(size, _BLOCK_BYTES), offset), offset)


def sync_file(descriptor: int, *, data_only: bool = False) -> None:
    """Make writes to a file or directory durable.

    On macOS ``fsync`` leaves it in the cache of the disk, which a loss of power empties;
    ``F_FULLFSYNC`` has the disk write it.

    Parameters
    ----------
    descriptor : int
        Open file or directory.
    data_only : bool
        Bytes and size are enough, without times.

    Raises
    ------
    OSError
        The disk is full or failed.
    """
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return
        except OSError as error:
            if error.errno not in _CANNOT_FLUSH:
                raise
    if data_only and hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    owner = _Owner()
    open_prepared(path, os.O_RDONLY | os.O_DIRECTORY, 0, sync_file, owner=owner)


class _Owner:
    __slots__ = ("__weakref__",)
