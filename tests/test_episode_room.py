"""The loop: what is sent, when a method compacts, what it starts from, and a view that the agent manages."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

import orjson
import pytest
from bench import budget
from fakes import (
    Asks,
    Drops,
    FakeEngine,
    FakeHarness,
    Keeps,
    Manages,
    Proactive,
    Stubborn,
    build,
    played,
    qwen,
    rules,
    run,
    setup,
    task,
)
from told import SUBMIT, WIDE, answers, contents, result, said, sizes, triggers

from arcbench.episode import play
from arcbench.types import (
    ContextOverflow,
    Done,
    Message,
    Observation,
    Past,
    Request,
)

# -------------------------------------------------------------------------------- window and counts


def test_w3_a_small_a_full_and_an_overfull_prompt_at_once() -> None:
    """Field case W3."""
    engine = FakeEngine([SUBMIT], window=64)
    cell = setup(engine, Keeps, budget(64, 16))
    tasks = [task(i, "x " * (size - 8)) for i, size in enumerate((10, 64, 65))]
    assert [engine.count([Message("system", "x"), Message("user", t.prompt)], thinking=True) for t in tasks] == [
        10,
        64,
        65,
    ]

    async def all_at_once() -> Any:
        return await asyncio.gather(*(play(each, cell) for each in tasks))

    small, *big = asyncio.run(all_at_once())
    assert (small["outcome"], sizes(small)) == ("correct", [10])
    for record, size in zip(big, (64, 65), strict=True):
        assert (record["outcome"], record["reason"], record["calls"]) == ("no_answer", "context_overflow", [])
        assert triggers(record) == [(1, "overflow", "nothing")]
        assert record["compactions"][0]["tokens_before"] == size


@pytest.mark.parametrize(("size", "compactions"), [(48, []), (49, [(3, "overflow", "done")])])
def test_w4_the_window_is_used_to_the_last_token(size: int, compactions: list[Any]) -> None:
    """Field case W4: window 64, reserved 16; 48 tokens are sent, 49 are compacted first."""
    # prefix 10, and a turn of `say n` has n + 8 tokens
    engine = FakeEngine(said("say 9", f"say {size - 35}", "submit 42"), window=64)
    record = played(task(), setup(engine, Drops, budget(64, 16)))
    assert record["outcome"] == "correct"
    assert triggers(record) == compactions
    assert sizes(record) == [10, 27, 48 if size == 48 else 49 - 17]
    assert all(c["tokens_before"] == 49 and c["tokens_after"] == 32 for c in record["compactions"])


@pytest.mark.parametrize(("size", "compactions"), [(48, 0), (49, 1)])
def test_w4_with_real_tokens(size: int, compactions: int) -> None:
    """Field case W4, counted as Qwen3 counts."""
    engine = FakeEngine([SUBMIT], window=64, chat=qwen())
    cell = setup(engine, partial(Drops, keep=0), budget(64, 16))
    empty = engine.count([Message("system", "Beware."), Message("user", "Say it.")], thinking=True)
    past = "a" + " a" * (size - empty - engine.count_text(SUBMIT.strip()) - 11)
    history = (Past(SUBMIT.strip(), Observation(past)),)
    record = played(task(history=history), cell)
    assert record["outcome"] == "correct"
    assert len(record["compactions"]) == compactions
    assert sizes(record) == [size if not compactions else empty]
    assert all(row["tokens_before"] == 49 for row in record["compactions"])


def compacting(name: str, **changes: Any) -> Any:
    """A method of conf/ by name, or a fake one."""
    fakes = {"keeps": Keeps, "drops": Drops, "stubborn": Stubborn}
    return fakes.get(name) or build(f"method/{name}", **changes)


@pytest.mark.parametrize(("name", "manual"), [("drops", 146), ("stubborn", 146), ("arc", 101), ("sliding_window", 126)])
def test_c1_one_observation_larger_than_the_window(name: str, manual: int) -> None:
    """Field case C1: window 200, system prompt 150, one observation of 400 tokens."""
    engine = FakeEngine(said("say 400", "submit 42"), window=200)
    harness = FakeHarness(manual="m " * manual)
    record = played(task(), setup(engine, compacting(name), budget(200, 16), harness))
    assert (record["outcome"], record["reason"]) == ("no_answer", "compaction_no_progress")
    assert sizes(record) == [155]
    assert 3 <= len(record["compactions"]) <= 4


def test_an_engine_that_finds_an_overflow_we_did_not_count() -> None:
    def strict(request: Request) -> Any:
        return ContextOverflow(99, 16, 64) if len(request.messages) > 4 else said("look", "look", "submit 42")[called()]

    for method, reason, rows in (
        (Drops, None, [(3, "overflow", "done")]),
        (Keeps, "context_overflow", [(3, "overflow", "nothing")]),
        (Stubborn, "compaction_no_progress", [(3, "overflow", "done")] * 3),
    ):
        called = itertools.count().__next__
        record = played(task(), setup(FakeEngine(strict, window=10_000), method, WIDE))
        assert (record["reason"], triggers(record)) == (reason, rows)
        assert [call["number"] for call in record["calls"]] == list(range(1, len(record["calls"]) + 1))


# ------------------------------------------------------------------------------ when to compact


def test_forced_compactions_come_before_the_given_agent_calls() -> None:
    engine = FakeEngine(said(*["say 5"] * 5, "submit 42"), window=10_000)
    record = played(task(), setup(engine, Drops, budget(10_000, 50, force_at_calls=(2, 4, 9))))
    assert triggers(record) == [(2, "forced", "done"), (4, "forced", "done")]
    assert sizes(record) == [10, 23, 36, 23, 36, 49]
    row = record["compactions"][1]
    assert (row["tokens_before"], row["tokens_after"]) == (49, 23)
    assert row["fates"] == {
        "dropped": ["0.reply", "0.result", "1.reply", "1.result"],
        "kept": ["2.reply", "2.result"],
    }


def test_a_recall_counts_as_a_call_and_a_method_call_does_not() -> None:
    replies = said("say 5", "_recall §00000000", "say 5", "submit 42")
    record = played(
        task(), setup(FakeEngine(replies, window=10_000), build("method/arc"), budget(10_000, 50, force_at_calls=(3,)))
    )
    assert triggers(record) == [(3, "forced", "done")]

    def reply(request: Request) -> str:
        return "brief" if request.messages[0].content == "Be brief." else next(agent)

    agent = iter(said("say 5", "say 5", "submit 42"))
    record = played(task(), setup(FakeEngine(reply, window=10_000), Asks, budget(10_000, 50, force_at_calls=(2, 3))))
    assert triggers(record) == [(2, "forced", "done"), (3, "forced", "done")]
    assert [call["billed"] for call in record["calls"]] == ["agent", "method", "agent", "method", "agent"]
    assert [call["number"] for call in record["calls"]] == [1, 2, 3, 4, 5]
    assert [turn["call"] for turn in record["turns"]] == [1, 2, 3]
    assert record["events"] == [
        {"after_call": 1, "event": "rewritten", "turns": 0},
        {"after_call": 2, "event": "rewritten", "turns": 1},
    ]


def test_nothing_is_a_recorded_no_op_when_forced() -> None:
    record = played(
        task(), setup(FakeEngine(said("look", "submit 42"), window=99), Keeps, budget(99, 50, force_at_calls=(2,)))
    )
    assert record["outcome"] == "correct"
    row = record["compactions"][0]
    assert (row["trigger"], row["outcome"], row["final"], row["fates"]) == ("forced", "nothing", False, {})
    assert row["tokens_before"] == row["tokens_after"] == sizes(record)[1]


def test_a_final_nothing_ends_the_episode_at_the_forced_call() -> None:
    cell = setup(
        FakeEngine(said("look", "submit 42"), window=99),
        partial(Keeps, final=True),
        budget(99, 50, force_at_calls=(2,)),
    )
    record = played(task(), cell)
    assert (record["reason"], len(record["calls"])) == ("context_overflow", 1)
    assert record["compactions"][0]["final"] is True


@pytest.mark.parametrize("passes", [1, 3, 5])
def test_passes_without_a_smaller_view_end_it(passes: int) -> None:
    cell = setup(FakeEngine(said("say 90"), window=64), Stubborn, budget(64, 16), rules=rules(compaction_passes=passes))
    record = played(task(), cell)
    assert record["reason"] == "compaction_no_progress"
    assert triggers(record) == [(2, "overflow", "done")] * passes


def test_a_slow_method_may_take_as_many_passes_as_it_needs() -> None:
    class OneAtATime(Drops):
        def drop(self) -> Done:
            self.turns = self.turns[1:]
            return Done({})

    engine = FakeEngine(said(*["say 1"] * 8, "say 70", "submit 42"), window=100)
    record = played(task(), setup(engine, OneAtATime, budget(100, 10)))
    assert record["outcome"] == "correct"
    assert triggers(record) == [(10, "overflow", "done")] * 8


def test_a_proactive_method_compacts_inside_observe() -> None:
    engine = FakeEngine(said("say 5", "say 6", "say 7", "submit 42"), window=10_000)
    record = played(task(), setup(engine, partial(Proactive, most=2), WIDE))
    assert triggers(record) == [(4, "proactive", "done")]
    row = record["compactions"][0]
    assert (row["tokens_before"], row["tokens_after"]) == (10 + 13 + 14 + 15, 10 + 15)
    assert row["fates"]["dropped"] == ["0.reply", "0.result", "1.reply", "1.result"]


# -------------------------------------------------------------------------------------- history


def test_a_history_is_told_counted_and_compacted_without_a_call() -> None:
    history = tuple(Past(run(f"say {i}", "old thought"), Observation(f"r{i} " * 10, i % 2)) for i in range(5))
    engine = FakeEngine(said("look", "submit 42"), window=70)
    harness = FakeHarness(turn_limit=2, call_limit=2)
    record = played(task(history=history), setup(engine, Drops, budget(70, 10, force_at_calls=(1,)), harness))
    assert record["outcome"] == "correct"
    assert [turn["call"] for turn in record["turns"]] == [None] * 5 + [1, 2]
    assert answers(record) == ["environment"] * 7
    assert [turn["action"] for turn in record["turns"][:2]] == ["say 0", "say 1"]
    assert harness.opened[0].ran == ["look", "submit 42"]
    # organic ones while it was replayed, then the one that is forced before call 1
    assert triggers(record) == [(1, "overflow", "done"), (1, "forced", "done")]
    assert "r4 r4" in contents(record, 1)[-1]


def test_a_history_that_overflows_a_method_without_room_ends_there() -> None:
    history = tuple(Past(run("look"), Observation("r " * 30)) for _ in range(5))
    record = played(task(history=history), setup(FakeEngine([], window=99), Keeps, budget(99, 10)))
    assert (record["reason"], record["calls"], len(record["turns"])) == ("context_overflow", [], 3)


def test_a_recorded_reply_need_not_be_well_formed() -> None:
    history = (Past("look\ud83d", Observation("r\ud83d")),)
    record = played(task(history=history), setup(FakeEngine([SUBMIT], window=99), Keeps, budget(99, 10)))
    turn = record["turns"][0]
    assert (turn["action"], turn["fault"], turn["answered_by"]) == (None, "no_block", "environment")
    assert contents(record, 1)[2:] == ["look\\ud83d", "r\\ud83d"]
    assert orjson.loads(orjson.dumps(record)) == record


# ------------------------------------------------------------------ a method that the agent manages


def test_pending_puts_the_agent_to_work_until_there_is_room() -> None:
    engine = FakeEngine(said("say 40", "say 40", "say 40", "look", "drop 1", "submit 42"), window=150)
    harness = FakeHarness()
    record = played(task(), setup(engine, Manages, budget(150, 16), harness))
    assert record["outcome"] == "correct"
    assert triggers(record) == [(4, "overflow", "pending")]
    assert answers(record) == ["environment"] * 3 + ["gate", "method", "environment"]
    assert harness.opened[0].ran == ["say 40"] * 3 + ["submit 42"]
    assert contents(record, 4)[2:] == ["3 turns. Drop some."]
    assert contents(record, 5)[2:] == ["4 turns. Drop some."]
    assert result(record, 3) == "Not now: drop first."
    assert "drop N: keep only the newest N turns" in contents(record, 1)[0]


def test_a_replayed_history_waits_for_the_agent() -> None:
    history = tuple(Past(run("look"), Observation(f"r{i} " * 40)) for i in range(7))
    engine = FakeEngine(said("look", "drop 1", "drop 1", "submit 42"), window=150)
    record = played(task(history=history), setup(engine, Manages, budget(150, 16)))
    assert record["outcome"] == "correct"
    assert triggers(record) == [(1, "overflow", "pending"), (3, "overflow", "pending")]
    assert [turn["call"] for turn in record["turns"]] == [None, None, None, 1, 2, None, None, None, 3, None, 4]
    assert [by for by in answers(record) if by != "environment"] == ["gate", "method", "method"]
    assert all(size <= 134 for size in sizes(record))
    assert contents(record, 1)[2:] == ["3 turns. Drop some."]
    assert [text[:2] for text in contents(record, 4)[3::2]] == ["r5", "1 ", "r6"]


def test_a_forced_pending_is_asked_for_once() -> None:
    engine = FakeEngine(said("say 5", "say 5", "drop 1", "submit 42"), window=10_000)
    record = played(task(), setup(engine, Manages, budget(10_000, 50, force_at_calls=(3,))))
    assert record["outcome"] == "correct"
    assert triggers(record) == [(3, "forced", "pending")]
    assert contents(record, 3)[-1] == "2 turns. Drop some."


def test_reads_below_a_mount_are_cut_as_recalls_are() -> None:
    engine = FakeEngine(said("say 100", "say 2", "drop 1", "read /archive/0", "submit 42"), window=10_000)
    limits = budget(10_000, 50, recall_max_chars=100, presentation_limit_chars=300, force_at_calls=(3,))
    record = played(task(), setup(engine, Manages, limits))
    whole = " ".join(f"w{i}" for i in range(100))
    assert result(record, 0) == f"{whole[:150]}\n[... {len(whole) - 300} characters left out ...]\n{whole[-150:]}"
    assert result(record, 3) == f"{whole[:50]}\n[... {len(whole) - 100} characters left out ...]\n{whole[-50:]}"
    assert [turn["restored"] for turn in record["turns"]] == [False, False, False, True, False]
    assert [turn["chars"] for turn in record["turns"]][::3] == [len(whole)] * 2
