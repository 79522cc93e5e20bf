"""`veristate challenge canary`: steps that are known to repeat, made by a recorder, rerun by its challengers."""

import json
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Home
from veristate.attest.challenge import (
    Canary,
    CheckedCanary,
    canaries_in,
    check_canaries,
    make_canary,
    read_step,
    rerun_seeds,
)
from veristate.core import EnvironmentUnusableError, InputError
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli import reruns
from veristate.interfaces.cli.opening import open_recorder

app = typer.Typer(
    help="Canaries: steps known to repeat. When one no longer does, the environment drifted and nobody is accused.",
    no_args_is_help=True,
)


@app.command()
def make(
    step: reruns.StepName,
    store: given.StoreFolder = Path(".veristate"),
    rerun: reruns.RerunName = None,
    folder: reruns.Folder = None,
    unconfined: reruns.Unconfined = False,
    plan: reruns.PlanFile = None,
    calibration: reruns.CalibrationFile = None,
    environment: reruns.Environment = None,
    json_output: given.Json = False,
) -> None:
    """Run a step of this store again and, where it repeats, commit to that as a canary. Take a small step.

    Exit 5 when it does not repeat. Challengers run it again before any other step of its stage.
    """
    chosen = read_step(reruns.read_run(store, None), step)
    runner = reruns.runner_of(rerun, chosen, folder=folder, recorded_here=True, unconfined=unconfined)
    with open_recorder(store) as recorder:
        made = make_canary(
            recorder,
            chosen,
            runner.rerun,
            rerun_seeds(secrets.token_bytes(32), chosen.policy.reruns_upper),
            environment=runner.here(chosen, environment),
            calibrated=reruns.read_calibrated(plan, calibration),
            models=runner.models,
        )
        done = Home.open(recorder).deliver()
    said = {"stage": made.commitment.stage, "execution": made.commitment.execution, "of": chosen.commitment.digest}
    if json_output:
        typer.echo(json.dumps(said | {"logged": done.delivery.logged}))
        return
    typer.echo(f"canary of {said['stage']}, execution {said['execution']}: committed to.")
    held = [*done.delivery.unreachable.values(), *done.delivery.refused.values()]
    typer.echo(f"PENDING: {held[0]}" if held else "It goes along with every export from now on.")


@app.command(name="list")
def list_them(run: reruns.Run = Path(".veristate"), json_output: given.Json = False) -> None:
    """List the canaries of an export or a store."""
    found = canaries_in(reruns.read_run(run, None))
    rows = [
        {
            "place": one.place,
            "stage": one.step.commitment.stage,
            "execution": one.step.commitment.execution,
            "of": one.of,
            "time": one.step.commitment.time,
        }
        for one in found
    ]
    if json_output:
        typer.echo(json.dumps({"canaries": rows}))
        return
    lines = [f"place {r['place']:>6}  {r['stage']}, execution {r['execution']}, of {r['time']}" for r in rows]
    typer.echo("\n".join(lines) or "no canaries; make one with `veristate challenge canary make STEP`.")


@app.command()
def check(
    run: reruns.Run = Path(".veristate"),
    rerun: reruns.RerunName = None,
    folder: reruns.Folder = None,
    unconfined: reruns.Unconfined = False,
    policy: reruns.PolicyFile = None,
    stage: Annotated[str | None, typer.Option(help="Only those of this stage.")] = None,
    plan: reruns.PlanFile = None,
    calibration: reruns.CalibrationFile = None,
    environment: reruns.Environment = None,
    json_output: given.Json = False,
) -> None:
    """Run all canaries again: exit 0 when each repeats, 6 when one does not, 5 when one could not be run."""
    found = canaries_in(reruns.read_run(run, policy), stage)
    if not found:
        raise InputError(f"{run} holds no canaries{f' of {stage}' if stage else ''}; make one with `canary make`")
    calibrated = reruns.read_calibrated(plan, calibration)
    checked: list[CheckedCanary] = []
    for one in found:
        runner = reruns.runner_of(rerun, one.step, folder=folder, recorded_here=run.is_dir(), unconfined=unconfined)
        checked += check_canaries(
            [one],
            runner.rerun,
            lambda canary: rerun_seeds(secrets.token_bytes(32), canary.step.policy.reruns_upper),
            environment=partial(_here, runner, environment),
            calibrated=calibrated,
            models=runner.models,
        )
    typer.echo(json.dumps({"canaries": contents(checked)}) if json_output else "\n".join(lines(checked)))
    if any(one.drifted for one in checked):
        raise typer.Exit(EnvironmentUnusableError.exit_code)
    raise typer.Exit(0 if all(one.judgement.finding == "consistent" for one in checked) else 5)


def _here(runner: reruns.Runner, pairs: list[str] | None, one: Canary) -> dict[str, str]:
    return runner.here(one.step, pairs)


def contents(checked: Sequence[CheckedCanary]) -> list[dict[str, object]]:
    """The canaries as JSON has them."""
    return [
        {
            "place": one.canary.place,
            "execution": one.canary.step.commitment.execution,
            "verdict": str(one.judgement.finding),
            "reason": one.judgement.reason,
            "drifted": one.drifted,
        }
        for one in checked
    ]


def lines(checked: Sequence[CheckedCanary]) -> list[str]:
    """The canaries in words."""
    return [
        f"at place {one.canary.place}: "
        + ("DRIFTED" if one.drifted else "repeats" if one.judgement.finding == "consistent" else "not run")
        + f", {one.judgement.finding} ({one.judgement.reason})."
        for one in checked
    ]
