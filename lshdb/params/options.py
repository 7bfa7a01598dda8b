"""A user's options -> complete parameters: bands from threshold and recall, k from the unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from lshdb.arguments import Digits, MetricName, Unit, check_flag, check_names, plain_number
from lshdb.errors import ParameterError
from lshdb.params.bands import (
    Background,
    candidate_probability,
    choose_bands,
    choose_width,
    typical_background,
)
from lshdb.params.index_params import (
    MAX_SLOTS,
    IndexParams,
    check_dim,
    check_metric,
    check_num_perm,
    check_recall,
    check_threshold,
    check_width,
    passages_option,
)
from lshdb.params.metrics import (
    DEFAULT_METRIC,
    DTYPES,
    METRICS,
    SCHEMES,
    Curve,
    Metric,
    Scheme,
    curve_of,
)
from lshdb.shingling import (
    DEFAULT_STOP_TOKENS,
    UNITS,
    URL_UNITS,
    join_steps,
    parse_steps,
    stop_token_list,
    stop_word_list,
)

__all__ = ["CreateOptions", "ExpectedParameters", "Parameters", "check_parameters"]

_NUM_PERM = 128
_PASSAGE_THRESHOLD = 0.3
"""Of windows, if none is given: two that cut a passage differently share part of it only."""
_LEAST_BITS = 256
"""Fewest bits of a signature: with fewer an estimate says little."""
_MOST_BITS = 16_384
_SLOT_COST = 1.0 / 80.0
"""Cost of one bit of a signature, in postings; a posting takes about 10 bytes."""


def _names(is_of: Callable[[Metric], bool], last: str = ", ") -> str:
    """Return the names of some metrics, as in a sentence."""
    *names, final = (name for name, kind in METRICS.items() if is_of(kind))
    return ", ".join(names) + last * bool(names) + final


def _option(text: str, *, default: Any = None, metavar: str | None = None) -> Any:
    """Return a field with the help text of its option on the command line."""
    return field(default=default, metadata={"help": text, "metavar": metavar})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """Options for a new index; None leaves the choice to the library.

    :meth:`lshdb.Index.create` takes these options by name and describes them. The options of the
    commands ``init`` and ``add`` are made from these fields. ``tokenizer`` is the name and version
    that the index records, or empty.
    """

    metric: MetricName = _option(
        f"How to compare: texts by {_names(lambda kind: kind.body == 'text', ' or ')}; weighted "
        f"tokens by {_names(lambda kind: kind.body == 'weights', ' or ')}; vectors by "
        f"{_names(lambda kind: kind.body == 'vector', ' or ')}; bits by "
        f"{_names(lambda kind: kind.body == 'bits', ' or ')}.  [default: {DEFAULT_METRIC}]",
        default=DEFAULT_METRIC,
        metavar="METRIC",
    )
    threshold: float | None = _option(
        "Lowest similarity of near-duplicates, above 0 up to 1; for "
        f"{_names(lambda kind: kind.is_distance, ' and ')}, the largest "
        "distance.  [default: 0.8; required for a distance]",
        metavar="T",
    )
    recall: float | None = _option(
        "Share of the pairs at the threshold that the index must find; it chooses bands and rows.  "
        "[default: 0.99]",
        metavar="P",
    )
    bands: int | None = _option("Number of bands; with --rows, instead of --recall.", metavar="B")
    rows: int | None = _option("Slots in a band.", metavar="R")
    num_perm: int | None = _option(
        "Slots of a signature.  [default: 128; for vectors and bits as many as the bands need]",
        metavar="N",
    )
    scheme: str | None = _option(
        "Hash functions, one of the metric's: "
        + "; ".join(f"{name} {' or '.join(kind.families)}" for name, kind in METRICS.items())
        + ".  [default: the first]",
        metavar="SCHEME",
    )
    seed: int = _option("Seed of the hash functions.  [default: 1]", default=1, metavar="N")
    dim: int | None = _option(
        "Numbers of a vector, or bits.  [default for add: as in the input; init needs it]",
        metavar="N",
    )
    dtype: str | None = _option(
        "Type in which vectors are stored: {choices}.  ["
        "default for add: as in the input; else float32]",
        metavar="TYPE",
    )
    width: float | None = _option(
        f"For {_names(lambda kind: kind.takes_width, ' and ')}: width of the pieces that "
        "projections are cut into; for scheme unary: "
        "the largest number.  [default: chosen with the bands; unary needs it]",
        metavar="A",
    )
    unit: Unit | None = _option(
        "What shingles are made of: {choices}.  [default: word]", metavar="UNIT"
    )
    k: int | None = _option(
        "Units in a shingle.  [default: 5 words or tokens, 9 characters or bytes, 3 lines, "
        "2 tokens of a URL]",
        metavar="K",
    )
    bag: bool = _option("Count how often a shingle occurs.", default=False)
    lowercase: bool | None = _option(
        "Take a and A for the same letter, or for two.  [default: the same for word, char, line "
        "and URLs]"
    )
    strip_accents: bool = _option("Take e and é for the same letter.", default=False)
    strip_punctuation: bool = _option("Take punctuation and symbols for blanks.", default=False)
    digits: Digits = _option(
        "What to do with numbers: {choices}. zero turns each into 0.  [default: keep]",
        default="keep",
        metavar="HOW",
    )
    stop_tokens: str | Iterable[str] | None = _option(
        "Tokens to leave out of URLs, instead of the default list.", metavar="FILE"
    )
    stop_words: Iterable[str] | None = _option(
        "Words to leave out of texts: those of a file, or the published list of a language "
        "such as en (lshdb[stopwords]).  [default: none]",
        metavar="FILE|LANG",
    )
    tokenizer: str = _option(
        "An installed tokenizer; implies --unit tokenizer.", default="", metavar="NAME"
    )
    passages: tuple[int, int] | str | None = _option(
        "Index windows of WORDS words, one every STEP words, to find the "
        "passages that documents share; see lshdb pairs --by document.  [default: whole "
        "documents]",
        metavar="WORDS:STEP",
    )
    store_text: bool = _option(
        "Store no texts, or vectors: the index is smaller, and similarities are estimates.",
        default=True,
    )

    def __post_init__(self) -> None:
        if isinstance(self.stop_tokens, Iterator):  # it can be read only once
            object.__setattr__(self, "stop_tokens", tuple(self.stop_tokens))
        if isinstance(self.stop_words, Iterator):
            object.__setattr__(self, "stop_words", tuple(self.stop_words))

    def params(self, levels: Iterable[float] | None = None) -> IndexParams:
        """Complete the parameters: bands from threshold and recall, k from the unit.

        Parameters
        ----------
        levels : iterable of float, optional
            Levels of pairs in a sample of documents, which bands and width have to keep apart from
            the threshold. By default those of a typical corpus.

        Raises
        ------
        ParameterError
            A value is out of range or does not fit the metric, or no bands reach the recall.
        """
        return _chosen(self, levels)


class Parameters(TypedDict, total=False):
    """The fields of :class:`CreateOptions` by name, for methods that take some of them.

    All but ``tokenizer``, which these methods take as an argument of its own. A test compares the
    two.
    """

    metric: MetricName
    threshold: float | None
    recall: float | None
    bands: int | None
    rows: int | None
    num_perm: int | None
    scheme: str | None
    seed: int
    dim: int | None
    dtype: str | None
    width: float | None
    unit: Unit | None
    k: int | None
    bag: bool
    lowercase: bool | None
    strip_accents: bool
    strip_punctuation: bool
    digits: Digits
    stop_tokens: str | Iterable[str] | None
    stop_words: Iterable[str] | None
    passages: tuple[int, int] | str | None
    store_text: bool


class ExpectedParameters(Parameters, total=False):
    """Parameters that :meth:`lshdb.Index.open` can expect of an index."""

    normalisation: str
    text_rules: int
    database: str
    schema: str | None


def check_parameters(function: str, names: Iterable[str], *own: str) -> None:
    """Raise UnknownParameterError for a keyword that is neither a parameter nor the function's own.

    Parameters
    ----------
    function : str
        Its name, for the message.
    names : iterable of str
        What it was called with, besides its own.
    *own : str
        The function's own keywords, which somebody may have misspelt.

    Raises
    ------
    UnknownParameterError
    """
    check_names(function, names, (*own, *Parameters.__annotations__))


def _chosen(options: CreateOptions, levels: Iterable[float] | None) -> IndexParams:
    metric, store_text, dtype = options.metric, options.store_text, options.dtype
    threshold, recall = plain_number(options.threshold), plain_number(options.recall)
    bands, rows = plain_number(options.bands), plain_number(options.rows)
    num_perm, seed = plain_number(options.num_perm), plain_number(options.seed)
    dim, width = plain_number(options.dim), plain_number(options.width)
    check_metric(metric)
    kind = METRICS[metric]
    scheme = next(iter(kind.families)) if options.scheme is None else options.scheme
    if scheme not in kind.families:
        raise ParameterError(
            f"scheme is {scheme!r}; expected {' or '.join(map(repr, kind.families))} "
            f"for metric {metric}"
        )
    passages = passages_option(options.passages)
    if passages and threshold is None:
        threshold = _PASSAGE_THRESHOLD
    threshold = _threshold(metric, threshold)
    if num_perm is not None:
        check_num_perm(num_perm, scheme)
    fixed: dict[str, Any] = {"metric": metric, "scheme": scheme, "seed": seed}
    fixed |= {"store_text": store_text, "passages": passages}
    if kind.is_dense:
        fixed |= _vector_options(options, dim)
    else:
        for name, value in (("dim", dim), ("dtype", dtype)):
            if value is not None:
                raise ParameterError(f"{name} is for vectors, and the metric is {metric}")
        fixed |= _text_options(options)
    drawn = SCHEMES[scheme]
    most = num_perm or _most_slots(drawn)
    promised = 0.99 if recall is None else recall
    check_recall(promised)
    if width is not None or not drawn.is_projected:
        check_width(scheme, width or 0.0)
    level = 0.0 - threshold if kind.is_distance else threshold
    slot_cost = _SLOT_COST * drawn.slot_bits if kind.is_dense and num_perm is None else 0.0
    if levels is None:
        any_curve = curve_of(scheme, dim=dim or 1, width=width or 1.0)
        far = typical_background(metric, any_curve, level)
    else:
        far = Background.of_sample(metric, list(levels), level)
    far = replace(far, slot_cost=slot_cost)
    if drawn.is_projected and width is None:
        width = choose_width(scheme, level, promised, most, far)
    curve = curve_of(scheme, dim=dim or 0, width=width or 0.0)
    if (bands is None) != (rows is None):
        raise ParameterError("bands and rows go together: give both, or neither")
    if bands is not None and rows is not None:
        if recall is not None:
            raise ParameterError(
                "recall chooses bands and rows, so it cannot be given together with them"
            )
        promised = _given_recall(curve, level, bands, rows)
    else:
        bands, rows = choose_bands(level, promised, most, curve=curve, background=far)
    return IndexParams(
        bands=bands,
        rows=rows,
        num_perm=num_perm or _slots_for(drawn, bands * rows, is_estimate=not store_text),
        threshold=float(threshold),
        recall=float(promised),
        width=float(width or 0.0),
        **fixed,
    )


def _threshold(metric: str, threshold: float | None) -> float:
    threshold = METRICS[metric].threshold if threshold is None else threshold
    if threshold is None:
        raise ParameterError(
            f"metric {metric} is a distance, and has no usual threshold",
            hint="give --threshold, the largest distance that counts as near",
        )
    check_threshold(metric, threshold)
    return threshold


def _given_recall(curve: Curve, level: float, bands: int, rows: int) -> float:
    """Return the recall that bands and rows give; check them first."""
    for name, value in (("bands", bands), ("rows", rows)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ParameterError(f"{name} is {value!r}; expected a whole number from 1 on")
    return candidate_probability(curve.probability(level), bands, rows)


def _most_slots(scheme: Scheme) -> int:
    if scheme.slot_bits == 1:
        return _MOST_BITS
    return MAX_SLOTS if scheme.is_projected else _NUM_PERM


def _slots_for(scheme: Scheme, used: int, *, is_estimate: bool) -> int:
    """Return the slots of a signature: as many as the bands use, or more if no texts are stored."""
    if scheme.slot_bits == 1:
        return max(_LEAST_BITS * (4 if is_estimate else 1), -(-used // 32) * 32)
    if not scheme.is_projected:
        return _NUM_PERM
    return max(used, _NUM_PERM) if is_estimate else used


_OF_TEXTS = (
    "unit", "k", "bag", "lowercase", "strip_accents", "strip_punctuation", "digits", "stop_tokens",
    "stop_words", "tokenizer",
)  # fmt: skip


def _vector_options(options: CreateOptions, dim: int | None) -> dict[str, Any]:
    metric = options.metric
    for name in _OF_TEXTS:
        if getattr(options, name) not in (None, False, "", "keep"):
            raise ParameterError(
                f"{name} is for texts, and the metric is {metric}", hint=f"leave {name} out"
            )
    if dim is None:
        raise ParameterError(
            f"metric {metric} needs the dimension of its vectors",
            hint="give --dim, or let lshdb add make the index, which takes it from the input",
        )
    check_dim(dim)
    is_bits = METRICS[metric].body == "bits"
    # The dtype of a NumPy array is not a string, but str() gives its name.
    return {"dim": dim, "dtype": str(options.dtype or ("bits" if is_bits else DTYPES[0]))}


def _text_options(options: CreateOptions) -> dict[str, Any]:
    metric, bag, tokenizer, k = options.metric, options.bag, options.tokenizer, options.k
    stop_tokens = options.stop_tokens
    unit: str = ("tokenizer" if tokenizer else "word") if options.unit is None else options.unit
    if unit not in UNITS:
        raise ParameterError(f"unit is {unit!r}; expected one of " + ", ".join(UNITS))
    if bag and METRICS[metric].body == "weights":
        raise ParameterError(
            "bag counts repeated shingles, and so do weights already", hint="leave --bag out"
        )
    normalisation = _normalisation(options, unit)
    if stop_tokens is not None and unit not in URL_UNITS:
        raise ParameterError(
            f"stop_tokens are for unit url, and the unit is {unit}",
            hint="leave --stop-tokens out, or make an index of --unit url",
        )
    if options.stop_words is not None and unit != "word":
        raise ParameterError(
            f"stop_words are for unit word, and the unit is {unit}",
            hint="leave --stop-words out; for URLs there is --stop-tokens",
        )
    recorded = ""
    if options.stop_words is not None:
        recorded = stop_word_list(options.stop_words, normalisation)
    if unit in URL_UNITS:
        tokens = DEFAULT_STOP_TOKENS if stop_tokens is None else stop_tokens
        recorded = stop_token_list(tokens, normalisation)
    return {
        "unit": unit,
        "k": UNITS[unit].k if k is None else plain_number(k),
        "bag": bag,
        "normalisation": normalisation,
        "stop_tokens": recorded,
        "tokenizer": tokenizer,
    }


def _normalisation(options: CreateOptions, unit: str) -> str:
    """Return the steps of the unit, with the changes that the options ask for."""
    if options.digits not in ("keep", "zero"):
        raise ParameterError(f'digits is {options.digits!r}; expected "keep" or "zero"')
    steps = set(parse_steps(UNITS[unit].normalisation))
    if options.lowercase is not None:
        folds = check_flag("lowercase", options.lowercase)
        steps = steps | {"casefold"} if folds else steps - {"casefold"}
    added = {
        "accents": check_flag("strip_accents", options.strip_accents),
        "punctuation": check_flag("strip_punctuation", options.strip_punctuation),
        "digits": options.digits == "zero",
    }
    return join_steps(steps | {step for step, is_added in added.items() if is_added})
