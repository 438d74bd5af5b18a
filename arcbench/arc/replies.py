"""What ARC keeps of an agent's reply, and what signs for an observation."""

from __future__ import annotations

import re

from arcbench.types import Message, Turn

_BLOCK = re.compile(r"^[ \t]*```", re.M)


def shortened(reply: Message, thought_chars: int) -> Message:
    """An older reply: its command whole, its thought cut at ``thought_chars``."""
    block = _BLOCK.search(reply.content)
    thought = reply.content[: block.start()].strip() if block else reply.content
    if len(thought) <= thought_chars:
        return reply
    short = f"{thought[:thought_chars]}…"
    return Message("assistant", f"{short}\n{reply.content[block.start() :].strip()}" if block else short)


def signature_of(turn: Turn) -> str:
    """The command of a turn; a recorded reply may hold no well-formed one, and then its last line signs for it."""
    return turn.action.text if turn.action else turn.reply.content.strip().rpartition("\n")[2]
