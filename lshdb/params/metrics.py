"""Every metric in a line: which schemes it has, what its bodies are, what its threshold may be."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DTYPES", "METRICS", "ONE_BIT_SCHEMES", "Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes
    ----------
    schemes : tuple of str
        Families of hash functions for it; the first is the default.
    body : {"text", "weights", "vector", "bits"}
        What is signed: the shingles of a text; weighted tokens; numbers; bits, packed.
    threshold : float or None
        The default threshold; None where there is no usual one.
    is_distance : bool
        Whether smaller is more similar.
    """

    schemes: tuple[str, ...]
    body: str
    threshold: float | None
    is_distance: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether all bodies of an index have one length, and lie in the file of vectors."""
        return self.body in ("vector", "bits")


METRICS = {
    "jaccard": Metric(("fss", "universal"), "text", 0.8),
    "cosine": Metric(("hyperplane", "hadamard"), "vector", 0.8),
    "hamming": Metric(("bits",), "bits", None, is_distance=True),
    "l1": Metric(("cauchy", "unary"), "vector", None, is_distance=True),
    "l2": Metric(("gaussian",), "vector", None, is_distance=True),
    "weighted-jaccard": Metric(("icws",), "weights", 0.8),
    "jaccard-bits": Metric(("fss", "universal"), "bits", 0.8),
}
"""By name, as ``--metric`` has it; the first is the default."""

ONE_BIT_SCHEMES = frozenset({"hyperplane", "hadamard", "bits", "unary"})
"""Schemes whose slots are single bits, 32 to a word of the signature; others have words."""

DTYPES = ("float32", "float64", "float16", "uint8")
"""Of vectors as they are kept; the first is the default."""
