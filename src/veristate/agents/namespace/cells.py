"""Running one cell after the other in a dictionary, with tracebacks that show their source lines."""

import linecache
import traceback
from typing import Any


class Cells:
    """The cells that were run, by number; `<cell n>` is the file name of the n-th, from 1."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.sources: list[str] = []
        self._namespace = namespace

    def run(self, source: str) -> str:
        """The traceback of what the cell raised, SystemExit included; empty when it ran to its end."""
        name = self._add(source)
        try:
            # Without inheritance: the future statements of this module are not the cell's.
            exec(compile(source, name, "exec", dont_inherit=True), self._namespace)  # noqa: S102
        except BaseException as error:
            trace = error.__traceback__
            return "".join(traceback.format_exception(type(error), error, trace and trace.tb_next))
        return ""

    def reset(self, sources: list[str]) -> None:
        """Returns when these cells, and no others, count as run."""
        for number in range(len(self.sources)):
            linecache.cache.pop(f"<cell {number + 1}>", None)
        self.sources = []
        for source in sources:
            self._add(source)

    def _add(self, source: str) -> str:
        self.sources.append(source)
        name = f"<cell {len(self.sources)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        return name
