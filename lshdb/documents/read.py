"""Read a stream of documents from paths: find the sources, open each in turn, call its reader.

Decided: a mistake in the call raises an error before the first document. Anything wrong in the
input is a ``Rejected`` in the stream. If a source cannot be read to its end, the documents before
that point are yielded, and then one rejection that names the place.

Memory is one chunk, one line (or one text, one block of rows) and the list of files, whatever the
size of the input. Lists of URLs are grouped on disk.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

from lshdb.documents.document import Document, Rejected
from lshdb.documents.formats.fields import Fields
from lshdb.documents.io.sources import WITH_ROW_KEYS, Source, find_sources
from lshdb.errors import InputError, ParameterError

if TYPE_CHECKING:
    from lshdb.documents.formats.hosts import UrlGroups
    from lshdb.documents.io.progress import Progress

__all__ = ["MAX_DOCUMENT_BYTES", "check_document_limit", "read_documents"]

MAX_DOCUMENT_BYTES = 64 * 2**20
"""The default for the longest line, CSV record or text file."""


def read_documents(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    fallback: str | None = None,
    key_field: str | None = None,
    text_field: str | None = None,
    vector_field: str | None = None,
    body: str | None = None,
    keys: str | os.PathLike[str] | None = None,
    dim: int | None = None,
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
        names that begin with a dot, links to directories, and pipes, sockets and devices are
        left out.
    input_format : {"auto", "jsonl", "csv", "tsv", "text", "urls", "npy", "npz", "parquet"}
        ``auto`` goes by the extension, without ``.gz`` or ``.zst``: ``.jsonl`` and
        ``.ndjson``, ``.csv``, ``.tsv`` and ``.tab``, ``.npy``, ``.npz``, ``.parquet``. Any other
        file is one text; its key is its normalised path with slashes. Standard input is JSON
        Lines. The rows of a ``.npy`` are vectors, as are the rows of an ``.npz``'s array
        ``vector_field``, or of its only two-dimensional array. Their keys are row numbers from 0,
        after the path and a colon if there are several such files, unless ``keys`` is given or
        the ``.npz`` has an array ``key_field``. ``urls`` is a list of URLs, one per line. All
        lists together give one document per host, after all other documents: its key is the host,
        its body the host's distinct URLs, sorted, one per line. Any value except ``auto`` applies
        to every source.
    fallback : str, optional
        The format that ``auto`` takes for standard input and for a file with an unknown extension.
    key_field, text_field, vector_field : str, optional
        Names of the fields, or columns, that hold the key, the text or weights, and the vector or
        bits: ``id``, ``text`` (for weights ``weights`` if there is no ``text``) and ``vector``.
    body : {"text", "weights", "vector", "bits"}, optional
        The kind of bodies to read. By default vectors if a ``vector_field`` is given or the
        format holds only vectors, else texts. The numbers of weights, vectors and bits are not
        checked here: :meth:`lshdb.Index.add` checks them.
    keys : path-like, optional
        A file with the keys of the rows of one ``.npy``, ``.npz`` or Parquet file, in their order:
        one per line, or a ``.npy`` of strings or whole numbers.
    dim : int, optional
        Numbers, or bits, that each vector must have; a whole array of another width is one
        rejection.
    on_progress : callable, optional
        Called with the bytes read from files so far and the bytes of all files, both as on disk, at
        most about once per MiB and at the end of each file. The total is 0 if unknown; standard
        input adds nothing to it.
    stdin : binary file, optional
        Read instead of the process's standard input; never decompressed, never closed.
    max_document_bytes : int
        The longest line, CSV record or text, in decompressed bytes; longer ones are rejected
        without being held.

    Returns
    -------
    iterator of Document or Rejected
        In the order of the input; hosts at the end, in order. Each file is opened only when its
        turn comes.

    Raises
    ------
    InputError
        Before the first document: a path does not exist or cannot be opened, a pattern matches no
        file, standard input is named twice or is closed, or ``keys`` is given and the input is
        not one file of rows. Nothing was read. Later: there are more or fewer keys than rows.
    ParameterError
        A parameter cannot be used. Nothing was read.
    """
    check_document_limit(max_document_bytes)
    fields = Fields(key_field, text_field, vector_field, body, keys, dim)
    fields.check()
    sources = find_sources(paths, input_format=input_format, fallback=fallback)
    if keys is not None and [each.input_format in WITH_ROW_KEYS for each in sources] != [True]:
        raise InputError(
            f"{os.fspath(keys)} holds the keys of one .npy, .npz or Parquet file, but the input is "
            + ("of another format" if len(sources) == 1 else f"{len(sources):,} files"),
            hint="add one .npy, .npz or Parquet file at a time with its keys",
        )
    if any(source.is_stdin for source in sources):
        stdin = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
        if stdin is None or getattr(stdin, "closed", False):
            raise InputError(
                "standard input is closed", hint="name files instead of '-', or pipe something in"
            )
    return _read_all(sources, fields, on_progress, stdin, max_document_bytes)


def check_document_limit(max_document_bytes: int) -> int:
    """Return the limit; raise ParameterError unless it is a whole number, 1 or more."""
    if type(max_document_bytes) is not int or max_document_bytes < 1:
        raise ParameterError(
            f"max_document_bytes is {max_document_bytes!r}, expected a whole number, 1 or more"
        )
    return max_document_bytes


def _read_all(
    sources: list[Source],
    fields: Fields,
    on_progress: Callable[[int, int], None] | None,
    stdin: BinaryIO | None,
    limit: int,
) -> Iterator[Document | Rejected]:
    # Imported late, so that importing the package does not load orjson, csv and zlib.
    from lshdb.documents.document import BrokenSourceError
    from lshdb.documents.io.progress import Progress
    from lshdb.documents.io.streams import chunks_of, open_source

    progress = Progress(on_progress, sum(source.size for source in sources))
    is_numbered = sum(source.input_format in ("npy", "npz") for source in sources) == 1
    with ExitStack() as stack:
        groups: UrlGroups | None = None
        if any(source.input_format == "urls" for source in sources):
            from lshdb.documents.formats.hosts import UrlGroups

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
                        yield from groups.read(_recognised(source, chunks), name=source.name)
                    elif source.input_format in WITH_ROW_KEYS:
                        prefix = "" if is_numbered else f"{source.key}:"
                        yield from _rows(source, file, chunks, fields, prefix, limit, progress)
                    else:
                        yield from _documents(source, _recognised(source, chunks), fields, limit)
            except BrokenSourceError as error:
                yield _broken(source, error.reason, error.line)
            progress.end()
        if groups is not None:
            yield from groups.documents()


def _recognised(source: Source, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Return the same chunks; raise BrokenSourceError if they begin like an unsupported format."""
    from lshdb.documents.document import BrokenSourceError

    try:
        first = next(chunks, b"")
    except BrokenSourceError as error:
        return _failing(error)
    look = source.look(first)
    if look is not None:
        raise BrokenSourceError(look.reason)
    return itertools.chain([first], chunks) if first else chunks


def _failing(error: Exception) -> Iterator[bytes]:
    """Raise the error on the first read, so that the reader can add the place."""
    raise error
    yield b""


def _documents(
    source: Source, chunks: Iterator[bytes], fields: Fields, limit: int
) -> Iterator[Document | Rejected]:
    if source.input_format == "text":
        from lshdb.documents.formats.plaintext import read_plaintext

        return read_plaintext(chunks, name=source.name, key=source.key, limit=limit)
    if source.input_format == "jsonl":
        from lshdb.documents.formats.jsonl import read_jsonl

        return read_jsonl(chunks, name=source.name, fields=fields, limit=limit)
    from lshdb.documents.formats.delimited import read_delimited

    return read_delimited(
        chunks,
        name=source.name,
        delimiter="," if source.input_format == "csv" else "\t",
        fields=fields,
        limit=limit,
    )


def _rows(
    source: Source,
    file: BinaryIO,
    chunks: Iterator[bytes],
    fields: Fields,
    prefix: str,
    limit: int,
    progress: Progress,
) -> Iterator[Document | Rejected]:
    """Read the documents of a file that stores rows in arrays or columns."""
    from lshdb.documents.document import BrokenSourceError
    from lshdb.documents.io.streams import Watched

    watched = io.BufferedReader(Watched(file, progress))
    if source.input_format == "parquet":
        from lshdb.documents.formats.parquet import read_parquet

        return read_parquet(watched, name=source.name, fields=fields, limit=limit)
    if fields.body in ("text", "weights"):
        raise BrokenSourceError("holds vectors, but the index holds texts or their weights")
    from lshdb.documents.formats.vectors import read_npy, read_npz

    named: dict[str, Any] = {"name": source.name, "fields": fields, "prefix": prefix}
    if source.input_format == "npz":
        return read_npz(watched, limit=limit, **named)
    is_plain = source.is_regular and not source.compression
    descriptor = file.fileno() if is_plain else None
    return read_npy(chunks, limit=limit, descriptor=descriptor, **named)


def _broken(source: Source, reason: str, line: int | None) -> Rejected:
    if line is None:
        return Rejected(source.name, reason)
    where = source.name if source.input_format == "text" else f"{source.name}:{line}"
    return Rejected(where, f"{reason}, at about line {line}")
