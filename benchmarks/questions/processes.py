"""The seven kinds of recorders and their challenger as processes that are killed and started again.

What each kind is to be found to be is said here, before any of them runs.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.questions.challenger import Row, audit, prepare, told
from benchmarks.questions.pipeline import STAGES, own_questions
from benchmarks.questions.recorders import QUESTIONS, TARGET, Kind
from benchmarks.questions.sources import Words
from benchmarks.record import HERE, Claim, note
from veristate.attest import Home, Recorder

RECORDER, CHALLENGER = "benchmarks.questions.recorders", "benchmarks.questions.challenger"
# Runs a module with these arguments to its end, however often it dies on the way: how often it was killed.
Start = Callable[[str, Sequence[str]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found of one recorder: a row for each step, what its log says, how often its processes were killed."""

    kind: Kind
    rows: tuple[Row, ...]
    log: tuple[str, ...]
    kills: int

    def findings(self, *stages: str) -> Counter[str]:
        """How often each finding was made, in these stages."""
        return Counter(str(row["finding"]) for row in self.rows if row["stage"] in stages)

    def at_target(self, stage: str) -> str:
        """What was found at the question at which a recorder replays, withholds or abstains."""
        question = own_questions()[TARGET].id
        return next(str(row["finding"]) for row in self.rows if (row["question"], row["stage"]) == (question, stage))


def as_foreseen(outcome: Outcome) -> bool:
    """Whether the outcome is the one said beforehand for its kind.

    Nobody is accused who ran what was committed to, whatever else he did; retrieval repeats for everybody. A recorder
    who knows the threshold stays below it: his change is nearer than what the verdict says can be found. Who runs
    something else, or nothing, is found in at least one of his six steps: in each of them only with some power.
    """
    sampled, log = outcome.findings("read", "answer"), list(outcome.log)
    accused = sampled["inconsistent"]
    if outcome.findings("retrieve") != {"consistent": QUESTIONS}:
        return False
    match outcome.kind:
        case Kind.HONEST | Kind.THRESHOLD_AWARE:
            return not log and sampled == {"consistent": 2 * QUESTIONS}
        case Kind.DIVERGENT | Kind.FABRICATING:
            return not log and accused >= 1
        case Kind.WITHHOLDING:
            target = outcome.at_target("read"), outcome.at_target("answer")
            return not log and not accused and target == ("unavailable", "unavailable")
        case Kind.ABSTAINING:
            target = outcome.at_target("read"), outcome.at_target("answer")
            # Its answer stands there, made from a note that nobody committed to.
            return not log and not accused and target == ("missing", "unbound") and sampled["in no place"] == 1
        case Kind.REPLAYING:
            replays = QUESTIONS - TARGET
            found = sampled["missing"], sampled["unbound"], sampled["in no place"]
            return log == ["execution used twice"] and not accused and found == (replays, replays, 2 * replays)


def outcome_of(kind: Kind, folder: Path, start: Start, *, seed: int = 0) -> Outcome:
    """One recorder's run and its challenge, in `folder`, with the plans in `folder/..`."""
    store, verdicts = folder / "store", folder / "verdicts.jsonl"
    folder.mkdir()
    plans = ["--plans", str(folder.parent)]
    kills = start(RECORDER, [str(store), "--kind", kind, "--seed", str(seed), *plans])
    with Recorder.open(store) as recorder:
        key = str(Home.open(recorder).log.key)
    kills += start(CHALLENGER, [str(store), "--key", key, "--out", str(verdicts), *plans])
    return Outcome(kind=kind, rows=tuple(told(verdicts)), log=tuple(audit(store / "log", key)), kills=kills)


def killed_at_random(chance: random.Random, *, times: int, longest_s: float) -> Start:
    """Starts a module as a process and kills it after a random while, up to `times` times; the last one may end."""

    def start(module: str, arguments: Sequence[str]) -> int:
        kills = 0
        for attempt in range(times + 1):
            with subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", module, *arguments],
                stdout=subprocess.PIPE,
                cwd=HERE.parent,
                text=True,
            ) as process:
                assert process.stdout is not None
                process.stdout.readline()  # it is ready: what dies from here on had begun to work
                if attempt < times:
                    time.sleep(chance.uniform(0, longest_s))
                    process.kill()
                process.stdout.read()
                code = process.wait()
            kills += code == -9
            if code not in (0, -9):
                raise RuntimeError(f"{module} ended with exit status {code}")
            if code == 0:
                break
        return kills

    return start


def kind_claims(*, runs: int, seed: int = 3) -> list[Claim]:
    """Every kind of recorder `runs` times, killed and restarted, against what was said beforehand."""
    chance = random.Random(seed)
    start = killed_at_random(chance, times=2, longest_s=0.4)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, Words(), own_questions()[QUESTIONS:])
        cases = [(kind, run) for kind in Kind for run in range(runs)]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            outcomes = list(
                pool.map(lambda case: outcome_of(case[0], folder / f"{case[0]}-{case[1]}", start, seed=case[1]), cases)
            )
    claims = []
    for kind in Kind:
        of_kind = [outcome for outcome in outcomes if outcome.kind is kind]
        right = sum(map(as_foreseen, of_kind))
        found: Counter[str] = sum((o.findings(*STAGES) for o in of_kind), Counter())
        in_log = sum((Counter(o.log) for o in of_kind), Counter())
        listed = ", ".join(f"{count} {finding}" for finding, count in sorted((found + in_log).items()))
        claims.append(
            Claim(
                claim=f"simulated outputs, three stages in processes: {kind} recorders found to be what was foreseen",
                measured=f"{right} of {len(of_kind)}",
                unit="runs of 9 steps",
                bar=str(len(of_kind)),
                met=right == len(of_kind),
                detail=f"{listed}; recorder and challenger killed {sum(o.kills for o in of_kind)} times",
            )
        )
        note(f"{claims[-1].claim}: {claims[-1].measured}: {claims[-1].detail}")
    return claims
