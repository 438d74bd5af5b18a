"""What the two summarisers share: asking the model to rewrite older turns, and not trusting the answer.

A *memory* is the text that stands for the turns that were removed: prose for ``llm_summary``, JSON for
``structured_state``. It is rewritten by model calls that fit the window, as many as that takes, each
refining the memory with the next piece of the older turns. Any fault of the model's rejects the whole
rewriting: the older turns are dropped, the memory stays as it was, and the compaction carries the failure.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar, Literal

from arcbench.checks import template, whole
from arcbench.parsing import parse, without_thinking
from arcbench.recent import fates, messages, split, weigh
from arcbench.text import fill
from arcbench.types import Action, Compaction, ContextOverflow, Done, Message, Method, Reply, Turn, Workbench


class Rejected(Exception):
    """The model's answer must not become the memory; ``fault`` is one word or two that say why."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


def spoken(reply: Reply, max_tokens: int) -> str:
    """What a reply says outside its thinking. Raises :class:`Rejected` when it was cut at the limit, says
    nothing, or never leaves its thinking part."""
    if reply.finish == "length" or reply.completion_tokens >= max_tokens:
        raise Rejected("cut")
    if not reply.text.strip():
        raise Rejected("empty")
    if "<think>" in reply.text.rpartition("</think>")[2]:
        raise Rejected("thinking")
    text = without_thinking(reply.text)
    if not text:
        raise Rejected("thinking")
    return text


def is_tool_call(text: str) -> bool:
    """Whether the loop would run this text as an action, or it is a call in a model's own notation."""
    return "<tool_call>" in text or isinstance(parse(text), Action)


class SummarisingMethod(Method):
    """The prefix, the memory of what was removed, the recent turns, and short older ones while there is room.

    ``max_tokens`` caps the memory and the completion of the calls that write it (also capped by the reserved
    completion, and by what the newest turn leaves of the window). ``least_input_chars``: a call with room for
    less new text than this is not worth making. ``system`` and ``request`` are the prompt of such a call,
    ``turn`` renders one turn in it, ``empty`` stands for no memory yet. ``remembered`` and ``lost``
    are what the agent sees: the memory, and how many turns were dropped without one.
    """

    noun: ClassVar[str]
    """What the memory is called in the names of failures and events."""

    def __init__(
        self,
        *,
        id: str,
        promise: str,
        bench: Workbench,
        variant: str | None,
        max_tokens: int,
        least_input_chars: int,
        system: str,
        request: str,
        turn: str,
        empty: str,
        remembered: str,
        lost: str,
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.max_tokens = whole(f"method.{self.noun}_max_tokens", max_tokens, 1)
        self.least_input_chars = whole("method.least_input_chars", least_input_chars, 1)
        self.system = template("method.system", system, "max_tokens")
        self.request = template("method.request", request, "task", "memory", "turns")
        self.turn = template("method.turn", turn, "index", "reply", "result")
        self.empty = template("method.empty", empty)
        self.remembered = template("method.remembered", remembered, "memory")
        self.lost = template("method.lost", lost, "count")
        self.turns: list[Turn] = []
        self.memory = ""
        self.dropped = 0
        self.notice: tuple[Message, ...] = ()

    @abstractmethod
    async def revise(self, memory: str, prompt: Sequence[Message], max_tokens: int) -> str:
        """Ask the model with this prompt and return the memory that replaces ``memory``.
        Raises :class:`Rejected`, and what the engine raises."""

    async def observe(self, turn: Turn) -> Done | None:
        """Append the turn."""
        self.turns.append(turn)
        return None

    def view(self) -> Sequence[Message]:
        """The prefix, the memory once something was removed, and the turns that are left."""
        return [*self.prefix, *self.notice, *messages(self.turns)]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Rewrite the turns before the recent ones into the memory, or drop them where that fails.
        Raises :class:`arcbench.types.EngineError`, with nothing changed."""
        cap = self._cap()
        fixed = (*self.prefix, self._frame())
        divided = split(self.turns, bench=self.bench, reason=reason, fixed=fixed, reserve_tokens=max(cap, 0))
        older = divided.older
        if not older:
            return Done(fates(divided, "summarised"))
        memory, dropped, failure = self.memory, self.dropped, None
        try:
            memory = await self._rewrite(older, cap)
        except Rejected as rejected:
            failure = f"{self.noun}_{rejected.fault}"
        except ContextOverflow:
            failure = f"{self.noun}_context_overflow"
        if failure is not None:
            self.bench.note(f"{self.noun}_rejected", failure=failure, turns=[turn.index for turn in older])
            # An earlier memory stays, unless the newest turn has grown so large that not even that has room.
            memory = self.memory if self.within(self.memory, cap) else ""
            dropped += len(older)
        self.turns, self.memory, self.dropped = list(divided.kept), memory, dropped
        self.notice = self._notice(memory, dropped)
        return Done(fates(divided, "summarised" if failure is None else "dropped"), failure)

    def within(self, memory: str, cap: int) -> bool:
        """Whether the message that shows ``memory`` stays within the tokens set aside for it."""
        if not memory:
            return True
        frame = self._frame().content
        shown = Message("user", frame + memory)
        return self._weight((shown,)) <= self._weight((Message("user", frame),)) + cap

    def _cap(self) -> int:
        """Most tokens of the memory, the same before and after a compaction. Not positive: no room for any."""
        budget = self.bench.budget
        newest = weigh(self.bench, self.turns[-1]) if self.turns else 0
        room = budget.usable_tokens - self.bench.count((*self.prefix, self._frame())) - newest
        return min(self.max_tokens, budget.completion_tokens, room)

    async def _rewrite(self, older: Sequence[Turn], cap: int) -> str:
        texts = [fill(self.turn, index=t.index, reply=t.reply.content, result=t.result.content) for t in older]
        text, ends = "".join(texts), list(accumulate(map(len, texts)))
        memory, start = self.memory, 0
        while True:
            end = self._reach(memory, text, start, ends, cap)
            memory = await self.revise(memory, self._prompt(memory, text[start:end], cap), cap)
            if end == len(text):
                break
            start = end
        replaced = self._weight(self.notice) + sum(weigh(self.bench, turn) for turn in older)
        if self._weight(self._notice(memory, self.dropped)) >= replaced:
            raise Rejected("not_smaller")
        if not self.within(memory, cap):
            raise Rejected("too_long")
        return memory

    def _reach(self, memory: str, text: str, start: int, ends: Sequence[int], cap: int) -> int:
        """How far into ``text`` one call can read from ``start``: to the end, else to the last end of a turn
        that fits, else as far as fits, between characters. Raises :class:`Rejected` when that is too little."""

        def overflows(end: int) -> bool:
            return not self.bench.fits(self._prompt(memory, text[start:end], cap), cap)

        if cap < 1:
            raise Rejected("no_room")
        if not overflows(len(text)):
            return len(text)
        reach = start + bisect_left(range(start + 1, len(text)), True, key=overflows)
        if reach - start < self.least_input_chars:
            raise Rejected("no_room")
        return max((end for end in ends if start < end <= reach), default=reach)

    def _prompt(self, memory: str, turns: str, cap: int) -> list[Message]:
        task = "\n\n".join(message.content for message in self.prefix)
        request = fill(self.request, task=task, memory=memory or self.empty, turns=turns)
        return [Message("system", fill(self.system, max_tokens=cap)), Message("user", request)]

    def _notice(self, memory: str, dropped: int) -> tuple[Message, ...]:
        lines = [fill(self.lost, count=dropped)] if dropped else []
        if memory:
            lines.append(fill(self.remembered, memory=memory))
        return (Message("user", "\n".join(lines)),) if lines else ()

    def _frame(self) -> Message:
        """The longest notice around a memory that a compaction of these turns can leave."""
        lost = fill(self.lost, count=self.dropped + len(self.turns))
        return Message("user", f"{lost}\n{fill(self.remembered, memory='')}")

    def _weight(self, shown: Sequence[Message]) -> int:
        return self.bench.count(shown) - self.bench.count(())
