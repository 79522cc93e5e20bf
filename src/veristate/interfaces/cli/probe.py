"""`veristate probe`: does a device compute what it must?"""

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veristate.core import EnvironmentUnusableError, FaultProvenError, InputError, VeristateError
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.options import OUTPUT, RUN
from veristate.interfaces.cli.progress import showing_progress

if TYPE_CHECKING:
    from veristate.devices import ProbeHistory, ProbeRun, Replayed


def command(
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:i. Default: cpu; with --replay the record's.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="How often all probes run, each time with new operands. Default: 1.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Go on with new operands for so long, instead of --iterations.")
    ] = None,
    number_format: Annotated[
        list[str] | None,
        typer.Option("--format", help="fp32, bf16, fp16, int8, fp8-e4m3, fp8-e5m2 or bytes. Default: all."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the operands. Default: drawn, and recorded.")] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Run only the failing probes of this record again.", rich_help_panel=RUN)
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the record. Default: beside the history, unless PASS.", rich_help_panel=OUTPUT
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            help="Folder of histories. Default: veristate/probes in the state folder.", rich_help_panel=OUTPUT
        ),
    ] = None,
    show_history: Annotated[
        bool, typer.Option("--show-history", help="Print past runs and run nothing.", rich_help_panel=OUTPUT)
    ] = False,
    json_output: given.Json = False,
) -> None:
    """Run computations with known results on a device: exit 0 PASS, 3 FAULT, 6 INCOMPLETE."""
    # Imported here so that `veristate --help` needs neither numpy nor torch.
    from veristate.devices import ProbeHistory, ProbeOptions, default_history, read_record, replay_failures, run_probes
    from veristate.interfaces.cli.probe_wording import history_lines, replay_lines, run_lines

    past = ProbeHistory(history or default_history())
    if show_history:
        found = past.read()
        shown = {"runs": list(found.runs), "broken": list(found.broken)}
        typer.echo(json.dumps(shown) if json_output else "\n".join(history_lines(found, past.folder)))
        raise typer.Exit(0)
    if replay is not None and any(option is not None for option in (iterations, seconds, number_format, seed)):
        raise InputError("--replay repeats what a record says: leave out --iterations, --seconds, --format and --seed")
    past.prepare()
    replayed: tuple[Replayed, ...] = ()
    if replay is not None:
        recorded = read_record(replay)
        with showing_progress(quiet=json_output) as progress:
            run, replayed = replay_failures(recorded.failures, device or recorded.device, progress=progress)
        lines = replay_lines(run, replayed, recorded.failed_probes)
    else:
        options = ProbeOptions(
            seed=secrets.randbits(32) if seed is None else seed,
            device=device or "cpu",
            iterations=iterations,
            seconds=seconds,
            formats=tuple(number_format or ()),
        )
        with showing_progress(quiet=json_output) as progress:
            run = run_probes(options, progress=progress)
        lines = run_lines(run)
    written, trouble = _kept(run, past, record, replay)
    if json_output:
        typer.echo(json.dumps(_as_json(run, replayed, written)))
    else:
        typer.echo("\n".join([*lines, *([f"Wrote {written}"] if written else [])]))
    if trouble is not None:
        typer.echo(f"veristate: {trouble}", err=True)
    raise typer.Exit(_exit_code(run, trouble))


def _kept(
    run: "ProbeRun", past: "ProbeHistory", record: Path | None, replay: Path | None
) -> tuple[Path | None, VeristateError | None]:
    """The record that was written, if one was, and what kept the disk from taking the rest."""
    from veristate.devices import ProbeVerdict, record_of
    from veristate.screening import write_whole

    target, written = record, None
    if target is None and run.verdict() is not ProbeVerdict.PASS:
        moment = run.started.replace(":", "").replace(".", "-")
        target = past.folder / "records" / f"{run.device.key}-{moment}.json"
    try:
        if target is not None:
            written = write_whole(target.absolute(), json.dumps(record_of(run), indent=1) + "\n")
        past.append(run, record=written, replay_of=replay.absolute() if replay else None)
    except VeristateError as error:
        return written, error
    return written, None


def _as_json(run: "ProbeRun", replayed: "tuple[Replayed, ...]", written: Path | None) -> dict[str, Any]:
    """The record itself, with where it was written and what a replay found."""
    from veristate.devices import record_of

    again = [
        {
            "probe": item.failure.probe.name,
            "iteration": item.failure.probe.iteration,
            "repetition": item.repetition.value,
            "wrong_then": item.failure.wrong,
            "wrong_now": item.again.wrong if item.again else 0,
            "common": item.common,
            "reason": item.reason,
        }
        for item in replayed
    ]
    return record_of(run) | {"record": str(written) if written else "", "replayed": again}


def _exit_code(run: "ProbeRun", trouble: VeristateError | None) -> int:
    """3 for a fault whatever else went wrong, then the trouble's own, then 0 or 6."""
    from veristate.devices import ProbeVerdict

    if run.verdict() is ProbeVerdict.FAULT:
        return FaultProvenError.exit_code
    if trouble is not None:
        return trouble.exit_code
    return 0 if run.verdict() is ProbeVerdict.PASS else EnvironmentUnusableError.exit_code
