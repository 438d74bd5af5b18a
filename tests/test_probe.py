"""What the perception probe asks, what fits, and the scores by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import words
from fakes import FakeEngine
from probes import EIGHT, asked, asks_of, collected, settings, snapshot

from analysis import probe, probe_scores
from analysis.probe import Question
from analysis.snapshots import Block, Found, Snapshot
from arcbench.records import runs_below

# ------------------------------------------------------------------------------------ what is asked


def test_without_the_dashboard_no_number_but_the_labels_stands_outside_the_blocks(transcripts: Path) -> None:
    engine = FakeEngine([], window=8000)
    (found,) = collected(runs_below(transcripts)).values()
    for each in probe.plan("needle", found, asked(engine), settings()).questions:
        if each.dashboard:
            continue
        outside = [each.messages[0].content, each.messages[-1].content]
        outside += [message.content.split("\n", 1)[0] for message in each.messages[1:-1]]
        assert re.findall(r"\d+", re.sub(r"\bB\d+\b", "", "\n".join(outside))) == []
        texts = [message.content.split("\n", 1)[1] for message in each.messages[1:-1]]
        assert texts == [block.text for block in found.snapshots[each.snapshot].blocks[: len(texts)]]


def test_the_two_prompts_of_a_question_differ_by_the_dashboard_alone() -> None:
    _, asks, _ = asks_of(EIGHT)
    without, shown = asks[: len(asks) // 2], asks[len(asks) // 2 :]
    for plain, ledger in zip(without, shown, strict=True):
        assert (plain.dashboard, ledger.dashboard) == (False, True)
        assert ledger.messages == (*plain.messages[:-1], ledger.messages[-2], plain.messages[-1])
        assert (plain.truth, plain.blocks, plain.schema) == (ledger.truth, ledger.blocks, ledger.schema)
        assert plain.key != ledger.key


def test_what_is_asked_of_eight_blocks() -> None:
    kept, asks, cut = asks_of(EIGHT)
    assert (len(kept.blocks), cut) == (8, "")
    sizes = dict(zip([f"B{i}" for i in range(1, 9)], (5, 3, 7, 3, 40, 3, 12, 2), strict=True))
    plain = [each for each in asks if not each.dashboard]
    assert [each.probe for each in plain] == ["total_size", *["block_size"] * 4, *["pairwise"] * 6]
    assert plain[0].truth == 75
    sized = [each.blocks[0] for each in plain[1:5]]
    assert len(set(sized)) == 4
    assert "B8" not in sized
    assert [each.truth for each in plain[1:5]] == [sizes[id] for id in sized]
    pairs = [each for each in plain if each.probe == "pairwise"]
    assert len({frozenset(each.blocks) for each in pairs}) == 6
    for each in pairs:
        first, second = sorted(each.blocks)
        assert each.truth == (first if sizes[first] >= sizes[second] else second)
        assert each.ratio == max(sizes[first], sizes[second]) / min(sizes[first], sizes[second])
        assert each.schema["properties"]["larger"]["enum"] == list(each.blocks)
        assert each.text.startswith(f"Which block has more tokens, {each.blocks[0]} or {each.blocks[1]}?")


def test_the_last_block_is_never_sized_and_either_of_a_pair_is_named_first() -> None:
    asks = [each for seed in range(40) for each in asks_of(EIGHT, seed=seed)[1] if not each.dashboard]
    sized = {each.blocks[0] for each in asks if each.probe == "block_size"}
    assert sized == {f"B{i}" for i in range(1, 8)}
    rising = [each.blocks[0] < each.blocks[1] for each in asks if each.probe == "pairwise"]
    assert 0.35 < sum(rising) / len(rising) < 0.65


def test_of_two_equal_blocks_the_first_is_the_larger() -> None:
    assert probe.larger(("B2", "B10"), {"B2": 3, "B10": 3}) == "B2"
    assert probe.larger(("B2", "B10"), {"B2": 3, "B10": 4}) == "B10"


def test_the_dashboard_prints_the_sizes_that_are_asked_for() -> None:
    _, asks, _ = asks_of(EIGHT)
    message = next(each for each in asks if each.dashboard).messages[-2]
    assert "blocks 75," in message.content
    lines = message.content.split("\n")
    assert lines[4] == "B1 5 4r user_message L0 - pinned"
    assert lines[8] == "B5 40 2r tool_result L0 B4 visible"
    assert lines[11] == "B8 2 0r assistant_message L0 - visible"
    # what it says it takes together is the prompt without its question
    own = 2 + words(message.content)
    assert f": {3 + sum(2 + words(m.content) for m in asks[-1].messages[:-2]) + own} of 9744 tokens" in lines[1]
    assert f"this status {own}" in lines[2]


# ---------------------------------------------------------------------------------------- what fits


def test_the_block_that_crosses_the_cap_goes_and_all_after_it() -> None:
    long = snapshot(5, 3, 7, 3, 40, 3, 12, 2, 100, 1)
    kept, _, cut = asks_of(long, most_tokens=75)
    assert (len(kept.blocks), kept.tokens, cut) == (8, 75, "cap")
    kept, asks, _ = asks_of(long, most_tokens=74)
    assert len(kept.blocks) == 7
    assert asks == []  # too few to be asked about


def test_a_snapshot_is_cut_to_what_fits_with_any_question_the_dashboard_and_the_reply() -> None:
    long = snapshot(*[20] * 30)
    engine = FakeEngine([], window=700)
    reply = settings().reply_tokens
    kept, asks, cut = probe.fitted(long, asked(engine), settings())
    assert cut == "window"
    assert 8 <= len(kept.blocks) < 30
    most = max(engine.count(each.messages, thinking=False) for each in asks)
    one_more = 2 + 1 + 20 + 7  # framing, label and text, and a line of the dashboard
    assert most <= 700 - reply < most + one_more


def test_skipped_snapshots_are_counted_and_the_next_one_is_drawn() -> None:
    snaps = {f"s{i}": replace(snapshot(*([900] * 9 if i < 3 else [5] * 9)), id=f"s{i}") for i in range(6)}
    made = probe.plan("fake", Found(snaps, episodes=9, short=2, same=1), asked(FakeEngine([], window=900)),
                           settings())  # fmt: skip
    assert {each.id for each in made.snapshots} == {"s3", "s4", "s5"}
    assert made.about.startswith("3 of 5 snapshots, 9 blocks and 45 tokens each, from 9 episodes (2 with fewer than 8")
    assert "of those drawn, 3 with too few blocks that fit" in made.about
    one = probe.plan("fake", Found(snaps), asked(FakeEngine([], window=900)), settings(snapshots=1))
    assert one.snapshots[0].id == made.snapshots[0].id  # the first of the same order
    assert len(one.questions) == 2 * 11


# ---------------------------------------------------------------------------------------- the scores


def q(probe: Any, truth: int | str, blocks: tuple[str, ...] = (), ratio: float | None = None) -> Question:
    return Question("k", "snap", False, probe, blocks, truth, ratio, "", (), {}, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"tokens": 120}', 120),
        ('```json\n{"tokens": 0}\n```', 0),
        ('{"tokens": 120, "why": "a guess"}', 120),
        ('{"tokens": "120"}', None),
        ('{"tokens": 120.5}', None),
        ('{"tokens": -1}', None),
        ('{"tokens": true}', None),
        ('{"tokens": null}', None),
        ('{"larger": "B2"}', None),
        ("120", None),
        ("", None),
        ('{"tokens": 12', None),
        ('{"tokens": 1} or {"tokens": 2}', None),
        ('{"tokens": ' + "9" * 5000 + "}", None),
    ],
)
def test_a_size_is_read_from_one_json_object_or_not_at_all(text: str, value: int | None) -> None:
    assert probe.read(q("block_size", 100, ("B2",)), text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"larger": "B2"}', "B2"), ('{"larger": "B10"}', "B10"), ('{"larger": "B3"}', None), ('{"larger": 2}', None),
     ('{"larger": ["B2"]}', None), ("B2", None)],
)  # fmt: skip
def test_a_comparison_is_one_of_the_two_labels_or_nothing(text: str, value: str | None) -> None:
    assert probe.read(q("pairwise", "B2", ("B10", "B2")), text) == value


def test_medians_and_shares_by_hand() -> None:
    asks = [
        q("total_size", 200), q("total_size", 100),
        *(q("block_size", truth, ("B2",)) for truth in (10, 10, 40, 50)),
        q("pairwise", "B1", ("B1", "B2"), 1.0), q("pairwise", "B1", ("B1", "B3"), 1.99),
        q("pairwise", "B3", ("B1", "B3"), 2.0), q("pairwise", "B2", ("B1", "B2"), 1.5),
    ]  # fmt: skip
    guesses = [100, 300, 10, 25, None, 40, "B1", "B3", "B3", None]
    rows = {(row["probe"], row["metric"]): row for row in probe_scores.score(asks, guesses, 2)}
    total = rows["total_size", "median_relative_error"]
    assert (total["value"], total["scored"], total["unparsed"]) == (1.25, 2, 0)  # of 0.5 and 2
    block = rows["block_size", "median_relative_error"]
    assert (block["value"], block["asked"], block["scored"], block["unparsed"]) == (0.2, 4, 3, 1)  # of 0, 1.5 and 0.2
    near = rows["pairwise", "accuracy_fraction_near"]
    assert (near["value"], near["asked"], near["scored"], near["unparsed"]) == (
        0.5,
        3,
        2,
        1,
    )  # a ratio of 2 is not near
    every = rows["pairwise", "accuracy_fraction_all"]
    assert (every["value"], every["asked"], every["scored"]) == (2 / 3, 4, 3)
    assert {row["value"] for row in probe_scores.score(asks, [None] * 10, 2)} == {None}


def test_what_the_guessers_without_a_model_say() -> None:
    texts = ["x" * 40, "y" * 8, "z" * 20]
    sized = enumerate(zip(texts, (9, 4, 5), strict=True), start=1)
    found = Snapshot("snap", "", "", tuple(Block(f"B{i}", "tool_result", text, 0, None, n) for i, (text, n) in sized))
    by_chars, by_median = probe_scores.guessers([found], 4).values()
    assert by_chars == {"snap": {"B1": 10, "B2": 2, "B3": 5}}
    assert by_median == {"snap": {"B1": 5, "B2": 5, "B3": 5}}
    assert probe_scores.guessed(q("total_size", 18), by_chars["snap"]) == 17
    assert probe_scores.guessed(q("block_size", 9, ("B1",)), by_chars["snap"]) == 10
    assert probe_scores.guessed(q("pairwise", "B3", ("B2", "B3")), by_chars["snap"]) == "B3"
    assert probe_scores.guessed(q("pairwise", "B3", ("B3", "B2")), by_median["snap"]) == "B2"  # all equal: the lower id
    eleven = {"B9": 1.0, "B11": 1.0}
    assert probe_scores.guessed(q("pairwise", "B9", ("B11", "B9")), eleven) == "B9"
