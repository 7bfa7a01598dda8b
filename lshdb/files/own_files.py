"""The index's own files: what may be opened, written to and removed.

An index may come from elsewhere, and its folder may be shared. So a name alone does not tell what
is behind it:

* A file of an index is a regular file. A symbolic link is refused, because writing through it would
  change another file; a pipe, because opening it waits for ever; a device, because opening it may
  do something. The directory of an index may be a link.
* What is removed lies in a directory that is held open, is removed by its name in there, and has a
  name that only an index or an export uses. Nothing below a directory is ever removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from lshdb.files.descriptors import open_prepared
from lshdb.files.rights import create_file

__all__ = [
    "UnfitFileError",
    "foreign_names",
    "kind_of",
    "new_file",
    "open_file",
    "open_folder",
    "open_given",
    "refuse_unfit",
    "writing_fails",
]

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
}
_OWN_NAMES = re.compile(
    r"lock|index(\.next)?\.toml|index\.db(-wal|-shm|-journal)?"
    r"|postings\.next\.db"
    r"|(signatures|vectors)(\.\d{1,18})?\.npy"
    r"|orders\.(next|\d{1,18}\.[0-9a-z]{1,32}\.\d{1,18}-\d{1,18}\.[0-9a-f]{16}\.[0-9a-f]{8})\.npy"
    # of an export
    r"|index\.json|(documents|batches|releases|edges|clusters)\.(jsonl|parquet)"
    r"|(fields|nights|cursors|postings)\.(jsonl|parquet)"
    r"|postings\.npy"
)

OWN_FOLDERS = frozenset({
    "documents", "batches", "releases", "edges", "clusters", "fields", "nights", "cursors",
    "signatures", "postings", "rejected", "commits",
})  # fmt: skip
"""The tables of a dataset, which is an export."""


_TRIED_BYTES = 2**18


class UnfitFileError(OSError):
    """Something other than a regular file is there; ``strerror`` says what."""

    def __init__(self, path: Path | str, mode: int) -> None:
        words = f"it is {kind_of(mode)}; a regular file was expected"
        super().__init__(errno.EINVAL, words, str(path))


def kind_of(mode: int) -> str:
    """Return the kind of file that ``st_mode`` means, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "something unknown")


def refuse_unfit(path: Path | str, *, follows_links: bool = False) -> None:
    """Refuse anything at a path except a regular file; an empty place is not an error.

    For code that hands the path on to a library that opens it: in between, another process may
    still change what is there.

    Raises
    ------
    UnfitFileError
    OSError
        It cannot be looked at.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path, follow_symlinks=follows_links).st_mode
        if not stat.S_ISREG(mode):
            raise UnfitFileError(path, mode)


def open_file(
    path: Path | str,
    flags: int,
    mode: int = 0o666,
    *,
    follows_links: bool = False,
    owner: object = None,
) -> int:
    """Open a regular file without waiting; return its descriptor.

    Parameters
    ----------
    path : path-like
    flags : int
        As for :func:`os.open`.
    mode : int
        Permissions of a new file.
    follows_links : bool
        Whether a symbolic link may lead to the file.
    owner : object, optional
        The file is closed when it is freed; by default, the caller closes it.

    Raises
    ------
    UnfitFileError
        Something else is there.
    OSError
        From :func:`os.open`.
    """
    refuse_unfit(path, follows_links=follows_links)  # opening alone may do something
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    if not follows_links:
        flags |= os.O_NOFOLLOW

    def refuse_other(descriptor: int) -> None:
        file_mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(file_mode):
            raise UnfitFileError(path, file_mode)

    return open_prepared(path, flags, mode, refuse_other, owner=owner)


@contextlib.contextmanager
def new_file(path: Path, *, model: Path) -> Iterator[int]:
    """Make a file that has its own name only for the block, unless it gets another; yield it.

    Whatever is at the path is removed first: what a killed process left there, or a link.
    The file has the rights of the model, or of the directory; see :func:`create_file`.

    Raises
    ------
    OSError
    """
    path.unlink(missing_ok=True)
    descriptor = create_file(path, model=model)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def open_given(path: str, flags: int) -> int:
    """Open a regular file that the user names, as the ``opener`` of :func:`open`."""
    return open_file(path, flags, follows_links=True)


def writing_fails(folder: Path, files: Iterable[Path]) -> OSError | None:
    """Return why files cannot be written to, or made in their folder; None if they can now.

    Nothing is changed.
    """
    import tempfile

    try:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                descriptor = open_file(file, os.O_RDWR)
                size = os.fstat(descriptor).st_size
                os.close(descriptor)
                if most != resource.RLIM_INFINITY and size + _TRIED_BYTES > most:
                    return OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))
        with tempfile.TemporaryFile(dir=folder) as file_of_try:
            file_of_try.write(bytes(_TRIED_BYTES))
    except OSError as error:
        return error
    return None


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Hold a directory open, unless it is a symbolic link; yield its descriptor.

    Raises
    ------
    OSError
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def foreign_names(folder: int, *more: str) -> list[str]:
    """Return the names in a directory that no index and no export uses, sorted.

    An export's folders are tables of a dataset: there is a log in each, or nothing yet.

    Parameters
    ----------
    folder : int
        Descriptor.
    more : str
        Other names that belong to the index: those of its database.
    """
    foreign = []
    for name in os.listdir(folder):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
        is_file = stat.S_ISREG(mode) and (_OWN_NAMES.fullmatch(name) or name in more)
        if not is_file and not (stat.S_ISDIR(mode) and _is_table(folder, name)):
            foreign.append(name)
    return sorted(foreign)


def _is_table(folder: int, name: str) -> bool:
    """Return whether a folder is a table of a dataset, or was about to become one."""
    if name not in OWN_FOLDERS:
        return False
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        entries = os.listdir(descriptor)
    finally:
        os.close(descriptor)
    return not entries or "_delta_log" in entries
