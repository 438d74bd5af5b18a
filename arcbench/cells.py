"""The cells of a sweep, as a person reads them: how each ended, or what each would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DONE, SKIPPED, FAILED, OWED = STATES = ("done", "skipped", "failed", "owed")
"""A cell that was played to its end; that had nothing owed; that could not run, or has episodes in error; that was
stopped on the way or not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How one cell ended. ``words`` are the overrides that make it."""

    words: str
    state: str
    planned: int | None = None
    finished: int | None = None
    correct: int | None = None
    errors: int | None = None


def summary(ends: Sequence[End]) -> str:
    """A table of the cells and a line that counts them by state."""
    shared, own = told([end.words for end in ends])
    columns = {
        "cell": own,
        "state": [end.state for end in ends],
        "planned": [_number(end.planned) for end in ends],
        "finished": [_number(end.finished) for end in ends],
        "correct": [_number(end.correct) for end in ends],
        "errors": [_number(end.errors) for end in ends],
    }
    counts = Counter(end.state for end in ends)
    counted = ", ".join(f"{counts[state]} {state}" for state in STATES)
    return f"{shared}{table(columns, left=('cell', 'state'))}\n{len(ends)} cells: {counted}"


def told(words: Sequence[str]) -> tuple[str, list[str]]:
    """What cells are called: a line with the overrides that all have (empty for none), and each cell's others."""
    lists = [each.split(" ") for each in words]
    shared = [word for word in lists[0] if all(word in each for each in lists)] if len(lists) > 1 else []
    own = [" ".join(word for word in each if word not in shared) or "(no other)" for each in lists]
    return f"all cells: {' '.join(shared)}\n" if shared else "", own


def table(columns: Mapping[str, Sequence[str]], left: Sequence[str]) -> str:
    """Columns as padded text; those named in ``left`` are set left."""
    made = []
    for name, cells in columns.items():
        width = max(len(name), *map(len, cells)) if cells else len(name)
        made.append([cell.ljust(width) if name in left else cell.rjust(width) for cell in (name, *cells)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*made, strict=True))


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
