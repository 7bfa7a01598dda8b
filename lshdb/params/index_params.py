"""Index parameters, as stored with an index, and as compared with what a caller expects.

Parameters are part of the data. They are fixed when an index is created; later calls that expect
other values are refused (:class:`lshdb.errors.ParameterMismatchError`). ``params/options.py``
completes them from the user's options, and ``params/bands.py`` chooses the bands.

A caller names the parameters that it expects as when creating an index: by their own names, or as
those options of :meth:`lshdb.Index.create` that are stored in another form (``lowercase`` as a step
of the normalisation, stop tokens as one string, stop words of texts as stop tokens).
"""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict, TypeGuard

from lshdb.arguments import check_flag, check_names, plain_number
from lshdb.arrays import np
from lshdb.errors import FormatError, ParameterError, ParameterMismatchError
from lshdb.params.bands import MAX_BANDS, candidate_probability, choose_bands
from lshdb.params.metrics import (
    DEFAULT_METRIC,
    DTYPES,
    JACCARD,
    MAX_DIM,
    METRICS,
    SCHEMES,
    WORD_BITS,
    Curve,
    Metric,
    curve_of,
)
from lshdb.shingling import (
    NORMALISATION,
    TEXT_RULES,
    UNITS,
    URL_UNITS,
    parse_steps,
    stop_token_list,
    stop_word_list,
)

__all__ = [
    "FORMAT",
    "IndexParams",
    "candidate_probability",
    "check_equal",
    "check_expected",
    "choose_bands",
    "passages_option",
    "refuse_format",
]

FORMAT = 2
"""Number of the on-disk format that this version writes and reads."""

MAX_SLOTS = 4096
MAX_BITS = 32 * MAX_SLOTS
"""Most slots of a signature that are single bits."""
_LEAST_WIDTH, _LARGEST_WIDTH = 1e-102, 1e202
"""Calculations with widths in this range stay within float64."""
_PASSAGE_UNITS = ("word", "char", "byte")
_MOST_WINDOW_WORDS = 1_000_000
_OF_TEXTS = frozenset(
    {"text_rules", "unit", "k", "bag", "normalisation", "stop_tokens", "tokenizer"}
)
_OF_VECTORS = frozenset({"dim", "dtype", "width"})


class Cut(TypedDict):
    """The way signature rows are cut into bands."""

    bands: int
    rows: int
    slot_bits: int


@dataclass(frozen=True, kw_only=True)  # without slots: what follows from it is kept
class IndexParams:
    """The parameters of an index.

    Attributes
    ----------
    metric : str
        The similarity or distance; one of ``lshdb.params.metrics.METRICS``.
    scheme : str
        Family of hash functions, one of the metric's.
    num_perm : int
        Slots of a signature, at least 1 and at most 4096; if a slot is a bit, at most 131,072 and
        a multiple of 32.
    seed : int
        Seed of the scheme's hash functions, 0 to 2^63 - 1.
    bands, rows : int
        b and r; bands 1 to 255, bands * rows at most num_perm.
    threshold : float
        Least similarity, or largest distance, of near-duplicates, inclusive.
    recall : float
        Probability that a pair at the threshold is found.
    text_rules : int
        What a word is, and what each step of the normalisation does: 2
        (:mod:`lshdb.shingling.words`).
    unit : {"word", "char", "byte", "line", "token", "url", "url-host", "tokenizer"}
        What shingles are made of.
    k : int
        Units per shingle, 1 to 255.
    bag : bool
        Whether repeated shingles count again.
    normalisation : str
        The steps of the normalisation (:mod:`lshdb.shingling.normalise`).
    stop_tokens : str
        Tokens left out of URLs, or for unit ``word`` stop words left out of texts; sorted and
        joined by blanks; empty for other units.
    tokenizer : str
        Name and version of the tokenizer, separated by a blank; empty unless the unit is
        ``tokenizer``.
    store_text : bool
        Whether texts, or vectors, are kept for exact verification.
    dim : int
        Dimension of vectors, or number of bits; 0 for texts and weights.
    dtype : str
        Type of the stored vectors: ``float32``, ``float64``, ``float16`` or ``uint8``; ``bits``
        for bits; empty for texts and weights.
    width : float
        Width of the pieces of a projection; for scheme ``unary`` the largest number; 0 for all
        others.
    passages : str
        Words in a window of a document and words from one window to the next, with a colon, such as
        ``200:100``; empty if documents are kept whole.
    """

    metric: str = DEFAULT_METRIC
    scheme: str = "fss"
    num_perm: int = 128
    seed: int = 1
    bands: int
    rows: int
    threshold: float
    recall: float
    text_rules: int = TEXT_RULES
    unit: str = "word"
    k: int = 5
    bag: bool = False
    normalisation: str = NORMALISATION
    stop_tokens: str = ""
    tokenizer: str = ""
    store_text: bool = True
    dim: int = 0
    dtype: str = ""
    width: float = 0.0
    passages: str = ""

    def __post_init__(self) -> None:
        check_metric(self.metric)
        schemes = self.kind.families
        _check("scheme", self.scheme, self.scheme in schemes, " or ".join(map(repr, schemes)))
        if type(self.text_rules) is not int or self.text_rules != TEXT_RULES:
            raise ParameterError(
                f"text_rules is {self.text_rules!r}; this version has text rules {TEXT_RULES}",
                hint=_RULES_HINT,
            )
        good = isinstance(self.unit, str) and self.unit in UNITS
        _check("unit", self.unit, good, "one of " + ", ".join(UNITS))
        parse_steps(self.normalisation)
        tokens = self.stop_tokens
        good = isinstance(tokens, str) and tokens == " ".join(sorted(set(tokens.split())))
        _check("stop_tokens", tokens, good, "distinct tokens, sorted, separated by single blanks")
        if tokens and self.unit not in (*URL_UNITS, "word"):
            raise ParameterError(f"stop_tokens are for URLs and words, but the unit is {self.unit}")
        _check_tokenizer(self.unit, self.tokenizer)
        check_num_perm(self.num_perm, self.scheme)
        _check_integer("seed", self.seed, 0, 2**63 - 1)
        _check_integer("bands", self.bands, 1, MAX_BANDS)
        _check_integer("rows", self.rows, 1, MAX_SLOTS)
        _check_integer("k", self.k, 1, 255)
        if self.kind.is_dense:
            check_dim(self.dim)
            dtypes = ("bits",) if self.kind.body == "bits" else DTYPES
            good = isinstance(self.dtype, str) and self.dtype in dtypes
            _check("dtype", self.dtype, good, " or ".join(dtypes))
            check_width(self.scheme, self.width)
        else:
            for name, value in (("dim", self.dim), ("dtype", self.dtype), ("width", self.width)):
                if value:
                    raise ParameterError(f"{name} is for vectors, but the metric is {self.metric}")
        check_threshold(self.metric, self.threshold)
        good = _is_number(self.recall) and 0.0 <= self.recall <= 1.0
        _check("recall", self.recall, good, "a number from 0 to 1")
        check_flag("bag", self.bag)
        check_flag("store_text", self.store_text)
        if self.passages != "":
            self._check_passages()
        if self.bands * self.rows > self.num_perm:
            raise ParameterError(
                f"{self.bands} bands of {self.rows} rows need {self.bands * self.rows} slots, "
                f"but a signature has num_perm = {self.num_perm}",
                hint="raise --num-perm, or lower --bands or --rows",
            )

    def _check_passages(self) -> None:
        if passages_option(self.passages) != self.passages:
            raise ParameterError(f"passages is {self.passages!r}; expected words:step or nothing")
        are_texts = self.kind.body == "text"
        if not are_texts or self.unit not in _PASSAGE_UNITS:
            what = f"unit {self.unit}" if are_texts else f"metric {self.metric}"
            raise ParameterError(
                f"passages are windows of words in texts, and the index has {what}",
                hint=f"leave --passages out, or use --unit {' or '.join(_PASSAGE_UNITS)}",
            )
        if not self.store_text:
            raise ParameterError(
                "passages are aligned word by word, so their texts must be stored",
                hint="leave out --no-text, or --passages",
            )
        words, _ = self.window or (0, 0)
        if self.unit == "word" and words < self.k:
            raise ParameterError(
                f"a window of {words} words is shorter than a shingle of {self.k}",
                hint="give --passages more words, or a smaller --k",
            )

    @functools.cached_property
    def window(self) -> tuple[int, int] | None:
        """Words in a window, and words from one to the next; None if documents are whole."""
        if not self.passages:
            return None
        words, step = self.passages.split(":")
        return int(words), int(step)

    @functools.cached_property
    def kind(self) -> Metric:
        """The metric's schemes, bodies and thresholds."""
        return METRICS[self.metric]

    @functools.cached_property
    def curve(self) -> Curve:
        """The probability of an equal slot, by level of similarity."""
        return curve_of(self.scheme, dim=self.dim, width=self.width)

    @functools.cached_property
    def level(self) -> float:
        """The threshold as a level: larger is more similar, so minus a distance."""
        return self.curve.level(self.threshold)

    @functools.cached_property
    def cut(self) -> Cut:
        """The cut of rows into bands, as arguments for ``signatures/banding.py``."""
        return {"bands": self.bands, "rows": self.rows, "slot_bits": self.slot_bits}

    @functools.cached_property
    def slot_bits(self) -> int:
        """Bits of a slot: 16, or 1."""
        return SCHEMES[self.scheme].slot_bits

    @functools.cached_property
    def row_words(self) -> int:
        """Words of 16 bits of a signature row."""
        return self.num_perm * self.slot_bits // WORD_BITS

    @functools.cached_property
    def row_bytes(self) -> int:
        """Bytes of a signature row."""
        return self.row_words * WORD_BITS // 8

    @functools.cached_property
    def keeps_texts(self) -> bool:
        """Whether bodies are kept in the table ``content``."""
        return self.store_text and not self.kind.is_dense

    @functools.cached_property
    def keeps_vectors(self) -> bool:
        """Whether bodies are kept in the file of vectors."""
        return self.store_text and self.kind.is_dense

    @property
    def vector_columns(self) -> int:
        """Numbers per row of the vector file: the dimension, or the bytes that hold the bits."""
        return -(-self.dim // 8) if self.dtype == "bits" else self.dim

    def recall_at(self, value: float) -> float:
        """Return the probability that a pair of this similarity or distance is found."""
        curve = self.curve
        return candidate_probability(curve.probability(curve.level(value)), self.bands, self.rows)

    def deviation_at(self, value: float) -> float:
        """Return the standard deviation of the estimate for a pair of this similarity or distance.

        For the share of equal slots it is sqrt(p (1 - p) / num_perm); for the estimate it is
        accurate as far as the curve is straight there.
        """
        curve = self.curve
        p = curve.probability(curve.level(value))
        deviation = (p * (1.0 - p) / self.num_perm) ** 0.5
        low, high = curve.levels(np.clip([p - deviation, p + deviation], 1e-9, 1.0)).tolist()
        return float(high - low) / 2.0 if curve is not JACCARD else deviation

    def items(self) -> dict[str, str | int | float | bool]:
        """Return name to value for the metric's parameters, in the order of the attributes.

        ``passages`` is among them only in an index of passages: others are as earlier versions
        made them.
        """
        absent = _OF_TEXTS if self.kind.is_dense else _OF_VECTORS
        if not self.passages:
            absent |= {"passages"}
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in absent
        }

    def options(self) -> dict[str, str | bool]:
        """Return the options that are stored in another form, or under another name."""
        if self.kind.is_dense:
            return {}
        steps = parse_steps(self.normalisation)
        return {
            "lowercase": "casefold" in steps,
            "strip_accents": "accents" in steps,
            "strip_punctuation": "punctuation" in steps,
            "digits": "zero" if "digits" in steps else "keep",
            "stop_words": self.stop_tokens if self.unit == "word" else "",
            "passages": self.passages,
        }


def passages_option(value: object) -> str:
    """Return windows of words as they are stored: ``200:100``, or nothing.

    Parameters
    ----------
    value : str, pair of int, or None
        Words in a window and words from one to the next: ``(200, 100)`` or ``"200:100"``.

    Raises
    ------
    ParameterError
        It is neither, or a number is out of range.
    """
    if value is None or value == "":
        return ""
    parts: list[object] = []
    if isinstance(value, str):
        parts = [
            int(part) if part.isascii() and part.isdecimal() else part for part in value.split(":")
        ]
    elif isinstance(value, tuple | list):
        parts = [plain_number(part) for part in value]
    match parts:
        case [int(words), int(step)] if 1 <= step <= words <= _MOST_WINDOW_WORDS and words > 1:
            return f"{words}:{step}"
    raise ParameterError(
        f"passages is {value!r:.80}; expected words:step, such as 200:100: the words in a window, "
        f"2 to {_MOST_WINDOW_WORDS:,}, and the words from one window to the next, 1 to as many"
    )


def check_metric(value: object) -> None:
    """Refuse an unknown metric."""
    good = isinstance(value, str) and value in METRICS
    _check("metric", value, good, f"one of {', '.join(METRICS)}")


def check_num_perm(value: object, scheme: str) -> None:
    """Refuse a number of slots that a signature of the scheme cannot have."""
    bits = SCHEMES[scheme].slot_bits
    _check_integer("num_perm", value, 1, MAX_BITS if bits == 1 else MAX_SLOTS)
    if bits == 1 and isinstance(value, int) and value % 32:
        raise ParameterError(
            f"num_perm is {value}, but scheme {scheme} has slots of one bit, 32 at a time",
            hint=f"give a multiple of 32, such as {-(-value // 32) * 32}",
        )


def check_recall(recall: object, *, may_be_1: bool = False) -> None:
    """Refuse a recall that cannot be promised; 1 needs a comparison of all texts."""
    recall = plain_number(recall)
    is_whole = may_be_1 and isinstance(recall, int | float) and recall == 1
    is_part = isinstance(recall, int | float) and 0.0 < recall < 1.0
    if recall is True or not (is_whole or is_part):
        expected = "above 0, up to 1" if may_be_1 else "above 0 and below 1"
        raise ParameterError(
            f"recall is {recall!r}; expected a number {expected}",
            hint=_part_of_one("probability", recall),
        )


def check_threshold(metric: str, value: object, *, name: str = "threshold") -> None:
    """Refuse a threshold, or another limit of that name, that the metric cannot have."""
    kind = METRICS[metric]
    low, high = kind.lowest, kind.largest
    if kind.is_distance:
        good = _is_number(value) and low <= value <= high
        what = "number of bits," if kind.is_whole else "distance"
        expected = f"a {what} from {low:g} to {high if kind.is_whole else format(high, 'g')}"
    else:
        good = _is_number(value) and low < value <= high
        expected = f"a number above {low:g}, up to {high:g}"
    hint = None if good or kind.is_distance else _part_of_one("similarity", value)
    _check(name, value, good, expected, hint)


def _part_of_one(what: str, value: object) -> str | None:
    """Return a hint for a number over 1, which may be meant in per cent."""
    if not _is_number(value) or not value > 1.0:
        return None
    percent = f"; {value:g} % is {value / 100:g}" if 10 <= value <= 100 else ""
    return f"a {what} lies between 0 and 1{percent}"


def check_dim(value: object) -> None:
    """Refuse an invalid dimension."""
    _check_integer("dim", value, 1, MAX_DIM)


def check_width(scheme: str, value: object) -> None:
    """Refuse a width that the scheme cannot have."""
    kind = SCHEMES[scheme]
    if kind.has_largest:
        good = _is_number(value) and 1 <= value <= 2**16 and value == int(value)
        _check("width", value, good, "the largest number, a whole number from 1 to 65536")
    elif kind.is_projected:
        good = _is_number(value) and _LEAST_WIDTH <= value <= _LARGEST_WIDTH
        _check("width", value, good, f"a number from {_LEAST_WIDTH:g} to {_LARGEST_WIDTH:g}")
    elif value:
        raise ParameterError(f"width is for projections, but the scheme is {scheme}")


def _check(name: str, value: object, good: bool, expected: str, hint: str | None = None) -> None:
    if not good:
        raise ParameterError(f"{name} is {value!r}; expected {expected}", hint=hint)


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _check(name, value, good, f"a whole number from {low} to {high}")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_tokenizer(unit: str, value: object) -> None:
    expected = "a name and a version, separated by a blank"
    if unit == "tokenizer" and value == "":
        raise ParameterError(
            "unit tokenizer needs a tokenizer",
            hint="give --tokenizer NAME, or tokenizer= in Python",
        )
    if unit == "tokenizer" or not isinstance(value, str):
        good = isinstance(value, str) and value == " ".join(value.split()) and value.count(" ") == 1
        _check("tokenizer", value, good, expected)
    elif value:
        raise ParameterError(f"a tokenizer is for unit tokenizer, but the unit is {unit}")


_MOST_SHOWN = 200
_OF_BANDS = frozenset({"threshold", "recall", "bands", "rows"})
_BANDING_HINT = "lshdb reband changes threshold, recall and bands of an index in place"
_OTHER_HINT = "lshdb reindex makes another index, with other parameters, from the stored texts"
_PASSAGES_HINT = "leave --passages out: the index knows its own; add to a new index for others"
_RULES_HINT = (
    "each version of lshdb has one number of text rules: use the version that made the index, or "
    "make a new index of the same documents"
)
_HINTS = {
    **dict.fromkeys(_OF_BANDS, _BANDING_HINT),
    "passages": _PASSAGES_HINT,
    "text_rules": _RULES_HINT,
}


def check_expected(
    path: object, params: IndexParams, expected: Mapping[str, Any], *, facts: Mapping[str, Any]
) -> None:
    """Compare the expected parameters with the stored ones.

    Parameters
    ----------
    path : path-like
        The index, for messages.
    params : IndexParams
    expected : mapping
        Name to value.
    facts : mapping
        What the index stores besides its parameters, name to value.

    Raises
    ------
    UnknownParameterError
        A name is not a parameter.
    ParameterMismatchError
        A value differs; the error names both.
    """
    stored: dict[str, Any] = {**params.items(), **params.options(), **facts}
    stored["passages"] = params.passages
    check_names("Index.open", expected, stored)
    for name, value in expected.items():
        if name == "stop_tokens":
            value = stop_token_list(value, params.normalisation)
        elif name == "stop_words":
            value = stop_word_list(value, params.normalisation)
        elif name == "passages":
            value = passages_option(value)
        if stored[name] != value:
            raise ParameterMismatchError(
                f"the index {path} was made with {name} = {_shortened(stored[name])}, "
                f"but {_shortened(value)} was given",
                name=name,
                stored=stored[name],
                given=value,
                hint=_HINTS.get(name, _OTHER_HINT),
            )


def check_equal(
    here: tuple[object, IndexParams],
    counterpart: tuple[object, IndexParams],
    *,
    may_differ: Container[str],
    hint: str,
) -> None:
    """Compare the parameters of two indexes.

    Parameters
    ----------
    here, counterpart : tuple of path-like and IndexParams
    may_differ : container of str
        Parameters that are not compared.
    hint : str
        The hint of the error.

    Raises
    ------
    ParameterMismatchError
        A parameter differs; the error names both values.
    """
    (path, params), (other_path, other_params) = here, counterpart
    other_items = {**other_params.items(), "passages": other_params.passages}
    for name, value in {**params.items(), "passages": params.passages}.items():
        if name not in may_differ and other_items[name] != value:
            raise ParameterMismatchError(
                f"{name} is {_shortened(value)} in {path} and "
                f"{_shortened(other_items[name])} in {other_path}",
                name=name,
                stored=value,
                given=other_items[name],
                hint=hint,
            )


def refuse_format(described: str, number: object, *, way: str = "") -> FormatError:
    """Return the error for an index, or what is left of one, of another format.

    Parameters
    ----------
    described : str
        What has the format, with its path.
    number : object
        Its format, as it was read.
    way : str
        What brings it up to date if it is older; by default nothing does.
    """
    hint = "it was made by a newer lshdb; install that"
    if isinstance(number, int) and number < FORMAT:
        hint = "words are cut by other rules since then, so its signatures cannot be compared with "
        hint += "those of this version: "
        hint += (
            f"{way} signs its stored texts anew"
            if way
            else "make a new index of the same documents with lshdb add"
        )
    return FormatError(
        f"{described} has format {number}; this version reads format {FORMAT}", hint=hint
    )


def _shortened(value: object) -> str:
    text = repr(value)
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"
    )
