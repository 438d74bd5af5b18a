"""The dashboard: a budget bar and a ledger of the blocks, as text (VISTA, Sections 2.2 and App. F)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from arcbench.checks import one_of, template
from arcbench.text import fill
from arcbench.types import Message

BlockType = Literal["user_message", "assistant_message", "tool_result"]
Status = Literal["pinned", "visible", "archived", "offloaded_placeholder", "deleted"]
FORMS = ("full", "folded")
PLACES: Mapping[str, tuple[str, ...]] = {
    "head": ("bar", "percent", "used", "total", "overhead", "conversation", "own"),
    "ledger": (),
    "folded": ("count", "first", "last", "tokens"),
    "foot": (),
}
_CELLS = 20
_PASSES = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One block in the ledger. ``tokens`` is what it takes in the view now; ``age`` counts root turns, 0 for
    the newest; a block that opens its turn has no ``parent``."""

    id: str
    tokens: int
    age: int
    type: BlockType
    level: int
    parent: str | None
    status: Status

    @property
    def away(self) -> bool:
        """Whether the block is out of view, behind a handle or a placeholder."""
        return self.status in ("archived", "offloaded_placeholder")

    @property
    def text(self) -> str:
        """Its line."""
        return f"{self.id} {self.tokens} {self.age}r {self.type} L{self.level} {self.parent or '-'} {self.status}"


class Dashboard:
    """Turns rows into one message. ``form``: ``full`` has a line per block, ``folded`` one line for all that
    are archived or offloaded. ``texts``: the fixed words, ``key`` of the config."""

    def __init__(self, *, form: str, texts: Mapping[str, str], key: str) -> None:
        self.form = one_of("method.dashboard", form, FORMS)
        for name in texts:
            one_of(key, name, PLACES)
        self.texts = {name: template(f"{key}.{name}", texts.get(name), *PLACES[name]).strip("\n") for name in PLACES}

    def compose(
        self,
        rows: Sequence[Row],
        *,
        overhead: int,
        total: int,
        weigh: Callable[[Message], int],
        board: str = "",
        guess: int = 0,
    ) -> tuple[Message, int]:
        """The message and the tokens it takes, which it counts among those it reports.

        ``overhead`` is what the prompt takes beside the blocks and this message, ``total`` the most that a
        prompt may take, all in tokens as ``weigh`` counts them. ``guess`` is the size it may turn out to have.
        """
        conversation, ledger = sum(row.tokens for row in rows), self.ledger(rows)
        percent = 0
        for again in range(_PASSES):
            used = overhead + conversation + guess
            if again < _PASSES // 2:  # then only the digits change, so that the passes come to an end
                percent = min(100, round(100 * used / total))
            full = _CELLS * percent // 100
            head = fill(
                self.texts["head"],
                bar="#" * full + "." * (_CELLS - full),
                percent=percent,
                used=used,
                total=total,
                overhead=overhead,
                conversation=conversation,
                own=guess,
            )
            message = Message("user", "\n".join((*([board] if board else []), head, ledger, self.texts["foot"])))
            size = weigh(message)
            if size == guess:
                break
            guess = size
        return message, size

    def ledger(self, rows: Sequence[Row]) -> str:
        """The lines of the blocks, in the order of the view."""
        lines = [self.texts["ledger"]]
        if self.form == "folded":
            away = [row for row in rows if row.away]
            rows = [row for row in rows if not row.away]
            if away:
                tokens = sum(row.tokens for row in away)
                lines.append(
                    fill(self.texts["folded"], count=len(away), first=away[0].id, last=away[-1].id, tokens=tokens)
                )
        lines.extend(row.text for row in rows)
        return "\n".join(lines)
