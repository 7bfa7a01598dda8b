"""The metrics: for each its schemes, its kind of bodies and its default threshold."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DTYPES", "METRICS", "ONE_BIT_SCHEMES", "Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes
    ----------
    schemes : tuple of str
        Families of hash functions for it; the first is the default.
    body : {"text", "weights", "vector", "bits"}
        What is signed: the shingles of a text; weighted tokens; numbers; packed bits.
    threshold : float or None
        The default threshold; None if there is no usual one.
    is_distance : bool
        Whether smaller is more similar.
    is_dense : bool
        Whether all bodies of an index have one length, and lie in the file of vectors.
    """

    schemes: tuple[str, ...]
    body: str
    threshold: float | None
    is_distance: bool = False
    is_dense: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_dense", self.body in ("vector", "bits"))


METRICS = {
    "jaccard": Metric(("fss", "universal"), "text", 0.8),
    "cosine": Metric(("hyperplane", "hadamard"), "vector", 0.8),
    "hamming": Metric(("bits",), "bits", None, is_distance=True),
    "l1": Metric(("cauchy", "unary"), "vector", None, is_distance=True),
    "l2": Metric(("gaussian",), "vector", None, is_distance=True),
    "weighted-jaccard": Metric(("icws",), "weights", 0.8),
    "jaccard-bits": Metric(("fss", "universal"), "bits", 0.8),
}
"""The metrics by name, as in ``--metric``; the first is the default."""

ONE_BIT_SCHEMES = frozenset({"hyperplane", "hadamard", "bits", "unary"})
"""Schemes with slots of one bit, 32 per word of the signature; other slots are words."""

DTYPES = ("float32", "float64", "float16", "uint8")
"""The types of stored vectors; the first is the default."""
