"""What a study's executions run on: captures at a site, and claims with an agent or a task's arrays alone."""

from veristate.audit.study.benches.array_bench import ArrayBench
from veristate.audit.study.benches.capturing import StudyCapture, captures_of, faulty, reference_at, site_of
from veristate.audit.study.benches.choosing import RETRIEVED
from veristate.audit.study.benches.claim_bench import ClaimBench, MakeDecider, request_seed, score_text
from veristate.audit.study.benches.executions import Bench, Done, Execution

__all__ = [
    "RETRIEVED",
    "ArrayBench",
    "Bench",
    "ClaimBench",
    "Done",
    "Execution",
    "MakeDecider",
    "StudyCapture",
    "captures_of",
    "faulty",
    "reference_at",
    "request_seed",
    "score_text",
    "site_of",
]
