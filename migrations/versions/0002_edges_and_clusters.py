"""Verified edges, clusters, bucket sizes and removals."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column(
        "batch", sa.Column("n_removed", Whole, nullable=False, server_default=sa.text("0"))
    )
    op.create_table(
        "signature_release",
        sa.Column("release_id", Whole, nullable=False, autoincrement=False),
        sa.Column("signature_id", Whole, nullable=False),
        sa.Column("batch_id", Whole, nullable=False),
        sa.PrimaryKeyConstraint("release_id", name="pk_signature_release"),
    )
    op.create_index("ix_signature_release_signature_id", "signature_release", ["signature_id"])
    op.create_table(
        "bucket_stat",
        sa.Column("run_id", Whole, nullable=False),
        sa.Column("band", Whole, nullable=False),
        sa.Column("size", Whole, nullable=False),
        sa.Column("n_buckets", Whole, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "band", "size", name="pk_bucket_stat"),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_bucket_stat_run_id_run"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "edge",
        sa.Column("signature1", Whole, nullable=False),
        sa.Column("signature2", Whole, nullable=False),
        sa.Column("similarity", sa.Float, nullable=False),
        sa.Column("method", Words, nullable=False),
        sa.PrimaryKeyConstraint("signature1", "signature2", name="pk_edge"),
        sa.CheckConstraint("signature1 < signature2", name="ck_edge_order"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_edge_signature2", "edge", ["signature2"])
    op.create_table(
        "edge_state",
        sa.Column("edge_state_id", Whole, nullable=False, autoincrement=False),
        sa.Column("threshold", sa.Float, nullable=False),
        sa.Column("method", Words, nullable=False),
        sa.Column("max_bucket", Whole, nullable=False),
        sa.Column("n_signatures", Whole, nullable=False),
        sa.Column("batch_id", Whole, nullable=False),
        sa.Column("release_id", Whole, nullable=False, autoincrement=False),
        sa.Column("hot_buckets", Whole, nullable=False),
        sa.Column("hot_pairs", Whole, nullable=False),
        sa.Column("recall_lost", sa.Float, nullable=False),
        sa.Column("updated_at", Words, nullable=False),
        sa.PrimaryKeyConstraint("edge_state_id", name="pk_edge_state"),
        sa.CheckConstraint("edge_state_id = 1", name="ck_edge_state_single"),
    )
    op.create_table(
        "cluster_member",
        sa.Column("signature_id", Whole, nullable=False, autoincrement=False),
        sa.Column("label", Whole, nullable=False),
        sa.PrimaryKeyConstraint("signature_id", name="pk_cluster_member"),
    )
    op.create_index("ix_cluster_member_label", "cluster_member", ["label"])
    _fill()
    op.execute("DROP VIEW new_document")
    for name, definition in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {definition}")


VIEWS = {
    "new_document": (
        "SELECT * FROM document "
        "WHERE batch_id >= (SELECT max(add_id) FROM batch WHERE n_removed = 0)"
    ),
    "bucket_size": (
        "SELECT band, size, sum(n_buckets) AS n_buckets FROM bucket_stat GROUP BY band, size"
    ),
    "cluster": (
        "SELECT labelled.key AS label, document.key, document.doc_id, document.signature_id "
        "FROM cluster_member "
        "JOIN document ON document.signature_id = cluster_member.signature_id "
        "JOIN document AS labelled ON labelled.doc_id = cluster_member.label"
    ),
    "neighbor": (
        "SELECT document.key, other.key AS neighbor, edge.similarity, edge.method FROM document "
        "JOIN edge ON edge.signature1 = document.signature_id "
        "JOIN document AS other ON other.signature_id = edge.signature2 "
        "UNION ALL "
        "SELECT document.key, other.key AS neighbor, edge.similarity, edge.method FROM document "
        "JOIN edge ON edge.signature2 = document.signature_id "
        "JOIN document AS other ON other.signature_id = edge.signature1 "
        "UNION ALL "
        "SELECT document.key, other.key AS neighbor, 1.0 AS similarity, 'exact' AS method "
        "FROM document JOIN document AS other ON other.signature_id = document.signature_id "
        "AND other.doc_id <> document.doc_id"
    ),
}


def _fill() -> None:
    """Fill the new tables from the contents of an index of the first schema."""
    connection = op.get_bind()
    tables = connection.exec_driver_sql("SELECT run_id, table_name FROM run").fetchall()
    for run_id, table in tables:
        op.execute(
            "INSERT INTO bucket_stat (run_id, band, size, n_buckets) "
            f"SELECT {run_id}, band, size, count(*) FROM ("
            f"SELECT bucket_key >> 32 AS band, count(*) AS size FROM {table} "
            "WHERE bucket_key < 1095216660480 GROUP BY bucket_key"
            ") AS bucket GROUP BY band, size"
        )
    op.execute(
        "INSERT INTO signature_release (release_id, signature_id, batch_id) "
        "WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number "
        "WHERE n + 1 < (SELECT n_signatures FROM state)) "
        "SELECT row_number() OVER (ORDER BY n), n, (SELECT max(batch_id) FROM batch) FROM number "
        "WHERE n < (SELECT n_signatures FROM state) AND NOT EXISTS "
        "(SELECT 1 FROM document WHERE signature_id = n) ORDER BY n"
    )


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
