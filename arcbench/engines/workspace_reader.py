"""How the scripted reader uses a workspace of blocks: from what the view says, and nothing else.

It makes room only when it is told to, or when the status says that one more answer as large as the largest
would not fit; then it moves the largest answers that it no longer needs. It needs the newest answer, and the
one whose value will be asked for, as far as it knows. What it wants and no longer sees it looks for in the
files that the handles name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from arcbench.types import Message

STATUS = "<context_workspace_status>"
_USE = re.compile(r"^Context \[[#.]*\] \d+%: (\d+) of (\d+) tokens$", re.M)
_ROW = re.compile(r"^(B\d+) (\d+) \d+r (\w+) L\d+ \S+ (\w+)$", re.M)
_OVERFLOW = re.compile(r"\[OVERFLOW MODE: .*Free at least (\d+) tokens\.\]")
_LINE = re.compile(r"\[(?P<id>[BG]\d+)\b.*\]")
_STUB = re.compile(r"\[(?P<id>B\d+), tool_result: answer to `(?P<command>[^`]*)`")
_NUMBER = re.compile(r"B(\d+)")
_HANDLE = re.compile(r"^\[(?P<label>[BG]\d+\b[^,]*(?:, B[^,]*)*)[^\n]* in (?P<path>/archive/\w+\.txt), sha256 ", re.M)
_SECTION = re.compile(
    r"^=== B\d+ \w+, \d+ characters: (?P<what>.*) ===$|^(?P<gap>\[\.\.\. \d+ characters left out)", re.M
)
_HOUSEKEEPING = re.compile(r"(?:archive|delete|board) |.* /archive/")
_SUMMARY_COMMANDS = 12
# how much more than is asked for the reader frees: the handle and its own command take room too
_MORE, _MORE_TOKENS = 1.2, 100


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in the view: the id of its block, the command it belongs to, its tokens (0: not shown)."""

    id: str
    command: str
    tokens: int


def status_of(messages: Sequence[Message]) -> str:
    """The status, where there is one. What stands behind a command is an answer, whatever it looks like."""
    last = messages[-1]
    return last.content if STATUS in last.content and len(messages) > 2 and messages[-2].role == "user" else ""


def body_of(messages: Sequence[Message]) -> Sequence[Message]:
    """What stands between the task and the status."""
    return messages[2:-1] if status_of(messages) else messages[2:]


def make_room(messages: Sequence[Message], source: str) -> str | None:
    """The command that makes room, where that is called for. ``source``: the command whose answer is needed."""
    offered = [name for name in ("archive", "delete") if f"\n{name} BLOCKS" in messages[0].content]
    if not offered:
        return None
    body = body_of(messages)
    status = status_of(messages)
    rows = _ROW.findall(status)
    sizes = {id: int(tokens) for id, tokens, type, state in rows if (type, state) == ("tool_result", "visible")}
    # where room must be made nothing is shown whole; else it is an answer that says so
    managing = body and all(message.role == "user" for message in body)
    told = _OVERFLOW.fullmatch(body[-1].content) if managing else None
    if told:
        stubs = [stub for stub in (_STUB.match(message.content) for message in body) if stub]
        answers = [Answer(stub["id"], stub["command"], sizes.get(stub["id"], 0)) for stub in stubs]
        chosen = _choose(answers, source, int(told[1])) or _last_resort(answers, source, offered[0])
    else:
        used = _USE.search(status)
        # what comes with an answer takes room too
        if not used or not sizes or int(used[2]) - int(used[1]) >= _MORE * max(sizes.values()) + _MORE_TOKENS:
            return None
        chosen = _choose(list(_answers(body, status, sizes)), source, 1)
    if not chosen and not told:
        return None
    ids = [answer.id for answer in chosen]
    if not chosen and offered[0] == "archive":
        ids = [line["id"] for m in body if (line := _LINE.fullmatch(m.content))]
    commands = "; ".join(answer.command for answer in chosen[:_SUMMARY_COMMANDS]) or "all that came before"
    return f'{offered[0]} {",".join(dict.fromkeys(ids)) or "B2"} "answers to {commands}"'


def _last_resort(answers: Sequence[Answer], source: str, action: str) -> list[Answer]:
    """Told to make room, with nothing to spare: what can be read back, or else what is oldest. What is needed is not
    deleted."""
    needed = [answer for answer in answers if answer.command == source]
    others = [answer for answer in answers if answer.command != source]
    return needed or others[:1] if action == "archive" else others[:-1][:1]


def _choose(answers: Sequence[Answer], source: str, excess: int) -> list[Answer]:
    """The largest answers that are not needed, as many as it takes; where no sizes are shown, all of them."""
    work = [answer for answer in answers if not _HOUSEKEEPING.match(answer.command)]
    free = [answer for answer in work[:-1] if answer.command != source]
    chosen: list[Answer] = []
    for answer in sorted(free, key=lambda answer: -answer.tokens):
        # the line that will stand for them takes room too
        if answer.tokens and sum(other.tokens for other in chosen) > _MORE * excess + _MORE_TOKENS:
            break
        chosen.append(answer)
    return sorted(chosen, key=lambda answer: int(answer.id[1:]))


def _answers(body: Sequence[Message], status: str, sizes: dict[str, int]) -> Iterator[Answer]:
    """The answers in the view as they were: rows that are visible and messages that are no handles, in order."""
    ids = [id for id, _, _, state in _ROW.findall(status) if state == "visible"]
    plain = [message for message in body if not (message.role == "user" and _LINE.fullmatch(message.content))]
    if len(ids) != len(plain):  # something imitates a handle: leave it all alone
        return
    command = ""
    for id, message in zip(ids, plain, strict=True):
        if message.role == "assistant":
            command = message.content.strip().removeprefix("```").removesuffix("```").strip()
        elif id in sizes:
            yield Answer(id, command, sizes[id])


def _handles(body: Sequence[Message]) -> Iterator[re.Match[str]]:
    """The handles in the view, and those in what was read from the archive: not what any other answer says."""
    read = False
    for message in body:
        if message.role == "assistant":
            read = "/archive/" in message.content
        elif read or _LINE.fullmatch(message.content):
            yield from _HANDLE.finditer(message.content)
            read = False


def read_back(body: Sequence[Message], source: str, name: str, commands: set[str]) -> str | None:
    """The command that looks for the value ``name=`` of ``source`` in a file that a handle names: first where the
    handle speaks of the source, then in all others, the newest first. Of a group only what names the source is read,
    and the groups inside it: all of its headings may be more than is shown at once. Each is opened once."""
    lines = [(match["path"], match[0]) for match in _handles(body)]
    named = [path for path, line in lines if source and source in line]
    holds = {
        _command(said).rpartition(" ")[2]
        for said, seen in pairwise(body)
        if said.role == "assistant" and source and re.search(rf"^=== .*`{re.escape(source)}`", seen.content, re.M)
    }
    for path in dict.fromkeys([*named, *(path for path, _ in reversed(lines))]):
        look = f'grep -E "^.G[0-9]|{source}" {path}'
        if source and "/G" in path and look not in commands:
            return look
        command = f'grep -E "^(=== |.[BG][0-9])|{name}=" {path}'
        if (not source or "/G" not in path or path in holds) and command not in commands:
            return command
    return None


def _command(message: Message) -> str:
    return message.content.strip().removeprefix("```").removesuffix("```").strip()


def open_newest(body: Sequence[Message], commands: set[str]) -> str | None:
    """Where no answer says how to go on: the command that shows the end of what was moved out last."""

    def last(handle: re.Match[str]) -> int:
        return max(map(int, _NUMBER.findall(handle["label"])), default=0)

    newest = max(_handles(body), key=last, default=None)
    command = f"tail -n 4 {newest['path']}" if newest else ""
    return command if command and command not in commands else None


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The parts of what was read from a file, each with what its heading says; what follows a gap has none."""
    heads = list(_SECTION.finditer(text))
    for head, after in zip_longest(heads, heads[1:]):
        if head["what"]:
            yield head["what"], text[head.end() : after.start() if after else len(text)]
