"""Splits of fixed sizes that keep groups together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veristate.audit.tasks.task import Indices
from veristate.core import InputError, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Positions of training, validation and test rows, ascending."""

    train: Indices
    validation: Indices
    test: Indices

    def sizes(self) -> tuple[int, int, int]:
        """How many of each."""
        return len(self.train), len(self.validation), len(self.test)


def grouped_split(groups: Sequence[str], sizes: tuple[int, int, int], salt: str) -> Split:
    """The split of those sizes in which rows of one group stay together.

    Maths: groups come in the order of the SHA-256 of salt and group; each goes to the first part that has room for it.
    Raises: InputError when the sizes are not those of the table, or leave a group without room.
    Differs: the sizes are the paper's (B.1), which rows fall where is not published.
    """
    if sum(sizes) != len(groups):
        raise InputError(f"{len(groups)} rows can't be split into {sizes}: is the table the whole one?")
    members: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for group in sorted(members, key=lambda name: digest(f"{salt}\n{name}".encode())):
        rows = members[group]
        roomy = [part for part, size in zip(parts, sizes, strict=True) if len(part) + len(rows) <= size]
        if not roomy:
            raise InputError(f"the {len(rows)} rows of group {group!r} fit into no part of {sizes}")
        roomy[0].extend(rows)
    train, validation, test = (np.array(sorted(part), dtype=np.intp) for part in parts)
    return Split(train=train, validation=validation, test=test)
