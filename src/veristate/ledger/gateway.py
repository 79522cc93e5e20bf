"""The gateway: the only place where an action becomes committed, at most once per request.

It never edits a proposal: an action is committed as it is or refused with every reason, and both are journaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, insert, select

from veristate.core import Action, Certificate, Clock, InputError, Record, RefusedError, Request, View, plain
from veristate.ledger.database import Database
from veristate.ledger.entries import Entry
from veristate.ledger.journal import add, at, keep, read
from veristate.ledger.judgement import Reason, Standing, judge
from veristate.ledger.tables import FILLED_BY, certificates, commitments, requests, views


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a proposal. `committed`: by this very call. `entry`: the entry that says so.
    `earlier`: the entry of the commitment that the request already had, if it had one.
    """

    committed: bool
    reasons: tuple[Reason, ...]
    entry: Entry
    earlier: Entry | None


class Gateway:
    """Requests, the views and certificates that stand for them, and their commitments. Had from `Ledger.gateway`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def open_request(self, request: Request) -> Entry | None:
        """The entry that opens the request; None when this very request is open already.

        Raises: RefusedError when its id stands for another request; InputError without rules, or with one twice.
        """
        rules = [rule.to_bytes() for rule in request.rules]
        if not rules or len(set(rules)) != len(rules):
            raise InputError(f"request {request.request_id!r} needs at least one rule, and each of them once")
        with self._database.writing() as connection:
            found = _latest(connection, requests, request.request_id)
            if found is None:
                return self._enter(connection, "request.opened", "request", request)
            if found.digest == request.digest:
                return None
        raise RefusedError(
            f"request id {request.request_id!r} stands for another request, {found.digest}; take a new id for this one"
        )

    def release_view(self, view: View) -> Entry:
        """The entry since which the view is the current one of its request, an earlier view superseded.

        Releasing the current view again changes nothing. Raises: RefusedError when the request was not opened.
        """
        return self._supersede("view.released", "view", view, view.request_id)

    def certify(self, certificate: Certificate) -> Entry:
        """The entry since which the certificate is the current one of its request, an earlier one superseded.

        Issuing the current one again changes nothing. Raises: RefusedError when the request was not opened.
        """
        return self._supersede("certificate.issued", "certificate", certificate, certificate.request_id)

    def commit(self, action: Action) -> Outcome:
        """The outcome of the proposal: committed, or every reason why not. One transaction checks and writes.

        Raises: TamperError when a record it must rely on is damaged; nothing is committed then.
        """
        with self._database.writing() as connection:
            standing = _standing(connection, action.request_id)
            keep(connection, action)
            reasons = judge(action, standing)
            relied_on = _relied_on(standing)
            if not reasons:
                entry = self._enter(connection, "action.committed", "action", action, relied_on)
            else:
                more = relied_on | {"reasons": reasons}
                body = {"request_id": action.request_id, "action": _with_format(action), "digest": action.digest}
                entry = add(connection, kind="action.refused", body=body | more, clock=self._clock)
        earlier = standing.earlier if standing else None
        return Outcome(committed=not reasons, reasons=reasons, entry=entry, earlier=earlier)

    def committed(self, request_id: str) -> tuple[Entry, Action] | None:
        """The entry and the action that was committed for the request; None when none was."""
        with self._database.reading() as connection:
            found = _latest(connection, commitments, request_id)
            return None if found is None else (at(connection, found.seq), read(connection, found.digest, Action))

    def request(self, request_id: str) -> Request | None:
        """The request that was opened under this id; None when none was."""
        with self._database.reading() as connection:
            found = _latest(connection, requests, request_id)
            return None if found is None else read(connection, found.digest, Request)

    def current_view(self, request_id: str) -> View | None:
        """The view last released for the request; None when there is none."""
        with self._database.reading() as connection:
            found = _latest(connection, views, request_id)
            return None if found is None else read(connection, found.digest, View)

    def current_certificate(self, request_id: str) -> Certificate | None:
        """The certificate last issued for the request; None when there is none."""
        with self._database.reading() as connection:
            found = _latest(connection, certificates, request_id)
            return None if found is None else read(connection, found.digest, Certificate)

    def _supersede(self, kind: str, name: str, record: View | Certificate, request_id: str) -> Entry:
        with self._database.writing() as connection:
            if _latest(connection, requests, request_id) is None:
                raise RefusedError(f"no request {request_id!r} is open, so no {name} of it; open the request first")
            before = _latest(connection, FILLED_BY[kind], request_id)
            if before is not None and before.digest == record.digest:
                return at(connection, before.seq)
            superseded = {"superseded": None if before is None else before.digest}
            return self._enter(connection, kind, name, record, superseded)

    def _enter(
        self,
        connection: Connection,
        kind: str,
        name: str,
        record: Request | View | Certificate | Action,
        more: Mapping[str, Any] | None = None,
    ) -> Entry:
        """The entry with the whole record, after which the record stands in the table that this kind fills."""
        kept = keep(connection, record)
        body = {"request_id": record.request_id, name: _with_format(record), "digest": kept, **(more or {})}
        entry = add(connection, kind=kind, body=body, clock=self._clock)
        row = {"seq": entry.seq, "request_id": record.request_id, "digest": kept}
        connection.execute(insert(FILLED_BY[kind]).values(row))
        return entry


def _with_format(record: Record) -> dict[str, Any]:
    """What `Record.to_bytes` hashes, so that the digest can be taken from the entry alone."""
    return {"format": record.FORMAT} | dict(plain(record))


def _latest(connection: Connection, table: Table, request_id: str) -> Row[Any] | None:
    """The row of the table that stands for the request now."""
    found = select(table).where(table.c.request_id == request_id).order_by(table.c.seq.desc()).limit(1)
    return connection.execute(found).first()


def _standing(connection: Connection, request_id: str) -> Standing | None:
    opened = _latest(connection, requests, request_id)
    if opened is None:
        return None
    view = _latest(connection, views, request_id)
    certificate = _latest(connection, certificates, request_id)
    earlier = _latest(connection, commitments, request_id)
    released = connection.execute(select(views.c.digest).where(views.c.request_id == request_id)).scalars()
    return Standing(
        request=read(connection, opened.digest, Request),
        view=None if view is None else read(connection, view.digest, View),
        released=frozenset(released),
        certificate=None if certificate is None else read(connection, certificate.digest, Certificate),
        earlier=None if earlier is None else at(connection, earlier.seq),
    )


def _relied_on(standing: Standing | None) -> dict[str, Any]:
    """The digests of what the judgement was made on."""
    return {
        "request": standing.request.digest if standing else None,
        "view": standing.view.digest if standing and standing.view else None,
        "certificate": standing.certificate.digest if standing and standing.certificate else None,
        "earlier": standing.earlier.digest if standing and standing.earlier else None,
    }
