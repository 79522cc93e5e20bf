"""Progress on stderr: a bar for steps that are counted, a line for those that are not; nothing when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def showing_progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A callable for (phase, done, total); off when `quiet`, or when stderr is no terminal."""
    console = Console(stderr=True)
    off = quiet or not console.is_terminal
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=off, transient=False) as bars:
        known: dict[str, object] = {}

        def tell(phase: str, done: int, total: int) -> None:
            if phase not in known:
                known[phase] = bars.add_task(phase, total=total or 1)
                for other, task in known.items():
                    if other != phase and other not in counted:
                        bars.update(task, completed=1)  # type: ignore[arg-type]
            if total:
                counted.add(phase)
                bars.update(known[phase], completed=done)  # type: ignore[arg-type]

        counted: set[str] = set()
        yield tell
        for phase, task in known.items():
            if phase not in counted:
                bars.update(task, completed=1)  # type: ignore[arg-type]
