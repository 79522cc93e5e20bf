"""`veristate research`: long campaigns that can always go back."""

import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veristate.core import InputError
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.committed import committed_in

if TYPE_CHECKING:
    from veristate.research import CampaignHome, CampaignResult, Surroundings, Talk

MODEL, WATCH, RUN = "Model", "Watching", "Running"

app = typer.Typer(
    name="research",
    help="Run a long campaign: workers search, every result is judged and kept, any state can be gone back to.",
    no_args_is_help=True,
    add_completion=False,
)

TaskName = Annotated[str, typer.Argument(help="A folder with task.toml, or a bundled task's name.")]
Home = Annotated[Path | None, typer.Option(help="The campaign's folder. Default: .veristate/research/TASK.")]
Where = Annotated[Path, typer.Argument(help="The campaign's folder, or the name of its task.")]
ReportFile = Annotated[Path | None, typer.Option(help="HTML report to write.", rich_help_panel=given.OUTPUT)]
Endpoint = Annotated[str | None, typer.Option(help="Chat completions address, up to /v1.", rich_help_panel=MODEL)]
Model = Annotated[str | None, typer.Option(help="The model's name there.", rich_help_panel=MODEL)]
Key = Annotated[str, typer.Option(help="Variable that holds the key.", rich_help_panel=MODEL)]
Prices = Annotated[
    tuple[str, str], typer.Option(help="Price per million tokens: prompt, reply.", rich_help_panel=MODEL)
]

Ray = Annotated[
    str | None,
    typer.Option(help="Address of a Ray cluster for jobs, or auto; this machine without.", rich_help_panel=RUN),
]


@app.command()
def new(folder: Annotated[Path, typer.Argument(help="The new task's folder; its name is the task's.")]) -> None:
    """Write a task that runs as it is and is there to be changed."""
    from veristate.research import new_task

    made = new_task(folder)
    typer.echo(f"Wrote {made}: change task.toml, evaluate.py and worker.py, then\n  veristate research check {made}")


@app.command()
def check(task: TaskName, json_output: given.Json = False) -> None:
    """Try a task's evaluator and audit on its examples; exit 1 when one is wrong, 5 when nothing was tried."""
    from veristate.research import check_task, read_task

    lines = check_task(read_task(task))
    if json_output:
        typer.echo(json.dumps([{"what": x.what, "passed": x.passed, "said": x.said} for x in lines]))
    else:
        words = {True: "ok", False: "WRONG", None: "not tried"}
        typer.echo("\n".join(f"{words[line.passed]:<10} {line.what}: {line.said}" for line in lines))
    wrong = any(line.passed is False for line in lines)
    raise typer.Exit(1 if wrong else 5 if any(line.passed is None for line in lines) else 0)


@app.command()
def run(
    task: TaskName,
    home: Home = None,
    workers: Annotated[int, typer.Option(help="Workers, each in a workspace of its own.", rich_help_panel=RUN)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all workers' seeds.", rich_help_panel=RUN)] = 0,
    wall: Annotated[
        float | None, typer.Option(help="Seconds of wall-clock time, in place of the task's.", rich_help_panel=RUN)
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(help="A command with {workspace} {brief}, or model: the tool loop.", rich_help_panel=RUN),
    ] = None,
    passing: Annotated[
        list[str] | None,
        typer.Option("--pass", help="Environment variable that a command gets.", rich_help_panel=RUN),
    ] = None,
    decider: Annotated[
        str, typer.Option(help="Who re-anchors: policy, model, none (never).", rich_help_panel=RUN)
    ] = "policy",
    endpoint: Endpoint = None,
    model: Model = None,
    key: Key = "",
    prices: Prices = ("0", "0"),
    ray: Ray = None,
    report: ReportFile = None,
    store: given.StoreFolder = Path(".veristate"),
    json_output: given.Json = False,
) -> None:
    """Run a campaign to the end of its budget; the same command after any kill goes on where the journal ends."""
    from veristate.research import CampaignHome, CampaignOptions, Code, read_task, run_campaign

    if decider not in ("policy", "model", "none"):
        raise InputError(f"--decider {decider}: give policy, model or none")
    asked = read_task(task)
    options = CampaignOptions(
        workers=workers,
        seed=seed,
        decider=decider,  # type: ignore[arg-type]
        worker=Code(command=tuple(shlex.split(worker))) if worker else None,
        wall_s=wall,
        passed=tuple(passing or ()),
    )
    place = CampaignHome(folder=home or Path(".veristate/research") / asked.name)
    with _surroundings(_talk(endpoint, model, key, prices), store, ray, quiet=json_output) as around:
        result = run_campaign(place, asked, options, around)
    _finish(place, result, report, json_output)


@app.command()
def resume(
    where: Where,
    endpoint: Endpoint = None,
    model: Model = None,
    key: Key = "",
    prices: Prices = ("0", "0"),
    ray: Ray = None,
    report: ReportFile = None,
    store: given.StoreFolder = Path(".veristate"),
    json_output: given.Json = False,
) -> None:
    """Go on with a campaign after a kill or a stop: nothing recorded is done again, crashed time is charged."""
    from veristate.research import run_campaign

    place = _home(where)
    with _surroundings(_talk(endpoint, model, key, prices), store, ray, quiet=json_output) as around:
        result = run_campaign(place, surroundings=around)
    _finish(place, result, report, json_output)


@app.command()
def status(
    where: Where,
    watch: Annotated[bool, typer.Option("--watch", help="Again every second, until it ends.")] = False,
    json_output: given.Json = False,
) -> None:
    """Say where a campaign stands, also while it runs."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from veristate.interfaces.cli.research_wording import status_lines, watched_lines
    from veristate.research import read_standing, summary

    place = _home(where)
    standing = read_standing(place)
    if json_output:
        typer.echo(json.dumps(summary(standing)))
    elif not watch:
        typer.echo("\n".join(status_lines(standing)))
    else:
        console = Console()
        with Live(console=console, refresh_per_second=4) as live:
            while True:
                live.update(Text("\n".join(watched_lines(standing, console.width, console.height))))
                if standing.finished is not None or standing.sessions[-1].wall_ms is not None:
                    break
                time.sleep(1.0)
                standing = read_standing(place)


@app.command()
def show(where: Where, report: ReportFile = None) -> None:
    """Print the tree of states with their scores, and every re-anchoring."""
    from veristate.interfaces.cli.research_wording import tree_lines
    from veristate.research import read_standing

    standing = read_standing(_home(where))
    typer.echo("\n".join(tree_lines(standing)))
    if report:
        from veristate.interfaces.report.research import render_campaign

        report.write_text(render_campaign(standing), encoding="utf-8")
        typer.echo(f"Wrote {report}")


@app.command()
def export(
    where: Where,
    folder: Annotated[Path, typer.Argument(help="A new folder for the files.")],
) -> None:
    """Write the best candidate, every card, the journal and a summary as plain files."""
    from veristate.interfaces.report.research import render_campaign
    from veristate.research import export_campaign, read_standing

    place = _home(where)
    written = export_campaign(place, folder)
    page = folder / "report.html"
    page.write_text(render_campaign(read_standing(place)), encoding="utf-8")
    typer.echo("\n".join(f"Wrote {path}" for path in [*written, page]))


def _home(where: Path) -> "CampaignHome":
    """The campaign's folder: as given, or the usual place of a task's campaign."""
    from veristate.research import CampaignHome

    usual = Path(".veristate/research") / where
    found = CampaignHome(folder=where if (where / "ledger.sqlite").is_file() or not usual.is_dir() else usual)
    found.require()
    return found


def _talk(endpoint: str | None, model: str | None, key: str, prices: tuple[str, str]) -> "Talk | None":
    """The chat model that the command line names, within our seam; None when it names none."""
    if endpoint is None and model is None:
        return None
    if endpoint is None or model is None:
        raise InputError("--endpoint and --model go together")
    from veristate.interfaces.cli.research_model import endpoint_talk

    return endpoint_talk(endpoint, model, key, (Decimal(prices[0]), Decimal(prices[1])))


@contextmanager
def _surroundings(talk: "Talk | None", store: Path, ray: str | None, *, quiet: bool) -> Iterator["Surroundings"]:
    """What the engine runs with: signals stop it in order, and a terminal sees where it stands."""
    from veristate.interfaces.cli.research_wording import one_line
    from veristate.research import Surroundings

    ground = _cluster(ray) if ray else None
    stop = threading.Event()

    def told(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    watched = sys.stderr.isatty() and not quiet
    last = [""]

    def progress(standing: Any) -> None:
        line = one_line(standing)
        if line != last[0]:
            last[0] = line
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with committed_in(store) as boundary:
            yield Surroundings(
                sandbox=True,
                talk=talk,
                boundary=boundary,
                ground=ground,
                stop=stop,
                progress=progress if watched else None,
            )
    finally:
        if last[0]:
            sys.stderr.write("\n")
        for number, handler in before.items():
            signal.signal(number, handler)


def _cluster(address: str) -> Any:
    from veristate.research import on_ray

    return on_ray(address)


def _finish(place: "CampaignHome", result: "CampaignResult", report: Path | None, json_output: bool) -> None:
    from veristate.interfaces.cli.research_wording import status_lines
    from veristate.research import ranked, summary

    said = summary(result.standing)
    if report:
        from veristate.interfaces.report.research import render_campaign  # with torch behind it: seconds

        report.write_text(render_campaign(result.standing), encoding="utf-8")
    if json_output:
        typer.echo(json.dumps(said | {"home": str(place.folder)}))
    else:
        typer.echo("\n".join(status_lines(result.standing)))
        typer.echo(f"Kept in {place.folder}" + (f"; wrote {report}" if report else ""))
    # Stopped is not finished; finished without a result that stands is undecided.
    stands = said["audited"] is not None or (
        not result.standing.audits and bool(ranked(result.standing, result.task.objective))
    )
    raise typer.Exit(130 if not result.reason else 0 if stands else 5)
