"""The tables. The journal is the truth; the gateway's tables are what it says, kept so that a question is one look-up.

Rows are only ever added, but for the one row of `head`. `verify` derives the gateway's tables from the journal again.
"""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, MetaData, Table

from veristate.ledger.columns import Octets, Words

SCHEMA_VERSION = 1

metadata = MetaData()

schema = Table("schema", metadata, Column("version", Integer, primary_key=True), sqlite_strict=True)

journal = Table(
    "journal",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("previous", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("time", Words, nullable=False),
    Column("body", Octets, nullable=False),
    Column("digest", Words, nullable=False, unique=True),
    sqlite_strict=True,
)

head = Table(
    "head",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    Column("digest", Words, nullable=False),
    sqlite_strict=True,
)

records = Table(
    "records",
    metadata,
    Column("digest", Words, primary_key=True),
    Column("data", Octets, nullable=False),
    sqlite_strict=True,
)


def _by_request(name: str, *, once: bool) -> Table:
    """A table of which record stands for which request since which entry; at most one per request if `once`."""
    return Table(
        name,
        metadata,
        Column("seq", Integer, ForeignKey("journal.seq"), primary_key=True, autoincrement=False),
        Column("request_id", Words, nullable=False, unique=once, index=not once),
        Column("digest", Words, ForeignKey("records.digest"), nullable=False),
        sqlite_strict=True,
    )


requests = _by_request("requests", once=True)
views = _by_request("views", once=False)
certificates = _by_request("certificates", once=False)
commitments = _by_request("commitments", once=True)

# The kinds of entry that only the gateway writes, and the table that each fills.
FILLED_BY = {
    "request.opened": requests,
    "view.released": views,
    "certificate.issued": certificates,
    "action.committed": commitments,
}
GATEWAY_KINDS = frozenset(FILLED_BY) | {"action.refused"}
