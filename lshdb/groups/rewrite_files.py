"""Files without the records that are to be dropped, or with a mark on every record.

:class:`Rewriting` writes files, :class:`Survivors` gives the lines of one, byte for byte.

Each file is read and written as a stream, in the format that it has
(``documents/formats/passthrough.py``), and appears at its place when it is whole
(``files/whole_files.py``). Whatever can be refused is refused before the first file is
written: outputs that exist or are inputs, formats that cannot be written, and files of which no
record is in the index.

A record without a document in the index stays, because nothing shows that it repeats anything.
Records with one key have one document, so they stay or go together; those after the first are
counted.

Where the documents came from these very files and each record is one, as in an index that lasts for
one question, the numbers of the lines tell which records go, and the lines of JSON between them are
copied as they lie. That takes a fifth to a third off the whole command.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import printable
from lshdb.arrays import distinct
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    Fields,
)
from lshdb.documents.formats.passthrough import (
    MARKS,
    JsonLines,
    Mark,
    RecordBlock,
    RecordFile,
    open_records,
)
from lshdb.documents.io.dataset_folders import described_anew
from lshdb.documents.io.encodings import find_encoding
from lshdb.documents.io.source import STDIN, InputFile
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import Progress
from lshdb.documents.read import check_document_limit, refuse_useless
from lshdb.documents.registry import (
    HEAD,
    is_delimited,
    look_at,
)
from lshdb.documents.values import order_key
from lshdb.errors import InputError, ParameterError
from lshdb.files.whole_files import STDOUT, standard_output, whole_file
from lshdb.groups.deduplication import (
    Decision,
    Decisions,
    FieldKeys,
    check_keep,
    check_new,
    decide,
    decisions,
    field_name,
    new_from,
    stored_keys,
)
from lshdb.groups.listing import StoredAnswer, cluster_labels
from lshdb.groups.rewrite_plan import plan_outputs
from lshdb.handle import Handle
from lshdb.phases.phase import Phase
from lshdb.search.agreement import check_agreement
from lshdb.search.loss import PairCount
from lshdb.search.since import Since
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.transactions.diagnosis import callers_function
from lshdb.storage.transactions.index_state import IndexState, OpenIndex

__all__ = [
    "FilterCounts",
    "Rewriting",
    "RewrittenFile",
    "RewrittenFiles",
    "Survivors",
]

_FIELDS_NAMED = 10
_CONVERT = (
    "--filter takes JSON Lines as they were added, one object a line: convert the file, or write "
    "it again in its own format with --output"
)
_DROPPED = 10_000
"""Dropped documents whose names are looked up at once."""
_STAYS, _GOES = Mark(True), Mark(False)
_MARK_TYPES = ("bool", "string", "string", "float64")


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """What became of the records of one file.

    Attributes
    ----------
    path, output : str
    kept, dropped : int
        Records. Of a marked file all are written; these are those that are marked so.
    unknown : int
        Kept records without a document in the index.
    repeated : int
        Records whose key an earlier record has, of this file or one before it.
    """

    path: str
    output: str
    kept: int
    dropped: int
    unknown: int
    repeated: int


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """What became of the records of several files.

    Attributes
    ----------
    files : tuple of RewrittenFile
        In the order in which they were written.
    unchecked : PairCount or None
        As in :class:`~lshdb.groups.listing.StoredAnswer`.
    newest_batch : int or None
        The newest batch that was compared; :meth:`lshdb.Index.advance` sets a cursor to it.
    left_out : int
        Files and folders in folders and patterns that are of other formats, hidden or ignored.
    """

    files: tuple[RewrittenFile, ...]
    unchecked: PairCount | None
    newest_batch: int | None
    left_out: int

    @property
    def kept(self) -> int:
        """Records kept in all files."""
        return sum(file.kept for file in self.files)

    @property
    def dropped(self) -> int:
        """Records dropped in all files."""
        return sum(file.dropped for file in self.files)

    @property
    def unknown(self) -> int:
        """Kept records without a document in the index."""
        return sum(file.unknown for file in self.files)

    @property
    def repeated(self) -> int:
        """Records whose key an earlier record has."""
        return sum(file.repeated for file in self.files)

    @property
    def is_doubtful(self) -> bool:
        """Whether less than one record in a hundred has its document in the index."""
        return 99 * (self.kept + self.dropped - self.unknown) < self.unknown


_FOLDERS = ("hidden", "gitignore", "include", "exclude", "relative", "strip_prefix")


def rewrite_files(
    handle: Handle,
    paths: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    mark: bool = False,
    **question: Any,
) -> RewrittenFiles:
    """Write files again; what the question is made of has the names of ``Index.dedup_files``."""
    folders = {name: question.pop(name) for name in _FOLDERS if name in question}
    rewriting = handle.ask(
        Rewriting, handle, paths, output, is_marked=mark, folders=folders, **question
    )
    files = tuple(rewriting)
    return RewrittenFiles(files, rewriting.unchecked, rewriting.newest_batch, rewriting.left_out)


class Rewriting(StoredAnswer[RewrittenFile]):
    """Files as they are written, one after another: a step of the iteration writes one."""

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        paths: Sequence[str | os.PathLike[str]],
        output: str | os.PathLike[str],
        /,
        *,
        is_marked: bool = False,
        overwrite: bool = False,
        keep: str = "first",
        key_field: str | None = None,
        row_keys: bool = False,
        delimiter: str | None = None,
        encoding: str | None = None,
        quote: str | None = None,
        input_format: str = "auto",
        against: bool = False,
        since: Since = None,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
        folders: Mapping[str, Any],
        needs_documents: bool = True,
        on_file: Callable[[RewrittenFile], None] | None = None,
        on_decisions: Callable[[Iterator[Decision]], None] | None = None,
        agree: str | Iterable[str] = (),
        differ: str | Iterable[str] = (),
        **asked: Any,
    ) -> None:
        self._agreement = check_agreement(store, agree, differ)
        if self._agreement is not None and is_marked:
            raise ParameterError(
                "marks name the clusters of all pairs, but agree and differ leave pairs out",
                hint="write the kept records without --mark, or list lshdb clusters with --agree",
            )
        self._limit = check_document_limit(max_document_bytes)
        check_keep(keep)
        check_new(store, against, since)
        self._fields = Fields(
            key=key_field,
            row_keys=row_keys,
            delimiter=delimiter,
            encoding=None if encoding is None else find_encoding(encoding),
            quote=quote,
        )
        self._fields.check()
        self._plan, self._descriptions, self.left_out = plan_outputs(
            paths, os.fspath(output), input_format, overwrite=overwrite, folders=folders
        )
        refuse_useless(
            [source for source, _ in self._plan], delimiter=delimiter, encoding=encoding,
            quote=quote,
        )  # fmt: skip
        for source, target in self._plan:
            if target != STDOUT:
                store.refuse_inside(Path(target))
            if not source.format.has_rows:  # others have been opened, to be read
                with open_records(source, self._fields, self._limit) as file:
                    next(file.blocks(), None)
        self._is_marked, self._overwrite, self._keep = is_marked, overwrite, keep
        self._against, self._since = against, since
        self._needs_documents, self._on_file = needs_documents, callers_function(on_file)
        self._on_decisions = on_decisions
        super().__init__(store, family, handle, keep=keep, **asked)

    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[RewrittenFile]:
        if self._needs_documents:
            for source, _ in self._plan:
                self._require_documents(snapshot, source)
        chosen = decide(
            snapshot,
            family,
            state,
            threshold=level,
            keep=self._keep,
            since=new_from(snapshot, self._against, self._since),
            values=_record_keys(snapshot, self._keep, self._blocks),
            agreement=self._agreement,
        )
        self._say_unchecked(chosen.unchecked)
        if self._on_decisions is not None:
            self._on_decisions(decisions(snapshot, chosen, family.params, state.method, only="all"))
        labels = None
        if self._is_marked:
            labels = cluster_labels(snapshot, threshold=level, linkage="component")
        judge = _Judge(snapshot, chosen, labels)
        sizes = [os.path.getsize(source.path) for source, _ in self._plan]
        with Phase("bytes", sum(sizes)) as phase:
            progress = Progress(lambda n_done, *_: phase.reached(n_done), sum(sizes))
            for (source, target), size in zip(self._plan, sizes, strict=True):
                progress.begin(size)
                with open_records(source, self._fields, self._limit, progress=progress) as file:
                    written = self._write(judge, source, target, file, progress)
                progress.end()
                if self._on_file is not None:
                    self._on_file(written)
                yield written
        for path, target in self._descriptions:
            fields = dict(zip(MARKS, _MARK_TYPES, strict=True)) if self._is_marked else {}
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with whole_file(target, overwrite=self._overwrite) as out:
                out.write(described_anew(path, fields))

    def _write(
        self,
        judge: _Judge,
        source: InputFile,
        target: str,
        file: RecordFile,
        progress: Progress,
    ) -> RewrittenFile:
        n_kept_records = dropped = 0
        judge.unknown = judge.repeated = 0
        compression = file.source.compression
        if target == STDOUT:
            opened = standard_output(compression)
        else:
            os.makedirs(os.path.dirname(target) or os.curdir, exist_ok=True)
            opened = whole_file(target, compression=compression, overwrite=self._overwrite)
        with opened as out:
            doc_ids = None if self._is_marked else judge.documents_of_file(source)
            pieces = None if doc_ids is None else file.without(judge.lines(doc_ids))
            if doc_ids is not None and pieces is not None:
                out.writelines(pieces)
                dropped = judge.take(doc_ids)
                n_kept_records = len(doc_ids) - dropped
            else:
                writer = file.writer(out, is_marked=self._is_marked)
                documents = judge.documents_of_file(source) if file.source.format.has_rows else None
                bytes_a_row = os.path.getsize(source.path) / len(documents) if documents else 0.0
                for block in file.blocks():
                    progress.read(int(bytes_a_row * len(block.keys)))
                    marks = judge(block.keys)
                    n_kept = sum(mark.keep for mark in marks)
                    n_kept_records += n_kept
                    dropped += len(marks) - n_kept
                    writer.write(block, marks)
                writer.close()
        return RewrittenFile(
            source.path, target, n_kept_records, dropped, judge.unknown, judge.repeated
        )

    def _require_documents(self, snapshot: IndexState, source: InputFile) -> None:
        """Raise InputError if a file has records, and none of them is in the index."""
        with open_records(source, self._fields, self._limit) as file:
            n_records, example = _unknown_records(file.blocks(), snapshot)
        if not n_records:
            return
        if example is None:
            raise InputError(
                f"none of the {n_records:,} records of {source.name} has a key in the field "
                f"{self._fields.key_name!r}",
                hint="name the field with --key-field, or pass --row-keys",
            )
        raise InputError(
            f"none of the {n_records:,} records of {source.name} has a document in the index; a "
            f"key is {example!r:.100}",
            hint="check that the file was added to this index, and --key-field or --row-keys",
        )

    def _blocks(self) -> Iterator[RecordBlock]:
        """Yield the records of all files."""
        for source, _ in self._plan:
            with open_records(source, self._fields, self._limit) as file:
                yield from file.blocks()


@dataclass(slots=True)
class FilterCounts:
    """What became of the lines of a file; complete when all have been read.

    Attributes
    ----------
    kept, dropped : int
        Lines.
    unknown : int
        Kept lines without a document in the index.
    too_long : int
        Unknown lines that were over the limit and not parsed.
    """

    kept: int = 0
    dropped: int = 0
    unknown: int = 0
    too_long: int = 0

    @property
    def is_doubtful(self) -> bool:
        """Whether less than one line in a hundred has its document in the index.

        Then it may not be the intended file.
        """
        return 99 * (self.kept + self.dropped - self.unknown) < self.unknown


class Survivors(StoredAnswer[bytes]):
    """The kept lines of a file, byte for byte; one over the limit comes in pieces.

    Attributes
    ----------
    counts : FilterCounts
        For the last iteration that has begun; complete after its last line.
    state, unchecked
        As in :class:`~lshdb.groups.listing.StoredAnswer`.
    """

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        path: str | os.PathLike[str],
        /,
        *,
        key_field: str,
        keep: str,
        against: bool,
        since: Since,
        max_document_bytes: int,
        agree: str | Iterable[str],
        differ: str | Iterable[str],
        **asked: Any,
    ) -> None:
        self._limit = check_document_limit(max_document_bytes)
        self._agreement = check_agreement(store, agree, differ)
        check_keep(keep)
        check_new(store, against, since)
        if keep.startswith("field:") and os.fspath(path) == STDIN:
            raise ParameterError(
                "standard input can be read only once, and choosing by a field takes two passes",
                hint="write it to a file first",
            )
        self._path, self._key_field, self._keep = path, key_field, keep
        self._against, self._since = against, since
        self.counts = FilterCounts()
        super().__init__(store, family, handle, path=os.fspath(path), keep=keep, **asked)

    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[bytes]:
        self.counts = FilterCounts()
        chosen = decide(
            snapshot,
            family,
            state,
            threshold=level,
            keep=self._keep,
            since=new_from(snapshot, self._against, self._since),
            values=_record_keys(snapshot, self._keep, self._blocks),
            agreement=self._agreement,
        )
        self._say_unchecked(chosen.unchecked)
        yield from self._lines(_Judge(snapshot, chosen, None), snapshot)

    def _lines(self, judge: _Judge, snapshot: IndexState) -> Iterator[bytes]:
        """Yield the lines that stay.

        A line without a document in the index is kept, because nothing shows that it repeats
        anything. So is a line over the limit, which cannot be a document. But a file without any
        line in the index is not the intended one. So lines are read up to the first one in the
        index before the first is given: all of a file that can be read twice, the first thousand of
        a stream.

        Raises
        ------
        InputError
            No line has a document in the index, or the file cannot be read to its end.
        """
        counts = self.counts
        if is_file := os.path.isfile(self._path):
            with self._opened() as file:
                self._require_documents(file.blocks(), snapshot, is_all=True)
        with self._opened() as file:
            blocks = file.blocks()
            if not is_file:
                first = list(itertools.islice(blocks, 1))
                self._require_documents(first, snapshot, is_all=False)
                blocks = itertools.chain(first, blocks)
            writer = file.writer(io.BytesIO(), is_marked=False)
            for block in blocks:
                marks = judge(block.keys)
                n_kept = sum(mark.keep for mark in marks)
                n_blank = sum(not record.number for record in block.rows)
                counts.kept += n_kept + n_blank
                counts.dropped += len(marks) - n_kept
                counts.unknown = judge.unknown
                counts.too_long += sum(
                    record.begins and len(record.data.rstrip(b"\n")) > self._limit
                    for record in block.rows
                )
                yield from writer.pieces(block, marks)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[JsonLines]:
        with open_single(self._path, input_format="jsonl") as (_, chunks):
            source = InputFile(os.fspath(self._path))
            yield JsonLines(source, chunks, Fields(key=self._key_field), self._limit)

    def _blocks(self) -> Iterator[RecordBlock]:
        with self._opened() as file:
            yield from file.blocks()

    def _require_documents(
        self, blocks: Iterable[RecordBlock], snapshot: IndexState, *, is_all: bool
    ) -> None:
        """Raise InputError if no line has a document in the index, and say why.

        An empty file is accepted. Lines are read up to the first one with a document.

        Raises
        ------
        InputError
        """
        path = os.fspath(self._path)
        name = "standard input" if path == STDIN else printable(path)
        head = b""
        fields: Mapping[str, Any] | None = None

        def watched() -> Iterator[RecordBlock]:
            nonlocal head, fields
            for block in blocks:
                head = head or b"".join(record.data for record in block.rows[:100])[:HEAD]
                objects = (record.fields for record in block.rows if record.fields is not None)
                fields = fields or next(objects, None)
                yield block

        n_lines, example = _unknown_records(watched(), snapshot)
        if not n_lines:
            return
        look = look_at(head)
        if look is not None and look.what == "JSON Lines":
            look = None
        if fields is None:
            look = look or is_delimited(head)
            hint = "expected one JSON object per line, as they were added"
            if look is not None:
                hint = look.advice if look.is_binary else _CONVERT
            raise InputError(
                f"{name} is not a JSON Lines file"
                + (f"; it looks like {look.what}" if look else ""),
                hint=hint,
            )
        lines = f"{n_lines:,} lines" if is_all else f"first {n_lines:,} lines"
        if example is None:
            names = ", ".join(map(repr, list(fields)[:_FIELDS_NAMED]))
            raise InputError(
                f"none of the {lines} of {name} has a key in the field {self._key_field!r}",
                hint=f"name the field with --key-field; the first object has {names or 'no field'}",
            )
        raise InputError(
            f"none of the {lines} of {name} has a document in the index; a key is {example!r:.100}",
            hint="check that the file was added to this index, and --key-field"
            + ("" if is_all else "; only a file, not a stream, is searched to its end"),
        )


def _unknown_records(blocks: Iterable[RecordBlock], snapshot: IndexState) -> tuple[int, str | None]:
    """Return how many records there are, and a key, if none is in the index; else 0."""
    n_records = 0
    example = None
    for block in blocks:
        keys = {key for key in block.keys if key is not None}
        if keys and snapshot.documents_of_keys(keys):
            return 0, None
        n_records += len(block.keys)
        example = example or next(iter(sorted(keys)), None)
    return n_records, example


def _record_keys(
    snapshot: IndexState, keep: str, blocks: Callable[[], Iterator[RecordBlock]]
) -> FieldKeys | None:
    """Return the function that reads the field that ``keep`` names; None if it names none.

    Values of the records count, the first of each key; for documents without a record those that
    the index has.
    """
    name = field_name(keep)
    if name is None:
        return None

    def keys(doc_ids: NDArray[np.int64]) -> list[bytes | None]:
        stored = stored_keys(snapshot, doc_ids, name)
        values = dict(zip(doc_ids.tolist(), stored, strict=True))
        is_there = any(key is not None for key in stored)

        def watched() -> Iterator[RecordBlock]:
            nonlocal is_there
            for block in blocks():
                is_there = is_there or block.has(name)
                yield block

        _take_values(snapshot, watched(), name, set(values), values)
        if len(doc_ids) and not is_there:
            raise ParameterError(
                f"keep is {keep!r}, and no record has a field {name!r}",
                hint="check the name of the field",
            )
        return [values[doc_id] for doc_id in doc_ids.tolist()]

    return keys


def _take_values(
    snapshot: IndexState,
    blocks: Iterable[RecordBlock],
    name: str,
    left: set[int],
    values: dict[int, bytes | None],
) -> None:
    """Note the values of a field for the documents that are left; the first of each key counts."""
    for block in blocks:
        by_key: dict[str, object] = {}
        for key, value in zip(block.keys, block.values(name), strict=True):
            if key is not None and value is not None:
                by_key.setdefault(key, value)
        for key, document in snapshot.documents_of_keys(by_key).items():
            if document.doc_id in left:
                left.remove(document.doc_id)
                values[document.doc_id] = order_key(by_key[key])


_PAGE = 2**14


class _SeenDocuments:
    """A set of doc_ids: a byte an id, in pages, since one number may be far from the others."""

    def __init__(self) -> None:
        self._pages: dict[int, NDArray[np.bool_]] = {}

    def mark(self, doc_ids: NDArray[np.int64]) -> int:
        """Take in some doc_ids, sorted and distinct; return how many are new."""
        pages, places = doc_ids // _PAGE, doc_ids % _PAGE
        starts = np.flatnonzero(np.diff(pages, prepend=-1))
        n_new = 0
        for number, of_page in zip(
            pages[starts].tolist(), np.split(places, starts)[1:], strict=True
        ):
            seen = self._pages.setdefault(number, np.zeros(_PAGE, dtype=bool))
            n_new += int((~seen[of_page]).sum())
            seen[of_page] = True
        return n_new


class _Judge:
    """Says of keys what becomes of their records.

    Attributes
    ----------
    unknown, repeated : int
        Counts so far, as in ``RewrittenFile``.
    """

    def __init__(
        self,
        snapshot: IndexState,
        chosen: Decisions,
        labels: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]] | None,
    ) -> None:
        self._snapshot, self._chosen, self._labels = snapshot, chosen, labels
        self._seen = _SeenDocuments()
        self.unknown = self.repeated = 0

    def __call__(self, keys: Sequence[str | None]) -> list[Mark]:
        documents = self._snapshot.documents_of_keys({key for key in keys if key is not None})
        doc_ids = np.fromiter(
            (documents[key].doc_id if key in documents else -1 for key in keys),
            dtype=np.int64,
            count=len(keys),
        )
        present = doc_ids[doc_ids >= 0]
        self.unknown += len(doc_ids) - len(present)
        self.repeated += len(present) - self._seen.mark(distinct(present))
        dropped = self._chosen.dropped(doc_ids)
        if self._labels is None:
            return [_GOES if drop else _STAYS for drop in dropped.tolist()]
        signature_ids = [
            (-1 if (document := documents.get(key)) is None or document.signature_id is None  # type: ignore[arg-type]
             else document.signature_id)
            for key in keys
        ]  # fmt: skip
        return self._with_clusters(doc_ids, dropped, np.array(signature_ids, dtype=np.int64))

    def documents_of_file(self, source: InputFile) -> range | None:
        """Return the doc_ids of a file's records; None if they are known by their keys alone."""
        return self._snapshot.documents_of_file(source.name)

    def lines(self, doc_ids: range) -> Iterator[tuple[int, str]]:
        """Yield the line and the key of each document of a file that is dropped, in order."""
        start, stop = np.searchsorted(self._chosen.doc_ids, [doc_ids.start, doc_ids.stop]).tolist()
        for at in range(start, stop, _DROPPED):
            gone = self._chosen.doc_ids[at : min(at + _DROPPED, stop)]
            keys = self._snapshot.keys_of(gone)
            for source, doc_id in zip(
                self._snapshot.values_of(gone, "source"), gone.tolist(), strict=True
            ):
                yield int(f"{source}".rpartition(":")[2]), keys[doc_id]

    def take(self, doc_ids: range) -> int:
        """Count the records of a file, each of which is a document; return how many are dropped."""
        for start in range(doc_ids.start, doc_ids.stop, _PAGE):
            part = np.arange(start, min(start + _PAGE, doc_ids.stop))
            self.repeated += len(part) - self._seen.mark(part)
        bounds = np.searchsorted(self._chosen.doc_ids, [doc_ids.start, doc_ids.stop])
        return int(np.diff(bounds)[0])

    def _with_clusters(
        self,
        doc_ids: NDArray[np.int64],
        dropped: NDArray[np.bool_],
        signature_ids: NDArray[np.int64],
    ) -> list[Mark]:
        signatures = distinct(signature_ids[signature_ids >= 0])
        labelled, labels = self._labels(signatures) if self._labels else (signatures, signatures)
        label_of = dict(zip(labelled.tolist(), labels.tolist(), strict=True))
        places = np.searchsorted(self._chosen.doc_ids, doc_ids[dropped])
        kept_ids = self._chosen.kept[places]
        names = self._snapshot.keys_of(distinct(np.concatenate([labels, kept_ids])))
        of_dropped = iter(
            zip(kept_ids.tolist(), self._chosen.similarities[places].tolist(), strict=True)
        )
        marks = []
        for drop, signature_id in zip(dropped.tolist(), signature_ids.tolist(), strict=True):
            label = label_of.get(signature_id)
            cluster = None if label is None else names.get(label)
            if drop:
                stands, similarity = next(of_dropped)
                marks.append(Mark(False, cluster, names[stands], similarity))
            else:
                marks.append(Mark(True, cluster))
        return marks
