"""Near-duplicates of the rows of a table in memory; :func:`lshdb.deduplicate` drops them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from lshdb.errors import AllRejectedError
from lshdb.groups.table_rows import TableRows
from lshdb.handle import tells
from lshdb.params.options import check_parameters
from lshdb.phases.phase import OnProgress
from lshdb.tokenizers import Tokenizer
from lshdb.transient.transient_index import TransientIndex

if TYPE_CHECKING:
    from lshdb.groups.listing import Clusters
    from lshdb.params.options import Parameters
    from lshdb.search.pairs import PairSearch

__all__ = ["clusters", "pairs"]


@tells
def pairs(
    table: Any,
    *,
    text: str | Sequence[str] = "text",
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> PairSearch:
    """Return all pairs of near-duplicate rows of a table in memory.

    The keys of a pair are the numbers of its rows, from 0, as strings. The pairs are those of an
    :class:`Index` with these parameters, in the same order. They are found as you iterate, and
    temporary files (in ``TMPDIR``) stay until the listing is gone. :class:`TransientIndex` takes
    keys, vectors and further options.

    Parameters
    ----------
    table, text, workers, tokenizer, on_progress, **parameters
        As for :func:`deduplicate`. Rows without a text have no pair. Neither have rows whose text
        an index refuses, with an :class:`LshdbWarning` that names the first one.

    Returns
    -------
    PairSearch

    Raises
    ------
    ParameterError, InputError
        As for :func:`deduplicate`.

    Examples
    --------
    >>> import lshdb
    >>> texts = ["the cat sat on the mat all day", "a dog", "the cat sat on the mat all day"]
    >>> [(pair.key1, pair.key2, pair.similarity) for pair in lshdb.pairs(texts)]
    [('0', '2', 1.0)]
    """
    check_parameters("pairs", parameters, "text", "workers", "tokenizer", "on_progress")
    return _filled(table, text, workers, tokenizer, parameters).pairs(workers=workers)


@tells
def clusters(
    table: Any,
    *,
    text: str | Sequence[str] = "text",
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_progress: OnProgress | None = None,
    **parameters: Unpack[Parameters],
) -> Clusters:
    """Return the groups of rows of a table in memory that near-duplicate pairs join.

    The keys of a cluster are the numbers of its rows, from 0, as strings. The clusters are those of
    an :class:`Index` with these parameters, in the same order.

    Parameters
    ----------
    table, text, workers, tokenizer, on_progress, **parameters
        As for :func:`pairs`.

    Returns
    -------
    Clusters

    Raises
    ------
    ParameterError, InputError
        As for :func:`deduplicate`.

    Examples
    --------
    >>> import lshdb
    >>> texts = ["the cat sat on the mat all day", "a dog", "the cat sat on the mat all day"]
    >>> [cluster.keys for cluster in lshdb.clusters(texts)]
    [('0', '2')]
    """
    check_parameters("clusters", parameters, "text", "workers", "tokenizer", "on_progress")
    index = _filled(table, text, workers, tokenizer, parameters)
    index.update_clusters(workers=workers)
    return index.clusters()


def _filled(
    table: Any,
    text: str | Sequence[str],
    workers: int | None,
    tokenizer: Tokenizer | str | None,
    parameters: Parameters,
) -> TransientIndex:
    """Return an index of the rows, which is gone when nothing refers to it."""
    rows = TableRows(table, text=text, keep="first", is_marked=False)
    index = TransientIndex.create(tokenizer=tokenizer, **parameters)
    try:
        result = index.add(rows.documents(), workers=workers)
    except AllRejectedError as error:  # then there is no pair
        result = error.result
    rows.tell_rejected(result, "not compared")
    return index
