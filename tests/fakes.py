"""What the loop is tested with: an engine that is told its replies, a small harness, and methods of each kind.

All of them implement the protocols of :mod:`arcbench.types`; nothing is patched.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import hydra
import yaml
from bench import chosen, cut, words
from omegaconf import OmegaConf

from arcbench.engines.chat import Chat, load_chat
from arcbench.engines.scripted import ScriptedEngine
from arcbench.episode import Setup, play
from arcbench.types import (
    Action,
    ActionDoc,
    Budget,
    Compaction,
    ContextOverflow,
    Done,
    Ending,
    Environment,
    Harness,
    Json,
    Message,
    Method,
    Nothing,
    Observation,
    Pending,
    Reply,
    Request,
    Rules,
    Score,
    Step,
    Task,
    Turn,
    Workbench,
)

CONF = Path(__file__).parents[1] / "conf"
PROMISE = "Beware."

# ------------------------------------------------------------------------------------ from conf/


@cache
def conf(name: str) -> Any:
    """A file of ``conf/`` as it stands, a method's on top of the one it builds on; interpolations unresolved."""
    folder, _, file = name.partition("/")
    if folder == "method":
        return OmegaConf.to_container(chosen(file))
    return yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))


def compose(*words: str) -> dict[str, Any]:
    """The resolved config that a command line with these overrides makes."""
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = OmegaConf.to_container(hydra.compose("config", overrides=list(words)), resolve=True)
    assert isinstance(config, dict)
    return config  # type: ignore[return-value]


def build(name: str, **changes: Any) -> Any:
    """What a file of ``conf/`` makes; ``changes`` also give the values of its interpolations."""
    config = {**conf(name), **changes}
    assert not [key for key, value in config.items() if isinstance(value, str) and "${" in value], config
    module, _, attribute = config.pop("_target_").rpartition(".")
    config.pop("_convert_", None)
    made = getattr(importlib.import_module(module), attribute)
    return partial(made, **config) if config.pop("_partial_", False) else made(**config)


def rules(**changes: Any) -> Rules:
    """The rules of ``conf/config.yaml``, with a system prompt of few words."""
    return Rules(**conf("config")["rules"] | {"system": "$manual$actions$promise"} | changes)


def needle(page_chars: int = 700, **changes: Any) -> Any:
    """The needle harness of ``conf/harness``, with small pages unless told."""
    page = {"chars": page_chars, "log_share": 0.3}
    around = OmegaConf.create({"budget": conf("budget/paper_8b"), "limits": conf("harness/needle")["limits"]})
    limits = OmegaConf.to_container(around, resolve=True)["limits"]  # type: ignore[index, call-overload]
    return build("harness/needle", **{"seed": 5, "n_tasks": 3, "page": page, "limits": limits} | changes)


def qwen() -> Chat:
    """Qwen3's counter."""
    return load_chat(conf("model/scripted"))


# ---------------------------------------------------------------------------------------- engine


def run(command: str, thought: str = "") -> str:
    """A well-formed reply."""
    return f"{thought}\n```\n{command}\n```"


Said = str | Reply | Exception


class FakeEngine:
    """Gives the replies it is told, in order, or what a function of the request says.

    A token is a word, a message takes 2 more and a prompt 3. A text becomes a reply with its end-of-turn
    token on top, an exception is raised. ``requests`` are the answered ones. ``chat`` counts real tokens
    instead. One list of replies serves every episode from its beginning.
    """

    id = "fake"
    model = "fake"

    def __init__(
        self,
        replies: Sequence[Said] | Callable[[Request], Said],
        *,
        window: int,
        concurrency: int = 8,
        chat: Chat | None = None,
    ) -> None:
        self.replies = replies
        self.window = window
        self.concurrency = concurrency
        self.chat = chat
        self.requests: list[Request] = []
        self.asked: dict[str, int] = {}

    def count(self, messages: Sequence[Message], *, thinking: bool) -> int:
        if self.chat:
            return self.chat.count(messages, thinking=thinking)
        return 3 + sum(2 + words(message.content) for message in messages)

    def count_text(self, text: str) -> int:
        return self.chat.count_text(text) if self.chat else words(text)

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        return self.chat.pieces(text, max_tokens) if self.chat else cut(text, max_tokens, words)

    async def complete(self, request: Request) -> Reply:
        size = self.count(request.messages, thinking=request.thinking)
        if size + request.max_tokens > self.window:
            raise ContextOverflow(size, request.max_tokens, self.window)
        at = self.asked.get(request.episode, 0)
        self.asked[request.episode] = at + 1
        said = self.replies(request) if callable(self.replies) else self.replies[at]
        await asyncio.sleep(0)
        if isinstance(said, Exception):
            raise said
        self.requests.append(request)
        return said if isinstance(said, Reply) else Reply(said, "stop", size, self.count_text(said) + 1, None, 0.0)

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def describe(self) -> Mapping[str, Json]:
        return {}


class RecordingEngine(ScriptedEngine):
    """The scripted reader, with real counts, which keeps the text of every prompt that it answered."""

    def __init__(self, *, window: int, summary_bound: str = "keeps_announced") -> None:
        super().__init__(
            id="scripted",
            model=conf("model/scripted"),
            window_tokens=window,
            summary_bound=summary_bound,
            head_tail_chars=conf("engine/scripted")["head_tail_chars"],
            concurrency=8,
        )
        self.prompts: dict[str, list[str]] = {}

    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        prompts = self.prompts.setdefault(request.episode, [])
        prompts.append(self.chat.render(request.messages, thinking=request.thinking))
        return reply


# --------------------------------------------------------------------------------------- harness

Answer = Callable[[str, Mapping[str, str]], str | Observation]


def say(command: str, mounts: Mapping[str, str]) -> str | Observation:
    """``say N`` gives N words, ``read PATH`` a mounted file; anything else repeats the command."""
    name, _, argument = command.partition(" ")
    if name == "say":
        return " ".join(f"w{i}" for i in range(int(argument)))
    if name == "read":
        return Observation(mounts[argument], restored=True)
    return command


@dataclass
class FakeHarness(Harness):
    """``answer`` is the environment; ``submit X`` ends an episode, and ``X`` is right when it is the task's value."""

    answer: Answer = say
    turn_limit: int = 30
    call_limit: int = 60
    id: str = "fake"
    manual: str = ""
    opened: list[FakeEnvironment] = field(default_factory=list)

    def tasks(self) -> Sequence[Task]:
        return [task(index) for index in range(3)]

    def open(self, task: Task) -> FakeEnvironment:
        self.opened.append(FakeEnvironment(self.answer))
        return self.opened[-1]

    def score(self, record: Mapping[str, Json]) -> Score:
        return Score(correct=record["submission"] == record["facts"]["value"], measures={"turns": len(record["turns"])})

    def describe(self) -> Mapping[str, Json]:
        return {}


class FakeEnvironment(Environment):
    """Hands every command but ``submit`` to a function; ``ran`` is what reached it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.ran: list[str] = []

    def answer(self, action: Action, mounts: Mapping[str, str]) -> Step:
        self.ran.append(action.text)
        if action.name == "submit":
            ending: Ending = "gave_up" if action.argument == "NONE" else "submitted"
            return Step(Observation("Done."), ending, None if ending == "gave_up" else action.argument)
        said = self._answer(action.text, mounts)
        return Step(said if isinstance(said, Observation) else Observation(said))

    def counters(self) -> Mapping[str, int]:
        return {"ran": len(self.ran)}


def task(index: int = 0, prompt: str = "Say it.", **changes: Any) -> Task:
    """A task whose right answer is ``42``."""
    parts = {"id": f"fake/{index}", "seed": 7, "index": index, "prompt": prompt, "facts": {"value": "42"}}
    return Task(**parts | changes)


# --------------------------------------------------------------------------------------- methods


class Keeps(Method):
    """Keeps everything; a compaction gives nothing."""

    def __init__(self, *, bench: Workbench, final: bool = False, id: str = "keeps") -> None:
        super().__init__(id=id, promise=PROMISE, bench=bench)
        self.final = final
        self.turns: list[Turn] = []

    async def observe(self, turn: Turn) -> Done | None:
        self.turns.append(turn)
        return None

    def view(self) -> Sequence[Message]:
        return [*self.prefix, *(message for turn in self.turns for message in (turn.reply, turn.result))]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        return Nothing(final=self.final)


class Drops(Keeps):
    """Drops all turns but the newest ``keep``; ``reasons`` is what it was asked for."""

    def __init__(self, *, bench: Workbench, keep: int = 1) -> None:
        super().__init__(bench=bench, id="drops")
        self.keep = keep
        self.reasons: list[str] = []

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        self.reasons.append(reason)
        return self.drop()

    def drop(self) -> Done:
        cut = max(0, len(self.turns) - self.keep)
        gone, self.turns = self.turns[:cut], self.turns[cut:]
        return Done(
            {(turn.index, part): "dropped" for turn in gone for part in ("reply", "result")}
            | {(turn.index, part): "kept" for turn in self.turns for part in ("reply", "result")}
        )


class Stubborn(Keeps):
    """Says that it compacted and changes nothing."""

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        return Done({})


class Proactive(Drops):
    """Compacts inside observe, whenever it holds more than ``most`` turns."""

    def __init__(self, *, bench: Workbench, most: int) -> None:
        super().__init__(bench=bench)
        self.most = most

    async def observe(self, turn: Turn) -> Done | None:
        await super().observe(turn)
        return self.drop() if len(self.turns) > self.most else None


class Asks(Drops):
    """Has a model rewrite what it drops, and notes it."""

    def __init__(self, *, bench: Workbench) -> None:
        super().__init__(bench=bench)
        self.summary: tuple[Message, ...] = ()

    def view(self) -> Sequence[Message]:
        head, rest = len(self.prefix), super().view()
        return [*rest[:head], *self.summary, *rest[head:]]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        reply = await self.bench.complete([Message("system", "Be brief.")], max_tokens=5)
        self.bench.note("rewritten", turns=len(self.turns) - 1)
        self.summary = (Message("user", reply.text),)
        return self.drop()


class Manages(Keeps):
    """The agent itself must drop turns (``drop N``: all but the newest N) after a compaction was asked for, and
    can do nothing else meanwhile; what was dropped can be read below ``/archive``."""

    def __init__(self, *, bench: Workbench) -> None:
        super().__init__(bench=bench, id="manages")
        self.managing = False
        self.archive: dict[str, str] = {}

    def view(self) -> Sequence[Message]:
        if self.managing:
            return [*self.prefix, Message("user", f"{len(self.turns)} turns. Drop some.")]
        return super().view()

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        self.managing = True
        return Pending()

    def waiting(self) -> bool:
        return self.managing

    def actions(self) -> Sequence[ActionDoc]:
        return [ActionDoc("drop", "drop N", "keep only the newest N turns")]

    async def handle(self, action: Action) -> Observation:
        keep = int(action.argument)
        for turn in self.turns[:-keep]:
            self.archive[f"/archive/{turn.index}"] = turn.observation.text
        self.turns = self.turns[-keep:]
        self.managing = False
        return Observation(f"{keep} turns are left.")

    def gate(self, action: Action) -> Observation | None:
        return Observation("Not now: drop first.", returncode=1) if self.managing and action.name != "drop" else None

    def mounts(self) -> Mapping[str, str]:
        return self.archive


# ---------------------------------------------------------------------------------------- playing


def setup(engine: Any, make_method: Any, limits: Budget, harness: Any = None, **changes: Any) -> Setup:
    """A cell; thinking is on."""
    parts = {
        "engine": engine,
        "harness": harness or FakeHarness(),
        "make_method": make_method,
        "budget": limits,
        "rules": rules(),
        "thinking": True,
        "constrain_replies": False,
    }
    return Setup(**parts | changes)


def played(task: Task, cell: Setup) -> dict[str, Json]:
    """The record of one episode."""
    return asyncio.run(play(task, cell))
