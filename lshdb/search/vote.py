"""The answer of a query and a kept field -> what the nearest documents say of it.

Classification by nearest neighbours: each document votes for the value of its field, and the more
similar it is, the more its vote weighs. Apart from ``query.py`` because a query alone needs nothing
of it, and every query loads that module.

A vote weighs as much as the similarity; a negative cosine counts nothing. A distance d weighs
1 / (1 + d / t), with t the index's threshold: an equal point 1, one at the threshold a half. (With
a threshold of 0 it is 1 / (1 + d).) A list votes for each of its values with an equal part of its
weight. A document without the field, or with null or an empty list there, has no vote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from lshdb.arguments import check_items
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.search.agreement import require_field
from lshdb.search.explain import fields_of_keys
from lshdb.search.verification import Hit
from lshdb.signatures.family import Family
from lshdb.storage.transactions.index_state import OpenIndex

__all__ = ["Vote", "count_votes"]


@dataclass(frozen=True, slots=True)
class Vote:
    """A value of a field, and how much of the vote it has.

    Attributes
    ----------
    value : Any
        As the field holds it.
    share : float
        Its part of the weights of all votes, 0 to 1.
    documents : int
        How many voted for it.
    method : {"none", "signature", "exact"}
        How the similarities were found that weigh the votes.
    """

    value: Any
    share: float
    documents: int
    method: str


def count_votes(store: OpenIndex, family: Family, hits: Iterable[Hit], field: str) -> list[Vote]:
    """Return the values that some hits vote for; see :meth:`lshdb.Index.vote`."""
    if not isinstance(field, str) or not field:
        raise ParameterError(f"field is {field!r:.80}, expected the name of a kept field")
    with store.reading() as snapshot:
        require_field(snapshot, field)
    check_items("hits", hits, "the answer of a query")
    answers = list(hits)
    if not all(isinstance(hit, Hit) for hit in answers):
        raise ParameterError("hits holds something else than hits of a query")
    fields_of = fields_of_keys(store, family, [hit.key for hit in answers])
    weights: dict[bytes, float] = {}
    counts: dict[bytes, int] = {}
    for hit in answers:
        field_value = fields_of.get(hit.key, {}).get(field)
        values = field_value if isinstance(field_value, list) else [field_value]
        names = [
            orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
            for value in values
            if value is not None
        ]
        for name in names:
            weights[name] = weights.get(name, 0.0) + _weight(hit, family.params) / len(names)
        for name in set(names):
            counts[name] = counts.get(name, 0) + 1
    total = sum(weights.values())
    return [
        Vote(orjson.loads(name), weight / total if total else 0.0, counts[name], answers[0].method)
        for name, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    ]


def _weight(hit: Hit, params: IndexParams) -> float:
    if hit.distance is None:
        return max(0.0, hit.similarity)
    return 1.0 / (1.0 + hit.distance / (params.threshold or 1.0))
