"""What is sought in each campaign, and what one candidate is worth. Standard library alone: it runs in bare processes.

A candidate is one line of text. Bit strings are read against a mask drawn from the instance's seed, which the worker
does not know: it learns only what its submissions return.
"""

import random

BITS = {"detour": 15, "late_value": 24}
TRAP, FROM_WIDE, CUBE = 3, 10, 6
CONFIGS, STEPS = 6, 60
ONSETS = {"long_jobs": (2, 30), "early_signs": (1, 8), "stalls": (1, 8)}  # from one step on, before another
STUCK = 2  # configurations of `stalls` that never end


def start(kind: str, seed: int) -> str:
    """Where every worker of that instance starts."""
    if kind == "dead_ends":
        return "0"
    bits = hidden(kind, seed)
    if kind == "detour":  # anywhere
        return "".join(random.Random(f"start {seed}").choice("01") for _ in bits)
    turned = set(random.Random(f"start {seed}").sample(range(len(bits)), FROM_WIDE))
    return "".join(bit if i in turned else flipped(bit) for i, bit in enumerate(bits))


def worth(kind: str, seed: int, candidate: str) -> int | None:
    """The metric to maximise; None for what is no candidate."""
    if kind == "dead_ends":
        return snake(candidate)
    if kind in ONSETS:
        return trained(kind, seed, candidate)
    bits = hidden(kind, seed)
    if len(candidate) != len(bits) or set(candidate) - {"0", "1"}:
        return None
    right = [a == b for a, b in zip(candidate, bits, strict=True)]
    return traps(right) if kind == "detour" else funnels(right)


def traps(right: list[bool]) -> int:
    """Blocks of three: 3 when all are right, else 2, 1, 0 for none, one, two right. Each step towards a solved block
    but the last looks worse.
    """
    counts = [sum(right[i : i + TRAP]) for i in range(0, len(right), TRAP)]
    return sum(TRAP if count == TRAP else TRAP - 1 - count for count in counts)


def funnels(right: list[bool]) -> int:
    """A wide funnel that ends at 60, everything wrong, and a narrow one that ends at 100, everything right. They meet
    where half is right; the start lies on the wide one's side, near the meeting.
    """
    wrong = len(right) - sum(right)
    return max(60 - 2 * (len(right) - wrong), 100 - 5 * wrong)


def trained(kind: str, seed: int, candidate: str) -> int | None:
    """What a configuration is worth after so many steps: nothing until its onset, then evenly up to its end's worth.
    Neither is known to the worker, and what starts late may end high.
    """
    config, _, made = candidate.partition(" ")
    if not (config.isdigit() and made.isdigit() and int(config) < CONFIGS and int(made) <= STEPS):
        return None
    onset, end = curves(kind, seed)[int(config)]
    return max(0, end * (int(made) - onset) // (STEPS - onset))


def curves(kind: str, seed: int) -> list[tuple[int, int]]:
    """Of each configuration the step at which it begins to be worth something, and what it is worth at the end."""
    draw = random.Random(f"curves {seed}")
    return [(draw.randrange(*ONSETS[kind]), draw.randrange(20, 101)) for _ in range(CONFIGS)]


def stuck(kind: str, seed: int) -> dict[int, int]:
    """The configurations that hang for ever, and the step after which they do."""
    draw = random.Random(f"stuck {seed}")
    return {config: draw.randrange(5, 30) for config in draw.sample(range(CONFIGS), STUCK if kind == "stalls" else 0)}


def reachable(kind: str, seed: int) -> int:
    """The best worth that training to the end gives."""
    return max(end for config, (_, end) in enumerate(curves(kind, seed)) if config not in stuck(kind, seed))


def snake(candidate: str) -> int | None:
    """The length of an induced path in the cube of six dimensions (the longest has 26 edges)."""
    try:
        path = [int(part) for part in candidate.split()]
    except ValueError:
        return None
    inside = path and all(0 <= corner < 2**CUBE for corner in path)
    return len(path) - 1 if inside and len(set(path)) == len(path) and induced(path) else None


def induced(path: list[int]) -> bool:
    """Whether two corners are neighbours exactly when they follow each other."""
    pairs = ((i, j) for i in range(len(path)) for j in range(i + 1, len(path)))
    return all(((path[i] ^ path[j]).bit_count() == 1) == (j == i + 1) for i, j in pairs)


def hidden(kind: str, seed: int) -> str:
    """The mask of an instance."""
    draw = random.Random(f"{kind} {seed}")
    return "".join(draw.choice("01") for _ in range(BITS[kind]))


def flipped(bit: str) -> str:
    """The other bit."""
    return "1" if bit == "0" else "0"
