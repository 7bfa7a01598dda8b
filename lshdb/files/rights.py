"""Who may read and write a new file: owner, group, mode and access control list.

A file of an index is written anew by whoever runs the command: ``root`` by ``sudo``, a member of
the group that shares it, a job with another umask. It is then as open, and to the same people, as
the one that it replaces or, if it replaces none, as the directory of the index.

What the system refuses is done without: only root gives a file away, and a list needs a file system
that keeps it. If a file cannot have the group, its own group may do with it what everybody may.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from pathlib import Path

from lshdb.files.descriptors import open_prepared

__all__ = ["create_file", "take_rights"]

_ACL = "system.posix_acl_access"
_DEFAULT_ACL = "system.posix_acl_default"
_ACL_HEADER_BYTES = 4
_ACL_ENTRY = struct.Struct("<HHI")
"""Whom it is for, as a tag; permissions; the number of a user or a group (``acl(5)``)."""
_GROUP, _OTHER = 0x04, 0x20


def create_file(path: Path, *, model: Path | None = None) -> int:
    """Make an empty file with the rights of another, and open it for reading and writing.

    Nobody else may open it before it has them.

    Parameters
    ----------
    path : Path
        Must not exist.
    model : Path, optional
        What it replaces; the directory, if it replaces nothing.

    Raises
    ------
    FileExistsError, OSError
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return open_prepared(
        path, flags, 0o600, lambda descriptor: take_rights(descriptor, model or path.parent)
    )


def take_rights(file: int | Path, model: Path) -> None:
    """Give a new file, or a new directory, the rights of another as far as the system allows.

    Parameters
    ----------
    file : int or Path
        Descriptor, or path of what this process has made. It stays as it is if it belongs to
        somebody else, or has a second name: then it may not be what this process made.
    model : Path
        A file; or a directory, whose list for new files counts before its own rights. That of the
        file counts if there is no such file.
    """
    if not model.is_dir() and (model.is_symlink() or not model.is_file()):
        model = model.parent
    try:
        looks, own = os.stat(model), os.stat(file, follow_symlinks=isinstance(file, int))
    except OSError:
        return
    is_folder = stat.S_ISDIR(own.st_mode)
    if own.st_uid != os.geteuid() or (own.st_nlink > 1 and not is_folder):
        return
    has_group = own.st_gid == looks.st_gid or _did_chown(file, -1, looks.st_gid)
    mode, entries = looks.st_mode & 0o777, _list(model, _ACL)
    if is_folder:
        mode = looks.st_mode & 0o7777
        _put_list(file, _DEFAULT_ACL, _list(model, _DEFAULT_ACL))
    elif stat.S_ISDIR(looks.st_mode):
        mode &= 0o644 if looks.st_mode & stat.S_ISVTX else 0o666  # sticky: each their own files
        entries = _list(model, _DEFAULT_ACL) or entries
    if not has_group:
        mode = mode & ~0o070 | (mode & 0o007) << 3
    _put_list(file, _ACL, _adapted(entries, is_folder=is_folder, has_group=has_group))
    if not entries and mode != stat.S_IMODE(own.st_mode):  # entries are the mode
        with contextlib.suppress(OSError):
            os.chmod(file, mode)
    if own.st_uid != looks.st_uid:
        _did_chown(file, looks.st_uid, -1)


def _did_chown(file: int | Path, uid: int, gid: int) -> bool:
    try:
        os.chown(file, uid, gid, follow_symlinks=isinstance(file, int))
    except OSError:
        return False
    return True


def _adapted(entries: bytes, *, is_folder: bool, has_group: bool) -> bytes:
    """Return a list without ``x`` for a file, and for a group that is not the model's."""
    adapted = bytearray(entries[:_ACL_HEADER_BYTES])
    rows = list(_ACL_ENTRY.iter_unpack(entries[_ACL_HEADER_BYTES:]))
    of_all = {tag: permissions for tag, permissions, _ in rows}.get(_OTHER, 0)
    for tag, permissions, number in rows:
        allowed = of_all if tag == _GROUP and not has_group else permissions
        adapted += _ACL_ENTRY.pack(tag, allowed if is_folder else allowed & ~1, number)
    return bytes(adapted)


def _list(file: int | Path, name: str) -> bytes:
    if not hasattr(os, "getxattr"):
        return b""
    try:
        return os.getxattr(file, name)
    except OSError:
        return b""


def _put_list(file: int | Path, name: str, entries: bytes) -> None:
    present = _list(file, name)
    with contextlib.suppress(OSError):
        if entries and entries != present:
            os.setxattr(file, name, entries)
        elif present and not entries:
            os.removexattr(file, name)
