from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    # CONCURRENTLY is not allowed in a transaction.
    with op.get_context().autocommit_block():
        op.create_index("orders_state", "orders", ["state"], postgresql_concurrently=True)


def downgrade():
    with op.get_context().autocommit_block():
        op.drop_index("orders_state", postgresql_concurrently=True)
