"""What the agent sees under VISTA: ledger and gate are one count, and the dashboard is made anew before every call."""

from __future__ import annotations

from typing import Any

import pytest
from bench import Bench, budget, words
from fakes import FakeEngine, build, played, qwen, run, setup, task
from paged import QwenBench
from workspaces import Player, assert_ledger_is_gate, filled, ledger

from arcbench.transcript import messages_of


@pytest.mark.parametrize("form", ["full", "folded"])
@pytest.mark.parametrize(
    ("bench", "unit"), [(QwenBench, None), (Bench, words), (Bench, len)], ids=["qwen", "words", "len"]
)
def test_the_ledger_is_the_gate_after_every_step(form: str, bench: type[Bench], unit: Any) -> None:
    player = Player(usable=100_000, bench=bench, unit=unit, dashboard=form)
    assert_ledger_is_gate(player)
    for command in (
        *[f"look {i}" for i in range(9)],
        'archive B3 "the first"',
        "cat /archive/B3.txt",
        'archive B5,B9,B11 "three of them"',
        'delete B7 "no use"',
        'delete B12-B13 "no use"',
        'archive G1,B3,B15-B17 "a level up"',
        "grep w /archive/G2.txt",
        'delete B14 "only the command"',
        'archive B99 "nothing"',
    ):
        at = len(player.turns)
        player.do(command, f"w{at} 🚪 中文\n" * 50, thought="Now I look.")
        assert_ledger_is_gate(player)
        if form == "full":
            assert list(ledger(player.status)["rows"]) == [row.id for row in player.workspace.rows()]
    for block in list(player.workspace.raw()):
        player.workspace.offload(block)
    player.do("look again", "x " * 20)
    assert_ledger_is_gate(player)
    assert {row.status for row in player.workspace.rows()} == {
        "pinned", "visible", "archived", "offloaded_placeholder", "deleted"
    }  # fmt: skip


def test_the_engine_receives_what_the_dashboard_prints() -> None:
    """In whole episodes, with Qwen3's tokens: `used` of every prompt is the engine's own count of it."""
    replies = [run("say 300"), run("say 200", "Hm."), run('archive B3 "w"'), run("read /archive/B3.txt"), "no command",
               run('delete B5 "x"'), run("say 5"), run("submit 42")]  # fmt: skip
    engine = FakeEngine(replies, window=8192, chat=qwen())
    cell = setup(engine, build("method/vista", dashboard="full"), budget(8192, 512))
    record = played(task(), cell)
    assert record["outcome"] == "correct", record.get("detail")
    for call in record["calls"]:
        status = messages_of(record, call["number"])[-1].content
        assert ledger(status)["used"] == call["prompt_tokens"]
        assert ledger(status)["overhead"] + ledger(status)["sum"] + ledger(status)["own"] == call["prompt_tokens"]


def test_the_view_is_pure_and_ends_in_one_dashboard() -> None:
    player = filled(50, 50)
    view = player.view
    assert player.view == view
    assert [message for message in view if "<context_workspace_status>" in message.content] == view[-1:]
    assert view[:2] == list(player.vista.prefix)


def test_ages_count_turns_and_parents_are_the_commands() -> None:
    rows = ledger(filled(5, 5, 5).status)["rows"]
    assert [(id, row[1], row[2], row[4]) for id, row in rows.items()] == [
        ("B1", "3", "user_message", "-"),
        ("B2", "2", "assistant_message", "-"),
        ("B3", "2", "tool_result", "B2"),
        ("B4", "1", "assistant_message", "-"),
        ("B5", "1", "tool_result", "B4"),
        ("B6", "0", "assistant_message", "-"),
        ("B7", "0", "tool_result", "B6"),
    ]
