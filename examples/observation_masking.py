"""Observation masking: every command stays, the answers to older ones become one line each.

A method of one's own, whole: ``docs/extend.md`` goes through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from arcbench.checks import template
from arcbench.recent import split
from arcbench.text import fill
from arcbench.types import Compaction, Done, Fate, Message, Method, Part, Turn, Workbench


class ObservationMasking(Method):
    """Keeps the prefix, every reply, and the answers to the recent ones.

    ``mask`` is the message in the place of an older answer: ``$command`` is what it answered, ``$chars`` how long it
    was. What was masked is gone, though the agent may give the command again where the task allows it.
    """

    def __init__(self, *, id: str, promise: str, bench: Workbench, variant: str | None, mask: str) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.mask = template("method.mask", mask, "command", "chars")
        self.turns: list[Turn] = []
        self.masked: dict[int, Message] = {}  # by turn index, what stands in the place of its result

    async def observe(self, turn: Turn) -> Done | None:
        """Append the turn."""
        self.turns.append(turn)
        return None

    def view(self) -> Sequence[Message]:
        """The prefix and every turn, its result whole or masked."""
        shown = [(turn.reply, self.masked.get(turn.index, turn.result)) for turn in self.turns]
        return [*self.prefix, *(message for pair in shown for message in pair)]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Mask what is older than the recent turns and longer than its mask."""
        whole = [turn for turn in self.turns if turn.index not in self.masked]
        masks = {turn.index: self.masked.get(turn.index) or self._mask(turn) for turn in self.turns}
        # Room is kept for the mask of every turn, so that what is left fits whichever turns are masked.
        least = (*self.prefix, *(m for turn in self.turns for m in (turn.reply, masks[turn.index])))
        for turn in split(whole, bench=self.bench, reason=reason, fixed=least).older:
            if self.bench.count((masks[turn.index],)) < self.bench.count((turn.result,)):
                self.masked[turn.index] = masks[turn.index]
        return Done(self._fates())

    def _mask(self, turn: Turn) -> Message:
        command = turn.action.text if turn.action else "a reply without a command"
        return Message("user", fill(self.mask, command=command, chars=len(turn.observation.text)))

    def _fates(self) -> dict[Part, Fate]:
        """Both messages of every turn in the view, those that stay too."""
        fates: dict[Part, Fate] = {}
        for turn in self.turns:
            fates[turn.index, "reply"] = "kept"
            fates[turn.index, "result"] = "dropped" if turn.index in self.masked else "kept"
        return fates
