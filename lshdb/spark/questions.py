"""What is asked of a data frame: pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from lshdb.arguments import Verify
from lshdb.params.options import CreateOptions, Parameters
from lshdb.search.verification import check_limits, choose_method
from lshdb.spark.comparison import verified
from lshdb.spark.expansion import expanded
from lshdb.spark.pairing import MAX_BUCKET, bucket_pairs, candidates, postings
from lshdb.spark.signing import Recipe, documents, signed
from lshdb.tokenizers import Tokenizer, given_tokenizer

__all__ = ["pairs"]

_KEPT = StorageLevel.MEMORY_AND_DISK


@dataclass(frozen=True, slots=True)
class _Stages:
    """The stages up to verified pairs of signatures, none of which has run yet.

    Attributes
    ----------
    signed : DataFrame
        Every row, signed or rejected.
    met : DataFrame
        Pairs of small buckets, and large buckets.
    edges : DataFrame
        Verified pairs of signatures.
    recipe : Recipe
    method : str
    max_bucket : int or None
    """

    signed: DataFrame
    met: DataFrame
    edges: DataFrame
    recipe: Recipe
    method: str
    max_bucket: int | None


def _stages(
    df: DataFrame,
    *,
    key: str,
    text: str | Sequence[str],
    order: str | None,
    verify: Verify | None,
    max_bucket: int | str | None,
    tokenizer: Tokenizer | str | None,
    parameters: Parameters,
) -> _Stages:
    """Put the stages together; those that are read several times are kept as they are computed."""
    given = given_tokenizer(tokenizer)
    recorded = "" if given is None else given.recorded
    params = CreateOptions(**parameters, tokenizer=recorded).params()
    check_limits(max_bucket)
    most = MAX_BUCKET if max_bucket is None else None if max_bucket == "none" else int(max_bucket)
    method = choose_method(verify, params)
    recipe = Recipe(params, given if isinstance(tokenizer, Tokenizer) else None)
    every = signed(df, recipe, key=key, body=text, order=order).persist(_KEPT)
    good = every.where("reason IS NULL")
    met = bucket_pairs(postings(good), max_bucket=most).persist(_KEPT)
    found = candidates(met, good, recipe, method=method, level=params.level).persist(_KEPT)
    edges = verified(found, good, recipe, method=method, level=params.level)
    return _Stages(every, met, edges, recipe, method, most)


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
        A document in each row. Rows that are no documents are left out.
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
        Nothing is computed before you use it. For a distance metric also ``distance``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    stages = _stages(
        df, key=key, text=text, order=order, verify=verify, max_bucket=max_bucket,
        tokenizer=tokenizer, parameters=parameters,
    )  # fmt: skip
    return expanded(
        stages.edges, documents(stages.signed), stages.recipe.params,
        method=stages.method, max_bucket=stages.max_bucket,
    )  # fmt: skip
