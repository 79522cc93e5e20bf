"""Texts: by the words they share, and by the angle between two embeddings."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+", re.UNICODE)


def token_distance(a: str, b: str) -> float:
    """1 - F1 of the words of two texts, each as often as it stands there, letters' case apart."""
    left, right = Counter(_WORD.findall(a.casefold())), Counter(_WORD.findall(b.casefold()))
    words = left.total() + right.total()
    if not words:
        return 0.0 if a.strip() == b.strip() else 1.0
    return 1 - 2 * (left & right).total() / words


def cosine_distance(a: Sequence[float], b: Sequence[float]) -> float:
    """(1 - cos) / 2 of two embeddings; 1 where one has no direction, is not finite, or has another length."""
    norms = math.hypot(*a) * math.hypot(*b)
    if len(a) != len(b) or not 0 < norms < math.inf:
        return 1.0
    cosine = math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms
    return min(1.0, max(0.0, (1 - cosine) / 2))
