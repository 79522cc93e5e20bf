"""`veristate calibrate`: set epsilon for `screen --policy r1m`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.interfaces.cli.screen import Dtype


def command(
    candidates: Annotated[Path | None, typer.Argument(help="Table of candidates (CSV), as for screen.")] = None,
    predictor: Annotated[list[str] | None, typer.Option(help="As for screen.")] = None,
    sha256: Annotated[list[str] | None, typer.Option(help="Digest of each checkpoint, in order.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="Number format.")] = "fp32",
    batch: Annotated[int, typer.Option(help="Candidates per batch.")] = 64,
    calibration_temperature: Annotated[float, typer.Option(help="T of sigmoid(logit(p)/T) per member.")] = 1.0,
    fault: Annotated[list[str] | None, typer.Option(help="Simulated faults of the series.")] = None,
    sources: Annotated[int, typer.Option(help="Sources per fault.")] = 8,
    first_seed: Annotated[int, typer.Option(help="Seed of the first source of each fault.")] = 1,
    store: Annotated[Path, typer.Option(help="Folder in which screen will look for it.")] = Path(".veristate"),
    json_output: Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of text.")] = False,
) -> None:
    """Set epsilon for R1+M from a series of SIMULATED faults: twice the largest residual that R1 leaves."""
    from veristate.screening import ScreeningOptions
    from veristate.screening import calibrate as run_series

    options = ScreeningOptions(
        table=candidates,
        predictor=tuple(predictor or ("herg",)),
        digests=tuple(sha256 or ()),
        dtype=dtype,
        batch=batch,
        temperature=calibration_temperature,
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
