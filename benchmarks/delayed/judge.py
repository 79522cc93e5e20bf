"""The evaluator's command: `judge.py KIND SEED CANDIDATE REPLY`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - imports little, starts fast
from landscapes import worth

kind, seed, candidate, reply = sys.argv[1:]
with open(os.path.join(candidate, "x.txt"), encoding="utf-8") as source:  # noqa: PTH118, PTH123
    value = worth(kind, int(seed), source.read().strip())
with open(reply + ".draft", "w", encoding="utf-8") as target:  # noqa: PTH123
    target.write('{"rejected": "no candidate"}' if value is None else f'{{"metric": "{value}"}}')
os.rename(reply + ".draft", reply)  # noqa: PTH104
