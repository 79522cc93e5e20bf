"""The ways in which a call is checked: by definition, and by the guard with each of its kernels."""

import pytest

from veristate.numerics import Guard, check_linear
from veristate.numerics.kernels import passes


@pytest.fixture(params=["definition", "guard", "guard in numba"])
def checked(request, monkeypatch):
    """A function that checks a call, with the keywords of `check_linear`; a guard keeps its memory between calls."""
    if request.param == "definition":
        return check_linear
    if request.param == "guard in numba":
        monkeypatch.setattr(passes, "native", None)
    return Guard().check
