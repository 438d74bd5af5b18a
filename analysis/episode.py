"""One episode, to be looked at: ``episode(run_dir, task)`` finds it, and ``print(it)`` and its methods tell it.

For notebooks: what the model saw at any call, what a compaction took out of the view, how the episode ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from arcbench.records import EPISODES, FATES, read_episodes
from arcbench.transcript import content_of
from arcbench.types import ConfigError, Json

Billed = Literal["agent", "method"]
_SHOWN_CHARS = 400


@dataclass(frozen=True)
class Episode:
    """One record. Calls are numbered from 1, those of the agent and those of its method apart, as turns, compactions
    and the ledger number the agent's."""

    record: Mapping[str, Json]

    def __str__(self) -> str:
        record = self.record
        why = f" ({record['reason']})" if record["reason"] else ""
        done = sum(row["outcome"] == "done" for row in record["compactions"])
        counts = f"{len(self._of('agent'))} calls, {done} compactions"
        if own := len(self._of("method")):
            counts += f", {own} calls of the method's own"
        return f"{record['task']}: {record['outcome']}{why}, {counts}"

    def prompt(self, call: int, *, billed: Billed = "agent", most_chars: int | None = _SHOWN_CHARS) -> str:
        """What the model was sent at a call, message by message; long ones shortened unless ``most_chars=None``.
        ``billed="method"`` counts the method's own calls instead. Raises :class:`ConfigError` for a call that was not
        made."""
        sent = [self.record["messages"][index] for index in self._call(call, billed)["messages"]]
        return "\n".join(
            f"[{message['role']}, {message['tokens']} tokens]\n{self._shortened(message, most_chars)}"
            for message in sent
        )

    def reply(self, call: int, *, billed: Billed = "agent") -> str:
        """What the model wrote at a call, thoughts included."""
        return str(self._call(call, billed)["text"])

    @property
    def calls(self) -> pd.DataFrame:
        """A row a call in order of time, ``number`` over all: who asked, prompt and reply tokens, those served from the
        cache, how it ended."""
        columns = ("number", "billed", "prompt_tokens", "cached_tokens", "completion_tokens", "finish", "latency_s")
        return pd.DataFrame([{key: call[key] for key in columns} for call in self.record["calls"]], columns=columns)

    @property
    def turns(self) -> pd.DataFrame:
        """A row a turn: the call that made it, the command, who answered, with what return code and size."""
        columns = ("call", "action", "fault", "answered_by", "returncode", "chars", "restored")
        return pd.DataFrame([{key: turn[key] for key in columns} for turn in self.record["turns"]], columns=columns)

    @property
    def compactions(self) -> pd.DataFrame:
        """A row a compaction: before which agent call, why, the view's tokens before and after, and what became of the
        messages, as ``<turn>.reply`` and ``<turn>.result``."""
        rows = []
        for row in self.record["compactions"]:
            fates = {fate: " ".join(row["fates"].get(fate, ())) for fate in FATES}
            rows.append(
                {k: row[k] for k in ("before_call", "trigger", "outcome", "tokens_before", "tokens_after")} | fates
            )
        return pd.DataFrame(rows)

    def taken_out(self, compaction: int) -> Iterator[tuple[str, str, str]]:
        """What a compaction (from 0) took out of the view: place, fate, text. Raises :class:`ConfigError` for one that
        was not made."""
        rows = self.record["compactions"]
        if not 0 <= compaction < len(rows):
            raise ConfigError(f"compaction={compaction}: {self.record['task']} has {len(rows)}, from 0")
        for fate, places in rows[compaction]["fates"].items():
            for place in places if fate != "kept" else ():
                turn, _, part = place.partition(".")
                message = self.record["messages"][self.record["turns"][int(turn)][part]]
                yield place, fate, self._shortened(message, None)

    def _of(self, billed: Billed) -> list[Mapping[str, Json]]:
        return [call for call in self.record["calls"] if call["billed"] == billed]

    def _call(self, number: int, billed: Billed) -> Mapping[str, Json]:
        calls = self._of(billed)
        if not 1 <= number <= len(calls):
            raise ConfigError(f"call={number}: {self.record['task']} has {len(calls)} calls of the {billed}, from 1")
        return calls[number - 1]

    @staticmethod
    def _shortened(message: Mapping[str, Json], most_chars: int | None) -> str:
        if "parts" in message:
            return "(a page of the document; its spans stand in the record)"
        text = content_of(message)
        if most_chars is None or len(text) <= most_chars:
            return text
        half = most_chars // 2
        return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def episode(run_dir: Path | str, task: str) -> Episode:
    """The latest record of a task in a run folder. Raises :class:`ConfigError` when there is none."""
    found = None
    for record in read_episodes(Path(run_dir) / EPISODES):
        if record["task"] == task:
            found = record
    if found is None:
        raise ConfigError(f"task={task}: no record of it in {run_dir}")
    return Episode(found)
