"""Which files a rewrite reads, and where each output goes; nothing is written here.

In a folder, outputs have the paths of their inputs, from the deepest folder on that holds them all.
Whatever can be refused by names and places is refused here: inputs that cannot be written again,
outputs that are there, that are inputs, or that lie among the inputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lshdb.arguments import check_folder_name, printable, refuse_url
from lshdb.documents.document import MAX_DOCUMENT_BYTES, Fields, shown_paths
from lshdb.documents.formats.passthrough import open_records
from lshdb.documents.io.dataset_folders import descriptions_of
from lshdb.documents.io.encodings import find_encoding
from lshdb.documents.io.folders import WalkCounts, WalkOptions
from lshdb.documents.io.source import STDIN, InputFile
from lshdb.documents.io.sources import find_sources
from lshdb.documents.registry import BY_COMPRESSION, BY_EXTENSION, PASSED_FORMATS
from lshdb.errors import InputError, LshdbError, ParameterError
from lshdb.files.whole_files import STDOUT, check_target, require_folder_of

__all__ = ["field_names", "find_files", "lacks_field", "plan_outputs"]


def find_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    folders: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[InputFile, str]], int]:
    """Find files of records.

    Parameters
    ----------
    paths : sequence of path-like
    input_format : str
    folders : mapping, optional
        Fields of ``WalkOptions``, ``relative`` and ``strip_prefix``, for ``find_sources``.

    Returns
    -------
    list of (InputFile, str)
        Each with the folder that its output's path starts from.
    int
        How many files of folders and patterns are left out, because they are of other formats.

    Raises
    ------
    InputError
        A path cannot be read, or is of a format that cannot be written.
    """
    files = []
    left_out = 0
    how = dict(folders or {})
    naming = {name: how.pop(name) for name in ("relative", "strip_prefix") if name in how}
    counts = WalkCounts()
    options = WalkOptions(**how)
    for path_given in paths:
        path = os.fspath(path_given)
        if path == STDIN:
            raise InputError(
                "standard input cannot be written again with --output: it takes two passes",
                hint="write it to a file first",
            )
        sources = find_sources(
            [path], input_format=input_format, options=options, counts=counts, **naming
        )
        for source in sources:
            if source.is_empty and source.format.has_rows:
                counts.leave("empty")
                continue
            if source.problem is None and source.input_format not in PASSED_FORMATS:
                if not source.is_named:
                    left_out += 1
                    continue
                raise InputError(
                    f"{source.name} is not of a format that can be written again",
                    hint=f"expected {', '.join(PASSED_FORMATS)}; if it is of one of them, name it "
                    "with --input",
                )
            if source.problem is not None:
                raise InputError(f"{source.name}: {source.problem}")
            if source.is_remote:
                raise InputError(
                    f"{source.name} is elsewhere, and only files of this machine are written again",
                    hint="copy it to a folder first",
                )
            if not source.is_regular:
                raise InputError(
                    f"{source.name} is a pipe, and files are read twice",
                    hint="write it to a file first",
                )
            base = path.partition("*")[0].partition("?")[0].partition("[")[0]
            if source.is_named or not os.path.isdir(path):
                base = os.path.dirname(source.path if source.is_named else base)
            files.append((source, os.path.abspath(base)))
    if not files:
        shown = shown_paths(paths)
        n_left_out = left_out + counts.left_out.total()
        if not n_left_out:
            raise InputError(f"no file in {shown}", hint="check the path")
        reasons = f" ({counts})" if counts.left_out.total() else ""
        expected = f"expected {', '.join(PASSED_FORMATS)}"
        raise InputError(
            f"no file of records in {shown}; {n_left_out:,} files and folders were left out"
            + reasons,
            hint="; ".join(filter(None, [counts.advice(), expected])),
        )
    return files, left_out + counts.left_out.total()


def lacks_field(
    sources: Sequence[InputFile],
    name: str,
    *,
    delimiter: str | None,
    encoding: str | None,
    quote: str | None,
    limit: int,
) -> bool:
    """Return whether any of some files has no field of that name, by its first record.

    Raises
    ------
    InputError
        A file cannot be read, or has no header.
    ParameterError
        There is no such encoding, delimiter or quote.
    """
    codec = None if encoding is None else find_encoding(encoding)
    fields = Fields(row_keys=True, delimiter=delimiter, encoding=codec, quote=quote)
    fields.check()
    for source in sources:
        with open_records(source, fields, limit) as file:
            names = file.names()
            if names and name not in names:
                return True
    return False


def field_names(path: str) -> list[str]:
    """Return the fields of the first record of a file.

    Raises
    ------
    InputError
        It cannot be read, is of no format that has records, or has no header.
    """
    ((source, _), *_), _ = find_files([path])
    fields = Fields(row_keys=True)
    fields.check()
    with open_records(source, fields, MAX_DOCUMENT_BYTES) as file:
        return [*file.names()]


def plan_outputs(
    paths: Sequence[str | os.PathLike[str]],
    output: str,
    input_format: str,
    *,
    overwrite: bool,
    folders: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[InputFile, str]], list[tuple[str, str]], int]:
    """Return the files to read, and where each is written.

    Returns
    -------
    list of (InputFile, str)
        Files of records, and their outputs.
    list of (str, str)
        What describes them, and its outputs.
    int
        How many files are left out.

    Raises
    ------
    InputError
        A file cannot be read, or is of a format that cannot be written.
    ParameterError
        An output is an input, or the outputs cannot be told apart.
    LshdbError
        An output is there already.
    """
    files, left_out = find_files(paths, input_format=input_format, folders=folders)
    root = os.path.commonpath([base for _, base in files])
    if _is_folder(output, [source for source, _ in files]):
        _refuse_within(output, paths)
        described = [
            path
            for path in descriptions_of(source.path for source, _ in files)
            if os.path.commonpath([path, root]) == root
        ]
        plan = [(source, _below(output, source.path, root)) for source, _ in files]
        descriptions = [(path, _below(output, path, root)) for path in described]
    else:
        plan, descriptions = [(files[0][0], output)], []
    _refuse_inputs(plan)
    for _, target in [*plan, *descriptions]:
        if target != STDOUT:
            folder = os.path.dirname(os.path.abspath(target))
            _refuse_index(folder, target)
            if os.path.isdir(folder):
                require_folder_of(target)
            check_target(target, overwrite=overwrite)
    return plan, descriptions, left_out


def _refuse_index(folder: str, target: str) -> None:
    if os.path.exists(os.path.join(folder, "index.toml")):
        raise ParameterError(
            f"{printable(target)} lies inside the index {printable(folder)}, which holds only its "
            "own files",
            hint="give a path outside it",
        )


def _below(output: str, path: str, root: str) -> str:
    return os.path.join(output, os.path.relpath(os.path.abspath(path), root))


def _is_folder(output: str, sources: list[InputFile]) -> bool:
    """Return whether an output is a folder, and not the one file to write."""
    if not output:
        raise ParameterError("the output has no name", hint="name a folder or a file")
    refuse_url(output)
    if output == STDOUT and len(sources) == 1:
        return False
    if output != STDOUT and (output.endswith(os.sep) or os.path.isdir(output)):
        return True
    if len(sources) > 1:
        if output == STDOUT or not os.path.exists(output):
            check_folder_name(output, f"{len(sources):,} files are to be written")
        if os.path.exists(output):
            raise LshdbError(
                f"{printable(output)} is a file, and {len(sources):,} files are to be written",
                hint="name a folder",
            )
        return True
    [source] = sources
    of_input, of_output = _extensions(source.path), _extensions(output)
    if of_output == of_input:
        return False
    if of_output is None:
        if os.path.lexists(output):
            raise LshdbError(
                f"{printable(output)} is there, and it is no folder",
                hint="name a folder, or a file with the extension of the input",
            )
        check_folder_name(
            output,
            f"{source.name} is written again in the format that it has",
            hint="give it the extension of the input, or end the name of a folder in /",
        )
        return True
    if BY_EXTENSION.get(of_output[0]) == source.input_format and of_output[1] == source.compression:
        return False
    raise ParameterError(
        f"{printable(output)} has another format than {source.name}, and an output has the format "
        "of its input",
        hint="give it the same extension, or name a folder",
    )


def _extensions(path: str) -> tuple[str, str] | None:
    """Return the extension and the compression of a name; None if they mean no format."""
    stem, extension = os.path.splitext(path.lower())
    packed = extension.removeprefix(".") if extension in BY_COMPRESSION else ""
    if packed:
        extension = os.path.splitext(stem)[1]
    return (extension, packed) if packed or extension in BY_EXTENSION else None


def _refuse_within(output: str, paths: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse a folder inside of an input's folder: its files would be inputs the next time."""
    place = os.path.realpath(output)
    for path in paths:
        folder = os.path.realpath(path)
        if os.path.isdir(folder) and os.path.commonpath([folder, place]) == folder:
            raise ParameterError(
                f"the output {printable(output)} is inside the input {printable(os.fspath(path))}",
                hint="name a folder elsewhere",
            )


def _refuse_inputs(plan: list[tuple[InputFile, str]]) -> None:
    inputs: dict[tuple[int, int], str] = {}
    for source, _ in plan:
        status = os.stat(source.path)
        before = inputs.setdefault((status.st_dev, status.st_ino), source.name)
        if before != source.name:
            raise ParameterError(
                f"{source.name} and {before} are the same file", hint="name it once"
            )
    if len(inputs) < len(plan):
        raise ParameterError("a file is named twice", hint="name each file once")
    for _, target in plan:
        if target != STDOUT and os.path.exists(target):
            status = os.stat(target)
            if (status.st_dev, status.st_ino) in inputs:
                raise ParameterError(
                    f"the output {printable(target)} is an input", hint="name another output"
                )
