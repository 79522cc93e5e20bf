"""Check one linear layer call: proven wrong, or within what honest rounding can do."""

import secrets

import numpy as np

from veristate.numerics import Operands, check_linear, fp32_arithmetic

rng = np.random.default_rng(1)
X = rng.normal(size=(500, 300)).astype(np.float32)
W = rng.normal(size=(200, 300)).astype(np.float32)
b = rng.normal(size=200).astype(np.float32)
Y = X @ W.T + b  # what the device returned
arithmetic = fp32_arithmetic(bias=True, flush=False)

honest = check_linear(Operands.of(X, W, b, Y), arithmetic, block=32, seed=secrets.token_bytes(16))
print("as returned:", honest.verdict())

Y[123, 45] += 0.5  # one wrong value among 100,000; a typical one is about 14
faulty = check_linear(Operands.of(X, W, b, Y), arithmetic, block=32, seed=secrets.token_bytes(16))
print("one value off by 0.5:", faulty.verdict(), "in rows", faulty.flagged_rows.nonzero()[0].tolist())
