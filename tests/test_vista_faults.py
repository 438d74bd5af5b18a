"""The known faults of VISTA's reference implementation, each absent here."""

from __future__ import annotations

import re

from workspaces import Player, assert_ledger_is_gate, blocks_in, filled, forced, ledger, sections, where_of

from arcbench.types import Message


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
