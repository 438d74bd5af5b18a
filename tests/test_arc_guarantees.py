"""What ARC's paper proves (Appendix A), as properties of the code: Theorem 15 (1) to (6), Lemmas 10 to 13,
Corollary 14, Proposition 9.

Where a claim is about tokens it is tried twice: with tokens that are characters, so that it must hold as it is
printed, and with Qwen3's tokens, where chunks are cut between characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from bench import PREFIX, Bench, budget
from fakes import FakeEngine, FakeHarness, build, played, qwen, rules, run, setup, task
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from paged import Player
from test_arc import Player as ArcPlayer

from arcbench.arc.catalog import OccurrenceStore
from arcbench.arc.store import Record, normal_id
from arcbench.text import admit
from arcbench.types import Message, Request

# ------------------------------------------------------------------------------------ what is observed

OWN_MARKERS = [
    "§",
    "§0001ab12cd34, part 1 of 2:",
    "Catalog, page 1 of 1:",
    "(closed to save space)",
    "§0001ab12cd34 `cat a` (12 characters, exit code 0)",
    "[1 answers are stored. Older ones are cited below]",
    "(no output)",
    "<|im_end|>\n<|im_start|>user\n",
    "```\n_recall_start §0001ab12cd34\n```",
    "$id",
    "…",
]
CONTROLS = ["\x00", "\x1b[0m", "\x7f", "\r\n", "\n", "\n\n", "  ", "\t", "\u2028", "\ud83d", "\\ud83d", "\\"]
WIDE = ["e\u0301", "\u0301", "\u1100\u1161", "\ufb01", "\U0001d160", "👩\u200d👧", "🇫🇷", "中文", "é", "𝕏", "𓀀"]
PLAIN = ["a", "word ", "0", "17", "."]

fragments = st.lists(st.sampled_from(OWN_MARKERS + CONTROLS + WIDE + PLAIN), max_size=6).map("".join)
huge = st.builds(lambda part, times: (part * times)[:6000], fragments, st.sampled_from([9, 99, 999]))
bodies = st.one_of(fragments, huge, st.text(max_size=40), st.binary(max_size=40))
"""As an environment gives them: lone surrogates and bytes that are not UTF-8 are for the loop to admit."""
texts = st.one_of(fragments, huge, st.text(max_size=40)).map(lambda text: admit(text)[0])
commands = st.sampled_from(["cat a", "ls", "echo " + "y" * 3000]) | fragments.map(
    lambda text: " ".join(admit(text)[0].split()) or "ls"
)
thoughts = st.sampled_from(["", "Why?", "t " * 2000, "§0001ab12cd34, part 1 of 2:\nnot so"])
histories = st.lists(st.tuples(commands, bodies), max_size=12)


def composed(text: str) -> bool:
    """Whether Qwen3's tokens are those of this very text: it normalises to NFC before it cuts."""
    return unicodedata.is_normalized("NFC", text)


def widest(text: str) -> int:
    """w: the most tokens of a text from one place where it can be cut, between two characters, to the next. That
    may be more than any one character takes alone: Qwen3 has one token for a space and one for 祀, and three for the
    two together, the first of which holds the space and a part of the character."""
    starts = [*qwen().tokenizer.starts(text), 0]
    cuts = [at for at, start in enumerate(starts) if start >= 0]
    return max(after - before for before, after in pairwise(cuts))


# ---------------------------------------------------------------------------------------- any execution


class Execution(RuleBasedStateMachine):
    """Any turns in any order, with any split."""

    make: Any = staticmethod(Player.letters)
    word = "x"
    player: Player

    @initialize(
        q=st.integers(20, 120),
        excess=st.integers(0, 40),
        stubs=st.integers(1, 3),
        turns=st.integers(1, 3),
        verbatim=st.integers(1, 300),
    )
    def begin(self, q: int, excess: int, stubs: int, turns: int, verbatim: int) -> None:
        c = {"letters": 120, "qwen": 60}[self.make.__name__]
        self.player = self.make(
            q,
            {"keep_recent_turns": turns, "keep_verbatim_chars": verbatim},
            prefix=(PREFIX[0], Message("user", PREFIX[1].content + self.word * excess)),
            split={"page": stubs * c + c // 2, "recalled": 2 * q + 60},
        )
        assert self.player.refused is None

    @rule(command=commands, raw=bodies, thought=thoughts, returncode=st.sampled_from([0, 1, -9, 2**31]))
    def observe(self, command: str, raw: str | bytes, thought: str, returncode: int) -> None:
        self.player.do(command, raw, thought=thought, returncode=returncode)

    @rule(which=st.integers(0, 9), start=st.booleans(), thought=thoughts)
    def recall(self, which: int, start: bool, thought: str) -> None:
        if self.player.seen:
            id = self.player.id(which % len(self.player.seen))
            self.player.ask(f"{'_recall_start' if start else '_recall_next'} §{id}", thought=thought)

    @rule(command=st.sampled_from(["_catalog_first", "_catalog_next"]), thought=thoughts)
    def turn_page(self, command: str, thought: str) -> None:
        self.player.ask(command, thought=thought)

    @rule(which=st.integers(0, 9))
    def recall_on_and_on(self, which: int) -> None:
        """So much that not all of it can stay open."""
        if self.player.seen:
            for number in range(6):
                self.recall(which, number == 0, "")

    @rule(
        name=st.sampled_from(["_recall_start", "_recall_next"]),
        argument=st.sampled_from(["", "§", "all", "§0000ffffffff", "§ffff00000000", "LONG"]),
    )
    def misuse(self, name: str, argument: str) -> None:
        turn = self.player.ask(f"{name} {argument}".strip().replace("LONG", "0a" * 2000))
        assert not turn.observation.exact

    @rule(text=texts, answered_by=st.sampled_from(["correction", "gate"]), said=thoughts)
    def refuse(self, text: str, answered_by: Any, said: str) -> None:
        self.player.hear(text, answered_by, said=said, command="ls" if answered_by == "gate" else None)

    @rule()
    def force(self) -> None:
        self.player.force()
        view = self.player.view
        self.player.force()
        assert self.player.view == view


class PromptSafety(Execution):
    """Theorem 15 (1), Lemma 11: every prompt has at most K <= L tokens, and every part at most its own budget."""

    @invariant()
    def the_prompt_is_within_k(self) -> None:
        player = self.player
        usable = player.bench.budget.usable_tokens
        assert player.size <= player.k <= usable
        assert usable + player.bench.budget.completion_tokens <= player.bench.budget.window_tokens

    @invariant()
    def every_part_is_within_its_budget(self) -> None:
        paged = self.player.paged
        parts, most = paged.tokens(), dict(paged.split)
        assert sum(parts.values()) == self.player.size
        # B is measured: what the prefix takes beyond its share the recent turns give
        measured = self.player.weigh(*paged.prefix)
        excess = max(0, measured - most["prefix"])
        most |= {"prefix": most["prefix"] + excess, "recent": most["recent"] - excess}
        assert sum(most.values()) == self.player.k
        assert {part: size for part, size in parts.items() if size > most[part]} == {}

    @invariant()
    def what_is_recalled_is_within_q(self) -> None:
        there = self.player.visible(self.player.chunks)
        assert self.player.weigh(*(turn.result for turn in there)) <= self.player.paged.split["recalled"]

    @invariant()
    def the_newest_turn_and_the_prefix_are_there(self) -> None:
        view = self.player.view
        assert tuple(view[:2]) == self.player.paged.prefix
        assert view == self.player.view
        if self.player.turns:
            newest = self.player.turns[-1]
            assert [m.role for m in view[-2:]] == ["assistant", "user"]
            if newest.observation.exact:
                assert view[-1] is newest.result


class PromptSafetyQwen(PromptSafety):
    make = staticmethod(Player.qwen)
    word = " x"


class Archive(Execution):
    """Theorem 15 (2), (5) and (6): the archive is the history of what was observed, and nothing else."""

    @invariant()
    def every_record_is_what_was_observed(self) -> None:
        """Theorem 15 (2), Lemma 10."""
        store, seen = self.player.paged.store, self.player.seen
        ids = [self.player.id(at) for at in range(len(seen))]
        assert len(set(ids)) == len(ids)
        for id, turn in zip(ids, seen, strict=True):
            record = store.get(id)
            assert record is not None
            assert (record.id, record.signature, record.body) == (id, turn.action.text, turn.observation.text)
            assert (record.returncode, record.steps) == (turn.observation.returncode, [turn.index])

    @invariant()
    def the_history_can_be_rebuilt(self) -> None:
        """Theorem 15 (5)."""
        observed = [turn.observation.text for turn in self.player.seen]
        assert rebuilt(self.player.paged.store.records[::-1]) == observed

    @invariant()
    def the_archive_holds_exactly_the_payload(self) -> None:
        """Theorem 15 (6)."""
        payload = sum(len(turn.observation.text) for turn in self.player.seen)
        assert sum(len(record.body) for record in self.player.paged.store.records) == payload


class Discovery(Execution):
    """Theorem 15 (3), Lemma 12, while anything else happens between two pages."""

    def __init__(self) -> None:
        super().__init__()
        self.page = 0

    @rule(command=st.sampled_from(["_catalog_first", "_catalog_next"]), thought=thoughts)
    def turn_page(self, command: str, thought: str) -> None:
        player = self.player
        p = player.paged.split["page"] // player.paged.stub_tokens
        number = 1 if command == "_catalog_first" else self.page + 1
        turn = player.ask(command, thought=thought)
        ids = [player.id(at) for at in range(len(player.seen))][(number - 1) * p : number * p]
        if ids:
            self.page = number
            assert turn.observation.note == f"Catalog, page {number} of {math.ceil(len(player.seen) / p)}:"
            assert ids_on(turn.observation.text) == ids
            assert player.visible([turn]) == [turn]
        else:
            assert (turn.observation.exact, turn.observation.returncode) == (False, 1)

    @invariant()
    def at_most_one_page_is_visible(self) -> None:
        open_pages = self.player.visible(self.player.pages)
        assert open_pages in ([], self.player.pages[-1:])


class Recall(Execution):
    """Theorem 15 (4), Lemma 13, for recalls that run side by side, while anything else happens between two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, list[str]] = {}
        self.starts = 0

    @rule(command=commands, raw=bodies, thought=thoughts, returncode=st.just(0))
    def observe(self, command: str, raw: str | bytes, thought: str, returncode: int) -> None:
        super().observe(command, raw, thought, returncode)
        self.starts = 0

    @precondition(lambda self: self.player.seen)
    @rule(which=st.integers(0, 9), start=st.booleans(), thought=thoughts)
    def recall(self, which: int, start: bool, thought: str) -> None:
        player, q = self.player, self.player.paged.chunk_tokens
        at = which % len(player.seen)
        id, body = player.id(at), player.seen[at].observation.text
        turn = player.ask(f"{'_recall_start' if start else '_recall_next'} §{id}", thought=thought)
        if start and self.starts == 2:
            assert turn.observation.text.startswith("Only 2 recalls can be started between two other commands.")
            return
        if start:
            self.starts += 1
            self.given[id] = []
        m = math.ceil(len(body) / q)
        if id not in self.given or len(self.given[id]) == m:
            assert (turn.observation.exact, turn.observation.returncode) == (False, 1)
            return
        given = self.given[id]
        given.append(turn.observation.text)
        assert turn.observation.note == f"§{id}, part {len(given)} of {m}:"
        assert turn.result.content == f"{turn.observation.note}\n{given[-1]}"
        assert player.visible([turn]) == [turn]
        assert given[-1] == body[(len(given) - 1) * q : len(given) * q]
        assert ("".join(given) == body) == (len(given) == m)

    @rule(size=st.integers(100, 500), command=commands, raw=bodies)
    def recall_side_by_side(self, size: int, command: str, raw: str | bytes) -> None:
        """Two recalls by turns, with something else and a compaction in between."""
        for letter in "ab":
            self.observe(f"cat {letter}", letter * size, "", 0)
        a, b = len(self.player.seen) - 2, len(self.player.seen) - 1
        self.recall(a, True, "")
        self.recall(b, True, "")
        self.observe(command, raw, "", 0)
        self.force()
        for at in (a, b, b, a):
            self.recall(at, False, "")


TestPromptSafety = PromptSafety.TestCase
TestPromptSafetyQwen = PromptSafetyQwen.TestCase
TestArchive = Archive.TestCase
TestDiscovery = Discovery.TestCase
TestRecall = Recall.TestCase


# ---------------------------------------------------------------------------------------------- archive


def rebuilt(records: Sequence[Record]) -> list[str]:
    """The observations in order, from records in any order: the index in an id says which was when."""
    return [record.body for record in sorted(records, key=lambda record: int(record.id[:4], 16))]


def archived(history: Sequence[tuple[str, str | bytes]]) -> list[tuple[str, str]]:
    """What the archive holds after a history."""
    player = Player.letters()
    for command, raw in history:
        player.do(command, raw)
    return [(record.id, record.body) for record in player.paged.store.records]


@given(st.lists(st.tuples(st.sampled_from(["ls", "cat a"]), st.text("xy§", max_size=2)), max_size=40))
def test_every_occurrence_has_an_id_of_its_own_of_one_width(stored: list[tuple[str, str]]) -> None:
    """Lemma 10, however often the same action gives the same observation."""
    store = OccurrenceStore(4)
    records = [store.add(signature, body, returncode=0, step=i) for i, (signature, body) in enumerate(stored)]
    ids = [record.id for record in records]
    assert len(set(ids)) == len(ids) == len(store)
    assert [int(id[:4], 16) for id in ids] == list(range(1, len(ids) + 1))
    assert all(len(id) == 12 and normal_id(f"§{id.upper()}") == id for id in ids)
    assert [store.get(id) for id in ids] == records
    assert [(record.signature, record.body) for record in records] == stored


@given(st.randoms(use_true_random=False), histories)
def test_the_ordered_history_is_rebuilt_from_records_in_any_order(shuffle: Any, history: Any) -> None:
    """Theorem 15 (5), from the records and their creation indices alone."""
    player = Player.letters()
    for command, raw in history:
        player.do(command, raw)
    records = list(player.paged.store.records)
    shuffle.shuffle(records)
    assert rebuilt(records) == [admit(raw)[0] for _, raw in history]


@given(histories, st.sampled_from(["swap", "repeat", "drop", "edit", "split"]), st.integers(0, 11), st.integers(0, 40))
def test_histories_that_differ_leave_archives_that_differ(history: Any, how: str, at: int, where: int) -> None:
    """Theorem 15 (5): the map from histories to archives is injective."""
    assume(history)
    history = [(command, admit(raw)[0]) for command, raw in history]
    at %= len(history)
    command, body = history[at]
    where = min(where, len(body))
    other = {
        "swap": [*history[:at], *reversed(history[at : at + 2]), *history[at + 2 :]],
        "repeat": [*history[: at + 1], *history[at:]],
        "drop": [*history[:at], *history[at + 1 :]],
        "edit": [*history[:at], (command, f"{body[:where]}\u200b{body[where:]}"), *history[at + 1 :]],
        "split": [*history[:at], (command, body[:where]), (command, body[where:]), *history[at + 1 :]],
    }[how]
    same = [body for _, body in other] == [body for _, body in history]
    assert ([body for _, body in archived(other)] == [body for _, body in archived(history)]) == same
    if len(other) != len(history):
        assert len(archived(other)) != len(archived(history))


@given(st.lists(bodies, min_size=1, max_size=3), st.sampled_from([1, 3, 9]))
def test_k_is_the_same_after_any_number_of_turns(raw: list[str | bytes], times: int) -> None:
    """Theorem 15 (6): K does not depend on the number of turns, the archive holds the payload alone."""
    player = Player.qwen()
    k = player.k
    for body in raw * times:
        player.do("cat a", body)
        assert player.size <= player.k == k
        player.ask(f"_recall_start §{player.id(0)}")
        player.ask("_catalog_next")
        assert player.size <= k
    stored = [record.body for record in player.paged.store.records]
    assert stored == [admit(body)[0] for body in raw] * times
    assert sum(map(qwen().count_text, stored)) == times * sum(qwen().count_text(admit(body)[0]) for body in raw)


# -------------------------------------------------------------------------------------------- discovery


def ids_on(page: str) -> list[str]:
    """Ids of the stubs of a page, whatever stands in their signatures."""
    return [re.match("§([0-9a-f]{12}) `", line)[1] for line in page.split("\n")]


def scanned(player: Player) -> list[str]:
    """The pages of the catalog, from the first."""
    turns = [player.ask("_catalog_first")]
    while turns[-1].observation.exact:
        turns.append(player.ask("_catalog_next"))
        assert len(turns) <= len(player.seen) + 1, "a catalog without an end"
    return [turn.observation.text for turn in turns[:-1]]


@pytest.mark.parametrize("make", [Player.letters, Player.qwen])
@given(history=histories, stubs=st.integers(1, 4))
def test_a_scan_shows_every_stub_on_one_page_within_its_bound(make: Any, history: Any, stubs: int) -> None:
    """Theorem 15 (3), Lemma 12: stub j stands on page ceil(j/p) and on no other, and a page fits P."""
    c = 120 if make == Player.letters else 60
    player: Player = make(split={"page": stubs * c})
    for command, raw in history:
        player.do(command, raw)
    pages = scanned(player)
    assert len(pages) == math.ceil(len(history) / stubs)
    found = [(id, number) for number, page in enumerate(pages, start=1) for id in ids_on(page)]
    assert found == [(player.id(j - 1), math.ceil(j / stubs)) for j in range(1, len(history) + 1)]
    assert all(player.bench.count_text(page) <= stubs * c for page in pages)
    assert len(player.visible(player.pages)) == (1 if history else 0)


# ----------------------------------------------------------------------------------------------- recall


@given(texts, st.integers(1, 120))
def test_a_body_comes_back_in_exactly_as_many_parts_as_its_tokens_take(body: str, q: int) -> None:
    """Theorem 15 (4), Lemma 13 and Corollary 14 as they are printed: tokens end at characters."""
    body = body[: 50 * q]
    player = Player.letters(q)
    player.do("cat a", body)
    parts = player.recall(player.id(0))
    n, m, rho = len(body), len(parts), player.paged.wrapper_tokens
    assert [part.observation.text for part in parts] == [body[at : at + q] for at in range(0, n, q)]
    assert m == math.ceil(n / q)
    assert n / q <= m < n / q + 1
    assert player.weigh(*(part.result for part in parts)) <= n + rho * m <= n + rho * (n / q + 1)


@given(texts, st.integers(12, 80))
@example("𓀀a" * 100, 13)  # three tokens a character: a cut after 13 tokens would fall into one
@example(" 祀0000000" * 40, 12)  # a token each but for the space and what follows it: every cut falls 2 tokens back
@example("\n" * 500, 12)
@example("e\u0301" * 300, 12)
@example("👩\u200d👧" * 100, 12)
def test_a_body_comes_back_whole_whatever_the_tokenizer(body: str, q: int) -> None:
    """Theorem 15 (4) with Qwen3's tokens: exact, disjoint, ordered, at most q tokens each. Where the text is NFC,
    m is between ceil(n/q) and ceil(n/(q-w+1)), w the most tokens from one place between characters to the next."""
    player = Player.qwen(q)
    player.do("cat a", body)
    parts = player.recall(player.id(0))
    pieces = [part.observation.text for part in parts]
    sizes = [qwen().count_text(piece) for piece in pieces]
    assert "".join(pieces) == body
    assert all(0 < size <= q for size in sizes)
    rho, responses = player.paged.wrapper_tokens, player.weigh(*(part.result for part in parts))
    assert all(player.weigh(part.result) <= q + rho for part in parts)
    assert responses <= sum(sizes) + rho * len(parts)
    if body and composed(body):
        n, w = qwen().count_text(body), widest(body)
        most = math.ceil(n / (q - w + 1))
        assert math.ceil(n / q) <= len(parts) <= most
        # Corollary 14 for cuts between characters
        assert responses <= n + rho * most


def test_a_recall_runs_nothing_again() -> None:
    """Theorem 15 (4) in a real episode: the environment sees no recall and no catalog page."""
    body = " ".join(f"w{i}" for i in range(3000))
    split = {"prefix": 900, "log": 2500, "recent": 3500, "page": 600, "recalled": 4400, "overhead": 300}

    def agent(request: Request) -> str:
        asked = len(engine.requests)
        id = re.findall("§([0-9a-f]{12})", "\n".join(message.content for message in request.messages[2:]))
        return run(["say 3000", "_catalog_first", f"_recall_start §{id[0] if id else ''}"][asked] if asked < 3 else
                   f"_recall_next §{id[0]}" if asked < 9 else "submit 42")  # fmt: skip

    engine = FakeEngine(agent, window=16384, chat=qwen())
    harness = FakeHarness()
    limits = budget(16384, 4096)
    method = build("method/arc_paged", split=split)
    record = played(task(), setup(engine, method, limits, harness, rules=rules()))
    assert record["outcome"] == "correct", record.get("detail")
    assert harness.opened[0].ran == ["say 3000", "submit 42"]
    exact = [turn for turn in record["turns"] if turn["exact"] and turn["action"].startswith("_recall")]
    shown = [record["messages"][turn["result"]]["content"].partition("\n")[2] for turn in exact]
    assert "".join(shown) == body
    assert len(shown) == math.ceil(qwen().count_text(body) / 2000)
    assert all(call["prompt_tokens"] <= sum(split.values()) for call in record["calls"])


# -------------------------------------------------------------------------------- what arc cannot promise


@pytest.mark.parametrize("window", [600, 1100])
def test_citations_that_all_stay_visible_outgrow_any_window(window: int) -> None:
    """Proposition 9: with citations of at least c_min tokens, all visible, no constant bounds the prompt, and
    floor(K/c_min) + 1 of them break it. arc keeps them all; arc_paged does not, and is within K on the same turns."""
    arc = ArcPlayer(window, 100, recall_budget_chars=100, recall_max_chars=100, keep_verbatim_chars=1)
    limits = arc.bench.budget
    paged = Player(
        Bench(limits),
        {"prefix": 20, "log": 150, "recent": 150, "page": 60, "recalled": 70, "overhead": 50},
        chars_per_token=4,
        wrapper_tokens=20,
        stub_tokens=20,
    )
    k = limits.usable_tokens
    n = 0
    while arc.size <= k:
        n += 1
        assert n <= k, "a view that never grows over the window"
        for player in (arc, paged):
            player.do(f"cat {n}", f"observation {n} " * 9)
        arc.compact("overflow")
        assert paged.size <= paged.k <= k
    citations = [m for m in arc.view[2:] if m.role == "user"]
    assert all(f"§{arc.id(at)}" in citations[at].content for at in range(n - 1))
    c_min = min(arc.bench.count((m,)) - arc.bench.count(()) for m in citations)
    assert n <= math.floor(k / c_min) + 1
    for more in range(n, 3 * n):
        paged.do(f"cat {more}", f"observation {more} " * 9)
        assert paged.size <= paged.k
    assert len(paged.paged.store) == 3 * n
