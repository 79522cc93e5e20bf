"""An evaluator whose torch arithmetic is really wrong: its metric is flagged, told, and evidence of nothing."""

import json

from veristate.research import objective_of, ranked, summary
from veristate.research.deciding import gather, model_decides

from .test_engine import _of_tree, script

# The fault lies beneath the check, as a device's does: the module enters it before the host begins to watch.
FAULTY = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from veristate.research import Score

class Faulty(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # torch's compiler is not there to be kept away, and is not loaded for it

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == "mm" and float(args[0][0, 0]) == 9:
            out[0, 0] += 100
        return out

Faulty().__enter__()

def evaluate(candidate, parameters):
    x = float((candidate / "x.txt").read_text())
    return Score(metric=float((torch.full((8, 8), x) @ torch.eye(8))[0, 0]))
"""
WORKER = """
if segment["segment"] == 1:
    told = [submit(5), submit(9)]
    pathlib.Path("told.json").write_text(json.dumps(told))
else:
    pathlib.Path("there.json").write_text(json.dumps([p.name for p in pathlib.Path(".").iterdir()]))
    submit(9)
"""


COMMAND = 'command = ["{python}", "-S", "-E", "{task}/judge.py", "{candidate}", "{reply}"]\ntimeout_s = 10'


def test_a_metric_from_faulty_arithmetic_is_no_evidence(make_task, run):
    """The largest metric is a fault's: FLAG, told to the worker, no best, no restart state by any decider, not ranked
    for the audit; the same candidate may be tried again, for another query.
    """
    folder = make_task(
        (COMMAND, 'function = "judge.py:evaluate"\nchecked = true\ntimeout_s = 120'),
        ("wall_s = 60\nqueries = 1000", "queries = 3"),
        ("wall_s = 10\n", "wall_s = 200\n"),
        files=script(WORKER) | {"judge.py": FAULTY},
    )
    result = run(folder)
    standing, worker = result.standing, result.standing.workers["w0"]
    said = [(card.metric, card.arithmetic) for card in worker.cards]
    assert said == [("5.0", "PASS"), ("109.0", "FLAG"), ("109.0", "FLAG")]
    assert standing.queries == 3
    first, second = json.loads(_of_tree(result, worker.segments[0].end_tree, "told.json"))
    assert first["ok"]
    assert not second["ok"]
    assert "flagged" in second["text"]
    assert second["best"] == "5.0"
    assert [decided.content["restart"] for decided in worker.decisions] == ["w0/S01"]
    there = json.loads(_of_tree(result, worker.cards[-1].tree, "there.json"))
    assert "told.json" not in there
    assert summary(standing)["best"] == "5.0"
    assert [card.place for card in ranked(standing, objective_of(standing))] == ["w0/S01"]
    evidence = gather(standing, "w0", objective_of(standing), remaining=500)
    chosen = {"restart": "w0/S02", "direction": "extend", "imports": [], "evidence": []}
    chosen |= dict.fromkeys(("bottleneck", "rationale", "focus"), "its metric is the largest")
    decision = model_decides(evidence, lambda _prompt, _schema: json.dumps(chosen), "")
    assert decision.decider == "policy-after-model"
    assert "w0/S02" in decision.failure
    assert decision.restart == "w0/S01"
