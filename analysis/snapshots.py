"""Transcripts of recorded episodes as they stood before anything left the view, block by block."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from arcbench.records import Run
from arcbench.text import fill
from arcbench.types import Json
from arcbench.vista.dashboard import BlockType

_ID_CHARS = 12


@dataclass(frozen=True, slots=True)
class Block:
    """One message of a transcript. ``root`` numbers the turns from the task's 0; ``parent`` is the block that opened
    its turn. ``tokens`` is 0 until a model has been chosen that counts them."""

    id: str
    type: BlockType
    text: str
    root: int
    parent: str | None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The transcript of an episode before anything left its view. ``id`` is a hash of what it says."""

    id: str
    source: str
    task: str
    blocks: tuple[Block, ...]

    @property
    def tokens(self) -> int:
        """Of all its blocks together."""
        return sum(block.tokens for block in self.blocks)


@dataclass(slots=True)
class Found:
    """The snapshots of one harness by id, and why others are not among them."""

    snapshots: dict[str, Snapshot]
    episodes: int = 0
    short: int = 0
    same: int = 0
    packed: int = 0  # their messages are kept as spans of a document that is not here


def collect(runs: Iterator[Run], *, blocks_least: int, ends_at: Sequence[str]) -> dict[str, Found]:
    """The distinct snapshots by harness. One that another one begins with is not kept: two methods that play the same
    task share what they saw before either of them moved anything."""
    found: dict[str, Found] = {}
    beginnings: dict[str, set[str]] = {}
    for run in runs:
        harness = str(run.columns["harness"])
        here, begun = found.setdefault(harness, Found({})), beginnings.setdefault(harness, set())
        omitted = left_out(run.config["rules"]["omitted"])
        for record in run.episodes():
            if record["outcome"] == "error":
                continue
            here.episodes += 1
            if any("content" not in message for message in record["messages"]):
                here.packed += 1
                continue
            blocks = blocks_of(record, omitted, ends_at)
            if len(blocks) < blocks_least:
                here.short += 1
                continue
            *shorter, name = _chain(blocks)
            if name in begun:
                here.same += 1
                continue
            for begin in shorter:
                here.same += here.snapshots.pop(begin, None) is not None
            begun.update(shorter, (name,))
            here.snapshots[name] = Snapshot(name, str(run.path), record["task"], blocks)
    return found


def blocks_of(record: Mapping[str, Json], omitted: re.Pattern[str], ends_at: Sequence[str]) -> tuple[Block, ...]:
    """The task, and the replies and answers up to the first move out of view, each a block.

    What only the harness of the method says is stripped: the system message, refusals, corrections, a method's own
    answers, and the line that tells how much of a long answer was left out.
    """
    first = next((call for call in record["calls"] if call["billed"] == "agent"), None)
    if first is None:
        return ()
    blocks: list[Block] = []

    def add(index: int, type: BlockType, root: int, parent: str | None) -> str | None:
        text = omitted.sub("\n", record["messages"][index]["content"])
        if not text.strip():
            return None
        blocks.append(Block(f"B{len(blocks) + 1}", type, text, root, parent))
        return blocks[-1].id

    add(first["messages"][1], "user_message", 0, None)
    for root, turn in enumerate(record["turns"][: turns_before_archive(record, ends_at)], start=1):
        parent = add(turn["reply"], "assistant_message", root, None)
        if turn["answered_by"] == "environment":
            add(turn["result"], "tool_result", root, parent)
    return tuple(blocks)


def turns_before_archive(record: Mapping[str, Json], ends_at: Sequence[str]) -> int:
    """How many turns of a record ended before a block left the view, or the agent was told to see to that, or did."""
    turns = record["turns"]
    end: int = next((i for i, turn in enumerate(turns) if str(turn["action"]).split(" ")[0] in ends_at), len(turns))
    for row in record["compactions"]:
        moved = any(parts for fate, parts in row["fates"].items() if fate != "kept")
        if moved or row["outcome"] == "pending":  # until the agent acts, the blocks are out of its sight
            calls = [turn["call"] for turn in turns]
            before = next((i for i, call in enumerate(calls) if (call or 0) >= row["before_call"]), len(turns))
            if moved and None in calls[:before]:  # within a replayed history no call says where
                named = [int(part.split(".")[0]) for parts in row["fates"].values() for part in parts]
                before = min(before, 1 + max(named))
            # a proactive compaction is part of the turn before it
            return max(0, min(end, before - int(row["trigger"] == "proactive")))
    return end


def left_out(omitted: str) -> re.Pattern[str]:
    """The line that stands for the cut middle of a long answer (``rules.omitted``), whatever the number in it."""
    place = "\ufffc"  # stands for the number; no character that an expression knows
    return re.compile(rf"\n{re.escape(fill(omitted, chars=place)).replace(place, '[0-9]+')}\n")


def _chain(blocks: Sequence[Block]) -> list[str]:
    """A hash of the first block, of the first two, and so on."""
    state, names = hashlib.sha256(), []
    for block in blocks:
        state.update(repr((block.type, block.text)).encode())
        names.append(state.hexdigest()[:_ID_CHARS])
    return names
