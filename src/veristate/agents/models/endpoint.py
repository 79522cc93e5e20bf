"""A chat model behind any OpenAI-compatible endpoint."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from veristate.agents.models.chat import ChatRequest, Reply, completion_reply, request_body
from veristate.agents.models.post import Answer, post
from veristate.core import EnvironmentUnusableError, InputError

# Too busy, or broken for the moment: asking again may help.
_PASSING = {408, 409, 425, 429}
# Of this one request: its length, or a schema the server can't read.
_REFUSED = {400, 413, 422}
_FIRST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The model `model` at `base_url` (up to and with /v1). The key is read from the environment variable that
    `key_variable` names, and enters no record. `deadline_s` bounds one reply, all of its `attempts` and the pauses
    between them included. `extra` goes into every request beside the usual fields, and into the name.

    Units: seconds.
    """

    base_url: str
    model: str
    key_variable: str = ""
    deadline_s: float = 120.0
    attempts: int = 3
    extra: Mapping[str, Any] = field(default_factory=dict)
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        """Raises: InputError for a deadline or a number of attempts that allows no request, and for an address that
        holds a password: addresses stand in records.
        """
        if "@" in self.base_url:
            raise InputError("the endpoint's address holds a user name; give the key by an environment variable")
        if not self.deadline_s > 0 or self.attempts < 1:
            raise InputError(f"a deadline of {self.deadline_s} s and {self.attempts} attempts allow no request")
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    @property
    def name(self) -> Mapping[str, str]:
        """Model, endpoint and extra fields."""
        extra = {"extra": json.dumps(dict(self.extra), sort_keys=True)} if self.extra else {}
        return {"model": self.model, "endpoint": self.base_url, **extra}

    def reply(self, request: ChatRequest) -> Reply:
        """The model's reply.

        Raises: EnvironmentUnusableError when no attempt gave one before the deadline, or the endpoint refused this
        request; InputError when it refuses any: a wrong key, model or address.
        """
        body = json.dumps({"model": self.model, **request_body(request), **self.extra}).encode()
        end = time.monotonic() + self.deadline_s
        failure = ""
        for attempt in range(1, self.attempts + 1):
            pause = 0.0
            try:
                answer = post(self._url, body, self._headers(), seconds=end - time.monotonic())
                return self._read(answer, attempt)
            except _AskAgainError as again:
                failure, pause = str(again), again.pause
            except OSError as error:
                failure = str(error) or repr(error)
            pause = pause or _FIRST_PAUSE_S * 2 ** (attempt - 1)
            left = end - time.monotonic()
            if attempt == self.attempts or pause >= left:
                break
            self.pause(pause)
        raise EnvironmentUnusableError(f"{self._url} gave no reply in {attempt} attempts, at last: {failure}")

    @property
    def _url(self) -> str:
        return f"{self.base_url.rstrip('/')}/chat/completions"

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if not self.key_variable:
            return headers
        key = os.environ.get(self.key_variable)
        if not key:
            raise InputError(f"the environment variable {self.key_variable} holds no key for {self.base_url}; set it")
        return {**headers, "Authorization": f"Bearer {key}"}

    def _read(self, answer: Answer, attempt: int) -> Reply:
        said = answer.body[:300].decode("utf-8", "replace")
        if answer.status in _PASSING or answer.status >= 500:
            raise _AskAgainError(f"status {answer.status}: {said}", pause=_seconds(answer.wait))
        if answer.status in _REFUSED:
            raise EnvironmentUnusableError(f"{self._url} refused the request with status {answer.status}: {said}")
        if answer.status != 200:
            raise InputError(f"{self._url} answers with status {answer.status}; check address, model and key: {said}")
        try:
            return completion_reply(json.loads(answer.body), attempts=attempt)
        except (ValueError, RecursionError, EnvironmentUnusableError) as error:
            raise _AskAgainError(f"{error}: {said}") from error


class _AskAgainError(Exception):
    """An attempt gave no reply, and another one may."""

    def __init__(self, message: str, *, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


def _seconds(header: str) -> float:
    return float(header) if header.isascii() and header.isdigit() else 0.0
