"""CRC-32 of vectors, beside that of the signatures of the same rows."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("signature_block", sa.Column("vector_crc32", Whole))


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
