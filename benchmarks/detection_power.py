"""Claim: blocks with a screen see single wrong elements of a tenth of the mean output at every width.

Every fault is simulated: a healthy torch product in which elements were changed. Sizes are in mean |Y|. A fault counts
as always found when it is at every one of 300 random places, at its size and at larger ones.
"""

import time

import torch

from benchmarks.detection.flips import FLIP_SHAPES, bit_flips, flip_claims
from benchmarks.detection.layers import DTYPES
from benchmarks.detection.localisation import localisation, localisation_claims
from benchmarks.detection.pairs import PAIR_DRAWS, pairs, pairs_claim
from benchmarks.detection.sizes import WIDTHS, smallest, smallest_claims
from benchmarks.record import note, write


def main() -> None:
    """Measures and writes the figures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started, data = time.time(), {}
    data["smallest"] = {
        f"{dtype} {width}{'' if bias else ', no bias'}": smallest(width, dtype, bias=bias)
        for width in WIDTHS
        for dtype in DTYPES
        for bias in (True, False)
    }
    data["pairs"] = {draws: pairs(draws) for draws in (0, *PAIR_DRAWS)}
    note(f"cancelling pairs: {data['pairs']}")
    data["localisation"] = localisation()
    note(f"localisation: {data['localisation']['observations']}")
    data["bit_flips"] = {f"{dtype} {K}x{N}": bit_flips(K, N, dtype) for dtype in DTYPES for K, N in FLIP_SHAPES}
    claims = [
        *smallest_claims(data["smallest"]),
        pairs_claim(data["pairs"]),
        *localisation_claims(data["localisation"]),
    ]
    write("detection_power", [*claims, *flip_claims(data["bit_flips"])], data, started)


if __name__ == "__main__":
    main()
