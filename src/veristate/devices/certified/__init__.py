"""Certificates that cost a few percent: probes on exports, bounds carried to the score, memoised recomputation.

The life of a certified pass: `TrustedSide.of` follows the models or declines; the planner chooses by contract and cost;
the suspect runs and exports; probes are drawn for what is fixed by then; bounds become enclosures of scores; what they
leave open is recomputed until every rule is certified. `certify_pass` is that in one call.
"""

from veristate.decisions.enclosures import Wanted
from veristate.devices.certified.bounds import MemberBounds, export_names, export_rows, member_bounds
from veristate.devices.certified.certify import (
    CertifiedPass,
    Planned,
    Side,
    SuspectRun,
    certify_pass,
    plan_pass,
)
from veristate.devices.certified.chainside import ChainSide
from veristate.devices.certified.exporting import (
    Exporter,
    batch_spans,
    exported_run,
    graphs_of,
    places_of,
    run_exporting,
)
from veristate.devices.certified.graphs import Environments, Graphs, environments
from veristate.devices.certified.integers import IntegerChain, integer_accumulators, integer_chain
from veristate.devices.certified.integerside import IntegerSide
from veristate.devices.certified.members import Member, member_of
from veristate.devices.certified.memo import memoised_pass, memoised_scores
from veristate.devices.certified.ordered import OrderedEnvironments, ordered_environments
from veristate.devices.certified.planner import Estimate, Plan, choose
from veristate.devices.certified.rounded import rounded_scores
from veristate.devices.certified.side import TrustedSide

__all__ = [
    "CertifiedPass",
    "ChainSide",
    "Environments",
    "Estimate",
    "Exporter",
    "Graphs",
    "IntegerChain",
    "IntegerSide",
    "Member",
    "MemberBounds",
    "OrderedEnvironments",
    "Plan",
    "Planned",
    "Side",
    "SuspectRun",
    "TrustedSide",
    "Wanted",
    "batch_spans",
    "certify_pass",
    "choose",
    "environments",
    "export_names",
    "export_rows",
    "exported_run",
    "graphs_of",
    "integer_accumulators",
    "integer_chain",
    "member_bounds",
    "member_of",
    "memoised_pass",
    "memoised_scores",
    "ordered_environments",
    "places_of",
    "plan_pass",
    "rounded_scores",
    "run_exporting",
]
