"""ARC: the view, what a compaction leaves, any sequence of turns, settings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from arcs import NEEDLE_FILE, Player, after_three, long
from bench import PREFIX, Bench, budget, turn
from fakes import build, conf
from hypothesis import given
from hypothesis import strategies as st

from arcbench.arc import Arc
from arcbench.text import excerpt
from arcbench.types import ConfigError, Done, Message, Observation, Turn

# ------------------------------------------------------------------------------- playing with a method


def test_before_a_compaction_all_is_there() -> None:
    player = Player()
    turns = [player.do("cat a", long("a")), player.do("ls", "b")]
    assert player.view == [*PREFIX, *(m for t in turns for m in (t.reply, t.result))]
    assert player.view == player.view


def test_an_older_long_observation_becomes_a_citation_and_a_short_one_stays() -> None:
    player = Player()
    first = player.do("cat secrets.txt", NEEDLE_FILE, returncode=3)
    short = player.do("ls", "x" * 500)
    after_three(player)
    fates = player.compact().fates
    record = player.arc.records[0]
    assert player.view[:2] == list(PREFIX)
    assert player.view[2] == first.reply
    assert player.view[3].content == (
        f"§{record.id} `cat secrets.txt` ({len(NEEDLE_FILE)} characters, exit code 3), removed to save space.\n"
        f"It begins: {NEEDLE_FILE[:120]}\nIt ends: {NEEDLE_FILE[-120:]}\nBring it back with: _recall §{record.id}"
    )
    assert player.view[4:6] == [short.reply, short.result]
    assert [m for t in player.turns[2:] for m in (t.reply, t.result)] == player.view[6:]
    assert fates == {(i, part): "cited" if (i, part) == (0, "result") else "kept" for i in range(5)
                     for part in ("reply", "result")}  # fmt: skip


def test_c4_an_error_result_obeys_the_same_rule_and_the_store_keeps_all_of_it() -> None:
    """Field case C4: a budget of 1,000 tokens, an observation of 4,000 with return code 1."""
    player = Player(1000, 100, presentation_limit_chars=1500)
    player.do("make", long("error", 4000), returncode=1)
    after_three(player)
    player.compact("overflow")
    assert f"§{player.id(0)} `make` ({len(long('error', 4000))} characters, exit code 1)" in player.text
    assert player.arc.store[player.id(0)].body == long("error", 4000)


def test_a_citation_once_shown_never_changes_until_it_goes_bare() -> None:
    player = Player()
    player.do("cat a", long("a"))
    shown = ""
    for round in range(6):
        after_three(player)
        player.compact()
        citation = next(m.content for m in player.view if m.content.startswith(f"§{player.id(0)}"))
        assert citation == (shown or citation)
        shown = citation
        player.do(f"cat {round}", long(f"r{round}x"))
    bare = Player(700, 40)
    for i in range(8):
        bare.do(f"cat {i}", long(f"t{i}x", 100))
        if bare.size > bare.bench.budget.usable_tokens:
            bare.compact("overflow")
    assert bare.size <= 700 - 40
    forms = [m.content for m in bare.view if m.content.startswith("§")]
    assert forms[0] == f"§{bare.id(0)} `cat 0`"
    assert all(f"§{bare.id(i)} `cat {i}`" in bare.text for i in range(len(forms)))
    # the oldest are bare before any newer one is
    assert [("\n" in form) for form in forms] == [False, False, True, True, True]


def test_older_thoughts_are_cut_and_their_commands_stay_whole() -> None:
    player = Player()
    command = "grep 'a `b` c' notes.txt"
    player.do(command, long("x"), said="so " * 400)
    player.do("ls", "y", said="short")
    after_three(player)
    player.compact()
    assert player.view[2].content == f"{('so ' * 400)[:200]}…\n```\n{command}\n```"
    assert player.view[4] == player.turns[1].reply


def test_r4_the_text_of_a_repeated_observation_stays_reachable() -> None:
    """Field case R4."""
    player = Player()
    for name in ("p", "q"):
        player.do(f"cat {name}", long(name))
    player.do("ls", long("same"))
    after_three(player)
    player.compact()
    player.do("ls", long("same"))
    assert player.id(2) == player.id(6)
    assert f"§{player.id(2)} `ls`" in player.text
    player.do(f"_recall §{player.id(2)}")
    assert player.turns[-1].observation.text == long("same")
    player.do(f"_recall_meta §{player.id(2)}")
    assert "Seen at turns: 3, 7. Recalled 1 times." in player.view[-1].content


# ---------------------------------------------------------------------------------------- compaction


@pytest.mark.parametrize("reason", ["forced", "overflow"])
def test_c8_a_second_compaction_with_nothing_new_changes_nothing(reason: str) -> None:
    """Field case C8."""
    player = Player(700, 50, recall_budget_chars=1200, recall_max_chars=600)
    for i in range(6):
        player.do(f"cat {i}", long(f"{i}x", 20 * i + 5))
        if i % 2:
            player.do(f"_recall §{player.id(player.turns[-1].index)}")
    player.compact(reason)
    view = player.view
    done = player.compact(reason)
    assert player.view == view
    assert set(done.fates) == {key for key in done.fates if key[0] in {t.index for t in player.arc.turns}}


@pytest.mark.parametrize("cut", range(9))
def test_c5_no_result_without_its_reply_wherever_the_cut_falls(cut: int) -> None:
    """Field case C5."""
    player = Player(keep_recent_turns=1, keep_verbatim_chars=1)
    for i in range(8):
        if i == cut:
            player.compact()
        player.do(f"cat {i}", long(f"r{i}x", 50))
    player.compact("overflow" if cut == 8 else "forced")
    body = player.view[2:]
    assert [m.role for m in body] == ["assistant", "user"] * 8
    assert body[::2] == [t.reply for t in player.turns]
    assert all(player.id(i) in body[2 * i + 1].content for i in range(7))
    assert body[-1] == player.turns[-1].result


def test_an_overflow_compaction_gives_up_recalls_and_recent_turns_before_the_newest() -> None:
    player = Player(1000, 100, recall_budget_chars=3000, recall_max_chars=1500)
    player.do("cat a", long("a", 250))
    for i in range(4):
        player.do(f"cat {i}", long(f"{i}x", 60))
    recalled = player.do(f"_recall §{player.id(0)}")
    newest = player.do("cat z", long("z", 440))
    assert player.size > player.bench.budget.compact_to_tokens
    fates = player.compact("overflow").fates
    assert player.size <= player.bench.budget.compact_to_tokens
    assert player.view[-2:] == [newest.reply, newest.result]
    assert recalled.result not in player.view
    assert (fates[recalled.index, "reply"], fates[recalled.index, "result"]) == ("dropped", "cited")
    assert player.arc.recalled.ids() == ()
    assert all(player.id(i) in player.text for i in range(5))


def test_a_body_that_has_just_come_stays() -> None:
    player = Player(1000, 100, recall_budget_chars=5000, recall_max_chars=2500)
    for name in "abc":
        player.do(f"cat {name}", long(name, 250))
        after_three(player)
    player.compact("overflow")
    first = player.do(f"_recall §{player.id(0)}")
    player.compact("overflow")
    newest = player.do(f"_recall §{player.id(4)}")
    player.compact("overflow")
    assert newest.result in player.view
    assert first.result not in player.view
    assert player.size <= player.bench.budget.compact_to_tokens


def test_what_observed_nothing_goes_when_it_is_old() -> None:
    player = Player()
    player.do("cat a", long("a"))
    correction = player.tell(turn(1, "Your reply was empty.", None, said="hm"))
    after_three(player)
    fates = player.compact().fates
    assert correction.reply not in player.view
    assert fates[1, "result"] == fates[1, "reply"] == "dropped"


def test_a_recorded_reply_without_a_command_is_stored_all_the_same() -> None:
    player = Player()
    told = Turn(
        index=0,
        call=None,
        reply=Message("assistant", "Now I look.\nstr_replace_editor view a.py"),
        action=None,
        observation=Observation(NEEDLE_FILE),
        result=Message("user", NEEDLE_FILE),
        answered_by="environment",
    )
    player.tell(told)
    after_three(player)
    player.compact()
    assert f"§{player.id(0)} `str_replace_editor view a.py`" in player.text


# ------------------------------------------------------------------------------------- any sequence

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("do"), st.integers(0, 3), st.sampled_from([1, 20, 90, 150, 400])),
        st.tuples(st.just("recall"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("fault"), st.just(0), st.just(0)),
        st.tuples(st.just("forced"), st.just(0), st.just(0)),
        st.tuples(st.just("overflow"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_no_sequence_of_turns_compactions_and_recalls_loses_a_body(steps: list[tuple[str, int, int]]) -> None:
    player = Player(1200, 200, recall_budget_chars=1500, recall_max_chars=900)
    limits = player.bench.budget
    bodies: dict[int, str] = {}
    last = -1
    for kind, number, size in steps:
        if kind == "do":
            last = player.do(f"cat {number}", body := long(f"b{number}x", size)).index
            bodies[last] = body
        elif kind == "recall" and bodies:
            at = list(bodies)[number % len(bodies)]
            told = player.do(f"_recall §{player.id(at)}")
            if told.observation.restored:
                assert told.observation.text == bodies[at]
        elif kind == "fault":
            player.tell(turn(len(player.turns), "Your reply was empty.", None, said="hm"))
        elif kind in ("forced", "overflow"):
            player.compact(kind)
            view = player.view
            if kind == "overflow":
                newest = [(t.reply, t.result) for t in player.turns[-1:]]
                bare = [
                    (t.reply, Message("user", f"§{player.id(t.index)} `{t.action.text}`"))
                    for t in player.turns[:-1]
                    if t.action and t.index in bodies
                ]
                least = player.bench.count([*PREFIX, *(m for pair in (*bare, *newest) for m in pair)])
                assert player.size <= max(limits.compact_to_tokens, least)
            player.compact(kind)
            assert player.view == view
        # every body that was observed is in the view, whole or by a handle, and the store has it byte for byte
        text = player.text
        for at, body in bodies.items():
            shown = excerpt(body, limits.presentation_limit_chars, "[... $chars left out ...]")
            assert f"§{player.id(at)} `" in text or shown in text
            assert player.arc.store[player.id(at)].body == body
        # order is kept, each result follows its own reply, and the newest turn is whole
        shown_turns = [t.index for t in player.arc.turns]
        assert shown_turns == sorted(shown_turns)
        assert [m.role for m in player.view[2:]] == ["assistant", "user"] * len(shown_turns)
        assert player.view[: len(PREFIX)] == list(PREFIX)
        if player.turns:
            assert player.view[-2:] == [player.turns[-1].reply, player.turns[-1].result]
        assert player.arc.recalled.total_chars <= limits.recall_budget_chars
        held = {player.arc.recall_turns[id][0] for id in player.arc.recalled.ids()}
        assert held == {t.index for t in player.arc.turns if t.observation.restored and player.whole(t)}


# ------------------------------------------------------------------------------------ configuration


@pytest.mark.parametrize("key", ["preview_chars", "thought_chars", "recalls_per_step", "nearest_ids"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_a_bad_number_is_named(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^method.{key}={value}: [^\n]+$"):
        build("method/arc", **{key: value})(bench=Bench(budget(1000, 100)))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cited": "§$id"}, "method.texts.cited='§[$]id': must be a text with exactly these places: [$]id, [$]sig"),
        ({"cted": "§$id"}, "method.texts=cted: must be one of cited, "),
        ({"meta": None}, "method.texts.meta=None: must be a text with exactly these places: [$]citation, "),
    ],
)
def test_a_bad_text_is_named(change: dict[str, Any], named: str) -> None:
    texts = {key: text for key, text in (conf("method/arc")["texts"] | change).items() if text is not None}
    with pytest.raises(ConfigError, match=named):
        build("method/arc", texts=texts)(bench=Bench(budget(1000, 100)))


def test_the_promise_names_the_action_that_is_documented() -> None:
    arc = build("method/arc")(bench=Bench(budget(1000, 100)))
    assert [doc.name for doc in arc.actions()] == ["_recall", "_recall_meta"]
    assert "`_recall §ab12cd34`" in arc.promise


# ------------------------------------------------------------------------------------------ trigger


def test_a_proactive_arc_compacts_by_itself_before_the_window_is_full() -> None:
    bench = Bench(budget(2_096, 96))
    arc: Arc = build("method/arc", trigger="proactive", proactive_share=0.5)(bench=bench)
    arc.begin(PREFIX)
    events = []
    for index in range(12):
        events.append(asyncio.run(arc.observe(turn(index, "word " * 200, f"read {index}"))))
        assert bench.count(arc.view()) <= max(1_000, bench.budget.compact_to_tokens)
    assert events[0] is None
    assert any(isinstance(event, Done) for event in events)
    reactive: Arc = build("method/arc")(bench=bench)
    reactive.begin(PREFIX)
    assert all(asyncio.run(reactive.observe(turn(i, "word " * 200, f"read {i}"))) is None for i in range(12))


@pytest.mark.parametrize(("key", "value"), [("trigger", "eager"), ("proactive_share", 0), ("proactive_share", 1.5)])
def test_triggers_are_checked(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^method.{key}={value}: must be"):
        build("method/arc", **{key: value})(bench=Bench(budget(2_096, 96)))
