"""What the tests of this room work with: tiny predictors both processes can import, and one trusted process of them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from veristate.decisions import Box
from veristate.devices import Predictor, TrustedExecutor, load_predictor, prepare_process
from veristate.devices.certified import TrustedSide

HERE = Path(__file__).parent
# The tests import their cases by name, and the trusted process finds the factories as this one does.
sys.path.insert(0, str(HERE))

from device_cases import herg_candidates, herg_spec, tiny_candidates, tiny_spec  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _importable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The factories are importable in every child; a file tells them to misbehave."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        patch.setenv("VERISTATE_TEST_MOOD", str(tmp_path_factory.mktemp("mood") / "mood"))
        prepare_process("cpu", 1)
        yield


@pytest.fixture
def mood() -> Iterator[Path]:
    """The file whose text tells a tiny predictor how to misbehave, in either process."""
    path = Path(os.environ["VERISTATE_TEST_MOOD"])
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def tiny() -> Predictor:
    """The suspect's tiny predictor, fp32."""
    return load_predictor(tiny_spec(), tiny_candidates())


@pytest.fixture(scope="session")
def trusted() -> Iterator[TrustedExecutor]:
    """One trusted process with the tiny predictor, fp32."""
    with TrustedExecutor(tiny_spec(), tiny_candidates()) as executor:
        yield executor


@pytest.fixture(scope="session")
def herg_hundred() -> Predictor:
    """All members over the first hundred drugs, fp32: one batch of 64 and a short one."""
    return load_predictor(herg_spec(), herg_candidates(100))


@pytest.fixture(autouse=True)
def _switches() -> Iterator[None]:
    """Every test leaves torch's switches as it found them."""
    yield
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")


@pytest.fixture(scope="module")
def side(herg_hundred: Predictor) -> Any:
    """The trusted side over the first hundred drugs, as one stretch."""
    return TrustedSide.of(herg_hundred)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exact(side: Any) -> Box:
    """Enclosures of all exact member values."""
    return side.everything()  # type: ignore[no-any-return]
