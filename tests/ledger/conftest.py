"""What the ledger's tests share: a ledger with a fixed clock, a case that can be committed, and a way to die."""

import dataclasses
import itertools
import os
import signal
import sqlite3
import sys
import traceback
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine, event

from veristate.core import Action, Certificate, Contract, Decision, Request, Rule, View
from veristate.ledger import Ledger


def ticking():
    """A clock that counts seconds from a fixed day."""
    seconds = itertools.count()
    return lambda: f"2026-01-01T00:00:{next(seconds) % 60:02d}.000000Z"


@pytest.fixture
def path(tmp_path):
    """Where the ledger's file is."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    """A new ledger whose clock counts seconds."""
    with Ledger.open(path, clock=ticking()) as opened:
        yield opened


@pytest.fixture
def raw(path):
    """Somebody with a database tool: runs SQL on the file, past all our code."""

    def run(sql, *values):
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    return run


@dataclass(frozen=True)
class Case:
    """One request with what it takes to have its action committed."""

    request: Request
    view: View
    certificate: Certificate
    action: Action

    def prepare(self, ledger):
        """Everything but the last step, as often as you like."""
        ledger.gateway.open_request(self.request)
        ledger.gateway.release_view(self.view)
        ledger.gateway.certify(self.certificate)

    def propose(self, ledger):
        """All of it."""
        self.prepare(ledger)
        return ledger.gateway.commit(self.action)

    def change(self, **records):
        """The same case with some records changed: `view={"certified": False}`."""
        changed = {name: dataclasses.replace(getattr(self, name), **fields) for name, fields in records.items()}
        if "view" in changed and "action" not in changed:
            changed["action"] = dataclasses.replace(self.action, view=changed["view"].digest)
        return dataclasses.replace(self, **changed)


def make_case(request_id="r1"):
    """Two rules over six compounds."""
    contract = Contract(kind="C1", candidates="c" * 64, count=6, batch=2, dtype="float32", temperature="0")
    rules = (Rule(kind="top_k", count=2), Rule(kind="threshold", threshold="0.5"))
    decisions = (Decision(rule=rules[0], chosen=("a", "b")), Decision(rule=rules[1], chosen=("a", "b", "c")))
    table = "7" * 64
    common = {"request_id": request_id, "contract": contract.digest}
    view = View(**common, table=table, fields=("id", "score"), dropped=())
    return Case(
        request=Request(**common, rules=rules),
        view=view,
        certificate=Certificate(
            **common, contract_kind="C1", delta="0", certifies="values", decisions=decisions, table=table
        ),
        action=Action(**common, view=view.digest, decisions=decisions),
    )


@pytest.fixture
def case():
    """A case that can be committed."""
    return make_case()


@pytest.fixture
def another_case():
    """Makes cases of other requests."""
    return make_case


@pytest.fixture
def child():
    """Starts a callable in a forked process and gives its number."""

    def start(work):
        process = os.fork()
        if process == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(code)
        return process

    return start


@pytest.fixture
def killed_at(child):
    """Whether `work` was killed by SIGKILL just before the n-th statement SQLite was given, BEGIN and COMMIT too."""

    def run(step, work):
        left = step

        def count(_statement):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def armed():
            event.listen(Engine, "connect", lambda connection, record: connection.set_trace_callback(count))
            work()

        code = os.waitstatus_to_exitcode(os.waitpid(child(armed), 0)[1])
        assert code in (0, -signal.SIGKILL), f"the child failed at step {step}"
        return code != 0

    return run
