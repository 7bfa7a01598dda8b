"""Two documents -> why they are a near-duplicate pair, or why they are none.

Everything that ``pairs`` and ``query`` decide by is taken apart for one pair: which bands of the
signatures agree, what the slots estimate, what the texts' shingles say, and which shingles those
are. Nothing is looked up in the postings: a pair shares a bucket where the slots of a band agree.
Where the signature file lies on another host, texts are signed anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.banding import matching_bands
from lshdb.documents import validate_body
from lshdb.errors import DamageError, InputError
from lshdb.params import IndexParams
from lshdb.search.verification import prefilter
from lshdb.shingling import Content, Shingler, shingle_texts
from lshdb.signatures import sign_contents
from lshdb.storage.bodies import hash_body, raw_body
from lshdb.storage.snapshot import Snapshot

__all__ = ["Explanation", "explain_pair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What :meth:`lshdb.Index.explain` gives.

    Attributes
    ----------
    key1 : str
    key2 : str or None
        None where a text was given.
    threshold : float
        The index's own, by which the pair is judged.
    exact : float or None
        Jaccard similarity of the shingles; 0 where one of the two has none. None where texts are
        not stored, unless they are known to be copies or empty.
    estimate : float or None
        Fraction of equal slots, equal_slots / num_perm; None where one has no shingle, and so no
        signature.
    equal_slots, num_perm : int
    matched_bands : tuple of int
        Bands that agree in all slots, counted from 0. One suffices to make the pair a candidate.
    bands, rows : int
        Of the index.
    recall : float
        Probability that this index finds a pair of that similarity, before it is known which bands
        agree: ``params.recall_at(similarity)``.
    are_copies : bool
        Whether both have the same normalised content, and so one signature.
    is_found : bool
        Whether the index finds the pair at its threshold: a candidate, and similar enough by the
        signatures and, where there are texts, by these. A document is no pair with itself.
    shared, only1, only2 : tuple of str or None
        Shingles of both, of the first alone, of the second alone, each once, or in a bag as often
        as it counts; in the order of the first document, and of the second. As
        :func:`lshdb.shingling.shingle_texts` gives them. None where texts are not stored.
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

    @property
    def similarity(self) -> float:
        """The exact similarity where it is known, else the estimate."""
        return self.exact if self.exact is not None else self.estimate or 0.0

    @property
    def method(self) -> str:
        """What gave the similarity: ``exact`` or ``signature``."""
        return "signature" if self.exact is None else "exact"

    @property
    def is_candidate(self) -> bool:
        """Whether the two share a bucket."""
        return bool(self.matched_bands)

    @property
    def is_near_duplicate(self) -> bool:
        """Whether the similarity reaches the threshold."""
        return self.similarity >= self.threshold


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two: signature row, None without shingles; shingles, None without text."""

    content_hash: bytes
    row: NDArray[np.uint32] | None
    shingles: list[str] | None


def explain_pair(
    snapshot: Snapshot,
    params: IndexParams,
    shingler: Shingler,
    key1: str,
    key2: str | None,
    body: str | list[str] | None,
) -> Explanation:
    """Compare a document with another one, or where ``key2`` is None with a body.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
    shingler : Shingler
        Of the same parameters.
    key1, key2, body
        As for :meth:`lshdb.Index.explain`.

    Returns
    -------
    Explanation
        O(both texts) in time, and about 100 bytes a shingle in memory.
    """
    one = _stored(snapshot, params, shingler, key1)
    if key2 is not None:
        other = _stored(snapshot, params, shingler, key2)
    else:
        other = _given(params, shingler, body if body is not None else "")

    estimate: float | None = None
    matched: tuple[int, ...] = ()
    equal_slots = 0
    if one.row is not None and other.row is not None:
        equal_slots = int(np.count_nonzero(one.row == other.row))
        agree = matching_bands(one.row, other.row, bands=params.bands, rows=params.rows)
        matched = tuple(np.flatnonzero(agree[0]).tolist())
        estimate = equal_slots / params.num_perm

    are_copies = estimate is not None and one.content_hash == other.content_hash
    shared = only1 = only2 = None
    if one.shingles is not None and other.shingles is not None:
        shared, only1, only2 = _split(one.shingles, other.shingles)
    exact: float | None
    if estimate is None:
        exact = 0.0
    elif are_copies:
        exact = 1.0
    elif shared is None or only1 is None or only2 is None:
        exact = None
    else:
        exact = len(shared) / (len(shared) + len(only1) + len(only2))

    similarity = exact if exact is not None else estimate or 0.0
    least = params.threshold if exact is None else prefilter(params.threshold, params.num_perm)
    is_found = (
        key1 != key2
        and bool(matched)
        and (estimate or 0.0) >= least
        and similarity >= params.threshold
    )
    return Explanation(
        key1=key1,
        key2=key2,
        threshold=params.threshold,
        exact=exact,
        estimate=estimate,
        equal_slots=equal_slots,
        num_perm=params.num_perm,
        matched_bands=matched,
        bands=params.bands,
        rows=params.rows,
        recall=params.recall_at(similarity) + 0.0,  # the sum of -0.0, at similarity 0, and 0.0 is 0
        are_copies=are_copies,
        is_found=is_found,
        shared=shared,
        only1=only1,
        only2=only2,
    )


def _stored(snapshot: Snapshot, params: IndexParams, shingler: Shingler, key: str) -> _Side:
    """A document of the index."""
    document = snapshot.document(key)
    number = document.signature_id
    if number is not None and not 0 <= number < snapshot.n_signatures:
        raise DamageError(
            f"the document {key!r} names signature {number}; the index has {snapshot.n_signatures}",
            hint="run lshdb check",
        )
    if not params.store_text:
        snapshot.require_signatures()
    row = None
    if number is not None and snapshot.has_signatures:
        row = snapshot.signatures[number : number + 1]
    shingles = None
    if params.store_text:
        body = snapshot.body(document.doc_id)
        if body is None:
            raise DamageError(
                f"the text of the document {key!r} is missing", hint="run lshdb check"
            )
        content = shingler.canonical(body)
        shingles = shingle_texts(content, unit=params.unit, k=params.k, bag=params.bag)
        if number is not None and row is None:
            row, _ = _signed(params, content)
    return _Side(document.content_hash, row, shingles)


def _given(params: IndexParams, shingler: Shingler, body: str | list[str]) -> _Side:
    """A body that is in no index."""
    reason = validate_body(body)
    if reason is not None:
        raise InputError(f"the text to compare with cannot be used: {reason}")
    content = shingler.canonical(body)
    row, n_shingles = _signed(params, content)
    shingles = shingle_texts(content, unit=params.unit, k=params.k, bag=params.bag)
    content_hash = hash_body(*raw_body(content if isinstance(content, str) else list(content)))
    return _Side(content_hash, row if n_shingles else None, shingles)


def _signed(params: IndexParams, content: Content) -> tuple[NDArray[np.uint32], int]:
    """The signature row of a content, and its number of shingles."""
    rows, counts = sign_contents(
        [content], unit=params.unit, k=params.k, bag=params.bag,
        scheme=params.scheme, num_perm=params.num_perm, seed=params.seed,
    )  # fmt: skip
    return rows, int(counts[0])


def _split(
    left: list[str], right: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Elements of both, of the left alone, of the right alone, by how often each has them."""
    one, other = Counter(left), Counter(right)
    shared, only1, only2 = (
        tuple(counts.elements()) for counts in (one & other, one - other, other - one)
    )
    return shared, only1, only2
