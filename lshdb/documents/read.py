"""Read a stream of documents from paths, or look at some of them before an index is created.

Sources are found first, each is opened in its turn, and its format's reader is called.

Decided: a mistake in the call raises an error before the first document. Anything wrong in the
input is a ``Rejected`` in the stream. If a source cannot be read to its end, the documents before
that point are yielded, and then one rejection that names the place.

Memory is one chunk, one line (or one text, one block of rows) and the list of files, whatever the
size of the input. Lists of URLs are grouped on disk.

A look tells the dimension and the type of vectors, and gives a sample. If the first source is a
``.npy`` file, the sample is spread evenly over it, because neighbours in a file are often alike.
From any other source, and from a source that can be read only once, the sample is the first
documents; they are held and yielded again before the rest.
"""

from __future__ import annotations

import itertools
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from lshdb.arguments import checks_names
from lshdb.documents.blocks import DocumentStream, Item, in_blocks
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    BrokenSourceError,
    Document,
    Fields,
    Rejected,
    SeenFields,
    shown_paths,
)
from lshdb.documents.io.folders import WalkCounts, WalkOptions
from lshdb.documents.io.source import STDIN, InputFile
from lshdb.documents.io.sources import find_sources, require_decoders
from lshdb.documents.registry import FORMATS
from lshdb.errors import InputError, ParameterError
from lshdb.phases.phase import OnProgress

if TYPE_CHECKING:
    from lshdb.documents.io.streams import OpenFile, Progress

__all__ = [
    "Peek",
    "check_document_limit",
    "peek_documents",
    "read_documents",
    "refuse_useless",
]

SAMPLE = 1000
"""Bodies to look at."""
_GUESSES_SAID = 5
_BINARY_HEAD = 8000
"""Where git, too, looks for a NUL to tell binary files."""
_HELD_BYTES = 64 * 2**20
_NUMBER_BYTES = 32
"""Rough memory of one number in a list."""


@checks_names
def read_documents(
    paths: Sequence[str | os.PathLike[str]],
    *,
    input_format: str = "auto",
    fallback: str | None = None,
    key_field: str | None = None,
    text_field: str | Sequence[str] | None = None,
    vector_field: str | None = None,
    body: str | None = None,
    keys: str | os.PathLike[str] | None = None,
    row_keys: bool = False,
    keep_fields: str | Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    dim: int | None = None,
    hidden: bool = False,
    gitignore: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    leave_out: Sequence[str | os.PathLike[str]] = (),
    relative: bool = False,
    strip_prefix: str | None = None,
    counts: WalkCounts | None = None,
    on_progress: OnProgress | None = None,
    on_note: Callable[[str], None] | None = None,
    stdin: BinaryIO | None = None,
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
) -> DocumentStream:
    """Read documents from files, directories, patterns and standard input.

    Parameters
    ----------
    paths : sequence of str or path-like
        Each is ``-`` (standard input), a file, a directory, or a pattern with ``*``, ``?``, ``[``
        or ``**`` if no file has that very name. Directories are walked in the order of names.
        Names that begin with a dot, files that ``.gitignore`` files name, folders of tools (such
        as ``.git`` and ``node_modules``), links to directories and to files that are found anyway,
        pipes, sockets, devices, binary files and files of formats that are not read are left out
        and counted.
    input_format : str
        ``auto``, or a name in ``lshdb.documents.registry.FORMATS``. ``auto`` goes by the
        extension, without that of a compression (``.gz``, ``.zst``, ``.xz``, ``.bz2``): ``.jsonl``
        and ``.ndjson``, ``.json`` (an array of objects, or lines), ``.csv``, ``.tsv`` and ``.tab``,
        ``.npy``, ``.npz``, ``.parquet``, ``.arrow`` and ``.feather``; references in ``.ris``,
        ``.nbib``, ``.bib`` and EndNote's ``.xml``. Any other file is one text; its key is its
        normalised path with slashes. So is every file in a directory whose files are mostly plain
        texts by their names, unless a field, ``keys`` or ``row_keys`` is given. A compressed,
        Parquet or Arrow file under another name is read as what it is, except in such a directory.
        Standard input is JSON
        Lines. The rows of a ``.npy`` are vectors, as are the rows of an ``.npz``'s array
        ``vector_field``, or of its only two-dimensional array. Their keys are row numbers from 0,
        after the path and a colon if there are several such files, unless ``keys`` is given or
        the ``.npz`` has an array ``key_field``. ``urls`` is a list of URLs, one per line. All
        lists together give one document per host, after all other documents: its key is the host,
        its body the host's distinct URLs, sorted, one per line. Any value except ``auto`` applies
        to every source.
    fallback : str, optional
        The format that ``auto`` takes for standard input and for a file with an unknown extension.
    key_field, vector_field : str, optional
        Names of the fields, or columns, that hold the key, and the vector or bits: ``id`` and
        ``vector``.
    text_field : str or sequence of str, optional
        Name of the field, or column, that holds the text or weights: ``text`` (for weights
        ``weights`` if there is no ``text``). Texts of several fields are joined in that order,
        with a blank line between; those that are missing, null or empty are passed over, and a
        record without any of them is rejected.
    body : {"text", "weights", "vector", "bits"}, optional
        The kind of bodies to read. By default vectors if a ``vector_field`` is given or the
        format holds only vectors, else texts. The numbers of weights, vectors and bits are not
        checked here: :meth:`lshdb.Index.add` checks them.
    keys : path-like, optional
        A file with the keys of the rows of one ``.npy``, ``.npz``, Parquet or Arrow file, in order:
        one per line, or a ``.npy`` of strings or whole numbers.
    row_keys : bool
        Make keys of the path and a number, ``news.csv:17``, for records without keys of their own:
        of the line in JSON Lines, else of the row or record, from 1 and without the header. The
        path is as given, normalised, with slashes; ``-`` for standard input. Rows of arrays are
        numbered from 0. A text's key is its path, and a host's is its name.
    keep_fields : sequence of str
        Names of fields, or columns, whose values are kept with the document (``Document.fields``).
    delimiter : str, optional
        The character between the cells of CSV; a comma by default.
    encoding : str, optional
        Of texts, CSV, TSV, JSON Lines and lists of URLs, by any name that Python knows:
        ``latin-1``, ``cp1252``, ``utf-16``. By default UTF-8, or what a byte order mark shows.
    quote : str, optional
        The character that quotes cells of CSV and TSV, or ``"none"``. By default ``"`` in CSV. TSV
        has no quotes by default unless the file shows them.
    dim : int, optional
        Numbers, or bits, that each vector must have; a whole array of another width is one
        rejection.
    hidden : bool
        Also take names that begin with a dot from directories.
    gitignore : bool
        Leave out what ``.gitignore`` files name, in directories and between them and the top of
        their repository.
    include, exclude : sequence of str
        Patterns as in a ``.gitignore`` file, relative to the directory: ``*.py``, ``docs/``. They
        hold for files in directories and matches of patterns. With ``include``, only files that
        one of them matches are taken.
    leave_out : sequence of path-like
        Files and directories that are never taken from a directory or pattern, such as your own
        output.
    relative : bool
        Keys that are paths are relative to the directory given, to the part of a pattern before
        the first component with ``*``, ``?`` or ``[``, or to the directory of a file. By default,
        they begin as the path given.
    strip_prefix : str, optional
        Keys that are paths lose these first components where they have them.
    counts : WalkCounts, optional
        Filled in with what is left out.
    on_progress : callable, optional
        Called with the bytes read from files so far, the bytes of all files (None if unknown), both
        as on disk, and ``"bytes"``: about once per MiB, and at the end of each file. Standard input
        adds nothing to the total. Functions that take the documents, such as
        :meth:`lshdb.Index.add`, have an ``on_progress`` of their own.
    on_note : callable, optional
        Called with whatever is worth knowing about the input as a whole, in one line: a field to
        keep that no record has; a file that is not what its name says, and is read as what it is;
        what a directory of texts and records is taken for; what was left out of directories. By
        default it is logged by the logger ``lshdb`` as a warning.
    stdin : binary file, optional
        Read instead of the process's standard input; never closed.
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
        file, no path begins with ``strip_prefix``, standard input is named twice or is closed, or
        ``keys`` is given and the input is not one file of rows. Nothing was read. Later: there are
        more or fewer keys than rows.
    ParameterError
        A parameter cannot be used. Nothing was read.
    """
    check_document_limit(max_document_bytes)
    from lshdb.documents.io.encodings import find_encoding

    named = Fields(
        key=key_field, vector=vector_field, body=body, keys=keys, dim=dim, row_keys=row_keys,
        text=_names("text_field", () if text_field is None else text_field),
        keep=_names("keep_fields", keep_fields), delimiter=delimiter,
        encoding=None if encoding is None else find_encoding(encoding), quote=quote,
    )  # fmt: skip
    named.check()
    counts = WalkCounts() if counts is None else counts
    n_notes = len(counts.notes)
    sources = find_sources(
        paths, input_format=input_format, fallback=fallback, has_texts=named.may_be_texts,
        options=WalkOptions(hidden, gitignore, include, exclude, leave_out), counts=counts,
        relative=relative, strip_prefix=strip_prefix,
    )  # fmt: skip
    if keys is not None and [source.format.has_rows for source in sources] != [True]:
        raise InputError(
            f"{os.fspath(keys)} holds the keys of one .npy, .npz, Parquet or Arrow file, but the "
            "input is " + ("of another format" if len(sources) == 1 else f"{len(sources):,} files"),
            hint="add one such file at a time with its keys",
        )
    refuse_useless(sources, delimiter=delimiter, encoding=encoding, quote=quote)
    if any(source.is_stdin for source in sources):
        stdin = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
        if stdin is None or getattr(stdin, "closed", False):
            raise InputError(
                "standard input is closed", hint="name files instead of '-', or pipe something in"
            )
    if on_note is None:
        import logging  # takes longer to load than a query does to answer

        on_note = logging.getLogger("lshdb").warning
    # Imported late, so that importing the package does not load orjson, csv and zlib.
    from lshdb.documents.io.streams import Progress

    progress = Progress(on_progress, sum(source.size for source in sources))
    note = on_note
    for text in counts.notes[n_notes:]:
        note(text)

    def read() -> Iterator[Item]:
        items = _read_all(sources, named, counts, progress, note, stdin, max_document_bytes)
        first = next(items, None)
        if first is None and [source.path for source in sources] != [STDIN]:
            note(_nothing(paths, sources, counts))
        if first is not None:
            yield first
            del first  # a block is let go of before the next one is made
            yield from items
        if counts.left_out:
            note(f"left out: {counts}")

    is_at_hand = all(source.is_regular for source in sources)
    return DocumentStream(read(), is_at_hand=is_at_hand, progress=progress)


def _nothing(
    paths: Sequence[str | os.PathLike[str]], sources: Sequence[InputFile], counts: WalkCounts
) -> str:
    """Return why the input holds no document, and what to do."""
    unread = [source.path for source in sources if not source.is_empty]
    empty = [source.path for source in sources if source.is_regular and not source.size]
    if sources and len(empty) == len(sources):
        return f"{shown_paths(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    if unread:
        return f"no document in {shown_paths(unread)}"
    if counts.left_out.total():
        advice = counts.advice()
        return f"all files in {shown_paths(paths)} were left out" + (
            f"; {advice}" if advice else ""
        )
    return f"no file in {shown_paths(paths)}"


def refuse_useless(
    sources: Sequence[InputFile],
    *,
    delimiter: str | None,
    encoding: str | None,
    quote: str | None = None,
) -> None:
    """Refuse options that no file of the input is read by.

    Raises
    ------
    ParameterError
    """
    if not sources:
        return
    if delimiter is not None and not any(source.input_format == "csv" for source in sources):
        raise ParameterError(
            f"delimiter is {delimiter!r}, but no file of the input is CSV",
            hint="add --input csv if it is CSV under another name",
        )
    if quote is not None and not any(source.input_format in ("csv", "tsv") for source in sources):
        raise ParameterError(
            f"quote is {quote!r}, but no file of the input is CSV or TSV",
            hint="add --input csv or tsv if it is that under another name",
        )
    if encoding is not None and not any(source.format.is_decoded for source in sources):
        raise ParameterError(
            f"encoding is {encoding!r}, but no file of the input is text, CSV, TSV or JSON Lines",
            hint="leave it out: other formats say themselves how their texts are encoded",
        )


def _names(parameter: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of fields that a caller gave, as one string or several."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or isinstance(names, bytes):
        raise ParameterError(
            f"{parameter} is {names!r:.200}, expected a name of a field, or a list of names"
        )
    return tuple(names)


def check_document_limit(max_document_bytes: int) -> int:
    """Return the limit; raise ParameterError unless it is a whole number, 1 or more."""
    if type(max_document_bytes) is not int or max_document_bytes < 1:
        raise ParameterError(
            f"max_document_bytes is {max_document_bytes!r}, expected a whole number, 1 or more"
        )
    return max_document_bytes


def _read_all(
    sources: list[InputFile],
    fields: Fields,
    counts: WalkCounts,
    progress: Progress,
    note: Callable[[str], None],
    stdin: BinaryIO | None,
    limit: int,
) -> Iterator[Item]:
    seen = SeenFields(fields.keep)
    opening = _Opening(fields, limit, progress, seen, _Guesses(note), stdin)
    is_bare = sum(source.format.is_numbered for source in sources) == 1 and not fields.row_keys
    with ExitStack() as stack:
        gathering = {
            name: stack.enter_context(FORMATS[name].load(FORMATS[name].reads)(limit))
            for name in dict.fromkeys(source.input_format for source in sources)
            if FORMATS[name].is_gathered
        }
        for named_source in sources:
            progress.begin(named_source.size)
            source = named_source
            if source.problem is not None:
                yield Rejected(source.name, source.problem)
                continue
            if source.is_empty:
                counts.leave("empty")
                continue
            try:
                with ExitStack() as opened_source:
                    source, file, head = opening.begin(named_source, opened_source)
                    prefix = "" if is_bare else f"{source.key}:"
                    opened = opening.content(source, file, head, prefix, opened_source)
                    if source.format.is_gathered:
                        yield from gathering[source.input_format].read(opened)
                    else:
                        items = source.format.load(source.format.reads)(opened)
                        yield from in_blocks(items, is_at_hand=source.is_regular)
            except _OtherFormatError as error:
                counts.leave(error.reason, source.path)
            except BrokenSourceError as error:
                yield _broken(source, error.reason, error.line)
            progress.end()
        for reader in gathering.values():
            yield from in_blocks(reader.documents(), is_at_hand=True)
    opening.guesses.end()
    unseen = seen.report()
    if unseen is not None:
        note(unseen)


class _OtherFormatError(BrokenSourceError):
    """A file that was only found is no text: it is left out, for ``binary`` or ``other``."""


class _Guesses:
    """Notes about single files, such as those whose content differs from their name.

    The first few are named, the others counted.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._count = 0
        self._n_notes = 0

    def note(self, text: str) -> None:
        self._n_notes += 1
        if self._n_notes <= _GUESSES_SAID:
            self._note(text)

    def say(self, name: str, what: str) -> None:
        self._count += 1
        if self._count <= _GUESSES_SAID:
            self._note(f"{name} is {what}; reading it as such")

    def end(self) -> None:
        more = self._count - _GUESSES_SAID
        if more > 0:
            plural = "s are" if more > 1 else " is"
            self._note(f"{more:,} more file{plural} read as what they are, not by their names")
        more = self._n_notes - _GUESSES_SAID
        if more > 0:
            self._note(f"likewise in {more:,} more file{'s' * (more > 1)}")


@dataclass(frozen=True, slots=True)
class _Opening:
    """Opens sources, one after another."""

    fields: Fields
    limit: int
    progress: Progress
    seen: SeenFields
    guesses: _Guesses
    stdin: BinaryIO | None

    def begin(self, source: InputFile, opened: ExitStack) -> tuple[InputFile, BinaryIO, bytes]:
        """Open a source; return it with its true format, the file, and bytes read from a pipe."""
        from lshdb.documents.io.misnamed import read_head, recognised
        from lshdb.documents.io.streams import open_source

        if source.is_stdin and self.stdin is not None:
            file = self.stdin
        else:
            file = opened.enter_context(open_source(source))
        head = read_head(file, is_regular=source.can_seek)
        source = recognised(source, head)
        if source.misnamed:
            require_decoders([source])
            self.guesses.say(source.name, source.misnamed)
        return source, file, b"" if source.can_seek else head

    def content(
        self, source: InputFile, file: BinaryIO, head: bytes, prefix: str, stack: ExitStack
    ) -> OpenFile:
        """Return an open source for the reader of its format."""
        from lshdb.documents.io.streams import OpenFile, chunks_of

        decode = None
        if source.format.members and source.compression == "gz":
            from lshdb.documents.io.gzip_members import gzip_members

            decode = partial(gzip_members, begins=source.format.members)
        stream = stack.enter_context(
            closing(chunks_of(source, file, self.progress, head, decode=decode))
        )
        chunks: Iterator[bytes] = stream
        encoding = None
        if not source.format.has_rows:
            chunks, encoding = self._as_text(source, stream)
        is_plain = source.is_regular and not source.compression
        return OpenFile(
            name=source.name,
            key=source.key,
            chunks=chunks,
            fields=self.fields,
            limit=self.limit,
            prefix=prefix,
            file=file,
            progress=self.progress,
            descriptor=file.fileno() if is_plain else None,
            seen=self.seen,
            encoding=encoding,
            say=partial(self.guesses.say, source.name),
            note=self.guesses.note,
            is_regular=source.is_regular,
            has_members=decode is not None,
        )

    def _as_text(
        self, source: InputFile, chunks: Iterator[bytes]
    ) -> tuple[Iterator[bytes], str | None]:
        """Return the chunks in UTF-8, and the encoding that they had if it was another.

        Raises
        ------
        _OtherFormatError
            A file that should be a text, and was only found, is none.
        BrokenSourceError
            Another begins like an unsupported format.
        """
        from lshdb.documents.io.encodings import encoding_of_mark, recoded

        try:
            first = next(chunks, b"")
        except BrokenSourceError as error:
            return _failing(error), None
        encoding = None
        if source.format.is_decoded:
            encoding = self.fields.encoding or encoding_of_mark(first)
        if encoding is not None:
            if self.fields.encoding is None:
                self.guesses.say(source.name, encoding.upper())
            chunks = recoded(itertools.chain([first], chunks), encoding)
            first = next(chunks, b"")
        look = source.look(first)
        if source.is_found and source.input_format == "text":
            if look is not None:
                raise _OtherFormatError("binary" if look.is_binary else "other")
            if b"\0" in first[:_BINARY_HEAD] and encoding is None and not _is_utf8(first):
                raise _OtherFormatError("binary")
        if look is not None:
            raise BrokenSourceError(look.reason)
        return (itertools.chain([first], chunks) if first else chunks), encoding


def _is_utf8(start: bytes) -> bool:
    """Return whether bytes are the beginning of a text in UTF-8."""
    try:
        getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def _failing(error: Exception) -> Iterator[bytes]:
    """Raise the error on the first read, so that the reader can add the place."""
    raise error
    yield b""


def _broken(source: InputFile, reason: str, line: int | None) -> Rejected:
    if line is None:
        return Rejected(source.name, reason)
    where = source.name if source.input_format == "text" else f"{source.name}:{line}"
    return Rejected(where, f"{reason}, at about line {line}")


@dataclass(frozen=True, slots=True)
class Peek:
    """The result of a look at the input.

    Attributes
    ----------
    bodies : list
        A sample of bodies; the index may reject some of them.
    dim : int or None
        Numbers, or bits, per vector; None if the sample holds no vector.
    dtype : str or None
        Type of their numbers, if the index supports it.
    """

    bodies: list[Any]
    dim: int | None
    dtype: str | None


def peek_documents(
    paths: Sequence[str | os.PathLike[str]], *, body: str, sample: int = SAMPLE, **options: Any
) -> tuple[Peek, DocumentStream]:
    """Look at some documents, then read them all.

    Parameters
    ----------
    paths, body, **options
        As for :func:`read_documents`.
    sample : int
        Bodies to look at; fewer if they exceed 64 MiB together.

    Returns
    -------
    Peek
    iterator of Document or Rejected
        As from :func:`read_documents`, from the beginning.

    Raises
    ------
    InputError, ParameterError
        As :func:`read_documents`.
    """
    stream = read_documents(paths, body=body, **options)
    bodies = _spread_bodies(paths, sample, options)
    if not bodies:
        first: list[Document | Rejected] = []
        size = 0
        for item in stream:
            first.append(item)
            if isinstance(item, Document):
                bodies.append(item.body)
                size += _bytes_of(item.body)
            if len(bodies) >= sample or size >= _HELD_BYTES:
                break
        stream = DocumentStream(
            itertools.chain(in_blocks(first, is_at_hand=True), stream.by_blocks()),
            is_at_hand=stream.is_at_hand,
            progress=stream.progress,
        )
    dim = next(filter(None, map(_length, bodies)), None)
    dtype = next((array.dtype.name for array in bodies if hasattr(array, "dtype")), None)
    if body == "bits":
        _refuse_doubtful(bodies, dim, options.get("dim"))
        dim = dim and dim * _bits_a_digit(bodies, dtype)
    return Peek(bodies, dim, None if body == "bits" or dtype == "bool" else dtype), stream


def _spread_bodies(
    paths: Sequence[str | os.PathLike[str]], sample: int, options: dict[str, Any]
) -> list[Any]:
    """Return rows spread evenly over the first file; none unless it is an intact ``.npy``."""
    from lshdb.documents.formats.rows import (
        ByteStream,
        is_whole,
        read_header,
        read_rows,
        vector_fault,
    )
    from lshdb.documents.io.streams import Progress, chunks_of, open_source

    if not paths or os.fspath(paths[0]) == STDIN or os.path.isdir(paths[0]):
        return []
    walking = {
        option.name: options[option.name]
        for option in fields(WalkOptions)
        if option.name in options
    }
    sources = find_sources(
        paths[:1],
        input_format=options.get("input_format", "auto"),
        options=WalkOptions(**walking),
    )
    if not sources:
        return []
    source = sources[0]
    if source.input_format != "npy" or source.compression or not source.is_regular:
        return []
    limit = options.get("max_document_bytes", MAX_DOCUMENT_BYTES)
    try:
        with open_source(source) as file:
            header = read_header(ByteStream(chunks_of(source, file, Progress(None, 0))))
            descriptor = file.fileno()
            is_readable = vector_fault(header, limit) is None and is_whole(header, descriptor)
            if not is_readable or header.is_fortran:
                return []
            n_rows = header.shape[0]
            n_taken = min(sample, n_rows, max(_HELD_BYTES // header.row_bytes, 1))
            rows = (number * n_rows // n_taken for number in range(n_taken))
            return list(read_rows(header, descriptor, rows))
    except (BrokenSourceError, OSError):
        return []  # reading the file reports the error


def _refuse_doubtful(bodies: list[Any], length: int | None, dim: int | None) -> None:
    """Refuse bytes that may be packed bits or single bits, unless ``dim`` decides it."""
    arrays = [body for body in bodies if hasattr(body, "dtype") and body.dtype.name == "uint8"]
    if dim is None and arrays and length and all(body.max(initial=0) <= 1 for body in arrays):
        raise InputError(
            f"all bytes of the vectors are 0 or 1: a vector may be {length:,} bits, or "
            f"{8 * length:,} packed bits",
            hint=f"pass --dim {length} or --dim {8 * length}, or save the array as bool",
        )


def _bytes_of(body: Any) -> int:
    if hasattr(body, "nbytes"):
        return int(body.nbytes)
    return len(body) * (1 if isinstance(body, str) else _NUMBER_BYTES)


def _length(body: Any) -> int:
    return 0 if isinstance(body, dict) else len(body)


def _bits_a_digit(bodies: list[Any], dtype: str | None) -> int:
    """Return the bits per element of a body: a digit, a number, or a byte of packed bits."""
    texts = [body for body in bodies if isinstance(body, str)]
    if texts:
        return 1 if all(set(text) <= {"0", "1"} for text in texts) else 4
    return 8 if dtype == "uint8" else 1
