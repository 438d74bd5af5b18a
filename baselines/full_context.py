"""Full context: the whole conversation, until the window is full.

Source: the uncompacted baseline of the ARC paper (arXiv 2607.25066, Related Works); it has no parameters there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from arcbench.recent import messages
from arcbench.types import Compaction, ConfigError, Done, Message, Method, Nothing, Turn, Workbench


class FullContext(Method):
    """Keeps every message, so everything is recoverable until a real overflow ends the episode.

    ``forced_overflow_is_fatal``: whether a forced compaction ends the episode too (the paper's LongBench
    rows for this method need that) or passes it by.
    """

    def __init__(
        self, *, id: str, promise: str, bench: Workbench, variant: str | None, forced_overflow_is_fatal: bool
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        if not isinstance(forced_overflow_is_fatal, bool):
            raise ConfigError(f"method.forced_overflow_is_fatal={forced_overflow_is_fatal!r}: must be true or false")
        self.variant = variant
        self.forced_overflow_is_fatal = forced_overflow_is_fatal
        self.turns: list[Turn] = []

    async def observe(self, turn: Turn) -> Done | None:
        """Append the turn."""
        self.turns.append(turn)
        return None

    def view(self) -> Sequence[Message]:
        """The prefix and every turn."""
        return [*self.prefix, *messages(self.turns)]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """There is nothing to give."""
        return Nothing(final=reason == "forced" and self.forced_overflow_is_fatal)
