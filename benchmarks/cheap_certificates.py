"""Claim: a pass is certified for a few percent of its cost, with a stated failure probability, or refused.

The five hERG members over the built-in table, fp32, batches of 64, one thread. Untimed rows: units recomputed, equal
bits, faulty passes, violations of bounds. Timed rows are interleaved rounds in one process, and want a quiet machine.

  --untimed, --timed, --scale   only these rows; the others are kept from an earlier run
  --preliminary                 one timed round, and the rows say so
"""

import json
import sys
import time
import warnings

from benchmarks.certificates.case import Case, Data, table
from benchmarks.certificates.timed import ROUNDS, scale, scale_claims, timed, timed_claims
from benchmarks.certificates.untimed import untimed, untimed_claims
from benchmarks.record import RESULTS, Claim, write
from veristate.devices import prepare_process

PARTS = {"--untimed", "--timed", "--scale"}


def main() -> None:
    """Runs what the flags say and writes the figures."""
    warnings.simplefilter("ignore")
    started, flags = time.time(), set(sys.argv[1:])
    wanted = flags & PARTS or PARTS
    prepare_process("cpu", 1)
    data = _earlier()
    if "--untimed" in wanted:
        data["untimed"] = untimed(Case.of(table()))
    if "--timed" in wanted:
        data["timed"] = timed(Case.of(table()), 1 if "--preliminary" in flags else ROUNDS)
    if "--scale" in wanted:
        data["scale"] = scale()
    write("cheap_certificates", claims_of(data), data, started)


def _earlier() -> Data:
    path = RESULTS / "cheap_certificates.json"
    return json.loads(path.read_text(encoding="utf-8"))["data"] if path.exists() else {}


def claims_of(data: Data) -> list[Claim]:
    """The rows that there are figures for."""
    claims = untimed_claims(data["untimed"]) if "untimed" in data else []
    claims += timed_claims(data["timed"]) if "timed" in data else []
    return claims + (scale_claims(data["scale"]) if "scale" in data else [])


if __name__ == "__main__":
    main()
