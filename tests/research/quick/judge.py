"""Starts fast: no site, no veristate, no module but sys. Writes each evaluation that began into the file beside the
task's folder.
"""

import sys

candidate, reply = sys.argv[1:]
with open(f"{candidate}/x.txt") as file:  # noqa: PTH123 - starts fast
    x = int(file.read())
with open(f"{__file__.rpartition('/')[0]}/../began.log", "a") as log:  # noqa: PTH123
    log.write(f"{x}\n")
said = f'{{"metric": "{1000 - (x - 12) ** 2}", "details": {{"x": "{x}"}}}}'
if x > 20:
    said = f'{{"rejected": "{x} is above 20"}}'
with open(reply, "w") as file:  # noqa: PTH123
    file.write(said)
