"""What `veristate challenge` and its canaries share: reading a run, and how its steps are run again here."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from veristate.attest import Export, Home, export_run, read_export, unix_seconds
from veristate.attest.challenge import NO_MODELS, Calibrated, Calibration, MetricModels, Plan, Step, StepRerun, rerun_of
from veristate.core import InputError, TamperError, UndecidedError
from veristate.interfaces.cli.opening import open_recorder, read_policy

P = ParamSpec("P")
T = TypeVar("T")

# Stages that veristate commits to by itself, and the module that runs each again.
SCREENING = "veristate.screening.challenging"
RESEARCH = "veristate.research.running.challenging"
AUDIT = "veristate.audit.study.challenging"
_OURS = {
    "veristate.screening": SCREENING,
    "veristate.research.evaluation": RESEARCH,
    "veristate.research.audit": RESEARCH,
    "veristate.audit.group": AUDIT,
}
_UNREPEATED = {
    "veristate.research.failed-evaluation": "the evaluator itself failed, or its arithmetic was flagged: "
    "that judges no candidate",
    "veristate.audit.failed-group": "a model gave no reply in one of its attempts: that repeats nowhere",
}

Run = Annotated[Path, typer.Argument(help="An export, or the store of a run on this machine.")]
StepName = Annotated[str, typer.Argument(help="Its place in the log, its execution, or its stage.")]
RerunName = Annotated[
    str | None,
    typer.Option("--rerun", help="module:function that runs the stage again; veristate's own stages know theirs."),
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Your copy of a step's task or study, where it doesn't come with veristate."),
]
Unconfined = Annotated[
    bool,
    typer.Option("--unconfined", help="Run the candidate of an evaluation even without a sandbox: you trust it."),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="Whom to believe: logs, witnesses, quorum (C2SP tlog-policy).")
]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="The plan of the path test.")]
CalibrationFile = Annotated[
    Path | None, typer.Option("--calibration", help="Its calibration, which the step's policy names.")
]
Environment = Annotated[
    list[str] | None,
    typer.Option("--environment", help="NAME=VALUE of this environment, as the policy names it."),
]
Seed = Annotated[str | None, typer.Option("--seed", help="Hexadecimal seed of an earlier challenge, to repeat it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How a step is run again here, what this machine's environment is, and the models that its metric needs."""

    rerun: StepRerun
    environment: Callable[[Mapping[str, bytes]], Mapping[str, str]]
    models: MetricModels = NO_MODELS

    def here(self, step: Step, pairs: list[str] | None) -> dict[str, str]:
        """The environment for a step, also as far as the user names it; what is not handed out tells nothing."""
        inputs = {name: data for name, data in step.inputs.items() if data is not None}
        own = dict(self.environment(inputs)) if len(inputs) == len(step.inputs) else {}
        return own | _pairs(pairs or [])


def read_run(run: Path, policy: Path | None) -> Export:
    """The export, nothing wrong with it; made on the spot for a store of this machine."""
    trust = read_policy(policy) if policy else None
    if not run.is_dir():
        return read_export(run, trust, now=unix_seconds()).require()
    with tempfile.TemporaryDirectory() as folder, open_recorder(run) as recorder:
        export_run(Home.open(recorder), Path(folder) / "run.zip")
        return read_export(Path(folder) / "run.zip", trust, now=unix_seconds()).require()


def runner_of(
    name: str | None, step: Step, *, folder: Path | None, recorded_here: bool, unconfined: bool = False
) -> Runner:
    """The runner that `name` names, or veristate's own for its stages.

    Code comes from the user and from what is installed, never from an export: where the recorder had a task or a study
    is looked at only when the run was recorded on this machine. A candidate runs without a sandbox only `unconfined`.
    """
    if name is not None:
        return _named(name)
    stage = step.commitment.stage
    if stage in _UNREPEATED:
        return Runner(rerun=partial(_refuse, _UNREPEATED[stage]), environment=lambda _inputs: {})
    if stage not in _OURS:
        raise InputError(f"give --rerun module:function, which runs {stage} again")
    module = import_module(_OURS[stage])
    rerun: StepRerun = module.rerun
    if stage != "veristate.screening":
        inputs = {name: data for name, data in step.inputs.items() if data is not None}
        known = module.recorded_folder(inputs) if recorded_here and len(inputs) == len(step.inputs) else None
        options: dict[str, Any] = {"folder": folder or known}
        if _OURS[stage] == RESEARCH:
            options["unconfined"] = unconfined
            if unconfined:
                _warn_unconfined()
        rerun = partial(module.rerun, **options)
    return Runner(rerun=_quiet(rerun), environment=module.environment)


def read_calibrated(plan: Path | None, calibration: Path | None) -> Calibrated | None:
    """The plan and the calibration in those files. Raises: InputError for one without the other, or what is none."""
    if plan is None and calibration is None:
        return None
    if plan is None or calibration is None:
        raise InputError("--plan and --calibration belong together")
    try:
        return Calibrated(
            plan=Plan.from_bytes(plan.read_bytes()), calibration=Calibration.from_bytes(calibration.read_bytes())
        )
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error
    except TamperError as error:
        raise InputError(f"--plan {plan}, --calibration {calibration}: {error}") from error


def _named(name: str) -> Runner:
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--rerun {name}: {error}; name your own as module:function") from error
    # A stage knows its own arguments; any other function takes inputs and seed. What else it brings it carries along.
    function = rerun_of(found) if hasattr(found, "__wrapped__") else found
    return Runner(
        rerun=_quiet(function),
        environment=getattr(found, "environment", lambda _inputs: {}),
        models=MetricModels(
            **{part: _quiet(getattr(found, part)) for part in ("embed", "weigh") if hasattr(found, part)}
        ),
    )


def _quiet(function: Callable[P, T]) -> Callable[P, T]:
    """The same, whose prints don't reach stdout: that is ours."""

    def quiet(*arguments: P.args, **named: P.kwargs) -> T:
        with redirect_stdout(sys.stderr):
            return function(*arguments, **named)

    return quiet


def _warn_unconfined() -> None:
    from veristate.research.sandbox.confining import NO_SANDBOX, find_sandbox

    if find_sandbox() is None:
        typer.echo(NO_SANDBOX, err=True)


def _refuse(why: str, _inputs: Mapping[str, bytes], _seed: bytes) -> bytes | None:
    raise UndecidedError(why)


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(equals for _, equals, _ in pairs):
        raise InputError("--environment takes NAME=VALUE")
    return {name: value for name, _, value in pairs}
