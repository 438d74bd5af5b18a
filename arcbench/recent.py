"""Which turns a compaction leaves alone: the part of the budget that all methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from arcbench.types import Fate, Message, Part, Turn, Workbench


@dataclass(frozen=True, slots=True)
class Split:
    """``older`` must go; ``inline`` are older turns whose observation is short enough to stay while
    there is room; ``recent`` stays. Each in order of time."""

    older: tuple[Turn, ...]
    inline: tuple[Turn, ...]
    recent: tuple[Turn, ...]

    @property
    def kept(self) -> tuple[Turn, ...]:
        """What stays in the view, in order of time."""
        return tuple(sorted((*self.inline, *self.recent), key=lambda turn: turn.index))


def messages(turns: Iterable[Turn]) -> list[Message]:
    """The messages of these turns, each reply before its result."""
    return [message for turn in turns for message in (turn.reply, turn.result)]


def weigh(bench: Workbench, turn: Turn) -> int:
    """Tokens that one turn adds to a prompt."""
    return bench.count((turn.reply, turn.result)) - bench.count(())


def split(
    turns: Sequence[Turn],
    *,
    bench: Workbench,
    reason: Literal["forced", "overflow"],
    fixed: Sequence[Message],
    reserve_tokens: int = 0,
) -> Split:
    """Divide the turns in the view under the shared budget.

    ``fixed`` is what stands in the view besides turns (prefix, summary, notices) and
    ``reserve_tokens`` what is about to be added to it. Recent turns: at most ``keep_recent_turns``
    within ``keep_recent_tokens``, the newest always. On a real overflow ``compact_to_tokens`` beats
    both; short older observations stay only below it, newest first.
    """
    budget = bench.budget
    room = budget.compact_to_tokens - bench.count(fixed) - reserve_tokens
    most = budget.keep_recent_tokens if reason == "forced" else min(budget.keep_recent_tokens, room)
    start, used = len(turns), 0
    while start > 0 and len(turns) - start < budget.keep_recent_turns:
        size = weigh(bench, turns[start - 1])
        if start < len(turns) and used + size > most:
            break
        start, used = start - 1, used + size
    room -= used
    older: list[Turn] = []
    inline: list[Turn] = []
    for turn in reversed(turns[:start]):
        size = weigh(bench, turn)
        if len(turn.observation.text) <= budget.keep_verbatim_chars and size <= room:
            inline.append(turn)
            room -= size
        else:
            older.append(turn)
    return Split(tuple(reversed(older)), tuple(reversed(inline)), tuple(turns[start:]))


def fates(divided: Split, older: Fate) -> dict[Part, Fate]:
    """Where the messages went when every older turn met one fate and the rest stayed."""
    where: dict[Part, Fate] = {}
    for turns, fate in ((divided.older, older), (divided.inline, "kept"), (divided.recent, "kept")):
        for turn in turns:
            where[turn.index, "reply"] = where[turn.index, "result"] = fate
    return where
