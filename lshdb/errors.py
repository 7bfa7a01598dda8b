"""The tree of errors: every failure a caller may want to tell apart has a class here.

Each error says what happened and where, what was expected, and carries a hint: what to do next.
Anything that is not an ``LshdbError`` is a bug in lshdb (or the machine is out of memory or disk).

    LshdbError
    ├── ParameterError          a parameter has a value that cannot be used
    ├── IndexNotFoundError      there is no index at that path
    ├── IndexExistsError        there is something at that path already
    ├── ParameterMismatchError  the index was made with other parameters than asked for
    ├── FormatError             the index has a format or schema this version does not read
    ├── KeyNotFoundError        no document has that key
    ├── TokenizerError          the index's tokenizer is not installed, or failed
    ├── TextNotStoredError      the question needs texts and the index was made without them
    ├── SignaturesElsewhereError   it needs signatures, and they lie on the host that writes
    ├── InputError              a source of documents cannot be read at all
    │   ├── AllRejectedError    of the documents that were given none was accepted
    │   ├── ConflictError       a key is there already and the caller asked for an error
    │   └── TooManyRejectedError   more documents were rejected than the caller allows
    ├── QueryError              an SQL statement was refused or failed
    ├── DatabaseError           the database failed while it was being used
    ├── LockedError             another writer holds the index
    └── DamageError             what is on disk is not what was written

What is worth knowing and stops nothing is a warning, which Python's ``warnings`` shows once for
each place that it comes from, and which its filters turn into errors or leave out:

    UserWarning
    └── LshdbWarning
        ├── RecallWarning       less is asked for than the index was made to find
        └── KernelWarning       the compiled kernel does not run, and signing is slow
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lshdb.ingest.pipeline import AddResult

__all__ = [
    "AllRejectedError",
    "ConflictError",
    "DamageError",
    "DatabaseError",
    "FormatError",
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
    "RecallWarning",
    "SignaturesElsewhereError",
    "TextNotStoredError",
    "TokenizerError",
    "TooManyRejectedError",
    "system_hint",
    "warn_caller",
]

_OF_THE_SYSTEM = {
    errno.EMFILE: "this process may not open more files: raise the limit, as with ulimit -n 1024",
    errno.ENFILE: "the system may not open more files: end other programs, or raise its limit",
    errno.ENOMEM: "there is not enough memory: end other programs, or raise the limit (ulimit -v)",
    errno.EIO: "the disk or the way to it failed: see the system's log; then run lshdb check",
}


def system_hint(error: OSError) -> str | None:
    """What to do about an error that says nothing of the file itself; None for any other."""
    return _OF_THE_SYSTEM.get(error.errno or 0)


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
        super().__init__(message)
        self.message = message
        self.hint = hint


class ParameterError(LshdbError):
    """A parameter has a value that cannot be used."""


class IndexNotFoundError(LshdbError):
    """There is no index at that path."""


class IndexExistsError(LshdbError):
    """An index was to be made where something is already."""


class ParameterMismatchError(LshdbError):
    """Two statements of one parameter differ.

    Attributes
    ----------
    name : str
        The parameter.
    stored, given : object
        What the index says, and what it was compared with.
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


class TokenizerError(LshdbError):
    """A tokenizer is not installed, cannot be loaded, failed, or gave what is no token."""


class TextNotStoredError(LshdbError):
    """The question needs the documents' texts and the index was made without them."""


class SignaturesElsewhereError(LshdbError):
    """It needs the signature file, which lies on the host that writes the index, and not here."""


class InputError(LshdbError):
    """A source of documents cannot be read at all."""


class ConflictError(InputError):
    """A key is in the index already, and ``on_conflict="error"`` was asked for."""

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key


class AllRejectedError(InputError):
    """Documents were given to an add, and none of them was accepted.

    Attributes
    ----------
    result : AddResult
        What the add counted; its ``rejections`` are the first hundred, with the reason of each.
    """

    def __init__(self, message: str, *, result: AddResult, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class TooManyRejectedError(InputError):
    """More documents were rejected than ``max_errors`` allows."""


class QueryError(LshdbError):
    """An SQL statement was refused or failed."""


class DatabaseError(LshdbError):
    """The database failed; the driver's error is the cause."""


class LockedError(LshdbError):
    """Another writer holds the index.

    Attributes
    ----------
    pid : int or None
        The holder's process id, where it could be read.
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
    """What is on disk is not what was written."""


class LshdbWarning(UserWarning):
    """Base of all warnings."""


class RecallWarning(LshdbWarning):
    """A threshold lets in more than the index was made for: it finds few of such pairs."""


class KernelWarning(LshdbWarning):
    """The compiled kernel does not run; the reference gives the same bits, far more slowly."""

    @classmethod
    def without(cls, module: str, error: ImportError) -> KernelWarning:
        """The warning that says why there is no kernel, and what to do.

        Parameters
        ----------
        module : str
            The file of a module that the kernel lies beside, where it was built.
        error : ImportError
            What came of importing it.
        """
        folder = os.path.dirname(os.path.abspath(module))
        root = os.path.dirname(os.path.dirname(folder))
        is_checkout = os.path.exists(os.path.join(folder, "kernel", "module.c"))
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        built = [name for name in names if name.startswith("_kernels.") and name[-4:] != ".pyi"]
        if any(name.removeprefix("_kernels") in EXTENSION_SUFFIXES for name in built):
            why = f"the compiled kernel in {folder} cannot be imported: {error}"
        elif built:
            why = f"the compiled kernel in {folder} is for another Python: {', '.join(built)}"
        elif is_checkout:
            why = f"the compiled kernel is not built in the checkout {root}"
        else:
            why = f"lshdb was installed in {root} without its compiled kernel"
        mend = f"pip install -e {root}" if is_checkout else "installing lshdb again"
        return cls(
            f"{why}; signing is tens of times slower. With a C compiler there, {mend} builds it"
        )


_warned: set[str] = set()
_warning = threading.Lock()


def warn_caller(warning: LshdbWarning, *, once: bool = False) -> None:
    """Issue a warning at the line that called the library, whatever lies between.

    Parameters
    ----------
    warning : LshdbWarning
    once : bool
        Once a process, from whichever thread and line it comes.
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
