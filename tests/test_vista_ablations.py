"""Each ablation of VISTA changes one thing, and nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from fakes import compose, conf, rules
from workspaces import ABLATIONS, Player, assert_ledger_is_gate

from arcbench.episode import system_prompt
from arcbench.types import Done


@cache
def composed(name: str) -> dict[str, Any]:
    """The config as the command line makes it."""
    chosen: dict[str, Any] = compose(f"method={name}")["method"]
    return chosen


def test_each_ablation_changes_one_thing_in_its_config() -> None:
    changed = {
        "vista_no_dashboard": {"dashboard"},
        "vista_no_recovery": {"recovery"},
        "vista_no_archive": {"archive"},
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
        full.vista.promise, "\n".join([composed("vista")["promise"]["files"], *theirs.values()])
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
    promises = [composed("vista")["promise"][key] for key in ("files", "handles")]
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


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, "files"),
        ({"recovery": False}, "handles"),
        ({"archive": False}, "nothing"),
        ({"archive": False, "control": "rule"}, "nothing"),
    ],
    ids=str,
)
def test_the_agent_is_promised_what_there_is(changes: dict[str, Any], kept: str) -> None:
    promises = composed("vista")["promise"]
    assert Player(**changes).vista.promise.startswith(promises[kept])
