"""The page of a study: what was asked, what differed beside the agent's own variation, and the paths side by side."""

from veristate.interfaces.report.study.page import render_study

__all__ = ["render_study"]
