"""The ways in which a call is checked: by definition, and by the guard with each of its kernels."""

import pytest

from veristate.numerics import Guard, check_linear
from veristate.numerics.kernels import native, passes


@pytest.fixture(params=["definition", "guard", "guard in numba"])
def checked(request, monkeypatch):
    """A function that checks a call, with the keywords of `check_linear`; a guard keeps its memory between calls."""
    if request.param == "definition":
        return check_linear
    if request.param == "guard in numba":
        monkeypatch.setattr(passes, "native", None)
    return Guard().check


@pytest.fixture
def guards(monkeypatch):
    """Makes new guards, one for each kernel that is here, and gives their checks: what they are compared with is then
    computed once.
    """

    def in_numba(guard):
        def check(*call, **how):
            with monkeypatch.context() as patch:
                patch.setattr(passes, "native", None)
                return guard.check(*call, **how)

        return check

    return lambda: (in_numba(Guard()), *([Guard().check] if native.native is not None else []))
