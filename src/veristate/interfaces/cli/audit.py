"""`veristate audit`: run a study, go on with it, and show one of its groups."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veristate.core import UndecidedError, utc_now
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.committed import committed_in
from veristate.interfaces.cli.groups import RunFirst
from veristate.interfaces.cli.options import OUTPUT, RUN
from veristate.interfaces.cli.progress import showing_progress

if TYPE_CHECKING:
    from veristate.audit.study import Ran, StudyResults


app = typer.Typer(
    cls=RunFirst,
    help="Run a paired audit: audit STUDY.toml. Show one group: audit show RUN GROUP.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="The study (TOML). Running it again goes on where it stopped.")],
    folder: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of attempts and results. Default: the study's name beside it, with .run."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many new executions.", rich_help_panel=RUN)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML report. Default: report.html in the run's folder.", rich_help_panel=OUTPUT)
    ] = None,
    store: given.StoreFolder = Path(".veristate"),
    json_output: given.Json = False,
) -> None:
    """Run a study or go on with it: exit 0 done, 1 too few groups to compare, 5 attempts left."""
    # Imported here so that `veristate --help` needs neither numpy nor torch.
    from veristate.audit.study import (
        as_json,
        committing,
        deciders,
        open_bench,
        read_study,
        results_of,
        run_study,
        tables_of,
        texts_of,
    )
    from veristate.audit.tasks import Data
    from veristate.interfaces.cli.audit_wording import plan_lines, result_lines
    from veristate.interfaces.report.study import render_study
    from veristate.screening import write_whole

    text, spec = _read(study), read_study(study)
    place = folder or study.with_name(f"{study.stem}.run")
    with deciders(spec.agent) as make_decider, committed_in(store) as boundary:
        typer.echo(f"veristate: preparing {spec.name}: {spec.task}, {len(spec.captures)} captures", err=True)
        bench = open_bench(spec, Data.from_environment(), make_decider)
        with showing_progress(quiet=json_output) as progress:
            ran = run_study(
                spec,
                bench,
                place,
                clock=utc_now,
                limit=limit,
                announce=lambda plan: typer.echo("\n".join(plan_lines(spec, plan, place)), err=True),
                progress=progress,
                settle=committing(spec, text, study.parent, boundary),
            )
    results = results_of(spec, ran, bench.endpoints())
    tables = tables_of(bench.captures, results, bench.endpoints())
    told = as_json(spec, results, tables, complete=ran.complete)
    texts = texts_of(place, text, tables, told)
    page = render_study(spec, bench.captures, results, ran.plan, titles=bench.titles(), complete=ran.complete)
    texts[report or place / "report.html"] = page
    written = [write_whole(path, content) for path, content in texts.items()]
    if json_output:
        typer.echo(json.dumps(told | {"written": [str(path) for path in written]}))
    else:
        typer.echo("\n".join([*result_lines(spec, results, ran), f"Wrote {written[-1]} and {place}"]))
    raise typer.Exit(_exit_code(ran, results))


@app.command()
def show(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    group: Annotated[str | None, typer.Argument(help="ARM/CAPTURE/TASK/REPEAT. Without it: the groups' names.")] = None,
    json_output: given.Json = False,
) -> None:
    """Print one group of a run side by side: reference, candidate, restored."""
    from veristate.audit.study import read_run, sides_of
    from veristate.interfaces.cli.audit_wording import group_names, side_lines, sides_json

    held = read_run(run_folder)
    if group is None:
        names = group_names(held.executed)
        typer.echo(json.dumps({"groups": names}) if json_output else "\n".join(names))
        return
    sides = sides_of(held.executed, group)
    typer.echo(json.dumps(sides_json(sides)) if json_output else "\n".join(side_lines(sides, held.folder)))


def _read(study: Path) -> str:
    """The text of a study. Raises: InputError when it can't be read."""
    from veristate.core import InputError

    try:
        return study.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError(f"{study}: {reason}") from error


def _exit_code(ran: "Ran", results: "StudyResults") -> int:
    """5 while attempts are left, whatever the figures so far; then 1 for a failed study."""
    if not ran.complete:
        return UndecidedError.exit_code
    return 1 if results.failures else 0
