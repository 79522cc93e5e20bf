"""`veristate calibrate`: set epsilon for `screen --policy r1m`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.options import FAULT


def command(
    candidates: given.Candidates = None,
    predictor: given.Predictor = None,
    sha256: given.Sha256 = None,
    unsafe_pickle: given.UnsafePickle = False,
    output: given.OutputColumn = None,
    id_column: given.IdColumn = "id",
    smiles_column: given.SmilesColumn = "smiles",
    calibration_temperature: given.Temperature = 1.0,
    dtype: given.DtypeOption = "fp32",
    batch: given.Batch = 64,
    device: given.Device = "cpu",
    trusted_device: given.TrustedDevice = "cpu",
    block: given.Block = 32,
    draws: given.Draws = 2,
    fault: Annotated[
        list[str] | None, typer.Option(help="Simulated faults. Default: case1 and case2.", rich_help_panel=FAULT)
    ] = None,
    sources: Annotated[int, typer.Option(help="Sources per fault.", rich_help_panel=FAULT)] = 8,
    first_seed: Annotated[int, typer.Option(help="Seed of the first source of each.", rich_help_panel=FAULT)] = 1,
    store: given.StoreFolder = Path(".veristate"),
    json_output: given.Json = False,
) -> None:
    """Set epsilon for R1+M from a series of SIMULATED faults: twice the largest residual that R1 leaves."""
    from veristate.screening import ScreeningOptions
    from veristate.screening import calibrate as run_series

    options = ScreeningOptions(
        table=candidates,
        predictor=tuple(predictor or ("herg",)),
        digests=tuple(sha256 or ()),
        unsafe_pickle=unsafe_pickle,
        output=output,
        id_column=id_column,
        smiles_column=smiles_column,
        temperature=calibration_temperature,
        dtype=dtype,
        batch=batch,
        device=device,
        trusted_device=trusted_device,
        block=block or None,
        draws=draws,
        store=store,
    )
    faults = tuple(fault or ("case1", "case2"))
    seeds = range(first_seed, first_seed + sources)
    found = run_series(options, faults, seeds, note=lambda text: typer.echo(text, err=True))
    if json_output:
        lines = [{"fault": f, "seed": s, "residual": r} for f, s, r in found.residuals]
        typer.echo(json.dumps({"epsilon": found.epsilon, "contract": found.contract, "sources": lines}))
    else:
        typer.echo(f"epsilon {found.epsilon!r} from {len(found.residuals)} simulated sources, kept in {store}")
