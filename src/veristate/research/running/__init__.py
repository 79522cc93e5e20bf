"""The engine: opens a campaign, runs its workers' segments, judges results, re-anchors, audits, and can be killed."""

from veristate.research.running.auditing import best_audited, ranked
from veristate.research.running.checking import CheckLine, check_task
from veristate.research.running.engine import CampaignResult, Surroundings, run_campaign
from veristate.research.running.exporting import export_campaign, objective_of, summary
from veristate.research.running.opening import CampaignHome, CampaignOptions, open_campaign, read_standing
from veristate.research.running.talking import Talk
from veristate.research.workers.chat import Said

__all__ = [
    "CampaignHome",
    "CampaignOptions",
    "CampaignResult",
    "CheckLine",
    "Said",
    "Surroundings",
    "Talk",
    "best_audited",
    "check_task",
    "export_campaign",
    "objective_of",
    "open_campaign",
    "ranked",
    "read_standing",
    "run_campaign",
    "summary",
]
