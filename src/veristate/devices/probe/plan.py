"""Which probes a run consists of: every format, pattern, size and layout, with shapes that suit the device."""

from collections.abc import Iterator
from dataclasses import dataclass

from veristate.core import InputError
from veristate.devices.probe.formats import FORMATS, ProbedFormat, capped
from veristate.devices.probe.outcome import Kind, Probe, Size
from veristate.devices.probe.roundtrip import MASKS
from veristate.devices.switches import ProductSettings

BYTES = "bytes"
# As often as the paper calls each of its shapes. An element check costs more than the layer it checks.
CALLS, LAYER_CALLS = 8, 4
_LAYERS = ("fp32", "bf16")
_SIZES: tuple[Size, ...] = ("short", "long")
# (M, K, N), or bytes. Short calls stay below 512 rows, long ones above, where size-dependent faults fire. What a
# processor has no instructions for it computes up to a thousand times slower; an accelerator needs more for all of its
# units to work.
Shapes = dict[tuple[str, Size], tuple[int, ...]]
_PROCESSOR: Shapes = {
    ("integers", "short"): (64, 512, 96),
    ("integers", "long"): (640, 4096, 128),
    ("slow", "short"): (64, 512, 96),
    ("slow", "long"): (576, 1024, 32),
    ("fp8", "short"): (32, 128, 32),
    ("fp8", "long"): (576, 128, 16),
    ("layer", "short"): (48, 300, 300),
    ("layer", "long"): (1024, 512, 300),
    ("bytes", "short"): (2**16,),
    ("bytes", "long"): (2**24,),
}
_ACCELERATOR: Shapes = _PROCESSOR | {
    ("integers", "long"): (2048, 4096, 256),
    ("fp8", "short"): (64, 512, 96),
    ("fp8", "long"): (2048, 1024, 256),
    ("layer", "long"): (2048, 1024, 512),
    ("bytes", "long"): (2**27,),
}
# A processor multiplies these formats itself if it has one of the instructions.
_INSTRUCTIONS = {"bf16": {"amx_bf16", "avx512_bf16"}, "fp16": {"amx_fp16", "avx512_fp16"}}


ITERATIONS = 1
# The largest integer that JSON numbers hold everywhere.
_LARGEST_SEED = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """What to probe and for how long: `iterations` of all probes, or as many as `seconds` allow; neither: one
    iteration. Without `formats` all are probed; one that is named must be testable.

    Raises: InputError.
    """

    seed: int
    device: str = "cpu"
    iterations: int | None = None
    seconds: float | None = None
    formats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.iterations is not None and self.seconds is not None:
            raise InputError("--iterations and --seconds: give one of them")
        if self.iterations is not None and self.iterations < 0:
            raise InputError(f"--iterations {self.iterations}: must be 0 or more")
        if self.seconds is not None and not self.seconds >= 0:
            raise InputError(f"--seconds {self.seconds}: must be 0 or more")
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise InputError(f"--seed {self.seed}: must be 0 to {_LARGEST_SEED}")
        chosen_names(self.formats)


def chosen_names(asked: tuple[str, ...]) -> tuple[str, ...]:
    """What is probed: the names asked for, or all formats and the byte round trips. Raises: InputError."""
    known = (*(f.name for f in FORMATS), BYTES)
    for name in asked:
        if name not in known:
            raise InputError(f"--format {name}: known are {', '.join(known)}")
    return asked or known


def require_possible(probe: Probe) -> None:
    """Returns when the probe is of a kind that can be run. Raises: ValueError."""
    arrangements: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "bytes": (tuple(MASKS), ("",)),
        "layer": (("random",) if probe.format in _LAYERS else (), ("",)),
        "integers": next(((f.patterns, f.layouts) for f in FORMATS if f.name == probe.format), ((), ())),
    }
    patterns, layouts = arrangements.get(probe.kind, ((), ()))
    if probe.pattern not in patterns or probe.layout not in layouts or probe.size not in _SIZES:
        raise ValueError(f"there is no probe {probe.name!r}")
    if len(probe.shape) != (1 if probe.kind == "bytes" else 3) or not all(probe.shape):
        raise ValueError(f"no probe {probe.name!r} has the shape {probe.shape}")


def planned(names: tuple[str, ...], settings: ProductSettings, seed: int, iteration: int) -> Iterator[Probe]:
    """The probes of one iteration on the device of `settings`; those that share operands follow one another."""
    shapes = _PROCESSOR if settings.device == "cpu" else _ACCELERATOR

    def probe(kind: Kind, format_name: str, pattern: str, size: Size, layout: str, calls: int, family: str) -> Probe:
        return Probe(
            kind=kind,
            format=format_name,
            pattern=pattern,
            size=size,
            layout=layout,
            shape=shapes[family, size],
            calls=calls,
            seed=seed,
            iteration=iteration,
        )

    for chosen in (f for f in FORMATS if f.name in names):
        family = _family(chosen.name, settings)
        for size, pattern, layout in _arrangements(chosen):
            yield probe("integers", chosen.name, pattern, size, layout, CALLS, family)
    for name in (name for name in _LAYERS if name in names):
        for size in _SIZES:
            yield probe("layer", name, "random", size, "", LAYER_CALLS, "layer")
    if BYTES in names:
        for size in _SIZES:
            for mask in MASKS:
                yield probe("bytes", "bytes", mask, size, "", 1, "bytes")


def _family(name: str, settings: ProductSettings) -> str:
    """The key of the shapes that suit a format."""
    if name.startswith("fp8"):
        return "fp8"
    needed = _INSTRUCTIONS.get(name) if settings.device == "cpu" else None
    if needed is None or (needed & set(settings.instructions.split()) and not capped(settings)):
        return "integers"
    return "slow"


def _arrangements(chosen: ProbedFormat) -> Iterator[tuple[Size, str, str]]:
    for size in _SIZES:
        for pattern in chosen.patterns:
            for layout in chosen.layouts:
                yield size, pattern, layout
