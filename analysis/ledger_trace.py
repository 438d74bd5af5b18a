"""What a record says of its messages, call by call: which stood in the view, and what had become of the others.

No method is known by name here. A record tells it by fates and events (``docs/record.md``), and by the two notations in
which handles stand in a view: a citation, ``§ab12cd34 `cat notes` ``, and the line of a block, ``[B3, ...]`` or
``[G1 = B5, B7-B9, ...]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from arcbench.types import Json

Place = Literal["set_aside", "handle", "search", "hidden", "summarised", "lost"]
"""Where a message is that does not stand in the view: kept, and out of sight while the agent is told to make room;
outside, behind a handle that stands in the view; where the method's own search may find it; outside, and no handle of
it in the view; rewritten into a text of the method's; gone."""

Ending = Literal["never_answered", "cut", "refused"]

_ENDINGS: Mapping[str, Ending] = {"malformed": "cut", "output_cut": "cut", "premature": "refused"}

_CITATION = re.compile(r"§([0-9a-f]{8,}) `([^`\n]*)`")
_BLOCK_LINE = re.compile(r"\[([BG]\d+)(?: = (B\d[\dB, -]*))?, ")
_BLOCKS = re.compile(r"B(\d+)(?:-B(\d+))?")
_HANDLE_WORD = re.compile(r"[0-9a-f]{8,}|[BG]\d+")


@dataclass(frozen=True, slots=True)
class Moment:
    """One call of the agent, as it was made. ``fates`` is of all parts that ever met one, by the names that compactions
    use (``3.result``); it goes on with the record, so it is true only until the next moment."""

    call: int
    turns: int
    """How many turns had ended."""
    view: Set[int]
    """The messages that the agent saw."""
    fates: Mapping[str, str]
    managing: bool
    """Whether nothing of the conversation was shown as it was, so that the agent would make room first."""
    retrieved: Set[int]
    """Turns of which passages, found by the method's own search, stood in the view."""


class Trace:
    """One record, read for where its messages were."""

    def __init__(self, record: Mapping[str, Json]) -> None:
        self.record = record
        self.turns: Sequence[Mapping[str, Json]] = record["turns"]
        self.calls = [call for call in record["calls"] if call["billed"] == "agent"]
        self.searched = any("chunks" in event for event in record["events"] if event["event"] == "retrieval")
        self._said = {i for i, message in enumerate(record["messages"]) if message["role"] == "assistant"}
        self._named: dict[int, Set[str]] = {}
        self._visible: tuple[int, Set[str]] = 0, frozenset()  # at the call of this number

    def moments(self) -> Iterator[Moment]:
        """The agent's calls, in order."""
        ended = {turn["call"]: number for number, turn in enumerate(self.turns)}
        compactions, events = iter(self.record["compactions"]), iter(self.record["events"])
        compaction, event = next(compactions, None), next(events, None)
        fates: dict[str, str] = {}
        retrieved: Set[int] = frozenset()
        for number, call in enumerate(self.calls, start=1):
            while compaction and compaction["before_call"] <= number:
                for fate, parts in compaction["fates"].items():
                    fates.update(dict.fromkeys(parts, fate))
                compaction = next(compactions, None)
            while event and event["after_call"] < number:
                if event["event"] == "delete":  # also of what was outside the view, which no compaction speaks of
                    fates.update((_part(int(block[1:])), "dropped") for block in event["blocks"])
                elif event["event"] == "retrieval":
                    retrieved = {int(chunk.partition(".")[0]) for chunk in event["chunks"]}
                event = next(events, None)
            view = set(call["messages"])
            yield Moment(
                call=number,
                turns=ended.get(number, len(self.turns)),
                view=view,
                fates=fates,
                managing=view.isdisjoint(self._said),
                retrieved=retrieved,
            )

    def away(self, part: str, moment: Moment) -> Place:
        """Where a part is that does not stand in the view."""
        fate = moment.fates.get(part, "kept")
        if fate == "kept":
            return "set_aside" if moment.managing else "lost"  # else as a shortened reply, which is another message
        if fate == "cited":  # a citation stands where it stood
            return "handle"
        if fate == "archived":
            return "handle" if part in self.visible(moment) else "search" if self.searched else "hidden"
        return "summarised" if fate == "summarised" else "lost"

    def visible(self, moment: Moment) -> Set[str]:
        """The parts that handles in the view name."""
        if self._visible[0] != moment.call:
            self._visible = moment.call, frozenset().union(*(self.named(index) for index in moment.view))
        return self._visible[1]

    def named(self, index: int) -> Set[str]:
        """The parts that the handles in a message name."""
        if index not in self._named:
            handles = _handles(self._text(index), self._observed) if index in self._of_method else {}
            self._named[index] = frozenset().union(*handles.values())
        return self._named[index]

    def handles_in(self, command: str) -> list[Set[str]]:
        """What each handle that a command names stands for."""
        words = dict.fromkeys(_HANDLE_WORD.findall(command))
        return [self._handles[word] for word in words if word in self._handles]

    @cached_property
    def own(self) -> Set[int]:
        """The method's own words in the agent's views: neither the task nor a reply or an answer as it was."""
        seen = {index for call in self.calls for index in call["messages"]}
        task = set(self.calls[0]["messages"][:2]) if self.calls else set()
        told = {index for turn in self.turns for index in (turn["reply"], turn["result"])}
        return {i for i in seen - task - told if self.record["messages"][i]["role"] == "user"}

    @cached_property
    def _of_method(self) -> Set[int]:
        return self.own | {turn["result"] for turn in self.turns if turn["answered_by"] == "method"}

    @cached_property
    def _observed(self) -> Mapping[str, Set[str]]:
        """The parts that answered a command, by the command."""
        found: dict[str, set[str]] = {}
        for number, turn in enumerate(self.turns):
            if turn["answered_by"] == "environment" and not turn["restored"]:
                found.setdefault(turn["action"] or "", set()).add(f"{number}.result")
        return found

    @cached_property
    def _handles(self) -> Mapping[str, Set[str]]:
        """All handles that ever stood in a view, and the parts that each stands for."""
        found: dict[str, set[str]] = {}
        for index in self._of_method:
            for handle, parts in _handles(self._text(index), self._observed).items():
                found.setdefault(handle, set()).update(parts)
        return found

    def _text(self, index: int) -> str:
        stored = self.record["messages"][index]
        parts = stored["parts"] if "parts" in stored else [stored["content"]]
        return "\n".join(part for part in parts if isinstance(part, str))


def given_back(turn: Mapping[str, Json]) -> bool:
    """Whether an answer is what the method had stored: a recall, a chunk of one, a file of an archive."""
    return bool(turn["restored"] or (turn["answered_by"] == "method" and turn["exact"]))


def unanswered(record: Mapping[str, Json]) -> Ending | None:
    """Why an episode ended without an answer: for want of turns, calls or room; with replies that were cut or
    malformed; refused by the harness (premature submissions). None where the agent submitted, or gave up."""
    if record["outcome"] != "no_answer" or record["reason"] == "gave_up":
        return None
    return _ENDINGS.get(record["reason"], "never_answered")


def _handles(text: str, observed: Mapping[str, Set[str]]) -> dict[str, Set[str]]:
    """The handles in a text, and the parts that each stands for."""
    found: dict[str, Set[str]] = {}
    if "§" in text:
        for id, signature in _CITATION.findall(text):
            found[id] = _answers(signature, observed)
    if line := _BLOCK_LINE.match(text):
        spans = _BLOCKS.findall(line[2] or line[1])
        numbers = [n for first, last in spans for n in range(int(first), int(last or first) + 1)]
        found[line[1]] = {_part(number) for number in numbers}
    return found


def _answers(signature: str, observed: Mapping[str, Set[str]]) -> Set[str]:
    """The parts that answered a command, which may stand there cut."""
    if signature in observed or not signature.endswith("…"):
        return observed.get(signature, frozenset())
    return frozenset().union(*(parts for command, parts in observed.items() if command.startswith(signature[:-1])))


def _part(block: int) -> str:
    """The part that a block is: B1 is the task, B2 and B3 are reply and result of turn 0, and so on."""
    return f"{(block - 2) // 2}.{'result' if block % 2 else 'reply'}"
