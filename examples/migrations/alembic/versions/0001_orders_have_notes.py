import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.add_column("orders", sa.Column("note", sa.Text, nullable=False, server_default=""))


def downgrade():
    op.drop_column("orders", "note")
