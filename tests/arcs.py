"""ARC driven as the loop drives it, one command at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from bench import PREFIX, Bench, budget
from fakes import build

from arcbench.arc import Arc
from arcbench.parsing import parse
from arcbench.text import excerpt
from arcbench.types import Action, Done, Message, Observation, Turn

NEEDLE_FILE = "\n".join(f"line {i}: {i * 7919 % 1000:03d} and some words" for i in range(60))


class Player:
    """Drives ARC as the loop does, one command at a time."""

    def __init__(self, window: int = 4096, completion: int = 96, **limits: Any) -> None:
        self.bench = Bench(budget(window, completion, **limits))
        self.arc: Arc = build("method/arc")(bench=self.bench)
        self.arc.begin(PREFIX)
        self.turns: list[Turn] = []
        self.own = {doc.name for doc in self.arc.actions()}

    def do(self, command: str, body: str = "", *, said: str = "", returncode: int = 0) -> Turn:
        reply = f"{said}\n```\n{command}\n```".strip()
        action = parse(reply)
        assert isinstance(action, Action)
        own = action.name in self.own
        observation = asyncio.run(self.arc.handle(action)) if own else Observation(body, returncode)
        limits = self.bench.budget
        limit = limits.recall_max_chars if observation.restored else limits.presentation_limit_chars
        shown = excerpt(observation.text, limit, "[... $chars left out ...]")
        return self.tell(
            Turn(
                index=len(self.turns),
                call=len(self.turns) + 1,
                reply=Message("assistant", reply),
                action=action,
                observation=observation,
                result=Message("user", f"{observation.note}\n{shown}" if observation.note else shown),
                answered_by="method" if own else "environment",
            )
        )

    def tell(self, told: Turn) -> Turn:
        self.turns.append(told)
        assert asyncio.run(self.arc.observe(told)) is None
        return told

    def compact(self, reason: Any = "forced") -> Done:
        done = asyncio.run(self.arc.compact(reason))
        assert isinstance(done, Done)
        return done

    def whole(self, told: Turn) -> bool:
        """Whether a turn stands in the view as it was."""
        return told in self.arc.turns and told.index not in self.arc.shown

    def id(self, at: int) -> str:
        return self.arc.records[at].id

    @property
    def view(self) -> list[Message]:
        return list(self.arc.view())

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.view)

    @property
    def size(self) -> int:
        return self.bench.count(self.view)


def long(tag: str, words: int = 200) -> str:
    return " ".join(f"{tag}{i}" for i in range(words))


def after_three(player: Player) -> None:
    """Three short turns, so that what came before is no longer recent."""
    for i in range(3):
        player.do(f"look {i}", "nothing")


def recalls(bench: Bench) -> list[tuple[str, dict[str, Any]]]:
    """The recalls that a bench was told of."""
    return [note for note in bench.notes if note[0] == "recall"]
