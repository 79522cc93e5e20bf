"""Which coordinates the selective conditions replace: fixed on development captures, or found in the capture itself."""

from collections.abc import Iterable, Sequence

import numpy as np

from veristate.audit.captures import Capture
from veristate.audit.recovery import Blocks, Pair, TopK, one_score_per_row, reduce_set, replays
from veristate.audit.selections import Selection
from veristate.core import InputError


def pair_of(capture: Capture) -> Pair:
    """The capture's two sides as recovery reads them, named by its digest."""
    return Pair(h=capture.h, c=capture.c, name=capture.digest)


def developed_selection(development: Sequence[Capture], endpoint: TopK) -> Selection:
    """At most one coordinate of each row, fixed on development captures. On another capture it may replace nothing.

    Raises: InputError for no captures.
    Source: BioAgent-DF H.3.
    """
    if not development:
        raise InputError("a selection fixed on development captures needs a capture whose role is development")
    return one_score_per_row([pair_of(capture) for capture in development], endpoint)


def minimal_selection(capture: Capture, endpoint: TopK, rows: Iterable[int]) -> Selection:
    """For each of those rows whose list differs, coordinates of the capture itself that return the reference's list
    and of which none can be left out; nothing in the other rows.

    Law: restoring it gives the reference's endpoint in those rows. It reads the reference of the capture it repairs,
    so it locates a cause and is no policy for repairing unknown values.
    Source: BioAgent-DF C.2.
    """
    mask = np.zeros(capture.shape, dtype=np.bool_)
    differing = capture.differing
    for row in rows:
        h, c = capture.h[row][None, :], capture.c[row][None, :]
        blocks = Blocks.single(Selection.of(differing[row][None, :]))
        replay = replays(Pair(h=h, c=c), blocks, endpoint)
        if replay.restored([()])[0] == 0:
            continue
        contending = np.asarray(endpoint.contenders(np.minimum(h, c), np.maximum(h, c)) & differing[row])
        found = reduce_set(replay, blocks.labels[contending])
        mask[row] = blocks.selection(found.blocks).mask[0]
    return Selection.of(mask)


def changed_rows(capture: Capture, endpoint: TopK) -> tuple[int, ...]:
    """The rows of a matrix whose list is not the reference's."""
    reference, candidate = endpoint(capture.h), endpoint(capture.c)
    return tuple(row for row, pair in enumerate(zip(reference, candidate, strict=True)) if pair[0] != pair[1])
