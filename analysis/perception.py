"""Does a model know the sizes of its own context? ``python -m analysis.perception engine=vllm model=qwen3-8b ...``.

VISTA's probe (Appendix I, Table 5). Snapshots of recorded episodes, as they were before anything left the view, are
shown to a model block by block, and it is asked how many tokens they have together, how many some of them have, and
which of two has more: each question in a call of its own, greedily, once without and once with a dashboard. The two
prompts differ by that one message. The overrides choose the engine as they do for ``python -m arcbench``.

Writes the sheet ``perception_<harness>``, and below ``perception/<harness>/<model>/`` what it is made of:
``snapshots.jsonl`` (the blocks with their sizes) and ``answers.jsonl`` (every question with its answer). Answers that
stand there already are not asked for again, so a run can be stopped and continued.

Sizes are tokens of a block's text, by the asked engine's own tokenizer. The exit status is 1 when a question could not
be asked, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import orjson
import pandas as pd
import yaml
from tqdm import tqdm

from analysis import render
from analysis.render import DASH, Sheet, number
from arcbench.checks import above, template, whole
from arcbench.records import Run, RunError, digest, repair, replace_file, runs_below
from arcbench.text import fill
from arcbench.types import ConfigError, ContextOverflow, Engine, EngineError, Json, Message, Request
from arcbench.vista.dashboard import BlockType, Dashboard, Row

Probe = Literal["total_size", "block_size", "pairwise"]
PROBES: tuple[Probe, ...] = get_args(Probe)
PLACES: Mapping[Probe, tuple[str, ...]] = {"total_size": (), "block_size": ("id",), "pairwise": ("first", "second")}
NO_MODEL = ("scripted", "replay", "mock")
"""Engines that know no answer."""
ANSWERS, SNAPSHOTS, SCORES = "answers.jsonl", "snapshots.jsonl", "scores.json"
_ID_CHARS = 12

Item = TypeVar("Item")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.perception", description="What a model knows of the sizes of its own context."
    )
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder for sheets and answers")
    parser.add_argument("--settings", type=Path, default=Path("conf/perception/probe.yaml"), help="numbers and texts")
    parser.add_argument("--snapshots", type=int, help="of each harness (default: as in the settings)")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="what chooses the engine: engine=vllm model=..."
    )
    args = parser.parse_intermixed_args(argv)
    try:
        settings = Settings.read(args.settings, snapshots=args.snapshots)
        probe(chosen(args.overrides, settings), args.runs, settings, args.tables)
    except (ConfigError, RunError, OSError) as fault:
        return _complain(fault, 2)
    except EngineError as fault:
        return _complain(fault, 1)
    except KeyboardInterrupt:
        return _complain("stopped; run the same command again to go on from here", 130)
    return 0


def _complain(line: object, status: int) -> int:
    print(f"perception: {' '.join(str(line).split())}", file=sys.stderr)
    return status


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The model that is asked. ``identity`` is a hash of all that can change its answers."""

    engine: Engine
    model: str
    window_tokens: int
    identity: str
    temperature: float | None


def chosen(overrides: Sequence[str], settings: Settings) -> Asked:
    """The engine that the overrides choose, not started. Raises :class:`ConfigError`."""
    from arcbench.runner import make_engine  # the one place that knows Hydra

    engine, config = make_engine([*settings.overrides, *overrides])
    if engine.id in NO_MODEL:
        raise ConfigError(
            f"engine={engine.id}: has no model that could be asked; choose one, such as engine=vllm model=smollm2-135m"
        )
    return Asked(
        engine=engine,
        model=config["model"]["id"],
        window_tokens=config["budget"]["window_tokens"],
        identity=digest({key: config[key] for key in ("engine", "model")}, config["digest_ignores"]),
        temperature=config["model"]["sampling"]["no_thinking"]["temperature"],
    )


def probe(asked: Asked, runs: Path, settings: Settings, tables: Path) -> list[Sheet]:
    """Take the snapshots, ask, score, and write all of it. Raises :class:`EngineError` when a question could not
    be asked, :class:`RunError` when there is nothing to ask about."""
    plans = [plan(harness, found, asked, settings) for harness, found in collect(runs_below(runs), settings).items()]
    if not any(each.snapshots for each in plans):
        raise RunError(f"{runs}: no episode here will do: {'; '.join(f'{p.harness}: {p.about}' for p in plans)}")
    for each in (each for each in plans if not each.snapshots):
        print(f"perception: harness={each.harness}: nothing to ask about: {each.about}", file=sys.stderr)
    plans = [each for each in plans if each.snapshots]
    folders = {each.harness: tables / "perception" / each.harness / asked.model for each in plans}
    for each in plans:
        folders[each.harness].mkdir(parents=True, exist_ok=True)
        replace_file(folders[each.harness] / SNAPSHOTS, b"".join(map(_line, each.shown())))
    asyncio.run(ask_all({folders[each.harness] / ANSWERS: each.questions for each in plans}, asked))
    sheets = []
    for each in plans:
        folder = folders[each.harness]
        rows = scores(each, given(folder / ANSWERS), asked, settings)
        scored = {"model": asked.model, "about": f"{asked.model}: {each.about}", "rows": rows}
        replace_file(folder / SCORES, orjson.dumps(scored, option=orjson.OPT_INDENT_2))
        sheets.append(sheet(each.harness, folder.parent, settings))
        print(render.markdown(sheets[-1]))
        for path in (*render.write(sheets[-1], tables), folder / ANSWERS, folder / SNAPSHOTS):
            print(f"wrote {path}")
    return sheets


# ---------------------------------------------------------------------------------------- settings


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
        Dashboard(form="full", texts=self.dashboard)

    @classmethod
    def read(cls, path: Path, *, snapshots: int | None = None) -> Settings:
        """From a YAML file; ``snapshots`` replaces its own. Raises :class:`ConfigError`, ``OSError``."""
        try:
            given = yaml.safe_load(path.read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as fault:
            raise ConfigError(f"{path}: must be a YAML file: {' '.join(str(fault).split())}") from None
        keys = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping) or set(given) != set(keys):
            found = ", ".join(map(str, given)) if isinstance(given, Mapping) else given
            raise ConfigError(f"{path}: has {found}; must have exactly these keys: {', '.join(keys)}")
        return cls(**given if snapshots is None else {**given, "snapshots": snapshots})

    def drawn(self, items: Iterable[Item], *salt: str) -> list[Item]:
        """The items in a random order that depends on the seed, the salt and each item alone."""
        return sorted(items, key=lambda item: hashlib.sha256(repr((self.seed, *salt, item)).encode()).digest())


# --------------------------------------------------------------------------------------- snapshots


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


def collect(runs: Iterator[Run], settings: Settings) -> dict[str, Found]:
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
            blocks = blocks_of(record, omitted, settings.ends_at)
            if len(blocks) < settings.blocks_least:
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


# --------------------------------------------------------------------------------------- questions


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
        f"{len(taken)} of {settings.snapshots} snapshots, {_range(len(s.blocks) for s in taken)} blocks and "
        f"{_range(s.tokens for s in taken)} tokens each, from {found.episodes} episodes ({found.short} with fewer than "
        f"{settings.blocks_least} blocks, {found.same} with a transcript that another one begins with; of those drawn, "
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
    message, _ = Dashboard(form="full", texts=settings.dashboard).compose(
        rows,
        overhead=count(shown, thinking=False) - snapshot.tokens,
        total=asked.window_tokens - settings.reply_tokens,
        weigh=lambda message: count((message,), thinking=False) - count((), thinking=False),
    )
    return message


def larger(pair: Sequence[str], sizes: Mapping[str, float]) -> str:
    """The larger of two blocks, which are named in the order of the transcript; of two equals the first."""
    return max(pair, key=lambda id: sizes[id])


# ------------------------------------------------------------------------------------------ asking


async def ask_all(files: Mapping[Path, Sequence[Question]], asked: Asked) -> None:
    """Ask what has no answer yet, as many at once as the engine wants; each answer is written as it comes.

    Raises :class:`EngineError` at the end when some could not be asked: they are owed.
    """
    owed: list[tuple[Path, int, Question]] = []
    total = 0
    for path, questions in files.items():
        repair(path)
        done = given(path)
        owed.extend((path, i, each) for i, each in enumerate(questions, start=1) if each.key not in done)
        total += len(questions)
    if not owed:
        return
    await asked.engine.start()
    broken: list[str] = []
    queue = iter(owed)
    try:
        with tqdm(total=total, initial=total - len(owed), desc=f"perception {asked.model}", unit="q") as bar:

            async def worker() -> None:
                for path, index, each in queue:
                    try:
                        answer = await put(each, index, asked)
                    except (EngineError, ContextOverflow) as fault:
                        broken.append(str(fault))
                    else:
                        with path.open("ab") as file:
                            file.write(_line(answer))
                    bar.update()
                    await asyncio.sleep(0)  # an engine that never waits must not starve Ctrl-C

            async with asyncio.TaskGroup() as group:
                for _ in range(min(asked.engine.concurrency, len(owed))):
                    group.create_task(worker())
    finally:
        await asked.engine.close()
    if broken:
        raise EngineError(f"{len(broken)} of {total} questions: {broken[0]}; run the same command again to ask them")


async def put(each: Question, number: int, asked: Asked) -> dict[str, Json]:
    """Ask one question. Raises as :meth:`arcbench.types.Engine.complete`."""
    reply = await asked.engine.complete(
        Request(
            messages=each.messages,
            max_tokens=each.max_tokens,
            thinking=False,
            episode=each.snapshot,
            number=number,
            seed=int(each.key[:7], 16),
            schema=each.schema,
        )
    )
    return {
        "key": each.key,
        "snapshot": each.snapshot,
        "dashboard": "with" if each.dashboard else "without",
        "probe": each.probe,
        "blocks": each.blocks,
        "question": each.text,
        "truth": each.truth,
        "guess": read(each, reply.text),
        "text": reply.text,
        "finish": reply.finish,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
        "latency_s": reply.latency_s,
    }


def given(path: Path) -> dict[str, str]:
    """The raw answers in a file, by key; a torn or broken line is passed over."""
    answers: dict[str, str] = {}
    if path.exists():
        for line in path.read_bytes().split(b"\n"):
            try:
                answer = orjson.loads(line)
                answers[answer["key"]] = answer["text"]
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue
    return answers


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


def _line(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


# ----------------------------------------------------------------------------------------- scoring

Guess = int | float | str | None
METRICS: Mapping[Probe, tuple[str, ...]] = {
    "total_size": ("median_relative_error",),
    "block_size": ("median_relative_error",),
    "pairwise": ("accuracy_fraction_near", "accuracy_fraction_all"),
}


def scores(each: Plan, answers: Mapping[str, str], asked: Asked, settings: Settings) -> list[dict[str, Any]]:
    """Rows of the sheet: the model without and with the dashboard, and two guessers that are no model."""
    facts = {"harness": each.harness, "model": asked.model}
    rows: list[dict[str, Any]] = []
    for show in (False, True):
        asks = [ask for ask in each.questions if ask.dashboard is show]
        guesses: list[Guess] = [read(ask, answers[ask.key]) for ask in asks]
        who = {"by": asked.model, "dashboard": "with" if show else "without"}
        rows += [facts | who | row for row in score(asks, guesses, settings.near)]
    asks = [ask for ask in each.questions if not ask.dashboard]
    for name, sizes in guessers(each.snapshots, settings.chars_per_token).items():
        guesses = [guessed(ask, sizes[ask.snapshot]) for ask in asks]
        rows += [facts | {"by": name, "dashboard": None} | row for row in score(asks, guesses, settings.near)]
    return rows


def score(asks: Sequence[Question], guesses: Sequence[Guess], near: float) -> list[dict[str, Any]]:
    """One row a metric: its value, over how many answers, and how many questions had no answer that could be read."""
    rows = []
    for probe in PROBES:
        answered = [(ask, guess) for ask, guess in zip(asks, guesses, strict=True) if ask.probe == probe]
        for metric in METRICS[probe]:
            counted = [(a, g) for a, g in answered if metric != "accuracy_fraction_near" or (a.ratio or 0) < near]
            values = [
                float(guess == ask.truth) if probe == "pairwise" else relative_error(guess, ask.truth)
                for ask, guess in counted
                if guess is not None
            ]
            middle = statistics.mean if probe == "pairwise" else statistics.median
            rows.append(
                {
                    "probe": probe,
                    "metric": metric,
                    "value": middle(values) if values else None,
                    "asked": len(counted),
                    "scored": len(values),
                    "unparsed": len(counted) - len(values),
                }
            )
    return rows


def relative_error(guess: Guess, truth: Guess) -> float:
    """|guess - truth| / truth."""
    assert isinstance(guess, int | float)
    assert isinstance(truth, int | float)
    return abs(guess - truth) / truth


def guessers(snapshots: Sequence[Snapshot], chars_per_token: float) -> dict[str, dict[str, dict[str, float]]]:
    """What two guessers that are no model take for the size of each block of each snapshot. The second one says
    the same of every block: the median of them all, which it has been told."""
    every = statistics.median(block.tokens for snapshot in snapshots for block in snapshot.blocks)
    return {
        f"no model: characters / {chars_per_token:g}": {
            snapshot.id: {block.id: len(block.text) / chars_per_token for block in snapshot.blocks}
            for snapshot in snapshots
        },
        "no model: median block": {
            snapshot.id: {block.id: every for block in snapshot.blocks} for snapshot in snapshots
        },
    }


def guessed(ask: Question, sizes: Mapping[str, float]) -> Guess:
    """The answer of someone who takes the blocks of a snapshot to have these sizes."""
    if ask.probe == "total_size":
        return sum(sizes.values())
    if ask.probe == "block_size":
        return sizes[ask.blocks[0]]
    return larger(sorted(ask.blocks, key=lambda id: int(id[1:])), sizes)


# ------------------------------------------------------------------------------------------- sheet


def sheet(harness: str, folder: Path, settings: Settings) -> Sheet:
    """Every model that was asked about this harness, as last scored (``<folder>/<model>/scores.json``)."""
    scored = [orjson.loads(path.read_bytes()) for path in sorted(folder.glob(f"*/{SCORES}"))]
    data = pd.DataFrame([row for each in scored for row in each["rows"]])
    rows = []
    for (model, by, shown), group in data.groupby(["model", "by", "dashboard"], sort=False, dropna=False):
        cells = {row.metric if row.probe == "pairwise" else row.probe: row for row in group.itertuples()}
        once = group[group["metric"] != "accuracy_fraction_near"]
        rows.append(
            {
                "answers by": by,
                "tokens of": model,
                "dashboard": shown if isinstance(shown, str) else DASH,
                "total size: error": _cell(cells["total_size"]),
                "block size: error": _cell(cells["block_size"]),
                f"larger of two, below {settings.near:g}x": _cell(cells["accuracy_fraction_near"]),
                "of all pairs": _cell(cells["accuracy_fraction_all"]),
                "unparsed": f"{once['unparsed'].sum()} of {once['asked'].sum()}",
            }
        )
    paper = "; ".join(
        f"{name} {ends['without'][0]:.2f} to {ends['without'][1]:.2f} without the dashboard, "
        f"{ends['with'][0]:.2f} to {ends['with'][1]:.2f} with it"
        for name, ends in zip(
            ("total size", "block size", "larger of two"), map(settings.paper.get, PROBES), strict=True
        )
        if ends is not None
    )
    return Sheet(
        name=f"perception_{harness}",
        title=f"What a model knows of the sizes of its own context, {harness}",
        lead=(
            "Error: the median of |guess - truth| / truth over all answers. Larger of two: the share that is right. In "
            "brackets: over how many answers.",
        ),
        data=data,
        body=pd.DataFrame(rows),
        text_columns=frozenset({"answers by", "tokens of", "dashboard"}),
        notes=(
            *(each["about"] for each in scored),
            "A size is the number of tokens of a block's text, by the tokenizer of the model that is asked; labels, "
            "roles and the dashboard do not count. Of two equal blocks the one with the lower id counts as the larger.",
            "The two prompts of a question differ by the dashboard alone, which prints the total and every block's "
            "size: there an error of zero is a lookup, no estimate.",
            "unparsed: replies without one JSON object of the form asked for; they are in no median and no share.",
            "no model: guesses that cost nothing, scored the same way. The median block is that of the blocks shown: "
            "whoever guesses that has been told something. To it all blocks are equal.",
            f"The paper's four models on transcripts of another benchmark (Table 5): {paper}.",
        ),
    )


def _cell(row: Any) -> str:
    return f"{number(row.value)} ({row.scored})"


def _range(values: Iterable[int]) -> str:
    found = sorted(values)
    ends = [f"{value:,}" for value in dict.fromkeys((found[0], found[-1]))] if found else ["no"]
    return " to ".join(ends)


if __name__ == "__main__":
    sys.exit(main())
