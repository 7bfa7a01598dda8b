"""The tree of errors: one class for every failure that a caller may want to distinguish.

Each error states what happened, where, and what was expected. Its hint states what to do next.
Anything that is not an ``LshdbError`` is a bug in lshdb (or the machine is out of memory or disk).

    LshdbError
    ├── ParameterError          a parameter has a value that cannot be used
    ├── IndexNotFoundError      there is no index at that path
    ├── IndexExistsError        something exists at that path already
    ├── IndexChangedError       it was banded anew since it was opened, or is another one now
    ├── ParameterMismatchError  the index was made with other parameters than expected
    ├── FormatError             the index has a format or schema this version does not read
    ├── KeyNotFoundError        no document has that key
    ├── TokenizerError          the index's tokenizer is not installed, or failed
    ├── TextNotStoredError      the call needs texts, but the index does not store them
    ├── SignaturesElsewhereError   the call needs signatures, but only the writing host has them
    ├── InputError              a source of documents cannot be read at all
    │   ├── AllRejectedError    every given document was rejected
    │   ├── ConflictError       a key exists already and the caller asked for an error
    │   └── TooManyRejectedError   more documents were rejected than the caller allows
    ├── QueryError              an SQL statement was refused or failed
    ├── DatabaseError           the database failed while it was being used
    ├── ReadOnlyError           the index may not be written to, or not by this user
    ├── LockedError             another writer holds the index
    └── DamageError             data on disk differs from what was written

A warning is worth knowing and stops nothing. Python's ``warnings`` shows it once for each place
that it comes from; filters can turn it into an error or hide it:

    UserWarning
    └── LshdbWarning
        ├── RecallWarning       the threshold is lower than the index was made for
        ├── UncheckedWarning    documents that are kept were not all compared
        └── KernelWarning       the compiled kernel does not run, and signing is slow
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lshdb.ingest.add_result import AddResult

__all__ = [
    "HIDDEN",
    "AllRejectedError",
    "ConflictError",
    "DamageError",
    "DatabaseError",
    "FormatError",
    "IndexChangedError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InputError",
    "KernelWarning",
    "KeyNotFoundError",
    "LockedError",
    "LshdbError",
    "LshdbWarning",
    "ParameterError",
    "ParameterMismatchError",
    "QueryError",
    "ReadOnlyError",
    "RecallWarning",
    "SignaturesElsewhereError",
    "TextNotStoredError",
    "TokenizerError",
    "TooManyRejectedError",
    "UncheckedWarning",
    "hide_credentials",
    "is_secret",
    "limit_of_memory",
    "system_hint",
    "warn_caller",
    "write_hint",
]

_OF_THE_SYSTEM = {
    errno.ENOSPC: "make room there, or name another place",
    errno.EDQUOT: "the quota of this user, or of the directory, is used up: remove files, or have "
    "it raised",
    errno.EMFILE: "this process cannot open more files: raise the limit, as with ulimit -n 1024",
    errno.ENFILE: "the system cannot open more files: end other programs, or raise its limit",
    errno.ENOMEM: "there is not enough memory: end other programs, or raise the limit (ulimit -v)",
    errno.EIO: "the disk or its connection failed: see the system's log, then run lshdb check",
}


def system_hint(error: OSError) -> str | None:
    """Return a hint for an error of the system, not of the file; None for others."""
    hint = _OF_THE_SYSTEM.get(error.errno or 0)
    if hint and error.errno == errno.ENOMEM and (limit := limit_of_memory()):
        return f"{hint}; {limit}"
    return hint


def limit_of_memory() -> str | None:
    """Return in words how many addresses this process may have; None without a limit."""
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    return f"the limit of this process is {most // 2**20:,} MiB"


_OF_WRITING = {
    errno.EACCES: "changing an index needs write permission for its directory and files",
    errno.EPERM: "the system forbids it whatever the permissions are: a file may be immutable "
    "(lsattr), or the process restricted (a container, SELinux)",
    errno.EROFS: "the file system is mounted read-only: mount it for writing, or lshdb copy the "
    "index to another one",
    errno.EFBIG: "a file may not become so large: raise the limit (ulimit -f), or lshdb copy the "
    "index to a file system for larger files",
}


def write_hint(error: OSError, otherwise: str) -> str:
    """Return a hint for an error in writing to an index; ``otherwise`` if the system says little.

    Parameters
    ----------
    error : OSError
    otherwise : str
        For a full disk, if it is not empty, and for all that has no hint of its own.
    """
    if error.errno == errno.ENOSPC and otherwise:
        return otherwise
    return system_hint(error) or _OF_WRITING.get(error.errno or 0, otherwise)


HIDDEN = "***"
_USER = re.compile(
    # All up to the last "@" of the host's part; a password with a slash in it ends that part early.
    # pathlib leaves one slash of two.
    r"([a-z][a-z0-9+.-]*:/{1,2})(?:([^/?#]*)@|([^\s/?#:\[]*:(?!\d{0,5}(?:[^\w@]|$))\S*)@)",
    re.IGNORECASE,
)
_SETTING = re.compile(r"(?<=[?&;])([^=?&;#\s]+)=[^&#\s]*?(?=[:,.'\")]*(?:[&#\s]|$))")
_SECRET = re.compile(
    r"passw(or)?d|^pass$|^pwd$|passphrase|secret|token|signature|^sig$|credential|api.?key|"
    r"access.?key|^auth",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether the name of a setting in a URL is that of a password, token or signature."""
    from urllib.parse import unquote_plus

    return _SECRET.search(unquote_plus(name)) is not None


def hide_credentials(text: str) -> str:
    """Return a text with ``***`` instead of the credentials of each URL in it.

    Whatever shows, logs or stores where documents come from passes it through here; every message
    of an error does. ``http://user:password@host/a?sig=x`` becomes ``http://***@host/a?sig=***``.
    Behind http, a user's name may be a token. Elsewhere it may be a container, and stays.
    """
    if ":/" not in text:
        return text
    return _SETTING.sub(
        lambda setting: f"{setting[1]}={HIDDEN}" if is_secret(setting[1]) else setting[0],
        _USER.sub(_without_password, text),
    )


def _without_password(url: re.Match[str]) -> str:
    user, colon, _ = (url[2] or url[3] or "").partition(":")
    is_web = url[1].lower().startswith(("http:", "https:"))
    shown = HIDDEN if is_web else f"{user}:{HIDDEN}" if colon else user
    return f"{url[1]}{shown}@"


class LshdbError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    message : str
        What happened, where, and what was expected; one sentence without a full stop.
    hint : str, optional
        What to do next; shown by the command line on a line of its own.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = hide_credentials(message)
        super().__init__(self.message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Let a pool of processes hand it on, whatever its class takes besides a message."""
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(kind: type[LshdbError], args: tuple[object, ...], state: object) -> LshdbError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)  # type: ignore[call-overload]
    return error


class ParameterError(LshdbError):
    """A parameter has a value that cannot be used."""


class IndexNotFoundError(LshdbError):
    """There is no index at that path."""


class IndexExistsError(LshdbError):
    """An index cannot be created where something exists already."""


class IndexChangedError(LshdbError):
    """Another process has banded the index anew since it was opened, or put another in its place.

    An open :class:`lshdb.Index` opens itself again and answers. It raises this only where the index
    changed again meanwhile, or where an iteration that had begun needs the state from before.
    """


class ParameterMismatchError(LshdbError):
    """Two values of one parameter differ.

    Attributes
    ----------
    name : str
        The parameter.
    stored, given : object
        The index's value, and the value that it was compared with.
    """

    def __init__(
        self, message: str, *, name: str, stored: object, given: object, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.name = name
        self.stored = stored
        self.given = given


class FormatError(LshdbError):
    """The index has a format number or schema revision that this version does not read."""


class KeyNotFoundError(LshdbError):
    """No document of the index has that key."""

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key


def no_document(key: str) -> KeyNotFoundError:
    """Return the error for a key that no document of the index has."""
    return KeyNotFoundError(
        f"no document has the key {key!r}",
        key=key,
        hint='keys are compared letter by letter; lshdb sql INDEX "SELECT key FROM document" lists '
        "them",
    )


class UnknownParameterError(ParameterError, TypeError):
    """A function was called with a keyword that it does not take; also a ``TypeError``."""


class TokenizerError(LshdbError):
    """A tokenizer is not installed, cannot be loaded, failed, or returned an invalid token."""


class TextNotStoredError(LshdbError):
    """The call needs the documents' texts, but the index does not store them."""


class SignaturesElsewhereError(LshdbError):
    """The call needs the signature file, which only the host that writes the index has."""


class InputError(LshdbError):
    """A source of documents cannot be read at all."""


class ConflictError(InputError):
    """A key is in the index already, and the call had ``on_conflict="error"``."""

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key


class AllRejectedError(InputError):
    """An add rejected every document that it was given.

    Attributes
    ----------
    result : AddResult
        The add's counts; ``rejections`` holds the first hundred, each with its reason.
    """

    def __init__(self, message: str, *, result: AddResult, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class TooManyRejectedError(InputError):
    """More documents were rejected than ``max_errors`` allows."""


class QueryError(LshdbError):
    """An SQL statement was refused or failed."""


class DatabaseError(LshdbError):
    """The database failed; the driver's error is the cause.

    Attributes
    ----------
    is_passing : bool
        Whether it says nothing about what is stored: a statement was cancelled, a connection was
        lost, or the server ran out of something.
    """

    is_passing = False


class ReadOnlyError(LshdbError):
    """The call has to write to the index, and this user may not, or the file system is read-only.

    Nobody may write to an index whose files have hard links elsewhere. Answers from stored pairs
    raise it if these are not up to date; with ``update=False`` they give what was found before.
    """


class LockedError(LshdbError):
    """Another writer holds the index.

    Attributes
    ----------
    pid : int or None
        The holder's process id, if it could be read.
    since : str or None
        When the holder took the lock, UTC.
    """

    def __init__(
        self,
        message: str,
        *,
        pid: int | None = None,
        since: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid
        self.since = since


class DamageError(LshdbError):
    """Data on disk differs from what was written."""


class LshdbWarning(UserWarning):
    """Base of all warnings."""


class RecallWarning(LshdbWarning):
    """The threshold is lower than the index's own, so only part of the pairs is found."""


class UncheckedWarning(LshdbWarning):
    """Documents that are kept may be near-duplicates: they were too many to compare them all."""


class KernelWarning(LshdbWarning):
    """The compiled kernel does not run; the reference gives the same bits far more slowly."""

    @classmethod
    def without(cls, module: str, error: ImportError) -> KernelWarning:
        """Return the warning that explains why there is no kernel and what to do.

        Parameters
        ----------
        module : str
            The file of a module in the directory where the kernel would be.
        error : ImportError
            The error from importing the kernel.
        """
        folder = os.path.dirname(os.path.abspath(module))
        root = os.path.dirname(os.path.dirname(folder))
        is_checkout = os.path.exists(os.path.join(folder, "module.c"))
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        built = [name for name in names if name.startswith("compiled.") and name[-4:] != ".pyi"]
        if any(name.removeprefix("compiled") in EXTENSION_SUFFIXES for name in built):
            why = f"the compiled kernel in {folder} cannot be imported: {error}"
        elif built:
            why = f"the compiled kernel in {folder} is for another Python: {', '.join(built)}"
        elif is_checkout:
            why = f"the compiled kernel is not built in the checkout {root}"
        else:
            why = f"lshdb was installed in {root} without its compiled kernel"
        mend = f"pip install -e {root}" if is_checkout else "installing lshdb again"
        return cls(f"{why}; signing is tens of times slower. With a C compiler, {mend} builds it")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to lshdb, as a hint of an error.

    The command names what lshdb was installed from, for the packages of an index that have its
    name may be by somebody else. Source: PEP 610.

    Parameters
    ----------
    extra : str
        A name of ``[project.optional-dependencies]``.
    """
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        origin = json.loads(distribution("lshdb").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {"url": f"file://{checkout}", "dir_info": {"editable": True}}
    url = origin.get("url", "")
    if "dir_info" in origin:
        option = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {option}{shlex.quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}"
    package = f"lshdb[{extra}] @ {url}" if url else f"lshdb[{extra}]"
    return f"pip install {shlex.quote(package)}"


_warned: set[str] = set()
_warning = threading.Lock()


def warn_caller(warning: LshdbWarning, *, once: bool = False) -> None:
    """Issue a warning at the line that called the library, however deep the call is.

    Parameters
    ----------
    warning : LshdbWarning
    once : bool
        Show it only once per process, from any thread and line.
    """
    if once:
        with _warning:
            if str(warning) in _warned:
                return
            _warned.add(str(warning))
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lshdb."):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
