"""The letter: a seal stands at the top of a long letter, errands push it out of the window, then it is asked for.

A harness of one's own, whole: ``docs/extend.md`` goes through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arcbench.checks import template, whole
from arcbench.text import fill
from arcbench.types import Action, Environment, Harness, Json, Observation, Score, Step, Task
from harness.draw import Draw
from harness.files import File, Mounts
from harness.settings import keys_of, list_of, text_of
from harness.shell import Shell

ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
FILE = "letter.txt"
PLACES = {
    "prompt": ("errands",), "letter": ("seal",), "errand": ("number",), "next": ("code",), "done": (), "burnt": (),
    "early": (), "wrong": ("code",), "usage": (), "accepted": (),
}  # fmt: skip
"""The texts, and the places in each."""


class Letter(Harness):
    """Tasks, environment and scoring. Every task is fixed by its seed and index. Raises :class:`ConfigError`."""

    def __init__(
        self,
        *,
        id: str,
        seed: int,
        n_tasks: int,
        errands: int,
        letter_lines: int,
        errand_lines: int,
        turn_limit: int,
        call_limit: int,
        shell: Mapping[str, Json],
        manual: str,
        lines: Sequence[str],
        texts: Mapping[str, str],
    ) -> None:
        self.id = text_of("harness.id", id)
        self.seed = whole("seed", seed, 0)
        self.n_tasks = whole("harness.n_tasks", n_tasks, 1)
        self.errands = whole("harness.errands", errands, 1)
        self.letter_lines = whole("harness.letter_lines", letter_lines, 1)
        self.errand_lines = whole("harness.errand_lines", errand_lines, 1)
        self.turn_limit = whole("harness.turn_limit", turn_limit, errands + 2)  # the letter, the errands, the answer
        self.call_limit = whole("harness.call_limit", call_limit, turn_limit)
        self.shell = Shell(**keys_of("shell", ("commands", "regex_timeout_s"), shell))
        self.manual = text_of("harness.manual", manual)
        self.lines = list_of("harness.lines", lines)
        keys_of("texts", list(PLACES), texts)
        self.texts = {key: template(f"harness.texts.{key}", texts[key], *PLACES[key]) for key in PLACES}

    def tasks(self) -> Sequence[Task]:
        """The planned tasks: those of a smaller ``n_tasks`` are the first of a larger one."""
        return [self._task(index) for index in range(self.n_tasks)]

    def open(self, task: Task) -> LetterEnvironment:
        """A fresh environment for one episode."""
        return LetterEnvironment(self, task)

    def score(self, record: Mapping[str, Json]) -> Score:
        """``correct`` when the seal was handed in; a pure function of the record."""
        return Score(correct=record["ending"] == "submitted" and record["submission"] == record["facts"]["value"])

    def describe(self) -> Mapping[str, Json]:
        """For the manifest."""
        return {"errands": self.errands}

    def _task(self, index: int) -> Task:
        draw = Draw(self.id, self.seed, index)
        seal, *codes = draw.codes(ALPHABET, 8, self.errands + 1)
        return Task(
            id=f"{self.id}/{self.seed}/{index}",
            seed=self.seed,
            index=index,
            prompt=fill(self.texts["prompt"], errands=self.errands).rstrip("\n"),
            facts={"value": seal, "codes": codes},
        )

    def letter(self, task: Task) -> str:
        """The file."""
        return fill(self.texts["letter"], seal=task.facts["value"]) + self._filler(task, "letter", self.letter_lines)

    def errand(self, task: Task, number: int) -> str:
        """What is seen on the errand of this number (from 1)."""
        return fill(self.texts["errand"], number=number) + self._filler(task, f"errand {number}", self.errand_lines)

    def _filler(self, task: Task, purpose: str, count: int) -> str:
        draw = Draw(self.id, self.seed, task.index, purpose)
        return "".join(f"{draw.choice(self.lines)}\n" for _ in range(count))


class LetterEnvironment(Environment):
    """One task being played."""

    def __init__(self, harness: Letter, task: Task) -> None:
        self._harness = harness
        self._task = task
        self._texts = harness.texts
        self._mounts = Mounts()
        self._read = False
        self._done = 0
        self._early = 0

    def answer(self, action: Action, mounts: Mapping[str, str]) -> Step:
        """Run one action; files that a method offers can be read like the letter."""
        if action.name == "next":
            return Step(self._next(action.argument))
        if action.name == "submit":
            return self._submit(action.argument)
        files = {**self._mounts.files(mounts), FILE: File(self._harness.letter(self._task))}
        result = self._harness.shell.run(action, files, also=("next", "submit"))
        seen = result.observation
        if FILE not in result.opened:
            return Step(seen)
        if self._read:
            return Step(Observation(self._texts["burnt"], returncode=1))
        self._read = True
        return Step(Observation(seen.text.rstrip("\n") + "\n" + self._closing()))

    def counters(self) -> Mapping[str, int]:
        """Errands done, and submissions that came too early."""
        return {"errands_done": self._done, "early_submissions": self._early}

    def _closing(self) -> str:
        codes = self._task.facts["codes"]
        return fill(self._texts["next"], code=codes[self._done]) if self._done < len(codes) else self._texts["done"]

    def _next(self, code: str) -> Observation:
        codes = self._task.facts["codes"]
        if self._done == len(codes) or code != codes[self._done]:
            return Observation(fill(self._texts["wrong"], code=code), returncode=1)
        self._done += 1
        return Observation(self._harness.errand(self._task, self._done) + self._closing())

    def _submit(self, argument: str) -> Step:
        name, _, value = argument.partition("=")
        if self._done < len(self._task.facts["codes"]):
            self._early += 1
            return Step(Observation(self._texts["early"], returncode=1))
        if argument == "NONE":
            return Step(Observation(self._texts["accepted"]), ending="gave_up")
        if name != "NEEDLE" or not value:
            return Step(Observation(self._texts["usage"], returncode=2))
        return Step(Observation(self._texts["accepted"]), ending="submitted", submission=value)
