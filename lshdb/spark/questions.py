"""What is asked of a data frame: pairs, clusters, which documents to keep, and neighbours.

Every question makes documents of the rows, signs them, and finds and verifies pairs, as ``lshdb
add`` and ``lshdb pairs`` do. Nothing is stored for later. What a stage gives to several others is
kept on the executors until :func:`lshdb.spark.release`, or until the session ends.

:func:`pairs`, :func:`neighbors`, :func:`rejected` and :func:`large_buckets` compute nothing before
you use their answers. The others count and connect pairs first, so they begin when you call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pyspark.sql import DataFrame

from lshdb.arguments import Keep, Linkage, Only, Verify
from lshdb.clusters.deduplication import check_keep, field_name
from lshdb.params.options import Parameters
from lshdb.search.loss import Loss
from lshdb.spark.frame_answers import Answers
from lshdb.spark.stages import Question, Stages
from lshdb.tokenizers import Tokenizer

__all__ = [
    "clusters",
    "dedup",
    "deduplicate",
    "large_buckets",
    "loss",
    "neighbors",
    "pairs",
    "rejected",
]


def pairs(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return all near-duplicate pairs, each once: ``key1``, ``key2``, ``similarity``, ``method``.

    The pairs of ``lshdb add`` and ``lshdb pairs`` for the same rows, sorted by ``order`` and key.

    Parameters
    ----------
    df : DataFrame
        A document in each row. Rows that are no documents are left out (:func:`rejected`).
    key : str
        The column of the keys: strings or whole numbers. Of a key that comes twice, the first
        document counts.
    text : str or sequence of str
        The column of the texts, or of the vectors, bits or weights of another metric. Texts of
        several columns are joined in that order, with a blank line between.
    order : str, optional
        The column by which one document is older than another. Of equals, and by default, the
        document with the smaller key is older.
    verify : {"none", "signature", "exact"}, optional
        As for :meth:`lshdb.Index.pairs`.
    max_bucket : int or "none", optional
        Join larger buckets through leaders, and leave out larger groups of exact copies; 1000 by
        default. ``"none"`` compares all pairs of all buckets.
    tokenizer : Tokenizer or str, optional
        As for :meth:`lshdb.Index.create`.
    **parameters
        Parameters of :meth:`lshdb.Index.create` by name (``threshold=0.7, k=3``).

    Returns
    -------
    DataFrame
        ``key1`` is the older document. For a distance metric also ``distance``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    return Answers.of(Stages(asked)).pairs()


def clusters(
    df: DataFrame,
    *,
    min_size: int = 2,
    linkage: Linkage = "component",
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the clusters of near-duplicate documents: ``cluster``, ``size``, ``key``.

    A row for each document of a cluster, which is named after its oldest document.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    min_size : int
        Fewest documents in a cluster.
    linkage : {"component", "representative"}
        As for :meth:`lshdb.Index.clusters`.

    Returns
    -------
    DataFrame

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    return Answers.of(Stages(asked, at_once=True)).clusters(min_size=min_size, linkage=linkage)


def dedup(
    df: DataFrame,
    *,
    keep: Keep = "first",
    only: Only = "all",
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Decide for each document whether to keep it, and if not, which one is kept instead.

    A dropped document is verified to be similar to the one kept in its place. In buckets over
    ``max_bucket``, members are compared with those that ``keep`` prefers, until no two that are
    kept are found similar. Where that is too much, an :class:`lshdb.UncheckedWarning` estimates how
    many pairs are left.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    keep : str
        ``first``, ``last``, ``longest``, ``shortest``, or ``field:NAME`` (``field:-NAME``) for the
        document with the largest (smallest) value of a column.
    only : {"all", "keep", "drop"}
        Which decisions to give.

    Returns
    -------
    DataFrame
        ``key``, ``decision`` (``keep`` or ``drop``), ``kept_key``, ``similarity``, ``method``; the
        last three are null for a document that is kept. For a distance metric also ``distance``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    check_keep(keep)
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    stages = Stages(asked, value=field_name(keep), at_once=True)
    return Answers.of(stages).dedup(keep=keep, only=only)


def deduplicate(
    df: DataFrame,
    *,
    keep: Keep = "first",
    mark: bool = False,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the rows that do not repeat others; rows that are no documents are kept.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    keep : str
        As for :func:`dedup`.
    mark : bool
        Return all rows, with four more columns: ``lshdb_keep`` (whether the row is kept),
        ``lshdb_cluster`` (the key that names its cluster), ``lshdb_kept_as`` (the key that is kept
        instead) and ``lshdb_similarity``.

    Returns
    -------
    DataFrame
        All rows of one key are kept or dropped together.

    Raises
    ------
    ParameterError, TextNotStoredError
        Also if the data frame is marked already.
    """
    check_keep(keep)
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    stages = Stages(asked, value=field_name(keep), at_once=True)
    return Answers.of(stages).deduplicate(keep=keep, mark=mark)


def neighbors(
    df: DataFrame,
    *,
    top: int = 10,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the most similar documents of every document, of those at the threshold.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    top : int
        Most neighbours of a document.

    Returns
    -------
    DataFrame
        ``key``, ``rank`` (from 1), ``neighbor``, ``similarity``, ``method``. Among equally similar
        documents the oldest come first.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    return Answers.of(Stages(asked)).neighbors(top=top)


def rejected(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the rows that are no documents: ``key`` and ``reason``.

    Parameters are as for :func:`pairs`. The rows are signed for it.

    Raises
    ------
    ParameterError
    """
    asked = Question(df, key, text, order, None, None, tokenizer, parameters)
    return Answers.of(Stages(asked)).rejected()


def large_buckets(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the buckets that are joined through leaders: ``bucket`` and ``size``.

    Not every pair in them is compared. Empty if none has more than ``max_bucket`` signatures.

    Parameters are as for :func:`pairs`.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    return Answers.of(Stages(asked)).large_buckets()


def loss(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> Loss:
    """Estimate which share of the near-duplicate pairs ``max_bucket`` hides from :func:`pairs`.

    Some 40,000 pairs of members of large buckets are drawn and compared. Computed at once.

    Parameters are as for :func:`pairs`.

    Returns
    -------
    Loss
        Of pairs of documents: ``share``, between ``low`` and ``high`` with a confidence of 99 %.
        All are 0 if no bucket and no group of copies has more than ``max_bucket``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    return Answers.of(Stages(asked, at_once=True)).loss()
