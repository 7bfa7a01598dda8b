"""A file without the lines whose documents are to be dropped, byte for byte."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.clusters.deduplication import (
    Decisions,
    FieldKeys,
    check_keep,
    check_new,
    decide,
    new_from,
)
from lshdb.clusters.listing import StoredAnswer
from lshdb.documents import check_document_limit
from lshdb.documents.document import printable
from lshdb.documents.formats.json_text import exact_value
from lshdb.documents.formats.jsonl import RawLine, key_of, read_raw_lines
from lshdb.documents.io.source import STDIN
from lshdb.documents.registry import HEAD, is_delimited, look_at
from lshdb.documents.values import order_key
from lshdb.errors import InputError, ParameterError
from lshdb.handle import Handle
from lshdb.search.agreement import check_agreement
from lshdb.search.since import Since
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.edges import EdgeState
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["FilterCounts", "Survivors"]

_LINES = 1000
_LINE_BYTES = 4 * 2**20
_FIELDS_NAMED = 10
_CONVERT = (
    "--filter takes JSON Lines as they were added, one object a line: convert the file (an array "
    "with jq -c '.[]'), or write it again in its own format with --output"
)


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
        As in :class:`~lshdb.clusters.listing.StoredAnswer`.
    """

    def __init__(
        self,
        store: Store,
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
        self, snapshot: Snapshot, family: Family, state: EdgeState, level: float
    ) -> Iterator[bytes]:
        self.counts = FilterCounts()
        chosen = decide(
            snapshot,
            family,
            state,
            threshold=level,
            keep=self._keep,
            since=new_from(snapshot, self._against, self._since),
            values=field_values(
                snapshot, self._path, self._keep, key_field=self._key_field, limit=self._limit
            ),
            agreement=self._agreement,
        )
        self._say_unchecked(chosen.unchecked)
        yield from surviving_lines(
            snapshot,
            chosen,
            self._path,
            key_field=self._key_field,
            limit=self._limit,
            counts=self.counts,
        )


def surviving_lines(
    snapshot: Snapshot,
    chosen: Decisions,
    path: str | os.PathLike[str],
    *,
    key_field: str,
    limit: int,
    counts: FilterCounts,
) -> Iterator[bytes]:
    """Yield the lines of a JSON Lines file whose documents are kept, unchanged.

    A line without a document in the index is kept, because nothing shows that it repeats anything.
    So is a line over the limit, which cannot be a document. But a file without any line in the
    index is not the intended one. So lines are read up to the first one in the index before the
    first is given: all of a file that can be read twice, the first thousand of a stream.

    Raises
    ------
    InputError
        No line has a document in the index, or the file cannot be read to its end.
    """
    chunks = _some_lines(path, limit)
    if os.path.isfile(path):
        _require_documents(_some_lines(path, limit), snapshot, path, key_field, is_all=True)
    else:
        first = list(itertools.islice(chunks, 1))
        _require_documents(first, snapshot, path, key_field, is_all=False)
        chunks = itertools.chain(first, chunks)
    for chunk in chunks:
        keys = [key_of(line.record, key_field) for line in chunk]
        known = snapshot.documents_of_keys({key for key in keys if key is not None})
        numbers = [known[key].doc_id if key in known else -1 for key in keys]
        dropped = chosen.dropped(np.array(numbers, dtype=np.int64))
        for line, number, drop in zip(chunk, numbers, dropped.tolist(), strict=True):
            if drop:
                counts.dropped += 1
                continue
            if not line.continues:
                counts.kept += 1
                counts.unknown += number < 0 and not line.data.isspace()
                counts.too_long += not line.is_whole
            yield line.data


def _require_documents(
    chunks: Iterable[list[RawLine]],
    snapshot: Snapshot,
    path: str | os.PathLike[str],
    key_field: str,
    *,
    is_all: bool,
) -> None:
    """Raise InputError if no line has a document in the index, and say why.

    An empty file is accepted. Lines are read up to the first one with a document.

    Raises
    ------
    InputError
    """
    name = "standard input" if os.fspath(path) == STDIN else printable(os.fspath(path))
    n_lines = 0
    head = b""
    record: dict[str, Any] | None = None
    example: str | None = None
    for chunk in chunks:
        keys = {key for line in chunk if (key := key_of(line.record, key_field)) is not None}
        if keys and snapshot.documents_of_keys(keys):
            return
        n_lines += sum(not line.data.isspace() for line in chunk if not line.continues)
        head = head or b"".join(line.data for line in chunk[:100])[:HEAD]
        record = record or next((line.record for line in chunk if line.record is not None), None)
        example = example or next(iter(sorted(keys)), None)
    if not n_lines:
        return
    look = look_at(head)
    if look is not None and look.what == "JSON Lines":
        look = None
    if record is None:
        look = look or is_delimited(head)
        hint = "expected one JSON object per line, as they were added"
        if look is not None:
            hint = look.advice if look.is_binary else _CONVERT
        raise InputError(
            f"{name} is not a JSON Lines file" + (f"; it looks like {look.what}" if look else ""),
            hint=hint,
        )
    lines = f"{n_lines:,} lines" if is_all else f"first {n_lines:,} lines"
    if example is None:
        fields = ", ".join(map(repr, list(record)[:_FIELDS_NAMED]))
        raise InputError(
            f"none of the {lines} of {name} has a key in the field {key_field!r}",
            hint=f"name the field with --key-field; the first object has {fields or 'no field'}",
        )
    raise InputError(
        f"none of the {lines} of {name} has a document in the index; a key is {example!r:.100}",
        hint="check that the file was added to this index, and --key-field"
        + ("" if is_all else "; only a file, not a stream, is searched to its end"),
    )


def _some_lines(path: str | os.PathLike[str], limit: int) -> Iterator[list[RawLine]]:
    """Yield lines to be looked up together, limited by number and bytes."""
    chunk: list[RawLine] = []
    size = 0
    for line in read_raw_lines(path, limit=limit):
        chunk.append(line)
        size += len(line.data)
        if len(chunk) == _LINES or size >= _LINE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def field_values(
    snapshot: Snapshot, path: str | os.PathLike[str], keep: str, *, key_field: str, limit: int
) -> FieldKeys | None:
    """Return values of the field that ``keep`` names, by doc_id; None if it names none.

    The first line of a key counts.
    """
    if not keep.startswith("field:"):
        return None
    field = keep.removeprefix("field:").removeprefix("-")

    def keys(doc_ids: NDArray[np.int64]) -> list[bytes | None]:
        found: dict[int, bytes | None] = {}
        compared = set(doc_ids.tolist())
        for chunk in _some_lines(path, limit):
            values: dict[str, object] = {}
            for line in chunk:
                key = key_of(line.record, key_field)
                if line.record is not None and key is not None and field in line.record:
                    values.setdefault(key, exact_value(line.data, field, line.record[field]))
            for key, document in snapshot.documents_of_keys(values).items():
                if document.doc_id in compared:
                    found.setdefault(document.doc_id, order_key(values[key]))
        return [found.get(doc_id) for doc_id in doc_ids.tolist()]

    return keys
