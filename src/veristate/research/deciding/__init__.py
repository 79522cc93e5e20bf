"""Re-anchoring (ESTRA): at a segment's end, a restart state (live or archived) and a direction (extend, redirect).

Two deciders: a model that answers once in a fixed form, and the evidence policy, which also serves when the model
fails. Neither has tools, and neither sees more than `Evidence`.
"""

from veristate.research.deciding.decision import ReAnchoring, keep_live
from veristate.research.deciding.evidence import Evidence, PeerEvidence, gather, peer_text
from veristate.research.deciding.model import model_decides
from veristate.research.deciding.policy import decide

__all__ = [
    "Evidence",
    "PeerEvidence",
    "ReAnchoring",
    "decide",
    "gather",
    "keep_live",
    "model_decides",
    "peer_text",
]
