"""What a message quotes of a long document, as spans of it: a record then keeps no copies of its pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

Parts = Sequence[str | Sequence[int]]
"""A text in order: what is its own as text, what is quoted as [start, end) in characters of the document."""

ANCHOR_CHARS = 48
LEAST_CHARS = 200
"""Shorter quotes are kept as text."""


class Quotes:
    """Finds a document's pages in messages: whole, or what is left of either end of one that was cut, each at the
    beginning of a line of the message or right behind another quote. What it misses stays text, so that
    ``unpack(pack(content)) == content`` whatever was found.

    ``text`` gives the document (asked for at the first message that is long enough), ``bounds`` where its pages end.
    """

    def __init__(self, text: Callable[[], str], bounds: Callable[[], Sequence[int]]) -> None:
        self._text_of = text
        self._bounds_of = bounds
        self._left_off: dict[str, int] = {}  # how the document goes on behind an earlier quote -> where

    def pack(self, content: str) -> Parts | None:
        """The content with its quotes as spans; None when it quotes nothing long."""
        if len(content) < LEAST_CHARS:
            return None
        parts: list[str | Sequence[int]] = []
        kept = at = 0  # what is before ``kept`` is in ``parts``; ``at`` is where a quote may begin
        while at <= len(content) - LEAST_CHARS:
            span = self._quote(content, at)
            if span is None:
                at = content.find("\n", at) + 1 or len(content)
                continue
            parts += [content[kept:at], span] if kept < at else [span]
            kept = at = at + span[1] - span[0]
        tail = self._tail(content, kept)
        if tail is not None:
            parts += [content[kept : len(content) - (tail[1] - tail[0])], tail]
            kept = len(content)
        if not parts:
            return None
        return [part for part in (*parts, content[kept:]) if part]

    def unpack(self, parts: Parts) -> str:
        """The content that was packed."""
        return "".join(part if isinstance(part, str) else self._text[part[0] : part[1]] for part in parts)

    # ---------------------------------------------------------------------------------------- details

    @cached_property
    def _text(self) -> str:
        return self._text_of()

    @cached_property
    def _heads(self) -> dict[str, int]:
        """How each page begins -> where; of pages that begin alike, the first."""
        starts = reversed(self._bounds_of()[:-1])
        return {self._text[start : start + ANCHOR_CHARS]: start for start in starts}

    @cached_property
    def _tails(self) -> dict[str, int]:
        """How each page ends -> where that is."""
        return {self._text[max(0, end - ANCHOR_CHARS) : end]: end for end in reversed(self._bounds_of()[1:])}

    def _quote(self, content: str, at: int) -> list[int] | None:
        """The span of the document that stands in the content from ``at`` on."""
        anchor = content[at : at + ANCHOR_CHARS]
        start = self._left_off.get(anchor, self._heads.get(anchor))
        if start is None:
            return None
        end = start + _agreement(content[at:], self._text[start : start + len(content) - at])
        if end - start < LEAST_CHARS:
            return None
        self._left_off[self._text[end : end + ANCHOR_CHARS]] = end
        return [start, end]

    def _tail(self, content: str, kept: int) -> list[int] | None:
        """The span that ends the content, where a page's end does."""
        end = self._tails.get(content[max(kept, len(content) - ANCHOR_CHARS) :])
        if end is None:
            return None
        most = min(end, len(content) - kept)
        size = _agreement(content[len(content) - most :][::-1], self._text[end - most : end][::-1])
        return [end - size, end] if size >= LEAST_CHARS else None


def _agreement(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
