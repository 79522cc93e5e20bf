"""Where things are in a tiled log. Source: C2SP tlog-tiles.

checkpoint                  the signed head
tile/<level>/<N>[.p/<W>]    256 hashes, or the W first of them
tile/entries/<N>[.p/<W>]    their entries, each after its length in two bytes
"""

from collections.abc import Sequence

from veristate.core import InputError

WIDTH = 256
HASH = 32
ENTRY_BYTES_UPPER = 65_535
CHECKPOINT = "checkpoint"


def tile_path(level: int, index: int, width: int = WIDTH) -> str:
    """The path of a tile of hashes, `width` of them."""
    return f"tile/{level}/{_number(index)}{_partial(width)}"


def bundle_path(index: int, width: int = WIDTH) -> str:
    """The path of a bundle of entries, `width` of them."""
    return f"tile/entries/{_number(index)}{_partial(width)}"


def width_at(level: int, index: int, size: int) -> int:
    """How many hashes the tile has in a tree of `size` leaves: 256, fewer, or none."""
    return max(0, min(WIDTH, (size >> 8 * level) - index * WIDTH))


def pack(entries: Sequence[bytes]) -> bytes:
    """The bundle of these entries."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def unpack(bundle: bytes) -> list[bytes]:
    """The entries of a bundle. Raises: ValueError when it ends within one."""
    entries, at = [], 0
    while at < len(bundle):
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        if end > len(bundle) or at + 2 > len(bundle):
            raise ValueError("a bundle that ends within an entry")
        entries.append(bundle[at + 2 : end])
        at = end
    return entries


def check_entry(entry: bytes) -> None:
    """Returns when a log can hold the entry. Raises: InputError."""
    if not 0 < len(entry) <= ENTRY_BYTES_UPPER:
        raise InputError(f"an entry has 1 to {ENTRY_BYTES_UPPER} bytes, not {len(entry)}: log digests, keep the rest")


def _number(index: int) -> str:
    text = f"{index:d}".zfill(3)
    text = text.zfill(-(-len(text) // 3) * 3)
    parts = [text[i : i + 3] for i in range(0, len(text), 3)]
    return "/".join([f"x{part}" for part in parts[:-1]] + parts[-1:])


def _partial(width: int) -> str:
    return "" if width == WIDTH else f".p/{width}"
