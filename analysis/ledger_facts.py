"""Where the one fact was that a task asks for, call by call, and why its episode failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

from analysis.ledger_trace import Moment, Trace, given_back, unanswered
from arcbench.records import Part
from arcbench.types import Json

State = Literal[
    "verbatim", "brought_back", "carried", "summary", "set_aside", "handle", "search", "hidden", "lost", "unseen"
]
"""The first that applies. In the view: as it was observed; in what was read back or found by search; in the agent's own
words; in a text of the method's. Not in the view: see :data:`analysis.ledger_trace.Place`. ``unseen``: not observed
yet."""

Cause = Literal["lost", "not_fetched", "fetched_in_part", "not_used", "never_read", "never_answered", "cut", "refused"]
"""Why an episode failed. Of those that submitted or gave up, by where the fact was when they did: ``lost`` (what is
rewritten counts as lost where the new text does not hold it); ``not_fetched``, outside the view and reachable;
``fetched_in_part``, so too, and what was read back through a handle did not hold it; ``not_used``, in the view, or read
back earlier; ``never_read``. Else ``cut`` or malformed replies, ``refused`` by the harness (premature submissions), or
``never_answered``, for want of turns, calls or room."""

STATES: Sequence[str] = get_args(State)
CAUSES: Sequence[str] = get_args(Cause)
IN_VIEW = frozenset(STATES[:4])

CALLS = Part("ledger_fact_calls", ("task", "call", "prompt_tokens", "state"), lambda record: calls_of(record))
EPISODES = Part(
    "ledger_facts",
    (
        "task", "index", "outcome", "reason", "cause", "calls", "state", "read_call", "left_compaction", "left_call",
        "left_trigger", "left_fate", "tried_call", "recalled_call", "retrieved_call", "reread_call",
    ),
    lambda record: episode_of(record),
)  # fmt: skip


class Fact:
    """The asked value in one record: the messages that hold it, and which turns showed it."""

    def __init__(self, record: Mapping[str, Json]) -> None:
        self.trace = Trace(record)
        value, messages = record["facts"]["value"], record["messages"]
        self.holding = {i for i, message in enumerate(messages) if value in message["content"]}
        self.spoken = {i for i in self.holding if messages[i]["role"] == "assistant"}
        turns = self.trace.turns
        hold = [number for number, turn in enumerate(turns) if turn["result"] in self.holding]
        self.shown = [n for n in hold if turns[n]["answered_by"] == "environment" and not turns[n]["restored"]]
        self.back = [n for n in hold if given_back(turns[n])]
        self.wrote = min((n for n, turn in enumerate(turns) if turn["reply"] in self.holding), default=len(turns))
        # a value that two chunks of a recall share stands in neither
        chunks = [n for n, turn in enumerate(turns) if given_back(turn) and turn["exact"]]
        bodies = {n: messages[turns[n]["result"]]["content"].partition("\n")[2] for n in chunks}
        self.split = [
            (one, two)
            for one, two in pairwise(chunks)
            if not self.holding & {turns[one]["result"], turns[two]["result"]} and value in bodies[one] + bodies[two]
        ]
        self._method_wrote = any(value in call["text"] for call in record["calls"] if call["billed"] == "method")
        self._observed = {turns[n]["result"] for n in self.shown}
        self._given = {turns[n]["result"] for n in self.back}
        self._parts = [
            (n, f"{n}.{which}")
            for n, turn in enumerate(turns)
            for which in ("reply", "result")
            if turn[which] in self.holding
        ]

    def state(self, moment: Moment) -> State:
        """Where the fact was when the agent made this call."""
        here = self.holding & moment.view
        if here & self._observed:
            return "verbatim"
        if here & self._given or self.retrieved(moment) or any(self._whole(pair, moment) for pair in self.split):
            return "brought_back"
        if here & self.spoken or (here and self.wrote < moment.turns and not self._method_wrote):
            return "carried"
        if here:
            return "summary"
        return self._away(moment) if self.shown and self.shown[0] < moment.turns else "unseen"

    def retrieved(self, moment: Moment) -> bool:
        """Whether a passage that the method's search found shows it."""
        return bool(self.holding & moment.view & self.trace.own and moment.retrieved & set(self.shown))

    def _whole(self, pair: tuple[int, int], moment: Moment) -> bool:
        return all(self.trace.turns[n]["result"] in moment.view for n in pair)

    def _away(self, moment: Moment) -> State:
        """The nearest of the places of its copies."""
        places = {self.trace.away(part, moment) for n, part in self._parts if n < moment.turns}
        away: Sequence[State] = ("set_aside", "handle", "search", "hidden")
        return next((state for state in away if state in places), "lost")


def calls_of(record: Mapping[str, Json]) -> Iterator[dict[str, Any]]:
    """A row for each call of the agent; none for a record in error, or without one fact that is asked for."""
    if not _has_fact(record):
        return
    fact = Fact(record)
    for moment, call in zip(fact.trace.moments(), fact.trace.calls, strict=True):
        row = {"task": record["task"], "call": moment.call, "prompt_tokens": call["prompt_tokens"]}
        yield row | {"state": fact.state(moment)}


def episode_of(record: Mapping[str, Json]) -> Iterator[dict[str, Any]]:
    """The row of the episode. ``state``: at the last call. ``*_call``: the call whose answer first showed the fact
    (``read_call``), before which its first copy left the view, whose answer brought it back, showed it once more from
    the environment, or gave something of the same handle without it (``tried_call``); for ``retrieved_call`` the call
    in whose view a found passage held it. Null: never."""
    if not _has_fact(record):
        return
    fact = Fact(record)
    state: State | None = None
    retrieved = None
    for moment in fact.trace.moments():
        state = fact.state(moment)
        retrieved = retrieved or (moment.call if fact.retrieved(moment) else None)
    back = sorted([*fact.back, *(two for _, two in fact.split)])
    tried = _tried(fact)
    yield {
        "task": record["task"],
        "index": record["index"],
        "outcome": record["outcome"],
        "reason": record["reason"],
        "cause": _cause(record, state, fetched=bool(back or retrieved), tried=bool(tried)),
        "calls": len(fact.trace.calls),
        "state": state,
        "read_call": _call(fact, fact.shown),
        **_left(fact),
        "tried_call": _call(fact, tried),
        "recalled_call": _call(fact, back),
        "retrieved_call": retrieved,
        "reread_call": _call(fact, fact.shown[1:]),
    }


def _has_fact(record: Mapping[str, Json]) -> bool:
    return record["outcome"] != "error" and "value" in record["facts"]


def _call(fact: Fact, turns: Sequence[int]) -> int | None:
    return fact.trace.turns[turns[0]]["call"] if turns else None


def _left(fact: Fact) -> dict[str, Any]:
    """The compaction (from 1) that took the first copy out of the view, before which call and why, and its fate."""
    part = f"{fact.shown[0]}.result" if fact.shown else ""
    for number, row in enumerate(fact.trace.record["compactions"], start=1):
        for fate, parts in row["fates"].items():
            if fate != "kept" and part in parts:
                left = {"compaction": number, "call": row["before_call"], "trigger": row["trigger"], "fate": fate}
                return {f"left_{name}": value for name, value in left.items()}
    return dict.fromkeys(("left_compaction", "left_call", "left_trigger", "left_fate"))


def _tried(fact: Fact) -> list[int]:
    """The turns that read something back through a handle of the fact and did not show it."""
    parts = {f"{n}.result" for n in fact.shown}
    shown = {*fact.back, *(n for pair in fact.split for n in pair)}
    return [
        number
        for number, turn in enumerate(fact.trace.turns)
        if given_back(turn) and number not in shown
        and any(parts & stands_for for stands_for in fact.trace.handles_in(turn["action"] or ""))
    ]  # fmt: skip


def _cause(record: Mapping[str, Json], state: State | None, *, fetched: bool, tried: bool) -> Cause | None:
    if record["outcome"] == "correct":
        return None
    if ending := unanswered(record):
        return ending
    if state is None or state == "unseen":
        return "never_read"
    if state in IN_VIEW or fetched:
        return "not_used"
    if state == "lost":
        return "lost"
    return "fetched_in_part" if tried else "not_fetched"
