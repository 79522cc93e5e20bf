"""The contracts as they ship: ABI, bytecode, compiler settings and the source's digest, and calls to them as bytes."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from veristate.attest.chain.evm import abi_decode, abi_encode, keccak
from veristate.core import InputError, TamperError, digest

ContractName = Literal["LogHeads", "OneWord", "ThreeBindings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One compiled contract. `source_sha256` is of the Solidity file that ships beside it."""

    name: str
    source_sha256: str
    abi: tuple[dict[str, Any], ...]
    bytecode: bytes
    compiler: str
    settings: dict[str, Any]

    def call(self, function: str, *arguments: Any) -> bytes:
        """The calldata of a call. Raises: InputError when there is no such function or an argument does not fit."""
        types = self._types("function", function)
        return self._selector(function, types) + abi_encode(types, arguments)

    def decode(self, function: str, data: bytes) -> tuple[Any, ...]:
        """What a call of `function` returned."""
        entry = self._entry("function", function)
        return abi_decode([output["type"] for output in entry["outputs"]], data)

    def error(self, data: str | None) -> str:
        """The error a call reverted with, in words: `WrongSize(7)`."""
        try:
            raw = bytes.fromhex((data or "").removeprefix("0x"))
        except ValueError:
            raw = b""
        for entry in self.abi:
            if entry["type"] != "error":
                continue
            types = self._types("error", entry["name"])
            if raw[:4] == self._selector(entry["name"], types):
                values = (f"0x{v.hex()}" if isinstance(v, bytes) else str(v) for v in abi_decode(types, raw[4:]))
                return f"{entry['name']}({', '.join(values)})"
        return f"an unknown error {data!r}"

    def _entry(self, kind: str, name: str) -> dict[str, Any]:
        for entry in self.abi:
            if entry["type"] == kind and entry.get("name") == name:
                return entry
        raise InputError(f"{self.name} has no {kind} {name!r}")

    def _types(self, kind: str, name: str) -> list[str]:
        return [given["type"] for given in self._entry(kind, name)["inputs"]]

    def _selector(self, name: str, types: list[str]) -> bytes:
        return keccak(f"{name}({','.join(types)})".encode())[:4]


@cache
def contract(name: ContractName) -> Contract:
    """The contract of this name. Raises: TamperError when its source is not the one it was compiled from."""
    folder = resources.files("veristate.attest.chain") / "contracts"
    content = json.loads((folder / "contracts.json").read_bytes())
    compiled = content["contracts"][name]
    found = digest((folder / f"{name}.sol").read_bytes())
    if found != compiled["source_sha256"]:
        raise TamperError(f"{name}.sol has the digest {found}, but {compiled['source_sha256']} was compiled; reinstall")
    return Contract(
        name=name,
        source_sha256=compiled["source_sha256"],
        abi=tuple(compiled["abi"]),
        bytecode=bytes.fromhex(compiled["bytecode"]),
        compiler=content["compiler"],
        settings=content["settings"],
    )
