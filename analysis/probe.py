"""The questions of VISTA's perception probe (Appendix I): what is asked about a snapshot, and how an answer is read."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeVar, get_args

import orjson

from analysis import settings as files
from analysis.snapshots import Block, Found, Snapshot
from arcbench.checks import above, template, whole
from arcbench.text import fill
from arcbench.types import ConfigError, Engine, Json, Message
from arcbench.vista.dashboard import Dashboard, Row

Probe = Literal["total_size", "block_size", "pairwise"]
PROBES: tuple[Probe, ...] = get_args(Probe)
PLACES: Mapping[Probe, tuple[str, ...]] = {"total_size": (), "block_size": ("id",), "pairwise": ("first", "second")}

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The model that is asked. ``identity`` is a hash of all that can change its answers."""

    engine: Engine
    model: str
    window_tokens: int
    identity: str
    temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The numbers and texts of the probe (``conf/perception/probe.yaml`` says what each is)."""

    snapshots: int
    blocks_least: int
    most_tokens: int
    reply_tokens: int
    sized_blocks: int
    pairs: int
    near: float
    chars_per_token: float
    seed: int
    ends_at: Sequence[str]
    overrides: Sequence[str]
    system: str
    label: str
    questions: Mapping[Probe, str]
    dashboard: Mapping[str, str]
    paper: Mapping[Probe, Mapping[str, Sequence[float]]]

    def __post_init__(self) -> None:
        for key in ("snapshots", "most_tokens", "reply_tokens", "sized_blocks", "pairs"):
            whole(key, getattr(self, key), 1)
        whole("seed", self.seed, 0)
        # enough blocks to draw from: never the last one, and pairs of different blocks
        whole("blocks_least", self.blocks_least, max(2, self.sized_blocks + 1))
        possible = self.blocks_least * (self.blocks_least - 1) // 2
        whole("pairs", self.pairs, 1, possible)
        above("near", self.near, 1)
        above("chars_per_token", self.chars_per_token, 0)
        for key in ("ends_at", "overrides"):
            if not isinstance(getattr(self, key), list) or not all(isinstance(v, str) for v in getattr(self, key)):
                raise ConfigError(f"{key}={getattr(self, key)}: must be a list of texts")
        template("system", self.system)
        template("label", self.label, "id", "text")
        for key in ("questions", "dashboard", "paper"):
            if not isinstance(getattr(self, key), Mapping):
                raise ConfigError(f"{key}={getattr(self, key)}: must be a mapping")
        for probe in PROBES:
            template(f"questions.{probe}", self.questions.get(probe), *PLACES[probe])
            for shown in ("without", "with"):
                ends = (self.paper.get(probe) or {}).get(shown)
                if not isinstance(ends, list) or len(ends) != 2:
                    raise ConfigError(
                        f"paper.{probe}.{shown}={ends}: must be two numbers, the smallest and the largest"
                    )
        Dashboard(form="full", texts=self.dashboard, key="dashboard")

    @classmethod
    def read(cls, path: Path, *, snapshots: int | None = None) -> Settings:
        """From a YAML file; ``snapshots`` replaces its own. Raises :class:`ConfigError`, ``OSError``."""
        given = files.read(path, [field.name for field in fields(cls)])
        return cls(**given if snapshots is None else {**given, "snapshots": snapshots})

    def drawn(self, items: Iterable[Item], *salt: str) -> list[Item]:
        """The items in a random order that depends on the seed, the salt and each item alone."""
        return sorted(items, key=lambda item: hashlib.sha256(repr((self.seed, *salt, item)).encode()).digest())


@dataclass(frozen=True, slots=True)
class Question:
    """One call. ``blocks`` are the ids it asks about, in the order in which it names them; ``truth`` is a size in
    tokens or the id of the larger block (of two equals the one that came first); ``ratio`` is larger over smaller."""

    key: str
    snapshot: str
    dashboard: bool
    probe: Probe
    blocks: tuple[str, ...]
    truth: int | str
    ratio: float | None
    text: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Json]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one harness's snapshots are asked about; ``about`` says in a sentence how they came about."""

    harness: str
    snapshots: Sequence[Snapshot]
    questions: Sequence[Question]
    about: str

    def shown(self) -> Iterator[dict[str, Json]]:
        """The snapshots as they go on record."""
        for snapshot in self.snapshots:
            rows = [{name: getattr(block, name) for name in Block.__slots__} for block in snapshot.blocks]
            facts = {"snapshot": snapshot.id, "run_dir": snapshot.source, "task": snapshot.task}
            yield facts | {"tokens": snapshot.tokens, "blocks": rows}


def plan(harness: str, found: Found, asked: Asked, settings: Settings) -> Plan:
    """Go through a harness's snapshots in random order until enough of them have enough blocks that fit."""
    taken: list[Snapshot] = []
    questions: list[Question] = []
    cut = Counter[str]()
    for name in settings.drawn(found.snapshots):
        if len(taken) == settings.snapshots:
            break
        snapshot, asks, why = fitted(found.snapshots[name], asked, settings)
        if len(snapshot.blocks) < settings.blocks_least:
            cut["too_few"] += 1
            continue
        cut[why] += 1
        taken.append(snapshot)
        questions.extend(asks)
    room = asked.window_tokens - settings.reply_tokens
    about = (
        f"{len(taken)} of {settings.snapshots} snapshots, {spread(len(s.blocks) for s in taken)} blocks and "
        f"{spread(s.tokens for s in taken)} tokens each, from {found.episodes} episodes ({found.short} with fewer than "
        f"{settings.blocks_least} blocks, {found.same} with a transcript that another one begins with, "
        f"{found.packed} whose messages are "
        f"kept as spans of a document; of those drawn, "
        f"{cut['too_few']} with too few blocks that fit); {cut['cap']} cut at {settings.most_tokens:,} tokens, "
        f"{cut['window']} at what fits a prompt of {room:,} (window {asked.window_tokens:,}, reply "
        f"{settings.reply_tokens:,}); temperature {asked.temperature:g}"
    )
    return Plan(harness, taken, questions, about)


def fitted(snapshot: Snapshot, asked: Asked, settings: Settings) -> tuple[Snapshot, list[Question], str]:
    """The snapshot with its sizes, cut to what may be shown and fits with any question; the questions; and what cut
    it last: the ``cap``, the ``window``, or nothing ("")."""
    blocks: list[Block] = []
    total, cut = 0, ""
    for block in snapshot.blocks:
        tokens = asked.engine.count_text(block.text)
        total += tokens
        if total > settings.most_tokens:
            cut = "cap"
            break
        blocks.append(replace(block, tokens=tokens))
    # made once: an engine counts each message object once
    shown = [Message("system", settings.system), *(labelled(block, settings.label) for block in blocks)]
    room = asked.window_tokens - settings.reply_tokens
    while len(blocks) >= settings.blocks_least:
        if asked.engine.count(shown, thinking=False) <= room:
            kept = replace(snapshot, blocks=tuple(blocks))
            asks = questions_on(kept, shown, asked, settings)
            if all(asked.engine.count(each.messages, thinking=False) <= room for each in asks):
                return kept, asks, cut
        blocks.pop()
        shown.pop()
        cut = "window"
    return replace(snapshot, blocks=tuple(blocks)), [], cut


def questions_on(snapshot: Snapshot, shown: Sequence[Message], asked: Asked, settings: Settings) -> list[Question]:
    """Every question about a snapshot, each without and with the dashboard; ``shown`` is how every prompt begins."""
    tokens = {block.id: block.tokens for block in snapshot.blocks}
    ids = list(tokens)
    asks: list[tuple[Probe, tuple[str, ...], int | str, float | None]] = [("total_size", (), snapshot.tokens, None)]
    for id in settings.drawn(ids[:-1], snapshot.id)[: settings.sized_blocks]:
        asks.append(("block_size", (id,), tokens[id], None))
    for pair in settings.drawn(combinations(ids, 2), snapshot.id)[: settings.pairs]:
        small, large = sorted(tokens[id] for id in pair)
        # which of the two is named first is drawn too: whoever always says the first is right half of the time
        named = tuple(settings.drawn(pair, snapshot.id, *pair))
        asks.append(("pairwise", named, larger(pair, tokens), large / small))
    ledger = dashboard(snapshot, shown, asked, settings)
    return [
        question(ask, show, snapshot, (*shown, *([ledger] if show else ())), asked, settings)
        for show in (False, True)
        for ask in asks
    ]


def question(
    ask: tuple[Probe, tuple[str, ...], int | str, float | None],
    show: bool,
    snapshot: Snapshot,
    before: tuple[Message, ...],
    asked: Asked,
    settings: Settings,
) -> Question:
    """One question, last in its prompt."""
    probe, ids, truth, ratio = ask
    text = fill(settings.questions[probe], **dict(zip(PLACES[probe], ids, strict=True)))
    messages = (*before, Message("user", text))
    form = (
        {"larger": {"type": "string", "enum": list(ids)}}
        if probe == "pairwise"
        else {"tokens": {"type": "integer", "minimum": 0}}
    )
    schema = {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
    said = [[message.role, message.content] for message in messages]
    key = hashlib.sha256(orjson.dumps([asked.identity, said, schema, settings.reply_tokens])).hexdigest()[:24]
    return Question(key, snapshot.id, show, probe, ids, truth, ratio, text, messages, schema, settings.reply_tokens)


def labelled(block: Block, label: str) -> Message:
    """A block as it is shown, named: without the dashboard too there must be a way to speak of it."""
    role: Literal["user", "assistant"] = "assistant" if block.type == "assistant_message" else "user"
    return Message(role, fill(label, id=block.id, text=block.text))


def dashboard(snapshot: Snapshot, shown: Sequence[Message], asked: Asked, settings: Settings) -> Message:
    """The dashboard over a snapshot: everything is in view. Its sizes are those of the blocks' texts."""
    count = asked.engine.count
    newest = snapshot.blocks[-1].root
    rows = [
        Row(
            id=block.id,
            tokens=block.tokens,
            age=newest - block.root,
            type=block.type,
            level=0,
            parent=block.parent,
            status="visible" if block.root else "pinned",
        )
        for block in snapshot.blocks
    ]
    message, _ = Dashboard(form="full", texts=settings.dashboard, key="dashboard").compose(
        rows,
        overhead=count(shown, thinking=False) - snapshot.tokens,
        total=asked.window_tokens - settings.reply_tokens,
        weigh=lambda message: count((message,), thinking=False) - count((), thinking=False),
    )
    return message


def larger(pair: Sequence[str], sizes: Mapping[str, float]) -> str:
    """The larger of two blocks, which are named in the order of the transcript; of two equals the first."""
    return max(pair, key=lambda id: sizes[id])


def read(each: Question, text: str) -> int | str | None:
    """What a reply says: its one JSON object must have a whole number, or one of the two labels. None: unparsed."""
    found = re.findall(r"\{[^{}]*\}", text)
    try:
        (only,) = found
        value = json.loads(only)["larger" if each.probe == "pairwise" else "tokens"]
    except (ValueError, KeyError):
        return None
    if each.probe == "pairwise":
        return value if value in each.blocks else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def spread(values: Iterable[int]) -> str:
    """The smallest and the largest of them, in words."""
    found = sorted(values)
    ends = [f"{value:,}" for value in dict.fromkeys((found[0], found[-1]))] if found else ["no"]
    return " to ".join(ends)
