"""Trying a task before it costs anything: its evaluator on the examples, and on nothing."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from veristate.research.evaluating import Judgement, evaluate, materialise, read_candidate
from veristate.research.judgement import number
from veristate.research.processes import Confine, Launch
from veristate.research.tasks import Code, Task
from veristate.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One thing that was tried. `passed` is None when there was nothing to try."""

    what: str
    passed: bool | None
    said: str


def check_task(task: Task, *, confine: Confine | None = None) -> list[CheckLine]:
    """What was tried and what came of it, in order."""
    lines = [_unwritten_brief(task)]
    if not task.examples:
        lines.append(CheckLine(what="examples", passed=None, said="the task has none, so its evaluator was not tried"))
    with tempfile.TemporaryDirectory(prefix="veristate-check-") as above:
        for example in task.examples:
            copy = Path(above) / "workspace"
            shutil.copytree(task.folder / example.folder, copy, symlinks=True)
            store = Store.open(Path(above) / "objects")
            candidate = read_candidate(store, store.snapshot(copy), task.artifact)
            shutil.rmtree(copy)
            for what, code in (("evaluator", task.evaluator), ("audit", task.audit)):
                if code is None:
                    continue
                scratch = Path(above) / "scratch"
                if candidate.against:
                    judged = Judgement(status="rejected", reason=candidate.against)
                else:
                    materialise(store, candidate, scratch / "candidate")
                    (scratch / "run").mkdir()
                    judged = _judge(task, code, scratch, confine)
                    shutil.rmtree(scratch)
                lines.append(_compared(f"{what} on {example.folder}", judged, example.expect, example.metric, what))
    return lines


def _judge(task: Task, code: Code, scratch: Path, confine: Confine | None) -> Judgement:
    return evaluate(
        task,
        code,
        candidate=scratch / "candidate",
        scratch=scratch / "run",
        mark="check",
        confine=confine or _unconfined,
        checked=task.checked and code is task.evaluator,
    )


def _compared(what: str, judged: Judgement, expect: str, metric: str | None, which: str) -> CheckLine:
    said = f"{judged.status}" + (f", {judged.metric}" if judged.metric else "")
    said += f": {judged.reason}" if judged.reason else ""
    passed = judged.status == expect
    if passed and metric is not None and judged.metric is not None and which == "evaluator":
        passed = number(judged.metric) == number(metric)
        said += "" if passed else f", but {metric} was expected"
    return CheckLine(what=what, passed=passed, said=said)


def _unwritten_brief(task: Task) -> CheckLine:
    """Whether the template leaves the brief's names free."""
    template = task.folder / task.template if task.template else None
    taken = [name for name in ("AGENTS.md", "CLAUDE.md") if template and (template / name).exists()]
    said = f"the template holds {taken[0]}, which the engine writes; use guidance" if taken else "free"
    return CheckLine(what="names of the brief", passed=not taken, said=said)


def _unconfined(launch: Launch) -> Launch:
    return launch
