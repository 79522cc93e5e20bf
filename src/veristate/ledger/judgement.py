"""Whether an action may be committed: a pure question, answered with every reason against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from veristate.core import Action, Certificate, Decision, Request, Rule, View
from veristate.ledger.entries import Entry


class Reason(StrEnum):
    """Why an action is refused. The values are stable: they stand in journals and reports."""

    REQUEST_UNKNOWN = "request unknown"
    CONTRACT_DIFFERS = "contract differs"
    VIEW_UNKNOWN = "view unknown"
    VIEW_SUPERSEDED = "view superseded"
    VIEW_CONTRACT_DIFFERS = "view contract differs"
    VIEW_NOT_CERTIFIED = "view not certified"
    CERTIFICATE_MISSING = "certificate missing"
    CERTIFICATE_CONTRACT_DIFFERS = "certificate contract differs"
    CERTIFICATE_INCOMPLETE = "certificate incomplete"
    DECISION_DEVIATES = "decision deviates"
    ALREADY_COMMITTED = "already committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the ledger holds for a request: current view and certificate, all views ever released, the commitment."""

    request: Request
    view: View | None
    released: frozenset[str]
    certificate: Certificate | None
    earlier: Entry | None


def judge(action: Action, standing: Standing | None) -> tuple[Reason, ...]:
    """Every reason against the action, in the order of `Reason`; empty when it may be committed.

    Of an unknown request nothing else can be said. Without a certificate no view is certified and no decision is
    compared. A certificate of decisions alone names the table of intervals that an agent may read.
    """
    if standing is None:
        return (Reason.REQUEST_UNKNOWN,)
    against = set(_view(action, standing)) | set(_certificate(action, standing))
    if action.contract != standing.request.contract:
        against.add(Reason.CONTRACT_DIFFERS)
    if standing.earlier is not None:
        against.add(Reason.ALREADY_COMMITTED)
    return tuple(reason for reason in Reason if reason in against)


def _view(action: Action, standing: Standing) -> list[Reason]:
    view, certificate = standing.view, standing.certificate
    against = []
    if action.view not in standing.released:
        against.append(Reason.VIEW_UNKNOWN)
    elif view is None or action.view != view.digest:
        against.append(Reason.VIEW_SUPERSEDED)
    if view is None:
        return against
    if view.contract != standing.request.contract:
        against.append(Reason.VIEW_CONTRACT_DIFFERS)
    if certificate is None or view.table != certificate.table:
        against.append(Reason.VIEW_NOT_CERTIFIED)
    return against


def _certificate(action: Action, standing: Standing) -> list[Reason]:
    certificate, request = standing.certificate, standing.request
    if certificate is None:
        return [Reason.CERTIFICATE_MISSING]
    against = []
    if certificate.contract != request.contract:
        against.append(Reason.CERTIFICATE_CONTRACT_DIFFERS)
    certified = _in_order(certificate.decisions, request.rules)
    if certified is None:
        against.append(Reason.CERTIFICATE_INCOMPLETE)
    elif _in_order(action.decisions, request.rules) != certified:
        against.append(Reason.DECISION_DEVIATES)
    return against


def _in_order(decisions: Sequence[Decision], rules: Sequence[Rule]) -> list[bytes] | None:
    """The canonical bytes of the decisions, in the order of the rules; None unless there is exactly one for each."""
    by_rule = {decision.rule.to_bytes(): decision.to_bytes() for decision in decisions}
    wanted = [rule.to_bytes() for rule in rules]
    if len(decisions) != len(wanted) or set(by_rule) != set(wanted):
        return None
    return [by_rule[rule] for rule in wanted]
