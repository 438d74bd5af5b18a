"""What ARC keeps of an agent's reply, and what signs for an observation."""

from __future__ import annotations

import re

from arcbench.types import Message, Turn

_BLOCK = re.compile(r"^[ \t]*```", re.M)


def cut(text: str, limit_chars: int) -> str:
    """The first ``limit_chars`` of a text, with an ellipsis where more follows."""
    return text if len(text) <= limit_chars else f"{text[:limit_chars]}…"


def shortened(reply: Message, thought_chars: int, command_chars: int) -> Message:
    """An older reply: its thought cut at ``thought_chars``, its command at ``command_chars``. The same object
    where nothing is cut."""
    block = _BLOCK.search(reply.content)
    if block is None:
        short = cut(reply.content, thought_chars)
    else:
        thought = cut(reply.content[: block.start()].strip(), thought_chars)
        lines = [cut(line, command_chars) for line in reply.content[block.start() :].strip().split("\n")]
        short = "\n".join([thought, *lines] if thought else lines)
    return reply if len(short) >= len(reply.content) else Message("assistant", short)


def signature_of(turn: Turn) -> str:
    """The command of a turn; a recorded reply may hold no well-formed one, and then its last line signs for it."""
    return turn.action.text if turn.action else turn.reply.content.strip().rpartition("\n")[2]
