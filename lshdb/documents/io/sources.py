"""Find the sources that paths name, in order; all are found before the first is read.

Decided:

- A path that you name must exist and open, or nothing is read: a wrong name is a mistake in the
  command. A file that is only found, in a directory or by a pattern, may be gone or unreadable:
  that is one rejected source among many.
- Sources keep the order of the paths. Files in a directory and matches of a pattern are sorted by
  name, component by component.
- ``folders.py`` says what a walk through a directory takes and leaves out. A pipe that you name
  is read.
- The format follows from the name, the same way everywhere. A file with an unknown extension is
  one text, unless its name or its beginning shows records, markup or binary data
  (``registry.py``). A named file of that kind is a mistake in the command; a found one is
  left out and counted. In a directory of texts every file is one text.
- A key that is a path is the path as it was given, so that a job that adds the same paths every
  night replaces its own documents. ``relative`` and ``strip_prefix`` make keys that do not depend
  on the place from which a tree is added; they never became the default, because keys that change
  make another document of each file.

Limits: the list of all files is held, a few hundred bytes each. A file that two paths lead to is
read twice; within one pattern, once.

:func:`open_single` is for a file that is not a stream of documents. Reading documents goes on with
the next file after damage. Reading there raises an error instead if the file cannot be read to its
end: half of it would give an answer that looks complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from lshdb.arguments import printable
from lshdb.documents.document import (
    BrokenSourceError,
    system_reason,
)
from lshdb.documents.io.dataset_folders import without_descriptions
from lshdb.documents.io.folders import (
    FoundFile,
    Selection,
    WalkCounts,
    WalkOptions,
    candidate,
    holds_texts,
    is_index,
    listing,
    walk,
    without_copies,
)
from lshdb.documents.io.lake_tables import without_stale_files
from lshdb.documents.io.markers import has_marker_name, is_part, marker_of, without_markers
from lshdb.documents.io.misnamed import NOT_COMPRESSED, is_plain, read_head, recognised
from lshdb.documents.io.patterns import expand_pattern, fixed_part, is_pattern
from lshdb.documents.io.remote import find_remote, is_remote
from lshdb.documents.io.source import STDIN, InputFile
from lshdb.documents.registry import (
    BY_COMPRESSION,
    BY_EXTENSION,
    COMPRESSIONS,
    FORMATS,
    INPUT_FORMATS,
)
from lshdb.errors import InputError, ParameterError, install_command

__all__ = [
    "find_sources",
    "open_single",
    "require_decoders",
]


def find_sources(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    fallback: str | None = None,
    has_texts: bool = False,
    options: WalkOptions | None = None,
    counts: WalkCounts | None = None,
    relative: bool = False,
    strip_prefix: str | None = None,
) -> list[InputFile]:
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
    has_texts : bool
        Whether a directory may hold texts whose endings are those of other formats.
    options : WalkOptions, optional
        What is taken from directories.
    counts : WalkCounts, optional
        Filled in with what was left out.
    relative : bool
        Keys are paths relative to ``root``.
    strip_prefix : str, optional
        Keys are paths without these first components.

    Returns
    -------
    list of InputFile
        In the order in which they are to be read.

    Raises
    ------
    InputError
        A path does not exist or cannot be opened, a pattern matches nothing, standard input is
        named twice, a named file looks like an unsupported format, there is a compressed, Parquet
        or Arrow file and no module to read it, or no path begins with ``strip_prefix``.
    ParameterError
        ``paths`` is a single path, ``input_format`` is unknown, or other options cannot be used.
    """
    options = WalkOptions() if options is None else options
    options.check()
    counts = WalkCounts() if counts is None else counts
    is_open = input_format == "auto" and fallback is None
    are_records = not is_open and input_format != "text"
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
    sources: list[InputFile] = []
    jobs: dict[str, bool] = {}
    for path_given in paths:
        path = (
            os.fspath(path_given)
            if isinstance(path_given, str | bytes | os.PathLike)
            else path_given
        )
        if not isinstance(path, str):
            raise ParameterError(f"a path is {path!r}, expected a string")
        if path == STDIN and any(source.is_stdin for source in sources):
            raise InputError(
                "standard input is named twice, but it can be read only once",
                hint="name '-' once; write './-' for a file of that name",
            )
        how = _Walk(
            options, counts, is_open=is_open, has_texts=has_texts, are_records=are_records,
            may_be_records=input_format != "text",
        )  # fmt: skip
        path_sources = without_descriptions(_find(path, how))
        sources += [_with_format(source, input_format, fallback, jobs) for source in path_sources]
    if relative or strip_prefix is not None:
        sources = _renamed(sources, strip_prefix, relative=relative)
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
        count = "holds no file" if not sources else "is more than one file"
        raise InputError(f"{os.fspath(path)} {count}", hint="name one file at a time")
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


def _first_bytes(source: InputFile) -> bytes:
    """Return the first bytes of a file; none if it cannot be read, which reading it reports."""
    from lshdb.documents.io.streams import open_source

    try:
        with open_source(source) as file:
            return read_head(file, is_regular=True)
    except BrokenSourceError:
        return b""


def _recognised(source: InputFile) -> InputFile:
    """Return a named file with its true format; other files are looked at when they are read."""
    if not (source.is_named and source.is_regular) or source.problem is not None:
        return source
    return recognised(source, _first_bytes(source))


def _refuse_other_formats(source: InputFile) -> None:
    """Refuse a file that looks like a format other than its own.

    Raises
    ------
    InputError
    """
    from lshdb.documents.io.streams import Progress, chunks_of, open_source

    try:
        with open_source(source) as file, closing(chunks_of(source, file, Progress(None, 0))) as it:
            first = next(it, b"")
    except BrokenSourceError:
        return  # reading the file reports the error
    look = source.look(first)
    if look is None:
        return
    is_encoded = source.format.is_decoded and not source.is_guessed and b"\0" in first
    if look.is_binary or not is_encoded:  # UTF-16 is looked at when it is read, and decoded
        raise InputError(f"{source.name} looks like {look.what}", hint=look.hint)


class _Walk(NamedTuple):
    """Which files are taken from directories, and their counts.

    ``is_open`` says that the caller leaves formats to the names of files, ``has_texts`` that a
    directory may hold texts whatever the names are, ``are_records`` and ``may_be_records`` what the
    caller says of all files.
    """

    options: WalkOptions
    counts: WalkCounts
    is_open: bool
    has_texts: bool
    are_records: bool
    may_be_records: bool

    def without_markers(self, root: str, files: list[FoundFile]) -> list[FoundFile]:
        """Return files without what jobs leave beside their data."""
        if not self.may_be_records:
            return files
        return without_markers(root, files, self.counts, are_records=self.are_records)


def _find(path: str, how: _Walk) -> list[InputFile]:
    if path == STDIN:
        return [InputFile(STDIN, is_regular=False)]
    if "\0" in path:
        raise _unusable(path, ValueError("no file has a NUL in its name"))
    if is_remote(path):
        remote = find_remote(path, Selection(how.options, how.counts).takes_below)
        files = [FoundFile(file.url, file.size) for file in remote]
        is_one = [file.path for file in files] == [path]
        if not is_one:
            files = _of_records(path, files, how)
        return [
            InputFile(
                file.path,
                size=file.size,
                is_regular=False,
                is_named=is_one,
                is_remote=True,
                archive=remote[0].archive,
            )
            for file in files
        ]
    if is_pattern(path) and not os.path.lexists(path):
        return _matches(path, how)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return _folder(path, listing(path), how)
        return [_named_file(path, status)]
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _unusable(path, error) from error


def _of_records(url: str, files: list[FoundFile], how: _Walk) -> list[FoundFile]:
    """Return the data files below a URL, or that a pattern matches.

    Raises
    ------
    InputError
        It is a Delta table.
    """
    if any(has_marker_name(name) for name in url.split("/")):
        return files
    root = fixed_part(url)
    records = how.without_markers(root if "*" in url else url, files)
    if len(records) < len(files) and any("/_delta_log/" in file.path for file in files):
        raise InputError(
            f"{printable(url)} is a Delta table, whose log is read only on this machine",
            hint="copy the table to a folder, or write it as Parquet with the program that made it",
        )
    return records


def _name_meant(path: str) -> str | None:
    """Return a hint at a file beside a path that is not there, if its name is nearly the same."""
    import difflib

    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        names = {known.casefold(): known for known in os.listdir(folder or os.curdir)}
        for near in difflib.get_close_matches(name.strip().casefold(), names, n=1, cutoff=0.85):
            return f"did you mean {printable(os.path.join(folder, names[near]))}?"
    return None


def _unusable(path: str, error: OSError | ValueError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(
            f"{printable(path)}: no such file or directory",
            hint=_name_meant(path)
            or "check the path; a relative path starts at the current directory",
        )
    reason = system_reason(error) if isinstance(error, OSError) else str(error)
    return InputError(
        f"{printable(path)}: cannot be opened: {reason}",
        hint="check the path and its permissions",
    )


def _named_file(path: str, status: os.stat_result) -> InputFile:
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISSOCK(status.st_mode):
            raise _os_error(errno.ENXIO)
        if not os.access(path, os.R_OK):  # opening a pipe only to try it would end its writer
            raise _os_error(errno.EACCES)
        return _checked(
            InputFile(path, is_regular=False, is_named=True, root=os.path.dirname(path))
        )
    with open(path, "rb", buffering=0):
        source = InputFile(path, size=status.st_size, is_named=True, root=os.path.dirname(path))
        return _checked(source)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _checked(source: InputFile) -> InputFile:
    try:
        source.path.encode("utf-8")
    except UnicodeEncodeError:
        return replace(source, size=0, problem="the name of the file is not valid UTF-8")
    return source


def _with_format(
    source: InputFile, input_format: str, fallback: str | None, jobs: dict[str, bool]
) -> InputFile:
    """Return a source with its format.

    Parameters
    ----------
    jobs : dict of str to bool
        Which folders were looked at, and whether a job has written to them.
    """
    compression = ""
    if source.is_stdin:
        by_extension = fallback or "jsonl"
    else:
        stem, extension = os.path.splitext(source.own_path)
        compression = BY_COMPRESSION.get(extension.lower(), "")
        if compression:
            extension = os.path.splitext(stem)[1]
        by_extension = BY_EXTENSION.get(extension.lower(), fallback or "text")
    if source.of_texts:
        by_extension = "text"
    elif by_extension == "json" and not source.is_remote and is_part(source.path, jobs):
        by_extension = "jsonl"  # of one row, perhaps, which under JSON's name is a program's file
    chosen = by_extension if input_format == "auto" else input_format
    problem = source.problem
    misnamed = ""
    if problem is None and FORMATS[chosen].from_end:
        if compression and source.is_regular and is_plain(compression, _first_bytes(source)):
            compression, misnamed = "", NOT_COMPRESSED
        problem = _unseekable(source, compression)
    if problem is None and not source.is_named and FORMATS[chosen].lacks_library():
        problem = f"needs {FORMATS[chosen].library}: {install_command('bib')}"
    return replace(
        source,
        problem=problem,
        input_format=chosen,
        compression=compression,
        misnamed=misnamed,
        is_guessed=chosen == "text" and input_format == "auto" and not source.of_texts,
        is_by_name=input_format == "auto" and not source.is_stdin and not source.of_texts,
    )


def _unseekable(source: InputFile, compression: str) -> str | None:
    """Return why a file whose format is read from its end cannot be read that way."""
    if compression:
        return "is compressed, but this format is read from its end: decompress it first"
    if not source.is_regular and not source.is_remote:
        return "is a pipe, but this format is read from its end: write it to a file first"
    return None


def require_decoders(sources: Sequence[InputFile]) -> None:
    """Refuse files that no module can read here.

    Raises
    ------
    InputError
    """
    needed: dict[str, InputFile] = {}
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
                hint="pip install zstandard"
                if name == "zst"
                else "this Python was built without it; decompress the file first",
            ) from error
    for source in needed.values():
        if source.format.lacks_library():
            raise InputError(
                f"{source.name}: reading {source.input_format} needs {source.format.library}, "
                "which is not installed",
                hint=install_command("bib"),
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
                hint=install_command("parquet"),
            ) from error


def _folder(path: str, entries: list[os.DirEntry[str]], how: _Walk) -> list[InputFile]:
    """Return the files below a directory.

    Raises
    ------
    OSError
        Its ``.gitignore`` cannot be read.
    """
    every = list(walk(path, entries, how.options, how.counts))
    files = how.without_markers(path, every)
    of_texts = how.is_open and holds_texts(
        path, [file.path for file in files], how.counts, may=how.has_texts,
        is_of_job=len(files) < len(every),
    )  # fmt: skip
    if not of_texts and how.may_be_records:
        files = without_stale_files(path, files, how.counts)
    return [_found_source(file, path, of_texts=of_texts) for file in files]


def _found_source(file: FoundFile, root: str, *, of_texts: bool = False) -> InputFile:
    source = InputFile(file.path, file.size, problem=file.problem, root=root, of_texts=of_texts)
    return source if file.problem is not None else _checked(source)


def _matches(pattern: str, how: _Walk) -> list[InputFile]:
    """Return the files that a pattern matches, and those in directories that it matches.

    Raises
    ------
    InputError
        That is nothing.
    """
    root = fixed_part(pattern)
    selection = Selection(how.options, how.counts)
    sources: dict[str, InputFile] = {}
    files = []
    marked = []
    names_markers = any(map(has_marker_name, pattern.split(os.sep)))
    n_left_out = how.counts.left_out.total()
    for path in sorted(expand_pattern(pattern), key=_by_component):
        try:
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
            entries = listing(path) if is_folder else []
            if not selection.takes_match(path, is_folder=is_folder):
                continue
            if is_folder and is_index(entries):
                how.counts.leave("indexes")
            elif is_folder and not names_markers and marker_of(path, root) is not None:
                marked.append((path, entries))
            elif is_folder:
                folder_sources = _folder(path, entries, how)
                sources.update((match.path, replace(match, root=root)) for match in folder_sources)
            elif (match := candidate(path)) is not None:
                files.append(match)
        except OSError as error:
            problem = f"cannot be read: {system_reason(error)}"
            sources[path] = InputFile(path, problem=problem, root=root)
    loose = list(without_copies(files, how.counts))
    if not names_markers:
        inside = [
            match
            for path, entries in marked
            for match in walk(path, entries, how.options, WalkCounts())
        ]
        beside = [FoundFile(path) for path in sources if marker_of(path, root) is None]
        data = how.without_markers(root, beside + loose + inside)[len(beside) :]
        is_text = len(data) == len(loose) + len(inside)
        for path, entries in marked if is_text else ():
            folder_sources = _folder(path, entries, how)
            sources.update((match.path, replace(match, root=root)) for match in folder_sources)
        loose = loose if is_text else data
    if how.may_be_records:
        loose = without_stale_files(root, loose, how.counts)
    for file in loose:
        sources[file.path] = _found_source(file, root)
    if not sources and how.counts.left_out.total() == n_left_out:
        raise InputError(
            f"{printable(pattern)}: no file matches this pattern",
            hint="'*' stays within one directory, '**' goes into all below it; only a pattern that "
            "begins with a dot matches names that begin with one",
        )
    return sorted(sources.values(), key=lambda source: _by_component(source.path))


def _by_component(path: str) -> list[str]:
    return path.split(os.sep)


def _renamed(
    sources: list[InputFile], strip_prefix: str | None, *, relative: bool
) -> list[InputFile]:
    """Give sources the keys that the caller asked for.

    Raises
    ------
    ParameterError
        Both ways are asked for.
    InputError
        No path begins with the prefix.
    """
    if relative and strip_prefix is not None:
        raise ParameterError(
            "relative and strip_prefix both say what keys are relative to", hint="give one of them"
        )
    if relative:
        return [
            source if source.is_stdin else _relative_to(source, source.root or os.curdir)
            for source in sources
        ]
    prefix = os.path.normpath(strip_prefix or os.curdir)
    renamed = [
        _relative_to(source, prefix)
        if not source.is_stdin and _is_below(source.path, prefix)
        else source
        for source in sources
    ]
    if sources and not any(source.given_key for source in renamed):
        raise InputError(
            f"no path begins with {printable(prefix)}, which keys are to be stripped of; the first "
            f"is {sources[0].name}",
            hint="give the beginning of the paths as they are in the command",
        )
    return renamed


def _is_below(path: str, folder: str) -> bool:
    return os.path.normpath(path).startswith(folder.rstrip(os.sep) + os.sep)


def _relative_to(source: InputFile, folder: str) -> InputFile:
    path = os.path.normpath(source.path)
    folder = os.path.normpath(folder)
    if folder != os.curdir:
        path = path[len(folder.rstrip(os.sep)) + 1 :]
    return replace(source, given_key=path.replace(os.sep, "/"))
