"""Running a committed evaluation again, from the commitment and the task as it lies here."""

import json
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from veristate.attest import environment_of
from veristate.core import InputError, UndecidedError, digest
from veristate.research.evaluating import evaluate
from veristate.research.processes import Launch
from veristate.research.running.committing import LIBRARIES, said_of
from veristate.research.running.opening import task_digest
from veristate.research.running.working import campaign_sandbox
from veristate.research.tasks import Task, bundled_tasks, read_task


def rerun(
    inputs: Mapping[str, bytes], _seed: bytes, *, folder: Path | None = None, unconfined: bool = False
) -> bytes | None:
    """The judgement of a committed candidate by the task as it lies here: a bundled one, or that in `folder`; None when
    the evaluator fails here, or its arithmetic is flagged.

    An evaluator may run what the candidate holds: without a sandbox that is done only when the user wants it
    `unconfined`.
    Raises: UndecidedError when the same task is not here, or no sandbox; InputError for inputs that are none of an
    evaluation.
    """
    try:
        said = json.loads(inputs["evaluator"])
        task, audited, checked = _task(said, folder), bool(said["audit"]), bool(said["checked"])
        listed = [(bytes.fromhex(path).decode("utf-8", "surrogateescape"), name) for path, name in _listed(inputs)]
        files = [(path, inputs[f"file {place}"], name) for place, (path, name) in enumerate(listed)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"the committed inputs are none of an evaluation: {error!r}") from error
    code = task.audit if audited else task.evaluator
    if code is None:
        raise InputError(f"the committed inputs are none of an evaluation: the task {task.name} has no audit")
    confine = campaign_sandbox(task) or (_unconfined if unconfined else None)
    if confine is None:
        raise UndecidedError(
            "no sandbox here (bubblewrap is missing or may not be used), and an evaluator may run what the candidate "
            "holds; install bubblewrap, or run it unconfined with --unconfined if you trust whoever made the export"
        )
    with tempfile.TemporaryDirectory() as above:
        candidate, scratch = Path(above, "candidate"), Path(above, "run")
        candidate.mkdir()
        scratch.mkdir()
        for path, data, name in files:
            _write(candidate, path, data, name)
        judged = evaluate(
            task,
            code,
            candidate=candidate,
            scratch=scratch,
            mark=uuid.uuid4().hex,
            confine=confine,
            checked=checked,
        )
    return None if judged.status == "failed" or judged.arithmetic == "FLAG" else said_of(judged)


def environment(_inputs: Mapping[str, bytes]) -> dict[str, str]:
    """This machine's, by the names that a policy of an evaluation gives."""
    return environment_of(*LIBRARIES)


def recorded_folder(inputs: Mapping[str, bytes]) -> Path:
    """Where the recorder had the task. Raises: InputError for inputs that are none of an evaluation."""
    try:
        return Path(json.loads(inputs["evaluator"])["folder"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"the committed inputs are none of an evaluation: {error!r}") from error


def _task(said: Mapping[str, Any], folder: Path | None) -> Task:
    bundled = bundled_tasks().get(said["task"])
    where = folder or bundled
    if where is None:
        raise UndecidedError(f"the task {said['task']} does not come with veristate; give its folder with --folder")
    task = read_task(where)
    if task_digest(task) != said["task_digest"]:
        raise UndecidedError(
            f"the task in {where} is not the one that was evaluated by (its files or modules differ); give that one "
            "with --folder"
        )
    return task


def _listed(inputs: Mapping[str, bytes]) -> list[tuple[str, str]]:
    return [(path, name) for path, name in json.loads(inputs["candidate"])]


def _write(folder: Path, path: str, data: bytes, name: str) -> None:
    """Writes a file of the candidate. Raises: InputError for a path that leads out of `folder`, can't be written beside
    the others, or has other bytes.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or digest(data) != name:
        raise InputError(f"the committed candidate has a file {path!r} that is no file of a candidate")
    target = folder.joinpath(*parts)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise InputError(f"the committed candidate's file {path!r} can't be written: {error.strerror}") from error


def _unconfined(launch: Launch) -> Launch:
    return launch
