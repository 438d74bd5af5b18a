"""The loop: what breaks an episode, and what is recorded of it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest
from bench import budget
from fakes import (
    FakeEngine,
    FakeHarness,
    Keeps,
    played,
    run,
    setup,
    task,
)
from told import SUBMIT, WIDE, said

from arcbench.episode import play
from arcbench.types import (
    Done,
    EngineError,
    Message,
    Request,
    Turn,
)


class Breaks(Keeps):
    def __init__(self, *, bench: Any, at: str) -> None:
        super().__init__(bench=bench)
        self.at = at

    def view(self) -> Any:
        if self.at == "view" and self.turns:
            raise ZeroDivisionError("odd view")
        return super().view()

    async def observe(self, turn: Turn) -> Done | None:
        if self.at == "observe":
            raise ZeroDivisionError("odd turn \ud83d")
        return await super().observe(turn)

    async def compact(self, reason: Any) -> Any:
        if self.at == "compact":
            raise ZeroDivisionError("odd compaction")
        return await self.bench.complete([Message("user", "x " * 20_000)], max_tokens=5)


@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("view", "ZeroDivisionError: odd view"),
        ("observe", "ZeroDivisionError: odd turn \\ud83d"),
        ("compact", "ZeroDivisionError: odd compaction"),
        ("call", "ContextOverflow: 20005 prompt + 5 completion > 10000 window tokens"),
    ],
)
def test_d4_what_breaks_inside_a_method_becomes_an_error_record(at: str, error: str) -> None:
    """Field case D4."""
    engine = FakeEngine(said("look", "look", "submit 42"), window=10_000)
    record = played(task(), setup(engine, partial(Breaks, at=at), budget(10_000, 50, force_at_calls=(2,))))
    assert (record["outcome"], record["reason"], record["error"]) == ("error", None, error)
    assert "Traceback" in record["detail"]
    assert len(record["calls"]) == 1
    assert orjson.loads(orjson.dumps(record)) == record


def test_d4_an_engine_error_is_an_error_record_and_the_others_go_on() -> None:
    """Field case D4."""

    def reply(request: Request) -> Any:
        return (
            EngineError("the server went away")
            if request.episode == "fake/1" and request.number == 2
            else SUBMIT
            if request.number == 2
            else run("look")
        )

    cell = setup(FakeEngine(reply, window=10_000), Keeps, WIDE)

    async def all_at_once() -> Any:
        return await asyncio.gather(*(play(task(i), cell) for i in range(3)))

    records = asyncio.run(all_at_once())
    assert [record["outcome"] for record in records] == ["correct", "error", "correct"]
    assert records[1]["error"] == "EngineError: the server went away"
    assert [len(record["calls"]) for record in records] == [2, 1, 2]
    assert {*records[0]} - {*records[1]} == set()


def test_an_environment_or_a_score_that_breaks_is_an_error_record() -> None:
    class Unscored(FakeHarness):
        def score(self, record: Any) -> Any:
            raise KeyError("gold")

    broken = FakeHarness(answer=lambda command, mounts: mounts[command])  # type: ignore[arg-type]
    for harness, error in ((broken, "KeyError: 'look'"), (Unscored(), "KeyError: 'gold'")):
        record = played(
            task(),
            setup(FakeEngine(said("look", "submit 42")[harness is not broken :], window=999), Keeps, WIDE, harness),
        )
        assert (record["outcome"], record["error"]) == ("error", error)
