"""`veristate screen`: from a table of candidates to a committed decision."""

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from veristate.core import PolicyName, Recovery
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.options import FAULT, OUTPUT, RULES, TRUST
from veristate.interfaces.cli.progress import showing_progress


def command(
    candidates: given.Candidates = None,
    predictor: given.Predictor = None,
    sha256: given.Sha256 = None,
    unsafe_pickle: given.UnsafePickle = False,
    output: given.OutputColumn = None,
    id_column: given.IdColumn = "id",
    smiles_column: given.SmilesColumn = "smiles",
    strict: given.Strict = False,
    top: Annotated[
        int | None, typer.Option(help="Select the K highest scores. Default: 20 %.", rich_help_panel=RULES)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Send scores of at least this to testing. Default: 0.5.", rich_help_panel=RULES)
    ] = None,
    nearest: Annotated[
        int | None, typer.Option(help="Also choose the K scores nearest to the threshold.", rich_help_panel=RULES)
    ] = None,
    calibration_temperature: given.Temperature = 1.0,
    dtype: given.DtypeOption = "fp32",
    batch: given.Batch = 64,
    device: given.Device = "cpu",
    trusted_device: given.TrustedDevice = "cpu",
    contract: given.ContractOption = "device",
    delta: given.Delta = "1e-9",
    strategy: given.StrategyOption = "auto",
    policy: Annotated[
        PolicyName, typer.Option(help="What is recomputed first; all end in full.", rich_help_panel=TRUST)
    ] = "full",
    epsilon: Annotated[
        float | None, typer.Option(help="Margin of r1m. Default: veristate calibrate's.", rich_help_panel=TRUST)
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Most units to recompute; past it nothing commits.", rich_help_panel=TRUST)
    ] = None,
    block: given.Block = 32,
    draws: given.Draws = 2,
    recovery: Annotated[
        Recovery,
        typer.Option(
            help="hold: the agent reads certified values only. restore, replace: it reads at once and is "
            "taken back, or only gets a corrected file.",
            rich_help_panel=TRUST,
        ),
    ] = "hold",
    agent: Annotated[str, typer.Option(help="keeps, rereads, or module:factory.", rich_help_panel=TRUST)] = "keeps",
    request_id: Annotated[
        str | None, typer.Option(help="Name of the request; it is committed once.", rich_help_panel=TRUST)
    ] = None,
    inject: Annotated[
        str | None,
        typer.Option(
            help="Simulate a fault: case1, case2, bitflip, multibit, stripe, tile, stuck, replay:FILE.",
            rich_help_panel=FAULT,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fault.", rich_help_panel=FAULT)] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Say what would have been decided unchecked.", rich_help_panel=OUTPUT)
    ] = False,
    store: given.StoreFolder = Path(".veristate"),
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for selected.csv, triage.csv and certificate.json.", rich_help_panel=OUTPUT),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.", rich_help_panel=OUTPUT)] = None,
    json_output: given.Json = False,
) -> None:
    """Score candidates on a device that is not trusted, check it, repair it, and commit a certified decision once."""
    # Imported here so that `veristate --help` needs neither numpy nor torch.
    from veristate.interfaces.cli.wording import exit_code, opening_line, summary_lines
    from veristate.interfaces.report import render_report
    from veristate.screening import (
        ScreeningOptions,
        left_from_earlier,
        prepare_folder,
        run_screening,
        write_outputs,
        write_whole,
    )

    options = ScreeningOptions(
        table=candidates,
        predictor=tuple(predictor or ("herg",)),
        digests=tuple(sha256 or ()),
        unsafe_pickle=unsafe_pickle,
        output=output,
        id_column=id_column,
        smiles_column=smiles_column,
        top=top,
        threshold=threshold,
        nearest=nearest,
        temperature=calibration_temperature,
        batch=batch,
        dtype=dtype,
        device=device,
        trusted_device=trusted_device,
        contract=contract,
        delta=delta,
        strategy=strategy,
        policy=policy,
        epsilon=epsilon,
        budget=budget,
        block=block or None,
        draws=draws,
        recovery=recovery,
        agent=agent,
        request_id=request_id,
        inject=inject,
        seed=seed,
        compare=compare,
        strict=strict,
        store=store,
    )
    for folder in (out, report.parent if report else None):
        if folder is not None:
            prepare_folder(folder)
    if not json_output:
        typer.echo(opening_line(options))
    # A user's agent or factory may print: with --json, stdout holds our object alone.
    aside = redirect_stdout(sys.stderr) if json_output else nullcontext()
    with aside, showing_progress(quiet=json_output) as progress:
        result = run_screening(options, progress=progress)
    written = write_outputs(result, out) if out else ()
    if report:
        written = (*written, write_whole(report, render_report(result)))
    if json_output:
        typer.echo(json.dumps(result.to_json()))
    else:
        stale = left_from_earlier(out) if out and not written else ()
        lines = [f"Not of this run: {path}" for path in stale] + [f"Wrote {path}" for path in written]
        typer.echo("\n".join([*summary_lines(result), *lines]))
    raise typer.Exit(exit_code(result))
