"""Replies of a given length after a given delay: what the harness itself costs, measured without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from arcbench.checks import whole
from arcbench.engines.counting import CountingEngine
from arcbench.types import ConfigError, Json, Reply, Request


class MockEngine(CountingEngine):
    """Every reply is prose of about ``reply_tokens`` tokens and then the same ``command``, after ``delay_s``."""

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        reply_tokens: int,
        delay_s: float,
        command: str,
        concurrency: int,
        summary_bound: None = None,
    ) -> None:
        whole("engine.reply_tokens", reply_tokens, 0)
        if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or delay_s < 0:
            raise ConfigError(f"engine.delay_s={delay_s}: must be a number of at least 0")
        super().__init__(id=id, model=model, window_tokens=window_tokens, concurrency=concurrency)
        self.delay_s = delay_s
        block = f"```\n{command}\n```"
        missing = max(0, reply_tokens - self.count_text(block))
        self._agent_text = f"{'well ' * missing}\n{block}"
        self._method_text = "well " * max(1, reply_tokens)
        self._tokens = {text: self.count_text(text) + 1 for text in (self._agent_text, self._method_text)}

    async def complete(self, request: Request) -> Reply:
        """The fixed reply, after the delay. Raises :class:`arcbench.types.ContextOverflow`."""
        prompt_tokens = self.preflight(request)
        await asyncio.sleep(self.delay_s)
        text = self._method_text if request.billed == "method" else self._agent_text
        return Reply(text, "stop", prompt_tokens, self._tokens[text], None, self.delay_s)
