"""Which file systems other hosts may change, too: a module of its own, as storage asks it rarely.

SQLite's write-ahead log has its index in memory that processes share. Hosts share none, so on a
network's file system a reader sees pages of different moments, whatever its locks can do
(https://sqlite.org/wal.html, section 8). Linux says what is mounted where; elsewhere nothing is
known, and nothing is refused.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["shared_file_system"]

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "davfs", "vboxsf", "prl_fs",
})  # fmt: skip
_OF_THIS_HOST = frozenset({
    "fuse.bindfs", "fuse.cryfs", "fuse.encfs", "fuse.exfat", "fuse.fuse-overlayfs",
    "fuse.gocryptfs", "fuse.mergerfs", "fuse.ntfs-3g", "fuse.squashfuse", "fuse.unionfs",
})  # fmt: skip
"""Of those in user space, the ones that stand on a disk of this host; the others may be remote."""


def shared_file_system(path: Path) -> str | None:
    """Return the type of the file system on which a file lies if other hosts may share it.

    Parameters
    ----------
    path : Path
        The file, or its directory if it is not there.
    """
    try:
        device = os.stat(path if path.exists() else path.parent).st_dev
        mounts = _MOUNTS.read_text(errors="replace")
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        fields, _, kinds = line.partition(" - ")
        if fields.split()[2:3] == [number]:
            kind = kinds.split(" ", 1)[0]
            is_in_user_space = kind.split(".")[0] == "fuse" and kind not in _OF_THIS_HOST
            return kind if kind in _SHARED or is_in_user_space else None
    return None
