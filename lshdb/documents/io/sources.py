"""Find the sources that paths name, in order; all are found before the first is read.

Decided:

- A path that you name must exist and open, or nothing is read: a wrong name is a mistake in the
  command. A file that is only found, in a directory or by a pattern, may be gone or unreadable:
  that is one rejected source among many.
- Sources keep the order of the paths. Files in a directory and matches of a pattern are sorted by
  name, component by component.
- Walking a directory skips names that begin with a dot, symbolic links to directories (so there
  are no loops), sockets, pipes, devices and indexes. A pipe that you name is read.
- The format follows from the name, the same way everywhere. A file with an unknown extension is
  one text, unless its name or its beginning shows records, markup or binary data
  (``formats/registry.py``). A named file of that kind is a mistake in the command; a found one is a
  rejected source.

Limits: the list of all files is held, a few hundred bytes each. A file that two paths lead to is
read twice; within one pattern, once.

Patterns (``*``, ``?``, ``[...]`` and ``**``) do not use ``glob.glob``, because its ``**`` follows
symbolic links to directories: one link to a parent makes it list every file forty times, two make
it run for ever. Here ``**`` stands for any number of directories that are not links. A link that a
plain component matches is followed, as in a shell. Only a component that begins with a dot matches
names that begin with one. A directory that cannot be listed matches nothing.

:func:`open_single` is for a file that is not a stream of documents. Reading documents goes on with
the next file after damage. Reading there raises an error instead if the file cannot be read to its
end: half of it would give an answer that looks complete.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from lshdb.documents.document import BrokenSourceError, printable, system_reason
from lshdb.documents.formats.registry import (
    BY_COMPRESSION,
    BY_EXTENSION,
    COMPRESSIONS,
    FORMATS,
    HEAD,
    INPUT_FORMATS,
    Format,
    Look,
    by_name,
    look_at,
)
from lshdb.documents.io.dataset_folders import without_descriptions
from lshdb.errors import InputError, ParameterError

__all__ = [
    "STDIN",
    "Source",
    "expand_pattern",
    "find_sources",
    "open_single",
    "require_decoders",
]

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
    seen: set[tuple[str, int]] = set()
    stack = [(root, 0)]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
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
        if not entry.name.startswith(".") and _is_directory(entry, follow_symlinks=False)
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


STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read, or standard input.

    Attributes
    ----------
    path : str
        The path, or ``-``.
    size : int
        Bytes on disk; 0 when unknown.
    is_regular : bool
        Whether it can be opened twice and has a size.
    problem : str or None
        Why it cannot be read, if that is known beforehand.
    input_format : str
        A name in ``FORMATS``.
    compression : str
        A name in ``COMPRESSIONS``, or empty.
    is_named : bool
        Whether the caller gave this very path.
    is_guessed : bool
        Whether it is read as one text only because its extension is unknown.
    is_by_name : bool
        Whether its extension says the format.
    misnamed : str
        What it is, if its first bytes say something other than its name: "gzip-compressed".
    """

    path: str
    size: int = 0
    is_regular: bool = True
    problem: str | None = None
    input_format: str = "text"
    compression: str = ""
    is_named: bool = False
    is_guessed: bool = False
    is_by_name: bool = False
    misnamed: str = ""

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == STDIN

    @property
    def name(self) -> str:
        """The path as messages show it."""
        return "<stdin>" if self.is_stdin else printable(self.path)

    @property
    def format(self) -> Format:
        """The entry of its format."""
        return FORMATS[self.input_format]

    @property
    def key(self) -> str:
        """The key of the document, if the source is one text."""
        return STDIN if self.is_stdin else os.path.normpath(self.path).replace(os.sep, "/")

    def look(self, head: bytes) -> Look | None:
        """Return what the file looks like if it differs from its format, else None.

        Parameters
        ----------
        head : bytes
            The first ``HEAD`` bytes, decompressed; fewer if the file is shorter.
        """
        if self.format.has_rows:
            return None
        found = look_at(head[:HEAD])
        begins = self.format.begins
        is_other = begins is not None and not begins.match(head.removeprefix(BOM_UTF8).lstrip())
        if self.is_guessed or (is_other and self.is_by_name):
            return found or by_name(self.path)
        return found if found is not None and found.is_binary else None


def find_sources(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    fallback: str | None = None,
) -> list[Source]:
    """Resolve paths, directories and patterns.

    Parameters
    ----------
    paths : sequence of str or path-like
        ``-``, files, directories and patterns.
    input_format : str
        One of ``INPUT_FORMATS``.
    fallback : str, optional
        The format that ``auto`` takes for an unknown extension; by default ``text`` for a file
        and ``jsonl`` for standard input.

    Returns
    -------
    list of Source
        In the order in which they are to be read.

    Raises
    ------
    InputError
        A path does not exist or cannot be opened, a pattern matches nothing, standard input is
        named twice, a named file looks like an unsupported format, or there is a compressed,
        Parquet or Arrow file and no module to read it.
    ParameterError
        ``paths`` is a single path, or ``input_format`` is unknown.
    """
    is_one = isinstance(paths, str | bytes | os.PathLike | Mapping)
    if is_one or not isinstance(paths, Iterable):
        raise ParameterError(
            f"paths is one {type(paths).__name__}, expected a sequence of paths",
            hint="put the path into a list",
        )
    if fallback is not None and fallback not in FORMATS:
        raise ParameterError(f"fallback is {fallback!r}, expected one of {', '.join(FORMATS)}")
    if input_format not in INPUT_FORMATS:
        raise ParameterError(
            f"input_format is {input_format!r}, expected one of {', '.join(INPUT_FORMATS)}",
            hint="'auto' chooses by the extension of each file",
        )
    sources: list[Source] = []
    for given in paths:
        path = os.fspath(given) if isinstance(given, str | bytes | os.PathLike) else given
        if not isinstance(path, str):
            raise ParameterError(f"a path is {path!r}, expected a string")
        if path == STDIN and any(source.is_stdin for source in sources):
            raise InputError(
                "standard input is named twice, but it can be read only once",
                hint="name '-' once; write './-' for a file of that name",
            )
        found = without_descriptions(_find(path))
        sources += [_with_format(source, input_format, fallback) for source in found]
    sources = [_recognised(source) for source in sources]
    require_decoders(sources)
    for source in sources:
        if source.is_named and source.is_regular and source.problem is None:
            _refuse_other_formats(source)
    return sources


@contextmanager
def open_single(
    path: str | os.PathLike[str], *, input_format: str
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Open exactly one file, plain or compressed, or standard input.

    Parameters
    ----------
    path : path-like
        Plain or compressed; ``-`` for standard input.
    input_format : str
        One of ``INPUT_FORMATS``.

    Yields
    ------
    str
        The file's name as messages show it.
    iterator of bytes
        Its decompressed chunks.

    Raises
    ------
    InputError
        The path names no file or several, or the file cannot be read to its end; the chunks
        before that point have been yielded.
    """
    from lshdb.documents.io.streams import Progress, chunks_of, open_source

    sources = find_sources([path], input_format=input_format)
    if len(sources) != 1:
        found = "holds no file" if not sources else "is more than one file"
        raise InputError(f"{os.fspath(path)} {found}", hint="name one file at a time")
    [source] = sources
    if source.problem is not None:
        raise InputError(f"{source.name}: {source.problem}")
    stdin = getattr(sys.stdin, "buffer", None) if source.is_stdin else None
    if source.is_stdin and (stdin is None or stdin.closed):
        raise InputError(
            "standard input is closed", hint="name a file instead of '-', or pipe something in"
        )
    try:
        with (
            nullcontext(stdin) if stdin is not None else open_source(source) as file,
            closing(chunks_of(source, file, Progress(None, 0))) as chunks,
        ):
            yield source.name, chunks
    except BrokenSourceError as error:
        where = "" if error.line is None else f", at about line {error.line}"
        raise InputError(
            f"{source.name} {error.reason}{where}; only the part before that was read",
            hint="restore the file and start again",
        ) from error


def _recognised(source: Source) -> Source:
    """Return a named file as what it is; others when their turn comes."""
    from lshdb.documents.io.misnamed import read_head, recognised
    from lshdb.documents.io.streams import open_source

    if not (source.is_named and source.is_regular) or source.problem is not None:
        return source
    try:
        with open_source(source) as file:
            return recognised(source, read_head(file, is_regular=True))
    except BrokenSourceError:
        return source  # reading the file reports the error


def _refuse_other_formats(source: Source) -> None:
    """Refuse a file that looks like a format other than its own.

    Raises
    ------
    InputError
    """
    from lshdb.documents.io.streams import Progress, chunks_of, open_source

    try:
        with open_source(source) as file, closing(chunks_of(source, file, Progress(None, 0))) as it:
            look = source.look(next(it, b""))
    except BrokenSourceError:
        return  # reading the file reports the error
    if look is not None:
        raise InputError(f"{source.name} looks like {look.what}", hint=look.hint)


def _find(path: str) -> list[Source]:
    if path == STDIN:
        return [Source(STDIN, is_regular=False)]
    if "\0" in path:
        raise _unusable(path, ValueError("no file has a NUL in its name"))
    if _MAGIC.intersection(path) and not os.path.lexists(path):
        return _matches(path)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return list(_walk(path, _listing(path)))
        return [_named_file(path, status)]
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _unusable(path, error) from error


def _unusable(path: str, error: OSError | ValueError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(
            f"{printable(path)}: no such file or directory",
            hint="check the path; a relative path starts at the current directory",
        )
    reason = system_reason(error) if isinstance(error, OSError) else str(error)
    return InputError(
        f"{printable(path)}: cannot be opened: {reason}",
        hint="check the path and its permissions",
    )


def _named_file(path: str, status: os.stat_result) -> Source:
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISSOCK(status.st_mode):
            raise _os_error(errno.ENXIO)
        if not os.access(path, os.R_OK):  # opening a pipe only to try it would end its writer
            raise _os_error(errno.EACCES)
        return _checked(Source(path, is_regular=False, is_named=True))
    with open(path, "rb", buffering=0):
        return _checked(Source(path, size=status.st_size, is_named=True))


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _found_file(path: str) -> Source | None:
    """Return a file in a directory; None unless it is a regular file."""
    try:
        status = os.stat(path)
    except OSError as error:
        return Source(path, problem=f"cannot be read: {system_reason(error)}")
    if not stat.S_ISREG(status.st_mode):
        return None
    return _checked(Source(path, size=status.st_size))


def _checked(source: Source) -> Source:
    try:
        source.path.encode("utf-8")
    except UnicodeEncodeError:
        return replace(source, size=0, problem="the name of the file is not valid UTF-8")
    return source


def _with_format(source: Source, input_format: str, fallback: str | None) -> Source:
    compression = ""
    if source.is_stdin:
        by_extension = fallback or "jsonl"
    else:
        stem, extension = os.path.splitext(source.path)
        compression = BY_COMPRESSION.get(extension.lower(), "")
        if compression:
            extension = os.path.splitext(stem)[1]
        by_extension = BY_EXTENSION.get(extension.lower(), fallback or "text")
    chosen = by_extension if input_format == "auto" else input_format
    problem = source.problem
    if problem is None and FORMATS[chosen].from_end:
        problem = _unseekable(source, compression)
    if problem is None and not source.is_named and FORMATS[chosen].lacks_library():
        problem = f"needs {FORMATS[chosen].library}: pip install 'lshdb[bib]'"
    return replace(
        source,
        problem=problem,
        input_format=chosen,
        compression=compression,
        is_guessed=chosen == "text" and input_format == "auto",
        is_by_name=input_format == "auto" and not source.is_stdin,
    )


def _unseekable(source: Source, compression: str) -> str | None:
    """Return why a file whose format is read from its end cannot be read that way."""
    if compression:
        return "is compressed, but this format is read from its end: decompress it first"
    if not source.is_regular:
        return "is a pipe, but this format is read from its end: write it to a file first"
    return None


def require_decoders(sources: Sequence[Source]) -> None:
    """Refuse files that no module can read here.

    Raises
    ------
    InputError
    """
    needed: dict[str, Source] = {}
    for source in sources:
        if source.problem is None:
            needed.setdefault(source.compression, source)
            needed.setdefault(source.input_format, source)
    for name in COMPRESSIONS.keys() & needed.keys():
        from lshdb.documents.io.streams import load_decompressor

        try:
            load_decompressor(name)
        except ImportError as error:
            raise InputError(
                f"{needed[name].name}: no module to read {COMPRESSIONS[name].title} files is "
                "installed",
                hint="pip install backports.zstd"
                if name == "zst"
                else "this Python was built without it; decompress the file first",
            ) from error
    for source in needed.values():
        if source.format.lacks_library():
            raise InputError(
                f"{source.name}: reading {source.input_format} needs {source.format.library}, "
                "which is not installed",
                hint="pip install 'lshdb[bib]'",
            )
    of_arrow = next((source for source in needed.values() if source.format.needs_arrow), None)
    if of_arrow is not None:
        from lshdb.documents.io.streams import load_arrow

        try:
            load_arrow()
        except ImportError as error:
            raise InputError(
                f"{of_arrow.name}: reading {of_arrow.input_format.capitalize()} needs pyarrow, "
                "which cannot be loaded",
                hint="pip install 'lshdb[parquet]'",
            ) from error


def _listing(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _is_index(listing: list[os.DirEntry[str]]) -> bool:
    """Return whether a directory is an index of lshdb, judged by its files."""
    return {"index.toml", "lock", "signatures.npy"} <= {entry.name for entry in listing}


def _walk(root: str, listing: list[os.DirEntry[str]]) -> Iterator[Source]:
    """Yield the files below a directory; one that cannot be listed is a source with a problem."""
    stack = [(root, iter(listing))]  # no recursion: trees may be deeper than Python's limit
    while stack:
        parent, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        if entry.name.startswith("."):
            continue
        path = os.path.join(parent, entry.name)
        try:
            if entry.is_dir(follow_symlinks=False):
                found = _listing(path)
                if not _is_index(found):
                    stack.append((path, iter(found)))
                continue
        except OSError as error:
            yield Source(path, problem=f"cannot be listed: {system_reason(error)}")
            continue
        source = _found_file(path)
        if source is not None:
            yield source


def _matches(pattern: str) -> list[Source]:
    sources: dict[str, Source] = {}
    for path in expand_pattern(pattern):
        try:
            is_directory = stat.S_ISDIR(os.lstat(path).st_mode)
            listing = _listing(path) if is_directory else []
            if _is_index(listing):
                continue
            found = _walk(path, listing) if is_directory else iter([_found_file(path)])
        except OSError as error:
            found = iter([Source(path, problem=f"cannot be read: {system_reason(error)}")])
        sources.update((source.path, source) for source in found if source is not None)
    if not sources:
        raise InputError(
            f"{printable(pattern)}: no file matches this pattern",
            hint="'*' stays within one directory, '**' goes into all below it; only a pattern that "
            "begins with a dot matches names that begin with one",
        )
    return sorted(sources.values(), key=lambda source: source.path.split(os.sep))
