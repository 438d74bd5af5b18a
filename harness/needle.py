"""The needle harness (NIH): a value is read once, work orders push it out of the window, then it is asked for.

A task is fixed by its seed and index alone: every random choice is drawn from SHA-256 over (seed,
index, purpose), so tasks are the same for every method, on every machine and whatever ``n_tasks``
is. Only the bulk of the pages depends on the page size. All texts are data (``conf/harness/needle.yaml``).
"""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from string import Template
from typing import Any, Literal, TypeVar

from arcbench.checks import one_of, whole
from arcbench.text import fill
from arcbench.types import Action, ConfigError, Environment, Harness, Json, Observation, Score, Step, Task
from harness.draw import Draw
from harness.files import File, Mounts
from harness.needle_settings import (
    Limits,
    Material,
    Page,
    Profile,
    Texts,
    alphabet_of,
    check_material,
    check_profile,
    check_texts,
    least_chars,
)
from harness.settings import fields_of, file_name_of, keys_of, mapping_of, text_of
from harness.shell import Shell

T = TypeVar("T")
SUBMIT_KEY = "NEEDLE="
GIVE_UP = "NONE"


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
        self.id = text_of("harness.id", id)
        self.seed = whole("seed", seed, 0)
        self.n_tasks = whole("harness.n_tasks", n_tasks, 1)
        self.profile_id = one_of("harness.profile", profile, mapping_of("harness.profiles", profiles))
        self.profile = fields_of(f"profiles.{profile}", Profile, profiles[profile])
        fewest, most = check_profile(f"profiles.{profile}", self.profile)
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
        self.file_name = file_name_of(file_name)
        self.limits = fields_of("limits", Limits, limits)
        for name in Limits.__dataclass_fields__:
            whole(f"harness.limits.{name}", getattr(self.limits, name), 1)
        self.page_size = fields_of("page", Page, page)
        least = self.limits.page_least
        if needles > 1:  # the facts stand on pages, which then must be as long as the file would be
            least = max(least, self.limits.fixture_above + self.limits.page_slack)
        whole("harness.page.chars", self.page_size.chars, least, self.limits.page_most)
        share = self.page_size.log_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"harness.page.log_share={share}: must be a number from 0 to 1")
        self.shell = Shell(**keys_of("shell", ("commands", "regex_timeout_s"), shell))
        if needles == 1 and "cat" not in shell["commands"]:
            raise ConfigError(f"harness.shell.commands={shell['commands']}: must have cat, which opens the file")
        self.manual = text_of("harness.manual", manual)
        self.texts = fields_of("texts", Texts, texts)
        check_texts(texts)
        self.material = fields_of("material", Material, material)
        check_material(self.material)
        self.alphabet = alphabet_of(alphabet)
        self.value_chars = whole("harness.value_chars", value_chars, 1)
        self.code_chars = whole("harness.code_chars", code_chars, 1)
        longest = max(len(before) + self.value_chars + len(after) for before, after in self._noise_shapes)
        self.noise_line_chars = whole("harness.noise_line_chars", noise_line_chars, longest)
        self.noise_lines_per_side = whole("harness.noise_lines_per_side", noise_lines_per_side, *self._noise_bounds())
        # so long that different ones are soon drawn, and none is guessed
        margin = whole("harness.code_margin", code_margin, 2)
        values = 2 * noise_lines_per_side + 1 if needles == 1 and noise == "codes" else needles
        whole("harness.value_chars", value_chars, least_chars(alphabet, margin * values))
        whole("harness.code_chars", code_chars, least_chars(alphabet, margin * most))

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
