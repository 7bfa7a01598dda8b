"""The table ``band`` and the views over it, as SQLAlchemy makes them from the bands of an index.

    posting           (band, bucket, signature_id)       one arm a band
    bucket            (band, bucket, size)               GROUP BY in each band
    bucket_size       (band, size, n_buckets)
    document_bucket   (key, doc_id, signature_id, batch_id, band, bucket)

No migration names them, because their columns depend on the index. ``trust.py`` writes the same
statements as text; a test compares. Importing this module imports SQLAlchemy, so only writing code
does.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    cast,
    func,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.schema import CreateIndex, CreateView, DropIndex, DropView

from lshdb.storage.tables.schema import NAMES, Whole
from lshdb.storage.tables.stored_columns import (
    BAND_TABLE,
    band_columns,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["band_table", "drop_bands", "index_bands", "make_bands", "make_views"]

_VIEWS = ("posting", "bucket", "bucket_size", "document_bucket")


def band_table(bands: int) -> Table:
    """Return the table ``band`` with this number of bands."""
    columns = [Column(name, Integer) for name in band_columns(bands)]
    key = Column("signature_id", Whole, primary_key=True, autoincrement=False)
    return Table(BAND_TABLE, MetaData(naming_convention=NAMES), key, *columns)


def _views(bands: int) -> dict[str, Any]:
    """Return the views by name, each over tables and those before it."""
    table = text(BAND_TABLE)
    columns: list[tuple[ColumnElement[Any], ColumnElement[Any]]] = [
        (cast(literal_column(str(band)), Integer).label("band"), literal_column(name))
        for band, name in enumerate(band_columns(bands))
    ]
    arms = (
        select(number, column.label("bucket"), literal_column("signature_id")).select_from(table)
        for number, column in columns
    )
    groups = (
        select(number, column.label("bucket"), func.count().label("size"))
        .select_from(table)
        .group_by(column)
        for number, column in columns
    )
    sizes: Select[*tuple[Any, ...]] = select(
        literal_column("band"), literal_column("size"), func.count().label("n_buckets")
    ).select_from(text("bucket"))
    of_document = ("key", "doc_id", "signature_id", "batch_id")
    documents: Select[*tuple[Any, ...]] = select(
        *(literal_column(f"document.{name}") for name in of_document),
        *(literal_column(f"posting.{name}") for name in ("band", "bucket")),
    ).select_from(text("document JOIN posting ON posting.signature_id = document.signature_id"))
    return {
        "posting": union_all(*arms),
        "bucket": union_all(*groups),
        "bucket_size": sizes.group_by(literal_column("band"), literal_column("size")),
        "document_bucket": documents,
    }


def make_bands(connection: Connection, bands: int) -> None:
    """Make the table and its views."""
    band_table(bands).create(connection)
    make_views(connection, bands)


def make_views(connection: Connection, bands: int, *, or_replace: bool = False) -> None:
    """Make the views, or replace them by those of another number of bands."""
    for name, selection in _views(bands).items():
        connection.execute(CreateView(selection, name, or_replace=or_replace))


def drop_bands(connection: Connection) -> None:
    """Drop the table and its views."""
    for name in reversed(_VIEWS):
        connection.execute(DropView(Table(name, MetaData()), if_exists=True))
    Table(BAND_TABLE, MetaData()).drop(connection)


def index_bands(
    connection: Connection, bands: int, *, indexed: Container[str], is_wanted: bool = True
) -> None:
    """Make an index on each column that has none, or drop all of them."""
    table = band_table(bands)
    change = CreateIndex if is_wanted else DropIndex
    for name in band_columns(bands):
        if (name in indexed) is not is_wanted:
            connection.execute(change(Index(None, table.c[name])))
