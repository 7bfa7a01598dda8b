"""Requests and answers as they go over the wire; answers are made of the library's results.

The names are those of ``--json`` on the command line and of the Python API. A metric that is a
distance has ``distance`` and no ``similarity``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema

from lshdb.groups.listing import Cluster
from lshdb.maintain.stats import IndexStats
from lshdb.params.index_params import IndexParams
from lshdb.search.explain import Explanation, ShownDocument
from lshdb.search.verification import Hits

__all__ = [
    "MOST_HITS",
    "MOST_LISTED",
    "MOST_OFFSET",
    "MOST_QUERIES",
    "MOST_SHINGLED",
    "MOST_TEXT",
    "ClusterAnswer",
    "ClusterList",
    "DocumentAnswer",
    "ErrorAnswer",
    "ExplainAnswer",
    "ExplainRequest",
    "HealthAnswer",
    "QueryAnswer",
    "QueryAnswerList",
    "QueryRequest",
    "StatsAnswer",
]

MOST_LISTED = 1000
"""Answers to one query, and clusters or members of one page."""
MOST_QUERIES = 1024
"""Texts of one request."""
MOST_HITS = 100_000
"""Documents that may be listed for all texts of one request."""
MOST_OFFSET = 10**12
"""Clusters to pass over; no index has as many."""
MOST_SHINGLED = 1_000_000
"""Characters of two texts whose shingles are listed."""
MOST_TEXT = 64 * 2**20
"""Characters of all texts in one answer."""


def _text(value: Any) -> Any:
    """Check a text or tokens in one pass; a union of types would list each wrong token."""
    if value is None:
        return None
    tokens = value
    if isinstance(value, dict) and value.keys() == {"set"}:
        tokens = value["set"]
    is_text = isinstance(value, str) or (
        isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    )
    if not is_text:
        raise ValueError('expected a text, a list of texts, or {"set": [...]} of texts')
    return frozenset(tokens) if isinstance(value, dict) else value


def _vector(value: Any) -> Any:
    """Check numbers, bits or weights in one pass."""
    if value is None:
        return None
    numbers = value.values() if isinstance(value, dict) else value
    is_vector = isinstance(value, str) or (
        isinstance(value, dict | list) and all(type(number) in (int, float) for number in numbers)
    )
    if not is_vector:
        raise ValueError("expected a list of numbers, a text of 0s and 1s, or an object of numbers")
    try:
        if isinstance(value, list):
            return [float(number) for number in value]
        return value if isinstance(value, str) else {key: float(value[key]) for key in value}
    except OverflowError:
        raise ValueError("a number is too large") from None


Tokens = list[str] | dict[Literal["set"], list[str]]
Text = Annotated[
    Any, BeforeValidator(_text), WithJsonSchema(TypeAdapter(str | Tokens | None).json_schema())
]
Vector = Annotated[
    Any,
    BeforeValidator(_vector),
    WithJsonSchema(TypeAdapter(list[float] | str | dict[str, float] | None).json_schema()),
]
Score = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    """A request that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class _Body(_Strict):
    text: Text = Field(
        None,
        description='A text, or tokens as an array or as {"set": [...]}. URLs: one per line.',
    )
    vector: Vector = Field(
        None,
        description="Numbers as an array, bits as a string of 0s and 1s, weights as an object.",
    )

    def body(self) -> Any:
        """Return the text, tokens or vector in the library's types; None if there is none."""
        return self.text if self.vector is None else self.vector


class QueryRequest(_Body):
    """A query: one of ``text``, ``vector`` and ``key``; or many: ``texts``."""

    texts: list[Text] | None = Field(
        None,
        min_length=1,
        max_length=MOST_QUERIES,
        description="Many texts, each as text; answers has an answer for each, in order.",
    )
    key: str | None = Field(None, description="Key of a document of the index; it is not listed.")
    top: int = Field(10, ge=1, le=MOST_LISTED, description="Most answers.")
    threshold: Score | None = Field(
        None, description="Lowest similarity, or largest distance; by default the index's own."
    )
    below: Score | None = Field(None, description="Only documents less similar than this.")
    measure: Literal["similarity", "containment"] = Field(
        "similarity", description="Or containment: how much of the query a document contains."
    )
    verify: Literal["none", "signature", "exact"] | None = Field(
        None, description="How candidates are compared: exact where texts are stored."
    )
    recall: float | None = Field(
        None, gt=0, le=1, description="Find each of the nearest with this probability."
    )
    with_text: bool = Field(False, description="Give the stored text of each answer.")
    with_fields: bool = Field(False, description="Give the kept fields of each answer.")


class ExplainRequest(_Body):
    """A comparison: a document, and one of ``key2``, ``text`` and ``vector``."""

    key1: str
    key2: str | None = None
    shingles: int = Field(
        20, ge=0, le=MOST_LISTED, description="Most shingles listed of each kind."
    )


class HitAnswer(BaseModel):
    """A document that was found."""

    key: str
    similarity: float | None = None
    distance: float | None = None
    method: str
    text: Any = None
    fields: dict[str, Any] | None = None


class QueryAnswer(BaseModel):
    """Documents, the most similar first."""

    hits: list[HitAnswer]
    truncated: int = Field(description="Further documents that ``top`` left out.")

    @classmethod
    def of(cls, hits: Hits, texts: dict[str, Any], fields: dict[str, Any]) -> QueryAnswer:
        """Return an answer with the texts and fields of its documents, by key, if asked for."""
        listed = [
            HitAnswer(key=hit.key, method=hit.method, text=texts.get(hit.key),
                      fields=fields.get(hit.key), distance=hit.distance,
                      similarity=hit.similarity if hit.distance is None else None)
            for hit in hits
        ]  # fmt: skip
        return cls(hits=listed, truncated=hits.truncated)


class QueryAnswerList(BaseModel):
    """The answers to many texts, in their order."""

    answers: list[QueryAnswer]


class ExplainAnswer(BaseModel):
    """Why two documents are near-duplicates, or why not."""

    key1: str
    key2: str | None
    similarity: float | None = None
    distance: float | None = None
    method: str
    estimate: float | None
    threshold: float
    equal_slots: int
    num_perm: int
    bands: int
    rows: int
    matched_bands: list[int]
    recall: float = Field(description="Probability that the index finds a pair of this similarity.")
    are_copies: bool
    is_near_duplicate: bool
    is_found: bool
    n_shared: int | None = Field(
        description=f"Null with the others where no texts are stored, or those of both have more "
        f"than {MOST_SHINGLED:,} characters."
    )
    n_only1: int | None
    n_only2: int | None
    shared: list[str] | None
    only1: list[str] | None
    only2: list[str] | None

    @classmethod
    def of(cls, explanation: Explanation, params: IndexParams, most: int) -> ExplainAnswer:
        """Return an explanation with the first ``most`` shingles of each kind."""
        kinds: dict[str, Any] = {}
        for name in ("shared", "only1", "only2"):
            shingles = getattr(explanation, name)
            kinds[f"n_{name}"] = None if shingles is None else len(shingles)
            kinds[name] = None if shingles is None else list(shingles[:most])
        value = params.curve.value
        is_distance = params.kind.is_distance
        level = value(explanation.similarity)
        return cls(
            key1=explanation.key1,
            key2=explanation.key2,
            method=explanation.method,
            similarity=None if is_distance else level,
            distance=level if is_distance else None,
            estimate=None if explanation.estimate is None else value(explanation.estimate),
            threshold=value(explanation.threshold),
            equal_slots=explanation.equal_slots,
            num_perm=explanation.num_perm,
            bands=explanation.bands,
            rows=explanation.rows,
            matched_bands=list(explanation.matched_bands),
            recall=explanation.recall,
            are_copies=explanation.are_copies,
            is_near_duplicate=explanation.is_near_duplicate,
            is_found=explanation.is_found,
            **kinds,
        )


class DocumentAnswer(BaseModel):
    """A document and its stored columns."""

    key: str
    doc_id: int
    signature_id: int | None
    n_shingles: int
    n_chars: int
    source: str
    batch_id: int
    added_at: str
    last_seen_at: str
    copies: list[str]
    fields: dict[str, Any]
    body: Any

    @classmethod
    def of(cls, shown: ShownDocument) -> DocumentAnswer:
        """Return a document; its body as ``lshdb add`` reads it from JSON."""
        names = ("key", "doc_id", "signature_id", "n_shingles", "n_chars", "source", "batch_id",
                 "added_at", "last_seen_at")  # fmt: skip
        return cls(
            **{name: getattr(shown.document, name) for name in names},
            copies=list(shown.copies),
            fields=shown.fields,
            body=shown.plain_body,
        )


class ClusterAnswer(BaseModel):
    """Documents that belong together."""

    label: str = Field(description="Key of the oldest member.")
    size: int
    keys: list[str] = Field(description="The oldest members first.")

    @classmethod
    def of(cls, cluster: Cluster, most: int) -> ClusterAnswer:
        """Return a cluster with its first ``most`` members."""
        return cls(label=cluster.label, size=len(cluster.keys), keys=list(cluster.keys[:most]))


class ClusterList(BaseModel):
    """A page of clusters, the largest first."""

    clusters: list[ClusterAnswer]
    next: int | None = Field(description="``offset`` of the next page; null at the end.")
    batch: int = Field(description="The newest batch that the stored pairs cover.")


class StatsAnswer(BaseModel):
    """Parameters, counts and sizes, as ``lshdb stats --json`` gives them."""

    model_config = ConfigDict(extra="allow")

    documents: int
    signatures: int
    batches: int

    @classmethod
    def of(cls, stats: IndexStats) -> StatsAnswer:
        """Return the counts of an index, without where it lies."""
        places = ("params", "path", "database")
        counts = {
            field.name: getattr(stats, field.name)
            for field in fields(stats)
            if field.name not in places
        }
        values: dict[str, Any] = dict(stats.params.items()) | counts
        return cls(**values)


class HealthAnswer(BaseModel):
    """The index answers."""

    status: Literal["ok"] = "ok"
    documents: int


class ErrorAnswer(BaseModel):
    """What went wrong, and what to do."""

    error: str = Field(description="The kind of error, as the library names it.")
    message: str
    hint: str | None = None
