"""Probes: Gaussian vectors drawn after an export is fixed, each used once, paid from a number of rows set beforehand.

The order can't be otherwise: probes come out of an account, which takes an `Export`, which holds a copy of the values
and their digest. The number T of rows that share delta stands in the plan; checks beyond it are refused.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError, RefusedError
from veristate.numerics.probes.quantile import chi2_quantile_lower
from veristate.numerics.probes.rounding import Floats

SEED_BYTES = 32
_FORMATS = ("float32", "float64", "int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """What is fixed before any residual is seen: the failure probability `delta` of the whole pass (a decimal), the
    `rows` that share it, and the `draws` of each row.

    Raises: InputError for a delta outside (0, 1/2], no rows, and a number of draws that is odd or below 2.
    """

    delta: str
    rows: int
    draws: int = 16

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"a plan over {self.rows} rows checks nothing; count the rows of the pass first")
        try:
            probability = Fraction(self.delta)
        except (ValueError, ZeroDivisionError):
            raise InputError(f"delta is {self.delta!r}; write it as a decimal such as 1e-9") from None
        if not 0 < probability <= Fraction(1, 2):
            raise InputError(f"delta is {self.delta}; a failure probability lies above 0 and at most at 1/2")
        chi2_quantile_lower(probability / self.rows, self.draws)

    @property
    def quantile_lower(self) -> float:
        """A lower bound of the delta/T quantile of chi-squared: P(one row's bound fails) <= delta/T."""
        return chi2_quantile_lower(Fraction(self.delta) / self.rows, self.draws)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Export:
    """What a suspect device handed over: named pre-activations, copied when this object is made, and their digest.

    `weights` is the digest of the weights that the suspect says it used.
    """

    values: Mapping[str, NDArray[Any]]
    weights: str
    digest: str

    @classmethod
    def fix(cls, parts: Mapping[str, Iterable[NDArray[Any]]], weights: str) -> "Export":
        """The export of these rows; the parts of a name are put one below the other.

        Raises: InputError for arrays of another type than float32, float64 or int64, or that are not matrices.
        """
        values: dict[str, NDArray[Any]] = {}
        state = hashlib.sha256(weights.encode())
        for name, pieces in parts.items():
            array = np.concatenate([np.atleast_2d(np.asarray(piece)) for piece in pieces])
            if array.ndim != 2 or array.dtype.name not in _FORMATS:
                raise InputError(
                    f"export {name!r} is {array.dtype} {array.shape}; give rows of float32, float64 or int64"
                )
            array.setflags(write=False)
            state.update(f"|{name}|{array.dtype.str}|{array.shape}|".encode())
            state.update(array.reshape(-1).view(np.uint8).data)
            values[name] = array
        return cls(values=MappingProxyType(values), weights=weights, digest=state.hexdigest())


@dataclass(slots=True, kw_only=True, eq=False)
class Probes:
    """The probes of one export. Each layer of it is checked at most once; what was used is in the account's records."""

    export: Export
    plan: ProbePlan
    _seed: bytes = field(repr=False)
    _names: tuple[str, ...]
    _used: set[str] = field(default_factory=set)

    def take(self, name: str) -> tuple[NDArray[Any], Floats]:
        """The exported rows [R, N] of that name and its Gaussian probes [N, draws], once.

        Raises: RefusedError the second time: a probe that has been used is known.
        """
        rows, rng = self._once(name)
        return rows, rng.standard_normal((rows.shape[1], self.plan.draws))

    def words(self, name: str) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """The same with uniform words of 64 bits, for whole numbers."""
        rows, rng = self._once(name)
        return rows, rng.integers(0, 2**64, (rows.shape[1], self.plan.draws), dtype=np.uint64)

    def _once(self, name: str) -> tuple[NDArray[Any], np.random.Generator]:
        if name not in self.export.values:
            raise InputError(f"nothing of the name {name!r} was exported; there are {', '.join(self._names)}")
        if name in self._used:
            raise RefusedError(f"the probes of {name!r} were used; export again and draw fresh ones")
        self._used.add(name)
        stream = np.random.SeedSequence([int.from_bytes(self._seed, "little"), self._names.index(name)])
        return self.export.values[name], np.random.Generator(np.random.PCG64DXSM(stream))


class ProbeAccount:
    """Draws probes for one pass, and spends the plan's rows. `entropy(n)` gives n secret fresh bytes.

    Law: the events of all checks together fail with probability at most delta, whatever is exported, in whatever order
    and however it depends on earlier answers: each row is paid for before its probes exist.
    """

    def __init__(self, plan: ProbePlan, entropy: Callable[[int], bytes]) -> None:
        self.plan = plan
        self._entropy = entropy
        self._spent = 0
        self._seeds: set[bytes] = set()
        self._records: list[dict[str, str]] = []

    @property
    def rows_left(self) -> int:
        """How many rows may still be checked."""
        return self.plan.rows - self._spent

    @property
    def records(self) -> tuple[Mapping[str, str], ...]:
        """For the journal, after use: for each draw the export's digest, the seed that repeats it, and what it cost."""
        return tuple(MappingProxyType(record) for record in self._records)

    def draw(self, export: Export) -> Probes:
        """Fresh probes for this export; its rows are paid now, a second look at the same export too.

        Raises: RefusedError when the plan's rows don't suffice, or the source of randomness repeats itself; InputError
        for something else than an export.
        """
        if not isinstance(export, Export):
            raise InputError("probes are drawn for an Export alone: what is checked must be fixed first")
        rows = sum(len(array) for array in export.values.values())
        if rows > self.rows_left:
            raise RefusedError(
                f"{rows} rows to check and {self.rows_left} of the plan's {self.plan.rows} left: T was fixed before "
                "the residuals were seen and can't grow; make a new plan, with a delta of its own"
            )
        seed = self._entropy(SEED_BYTES)
        if len(seed) != SEED_BYTES or seed in self._seeds:
            raise RefusedError("the source of randomness gave too few bytes or the same again: probes must be fresh")
        self._seeds.add(seed)
        self._spent += rows
        self._records.append(
            {
                "export": export.digest,
                "weights": export.weights,
                "seed": seed.hex(),
                "draws": str(self.plan.draws),
                "rows": str(rows),
                "rows_planned": str(self.plan.rows),
                "delta": self.plan.delta,
            }
        )
        return Probes(export=export, plan=self.plan, _seed=seed, _names=tuple(export.values))
