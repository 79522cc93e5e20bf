"""The page of a campaign: its score over time, every re-anchoring, the tree of its states."""

from veristate.interfaces.report.research.page import render_campaign

__all__ = ["render_campaign"]
