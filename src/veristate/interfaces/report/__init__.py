"""The page that shows what moved, why, what it cost, and how to check it."""

from veristate.interfaces.report.page import render_report

__all__ = ["render_report"]
