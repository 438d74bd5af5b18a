"""From a model's reply to one action, or to the kind of fault; nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from arcbench.types import Action

_OPEN = re.compile(r"```[A-Za-z0-9_+-]*\s*")
_CLOSE = re.compile(r"```\s*")

Fault = Literal[
    "empty", "no_block", "unclosed", "many_blocks", "trailing_text", "empty_block", "many_lines", "output_cut"
]


@dataclass(frozen=True, slots=True)
class Malformed:
    """Why a reply holds no action; the key of its fixed correction. ``output_cut`` (the reply ran into the
    token cap) is found by the loop, the others by :func:`parse`."""

    fault: Fault


def without_thinking(text: str) -> str:
    """The reply outside its thinking part. An unclosed part swallows the rest; a lone closing tag ends one."""
    _, _, text = text.rpartition("</think>")
    text, _, _ = text.partition("<think>")
    return text.strip()


def parse(text: str) -> Action | Malformed:
    """Read a reply (thinking already removed): any prose, then one fenced block with one command line.

    The block ends the reply: whatever a model writes after it (an imagined observation, a second
    action) makes the whole reply malformed, and nothing of it runs.
    """
    if not text.strip():
        return Malformed("empty")
    lines = [line.rstrip("\r") for line in text.strip().split("\n")]
    fences = [i for i, line in enumerate(lines) if line.lstrip().startswith("```")]
    if not fences:
        return Malformed("no_block")
    if len(fences) > 2:
        return Malformed("many_blocks")
    if not _OPEN.fullmatch(lines[fences[0]].lstrip()):
        return Malformed("no_block")
    if len(fences) == 1 or not _CLOSE.fullmatch(lines[fences[1]].lstrip()):
        return Malformed("unclosed")
    if fences[1] != len(lines) - 1:
        return Malformed("trailing_text")
    body = [line.strip() for line in lines[fences[0] + 1 : fences[1]] if line.strip()]
    if not body:
        return Malformed("empty_block")
    if len(body) > 1:
        return Malformed("many_lines")
    name, *rest = body[0].split(None, 1)
    return Action(name=name, argument=rest[0] if rest else "", text=body[0])
