"""Campaigns, their events, totals and contents.

A migration is frozen once it is released: it repeats the tables instead of importing them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sourcewise_campaign",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("design", sa.Text, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
    )
    op.create_table(
        "sourcewise_event",
        sa.Column("campaign_id", sa.Integer, sa.ForeignKey("sourcewise_campaign.id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("campaign_id", "key", name="sourcewise_event_key"),
    )
    op.create_table(
        "sourcewise_total",
        sa.Column("campaign_id", sa.Integer, sa.ForeignKey("sourcewise_campaign.id"), primary_key=True),
        sa.Column("source", sa.String(100), primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.Float(53), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "sourcewise_content",
        sa.Column("campaign_id", sa.Integer, sa.ForeignKey("sourcewise_campaign.id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
