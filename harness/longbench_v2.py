"""LongBench-v2, hard subset: a multiple-choice question about a document of up to millions of characters.

How the document gets to the agent is the ``delivery``: ``files`` (it reads the document by commands), ``replay``
(its history is the whole document paged through, then the question is asked), or a single prompt without an agent
(the reference rows and the benchmark's own protocol, :mod:`harness.longbench_single`). Texts and numbers are data
(``conf/harness/longbench_v2_hard.yaml``); the rows come from :mod:`harness.longbench_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload
from weakref import WeakValueDictionary

from arcbench.checks import one_of, template, whole
from arcbench.text import fill
from arcbench.types import Action, ConfigError, Desk, Environment, Harness, Json, Observation, Past, Score, Step, Task
from harness.files import File, Mounts, normal
from harness.longbench_quotes import Quotes
from harness.longbench_rows import LETTERS, Row, Rows, from_file, from_hub
from harness.longbench_single import Prompt, ask, pinned
from harness.settings import file_name_of, keys_of, mapping_of, text_of
from harness.shell import Shell

CHOICES = tuple(f"choice_{letter.lower()}" for letter in LETTERS)
TEXT_PLACES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", *CHOICES),
    "files": ("question", "file", "chars", "lines", "chunks", "chunk_chars", "commands"),
    "replay": ("chars", "chunks", "commands"),
    "chunk": ("index", "chunks"),
    "answer_now": ("left",),
    "no_chunk": ("chunks",),
    "chunk_usage": ("chunks",),
    "closed": (),
    "submit_usage": (),
    "next_command": ("command",),
    "accepted": (),
}
_SUBMISSION = re.compile(r"ANSWER=([A-D])")
_NUMBER = re.compile(r"[0-9]{1,9}")
SUBMIT = "submit ANSWER=<A-D>"
OFFICIAL_KEYS = ("folder", "address", "commit", "files")


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What an agent's delivery fixes: most environment actions, most calls, and its commands for the prompt."""

    turn_limit: int
    call_limit: int
    manual: str


class Document:
    """A row's context as a file, and its chunks: chunk 1 ends where chunk 2 begins, and so on."""

    def __init__(self, row: Row, chunk_chars: int) -> None:
        self.file = File(row.text())
        self.bounds = row.bounds(chunk_chars)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return len(self.bounds) - 1

    def chunk(self, number: int) -> str:
        """Chunk ``number`` (from 1), an exact slice."""
        return self.file.text[self.bounds[number - 1] : self.bounds[number]]


class Pages(Sequence[Past]):
    """A history: the document paged through, chunk after chunk, then the question. Each turn is made when it is
    asked for, so that a task costs nothing before it is played."""

    def __init__(self, harness: LongBench, row: Row) -> None:
        self._harness = harness
        self._row = row

    def __len__(self) -> int:
        return len(self._row.bounds(self._harness.chunk_chars))

    @overload
    def __getitem__(self, index: int) -> Past: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Past]: ...
    def __getitem__(self, index: int | slice) -> Past | Sequence[Past]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(1, len(self) + 1)[index]
        if number == len(self):
            return Past(_fenced("question"), self._harness.question(self._row))
        document = self._harness.document(self._row)
        return Past(_fenced(f"chunk {number}"), self._harness.page(self._row, document, number))

    def __iter__(self) -> Iterator[Past]:
        document = self._harness.document(self._row)  # kept, or each turn would decode it again
        for index in range(len(self)):
            yield self[index]
        del document


class LongBench(Harness):
    """Tasks, environment and scoring. Raises :class:`ConfigError` for bad data, files or settings.

    ``n_tasks``: so many of the rows in the chosen ``order`` (``dataset``, or ``shortest`` document first), None: all.
    A task's id and index do not depend on either. Seeds vary the sampling only.
    """

    def __init__(
        self,
        *,
        id: str,
        seed: int,
        n_tasks: int | None,
        order: str,
        delivery: str,
        profile: str,
        hub_id: str,
        revision: str,
        split: str,
        hard_rows: int,
        data_files: str | None,
        sha256: str | None,
        file_name: str,
        chunk_chars: int,
        chunk_most: int,
        answer_now_commands: int,
        guidance: str,
        guided_chunks: int,
        force_at_calls: Sequence[int],
        thinking: bool,
        method: str,
        single_method: str,
        deliveries: Mapping[str, Mapping[str, Any]],
        single: Mapping[str, Sequence[Mapping[str, Any]]],
        official: Mapping[str, Any],
        shell: Mapping[str, Any],
        texts: Mapping[str, str],
    ) -> None:
        self.id = text_of("harness.id", id)
        self.seed = whole("seed", seed, 0)
        self.n_tasks = None if n_tasks is None else whole("harness.n_tasks", n_tasks, 1)
        self.order = one_of("harness.order", order, ("dataset", "shortest"))
        mapping_of("harness.deliveries", deliveries)
        mapping_of("harness.single", single)
        self.delivery = one_of("harness.delivery", delivery, (*deliveries, *single))
        one_of("harness.profile", profile, (self.delivery,))
        self.file_name = file_name_of(file_name)
        self.chunk_chars = whole("harness.chunk_chars", chunk_chars, 1, whole("harness.chunk_most", chunk_most, 1))
        self.answer_now_commands = whole("harness.answer_now_commands", answer_now_commands, 0)
        self.guidance = one_of("harness.guidance", guidance, ("none", "next_command"))
        self.guided_chunks = whole("harness.guided_chunks", guided_chunks, 1)
        self.thinking = thinking
        if delivery == "replay" and force_at_calls:
            raise ConfigError(
                f"budget.force_at_calls={list(force_at_calls)}: must be [] with harness.delivery=replay, whose history "
                "brings its own compactions"
            )
        if delivery in single and method != single_method:
            raise ConfigError(
                f"method={method}: must be {single_method} with harness.delivery={delivery}, which has no agent whose "
                "context a method could manage"
            )
        self.shell = Shell(**keys_of("shell", ("commands", "regex_timeout_s"), shell))
        keys_of("texts", tuple(TEXT_PLACES), texts)
        self.texts = {key: template(f"harness.texts.{key}", texts[key], *places) for key, places in TEXT_PLACES.items()}
        self.prompts = self._prompts(single, keys_of("official", OFFICIAL_KEYS, official))
        if self.prompts:
            self.turn_limit, self.call_limit, self.manual = 1, len(self.prompts), ""
        else:
            key = f"harness.deliveries.{delivery}"
            told = Delivery(
                **keys_of(f"deliveries.{delivery}", list(Delivery.__dataclass_fields__), deliveries[delivery])
            )
            self.turn_limit = whole(f"{key}.turn_limit", told.turn_limit, 1)
            self.call_limit = whole(f"{key}.call_limit", told.call_limit, told.turn_limit)
            self.manual = text_of(f"{key}.manual", told.manual)
        self.data_files = data_files
        self.rows = _rows(data_files, hub_id, revision, split, hard_rows)
        if sha256 is not None and sha256 != self.rows.sha256:
            raise ConfigError(f"harness.sha256={sha256}: the rows of {data_files or hub_id} have {self.rows.sha256}")
        if self.n_tasks is not None and self.n_tasks > len(self.rows.hard):
            raise ConfigError(
                f"harness.n_tasks={n_tasks}: must be null (all), or at most {len(self.rows.hard)}, the hard rows of "
                f"{data_files or hub_id}"
            )
        self._by_id = {row.id: row for row in self.rows.hard}
        self._documents: WeakValueDictionary[str, Document] = WeakValueDictionary()

    # ------------------------------------------------------------------------------------------ tasks

    def tasks(self) -> Sequence[Task]:
        """The planned tasks: those of a smaller ``n_tasks`` are the first of a larger one."""
        rows = list(self.rows.hard)
        if self.order == "shortest":
            rows.sort(key=lambda row: (row.chars, row.id))
        return [self.task(row) for row in rows[: self.n_tasks]]

    def task(self, row: Row) -> Task:
        """The task of one row. Its ``facts``: the row's id, its ``answer``, what breakdowns are by, and the
        document by size and hash."""
        facts = {
            "row": row.id,
            "answer": row.answer,
            "delivery": self.delivery,
            "domain": row.domain,
            "sub_domain": row.sub_domain,
            "length": row.length,
            "context_sha256": row.context_sha256,
            "context_chars": row.chars,
            "chunk_chars": self.chunk_chars,
        }
        return Task(
            id=f"{self.id}/{row.id}",
            seed=self.seed,
            index=row.index,
            prompt=self._prompt(row),
            facts=facts,
            history=Pages(self, row) if self.delivery == "replay" else (),
        )

    def open(self, task: Task) -> LongBenchEnvironment:
        """A fresh environment for one episode."""
        return LongBenchEnvironment(harness=self, row=self._by_id[task.facts["row"]])

    async def ask(self, task: Task, desk: Desk) -> Step | None:
        """With a delivery by single prompts: put them, and the answer is the last step. None: an agent plays."""
        if not self.prompts:
            return None
        return await ask(self._by_id[task.facts["row"]], self.prompts, desk, thinking=self.thinking)

    def quotes(self, facts: Mapping[str, Json]) -> Quotes | None:
        """What packs the messages of an episode with these ``facts`` for its record, and unpacks them again; None
        for facts of no row. Raises :class:`ConfigError` when the data here is not what was played."""
        if "row" not in facts:
            return None
        row = self._by_id.get(facts["row"])
        if row is None or row.context_sha256 != facts["context_sha256"]:
            raise ConfigError(
                f"harness.data_files={self.data_files}: has no row {facts['row']} with the context that was played "
                f"(SHA-256 {facts['context_sha256']})"
            )
        return Quotes(lambda: self.document(row).file.text, lambda: row.bounds(facts["chunk_chars"]))

    def score(self, record: Mapping[str, Json]) -> Score:
        """``correct`` when the one letter that was submitted is the answer's. A failed episode has none."""
        submitted = record["ending"] == "submitted"
        return Score(correct=submitted and record["submission"] == record["facts"]["answer"])

    def describe(self) -> Mapping[str, Json]:
        """What the data is: counts, hashes, rows that are missing, and what a constant answer would score on the
        planned tasks."""
        return {
            "delivery": self.delivery,
            **self.rows.describe(),
            "constant": reference_scores(task.facts for task in self.tasks()),
        }

    # ----------------------------------------------------------------------------------- what is shown

    def document(self, row: Row) -> Document:
        """The row's document; decoded once while anything uses it."""
        document = self._documents.get(row.context_sha256)
        if document is None:
            document = self._documents[row.context_sha256] = Document(row, self.chunk_chars)
        return document

    def page(self, row: Row, document: Document, number: int) -> Observation:
        """What ``chunk NUMBER`` shows."""
        note = fill(self.texts["chunk"], index=number, chunks=document.chunks)
        return Observation(document.chunk(number), note=note, escaped=row.escaped)

    def question(self, row: Row) -> Observation:
        """Question and choices, never cut."""
        return self.guided(Observation(self._asked(row), exact=True), SUBMIT)

    def guided(self, seen: Observation, command: str) -> Observation:
        """With ``guidance=next_command``: what is seen, ending by naming the next command (never the letter)."""
        if self.guidance == "none":
            return seen
        return replace(seen, text=f"{seen.text}\n{fill(self.texts['next_command'], command=command)}")

    def _asked(self, row: Row) -> str:
        choices = dict(zip(CHOICES, (choice.strip() for choice in row.choices), strict=True))
        return fill(self.texts["question"], question=row.question.strip(), **choices).rstrip("\n")

    def _prompt(self, row: Row) -> str:
        if self.prompts:
            return ""
        chunks = len(row.bounds(self.chunk_chars)) - 1
        sizes = {"chars": row.chars, "chunks": chunks, "commands": self.turn_limit}
        if self.delivery == "replay":
            return fill(self.texts["replay"], **sizes).rstrip("\n")
        more = {"question": self._asked(row), "file": self.file_name, "chunk_chars": self.chunk_chars}
        prompt = fill(self.texts["files"], lines=row.lines, **sizes, **more).rstrip("\n")
        return self.guided(Observation(prompt), "chunk 1").text

    def _prompts(
        self, single: Mapping[str, Sequence[Mapping[str, Any]]], official: Mapping[str, Any]
    ) -> Sequence[Prompt]:
        """The calls of a delivery by single prompts; empty for one with an agent."""
        made: list[Prompt] = []
        for i, call in enumerate(single.get(self.delivery, ())):
            key = f"single.{self.delivery}[{i}]"
            if "file" in call:
                keys_of(key, ("file", "max_tokens"), call)
                name = one_of(
                    f"harness.{key}.file", call["file"], mapping_of("harness.official.files", official["files"])
                )
                text = pinned(official["folder"], {name: official["files"][name]})[name]
                cut = ""  # the benchmark's own script joins the two ends
            else:
                keys_of(key, ("text", "max_tokens", "cut"), call)
                text = text_of(f"harness.{key}.text", call["text"])
                cut = text_of(f"harness.{key}.cut", call["cut"])
            tokens = whole(f"harness.{key}.max_tokens", call["max_tokens"], 1)
            made.append(Prompt(text=text, max_tokens=tokens, cut=cut))
        return made


class LongBenchEnvironment(Environment):
    """One task being played. Only the agent's own ``submit`` is an answer."""

    def __init__(self, *, harness: LongBench, row: Row) -> None:
        self._harness = harness
        self._row = row
        self._mounts = Mounts()
        self._readable = harness.delivery == "files"
        # held while it is played, for the history and the record's quotes too
        self._document = harness.document(row)
        self._commands = 0
        self._chunks_read: set[int] = set()
        self._refused_chunks = 0
        self._malformed = 0

    def answer(self, action: Action, mounts: Mapping[str, str]) -> Step:
        """Run one action."""
        self._commands += 1
        if action.name == "submit":
            step = self._submit(action.argument)
        elif action.name == "chunk":
            step = Step(self._chunk(action.argument))
        elif action.name == "question" and not self._readable:
            step = Step(self._harness.question(self._row))
        else:
            step = Step(self._command(action, mounts))
        return step if step.ending else replace(step, observation=self._noted(self._guided(step.observation)))

    def counters(self) -> Mapping[str, int]:
        """Commands, different chunks read, chunks asked for once the document was closed, malformed submissions."""
        return {
            "commands": self._commands,
            "chunks_read": len(self._chunks_read),
            "refused_chunks": self._refused_chunks,
            "malformed_submissions": self._malformed,
        }

    def _command(self, action: Action, mounts: Mapping[str, str]) -> Observation:
        own = {normal(self._harness.file_name): self._document.file} if self._readable else {}
        also = ("chunk", "submit") if self._readable else ("question", "submit")
        result = self._harness.shell.run(action, {**self._mounts.files(mounts), **own}, also=also)
        quoted = self._row.escaped and normal(self._harness.file_name) in result.opened
        return replace(result.observation, escaped=True) if quoted else result.observation

    def _chunk(self, argument: str) -> Observation:
        texts, chunks = self._harness.texts, self._document.chunks
        if not self._readable:
            self._refused_chunks += 1
            return Observation(texts["closed"].strip(), returncode=1)
        if not _NUMBER.fullmatch(argument.strip()):
            return Observation(fill(texts["chunk_usage"], chunks=chunks), returncode=2)
        number = int(argument)
        if not 1 <= number <= chunks:
            return Observation(fill(texts["no_chunk"], chunks=chunks), returncode=1)
        self._chunks_read.add(number)
        return self._harness.page(self._row, self._document, number)

    def _submit(self, argument: str) -> Step:
        """``ANSWER=`` and one letter, A to D, exactly, is the answer; all else submits nothing."""
        found = _SUBMISSION.fullmatch(argument.strip())
        if not found:
            self._malformed += 1
            return Step(Observation(self._harness.texts["submit_usage"].strip(), returncode=2))
        return Step(Observation(self._harness.texts["accepted"].strip()), "submitted", found[1])

    def _guided(self, seen: Observation) -> Observation:
        """Where the document can be read: the first chunks one after the other, then the answer."""
        following = self._commands + 1
        most = min(self._harness.guided_chunks, self._document.chunks, self._harness.turn_limit - 1)
        return (
            self._harness.guided(seen, f"chunk {following}" if following <= most else SUBMIT)
            if self._readable
            else seen
        )

    def _noted(self, seen: Observation) -> Observation:
        """With the notice, above what is seen, that only few commands are left."""
        left = self._harness.turn_limit - self._commands
        if not 0 < left <= self._harness.answer_now_commands:
            return seen
        notice = fill(self._harness.texts["answer_now"], left=left).strip()
        return replace(seen, note=f"{notice} {seen.note}".strip())


def reference_scores(facts: Iterable[Mapping[str, Json]]) -> dict[str, int]:
    """How many of these tasks each constant answer gets right, by the name of its reference row."""
    answers = [each["answer"] for each in facts]
    return {f"constant_{letter.lower()}": answers.count(letter) for letter in LETTERS}


def _rows(data_files: str | None, hub_id: str, revision: str, split: str, hard_rows: int) -> Rows:
    """The rows of the local file where one is given, else of the hub, which must have as many as are known."""
    if data_files is not None:
        return from_file(data_files)
    rows = from_hub(
        text_of("harness.hub_id", hub_id), text_of("harness.revision", revision), text_of("harness.split", split)
    )
    if len(rows.hard) != whole("harness.hard_rows", hard_rows, 1):
        raise ConfigError(f"harness.hard_rows={hard_rows}: {hub_id} at {revision} has {len(rows.hard)} hard rows")
    return rows


def _fenced(command: str) -> str:
    return f"```\n{command}\n```"
