"""Write a report to a file, to a folder of pages, or into a pipe.

A file appears when it is whole (``files/whole_files.py``). A folder is made as
``.NAME.lshdb-part`` beside its place and renamed. One that is there is replaced only if it may be,
and only if it holds pages of a report and nothing else. A pipe or a device gets the page as it is
made. After an error or an interrupt nothing is left.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from lshdb.arguments import check_folder_name, printable, refuse_url
from lshdb.errors import LshdbError, ParameterError
from lshdb.files.aside import AsideFolder
from lshdb.files.descriptors import sync_directory, sync_file
from lshdb.files.whole_files import appended, check_target, require_folder_of, whole_file

__all__ = ["check_place", "makes_folder", "write_page", "written_file", "written_folder"]

_PAGES = re.compile(r"index\.html|clusters-\d{4,}\.html")
_MARK = b'<meta name="generator" content="lshdb report">'
_BUFFER = 2**18
_STDOUT = "/dev/stdout"


def makes_folder(path: str) -> bool:
    """Return whether a path means a folder of pages: an existing one, or a name without .html."""
    if _is_stream(path):
        return False
    if os.path.isdir(path):
        return True
    return path.endswith("/") or not path.lower().endswith((".html", ".htm"))


def check_place(path: str, *, overwrite: bool) -> None:
    """Refuse a place where no report can be written, before any work is done.

    Raises
    ------
    ParameterError
        It is the name of a file that is not HTML.
    LshdbError
        Something is there, or the folder around it is not.
    """
    if not path:
        raise ParameterError("the output has no name", hint="name a file or a folder")
    refuse_url(path)
    if _is_stream(path):
        return
    require_folder_of(path)
    if not makes_folder(path):
        check_target(path, overwrite=overwrite)
    elif os.path.isdir(path):
        _check_folder(path, overwrite=overwrite)
    elif os.path.lexists(path):
        what = "is a file" if os.path.exists(path) else "is a link that leads nowhere"
        raise LshdbError(
            f"{printable(path)} {what}; a folder of pages was to be made there",
            hint="name a file that ends in .html, or another folder",
        )
    else:
        check_folder_name(
            path,
            "a report is a page of HTML or a folder of them",
            hint="name a file that ends in .html, or end the name of a folder in /",
        )


def _is_stream(path: str) -> bool:
    """Return whether a path is standard output, a pipe, a terminal or another device."""
    if path == _STDOUT:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _check_folder(path: str, *, overwrite: bool) -> None:
    names = sorted(os.listdir(path))
    if not names:
        return
    foreign = [name for name in names if not _PAGES.fullmatch(name)]
    if not foreign and not _is_report(Path(path, names[-1])):
        foreign = names
    if foreign:
        raise LshdbError(
            f"{printable(path)} holds {printable(foreign[0])}, which is no page of a report",
            hint="name another folder",
        )
    if not overwrite:
        raise LshdbError(
            f"{printable(path)} exists already",
            hint="name another output, or pass --overwrite to replace it",
        )


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return _MARK in file.read(4096)


@contextlib.contextmanager
def written_file(path: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Write the page of a report that is one file, or into a pipe."""
    if path == _STDOUT:  # may be a file that a shell opened: opening it anew would begin it again
        with open(os.dup(1), "wb", buffering=_BUFFER) as file:
            yield file
        return
    if _is_stream(path):
        with appended(path) as file:
            yield file
        return
    with whole_file(path, overwrite=overwrite) as file:
        yield file


@contextlib.contextmanager
def written_folder(path: str, *, overwrite: bool) -> Iterator[Path]:
    """Make the folder of a report; yield the temporary folder in which pages are written.

    Raises
    ------
    LshdbError
        Another process is writing it, or something appeared there meanwhile.
    """
    target = Path(os.path.realpath(path))
    folder = AsideFolder(str(target.with_name(f".{target.name}.lshdb-part")), _PAGES)
    old = AsideFolder(str(target.with_name(f".{target.name}.lshdb-old")), _PAGES)
    try:
        if not folder.take():
            raise LshdbError(
                f"{printable(path)}: another process is writing this report",
                hint="wait for it, or name another output",
            )
        aside = Path(folder.path)
        if not folder.clear():
            raise LshdbError(
                f"{printable(str(aside))} is in the way of the report",
                hint="look what is in it and remove it, or name another output",
            )
        yield aside
        sync_directory(aside)
        old.remove()  # of a process that was killed
        if target.exists():
            _check_folder(str(target), overwrite=overwrite)
            if not folder.exchange(str(target)):
                target.rename(old.path)
                aside.rename(target)
        else:
            aside.rename(target)
        sync_directory(target.parent)  # else the old one might lose pages before it loses its name
        folder.remove()  # the old one, if they changed names
        old.remove()
    except BaseException:
        if not target.exists() and os.path.exists(old.path):
            os.rename(old.path, target)
        folder.remove()
        old.remove()
        raise
    finally:
        del folder, old


def write_page(folder: Path, name: str, parts: Iterable[bytes]) -> int:
    """Write a page into a temporary folder; return its length in bytes."""
    with (folder / name).open("xb", buffering=_BUFFER) as file:
        file.writelines(parts)
        file.flush()
        sync_file(file.fileno())
        return file.tell()
