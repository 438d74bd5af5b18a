"""Drives VISTA as the loop does, one turn at a time, and reads its archive as an agent would."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import METHODS, PREFIX, Bench, budget, method
from fakes import conf
from paged import QwenBench, at_once

from arcbench.parsing import Malformed, parse
from arcbench.text import admit, excerpt
from arcbench.types import Action, Answerer, Compaction, Done, Message, Nothing, Observation, Pending, Turn
from arcbench.vista import Vista
from arcbench.vista.dashboard import Row
from harness.files import Mounts
from harness.shell import Shell

OMITTED = "[... $chars characters left out ...]"
SHELL = Shell(**conf("harness/needle")["shell"])
PASSES = 3
ABLATIONS = sorted(path.stem for path in METHODS.glob("vista_*.yaml"))

_WHERE = re.compile(r" \| (\d+) characters in (/archive/[BG]\d+\.txt), sha256 ([0-9a-f]{12})(?= \| it begins: |\]$)")
_HEADING = re.compile(r"=== (B\d+) (\w+), (\d+) characters: (.*) ===\n")
_LABEL = re.compile(r"\[(?:G\d+ = )?((?:B\d+(?:-B\d+)?)(?:, B\d+(?:-B\d+)?)*)[,:]")
_USED = re.compile(r"^Context \[([#.]*)\] (\d+)%: (\d+) of (\d+) tokens$", re.M)
_PARTS = re.compile(r"^Before the task (\d+), blocks (\d+), this status (\d+)$", re.M)
_ROW = re.compile(r"^(B\d+) (\d+) (\d+)r (\w+) L(\d+) (B\d+|-) (\w+)$", re.M)
_FOLDED = re.compile(r"^(\d+) blocks out of view \((B\d+) to (B\d+)\): (\d+) tokens$", re.M)


class Player:
    """One VISTA on one bench. ``ran`` is what reached the environment, ``turns`` all that was said, ``done`` the
    report of the last turn; ``texts`` and ``ran_as`` are the whole text and command of each block."""

    def __init__(
        self,
        name: str = "vista",
        *,
        usable: int = 2000,
        bench: type[Bench] = QwenBench,
        unit: Any = len,
        limits: Mapping[str, Any] | None = None,
        prefix: Sequence[Message] = PREFIX,
        **changes: Any,
    ) -> None:
        self.bench = bench(budget(usable + 100, 100, **limits or {}), unit=unit)
        made = method(name, self.bench, prefix, **changes)
        assert isinstance(made, Vista)
        self.vista = made
        self.workspace = made.workspace
        self.own = {doc.name for doc in made.actions()}
        self.mounts = Mounts()
        self.turns: list[Turn] = []
        self.ran: list[str] = []
        self.done: Done | None = None
        self.texts = {"B1": prefix[-1].content}
        self.ran_as: dict[str, str] = {}

    def do(
        self, command: str, body: str | bytes = "", *, thought: str = "", returncode: int = 0, note: str = ""
    ) -> Turn:
        """The agent gives a command. ``body`` is what the environment answers, if it comes to that and it is not
        asked for a file of the archive."""
        return self.say(f"{thought}\n```\n{command}\n```".strip(), body, returncode=returncode, note=note)

    def say(self, reply: str, body: str | bytes = "", *, returncode: int = 0, note: str = "") -> Turn:
        """The agent says something, which may be no command."""
        said = admit(reply)[0]
        action = parse(said)
        answered_by: Answerer = "correction"
        observation = Observation("Send one command.", 2)
        if isinstance(action, Action):
            observation, answered_by = self.answer(action, Observation(admit(body)[0], returncode, note))
        limits = self.bench.budget
        limit = limits.recall_max_chars if observation.restored else limits.presentation_limit_chars
        shown = excerpt(observation.text, limit, OMITTED) or "(no output)"
        turn = Turn(
            index=len(self.turns),
            call=len(self.turns) + 1,
            reply=Message("assistant", said),
            action=None if isinstance(action, Malformed) else action,
            observation=observation,
            result=Message("user", f"{observation.note}\n{shown}" if observation.note else shown),
            answered_by=answered_by,
        )
        self.turns.append(turn)
        seen = turn.observation
        for block, text in zip(
            self.next_ids(), (said, f"{seen.note}\n{seen.text}" if seen.note else seen.text), strict=True
        ):
            self.texts[block] = text
            self.ran_as[block] = turn.action.text if turn.action else ""
        self.done = at_once(self.vista.observe(turn))
        return turn

    def answer(self, action: Action, said: Observation) -> tuple[Observation, Answerer]:
        """As the loop has it: the method may refuse, then it or the environment answers."""
        if notice := self.vista.gate(action):
            return notice, "gate"
        if action.name in self.own:
            return at_once(self.vista.handle(action)), "method"
        self.ran.append(action.text)
        if "/archive" in action.text:
            return SHELL.run(action, self.mounts.files(self.vista.mounts())).observation, "environment"
        return said, "environment"

    def next_ids(self) -> tuple[str, str]:
        """The ids that the blocks of the turn being told will have."""
        last = 2 * len(self.turns)
        return f"B{last}", f"B{last + 1}"

    def handle(self, command: str) -> Observation:
        """The method's answer to one of its commands, without a turn."""
        name, _, argument = command.partition(" ")
        return at_once(self.vista.handle(Action(name, argument, command)))

    def fill(self, sizes: Sequence[int]) -> None:
        """Turns of so many words, and tokens."""
        for size in sizes:
            at = len(self.turns)
            self.do(f"look {at}", f"w{at}" + " word" * (size - 1))

    def compact(self, reason: Any = "forced") -> Compaction:
        return at_once(self.vista.compact(reason))

    def make_room(self) -> str:
        """What the loop does before a call: ``fits``, ``nothing`` or ``no_progress``."""
        size, passes = self.size, 0
        while size > self.bench.budget.usable_tokens:
            if isinstance(self.compact("overflow"), Nothing):
                return "nothing"
            smaller = self.size
            passes = passes + 1 if smaller >= size else 0
            if passes >= PASSES:
                return "no_progress"
            size = smaller
        return "fits"

    # ---------------------------------------------------------------------------------- what is there

    @property
    def view(self) -> list[Message]:
        return list(self.vista.view())

    @property
    def size(self) -> int:
        return self.bench.count(self.view)

    @property
    def shown(self) -> list[str]:
        """What stands between the prefix and the dashboard."""
        return [message.content for message in self.view[2 : -1 if self.status else None]]

    @property
    def status(self) -> str:
        """The dashboard, if there is one."""
        return "" if self.vista.form == "none" else self.view[-1].content

    @property
    def units(self) -> list[tuple[str | None, str]]:
        """What stands between the prefix and the dashboard, each text with the id of its block where it is that very
        message, and None where it is a line that stands for blocks, which a message may imitate."""
        whole = {id(block.message): name for name, block in self.workspace.blocks.items() if block.raw}
        end = -1 if self.status else None
        return [(whole.get(id(message)), message.content) for message in self.view[2:end]]

    @property
    def state(self) -> tuple[list[Message], dict[str, str], list[Row], list[tuple[str, str]]]:
        """All that a refused command must leave alone: view, files, rows, handles."""
        handles = [(id, handle.message.content) for id, handle in self.workspace.handles.items()]
        return self.view, dict(self.vista.mounts()), self.workspace.rows(), handles

    def weigh(self, *messages: Message) -> int:
        return self.bench.count(messages) - self.bench.count(())

    def events(self, name: str) -> list[dict[str, Any]]:
        return [facts for event, facts in self.bench.notes if event == name]

    def status_of(self, id: str) -> str:
        return next((row.status for row in self.workspace.rows() if row.id == id), "gone")

    def cat(self, path: str) -> str:
        """A file of the archive, read through the harness's shell."""
        command = f"cat {path}"
        said = SHELL.run(Action("cat", path, command), Mounts().files(self.vista.mounts())).observation
        assert (said.returncode, said.restored) == (0, True), said
        return said.text

    def recovered(self) -> dict[str, str]:
        """The text of every block that can be read starting from the handles in the view, handles in files
        included; what each handle says of size and checksum is checked on the way."""
        found: dict[str, str] = {}
        queue = [line for block, line in self.units if block is None]
        while queue:
            if not (where := where_of(queue.pop())):
                continue
            chars, path, sha = where
            text = self.cat(path)
            assert int(chars) == len(text)
            assert sha == hashlib.sha256(text.encode()).hexdigest()[:12]
            for part in sections(text):
                if isinstance(part, str):
                    queue.append(part)
                else:
                    id, _, body = part
                    assert found.setdefault(id, body) == body
        return found


def sections(text: str) -> Iterator[tuple[str, str, str] | str]:
    """The parts of a file: (id, what its heading says, text) of a block, or the line of a handle. Sizes and not
    headings tell where a part ends, since a text may imitate a heading."""
    at = 0
    while at < len(text):
        if heading := _HEADING.match(text, at):
            end = heading.end() + int(heading[3])
            yield heading[1], heading[4], text[heading.end() : end]
        else:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield text[at:end]
        assert text[end : end + 1] in ("", "\n")
        at = end + 1


def where_of(line: str) -> tuple[str, str, str] | None:
    """Size, path and checksum on a handle's line. A summary stands before them and a preview after them, so what
    either imitates is passed over."""
    found = _WHERE.findall(line)
    if not found:
        return None
    return found[0] if ", moved out of view: " in line.split("|")[0] else found[-1]


def blocks_in(line: str) -> list[str]:
    """The ids of the blocks that a line of the view stands for, [] where it is none."""
    label = _LABEL.match(line)
    ids = []
    for span in label[1].split(", ") if label else []:
        first, _, last = span.replace("B", "").partition("-")
        ids += [f"B{number}" for number in range(int(first), int(last or first) + 1)]
    return ids


def ledger(status: str) -> dict[str, Any]:
    """The numbers that a dashboard prints, and the sum of its rows."""
    used, parts, folded = _USED.search(status), _PARTS.search(status), _FOLDED.search(status)
    assert used
    assert parts
    rows = _ROW.findall(status)
    return {
        "bar": used[1],
        "percent": int(used[2]),
        "used": int(used[3]),
        "total": int(used[4]),
        "overhead": int(parts[1]),
        "conversation": int(parts[2]),
        "own": int(parts[3]),
        "rows": {row[0]: row[1:] for row in rows},
        "sum": sum(int(row[1]) for row in rows) + (int(folded[4]) if folded else 0),
    }


def filled(*sizes: int, **options: Any) -> Player:
    """A player after turns of so many words each."""
    player = Player(**options)
    player.fill(sizes)
    return player


def assert_ledger_is_gate(player: Player) -> None:
    """One and the same count: rows, overhead and dashboard are the rendered prompt, and it is what is printed."""
    rows = player.workspace.rows()
    printed = ledger(player.status)
    size = player.size
    assert sum(row.tokens for row in rows) + printed["overhead"] + printed["own"] == size
    assert printed["used"] == size
    assert printed["sum"] == printed["conversation"] == player.workspace.in_view
    assert printed["total"] == player.bench.budget.usable_tokens
    assert printed["overhead"] == player.bench.count(player.view[:1])
    assert printed["own"] == player.weigh(player.view[-1])


def forced(*sizes: int, **options: Any) -> Player:
    """A player who was just put into overflow mode by a forced compaction."""
    player = filled(*sizes, **options)
    assert isinstance(player.compact("forced"), Pending)
    return player
