"""Physical work that workers propose: who admits it, watches it, gives it more time or stops it, and what it may hold.

It runs as processes of this machine, or of a Ray cluster (`on_ray`). A job belongs to
the campaign, not to the segment that proposed it: it goes on while its worker goes on, and ends with the engine.
"""

from veristate.research.jobs.admission import Free, Offer, free_now, read_offer
from veristate.research.jobs.controller import JobController
from veristate.research.jobs.ground import Ground, Started, here, on_ray
from veristate.research.jobs.leases import Lease, Leases

__all__ = [
    "Free",
    "Ground",
    "JobController",
    "Lease",
    "Leases",
    "Offer",
    "Started",
    "free_now",
    "here",
    "on_ray",
    "read_offer",
]
