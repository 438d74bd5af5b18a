"""What the agent may ask for under VISTA, and what it gets for bad input; bad parameters."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import Any

import pytest
from bench import Bench, budget, method
from fakes import conf
from workspaces import SHELL, Player, assert_ledger_is_gate, blocks_in, filled, ledger, where_of

from arcbench.types import Action, ConfigError
from arcbench.vista.workspace import File

TEXTS = conf("method/vista")["texts"]


# ----------------------------------------------------------------------------------------- bad input


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


# ---------------------------------------------------------------------------------------- parameters


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
        ({"status.ledger": None}, "method.status.ledger=None: must be a text"),
        ({"actions.archive.usage": None}, "method.actions.archive.usage=None: must be a text"),
        ({"promise.files": "  "}, "method.promise.files='  ': must be a text"),
        ({"dashboard": "none", "board": True}, "method.board=true: must be false with method.dashboard=none"),
        ({"status.head": "$used"}, "method.status.head='\\$used': must be a text"),
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
