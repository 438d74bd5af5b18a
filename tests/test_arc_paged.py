"""arc_paged, one case at a time: recalls in parts, budgets, forced compactions."""

from __future__ import annotations

from typing import Any

import pytest
from bench import PREFIX, Bench
from fakes import build
from paged import LETTERS, Player, letters, limits_for

from arcbench.types import Done, Nothing, Observation

PAGE = "(closed to save space)"


# ------------------------------------------------------------------------------------------------ recall


def test_a_body_comes_back_in_parts() -> None:
    player = Player.letters(100)
    body = letters(100, "a") + letters(100, "b") + letters(7, "c")
    player.do("cat a", body)
    id = player.id(0)
    parts = [player.ask(f"_recall_start §{id}"), player.ask(f"_recall_next §{id}"), player.ask(f"_recall_next §{id}")]
    assert [part.observation for part in parts] == [
        Observation(letter * size, note=f"§{id}, part {number} of 3:", exact=True)
        for number, letter, size in ((1, "a", 100), (2, "b", 100), (3, "c", 7))
    ]
    assert player.view[-1].content == f"§{id}, part 3 of 3:\nccccccc"
    over = player.ask(f"_recall_next §{id}")
    assert over.observation == Observation(f"§{id} has no further part. Start again with _recall_start §{id}.", 1)
    assert player.bench.notes[0] == ("recall", {"id": id, "chars": 207, "chunks": 3})
    assert player.ask(f"_recall_start §{id}").observation.text == letters(100, "a")
    assert player.paged.store.records[0].recalls == 2


def test_a_recall_goes_on_after_other_commands_and_beside_other_recalls() -> None:
    player = Player.letters(100)
    for letter in "ab":
        player.do(f"cat {letter}", letters(150, letter) + letter.upper())
    a, b = player.id(0), player.id(1)
    given = [player.ask(f"_recall_start §{a}"), player.ask(f"_recall_start §{b}")]
    for i in range(6):
        player.do(f"cat {i}", letters(300))
    player.force()
    given += [player.ask(f"_recall_next §{id}") for id in (b, a)]
    assert [turn.observation.text[-1] for turn in given] == ["a", "b", "B", "A"]


def test_next_without_start() -> None:
    player = Player.letters()
    player.do("cat a", "body")
    id = player.id(0)
    assert player.ask(f"_recall_next §{id}").observation == Observation(
        f"No recall of §{id} is under way. Start one with _recall_start §{id}.", 1
    )
    assert player.paged.store.records[0].recalls == 0


@pytest.mark.parametrize("command", ["_recall_start", "_recall_next"])
def test_an_unknown_id_names_the_nearest(command: str) -> None:
    player = Player.letters()
    unknown = "There is no stored answer §0002{0}. The nearest ids: {1}. Nothing was recalled."
    assert player.ask(f"{command} §0002ab12cd34").observation == Observation(unknown.format("ab12cd34", "none"), 1)
    player.do("cat a", "body")
    near = player.id(0)
    wrong = near[4:]
    assert player.ask(f"{command} §0002{wrong}").observation == Observation(unknown.format(wrong, f"§{near}"), 1)
    assert [event for event, _ in player.bench.notes] == []


@pytest.mark.parametrize("command", ["_recall_start", "_recall_next"])
@pytest.mark.parametrize("argument", ["", "§", "all", "§{id} §{id}", "§{id} 2", "0001"])
def test_anything_but_one_id_is_corrected(command: str, argument: str) -> None:
    player = Player.letters()
    player.do("cat a", "body")
    told = player.ask(f"{command} {argument.format(id=player.id(0))}".strip())
    assert told.observation == Observation(
        f"{command} takes exactly one id, such as: {command} §0001ab12cd34. Nothing was recalled.", 2
    )


def test_an_id_is_read_as_agents_write_it() -> None:
    player = Player.letters(recalls_per_step=9)
    player.do("cat a", "body")
    id = player.id(0)
    wide = "".join(chr(ord(digit) + 0xFEE0) for digit in id)
    for written in (id, f"[§{id}]", f"§{id.upper()}", f"`§{id}`.", wide):
        assert player.ask(f"_recall_start {written}").observation.text == "body"


def test_an_empty_body_has_no_parts() -> None:
    player = Player.letters()
    player.do("touch a", "")
    id = player.id(0)
    for command in ("_recall_start", "_recall_next"):
        assert player.ask(f"{command} §{id}").observation == Observation(f"§{id} is empty: the answer had no text.", 1)
    assert player.recall(id) == []


def test_two_recalls_are_started_between_two_other_commands_and_parts_do_not_count() -> None:
    player = Player.letters(20)
    for letter in "abc":
        player.do(f"cat {letter}", letters(90, letter))
    a, b, c = (player.id(at) for at in range(3))
    refused = Observation("Only 2 recalls can be started between two other commands. Nothing was recalled.", 1)
    assert player.ask(f"_recall_start §{a}").observation.exact
    assert [player.ask(f"_recall_next §{a}").observation.exact for _ in range(5)] == [True] * 4 + [False]
    player.ask("_catalog_first")
    assert player.ask(f"_recall_start §{b}").observation.exact
    player.hear("Your reply was empty.")
    player.ask(f"_recall_start §{'0' * 12}")
    assert player.ask(f"_recall_start §{c}").observation == refused
    assert player.ask(f"_recall_start §{a}").observation == refused
    assert player.ask(f"_recall_next §{b}").observation.exact
    player.do("ls", "x")
    assert player.ask(f"_recall_start §{c}").observation.exact


def test_chunks_are_closed_least_recently_opened_first() -> None:
    player = Player.letters(100, split={"recalled": 300})  # two chunks of 100 and their wrappers
    for letter in "abc":
        player.do(f"cat {letter}", letters(100, letter))
    player.do("ls", "x")
    a, b, c = (player.id(at) for at in range(3))
    turns = [player.ask(f"_recall_start §{a}"), player.ask(f"_recall_start §{b}")]
    assert player.visible(turns) == turns
    player.do("ls", "x")
    turns.append(player.ask(f"_recall_start §{a}"))
    assert player.visible(turns) == turns[1:]
    assert player.told is not None
    assert player.told.fates[turns[0].index, "result"] == "archived"
    turns.append(player.ask(f"_recall_start §{c}"))
    assert player.visible(turns) == turns[2:]
    closed = player.view[player.view.index(turns[1].reply) + 1].content
    assert closed == f"§{b}, part 1 of 1:\n{PAGE}"
    # a page has a budget of its own
    page = player.ask("_catalog_first")
    assert player.visible([*turns, page]) == [*turns[2:], page]


# ------------------------------------------------------------------------------------- recent turns, log


def test_what_is_within_the_budgets_stays_as_it_was() -> None:
    player = Player.letters()
    turns = [player.do("cat a", letters(50)), player.do("cat b", letters(50)), player.hear("Your reply was empty.")]
    assert player.view == [*PREFIX, *(message for turn in turns for message in (turn.reply, turn.result))]
    assert player.told is None


def test_an_observation_too_large_for_the_recent_turns_is_cited_at_once() -> None:
    player = Player.letters()
    turn = player.do("cat a", letters(9000), thought="x" * 900)
    reply, result = player.view[-2:]
    assert result.content == f"§{player.id(0)} `cat a` (9000 characters, exit code 0)"
    assert reply.content == "x" * 200 + "…\n```\ncat a\n```"
    assert player.told == Done({(turn.index, "reply"): "kept", (turn.index, "result"): "cited"})
    assert player.view[2].content.startswith("[1 answers are stored.")
    assert "".join(part.observation.text for part in player.recall(player.id(0))) == letters(9000)


def test_a_command_too_large_for_the_recent_turns_is_cut() -> None:
    player = Player.letters(signature_chars=5000)
    turn = player.do("echo " + "y" * 2000, letters(10))
    reply, result = player.view[-2:]
    assert reply.content.startswith("```\necho yyy")
    assert reply.content.endswith("y…")
    assert result.content.startswith(f"§{player.id(0)} `echo yyy")
    assert player.weigh(reply, result) == player.paged.split["recent"]
    assert player.paged.store.records[0].signature == turn.action.text


@pytest.mark.parametrize("answered_by", ["correction", "gate"])
def test_a_notice_too_large_for_the_recent_turns_is_cut(answered_by: Any) -> None:
    player = Player.letters()
    player.hear("n" * 2000, answered_by, said="s" * 2000)
    reply, result = player.view[-2:]
    assert result.content == "n" * (player.paged.split["recent"] // 2 - 3) + "…"
    assert reply.content.startswith("s" * 190)
    assert player.weigh(reply, result) <= player.paged.split["recent"]


def test_an_unknown_id_of_any_length_does_not_fill_the_view() -> None:
    player = Player.letters()
    told = player.ask("_recall_start §" + "0a" * 2000)
    assert told.observation.returncode == 1
    assert player.view[-1].content.startswith("There is no stored answer §0a0a")
    assert player.paged.tokens()["recent"] <= player.paged.split["recent"]


def test_a_part_stays_open_when_the_reply_that_asked_for_it_is_too_large() -> None:
    player = Player.letters()
    player.do("cat a", letters(100))
    told = player.ask(f"_recall_start §{player.id(0)}", thought="t" * 5000)
    reply, result = player.view[-2:]
    assert result is told.result
    assert reply.content == "t" * 200 + f"…\n```\n_recall_start §{player.id(0)}\n```"


def test_older_turns_are_logged_long_ones_cited_short_ones_whole_notices_gone() -> None:
    player = Player.letters()
    long = player.do("cat a", letters(101), thought="t" * 250)
    short = player.do("cat b", letters(100))
    notice = player.hear("Your reply was empty.")
    page = player.ask("_catalog_first")
    fates: dict[Any, str] = {}
    for _ in range(30):
        if notice.reply not in player.view and page.reply not in player.view:
            break
        player.do("ls", "x" * 9)
        fates |= player.told.fates if player.told else {}
    view = player.view
    assert view[2].content.startswith(f"[{len(player.seen)} answers are stored.")
    assert view[3].content == "t" * 200 + "…\n```\ncat a\n```"
    assert view[4].content == f"§{player.id(0)} `cat a` (101 characters, exit code 0)"
    assert view[5:7] == [short.reply, short.result]
    assert long.result not in view
    results = [fates[turn.index, "result"] for turn in (long, short, notice, page, *player.seen[2:])]
    assert results == ["cited", "kept", "dropped", "archived", *["kept"] * (len(player.seen) - 2)]
    assert fates[notice.index, "reply"] == fates[page.index, "reply"] == "dropped"


def test_what_the_log_cannot_hold_is_in_the_catalog() -> None:
    player = Player.letters()
    turns = [player.do(f"cat {i}", letters(150)) for i in range(12)]
    logged = [entry.turn.index for entry in player.paged.log]
    out = logged[0]
    assert 0 < out < 9
    assert [f"§{player.id(i)} `" in player.text for i in range(12)] == [i in logged for i in range(12)]
    assert logged == list(range(out, logged[-1] + 1))
    assert player.told is not None
    assert [player.told.fates[out - 1, part] for part in ("reply", "result")] == ["dropped", "archived"]
    assert [player.told.fates[out, part] for part in ("reply", "result")] == ["kept", "cited"]
    assert (out - 2, "result") not in player.told.fates
    for at, turn in enumerate(turns):
        player.do("ls", "x")
        assert "".join(part.observation.text for part in player.recall(player.id(at))) == turn.observation.text


def test_the_notice_is_there_even_when_the_log_holds_nothing() -> None:
    player = Player.letters(split={"log": 10})
    for i in range(9):
        player.do(f"cat {i}", letters(150))
    assert player.paged.log == []
    assert player.view[2].content.startswith("[9 answers are stored.")


# --------------------------------------------------------------------------------- forced compactions


def test_a_forced_compaction_leaves_the_recent_turns() -> None:
    player = Player.letters(limits={"keep_recent_turns": 2})
    turns = [player.do(f"cat {i}", letters(30)) for i in range(4)]
    page = player.ask("_catalog_first")
    assert player.force().fates == {
        (turn.index, part): "kept" for turn in (*turns, page) for part in ("reply", "result")
    }
    assert [entry.turn for entry in player.paged.recent] == [turns[-1], page]
    assert [entry.turn for entry in player.paged.log] == turns[:-1]
    view = player.view
    assert player.visible([page]) == [page]
    again = player.force()
    assert player.view == view
    assert set(again.fates.values()) == {"kept"}


def test_a_forced_compaction_before_anything_happened() -> None:
    player = Player.letters()
    assert player.force() == Done({})
    assert player.view == list(PREFIX)


def test_a_real_overflow_cannot_be_helped() -> None:
    assert Player.letters().overflow() == Nothing()


# ------------------------------------------------------------------------------------------------- others


def test_what_was_handed_back_from_elsewhere_is_not_stored() -> None:
    player = Player.letters()
    player.do("cat a", "body")
    restored = Observation("a copy", restored=True)
    turn = player._tell("cat /archive/a", "", restored, "environment")
    assert len(player.paged.store) == len(player.paged.catalog.stubs) == 1
    assert player.view[-1] is turn.result


def test_the_promise_and_the_manual_name_the_same_commands() -> None:
    paged = build("method/arc_paged", split=LETTERS)(bench=Bench(limits_for(LETTERS, 80), unit=len))
    names = [doc.name for doc in paged.actions()]
    assert names == ["_catalog_first", "_catalog_next", "_recall_start", "_recall_next"]
    assert "`_catalog_first`" in paged.promise
    assert "`_recall_start §0001ab12cd34`" in paged.promise
