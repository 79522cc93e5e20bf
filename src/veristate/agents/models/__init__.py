"""Chat models: any OpenAI-compatible endpoint, and a small one on this machine. A history in, one reply out."""

from veristate.agents.models.chat import ChatModel, ChatRequest, Reply
from veristate.agents.models.endpoint import Endpoint
from veristate.agents.models.local import LocalModel, small_model_weights
from veristate.agents.models.tokens import Sampled, TokenChoice

__all__ = [
    "ChatModel",
    "ChatRequest",
    "Endpoint",
    "LocalModel",
    "Reply",
    "Sampled",
    "TokenChoice",
    "small_model_weights",
]
