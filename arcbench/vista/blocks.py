"""What a workspace is made of: blocks, the handles that stand for them, the files that hold what they showed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from arcbench.types import Message, Part
from arcbench.vista.dashboard import BlockType, Status

Away = Literal["archived", "offloaded_placeholder"]


@dataclass(slots=True, eq=False)
class Block:
    """One message. ``tokens`` is what ``message`` takes, ``text`` is whole (a message may show it cut),
    ``what`` says what it is on one line, with the beginning of its command, ``heading`` with all of it. ``root``
    numbers the turns from the task's 0, ``managed`` marks a turn that no environment answered."""

    id: str
    type: BlockType
    message: Message
    tokens: int
    text: str
    what: str
    root: int
    parent: str | None = None
    part: Part | None = None
    managed: bool = False
    heading: str = ""
    level: int = 0
    handle: Handle | None = None
    deleted: Message | None = None
    saves: int | None = None
    """What offloading it would save, once that was asked for: text and placeholder never change."""

    @property
    def raw(self) -> bool:
        """Whether it is in the view as it was, and can be moved out of it."""
        return self.part is not None and self.handle is None and self.deleted is None


@dataclass(slots=True, eq=False)
class Handle:
    """What stands for archived or offloaded blocks: the whole line at the first place where one was, a
    reference to it at others."""

    id: str
    blocks: list[Block]
    inner: list[Handle]
    status: Away
    message: Message
    tokens: int

    @property
    def level(self) -> int:
        """How often its deepest block was archived."""
        return max(block.level for block in self.blocks)


Unit = Block | Handle


@dataclass(frozen=True, slots=True)
class File:
    """A payload: what blocks showed when they were archived."""

    text: str
    sha256: str

    @property
    def intact(self) -> bool:
        """Whether its bytes are those that were archived."""
        return sha256(self.text) == self.sha256


@dataclass(slots=True)
class Layout:
    """What stands after the task in the view, and what each block takes of it."""

    messages: list[Message] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)


def sha256(text: str) -> str:
    """Hex digest of a payload."""
    return hashlib.sha256(text.encode()).hexdigest()


def one_line(text: str, limit_chars: int) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text[: 4 * limit_chars].split())
    return flat if len(flat) <= limit_chars and len(text) <= 4 * limit_chars else f"{flat[:limit_chars]}…"


def status_of(block: Block) -> Status:
    """The ledger's word for the state of a block."""
    if block.part is None:
        return "pinned"
    if block.deleted is not None:
        return "deleted"
    return block.handle.status if block.handle is not None else "visible"


def names(handle: Handle) -> set[str]:
    """Its id and those of all handles inside it."""
    return {handle.id}.union(*map(names, handle.inner))


def spans(blocks: Sequence[Block]) -> str:
    """Ids as an agent would write them: ``B3, B5-B8``."""
    numbers = [int(block.id[1:]) for block in blocks]
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"B{first}" if first == last else f"B{first}-B{last}" for first, last in parts)


def blocks_of(unit: Unit) -> list[Block]:
    """The blocks that a unit stands for."""
    return unit.blocks if isinstance(unit, Handle) else [unit]


def place(unit: Unit) -> int:
    """Number of its first block."""
    return int(blocks_of(unit)[0].id[1:])
