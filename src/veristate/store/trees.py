"""Tree manifests: one folder as canonical JSON, and what no manifest may say.

A manifest names its entries once each, sorted as bytes. A name or link target that is not UTF-8 stands in hexadecimal
under `name_hex` or `target_hex`, and only such a one may: every tree has exactly one manifest, and so one digest.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from veristate.core import TamperError
from veristate.store.content import is_digest

TREE_FORMAT = "veristate.tree/1"
_MODE = re.compile(r"[0-7]{4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A regular file: permission bits, and the blob that holds its bytes."""

    name: bytes
    mode: int
    size: int
    blob: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEntry:
    """A symbolic link. Its target is text, followed by nobody here."""

    name: bytes
    target: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """A folder: the digest of its own manifest, which holds its mode."""

    name: bytes
    tree: str


TreeEntry = FileEntry | LinkEntry | FolderEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One folder: its permission bits and its entries, sorted by name as bytes."""

    mode: int
    entries: tuple[TreeEntry, ...]

    def to_bytes(self) -> bytes:
        """The canonical manifest."""
        # The bytes of RFC 8785 for text and small integers under ASCII keys, which is all there is, much sooner.
        entries = ",".join([_to_json(entry) for entry in self.entries])
        return f'{{"entries":[{entries}],"format":"{TREE_FORMAT}","mode":"{self.mode:04o}"}}'.encode()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> "Tree":
        """The tree that the manifest with digest `name` describes.

        Raises: TamperError when it is no manifest, is not canonical, or names what could leave the folder.
        """
        try:
            content = json.loads(data)
            if content["format"] != TREE_FORMAT:
                raise ValueError(f"format {content['format']!r}")
            entries = tuple(_from_json(entry) for entry in content["entries"])
            tree = cls(mode=_mode(content["mode"]), entries=entries)
            names = [entry.name for entry in entries]
            if names != sorted(set(names)):
                raise ValueError("names that are not sorted or stand twice")
            if tree.to_bytes() != data:
                raise ValueError("bytes that are not canonical")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TamperError(f"tree {name} can't be restored: {error}; don't trust where it came from") from error
        return tree


def _text(key: str, value: bytes) -> str:
    """`value` under `key`, or in hexadecimal under `key_hex` when it is not UTF-8."""
    try:
        return f'"{key}":{encode_basestring(value.decode("utf-8"))}'
    except UnicodeDecodeError:
        return f'"{key}_hex":"{value.hex()}"'


def _bytes(key: str, entry: Mapping[str, Any]) -> bytes:
    if key in entry:
        return str(entry[key]).encode("utf-8")
    return bytes.fromhex(entry[f"{key}_hex"])


def _mode(text: str) -> int:
    if not _MODE.fullmatch(text):
        raise ValueError(f"mode {text!r}")
    return int(text, 8)


def _digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError(f"digest {text!r}")
    return text


def _to_json(entry: TreeEntry) -> str:
    """Canonical: the keys stand in order."""
    name = _text("name", entry.name)
    if isinstance(entry, FileEntry):
        return f'{{"blob":"{entry.blob}","kind":"file","mode":"{entry.mode:04o}",{name},"size":{entry.size}}}'
    if isinstance(entry, LinkEntry):
        return f'{{"kind":"link",{name},{_text("target", entry.target)}}}'
    return f'{{"kind":"folder",{name},"tree":"{entry.tree}"}}'


def _from_json(entry: Mapping[str, Any]) -> TreeEntry:
    name = _bytes("name", entry)
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
        raise ValueError(f"the name {name!r}")
    return _READERS[entry["kind"]](name, entry)


def _file(name: bytes, entry: Mapping[str, Any]) -> TreeEntry:
    size = entry["size"]
    if type(size) is not int or not 0 <= size < 2**53:
        raise ValueError(f"size {size!r}")
    return FileEntry(name=name, mode=_mode(entry["mode"]), size=size, blob=_digest(entry["blob"]))


def _link(name: bytes, entry: Mapping[str, Any]) -> TreeEntry:
    target = _bytes("target", entry)
    if not target or b"\0" in target:
        raise ValueError(f"the link target {target!r}")
    return LinkEntry(name=name, target=target)


def _folder(name: bytes, entry: Mapping[str, Any]) -> TreeEntry:
    return FolderEntry(name=name, tree=_digest(entry["tree"]))


_READERS: dict[str, Callable[[bytes, Mapping[str, Any]], TreeEntry]] = {"file": _file, "link": _link, "folder": _folder}
