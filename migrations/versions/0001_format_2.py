"""The tables and views of format 2, but for the table of bands, which depends on the index.

``lshdb/storage/tables/band_schema.py`` makes that one and the views over it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

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
CLUSTER = (
    "SELECT labelled.key AS label, document.key, document.doc_id, document.signature_id "
    "FROM cluster_member JOIN document ON document.signature_id = cluster_member.signature_id "
    "JOIN document AS labelled ON labelled.doc_id = cluster_member.label"
)


def upgrade() -> None:
    """Make everything."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    _make_state()
    _make_documents(is_sqlite)
    _make_signatures()
    _make_edges()
    if not is_sqlite:
        _make(
            "commit_mark",
            sa.Column("mark", Words, nullable=False),
            sa.Column("made_at", Words, nullable=False),
        )
        # Texts are already compressed.
        op.execute("ALTER TABLE content ALTER body SET STORAGE EXTERNAL")
    for name, definition in _views(is_sqlite).items():
        op.execute(f"CREATE VIEW {name} AS {definition}")


def _make(name: str, *items: "sa.Column[object] | sa.Constraint", key: int = 1) -> None:
    """Make a table whose primary key is its first column or columns."""
    columns = [item.name for item in items[:key]]
    op.create_table(name, *items, sa.PrimaryKeyConstraint(*columns, name=f"pk_{name}"))


def _numbers(*names: str) -> "list[sa.Column[int]]":
    return [sa.Column(name, Whole, nullable=False, autoincrement=False) for name in names]


def _words(*names: str) -> "list[sa.Column[str]]":
    return [sa.Column(name, Words, nullable=False) for name in names]


def _checksum() -> "sa.Column[int]":
    return sa.Column("checksum", Whole, nullable=False, server_default=sa.text("0"))


def _refers(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column}_{to.partition('.')[0]}"
    return sa.ForeignKeyConstraint([column], [to], name=name)


def _single(table: str, column: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} = 1", name=f"ck_{table}_single")


def _make_state() -> None:
    _make(
        "state",
        *_numbers("state_id", "format"),
        *_words("uuid", "created_at", "library_version", "unicode_version", "signature_file"),
        *_numbers("n_signatures", "next_doc_id"),
        _checksum(),
        _single("state", "state_id"),
    )
    _make("parameter", *_words("name", "value"))
    _make(
        "batch",
        *_numbers("batch_id", "add_id"),
        *_words("started_at", "finished_at", "source"),
        *_numbers("n_added", "n_replaced", "n_unchanged", "n_copies", "n_rejected"),
        sa.Column("n_removed", Whole, nullable=False, server_default=sa.text("0")),
        sa.Column("unicode_version", Words, nullable=False, server_default=sa.text("''")),
        _checksum(),
    )
    add_of_batch = [
        _refers(table, "add_id", "batch.batch_id") for table in ("unfinished_add", "night")
    ]
    _make("unfinished_add", *_numbers("add_id"), add_of_batch[0])
    _make("night", *_numbers("add_id"), *_words("name"), _checksum(), add_of_batch[1])
    _make("cursor", *_words("name"), *_numbers("batch_id"), *_words("advanced_at"), _checksum())


def _make_documents(is_sqlite: bool) -> None:
    _make(
        "document",
        *_numbers("doc_id"),
        *_words("key"),
        sa.Column("signature_id", Whole),
        sa.Column("content_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(16), nullable=False),
        *_numbers("n_shingles", "n_chars"),
        *_words("source"),
        *_numbers("batch_id"),
        *_words("added_at", "last_seen_at"),
        sa.Column("n_unassigned", Whole),
        _checksum(),
        sa.UniqueConstraint("key", name="uq_document_key"),
        *([_refers("document", "batch_id", "batch.batch_id")] if is_sqlite else []),
    )
    op.create_index("ix_document_signature_id", "document", ["signature_id"])
    op.create_index("ix_document_batch_id", "document", ["batch_id"])
    of_document = [
        [_refers(table, "doc_id", "document.doc_id")] if is_sqlite else []
        for table in ("content", "kept_field")
    ]
    _make(
        "content",
        *_numbers("doc_id"),
        *_words("form"),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("form IN ('text', 'tokens')", name="ck_content_form"),
        *of_document[0],
    )
    _make(
        "text_dictionary",
        *_numbers("dictionary_id"),
        sa.Column("hash", sa.LargeBinary(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        _single("text_dictionary", "dictionary_id"),
    )
    _make("kept_field", *_numbers("doc_id"), *_words("fields"), _checksum(), *of_document[1])


def _make_signatures() -> None:
    _make(
        "signature_block",
        *_numbers("first_row", "n_rows", "crc32"),
        sa.Column("vector_crc32", Whole),
    )
    _make("segment", *_numbers("n_signatures", "number"))
    _make("signature_release", *_numbers("release_id", "signature_id", "batch_id"))
    op.create_index("ix_signature_release_signature_id", "signature_release", ["signature_id"])


def _make_edges() -> None:
    op.create_table(
        "edge",
        *_numbers("signature1", "signature2"),
        sa.Column("similarity", sa.Float, nullable=False),
        *_words("method"),
        _checksum(),
        sa.PrimaryKeyConstraint("signature1", "signature2", name="pk_edge"),
        sa.CheckConstraint("signature1 < signature2", name="ck_edge_order"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_edge_signature2", "edge", ["signature2"])
    _make(
        "edge_state",
        *_numbers("edge_state_id"),
        sa.Column("threshold", sa.Float, nullable=False),
        *_words("method"),
        *_numbers(
            "max_bucket", "n_signatures", "batch_id", "release_id", "hot_buckets", "hot_pairs"
        ),
        sa.Column("recall_lost", sa.Float, nullable=False),
        *_words("updated_at"),
        _checksum(),
        _single("edge_state", "edge_state_id"),
    )
    _make("cluster_member", *_numbers("signature_id", "label"))
    op.create_index("ix_cluster_member_label", "cluster_member", ["label"])


def _views(is_sqlite: bool) -> dict[str, str]:
    form = "lower(hex(document.{}))" if is_sqlite else "encode(document.{}, 'hex')"
    columns = DOCUMENT.format(
        content_hash=form.format("content_hash"), body_hash=form.format("body_hash")
    )
    both_ways = (("signature1", "signature2"), ("signature2", "signature1"))
    edges = [EDGES.format(one=one, other=other, distance=DISTANCE) for one, other in both_ways]
    fields = (
        "json_each(kept_field.fields) AS field"
        if is_sqlite
        else "json_each_text(kept_field.fields::json) AS field"
    )
    return {
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
