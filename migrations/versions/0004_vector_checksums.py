"""CRC-32 of vectors, beside that of signatures; exact copies are at distance 0 for distances."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


EDGES = (
    "SELECT document.key, other.key AS neighbor, edge.similarity, edge.method FROM document "
    "JOIN edge ON edge.{one} = document.signature_id "
    "JOIN document AS other ON other.signature_id = edge.{other}"
)
COPIES = (
    "SELECT document.key, other.key AS neighbor, (SELECT CASE "
    "WHEN value IN ('\"hamming\"', '\"l1\"', '\"l2\"') THEN 0.0 ELSE 1.0 END "
    "FROM parameter WHERE name = 'metric') AS similarity, 'exact' AS method "
    "FROM document JOIN document AS other ON other.signature_id = document.signature_id "
    "AND other.doc_id <> document.doc_id"
)


def upgrade() -> None:
    op.add_column("signature_block", sa.Column("vector_crc32", Whole))
    both_ways = (("signature1", "signature2"), ("signature2", "signature1"))
    parts = [EDGES.format(one=one, other=other) for one, other in both_ways]
    op.execute("DROP VIEW neighbor")
    op.execute("CREATE VIEW neighbor AS " + " UNION ALL ".join([*parts, COPIES]))


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
