"""`veristate challenge`: run a committed step again and judge what was claimed."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Export
from veristate.attest.challenge import (
    Canary,
    CheckedCanary,
    Finding,
    Judgement,
    Step,
    canaries_in,
    challenge_seed,
    challenge_step,
    check_canaries,
    read_step,
    rerun_seeds,
)
from veristate.core import InputError, digest
from veristate.interfaces.cli import canary, reruns
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.groups import RunFirst

_CODES = {Finding.CONSISTENT: 0, Finding.INCONSISTENT: 3}

app = typer.Typer(
    cls=RunFirst,
    help="Run a committed step again and judge it: challenge RUN STEP. Its canaries: challenge canary.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(canary.app, name="canary")


@app.command()
def run(
    run: reruns.Run,
    step: reruns.StepName,
    rerun: reruns.RerunName = None,
    folder: reruns.Folder = None,
    unconfined: reruns.Unconfined = False,
    policy: reruns.PolicyFile = None,
    plan: reruns.PlanFile = None,
    calibration: reruns.CalibrationFile = None,
    environment: reruns.Environment = None,
    canaries: Annotated[
        Path | None, typer.Option(help="Believe the canaries of this export or store, not the recorder's own.")
    ] = None,
    drifted: Annotated[bool, typer.Option("--drifted", help="Your environment drifted: accuse nobody.")] = False,
    seed: reruns.Seed = None,
    json_output: given.Json = False,
) -> None:
    """Run a committed step again and judge it: exit 0 consistent, 3 inconsistent, 5 anything that accuses nobody.

    The run's canaries are run again first; when one no longer repeats, the environment here drifted. The code of
    --rerun and of --folder comes from you, never from the export.
    """
    export = reruns.read_run(run, policy)
    chosen = read_step(export, step)
    recorded_here = run.is_dir()
    runner = reruns.runner_of(rerun, chosen, folder=folder, recorded_here=recorded_here, unconfined=unconfined)
    here = runner.here(chosen, environment)
    calibrated = reruns.read_calibrated(plan, calibration)
    beginning = bytes.fromhex(_hexadecimal(seed)) if seed else _beginning(export, chosen)
    checked = check_canaries(
        _canaries(export if canaries is None else reruns.read_run(canaries, None), chosen),
        runner.rerun,
        lambda one: rerun_seeds(bytes.fromhex(digest(beginning + one.of.encode())), one.step.policy.reruns_upper),
        environment=lambda _one: here,
        calibrated=calibrated,
        models=runner.models,
    )
    judgement = challenge_step(
        chosen,
        runner.rerun,
        rerun_seeds(beginning, chosen.policy.reruns_upper),
        environment=here,
        calibrated=calibrated,
        models=runner.models,
        drifted=drifted or any(one.drifted for one in checked),
    )
    if json_output:
        typer.echo(json.dumps(_content(chosen, judgement, beginning) | {"canaries": canary.contents(checked)}))
    else:
        typer.echo("\n".join([*_said(chosen, judgement, beginning), *_canaries_said(checked)]))
    raise typer.Exit(_CODES.get(judgement.finding, 5))


def _canaries(export: Export, chosen: Step) -> list[Canary]:
    """Those of the step's stage that are neither itself nor repeat it."""
    mine = chosen.commitment
    found = canaries_in(export, mine.stage)
    return [one for one in found if mine.inputs != one.step.commitment.inputs]


def _beginning(export: Export, step: Step) -> bytes:
    """The seed that follows from a witnessed head; without a witness a fresh one, which nobody could foresee either."""
    if not export.cosigned or not export.heads:
        return secrets.token_bytes(32)
    return challenge_seed(export.heads[-1].encode(), max(export.cosigned.values()), step.commitment.digest)


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


def _canaries_said(checked: Sequence[CheckedCanary]) -> list[str]:
    return [f"  Canary {line}" for line in canary.lines(checked)]
