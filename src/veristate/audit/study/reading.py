"""A TOML table read key by key: what is unknown, missing or wrong is named with its place."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veristate.core import InputError

_REQUIRED: Any = object()


class Section:
    """A table of a TOML file on its way to becoming values. `close` must come last: it refuses keys nobody read."""

    def __init__(self, place: str, content: dict[str, Any]) -> None:
        self.place = place
        self._content = content
        self._read: set[str] = set()

    @classmethod
    def of_file(cls, path: Path) -> "Section":
        """The whole file. Raises: InputError when it can't be read or is no TOML."""
        try:
            return cls(path.name, tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} is no TOML file: {error}") from error

    def close(self) -> None:
        """Raises: InputError naming a key that is not known here, and those that are."""
        for name in self._content:
            if name not in self._read:
                raise InputError(f"{self._at(name)}: unknown key; known here are {', '.join(sorted(self._read))}")

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """A text."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise InputError(f"{self._at(name)} = {value!r}: give a text")
        return value

    def choice(self, name: str, known: Sequence[Any], default: Any = _REQUIRED) -> Any:
        """One of the known texts, of whatever literal type they are."""
        value = self._value(name, default)
        if value not in known:
            raise InputError(f"{self._at(name)} = {value!r}: give one of {', '.join(known)}")
        return value

    def whole(self, name: str, default: Any = _REQUIRED, *, least: int = 0) -> int:
        """A whole number of at least `least`."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"{self._at(name)} = {value!r}: give a whole number of {least} or more")
        return value

    def number(self, name: str, default: Any = _REQUIRED, *, least: float = 0.0) -> float:
        """A finite number of at least `least`."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
            raise InputError(f"{self._at(name)} = {value!r}: give a number of {least:g} or more")
        return float(value)

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise InputError(f"{self._at(name)} = {value!r}: give true or false")
        return value

    def texts(self, name: str, default: Any = _REQUIRED, *, one_of: Sequence[str] = ()) -> tuple[str, ...]:
        """A list of different texts."""
        value = self._list(name, default)
        for place, item in enumerate(value):
            if not isinstance(item, str) or (one_of and item not in one_of):
                wanted = f"one of {', '.join(one_of)}" if one_of else "a text"
                raise InputError(f"{self._at(name)}[{place}] = {item!r}: give {wanted}")
        if len(set(value)) < len(value):
            raise InputError(f"{self._at(name)} = {list(value)!r}: something stands there twice")
        return tuple(value)

    def wholes(self, name: str, default: Any = _REQUIRED) -> tuple[int, ...]:
        """A list of different whole numbers of 0 or more, at least one."""
        value = self._list(name, default)
        wrong = [item for item in value if not isinstance(item, int) or isinstance(item, bool) or item < 0]
        if wrong or not value or len(set(value)) < len(value):
            raise InputError(f"{self._at(name)} = {list(value)!r}: give different whole numbers of 0 or more")
        return tuple(value)

    def has(self, name: str) -> bool:
        """Whether the key is there."""
        return name in self._content

    def is_list(self, name: str) -> bool:
        """Whether the key is there and holds a list."""
        return isinstance(self._content.get(name), list)

    def section(self, name: str) -> "Section":
        """The table of that name, an empty one where there is none."""
        value = self._value(name, {})
        if not isinstance(value, dict):
            raise InputError(f"{self._at(name)}: give a table [{name}]")
        return Section(self._at(name), value)

    def sections(self, name: str) -> tuple["Section", ...]:
        """The tables of that name, [[name]], in order; none where there are none."""
        value = self._value(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise InputError(f"{self._at(name)}: give tables, each begun by [[{name}]]")
        return tuple(Section(f"{self._at(name)}[{place}]", item) for place, item in enumerate(value))

    def refuse(self, name: str, reason: str) -> InputError:
        """The error that says what is wrong with a key, to be raised."""
        return InputError(f"{self._at(name)}: {reason}")

    def _list(self, name: str, default: Any) -> Sequence[Any]:
        value = self._value(name, default)
        if not isinstance(value, list | tuple):
            raise InputError(f"{self._at(name)} = {value!r}: give a list")
        return value

    def _value(self, name: str, default: Any) -> Any:
        self._read.add(name)
        if name in self._content:
            return self._content[name]
        if default is _REQUIRED:
            raise InputError(f"{self._at(name)}: this key is missing")
        return default

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}" if ": " in self.place else f"{self.place}: {name}"
