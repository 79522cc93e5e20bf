"""Which witnesses must have cosigned a head before it is believed, and the file that says so.

Source: C2SP tlog-policy. A member of a quorum is a witness or a quorum again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from veristate.attest.signing.keys import NoteKey, NoteKind
from veristate.attest.signing.notes import Note
from veristate.core import InputError, RefusedError

_WORDS = {"log": (1, 2), "witness": (2, 3), "group": (3, 10_000), "quorum": (1, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """At least `threshold` of `members`. Without any, say so: `UNWITNESSED`."""

    members: tuple[Union[NoteKey, "Quorum"], ...]
    threshold: int

    def __post_init__(self) -> None:
        if any(key.kind is not NoteKind.WITNESS for key in self.witnesses):
            raise InputError("a quorum is of witness keys (type 4); a log's own key is no witness")
        if len({key.public for key in self.witnesses}) != len(self.witnesses):
            raise InputError("a quorum that counts one key twice; name each witness once")
        low = 1 if self.members else 0
        if not low <= self.threshold <= len(self.members):
            raise InputError(f"a quorum of {self.threshold} out of {len(self.members)} can't be")

    @property
    def witnesses(self) -> tuple[NoteKey, ...]:
        """Every witness that counts somewhere in it."""
        found: list[NoteKey] = []
        for member in self.members:
            found.extend([member] if isinstance(member, NoteKey) else member.witnesses)
        return tuple(found)

    def present(self, note: Note, now: int) -> dict[NoteKey, int]:
        """The witnesses that cosigned the note, with the time they gave; none that is later than `now`.

        Raises: TamperError when a line of one of the witnesses is not its signature.
        """
        signed = note.signed_by(self.witnesses)
        return {key: seconds for key, seconds in signed.items() if seconds is not None and seconds <= now}

    def require(self, note: Note, now: int) -> dict[str, int]:
        """Who cosigned and when, when they are enough. Raises: RefusedError naming those that are missing."""
        found = self.present(note, now)
        if not self._met(found):
            lacking = ", ".join(sorted(key.name for key in self.witnesses if key not in found))
            have = f"{len(found)} of {len(self.witnesses)} witnesses cosigned this head, which is no quorum"
            raise RefusedError(f"{have}; missing, or dated ahead: {lacking}")
        return {key.name: seconds for key, seconds in found.items()}

    def _met(self, found: Collection[NoteKey]) -> bool:
        held = (member in found if isinstance(member, NoteKey) else member._met(found) for member in self.members)
        return sum(held) >= self.threshold


UNWITNESSED = Quorum(members=(), threshold=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whom a verifier believes: logs by key, the quorum of witnesses, and where those that say so can be asked."""

    logs: tuple[NoteKey, ...]
    quorum: Quorum
    addresses: Mapping[NoteKey, str]

    @classmethod
    def parse(cls, text: str) -> "Trust":
        """What a policy file says. Raises: InputError naming the line that is wrong."""
        reader = _Reader()
        for number, line in enumerate(text.split("\n"), 1):
            words = line.replace("\t", " ").split(" ")
            words = [word for word in words if word]
            if words and not words[0].startswith("#"):
                try:
                    reader.take(words)
                except (InputError, ValueError) as error:
                    raise InputError(f"policy, line {number}: {error}") from error
        return reader.trust()


class _Reader:
    """The names defined so far."""

    def __init__(self) -> None:
        self._logs: list[NoteKey] = []
        self._named: dict[str, NoteKey | Quorum] = {}
        self._used: set[str] = set()
        self._addresses: dict[NoteKey, str] = {}
        self._quorum: Quorum | None = None

    def take(self, words: Sequence[str]) -> None:
        """Reads one line."""
        word, *rest = words
        low, high = _WORDS.get(word, (0, -1))
        if not low <= len(rest) <= high:
            raise InputError(f"{word!r} with {len(rest)} words after it; it is log, witness, group or quorum")
        if word == "log":
            self._log(rest)
        elif word == "witness":
            self._define(rest[0], self._witness(rest[1:]))
        elif word == "group":
            self._define(rest[0], self._group(rest[1], rest[2:]))
        elif self._quorum is not None:
            raise InputError("a second quorum; there is exactly one")
        else:
            self._quorum = UNWITNESSED if rest[0] == "none" else _alone(self._known(rest[0]))

    def trust(self) -> Trust:
        """Everything that was read."""
        if self._quorum is None:
            raise InputError("a policy without a quorum line; write `quorum none` to ask for no witness")
        return Trust(logs=tuple(self._logs), quorum=self._quorum, addresses=self._addresses)

    def _log(self, rest: Sequence[str]) -> None:
        key = NoteKey.parse(rest[0])
        if key.kind is not NoteKind.LOG or key.public in {log.public for log in self._logs}:
            raise InputError("a log's key is of type 1, and each stands once")
        self._logs.append(key)

    def _witness(self, rest: Sequence[str]) -> NoteKey:
        key = NoteKey.parse(rest[0])
        known = {named.public for named in self._named.values() if isinstance(named, NoteKey)}
        if key.kind is not NoteKind.WITNESS or key.public in known:
            raise InputError("a witness's key is of type 4, and each stands once")
        if len(rest) > 1:
            self._addresses[key] = rest[1]
        return key

    def _group(self, count: str, names: Sequence[str]) -> Quorum:
        members = []
        for name in names:
            members.append(self._known(name))
            if name in self._used:
                raise InputError(f"{name!r} is in a group already")
            self._used.add(name)
        thresholds = {"any": 1, "all": len(members)}
        if count not in thresholds and not (count.isascii() and count.isdecimal()):
            raise InputError(f"a group of {count!r}; it is all, any or a number")
        return Quorum(members=tuple(members), threshold=thresholds.get(count) or int(count))

    def _define(self, name: str, what: NoteKey | Quorum) -> None:
        if name in self._named or name == "none":
            raise InputError(f"the name {name!r} is taken")
        self._named[name] = what

    def _known(self, name: str) -> NoteKey | Quorum:
        if name not in self._named:
            raise InputError(f"nothing above is called {name!r}")
        return self._named[name]


def _alone(member: NoteKey | Quorum) -> Quorum:
    return member if isinstance(member, Quorum) else Quorum(members=(member,), threshold=1)
