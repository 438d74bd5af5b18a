"""Sliding window: the task and the recent turns; what is older is gone.

Source: the ARC paper (arXiv 2607.25066), Related Works. How many turns its window holds is not stated there:
here the recent turns are those of the budget that all methods share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from arcbench.checks import template
from arcbench.recent import fates, messages, split
from arcbench.text import fill
from arcbench.types import Compaction, Done, Message, Method, Turn, Workbench


class SlidingWindow(Method):
    """Keeps the prefix, the recent turns, and older turns with a short observation while there is room.

    ``marker`` is the message that stands where turns were dropped; ``$count`` is how many, in all.
    Nothing that was dropped is recoverable.
    """

    def __init__(self, *, id: str, promise: str, bench: Workbench, variant: str | None, marker: str) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.marker = template("method.marker", marker, "count")
        self.turns: list[Turn] = []
        self.dropped = 0
        self.notice: tuple[Message, ...] = ()

    async def observe(self, turn: Turn) -> Done | None:
        """Append the turn."""
        self.turns.append(turn)
        return None

    def view(self) -> Sequence[Message]:
        """The prefix, the marker once something was dropped, and the turns that are left."""
        return [*self.prefix, *self.notice, *messages(self.turns)]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Drop the turns before the recent ones."""
        # Room is kept for the longest marker this pass can leave, so a second pass finds the same room.
        longest = self._marker(self.dropped + len(self.turns))
        divided = split(self.turns, bench=self.bench, reason=reason, fixed=(*self.prefix, longest))
        if divided.older:
            self.turns = list(divided.kept)
            self.dropped += len(divided.older)
            self.notice = (self._marker(self.dropped),)
        return Done(fates(divided, "dropped"))

    def _marker(self, count: int) -> Message:
        return Message("user", fill(self.marker, count=count))
