"""The process in which an evaluator's Python function runs: `python -m veristate.research.hosts.evaluator ORDER`.

The order names the function, the candidate's folder, the parameters and the file for the reply. What the function
prints goes to the log; the reply is written whole or not at all.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from veristate.core import InputError
from veristate.research.functions import load_function
from veristate.research.judgement import Rejection, Score, metric_text
from veristate.research.processes import die_with_parent


def main(order_file: str) -> None:
    """Returns when the reply is written. An exception ends the process instead: the engine reads the log."""
    die_with_parent()
    order = json.loads(Path(order_file).read_text(encoding="utf-8"))
    function = load_function(order["function"], Path(order["folder"]))
    watching: Any = nullcontext()
    if order["checked"]:
        from veristate.devices import checked

        watching = checked()
    with watching as checks:
        judged = function(Path(order["candidate"]), order["parameters"])
    reply = _reply(judged)
    if checks is not None:
        # INAPPLICABLE is no pass: what could not be judged stays unchecked.
        reply["arithmetic"] = {"PASS": "PASS", "FLAG": "FLAG"}.get(checks.verdict().value, "UNCHECKED")
        if checks.flags:
            reply["finding"] = checks.flags[0].describe()
    target = Path(order["reply"])
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps(reply), encoding="utf-8")
    draft.rename(target)


def _reply(judged: object) -> dict[str, Any]:
    if isinstance(judged, Rejection):
        return {"rejected": str(judged.reason), "details": _texts(judged.details)}
    if isinstance(judged, Score):
        metric = metric_text(judged.metric)
        return {"metric": metric, "repaired": judged.repaired is True, "details": _texts(judged.details)}
    raise InputError(f"an evaluator returns a Score or a Rejection, this one gave a {type(judged).__name__}")


def _texts(details: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(details).items()}


if __name__ == "__main__":
    main(sys.argv[1])
