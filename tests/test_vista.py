"""VISTA as a method: ledger and gate, what the agent may ask for, overflow mode, the guard, the ablations; and each
known fault of the paper's reference implementation, absent here."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import Any

import pytest
from bench import Bench, budget, method, words
from fakes import FakeEngine, FakeHarness, build, compose, conf, played, qwen, rules, run, setup, task
from paged import QwenBench
from workspaces import SHELL, Player, blocks_in, ledger, sections, where_of

from arcbench.episode import system_prompt
from arcbench.transcript import messages_of
from arcbench.types import Action, ConfigError, Done, Message, Nothing, Observation, Past, Pending, Request
from arcbench.vista.workspace import File

TEXTS = conf("method/vista")["texts"]
ABLATIONS = (
    "vista_no_dashboard",
    "vista_no_recovery",
    "vista_no_archive",
    "vista_fixed_archive",
    "vista_status_board",
    "vista_wording",
)


def filled(*sizes: int, **options: Any) -> Player:
    """A player after turns of so many words each."""
    player = Player(**options)
    player.fill(sizes)
    return player


def assert_ledger_is_gate(player: Player) -> None:
    """One and the same count: rows, overhead and dashboard are the rendered prompt, and it is what is printed."""
    rows = player.workspace.rows()
    printed = ledger(player.status)
    size = player.size
    assert sum(row.tokens for row in rows) + printed["overhead"] + printed["own"] == size
    assert printed["used"] == size
    assert printed["sum"] == printed["conversation"] == player.workspace.in_view
    assert printed["total"] == player.bench.budget.usable_tokens
    assert printed["overhead"] == player.bench.count(player.view[:1])
    assert printed["own"] == player.weigh(player.view[-1])


# ------------------------------------------------------------------------------------- ledger and gate


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


# ------------------------------------------- what is wrong with the reference implementation, and not here


def test_fault_the_ledger_counts_less_than_the_gate() -> None:
    """There: 8,565 against 10,036 tokens with 54 of 62 blocks archived."""
    player = filled(*[40] * 31, usable=30_000)
    for first in range(2, 56, 9):
        player.do(f'archive B{first}-B{first + 8} "part {first}"')
    rows = ledger(player.status)["rows"]
    assert sum(row[5] == "archived" for row in rows.values()) == 54
    assert_ledger_is_gate(player)


def test_fault_a_payload_without_the_arguments_of_its_call() -> None:
    player = Player(usable=9000)
    command = 'grep -E "a  b|c\t' + "x" * 900 + '" notes.txt'
    player.do(command, "hit " * 300, thought="Where is it?")
    player.do('archive B3 "hits"')
    player.do('archive B2 "the command"')
    assert f"answer to `{command}`, exit code 0 ===\n" in player.cat("/archive/B3.txt")
    assert command in player.cat("/archive/B2.txt").partition("\n")[2]
    assert "Where is it?" in player.cat("/archive/B2.txt")
    # and the line in the view does not grow with the command
    assert len(player.shown[1]) < 600


def test_fault_recovered_text_drops_out_of_view() -> None:
    player = filled(90, 90, 90, usable=9000)
    player.do('archive B3 "a"')
    player.do('archive B5 "b"')
    player.do("cat /archive/B3.txt")
    player.do("cat /archive/B5.txt")
    player.do("look on", "x")
    texts = player.shown
    assert player.texts["B3"] in "\n".join(texts[1:][9:])
    assert [text.count(player.texts["B5"]) for text in texts].count(1) == 1
    visible = [id for id, row in ledger(player.status)["rows"].items() if row[5] == "visible"]
    whole = {message.content for message in player.view}
    assert [id for id in visible if not any(player.texts[id] in text for text in whole)] == []


def test_fault_receipts_with_paths_drop_out_of_view() -> None:
    player = filled(*[90] * 6, usable=9000)
    for block in ("B3", "B5", "B7"):
        player.do(f'archive {block} "s"')
    player.do("look on", "x")
    receipts = [text for text in player.shown if text.startswith("Archived ")]
    assert [re.findall(r"/archive/\w+\.txt", text) for text in receipts] == [
        ["/archive/B3.txt"], ["/archive/B5.txt"], ["/archive/B7.txt"]
    ]  # fmt: skip


def test_fault_a_rejected_result_is_thrown_away() -> None:
    player = filled(20, usable=900)
    body = "needle " * 3000
    player.do("look big", body)
    assert player.make_room() == "fits"
    assert player.status_of("B5") == "offloaded_placeholder"
    line = player.shown[3]
    assert line.startswith("[B5, moved out of view: answer to `look big`, exit code 0 | ")
    assert where_of(line)[1] == "/archive/B5.txt"  # type: ignore[index]
    assert player.recovered()["B5"] == body
    assert player.do("grep -c needle /archive/B5.txt").result.content == "1"


def test_discard_is_the_paper_s_way_and_says_so() -> None:
    player = filled(20, usable=900, reject="discard")
    player.do("look big", "needle " * 3000)
    assert player.make_room() == "fits"
    assert player.shown[3].startswith("[This answer to `look big`, exit code 0 has ")
    assert "It was thrown away; its command has run." in player.shown[3]
    assert player.recovered() == {}
    assert player.events("rejected")[0]["block"] == "B5"
    assert_ledger_is_gate(player)
    assert player.ran == ["look 0", "look big"]


def test_discard_takes_nothing_but_answers() -> None:
    player = filled(20, usable=1000, reject="discard")
    player.do("look", "x " * 1100, thought="long " * 1100)
    assert player.make_room() == "fits"
    assert [event["block"] for event in player.events("rejected")] == ["B5"]
    assert player.status_of("B4") == "offloaded_placeholder"
    assert player.recovered()["B4"] == player.texts["B4"]


def test_discard_never_makes_the_view_larger() -> None:
    prefix = (Message("system", "You are an agent."), Message("user", "word " * 790))
    player = Player(usable=920, prefix=prefix, reject="discard")
    player.do("ls", "ok")
    size = player.size
    assert player.make_room() == "nothing"
    assert player.size <= size
    assert player.events("rejected") == []
    assert "ok" in player.shown


def test_fault_a_handle_without_path_size_and_checksum() -> None:
    player = filled(90, 90, 90, usable=9000)
    receipt = player.do('archive B3,B5 "two"').observation.text
    player.workspace.offload(player.workspace.blocks["B7"])
    player.vista._changed()
    for line in (player.shown[1], player.shown[5], receipt.rstrip(".") + "]"):
        assert where_of(line) is not None
    assert set(player.recovered()) == {"B3", "B5", "B7"}


def test_fault_a_dashboard_that_is_not_refreshed() -> None:
    """There: after the first archive of a run, only archiving refreshes it."""
    player = filled(90, 90, usable=9000)
    player.do('archive B3 "a"')
    seen = {player.status}
    for at in range(5):
        player.do("look", "x " * at)
        seen.add(player.status)
        assert list(ledger(player.status)["rows"])[-1] == f"B{2 * len(player.turns) + 1}"
    player.say("no command")
    assert len(seen | {player.status}) == 7


def test_fault_deleting_leaves_files() -> None:
    player = filled(*[90] * 5, usable=9000)
    player.do('archive B3,B5 "inner"')
    player.do('archive G1,B7 "outer"')
    player.do('archive B9 "other"')
    assert set(player.vista.mounts()) == {"/archive/G1.txt", "/archive/G2.txt", "/archive/B9.txt"}
    player.do('delete G2 "no use"')
    assert set(player.vista.mounts()) == {"/archive/B9.txt"}
    assert player.do("cat /archive/G1.txt").observation.returncode == 1
    assert not any("w0" in text for text in player.vista.mounts().values())


def test_fault_a_deletion_is_overwritten_by_cached_state() -> None:
    player = filled(*[90] * 4, usable=9000, board=True)
    player.do('board "remember"')
    player.do('archive B5 "x"')
    player.do('delete B3,B5 "no use"')
    for _ in range(3):
        player.do("look", "x")
        player.view  # noqa: B018
    player.compact("overflow")
    assert {player.status_of(id) for id in ("B3", "B5")} == {"deleted"}
    assert player.vista.mounts() == {}
    assert "w0" not in "\n".join(player.shown)
    assert player.view[-1].content.startswith("Your status board: remember\n")


def test_fault_a_receipt_names_the_first_path_only() -> None:
    player = filled(*[90] * 5, usable=9000)
    receipt = player.do('archive B3,B5,B8-B9 "four"').observation.text
    (path,) = re.findall(r"/archive/\w+\.txt", receipt)
    assert receipt.startswith("Archived B3, B5, B8-B9 as G1, level 1; ")
    assert [part[0] for part in sections(player.cat(path))] == ["B3", "B5", "B8", "B9"]


def test_fault_preflight_takes_what_the_model_has_not_seen() -> None:
    player = filled(60, 60, 500, 800, usable=1500)
    assert player.size > 1500
    assert player.make_room() == "fits"
    assert player.status_of("B9") == "visible"
    assert player.status_of("B7") == "offloaded_placeholder"


def test_fault_any_archive_ends_overflow_mode() -> None:
    player = forced(200, 200, 200, 200, usable=2000, overflow_calls=3)
    player.do('archive B3 "one"')
    assert player.vista.waiting()
    player.do('archive B5,B7 "two"')
    assert not player.vista.waiting()


def test_fault_only_the_lowest_level_of_a_mix_is_archived() -> None:
    player = filled(*[90] * 4, usable=9000)
    player.do('archive B3 "level 1"')
    player.do('archive B3,B5,B7 "all three"')
    assert [(id, row[3]) for id, row in ledger(player.status)["rows"].items() if row[5] == "archived"] == [
        ("B3", "2"), ("B5", "1"), ("B7", "1")
    ]  # fmt: skip


def test_fault_archiving_again_overwrites_the_text() -> None:
    player = filled(*[90] * 3, usable=9000)
    player.do('archive B3,B5 "where the door is"')
    player.do('archive G1,B7 "rooms"')
    assert "where the door is" not in "\n".join(text for text in player.shown if text.startswith("["))
    assert "where the door is" in player.cat("/archive/G2.txt")
    assert set(player.recovered()) == {"B3", "B5", "B7"}


def test_fault_an_archived_command_leaves_its_answer_without_one() -> None:
    player = filled(90, usable=9000)
    player.do("look long", "x", thought="word " * 90)
    player.do("look", "x")
    player.do('archive B4 "a command"')
    assert blocks_in(player.shown[2]) == ["B4"]
    assert "`look long`" in player.shown[2]
    assert player.shown[3] == "x"


def test_fault_no_room_is_reserved_for_the_reply() -> None:
    player = filled(200, usable=900)
    assert ledger(player.status)["total"] == 900
    assert player.bench.budget.window_tokens == 1000


# --------------------------------------------------------------------------------------- bad input


@cache
def archived() -> Player:
    """B3 deleted; G2 holds G1 (B5, B7) and B9; B11 is archived alone; B13, B15 and the receipts are visible."""
    player = filled(*[90] * 7, usable=30_000, board=True)
    player.do('delete B3 "x"')
    player.do('archive B5,B7 "inner"')
    player.do('archive G1,B9 "outer"')
    player.do('archive B11 "alone"')
    player.do('board "as it was"')
    return player


REFUSED = {
    'archive B99 "s"': "There is no block B99; the newest is B25. Nothing was changed.",
    'archive B13,B99 "s"': "There is no block B99; the newest is B25. Nothing was changed.",
    'archive B13-B26 "s"': "There is no block B26; the newest is B25. Nothing was changed.",
    'archive B3 "s"': "B3 was deleted. Nothing was changed.",
    'archive B13,B3 "s"': "B3 was deleted. Nothing was changed.",
    'archive B1 "s"': "B1 is the task and stays. Nothing was changed.",
    'archive B1-B2 "s"': "B1 is the task and stays. Nothing was changed.",
    'archive B11 "s"': "B11 is archived already; a handle can only be archived together with others. "
    "Nothing was changed.",
    'archive G2 "s"': "G2 is archived already; a handle can only be archived together with others. "
    "Nothing was changed.",
    'archive B5 "s"': "B5 is archived in G2; name G2. Nothing was changed.",
    'archive G1 "s"': "G1 is archived in G2; name G2. Nothing was changed.",
    'archive B9,B13 "s"': "B9 is archived in G2; name G2. Nothing was changed.",
    'archive B15-B13 "s"': "B15-B13 is written backwards. Nothing was changed.",
    'archive G3 "s"': "There is no block G3; the newest is B25. Nothing was changed.",
    'archive B0 "s"': "B0 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B013 "s"': "B013 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B99999999999 "s"': "B99999999999 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B13 - B15 "s"': "- is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B13–B15 "s"': "B13–B15 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B13—B15 "s"': "B13—B15 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive B13−B15 "s"': "B13−B15 is no block. Blocks are named as B3, B5-B8 or G1. Nothing was changed.",
    'archive /archive/../secrets.txt "s"': "/ARCHIVE/../SECRETS.TXT is no block. Blocks are named as B3, B5-B8 or G1. "
    "Nothing was changed.",
    'archive "s"': "No block was named. Nothing was changed.",
    'archive , "s"': "No block was named. Nothing was changed.",
    'archive B13 ""': TEXTS["archive_usage"],
    "archive B13 ''": TEXTS["archive_usage"],
    'archive B13 "  \t "': TEXTS["archive_usage"],
    "archive B13": TEXTS["archive_usage"],
    "archive B13 no quotes": TEXTS["archive_usage"],
    'archive B13 "open': TEXTS["archive_usage"],
    'archive B13 “curly”': TEXTS["archive_usage"],
    'archive "s" B13': TEXTS["archive_usage"],
    "archive": TEXTS["archive_usage"],
    'delete B99 "s"': "There is no block B99; the newest is B25. Nothing was changed.",
    'delete B1 "s"': "B1 is the task and stays. Nothing was changed.",
    'delete B3 "s"': "B3 was deleted. Nothing was changed.",
    'delete B5 "s"': "B5 is archived in G2; name G2. Nothing was changed.",
    'delete B13 ""': TEXTS["delete_usage"],
    "delete B13": TEXTS["delete_usage"],
    'delete "s"': "No block was named. Nothing was changed.",
    'delete B15-B13 "s"': "B15-B13 is written backwards. Nothing was changed.",
    "board": 'usage: board "TEXT" (at most 1000 characters). The board is unchanged.',
    'board ""': 'usage: board "TEXT" (at most 1000 characters). The board is unchanged.',
    'board B3 "s"': 'usage: board "TEXT" (at most 1000 characters). The board is unchanged.',
    f'board "{"x" * 1001}"': 'usage: board "TEXT" (at most 1000 characters). The board is unchanged.',
}  # fmt: skip


@pytest.mark.parametrize(("command", "notice"), REFUSED.items(), ids=lambda text: text[:40])
def test_bad_input_gets_one_line_and_changes_nothing(command: str, notice: str) -> None:
    player = archived()
    before, notes = player.state, list(player.bench.notes)
    observation = player.handle(command)
    assert (observation.text, observation.returncode > 0) == (notice, True)
    assert "\n" not in notice
    assert player.vista.workspace.in_view == sum(row.tokens for row in player.workspace.rows())
    player.vista._changed()  # what is shown is made anew, and is the same
    assert player.state == before
    assert player.bench.notes == notes


@pytest.mark.parametrize(
    ("command", "returncode"),
    [
        ("echo x > /archive/B11.txt", 2),
        ("echo x", 127),
        ("rm /archive/B11.txt", 127),
        ("tee /archive/B11.txt", 127),
        ("cat secrets.txt >> /archive/B11.txt", 2),
        ("sed -i s/w/x/ /archive/B11.txt", 2),
        ("mv /archive/B11.txt /archive/B12.txt", 127),
        ("cat /archive/B99.txt", 1),
        ("cat /archive/../etc/passwd", 1),
        ("cat /archive/../../archive/B3.txt", 1),
        ("cat /archive/B5.txt", 1),
        ("cat /archive/*", 2),
        ("cat /archive", 1),
        ("grep w /archive/", 1),
    ],
)
def test_the_archive_is_read_only_and_ends_at_its_walls(command: str, returncode: int) -> None:
    player = archived()
    before = player.state
    name, _, argument = command.partition(" ")
    action = Action(name, argument, command)
    assert player.vista.gate(action) is None
    said = SHELL.run(action, player.mounts.files(player.vista.mounts())).observation
    assert said.returncode == returncode
    assert "\n" not in said.text
    assert player.state == before


def test_mounts_are_a_copy() -> None:
    player = archived()
    dict(player.vista.mounts())
    mounts: Any = player.vista.mounts()
    mounts["/archive/B11.txt"] = "changed"
    assert player.cat("/archive/B11.txt") != "changed"


@pytest.mark.parametrize(
    "command",
    [
        "cat /archive/B11.txt",
        "cat archive/B11.txt",
        "head -c 1 ./archive//B11.txt",
        "cat '/archive/B11.txt'",
        "cat /archive/'B11'.txt",
        'cat /archive/B"11".txt',
        "cat /archive/B11\\.txt",
        "grep -n w /archive/G2.txt /archive/B11.txt",
        "sed -n 1p /archive/B11.txt",
    ],
)
def test_a_payload_whose_bytes_changed_is_not_read(command: str) -> None:
    player = filled(*[90] * 7, usable=9000)
    player.do('archive B11 "alone"')
    player.do('archive B3,B5 "others"')
    file = player.workspace.files["/archive/B11.txt"]
    player.workspace.files["/archive/B11.txt"] = File(file.text.replace("w4", "w5", 1), file.sha256)
    before, ran = player.state, list(player.ran)
    turn = player.do(command)
    assert turn.result.content == (
        "/archive/B11.txt no longer holds what was archived (its sha256 differs). It was not read."
    )
    assert (turn.answered_by, turn.observation.returncode) == ("gate", 1)
    assert player.ran == ran
    assert player.state[1] == before[1]
    assert player.state[3] == before[3]
    # the others are read as before, and so is what only looks like it
    assert player.do("cat /archive/G1.txt").answered_by == "environment"
    assert player.do("cat /archive/B1.txt").answered_by == "environment"


@pytest.mark.parametrize(
    ("written", "blocks"),
    [
        ("archive b13 's'", ["B13"]),
        ('archive B13,B15 "s"', ["B13", "B15"]),
        ('archive B13 B15 "s"', ["B13", "B15"]),
        ('archive B13, b15,, "s"', ["B13", "B15"]),
        ('archive   B13\tB15   "s"', ["B13", "B15"]),
        ('archive B15,B13,B15 "s"', ["B13", "B15"]),
        ('archive B13-B15 "s"', ["B13", "B14", "B15"]),
        ('archive B13"s"', ["B13"]),
        ('archive b11,g2,B13 "s"', ["B5", "B7", "B9", "B11", "B13"]),
    ],
)  # fmt: skip
def test_how_blocks_may_be_written(written: str, blocks: list[str]) -> None:
    player = filled(*[90] * 7, usable=30_000)
    player.do('archive B5,B7 "inner"')
    player.do('archive G1,B9 "outer"')
    player.do('archive B11 "alone"')
    assert player.do(written).observation.returncode == 0
    (line,) = [text for text in player.shown if "L1: s |" in text or "L3: s |" in text]
    assert blocks_in(line) == blocks or line.startswith(f"[{blocks[0]}, archived")


WHERE = "| 5 characters in /archive/B9.txt, sha256 0123456789ab]"


@pytest.mark.parametrize(
    ("written", "summary"),
    [
        ('"the "red" door"', 'the "red" door'),
        ('"it\'s here"', "it's here"),
        ("'say \"so\"'", 'say "so"'),
        (f'"{WHERE}"', WHERE),
        ('"[G7 = B2-B99, archived, L9: x]"', "[G7 = B2-B99, archived, L9: x]"),
        ('"$id ${where} $$"', "$id ${where} $$"),
        ('"a\u2028b\x85c\td\x0be"', "a b c d e"),
        ('"中文 🚪 \x00 ]"', "中文 🚪 \x00 ]"),
        ('"</context_workspace_status>"', "</context_workspace_status>"),
    ],
)  # fmt: skip
def test_a_summary_is_kept_as_it_is_on_one_line(written: str, summary: str) -> None:
    player = filled(90, 90, usable=9000)
    assert player.do(f"archive B3 {written}").observation.returncode == 0
    line = player.shown[1]
    assert line.startswith(f"[B3, archived, L1: {summary} | answer to `look 0`")
    assert len(line.splitlines()) == 1
    assert where_of(line)[1] == "/archive/B3.txt"  # type: ignore[index]
    assert player.recovered()["B3"] == player.texts["B3"]
    assert_ledger_is_gate(player)


def test_a_summary_of_ten_thousand_characters_must_be_worth_its_room() -> None:
    summary = "word " * 2000
    player = filled(90, 4000, usable=30_000, limits={"presentation_limit_chars": 100_000})
    before = player.state
    refused = player.handle(f'archive B3 "{summary}"')
    assert re.fullmatch(
        r"The handle would take \d+ tokens, no less than the \d+ it stands for. Nothing was changed.", refused.text
    )
    player.vista._changed()
    assert player.state == before
    assert player.do(f'archive B5 "{summary}"').observation.returncode == 0
    assert summary.strip() in player.shown[3]
    assert_ledger_is_gate(player)


@pytest.mark.parametrize("command", ["archive", "delete", "board"])
def test_a_command_without_end_is_read_at_once(command: str) -> None:
    player = archived()
    start = time.perf_counter()
    for tail in (" " * 200_000 + "x", '"' * 100_000 + "x", '" ' * 100_000 + "x", "B1," * 60_000):
        assert player.handle(f"{command} B13{tail}").returncode == 2
    assert time.perf_counter() - start < 2


def test_a_turn_costs_the_agent_one_call_whatever_it_asked() -> None:
    """A refused command is a turn like any other, in the view and in the ledger."""
    player = filled(90, usable=9000)
    player.do('archive B99 "s"')
    assert player.shown[-1] == "There is no block B99; the newest is B3. Nothing was changed."
    assert list(ledger(player.status)["rows"]) == ["B1", "B2", "B3", "B4", "B5"]


# ------------------------------------------------------------------------------------------ ablations


@cache
def composed(name: str) -> dict[str, Any]:
    """The config as the command line makes it."""
    chosen: dict[str, Any] = compose(f"method={name}")["method"]
    return chosen


def test_each_ablation_changes_one_thing_in_its_config() -> None:
    changed = {
        "vista_no_dashboard": {"dashboard"},
        "vista_no_recovery": {"recovery", "promise"},
        "vista_no_archive": {"archive", "promise"},
        "vista_fixed_archive": {"control"},
        "vista_status_board": {"board"},
        "vista_wording": {"rubric"},
    }
    assert set(changed) == set(ABLATIONS)
    full = composed("vista")
    for name, keys in changed.items():
        config = composed(name)
        assert config["id"] == name
        assert {key for key in full | config if full.get(key) != config.get(key)} == keys | {"id"}


def ablated(name: str) -> Player:
    config = composed(name)
    changes = {key: value for key, value in config.items() if key not in ("_target_", "_partial_", "id")}
    return Player(name, usable=9000, **changes)


def prompt_of(player: Player) -> str:
    return system_prompt(rules(system=conf("config")["rules"]["system"]), "ls: list", player.vista)


SAME = ("look 0", "look 1", "look 2", "look 3", "no command at all", "look 4", "look 5")


def same_turns(name: str) -> Player:
    """The same turns for each: the agent archives nothing itself, and one real overflow is met by the guard."""
    player = ablated(name)
    for at, command in enumerate(SAME):
        if command.startswith("look"):
            player.do(command, f"w{at} " * (200 + 10 * at))
        else:
            player.say(command)
    return player


def test_while_there_is_room_the_blocks_are_the_same_for_all() -> None:
    """Nothing but the dashboard differs before something is moved."""
    full = same_turns("vista")
    for name in ABLATIONS:
        player = same_turns(name)
        assert player.shown == full.shown
        assert player.status == ("" if name == "vista_no_dashboard" else full.status)
        assert player.vista.mounts() == {}


PARTS = conf("method/vista")["rubric"]


@pytest.mark.parametrize(
    ("name", "actions", "said"),
    [
        ("vista", ["archive", "delete"], ["dashboard", "criteria", "archive", "recovery", "delete"]),
        ("vista_no_dashboard", ["archive", "delete"], ["criteria", "archive", "recovery", "delete"]),
        ("vista_no_recovery", ["archive", "delete"], ["dashboard", "criteria", "archive", "delete"]),
        ("vista_no_archive", ["delete"], ["dashboard", "criteria", "delete"]),
        ("vista_fixed_archive", [], ["dashboard", "recovery"]),
        ("vista_status_board", ["archive", "delete", "board"], [*PARTS]),
        ("vista_wording", ["archive", "delete"], []),
    ],
)
def test_what_each_ablation_is_told(name: str, actions: list[str], said: list[str]) -> None:
    player = ablated(name)
    prompt = prompt_of(player)
    assert [doc.name for doc in player.vista.actions()] == actions
    assert [part for part, text in PARTS.items() if text in prompt] == said
    for action in ("archive", "delete", "board"):
        assert (f"\n{action} " in prompt) == (action in actions)
    assert ("/archive/" in prompt) == (name not in ("vista_no_recovery", "vista_no_archive"))
    assert ("status" in prompt) == (name != "vista_no_dashboard")


def test_nothing_but_the_wording_differs_with_other_wording() -> None:
    full, other = same_turns("vista"), same_turns("vista_wording")
    theirs = {part: text for part, text in composed("vista_wording")["rubric"].items() if part != "board"}
    assert prompt_of(other) == prompt_of(full).replace(
        full.vista.promise, "\n".join([composed("vista")["promise"], *theirs.values()])
    )
    assert all(text != PARTS[part] for part, text in theirs.items())
    for player in (full, other):
        player.do('archive B3,B5 "s"')
        player.do("cat /archive/G1.txt")
    assert other.view == full.view
    assert other.vista.mounts() == full.vista.mounts()
    # of like length, so that it is not the room that makes a difference
    assert 0.8 < len(prompt_of(other)) / len(prompt_of(full)) < 1.25


def test_nothing_but_the_dashboard_is_missing_without_it() -> None:
    full, blind = same_turns("vista"), same_turns("vista_no_dashboard")
    assert prompt_of(blind) == prompt_of(full).replace(PARTS["dashboard"] + "\n", "")
    for player in (full, blind):
        player.do('archive B3,B5 "s"')
    assert blind.view == full.view[:-1]
    assert blind.vista.mounts() == full.vista.mounts()
    # and its room is not kept free: the hidden dashboard costs nothing
    assert blind.size == full.size - full.weigh(full.view[-1])


def test_nothing_but_reading_back_is_missing_without_recovery() -> None:
    full, lossy = same_turns("vista"), same_turns("vista_no_recovery")
    promises = [composed(name)["promise"] for name in ("vista", "vista_no_recovery")]
    assert prompt_of(lossy) == prompt_of(full).replace(promises[0], promises[1]).replace(PARTS["recovery"] + "\n", "")
    for player in (full, lossy):
        player.do('archive B3,B5 "s"')
    where = re.compile(r" \| \d+ characters in /archive/\w+\.txt, sha256 [0-9a-f]{12}")
    freed = re.compile(r"; \d+ tokens freed")
    assert [freed.sub("", text) for text in lossy.shown] == [where.sub("", freed.sub("", text)) for text in full.shown]
    assert list(full.vista.mounts()) == ["/archive/G1.txt"]
    assert lossy.vista.mounts() == {}
    statuses = [[row.status for row in player.workspace.rows()] for player in (full, lossy)]
    assert statuses[0] == statuses[1]


def test_nothing_but_deleting_is_left_without_an_archive() -> None:
    full, lossy = same_turns("vista"), same_turns("vista_no_archive")
    for player in (full, lossy):
        player.do('delete B3 "s"')
    assert lossy.view == full.view
    archive = lossy.do('archive B5 "s"', "archive: no such command")
    assert archive.answered_by == "environment"
    assert lossy.vista.mounts() == {}


def test_a_static_rule_takes_the_oldest_and_the_agent_reads_them_back() -> None:
    full, fixed = same_turns("vista"), same_turns("vista_fixed_archive")
    assert fixed.view == full.view
    assert isinstance(fixed.compact("forced"), Done)
    assert not fixed.vista.waiting()
    away = [row.id for row in fixed.workspace.rows() if row.status == "offloaded_placeholder"]
    assert away[0] == "B3"
    assert away == sorted(away, key=lambda id: int(id[1:]))
    left = [row for row in fixed.workspace.rows() if row.status == "visible"]
    assert min(int(row.id[1:]) for row in left if row.tokens > 100) > int(away[-1][1:])
    assert {fixed.recovered()[id] == fixed.texts[id] for id in away} == {True}
    assert fixed.do("cat /archive/B3.txt").observation.restored


def test_a_static_rule_takes_any_block_in_order_of_age() -> None:
    player = Player("vista_fixed_archive", usable=1700, dashboard="folded", preview_chars=20)
    for at in range(5):
        player.do(f"look {at}", f"w{at}" + " word" * 150, thought="thought " * 150)
    assert player.make_room() == "fits"
    taken = [event["block"] for event in player.events("guard")]
    assert taken == ["B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9"][: len(taken)]
    assert player.size <= player.bench.budget.compact_to_tokens


def test_a_board_is_all_that_a_status_board_adds() -> None:
    full, board = same_turns("vista"), same_turns("vista_status_board")
    doc = conf("method/vista")["actions"]["board"]
    assert prompt_of(full) == prompt_of(board).replace(f"\n{doc['usage']}: {doc['help']}", "").replace(
        "\n" + PARTS["board"], ""
    )
    assert board.view == full.view
    board.do('board "next: the cellar"')
    full.do("look", board.turns[-1].result.content)
    assert board.shown[:-2] == full.shown[:-2]
    assert board.view[-1].content.startswith("Your status board: next: the cellar\n<context_workspace_status>\n")
    assert_ledger_is_gate(board)
    board.do('board "next: the attic"')
    assert "cellar" not in board.view[-1].content
    assert board.do("board").observation.returncode == 2
    assert "attic" in board.view[-1].content


def test_the_guard_of_each_ablation() -> None:
    """A real overflow, met by the guard: largest first behind placeholders; deleted where there is no archive."""
    for name in ("vista", *ABLATIONS):
        player = Player(name, usable=2300, **({"dashboard": "full"} if name != "vista_no_dashboard" else {}))
        player.fill([450, 460, 470, 480, 490])
        assert player.make_room() == "fits"
        taken = [event["block"] for event in player.events("guard")]
        status = {player.status_of(block) for block in taken}
        assert taken[0] == ("B3" if name == "vista_fixed_archive" else "B9"), name
        assert status == {"deleted" if name == "vista_no_archive" else "offloaded_placeholder"}
        readable = name not in ("vista_no_archive", "vista_no_recovery")
        assert set(player.recovered()) == (set(taken) if readable else set())


# ---------------------------------------------------------------------------------------- overflow mode


def forced(*sizes: int, **options: Any) -> Player:
    """A player who was just put into overflow mode by a forced compaction."""
    player = filled(*sizes, **options)
    assert isinstance(player.compact("forced"), Pending)
    return player


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


# ---------------------------------------------------------------------------------------- real overflow


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


# ------------------------------------------------------------------------------------------ whole episodes


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
    assert (event["blocks"], event["text"]) == (3, "looks")
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


# -------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dashboard": "small"}, "method.dashboard=small: must be one of full, folded, none"),
        ({"guard": "newest"}, "method.guard=newest: must be one of largest_first, oldest_first"),
        ({"reject": "drop"}, "method.reject=drop: must be one of store, discard"),
        ({"control": "user"}, "method.control=user: must be one of agent, rule"),
        ({"recovery": "yes"}, "method.recovery=yes: must be true or false"),
        ({"archive": None}, "method.archive=None: must be true or false"),
        ({"archive": False, "delete": False}, "method.delete=false: must be true with method.archive=false"),
        ({"overflow_calls": 0}, "method.overflow_calls=0: must be a whole number of at least 1"),
        ({"preview_chars": 0}, "method.preview_chars=0: must be a whole number of at least 1"),
        ({"command_chars": True}, "method.command_chars=True: must be a whole number of at least 1"),
        ({"board_chars": -1}, "method.board_chars=-1: must be a whole number of at least 1"),
        ({"texts.handle": "[$label]"}, "method.texts.handle='.\\$label.': must be a text with exactly these places: "),
        ({"texts.only": ""}, "method.texts.only='': must be a text"),
        ({"rubric.criteria": " "}, "method.rubric.criteria=' ': must be a text"),
        ({"status.head": "$used"}, "method.texts.dashboard.head='\\$used': must be a text"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_is_named(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Exception, match=f"{complaint}") as raised:
        method("vista", Bench(budget(1000, 100)), **changes)
    causes = (raised.value, raised.value.__cause__)
    assert any(isinstance(cause, ConfigError) and "\n" not in str(cause) for cause in causes)


def test_what_is_recalled_is_cut_as_arc_cuts_it() -> None:
    player = filled(3000, usable=30_000, limits={"presentation_limit_chars": 100_000})
    player.do('archive B3 "x"')
    turn = player.do("cat /archive/B3.txt")
    limit = player.bench.budget.recall_max_chars
    assert len(turn.observation.text) > limit
    assert limit <= len(turn.result.content) < limit + 100
    assert "characters left out" in turn.result.content


def test_a_file_is_read_whole_or_in_part() -> None:
    player = Player(usable=9000)
    body = "".join(f"line {at}: {at * 7919}\n" for at in range(90))
    player.do("look", body)
    player.do("look on", "word " * 60)
    player.do('archive B3,B5 "both"')
    whole = player.cat("/archive/G1.txt")
    lines = whole.split("\n")
    assert player.do("head -n 12 /archive/G1.txt").result.content == "\n".join(lines[:12])
    assert player.do("sed -n 13,20p /archive/G1.txt").result.content == "\n".join(lines[12:20])
    assert player.do("tail -n +21 /archive/G1.txt").result.content == "\n".join(lines[20:])
    assert player.do("grep -n 'line 33:' /archive/G1.txt").result.content == "35:line 33: 261327"
    assert player.do("ls -l /archive").result.content == f"{len(whole):>9} G1.txt"
