"""An evaluation as a step that anyone may challenge: the commitment to it. `challenging` runs it again.

The candidate's files go along, the task does not: whoever challenges has it, in the same bytes, and runs no code that
an export brings.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from veristate.core import canonical_bytes, digest
from veristate.research.evaluating import Candidate, Judgement, reply_bytes
from veristate.research.running.opening import task_digest
from veristate.research.tasks import Code, Task
from veristate.store import Store

if TYPE_CHECKING:
    from veristate.attest import Boundary

EVALUATION, AUDIT, FAILURE = (
    "veristate.research.evaluation",
    "veristate.research.audit",
    "veristate.research.failed-evaluation",
)
LIBRARIES = ("veristate", "numpy", "scipy", "numba", "scikit-learn", "torch")
UNFIXED = {"the data folder": "what it held is not fixed by the commitment"}

# Commits to an evaluation under that execution id, whose reply is in that file if there is one.
CommitTo = Callable[[str, Code, Candidate, Judgement, Path], None]


def no_commitment(execution: str, code: Code, candidate: Candidate, judged: Judgement, reply: Path) -> None:
    """Returns at once: nothing is committed to."""


def committing(task: Task, store: Store, boundary: "Boundary | None") -> CommitTo:
    """What commits to this campaign's evaluations, before anything of them is deleted. Nothing does without a boundary.

    A judgement is compared bit for bit with two reruns: an evaluator that draws random numbers does not agree with
    itself, and then nobody is accused. What an evaluator's own failure says of a candidate is nothing that repeats, nor
    is a metric of arithmetic that was flagged. What the data folder held is not committed to: where a task reads it,
    the policy asks for what no other environment has.
    """
    if boundary is None:
        return no_commitment
    from veristate.attest import EXACT, environment_of  # a third of an engine's start, for nothing without a boundary

    fixed = {"task": task.name, "folder": str(task.folder), "task_digest": task_digest(task), "checked": task.checked}
    evaluator, audit = (
        canonical_bytes(fixed | {"audit": audited, "checked": task.checked and not audited})
        for audited in (False, True)
    )
    here = environment_of(*LIBRARIES)
    asked = here | (UNFIXED if task.resources.data != "none" else {})
    policy = replace(EXACT, metric_parameters={"output": "judgement"}, reruns_upper=2, environment=asked)

    def commit_to(execution: str, code: Code, candidate: Candidate, judged: Judgement, reply: Path) -> None:
        audited = code is task.audit
        inputs = {"evaluator": audit if audited else evaluator, **_files(store, candidate)}
        outputs = {"judgement": said_of(judged)}
        with suppress(OSError):
            data = reply_bytes(reply)
            if digest(data) == judged.reply:  # what was judged, nothing else that a candidate's code may have put there
                outputs["reply"] = data
        context = {
            "environment": canonical_bytes(here),
            "reason": judged.reason.encode("utf-8", "backslashreplace"),
            "tree": candidate.tree.encode(),
        }
        faulty = judged.status == "failed" or judged.arithmetic == "FLAG"
        stage = FAILURE if faulty else AUDIT if audited else EVALUATION
        boundary.commit_to(stage, execution=execution, inputs=inputs, outputs=outputs, context=context, policy=policy)

    return commit_to


def said_of(judged: Judgement) -> bytes:
    """What of a judgement is compared."""
    return canonical_bytes({"status": judged.status, "metric": judged.metric, "repaired": judged.repaired})


def _files(store: Store, candidate: Candidate) -> dict[str, bytes]:
    contents = [store.get(entry.blob) for _, entry in candidate.files]
    listed = [
        [path.encode("utf-8", "surrogateescape").hex(), digest(data)]
        for (path, _), data in zip(candidate.files, contents, strict=True)
    ]
    return {"candidate": canonical_bytes(listed)} | {f"file {place}": data for place, data in enumerate(contents)}
