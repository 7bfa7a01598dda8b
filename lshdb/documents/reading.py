"""Paths -> a stream of documents: finds the sources, opens them one after another, dispatches.

Decided: mistakes in the call are errors before the first document; whatever is wrong with what is
in the input is a ``Rejected`` in the stream. A reader that breaks off in the middle of a source has
yielded what was before, and the source ends with one rejection that says where.

Memory is one chunk, one line (or one text) and the list of files, whatever the size of the input;
lists of URLs are put together on disk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, BinaryIO

from lshdb.documents.model import Document, Rejected
from lshdb.documents.sources import Source, find_sources
from lshdb.errors import InputError, ParameterError

if TYPE_CHECKING:
    from lshdb.documents.urls import UrlGroups

__all__ = ["MAX_DOCUMENT_BYTES", "check_document_limit", "read_documents"]

MAX_DOCUMENT_BYTES = 64 * 2**20
"""The longest line, CSV record or text file that is read unless the caller says otherwise."""


def read_documents(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    fallback: str | None = None,
    key_field: str = "id",
    text_field: str = "text",
    on_progress: Callable[[int, int], None] | None = None,
    stdin: BinaryIO | None = None,
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
) -> Iterator[Document | Rejected]:
    """Read documents from files, directories, patterns and standard input.

    Parameters
    ----------
    paths : sequence of str or path-like
        Each is ``-`` (standard input), a file, a directory, or a pattern with ``*``, ``?``, ``[``
        or ``**`` if no file has that very name. Directories are walked in the order of names;
        names that begin with a dot, links to directories, and whatever is no file are left out.
    input_format : {"auto", "jsonl", "csv", "tsv", "text", "urls"}
        ``auto`` goes by the extension, after ``.gz`` or ``.zst`` is taken off: ``.jsonl`` and
        ``.ndjson``, ``.csv``, ``.tsv`` and ``.tab``; any other file is one text, and its key is its
        normalised path with slashes. Standard input is JSON Lines. ``urls`` is a list of URLs, one
        a line; all lists together give one document for each host, after all other documents: its
        key is the host, its body the host's distinct URLs, sorted, one a line. Anything but
        ``auto`` holds for every source.
    fallback : {"jsonl", "csv", "tsv", "text", "urls"}, optional
        What ``auto`` takes for a file whose name says nothing, and for standard input.
    key_field, text_field : str
        Names of the fields, or columns, that hold the key and the text.
    on_progress : callable, optional
        Called with the bytes read from files so far and the bytes of all files, both as on disk, at
        most about once each MiB and at the end of each file. Bytes of all files are 0 when unknown;
        standard input adds nothing to them.
    stdin : binary file, optional
        Read instead of the process's standard input; never decompressed, never closed.
    max_document_bytes : int
        The longest line, CSV record or text, in decompressed bytes; longer ones are rejected
        without being held.

    Returns
    -------
    iterator of Document or Rejected
        In the order of the input; hosts at the end, in order. Every file is opened only when its
        turn comes.

    Raises
    ------
    InputError
        Before the first document: a path does not exist or cannot be opened, a pattern matches no
        file, or standard input is named twice or not there. Nothing was read.
    ParameterError
        A parameter cannot be used. Nothing was read.
    """
    check_document_limit(max_document_bytes)
    sources = find_sources(paths, input_format=input_format, fallback=fallback)
    if any(source.is_stdin for source in sources):
        stdin = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
        if stdin is None or getattr(stdin, "closed", False):
            raise InputError(
                "standard input is closed", hint="name files instead of '-', or pipe something in"
            )
    return _read_all(sources, key_field, text_field, on_progress, stdin, max_document_bytes)


def check_document_limit(max_document_bytes: int) -> int:
    """The limit; a ParameterError where it is no whole number from 1 on."""
    if type(max_document_bytes) is not int or max_document_bytes < 1:
        raise ParameterError(
            f"max_document_bytes is {max_document_bytes!r}, expected a whole number from 1 on"
        )
    return max_document_bytes


def _read_all(
    sources: list[Source],
    key_field: str,
    text_field: str,
    on_progress: Callable[[int, int], None] | None,
    stdin: BinaryIO | None,
    limit: int,
) -> Iterator[Document | Rejected]:
    # Late, so that importing the package does not load orjson, csv and zlib.
    from lshdb.documents.faults import BrokenSourceError
    from lshdb.documents.progress import Progress
    from lshdb.documents.streams import chunks_of, open_source

    progress = Progress(on_progress, sum(source.size for source in sources))
    with ExitStack() as stack:
        groups: UrlGroups | None = None
        if any(source.input_format == "urls" for source in sources):
            from lshdb.documents.urls import UrlGroups

            groups = stack.enter_context(UrlGroups(limit))
        for source in sources:
            progress.begin(source.size)
            if source.problem is not None:
                yield Rejected(source.name, source.problem)
                continue
            try:
                with (
                    nullcontext(stdin)
                    if source.is_stdin and stdin is not None
                    else open_source(source) as file,
                    closing(chunks_of(source, file, progress)) as chunks,
                ):
                    if groups is not None and source.input_format == "urls":
                        yield from groups.read(chunks, name=source.name)
                    else:
                        yield from _documents(source, chunks, key_field, text_field, limit)
            except BrokenSourceError as error:
                yield _broken(source, error.reason, error.line)
            progress.end()
        if groups is not None:
            yield from groups.documents()


def _documents(
    source: Source, chunks: Iterator[bytes], key_field: str, text_field: str, limit: int
) -> Iterator[Document | Rejected]:
    if source.input_format == "text":
        from lshdb.documents.plaintext import read_plaintext

        return read_plaintext(chunks, name=source.name, key=source.key, limit=limit)
    if source.input_format == "jsonl":
        from lshdb.documents.jsonl import read_jsonl

        return read_jsonl(
            chunks, name=source.name, key_field=key_field, text_field=text_field, limit=limit
        )
    from lshdb.documents.delimited import read_delimited

    return read_delimited(
        chunks,
        name=source.name,
        delimiter="," if source.input_format == "csv" else "\t",
        key_field=key_field,
        text_field=text_field,
        limit=limit,
    )


def _broken(source: Source, reason: str, line: int | None) -> Rejected:
    if line is None:
        return Rejected(source.name, reason)
    where = source.name if source.input_format == "text" else f"{source.name}:{line}"
    return Rejected(where, f"{reason}, at about line {line}")
