"""What is done of a run, kept beside its records, so that a finished cell is not read again.

``.done.json`` has, by task, the outcome and tokens of the episodes that are finished, and the size and time of the
``episodes.jsonl`` that they were read from. Another size or time, or a damaged file, and the records are read again:
nothing rests on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from arcbench.types import Json

FILE = ".done.json"


class Finished(NamedTuple):
    """An episode that is done, and what it took."""

    outcome: str
    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, record: Mapping[str, Json]) -> Finished:
        """From its record; a call without counts counts nothing."""
        calls = record["calls"]
        return cls(
            record["outcome"],
            sum(call["prompt_tokens"] or 0 for call in calls),
            sum(call["completion_tokens"] or 0 for call in calls),
        )


def read(episodes: Path) -> dict[str, Finished] | None:
    """By task what is kept of these records; ``None`` where that is nothing, or of another state of the file."""
    try:
        kept = orjson.loads((episodes.parent / FILE).read_bytes())
        now = episodes.stat()
        if (kept["size"], kept["mtime_ns"]) == (now.st_size, now.st_mtime_ns):
            return {task: Finished(str(o), int(p), int(c)) for task, (o, p, c) in kept["finished"].items()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        pass
    return None


def write(episodes: Path, finished: Mapping[str, Finished]) -> None:
    """Keep it, if that is possible."""
    draft = episodes.parent / f"{FILE}.tmp"  # the folder is held by one process
    with contextlib.suppress(OSError):
        now = episodes.stat()
        kept = {task: list(each) for task, each in finished.items()}
        draft.write_bytes(orjson.dumps({"size": now.st_size, "mtime_ns": now.st_mtime_ns, "finished": kept}))
        draft.replace(episodes.parent / FILE)
