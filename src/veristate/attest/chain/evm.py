"""Keys, signatures and encodings of the EVM: the one place of the `chain` extra, loaded when first used."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from veristate.core import EnvironmentUnusableError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signed transaction: its bytes and its hash."""

    raw: bytes
    hash: str


class Account:
    """A key that signs transactions. Nobody else should send from its address: nonces are handed out here."""

    def __init__(self, key: bytes) -> None:
        """Raises: InputError when `key` is no secp256k1 key of 32 bytes; the message doesn't hold it."""
        try:
            self._account = _library("eth_account").Account.from_key(key)
        except (ValueError, TypeError):
            raise InputError("an account's key is 32 bytes, a number between 1 and the order of secp256k1") from None
        self.address: str = self._account.address

    def __repr__(self) -> str:
        return f"Account({self.address})"

    def sign(self, *, chain_id: int, nonce: int, to: str | None, data: bytes, gas: int, fees: "Fees") -> Signed:
        """The transaction, of type 2, that calls `to` with `data` and sends no value; without `to` it deploys."""
        fields = {
            "type": 2,
            "chainId": chain_id,
            "nonce": nonce,
            "value": 0,
            "data": data,
            "gas": gas,
            "maxFeePerGas": fees.most,
            "maxPriorityFeePerGas": fees.tip,
        } | ({} if to is None else {"to": checksummed(to)})
        signed = self._account.sign_transaction(fields)
        return Signed(raw=bytes(signed.raw_transaction), hash="0x" + bytes(signed.hash).hex())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """What a transaction offers per gas, in wei: at most `most` in all, at most `tip` of it to who mines."""

    most: int
    tip: int


def keccak(data: bytes) -> bytes:
    """The Keccak-256 digest."""
    found: bytes = _library("eth_utils").keccak(data)
    return found


def checksummed(address: str) -> str:
    """The address with the capitals of EIP-55. Raises: InputError when it is none, or its capitals are wrong."""
    tools = _library("eth_utils")
    if not isinstance(address, str) or not tools.is_address(address):
        raise InputError(f"{address!r} is no address; it has 40 hexadecimal digits after 0x")
    found: str = tools.to_checksum_address(address)
    return found


def abi_encode(types: Sequence[str], values: Sequence[Any]) -> bytes:
    """The values as a contract reads them. Raises: InputError when one is not of its type or their number differs."""
    library = _library("eth_abi")
    try:
        encoded: bytes = library.encode(types, values)
    except (library.exceptions.EncodingError, ValueError, TypeError) as error:
        raise InputError(f"a contract can't be called with {values!r} as {types}: {error}") from error
    return encoded


def abi_decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """The values that a contract wrote. Raises: InputError when the bytes are not these types'."""
    library = _library("eth_abi")
    try:
        decoded: tuple[Any, ...] = library.decode(types, data)
    except (library.exceptions.DecodingError, ValueError, OverflowError) as error:
        raise InputError(
            f"{len(data)} bytes from a contract are not {types}: {error}; is its address right?"
        ) from error
    return decoded


def _library(name: str) -> ModuleType:
    limit = sys.getrecursionlimit()
    try:
        import eth_abi
        import eth_account
        import eth_utils
    except ImportError as error:
        raise EnvironmentUnusableError(f"anchoring needs {error.name}: pip install 'veristate[chain]'") from error
    finally:
        # eth_account brings an EVM where one is installed, and that one lets recursion grow until the stack overflows:
        # a deeply nested answer of a stranger would then end the process instead of raising.
        sys.setrecursionlimit(limit)
    return {"eth_abi": eth_abi, "eth_account": eth_account, "eth_utils": eth_utils}[name]
