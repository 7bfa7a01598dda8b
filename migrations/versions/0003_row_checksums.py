"""Checksums of rows; the Unicode version of each batch, and characters it does not assign."""

import zlib

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

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
        "batch", sa.Column("unicode_version", Words, nullable=False, server_default=sa.text("''"))
    )
    op.execute("UPDATE batch SET unicode_version = (SELECT unicode_version FROM state)")
    op.add_column("document", sa.Column("n_unassigned", Whole))
    for table in COLUMNS:
        op.add_column(
            table, sa.Column("checksum", Whole, nullable=False, server_default=sa.text("0"))
        )
        _fill(table)
    # A view keeps the columns that its table had when the view was created.
    op.execute("DROP VIEW new_document")
    op.execute(
        "CREATE VIEW new_document AS SELECT * FROM document "
        "WHERE batch_id >= (SELECT max(add_id) FROM batch WHERE n_removed = 0)"
    )


def _fill(table: str) -> None:
    """Give every row its checksum, in order of the primary key, ``ROWS_AT_ONCE`` at a time."""
    connection = op.get_bind()
    columns = COLUMNS[table].split(", ")
    keys = KEYS.get(table, (columns[0],))
    order, marks = ", ".join(keys), ", ".join(f":{key}" for key in keys)
    condition = " AND ".join(f"{key} = :{key}" for key in keys)
    after = dict.fromkeys(keys, -1)
    select = sa.text(
        f"SELECT {', '.join(columns)} FROM {table} WHERE ({order}) > ({marks}) "
        f"ORDER BY {order} LIMIT {ROWS_AT_ONCE}"
    )
    update = sa.text(f"UPDATE {table} SET checksum = :checksum WHERE {condition}")
    while rows := connection.execute(select, after).fetchall():
        places = [dict(zip(keys, row, strict=False)) for row in rows]
        connection.execute(
            update,
            [
                {**place, "checksum": _checksum(tuple(row))}
                for place, row in zip(places, rows, strict=True)
            ],
        )
        after = places[-1]


def _checksum(values: tuple[object, ...]) -> int:
    return zlib.crc32(orjson.dumps(values, default=bytes.hex))


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
