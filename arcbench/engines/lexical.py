"""How the scripted reader answers multiple-choice questions about a document: by counting words.

No model and no understanding: it shows that a harness runs at full size, and what is in reach of its view. Its rule:

- It reads the document in equal strides of chunks, as many as its commands allow, each time going on from the
  furthest chunk that the view speaks of.
- Then it opens up to ``READ_BACK`` of the handles that the view offers (citations to recall, files below
  ``/archive/``), those first whose line shares most words with the question and its choices.
- Then, or when told to answer now, it hands in the choice with the highest mean worth of its own words, those that no
  other choice has. A word is worth nothing when no line of the view has it, else 1 and the most words of the question
  that stand in one line with it. The first choice wins a tie.

A pure function of the messages, as the reader of the needle is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arcbench.engines.workspace_reader import body_of, make_room
from arcbench.types import Message

READ_BACK = 2
"""Handles that it opens: as many recalls as ARC allows in a row."""
GREP_WORDS = 8
"""Words of the choices that it looks for in a file."""

_ASKED = re.compile(
    r"(?:^Question:\n|^What is the correct answer to this question: )(?P<question>.*?)\n+Choices:\n"
    r"\(A\) (?P<A>.*?)\n\(B\) (?P<B>.*?)\n\(C\) (?P<C>.*?)\n\(D\) (?P<D>.*?)(?:\n\n|\Z)",
    re.M | re.S,
)
_WORD = re.compile(r"\w{2,}")
_SIZE = re.compile(r"^The document is the file .*\n?.* cut into (\d+) chunks ", re.M)
_COMMANDS = re.compile(r"You have (\d+) commands in all\.")
_CHUNK = re.compile(r"^\[chunk (\d+) of \d+\]$|`chunk (\d+)`", re.M)
_OWN_CHUNK = re.compile(r"chunk (\d+)")
_CITATION = re.compile(r"§([0-9a-f]{8,}) `[^`]*`")
_FILE = re.compile(r" in (/archive/\w+\.txt), sha256 ")
_PART = re.compile(r"^§([0-9a-f]{8,}), part (\d+) of (\d+):", re.M)
_OPENING = re.compile(r"_recall(?:_start)? §|grep .* /archive/")


@dataclass(frozen=True)
class Asked:
    """A question with its choices by letter."""

    question: str
    choices: Mapping[str, str]

    @property
    def words(self) -> set[str]:
        """All words of it."""
        return words(self.question).union(*map(words, self.choices.values()))


def reads(messages: Sequence[Message]) -> bool:
    """Whether these messages are of a multiple-choice harness: its commands, or a single prompt with choices."""
    first = messages[0]
    return "submit ANSWER=<A-D>" in first.content if first.role == "system" else bool(_ASKED.search(first.content))


def reply(messages: Sequence[Message]) -> str:
    """The reader's whole reply: one fenced command or, to a single prompt, a sentence."""
    if messages[0].role == "system":
        return f"```\n{answer_command(messages)}\n```"
    prompt = messages[0].content
    asked = list(_ASKED.finditer(prompt))[-1]
    return f"The correct answer is ({best(_made(asked), [prompt[: asked.start()]])})"


def answer_command(messages: Sequence[Message]) -> str:
    """What the reader does next, from these messages alone."""
    if room := make_room(messages, ""):
        return room
    body = body_of(messages)
    told = [message.content for message in body if message.role == "user"]
    commands = [_command(message) for message in body if message.role == "assistant"]
    found = next((match for text in (*reversed(told), messages[1].content) for match in _ASKED.finditer(text)), None)
    if found is None:
        return "submit ANSWER=A" if commands[-1:] == ["question"] else "question"
    asked = _made(found)
    in_time = not (told and told[-1].startswith("[Answer now:"))
    if in_time and (further := next_chunk(messages[1].content, told, commands) or next_handle(asked, messages, told)):
        return further
    return f"submit ANSWER={best(asked, [text for text in told if not _ASKED.search(text)])}"


def next_chunk(task: str, told: Sequence[str], commands: Sequence[str]) -> str | None:
    """The chunk to read next; None once the end is reached, or where there is no document to read."""
    size, limit = _SIZE.search(task), _COMMANDS.search(task)
    if not size or not limit:
        return None
    chunks, reading = int(size[1]), max(1, int(limit[1]) - READ_BACK - 1)
    stride = -(-chunks // reading)
    seen = [int(number) for text in told for pair in _CHUNK.findall(text) for number in pair if number]
    seen += [int(own[1]) for command in commands if (own := _OWN_CHUNK.fullmatch(command))]
    following = max(seen) + stride if seen else 1
    return f"chunk {following}" if following <= chunks else None


def next_handle(asked: Asked, messages: Sequence[Message], told: Sequence[str]) -> str | None:
    """The command that opens the next handle, in the form that the system prompt documents."""
    commands = [_command(message) for message in messages if message.role == "assistant"]
    system = messages[0].content
    if part := next((match for text in reversed(told) if (match := _PART.search(text))), None):
        following = f"_recall_next §{part[1]}"
        if int(part[2]) < int(part[3]) and commands[-1] in (following, f"_recall_start §{part[1]}"):
            return following
    opened = [command for command in commands if _OPENING.match(command)]
    if len(opened) >= READ_BACK:
        return None
    recall = "_recall_start" if "_recall_start" in system else "_recall"
    overlap: dict[str, int] = {}
    for text in told:
        for line in text.split("\n") if "/archive/" in text else [text]:
            handles = [f"{recall} §{id}" for id in _CITATION.findall(line)] if recall in system else []
            handles += [_grep(asked, path) for path in _FILE.findall(line)]
            for handle in handles:
                shared = len(asked.words & words(line)) if len(handles) == 1 else 0
                overlap[handle] = max(overlap.get(handle, 0), shared)
    left = [handle for handle in overlap if handle not in opened]
    return max(left, key=lambda handle: overlap[handle], default=None)


def best(asked: Asked, seen: Sequence[str]) -> str:
    """The letter of the choice whose own words are worth most on average."""
    choices = {letter: words(choice) for letter, choice in asked.choices.items()}
    question = words(asked.question)
    own: dict[str, set[str]] = {}
    for letter, has in choices.items():
        others = set().union(*(other for key, other in choices.items() if key != letter))
        own[letter] = has - others
    wanted = set().union(*own.values())
    worth: dict[str, int] = {}
    for text in seen:
        for line in text.split("\n"):
            has = words(line)
            for word in has & wanted:
                worth[word] = max(worth.get(word, 0), 1 + len(has & question))
    return max(own, key=lambda letter: sum(worth.get(word, 0) for word in own[letter]) / max(1, len(own[letter])))


def words(text: str) -> set[str]:
    """The different words of a text, of two letters and more, in lower case."""
    return set(_WORD.findall(text.lower()))


def _made(found: re.Match[str]) -> Asked:
    return Asked(found["question"], {letter: found[letter] for letter in "ABCD"})


def _grep(asked: Asked, path: str) -> str:
    """The command that looks for the longest words of the choices in a file."""
    longest = sorted(set().union(*map(words, asked.choices.values())), key=lambda word: (-len(word), word))
    return f'grep -i -E "{"|".join(longest[:GREP_WORDS])}" {path}'


def _command(message: Message) -> str:
    return message.content.strip().removeprefix("```").removesuffix("```").strip()
