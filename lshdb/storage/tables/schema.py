"""The SQL tables of an index, as SQLAlchemy metadata; ``docs/format.md`` explains each column.

The migrations make these tables; a test compares the two. The table ``band`` is not among them: its
columns depend on the index (``band_schema.py``). Importing this module imports SQLAlchemy, so only
writing code does.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Constraint,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

from lshdb.storage.tables.stored_columns import TIMES_OF_BATCH, stored_columns

__all__ = ["NAMES", "Whole", "metadata"]

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMES)

Whole = BigInteger().with_variant(Integer(), "sqlite")
"""Whole numbers of up to 64 bits. SQLite stores any INTEGER so, and only an INTEGER PRIMARY KEY is
the number of the row itself."""
Words = Text().with_variant(Text(collation="C"), "postgresql")
"""Texts, in the order of their UTF-8 bytes on either database."""


def _reference(column: str, target: str) -> Constraint:
    """Return a foreign key of a table with a row for each document; only for SQLite.

    Postgres looks each of them up by itself, 8 us a row: a quarter of the time of an add. ``check``
    finds what it would refuse.
    """
    return ForeignKeyConstraint([column], [target], info={"dialect": "sqlite"}).ddl_if(
        dialect="sqlite"
    )


_TYPES: dict[str, Any] = {"int": Whole, "float": Float, "str": Words, "bytes": LargeBinary(16)}


def _stored(
    name: str,
    *items: SchemaItem,
    n_keys: int = 1,
    has_checksum: bool = True,
    derived: tuple[str, ...] = (),
    **options: Any,
) -> Table:
    """Return a table of :func:`stored_columns`, whose first columns are its key.

    NULL in a column of ``derived`` means a value from another table.
    """
    columns = [
        Column(
            column.name,
            _TYPES[column.type],
            primary_key=number < n_keys,
            autoincrement=False,
            nullable=column.is_optional or column.name in derived,
        )
        for number, column in enumerate(stored_columns(name))
    ]
    if has_checksum:
        columns.append(Column("checksum", Whole, nullable=False, server_default=text("0")))
    return Table(name, metadata, *columns, *items, **options)


state = Table(
    "state",
    metadata,
    Column(
        "state_id",
        Whole,
        CheckConstraint("state_id = 1", name="single"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("format", Whole, nullable=False),
    Column("uuid", Words, nullable=False),
    Column("created_at", Words, nullable=False),
    Column("library_version", Words, nullable=False),
    Column("unicode_version", Words, nullable=False),
    Column("signature_file", Words, nullable=False),
    Column("n_signatures", Whole, nullable=False),
    Column("next_doc_id", Whole, nullable=False),
    Column("is_distance", Whole, nullable=False),
    Column("index_bands", Whole, nullable=False),
    Column("checksum", Whole, nullable=False, server_default=text("0")),
)

parameter = Table(
    "parameter",
    metadata,
    Column("name", Words, primary_key=True),
    Column("value", Words, nullable=False),
)

batch = _stored("batch")

unfinished_add = Table(
    "unfinished_add",
    metadata,
    Column("add_id", Whole, ForeignKey("batch.batch_id"), primary_key=True, autoincrement=False),
)

night = _stored("night", ForeignKeyConstraint(["add_id"], ["batch.batch_id"]))

cursor = _stored("cursor")

document = _stored(
    "document",
    UniqueConstraint("key"),
    Index(None, "signature_id"),
    Index(None, "batch_id"),
    _reference("batch_id", "batch.batch_id"),
    derived=TIMES_OF_BATCH,
)

content = Table(
    "content",
    metadata,
    Column("doc_id", Whole, primary_key=True, autoincrement=False),
    Column(
        "form", Words, CheckConstraint("form IN ('text', 'tokens')", name="form"), nullable=False
    ),
    Column("body", LargeBinary, nullable=False),
    _reference("doc_id", "document.doc_id"),
)

text_dictionary = Table(
    "text_dictionary",
    metadata,
    Column(
        "dictionary_id",
        Whole,
        CheckConstraint("dictionary_id = 1", name="single"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("hash", LargeBinary(16), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""What zstd compresses the texts of the index with; trained on the first of them."""

kept_field = _stored("kept_field", _reference("doc_id", "document.doc_id"))

signature_block = Table(
    "signature_block",
    metadata,
    Column("first_row", Whole, primary_key=True, autoincrement=False),
    Column("n_rows", Whole, nullable=False),
    Column("crc32", Whole, nullable=False),
    Column("vector_crc32", Whole),
)

segment = Table(
    "segment",
    metadata,
    Column("n_signatures", Whole, primary_key=True, autoincrement=False),
    Column("number", Whole, nullable=False),
)

signature_release = _stored("signature_release", Index(None, "signature_id"), has_checksum=False)

edge = _stored(
    "edge",
    CheckConstraint("signature1 < signature2", name="order"),
    Index(None, "signature2"),
    n_keys=2,
    sqlite_with_rowid=False,
)

edge_state = Table(
    "edge_state",
    metadata,
    Column(
        "edge_state_id",
        Whole,
        CheckConstraint("edge_state_id = 1", name="single"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("threshold", Float, nullable=False),
    Column("method", Words, nullable=False),
    Column("max_bucket", Whole, nullable=False),
    Column("n_signatures", Whole, nullable=False),
    Column("batch_id", Whole, nullable=False),
    Column("release_id", Whole, nullable=False),
    Column("hot_buckets", Whole, nullable=False),
    Column("hot_pairs", Whole, nullable=False),
    Column("recall_lost", Float, nullable=False),
    Column("updated_at", Words, nullable=False),
    Column("checksum", Whole, nullable=False, server_default=text("0")),
)

cluster_member = _stored("cluster_member", Index(None, "label"), has_checksum=False)


# What Postgres needs besides (``dialects/postgresql/``); SQLite has none of it.
_OF_POSTGRES = {"dialect": "postgresql"}

commit_mark = Table(
    "commit_mark",
    metadata,
    Column("mark", Words, primary_key=True),
    Column("made_at", Words, nullable=False),
    info=_OF_POSTGRES,
)
