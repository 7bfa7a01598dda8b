"""The tables and views of format 2, but for the table of bands, which depends on the index.

``lshdb/storage/tables/band_schema.py`` makes that one and the views over it.

The tables are those of the models (``lshdb/storage/tables/schema.py``). Once indexes of this
revision are released, a change of the models first writes the tables down here as they were:
``tests/storage/test_trust.py`` compares with the statements that were frozen.
"""

from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from lshdb.storage.tables.schema import metadata

revision = "0001"
down_revision = None

LAST_ADD = (
    "SELECT max(add_id) AS add_id FROM batch WHERE n_removed = 0 AND (n_added > 0 "
    "OR n_replaced > 0 OR (SELECT min(own.batch_id) FROM document AS own "
    "WHERE own.batch_id >= batch.batch_id) = batch.batch_id)"
)
FIRST_OF_NIGHT = (
    "SELECT coalesce((SELECT min(other.add_id) FROM night JOIN night AS other "
    "ON other.name = night.name WHERE night.add_id = changed.add_id), changed.add_id) "
    f"FROM ({LAST_ADD}) AS changed"
)
DISTANCE = "CASE WHEN (SELECT is_distance FROM state) = 1 THEN {} END AS distance"
EDGES = (
    "SELECT document.key, other.key AS neighbor, edge.similarity, edge.method, "
    f"{DISTANCE.format('0.0 - edge.similarity')} FROM document "
    "JOIN edge ON edge.{one} = document.signature_id "
    "JOIN document AS other ON other.signature_id = edge.{other}"
)
COPIES = (
    "SELECT document.key, other.key AS neighbor, (SELECT 1.0 - is_distance FROM state) "
    f"AS similarity, 'exact' AS method, {DISTANCE.format('0.0')} "
    "FROM document JOIN document AS other ON other.signature_id = document.signature_id "
    "AND other.doc_id <> document.doc_id"
)
TIME = (
    "COALESCE(document.{0}, (SELECT started_at FROM batch "
    "WHERE batch.batch_id = document.batch_id)) AS {0}"
)
DOCUMENT = (
    "document.doc_id, document.key, document.signature_id, {content_hash} AS content_hash, "
    "{body_hash} AS body_hash, document.n_shingles, document.n_chars, document.source, "
    f"document.batch_id, {TIME.format('added_at')}, {TIME.format('last_seen_at')}, "
    "document.n_unassigned"
)
CLUSTER = (
    "SELECT labelled.key AS label, document.key, document.doc_id, document.signature_id "
    "FROM cluster_member JOIN document ON document.signature_id = cluster_member.signature_id "
    "JOIN document AS labelled ON labelled.doc_id = cluster_member.label"
)


def upgrade() -> None:
    """Make everything."""
    dialect = op.get_context().dialect.name
    for table in metadata.sorted_tables:
        if table.info.get("dialect", dialect) == dialect:
            op.execute(CreateTable(table))
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                op.execute(CreateIndex(index))
    if dialect == "postgresql":  # texts are already compressed
        op.execute("ALTER TABLE content ALTER body SET STORAGE EXTERNAL")
    for name, definition in _views(dialect == "sqlite").items():
        op.execute(f"CREATE VIEW {name} AS {definition}")


def _views(is_sqlite: bool) -> dict[str, str]:
    form = "lower(hex(document.{}))" if is_sqlite else "encode(document.{}, 'hex')"
    columns = DOCUMENT.format(
        content_hash=form.format("content_hash"), body_hash=form.format("body_hash")
    )
    both_ways = (("signature1", "signature2"), ("signature2", "signature1"))
    edges = [EDGES.format(one=one, other=other) for one, other in both_ways]
    fields = (
        "json_each(kept_field.fields) AS field"
        if is_sqlite
        else "json_each_text(kept_field.fields::json) AS field"
    )
    return {
        "document_time": (
            "SELECT document.key, document.doc_id, document.batch_id, "
            f"{TIME.format('added_at')}, {TIME.format('last_seen_at')} FROM document"
        ),
        "new_document": f"SELECT {columns} FROM document WHERE batch_id >= ({FIRST_OF_NIGHT})",
        "cursor_document": (
            f'SELECT "cursor".name AS cursor_name, {columns} FROM "cursor" '
            'JOIN document ON document.batch_id > "cursor".batch_id'
        ),
        "document_field": (
            "SELECT document.key, document.doc_id, field.key AS name, field.value FROM kept_field "
            f"JOIN document ON document.doc_id = kept_field.doc_id CROSS JOIN {fields}"
        ),
        "neighbor": " UNION ALL ".join([*edges, COPIES]),
        "cluster": CLUSTER,
    }


def downgrade() -> None:
    """Raise an error: nothing goes back."""
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
