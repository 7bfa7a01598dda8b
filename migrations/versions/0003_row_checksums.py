"""Checksums of rows; the Unicode version of each batch, and characters that it did not know."""

import zlib

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

COLUMNS = {
    "state": "state_id, format, uuid, created_at, library_version, unicode_version, "
    "signature_file, n_signatures, next_doc_id, next_run_id",
    "batch": "batch_id, add_id, started_at, finished_at, source, n_added, n_replaced, "
    "n_unchanged, n_copies, n_rejected, n_removed, unicode_version",
    "document": "doc_id, key, signature_id, content_hash, body_hash, n_shingles, n_chars, source, "
    "batch_id, added_at, last_seen_at, n_unassigned",
    "edge": "signature1, signature2, similarity, method",
    "edge_state": "edge_state_id, threshold, method, max_bucket, n_signatures, batch_id, "
    "release_id, hot_buckets, hot_pairs, recall_lost, updated_at",
}
KEYS = {"edge": ("signature1", "signature2")}
ROWS_AT_ONCE = 10_000


def upgrade() -> None:
    op.add_column(
        "batch", sa.Column("unicode_version", sa.Text, nullable=False, server_default=sa.text("''"))
    )
    op.execute("UPDATE batch SET unicode_version = (SELECT unicode_version FROM state)")
    op.add_column("document", sa.Column("n_unassigned", sa.Integer))
    for table in COLUMNS:
        op.add_column(
            table, sa.Column("checksum", sa.Integer, nullable=False, server_default=sa.text("0"))
        )
        _fill(table)
    # The view's columns are those that the table had when it was made.
    op.execute("DROP VIEW new_document")
    op.execute(
        "CREATE VIEW new_document AS SELECT * FROM document "
        "WHERE batch_id >= (SELECT max(add_id) FROM batch WHERE n_removed = 0)"
    )


def _fill(table: str) -> None:
    """Give every row its checksum; in order of the primary key, so many rows at a time."""
    connection = op.get_bind()
    columns = COLUMNS[table].split(", ")
    keys = KEYS.get(table, (columns[0],))
    order, marks = ", ".join(keys), ", ".join("?" * len(keys))
    condition = " AND ".join(f"{key} = ?" for key in keys)
    after = (-1,) * len(keys)
    while rows := connection.exec_driver_sql(
        f"SELECT {', '.join(columns)} FROM {table} WHERE ({order}) > ({marks}) "
        f"ORDER BY {order} LIMIT {ROWS_AT_ONCE}",
        after,
    ).fetchall():
        connection.exec_driver_sql(
            f"UPDATE {table} SET checksum = ? WHERE {condition}",
            [(_checksum(tuple(row)), *row[: len(keys)]) for row in rows],
        )
        after = tuple(rows[-1][: len(keys)])


def _checksum(values: tuple[object, ...]) -> int:
    return zlib.crc32(orjson.dumps(values, default=bytes.hex))


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
