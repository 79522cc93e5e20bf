"""Starts fast: no site, no veristate. Writes each evaluation that began into the file beside the task's folder."""

import json
import sys
from pathlib import Path

candidate, reply = map(Path, sys.argv[1:])
x = int((candidate / "x.txt").read_text())
with (Path(__file__).parent.parent / "began.log").open("a") as log:
    log.write(f"{x}\n")
said = {"metric": str(1000 - (x - 12) ** 2), "details": {"x": str(x)}}
if x > 20:
    said = {"rejected": f"{x} is above 20"}
reply.with_suffix(".draft").write_text(json.dumps(said))
reply.with_suffix(".draft").rename(reply)
