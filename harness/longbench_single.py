"""LongBench-v2 by single prompts: the benchmark's own protocol and the reference rows, without an agent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arcbench.parsing import without_thinking
from arcbench.types import ConfigError, ContextOverflow, Desk, Message, Observation, Step
from harness.longbench_rows import LETTERS, Row

PLACES = ("DOC", "Q", "C_A", "C_B", "C_C", "C_D", "COT")
_PLACE = re.compile(r"\$(" + "|".join(PLACES) + r")\$")
_BARE = re.compile(r"The correct answer is ([A-D])")
_BRACKETED = re.compile(r"The correct answer is \(([A-D])\)")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One call: ``text`` has the benchmark's places ($DOC$, $Q$, $C_A$ and so on, $COT$ for the reply before),
    ``max_tokens`` caps the reply, ``cut`` stands for the middle of a prompt that is too long."""

    text: str
    max_tokens: int
    cut: str


def extract(said: str) -> str | None:
    """The letter that a reply (thinking removed) gives, by the benchmark's rule: asterisks dropped, then the first
    "The correct answer is (X)", else the first without parentheses, else none."""
    plain = said.replace("*", "")
    found = _BRACKETED.search(plain) or _BARE.search(plain)
    return found[1] if found else None


def filled(template: str, row: Row, cot: str) -> str:
    """The template with a row's texts, outer white space removed as the benchmark does. Each place is filled once:
    what looks like a place in a document stays as it is."""
    values = {"DOC": row.text() if "$DOC$" in template else "", "Q": row.question, "COT": cot}
    values |= {f"C_{letter}": choice for letter, choice in zip(LETTERS, row.choices, strict=True)}
    return _PLACE.sub(lambda place: values[place[1]].strip(), template)


async def ask(row: Row, prompts: Sequence[Prompt], desk: Desk, *, thinking: bool) -> Step:
    """Put the prompts one after the other, each a conversation of its own; the last reply holds the answer.

    Nothing inside thinking is an answer: a reply that was cut before its thinking ended has none.
    """
    said = ""
    for prompt in prompts:
        room = desk.budget.window_tokens - prompt.max_tokens
        message = Message("user", fitted(filled(prompt.text, row, said), desk, room, prompt.cut))
        try:
            reply = await desk.ask((message,), max_tokens=prompt.max_tokens)
        except ContextOverflow:
            return Step(Observation(""), "context_overflow")
        was_cut = reply.finish == "length" or reply.completion_tokens >= prompt.max_tokens
        # where the chat template opens the thinking, a reply cut within it has no tag at all
        unfinished = was_cut and thinking and "</think>" not in reply.text
        said = "" if unfinished else without_thinking(reply.text).removesuffix("<think>").strip()
        if not said:
            return Step(Observation(""), "output_cut" if was_cut else "malformed")
    answer = extract(said)
    if answer is None:
        return Step(Observation(""), "output_cut" if was_cut else "malformed")
    return Step(Observation(""), "submitted", answer)


def fitted(text: str, desk: Desk, room: int, cut: str) -> str:
    """The text as a prompt of at most ``room`` tokens: whole, or its two ends, alike in tokens, around ``cut``."""
    total = desk.count((Message("user", text),))
    if total <= room:
        return text
    half = (room - desk.count((Message("user", cut),))) // 2
    # so much of either end that it has more tokens than are wanted, as long as its characters are like the others
    chars = min(len(text), 64 + 3 * half * len(text) // total)
    while half > 0:
        head = _head(text, chars, desk, half)
        shown = f"{head}{cut}{_tail(text[len(head) :], chars, desk, half)}"
        excess = desk.count((Message("user", shown),)) - room
        if excess <= 0:
            return shown
        half -= (excess + 1) // 2
    return cut


def _head(text: str, chars: int, desk: Desk, most_tokens: int) -> str:
    start = text[:chars]
    pieces = desk.pieces(start, most_tokens)
    return (pieces if len(pieces) > 1 else desk.pieces(text, most_tokens))[0]


def _tail(text: str, chars: int, desk: Desk, most_tokens: int) -> str:
    """The longest end of at most ``most_tokens``."""
    end = text[-chars:]
    if desk.count_text(end) <= most_tokens:
        end = text
    least, most = 0, len(end)
    while least < most:
        middle = (least + most + 1) // 2
        if desk.count_text(end[len(end) - middle :]) <= most_tokens:
            least = middle
        else:
            most = middle - 1
    return end[len(end) - least :]


def pinned(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """The benchmark's prompt files, each with the SHA-256 it must have. Raises :class:`ConfigError`."""
    texts = {}
    for name, sha256 in files.items():
        path = Path(folder) / name
        way = f"fetch it with: python scripts/fetch_longbench.py prompts --out {folder}"
        try:
            content = path.read_bytes()
        except OSError as fault:
            raise ConfigError(f"harness.official.folder={folder}: no {name} ({fault.strerror}); {way}") from None
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise ConfigError(f"harness.official.folder={folder}: {name} has SHA-256 {found}, not {sha256}; {way}")
        texts[name] = content.decode("utf-8")
    return texts
