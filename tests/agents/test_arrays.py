"""Arrays come back with their memory: who shares it with whom, what it holds, who may write."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.agents.namespace import Namespace
from veristate.agents.namespace.pickling import dump, load

DTYPES = ["f8", "i1", ">c16", "M8[s]", "U3", "S2", [("a", "i4"), ("b", "f8")]]


def turned(array: np.ndarray, draw: Any) -> np.ndarray:
    """A view of `array`: slices with steps of either sign, axes exchanged."""
    index = []
    for length in array.shape:
        start = draw(st.integers(0, length - 1))
        step = draw(st.sampled_from([1, 2, -1, -2]))
        index.append(slice(start, None, step))
    return array[(*index, ...)].transpose(draw(st.permutations(range(array.ndim))))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_views_keep_values_and_sharing(data: Any) -> None:
    """Of an array in any order of axes and views of views on it, values, layout and every shared byte come back."""
    shape = data.draw(st.lists(st.integers(1, 4), max_size=3))
    dtype = data.draw(st.sampled_from(DTYPES))
    owner = np.empty(shape, dtype)
    owner.reshape(-1).view(np.uint8)[:] = np.arange(owner.nbytes) % 97
    owner = owner.transpose(data.draw(st.permutations(range(len(shape))))).copy(order="K")
    first = turned(owner, data.draw)
    arrays = data.draw(st.permutations([owner, first, turned(first, data.draw)]))
    content, _ = load({}, *_copied(dump({"arrays": arrays}, None)))
    again = content["arrays"]
    for i, array in enumerate(arrays):
        assert again[i].tobytes() == array.tobytes()
        assert (again[i].dtype, again[i].shape) == (array.dtype, array.shape)
        assert again[i].flags.writeable
        for j, other in enumerate(arrays):
            assert np.shares_memory(again[i], again[j]) == np.shares_memory(array, other)
            assert _distance(again[i], again[j]) == _distance(array, other)


def _copied(dumped: tuple[bytes, list[memoryview]]) -> tuple[bytes, list[bytearray]]:
    return dumped[0], [bytearray(buffer) for buffer in dumped[1]]


def _distance(one: np.ndarray, two: np.ndarray) -> int:
    return one.__array_interface__["data"][0] - two.__array_interface__["data"][0]


# Each: the cell before the checkpoint and an expression that must be true after going back.
SHARING = {
    "a write to the base shows in the view": (
        "a = np.arange(10.)\nv = a[2:8:2]",
        "(a.fill(5), v.tolist())[1] == [5] * 3",
    ),
    "a write to the view shows in the base": ("a = np.arange(4)\nv = a[::-1]", "(v.__setitem__(0, 9), a[3])[1] == 9"),
    "a view whose base has no name any more": ("v = np.arange(10)[3:5]\nw = v.base[4:6]", "np.shares_memory(v, w)"),
    "a view of Python objects": (
        "a = np.array([[1, 'x'], [None, 2]], object)\nv = a[:, 1]",
        "(v.__setitem__(1, 'new'), a[1, 1])[1] == 'new' and v[0] == 'x'",
    ),
    "a window made by stride tricks": (
        "a = np.arange(5)\nv = np.lib.stride_tricks.sliding_window_view(a, 3)",
        "(a.__setitem__(2, 7), v.tolist())[1] == [[0, 1, 7], [1, 7, 3], [7, 3, 4]]",
    ),
    "an array on a bytearray": (
        "b = bytearray(8)\na = np.frombuffer(b, 'u1')[2:]",
        "(a.fill(1), b[1:3])[1] == b'\\0\\1'",
    ),
    "a read-only array, and a view that may write": (
        "a = np.arange(3)\nv = a[:2]\na.flags.writeable = False",
        "(v.__setitem__(0, 9), a[0])[1] == 9 and not a.flags.writeable",
    ),
    "an array that owns its memory, so that it can be resized": (
        "a = np.arange(3)",
        "a.flags.owndata and a.resize(5) is None",
    ),
    "an array without dimensions, and empty ones": (
        "a = np.array(3.)\nb = np.zeros((0, 4))\nc = np.zeros(3)[:0]",
        "a == 3 and b.shape == (0, 4) and c.size == 0",
    ),
    "large buffers, writable": ("a = np.ones(100_000)\nv = a[50_000:]", "(v.fill(2), a.sum())[1] == 150_000"),
}


def test_sharing(namespace: Namespace, go_back: Callable[..., None]) -> None:
    """Arrays that shared memory at the checkpoint share it after going back: each case put aside under a name."""
    assert namespace.run("import numpy as np").ok
    for number, (code, _) in enumerate(SHARING.values()):
        aside = f"case{number} = {{name: globals().pop(name) for name in 'avwbc' if name in globals()}}"
        assert namespace.run(f"{code}\n{aside}").ok
    go_back(namespace, namespace.checkpoint(), "case0 = case1 = None")
    for number, (what, (_, holds)) in enumerate(SHARING.items()):
        assert (
            namespace.run(f"globals().update(globals().pop('case{number}'))\nprint({holds})").observation == "True\n"
        ), what


def test_pandas_copies_on_write_after_going_back(namespace: Namespace, go_back: Callable[..., None]) -> None:
    """A frame is not changed through another one made from it: pandas' own record of sharing is in no pickle."""
    pytest.importorskip("pandas")
    code = "import pandas as pd\ndf = pd.DataFrame({'a': [1., 2.], 'b': [3., 4.], 's': ['x', 'y']})\n"
    assert namespace.run(code + "part = df[['a']]\ncolumn = df['b']\nwhole = df.copy(deep=False)").ok
    go_back(namespace, namespace.checkpoint(), "df = None")
    write = "part.iloc[0, 0] = 9\ncolumn.iloc[0] = 9\nwhole.iloc[0, 0] = 9\n"
    result = namespace.run(write + "print(df.values.tolist(), part.values.tolist(), column.tolist())")
    assert result.observation == "[[1.0, 3.0, 'x'], [2.0, 4.0, 'y']] [[9.0], [2.0]] [9.0, 4.0]\n"


def test_a_large_array_goes_and_returns(namespace: Namespace, go_back: Callable[..., None]) -> None:
    """40 MB come back bit for bit, from one buffer beside the pickle."""
    namespace.run("import numpy as np, hashlib\na = np.random.default_rng(1).random(5_000_000)\nb = a[1:]")
    wanted = namespace.run("print(hashlib.sha256(a).hexdigest())").output
    checkpoint = namespace.checkpoint()
    assert len(checkpoint.buffers) == 1
    go_back(namespace, checkpoint, "a[:] = 0")
    assert namespace.run("print(hashlib.sha256(a).hexdigest())").output == wanted
    assert namespace.run("b[0] = 5\nprint(a[1])").output == "5.0\n"
