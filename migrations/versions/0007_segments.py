"""Numbers of commits, by which orders of rows are told from those of another history."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    segment = op.create_table(
        "segment",
        sa.Column("n_signatures", Whole, nullable=False, autoincrement=False),
        sa.Column("number", Whole, nullable=False),
        sa.PrimaryKeyConstraint("n_signatures", name="pk_segment"),
    )
    for (n_signatures,) in op.get_bind().exec_driver_sql("SELECT n_signatures FROM state").all():
        if n_signatures:
            row = {"n_signatures": n_signatures, "number": secrets.randbits(63)}
            op.bulk_insert(segment, [row])


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
