"""What the engines of this process share: exact counts, and overflow found before sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from arcbench.checks import whole
from arcbench.engines.chat import Chat, load_chat
from arcbench.types import ContextOverflow, EngineError, Json, Message, Request


class CountingEngine:
    """An :class:`arcbench.types.Engine` but for ``complete``. ``model`` is a config of ``conf/model``."""

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        concurrency: int,
        keep_ids: bool = False,
    ) -> None:
        self.id = id
        self.model: str = model["id"]
        self.window_tokens = window_tokens
        self.concurrency = whole("engine.concurrency", concurrency, 1)
        self._model_config = model
        self._keep_ids = keep_ids

    @cached_property
    def chat(self) -> Chat:
        """The counter; loaded at first use, since a finished cell counts nothing."""
        return load_chat(self._model_config, keep_ids=self._keep_ids)

    def count(self, messages: Sequence[Message], *, thinking: bool) -> int:
        """Tokens of the rendered prompt."""
        return self.chat.count(messages, thinking=thinking)

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""
        return self.chat.count_text(text)

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` in pieces of at most ``max_tokens`` tokens, cut between characters."""
        return self.chat.pieces(text, max_tokens)

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    def describe(self) -> Mapping[str, Json]:
        """Tokenizer and chat format, for the manifest."""
        return self.chat.describe()

    def preflight(self, request: Request) -> int:
        """Tokens of the prompt; raises :class:`ContextOverflow` when it and its completion exceed the window."""
        tokens = self.count(request.messages, thinking=request.thinking)
        if tokens + request.max_tokens > self.window_tokens:
            raise ContextOverflow(tokens, request.max_tokens, self.window_tokens)
        return tokens


def finish_of(
    engine: str, reason: object, prompt: int, completion: int, max_tokens: int, window: int
) -> Literal["stop", "length"]:
    """How a reply ended. One cut before its cap was shortened silently: that is an overflow. Raises
    :class:`ContextOverflow`, and :class:`EngineError` for any other end."""
    if reason == "length" and completion < max_tokens:
        raise ContextOverflow(prompt, max_tokens, window)
    if reason == "stop":
        return "stop"
    if reason == "length":
        return "length"
    raise EngineError(f"engine={engine}: the reply ended as {reason}")
