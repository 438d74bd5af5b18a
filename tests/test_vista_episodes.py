"""VISTA in whole episodes: what the loop, the environment and the record make of it."""

from __future__ import annotations

import re
from typing import Any

from bench import budget
from fakes import FakeEngine, FakeHarness, build, played, qwen, run, setup, task
from workspaces import filled

from arcbench.transcript import messages_of
from arcbench.types import Observation, Past, Request


def episode(replies: Any, *, window: int = 1500, completion: int = 100, history: Any = (), **changes: Any) -> Any:
    """The record of an episode whose tokens are Qwen3's, and the harness it was played on."""
    limits = budget(window, completion, **{k: changes.pop(k) for k in ("force_at_calls",) if k in changes})
    harness = FakeHarness()
    engine = FakeEngine(replies, window=window, chat=qwen())
    made = build(f"method/{changes.pop('name', 'vista')}", **{"dashboard": "full"} | changes)
    record = played(task(history=tuple(history)), setup(engine, made, limits, harness))
    assert record["error"] is None, record.get("detail")
    return record, harness.opened[0].ran


def test_a_forced_compaction_in_an_episode() -> None:
    replies = [run("say 100"), run("say 120"), run("say 140"),
               run("submit 42"), run('archive B3,B5,B7 "looks"'), run("submit 42")]  # fmt: skip
    record, ran = episode(replies, window=3000, force_at_calls=(4,))
    assert record["outcome"] == "correct"
    assert ran == ["say 100", "say 120", "say 140", "submit 42"]  # the first one was refused and not run
    assert [turn["answered_by"] for turn in record["turns"]] == [*["environment"] * 3, "gate", "method", "environment"]
    forced, done = record["compactions"]
    assert (forced["trigger"], forced["outcome"], forced["before_call"]) == ("forced", "pending", 4)
    shown = [sum(record["messages"][i]["tokens"] for i in call["messages"]) for call in record["calls"]]
    opening = record["calls"][0]["prompt_tokens"] - shown[0]
    assert forced["tokens_after"] == record["calls"][3]["prompt_tokens"] == shown[3] + opening
    assert forced["tokens_before"] > record["calls"][2]["prompt_tokens"]
    assert (done["trigger"], done["outcome"]) == ("proactive", "done")
    assert done["tokens_after"] == record["calls"][5]["prompt_tokens"]
    assert done["fates"] == {
        "kept": ["0.reply", "1.reply", "2.reply", "3.reply", "3.result", "4.reply", "4.result"],
        "archived": ["0.result", "1.result", "2.result"],
    }
    (event,) = [event for event in record["events"] if event["event"] == "archive"]
    assert (event["blocks"], event["text"]) == (["B3", "B5", "B7"], "looks")
    # before: what the prompt would have been with the three answers still in it
    assert done["tokens_before"] - done["tokens_after"] == event["freed"]


def test_an_agent_that_does_nothing_in_overflow_mode_is_helped_by_the_guard() -> None:
    replies = [run("say 100"), run("say 120"), run("say 140"), "What?", run("say 5"), run("submit 42")]
    record, ran = episode(replies, window=3000, force_at_calls=(4,))
    assert record["outcome"] == "correct"
    assert ran == ["say 100", "say 120", "say 140", "submit 42"]
    assert [turn["answered_by"] for turn in record["turns"]][3:] == ["correction", "gate", "environment"]
    assert [event["block"] for event in record["events"] if event["event"] == "guard"] == ["B5", "B3"]


def test_malformed_replies_end_an_episode_in_overflow_mode_too() -> None:
    record, _ = episode(
        [run("say 100"), run("say 120"), run("say 140"), "a", "b", "c"], window=3000, force_at_calls=(4,)
    )
    assert record["reason"] == "malformed"


def test_a_recorded_history_pauses_for_the_agent() -> None:
    history = [Past(run(f"page {i}", "thought " * 150), Observation(f"w{i} " * 20)) for i in range(12)]

    def agent(request: Request) -> str:
        told = request.messages[-2].content
        if told.startswith("[OVERFLOW MODE"):
            ids = [
                m.content[1:].split(",")[0] for m in request.messages[2:-2] if re.match(r"\[B\d+, (a|t)\w+_", m.content)
            ]
            return run(f'archive {",".join(ids)} "pages so far"')
        return run("submit 42")

    record, ran = episode(agent, window=1600, history=history)
    assert record["outcome"] == "correct"
    assert ran == ["submit 42"]
    answered = [turn["answered_by"] for turn in record["turns"]]
    assert answered.count("method") >= 2
    assert answered[0] == "environment"
    assert answered.index("method") < len(history) + answered.count("method") - 1  # between two turns of the history
    assert all(call["prompt_tokens"] <= 1500 for call in record["calls"])
    assert [c["outcome"] for c in record["compactions"] if c["trigger"] == "overflow"].count("pending") >= 2


def test_a_history_goes_on_without_an_agent_that_helps() -> None:
    history = [Past(run(f"page {i}", "thought " * 150), Observation(f"w{i} " * 20)) for i in range(12)]
    idle = lambda request: run("submit 42")  # noqa: E731
    record, ran = episode(idle, window=1600, history=history)
    assert record["outcome"] == "correct"
    assert ran == ["submit 42"]
    assert len(record["turns"]) > len(history) + 1


def test_a_result_that_cannot_be_admitted_is_stored_in_an_episode() -> None:
    replies = [run("say 900"), run("read /archive/B3.txt"), run("submit 42")]
    record, ran = episode(replies, window=1600)
    assert record["outcome"] == "correct"
    assert ran[:2] == ["say 900", "read /archive/B3.txt"]
    first = messages_of(record, 2)
    assert first[3].content.startswith("[B3, moved out of view: answer to `say 900`, exit code 0 | ")
    overflows = [c for c in record["compactions"] if c["trigger"] == "overflow"]
    assert overflows[0]["fates"]["archived"] == ["0.result"]
    assert overflows[0]["tokens_before"] > 1500 >= overflows[0]["tokens_after"]
    assert overflows[0]["tokens_after"] == record["calls"][1]["prompt_tokens"]


def test_a_reply_that_fills_the_completion_is_cut_and_goes_behind_a_placeholder() -> None:
    """4,096 tokens: as many as the reserved completion. It is not run, and the episode goes on."""
    replies = [run("say 50"), "word " * 4100, run("say 1900"), run("say 1900"), *[run("submit 42")] * 3]
    record, ran = episode(replies, window=12_288, completion=4096)
    assert record["turns"][1]["fault"] == "output_cut"
    assert record["outcome"] == "correct"
    assert "submit 42" in ran
    assert all(call["prompt_tokens"] <= 12_288 - 4096 for call in record["calls"])


def test_an_episode_ends_where_no_room_can_be_made() -> None:
    """The prefix fits, and leaves too little for any turn beside it."""
    made, limits = build("method/vista", dashboard="full"), budget(1500, 100)
    played_with = {
        size: played(
            task(prompt="word " * size),
            setup(FakeEngine([run("say 300"), run("submit 42")], window=1500, chat=qwen()), made, limits),
        )
        for size in range(600, 1400, 25)
    }
    reasons = {size: record["reason"] for size, record in played_with.items() if record["reason"]}
    assert set(reasons.values()) == {"context_overflow", "prefix_too_large"}
    for size, reason in reasons.items():
        record = played_with[size]
        assert len(record["calls"]) == (1 if reason == "context_overflow" else 0)
        if reason == "context_overflow":
            assert record["compactions"][-1]["outcome"] == "nothing"


def test_every_turn_notes_the_dashboard_s_footprint() -> None:
    player = filled(50, 50, usable=9000)
    player.do('archive B3 "x"')
    notes = player.events("dashboard")
    assert [(note["form"], note["blocks"], note["away"]) for note in notes] == [
        ("full", 3, 0),
        ("full", 5, 0),
        ("full", 7, 1),
    ]
    assert notes[-1]["tokens"] == player.weigh(player.view[-1])
