"""What the tests of anchoring work with: nodes to talk to, an account, and chains of every kind."""

import sys
from pathlib import Path

import pytest

# The tests import their nodes by name.
sys.path.insert(0, str(Path(__file__).parent))

from chain_nodes import EvmNode, ScriptedChain, anvil

from veristate.attest.chain import Account


@pytest.fixture
def account():
    """An account that every node here gave ether to: the first of the test chains' common list."""
    return Account(bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"))


@pytest.fixture
def other_account():
    """Another account with ether."""
    return Account(bytes.fromhex("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"))


@pytest.fixture
def scripted():
    """A chain whose blocks, reorganisations and answers the test decides."""
    return ScriptedChain()


@pytest.fixture(params=["py-evm", "anvil"])
def node(request):
    """A real EVM: py-evm in this process, then anvil beside it."""
    if request.param == "py-evm":
        yield EvmNode()
    else:
        with anvil() as started:
            yield started


@pytest.fixture
def anvil_node():
    """Anvil, which mines only when told."""
    with anvil("--no-mining") as started:
        yield started
