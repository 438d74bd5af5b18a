"""The record of one episode while it is being played, and how to read the prompts back out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from arcbench.types import Compaction, Done, Json, Message, Nothing, Quotes, Reply, Request, Task, Trigger, Turn


class Transcript:
    """Append-only. Each distinct message is stored once; calls and turns name messages by index. ``weigh``
    gives the tokens that a message adds to a prompt."""

    def __init__(self, task: Task, weigh: Callable[[Message], int], quotes: Quotes | None = None) -> None:
        self.task = task
        self._weigh = weigh
        self._quotes = quotes
        self._indices: dict[Message, int] = {}
        self._turns: list[dict[str, Json]] = []
        self._calls: list[dict[str, Json]] = []
        self._compactions: list[dict[str, Json]] = []
        self._events: list[dict[str, Json]] = []
        self.agent_calls = 0

    @property
    def next_number(self) -> int:
        """Number of the next model call, the agent's and the method's counted together, from 1."""
        return len(self._calls) + 1

    def turn(self, turn: Turn, fault: str | None) -> None:
        """A reply and its answer; ``fault`` is what was wrong with a reply that held no action."""
        self._turns.append(
            {
                "call": turn.call,
                "reply": self._index(turn.reply),
                "result": self._index(turn.result),
                "action": turn.action.text if turn.action else None,
                "fault": fault,
                "answered_by": turn.answered_by,
                "returncode": turn.observation.returncode,
                "chars": len(turn.observation.text),
                "restored": turn.observation.restored,
                "exact": turn.observation.exact,
                "escaped": turn.observation.escaped,
            }
        )

    def call(self, request: Request, reply: Reply) -> None:
        """A model call that was answered."""
        self.agent_calls += request.billed == "agent"
        self._calls.append(
            {
                "number": request.number,
                "billed": request.billed,
                "messages": self._view(request.messages),
                "thinking": request.thinking,
                "max_tokens": request.max_tokens,
                "constrained": "schema" if request.schema else "grammar" if request.grammar else None,
                "prompt_tokens": reply.prompt_tokens,
                "cached_tokens": reply.cached_tokens,
                "completion_tokens": reply.completion_tokens,
                "finish": reply.finish,
                "latency_s": reply.latency_s,
                "text": reply.text,
            }
        )

    def compaction(self, trigger: Trigger, outcome: Compaction, tokens_before: int, tokens_after: int) -> None:
        """A compaction asked for (or made proactively) before agent call ``before_call``."""
        fates: dict[str, list[str]] = {}
        failure = None
        if isinstance(outcome, Done):
            failure = outcome.failure
            for (turn, which), fate in outcome.fates.items():
                fates.setdefault(fate, []).append(f"{turn}.{which}")
        self._compactions.append(
            {
                "before_call": self.agent_calls + 1,
                "trigger": trigger,
                "outcome": type(outcome).__name__.lower(),
                "final": isinstance(outcome, Nothing) and outcome.final,
                "tokens_before": tokens_before,
                "tokens_after": tokens_after,
                "fates": fates,
                "failure": failure,
            }
        )

    def event(self, name: str, facts: Mapping[str, Json]) -> None:
        """Something a method wants to be known."""
        self._events.append({"after_call": self.agent_calls, "event": name, **facts})

    def record(self, **end: Json) -> dict[str, Json]:
        """The whole record; ``end`` is how the episode ended."""
        return {
            "task": self.task.id,
            "seed": self.task.seed,
            "index": self.task.index,
            "facts": dict(self.task.facts),
            **end,
            "method_failures": [c["failure"] for c in self._compactions if c["failure"]],
            "turns": self._turns,
            "calls": self._calls,
            "compactions": self._compactions,
            "events": self._events,
            "messages": [self._stored(message) for message in self._indices],
        }

    def _stored(self, message: Message) -> dict[str, Json]:
        parts = self._quotes.pack(message.content) if self._quotes else None
        content = {"content": message.content} if parts is None else {"parts": parts}
        return {"role": message.role, **content, "tokens": self._weigh(message)}

    def _index(self, message: Message) -> int:
        return self._indices.setdefault(message, len(self._indices))

    def _view(self, messages: Iterable[Message]) -> list[int]:
        return [self._index(message) for message in messages]


def messages_of(record: Mapping[str, Json], number: int, quotes: Quotes | None = None) -> Sequence[Message]:
    """The messages that model call ``number`` (from 1) of a record was sent, in order. ``quotes`` (the harness's,
    of the record's facts) is needed where messages are kept as spans of a document; ``LookupError`` without it."""
    table = record["messages"]
    call = record["calls"][number - 1]
    return [Message(table[i]["role"], content_of(table[i], quotes)) for i in call["messages"]]


def content_of(stored: Mapping[str, Json], quotes: Quotes | None = None) -> str:
    """The text of a record's message."""
    if "parts" not in stored:
        return str(stored["content"])
    if quotes is None:
        raise LookupError("this message is kept as spans of a document: pass the quotes of its harness")
    return quotes.unpack(stored["parts"])
