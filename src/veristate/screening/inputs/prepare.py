"""From options to what will be computed: the predictor's spec, the candidates, and the rows that had to be left out."""

from dataclasses import dataclass, replace
from pathlib import Path

from veristate.core import InputError, Rule
from veristate.devices import Candidates, PredictorSpec, unreadable_inputs
from veristate.screening.cases import herg
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.table import Row, read_table

_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run's inputs. `names` are for people; `excluded` tells which rows were left out and why; `dropped` are the
    table's columns that no certificate speaks of, so that no agent is shown them.
    """

    spec: PredictorSpec
    candidates: Candidates
    names: tuple[str, ...]
    rules: tuple[Rule, ...]
    excluded: tuple[str, ...]
    dropped: tuple[str, ...]
    title: str

    def trusted_spec(self, device: str) -> PredictorSpec:
        """The same predictor on the trusted device."""
        return replace(self.spec, device=device)


def prepare(options: ScreeningOptions) -> Prepared:
    """The inputs of a run. Raises: InputError naming the row, column or option that can't be used."""
    path = herg.herg_table() if options.table is None else options.table
    spec, title = predictor_spec(options)
    table = read_table(path, options.id_column, options.smiles_column)
    rows = table.rows
    bad = set(unreadable_inputs(spec, tuple(row.smiles for row in rows)))
    excluded = tuple(_why(rows[i]) for i in sorted(bad))
    if excluded and options.strict:
        more = f" and {len(excluded) - _NAMED_AT_MOST} more" if len(excluded) > _NAMED_AT_MOST else ""
        raise InputError(f"{path}: {'; '.join(excluded[:_NAMED_AT_MOST])}{more} (--strict)")
    kept = [row for i, row in enumerate(rows) if i not in bad]
    if not kept:
        raise InputError(f"{path}: none of the {len(rows)} candidates can be read: {excluded[0]}")
    return Prepared(
        spec=spec,
        candidates=Candidates(ids=tuple(r.id for r in kept), inputs=tuple(r.smiles for r in kept)),
        names=tuple(r.name for r in kept),
        rules=options.rules(len(kept)),
        excluded=excluded,
        dropped=tuple(column for column in table.columns if column != options.id_column),
        title=title,
    )


def predictor_spec(options: ScreeningOptions) -> tuple[PredictorSpec, str]:
    """The spec and what a person calls it."""
    plain = PredictorSpec(kind="chemprop", dtype=options.dtype, device=options.device, batch=options.batch)
    first = options.predictor[0]
    if options.predictor == ("herg",):
        if options.digests or options.output is not None:
            raise InputError("--sha256 and --output are for checkpoints of your own; herg has its own pins")
        files = herg.herg_files()
        members = tuple(map(str, files.members))
        spec = replace(plain, members=members, digests=herg.MEMBER_DIGESTS, output=herg.OUTPUT)
        return spec, f"hERG blockade, {len(members)} Chemprop members of {herg.PACKAGE}"
    if len(options.predictor) == 1 and ":" in first and not Path(first).exists():
        if options.output is not None or options.unsafe_pickle:
            raise InputError("--output and --unsafe-pickle are for checkpoints; a factory gives scores itself")
        return replace(plain, kind="factory", factory=first, digests=options.digests), first
    members = _checkpoints(options.predictor)
    if options.digests and len(options.digests) != len(members):
        raise InputError(f"{len(members)} checkpoints need {len(members)} --sha256, not {len(options.digests)}")
    spec = replace(
        plain,
        members=members,
        digests=options.digests,
        output=options.output,
        unsafe_pickle=options.unsafe_pickle,
    )
    return spec, f"{len(members)} Chemprop checkpoints"


def _checkpoints(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The checkpoint files; a folder stands for the .pt and .ckpt files in it, in order of name."""
    found: list[str] = []
    for text in paths:
        path = Path(text)
        inside = sorted(p for p in path.iterdir() if p.suffix in (".pt", ".ckpt")) if path.is_dir() else [path]
        missing = not inside or not all(p.is_file() for p in inside)
        if missing:
            raise InputError(
                f"--predictor {text}: expected herg, module:factory, a checkpoint file or a folder of them"
            )
        found += [str(p.absolute()) for p in inside]
    return tuple(found)


def _why(row: Row) -> str:
    return (
        f"line {row.line} ({row.id}): SMILES {row.smiles!r} can't be read"
        if row.smiles
        else (f"line {row.line} ({row.id}): no SMILES")
    )
