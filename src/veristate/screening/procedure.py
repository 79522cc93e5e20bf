"""Certified commitment, whole: hold, verify, recompute, restore, commit.

Source: BioAgent-DF Algorithm 3 and Appendix K. Differs: without valid per-score bounds every round ends in full trusted
recomputation, so R1 and R1+M only say what is recomputed first; under exact arithmetic there are bounds, and decisions
are certified with few units recomputed.
"""

import secrets
from collections.abc import Callable
from contextlib import ExitStack

from veristate.agents import load_agent
from veristate.core import Clock, ContractName, utc_now
from veristate.devices import fault_named
from veristate.screening.exact import ExactRun
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import prepare
from veristate.screening.outcome.result import ScreeningResult
from veristate.screening.outcome.telling import tell
from veristate.screening.rounded import RoundedRun
from veristate.screening.run import Run
from veristate.screening.running.executors import start_executors
from veristate.screening.running.home import open_home
from veristate.screening.running.keeping import keep_unsafe
from veristate.screening.running.memory import peak_memory
from veristate.screening.running.phases import Phases, Progress, silent

RUNS: dict[ContractName, type[Run]] = {
    "exact": ExactRun,
    "device": Run,
    "rounded": RoundedRun,
    "integer": RoundedRun,
}


def run_screening(
    options: ScreeningOptions,
    *,
    progress: Progress = silent,
    clock: Clock = utc_now,
    new_salt: Callable[[], str] = lambda: secrets.token_hex(16),
) -> ScreeningResult:
    """What the run ended with: a committed decision, or why there is none.

    Raises: InputError for what can't be used, the table and the options before anything is written; RefusedError when
    the store is in use, no strategy can certify the pass, the request id stands for something else, or the agent's
    state can't be kept before a read;
    EnvironmentUnusableError when an executor can't be used; FaultProvenError when the request was certified before with
    other values. What was journaled by then stays.
    """
    fault = fault_named(options.inject, options.seed) if options.inject else None
    load_agent(options.agent)
    phases = Phases(progress)
    with peak_memory() as peak:
        with phases("read the table"):
            prepared = prepare(options)
        with open_home(options.store, clock) as home, ExitStack() as stack:
            keep_unsafe(home, prepared.spec)
            with phases("load both executors"):
                executors = stack.enter_context(start_executors(prepared, options.trusted_device, options.granularity))
            run = RUNS[options.contract](options, prepared, executors, home, phases)
            run.open(fault)
            with run.episode(new_salt) as episode:
                run.hold_and_verify(fault, episode)
                run.recompute()
                outcome = run.commit(episode)
                commitment = run.commit_to(clock)
            peak.sample()
            return tell(run.facts(fault, episode, outcome, commitment), home.ledger, phases.seconds, peak.mb)
