"""`veristate challenge`: run a committed step again and judge what was claimed."""

import json
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from veristate.attest import Export, Home, Recorder, export_run, read_export, read_trust, unix_seconds
from veristate.attest.challenge import (
    Calibrated,
    Calibration,
    Finding,
    Judgement,
    Plan,
    Step,
    StepRerun,
    challenge_seed,
    challenge_step,
    read_step,
    rerun_of,
    rerun_seeds,
)
from veristate.core import InputError, TamperError
from veristate.interfaces.cli import options as given

SCREENING = "veristate.screening.challenging"
_CODES = {Finding.CONSISTENT: 0, Finding.INCONSISTENT: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """How a step is run again here, and what this machine's environment is."""

    rerun: StepRerun
    environment: Callable[[Mapping[str, bytes]], Mapping[str, str]]


def command(
    run: Annotated[Path, typer.Argument(help="An export, or the store of a run on this machine.")],
    step: Annotated[str, typer.Argument(help="Its place in the log, its execution, or its stage.")],
    rerun: Annotated[
        str | None,
        typer.Option(help="module:function that runs the stage again; screenings know their own."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="Whom to believe: logs, witnesses, quorum (C2SP tlog-policy).")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="The plan of the path test.")] = None,
    calibration: Annotated[Path | None, typer.Option(help="Its calibration, which the step's policy names.")] = None,
    environment: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of this environment, as the policy names it.")
    ] = None,
    drifted: Annotated[bool, typer.Option("--drifted", help="Your canaries no longer repeat: accuse nobody.")] = False,
    seed: Annotated[str | None, typer.Option(help="Hexadecimal seed of an earlier challenge, to repeat it.")] = None,
    json_output: given.Json = False,
) -> None:
    """Run a committed step again and judge it: exit 0 consistent, 3 inconsistent, 5 anything that accuses nobody.

    The code of --rerun comes from you, never from the export.
    """
    export = _read(run, policy)
    chosen = read_step(export, step)
    runner = _runner(rerun, chosen)
    inputs = {name: data for name, data in chosen.inputs.items() if data is not None}
    here = dict(runner.environment(inputs)) if len(inputs) == len(chosen.inputs) else {}
    beginning = bytes.fromhex(_hexadecimal(seed)) if seed else _beginning(export, chosen)
    # What runs again may print; stdout is ours.
    with redirect_stdout(sys.stderr):
        judgement = challenge_step(
            chosen,
            runner.rerun,
            rerun_seeds(beginning, chosen.policy.reruns_upper),
            environment=here | _pairs(environment or []),
            calibrated=_calibrated(plan, calibration),
            drifted=drifted,
        )
    if json_output:
        typer.echo(json.dumps(_content(chosen, judgement, beginning)))
    else:
        typer.echo("\n".join(_said(chosen, judgement, beginning)))
    raise typer.Exit(_CODES.get(judgement.finding, 5))


def _read(run: Path, policy: Path | None) -> Export:
    """The export, nothing wrong with it; made on the spot for a store of this machine."""
    if policy is not None and not policy.is_file():
        raise InputError(f"--policy {policy}: no such file; it names the logs and witnesses to believe")
    trust = read_trust(policy) if policy else None
    if not run.is_dir():
        return read_export(run, trust, now=unix_seconds()).require()
    if not (run / "keys").is_dir():
        raise InputError(f"{run}: nothing was committed to there")
    with tempfile.TemporaryDirectory() as folder, Recorder.open(run) as recorder:
        export_run(Home.open(recorder), Path(folder) / "run.zip")
        return read_export(Path(folder) / "run.zip", trust, now=unix_seconds()).require()


def _runner(name: str | None, step: Step) -> _Runner:
    if name is None:
        if step.commitment.stage != "veristate.screening":
            raise InputError(f"give --rerun module:function, which runs {step.commitment.stage} again")
        module = import_module(SCREENING)
        return _Runner(rerun=module.rerun, environment=module.environment)
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--rerun {name}: {error}; name your own as module:function") from error
    # A stage knows its own arguments; any other function takes inputs and seed.
    function = rerun_of(found) if hasattr(found, "__wrapped__") else found
    return _Runner(rerun=function, environment=getattr(found, "environment", lambda _inputs: {}))


def _beginning(export: Export, step: Step) -> bytes:
    """The seed that follows from a witnessed head; without a witness a fresh one, which nobody could foresee either."""
    if not export.cosigned or not export.heads:
        return secrets.token_bytes(32)
    return challenge_seed(export.heads[-1].encode(), max(export.cosigned.values()), step.commitment.digest)


def _calibrated(plan: Path | None, calibration: Path | None) -> Calibrated | None:
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


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(equals for _, equals, _ in pairs):
        raise InputError("--environment takes NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _hexadecimal(text: str) -> str:
    try:
        bytes.fromhex(text)
    except ValueError as error:
        raise InputError(f"--seed {text!r} is not hexadecimal") from error
    return text


def _content(step: Step, judgement: Judgement, beginning: bytes) -> dict[str, object]:
    return {
        "verdict": str(judgement.finding),
        "reason": judgement.reason,
        "stage": step.commitment.stage,
        "execution": step.commitment.execution,
        "commitment": step.commitment.digest,
        "metric": step.policy.metric,
        "rule": step.policy.threshold_rule,
        "reruns": judgement.reruns,
        "alpha": judgement.alpha,
        "largest": judgement.largest,
        "critical": judgement.critical,
        "detectable": judgement.detectable,
        "seed": beginning.hex(),
    }


def _said(step: Step, judgement: Judgement, beginning: bytes) -> list[str]:
    lines = [
        f"{judgement.finding.upper()}: {step.commitment.stage}, execution {step.commitment.execution}.",
        f"  {judgement.reason}; {judgement.reruns} reruns, metric {step.policy.metric}, "
        f"rule {step.policy.threshold_rule}.",
    ]
    if judgement.finding is Finding.INCONSISTENT:
        lines.append(f"  At most a share of {judgement.alpha} of honest executions is ever accused so.")
    if judgement.finding is Finding.CONSISTENT and judgement.detectable is not None:
        lines.append(
            f"  A fabrication nearer than {float(judgement.detectable):.3g} to honest outputs is found less often than "
            "in 4 of 5 challenges."
        )
    return [*lines, f"  Repeat it with --seed {beginning.hex()}."]
