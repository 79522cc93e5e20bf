"""Checks a product of numpy arrays, and finds one changed value. Run it with `python examples/check_a_layer.py`."""

import numpy as np

import veristate

rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 300), dtype=np.float32)
W = rng.standard_normal((300, 400), dtype=np.float32)
b = rng.standard_normal(400, dtype=np.float32)
Y = X @ W + b

check = veristate.check_product(X, W, Y, b)
print(f"as returned: {check.verdict().value}")

Y[123, 45] += 0.05
check = veristate.check_product(X, W, Y, b)
places = list(zip(check.elements.rows.tolist(), check.elements.columns.tolist(), strict=True))
print(f"one value off by 0.05: {check.verdict().value} at {places}")
