"""Goes up by one from the x in its workspace, and leaves a trace of every step in a file."""

import importlib.util
import os
import pathlib
from importlib.machinery import SourceFileLoader

mailbox = pathlib.Path(os.environ["VERISTATE_MAILBOX"])
loader = SourceFileLoader("submit", str(mailbox / "submit"))
submit = importlib.util.module_from_spec(importlib.util.spec_from_loader("submit", loader))
loader.exec_module(submit)

file = pathlib.Path("x.txt")
x = int(file.read_text()) + 1 if file.exists() else 0
while True:
    draft = pathlib.Path(".x")
    draft.write_text(str(x))
    draft.rename(file)
    with pathlib.Path("trace.txt").open("a") as trace:
        trace.write(f"{x}\n")
    reply = submit.ask(mailbox, {"kind": "submit", "note": f"x = {x}"})
    if reply["segment_over"]:
        break
    x += 1
