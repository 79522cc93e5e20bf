"""Claim: no false alarm on healthy passes of the default case, in fp32 and in bf16, with fresh signs in every pass."""

import time

from benchmarks.record import Claim, note, write
from veristate.devices import summarise
from veristate.screening import ScreeningOptions
from veristate.screening.studies.series import open_series

PASSES = 10


def main() -> None:
    """Runs the passes and writes the figures."""
    started, claims, data = time.time(), [], {}
    for dtype in ("fp32", "bf16"):
        counts, differing, closest = [], 0, 0.0
        with open_series(ScreeningOptions(dtype=dtype), note) as series:
            for number in range(PASSES):
                source = series.source(None)
                counts.append(summarise(source.findings.calls))
                differing += int((source.table.members != series.reference.members).sum())
                closest = max([closest, *(float(call.worst) for call in source.findings.calls)])
                note(f"{dtype} pass {number + 1}: {counts[-1]}, {source.seconds:.1f} s")
        flagged = sum(c["flagged"] + c["inapplicable"] for c in counts)
        calls = sum(c["calls"] for c in counts)
        data[dtype] = {
            "passes": counts,
            "units_differing_from_reference": differing,
            "largest_residual_over_bound": closest,
        }
        claims.append(
            Claim(
                claim=f"false alarms in {PASSES} healthy passes, {dtype}",
                measured=str(flagged),
                unit="calls flagged or not applicable",
                bar="0",
                met=flagged == 0,
                detail=f"{calls} linear calls, blocks of 32 with random signs; largest residual {closest:.3g} of its "
                f"bound; {differing} units differ from the trusted recomputation",
            )
        )
    write("healthy_passes", claims, data, started)


if __name__ == "__main__":
    main()
