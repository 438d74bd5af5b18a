"""From a model's reply to one action, or to the kind of fault; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from arcbench.types import Action

# White space, and characters without width (U+FEFF, a byte order mark, and its like): neither is seen, so neither
# means anything at either end of a line.
_UNSEEN = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_FENCE = re.compile(r"(?P<run>`{3,})(?P<info>.*)", re.S)
_TAG = re.compile(r"</?think>")

Fault = Literal[
    "empty", "no_block", "unclosed", "many_blocks", "trailing_text", "empty_block", "many_lines", "output_cut"
]


@dataclass(frozen=True, slots=True)
class Malformed:
    """Why a reply holds no action; the key of its fixed correction. ``output_cut`` (the reply ran into the
    token cap) is found by the loop, the others by :func:`parse`."""

    fault: Fault


def without_thinking(text: str) -> str:
    """The reply outside its thinking part, which is what stands before the last ``</think>`` (the opening tag
    may be missing: a chat template can write it) and what stands after an open ``<think>``.

    A tag in the command line of a fenced block is part of the command, unless the line begins with it. An open
    ``<think>`` behind anything said leaves its bare tag, so that a block before it does not end the reply
    and :func:`parse` runs nothing.
    """
    start, opened = 0, None
    for tag in _tags(text):
        if tag[0] == "</think>":
            start, opened = tag.end(), None
        else:
            opened = opened or tag
    said = text[start : opened.start() if opened else None]
    return (said + opened[0] if opened and said.strip(_UNSEEN) else said).strip(_UNSEEN)


def parse(text: str) -> Action | Malformed:
    """Read a reply (thinking already removed): any prose, then one fenced block with one command line.

    A fence is a line that begins with three or more backticks; whatever follows those of an opening one (the
    info string) has no backtick, and a closing one is at least as long and has nothing else. The block ends the
    reply: whatever a model writes after it (an imagined observation, a second action) makes the whole reply
    malformed, and nothing of it runs.
    """
    lines = [line.strip(_UNSEEN) for line in text.strip(_UNSEEN).split("\n")]
    if lines == [""]:
        return Malformed("empty")
    blocks: list[list[str]] = []
    others = 0  # fences that open nothing: one on a line with its contents, or one within a block
    run = ""
    end = 0
    for i, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if run and fence and len(fence["run"]) >= len(run) and not fence["info"]:
            run, end = "", i
        elif run:
            blocks[-1].append(line)
            others += fence is not None
        elif fence and "`" not in fence["info"]:
            run = fence["run"]
            blocks.append([])
        elif fence:
            others += 1
    if not blocks:
        return Malformed("no_block")
    if len(blocks) > 1:
        return Malformed("many_blocks")
    if run:
        return Malformed("unclosed")
    if others:
        return Malformed("many_blocks")
    if end != len(lines) - 1:
        return Malformed("trailing_text")
    body = [line for line in blocks[0] if line]
    if not body:
        return Malformed("empty_block")
    if len(body) > 1:
        return Malformed("many_lines")
    name, *rest = body[0].split(None, 1)
    return Action(name=name, argument=rest[0] if rest else "", text=body[0])


def _tags(text: str) -> Iterator[re.Match[str]]:
    """The thinking tags of a reply, without those that are part of a command line. What follows a tag counts
    as a line of its own: models write ``</think>`` right before a fence."""
    at = 0
    while at < len(text):
        end = _line_end(text, at)
        if past := _past_block(text, at):
            at = past
        elif tag := _TAG.search(text, at, end):
            yield tag
            at = tag.end()
        else:
            at = end + 1


def _past_block(text: str, at: int) -> int:
    """Where the fenced block ends that begins at ``at``: one without a tag, or with one within its only line.
    0 where none begins. A draft that a thinking part left open is none, so that it hides no tag."""
    end = _line_end(text, at)
    opening = _FENCE.fullmatch(text[at:end].strip(_UNSEEN))
    if not opening or "`" in opening["info"] or _TAG.search(opening["info"]):
        return 0
    body: list[str] = []
    while end < len(text):
        start, end = end + 1, _line_end(text, end + 1)
        line = text[start:end].strip(_UNSEEN)
        if fence := _FENCE.fullmatch(line):
            closes = len(fence["run"]) >= len(opening["run"]) and not fence["info"]
            command = len(body) == 1 and not _TAG.match(body[0])
            return end if closes and (command or not any(map(_TAG.search, body))) else 0
        if line:
            body.append(line)
    return 0


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
