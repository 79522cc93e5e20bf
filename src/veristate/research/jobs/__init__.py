"""Physical work that workers propose: who admits it, watches it, gives it more time or stops it, and what it may hold.

Local processes alone. A job belongs to the campaign, not to the segment that proposed it: it goes on while its worker
goes on, and ends with the engine.
"""

from veristate.research.jobs.admission import Free, Offer, free_now, read_offer
from veristate.research.jobs.controller import JobController
from veristate.research.jobs.leases import Lease, Leases

__all__ = ["Free", "JobController", "Lease", "Leases", "Offer", "free_now", "read_offer"]
