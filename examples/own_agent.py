"""An agent of your own: it gets a session (a tool to read with, a Python namespace, a workspace) and proposes.

Use it: veristate screen --agent own_agent:cautious   (with this folder on PYTHONPATH)
"""

from collections.abc import Mapping

from veristate.agents import Session, Task

CODE = """
import csv
rows = [(float(r["score"]), r["id"]) for r in csv.DictReader(open("scores.csv"))]
ranked = [name for _, name in sorted(rows, key=lambda row: (-row[0], row[1]))]
tested = [name for score, name in rows if score >= {threshold}]
open("report.md", "w").write(f"{{len(ranked)}} candidates, {{len(tested)}} to test\\n")
print(*ranked[:{count}], "|", *tested)
"""


def cautious(session: Session, task: Task) -> Mapping[str, tuple[str, ...]]:
    """What each rule chooses, worked out in the agent's own namespace."""
    rules = {rule.kind: rule for rule in task.rules}
    session.read()
    code = CODE.format(count=rules["top_k"].count, threshold=rules["threshold"].threshold)
    selected, tested = session.run(code).output.split("|")
    return {"top_k": tuple(selected.split()), "threshold": tuple(tested.split())}
