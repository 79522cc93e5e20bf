"""Randomness of a challenge, fixed by what nobody knew when the step was committed.

A recorder who could foresee which steps are audited, or under which seeds they are rerun, would fabricate the others.
"""

from collections.abc import Sequence

from veristate.core import InputError, canonical_bytes, digest

MOST = 2**53


def challenge_seed(head: bytes, witness_time: int, commitment: str) -> bytes:
    """32 bytes from a witnessed head that includes the commitment, the witness's time in seconds, and its digest."""
    said = {"head": digest(head), "witness_time": str(witness_time), "commitment": commitment}
    return bytes.fromhex(digest(canonical_bytes({"format": "veristate.challenge-seed/1"} | said)))


def rerun_seeds(seed: bytes, count: int) -> tuple[bytes, ...]:
    """One seed a rerun."""
    return tuple(_derived(seed, "rerun", number) for number in range(count))


def rerun_number(seed: bytes) -> int:
    """A rerun's seed as the integer in [0, 2^31) that models take."""
    return int.from_bytes(seed[:8], "big") % 2**31


def tie_of(seed: bytes) -> float:
    """The tie of `Wealth.add`: within (0, 1], of 2^53 values."""
    return (int.from_bytes(_derived(seed, "tie", 0)[:8], "big") % MOST + 1) / MOST


def chosen(seed: bytes, commitments: Sequence[str], count: int) -> tuple[str, ...]:
    """The `count` commitments to audit, in an order that the seed fixes. Raises: InputError when there are fewer."""
    if not 0 <= count <= len(set(commitments)):
        raise InputError(f"{count} of {len(set(commitments))} commitments can't be chosen")
    return tuple(sorted(set(commitments), key=lambda name: digest(seed + name.encode())))[:count]


def _derived(seed: bytes, purpose: str, number: int) -> bytes:
    return bytes.fromhex(digest(seed + f"{purpose}/{number}".encode()))
