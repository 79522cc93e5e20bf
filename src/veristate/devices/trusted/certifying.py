"""The trusted process's side of a certified pass: it follows the models, plans, asks for exports, draws probes, bounds.

What a suspect device hands over is copied before a probe exists; the probes never leave this process before use.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError, Rule
from veristate.decisions import Question, equal_inputs
from veristate.decisions.enclosures import Declined, Wanted
from veristate.devices.predictors import Candidates, Predictor, PredictorSpec
from veristate.devices.trusted.certification import Certification, PlannedPass, RowsAsked
from veristate.devices.trusted.channel import Channel
from veristate.devices.trusted.slots import Slot


class Certifier:
    """Answers the requests of certified passes over one predictor's table."""

    def __init__(
        self, channel: Channel, slots: list[Slot], spec: PredictorSpec, predictor: Predictor, candidates: Candidates
    ) -> None:
        self._channel, self._slots = channel, slots
        self._spec, self._predictor, self._candidates = spec, predictor, candidates
        self._side: Any = None
        self._planned: Any = None

    def plan(self, header: dict[str, Any]) -> PlannedPass:
        """How the pass will be certified; in full where its models can't be followed."""
        wanted, side = Wanted(**header["wanted"]), self._followed()
        if isinstance(side, Declined):
            return PlannedPass(strategy="full", reason=f"{side.reason}; full instead", predicted=None, followed=False)
        from veristate.devices.certified import plan_pass  # Chemprop comes with it, which a factory does without

        self._planned = plan_pass(side, wanted, time.process_time)
        plan = self._planned.plan
        return PlannedPass(strategy=plan.strategy, reason=plan.reason, predicted=plan.predicted(plan.strategy))

    def certify(self, header: dict[str, Any]) -> Certification:
        """The pass, certified as it was planned. Raises: InputError before a plan; else as `certify_pass` does."""
        from veristate.devices.certified import certify_pass

        if self._planned is None:
            raise InputError("a pass is planned before it is certified")
        wanted = Wanted(**header["wanted"])
        rules = tuple(Rule(**rule) for rule in header["rules"])
        classes = equal_inputs(self._candidates.inputs) if wanted.kind == "C1" else None
        question = Question(rules=rules, ids=self._candidates.ids, temperature=header["temperature"], classes=classes)
        planned, self._planned = self._planned, None
        found = certify_pass(
            question,
            self._side,
            self._suspect(wanted.trusted),
            wanted,
            entropy=secrets.token_bytes,
            clock=time.process_time,
            planned=planned,
        )
        narrowed = found.narrowed
        return Certification(
            strategy=found.plan.strategy,
            reason=found.plan.reason,
            terms=found.terms,
            predicted=found.predicted,
            spent=found.spent,
            rows_checked=found.rows_checked,
            records=found.records,
            ended=narrowed.ended if narrowed else "certified",
            rounds=tuple((r.open, int(r.asked.sum())) for r in narrowed.rounds) if narrowed else (),
            box=narrowed.box if narrowed else None,
            done=narrowed.done if narrowed else None,
            values=found.values,
            evaluated=found.evaluated,
        )

    def _followed(self) -> Any:
        """The trusted side of the predictor, or why there is none."""
        if self._spec.kind != "chemprop":
            return Declined(
                reason="bounds and memoised bits are known for Chemprop's message passing, not for a factory's models",
                next_strategy="full",
            )
        from veristate.devices.certified import TrustedSide

        if self._side is None:
            self._side = TrustedSide.of(self._predictor)  # type: ignore[arg-type]
        return self._side

    def _suspect(self, trusted: int) -> Callable[[int, range, Any], tuple[NDArray[np.float32], Any]]:
        """The suspect device, reached through the run that started this process."""
        from veristate.devices.certified import places_of
        from veristate.numerics.probes import Export

        def run(member: int, batches: range, env: Any) -> tuple[NDArray[np.float32], Export]:
            known = self._side.members[member]
            places = places_of(env, trusted)
            widths = {name: len((known.message if name == "o" else known.step).W) for name in places}
            asked = RowsAsked(member=member, batches=batches, depth=len(env.bonds), places=places, widths=widths)
            self._channel.send(*asked.to_message())
            header, scores = self._channel.receive()
            if header.get("op") != "exported":
                self._channel.send({"free": header["slot"]})
                raise EnvironmentUnusableError(f"an export was asked for and {header.get('op')!r} came")
            # Copied and hashed here: what the other side does to the shared memory from now on changes nothing.
            rooms = asked.rooms(self._slots[header["slot"]].view(asked.size))
            export = Export.fix({name: [rows] for name, rows in rooms.items()}, str(header["weights"]))
            self._channel.send({"free": header["slot"]})
            given = np.frombuffer(scores, dtype="<f4")
            count = self._side.positions(batches)
            if len(given) != count.stop - count.start:
                raise EnvironmentUnusableError(
                    f"the suspect device gave {len(given)} scores of {count.stop - count.start} candidates"
                )
            return given, export

        return run
