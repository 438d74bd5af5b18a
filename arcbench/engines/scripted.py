"""No language model: a fixed reader of the view, to see what a perfect follower of instructions can get back.

The reader is a pure function of the messages it is sent. It knows the wording of the prompts and of
the environment's observations, as any careful reader would, and has no access to the task, the store
or the method. Its tables are called ``mechanism_*``; they are no model's score.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import orjson

from arcbench.checks import one_of, whole
from arcbench.engines import lexical, workspace_reader
from arcbench.engines.counting import CountingEngine
from arcbench.types import ConfigError, Json, Message, Reply, Request

SUMMARY_BOUNDS = ("head_tail", "keeps_announced")

_NEXT_CODE = re.compile(r"^NEXT CODE: (\w+)[ \t]*$", re.M)
_ALL_DONE = re.compile(r"^ALL WORK ORDERS DONE\b", re.M)
_FIRST = re.compile(r"Start with the command: (cat \S+)[ \t]*$", re.M)
_ASKED = re.compile(r"^[ \t]*ASKED FOR: .*: (next \w+)[ \t]*$", re.M)
# A value of any length and alphabet, never the placeholder <value>, nor what a cut in the text has left of one: before
# an ellipsis, the line that says how much is left out, or another passage.
_VALUE = re.compile(
    r"(?:`(?P<source>next \w+)`: )?\b(?P<name>NEEDLE|RECORD)=(?P<value>[0-9A-Za-z]++)"
    r"(?![\w<…]|\.\.\.|\n\[\.\.\. |\n\[turn \d+, part )"
)
_COMMAND = re.compile(r"^```\n(?P<command>.+)\n```[ \t]*$", re.M)
_CITATION = re.compile(r"§([0-9a-f]{8,}) `([^`]*)`")
_PAGE = re.compile(r"^Catalog, page (\d+) of (\d+):", re.M)
_ANNOUNCED = re.compile(r"\b([A-Z]{3,})=<value>")
_SECTIONS = re.compile(r"TASK:\n(.*?)\nMEMORY SO FAR:\n(.*?)\nNEW TURNS:\n(.*)", re.S)


class ScriptedEngine(CountingEngine):
    """The reader behind the :class:`arcbench.types.Engine` seam. Token counts are those of its model's tokenizer.

    ``summary_bound`` says how it answers a method's request for a summary: ``head_tail`` keeps
    ``head_tail_chars`` of each end of what it is given (the floor), ``keeps_announced`` keeps the
    lines that hold what the task said will be asked for (the ceiling).
    """

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        summary_bound: str,
        head_tail_chars: int,
        concurrency: int,
    ) -> None:
        if model["id"] != "scripted":
            raise ConfigError(f"model={model['id']}: engine=scripted runs no model; leave model out or use engine=vllm")
        super().__init__(id=id, model=model, window_tokens=window_tokens, concurrency=concurrency)
        self.summary_bound = one_of("engine.summary_bound", summary_bound, SUMMARY_BOUNDS)
        self.head_tail_chars = whole("engine.head_tail_chars", head_tail_chars, 1)

    async def complete(self, request: Request) -> Reply:
        """The reader's next command, or a summary where a method asks for one."""
        prompt_tokens = self.preflight(request)
        own = request.billed == "method"
        text = self._summarise(request) if own else spoken(request.messages)
        tokens = self.count_text(text) + 1  # and the end-of-turn token
        return Reply(
            text=text,
            finish="stop",
            prompt_tokens=prompt_tokens,
            completion_tokens=tokens,
            cached_tokens=None,
            latency_s=0.0,
        )

    def _summarise(self, request: Request) -> str:
        """A summary by the chosen bound, as prose or as the JSON that was asked for, within the asked length."""
        given = request.messages[-1].content
        found = _SECTIONS.search(given)
        # another method's prompt: all of it is what is given, and what is announced stands in it
        task, memory, turns = (part.strip() for part in found.groups()) if found else (given, "", given.strip())
        if self.summary_bound == "keeps_announced":
            return _written(announced(task, memory, turns), request)
        n = self.head_tail_chars
        while True:
            text = _written([turns] if len(turns) <= 2 * n else [turns[:n] + "…", "…" + turns[-n:]], request)
            if n == 1 or self.count_text(text) + 1 < request.max_tokens:
                return text
            n = max(1, n * 3 // 4)


def announced(task: str, memory: str, turns: str) -> list[str]:
    """What the task said will be asked for, out of the memory so far and new turns. A record is noted with the
    command that showed it, where that is known; one that is known not to be asked for is left out."""
    names = set(_ANNOUNCED.findall(task))
    asked = _ASKED.search(task)
    kept: dict[str, None] = {}
    command = ""
    for match in re.finditer(f"{_COMMAND.pattern}|{_VALUE.pattern}", f"{memory}\n{turns}", re.M):
        if match["command"]:
            command = match["command"]
        elif match["name"] in names:
            source = match["source"] or (command if command.startswith("next ") else "")
            if not (asked and source) or source == asked[1]:
                value = f"{match['name']}={match['value']}"
                kept[f"`{source}`: {value}" if source and match["name"] == "RECORD" else value] = None
    return list(kept)


def _written(kept: Sequence[str], request: Request) -> str:
    if request.schema is None:
        return "\n".join(kept) or "Nothing that will be asked for has come up yet."
    state = {"goal": "", "progress": "", "facts": kept, "files": [], "errors": [], "open_items": []}
    return orjson.dumps(state).decode()


# ---------------------------------------------------------------------------------------- the reader


def spoken(messages: Sequence[Message]) -> str:
    """The reader's whole reply."""
    return lexical.reply(messages) if lexical.reads(messages) else f"```\n{next_command(messages)}\n```"


def next_command(messages: Sequence[Message]) -> str:
    """What a reader who sees just these messages does next."""
    task = messages[1].content
    body = workspace_reader.body_of(messages)
    commands = {command_of(m) for m in body if m.role == "assistant"}
    if command := workspace_reader.make_room(messages, asked_source(messages)):
        return command
    if code := open_code(messages, commands):
        return f"next {code}"
    lost = bool(body) and not all_done(messages)
    if lost and (command := workspace_reader.open_newest(body, commands)):
        return command
    if lost and (command := recall_newest(messages[0].content, body, commands)):
        return command
    first = _FIRST.search(task)
    if first and not body:
        return first[1]
    source = asked_source(messages)
    if value := visible_value(body, source):
        return f"submit NEEDLE={value}"
    if recall := next_recall(messages[0].content, body, source, commands):
        return recall
    if command := workspace_reader.read_back(body, source, value_name(source), commands):
        return command
    if first and source == first[1] and "can be opened again" in task and not just_read(body, source):
        return source
    return "submit NONE"


def all_done(messages: Sequence[Message]) -> bool:
    """Whether the view says that no work order is left."""
    return any(m.role == "user" and "ALL WORK" in m.content and _ALL_DONE.search(m.content) for m in messages)


def open_code(messages: Sequence[Message], commands: set[str]) -> str | None:
    """The code of the newest work order that has not been presented yet; None once all are said to be done."""
    if all_done(messages):
        return None
    for text in reversed([message.content for message in messages if message.role == "user"]):
        if codes := _NEXT_CODE.findall(text):
            return str(codes[-1]) if f"next {codes[-1]}" not in commands else None
    return None


def asked_source(messages: Sequence[Message]) -> str:
    """The command whose observation holds the value that is asked for, from what the view says."""
    for message in (*reversed(messages[2:]), messages[1]):
        if message.role == "user" and (asked := _ASKED.search(message.content)):
            return asked[1]
    first = _FIRST.search(messages[1].content)
    return first[1] if first else ""


def visible_value(body: Sequence[Message], source: str) -> str | None:
    """The asked value, where a message of the view shows it: behind its command, in a recall of it, noted
    with its command, or else in a summary or retrieved text, where the view names one value only."""
    name = value_name(source)
    id = citation_of(body, source)
    for match in _VALUE.finditer(joined_parts(body, id)):
        if match["name"] == name:
            return match["value"]
    loose: set[str] = set()
    command = ""
    for message in body:
        if message.role == "assistant":
            command = command_of(message)
            continue
        answered, command = command, ""
        if f"{name}=" not in message.content:  # the patterns are slow on long texts
            continue
        if "/archive/" in answered:
            for what, text in workspace_reader.sections(message.content):
                found = _VALUE.search(text)
                if f"`{source}`" in what and found and found["name"] == name:
                    return found["value"]
            continue
        for match in _VALUE.finditer(message.content):
            if match["name"] != name:
                continue
            if (match["source"] or answered) == source or f"`{source}`" in message.content.partition("\n")[0]:
                return match["value"]
            if not match["source"] and not answered.startswith(("next ", "_recall")):
                loose.add(match["value"])
    return loose.pop() if len(loose) == 1 else None


def value_name(source: str) -> str:
    """What the value is called in the answer to this command."""
    return "RECORD" if source.startswith("next ") else "NEEDLE"


def citation_of(body: Sequence[Message], source: str) -> str | None:
    """The id of a citation, anywhere in the view, whose signature is the source command."""
    for message in body:
        if message.role == "user":
            if f"`{source}`" not in message.content:
                continue
            for match in _CITATION.finditer(message.content):
                if match[2] == source:
                    return str(match[1])
    return None


def recall_newest(system: str, body: Sequence[Message], commands: set[str]) -> str | None:
    """Where no answer says how to go on: the handle that brings the newest cited one back."""
    cited = [m[1] for message in body if message.role == "user" for m in _CITATION.finditer(message.content)]
    recalls = [f"_recall §{id}" for id in reversed(cited)] if "_recall §ID" in system else []
    # what was recalled before stands at the end of the view
    return next((recall for recall in recalls if recall not in commands), None)


def next_recall(system: str, body: Sequence[Message], source: str, commands: set[str]) -> str | None:
    """The handle that brings the source's observation back, in the form that the system prompt documents."""
    id = citation_of(body, source)
    if id is None:
        if "_catalog_first" not in system:
            return None
        page, pages = last_numbers(_PAGE, body)
        return "_catalog_first" if page == 0 else "_catalog_next" if page < pages else None
    if "_recall_start" in system:
        part, parts = last_numbers(re.compile(rf"^§{id}, part (\d+) of (\d+):", re.M), body)
        if part:
            return f"_recall_next §{id}" if part < parts else None
        return None if f"_recall_start §{id}" in commands else f"_recall_start §{id}"
    name = value_name(source)
    recall = f"_recall §{id} /{name}=/" if "/PATTERN/" in system else f"_recall §{id}"
    return None if recall in commands else recall


def last_numbers(pattern: re.Pattern[str], body: Sequence[Message]) -> tuple[int, int]:
    """The two numbers of the newest match in the view; zeros where there is none."""
    for message in reversed(body):
        if message.role == "user" and (match := pattern.search(message.content)):
            return int(match[1]), int(match[2])
    return 0, 0


def joined_parts(body: Sequence[Message], id: str | None) -> str:
    """The parts of a recalled text that are in the view, put together where they follow each other; an
    ellipsis stands where the next one is not in the view."""
    parts: dict[int, str] = {}
    last = 0
    for message in body:
        if found := re.match(rf"§{id}, part (\d+) of (\d+):\n(.*)", message.content, re.S):
            parts[int(found[1])], last = found[3], int(found[2])
    return "".join(parts[part] + ("" if part + 1 in parts or part == last else "…\n") for part in sorted(parts))


def just_read(body: Sequence[Message], source: str) -> bool:
    """Whether the newest turn already is this command."""
    return len(body) >= 2 and body[-2].role == "assistant" and command_of(body[-2]) == source


def command_of(message: Message) -> str:
    """The command line of one of the reader's own replies."""
    return message.content.strip().removeprefix("```").removesuffix("```").strip()
