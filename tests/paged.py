"""Drives arc_paged as the loop does, one turn at a time, and keeps its own account of what was observed."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from bench import PREFIX, Bench, budget
from fakes import build, qwen

from arcbench.arc import ArcPaged
from arcbench.text import admit, excerpt
from arcbench.types import Action, Answerer, Budget, Done, Message, Nothing, Observation, Turn

Result = TypeVar("Result")
OMITTED = "[... $chars left out ...]"

# Splits as small as they can be, so that every budget is met soon. Tokens are characters, or Qwen3's.
LETTERS = {"prefix": 60, "log": 500, "recent": 520, "page": 240, "recalled": 220, "overhead": 130}
QWEN = {"prefix": 40, "log": 250, "recent": 280, "page": 120, "recalled": 200, "overhead": 50}


class QwenBench(Bench):
    """A workbench that counts as Qwen3's engine does."""

    def count(self, messages: Sequence[Message]) -> int:
        return qwen().count(messages, thinking=True)

    def count_text(self, text: str) -> int:
        return qwen().count_text(text)

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        return qwen().pieces(text, max_tokens)


def limits_for(split: Mapping[str, int], q: int, **changes: Any) -> Budget:
    """The budget whose usable window is just the sum of the split."""
    numbers = {"recall_max_chars": q, "recall_budget_chars": q, "keep_verbatim_chars": 100} | changes
    return budget(sum(split.values()) + 50, 50, **numbers)


class Player:
    """One method on one bench. ``seen`` is every turn that the environment answered, ``pages`` and
    ``chunks`` the turns that opened one."""

    def __init__(self, bench: Bench, split: Mapping[str, int], prefix: Sequence[Message] = PREFIX, **changes: Any):
        changes = {"chars_per_token": 1} | changes
        self.bench = bench
        self.paged: ArcPaged = build("method/arc_paged", split=split, **changes)(bench=bench)
        self.refused = self.paged.begin(tuple(prefix))
        self.turns: list[Turn] = []
        self.seen: list[Turn] = []
        self.pages: list[Turn] = []
        self.chunks: list[Turn] = []
        self.told: Done | None = None

    @classmethod
    def letters(cls, q: int = 100, limits: Mapping[str, Any] | None = None, **changes: Any) -> Player:
        """Tokens are characters; a stub takes 120, so that a page holds two."""
        split = LETTERS | changes.pop("split", {})
        changes = {"stub_tokens": 120, "wrapper_tokens": 50} | changes
        return cls(Bench(limits_for(split, q, **limits or {}), unit=len), split, **changes)

    @classmethod
    def qwen(cls, q: int = 100, limits: Mapping[str, Any] | None = None, **changes: Any) -> Player:
        """Tokens are Qwen3's; a page holds two stubs."""
        split = QWEN | changes.pop("split", {})
        return cls(QwenBench(limits_for(split, q, **limits or {})), split, **changes)

    def do(self, command: str, raw: str | bytes = "", *, thought: str = "", returncode: int = 0) -> Turn:
        """The environment answers a command."""
        text, escaped = admit(raw)
        observation = Observation(text, returncode, escaped=escaped)
        turn = self._tell(command, thought, observation, "environment")
        self.seen.append(turn)
        return turn

    def ask(self, command: str, *, thought: str = "") -> Turn:
        """The method answers one of its own commands."""
        observation = at_once(self.paged.handle(action_of(command)))
        turn = self._tell(command, thought, observation, "method")
        if observation.exact:
            (self.pages if command.startswith("_catalog") else self.chunks).append(turn)
        return turn

    def hear(self, text: str, answered_by: Answerer = "correction", *, command: str | None = None, said: str = "hm"):
        """A correction, or a gate's notice."""
        return self._tell(command, said, Observation(text, 2), answered_by)

    def recall(self, id: str) -> list[Turn]:
        """Every part of a body, in order."""
        parts = [self.ask(f"_recall_start §{id}")]
        while parts[-1].observation.exact:
            parts.append(self.ask(f"_recall_next §{id}"))
            assert len(parts) <= self.paged.store.get(id).chars + 1, "a recall without an end"
        return parts[:-1]

    def force(self, reason: Any = "forced") -> Done:
        done = at_once(self.paged.compact(reason))
        assert isinstance(done, Done)
        return done

    def overflow(self) -> Nothing:
        nothing = at_once(self.paged.compact("overflow"))
        assert isinstance(nothing, Nothing)
        return nothing

    def _tell(self, command: str | None, thought: str, observation: Observation, answered_by: Answerer) -> Turn:
        limits = self.bench.budget
        limit = limits.recall_max_chars if observation.restored else limits.presentation_limit_chars
        text = observation.text if observation.exact else excerpt(observation.text, limit, OMITTED)
        shown = text or "(no output)"
        said = admit(thought)[0]
        turn = Turn(
            index=len(self.turns),
            call=len(self.turns) + 1,
            reply=Message("assistant", said if command is None else f"{said}\n```\n{command}\n```".strip()),
            action=None if command is None else action_of(command),
            observation=observation,
            result=Message("user", f"{observation.note}\n{shown}" if observation.note else shown),
            answered_by=answered_by,
        )
        self.turns.append(turn)
        self.told = at_once(self.paged.observe(turn))
        return turn

    # ---------------------------------------------------------------------------------- what is there

    def id(self, at: int) -> str:
        """Id of what the environment answered, from 0."""
        return self.paged.store.records[at].id

    @property
    def view(self) -> list[Message]:
        return list(self.paged.view())

    @property
    def size(self) -> int:
        return self.bench.count(self.view)

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.view)

    def weigh(self, *messages: Message) -> int:
        return self.bench.count(messages) - self.bench.count(())

    def visible(self, turns: Sequence[Turn]) -> list[Turn]:
        """Those whose result stands in the view as it was."""
        there = {id(message) for message in self.view}
        return [turn for turn in turns if id(turn.result) in there]

    @property
    def k(self) -> int:
        """K: the sum of all budgets."""
        return sum(self.paged.split.values())


def at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine returns that never waits; much faster than an event loop for each."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the method waited for something")


def action_of(command: str) -> Action:
    """A command as the loop reads it."""
    name, *rest = command.split(None, 1) or [""]
    return Action(name, rest[0] if rest else "", command)


def letters(size: int, letter: str = "x") -> str:
    """An observation of so many tokens."""
    return letter * size
