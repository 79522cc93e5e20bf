"""Where a run's steps end: each is committed to there, and a commitment that can't be made does not stop the run."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from veristate.attest.commitments.recorder import Artifacts, Recorder
from veristate.attest.commitments.records import EXACT, Policy
from veristate.core import Clock, RefusedError, VeristateError, utc_now


class Boundary:
    """The boundary of a run's steps, whose recorder lies in `folder`. Threads may use it at once.

    Nothing is opened before the first step ends. `tell` hears each reason for a missing commitment, once; what is
    missing stays so, unless the step is handed in again.
    """

    def __init__(self, folder: Path, *, tell: Callable[[str], None], clock: Clock = utc_now) -> None:
        self.folder = folder
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._recorder: Recorder | None = None
        self._missing: Counter[str] = Counter()
        self.made = 0

    @property
    def missing(self) -> int:
        """How many steps could not be committed to."""
        return self._missing.total()

    def commit_to(
        self,
        stage: str,
        *,
        execution: str,
        inputs: Artifacts,
        outputs: Artifacts,
        context: Artifacts,
        policy: Policy = EXACT,
    ) -> str:
        """The digest of the payload that commits to the step, which is in the outbox; the earlier one when it is there
        already. Empty when it could not be made: that was told.
        """
        with self._lock:
            try:
                if self._recorder is None:
                    self._recorder = Recorder.open(self.folder, clock=self._clock)
                made = self._recorder.commit_to(
                    stage, inputs=inputs, outputs=outputs, context=context, policy=policy, execution=execution
                )
            except (VeristateError, OSError) as error:
                return self._else(error, execution)
            self.made += 1
            return made.item.payload

    def close(self) -> None:
        """Returns when the recorder is closed."""
        with self._lock:
            if self._recorder is not None:
                self._recorder.close()
            self._recorder = None

    def _else(self, error: Exception, execution: str) -> str:
        """The commitment that was there already; else the step is missing, which is told."""
        if isinstance(error, RefusedError) and self._recorder is not None:
            with suppress(VeristateError, OSError):
                if known := self._recorder.committed(execution):
                    return known
        reason = str(error)
        self._missing[reason] += 1
        if self._missing[reason] == 1:
            self._tell(f"a step is not committed to: {reason}")
        return ""
