"""Cursors, nights, kept fields; views with distances, with types, and without BLOBs."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

LAST_ADD = (
    "SELECT max(add_id) FROM batch WHERE n_removed = 0 AND (n_added > 0 OR n_replaced > 0 OR "
    "(SELECT min(own.batch_id) FROM document AS own WHERE own.batch_id >= batch.batch_id) "
    "= batch.batch_id)"
)
FIRST_OF_NIGHT = (
    "SELECT coalesce((SELECT min(other.add_id) FROM night JOIN night AS other "
    "ON other.name = night.name WHERE night.add_id = changed.add_id), changed.add_id) "
    f"FROM ({LAST_ADD.replace('max(add_id)', 'max(add_id) AS add_id')}) AS changed"
)
DISTANCE = (
    "CASE WHEN (SELECT value FROM parameter WHERE name = 'metric') "
    "IN ('\"hamming\"', '\"l1\"', '\"l2\"') THEN 0.0 - edge.similarity END AS distance"
)
EDGES = (
    "SELECT document.key, other.key AS neighbor, edge.similarity, edge.method, {distance} "
    "FROM document JOIN edge ON edge.{one} = document.signature_id "
    "JOIN document AS other ON other.signature_id = edge.{other}"
)
COPIES = (
    "SELECT document.key, other.key AS neighbor, (SELECT CASE "
    "WHEN value IN ('\"hamming\"', '\"l1\"', '\"l2\"') THEN 0.0 ELSE 1.0 END "
    "FROM parameter WHERE name = 'metric') AS similarity, 'exact' AS method, (SELECT CASE "
    "WHEN value IN ('\"hamming\"', '\"l1\"', '\"l2\"') THEN 0.0 END "
    "FROM parameter WHERE name = 'metric') AS distance "
    "FROM document JOIN document AS other ON other.signature_id = document.signature_id "
    "AND other.doc_id <> document.doc_id"
)
DOCUMENT = (
    "document.doc_id, document.key, document.signature_id, {content_hash} AS content_hash, "
    "{body_hash} AS body_hash, document.n_shingles, document.n_chars, document.source, "
    "document.batch_id, document.added_at, document.last_seen_at, document.n_unassigned"
)


def upgrade() -> None:
    is_sqlite = op.get_context().dialect.name == "sqlite"
    _make_tables(is_sqlite)
    for view in ("new_document", "neighbor"):
        op.execute(f"DROP VIEW {view}")
    if is_sqlite:
        _type_postings()
    form = "lower(hex(document.{}))" if is_sqlite else "encode(document.{}, 'hex')"
    columns = DOCUMENT.format(
        content_hash=form.format("content_hash"), body_hash=form.format("body_hash")
    )
    both_ways = (("signature1", "signature2"), ("signature2", "signature1"))
    edges = [EDGES.format(one=one, other=other, distance=DISTANCE) for one, other in both_ways]
    each = (
        "json_each(kept_field.fields) AS field"
        if is_sqlite
        else "json_each_text(kept_field.fields::json) AS field"
    )
    views = {
        "new_document": f"SELECT {columns} FROM document WHERE batch_id >= ({FIRST_OF_NIGHT})",
        "cursor_document": (
            f'SELECT "cursor".name AS cursor_name, {columns} FROM "cursor" '
            'JOIN document ON document.batch_id > "cursor".batch_id'
        ),
        "document_field": (
            "SELECT document.key, document.doc_id, field.key AS name, field.value FROM kept_field "
            f"JOIN document ON document.doc_id = kept_field.doc_id CROSS JOIN {each}"
        ),
        "neighbor": " UNION ALL ".join([*edges, COPIES]),
    }
    for name, definition in views.items():
        op.execute(f"CREATE VIEW {name} AS {definition}")


def _make_tables(is_sqlite: bool) -> None:
    op.create_table(
        "cursor",
        sa.Column("name", Words, nullable=False),
        sa.Column("batch_id", Whole, nullable=False),
        sa.Column("advanced_at", Words, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("name", name="pk_cursor"),
    )
    op.create_table(
        "night",
        sa.Column("add_id", Whole, nullable=False, autoincrement=False),
        sa.Column("name", Words, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("add_id", name="pk_night"),
        sa.ForeignKeyConstraint(["add_id"], ["batch.batch_id"], name="fk_night_add_id_batch"),
    )
    reference = sa.ForeignKeyConstraint(
        ["doc_id"], ["document.doc_id"], name="fk_kept_field_doc_id_document"
    )
    op.create_table(
        "kept_field",
        sa.Column("doc_id", Whole, nullable=False, autoincrement=False),
        sa.Column("fields", Words, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("doc_id", name="pk_kept_field"),
        *([reference] if is_sqlite else []),
    )


def _checksum() -> "sa.Column[int]":
    return sa.Column("checksum", Whole, nullable=False, server_default=sa.text("0"))


def _type_postings() -> None:
    """Give the columns of the view ``posting`` types: SQLite takes them from its first part."""
    op.create_table(
        "no_posting",
        *(sa.Column(name, Whole) for name in ("band", "bucket", "bucket_key", "signature_id")),
    )
    runs = op.get_bind().exec_driver_sql("SELECT table_name FROM run ORDER BY run_id").fetchall()
    arms = ["SELECT band, bucket, bucket_key, signature_id FROM no_posting"]
    arms += [
        "SELECT CAST(bucket_key >> 32 AS INTEGER) AS band, "
        "CAST(bucket_key & 4294967295 AS INTEGER) AS bucket, "
        f"bucket_key, signature_id FROM {table} "
        "WHERE bucket_key < 1095216660480"
        for (table,) in runs
    ]
    op.execute("DROP VIEW posting")
    op.execute("CREATE VIEW posting AS " + " UNION ALL ".join(arms))
    op.execute("DROP VIEW bucket")
    op.execute(
        "CREATE VIEW bucket AS SELECT band, bucket, bucket_key, count(*) AS size FROM posting "
        "GROUP BY bucket_key"
    )


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
