"""ARC for any agent: a list of chat messages that stays within a token budget, and recalls by id."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import yaml

from arcbench.arc.method import Arc
from arcbench.arc.sqlite_store import SqliteStore
from arcbench.arc.store import Store
from arcbench.checks import one_of, whole
from arcbench.parsing import Malformed, parse, without_thinking
from arcbench.text import admit, excerpt
from arcbench.types import (
    Action,
    Answerer,
    Budget,
    ConfigError,
    ContextOverflow,
    Json,
    Message,
    Method,
    Nothing,
    Observation,
    Reply,
    Role,
    Turn,
)

CONF = Path(__file__).parents[2] / "conf"
PACKAGE = "arcbench.arc"
_GIVEN = {"id", "window_tokens", "completion_tokens", "force_at_calls"}
_NUMBERS = tuple(field.name for field in fields(Budget) if field.name not in _GIVEN)

T = TypeVar("T")


class ArcContext:
    """An agent's messages, of which older results give way to citations when they no longer fit.

    ``count`` says how many tokens a message, ``{"role": ..., "content": ...}``, adds to a prompt; a longer
    content must not count less. ``budget_tokens`` is the most that all messages together may take.
    ``method`` is ``arc`` or another variant (``conf/method``); ``store`` is where `arc` keeps what it
    takes away (None: in memory). All other numbers and all texts come from the project's ``conf`` folder, as
    in a run of the default budget and recall point; numbers of the budget (``keep_recent_turns=5``) can be given here.

    Raises :class:`ConfigError` (one line) for what cannot be used. Not for several threads at once.
    """

    def __init__(
        self,
        *,
        count: Callable[[dict[str, str]], int],
        budget_tokens: int,
        method: str = "arc",
        store: Store | None = None,
        conf: str | Path = CONF,
        **numbers: float,
    ) -> None:
        settings = _Settings(Path(conf), whole("budget_tokens", budget_tokens, 1), numbers)
        self.budget_tokens = budget_tokens
        self.method = settings.method(method, _Bench(settings.budget, count), store)
        self.instructions = "\n".join(
            [*(f"{doc.usage}: {doc.help}" for doc in self.method.actions()), self.method.promise]
        )
        """For the system prompt: the agent's commands of recall, and what is taken away."""
        self._own_actions = {doc.name for doc in self.method.actions()}
        self._rules = settings.rules
        self._prefix: list[Message] = []
        self._begun = False
        self._reply: Message | None = None  # said, and not yet answered
        self._next_step = store.next_step() if isinstance(store, SqliteStore) else 0

    def add(self, role: str, content: str | bytes, *, command: str | None = None, returncode: int = 0) -> None:
        """Add a message at the end.

        System and user messages before the first assistant message are the task: they always stay. After
        that, messages of the assistant alternate with what came back (``user`` or ``tool``; it is stored whole
        and shown as ``user``). ``command`` is what produced it, shown in its citation; None: the one
        fenced block of the reply, or else its last line. Not for answers of :meth:`recall`, which adds them.
        """
        after = ("user", "tool") if self._reply else ("assistant",)
        one_of("role", role, after if self._begun else ("system", "user", "assistant"))
        text, escaped = admit(content)
        if role == "assistant":
            self._begin()
            self._reply = Message("assistant", text)
        elif not self._reply:
            self._prefix.append(Message(cast(Role, role), text))
        else:
            action = _fenced(self._reply.content)
            if command is not None:
                name, _, argument = admit(command)[0].partition(" ")
                action = Action(name, argument, admit(command)[0])
            self._close(self._reply, action, Observation(text, returncode, escaped=escaped), "environment")

    def recall(self, command: str) -> str | None:
        """Answer one of ARC's own commands (``_recall §ab12cd34``, bare or as the one fenced block of a reply)
        and add the answer to the messages. None, and nothing added, when it is anything else."""
        said = admit(command)[0]
        action = _fenced(said) or _bare(said)
        if action is None or action.name not in self._own_actions:
            return None
        self._begin()
        reply = self._reply or Message("assistant", said)
        return self._close(reply, action, finish(self.method.handle(action)), "method")

    def messages(self) -> list[dict[str, str]]:
        """What to send now: at most ``budget_tokens``, for which older messages are compacted first if need be.
        Raises :class:`ContextOverflow` when not even the newest messages fit beside the task and the citations."""
        size = self._tokens()
        while size > self.budget_tokens:
            outcome = finish(self.method.compact("overflow"))
            before, size = size, self._tokens()
            if isinstance(outcome, Nothing) or size >= before:
                raise ContextOverflow(size, 0, self.budget_tokens)
        return [_plain(message) for message in self._view()]

    def _begin(self) -> None:
        if not self._begun and self.method.begin(tuple(self._prefix)):
            size = self.method.bench.count(self._prefix)
            raise ConfigError(f"budget_tokens={self.budget_tokens}: too few beside a task of {size} tokens")
        self._begun = True

    def _close(self, reply: Message, action: Action | None, observation: Observation, answered_by: Answerer) -> str:
        """A turn is complete: tell the method; what it shows of the observation."""
        result = self._visible(reply, observation)
        turn = Turn(
            index=self._next_step,
            call=None,
            reply=reply,
            action=action,
            observation=observation,
            result=result,
            answered_by=answered_by,
        )
        finish(self.method.observe(turn))
        self._next_step, self._reply = self._next_step + 1, None
        return result.content

    def _visible(self, reply: Message, observation: Observation) -> Message:
        """The message that shows an observation: whole up to a limit in characters, and then cut to half of what
        task and reply leave of the budget, so that there is as much for everything before it."""
        bench = self.method.bench
        room = (self.budget_tokens - bench.count([*self._prefix, reply])) // 2
        limit = bench.budget.recall_max_chars if observation.restored else bench.budget.presentation_limit_chars
        limit = len(observation.text) if observation.exact else min(limit, len(observation.text))
        while True:
            shown = excerpt(observation.text, limit, self._rules["omitted"]) or self._rules["no_output"]
            message = Message("user", f"{observation.note}\n{shown}" if observation.note else shown)
            if observation.exact or limit < 2 or bench.count([message]) <= room:
                return message
            limit //= 2

    def _view(self) -> list[Message]:
        view = self.method.view() if self._begun else self._prefix
        return [*view, self._reply] if self._reply else list(view)

    def _tokens(self) -> int:
        return self.method.bench.count(self._view())


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that awaits nothing, as ARC's do: no event loop is needed."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    work.close()
    raise RuntimeError("a method that waits for a model needs the episode loop")


def _fenced(reply: str) -> Action | None:
    """The one fenced command that ends a reply."""
    action = parse(without_thinking(reply))
    return None if isinstance(action, Malformed) else action


def _bare(command: str) -> Action | None:
    """A command on a line of its own, without a fence."""
    return _fenced(f"```\n{without_thinking(command)}\n```")


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


class _Bench:
    """The workbench of a method that calls no model."""

    def __init__(self, budget: Budget, count: Callable[[dict[str, str]], int]) -> None:
        self.budget = budget
        self._count = count
        self._counted: WeakKeyDictionary[Message, int] = WeakKeyDictionary()

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of these messages; each is counted once."""
        total = 0
        for message in messages:
            size = self._counted.get(message)
            if size is None:
                size = self._counted[message] = self._count(_plain(message))
            total += size
        return total

    def count_text(self, text: str) -> int:
        """Tokens of a text, as the content of a message."""
        return self._count({"role": "user", "content": text})

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` in pieces as long as fit, at least a character each."""
        pieces = []
        while text:
            reach = range(1, min(len(text), 4 * max_tokens) + 1)
            end = max(1, bisect_right(reach, max_tokens, key=lambda size: self.count_text(text[:size])))
            pieces.append(text[:end])
            text = text[end:]
        return pieces

    def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether these messages and ``max_tokens`` more are within the budget."""
        return self.count(messages) + max_tokens <= self.budget.window_tokens

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, schema: Mapping[str, Json] | None = None
    ) -> Reply:
        """There is no model here."""
        raise LookupError("no model is lent to a method in a library")

    def note(self, event: str, **facts: Json) -> None:
        """Nothing is recorded."""


class _Settings:
    """The project's numbers and texts, read without Hydra; the budget scaled to ``budget_tokens``."""

    def __init__(self, conf: Path, budget_tokens: int, changes: Mapping[str, float]) -> None:
        self.conf = conf
        root = self._load("config")
        self.rules: Mapping[str, str] = root["rules"]
        choice = {group: name for entry in root["defaults"] if isinstance(entry, dict) for group, name in entry.items()}
        self.group = self._load("budget", choice["budget"]) | self._load("recall", choice["recall"])["budget"]
        for key in changes:
            one_of("budget", key, _NUMBERS)
        self.scale = budget_tokens / (self.group["window_tokens"] - self.group["completion_tokens"])
        self.budget = Budget(
            id=choice["budget"],
            window_tokens=budget_tokens + 1,  # a reply is not counted here: prompts of budget_tokens are allowed
            completion_tokens=1,
            force_at_calls=(),
            **{key: self.group[key] for key in _NUMBERS} | dict(changes),
        )

    def method(self, name: str, bench: _Bench, store: Store | None) -> Method:
        """The variant of this name. Raises :class:`ConfigError` for a name or a store that does not fit."""
        known = {path.stem: self._variant(path.stem) for path in sorted((self.conf / "method").glob("*.yaml"))}
        variants = {key: each for key, each in known.items() if each["_target_"].rpartition(".")[0] == PACKAGE}
        given = dict(variants[one_of("method", name, variants)])
        made = getattr(importlib.import_module(PACKAGE), given.pop("_target_").rpartition(".")[2])
        given.pop("_partial_")
        if "split" in given:  # stands in the budget, for its own window
            given["split"] = {part: int(tokens * self.scale) for part, tokens in self.group[name].items()}
        if store is not None:
            if not issubclass(made, Arc):
                raise ConfigError(f"method={name}: must be arc, or a variant of it, to use a store of its own")
            given["store"] = store
        return cast(Method, made(**given, bench=bench))

    def _variant(self, name: str) -> dict[str, Any]:
        """A file of ``conf/method``, over the ones of the group that it starts from."""
        given = self._load("method", name)
        merged: dict[str, Any] = {}
        for base in given.pop("defaults", ()):
            merged |= {} if base == "_self_" else self._variant(base)
        for key, value in given.items():
            merged[key] = merged[key] | value if isinstance(merged.get(key), dict) else value
        return merged

    def _load(self, *parts: str) -> dict[str, Any]:
        path = self.conf.joinpath(*parts).with_suffix(".yaml")
        try:
            return dict(yaml.safe_load(path.read_text("utf-8")))
        except OSError as fault:
            raise ConfigError(
                f"conf={self.conf}: must be the project's conf folder; it has no {'/'.join(parts)}.yaml"
            ) from fault
