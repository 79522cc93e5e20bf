"""The options that several subcommands share, with their help."""

from pathlib import Path
from typing import Annotated

import typer

from veristate.core import ContractName, Dtype, StrategyName

INPUT, RULES, RUN, TRUST, FAULT, OUTPUT = "Input", "Decision", "Execution", "Trust", "Simulation", "Output"

Candidates = Annotated[
    Path | None,
    typer.Argument(help="Table of candidates (CSV). Without it: 2,845 approved drugs from the admet-ai wheel."),
]
Predictor = Annotated[
    list[str] | None,
    typer.Option(help="herg, module:factory, or checkpoints (several, or a folder).", rich_help_panel=INPUT),
]
Sha256 = Annotated[list[str] | None, typer.Option(help="Digest of each checkpoint, in order.", rich_help_panel=INPUT)]
UnsafePickle = Annotated[
    bool,
    typer.Option("--unsafe-pickle", help="Open checkpoints without digest (journaled).", rich_help_panel=INPUT),
]
OutputColumn = Annotated[
    int | None, typer.Option("--output", help="Output column of a checkpoint that is the score.", rich_help_panel=INPUT)
]
IdColumn = Annotated[str, typer.Option(help="Column of identifiers.", rich_help_panel=INPUT)]
SmilesColumn = Annotated[
    str, typer.Option(help="Column of SMILES, or of what the factory reads.", rich_help_panel=INPUT)
]
Strict = Annotated[bool, typer.Option("--strict", help="Unreadable candidates are an error.", rich_help_panel=INPUT)]
Temperature = Annotated[float, typer.Option(help="T of sigmoid(logit(p)/T) per member.", rich_help_panel=RULES)]
DtypeOption = Annotated[Dtype, typer.Option(help="Number format; bf16 by autocast.", rich_help_panel=RUN)]
Batch = Annotated[int, typer.Option(help="Candidates per batch.", rich_help_panel=RUN)]
Device = Annotated[str, typer.Option(help="The device that is not trusted.", rich_help_panel=RUN)]
TrustedDevice = Annotated[str, typer.Option(help="The device of the trusted executor.", rich_help_panel=TRUST)]
Block = Annotated[int, typer.Option(help="Rows of a column in one checksum; 0: all of them.", rich_help_panel=TRUST)]
Draws = Annotated[
    int,
    typer.Option(
        help="Random sign vectors a check, 1 to 16: s miss a cancelling error with 2^-s.", rich_help_panel=TRUST
    ),
]
ContractOption = Annotated[
    ContractName,
    typer.Option(
        help="What the true scores are. device: the bits of a healthy run on the trusted device. exact: exact "
        "arithmetic of the weights, certified as decisions. rounded: each layer rounded correctly to --dtype, the "
        "same on every machine. integer: whole numbers, for models that compute in them.",
        rich_help_panel=TRUST,
    ),
]
Delta = Annotated[
    str, typer.Option(help="Chance that an exact certificate may fail with, as a decimal.", rich_help_panel=TRUST)
]
StrategyOption = Annotated[
    StrategyName,
    typer.Option(
        help="How it is certified. probes: secret probes on exports, few units recomputed (exact). memo: all, equal "
        "environments once. full: all. auto: what is predicted to cost least.",
        rich_help_panel=TRUST,
    ),
]
StoreFolder = Annotated[Path, typer.Option(help="Folder of blobs, journal and commitments.", rich_help_panel=OUTPUT)]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout instead of text.", rich_help_panel=OUTPUT)
]
