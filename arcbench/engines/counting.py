"""What the engines of this process share: exact counts, and overflow found before sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arcbench.engines.chat import load_chat
from arcbench.types import ConfigError, ContextOverflow, Json, Message, Request


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
        if concurrency < 1:
            raise ConfigError(f"engine.concurrency={concurrency}: must be a whole number of at least 1")
        self.id = id
        self.model: str = model["id"]
        self.window_tokens = window_tokens
        self.concurrency = concurrency
        self.chat = load_chat(model, keep_ids=keep_ids)

    def count(self, messages: Sequence[Message], *, thinking: bool) -> int:
        """Tokens of the rendered prompt."""
        return self.chat.count(messages, thinking=thinking)

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""
        return self.chat.count_text(text)

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
