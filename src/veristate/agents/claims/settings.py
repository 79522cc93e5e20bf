"""The settings of the claim protocol: its budgets, what is masked, which prompt."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from veristate.core import InputError, Record

Masking = Literal["none", "titles", "texts", "both"]
Prompt = Literal["baseline", "examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSettings(Record):
    """What all attempts of a comparison share. Every call costs one of `calls`, a rejected one too; an accepted search
    or read costs one of its own budget besides. `masking` takes titles, abstract texts or both out of what is delivered
    and leaves identifiers and scores; `prompt` "examples" adds JSON examples and explains rejected calls.

    Source: BioAgent-DF 3.1, F.1, H.3, H.4, H.8.
    """

    FORMAT: ClassVar[str] = "veristate.claim-settings/1"
    calls: int = 16
    searches: int = 1
    reads: int = 6
    reply_tokens: int = 384
    masking: Masking = "none"
    prompt: Prompt = "baseline"

    def __post_init__(self) -> None:
        """Raises: InputError for a budget below 1, an unknown masking or prompt."""
        for name in ("calls", "searches", "reads", "reply_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"the setting {name} is {getattr(self, name)}; give 1 or more")
        for name, known in (("masking", get_args(Masking)), ("prompt", get_args(Prompt))):
            if getattr(self, name) not in known:
                raise InputError(f"the setting {name} is {getattr(self, name)!r}; use one of {', '.join(known)}")
