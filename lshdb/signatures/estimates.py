"""Estimate what parameters find and cost: rho, the c-approximate range query, memory and time.

The (c, r)-query of Indyk and Motwani (STOC 1998; Datar, Immorlica, Indyk, Mirrokni, SoCG 2004;
Gionis, Indyk, Motwani, VLDB 1999): if there is a document within r of the query, find one within
c r. Let a slot be equal with probability p1 at r and p2 at c r. With k rows a far document shares a
bucket with probability p2^k, so k = ln n / ln(1 / p2) leaves one of n in each table on average. A
near one is then found with p1^k = n^-rho, rho = ln(1 / p1) / ln(1 / p2), so some n^rho tables find
it. A search that stops after 2 L candidates, far ones included, finds it or a document within c r
with constant probability.

Times are estimates from figures measured on one core of a machine of 2 GHz with all files in
memory (``docs/benchmarks.md``), accurate to a factor of two or three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Unpack

from lshdb.arguments import check_whole
from lshdb.errors import ParameterError
from lshdb.params.bands import bands_needed, candidate_probability
from lshdb.params.index_params import IndexParams
from lshdb.params.metrics import SCHEMES
from lshdb.params.options import CreateOptions, Parameters, check_parameters
from lshdb.signatures.families import params_for

__all__ = ["IndexEstimate", "estimate"]

POSTING_BYTES = 20
DOCUMENT_BYTES = 260
_DOCUMENT_SECONDS = 25e-6
_POSTING_SECONDS = 1.5e-6
_BUCKET_SECONDS = 4e-6
_COMPARISON_SECONDS = 1.5e-6
_SURE = 1.0 - 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEstimate:
    """What an index with given parameters finds and costs.

    Attributes
    ----------
    params : IndexParams
    near, far : float
        r and c r: similarities, or distances.
    documents : int
        n.
    p1, p2 : float
        Probability that a slot is equal at ``near`` and at ``far``.
    rho : float
        ln(1 / p1) / ln(1 / p2): tables grow as n^rho.
    k, tables : int
        Rows, and tables (bands) L, of the c-approximate range query; L such that a document at
        ``near`` is found with the recall of the parameters.
    least_tables : int
        n^rho, rounded up: with these it is found with probability about 1 - 1/e.
    probe_limit : int
        2 L.
    near_found, far_found : float
        Probability that a document there is a candidate with the bands and rows of ``params``.
    most_candidates : float
        Candidates of a query with those bands, if all n documents are at ``far``.
    signature_bytes, posting_bytes, vector_bytes, document_bytes : int
        Bytes on disk for n documents, with the bands of ``params``.
    add_seconds, query_seconds : float
        Estimated time to add n documents, and of a query with ``most_candidates`` candidates.
    """

    params: IndexParams
    near: float
    far: float
    documents: int
    p1: float
    p2: float
    rho: float
    k: int
    tables: int
    least_tables: int
    probe_limit: int
    near_found: float
    far_found: float
    most_candidates: float
    signature_bytes: int
    posting_bytes: int
    vector_bytes: int
    document_bytes: int
    add_seconds: float
    query_seconds: float


def estimate(
    *,
    far: float | None = None,
    documents: int = 1_000_000,
    sample: Iterable[Any] | None = None,
    tokenizer: str = "",
    **options: Unpack[Parameters],
) -> IndexEstimate:
    """Estimate what an index would find and cost, without creating it.

    Parameters
    ----------
    far : float, optional
        c r: a lower similarity, or a larger distance, than the threshold r. By default twice as
        far: twice the distance, the angle, or 1 - J; if slots are never equal there, halfway to
        where they stop being equal.
    documents : int
        n, at least 2.
    sample, tokenizer, **options
        As for :meth:`lshdb.Index.create`.

    Raises
    ------
    ParameterError
        A value is out of range, or ``far`` is not farther than the threshold.
    """
    check_whole("documents", documents, 2)
    check_parameters("estimate", options, "far", "documents", "sample", "tokenizer")
    params = params_for(CreateOptions(tokenizer=tokenizer, **options), sample)
    if far is None:
        far = params.curve.twice_as_far(params.threshold)
    elif not isinstance(far, Real) or isinstance(far, bool):
        raise ParameterError(f"far is {far!r:.80}; expected a number")
    curve = params.curve
    p1, p2 = (curve.probability(curve.level(value)) for value in (params.threshold, far))
    if not 0.0 < p2 < p1:
        side = "above" if params.kind.is_distance else "below"
        raise ParameterError(
            f"far is {far:g}; expected a value {side} the threshold {params.threshold:g}, at which "
            "slots are equal less often but not never",
            hint="pass as --far a value at which documents need not be found",
        )
    k = max(1, math.ceil(math.log(documents) / math.log(1.0 / p2)))
    tables = bands_needed(p1**k, min(params.recall, _SURE)) or 10**12
    rho = math.log(1.0 / p1) / math.log(1.0 / p2)
    candidates = documents * candidate_probability(p2, params.bands, params.rows)
    signing = SCHEMES[params.scheme].seconds(params.num_perm, params.dim)
    postings = params.bands + 1
    return IndexEstimate(
        params=params,
        near=params.threshold,
        far=far,
        documents=documents,
        p1=p1,
        p2=p2,
        rho=rho,
        k=k,
        tables=tables,
        least_tables=math.ceil(documents**rho),
        probe_limit=2 * tables,
        near_found=candidate_probability(p1, params.bands, params.rows),
        far_found=candidate_probability(p2, params.bands, params.rows),
        most_candidates=candidates,
        signature_bytes=params.row_bytes * documents,
        posting_bytes=POSTING_BYTES * postings * documents,
        vector_bytes=_vector_bytes(params) * documents,
        document_bytes=DOCUMENT_BYTES * documents,
        add_seconds=documents * (signing + _DOCUMENT_SECONDS + postings * _POSTING_SECONDS),
        query_seconds=signing + params.bands * _BUCKET_SECONDS + candidates * _COMPARISON_SECONDS,
    )


def _vector_bytes(params: IndexParams) -> int:
    if not params.keeps_vectors:
        return 0
    sizes = {"float64": 8, "float32": 4, "float16": 2}
    return params.vector_columns * sizes.get(params.dtype, 1)
