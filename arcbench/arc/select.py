"""ARC with recall in part: the fair counterpart of reading an archived file with `sed -n` or `grep` (ours)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import regex  # type: ignore[import-untyped]  # `re` has no time limit, and the patterns are the model's

from arcbench.arc.method import PLACES, Arc
from arcbench.arc.replies import cut
from arcbench.arc.store import Record
from arcbench.checks import above
from arcbench.text import fill
from arcbench.types import Action, Observation

_RANGE = re.compile(r"(\d{1,9})(?:(-)(\d{1,9})?)?")
_PATTERN = re.compile(r"/(.+)/(i)?", re.S)


class ArcSelect(Arc):
    """`arc`, and `_recall §id 40-60` or `_recall §id /pattern/` for lines of the stored body, by number or by
    regular expression (`/pattern/i`: whatever the case). Lines end at newlines only and are numbered from 1.

    What comes back counts as a recall of so many characters; of a line longer than ``recall_max_chars`` only
    the surroundings of the first match come back. ``pattern_timeout_s`` bounds the search of one body.
    """

    places: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **PLACES,
        "selected": ("id", "signature", "selection", "shown", "lines"),
        "bad_selection": ("selection",),
        "bad_pattern": ("pattern", "reason"),
        "no_lines": ("selection", "id", "lines"),
        "too_slow": ("pattern",),
    }

    def __init__(self, *, pattern_timeout_s: float, **arc: Any) -> None:
        super().__init__(**arc)
        self.pattern_timeout_s = above("method.pattern_timeout_s", pattern_timeout_s, 0)

    async def handle(self, action: Action) -> Observation:
        """Answer a recall; a selection after the id picks lines, and none that is not valid does anything."""
        id, _, selection = action.argument.strip().partition(" ")
        selection = selection.strip()
        if action.name != "_recall" or not selection:
            return await super().handle(action)
        record = self.find(action.name, id)
        if isinstance(record, Observation):
            return record
        lines = record.body.removesuffix("\n").split("\n")
        if pattern := _PATTERN.fullmatch(selection):
            chosen = self._matching(lines, pattern[1], ignore_case=bool(pattern[2]))
        else:
            chosen = self._numbered(lines, selection)
        if isinstance(chosen, Observation):
            return chosen
        if not chosen:
            return self._notice("no_lines", selection=selection, id=record.id, lines=len(lines))
        return self._give_lines(record, selection, chosen, len(lines))

    def _numbered(self, lines: Sequence[str], selection: str) -> list[tuple[int, str]] | Observation:
        """Lines by number: 40-60, 40- (to the end) or 40."""
        numbers = _RANGE.fullmatch(selection)
        first = int(numbers[1]) if numbers else 0
        if not numbers or first < 1:
            return self._notice("bad_selection", selection=selection)
        last = int(numbers[3]) if numbers[3] else len(lines) if numbers[2] else first
        if last < first:
            return self._notice("bad_selection", selection=selection)
        return list(enumerate(lines[first - 1 : last], start=first))

    def _matching(self, lines: Sequence[str], text: str, *, ignore_case: bool) -> list[tuple[int, str]] | Observation:
        """Lines that a regular expression matches."""
        try:
            pattern = regex.compile(text, regex.IGNORECASE if ignore_case else 0)
        except regex.error as fault:
            return self._notice("bad_pattern", pattern=text, reason=str(fault).partition("\n")[0])
        found = []
        try:
            for number, line in enumerate(lines, start=1):
                if match := pattern.search(line, timeout=self.pattern_timeout_s):
                    found.append((number, self._around(line, match.start())))
        except TimeoutError:
            return self._notice("too_slow", pattern=text)
        return found

    def _around(self, line: str, place: int) -> str:
        limit = self.bench.budget.recall_max_chars
        if len(line) <= limit:
            return line
        start = max(0, min(place - limit // 4, len(line) - limit // 2))
        return f"[... {line[start : start + limit // 2]} ...]"

    def _give_lines(self, record: Record, selection: str, chosen: Sequence[tuple[int, str]], lines: int) -> Observation:
        body = "\n".join(f"{number}: {line}" for number, line in chosen)
        note = fill(
            self.texts["selected"],
            id=record.id,
            signature=cut(record.signature, self.signature_chars),
            selection=selection,
            shown=len(chosen),
            lines=lines,
        )
        return self.give(record, f"{record.id} {selection}", body, note)

    def _notice(self, text: str, **values: object) -> Observation:
        return Observation(fill(self.texts[text], **values), returncode=1)
