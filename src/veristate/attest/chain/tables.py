"""The tables of the chain journal. Attempts and moves are only ever added; a call's row says where it stands now."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 1

metadata = MetaData()

# One journal is one account on one chain, told apart by its first block too: test chains share their numbers.
chain = Table(
    "chain",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("chain_id", Integer, nullable=False),
    Column("genesis", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("final_number", Integer),
    Column("final_hash", Text),
    sqlite_strict=True,
)

# What a nonce is used for. A nonce has several calls when a later one took the place of one that stalled, a key has
# several when its first nonce was lost.
calls = Table(
    "calls",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False, index=True),
    Column("nonce", Integer, nullable=False, index=True),
    # NULL: the data is a contract to deploy.
    Column("target", Text),
    Column("data", LargeBinary, nullable=False),
    Column("gas", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("transaction_hash", Text),
    Column("block_number", Integer),
    Column("block_hash", Text),
    Column("reason", Text, nullable=False),
    Column("settled", Integer, nullable=False),
    UniqueConstraint("key", "nonce"),
    sqlite_strict=True,
)

# Every transaction that was ever signed: any of them may still be mined.
attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("call", Integer, ForeignKey("calls.id"), nullable=False),
    Column("nonce", Integer, nullable=False, index=True),
    Column("raw", LargeBinary, nullable=False),
    # Text: wei can exceed what SQLite's integers hold.
    Column("most", Text, nullable=False),
    Column("tip", Text, nullable=False),
    Column("sent_at", Integer, nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("said", Text, nullable=False),
    sqlite_strict=True,
)

moves = Table(
    "moves",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False, index=True),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("block_number", Integer),
    Column("block_hash", Text),
    Column("time", Text, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_strict=True,
)

heads = Table(
    "heads",
    metadata,
    Column("size", Integer, primary_key=True, autoincrement=False),
    Column("origin", Text, nullable=False),
    Column("root", LargeBinary, nullable=False),
    # Of a head that the chain held before this journal sent it: its state and where it was seen.
    Column("found", Text),
    Column("block_number", Integer),
    Column("block_hash", Text),
    Column("reason", Text, nullable=False),
    sqlite_strict=True,
)
