"""What an episode was told to do, and what its record says."""

from __future__ import annotations

from typing import Any

from bench import budget
from fakes import (
    run,
)

from arcbench.transcript import messages_of

WIDE = budget(10_000, 50)
SUBMIT = run("submit 42")


def said(*commands: str) -> list[str]:
    return [run(command) for command in commands]


def triggers(record: Any) -> list[tuple[int, str, str]]:
    return [(row["before_call"], row["trigger"], row["outcome"]) for row in record["compactions"]]


def sizes(record: Any) -> list[int]:
    return [call["prompt_tokens"] for call in record["calls"]]


def contents(record: Any, number: int) -> list[str]:
    return [message.content for message in messages_of(record, number)]


def answers(record: Any) -> list[str]:
    return [turn["answered_by"] for turn in record["turns"]]


def result(record: Any, turn: int) -> str:
    content: str = record["messages"][record["turns"][turn]["result"]]["content"]
    return content
