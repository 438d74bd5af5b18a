"""LLM summary: a model call rewrites what is removed as prose.

Source: the ARC paper (arXiv 2607.25066), Related Works. The prompt and the length of the summary are not stated
there: both are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arcbench.types import Message
from baselines.summarising import Rejected, SummarisingMethod, is_tool_call, spoken


class LlmSummary(SummarisingMethod):
    """Keeps the prefix, a summary of the removed turns, and the recent turns; recoverable is what it says.

    ``summary_max_tokens`` caps the summary; the other parameters are :class:`SummarisingMethod`'s. The model
    reads what the agent saw (results as cut by the loop). Rejected, and so never stored: an empty summary,
    one inside or cut short by thinking, one cut at the limit, an action or a tool call, one that is not
    smaller than the turns and the summary it replaces, one over its cap.
    """

    noun = "summary"

    def __init__(self, *, summary_max_tokens: int, **shared: Any) -> None:
        super().__init__(max_tokens=summary_max_tokens, **shared)

    async def revise(self, memory: str, prompt: Sequence[Message], max_tokens: int) -> str:
        """One call; its prose replaces the earlier summary, which the prompt holds."""
        reply = await self.bench.complete(prompt, max_tokens=max_tokens)
        text = spoken(reply, max_tokens)
        if is_tool_call(text):
            raise Rejected("tool_call")
        return text
