"""The tables of a dataset: their columns, and in which files their rows lie.

A table is a Delta table in the folder of its name. ``docs/format-spark.md`` describes them. Most
have the columns of an export (``exchange/tables.py``). Besides, there are signatures, postings,
rejected rows, and commits, whose newest row says at which version the others are to be read.
"""

from __future__ import annotations

from typing import Any

from lshdb.errors import LshdbError
from lshdb.exchange.tables import Table, tables_of
from lshdb.params.bucket_layout import KEY_BITS

__all__ = [
    "COMMITS",
    "FORMAT",
    "NAMES",
    "RANGE",
    "arrow_schema",
    "dataset_tables",
    "load_delta",
    "posting_shift",
]

FORMAT = 1
"""The format number of datasets; docs/format-spark.md describes it."""
COMMITS = "commits"
"""The table whose commit is the commit of all."""
NAMES = (
    "documents", "batches", "releases", "edges", "clusters", "fields", "nights", "cursors",
    "signatures", "postings", "rejected",
)  # fmt: skip
"""The other tables."""
RANGE = "bucket_range"
"""The column by which postings are partitioned."""
_MOST_IN_A_RANGE = 2**20
_MOST_BITS = 20


def load_delta() -> Any:
    """Import deltalake.

    Raises
    ------
    LshdbError
        It, or pyarrow, cannot be loaded.
    """
    try:
        import deltalake
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise LshdbError(
            f"datasets need deltalake and pyarrow, which cannot be loaded: {error}",
            hint="pip install 'lshdb[spark]'",
        ) from error
    return deltalake


def dataset_tables(metric: object) -> dict[str, Table]:
    """Return the tables whose rows an export has, by name."""
    return tables_of(metric, has_more=True)


def arrow_schema(name: str, metric: object = "") -> Any:
    """Return the columns of a table as an Arrow schema, partition columns last.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or :data:`COMMITS`.
    metric : str
        Of the index; one of weights has a column more in ``documents``.
    """
    import pyarrow as arrow

    if name == "signatures":
        columns = {
            "signature_id": arrow.int64(), "row": arrow.binary(), "vector": arrow.binary()
        }  # fmt: skip
    elif name == "postings":
        columns = {
            "bucket_key": arrow.int64(), "signature_id": arrow.int64(), RANGE: arrow.int32()
        }  # fmt: skip
    elif name == "rejected":
        columns = {
            "batch_id": arrow.int64(), "key": arrow.string(), "source": arrow.string(),
            "reason": arrow.string(),
        }  # fmt: skip
    elif name == COMMITS:
        texts = ("committed_at", "operation", "index", "parameters", "edges", "counts")
        columns = {"commit_id": arrow.int64(), "format": arrow.int64()}
        columns |= dict.fromkeys(texts, arrow.string())
        columns |= {"posting_shift": arrow.int64()}
        columns |= {f"{one}_version": arrow.int64() for one in NAMES}
    else:
        types = {
            "integer": arrow.int64(), "number": arrow.float64(), "text": arrow.string(),
            "hash": arrow.string(), "tokens": arrow.list_(arrow.string()),
        }  # fmt: skip
        table = dataset_tables(metric)[name]
        columns = {column.name: types[column.kind] for column in table.columns}
    return arrow.schema(list(columns.items()))


def posting_shift(n_signatures: int) -> int:
    """Return by how many bits a bucket key is shifted to give its range.

    A range has some million postings at most, if buckets are spread as those of random contents:
    one range holds 2^shift bucket keys, and a band has 2^32. Between 2 and 2^20 ranges.
    """
    bits = max(n_signatures * 2**8 // _MOST_IN_A_RANGE, 1).bit_length()
    return KEY_BITS - min(bits, _MOST_BITS)
