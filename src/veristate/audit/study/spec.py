"""A study as its TOML file asks for it. Every value is checked where it stands."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from veristate.audit.design import ALGORITHM_1, CELLS, Condition
from veristate.audit.statistics import PAIRED, RESAMPLES
from veristate.audit.study.reading import Section
from veristate.audit.tasks import NAMES

CaptureKind = Literal["bf16", "fault", "files"]
CaptureRole = Literal["development", "confirmation"]
EnvironmentKind = Literal["fp64", "batches", "file"]
AgentKind = Literal["controller", "local", "endpoint", "none"]
Choice = Literal["all", "changed", "named"]
# Development: one score a row, fixed on development captures. Minimal: of the capture's own row, none to spare. Budget:
# the first doubling number of rows, most displaced first, that returns the reference's outcome of an array-only task.
SelectionKind = Literal["development", "minimal", "budget"]
Draws = Literal["shared", "independent"]
Allowed = Literal["any", "available"]
# Those of the claim protocol.
Masking = Literal["none", "titles", "texts", "both"]
Prompt = Literal["baseline", "examples"]

# Names become parts of what groups are called, so they hold no slash and no blank.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSpec:
    """Where a capture comes from. `bf16`: the reference rounded to it. `fault`: a simulated fault model on the
    reference, in calls of `rows`, begun in `state`. `files`: the user's candidate, and reference where it isn't ours.
    """

    name: str
    kind: CaptureKind
    role: CaptureRole = "confirmation"
    fault: str = ""
    seed: int = 0
    state: int = 0
    rows: int = 0
    candidate: Path | None = None
    reference: Path | None = None
    array: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """A second healthy environment: the product in FP64 and then stored, in batches of `rows`, or the user's file."""

    name: str
    kind: EnvironmentKind
    rows: int = 0
    reference: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """Who acts. `none` is an array-only study. Budgets are those of the claim protocol; `allowed` says whether a
    model's replies are held to any call in its right form, or to those that can be accepted at the moment;
    `keep_prefix` lets the local model go on from what it has read of an attempt, instead of reading all of it again.
    """

    kind: AgentKind
    url: str = ""
    model: str = ""
    key_variable: str = ""
    allowed: Allowed = "any"
    keep_prefix: bool = False
    calls: int = 16
    reads: int = 6
    reply_tokens: int = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One setting of the agent under which all groups run. With `independent` draws every attempt of a group has a
    request seed of its own; with `shared` draws they all have the repeat's.
    """

    name: str
    temperature: float = 0.0
    repeats: tuple[int, ...] = (0,)
    draws: Draws = "independent"
    prompt: Prompt = "baseline"
    masking: Masking = "none"
    conditions: tuple[Condition, ...] = ALGORITHM_1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsSpec:
    """Which claims: all, those whose list changed under the capture (at most `most` a capture, those with the most
    replaced members first), or the named ones; and `controls`, taken whether they changed or not.
    """

    choose: Choice = "all"
    named: tuple[str, ...] = ()
    most: int = 0
    controls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """A whole study. A comparison over fewer than `least_groups` jointly complete, exposed groups fails it."""

    name: str
    task: str
    site: str
    agent: AgentSpec
    captures: tuple[CaptureSpec, ...]
    environments: tuple[EnvironmentSpec, ...]
    arms: tuple[ArmSpec, ...]
    claims: ClaimsSpec
    selection: SelectionKind
    least_groups: int
    seed: int
    resamples: int


def read_study(path: Path, folder: Path | None = None) -> StudySpec:
    """The study that a file asks for; paths in it are relative to `folder`, by default the file's own.

    Raises: InputError naming the place of what is unknown, missing or wrong.
    """
    top = Section.of_file(path)
    task = top.choice("task", NAMES)
    agent = _agent(top.section("agent"), task)
    folder = folder or path.parent
    captures = tuple(_capture(one, folder) for one in top.sections("captures"))
    environments = tuple(_environment(one, folder) for one in top.sections("environments"))
    arms = tuple(_arm(one, agent) for one in top.sections("arms")) or (ArmSpec(name="main"),)
    design, statistics = top.section("design"), top.section("statistics")
    spec = StudySpec(
        name=_named(top),
        task=task,
        site=top.text("site", ""),
        agent=agent,
        captures=captures,
        environments=environments,
        arms=arms,
        claims=_claims(top.section("claims"), agent),
        selection=_selection(design, agent),
        least_groups=top.whole("least_groups", 1),
        seed=statistics.whole("seed", 0),
        resamples=statistics.whole("resamples", RESAMPLES, least=1),
    )
    for section in (design, statistics, top):
        section.close()
    _require_whole(top, spec)
    return spec


def _require_whole(top: Section, spec: StudySpec) -> None:
    """Raises: InputError for what no single key shows to be wrong."""
    for what, names in (
        ("captures", [one.name for one in spec.captures]),
        ("environments", [one.name for one in spec.environments]),
        ("arms", [one.name for one in spec.arms]),
    ):
        if len(set(names)) < len(names):
            raise top.refuse(what, f"two of them have one name ({', '.join(names)}); give each its own")
    roles = [one.role for one in spec.captures]
    if "confirmation" not in roles:
        raise top.refuse("captures", "none is to be confirmed; add [[captures]] whose role is confirmation")
    selective = any(name in (Condition.SELECTED, Condition.TRANSPLANT) for arm in spec.arms for name in arm.conditions)
    if selective and spec.selection == "development" and "development" not in roles:
        raise top.refuse("design.selection", "development needs a capture whose role is development; add one")
    if spec.agent.kind == "none" and len(spec.arms) > 1:
        raise top.refuse("arms", "an array-only study has no agent to set, so one arm")


def _capture(section: Section, folder: Path) -> CaptureSpec:
    kind = section.choice("kind", get_args(CaptureKind))
    role = section.choice("role", get_args(CaptureRole), "confirmation")
    files: dict[str, Path | None] = {"candidate": None, "reference": None}
    fault, seed, state, rows, array = "", 0, 0, 0, ""
    if kind == "fault":
        fault, seed = section.text("fault"), section.whole("seed")
        state, rows = section.whole("state", 0), section.whole("rows", 1024, least=1)
    if kind == "files":
        files["candidate"] = folder / section.text("candidate")
        files["reference"] = folder / section.text("reference") if section.has("reference") else None
        array = section.text("array", "")
    name = _named(section)
    section.close()
    return CaptureSpec(
        name=name,
        kind=kind,
        role=role,
        fault=fault,
        seed=seed,
        state=state,
        rows=rows,
        array=array,
        **files,
    )


def _environment(section: Section, folder: Path) -> EnvironmentSpec:
    kind = section.choice("kind", get_args(EnvironmentKind))
    rows = section.whole("rows", least=1) if kind == "batches" else 0
    reference = folder / section.text("reference") if kind == "file" else None
    name = _named(section)
    section.close()
    return EnvironmentSpec(name=name, kind=kind, rows=rows, reference=reference)


def _agent(section: Section, task: str) -> AgentSpec:
    kind = section.choice("kind", get_args(AgentKind), "none")
    if kind != "none" and task != "scifact":
        raise section.refuse("kind", f"the task {task} has no agent; leave [agent] out for an array-only study")
    if kind == "none":
        section.close()
        return AgentSpec(kind="none")
    url = section.text("url") if kind == "endpoint" else ""
    model = section.text("model") if kind == "endpoint" else ""
    key = section.text("key_variable", "") if kind == "endpoint" else ""
    made = AgentSpec(
        kind=kind,
        url=url,
        model=model,
        key_variable=key,
        keep_prefix=section.flag("keep_prefix", False) if kind == "local" else False,
        allowed=section.choice("allowed", get_args(Allowed), "any") if kind != "controller" else "any",
        calls=section.whole("calls", 16, least=1),
        reads=section.whole("reads", 6, least=1),
        reply_tokens=section.whole("reply_tokens", 384, least=1),
    )
    section.close()
    return made


def _arm(section: Section, agent: AgentSpec) -> ArmSpec:
    conditions = tuple(Condition(name) for name in section.texts("conditions", ALGORITHM_1, one_of=tuple(Condition)))
    lacking = [name for name in PAIRED if name not in conditions]
    if lacking:
        raise section.refuse("conditions", f"{', '.join(lacking)} must be among them: every comparison needs them")
    some = [cell for cell in CELLS if cell in conditions]
    if some and (len(some) < len(CELLS) or agent.kind == "none"):
        raise section.refuse("conditions", "list x values needs all four conditions, and an agent that sees both")
    arm = ArmSpec(
        name=_named(section),
        temperature=section.number("temperature", 0.0),
        repeats=section.wholes("repeats", (0,)),
        draws=section.choice("draws", get_args(Draws), "independent"),
        prompt=section.choice("prompt", get_args(Prompt), "baseline"),
        masking=section.choice("masking", get_args(Masking), "none"),
        conditions=conditions,
    )
    if arm.temperature and agent.kind in ("controller", "none"):
        raise section.refuse("temperature", f"{arm.temperature:g}, but an agent of kind {agent.kind} samples nothing")
    section.close()
    return arm


def _claims(section: Section, agent: AgentSpec) -> ClaimsSpec:
    if agent.kind == "none":
        section.close()
        return ClaimsSpec()
    named: tuple[str, ...] = ()
    choose: Choice = "named"
    if section.is_list("choose"):
        named = section.texts("choose")
        if not named:
            raise section.refuse("choose", 'an empty list chooses nothing; give claims, or "all" or "changed"')
    else:
        choose = section.choice("choose", ("all", "changed"), "all")
    made = ClaimsSpec(
        choose=choose,
        named=named,
        most=section.whole("most", 0),
        controls=section.texts("controls", ()),
    )
    twice = sorted(set(made.named) & set(made.controls))
    if twice:
        raise section.refuse("controls", f"{', '.join(twice)} would be chosen and control at once")
    section.close()
    return made


def _named(section: Section) -> str:
    name = section.text("name")
    if not _NAME.fullmatch(name):
        raise section.refuse("name", f"{name!r} is no name here: letters, digits and . _ + - alone, no blank")
    return name


def _selection(section: Section, agent: AgentSpec) -> SelectionKind:
    known = ("budget",) if agent.kind == "none" else ("minimal", "development")
    made: SelectionKind = section.choice("selection", known, known[0])
    return made
