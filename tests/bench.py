"""What a method is tested with: a workbench without an episode or an engine, and turns to observe."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from arcbench.types import Action, Budget, ContextOverflow, Json, Message, Method, Observation, Reply, Turn

METHODS = Path(__file__).parents[1] / "conf" / "method"

Answer = Callable[[Sequence[Message]], str | Reply]
Count = Callable[[str], int]


def words(text: str) -> int:
    """Tokens are words."""
    return len(text.split())


def cut(text: str, max_tokens: int, unit: Count) -> list[str]:
    """Pieces as long as fit, for a unit that grows with the text."""
    pieces = []
    while text:
        end = max(1, bisect_right(range(1, len(text) + 1), max_tokens, key=lambda size: unit(text[:size])))
        pieces.append(text[:end])
        text = text[end:]
    return pieces


def budget(window: int, completion: int, **changes: Any) -> Budget:
    """A budget of this window with the shared shares, nothing forced."""
    numbers: dict[str, Any] = {
        "id": "test",
        "window_tokens": window,
        "completion_tokens": completion,
        "keep_recent_turns": 3,
        "keep_recent_share": 0.25,
        "compact_to_share": 0.6,
        "keep_verbatim_chars": 500,
        "presentation_limit_chars": 8000,
        "recall_budget_chars": 16000,
        "recall_max_chars": 8000,
        "force_at_calls": (),
    }
    return Budget(**numbers | changes)


class Bench:
    """A workbench: ``unit`` counts the tokens of a text, each message takes 2 more and the prompt 3.

    ``answer`` is the model: a text is cut at the limit, as an engine cuts it (to its first tokens, so with
    any ``unit`` that grows with the text); a :class:`Reply` is handed on as it is. ``calls`` holds the prompts,
    limits and schemas it was asked with, ``notes`` the events.
    """

    def __init__(self, limits: Budget, answer: Answer | None = None, unit: Count = words) -> None:
        self.budget = limits
        self.answer = answer
        self.unit = unit
        self.calls: list[tuple[tuple[Message, ...], int, Mapping[str, Json] | None]] = []
        self.notes: list[tuple[str, dict[str, Json]]] = []

    def count(self, messages: Sequence[Message]) -> int:
        return 3 + sum(2 + self.unit(message.content) for message in messages)

    def count_text(self, text: str) -> int:
        return self.unit(text)

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        return cut(text, max_tokens, self.unit)

    def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        return self.count(messages) + max_tokens <= self.budget.window_tokens

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, schema: Mapping[str, Json] | None = None
    ) -> Reply:
        if not self.fits(messages, max_tokens):
            raise ContextOverflow(self.count(messages), max_tokens, self.budget.window_tokens)
        if self.answer is None:
            raise AssertionError("this bench lends no model")
        self.calls.append((tuple(messages), max_tokens, schema))
        said = self.answer(messages)
        if isinstance(said, Reply):
            return said
        whole = self.unit(said) <= max_tokens
        while self.unit(said) > max_tokens:
            said = said[: len(said) * max_tokens // self.unit(said)]
        return Reply(said, "stop" if whole else "length", self.count(messages), self.unit(said), None, 0.0)

    def note(self, event: str, **facts: Json) -> None:
        self.notes.append((event, facts))


@cache
def chosen(name: str) -> Any:
    """A file of ``conf/method`` on top of the one that its defaults name, interpolations unresolved. Read once, so
    it is for copying and not for changing."""
    config = OmegaConf.load(METHODS / f"{name}.yaml")
    bases = [base for base in config.pop("defaults", []) if base != "_self_"]
    return OmegaConf.merge(*map(chosen, bases), config)


def method(name: str, bench: Bench, prefix: Sequence[Message] | None = None, **changes: Any) -> Method:
    """The method of ``conf/method/<name>.yaml``, as the runner makes it, having begun its task."""
    # what the files of the group refer to outside it
    around = {"engine": {"summary_bound": None}, "retriever": "bm25", "budget": {"vista": {"dashboard": "full"}}}
    config = OmegaConf.create(around | {"method": chosen(name)})
    for key, value in changes.items():
        OmegaConf.update(config, f"method.{key}", value, force_add=False)
    made: Method = instantiate(config.method)(bench=bench)
    assert made.begin(tuple(prefix or PREFIX)) is None
    return made


PREFIX = (Message("system", "You are an agent."), Message("user", "Report the colour of the door."))


def turn(index: int, observed: str, command: str | None = "look", *, said: str = "", returncode: int = 0) -> Turn:
    """One turn as the loop makes it: the reply is a fenced command (or ``said``), the result the text itself."""
    action = None
    if command is not None:
        name, _, argument = command.partition(" ")
        action = Action(name, argument, command)
        said = said or f"```sh\n{command}\n```"
    return Turn(
        index=index,
        call=index + 1,
        reply=Message("assistant", said),
        action=action,
        observation=Observation(observed, returncode=returncode),
        result=Message("user", observed),
        answered_by="environment" if action else "correction",
    )
