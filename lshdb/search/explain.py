"""Why two documents are a near-duplicate pair or not, and what is stored about one document.

``explain`` shows all that ``pairs`` and ``query`` decide by: which bands of the signatures agree,
what the slots estimate, what the texts' shingles say, and which shingles those are. It does not
read the postings: a pair shares a bucket if the slots of a band agree. If the signature file lies
on another host, texts are signed again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.arguments import check_items, check_key
from lshdb.documents.document import Body
from lshdb.errors import (
    DamageError,
    InputError,
    ParameterError,
    TextNotStoredError,
)
from lshdb.ingest.cut_documents import refuse_cut_document, whole_texts, windows_of
from lshdb.params.index_params import IndexParams
from lshdb.result_tables import html_table
from lshdb.search.verification import least_share
from lshdb.signatures.banding import compare_rows, matching_bands
from lshdb.signatures.family import Family
from lshdb.storage.tables.bodies import hash_body, plain_tokens, plain_vector, raw_body
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.index_state import OpenIndex
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store

__all__ = [
    "Explanation",
    "ShownDocument",
    "explain_pair",
    "fields_of_keys",
    "show_document",
    "texts_of_keys",
]


_SHINGLES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """The result of :meth:`lshdb.Index.explain`.

    Attributes
    ----------
    key1 : str
    key2 : str or None
        None if a text was given.
    threshold : float
        The index's own, by which the pair is judged; minus it if it is a distance.
    exact : float or None
        Similarity of the two, or minus their distance; 0 if one of them has no shingle. None if
        texts, or vectors, are not stored, unless they are known to be copies or empty.
    estimate : float or None
        Estimate from the fraction of equal slots, equal_slots / num_perm; for sets that fraction
        itself. None if one has no shingle, and so no signature.
    equal_slots, num_perm : int
    matched_bands : tuple of int
        Bands that agree in all slots, counted from 0. One makes the pair a candidate.
    bands, rows : int
        Of the index.
    recall : float
        Probability that this index finds a pair of that similarity, whatever bands agree here:
        ``params.recall_at(similarity)``.
    are_copies : bool
        Whether both have the same normalised content, and so one signature.
    is_found : bool
        Whether the index finds the pair at its threshold: it is a candidate, and similar enough by
        the signatures and, if stored, the texts. A document does not form a pair with itself.
    shared, only1, only2 : tuple of str or None
        Shingles of both, of the first alone, of the second alone, each once, or in a bag as often
        as it counts; in the order of the first document, and of the second. As
        :func:`lshdb.shingling.shingle_texts` gives them. None where texts are not stored, for
        vectors, and if they were not asked for.
    distance : float or None
        Where the metric is a distance; else None.
    """

    key1: str
    key2: str | None
    threshold: float
    exact: float | None
    estimate: float | None
    equal_slots: int
    num_perm: int
    matched_bands: tuple[int, ...]
    bands: int
    rows: int
    recall: float
    are_copies: bool
    is_found: bool
    shared: tuple[str, ...] | None
    only1: tuple[str, ...] | None
    only2: tuple[str, ...] | None
    distance: float | None = field(default=None, compare=False)

    @property
    def similarity(self) -> float:
        """The exact similarity if it is known, else the estimate."""
        return self.exact if self.exact is not None else self.estimate or 0.0

    @property
    def method(self) -> str:
        """The source of the similarity: ``exact`` or ``signature``."""
        return "signature" if self.exact is None else "exact"

    @property
    def is_candidate(self) -> bool:
        """Whether the two share a bucket."""
        return bool(self.matched_bands)

    @property
    def is_near_duplicate(self) -> bool:
        """Whether the similarity reaches the threshold."""
        return self.similarity >= self.threshold

    def __repr__(self) -> str:
        said = f"similarity {self.similarity:.4g}"
        if self.distance is not None:
            said = f"distance {self.distance:.4g}"
        return (
            f"Explanation({self.key1!r:.80}, {self.key2!r:.80}, {said} ({self.method}), "
            f"threshold {abs(self.threshold):g}, {'found' if self.is_found else 'not found'})"
        )

    def _repr_html_(self) -> str:
        """Return the figures and the first shingles, for a notebook."""
        rows: dict[str, str] = {
            "equal slots": f"{self.equal_slots} of {self.num_perm}",
            "bands that agree": f"{len(self.matched_bands)} of {self.bands}",
            "recall at this similarity": f"{self.recall:.4f}",
        }
        parts = {"in both": self.shared, "in the first": self.only1, "in the second": self.only2}
        for name, shingles in parts.items():
            if shingles is not None:
                rows[f"{len(shingles):,} shingles {name}"] = ", ".join(shingles[:_SHINGLES_SHOWN])
        return html_table(repr(self), (), rows.items())


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two: signature row, None if empty; content, None if not stored."""

    content_hash: bytes
    row: NDArray[np.uint16] | None
    content: Any = None


def explain_pair(
    store: Store,
    family: Family,
    key1: str,
    key2: str | None,
    body: Body | None,
    *,
    with_shingles: bool = True,
) -> Explanation:
    """Compare a document with another one, or with a body; see :meth:`lshdb.Index.explain`.

    O(both texts) in time, and about 100 bytes a shingle in memory.
    """
    if (key2 is None) == (body is None):
        raise ParameterError("a document is compared with either a second key or a body")
    check_key("key1", key1)
    if key2 is not None:
        check_key("key2", key2)
    with store.reading() as snapshot:
        return _explain(snapshot, family, key1, key2, body, with_shingles)


def _explain(
    snapshot: Snapshot,
    family: Family,
    key1: str,
    key2: str | None,
    body: Body | None,
    with_shingles: bool,
) -> Explanation:
    params = family.params
    document1 = _stored(snapshot, family, key1)
    if key2 is not None:
        document2 = _stored(snapshot, family, key2)
    else:
        document2 = _given(family, body if body is not None else "")

    estimate: float | None = None
    matched: tuple[int, ...] = ()
    equal_slots = 0
    if document1.row is not None and document2.row is not None:
        place = np.zeros(1, dtype=np.int64)
        equal_slots = int(
            compare_rows(document1.row, place, document2.row, place, **params.cut).equal[0]
        )
        agree = matching_bands(document1.row, document2.row, **params.cut)
        matched = tuple(np.flatnonzero(agree[0]).tolist())
        estimate = float(params.curve.levels(np.array([equal_slots / params.num_perm]))[0])

    are_copies = estimate is not None and document1.content_hash == document2.content_hash
    shared, only1, only2 = (
        _elements(family, document1.content, document2.content)
        if with_shingles
        else (None, None, None)
    )
    exact: float | None = None
    if estimate is None:
        exact = 0.0
    elif are_copies:
        exact = params.curve.best
    elif document1.content is not None and document2.content is not None:
        exact = family.compare(document1.content, document2.content)

    similarity = exact if exact is not None else estimate or 0.0
    method = "signature" if exact is None else "exact"
    is_found = (
        key1 != key2
        and bool(matched)
        and equal_slots / params.num_perm >= least_share(params, method, params.level)
        and similarity >= params.level
    )
    return Explanation(
        key1=key1,
        key2=key2,
        threshold=params.level,
        exact=exact,
        estimate=estimate,
        equal_slots=equal_slots,
        num_perm=params.num_perm,
        matched_bands=matched,
        bands=params.bands,
        rows=params.rows,
        recall=params.recall_at(params.curve.value(similarity))
        + 0.0,  # the sum of -0.0, at similarity 0, and 0.0 is 0
        are_copies=are_copies,
        is_found=is_found,
        shared=shared,
        only1=only1,
        only2=only2,
        distance=0.0 - similarity if params.kind.is_distance else None,
    )


def _stored(snapshot: Snapshot, family: Family, key: str) -> _Side:
    """Return a document of the index."""
    params = family.params
    if params.window is not None:
        refuse_cut_document(snapshot, key)
    document = snapshot.document(key)
    number = document.signature_id
    if number is not None and not 0 <= number < snapshot.n_signatures:
        raise DamageError(
            f"the document {key!r} names signature {number}; the index has {snapshot.n_signatures}",
            hint="run lshdb check",
        )
    if not params.keeps_texts:
        snapshot.require_signatures()
    row = content = None
    if number is not None and snapshot.has_signatures:
        row = snapshot.signatures[number : number + 1]
    if params.keeps_vectors and number is not None:
        content = snapshot.vectors[number : number + 1][0]
    elif params.keeps_texts:
        body = snapshot.body(document.doc_id)
        if body is None:
            raise DamageError(
                f"the text of the document {key!r} is missing", hint="run lshdb check"
            )
        content = family.content(body)
        if number is not None and row is None:
            row, _ = family.sign_contents([content])
    return _Side(document.content_hash, row, content)


def _given(family: Family, body: Any) -> _Side:
    """Return a body that is not in any index."""
    reason = family.refusal(body)
    if reason is not None:
        raise InputError(f"the text to compare with cannot be used: {reason}")
    content = family.content(body)
    row, sizes = family.sign_contents([content])
    return _Side(hash_body(*raw_body(content)), row if sizes[0] else None, content)


def _elements(
    family: Family, left: Any, right: Any
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return the elements of both contents, of the left only, of the right only, if known."""
    elements1 = None if left is None else family.elements(left)
    elements2 = None if right is None else family.elements(right)
    if elements1 is None or elements2 is None:
        return None, None, None
    return _split(elements1, elements2)


def _split(
    left: list[str], right: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Split elements, with their counts, into common ones, left ones and right ones."""
    counts1, counts2 = Counter(left), Counter(right)
    shared, only1, only2 = (
        tuple(counts.elements())
        for counts in (counts1 & counts2, counts1 - counts2, counts2 - counts1)
    )
    return shared, only1, only2


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """The result of :meth:`lshdb.Index.show`.

    Attributes
    ----------
    document : StoredDocument
    body : str, list of str, frozenset of str, dict, ndarray or None
        The text, the tokens in order or as a set, the weights, or the vector (bits packed, the
        first the most significant of byte 0); None if not stored.
    copies : tuple of str
        Keys of the documents with the same normalised content.
    params : IndexParams
    fields : dict
        Kept fields; empty without any.
    """

    document: StoredDocument
    body: Any
    copies: tuple[str, ...]
    params: IndexParams
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def plain_body(self) -> Any:
        """The body in a form for JSON that ``lshdb add`` reads.

        A vector as a list, bits as hexadecimal digits, a set as ``{"set": [...]}``, sorted.
        """
        if self.body is None or not self.params.kind.is_dense:
            return plain_tokens(self.body)
        return plain_vector(self.body, is_bits=self.params.kind.body == "bits")


def show_document(store: Store, family: Family, key: str) -> ShownDocument:
    """Look the document up, its text or vector, and the documents with its signature."""
    check_key("key", key)
    with store.reading() as snapshot:
        if store.params.window is not None:
            refuse_cut_document(snapshot, key)
        return _show(snapshot, store.params, key)


def texts_of_keys(store: OpenIndex, family: Family, keys: Iterable[str]) -> dict[str, Any]:
    """Return stored texts by key; see :meth:`lshdb.Index.texts`."""
    asked_keys = _keys(keys)
    params = store.params
    if params.kind.is_dense:
        raise TextNotStoredError(
            "an index of vectors has no texts", hint="lshdb show shows the vector of a document"
        )
    if not params.store_text:
        raise TextNotStoredError(
            "texts are not stored: this index was made with --no-text",
            hint="join them from your own files by key",
        )
    with store.reading() as snapshot:
        documents = snapshot.documents_of_keys(asked_keys)
        names = {document.doc_id: key for key, document in documents.items()}
        texts = {
            names[doc_id]: plain_tokens(body)
            for doc_id, body in snapshot.bodies_of_documents(list(names))
        }
        if isinstance(snapshot, Snapshot) and params.window is not None:
            texts |= whole_texts(snapshot, [key for key in asked_keys if key not in texts])
        return texts


def fields_of_keys(
    store: OpenIndex, family: Family, keys: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return kept fields by key; see :meth:`lshdb.Index.fields`."""
    names = _keys(keys)
    with store.reading() as snapshot:
        documents = snapshot.documents_of_keys(names)
        if isinstance(snapshot, Snapshot) and store.params.window is not None:
            cut = windows_of(snapshot, [key for key in names if key not in documents])
            documents |= {key: windows[0] for key, windows in cut.items()}  # all have the fields
        fields_of = snapshot.fields_of([document.doc_id for document in documents.values()])
        return {
            key: orjson.loads(fields_of.get(document.doc_id, "{}"))
            for key, document in documents.items()
        }


_NAMED_DOCUMENTS = 1000


def names_of_fields(store: OpenIndex, family: Family) -> list[str]:
    """Return the names of kept fields; see :meth:`lshdb.Index.field_names`."""
    with store.reading() as snapshot:
        stored = snapshot.kept_fields() if isinstance(snapshot, Snapshot) else ()
        rows = itertools.islice(stored, _NAMED_DOCUMENTS)
        return sorted({name for _, fields in rows for name in orjson.loads(fields)})


def _keys(keys: Iterable[str]) -> list[str]:
    check_items("keys", keys, "an iterable of keys")
    return list(dict.fromkeys(check_key("a key", key) for key in keys))


def _show(snapshot: Snapshot, params: IndexParams, key: str) -> ShownDocument:
    document = snapshot.document(key)
    copies: tuple[str, ...] = ()
    if document.signature_id is not None:
        copies = tuple(
            copy
            for doc_id, copy, _ in snapshot.documents_of_signature(document.signature_id)
            if doc_id != document.doc_id
        )
    if not all(isinstance(copy, str) for copy in copies):
        raise DamageError(
            f"the key of a copy of {key!r} is no text",
            hint="run lshdb check, and then lshdb check --repair",
        )
    body = snapshot.body(document.doc_id)
    if params.keeps_vectors:
        (body,) = snapshot.vectors.of_documents([document.signature_id])
        if hash_body(*raw_body(body)) != document.body_hash:
            raise DamageError(
                f"the vector of {key!r} is not the one written",
                hint="run lshdb check, and then lshdb check --repair",
            )
    fields_text = snapshot.fields_of([document.doc_id]).get(document.doc_id)
    fields = orjson.loads(fields_text or "{}")
    return ShownDocument(document, body, copies, params, fields)
