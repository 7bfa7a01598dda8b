"""Rebuild an index from the files of an export: same numbers, same answers, nothing signed again.

Every file is compared with its checksum first. Then everything is streamed into an index that is
built under another name and renamed when it is complete.

Decided: the ``.npy`` arrays are read from beginning to end and never mapped. If a mapped file is
truncated, SIGBUS ends the process; here it is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.errors import DamageError, LshdbError, system_hint
from lshdb.exchange.manifest import MANIFEST, Manifest, read_manifest, verify_files
from lshdb.exchange.tables import FORMATS, TABLES, Table, tables_of
from lshdb.files.own_files import open_given
from lshdb.params.index_params import FORMAT, IndexParams, refuse_format
from lshdb.phases.phase import counting
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import bucket_keys
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.tables.bodies import hash_body, raw_body
from lshdb.storage.transactions.changes import (
    WriteTransaction,
    load_batches,
    load_clusters,
    load_documents,
    load_edges,
    load_releases,
)
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import collector_paused

__all__ = [
    "DescribedIndex",
    "Exported",
    "described_index",
    "import_export",
    "load_export",
    "read_array",
    "with_bodies",
]

_HINT = "export the index again, or use another copy"


def read_array(
    path: Path, dtype: np.dtype[Any], width: int, *, n_rows: int, block_rows: int
) -> Iterator[NDArray[Any]]:
    """Read the rows of a two-dimensional array in blocks.

    Parameters
    ----------
    path : Path
        The ``.npy`` file.
    dtype : dtype
        The expected type of its values.
    width : int
        The expected number of columns.
    n_rows : int
        The expected number of rows.
    block_rows : int
        Rows in a block.

    Raises
    ------
    DamageError
        The file holds another array, or ends before its last row.
    LshdbError
        The file cannot be read, for a reason other than damage, such as permissions.
    """
    try:
        with open(path, "rb", opener=open_given) as file:
            _check_header(path, file, dtype, (n_rows, width))
            for first in range(0, n_rows, block_rows):
                size = min(block_rows, n_rows - first) * width * dtype.itemsize
                data = file.read(size)
                if len(data) != size:
                    raise DamageError(f"{path} ends before its last row", hint=_HINT)
                yield np.frombuffer(data, dtype=dtype).reshape(-1, width)
    except OSError as error:
        hint = system_hint(error)
        kind = DamageError if hint is None else LshdbError
        raise kind(
            f"{path} cannot be read: {error.strerror or error}", hint=hint or _HINT
        ) from error


def _check_header(path: Path, file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, int]) -> None:
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"format version {version}; expected (1, 0)")
        stored_shape, is_fortran, stored = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # NumPy parses a Python literal, and any error may come out
        raise DamageError(f"{path} is not a readable .npy file: {error}", hint=_HINT) from error
    if is_fortran or stored != dtype or stored_shape != shape:
        order = "Fortran" if is_fortran else "C"
        raise DamageError(
            f"{path} holds {stored.str} of shape {stored_shape} in {order} order; expected "
            f"{dtype.str} of shape {shape} in C order, as in the rest of {path.parent.name}",
            hint=_HINT,
        )


_BATCH_DOCUMENTS = 40_000
_BATCH_CHARACTERS = 32 * 2**20
_ROWS = 50_000
_ROW_BYTES = 32 * 2**20
_VECTORS = 1_000


def import_export(
    folder: Path,
    path: Path,
    *,
    place: DatabasePlace,
) -> None:
    """Build an index from an export; see :meth:`lshdb.Index.from_export`."""
    manifest = read_manifest(folder)
    source = _Export(folder, manifest)
    verify_files(folder, manifest, source.files())
    described = described_index(
        folder / MANIFEST, manifest.index, manifest.parameters, manifest.edges
    )
    load_export(source, described, path, place=place)


class Exported(Protocol):
    """The rows of an exported index, in any of its formats."""

    @property
    def documents_path(self) -> Path | str:
        """The file or folder of documents, for messages."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by table, with ``signatures`` and ``postings``."""

    @property
    def has_more(self) -> bool:
        """Whether there are the tables of kept fields, nights and cursors."""

    def rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Read the rows of a table."""

    def documents(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows of documents; the last value is the body, or None."""

    def row_blocks(self, params: IndexParams) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield blocks of signature rows, and of vectors if they are kept."""


def load_export(
    source: Exported,
    described: DescribedIndex,
    path: Path,
    *,
    place: DatabasePlace,
) -> None:
    """Build an index at ``path`` from exported rows; it appears when it is complete.

    Raises
    ------
    DamageError
        A row is invalid or contradicts another.
    IndexExistsError, LockedError, DatabaseError, LshdbError
        As for :meth:`lshdb.Index.from_export`; there is no index.
    """
    params, state, edges = described
    with (
        Store.making(path, params, place=place, state=state) as store,
        Writer(store, lock_timeout=0.0) as writer,
    ):
        blocks, n_signatures = source.row_blocks(params), source.counts["signatures"]
        for parts in counting(blocks, "signatures", n_signatures, lambda parts: len(parts[0])):
            with writer.transaction() as transaction:  # cut anew: nothing of an export is trusted
                keys = bucket_keys(parts[0], **params.cut)
                transaction.bands.append(transaction.n_signatures, keys)
                transaction.append_signatures(*parts)
        _load_documents(writer, source, params)
        with writer.transaction() as transaction:
            load_releases(transaction, source.rows("releases"))
            for rows in _cut(source.rows("edges")):
                load_edges(transaction, rows)
            load_clusters(transaction, list(source.rows("clusters")), edges)
            if source.has_more:
                _load_more(transaction, source)
        with writer.transaction() as transaction:
            transaction.number_documents_from(state["next_doc_id"])
        store.use_orders(BandOrders(params.cut))
        writer.tidy()


def _load_more(transaction: WriteTransaction, source: Exported) -> None:
    """Load kept fields, nights and cursors."""
    for rows in _cut(source.rows("fields")):
        for doc_id, text in rows:
            if not isinstance(_json_value(text), dict):
                raise _damage(
                    source.documents_path,
                    f"is of an export whose fields of document {doc_id} are no JSON object",
                )
        transaction.put_fields(rows)
    for add_id, name in source.rows("nights"):
        transaction.name_night(add_id, name)
    for name, batch_id, advanced_at in source.rows("cursors"):
        transaction.set_cursor(name, batch_id, advanced_at)


def _json_value(text: str) -> Any:
    """Return the value of JSON text; None if it is invalid."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Export:
    """The files of an export."""

    folder: Path
    manifest: Manifest

    @property
    def documents_path(self) -> Path:
        """The file of documents."""
        return self.folder / self.files()[0]

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by table."""
        return self.manifest.counts

    @property
    def has_more(self) -> bool:
        """Whether there are the tables of kept fields, nights and cursors."""
        return self.manifest.has_more

    def files(self) -> list[str]:
        """Return the names of the files."""
        suffix = FORMATS[self.manifest.tables].suffix
        postings = "postings" + (suffix if self.manifest.tables == "parquet" else ".npy")
        arrays = [
            f"{name}.npy" for name in ("signatures", "vectors") if name in self.manifest.counts
        ]
        return [*(f"{name}{suffix}" for name in self.tables()), *arrays, postings]

    def tables(self) -> dict[str, Table]:
        """Return the tables of the export, by name."""
        metric = self.manifest.parameters.get("metric")
        return tables_of(metric, has_more=self.manifest.has_more)

    def rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Read the rows of a table."""
        form = FORMATS[self.manifest.tables]
        path = self.folder / f"{name}{form.suffix}"
        count = 0
        for row in form.read(path, self.tables()[name]):
            count += 1
            yield row
        self._check_count(path, name, count)

    def documents(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows of documents; the last value is the body, or None."""
        return with_bodies(self.rows("documents"), self.documents_path)

    def row_blocks(self, params: IndexParams) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield blocks of signature rows, and of vectors if they are kept."""
        layouts = row_layouts(params)
        n_rows = self.manifest.counts["signatures"]
        block_rows = max(1, _ROW_BYTES // sum(layout.row_bytes for layout in layouts))
        for layout in layouts:
            name = f"{layout.kind}s"
            self._check_count(self.folder / f"{name}.npy", name, n_rows)
        arrays = [
            read_array(
                self.folder / f"{layout.kind}s.npy", layout.dtype, layout.n_columns,
                n_rows=n_rows, block_rows=block_rows,
            )
            for layout in layouts
        ]  # fmt: skip
        return zip(*arrays, strict=True)

    def _check_count(self, path: Path, name: str, count: int) -> None:
        if count != self.manifest.counts.get(name):
            raise _damage(
                path, f"has {count} rows, but {MANIFEST} says {self.manifest.counts.get(name)}"
            )


DescribedIndex: TypeAlias = "tuple[IndexParams, dict[str, Any], EdgeState | None]"
"""The parameters, the columns of the table ``state``, and the state of the edges."""


def described_index(
    path: Path | str,
    index: Mapping[str, Any],
    parameters: Mapping[str, Any],
    edge_state: Mapping[str, Any] | None,
) -> DescribedIndex:
    """Check and return the description of the index in an export.

    Parameters
    ----------
    path : Path or str
        The file with the description, for messages.
    index : mapping
        Format, uuid, created_at, library_version, unicode_version, next_doc_id.
    parameters : mapping
        Name to value.
    edge_state : mapping or None
        The fields of :class:`EdgeState`.

    Raises
    ------
    FormatError
        The index has another format.
    DamageError
        An entry is missing or invalid.
    """
    if index.get("format") != FORMAT:
        raise refuse_format(f"the index that {path} describes", index.get("format"))
    try:
        params = IndexParams(**parameters)
        edges = None if edge_state is None else EdgeState(**edge_state)
        state = {
            name: str(index[name])
            for name in ("uuid", "created_at", "library_version", "unicode_version")
        }
        numbers = {name: index[name] for name in ("next_doc_id", "index_bands")}
        if any(type(number) is not int for number in numbers.values()):
            raise TypeError("next_doc_id and index_bands are whole numbers")
        stored = (*numbers.values(), *(edge_state or {}).values())
        if any(type(value) is int and not -(2**63) <= value < 2**63 for value in stored):
            raise ValueError("a number has more than 64 bits")
        return params, {**state, **numbers}, edges
    except (TypeError, KeyError, ValueError) as error:
        raise _damage(path, f"has missing or invalid entries: {error}") from error


def with_bodies(rows: Iterable[tuple[Any, ...]], path: Path | str) -> Iterator[tuple[Any, ...]]:
    """Yield exported rows of documents with the body, or None, as the last value."""
    n_values = len(TABLES["documents"].columns) - 2
    for row in rows:
        text, tokens, *weights = row[n_values:]
        body = tokens if text is None else text
        if weights and weights[0] is not None:
            body = _weights(path, weights[0])
        yield (*row[:n_values], body)


def _load_documents(
    writer: Writer,
    source: Exported,
    params: IndexParams,
) -> None:
    with writer.transaction() as transaction:
        load_batches(transaction, source.rows("batches"))
    n_signatures, n_documents = source.counts["signatures"], source.counts["documents"]
    path = source.documents_path
    for batch in counting(_batches(source.documents()), "documents", n_documents, len):
        rows: list[tuple[Any, ...]] = []
        bodies: list[tuple[int, str, bytes]] = []
        for *values, body in batch:
            content_hash, body_hash = bytes.fromhex(values[3]), bytes.fromhex(values[4])
            if values[2] is not None and not 0 <= values[2] < n_signatures:
                raise _damage(path, f"{values[1]!r} has signature {values[2]}, which is missing")
            if params.keeps_texts:
                form, raw = ("text", b"") if body is None else raw_body(body)
                if isinstance(body, list) and hash_body(form, raw) != body_hash:
                    form, raw = raw_body(frozenset(body))
                if body is None or hash_body(form, raw) != body_hash:
                    raise _damage(path, f"the text of {values[1]!r} is not the exported one")
                bodies.append((values[0], form, raw))
            rows.append((*values[:3], content_hash, body_hash, *values[5:]))
        with collector_paused(), writer.transaction() as transaction:
            if params.keeps_vectors:
                _check_vectors(path, transaction.snapshot, rows)
            load_documents(transaction, rows, bodies)


def _weights(path: Path | str, text: str) -> dict[str, Any]:
    weights = _json_value(text)
    if not isinstance(weights, dict):
        raise _damage(path, f"holds weights that are not a JSON object: {text[:60]!r}")
    return weights


def _check_vectors(path: Path | str, snapshot: Snapshot, rows: list[tuple[Any, ...]]) -> None:
    """Compare the stored vectors of documents with their hashes."""
    for start in range(0, len(rows), _VECTORS):
        block = rows[start : start + _VECTORS]
        vectors = snapshot.vectors.of_documents([row[2] for row in block])
        for row, vector in zip(block, vectors, strict=True):
            if hash_body(*raw_body(vector)) != row[4]:
                raise _damage(path, f"the vector of {row[1]!r} is not the exported one")


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Cut documents into batches that fit in memory; the last value is the body."""
    batch: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        batch.append(row)
        body = row[-1] or ""
        size += len(body) if isinstance(body, str) else sum(map(len, body)) + 64 * len(body)
        if len(batch) >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _cut(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while block := list(itertools.islice(rows, _ROWS)):
        yield block


def _damage(path: Path | str, what: str) -> DamageError:
    return DamageError(f"{path} {what}", hint=_HINT)
