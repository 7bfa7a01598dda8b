"""The first schema: documents, texts, batches, signature blocks, posting runs and views."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "state",
        sa.Column("state_id", Whole, nullable=False, autoincrement=False),
        sa.Column("format", Whole, nullable=False),
        sa.Column("uuid", Words, nullable=False),
        sa.Column("created_at", Words, nullable=False),
        sa.Column("library_version", Words, nullable=False),
        sa.Column("unicode_version", Words, nullable=False),
        sa.Column("signature_file", Words, nullable=False),
        sa.Column("n_signatures", Whole, nullable=False),
        sa.Column("next_doc_id", Whole, nullable=False),
        sa.Column("next_run_id", Whole, nullable=False),
        sa.PrimaryKeyConstraint("state_id", name="pk_state"),
        sa.CheckConstraint("state_id = 1", name="ck_state_single"),
    )
    op.create_table(
        "parameter",
        sa.Column("name", Words, nullable=False),
        sa.Column("value", Words, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_parameter"),
    )
    op.create_table(
        "batch",
        sa.Column("batch_id", Whole, nullable=False, autoincrement=False),
        sa.Column("add_id", Whole, nullable=False),
        sa.Column("started_at", Words, nullable=False),
        sa.Column("finished_at", Words, nullable=False),
        sa.Column("source", Words, nullable=False),
        sa.Column("n_added", Whole, nullable=False),
        sa.Column("n_replaced", Whole, nullable=False),
        sa.Column("n_unchanged", Whole, nullable=False),
        sa.Column("n_copies", Whole, nullable=False),
        sa.Column("n_rejected", Whole, nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name="pk_batch"),
    )
    op.create_table(
        "document",
        sa.Column("doc_id", Whole, nullable=False, autoincrement=False),
        sa.Column("key", Words, nullable=False),
        sa.Column("signature_id", Whole),
        sa.Column("content_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("n_shingles", Whole, nullable=False),
        sa.Column("n_chars", Whole, nullable=False),
        sa.Column("source", Words, nullable=False),
        sa.Column("batch_id", Whole, nullable=False, autoincrement=False),
        sa.Column("added_at", Words, nullable=False),
        sa.Column("last_seen_at", Words, nullable=False),
        sa.PrimaryKeyConstraint("doc_id", name="pk_document"),
        sa.UniqueConstraint("key", name="uq_document_key"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batch.batch_id"], name="fk_document_batch_id_batch"
        ).ddl_if(dialect="sqlite"),
    )
    op.create_index("ix_document_signature_id", "document", ["signature_id"])
    op.create_index("ix_document_batch_id", "document", ["batch_id"])
    op.create_table(
        "content",
        sa.Column("doc_id", Whole, nullable=False, autoincrement=False),
        sa.Column("form", Words, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("doc_id", name="pk_content"),
        sa.ForeignKeyConstraint(
            ["doc_id"], ["document.doc_id"], name="fk_content_doc_id_document"
        ).ddl_if(dialect="sqlite"),
        sa.CheckConstraint("form IN ('text', 'tokens')", name="ck_content_form"),
    )
    op.create_table(
        "signature_block",
        sa.Column("first_row", Whole, nullable=False, autoincrement=False),
        sa.Column("n_rows", Whole, nullable=False),
        sa.Column("crc32", Whole, nullable=False),
        sa.PrimaryKeyConstraint("first_row", name="pk_signature_block"),
    )
    op.create_table(
        "run",
        sa.Column("run_id", Whole, nullable=False, autoincrement=False),
        sa.Column("table_name", Words, nullable=False),
        sa.Column("level", Whole, nullable=False),
        sa.Column("n_rows", Whole, nullable=False),
        sa.Column("is_active", sa.Boolean(create_constraint=False), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run"),
        sa.UniqueConstraint("table_name", name="uq_run_table_name"),
    )
    if op.get_context().dialect.name == "postgresql":
        _make_partitions()
    else:
        op.execute(
            "CREATE VIEW posting AS "
            "SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id WHERE 0"
        )
    op.execute(
        "CREATE VIEW bucket AS SELECT bucket_key >> 32 AS band, "
        "bucket_key & 4294967295 AS bucket, bucket_key, count(*) AS size "
        "FROM posting GROUP BY bucket_key"
    )
    op.execute(
        "CREATE VIEW new_document AS "
        "SELECT * FROM document WHERE batch_id >= (SELECT max(add_id) FROM batch)"
    )
    op.execute(
        "CREATE VIEW document_bucket AS "
        "SELECT document.key, document.doc_id, document.signature_id, document.batch_id, "
        "posting.band, posting.bucket, posting.bucket_key "
        "FROM document JOIN posting ON posting.signature_id = document.signature_id"
    )


def _make_partitions() -> None:
    """Create the postings on Postgres: runs are partitions, and only those in ``run`` count."""
    op.create_table(
        "stored_posting",
        sa.Column("run_id", Whole, nullable=False),
        sa.Column("bucket_key", Whole, nullable=False),
        sa.Column("signature_id", Whole, nullable=False),
        postgresql_partition_by="LIST (run_id)",
    )
    op.create_table(
        "retired_run",
        sa.Column("table_name", Words, nullable=False),
        sa.Column("seen_by", Words),
        sa.PrimaryKeyConstraint("table_name", name="pk_retired_run"),
    )
    op.create_table(
        "commit_mark",
        sa.Column("mark", Words, nullable=False),
        sa.Column("made_at", Words, nullable=False),
        sa.PrimaryKeyConstraint("mark", name="pk_commit_mark"),
    )
    op.execute(
        "CREATE VIEW posting AS SELECT bucket_key >> 32 AS band, "
        "bucket_key & 4294967295 AS bucket, bucket_key, signature_id FROM stored_posting "
        "WHERE run_id = ANY(ARRAY(SELECT run_id FROM run)) "
        "AND bucket_key < 1095216660480"
    )
    # Texts are already compressed.
    op.execute("ALTER TABLE content ALTER body SET STORAGE EXTERNAL")


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
