"""The dictionary with which the texts of an index are compressed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "text_dictionary",
        sa.Column("dictionary_id", Whole, nullable=False, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(16), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("dictionary_id = 1", name="ck_text_dictionary_single"),
        sa.PrimaryKeyConstraint("dictionary_id", name="pk_text_dictionary"),
    )


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
