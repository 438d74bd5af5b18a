"""The nouns of arcbench and the seams between them.

Everything else imports this module; it imports nothing of ours. A method, a harness and an engine
meet only through the classes below, so each can be written, read and tested without the others.

Units: ``*_tokens`` are tokens of the engine's own tokenizer, ``*_chars`` are Python characters
(code points), ``*_s`` are seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Json = Any
"""A value that survives a round trip through JSON."""


# --------------------------------------------------------------------------------------- errors


class ConfigError(ValueError):
    """Bad input from the user: one line that names the key, the value and what is allowed."""


class EngineError(RuntimeError):
    """The engine failed on a request (infrastructure, not the model): the episode is owed again."""


class ContextOverflow(Exception):
    """Prompt plus reserved completion exceed the window. The only way an engine reports overflow."""

    def __init__(self, prompt_tokens: int, completion_tokens: int, window_tokens: int) -> None:
        super().__init__(f"{prompt_tokens} prompt + {completion_tokens} completion > {window_tokens} window tokens")
        self.prompt_tokens = prompt_tokens


# ------------------------------------------------------------------------------- what is exchanged

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Message:
    """One chat message. Keep and reuse the object: engines count the tokens of each message once."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Action:
    """One well-formed command: ``name`` is its first word, ``argument`` the rest, ``text`` the whole line."""

    name: str
    argument: str
    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What an action returned, whole.

    ``note`` is one line of the answerer's own, shown above ``text`` and never cut. ``restored`` marks
    text handed back from a method's store (a recall, a read below a mount): it is cut at
    ``recall_max_chars`` instead of ``presentation_limit_chars``. ``exact`` marks a part that a method cut to a
    token budget of its own: it is shown as it is. ``escaped`` marks text that was not
    valid Unicode where it entered (see :func:`arcbench.text.admit`).
    """

    text: str
    returncode: int = 0
    note: str = ""
    restored: bool = False
    exact: bool = False
    escaped: bool = False


Answerer = Literal["environment", "method", "gate", "correction"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent reply and its answer. The two messages are never separated.

    ``index`` counts turns from 0, a replayed history included. ``call`` is the agent's model call
    (from 1) that produced it, None for a turn of a replayed history. ``reply`` is the assistant
    message as kept in context (thinking removed); ``action`` is None when it held no well-formed
    action. ``observation`` is whole; ``result`` is the user message that shows it, cut by the loop.
    """

    index: int
    call: int | None
    reply: Message
    action: Action | None
    observation: Observation
    result: Message
    answered_by: Answerer


@dataclass(frozen=True, slots=True)
class Past:
    """One turn of a task's recorded history: the reply text as it was, and what came back."""

    reply: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done, the same for every method; outcomes are paired by ``id``.

    ``prompt`` is the task's user message. ``facts`` is what scoring and analysis need (it goes into
    the record and is shown to no method and no engine). ``history`` is replayed before the first call.
    """

    id: str
    seed: int
    index: int
    prompt: str
    facts: Mapping[str, Json]
    history: Sequence[Past] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. ``schema`` asks for JSON of that JSON schema, ``grammar`` for text matching that
    regular expression, both only where the engine has structured outputs (None: free text).
    ``episode`` and ``number`` name the call (for replay and for per-request sampling seeds); ``billed`` says
    whose call it is."""

    messages: tuple[Message, ...]
    max_tokens: int
    thinking: bool
    episode: str
    number: int
    seed: int
    billed: Literal["agent", "method"] = "agent"
    grammar: str | None = None
    schema: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote, raw (thinking included). ``cached_tokens`` is None where the engine does not say."""

    text: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    latency_s: float


# ---------------------------------------------------------------------------------------- endings

NoAnswer = Literal[
    "turn_limit",
    "call_limit",
    "context_overflow",
    "compaction_no_progress",
    "prefix_too_large",
    "premature",
    "malformed",
    "output_cut",
    "gave_up",
]
Ending = Literal["submitted"] | NoAnswer


# ----------------------------------------------------------------------------------------- budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget every method obeys (``conf/budget``, ``conf/recall``). The window holds prompt + completion."""

    id: str
    window_tokens: int
    completion_tokens: int
    keep_recent_turns: int
    keep_recent_share: float
    compact_to_share: float
    keep_verbatim_chars: int
    presentation_limit_chars: int
    recall_budget_chars: int
    recall_max_chars: int
    force_at_calls: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a budget that cannot be kept."""
        whole = ("window_tokens", "completion_tokens", "keep_recent_turns", "keep_verbatim_chars",
                 "presentation_limit_chars", "recall_budget_chars", "recall_max_chars")  # fmt: skip
        for key in whole:
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"budget.{key}={value}: must be a whole number of at least 1")
        for key in ("keep_recent_share", "compact_to_share"):
            value = getattr(self, key)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
                raise ConfigError(f"budget.{key}={value}: must be above 0 and at most 1")
        if self.completion_tokens >= self.window_tokens:
            raise ConfigError(
                f"budget.completion_tokens={self.completion_tokens}: must be smaller than "
                f"budget.window_tokens={self.window_tokens}, which holds prompt and completion"
            )
        if self.recall_max_chars > self.recall_budget_chars:
            raise ConfigError(
                f"budget.recall_max_chars={self.recall_max_chars}: must be at most "
                f"budget.recall_budget_chars={self.recall_budget_chars}"
            )
        calls = self.force_at_calls
        if any(not isinstance(c, int) or isinstance(c, bool) or c < 1 for c in calls) or sorted(set(calls)) != list(
            calls
        ):
            raise ConfigError(f"budget.force_at_calls={list(calls)}: must be rising whole numbers of at least 1")

    @property
    def usable_tokens(self) -> int:
        """Most prompt tokens of a call: L = window - reserved completion (ARC, Definition 3)."""
        return self.window_tokens - self.completion_tokens

    @property
    def keep_recent_tokens(self) -> int:
        """Most tokens of the recent turns that a compaction leaves alone."""
        return int(self.usable_tokens * self.keep_recent_share)

    @property
    def compact_to_tokens(self) -> int:
        """What a compaction on real overflow must bring the view down to."""
        return int(self.usable_tokens * self.compact_to_share)


# ----------------------------------------------------------------------------------------- engine


class Engine(Protocol):
    """A model behind token counts. It never truncates silently."""

    id: str
    model: str
    concurrency: int
    """Most episodes that should be in flight at once."""

    def count(self, messages: Sequence[Message], *, thinking: bool) -> int:
        """Tokens the engine will receive for these messages, template and generation prompt included.
        Additive: ``count([*a, *b]) == count(a) + count(b) - count([])``. Each message is tokenised once."""

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` cut between characters into pieces of at most ``max_tokens`` tokens; together they are
        ``text``. ``max_tokens`` must hold any one character of it."""

    async def complete(self, request: Request) -> Reply:
        """Run one call. Raises :class:`ContextOverflow` (found by counting) or :class:`EngineError`."""

    async def start(self) -> None:
        """Load the model; where that is done, forget what earlier calls left (a prefix cache), so that no cell's hits
        depend on the cell before. Raises :class:`ConfigError` when the model does not fit its configuration."""

    async def close(self) -> None:
        """Free the model."""

    def describe(self) -> Mapping[str, Json]:
        """Versions, revision, tokenizer and template hashes, flags: for the manifest, after ``start``."""


# ----------------------------------------------------------------------------------------- method

Trigger = Literal["forced", "overflow", "proactive"]
Fate = Literal["kept", "cited", "summarised", "archived", "dropped"]
Part = tuple[int, Literal["reply", "result"]]
"""A message of a turn: (turn index, which of its two messages)."""


@dataclass(frozen=True, slots=True)
class Done:
    """The view was compacted. ``fates`` says where the messages that were in the view went; ``archived``
    means outside the prompt and reachable. ``failure`` is the reason when the method's own means failed
    and it fell back to dropping (recorded as ``method_failure``). ``sizes``: the tokens before and after, where
    the method knows them better than the loop: while the agent is shown a management view."""

    fates: Mapping[Part, Fate]
    failure: str | None = None
    sizes: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The agent itself must act first: ``view()`` is now a management view that always fits."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """This method cannot make room: a real overflow ends the episode ``context_overflow``, a forced
    compaction is a recorded no-op. ``final`` ends the episode in the forced case too."""

    final: bool = False


Compaction = Done | Pending | Nothing


@dataclass(frozen=True, slots=True)
class ActionDoc:
    """An action that a method adds: its first word and one line of help for the system prompt."""

    name: str
    usage: str
    help: str


class Workbench(Protocol):
    """What an episode lends its method: the budget, the counter, and model calls billed to the method."""

    budget: Budget

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered prompt of an agent call with these messages (additive, cached by message)."""

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` cut between characters into pieces of at most ``max_tokens`` tokens; together they are ``text``."""

    def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a method's own call with this prompt and completion fits the window."""

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, schema: Mapping[str, Json] | None = None
    ) -> Reply:
        """A model call of the method's own: no thinking, billed to the method. Raises as :class:`Engine`."""

    def note(self, event: str, **facts: Json) -> None:
        """Put an event of the method's own (a recall, a retrieval, a rejected summary) into the record."""


class Method(ABC):
    """Decides what the model sees. One fresh object per episode.

    A subclass takes its parameters (all from ``conf/method``) and a :class:`Workbench` as keyword
    arguments. ``id`` is the config choice, the file and the record field. ``promise`` is the one
    sentence of the system prompt that says what compaction takes away and how to get it back.
    """

    def __init__(self, *, id: str, promise: str, bench: Workbench) -> None:
        self.id = id
        self.promise = promise
        self.bench = bench
        self.prefix: tuple[Message, ...] = ()

    def begin(self, prefix: tuple[Message, ...]) -> NoAnswer | None:
        """Take the task prefix (system and task message), which every view starts with, verbatim.
        Returns a reason to end at once when this method cannot play a task with such a prefix."""
        self.prefix = prefix
        return None

    @abstractmethod
    async def observe(self, turn: Turn) -> Done | None:
        """Hear of everything that happens. A proactive method compacts here and returns the event."""

    @abstractmethod
    def view(self) -> Sequence[Message]:
        """The messages to send now. Pure: calling it twice changes nothing."""

    @abstractmethod
    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Make the view smaller. ``forced``: apply the whole policy, down to the recent turns, however
        full the window is. ``overflow``: also bring the view down to ``compact_to_tokens``."""

    def waiting(self) -> bool:
        """Whether the agent must act before anything else happens (after :class:`Pending`). A replayed
        history pauses for agent calls until this is False."""
        return False

    def actions(self) -> Sequence[ActionDoc]:
        """Actions of the method's own."""
        return ()

    async def handle(self, action: Action) -> Observation:
        """Answer one of its own actions. Never re-runs an action of the environment."""
        raise LookupError(f"{self.id} documents no action {action.name}")

    def gate(self, action: Action) -> Observation | None:
        """Refuse an action before it runs, with a notice (VISTA's overflow mode); None lets it through."""
        return None

    def mounts(self) -> Mapping[str, str]:
        """Read-only files (path -> text) that the environment shows to the agent."""
        return {}


class MethodFactory(Protocol):
    """Makes the method of one episode (a Hydra ``_partial_`` of the class)."""

    def __call__(self, *, bench: Workbench) -> Method:
        """A fresh method on this workbench."""


# ---------------------------------------------------------------------------------------- harness


@dataclass(frozen=True, slots=True)
class Step:
    """The environment's answer to one action; ``ending`` is set when the protocol is complete."""

    observation: Observation
    ending: Ending | None = None
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """``correct`` counts only when the episode ended ``submitted``; ``measures`` go into the record."""

    correct: bool
    measures: Mapping[str, Json] = field(default_factory=dict)


class Quotes(Protocol):
    """What messages quote of a long text that the harness has: a record then keeps spans instead of copies."""

    def pack(self, content: str) -> Sequence[str | Sequence[int]] | None:
        """The content in order: its own text, and [start, end) of what it quotes; None when it quotes nothing."""

    def unpack(self, parts: Sequence[str | Sequence[int]]) -> str:
        """The content that was packed."""


class Desk(Protocol):
    """What an episode lends a harness that asks by itself."""

    budget: Budget

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered prompt."""

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` cut between characters into pieces of at most ``max_tokens`` tokens."""

    async def ask(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """A call of the agent's model outside the loop: free text, billed to the agent."""


class Environment(Protocol):
    """One task being played. Deterministic; a method's recalls never reach it."""

    def answer(self, action: Action, mounts: Mapping[str, str]) -> Step:
        """Run one action. Whole bodies: the loop cuts what is shown."""

    def counters(self) -> Mapping[str, int]:
        """What the harness counted (premature submissions and the like), for the record."""


class Harness(Protocol):
    """Tasks, environment replies, scoring."""

    id: str
    manual: str
    """The commands of the environment, for the system prompt."""
    turn_limit: int
    """Most environment actions of an episode."""
    call_limit: int
    """Most agent calls of an episode, recalls included."""

    def tasks(self) -> Sequence[Task]:
        """The planned tasks, in order."""

    def open(self, task: Task) -> Environment:
        """A fresh environment for one episode."""

    async def ask(self, task: Task, desk: Desk) -> Step | None:
        """Play a task that is no agent's, by prompts of the harness's own: its last step. None: the loop plays it."""
        return None

    def quotes(self, facts: Mapping[str, Json]) -> Quotes | None:
        """What packs the messages of an episode with these facts for its record; None: they are kept as they are."""
        return None

    def score(self, record: Mapping[str, Json]) -> Score:
        """Judge one episode: a pure function of its record, so that a run can be scored again."""

    def describe(self) -> Mapping[str, Json]:
        """Dataset hashes and the like, for the manifest."""


# ------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The fixed texts and limits of the agent loop (``conf/config.yaml``), the same for every method."""

    protocol: str
    """Version of the protocol; part of a run's digest."""
    system: str
    """System prompt: filled with ``manual`` (the harness), ``promise`` and ``actions`` (the method)."""
    grammar: str
    """Regular expression of a well-formed reply, for engines with structured outputs."""
    no_output: str
    """What the agent sees of an empty observation."""
    omitted: str
    """The line that stands for the cut middle of a long body: filled with ``chars``."""
    corrections: Mapping[str, str]
    """Fixed answer to each kind of malformed reply (:mod:`arcbench.parsing`), and to a cut one."""
    malformed_limit: int
    """Malformed or cut replies in a row that end an episode."""
    compaction_passes: int
    """Compactions in a row without a smaller view that end an episode."""
