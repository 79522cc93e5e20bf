"""Lists of names: as sets, and as rankings."""

from typing import Any


def set_distance(a: Any, b: Any) -> float:
    """The Jaccard distance 1 - |A n B| / |A u B| of two lists of texts; 0 for two empty ones, 1 for no such list."""
    if not (_names(a) and _names(b)):
        return 0.0 if a == b else 1.0
    left, right = set(a), set(b)
    return 1 - len(left & right) / len(left | right) if left or right else 0.0


def ranking_distance(a: Any, b: Any) -> float:
    """The intersection metric of two top-k lists: the mean over d = 1..k of |A_d xor B_d| / 2d, A_d the first d of A.

    A list that ends before depth d counts with all it has, and what it lacks counts as differing.
    Source: Fagin, Kumar, Sivakumar, Comparing top k lists (2003), 3.1. Differs: lists of unequal length.
    """
    if not (_names(a) and _names(b)) or len(set(a)) < len(a) or len(set(b)) < len(b):
        return 0.0 if a == b else 1.0
    depth = max(len(a), len(b))
    if not depth:
        return 0.0
    total = sum(1 - len(set(a[:d]) & set(b[:d])) / d for d in range(1, depth + 1))
    return total / depth


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
