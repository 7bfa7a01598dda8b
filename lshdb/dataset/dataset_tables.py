"""The tables of a dataset and their columns.

Each table is a Delta table in a folder of its name; ``docs/format-spark.md`` describes them. Most
have the columns of an export (``exchange/tables.py``). The others are signatures, postings,
rejected rows, and commits, whose newest row names the version of every other table.
"""

from __future__ import annotations

from typing import Any

from lshdb.errors import LshdbError, install_command
from lshdb.exchange.tables import Table, table_of, tables_of

__all__ = [
    "COMMITS",
    "FILE_POSTINGS",
    "FORMAT",
    "NAMES",
    "arrow_schema",
    "dataset_tables",
    "load_delta",
]

FORMAT = 2
"""The format number of datasets; docs/format-spark.md describes it."""
FILE_POSTINGS = 2**22
"""Postings of a file: 20 MB, and some 200 MB while a task of Spark sorts them."""
COMMITS = "commits"
"""The table whose commit commits the whole dataset."""
NAMES = (
    "documents", "batches", "releases", "edges", "clusters", "fields", "nights", "cursors",
    "signatures", "postings", "rejected",
)  # fmt: skip
"""The other tables."""
_OWN_TABLES = {
    table.name: table
    for table in (
        table_of("signatures", signature_id="integer", row="binary", vector="binary"),
        table_of("postings", bucket_key="integer", signature_id="integer", segment="integer"),
        table_of("rejected", batch_id="integer", key="text", source="text", reason="text"),
        table_of(
            COMMITS,
            commit_id="integer", format="integer", committed_at="text", operation="text",
            index="text", parameters="text", edges="text", counts="text",
            **{f"{table}_version": "integer" for table in NAMES},
        ),
    )
}  # fmt: skip
"""The tables that no export has."""


def load_delta() -> Any:
    """Import deltalake.

    Raises
    ------
    LshdbError
        deltalake or pyarrow cannot be loaded.
    """
    try:
        import deltalake
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise LshdbError(
            f"datasets need deltalake and pyarrow, which cannot be loaded: {error}",
            hint=install_command("spark"),
        ) from error
    return deltalake


def dataset_tables(metric: object) -> dict[str, Table]:
    """Return the tables that an export also has, by name."""
    return tables_of(metric, has_more=True)


def arrow_schema(name: str, metric: object = "") -> Any:
    """Return the columns of a table as an Arrow schema.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or :data:`COMMITS`.
    metric : str
        The metric of the index; ``documents`` has a further column for weights.
    """
    import pyarrow as arrow

    table = _OWN_TABLES.get(name) or dataset_tables(metric)[name]
    return arrow.schema([field.with_nullable(True) for field in table.arrow_schema(arrow)])
