"""The first schema: documents, texts, batches, signature blocks, posting runs and views."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "state",
        sa.Column("state_id", sa.Integer, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("library_version", sa.Text, nullable=False),
        sa.Column("unicode_version", sa.Text, nullable=False),
        sa.Column("signature_file", sa.Text, nullable=False),
        sa.Column("n_signatures", sa.Integer, nullable=False),
        sa.Column("next_doc_id", sa.Integer, nullable=False),
        sa.Column("next_run_id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("state_id", name="pk_state"),
        sa.CheckConstraint("state_id = 1", name="ck_state_single"),
    )
    op.create_table(
        "parameter",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_parameter"),
    )
    op.create_table(
        "batch",
        sa.Column("batch_id", sa.Integer, nullable=False),
        sa.Column("add_id", sa.Integer, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("n_added", sa.Integer, nullable=False),
        sa.Column("n_replaced", sa.Integer, nullable=False),
        sa.Column("n_unchanged", sa.Integer, nullable=False),
        sa.Column("n_copies", sa.Integer, nullable=False),
        sa.Column("n_rejected", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name="pk_batch"),
    )
    op.create_table(
        "document",
        sa.Column("doc_id", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("signature_id", sa.Integer),
        sa.Column("content_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("n_shingles", sa.Integer, nullable=False),
        sa.Column("n_chars", sa.Integer, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("batch_id", sa.Integer, nullable=False),
        sa.Column("added_at", sa.Text, nullable=False),
        sa.Column("last_seen_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("doc_id", name="pk_document"),
        sa.UniqueConstraint("key", name="uq_document_key"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batch.batch_id"], name="fk_document_batch_id_batch"
        ),
    )
    op.create_index("ix_document_signature_id", "document", ["signature_id"])
    op.create_index("ix_document_batch_id", "document", ["batch_id"])
    op.create_table(
        "content",
        sa.Column("doc_id", sa.Integer, nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("doc_id", name="pk_content"),
        sa.ForeignKeyConstraint(["doc_id"], ["document.doc_id"], name="fk_content_doc_id_document"),
        sa.CheckConstraint("form IN ('text', 'tokens')", name="ck_content_form"),
    )
    op.create_table(
        "signature_block",
        sa.Column("first_row", sa.Integer, nullable=False),
        sa.Column("n_rows", sa.Integer, nullable=False),
        sa.Column("crc32", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("first_row", name="pk_signature_block"),
    )
    op.create_table(
        "run",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("n_rows", sa.Integer, nullable=False),
        sa.Column("is_active", sa.Boolean(create_constraint=False), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run"),
        sa.UniqueConstraint("table_name", name="uq_run_table_name"),
    )
    op.execute(
        "CREATE VIEW posting AS "
        "SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id WHERE 0"
    )
    op.execute(
        "CREATE VIEW bucket AS SELECT bucket_key >> 56 & 255 AS band, "
        "bucket_key & 72057594037927935 AS bucket, bucket_key, count(*) AS size "
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


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
