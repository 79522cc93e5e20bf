"""The captures of a study: the reference at the task's site, and the candidates that the study asks for beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.audit.captures import (
    Capture,
    Computation,
    DifferenceClass,
    Provenance,
    Saved,
    classify,
    ordinary_bound,
    read_saved,
)
from veristate.audit.design import constructed_from, in_environment
from veristate.audit.interventions import controls
from veristate.audit.study.spec import CaptureRole, CaptureSpec, EnvironmentSpec, StudySpec
from veristate.audit.tasks import LayeredTask, Task
from veristate.core import InputError, Site
from veristate.devices import fault_named
from veristate.devices.faults import SequenceFault
from veristate.devices.faults import Site as CallSite
from veristate.numerics import Weights, fp32_arithmetic, round_to_bf16

Array = NDArray[np.float32]
Labels = tuple[tuple[str, ...], ...]

# A product of fewer rows than this is no large call; one with as many columns is computed the other way round, as a
# library may, so that a fault of large calls can meet it.
LARGE = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyCapture:
    """A capture with its place in the study. `simulated` says how a fault was simulated, "" where none was;
    `classes` counts the coordinates of each class; `unrebuilt` the coordinates that the residual form of a full
    intervention does not rebuild bit for bit (by values, as treatments go, it rebuilds all).
    """

    name: str
    role: CaptureRole
    environment: str
    capture: Capture
    origin: str
    simulated: str
    classes: tuple[tuple[DifferenceClass, int], ...]
    unrebuilt: int

    @property
    def differing(self) -> int:
        """The coordinates whose stored bits differ."""
        return int(self.capture.differing.sum())


def site_of(spec: StudySpec, task: Task) -> str:
    """The site that the study names, or the task's last product. Raises: InputError for one that is none."""
    site = spec.site or task.products()[-1]
    if site not in task.sites():
        raise InputError(f"site = {site!r}: the task {spec.task} has the sites {', '.join(task.sites())}")
    return site


def reference_at(task: Task, site: str, labels: Labels = ()) -> Saved:
    """The values that a reference run of the task has at a site.

    Raises: InputError for a site that a run passes more than once: its values are no single array.
    """
    passed: list[Array] = []

    def keep(name: str, Y: Array) -> Array:
        if name == site:
            passed.append(Y.copy())
        return Y

    task.run(keep)
    if len(passed) != 1:
        raise InputError(f"a run passes the site {site!r} {len(passed)} times; an audit needs one that it passes once")
    return Saved.of(
        passed[0],
        site=Site(layer=site),
        labels=labels,
        provenance=Provenance(model={"task": task.digest()}, inputs={"task": task.digest()}, note="reference run"),
    )


def captures_of(spec: StudySpec, task: Task, reference: Saved) -> tuple[StudyCapture, ...]:
    """All captures of a study, those of each further environment after the first environment's.

    Raises: InputError for files that don't fit, faults that are not known, and environments the task has not.
    """
    own = [_capture(one, task, reference) for one in spec.captures]
    made = [_placed(one, "", task, *found) for one, found in zip(spec.captures, own, strict=True)]
    for environment in spec.environments:
        other = _environment(environment, task, reference)
        for one, (capture, origin, simulated) in zip(spec.captures, own, strict=True):
            there = in_environment(capture, other)
            said = f"{origin}; its residual on the reference of {environment.name}"
            made.append(_placed(one, environment.name, task, there, said, simulated))
    return tuple(made)


def faulty(reference: Array, spec: CaptureSpec, site: str) -> Array:
    """The reference after a simulated fault has passed over it in calls of `rows` rows.

    Raises: InputError for a fault that is not known, or without states where one is asked for.
    """
    model = fault_named(spec.fault, spec.seed)
    if spec.state:
        if not isinstance(model.fault, SequenceFault):
            raise InputError(f"capture {spec.name}: the fault {spec.fault} has no states; leave out `state`")
        model.fault.state = spec.state % 4
    turned = len(reference) < LARGE <= reference.shape[1] and spec.rows >= LARGE
    held = np.array(reference.T if turned else reference, order="C")
    for number, start in enumerate(range(0, len(held), spec.rows)):
        call = held[start : start + spec.rows]
        where = CallSite(number=number, member=0, batch=number, layer=site, shape=(call.shape[0], call.shape[1]))
        patch = model.fault.patch(where, call, np.random.default_rng([spec.seed, number]))
        if patch is not None:
            call[np.ix_(patch.rows, patch.columns)] = patch.values
    return np.ascontiguousarray(held.T) if turned else held


def _capture(spec: CaptureSpec, task: Task, reference: Saved) -> tuple[Capture, str, str]:
    """The capture, where its candidate comes from, and how a fault was simulated."""
    if spec.kind == "files":
        return _brought(spec, reference), "files the user brought", ""
    if spec.kind == "bf16":
        told = reference.provenance
        provenance = Provenance(model=told.model, inputs=told.inputs, order=told.order, note="rounded to BF16")
        candidate = Saved.of(
            round_to_bf16(reference.values),
            site=reference.site,
            representation=reference.representation,
            labels=reference.labels,
            provenance=provenance,
        )
        return Capture.of(reference, candidate), "the reference rounded to BF16", ""
    values = faulty(reference.values, spec, reference.site.layer)
    simulated = f"{spec.fault}, seed {spec.seed}, state {spec.state}, calls of {spec.rows} rows"
    return Capture.of(reference, constructed_from(reference, values, simulated)), "a simulated fault", simulated


def _brought(spec: CaptureSpec, reference: Saved) -> Capture:
    """The user's files as a capture. Raises: InputError as `read_saved` and `Capture.of` do."""
    if spec.candidate is None:
        raise InputError(f"capture {spec.name}: no candidate file")
    told = reference.provenance
    labels: Sequence[Sequence[str]] = reference.labels
    sides = [
        reference
        if path is None
        else read_saved(
            path,
            site=reference.site,
            array=spec.array,
            labels=labels,
            provenance=Provenance(model=told.model, inputs=told.inputs, order=told.order, note=path.name),
        )
        for path in (spec.reference, spec.candidate)
    ]
    return Capture.of(sides[0], sides[1])


def _placed(
    spec: CaptureSpec, environment: str, task: Task, capture: Capture, origin: str, simulated: str
) -> StudyCapture:
    rebuilt = controls(capture)
    return StudyCapture(
        name=f"{spec.name}@{environment}" if environment else spec.name,
        role=spec.role,
        environment=environment,
        capture=capture,
        origin=origin,
        simulated=simulated,
        classes=_classes(spec, capture, task),
        unrebuilt=max(len(made.missed) for name, made in rebuilt.items() if name.startswith("full")),
    )


def _classes(spec: CaptureSpec, capture: Capture, task: Task) -> tuple[tuple[DifferenceClass, int], ...]:
    """How many coordinates of each class a capture has; only what differs is counted.

    Values rounded to BF16 are ordinary precision by what they are. Files are judged against the rounding bound of the
    task's own product where the site is one.
    """
    if spec.kind == "bf16" and not capture.constructed:
        found = classify(capture, ordinary=ordinary_bound(capture.h, [round_to_bf16(capture.h)]))
    else:
        found = classify(capture, computation=None if capture.constructed else operands(task, capture.site.layer))
    return tuple((kind, n) for kind, n in found.counts().items() if n and kind is not DifferenceClass.NONE)


def operands(task: Task, site: str) -> Computation | None:
    """What a healthy machine multiplies at a site of a layered task, None where the task is another."""
    found = _product(task, site)
    if found is None:
        return None
    X, W, b = found
    return Computation(X=X, weights=Weights.of(W, b), arithmetic=fp32_arithmetic(bias=b is not None, flush=True))


def _product(task: Task, site: str) -> tuple[Array, Array, Array | None] | None:
    """X, W and b of the product at a site, X as the reference run has it there."""
    if not isinstance(task, LayeredTask):
        return None
    X = task.X
    for layer in task.layers:
        if layer.site == site:
            return X, layer.W, layer.b
        Y = X @ layer.W.T + (0 if layer.b is None else layer.b)
        X = np.maximum(Y, np.float32(0)) if layer.relu else Y
    return None


def _environment(spec: EnvironmentSpec, task: Task, reference: Saved) -> Saved:
    """The reference of another healthy environment. Raises: InputError where the task has no such product."""
    told = reference.provenance
    if spec.reference is not None:
        values = read_saved(spec.reference, site=reference.site).values
    else:
        found = _product(task, reference.site.layer)
        if found is None:
            raise InputError(f"environment {spec.name}: this task has no single product at its site; bring a file")
        values = _elsewhere(spec, *found)
    return Saved.of(
        values,
        site=reference.site,
        representation=reference.representation,
        labels=reference.labels,
        provenance=Provenance(model=told.model, inputs=told.inputs, order=told.order, note=f"environment {spec.name}"),
    )


def _elsewhere(spec: EnvironmentSpec, X: Array, W: Array, b: Array | None) -> Array:
    """X W^T + b in FP64 and then stored, or in FP32 a batch of rows at a time."""
    if spec.kind == "fp64":
        wide = X.astype(np.float64) @ W.astype(np.float64).T
        return (wide if b is None else wide + b).astype(np.float32)
    Y: Array = np.concatenate([X[start : start + spec.rows] @ W.T for start in range(0, len(X), spec.rows)])
    return Y if b is None else Y + b
