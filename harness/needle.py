"""The needle harness (NIH): a value is read once, work orders push it out of the window, then it is asked for.

A task is fixed by its seed and index alone: every random choice is drawn from SHA-256 over (seed,
index, purpose), so tasks are the same for every method, on every machine and whatever ``n_tasks``
is. Only the bulk of the pages depends on the page size. All texts are data (``conf/harness/needle.yaml``).
"""

from __future__ import annotations

import hashlib
import re
import shlex
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from string import Template
from typing import Any, Literal, TypeVar

from arcbench.checks import one_of, template, whole
from arcbench.text import fill
from arcbench.types import Action, ConfigError, Environment, Harness, Json, Observation, Score, Step, Task
from harness.shell import File, Mounts, Shell, normal

T = TypeVar("T")
SUBMIT_KEY = "NEEDLE="
GIVE_UP = "NONE"
_FILE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)*")

# The places of each text, and those of a material's shapes that no list of choices fills.
TEXT_PLACES: Mapping[str, tuple[str, ...]] = {
    "prompt.file": ("file", "count", "opening", "reading", "early"),
    "prompt.records": ("count", "needles", "reveal", "early"),
    "opening.whole": (),
    "opening.parts": (),
    "reading.once": (),
    "reading.again": (),
    "early.refused": (),
    "early.accepted": (),
    "early.ends": (),
    "reveal.end": (),
    "asked": ("code",),
    "banner": ("value",),
    "noise.codes": ("phrase", "filler"),
    "noise.words": ("phrase", "filler"),
    "header": ("number", "count", "order"),
    "record": ("value",),
    "next_code": ("code",),
    "all_done": (),
    "next_command": ("command",),
    "notices.rotated": (),
    "notices.partial": ("file",),
    "notices.no_code": (),
    "notices.wrong_code": (),
    "notices.done": (),
    "notices.premature": ("left",),
    "notices.premature_last": (),
    "notices.usage": (),
    "notices.accepted": (),
    "notices.gave_up": (),
}
MADE_UP = ("time", "hex", "num", "ms")


@lru_cache
def _symbols(alphabet: str) -> tuple[bytes, bytes]:
    """The symbol of each byte, and the bytes to leave out so that no symbol is favoured."""
    size = len(alphabet)
    return bytes(ord(alphabet[byte % size]) for byte in range(256)), bytes(range(256 - 256 % size, 256))


class Draw:
    """Random choices, the same for the same key anywhere: SHA-256 of the key in counter mode."""

    def __init__(self, *key: str | int) -> None:
        self._key = hashlib.sha256("/".join(str(part) for part in key).encode())
        self._blocks = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if len(self._left) < count:
            parts = [self._left]
            for _ in range((count - len(self._left) + 31) // 32):
                block = self._key.copy()
                block.update(b"#%d" % self._blocks)
                parts.append(block.digest())
                self._blocks += 1
            self._left = b"".join(parts)
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound`` - 1, all alike: what would favour some is drawn again."""
        size = (bound.bit_length() + 7) // 8
        fair = 256**size - 256**size % bound
        while True:
            value = int.from_bytes(self.take(size), "big")
            if value < fair:
                return value % bound

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, all alike."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different ones, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def text(self, alphabet: str, length: int) -> str:
        """``length`` symbols of the alphabet (ASCII, at most 256), all alike."""
        table, unfair = _symbols(alphabet)
        text = b""
        while len(text) < length:
            text += self.take(length + length // 8 + 1).translate(table, unfair)
        return text[:length].decode("ascii")

    def codes(self, alphabet: str, length: int, count: int, *, but: Sequence[str] = ()) -> list[str]:
        """``count`` different texts, none of them in ``but``."""
        codes: dict[str, None] = {}
        while len(codes) < count:
            block = self.text(alphabet, length * (count - len(codes)))
            codes.update((block[i : i + length], None) for i in range(0, len(block), length))
            for code in but:
                codes.pop(code, None)
        return list(codes)

    def indices(self, bound: int, count: int) -> list[int]:
        """``count`` whole numbers below ``bound``, a power of two of at most 2**16."""
        return [word & (bound - 1) for word in struct.unpack(f">{count}H", self.take(2 * count))]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What one profile fixes: whether the file can be read again, how many work orders there are (a
    number, or the two ends of a range drawn per task), and what becomes of a ``submit`` before the
    last work order: ``refused`` (and counted), ``accepted`` as the answer, or it ``ends`` the episode."""

    rereadable: bool
    work_orders: int | Sequence[int]
    submit_early: str

    @property
    def orders(self) -> tuple[int, int]:
        """The fewest and the most work orders."""
        if isinstance(self.work_orders, int):
            return self.work_orders, self.work_orders
        return self.work_orders[0], self.work_orders[1]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Size of a work order's page in characters, and the share of it that is log text."""

    chars: int
    log_share: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes in characters that the file and the pages must keep to."""

    fixture_above: int
    fixture_below: int
    preview: int
    page_least: int
    page_most: int
    page_slack: int


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What the agent is told; the places of each text are named in the configuration."""

    prompt: Mapping[str, str]
    opening: Mapping[str, str]
    reading: Mapping[str, str]
    early: Mapping[str, str]
    reveal: Mapping[str, str]
    asked: str
    banner: str
    noise: Mapping[str, str]
    header: str
    record: str
    next_code: str
    all_done: str
    next_command: str
    notices: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Material:
    """What noise and pages are composed of: templates, and for each of their places a list of choices.
    The places ``time``, ``hex``, ``num`` and ``ms`` are made up."""

    pool_lines: int
    paragraph_sentences: int
    date: str
    orders: Sequence[str]
    noise: Sequence[str]
    prose: Mapping[str, Sequence[str]]
    log: Mapping[str, Sequence[str]]


class Pool:
    """Ready lines to draw from."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._sizes = [len(line) + 1 for line in lines]  # with the separator
        self._least = min(self._sizes)
        self._mean = sum(self._sizes) / len(lines)

    def pick(self, draw: Draw, chars: int) -> list[str]:
        """Different lines of together at most ``chars`` characters, in the order of the pool (of time)."""
        if chars < self._least:
            return []
        # a quarter more than needed on average, since lines differ and some are drawn twice: what is drawn beyond
        # the last line that fits changes nothing
        drawn = list(dict.fromkeys(draw.indices(len(self.lines), int(1.25 * chars / self._mean) + 8)))
        fit = bisect_right(list(accumulate([self._sizes[i] for i in drawn])), chars)
        return [self.lines[i] for i in sorted(drawn[:fit])]


class Needle(Harness):
    """Tasks, environment and scoring of the needle harness.

    Raises :class:`ConfigError` for a value that makes no sensible task.
    """

    def __init__(
        self,
        *,
        id: str,
        seed: int,
        n_tasks: int,
        profile: str,
        profiles: Mapping[str, Mapping[str, Any]],
        needles: int,
        reveal: Literal["start", "end"],
        position: Literal["random", "even"],
        noise: Literal["codes", "words"],
        noise_lines_per_side: int,
        noise_line_chars: int,
        read: Literal["whole", "parts"],
        guidance: Literal["none", "next_command"],
        turn_limit: int,
        call_limit: int,
        refusals_limit: int,
        page: Mapping[str, Any],
        file_name: str,
        alphabet: str,
        value_chars: int,
        code_chars: int,
        code_margin: int,
        limits: Mapping[str, int],
        shell: Mapping[str, Any],
        manual: str,
        texts: Mapping[str, Any],
        material: Mapping[str, Any],
    ) -> None:
        self.id = _text("harness.id", id)
        self.seed = whole("seed", seed, 0)
        self.n_tasks = whole("harness.n_tasks", n_tasks, 1)
        self.profile_id = one_of("harness.profile", profile, _mapping("harness.profiles", profiles))
        self.profile = _fields(f"profiles.{profile}", Profile, profiles[profile])
        fewest, most = _check_profile(f"profiles.{profile}", self.profile)
        self.needles = whole("harness.needles", needles, 1, fewest)
        self.reveal = one_of("harness.reveal", reveal, ("start", "end"))
        if needles == 1 and reveal == "end":
            raise ConfigError("harness.reveal=end: must be start with needles=1, whose file announces it")
        self.position = one_of("harness.position", position, ("random", "even"))
        self.noise = one_of("harness.noise", noise, ("codes", "words"))
        self.read = one_of("harness.read", read, ("whole", "parts"))
        self.guidance = one_of("harness.guidance", guidance, ("none", "next_command"))
        self.turn_limit = whole("harness.turn_limit", turn_limit, most + (2 if needles == 1 else 1))
        self.call_limit = whole("harness.call_limit", call_limit, self.turn_limit)
        self.refusals_limit = whole("harness.refusals_limit", refusals_limit, 1)
        self.file_name = _file_name(file_name)
        self.limits = _fields("limits", Limits, limits)
        for name in Limits.__dataclass_fields__:
            whole(f"harness.limits.{name}", getattr(self.limits, name), 1)
        self.page_size = _fields("page", Page, page)
        least = self.limits.page_least
        if needles > 1:  # the facts stand on pages, which then must be as long as the file would be
            least = max(least, self.limits.fixture_above + self.limits.page_slack)
        whole("harness.page.chars", self.page_size.chars, least, self.limits.page_most)
        share = self.page_size.log_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"harness.page.log_share={share}: must be a number from 0 to 1")
        self.shell = Shell(**_keys("shell", ("commands", "regex_timeout_s"), shell))
        if needles == 1 and "cat" not in shell["commands"]:
            raise ConfigError(f"harness.shell.commands={shell['commands']}: must have cat, which opens the file")
        self.manual = _text("harness.manual", manual)
        self.texts = _fields("texts", Texts, texts)
        _check_texts(texts)
        self.material = _fields("material", Material, material)
        _check_material(self.material)
        self.alphabet = _alphabet(alphabet)
        self.value_chars = whole("harness.value_chars", value_chars, 1)
        self.code_chars = whole("harness.code_chars", code_chars, 1)
        longest = max(len(before) + self.value_chars + len(after) for before, after in self._noise_shapes)
        self.noise_line_chars = whole("harness.noise_line_chars", noise_line_chars, longest)
        self.noise_lines_per_side = whole("harness.noise_lines_per_side", noise_lines_per_side, *self._noise_bounds())
        # so long that different ones are soon drawn, and none is guessed
        margin = whole("harness.code_margin", code_margin, 2)
        values = 2 * noise_lines_per_side + 1 if needles == 1 and noise == "codes" else needles
        whole("harness.value_chars", value_chars, _least_chars(alphabet, margin * values))
        whole("harness.code_chars", code_chars, _least_chars(alphabet, margin * most))

    # ------------------------------------------------------------------------------------ tasks

    def tasks(self) -> Sequence[Task]:
        """The planned tasks: those of a smaller ``n_tasks`` are the first of a larger one."""
        return [self.task(index) for index in range(self.n_tasks)]

    def task(self, index: int) -> Task:
        """The task of one index. Its ``facts``: the value asked for; all ``values``, the page (from 1)
        that each stands on (none for the file) and which is ``asked``; the ``codes`` of the work orders."""
        fewest, most = self.profile.orders
        orders = fewest + self._draw(index, "orders").below(most - fewest + 1)
        values = self._draw(index, "values").codes(self.alphabet, self.value_chars, self.needles)
        asked = self._draw(index, "asked").below(self.needles)
        facts = {
            "profile": self.profile_id,
            "value": values[asked],
            "values": values,
            "pages": self._fact_pages(index, orders) if self.needles > 1 else [],
            "asked": asked,
            "codes": self._draw(index, "codes").codes(self.alphabet, self.code_chars, orders),
        }
        task = Task(id=f"{self.id}/{self.seed}/{index}", seed=self.seed, index=index, prompt="", facts=facts)
        return replace(task, prompt=self._prompt(task))

    def open(self, task: Task) -> NeedleEnvironment:
        """A fresh environment for one episode."""
        return NeedleEnvironment(harness=self, task=task)

    def score(self, record: Mapping[str, Json]) -> Score:
        """``correct`` when the accepted submission is the asked value, character by character.
        ``carried`` counts the agent's replies, but the submitting one, that hold the value."""
        value = record["facts"]["value"]
        submitted = record["ending"] == "submitted"
        turns = record["turns"][:-1] if submitted else record["turns"]
        carried = sum(value in record["messages"][turn["reply"]]["content"] for turn in turns)
        return Score(correct=submitted and record["submission"] == value, measures={"carried": carried})

    def describe(self) -> Mapping[str, Json]:
        """What the configuration comes to, for the manifest."""
        return {
            "profile": self.profile_id,
            "work_orders": list(self.profile.orders),
            "fixture_chars": len(self.secrets(self.task(0))) if self.needles == 1 else 0,
        }

    # ------------------------------------------------------------------------------ what is read

    def secrets(self, task: Task) -> str:
        """The file with the needle (of a task with one), between its noise lines."""
        draw = self._draw(task.index, "noise")
        count = 2 * self.noise_lines_per_side
        shapes = [draw.choice(self._noise_shapes) for _ in range(count)]
        if self.noise == "codes":
            fillers = draw.codes(self.alphabet, self.value_chars, count, but=task.facts["values"])
        else:
            # the words of the prose, which look like no code
            words = self.pools["prose"].lines
            fillers = [words[i][: self.value_chars].rpartition(" ")[0] for i in draw.indices(len(words), count)]
        marked = [
            f"{before}{filler}{after}".ljust(self.noise_line_chars, ".")
            for (before, after), filler in zip(shapes, fillers, strict=True)
        ]
        banner = fill(self.texts.banner, value=task.facts["value"]).rstrip("\n")
        half = self.noise_lines_per_side
        return "\n".join((*marked[:half], banner, *marked[half:])) + "\n"

    def page(self, task: Task, number: int) -> str:
        """What the work order ``number`` (from 1) shows: at most ``page.chars`` characters, the closing
        lines included. A fact stands on a line of its own in the middle."""
        facts = task.facts
        draw = self._draw(task.index, f"page {number}")
        count = len(facts["codes"])
        header = fill(self.texts.header, number=number, count=count, order=draw.choice(self.material.orders))
        closing = self.closing(task, number)
        fact = []
        if number in facts["pages"]:
            fact = [fill(self.texts.record, value=facts["values"][facts["pages"].index(number)])]
        room = self.page_size.chars - sum(len(line) + 1 for line in (header, *fact)) - len(closing)
        log = self.pools["log"].pick(draw, int(room * self.page_size.log_share))
        prose = self.pools["prose"].pick(draw, room - sum(len(line) + 1 for line in log))
        early, late = self._paragraphs(prose[: len(prose) // 2]), self._paragraphs(prose[len(prose) // 2 :])
        half = len(log) // 2
        return "\n".join((header, *early, *log[:half], *fact, *log[half:], *late, closing))

    def closing(self, task: Task, done: int, *, opened: bool = True) -> str:
        """The lines that end an observation and say where the protocol stands: the code of the next work
        order, or that all are done (and, when it is revealed at the end, what is asked for)."""
        lines = []
        if done < len(task.facts["codes"]):
            lines.append(fill(self.texts.next_code, code=task.facts["codes"][done]))
        else:
            if self.reveal == "end":
                lines.append(self.question(task))
            lines.append(self.texts.all_done)
        return "\n".join((*lines, *self.hint(task, done, opened=opened)))

    def hint(self, task: Task, done: int, *, opened: bool) -> list[str]:
        """With ``guidance=next_command``, the line that names the next command (never the value)."""
        if self.guidance == "none":
            return []
        if not opened:
            command = f"cat {self.file_name}"
        elif done < len(task.facts["codes"]):
            command = f"next {task.facts['codes'][done]}"
        else:
            command = f"submit {SUBMIT_KEY}<value>"
        return [fill(self.texts.next_command, command=command)]

    def question(self, task: Task) -> str:
        """Which of several facts is asked for: named by the command that opened its page, which the page
        itself does not repeat."""
        page = task.facts["pages"][task.facts["asked"]]
        return fill(self.texts.asked, code=task.facts["codes"][page - 1])

    @cached_property
    def pools(self) -> Mapping[str, Pool]:
        """The lines that pages are drawn from, composed once."""
        return {
            "log": self._pool("log", self.material.log, self.material.date),
            "prose": self._pool("prose", self.material.prose, self.material.date),
        }

    # ----------------------------------------------------------------------------------- details

    def _draw(self, index: int, purpose: str) -> Draw:
        return Draw("needle", self.seed, index, purpose)

    def _prompt(self, task: Task) -> str:
        count = len(task.facts["codes"])
        early = self.texts.early[self.profile.submit_early].strip()
        if self.needles == 1:
            opening = self.texts.opening[self.read].strip()
            reading = self.texts.reading["again" if self.profile.rereadable else "once"].strip()
            prompt = fill(
                self.texts.prompt["file"],
                file=self.file_name,
                count=count,
                opening=opening,
                reading=reading,
                early=early,
            )
            return "\n".join((prompt.rstrip("\n"), *self.hint(task, 0, opened=False)))
        reveal = self.question(task) if self.reveal == "start" else self.texts.reveal["end"].strip()
        prompt = fill(self.texts.prompt["records"], count=count, needles=self.needles, reveal=reveal, early=early)
        return prompt.rstrip("\n") + "\n" + self.closing(task, 0)

    def _fact_pages(self, index: int, orders: int) -> list[int]:
        """The pages (from 1) of the facts, rising."""
        if self.position == "even":
            return [(2 * i + 1) * orders // (2 * self.needles) + 1 for i in range(self.needles)]
        return sorted(self._draw(index, "pages").sample(range(1, orders + 1), self.needles))

    @cached_property
    def _noise_shapes(self) -> Sequence[tuple[str, str]]:
        """What stands before and after the code or words of a noise line, for each phrase."""
        filled = [fill(self.texts.noise[self.noise], phrase=phrase, filler="\0") for phrase in self.material.noise]
        return [(before, after) for before, _, after in (line.partition("\0") for line in filled)]

    def _noise_bounds(self) -> tuple[int, int]:
        """Fewest and most noise lines a side that keep the file's size and the needle's distance from its ends."""
        line = self.noise_line_chars + 1
        banner = fill(self.texts.banner, value="X" * self.value_chars)
        inner = len(banner.rstrip("\n")) + 1
        fewest = max((self.limits.fixture_above - inner) // (2 * line) + 1, self.limits.preview // line + 1)
        # the loop cuts the middle of what is too long, the needle: so the closing lines must fit beside the file
        code = "X" * self.code_chars
        closing = (fill(self.texts.next_code, code=code), fill(self.texts.next_command, command=f"next {code}"))
        room = self.limits.fixture_below - 1 - inner - sum(len(text) + 1 for text in closing)
        return fewest, room // (2 * line)

    def _paragraphs(self, sentences: Sequence[str]) -> list[str]:
        """Sentences, several on a line; a space between two costs what a line end does."""
        size = self.material.paragraph_sentences
        return [" ".join(sentences[i : i + size]) for i in range(0, len(sentences), size)]

    def _pool(self, kind: str, material: Mapping[str, Sequence[str]], date: str) -> Pool:
        draw = Draw("needle", self.seed, "pool", kind)
        shapes = [(Template(shape), Template(shape).get_identifiers()) for shape in material["shapes"]]
        count = self.material.pool_lines
        day_ms = 24 * 60 * 60 * 1000
        lines = []
        for i in range(count):
            shape, places = draw.choice(shapes)
            values: dict[str, object] = {}
            for place in places:
                # the ranges of what is made up only make it look like a log
                if place == "time":
                    # rising, so that log lines in the order of the pool are in the order of time
                    clock = (i * day_ms + draw.below(day_ms)) // count
                    seconds, ms = divmod(clock, 1000)
                    minutes, s = divmod(seconds, 60)
                    values[place] = f"{date}T{minutes // 60:02d}:{minutes % 60:02d}:{s:02d}.{ms:03d}Z"
                elif place == "hex":
                    values[place] = draw.take(4).hex()
                elif place == "num":
                    values[place] = draw.below(10_000)
                elif place == "ms":
                    values[place] = draw.below(1_000)
                else:
                    values[place] = draw.choice(material[place])
            line = shape.substitute(values)
            lines.append(line[0].upper() + line[1:])
        return Pool(lines)


class NeedleEnvironment(Environment):
    """One needle task being played. It knows the agent's commands and nothing else: what an observation
    quotes is never obeyed and never scored."""

    def __init__(self, *, harness: Needle, task: Task) -> None:
        self._harness = harness
        self._task = task
        self._codes: Sequence[str] = task.facts["codes"]
        self._notices = harness.texts.notices
        self._mounts = Mounts()
        self._needs_file = harness.needles == 1
        self._opened = not self._needs_file
        self._done = 0
        self._premature = 0
        self._malformed = 0
        self._wrong_codes = 0
        self._refused_rereads = 0
        self._partial_reads = 0

    def answer(self, action: Action, mounts: Mapping[str, str]) -> Step:
        """Run one action."""
        if action.name == "next":
            return self._next(action.argument)
        if action.name == "submit":
            return self._submit(action.argument)
        return Step(self._command(action, mounts))

    def counters(self) -> Mapping[str, int]:
        """Work orders done, and what was refused: early and malformed submissions, codes, second readings,
        readings in part."""
        return {
            "orders_done": self._done,
            "premature_submissions": self._premature,
            "malformed_submissions": self._malformed,
            "wrong_codes": self._wrong_codes,
            "refused_rereads": self._refused_rereads,
            "partial_reads": self._partial_reads,
        }

    @cached_property
    def _files(self) -> Mapping[str, File]:
        if not self._needs_file:
            return {}
        return {self._harness.file_name: File(self._harness.secrets(self._task))}

    def _command(self, action: Action, mounts: Mapping[str, str]) -> Observation:
        files = {**self._mounts.files(mounts), **self._files}
        result = self._harness.shell.run(action, files, also=("next", "submit"))
        seen = result.observation
        if not self._needs_file or self._harness.file_name not in result.opened:
            return self._hinted(seen)
        if self._opened and not self._harness.profile.rereadable:
            self._refused_rereads += 1
            return self._notice("rotated")
        whole = action.name == "cat" and result.opened == (self._harness.file_name,)
        if self._harness.read == "whole" and not whole:
            # a part that is short enough to be kept verbatim would never leave the view
            self._partial_reads += 1
            return self._notice("partial", file=self._harness.file_name)
        self._opened = True
        # any reading, where it may be one in part an empty one too, tells the code: else a strict task could not go on
        closing = self._harness.closing(self._task, self._done)
        return replace(seen, text=seen.text + ("\n" if seen.text and seen.text[-1] != "\n" else "") + closing)

    def _next(self, argument: str) -> Step:
        words = _words(argument)
        if self._done == len(self._codes):
            text = f"{self._notices['done']}\n{self._harness.closing(self._task, self._done)}"
            return Step(Observation(text, returncode=1))
        if len(words) != 1:
            return Step(self._notice("no_code", returncode=2))
        if words[0] != self._codes[self._done]:
            self._wrong_codes += 1
            return Step(self._notice("wrong_code"))
        self._done += 1
        return Step(Observation(self._harness.page(self._task, self._done)))

    def _submit(self, argument: str) -> Step:
        """``NEEDLE=<value>`` with one value is the answer, and only that value can be right. A first
        ``NEEDLE=<value>`` followed by more is an answer too, and always wrong. All else submits nothing."""
        words = _words(argument)
        if words == [GIVE_UP]:
            return Step(Observation(self._notices["gave_up"]), ending="gave_up")
        if not words or not words[0].startswith(SUBMIT_KEY) or words[0] == SUBMIT_KEY:
            self._malformed += 1
            return Step(self._notice("usage", returncode=2))
        early = self._harness.profile.submit_early
        if self._done < len(self._codes) and early != "accepted":
            self._premature += 1
            if early == "ends" or self._premature >= self._harness.refusals_limit:
                return Step(Observation(self._notices["premature_last"], returncode=1), ending="premature")
            return Step(self._notice("premature", left=len(self._codes) - self._done))
        submission = " ".join(words)[len(SUBMIT_KEY) :]
        return Step(Observation(self._notices["accepted"]), ending="submitted", submission=submission)

    def _notice(self, name: str, *, returncode: int = 1, **values: object) -> Observation:
        return self._hinted(Observation(fill(self._notices[name], **values), returncode=returncode))

    def _hinted(self, seen: Observation) -> Observation:
        hint = self._harness.hint(self._task, self._done, opened=self._opened)
        return replace(seen, text="\n".join(([seen.text] if seen.text else []) + hint)) if hint else seen


def _words(argument: str) -> list[str]:
    """The words of a command's argument as a shell reads them; with a quote left open, as they stand."""
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()


def _fields(key: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass of these values; a missing or unknown key is named."""
    return kind(**_keys(key, list(kind.__dataclass_fields__), values))  # type: ignore[attr-defined]


def _keys(key: str, known: Sequence[str], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """These values, which must be a mapping of just the known keys."""
    for name in (*_mapping(f"harness.{key}", values), *known):
        if name not in known:
            raise ConfigError(f"harness.{key}.{name}={values[name]}: unknown key, must be one of {', '.join(known)}")
        if name not in values:
            raise ConfigError(f"harness.{key}.{name}: missing, must be given")
    return values


def _mapping(key: str, values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{key}={values!r}: must be a mapping")
    return values


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key}={value!r}: must be a text")
    return value


def _list(key: str, values: object) -> Sequence[str]:
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"{key}={values!r}: must be a list of texts")
    for i, value in enumerate(values):
        _text(f"{key}[{i}]", value)
    return values


def _file_name(value: object) -> str:
    """A name that every command takes as it stands, and that has no other form."""
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value) or normal(value) != value:
        raise ConfigError(f"harness.file_name={value!r}: must be a plain path of letters, digits and . _ - /")
    return value


def _alphabet(value: object) -> str:
    plain = isinstance(value, str) and value.isascii() and value.isalnum()
    if not isinstance(value, str) or not plain or not 1 < len(value) == len(set(value)):
        raise ConfigError(f"harness.alphabet={value!r}: must be at least 2 different letters and digits (ASCII)")
    return value


def _least_chars(alphabet: str, count: int) -> int:
    """The shortest length of which there are so many codes."""
    chars = 1
    while len(alphabet) ** chars < count:
        chars += 1
    return chars


def _check_texts(texts: Mapping[str, Any]) -> None:
    """Each text with just its places; a group has no other texts."""
    groups: dict[str, list[str]] = {}
    for path in TEXT_PLACES:
        group, _, name = path.partition(".")
        groups.setdefault(group, []).extend([name] if name else [])
    for group, names in groups.items():
        for name in _keys(f"texts.{group}", names, texts[group]) if names else [""]:
            path = f"{group}.{name}".rstrip(".")
            template(f"harness.texts.{path}", texts[group][name] if name else texts[group], *TEXT_PLACES[path])


def _check_material(material: Material) -> None:
    """Lists of texts, and a list for each place of a shape."""
    lines = whole("harness.material.pool_lines", material.pool_lines, 2, 2**16)
    if lines & (lines - 1):
        raise ConfigError(f"harness.material.pool_lines={lines}: must be a power of two")
    whole("harness.material.paragraph_sentences", material.paragraph_sentences, 1)
    _text("harness.material.date", material.date)
    _list("harness.material.orders", material.orders)
    _list("harness.material.noise", material.noise)
    for kind, choices in (("prose", material.prose), ("log", material.log)):
        key = f"harness.material.{kind}"
        for name in _mapping(key, choices):
            _list(f"{key}.{name}", choices[name])
        allowed = ", ".join("$" + name for name in (*MADE_UP, *choices) if name != "shapes")
        for i, shape in enumerate(_list(f"{key}.shapes", choices.get("shapes"))):
            parsed = Template(shape)
            places = parsed.get_identifiers() if parsed.is_valid() else ["shapes"]
            if not all(place in MADE_UP or (place in choices and place != "shapes") for place in places):
                raise ConfigError(f"{key}.shapes[{i}]={shape!r}: must be a text with no places but {allowed}")


def _check_profile(key: str, profile: Profile) -> tuple[int, int]:
    """The fewest and the most work orders of a sound profile."""
    orders = profile.work_orders
    ends: list[Any] = list(orders) if isinstance(orders, list | tuple) else [orders, orders]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if not whole or len(ends) != 2 or not 1 <= ends[0] <= ends[1]:
        raise ConfigError(f"harness.{key}.work_orders={orders}: must be a whole number of at least 1, or [least, most]")
    if not isinstance(profile.rereadable, bool):
        raise ConfigError(f"harness.{key}.rereadable={profile.rereadable}: must be true or false")
    one_of(f"harness.{key}.submit_early", profile.submit_early, ("refused", "accepted", "ends"))
    return profile.orders
