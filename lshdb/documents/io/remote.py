"""Files elsewhere, read by fsspec: ``s3://``, ``gs://``, ``hf://``, ``https://`` and others.

fsspec and the package for the protocol (``s3fs``, ``gcsfs``, ``huggingface_hub``, ``aiohttp``) are
the user's, and so are the credentials that they find: lshdb has none and stores none.

Decided: a remote file is read once, from its beginning, as a pipe is. Only formats that are read
from their end, such as Parquet, are read in pieces where they lie. A name is a pattern as in the
shell, but not behind ``http``, where ``?`` begins a query. What packages for protocols raise is of
many kinds; here all of it becomes an ``OSError``, or an ``InputError`` before the first document.
Their errors are not kept as causes, because a URL with a password may stand in them.

Over HTTP, a file is one request: how long a server says that it is decides nothing, and it need not
know ranges. A minute without a byte ends it, and no other clock does. A redirect from ``https`` to
``http``, or to anything else, is refused.

The list of an archive's members is read once, and not for each of them. Those of a tar archive are
read in its own order, because a compressed one is decompressed from its beginning to go back.
"""

from __future__ import annotations

import io
import os
import re
import weakref
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

from lshdb.arguments import printable
from lshdb.documents.registry import COMPRESSIONS
from lshdb.errors import InputError, install_command

__all__ = ["Archive", "RemoteFile", "find_remote", "is_remote", "open_remote"]

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BLOCK_BYTES = 4 * 2**20
_WEB_SECONDS = 60
_TAR_BLOCK = 512
_TAR_HERE = re.compile(r"^(?:\.?/+)*(?:\.$)?")
_TAR_COMPRESSION = "lshdb"
"""Name for fsspec, whose own choice goes by the name of the outermost file."""
_TO_FSSPEC = {"gz": "gzip", "bz2": "bz2", "xz": "xz", "zst": "zstd"}


class RemoteFile(NamedTuple):
    """A file that was found: its URL, its bytes, or 0 where that is not known, and its archive."""

    url: str
    size: int
    archive: Archive | None = None


class Archive:
    """An archive that stays open from one of its members to the next, for as long as it is known.

    One reader at a time has its file system, because members share its place in the file. Of
    several archives only the last one that was read stays open.
    """

    _latest: ClassVar[weakref.ref[Archive] | None] = None

    def __init__(self) -> None:
        self._idle: list[Any] = []

    def take(self, url: str) -> tuple[Any, str]:
        """Return a file system that nobody else reads, and the path of a member there."""
        try:
            return self._idle.pop(), url.partition("::")[0]
        except IndexError:
            return _system_of(url)

    def give_back(self, system: Any) -> None:
        """Keep a file system for the next member."""
        latest = None if Archive._latest is None else Archive._latest()
        if latest is not None and latest is not self:
            latest._idle.clear()
        Archive._latest = weakref.ref(self)
        self._idle[:] = [system]


def is_remote(path: str) -> bool:
    """Return whether a path is a URL, and no file of this machine has that name."""
    return _URL.match(path) is not None and not os.path.lexists(path)


def find_remote(url: str, takes: Callable[[str], bool]) -> list[RemoteFile]:
    """Return the file at a URL, all files below it, or all matches of a pattern, sorted.

    Parameters
    ----------
    takes : callable
        Whether to take a file that was found below the URL, by its path there.

    Raises
    ------
    InputError
        There is none, or it cannot be looked up.
    """
    shown = printable(url)
    try:
        system, path = _system_of(url)
        if "*" in path and not _is_web(url):
            names = [name for name in system.glob(path) if not system.isdir(name)]
        elif system.info(path).get("type") == "directory":
            names = system.find(path)
        else:
            return [RemoteFile(url, int(system.info(path).get("size") or 0))]
        fixed, star, _ = path.partition("*")
        below = fixed.rpartition("/")[0] if star else path.rstrip("/")
        rest = url[url.find("::") :] if "::" in url else ""
        archive = Archive() if rest else None
        if archive is not None:
            archive.give_back(system)
        files = [
            RemoteFile(
                system.unstrip_protocol(name) + rest,
                int(system.info(name).get("size") or 0),
                archive,
            )
            for name in _sorted(names, system)
            if takes(name.removeprefix(below).lstrip("/"))
        ]
    except InputError:
        raise
    except Exception as error:
        cause = _cause(error)
        if isinstance(cause, FileNotFoundError):
            raise InputError(f"{shown}: no such file or folder", hint="check the URL") from None
        raise InputError(
            f"{shown}: cannot be looked up: {_reason(cause)}",
            hint="check the URL, the network and your credentials for it",
        ) from None
    if not names:
        raise InputError(f"{shown}: no file is there", hint="check the URL")
    return files


def _sorted(names: list[str], system: Any) -> list[str]:
    """Return names in the order in which to read the files."""
    members = system.index if hasattr(system, "tar") else ()
    in_tar = {name: place for place, name in enumerate(members)}
    return sorted(names, key=lambda name: (in_tar.get(name, 0), name))


def _cause(error: Exception) -> BaseException:
    """Return why a file is not found: fsspec says that, too, where no server answers."""
    cause = error.__cause__
    is_refusal = isinstance(cause, OSError) or getattr(cause, "status", 404) not in (404, 410)
    return cause if cause is not None and is_refusal else error


def open_remote(url: str, *, from_end: bool, archive: Archive | None = None) -> BinaryIO:
    """Open a file for reading: from its beginning to its end, or at any place of it.

    Parameters
    ----------
    archive : Archive, optional
        As :func:`find_remote` returned it with the file.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    try:
        system, path = _system_of(url) if archive is None else archive.take(url)
        is_one_request = _is_web(url) and not from_end
        file = system.open(path, "rb", block_size=0 if is_one_request else _BLOCK_BYTES)
        return cast(BinaryIO, _Remote(file, system, archive))
    except Exception as error:
        raise OSError(_reason(error)) from None


class _Remote(io.RawIOBase):
    """An open remote file; its errors are OSErrors, as a local file's are."""

    def __init__(self, file: Any, system: Any, archive: Archive | None) -> None:
        super().__init__()
        self._file = file
        self._archive = archive
        self._system = system  # an archive is closed with the last reference to its system

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._asked(self._file.read, len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._asked(self._file.seek, offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._asked(self._file.tell))

    def close(self) -> None:
        if not self.closed:
            self._asked(self._file.close)
            if self._archive is not None:
                self._archive.give_back(self._system)
        super().close()

    def _asked(self, method: Any, *values: Any) -> Any:
        try:
            return method(*values)
        except Exception as error:
            raise OSError(_reason(error)) from None


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


async def _web_client(**settings: Any) -> Any:
    """Return a session of aiohttp with the user's settings for fsspec, and the rules above."""
    import aiohttp
    from fsspec.implementations.http import get_client

    rules = aiohttp.TraceConfig()
    rules.on_request_redirect.append(_check_redirect)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_WEB_SECONDS, sock_read=_WEB_SECONDS)
    traces = [*settings.pop("trace_configs", ()), rules]
    return await get_client(**{"timeout": timeout, **settings}, trace_configs=traces)


async def _check_redirect(_session: Any, _context: Any, request: Any) -> None:
    """Refuse a redirect to another scheme, but for one from http to https.

    Raises
    ------
    OSError
    """
    scheme = _SCHEME.match(request.response.headers.get("Location", ""))
    own = request.response.url.scheme
    if scheme is not None and scheme[1].lower() not in ("https", own):
        raise OSError(f"the server sends on from {own} to {scheme[1]}")


def _system_of(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path there."""
    try:
        from fsspec.compression import register_compression
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise InputError(
            f"{printable(url)}: reading remote files needs fsspec, which is not installed",
            hint=f"{install_command('remote')}, and the package for the protocol, such as s3fs",
        ) from error
    try:
        schemes = {part.partition("://")[0].lower() for part in url.split("::")}
        options: dict[str, dict[str, Any]] = {
            scheme: {"get_client": _web_client} for scheme in schemes & {"http", "https"}
        }
        if "tar" in schemes:
            register_compression(_TAR_COMPRESSION, _decompressed, (), force=True)
            options["tar"] = {"compression": _TAR_COMPRESSION}
        system, path = url_to_fs(url, **options)
    except ImportError as error:
        raise InputError(
            f"{printable(url)}: {_reason(error)}", hint="pip install the package that it names"
        ) from None
    if hasattr(system, "tar"):
        _prepare_tar(system)
        path = _member(path)
    return system, str(path)


def _decompressed(file: Any, **_how: Any) -> Any:
    """Return the tar archive in a file, which is compressed or not, by its first bytes."""
    from fsspec.compression import compr

    head = file.read(max(len(each.magic) for each in COMPRESSIONS.values()))
    file.seek(0)
    for name, each in COMPRESSIONS.items():
        if head.startswith(each.magic):
            return compr[_TO_FSSPEC[name]](file, mode="rb")
    return file


def _prepare_tar(system: Any) -> None:
    """Look whether a tar archive is whole, and know its members by their plain names."""
    _require_end(system.tar)
    members = {_member(member.name): member for member in system.tar.getmembers()}
    # Its own looks through the list for each name.
    system.tar.getmember = lambda name: members[_member(name)]
    system.index = {
        _member(name): ({**facts, "name": _member(name)}, *place)
        for name, (facts, *place) in system.index.items()
        if _member(name)
    }
    for name, (facts, *_) in system.index.items():
        member = members[name]
        if member.ischr() or member.isblk() or member.isfifo():
            facts["type"] = "other"  # not a file, which fsspec takes them for


def _member(name: str) -> str:
    """Return a name without the ``./`` of ``tar -cf a.tar .``, or the ``/`` of ``tar -P``."""
    return _TAR_HERE.sub("", re.sub("/+", "/", name))


def _require_end(archive: Any) -> None:
    """Raise OSError unless a tar archive ends with a block of zeros, as its format says.

    The module ``tarfile`` takes a damaged header, and the end of a file that was cut, for the end
    of the archive, and what comes after it for nothing.
    """
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(_TAR_BLOCK) != bytes(_TAR_BLOCK):
        n_members = len(archive.getmembers())
        raise OSError(f"the tar archive is damaged or cut after {n_members:,} of its members")


def _reason(error: BaseException) -> str:
    """Return the message of an error in one line, or its kind."""
    said = " ".join(printable(str(getattr(error, "strerror", None) or error)).split())
    return said[:300] or type(error).__name__
