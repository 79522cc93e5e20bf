"""Reading `task.toml`. An unknown key, a wrong type, a missing file: each is an error that names it. Every key
stands in `example.toml` beside this module.
"""

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from veristate.core import InputError
from veristate.research.judgement import metric_text
from veristate.research.tasks.contract import (
    Artifact,
    Budget,
    Code,
    Example,
    Objective,
    Resources,
    SegmentLimits,
    Task,
)

FORMAT = "veristate.task/1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FUNCTION = re.compile(r"[A-Za-z0-9_./-]+:[A-Za-z_][A-Za-z0-9_]*")


def read_task(which: str | Path) -> Task:
    """The task in the folder `which`, or the bundled one of that name.

    Raises: InputError naming the file, the key and what is wrong with it.
    """
    folder = Path(which)
    if not (folder / "task.toml").is_file():
        bundled = bundled_tasks()
        if str(which) not in bundled:
            known = ", ".join(sorted(bundled)) or "none"
            raise InputError(f"{folder / 'task.toml'} does not exist, and no bundled task is called so; known: {known}")
        folder = bundled[str(which)]
    path = folder.absolute() / "task.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    return _task(_Table(path, "", content), path.parent)


def bundled_tasks() -> dict[str, Path]:
    """The tasks that come with veristate: the folders in `research/campaigns` that hold a `task.toml`, `_` as `-`."""
    campaigns = Path(str(files("veristate.research"))) / "campaigns"
    return {path.parent.name.replace("_", "-"): path.parent for path in sorted(campaigns.glob("*/task.toml"))}


class _Table:
    """One table of the file: each key is taken once, with its type; `end` refuses what nobody took."""

    def __init__(self, path: Path, name: str, content: Mapping[str, Any]) -> None:
        self.path = path
        self.name = name
        self._rest = dict(content)

    def fail(self, key: str, what: str) -> InputError:
        return InputError(f"{self.path}: {self.name + '.' if self.name else ''}{key} {what}")

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of the key. An integer serves where a float is asked for; a boolean serves as nothing else."""
        value = self._rest.pop(key, default)
        if value is ...:
            raise self.fail(key, "is missing")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if value is default or (isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)):
            return value
        if float in kinds and type(value) is int:
            return float(value)
        raise self.fail(key, f"is {value!r}; give {' or '.join(each.__name__ for each in kinds)}")

    def positive(self, key: str, kind: type[int] | type[float], default: Any = None) -> Any:
        value = self.take(key, kind, default)
        if value is not None and not 0 <= value < float("inf"):
            raise self.fail(key, f"is {value!r}; give a finite number that is not negative")
        return value

    def texts(self, key: str, default: Any = ...) -> tuple[str, ...]:
        values = self.take(key, list, default)
        if not all(isinstance(value, str) and value for value in values):
            raise self.fail(key, f"is {values!r}; give a list of texts")
        return tuple(values)

    def inside(self, key: str, value: str) -> str:
        """`value` as a relative path that stays inside. Raises: InputError for one that does not."""
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise self.fail(key, f"is {value!r}; give a relative path without ..")
        return str(path)

    def one_of(self, key: str, *choices: str) -> Any:
        value = self.take(key, str)
        if value not in choices:
            raise self.fail(key, f"is {value!r}; give one of {', '.join(choices)}")
        return value

    def metric(self, key: str) -> str | None:
        value = self.take(key, (str, int), None)
        if value is None:
            return None
        try:
            return metric_text(value)
        except InputError as error:
            raise self.fail(key, f"is no metric: {error}") from error

    def table(self, key: str) -> "_Table":
        return _Table(self.path, f"{self.name + '.' if self.name else ''}{key}", self.take(key, dict, {}))

    def has(self, key: str) -> bool:
        return key in self._rest

    def end(self) -> None:
        for key in self._rest:
            raise self.fail(key, "is no key of a task; see tasks/example.toml of veristate.research")


def _task(top: _Table, folder: Path) -> Task:
    if top.take("format", str) != FORMAT:
        raise top.fail("format", f"must be {FORMAT!r}")
    name = top.take("name", str)
    if not _NAME.fullmatch(name):
        raise top.fail("name", f"is {name!r}; use letters, digits, - and _")
    description, guidance = _words(top, folder, "description", ...), _words(top, folder, "guidance", "")
    objective, artifact = _objective(top.table("objective")), _artifact(top.table("artifact"))
    evaluator_table = top.table("evaluator")
    checked = evaluator_table.take("checked", bool, False)
    evaluator = _code(evaluator_table, folder)
    audit, candidates = None, 20
    if top.has("audit"):
        table = top.table("audit")
        candidates = table.positive("candidates", int, 20)
        audit = _code(table, folder, timeout_s=300.0)
    worker, result_file = None, None
    if top.has("worker"):
        table = top.table("worker")
        signal = table.take("result_file", str, None)
        result_file = table.inside("result_file", signal) if signal is not None else None
        worker = _code(table, folder)
    task = Task(
        name=name,
        folder=folder,
        description=description,
        guidance=guidance,
        objective=objective,
        artifact=artifact,
        evaluator=evaluator,
        checked=checked,
        audit=audit,
        audit_candidates=candidates,
        worker=worker,
        result_file=result_file,
        template=_template(top.table("workspace"), folder),
        budget=_budget(top.table("budget")),
        segment=_segment(top.table("segment")),
        resources=_resources(top.table("resources")),
        parameters=top.take("parameters", dict, {}),
        examples=tuple(_example(_Table(top.path, "examples", each), folder) for each in top.take("examples", list, [])),
    )
    top.end()
    return task


def _words(top: _Table, folder: Path, key: str, default: Any) -> str:
    """The text of `key`, or of the file that `key_file` names."""
    if not top.has(f"{key}_file"):
        return str(top.take(key, str, default)).strip()
    path = folder / top.inside(f"{key}_file", top.take(f"{key}_file", str))
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise top.fail(f"{key}_file", f"can't be read: {error}") from error


def _objective(table: _Table) -> Objective:
    objective = Objective(
        metric=table.take("metric", str),
        direction=table.one_of("direction", "maximise", "minimise"),
        target=table.metric("target"),
        stop_at_target=table.take("stop_at_target", bool, False),
        best_known=table.metric("best_known"),
        best_known_source=table.take("best_known_source", str, ""),
    )
    if objective.stop_at_target and objective.target is None:
        raise table.fail("stop_at_target", "needs a target")
    table.end()
    return objective


def _artifact(table: _Table) -> Artifact:
    names = tuple(table.inside("files", name) for name in table.texts("files"))
    if not names or len(set(names)) < len(names):
        raise table.fail("files", "needs at least one file, each once")
    artifact = Artifact(
        files=names,
        description=table.take("description", str, ""),
        bytes_upper=table.positive("bytes_upper", int, 100 * 2**20),
    )
    table.end()
    return artifact


def _code(table: _Table, folder: Path, timeout_s: float = 60.0) -> Code:
    function = table.take("function", str, None)
    command = table.texts("command", [])
    if (function is None) == (not command):
        raise table.fail("function", "or command: give exactly one of them")
    if function is not None:
        if not _FUNCTION.fullmatch(function):
            raise table.fail("function", f"is {function!r}; give module:function or file.py:function")
        file = function.partition(":")[0]
        if file.endswith(".py") and not (folder / table.inside("function", file)).is_file():
            raise table.fail("function", f"names {file}, which is not in {folder}")
    code = Code(function=function, command=command, timeout_s=table.positive("timeout_s", float, timeout_s))
    table.end()
    return code


def _template(table: _Table, folder: Path) -> str | None:
    name = table.take("template", str, None)
    if name is not None and not (folder / table.inside("template", name)).is_dir():
        raise table.fail("template", f"names {name}, which is no folder in {folder}")
    table.end()
    return str(name) if name is not None else None


def _budget(table: _Table) -> Budget:
    money = table.take("money", str, None)
    try:
        amount = None if money is None else Decimal(money)
    except InvalidOperation as error:
        raise table.fail("money", f"is {money!r}; give a decimal number as text") from error
    if amount is not None and not (amount.is_finite() and amount >= 0):
        raise table.fail("money", f"is {money!r}; give a finite number that is not negative")
    budget = Budget(
        wall_s=table.positive("wall_s", float),
        cpu_s=table.positive("cpu_s", float),
        gpu_s=table.positive("gpu_s", float),
        tokens=table.positive("tokens", int),
        money=amount,
        queries=table.positive("queries", int),
        disk_bytes=table.positive("disk_bytes", int),
        split_queries=table.take("split_queries", bool, False),
    )
    table.end()
    if budget.split_queries and budget.queries is None:
        raise table.fail("split_queries", "needs queries, which are split")
    if budget == Budget():
        raise table.fail("wall_s", "or another limit: a campaign without any would never end")
    return budget


def _segment(table: _Table) -> SegmentLimits:
    usual = SegmentLimits()
    limits = SegmentLimits(
        wall_s=table.positive("wall_s", float, usual.wall_s),
        stages=table.positive("stages", int, usual.stages),
        context_chars=table.positive("context_chars", int, usual.context_chars),
    )
    table.end()
    return limits


def _resources(table: _Table) -> Resources:
    resources = Resources(
        cores=table.positive("cores", int, 1),
        memory_bytes=table.positive("memory_bytes", int),
        gpus=table.positive("gpus", int, 0),
        network=table.take("network", bool, False),
        data=table.one_of("data", "none", "evaluator", "worker") if table.has("data") else "none",
    )
    table.end()
    return resources


def _example(table: _Table, folder: Path) -> Example:
    name = table.inside("folder", table.take("folder", str))
    if not (folder / name).is_dir():
        raise table.fail("folder", f"names {name}, which is no folder in {folder}")
    example = Example(folder=name, expect=table.one_of("expect", "valid", "rejected"), metric=table.metric("metric"))
    table.end()
    return example
