"""The SQL tables of an index, as SQLAlchemy metadata; ``docs/format.md`` explains each column.

The migrations make these tables; a test holds the two against each other. The posting runs are
tables too, made and dropped as the index grows (``runs.py``), so they are not listed here but in
the table
``run``. Importing this module imports SQLAlchemy: only what writes does.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

__all__ = ["RUN_TABLE_PREFIX", "metadata"]

RUN_TABLE_PREFIX = "posting_run_"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

state = Table(
    "state",
    metadata,
    Column("state_id", Integer, CheckConstraint("state_id = 1", name="single"), primary_key=True),
    Column("format", Integer, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("library_version", Text, nullable=False),
    Column("unicode_version", Text, nullable=False),
    Column("signature_file", Text, nullable=False),
    Column("n_signatures", Integer, nullable=False),
    Column("next_doc_id", Integer, nullable=False),
    Column("next_run_id", Integer, nullable=False),
    Column("checksum", Integer, nullable=False, server_default=text("0")),
)

parameter = Table(
    "parameter",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

batch = Table(
    "batch",
    metadata,
    Column("batch_id", Integer, primary_key=True),
    Column("add_id", Integer, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("n_added", Integer, nullable=False),
    Column("n_replaced", Integer, nullable=False),
    Column("n_unchanged", Integer, nullable=False),
    Column("n_copies", Integer, nullable=False),
    Column("n_rejected", Integer, nullable=False),
    Column("n_removed", Integer, nullable=False, server_default=text("0")),
    Column("unicode_version", Text, nullable=False, server_default=text("''")),
    Column("checksum", Integer, nullable=False, server_default=text("0")),
)

document = Table(
    "document",
    metadata,
    Column("doc_id", Integer, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("signature_id", Integer),
    Column("content_hash", LargeBinary(16), nullable=False),
    Column("body_hash", LargeBinary(16), nullable=False),
    Column("n_shingles", Integer, nullable=False),
    Column("n_chars", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("batch_id", Integer, ForeignKey("batch.batch_id"), nullable=False),
    Column("added_at", Text, nullable=False),
    Column("last_seen_at", Text, nullable=False),
    Column("n_unassigned", Integer),
    Column("checksum", Integer, nullable=False, server_default=text("0")),
    Index(None, "signature_id"),
    Index(None, "batch_id"),
)

content = Table(
    "content",
    metadata,
    Column("doc_id", Integer, ForeignKey("document.doc_id"), primary_key=True),
    Column(
        "form", Text, CheckConstraint("form IN ('text', 'tokens')", name="form"), nullable=False
    ),
    Column("body", LargeBinary, nullable=False),
)

signature_block = Table(
    "signature_block",
    metadata,
    Column("first_row", Integer, primary_key=True),
    Column("n_rows", Integer, nullable=False),
    Column("crc32", Integer, nullable=False),
)

run = Table(
    "run",
    metadata,
    Column("run_id", Integer, primary_key=True),
    Column("table_name", Text, nullable=False, unique=True),
    Column("level", Integer, nullable=False),
    Column("n_rows", Integer, nullable=False),
    Column("is_active", Boolean(create_constraint=False), nullable=False),
)

bucket_stat = Table(
    "bucket_stat",
    metadata,
    Column("run_id", Integer, ForeignKey("run.run_id"), primary_key=True),
    Column("band", Integer, primary_key=True),
    Column("size", Integer, primary_key=True),
    Column("n_buckets", Integer, nullable=False),
    sqlite_with_rowid=False,
)

signature_release = Table(
    "signature_release",
    metadata,
    Column("release_id", Integer, primary_key=True),
    Column("signature_id", Integer, nullable=False),
    Column("batch_id", Integer, nullable=False),
    Index(None, "signature_id"),
)

edge = Table(
    "edge",
    metadata,
    Column("signature1", Integer, primary_key=True),
    Column("signature2", Integer, primary_key=True),
    Column("similarity", Float, nullable=False),
    Column("method", Text, nullable=False),
    Column("checksum", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("signature1 < signature2", name="order"),
    Index(None, "signature2"),
    sqlite_with_rowid=False,
)

edge_state = Table(
    "edge_state",
    metadata,
    Column(
        "edge_state_id",
        Integer,
        CheckConstraint("edge_state_id = 1", name="single"),
        primary_key=True,
    ),
    Column("threshold", Float, nullable=False),
    Column("method", Text, nullable=False),
    Column("max_bucket", Integer, nullable=False),
    Column("n_signatures", Integer, nullable=False),
    Column("batch_id", Integer, nullable=False),
    Column("release_id", Integer, nullable=False),
    Column("hot_buckets", Integer, nullable=False),
    Column("hot_pairs", Integer, nullable=False),
    Column("recall_lost", Float, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("checksum", Integer, nullable=False, server_default=text("0")),
)

cluster_member = Table(
    "cluster_member",
    metadata,
    Column("signature_id", Integer, primary_key=True),
    Column("label", Integer, nullable=False),
    Index(None, "label"),
)
