"""Files that are written for the user: each is there whole, or not there.

A file ``clean.csv`` is written as ``.clean.csv.lshdb-part`` beside it, synced, and renamed. The
process that writes holds a lock on that file, so that two processes do not write one output. After
an error the file is removed; a killed process leaves it, and the next one that writes the same
output uses it again.

Where a symbolic link is named, the file that it leads to is written; the link stays. A pipe or a
device is refused: nothing can be moved into its place. A file that is there already is refused
unless it may be replaced, also if it appears while the new one is being written.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lshdb.arguments import printable, refuse_url
from lshdb.errors import LshdbError, ParameterError
from lshdb.files.aside import AsideFile
from lshdb.files.descriptors import sync_directory, sync_file
from lshdb.files.own_files import UnfitFileError, refuse_unfit
from lshdb.files.rights import take_rights

__all__ = [
    "STDOUT",
    "appended",
    "check_file_place",
    "check_target",
    "require_folder_of",
    "standard_output",
    "whole_file",
]

STDOUT = "-"
"""Stands for standard output where the path of a file is asked for."""


_BUFFER_BYTES = 2**18
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def check_file_place(path: str, *, overwrite: bool) -> None:
    """Refuse a path to which one file cannot be written, before any work is done.

    Raises
    ------
    ParameterError
        It is empty, or that of a folder.
    LshdbError
        A file is there and may not be replaced, or the folder around it is not there.
    OSError
        Something that is not a file is there, or it cannot be looked at.
    """
    if not path:
        raise ParameterError("the output has no name", hint="name a file")
    refuse_url(path)
    if path.endswith(os.sep) or os.path.isdir(path):
        raise ParameterError(
            f"{printable(path)} is a folder, and one file is written", hint="name a file in it"
        )
    require_folder_of(path)
    check_target(path, overwrite=overwrite)


def require_folder_of(path: str) -> None:
    """Raise LshdbError unless a file can be made in the folder that a path names."""
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise LshdbError(
            f"cannot write {printable(path)}: the folder {printable(parent)} does not exist",
            hint="make the folder first",
        )
    if not os.access(parent, os.W_OK):
        raise LshdbError(
            f"cannot write {printable(path)}: the folder {printable(parent)} may not be written to",
            hint="name a file in a folder of yours",
        )


def check_target(path: str, *, overwrite: bool) -> None:
    """Refuse a place where no file can be written; nothing is changed.

    Raises
    ------
    LshdbError
        A file is there and may not be replaced.
    OSError
        Something that is not a file is there, or it cannot be looked at.
    """
    refuse_unfit(os.path.realpath(path))
    if os.path.exists(path) and not overwrite:
        raise _is_there(path)


@contextlib.contextmanager
def whole_file(path: str, *, compression: str = "", overwrite: bool = False) -> Iterator[IO[bytes]]:
    """Write a file that appears at the end of the block, or not at all after an error.

    Parameters
    ----------
    path : str
        The directory must exist.
    compression : {"", "gz", "zst", "xz", "bz2"}
        How to compress what is written.
    overwrite : bool
        Whether a file that is there is replaced.

    Raises
    ------
    LshdbError
        A file is there, or another process is writing it.
    OSError
        The disk is full, or the directory may not be written.
    """
    check_target(path, overwrite=overwrite)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    aside = AsideFile(os.path.join(folder, f".{name}.lshdb-part"))
    try:
        with _named(path, aside.path):
            if not aside.take():
                raise LshdbError(
                    f"{printable(path)}: another process is writing this file",
                    hint="wait for it, or name another output",
                )
        with (
            io.BufferedWriter(_Output(aside.descriptor, path), _BUFFER_BYTES) as file,
            _packed(file, compression) as packed,
        ):
            yield packed
        with _named(path, aside.path):
            sync_file(aside.descriptor)
            _move(aside.path, target, path, overwrite=overwrite)
    except BaseException:
        aside.remove()
        raise
    finally:
        del aside
    sync_directory(Path(folder))


@contextlib.contextmanager
def appended(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a device or a pipe to write at its end; errors in writing name it."""
    with (
        open(path, "ab", buffering=0) as opened,
        io.BufferedWriter(_Output(opened.fileno(), path)) as file,
    ):
        yield file


@contextlib.contextmanager
def standard_output(compression: str = "") -> Iterator[IO[bytes]]:
    """Write to standard output, compressed as a file would be."""
    sys.stdout.flush()
    with _packed(sys.stdout.buffer, compression) as packed:
        yield packed
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def _named(path: str, aside: str) -> Iterator[None]:
    """Make errors about the temporary file name the user's path; not if it is unfit."""
    try:
        yield
    except UnfitFileError:
        raise
    except OSError as error:
        if error.filename in (None, aside):
            error.filename = path
        raise


class _Output(io.FileIO):
    """An open file, whose errors name the user's path."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._path = path

    def write(self, data: Any) -> int:
        """Write some bytes, and name the file where the disk is full."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self._path
            raise


def _packed(file: IO[bytes], compression: str) -> Any:
    """Return a file whose bytes are compressed on their way; closing it completes them."""
    if compression == "gz":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
    if compression == "zst":
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    if compression == "xz":
        import lzma

        return lzma.LZMAFile(file, "wb")
    if compression == "bz2":
        import bz2

        return bz2.BZ2File(file, "wb")
    return contextlib.nullcontext(file)


def _move(aside: str, target: str, path: str, *, overwrite: bool) -> None:
    if overwrite:
        if os.path.exists(target):
            take_rights(Path(aside), Path(target))
        os.replace(aside, target)
        return
    try:
        os.link(aside, target)  # unlike renaming, never takes the place of a file
    except FileExistsError:
        raise _is_there(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        check_target(path, overwrite=False)
        os.rename(aside, target)
        return
    os.unlink(aside)


def _is_there(path: str) -> LshdbError:
    return LshdbError(
        f"{printable(path)} exists already",
        hint="name another output, or pass --overwrite to replace it",
    )
