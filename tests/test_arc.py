"""ARC: the store, ids as agents write them, recalls and their budgets, and what a compaction leaves."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from bench import PREFIX, Bench, budget, turn
from fakes import build, conf
from hypothesis import given
from hypothesis import strategies as st

from arcbench.arc import Arc
from arcbench.arc.recalled import Recalled
from arcbench.arc.store import Store, normal_id
from arcbench.parsing import parse
from arcbench.text import admit, excerpt
from arcbench.types import Action, ConfigError, Done, Message, Observation, Turn

NEEDLE_FILE = "\n".join(f"line {i}: {i * 7919 % 1000:03d} and some words" for i in range(60))

# ------------------------------------------------------------------------------------------ store


def recalls(bench: Bench) -> list[tuple[str, dict[str, Any]]]:
    """The recalls that a bench was told of."""
    return [note for note in bench.notes if note[0] == "recall"]


def test_an_id_is_the_start_of_sha1_over_signature_and_observation() -> None:
    record = Store().add("cat a", "body", returncode=1, step=4)
    assert record.id == hashlib.sha1(b"cat a\x1fbody").hexdigest()[:8]
    assert (record.signature, record.body, record.returncode, record.steps) == ("cat a", "body", 1, [4])


def test_r4_the_same_action_giving_the_same_observation_is_one_record() -> None:
    """Field case R4."""
    store = Store()
    first = store.add("ls", "X", returncode=0, step=2)
    assert store.add("ls", "X", returncode=0, step=9) is first
    assert (first.steps, len(store)) == ([2, 9], 1)
    assert store.add("ls -l", "X", returncode=0, step=10) is not first
    assert store.add("ls", "Y", returncode=0, step=11) is not first


def padded(prefix: Callable[[bytes], str]) -> Callable[[bytes], str]:
    return lambda data: (prefix(data) + hashlib.sha1(data).hexdigest())[:40]


def test_a_collision_makes_the_new_id_longer_and_the_old_one_still_resolves() -> None:
    store = Store(hex_digest=padded(lambda data: "ab12cd34"))
    records = [store.add("ls", body, returncode=0, step=i) for i, body in enumerate("XYZ")]
    assert [len(record.id) for record in records] == [8, 12, 12]
    assert len({record.id for record in records}) == 3
    assert [store.get(record.id) for record in records] == records
    assert store.add("ls", "Z", returncode=0, step=9) is records[2]
    assert [record.id[:8] for record in records] == ["ab12cd34"] * 3
    assert all(normal_id(record.id) == record.id for record in records)


def test_collisions_go_on_by_four_until_no_id_is_left() -> None:
    store = Store(hex_digest=lambda data: "0" * 40)
    ids = [store.add("ls", str(i), returncode=0, step=i).id for i in range(9)]
    assert [len(id) for id in ids] == [8, 12, 16, 20, 24, 28, 32, 36, 40]
    with pytest.raises(LookupError, match="no id is left"):
        store.add("ls", "9", returncode=0, step=9)
    assert [store[id].body for id in ids] == [str(i) for i in range(9)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("xy", max_size=3)), max_size=30), st.integers(0, 2))
def test_no_body_is_ever_lost_however_ids_collide(stored: list[tuple[str, str]], width: int) -> None:
    digest = padded(lambda data: "0" * (4 * width) + hashlib.sha1(data).hexdigest()[:1] * 8)
    store = Store(hex_digest=digest)
    ids = [store.add(signature, body, returncode=0, step=i).id for i, (signature, body) in enumerate(stored)]
    assert [(store[id].signature, store[id].body) for id in ids] == stored
    assert len(store) == len(set(stored)) == len(set(ids))
    assert sorted(step for id in set(ids) for step in store[id].steps) == list(range(len(stored)))


@pytest.mark.parametrize(
    "written",
    [
        "§ab12cd34",
        "ab12cd34",
        "[§ab12cd34]",
        "§AB12CD34",
        "§ab12cd34.",
        " `§ab12cd34` ",
        '"ab12cd34"',
        "ａｂ１２ｃｄ３４",
    ],
)
def test_r1_one_normal_form_of_an_id(written: str) -> None:
    """Field case R1."""
    assert normal_id(written) == "ab12cd34"


@pytest.mark.parametrize(
    "written", ["", "§", "§ab12cd34 §00000000 extra", "ab12cd3", "ab12cd345", "ab12cd3g", "ab12 cd34", "all"]
)
def test_r3_what_is_not_one_id(written: str) -> None:
    """Field case R3."""
    assert normal_id(written) is None


def test_nearest_ids() -> None:
    store = Store(hex_digest=padded(lambda data: data.rpartition(b"\x1f")[2].decode()))
    for id in ("ab12cd34", "ab12cdff", "00000000"):
        store.add("ls", id, returncode=0, step=0)
    assert store.nearest("ab12cd35", 2) == ["ab12cd34", "ab12cdff"]


def test_recalled_bodies_leave_least_recently_used_first() -> None:
    held = Recalled(10)
    assert [held.use(id, 4) for id in "abac"] == [[], [], [], ["b"]]
    assert (held.ids(), held.total_chars) == (("a", "c"), 8)
    assert held.use("d", 10) == ["a", "c"]
    held.remove("d")
    assert held.total_chars == 0


# ------------------------------------------------------------------------------- playing with a method


class Player:
    """Drives ARC as the loop does, one command at a time."""

    def __init__(self, window: int = 4096, completion: int = 96, **limits: Any) -> None:
        self.bench = Bench(budget(window, completion, **limits))
        self.arc: Arc = build("method/arc")(bench=self.bench)
        self.arc.begin(PREFIX)
        self.turns: list[Turn] = []
        self.own = {doc.name for doc in self.arc.actions()}

    def do(self, command: str, body: str = "", *, said: str = "", returncode: int = 0) -> Turn:
        reply = f"{said}\n```\n{command}\n```".strip()
        action = parse(reply)
        assert isinstance(action, Action)
        own = action.name in self.own
        observation = asyncio.run(self.arc.handle(action)) if own else Observation(body, returncode)
        limits = self.bench.budget
        limit = limits.recall_max_chars if observation.restored else limits.presentation_limit_chars
        shown = excerpt(observation.text, limit, "[... $chars left out ...]")
        return self.tell(
            Turn(
                index=len(self.turns),
                call=len(self.turns) + 1,
                reply=Message("assistant", reply),
                action=action,
                observation=observation,
                result=Message("user", f"{observation.note}\n{shown}" if observation.note else shown),
                answered_by="method" if own else "environment",
            )
        )

    def tell(self, told: Turn) -> Turn:
        self.turns.append(told)
        assert asyncio.run(self.arc.observe(told)) is None
        return told

    def compact(self, reason: Any = "forced") -> Done:
        done = asyncio.run(self.arc.compact(reason))
        assert isinstance(done, Done)
        return done

    def whole(self, told: Turn) -> bool:
        """Whether a turn stands in the view as it was."""
        return told in self.arc.turns and told.index not in self.arc.shown

    def id(self, at: int) -> str:
        return self.arc.records[at].id

    @property
    def view(self) -> list[Message]:
        return list(self.arc.view())

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.view)

    @property
    def size(self) -> int:
        return self.bench.count(self.view)


def long(tag: str, words: int = 200) -> str:
    return " ".join(f"{tag}{i}" for i in range(words))


def after_three(player: Player) -> None:
    """Three short turns, so that what came before is no longer recent."""
    for i in range(3):
        player.do(f"look {i}", "nothing")


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


# ------------------------------------------------------------------------------------------ recall


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
