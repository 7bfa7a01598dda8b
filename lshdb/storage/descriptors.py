"""Reading and writing at a place of an open file; the system may do a part of what it is asked."""

from __future__ import annotations

import os

__all__ = ["read_at", "write_at"]


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


def write_at(descriptor: int, data: bytes, offset: int) -> None:
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
