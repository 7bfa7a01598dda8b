"""An argument that is an index, or files that are compared without one.

Decided: what lies there tells the two apart. An index is a folder with an ``index.toml``, or
something called ``*.lshdb``; all other files, folders, patterns and URLs are input, and so is - for
standard input. Where nothing lies, an index is what was meant.

Files go through the stages of an index whose parts are temporary files, so that an answer is that
of an index of these files, line for line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lshdb import Index, IndexNotFoundError, InputError
from lshdb.cancel import on_interruption
from lshdb.cli._command import (
    IndexArgument,
    complete_files,
    is_index,
    is_input,
    is_part_of_index,
    options,
)
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._documents_in import (
    add_watched,
    advice_for,
    documents_for,
    note_short,
    require_metric,
)
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import AddProgress
from lshdb.cli._options import FOLDERS, READING, folder_options, input_options, keep_fields_option
from lshdb.cli._output import named_place, note
from lshdb.cli._words import counted
from lshdb.threads import give_memory_back_at_once

if TYPE_CHECKING:
    from lshdb import AddResult, TransientIndex
    from lshdb.documents.io.source import InputFile

__all__ = [
    "file_options",
    "files_as_index",
    "index_or_files",
    "opened_index",
    "read_into",
    "refuse_given",
    "row_keys_for",
    "searched_file_options",
]

index_or_files = click.argument(
    "places",
    metavar="INDEX|FILE...",
    nargs=-1,
    required=True,
    cls=IndexArgument,
    missing="the folder of an index, such as news.lshdb, or files to compare without one",
    shell_complete=complete_files,
)
_NOT_OF_FILES = ("threshold", "database", "schema", "passages")
file_options = options(
    input_options,
    folder_options,
    keep_fields_option,
    options(creation_options, without=_NOT_OF_FILES),
)
"""How files are read, and the parameters of an index that they would be added to."""
searched_file_options = options(
    keep_fields_option, options(creation_options, without=[*_NOT_OF_FILES, "recall"])
)
"""The same for a command that reads files besides, and has another recall."""


@contextlib.contextmanager
def opened_index(
    ctx: click.Context,
    places: Sequence[str],
    options: dict[str, Any],
    *,
    threshold: float | None,
    workers: int | None,
    lasting: Sequence[str],
) -> Iterator[tuple[Index | TransientIndex, int]]:
    """Open an index, or read files into one of temporary files; also yield the exit code.

    Parameters
    ----------
    ctx : click.Context
    places : sequence of str
    options : dict
        The values of ``file_options``, by name.
    threshold : float or None
        The threshold of an index of files.
    workers : int or None
    lasting : sequence of str
        Names of options that make sense for an index that stays, and for nothing else.

    Raises
    ------
    click.UsageError
        An index and files are named together, or an option does not go with what is named.
    LshdbError
    """
    first, *others = places
    if _is_index_meant(places):
        if others:
            raise click.UsageError(_too_many(first, others), ctx)
        refuse_given(ctx, options, "is for files without an index: {} is an index", first)
        with _open(first) as stored:
            yield stored, 0
        return
    indexes = [path for path in others if os.path.isdir(path) and is_index(path)]
    if indexes:
        raise click.UsageError(
            f"{indexes[0]} is an index, and {first} is not: name one index, or files", ctx
        )
    refuse_given(ctx, lasting, "is for an index that stays, and {} is read anew each time", first)
    with files_as_index(places, options, threshold=threshold, workers=workers) as opened:
        yield opened


@contextlib.contextmanager
def files_as_index(
    places: Sequence[str],
    options: dict[str, Any],
    *,
    threshold: float | None,
    workers: int | None,
) -> Iterator[tuple[TransientIndex, int]]:
    """Read files into an index of temporary files, and say how many; see :func:`opened_index`."""
    reading, parameters = _sorted_out(options)
    if threshold is not None:
        parameters["threshold"] = threshold
    require_metric(places, parameters, reading["input_format"])
    reading["row_keys"] = row_keys_for(_records_of(places, reading), reading)
    if named_place() not in (None, "-"):
        reading["leave_out"] = [named_place()]
    with read_into(places, reading, parameters, workers=workers) as (index, result):
        if not result.batches:
            raise InputError(
                f"no record of {' '.join(places):.200} was accepted as a document"
                if result.rejected
                else f"no document in {' '.join(places):.200}",
                hint=advice_for(places) if result.rejected else "check the input",
            )
        rejected = f", {result.rejected:,} rejected" if result.rejected else ""
        note(f"{counted(result.documents, 'document')} read{rejected}")
        note_short(index.params, result)
        yield index, REJECTED if result.rejected else 0


@contextlib.contextmanager
def read_into(
    paths: Sequence[str],
    reading: dict[str, Any],
    parameters: dict[str, Any],
    *,
    workers: int | None,
    progress: AddProgress | None = None,
) -> Iterator[tuple[TransientIndex, AddResult]]:
    """Read files into an index of temporary files, which are removed at the end of the block."""
    give_memory_back_at_once()
    progress = progress or AddProgress("reading")
    items, from_peek = documents_for(None, paths, reading, parameters, progress)
    from lshdb import TransientIndex  # not needed for an index

    index = TransientIndex.create(**(from_peek | parameters))
    on_interruption(index.close)
    with index:
        yield (
            index,
            add_watched(
                index, items, progress, source="", lock_timeout=0.0, workers=workers, stays=False
            ),
        )


def row_keys_for(sources: Sequence[InputFile], reading: dict[str, Any]) -> bool:
    """Return whether path and row number are the keys: as asked, or for want of a field.

    The latter is said. Files of records are looked at, one record of each.
    """
    from lshdb.groups.rewrite_plan import lacks_field

    if reading["row_keys"] or reading["key_field"] is not None:
        return bool(reading["row_keys"])
    is_lacking = lacks_field(
        sources,
        "id",
        delimiter=reading["delimiter"],
        encoding=reading["encoding"],
        quote=reading["quote"],
        limit=reading["max_document_bytes"],
    )
    if is_lacking:
        note("there is no field id, so path and row number are the keys")
    return is_lacking


def _records_of(paths: Sequence[str], reading: dict[str, Any]) -> list[InputFile]:
    """Return the sources, if all of them are files of records that can be read twice."""
    from lshdb.documents.io.folders import WalkOptions
    from lshdb.documents.io.sources import find_sources
    from lshdb.documents.registry import PASSED_FORMATS

    if "-" in paths or reading["keys"] is not None:
        return []
    walking = {name: reading[name] for name in ("hidden", "gitignore", "include", "exclude")}
    sources = find_sources(
        paths, input_format=reading["input_format"], options=WalkOptions(**walking)
    )
    records = [
        source
        for source in sources
        if source.input_format in PASSED_FORMATS
        and source.problem is None
        and (source.is_regular or source.is_remote)
    ]
    is_all = len(records) == len(sources)
    return [source for source in records if not source.is_empty] if is_all else []


def refuse_given(ctx: click.Context, names: Container[str], why: str, path: str) -> None:
    """Raise UsageError for the first of some options that was given.

    Parameters
    ----------
    ctx : click.Context
    names : container of str
        Names of parameters.
    why : str
        The rest of the sentence, with ``{}`` for the path.
    path : str
    """
    for param in ctx.command.params:
        if param.name in names and isinstance(param, click.Option):
            source = ctx.get_parameter_source(param.name)
            if source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
                raise click.UsageError(f"{max(param.opts, key=len)} {why.format(path)}", ctx)


def _open(path: str) -> Index:
    """Open an index; where nothing lies, say that a name that is none of an index may be a file."""
    try:
        return Index.open(path)
    except IndexNotFoundError as error:
        if os.path.lexists(path) or is_index(path):
            raise
        message = f"there is neither an index nor a file at {path}"
        raise IndexNotFoundError(message, hint=error.hint) from error


def _sorted_out(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how to read, and the parameters of an index."""
    names = (*READING, *FOLDERS, "keep_fields", "input_format")
    reading = {name: options[name] for name in names}
    return reading, given_parameters(
        {name: value for name, value in options.items() if name not in names}
    )


def _is_index_meant(places: Sequence[str]) -> bool:
    first = places[0]
    return is_index(first) or is_part_of_index(first) or (len(places) == 1 and not is_input(first))


def _too_many(index: str, others: Sequence[str]) -> str:
    """Return the message for words after an index."""
    if any(map(is_input, others)):
        return (
            f"{index} is an index, and files are compared without one: name either the index or "
            f"files; lshdb add {index} FILE puts files into it"
        )
    return f"Got unexpected extra argument{'s' * (len(others) > 1)} ({' '.join(others)})"
