"""Adds that began and have not ended; the last add is the last one that changed something."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "unfinished_add",
        sa.Column("add_id", Whole, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("add_id", name="pk_unfinished_add"),
        sa.ForeignKeyConstraint(
            ["add_id"], ["batch.batch_id"], name="fk_unfinished_add_add_id_batch"
        ),
    )
    op.execute("DROP VIEW new_document")
    op.execute(
        "CREATE VIEW new_document AS SELECT * FROM document WHERE batch_id >= ("
        "SELECT max(add_id) FROM batch WHERE n_removed = 0 AND (n_added > 0 OR n_replaced > 0 OR "
        # Not EXISTS: Postgres may read all documents for it, but this must use the index.
        "(SELECT min(own.batch_id) FROM document AS own WHERE own.batch_id >= batch.batch_id) "
        "= batch.batch_id))"
    )


def downgrade() -> None:
    raise NotImplementedError("an older lshdb cannot read a newer index; keep a copy instead")
