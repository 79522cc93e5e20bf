"""A paired group as a step that anyone may challenge: the commitment to it. `challenging` runs it again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from veristate.agents.claims import Ending
from veristate.attest import EXACT, Boundary, environment_of
from veristate.audit.study.benches import Execution
from veristate.audit.study.recorded import Executed
from veristate.audit.study.spec import StudySpec
from veristate.core import canonical_bytes, digest, plain

GROUP, FAILED = "veristate.audit.group", "veristate.audit.failed-group"
LIBRARIES = ("veristate", "numpy", "scipy", "torch", "rdkit", "chemprop", "scikit-learn")

# Told the plan and what is finished: when a run begins, and after each execution with that one.
Settle = Callable[[Sequence[Execution], Mapping[str, Executed]], None]
# What names a group: arm, capture, task, repeat.
Group = tuple[str, str, str, str]


def no_commitment(executions: Sequence[Execution], held: Mapping[str, Executed]) -> None:
    """Returns at once: nothing is committed to."""


def committing(spec: StudySpec, text: str, folder: Path, boundary: Boundary) -> Settle:
    """What commits to each group of a study, once, as soon as all its executions are finished. `text` is the study's
    TOML and `folder` where it lies.

    An attempt whose model gave no reply is nothing that repeats, and so its group is no step that can be compared.
    """
    here = environment_of(*LIBRARIES)
    policy = replace(EXACT, metric_parameters={"output": "group"}, reruns_upper=2, environment=here)
    files = canonical_bytes(file_digests(spec))

    def settle(executions: Sequence[Execution], held: Mapping[str, Executed]) -> None:
        for group, members in groups_of(executions).items():
            if all(one.key in held for one in members):
                commit_to(group, [held[one.key] for one in members])

    def commit_to(group: Group, members: Sequence[Executed]) -> None:
        failed = any(attempt.reason.startswith(f"{Ending.FAILED}:") for one in members for attempt in one.attempts)
        moments = {one.condition: {"at": one.at, "seconds": one.seconds} for one in members}
        # The same study in another folder is another execution: what tells them apart is when it ran.
        mark = digest(canonical_bytes([[one.key, one.at] for one in members]))[:16]
        boundary.commit_to(
            FAILED if failed else GROUP,
            execution="/".join([spec.name, *group, mark]),
            inputs={
                "study": text.encode(),
                "files": files,
                "group": canonical_bytes(
                    {
                        "group": group,
                        "folder": str(folder.absolute()),
                        "keys": {one.condition: one.key for one in members},
                    }
                ),
            },
            outputs={
                "group": result_of([(one.condition, shown_of(one)) for one in members]),
                "transcripts": canonical_bytes({one.condition: one.transcript for one in members}),
            },
            context={"environment": canonical_bytes(here), "moments": canonical_bytes(moments)},
            policy=policy,
        )

    return settle


def groups_of(executions: Sequence[Execution]) -> dict[Group, list[Execution]]:
    """The executions by group, in the order of the plan."""
    found: dict[Group, list[Execution]] = {}
    for one in executions:
        found.setdefault(group_of(one), []).append(one)
    return found


def group_of(one: Execution) -> Group:
    """The group of an execution."""
    return one.arm, one.capture, one.task, one.repeat


def shown_of(one: Executed) -> dict[str, object]:
    """What of an execution is compared: everything but its time, its length and its transcript."""
    return {"attempts": plain(one.attempts), "replacement": plain(one.replacement), "metrics": plain(one.metrics)}


def result_of(members: Sequence[tuple[str, object]]) -> bytes:
    """The bytes that two runs of a group are compared by, from its conditions in their order."""
    return canonical_bytes([[condition, shown] for condition, shown in members])


def file_digests(spec: StudySpec) -> dict[str, str]:
    """The digests of the files that the study names, by their place in it."""
    named: dict[str, Path | None] = {}
    for capture in spec.captures:
        named |= {f"{capture.name}.candidate": capture.candidate, f"{capture.name}.reference": capture.reference}
    named |= {one.name: one.reference for one in spec.environments}
    return {name: digest(path.read_bytes()) for name, path in named.items() if path is not None}
