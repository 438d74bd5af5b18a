"""One task, played with one method. The loop names no method and no harness."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from arcbench.parsing import Malformed, parse, without_thinking
from arcbench.text import admit, excerpt, fill
from arcbench.transcript import Transcript
from arcbench.types import (
    Action,
    Answerer,
    Budget,
    Compaction,
    ContextOverflow,
    Ending,
    Engine,
    Environment,
    Harness,
    Json,
    Message,
    Method,
    MethodFactory,
    Nothing,
    Observation,
    Reply,
    Request,
    Rules,
    Step,
    Task,
    Turn,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What all episodes of one cell share."""

    engine: Engine
    harness: Harness
    make_method: MethodFactory
    budget: Budget
    rules: Rules
    thinking: bool
    constrain_replies: bool


@dataclass(frozen=True, slots=True)
class End:
    """How an episode ended: a value, not a flag."""

    ending: Ending
    submission: str | None = None


class Bench:
    """The :class:`arcbench.types.Workbench` of one episode: every call goes through here and is billed."""

    def __init__(self, setup: Setup, task: Task) -> None:
        self.budget = setup.budget
        self.transcript = Transcript(
            task, lambda message: self.count((message,)) - self.count(()), setup.harness.quotes(task.facts)
        )
        self._setup = setup
        self._task = task

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of an agent call with these messages."""
        return self._setup.engine.count(messages, thinking=self._setup.thinking)

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""
        return self._setup.engine.count_text(text)

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` in pieces of at most ``max_tokens`` tokens, cut between characters."""
        return self._setup.engine.pieces(text, max_tokens)

    def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a method's own call of this size fits the window."""
        return self._setup.engine.count(messages, thinking=False) + max_tokens <= self.budget.window_tokens

    def note(self, event: str, **facts: Json) -> None:
        """An event of the method's own."""
        self.transcript.event(event, facts)

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, schema: Mapping[str, Json] | None = None
    ) -> Reply:
        """A method's own call."""
        return await self._call("method", messages, max_tokens, thinking=False, schema=schema)

    async def ask_agent(self, messages: Sequence[Message]) -> Reply:
        """The agent's own call, with the reserved completion as its cap."""
        setup = self._setup
        grammar = setup.rules.grammar if setup.constrain_replies else None
        return await self._call(
            "agent", messages, self.budget.completion_tokens, thinking=setup.thinking, grammar=grammar
        )

    async def ask(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """A call of the agent's model outside the loop, its reply free text."""
        return await self._call("agent", messages, max_tokens, thinking=self._setup.thinking)

    async def _call(
        self,
        billed: Literal["agent", "method"],
        messages: Sequence[Message],
        max_tokens: int,
        *,
        thinking: bool,
        grammar: str | None = None,
        schema: Mapping[str, Json] | None = None,
    ) -> Reply:
        number = self.transcript.next_number
        identity = f"{self._task.seed}/{self._task.id}/{number}".encode()
        request = Request(
            messages=tuple(messages),
            max_tokens=max_tokens,
            thinking=thinking,
            episode=self._task.id,
            number=number,
            seed=int.from_bytes(hashlib.sha256(identity).digest()[:4], "big") >> 1,
            billed=billed,
            grammar=grammar,
            schema=schema,
        )
        reply = await self._setup.engine.complete(request)
        reply = replace(reply, text=admit(reply.text)[0])
        self.transcript.call(request, reply)
        return reply


async def play(task: Task, setup: Setup) -> dict[str, Json]:
    """Play one task and return its record. Whatever breaks inside becomes an ``error`` record."""
    bench = Bench(setup, task)
    counters: Mapping[str, int] = {}
    try:
        if step := await setup.harness.ask(task, bench):
            assert step.ending
            end = End(step.ending, step.submission)
        else:
            environment = setup.harness.open(task)
            end = await Episode(task, setup, bench, setup.make_method(bench=bench), environment).run()
            counters = environment.counters()
        record = bench.transcript.record(
            outcome="no_answer",
            reason=None if end.ending == "submitted" else end.ending,
            ending=end.ending,
            submission=end.submission,
            counters=dict(counters),
            error=None,
        )
        score = setup.harness.score(record)
        if end.ending == "submitted":
            record["outcome"] = "correct" if score.correct else "wrong"
        record["measures"] = dict(score.measures)
        return record
    except Exception as fault:  # the one boundary: a broken episode is data, the others go on
        return failed(bench.transcript, f"{type(fault).__name__}: {fault}", traceback.format_exc())


def failed(transcript: Transcript, error: str, detail: str | None = None) -> dict[str, Json]:
    """The record of an episode that infrastructure broke: owed again, never averaged in."""
    return transcript.record(
        outcome="error",
        reason=None,
        ending=None,
        submission=None,
        counters={},
        error=admit(error)[0],
        detail=admit(detail)[0] if detail else None,
        measures={},
    )


class Episode:
    """The loop and its state."""

    def __init__(self, task: Task, setup: Setup, bench: Bench, method: Method, environment: Environment) -> None:
        self.task = task
        self.setup = setup
        self.bench = bench
        self.method = method
        self.environment = environment
        self.own_actions = {doc.name for doc in method.actions()}
        self.turns = 0
        self.environment_actions = 0
        self.faults_in_a_row = 0
        self.size = 0  # tokens of the view when room was last made

    async def run(self) -> End:
        """Replay the task's history, then let the agent act until something ends the episode."""
        refused = self.method.begin(self.prefix())
        if refused:
            return End(refused)
        for past in self.task.history:
            if end := await self.make_room():
                return end
            while self.method.waiting():
                if end := await self.act():
                    return end
            said = admit(past.reply)[0]
            await self.tell(None, said, parse(said), past.observation, "environment")
        while True:
            if end := await self.act():
                return end

    async def act(self) -> End | None:
        """One agent call: make room, ask, read one action, have it answered, tell the method."""
        limits = self.setup.harness
        if self.environment_actions >= limits.turn_limit:
            return End("turn_limit")
        if self.bench.transcript.agent_calls >= limits.call_limit:
            return End("call_limit")
        if self.bench.transcript.agent_calls + 1 in self.setup.budget.force_at_calls:
            outcome = await self.compact("forced")
            if isinstance(outcome, Nothing) and outcome.final:
                return End("context_overflow")
        reply = await self.ask()
        if isinstance(reply, End):
            return reply
        said = without_thinking(reply.text)
        action = Malformed("output_cut") if self.was_cut(reply) else parse(said)
        step, answered_by = await self.answer(action)
        await self.tell(self.bench.transcript.agent_calls, said, action, step.observation, answered_by)
        if step.ending:
            return End(step.ending, step.submission)
        self.faults_in_a_row = self.faults_in_a_row + 1 if answered_by == "correction" else 0
        if self.faults_in_a_row >= self.setup.rules.malformed_limit:
            return End("output_cut" if action == Malformed("output_cut") else "malformed")
        return None

    async def ask(self) -> Reply | End:
        """The agent's reply to the current view, after as much compaction as that takes."""
        for _ in range(self.setup.rules.compaction_passes):
            if end := await self.make_room():
                return end
            try:
                return await self.bench.ask_agent(self.method.view())
            except ContextOverflow:  # the engine counts more than we do: treat it as any overflow
                if isinstance(await self.compact("overflow"), Nothing):
                    return End("context_overflow")
        return End("compaction_no_progress")

    async def make_room(self) -> End | None:
        """Compact until prompt + reserved completion fit the window."""
        size, passes = self.bench.count(self.method.view()), 0
        while size > self.setup.budget.usable_tokens:
            if isinstance(await self.compact("overflow"), Nothing):
                return End("context_overflow")
            smaller = self.bench.count(self.method.view())
            passes = passes + 1 if smaller >= size else 0
            if passes >= self.setup.rules.compaction_passes:
                return End("compaction_no_progress")
            size = smaller
        self.size = size
        return None

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Ask the method to compact, and record what came of it."""
        before = self.bench.count(self.method.view())
        outcome = await self.method.compact(reason)
        self.bench.transcript.compaction(reason, outcome, before, self.bench.count(self.method.view()))
        return outcome

    async def answer(self, action: Action | Malformed) -> tuple[Step, Answerer]:
        """The answer to what the agent did, and who gave it."""
        if isinstance(action, Malformed):
            return Step(Observation(self.setup.rules.corrections[action.fault], returncode=2)), "correction"
        if notice := self.method.gate(action):
            return Step(notice), "gate"
        if action.name in self.own_actions:
            return Step(await self.method.handle(action)), "method"
        self.environment_actions += 1
        return self.environment.answer(action, self.method.mounts()), "environment"

    async def tell(
        self,
        call: int | None,
        said: str,
        action: Action | Malformed,
        observation: Observation,
        answered_by: Answerer,
    ) -> None:
        """Close a turn: clean the body at the boundary, make the visible message, tell the method."""
        text, escaped = admit(observation.text)
        if escaped:
            observation = replace(observation, text=text, escaped=True)
        turn = Turn(
            index=self.turns,
            call=call,
            reply=Message("assistant", said),
            action=action if isinstance(action, Action) else None,
            observation=observation,
            result=Message("user", self.visible(observation)),
            answered_by=answered_by,
        )
        self.turns += 1
        self.bench.transcript.turn(turn, action.fault if isinstance(action, Malformed) else None)
        if done := await self.method.observe(turn):
            before = self.size + self.bench.count((turn.reply, turn.result)) - self.bench.count(())
            sizes = done.sizes or (before, self.bench.count(self.method.view()))
            self.bench.transcript.compaction("proactive", done, *sizes)

    def visible(self, observation: Observation) -> str:
        """What the agent sees of an observation."""
        budget, rules = self.setup.budget, self.setup.rules
        limit = budget.recall_max_chars if observation.restored else budget.presentation_limit_chars
        shown = observation.text if observation.exact else excerpt(observation.text, limit, rules.omitted)
        body = shown or rules.no_output
        return f"{observation.note}\n{body}" if observation.note else body

    def was_cut(self, reply: Reply) -> bool:
        """Cut at the cap, whatever the engine calls it: nothing of such a reply is executed."""
        return reply.finish == "length" or reply.completion_tokens >= self.setup.budget.completion_tokens

    def prefix(self) -> tuple[Message, ...]:
        """System and task message."""
        system = system_prompt(self.setup.rules, self.setup.harness.manual, self.method)
        return Message("system", system), Message("user", admit(self.task.prompt)[0])


def system_prompt(rules: Rules, manual: str, method: Method) -> str:
    """The same for every method but for its promise and its own actions."""
    actions = "\n".join(f"{doc.usage}: {doc.help}" for doc in method.actions())
    text = fill(rules.system, manual=manual.strip(), actions=f"\n{actions}" if actions else "", promise=method.promise)
    return text.strip()
