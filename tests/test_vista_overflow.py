"""Who makes room under VISTA: the agent in overflow mode, the guard on a real overflow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bench import budget
from fakes import FakeEngine, build, played, setup, task
from paged import QwenBench
from workspaces import ABLATIONS, Player, assert_ledger_is_gate, filled, forced, ledger

from arcbench.types import Action, Done, Message, Nothing, Pending

# ------------------------------------------------------------------------------------- overflow mode


def test_a_forced_compaction_asks_the_agent_in_a_view_of_its_own() -> None:
    player = filled(200, 200, 300, 300)
    player.do('archive B3 "the first"')
    player.do('delete B5 "the second"')
    working = player.size
    assert isinstance(player.compact("forced"), Pending)
    assert player.vista.waiting()
    shown = player.shown
    assert shown[0] == "[B2, assistant_message: your command `look 0` | it begins: ``` look 0 ```]"
    assert shown[1].startswith("[B3, archived, L1: the first | ")
    assert shown[3] == "[B5, deleted: answer to `look 1`, exit code 0]"
    assert shown[5].startswith("[B7, tool_result: answer to `look 2`, exit code 0 | it begins: w2 word ")
    assert shown[5].endswith("…]")
    assert re.fullmatch(
        r"\[OVERFLOW MODE: .* only `archive` or `delete` is carried out\. Free at least \d+ tokens\.\]", shown[-1]
    )
    assert [message.role for message in player.view] == ["system", *["user"] * (len(player.view) - 1)]
    assert player.view[:2] == list(player.vista.prefix)
    # nothing whole, and the ledger is the whole workspace's
    whole = [text for id, text in player.texts.items() if id != "B1" and len(text) > 130]
    assert not [text for text in whole if text in "\n".join(shown)]
    assert ledger(player.status)["used"] == working
    assert len(shown) == len(player.workspace.layout().messages) + 1
    assert player.size <= player.bench.budget.usable_tokens


@pytest.mark.parametrize(
    "command", ["look 9", "cat /archive/B3.txt", "submit 42", "next ABCDEF", 'board "x"', "archived B3", "Archive B3"]
)
def test_in_overflow_mode_nothing_else_is_carried_out(command: str) -> None:
    player = forced(200, 200, 200, 200, board=True)
    before, ran = player.state, list(player.ran)
    name, _, argument = command.partition(" ")
    notice = player.vista.gate(Action(name, argument, command))
    assert notice is not None
    allowed = "`archive` or `delete`"
    assert notice.text == (
        f"Overflow mode: nothing but {allowed} is carried out before there is room. This command was not run."
    )
    assert player.state == before
    turn = player.do(command)
    assert (turn.answered_by, player.ran) == ("gate", ran)
    assert player.vista.waiting()


def test_without_an_archive_overflow_mode_offers_to_delete() -> None:
    player = forced(200, 200, 200, 200, name="vista_no_archive")
    assert "only `delete` is carried out" in player.shown[-1]
    assert player.do('archive B3 "x"').answered_by == "gate"
    player.do('delete B3,B5,B7 "seen"')
    assert not player.vista.waiting()


def test_overflow_mode_ends_when_there_is_room() -> None:
    player = forced(200, 200, 200, 200)
    excess = int(re.search(r"at least (\d+)", player.shown[-1])[1])  # type: ignore[index]
    raw = sum(row.tokens for row in player.workspace.rows() if row.status == "visible")
    assert excess == max(raw - player.bench.budget.keep_recent_tokens, ledger(player.status)["used"] - 1200)
    turn = player.do('archive B3,B5,B7 "three looks"')
    assert not player.vista.waiting()
    assert turn.answered_by == "method"
    assert player.events("guard") == []
    whole = [block.tokens for block in player.workspace.raw() if not block.managed]
    assert sum(whole) <= player.bench.budget.keep_recent_tokens
    assert player.done is not None
    assert player.done.fates == {
        (0, "reply"): "kept", (0, "result"): "archived", (1, "reply"): "kept", (1, "result"): "archived",
        (2, "reply"): "kept", (2, "result"): "archived", (3, "reply"): "kept", (3, "result"): "kept",
        (4, "reply"): "kept", (4, "result"): "kept",
    }  # fmt: skip
    before, after = player.done.sizes or (0, 0)
    assert after == player.size
    assert before > after


def test_which_blocks_stay_is_the_agent_s_choice() -> None:
    player = forced(200, 200, 200, 200)
    player.do('archive B5,B7,B9 "the later ones"')
    assert not player.vista.waiting()
    assert player.status_of("B3") == "visible"


@pytest.mark.parametrize("idle", [["look 9", "look 9"], ["submit 42", 'archive B99 "x"'], ["nothing", "at all"]])
def test_after_two_calls_the_guard_finishes(idle: list[str]) -> None:
    player = forced(200, 210, 220, 200)
    for command in idle:
        assert player.vista.waiting()
        player.do(command) if " " in command and command != "at all" else player.say(command)
    assert not player.vista.waiting()
    assert [event["block"] for event in player.events("guard")] == ["B7", "B5"]
    assert player.status_of("B9") == "visible"  # the newest answer of the environment
    whole = [block.tokens for block in player.workspace.raw() if not block.managed]
    assert sum(whole) <= player.bench.budget.keep_recent_tokens
    assert player.done is not None
    assert player.done.fates[1, "result"] == "archived"


def test_the_agent_has_its_calls_again_when_it_is_asked_again() -> None:
    player = forced(100, 300, 200, 50)
    player.say("no command")
    player.say("no command")
    assert not player.vista.waiting()
    player.fill((300, 300, 50))
    assert isinstance(player.compact("forced"), Pending)
    player.say("no command")
    assert player.vista.waiting()
    player.say("no command")
    assert not player.vista.waiting()


def test_what_is_freed_in_two_calls_adds_up() -> None:
    player = forced(200, 200, 200, 200, 200)
    player.do('archive B3 "one"')
    assert player.vista.waiting()
    player.do('archive B5,B7,B9 "three"')
    assert not player.vista.waiting()
    assert player.events("guard") == []


def test_overflow_mode_ends_when_nothing_is_left_to_move() -> None:
    """The newest answer alone is too much: once all else has gone, the agent is not asked again."""
    player = forced(200, 200, 700, usable=2000, overflow_calls=5)
    player.do('archive B3,B5 "both"')
    assert not player.vista.waiting()
    assert player.status_of("B7") == "visible"


@pytest.mark.parametrize("sizes", [[40, 40], [400, 400, 400]], ids=["small", "large"])
def test_a_forced_compaction_with_nothing_in_excess_changes_nothing(sizes: list[int]) -> None:
    player = filled(*sizes, usable=9000)
    before = player.state
    outcome = player.compact("forced")
    assert isinstance(outcome, Done)
    assert set(outcome.fates.values()) == {"kept"}
    assert not player.vista.waiting()
    assert player.state == before


@pytest.mark.parametrize("reason", ["forced", "overflow"])
@pytest.mark.parametrize("name", ["vista", *ABLATIONS])
@pytest.mark.parametrize("sizes", [[40, 40], [400, 410, 420, 430, 440]], ids=["ample", "tight"])
def test_c8_the_same_transcript_compacted_twice(reason: Any, name: str, sizes: list[int]) -> None:
    """Field case C8: the second pass changes nothing."""
    player = filled(*sizes, name=name, usable=2300)
    first = player.compact(reason)
    before, notes = player.state, list(player.bench.notes)
    second = player.compact(reason)
    assert type(second) is type(first)
    assert (player.state, player.bench.notes) == (before, notes)
    if isinstance(second, Done):
        assert set(second.fates.values()) <= {"kept"}


def test_a_management_view_without_room_for_all_lines_shows_the_handles() -> None:
    """A line for each of many small blocks takes more than they do."""
    player = filled(300, usable=10_000, dashboard="folded")
    for at in range(40):
        player.do(f"look {at}", "ok")
    player.fill([300, 300])
    player.do('archive B3 "the first"')
    player.bench.budget = budget(player.size + 150, 100, keep_recent_share=0.1)
    assert isinstance(player.compact("forced"), Pending)
    assert player.size <= player.bench.budget.usable_tokens
    handle, notice = player.shown
    assert handle.startswith("[B3, archived, L1: the first | ")
    assert notice.startswith("[OVERFLOW MODE: ")
    lines = list(player.workspace.stubs())
    assert player.size + player.weigh(*lines) - player.weigh(player.view[2]) > player.bench.budget.usable_tokens


# ------------------------------------------------------------------------------------- real overflow


@pytest.mark.parametrize(
    ("guard", "order"), [("largest_first", ["B9", "B5", "B3"]), ("oldest_first", ["B3", "B5", "B7"])]
)
def test_on_a_real_overflow_the_guard_acts_first(guard: str, order: list[str]) -> None:
    player = filled(500, 600, 300, 700, 100, usable=10_000, guard=guard)
    player.bench.budget = budget(2600, 100)
    assert isinstance(player.compact("overflow"), Done)
    taken = [event["block"] for event in player.events("guard")]
    assert taken == order[: len(taken)]
    assert len(taken) >= 2
    assert player.status_of("B11") == "visible"
    assert player.size <= player.bench.budget.compact_to_tokens
    # no more than it takes
    assert player.size + player.events("guard")[-1]["freed"] > player.bench.budget.compact_to_tokens


def test_of_two_of_a_size_the_newer_goes_first() -> None:
    player = filled(300, 300, 300, 10, usable=10_000)
    player.bench.budget = budget(1700, 100)
    player.compact("overflow")
    assert [event["block"] for event in player.events("guard")][:2] == ["B7", "B5"]


def test_where_results_are_not_enough_the_agent_is_asked() -> None:
    player = Player(usable=1500)
    for at in range(6):
        player.do(f"look {at}", f"w{at}", thought="thought " * 190)
    assert player.size > 1500
    assert isinstance(player.compact("overflow"), Pending)
    assert player.vista.waiting()
    assert player.size <= 1500
    player.do('archive B2-B9 "what I thought"')
    assert not player.vista.waiting()
    assert player.size <= player.bench.budget.compact_to_tokens


def test_what_the_guard_took_before_it_asked_is_reported_once() -> None:
    player = Player(usable=1700)
    player.fill([200])
    for at in range(6):
        player.do(f"look {at}", f"w{at}", thought="thought " * 190)
    assert isinstance(player.compact("overflow"), Pending)
    assert [event["block"] for event in player.events("guard")] == ["B3"]
    player.do('archive B4-B11 "what I thought"')
    assert player.done is not None
    assert player.done.fates[0, "result"] == "archived"
    assert player.done.fates[1, "reply"] == "archived"
    again = player.compact("overflow")
    assert isinstance(again, Done)
    assert set(again.fates.values()) == {"kept"}


@pytest.mark.parametrize("name", ["vista", *ABLATIONS])
@pytest.mark.parametrize("body", ["ok", "word " * 40, ""], ids=["tiny", "small", "empty"])
def test_many_small_blocks_never_fill_the_context(name: str, body: str) -> None:
    """Each is no larger than the line that would stand for it alone; together they go behind one."""
    player = Player(name, usable=900)
    for at in range(70):
        player.do("ls", body)
        assert player.make_room() == "fits", at
        if player.vista.waiting():
            player.say("hm")
            player.say("hm")
        assert player.size <= 900
    readable = name not in ("vista_no_archive", "vista_no_recovery")
    assert bool(player.recovered()) == readable


def test_a_turn_that_is_too_large_alone_goes_behind_placeholders() -> None:
    """A huge reply (as many tokens as a completion may have), and then a huge answer beside it."""
    player = filled(20, 20, usable=1500)
    player.do("look", "x " * 2000, thought="thought " * 1400)
    assert player.make_room() == "fits"
    assert {player.status_of("B6"), player.status_of("B7")} == {"offloaded_placeholder"}
    found = player.recovered()
    assert found["B6"] == player.texts["B6"]
    assert found["B7"] == player.texts["B7"]


def test_the_last_resort_folds_the_dashboard_and_merges_handles() -> None:
    player = Player(usable=1700)
    for at in range(24):
        player.do(f"look {at}", f"w{at} " * 80)
        assert player.make_room() == "fits"
        while player.vista.waiting():
            player.do("look on")
    assert player.events("dashboard_folded") == [{}]
    assert player.events("guard_cleared")
    assert player.status.count("\n") < 12
    merged = [line for line in player.shown if line.startswith("[G")]
    assert "all that came before" in merged[0]
    found = player.recovered()
    away = [row.id for row in player.workspace.rows() if row.status in ("archived", "offloaded_placeholder")]
    assert {id: found[id] for id in away} == {id: player.texts[id] for id in away}
    assert_ledger_is_gate(player)


def test_nothing_can_be_done_where_the_prefix_leaves_no_room() -> None:
    prefix = (Message("system", "You are an agent."), Message("user", "word " * 800))
    player = Player(usable=1000, prefix=prefix)
    player.do("look", "x " * 400)
    assert player.make_room() == "nothing"
    assert player.bench.count(player.view) > 1000
    assert isinstance(player.compact("overflow"), Nothing)


def test_a_prefix_that_is_too_large_is_refused_at_once() -> None:
    limits = budget(1000, 100)
    prefix = (Message("system", "You are an agent."), Message("user", "word " * 900))
    bench = QwenBench(limits)
    made: Any = build("method/vista", dashboard="full")(bench=bench)
    assert made.begin(prefix) == "prefix_too_large"
    record = played(
        task(prompt="word " * 900),
        setup(FakeEngine([], window=1000), build("method/vista", dashboard="full"), limits),
    )
    assert (record["outcome"], record["reason"]) == ("no_answer", "prefix_too_large")
    assert record["calls"] == []
