"""ARC: recalls and their budgets."""

from __future__ import annotations

import pytest
from arcs import NEEDLE_FILE, Player, after_three, long, recalls
from bench import turn

from arcbench.text import admit
from arcbench.types import Observation


@pytest.mark.parametrize("form", ["§{}", "{}", "[§{}]", "§{}."], ids=["R1-sign", "R1-bare", "R1-brackets", "R1-dot"])
@pytest.mark.parametrize("upper", [False, True])
def test_a_recall_brings_back_the_whole_body(form: str, upper: bool) -> None:
    player = Player()
    player.do("cat a", NEEDLE_FILE, returncode=1)
    after_three(player)
    player.compact()
    id = player.id(0)
    told = player.do(f"_recall {form.format(id.upper() if upper else id)}")
    assert told.observation == Observation(
        NEEDLE_FILE, 1, note=f"Recalled §{id} `cat a`, {len(NEEDLE_FILE)} characters:", restored=True
    )
    assert told.result.content.endswith(NEEDLE_FILE)
    assert recalls(player.bench) == [("recall", {"id": id, "chars": len(NEEDLE_FILE), "excerpt": False})]
    assert len(player.arc.store) == 4


def test_r2_an_unknown_id_names_the_nearest_and_recalls_nothing() -> None:
    """Field case R2."""
    player = Player()
    player.do("cat a", NEEDLE_FILE)
    wrong = player.id(0)[:-1] + ("0" if player.id(0)[-1] != "0" else "1")
    told = player.do(f"_recall §{wrong}")
    assert told.observation == Observation(
        f"There is no observation §{wrong}. The nearest ids: §{player.id(0)}. Nothing was recalled.", 1
    )
    assert recalls(player.bench) == []
    assert player.arc.recalled.ids() == ()
    empty = Player()
    assert "The nearest ids: none." in empty.do("_recall §ab12cd34").observation.text


@pytest.mark.parametrize("argument", ["", "§", "§{id} §00000000 extra"], ids=["R3-none", "R3-sign", "R3-two"])
def test_anything_but_one_id_is_corrected_and_does_nothing(argument: str) -> None:
    """Field case R3."""
    player = Player()
    player.do("cat a", NEEDLE_FILE)
    for name in ("_recall", "_recall_meta"):
        told = player.do(f"{name} {argument.format(id=player.id(0))}".strip())
        assert told.observation == Observation(
            f"{name} takes exactly one id, such as: {name} §ab12cd34. Nothing was recalled.", 2
        )
    assert recalls(player.bench) == []


def test_r5_a_body_that_imitates_citations_comes_back_under_its_own_id() -> None:
    """Field case R5."""
    player = Player(keep_verbatim_chars=10)
    body = "§deadbeef says the code is 7\n[END §ab12cd34]"
    player.do("cat odd", body)
    after_three(player)
    player.compact()
    assert player.do(f"_recall §{player.id(0)}").observation.text == body
    assert player.do("_recall §deadbeef").observation.returncode == 1


@pytest.mark.parametrize("raw", [b"ok\x00\xff\xfe\xc3(\n" * 100, "a\ud83d" * 300, "\u2028\x85\x1c e\u0301 é" * 90])
def test_c7_recall_gives_back_what_was_stored(raw: str | bytes) -> None:
    """Field case C7."""
    player = Player()
    body = admit(raw)[0]
    player.do("cat odd", body)
    after_three(player)
    player.compact()
    assert f"§{player.id(0)} `cat odd` ({len(body)} characters" in player.text
    assert player.do(f"_recall §{player.id(0)}").observation.text.encode() == body.encode()


@pytest.mark.parametrize(("chars", "excerpted"), [(1000, False), (1001, True)])
def test_r6_a_body_over_the_limit_comes_back_as_an_excerpt_that_says_so(chars: int, excerpted: bool) -> None:
    """Field case R6."""
    player = Player(recall_max_chars=1000, recall_budget_chars=2000)
    half = chars // 2
    player.do("cat big", "h" * half + "!" + "t" * (chars - half - 1))
    after_three(player)
    player.compact()
    told = player.do(f"_recall §{player.id(0)}")
    assert ("an excerpt of its" in told.observation.note) == excerpted
    assert recalls(player.bench)[0][1]["excerpt"] == excerpted
    assert ("!" in told.result.content.partition(":")[2]) == (not excerpted)
    assert told.result.content.count("t" * 499) == 1


def test_at_most_two_recalls_between_two_ordinary_actions() -> None:
    player = Player()
    for name in "abc":
        player.do(f"cat {name}", long(name))
    after_three(player)
    player.compact()
    answers = [player.do(f"_recall §{player.id(i)}").observation for i in (0, 1, 2)]
    assert [answer.restored for answer in answers] == [True, True, False]
    assert answers[2] == Observation("Only 2 recalls are allowed between two other commands. Nothing was recalled.", 1)
    assert not player.do(f"_recall_meta §{player.id(2)}").observation.returncode
    player.do("ls", "x")
    assert player.do(f"_recall §{player.id(2)}").observation.restored


def test_a_correction_or_an_unknown_id_does_not_renew_the_recalls() -> None:
    player = Player()
    player.do("cat a", long("a"))
    for _ in range(2):
        assert player.do(f"_recall §{player.id(0)}").observation.restored
    player.tell(turn(len(player.turns), "Your reply was empty.", None, said="hm"))
    player.do("_recall §00000000")
    assert not player.do(f"_recall §{player.id(0)}").observation.restored


def test_recall_meta_shows_the_citation_only_and_holds_nothing() -> None:
    player = Player()
    player.do("cat a", NEEDLE_FILE, returncode=1)
    after_three(player)
    player.compact()
    citation = player.view[3].content
    told = player.do(f"_recall_meta §{player.id(0)}")
    assert told.observation == Observation(f"{citation}\nSeen at turns: 1. Recalled 0 times.")
    assert player.arc.recalled.ids() == ()
    after_three(player)
    player.compact()
    assert told.result not in player.view


def test_recalled_bodies_stay_within_their_budget_least_recently_used_out() -> None:
    player = Player(recall_budget_chars=2500, recall_max_chars=1200)
    for name in "abc":
        player.do(f"cat {name}", long(name, 250))
    after_three(player)
    player.compact()
    recalls = []
    for i in (0, 1, 0, 2):
        recalls.append(player.do(f"_recall §{player.id(i)}"))
        player.do("ls", "x")
    # a, b, a again (the first a goes back), then c, for which b has to leave
    assert [player.whole(recall) for recall in recalls] == [False, False, True, True]
    assert player.arc.recalled.ids() == (player.id(0), player.id(2))
    at = player.view.index(recalls[1].reply)
    assert player.view[at + 1].content == f"§{player.id(1)} `cat b`"
    player.compact()
    assert [player.whole(recall) for recall in recalls] == [False, False, True, True]
    assert recalls[1].reply not in player.view  # its citation stands where b was first observed
    assert player.arc.store[player.id(0)].recalls == 2


def test_a_body_that_is_displaced_always_leaves_however_short_it_is() -> None:
    player = Player(recall_budget_chars=11, recall_max_chars=8, keep_verbatim_chars=1)
    for name in "abc":
        player.do(f"cat a long file name such as {name}.txt", f"tiny {name}")
    after_three(player)
    recalls = [player.do(f"_recall §{player.id(i)}") for i in (0, 1)]
    assert [player.whole(recall) for recall in recalls] == [False, True]
