"""Ed25519 keys: what signs, what verifies, and how a key is named.

A key's id is the SHA-256 of its 32 public bytes. In signed notes it goes by a name and four bytes of a hash instead,
and is handed around as a verifier key: `name+hash+base64`.
"""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from veristate.attest.disk import locked, write_whole
from veristate.attest.signing.base64_text import decode64, encode64
from veristate.core import EnvironmentUnusableError, InputError, digest
from veristate.store import disk

_NAME = re.compile(r"[^\s+]+")


class NoteKind(IntEnum):
    """What a key signs in a note. Source: C2SP signed-note and tlog-cosignature, signature types."""

    LOG = 1
    WITNESS = 4


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The 32 bytes of an Ed25519 public key."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InputError(f"an Ed25519 public key has 32 bytes, this one {len(self.raw)}")

    @classmethod
    def from_hex(cls, text: str) -> "PublicKey":
        """The key whose bytes are `text`. Raises: InputError when it is no such text."""
        try:
            return cls(bytes.fromhex(text))
        except ValueError as error:
            raise InputError(f"not a public key in hexadecimal: {text[:80]!r}") from error

    @property
    def id(self) -> str:
        """SHA-256 of the key's bytes, in hexadecimal."""
        return digest(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is this key's over `message`."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key. It is never a value in a record and never printed."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def new(cls, random: Callable[[int], bytes] = os.urandom) -> "SigningKey":
        """A key of 32 fresh bytes."""
        return cls(Ed25519PrivateKey.from_private_bytes(random(32)))

    @classmethod
    def open(cls, path: Path) -> "SigningKey":
        """The key in the file `path`, made there if there is none. Raises: as `load`."""
        with locked(path.parent):
            if not path.exists():
                cls.new().save(path)
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> "SigningKey":
        """The key in the file `path`.

        Raises: EnvironmentUnusableError when there is none, the file is no Ed25519 key, or others may read it.
        """
        with disk(path):
            data, mode = path.read_bytes(), path.stat().st_mode
        if mode & 0o077:
            raise EnvironmentUnusableError(f"{path}: others may read this private key; chmod 600, or take a new one")
        try:
            private = load_pem_private_key(data, password=None)
        except (ValueError, TypeError) as error:
            raise EnvironmentUnusableError(
                f"{path}: no private key in it ({error}); bring it back from a copy"
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise EnvironmentUnusableError(f"{path}: not an Ed25519 key; choose another file")
        return cls(private)

    def save(self, path: Path) -> None:
        """Returns when the key is in the file `path`, readable by its owner alone."""
        write_whole(path, self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of this key's signature over `message`."""
        return self._private.sign(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteKey:
    """A public key under the name and kind that it signs notes with."""

    name: str
    kind: NoteKind
    public: PublicKey

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"a key's name has no spaces and no plus, and is not empty: {self.name!r}")

    @property
    def hash(self) -> bytes:
        """The four bytes that stand before its signatures."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public.raw).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.hash.hex()}+{encode64(bytes([self.kind]) + self.public.raw)}"

    @classmethod
    def parse(cls, text: str) -> "NoteKey":
        """The key that a verifier key `name+hash+base64` names. Raises: InputError when it is none of ours."""
        try:
            name, mark, encoded = text.strip().split("+", 2)
            data = decode64(encoded)
            key = cls(name=name, kind=NoteKind(data[0]), public=PublicKey(data[1:]))
        except (ValueError, IndexError) as error:
            raise InputError(f"not a verifier key (name+hash+base64, Ed25519): {text[:120]!r}: {error}") from error
        if key.hash.hex() != mark:
            raise InputError(f"verifier key {text[:120]!r}: its hash is {key.hash.hex()}; copy it again")
        return key
