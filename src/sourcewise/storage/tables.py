"""The tables as they are now. Migrations lead from every released version to them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

campaigns = Table(
    "sourcewise_campaign",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("seq", Integer, nullable=False),
    Column("design", Text, nullable=False),
    Column("progress", Text, nullable=False),
)

events = Table(
    "sourcewise_event",
    metadata,
    Column("campaign_id", ForeignKey(campaigns.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("key", String(200), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("time", String(40), nullable=False),
    Column("author", String(200), nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("campaign_id", "key", name="sourcewise_event_key"),
)

totals = Table(
    "sourcewise_total",
    metadata,
    Column("campaign_id", ForeignKey(campaigns.c.id), primary_key=True),
    Column("source", String(100), primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("spent", Float(53), nullable=False),
    Column("content", Text, nullable=False),
)

contents = Table(
    "sourcewise_content",
    metadata,
    Column("campaign_id", ForeignKey(campaigns.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("source", String(100), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
