"""Open one file, plain or compressed, or standard input, that is not a stream of documents.

Reading documents goes on with the next file after damage. Reading here raises an error instead if
the file cannot be read to its end: half of it would give an answer that looks complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

from lshdb.documents.document import BrokenSourceError
from lshdb.documents.io.progress import Progress
from lshdb.documents.io.sources import find_sources
from lshdb.documents.io.streams import chunks_of, open_source
from lshdb.errors import InputError

__all__ = ["open_single"]


@contextmanager
def open_single(
    path: str | os.PathLike[str], *, input_format: str
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Open exactly one file.

    Parameters
    ----------
    path : path-like
        Plain, ``.gz`` or ``.zst``; ``-`` for standard input.
    input_format : str
        One of ``FORMATS``.

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
