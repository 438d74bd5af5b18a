"""Where the pages of a long document were, call by call: the ledger of a task whose answer is no single fact.

A page is what one answer of the environment quoted of the document; a record keeps that as spans of it, so this needs
no copy of the document. What a record keeps as text is not seen here: short quotes, and those that begin amid a line
(``harness.longbench_quotes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, get_args

from analysis.ledger_trace import Moment, Place, Trace, given_back, unanswered
from arcbench.records import Part
from arcbench.types import Json

State = Literal["whole", "in_part", "set_aside", "handle", "search", "hidden", "summarised", "lost"]
"""The first that applies. In the view: all that the page quotes of the document, or some of it. Else see
:data:`analysis.ledger_trace.Place`."""

Cause = Literal["lost", "never_read", "not_fetched", "not_used", "never_answered", "cut", "refused"]
"""Why an episode failed. Which page was needed is not known, so a wrong answer counts under the first that was true of
any page: ``lost``, rewritten ones among them; ``never_read``, a part of the document that was never shown;
``not_fetched``, not whole in the view when the agent answered, and not read back before; ``not_used``, none of these.
The others as for facts."""

STATES: Sequence[State] = get_args(State)
CAUSES: Sequence[str] = get_args(Cause)
LEAST_CHARS = 200
"""Shorter quotes are no spans, so less than this of a document cannot be told from what was never shown."""
AGENTS = ("files", "replay")
"""Deliveries of a document to an agent; the others are single prompts."""
QUESTION = "question"
"""The command that shows the question, where the document comes first."""

Span = tuple[int, int]
Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: what it quotes, and the turns that showed it."""

    spans: Spans
    turns: Sequence[int]


class Pages:
    """The pages of one record, in order of their first showing."""

    def __init__(self, record: Mapping[str, Json]) -> None:
        self.trace = Trace(record)
        self.spans: list[Spans] = [_spans(message) for message in record["messages"]]
        shown: dict[Spans, list[int]] = {}
        for number, turn in enumerate(self.trace.turns):
            spans = self.spans[turn["result"]]
            if spans and turn["answered_by"] == "environment" and not turn["restored"]:
                shown.setdefault(spans, []).append(number)
        self.pages = [Page(spans, turns) for spans, turns in shown.items()]

    def states(self, moment: Moment) -> Iterator[tuple[Page, State]]:
        """The pages that had been shown, each with where it was."""
        quoted = union(span for index in moment.view for span in self.spans[index])
        for page in self.pages:
            if page.turns[0] < moment.turns:
                yield page, self._state(page, moment, quoted)

    def _state(self, page: Page, moment: Moment, quoted: Spans) -> State:
        size, seen = length(page.spans), common(page.spans, quoted)
        if seen == size:
            return "whole"
        if seen or moment.retrieved & set(page.turns):
            return "in_part"
        places: set[Place] = {self.trace.away(f"{n}.result", moment) for n in page.turns if n < moment.turns}
        return next(state for state in STATES[2:] if state in places)

    def read_back(self, page: Page) -> bool:
        """Whether something of it came back at a command, or the command named a handle that stands for it alone."""
        parts = {f"{n}.result" for n in page.turns}
        return any(
            common(page.spans, self.spans[turn["result"]])
            or any(stands_for <= parts for stands_for in self.trace.handles_in(turn["action"] or "") if stands_for)
            for turn in self.trace.turns
            if given_back(turn)
        )

    def asked_at(self) -> int | None:
        """The first call whose view held the question, where that came after the document."""
        said = {turn["result"] for turn in self.trace.turns if turn["action"] == QUESTION and turn["returncode"] == 0}
        calls = enumerate(self.trace.calls, start=1)
        return next((number for number, call in calls if said.intersection(call["messages"])), None)


CALLS = Part("ledger_page_calls", ("task", "call", "prompt_tokens", "pages", *STATES), lambda record: calls_of(record))
EPISODES = Part(
    "ledger_pages",
    (
        "task", "index", "outcome", "reason", "cause", "calls", "document_chars", "shown_chars", "pages", "read_back",
        "retrieved", "asked_call", *(f"asked_{state}" for state in STATES), *(f"last_{state}" for state in STATES),
    ),
    lambda record: episode_of(record),
)  # fmt: skip


def calls_of(record: Mapping[str, Json]) -> Iterator[dict[str, Any]]:
    """A row for each call of the agent: how many pages had been shown, and how many of them were where. None for a
    record in error, or without a document that an agent reads."""
    if not _has_pages(record):
        return
    pages = Pages(record)
    for moment, call in zip(pages.trace.moments(), pages.trace.calls, strict=True):
        counts = _counts(pages, moment)
        row = {"task": record["task"], "call": moment.call, "prompt_tokens": call["prompt_tokens"]}
        yield row | {"pages": sum(counts.values())} | counts


def episode_of(record: Mapping[str, Json]) -> Iterator[dict[str, Any]]:
    """The row of the episode: pages by where they were when the question was first in view (null where it was there
    from the beginning, or never) and at the last call; pages of which something was read back at a command, or found by
    the method's own search; characters of the document, and of what was shown of it."""
    if not _has_pages(record):
        return
    pages = Pages(record)
    asked = pages.asked_at()
    retrieved: set[int] = set()
    at: dict[str, Mapping[str, int]] = {}
    last: list[tuple[Page, State]] = []
    for moment in pages.trace.moments():
        retrieved |= moment.retrieved
        if moment.call == asked:
            at["asked"] = _counts(pages, moment)
        if moment.call == len(pages.trace.calls):
            last = list(pages.states(moment))
            at["last"] = _counts(pages, moment)
    back = {page.spans for page in pages.pages if pages.read_back(page)}
    chars, shown = record["facts"]["context_chars"], length(union(s for page in pages.pages for s in page.spans))
    yield {
        "task": record["task"],
        "index": record["index"],
        "outcome": record["outcome"],
        "reason": record["reason"],
        "cause": _cause(record, last, back, unread=asked is None and chars - shown >= LEAST_CHARS),
        "calls": len(pages.trace.calls),
        "document_chars": chars,
        "shown_chars": shown,
        "pages": len(pages.pages),
        "read_back": len(back),
        "retrieved": sum(bool(retrieved.intersection(page.turns)) for page in pages.pages),
        "asked_call": asked,
        **{
            f"{when}_{state}": at[when][state] if when in at else None for when in ("asked", "last") for state in STATES
        },
    }


def _has_pages(record: Mapping[str, Json]) -> bool:
    return record["outcome"] != "error" and record["facts"].get("delivery") in AGENTS


def _counts(pages: Pages, moment: Moment) -> dict[str, int]:
    counts = dict.fromkeys(STATES, 0)
    for _, state in pages.states(moment):
        counts[state] += 1
    return {str(state): count for state, count in counts.items()}


def _cause(
    record: Mapping[str, Json], last: Sequence[tuple[Page, State]], back: Set[Spans], *, unread: bool
) -> Cause | None:
    if record["outcome"] == "correct":
        return None
    if ending := unanswered(record):
        return ending
    if any(state in ("lost", "summarised") for _, state in last):
        return "lost"
    if unread:
        return "never_read"
    return "not_used" if all(state == "whole" or page.spans in back for page, state in last) else "not_fetched"


# -------------------------------------------------------------------------------------------- spans


def _spans(message: Mapping[str, Json]) -> Spans:
    return tuple((part[0], part[1]) for part in message.get("parts", ()) if not isinstance(part, str))


def union(spans: Iterable[Span]) -> Spans:
    """The same characters in spans that are in order and do not overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return tuple(merged)


def length(spans: Spans) -> int:
    """Characters of spans that do not overlap."""
    return sum(end - start for start, end in spans)


def common(some: Spans, others: Spans) -> int:
    """Characters that are in both, each of which has no overlaps."""
    return sum(max(0, min(end, e) - max(start, s)) for start, end in some for s, e in others)
