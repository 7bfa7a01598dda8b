"""Stored texts, or vectors -> another index with other parameters.

They are added batch by batch to an index that is made aside and moves into place when it is
complete. The times at which a document was first and last added are kept; a normal add would set
them again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from lshdb.arguments import check_names
from lshdb.documents.blocks import (
    DocumentBlock,
    in_blocks,
)
from lshdb.documents.document import Document
from lshdb.errors import DamageError, ParameterError, TextNotStoredError
from lshdb.ingest.add import InputShare, Rejections, in_batches, source_of_bodies
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.ahead import Ahead
from lshdb.ingest.pipeline import AddRun, commit_batches
from lshdb.params.index_params import IndexParams
from lshdb.params.metrics import METRICS, SCHEMES
from lshdb.params.options import CreateOptions
from lshdb.phases.phase import Total
from lshdb.shingling import URL_UNITS
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.families import MOST_BODIES, family_of, params_for
from lshdb.signatures.family import Family
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.tables.bodies import hash_body, raw_body
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter

__all__ = ["StoredText", "add_stored", "changed_params", "reindex_store"]

_VECTORS = 1_000
_SAMPLE_NUMBERS = 8_000_000
"""Numbers of the vectors in a sample, at most: 64 MB of the widest type."""
_CHOOSE_BANDS = {"threshold", "recall", "bands", "rows", "num_perm"}
_KEPT = ("metric", "scheme", "num_perm", "seed", "threshold", "store_text")
_PLURALS = {"text": "texts", "weights": "weights", "vector": "vectors", "bits": "bits"}

_OPTIONS = {
    *("threshold", "recall", "bands", "rows", "num_perm", "scheme", "seed", "unit", "k", "bag"),
    *("lowercase", "strip_accents", "strip_punctuation", "digits", "stop_tokens", "stop_words"),
    *("store_text", "metric", "dtype", "width", "passages"),
}
_OF_SLOTS = frozenset({"num_perm", "width"})
"""Parameters whose meaning changes if slots become words instead of bits, or the reverse."""
_OF_A_METRIC = frozenset({"scheme", "threshold"}) | _OF_SLOTS
"""Parameters whose meaning changes under another metric."""


def reindex_store(
    store: Store,
    path: Path,
    *,
    family: Family,
    tokenizer: Tokenizer | str | None,
    place: DatabasePlace,
    workers: int | None,
    on_commit: Callable[[AddResult], None] | None,
    changes: Mapping[str, Any],
) -> AddResult:
    """Make another index from the stored texts; see :meth:`lshdb.Index.reindex`."""
    tokenizer = given_tokenizer(tokenizer)
    if not store.params.store_text:
        raise TextNotStoredError(
            f"reindexing needs the texts or vectors, and {store.directory.path} was made without",
            hint="add the documents to a new index",
        )
    store.directory.refuse_inside(path)
    params = _params_of_another(store, changes, tokenizer)
    split = None
    if params.tokenizer:
        is_same = tokenizer is None and family.split is not None
        split = family.split if is_same else splitter(params.tokenizer, tokenizer)
    started = time.perf_counter()
    with (
        store.reading() as snapshot,
        Store.making(path, params, place=place) as new_store,
        Writer(new_store, lock_timeout=0.0) as writer,
    ):
        new_store.use_orders(BandOrders(params.cut))
        result = add_stored(
            writer,
            _documents(snapshot, store.params),
            snapshot.n_documents,
            f"reindex of {store.directory.path}",
            family_of(params, split),
            cuts_windows=not store.params.window,
            workers=workers,
            on_commit=on_commit,
        )
    result.seconds = time.perf_counter() - started
    return result


def add_stored(
    writer: Writer,
    documents: Iterable[StoredText],
    n_documents: Total,
    name: str,
    family: Family,
    *,
    cuts_windows: bool,
    workers: int | None,
    on_commit: Callable[[AddResult], None] | None = None,
) -> AddResult:
    """Sign stored documents and add them to a new index, with the times that they have.

    Parameters
    ----------
    writer : Writer
    documents : iterable of StoredText
    n_documents : int or callable, optional
        How many there are.
    name : str
        Source of the batches.
    family : Family
        Of the new index.
    cuts_windows : bool
        In an index of passages: whether the documents are whole, and to be cut.
    workers : int, optional
    on_commit : callable, optional

    Returns
    -------
    AddResult
    """
    workers = choose_workers(workers)
    result = AddResult()
    rejections = Rejections(result, on_reject=None, max_errors=0)
    share = InputShare(n_documents)
    with (
        share.phase,
        Ahead(family, writer.codec, workers=workers, expects_new=True) as ahead,
    ):
        batches = in_batches(
            in_blocks(documents, is_at_hand=True, make=_block),
            family,
            rejections.add,
            ahead,
            is_at_hand=True,
            window=family.params.window if cuts_windows else None,
        )
        source = source_of_bodies(name, batches, family, rejections, ahead, is_at_hand=True)
        run = AddRun(writer, family.params, result, on_conflict="error")
        commit_batches(run, [source], workers=workers, on_commit=share.then(on_commit))
    return result


def _params_of_another(
    store: Store, changes: Mapping[str, Any], tokenizer: Tokenizer | None
) -> IndexParams:
    """Return the parameters of the new index.

    For vectors and bits, slots and width depend on the bands: unless given, all are chosen again
    together, for the similarities among the oldest documents.
    """
    params, sample = store.params, None
    if params.kind.is_dense and not _CHOOSE_BANDS.isdisjoint(changes):
        is_chosen = changes.get("scheme", params.scheme) != "unary"
        changes = {"num_perm": None, **({"width": None} if is_chosen else {}), **changes}
        with store.reading() as snapshot:
            most = min(MOST_BODIES, _SAMPLE_NUMBERS // params.dim)
            documents = itertools.islice(_documents(snapshot, params), most)
            sample = [document.body for document in documents]
    return changed_params(params, changes, tokenizer, sample=sample)


def changed_params(
    params: IndexParams,
    changes: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
    *,
    sample: Iterable[Any] | None = None,
) -> IndexParams:
    """Return the parameters of an index with some of them changed.

    Parameters
    ----------
    params : IndexParams
        Parameters of the existing index.
    changes : mapping
        Options of :meth:`lshdb.Index.create` by name.
    tokenizer : Tokenizer, optional
        Replaces the index's own.
    sample : iterable, optional
        Bodies for whose similarities bands and width are chosen, if they are chosen again.

    Raises
    ------
    ParameterError
        An option is unknown, or a value is out of range.
    """
    check_names("Index.reindex", changes, sorted(_OPTIONS))
    options = {name: getattr(params, name) for name in _KEPT}
    metric = changes.get("metric", params.metric)
    if metric in METRICS and METRICS[metric].body != params.kind.body:
        raise ParameterError(
            f"metric {metric} compares {_PLURALS[METRICS[metric].body]}, and the index holds "
            f"{_PLURALS[params.kind.body]}, for metric {params.metric}",
            hint="add the documents to a new index of that metric",
        )
    if params.kind.is_dense:
        options |= {name: getattr(params, name) for name in ("dim", "dtype")}
        options["width"] = params.width or None
    else:
        options |= _kept_of_texts(params, changes.get("unit"), tokenizer)
    if metric != params.metric:
        options = {name: value for name, value in options.items() if name not in _OF_A_METRIC}
    scheme = changes.get("scheme") or params.scheme
    is_other = metric != params.metric or (
        scheme in SCHEMES and SCHEMES[scheme].slot_bits != params.slot_bits
    )
    if is_other:
        options = {name: value for name, value in options.items() if name not in _OF_SLOTS}
    rebanded = is_other or not _CHOOSE_BANDS.isdisjoint(changes)
    if not rebanded:
        options["bands"], options["rows"] = params.bands, params.rows
    elif not {"recall", "bands", "rows"} & changes.keys() and 0.0 < params.recall < 1.0:
        options["recall"] = params.recall
    changed = params_for(CreateOptions(**{**options, **changes}), sample if rebanded else None)
    if params.passages and changed.passages != params.passages:
        raise ParameterError(
            f"the index holds windows of {params.passages} (words:step), and "
            f"{changed.passages or 'whole documents'} cannot be made of them",
            hint="add the documents to a new index",
        )
    return changed if rebanded else replace(changed, recall=params.recall)


def _kept_of_texts(
    params: IndexParams, unit: str | None, tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """Return the options for texts; those that belong to another unit are not kept."""
    unit = unit or ("tokenizer" if tokenizer else params.unit)
    recorded = tokenizer.recorded if tokenizer else params.tokenizer
    options: dict[str, Any] = {
        **params.options(),
        "bag": params.bag,
        "unit": unit,
        "tokenizer": recorded if unit == "tokenizer" or tokenizer else "",
        "stop_words": params.stop_tokens.split() if unit == params.unit == "word" else None,
    }
    if unit == params.unit:
        options["k"] = params.k
        options["stop_tokens"] = params.stop_tokens.split() if unit in URL_UNITS else None
    else:
        options["lowercase"] = None
    return options


@dataclass(frozen=True, slots=True)
class StoredText(Document):
    """A document that an index has stored, with the times that it keeps."""

    added_at: str = ""
    last_seen_at: str = ""


def _block(documents: Sequence[Document]) -> DocumentBlock:
    times = [
        (document.added_at, document.last_seen_at)
        for document in documents
        if isinstance(document, StoredText)
    ]
    return replace(DocumentBlock.of(documents), times=times)


def _documents(snapshot: Snapshot, params: IndexParams) -> Iterator[StoredText]:
    fields = _fields_reader(snapshot)
    if params.keeps_vectors:
        yield from _vectors(snapshot, fields)
        return
    for document in snapshot.whole_documents():
        if document.form is None or document.body is None:
            raise DamageError(f"the text of {document.key!r} is missing", hint="run lshdb check")
        body = snapshot.codec.unpack(
            document.form,
            document.body,
            document.body_hash,
            n_chars=document.n_chars,
            doc_id=document.doc_id,
        )
        yield StoredText(
            document.key,
            body,
            document.source,
            fields(document),
            document.added_at,
            document.last_seen_at,
        )


def _fields_reader(snapshot: Snapshot) -> Callable[[StoredDocument], dict[str, Any] | None]:
    """Return a function that reads the kept fields of a document, if any document has some."""
    if not snapshot.has_fields():
        return lambda document: None

    def read(document: StoredDocument) -> dict[str, Any] | None:
        stored = snapshot.fields_of([document.doc_id]).get(document.doc_id)
        return None if stored is None else dict(orjson.loads(stored))

    return read


def _vectors(
    snapshot: Snapshot, fields: Callable[[StoredDocument], dict[str, Any] | None]
) -> Iterator[StoredText]:
    documents = snapshot.whole_documents()
    while stored := list(itertools.islice(documents, _VECTORS)):
        vectors = snapshot.vectors.of_documents([document.signature_id for document in stored])
        for document, vector in zip(stored, vectors, strict=True):
            if hash_body(*raw_body(vector)) != document.body_hash:
                raise DamageError(
                    f"the vector of {document.key!r} is not the one written", hint="run lshdb check"
                )
            yield StoredText(
                document.key,
                vector,
                document.source,
                fields(document),
                document.added_at,
                document.last_seen_at,
            )
