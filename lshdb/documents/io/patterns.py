"""Find what a pattern matches.

Patterns (``*``, ``?``, ``[...]`` and ``**``) do not use ``glob.glob``, because its ``**`` follows
symbolic links to directories: one link to a parent makes it list every file forty times, two make
it run for ever. Here ``**`` stands for any number of directories that are not links. A link that a
plain component matches is followed, as in a shell. Only a component that begins with a dot matches
names that begin with one. A directory that cannot be listed matches nothing.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch

from lshdb.documents.io.folders import SKIPPED_FOLDERS

__all__ = ["expand_pattern", "fixed_part", "is_pattern"]

_MAGIC = frozenset("*?[")


def expand_pattern(pattern: str) -> list[str]:
    """Return the paths of all files and directories that match.

    Parameters
    ----------
    pattern : str
        Components between slashes.

    Returns
    -------
    list of str
        Distinct, in no particular order. A pattern that ends in ``**`` gives the directories where
        it starts, without the ones below them.
    """
    drive, rest = os.path.splitdrive(pattern)
    root = drive + rest[: len(rest) - len(rest.lstrip(os.sep))]
    components = [component for component in rest.split(os.sep) if component]
    matches: set[str] = set()
    visited: set[tuple[str, int]] = set()
    stack = [(root, 0)]
    while stack:
        state = stack.pop()
        if state in visited:
            continue
        visited.add(state)
        base, depth = state
        if depth == len(components):
            matches.add(base or os.curdir)
        elif components[depth] == "**":
            stack.append((base, depth + 1))
            if depth + 1 < len(components):
                stack += [(path, depth) for path in _subdirectories(base)]
        else:
            is_last = depth + 1 == len(components)
            stack += [(path, depth + 1) for path in _step(base, components[depth], is_last)]
    return list(matches)


def _step(base: str, component: str, is_last: bool) -> list[str]:
    """Return the paths that one component matches below ``base``."""
    if not _MAGIC.intersection(component):
        path = os.path.join(base, component)
        return [path] if os.path.lexists(path) else []
    return [
        os.path.join(base, entry.name)
        for entry in _entries(base)
        if fnmatch(entry.name, component)
        and (component.startswith(".") or not entry.name.startswith("."))
        and (is_last or _is_directory(entry, follow_symlinks=True))
    ]


def _subdirectories(base: str) -> list[str]:
    return [
        os.path.join(base, entry.name)
        for entry in _entries(base)
        if not entry.name.startswith(".")
        and entry.name not in SKIPPED_FOLDERS
        and _is_directory(entry, follow_symlinks=False)
    ]


def _entries(base: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(base or os.curdir) as entries:
            return list(entries)
    except OSError:
        return []


def _is_directory(entry: os.DirEntry[str], *, follow_symlinks: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow_symlinks)
    except OSError:
        return False


def is_pattern(path: str) -> bool:
    """Return whether a path has characters of a pattern."""
    return not _MAGIC.isdisjoint(path)


def fixed_part(pattern: str) -> str:
    """Return the directory before the first component that is a pattern."""
    fixed: list[str] = []
    for component in pattern.split(os.sep):
        if _MAGIC.intersection(component):
            break
        fixed.append(component)
    return os.sep.join(fixed) or (os.sep if pattern.startswith(os.sep) else "")
