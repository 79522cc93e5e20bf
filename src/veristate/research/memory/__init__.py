"""What a worker remembers: result cards, folded to a budget, and the packet it starts a segment with."""

from veristate.research.memory.fold import Folded, fold, unfold
from veristate.research.memory.packet import PACKET_UPPER, abandoned_tail, brief, state_packet

__all__ = ["PACKET_UPPER", "Folded", "abandoned_tail", "brief", "fold", "state_packet", "unfold"]
