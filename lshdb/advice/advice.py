"""What :func:`lshdb.advise` and :meth:`lshdb.Index.advise` return: plain data, to be drawn.

Numbers of pairs are of the whole corpus. Where all documents were compared they are counts, and the
interval is that one number. Else they are estimates from a sample of documents.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lshdb.params.index_params import IndexParams
from lshdb.params.s_curve import SCurve

__all__ = [
    "Advice",
    "Choice",
    "ExamplePair",
    "LabelAgreement",
    "LabelRow",
    "SimilarityHistogram",
    "SimilaritySlice",
    "WordDifference",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilaritySlice:
    """The pairs of documents whose similarity is in one slice.

    Attributes
    ----------
    low, high : float
        ``low <= similarity < high``; in the last slice both are 1.
    pairs : float
        Pairs of documents of the whole corpus.
    lower, upper : float
        The 99 % interval of ``pairs``.
    seen : int
        Pairs that were counted in the sample.
    """

    low: float
    high: float
    pairs: float
    lower: float
    upper: float
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityHistogram:
    """How many pairs of documents there are at each similarity.

    Attributes
    ----------
    unit : str
    k : int
        Similarities are those of shingles of k units.
    documents, compared : int
        Documents of the corpus, and those of the sample, which were compared each with each.
    slices : tuple of SimilaritySlice
        Rising: twenty of width 0.05, and similarity 1 alone.
    """

    unit: str
    k: int
    documents: int
    compared: int
    slices: tuple[SimilaritySlice, ...]

    @property
    def is_exact(self) -> bool:
        """Whether all documents were compared, so that the numbers are counts."""
        return self.compared == self.documents


@dataclass(frozen=True, slots=True, kw_only=True)
class WordDifference:
    """Where two texts differ.

    Attributes
    ----------
    words1, words2 : str
        The words that stand in the one text and in the other; empty where there are none.
    before, after : str
        Some words around them, as in the first text.
    """

    words1: str
    words2: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePair:
    """Two documents of the sample whose similarity is near a round number.

    Attributes
    ----------
    near : float
        0.5, 0.6, 0.7, 0.8 or 0.9.
    key1, key2 : str
    similarity : float
        At most 0.025 from ``near``.
    text1, text2 : str
        The texts as they are, or their beginnings; tokens are joined by blanks.
    differences : tuple of WordDifference
        The first few, within the first 20,000 characters.
    n_differences : int
        How many there are within these.
    """

    near: float
    key1: str
    key2: str
    similarity: float
    text1: str
    text2: str
    differences: tuple[WordDifference, ...]
    n_differences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Parameters for an aim, with their yield and cost.

    Attributes
    ----------
    aim : str
        One of :func:`lshdb.aims`, or ``labels`` for what agrees best with labels.
    purpose : str
        The aim in words.
    unit : str
    k : int
    threshold : float
    bands, rows, num_perm : int
    recall : float
        Probability that a pair at the threshold is found.
    pairs, lower, upper : float
        Pairs at the threshold and more in the whole corpus, and the 99 % interval of that.
    compared : int
        Documents of which the pairs were counted.
    found : float
        Of these pairs, how many the bands are expected to find.
    candidates : float
        Pairs that share a bucket, to be compared; those below the threshold are among them.
    bytes : int
        Signatures, buckets and rows of the documents on disk, without the texts.
    add_seconds : float
        Estimated time to add all documents.
    reason : str
        Why this shingle and this threshold.
    words : str
        All of this in sentences.
    command : str
        What makes such an index.
    """

    aim: str
    purpose: str
    unit: str
    k: int
    threshold: float
    bands: int
    rows: int
    num_perm: int
    recall: float
    pairs: float
    lower: float
    upper: float
    compared: int
    found: float
    candidates: float
    bytes: int
    add_seconds: float
    reason: str
    words: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """Agreement of labels with one threshold.

    Attributes
    ----------
    threshold : float
    found_yes, found_no, missed_yes, missed_no : int
        Labels ``yes`` and ``no`` whose pairs are at the threshold or above, and below.
    precision, precision_lower, precision_upper : float or None
        Share of ``yes`` at the threshold and above, and its 99 % interval; None without such pairs.
    recall, recall_lower, recall_upper : float or None
        Share of all ``yes`` that are there.
    f1 : float
        Harmonic mean of precision and recall; 0 if one is missing.
    """

    threshold: float
    found_yes: int
    found_no: int
    missed_yes: int
    missed_no: int
    precision: float | None
    precision_lower: float | None
    precision_upper: float | None
    recall: float | None
    recall_lower: float | None
    recall_upper: float | None
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """How labels of a person agree with similarities of one shingle.

    Attributes
    ----------
    unit : str
    k : int
    yes, no : int
        Pairs that were compared, without those below.
    missing : tuple of str
        Keys that no document has, in order; their labels are left out.
    contradictions : tuple of (str, str)
        Pairs that are labelled both ways; left out.
    threshold : float or None
        The one of ``rows`` that agrees best: of the highest ``f1``, the middle one. None without
        labels of both kinds.
    rows : tuple of LabelRow
        Thresholds in rising order.
    """

    unit: str
    k: int
    yes: int
    no: int
    missing: tuple[str, ...]
    contradictions: tuple[tuple[str, str], ...]
    threshold: float | None
    rows: tuple[LabelRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The result of :func:`lshdb.advise` and :meth:`lshdb.Index.advise`.

    Attributes
    ----------
    params : IndexParams
        Those that were asked about; of an index, its own.
    documents, sampled, rejected : int
        Documents of the corpus, those that were drawn, and what is no document.
    units : float
        Units of a text (words, characters), in the middle of the sample; repeated shingles count
        once.
    seed : int
    histogram : SimilarityHistogram
        For the shingles of ``params``.
    examples : tuple of ExamplePair
        Up to five for each round number.
    choices : tuple of Choice
        For each aim that was asked for.
    labels : LabelAgreement or None
        For the shingles that agree best; None if no labels were given.
    curve : SCurve
        Of the bands of ``params``.
    remarks : tuple of str
        What to know about these numbers: how they were estimated, what is too little to tell.
    """

    params: IndexParams
    documents: int
    sampled: int
    rejected: int
    units: float
    seed: int
    histogram: SimilarityHistogram
    examples: tuple[ExamplePair, ...]
    choices: tuple[Choice, ...]
    labels: LabelAgreement | None
    curve: SCurve
    remarks: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return all of it as dicts, tuples and plain values, as JSON has them."""
        parts = ("histogram", "curve", "labels")
        record: dict[str, Any] = {"params": self.params.items()} | {
            name: getattr(self, name)
            for name in ("documents", "sampled", "rejected", "units", "seed", "remarks")
        }
        for name in parts:
            part = getattr(self, name)
            record[name] = None if part is None else asdict(part)
        record["histogram"]["is_exact"] = self.histogram.is_exact
        for name in ("examples", "choices"):
            record[name] = tuple(asdict(item) for item in getattr(self, name))
        return record
