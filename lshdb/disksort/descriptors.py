"""Reading and writing at a place of an open file; the system may do a part of what it is asked."""

from __future__ import annotations

import errno
import os

__all__ = ["copy_range", "read_at", "write_at"]

_BLOCK_BYTES = 2**20
_CANNOT_COPY = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
"""What ``copy_file_range`` says where the file systems or the kernel cannot do it."""


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Bytes from an offset on; fewer at the end of the file.

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
    """Copy bytes at an offset to the same offset of another file; how many, 0 at the end."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, copy, size, offset, offset)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
    return os.pwrite(copy, os.pread(source, min(size, _BLOCK_BYTES), offset), offset)
