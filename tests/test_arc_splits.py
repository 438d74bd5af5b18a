"""arc_paged: how its window is split into budgets, and what is said of bad splits and settings."""

from __future__ import annotations

from typing import Any

import pytest
from bench import PREFIX, Bench, budget
from fakes import conf, qwen
from paged import LETTERS, Player, QwenBench, letters, limits_for

from arcbench.types import ConfigError, Message


def test_the_prefix_is_measured_and_the_recent_turns_give_way() -> None:
    def with_prefix(tokens: int) -> Player:
        return Player.letters(prefix=(PREFIX[0], Message("user", letters(tokens - 4 - len(PREFIX[0].content)))))

    assert LETTERS["recent"] == 520
    for size, recent in ((40, 520), (60, 520), (61, 519), (100, 480)):
        player = with_prefix(size)
        assert (player.refused, player.paged.recent_tokens) == (None, recent)
        player.do("cat a", letters(recent - player.weigh(Message("assistant", "```\ncat a\n```")) - 2))
        assert player.paged.tokens()["recent"] == recent
        assert player.told is None
        assert player.size <= player.k
    assert with_prefix(101).refused == "prefix_too_large"


@pytest.mark.parametrize(
    "more", [{"prefix": 1}, {"log": 1}, {"recent": 1}, {"page": 1}, {"recalled": 1}, {"overhead": 1}]
)
def test_a_split_over_the_window_is_refused_and_the_sum_shown(more: dict[str, int]) -> None:
    split = LETTERS | {key: LETTERS[key] + value for key, value in more.items()}
    parts = " [+] ".join(f"{split[key]} {key}" for key in ("prefix", "log", "recent", "page", "recalled", "overhead"))
    total = sum(LETTERS.values())
    message = f"^budget.arc_paged: {parts} = {total + 1}: must be at most {total}, the window less the completion$"
    bench = Bench(limits_for(LETTERS, 100), unit=len)
    with pytest.raises(ConfigError, match=message):
        Player(bench, split, stub_tokens=120, wrapper_tokens=50)
    assert Player(bench, LETTERS, stub_tokens=120, wrapper_tokens=50).k == total


@pytest.mark.parametrize("key", list(LETTERS))
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None])
def test_a_bad_share_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^budget.arc_paged.{key}={value}: must be a whole number of at least 1$"):
        Player(Bench(limits_for(LETTERS, 100), unit=len), LETTERS | {key: value})


def test_an_unknown_share_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^budget.arc_paged=summary: must be one of prefix, log, recent, page, "):
        Player.letters(split={"summary": 10})


@pytest.mark.parametrize("key", ["thought_chars", "signature_chars", "recalls_per_step", "nearest_ids",
                                 "stub_tokens", "wrapper_tokens", "chars_per_token", "index_chars"])  # fmt: skip
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_a_bad_number_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^method.{key}={value}: [^\n]+$"):
        Player.letters(**{key: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"stub": "§$id"}, "method.texts.stub='§[$]id': must be a text with exactly these places: [$]id, [$]sig"),
        ({"stb": "§$id"}, "method.texts=stb: must be one of notice, stub, "),
        ({"chunk": None}, "method.texts.chunk=None: must be a text with exactly these places: [$]id, [$]chunk, "),
    ],
)
def test_a_bad_text_is_named(change: dict[str, Any], named: str) -> None:
    texts = {key: text for key, text in (conf("method/arc_paged")["texts"] | change).items() if text is not None}
    with pytest.raises(ConfigError, match=named):
        Player.letters(texts=texts)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"q": 171}, "^budget.recall_max_chars=171: a chunk of 171 tokens and its wrapper of 50 must fit "
                     "budget.arc_paged.recalled=220$"),
        ({"q": 3, "chars_per_token": 4}, "^budget.recall_max_chars=3: a chunk of 0 tokens and its wrapper of 50 must "),
        ({"split": {"page": 119}}, "^budget.arc_paged.page=119: must hold a stub of method.stub_tokens=120$"),
        # what the fixed words take is known with the tokenizer
        ({"split": {"overhead": 115}}, "^budget.arc_paged.overhead=115: must be at least 1[12][0-9], what the"),
        ({"wrapper_tokens": 30}, "^method.wrapper_tokens=30: must be at least [34][0-9], what the fixed words "),
        ({"stub_tokens": 50}, "^method.stub_tokens=50: must be at least [67][0-9], what the fixed words alone take$"),
    ],
)  # fmt: skip
def test_a_part_that_cannot_hold_what_it_must_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Player.letters(**changes)


@pytest.mark.parametrize("point", ["4k_2k", "8k_4k", "16k_8k", "32k_16k"])
@pytest.mark.parametrize("name", ["paper_8b", "paper_32b", "ample"])
def test_the_shipped_splits_work_at_every_recall_point(name: str, point: str) -> None:
    limits, recall = conf(f"budget/{name}"), conf(f"recall/{point}")["budget"]
    chars = {key: recall[key] for key in ("recall_budget_chars", "recall_max_chars")}
    bench = QwenBench(budget(limits["window_tokens"], limits["completion_tokens"], **chars))
    player = Player(bench, limits["arc_paged"], chars_per_token=4)
    assert player.refused is None
    assert player.paged.chunk_tokens == chars["recall_max_chars"] // 4
    assert player.k <= bench.budget.usable_tokens


def test_the_needle_comes_back_in_several_parts_at_the_smallest_recall_point() -> None:
    """Issue: at 4k_2k the file of about 4.5k characters takes several chunks."""
    bench = QwenBench(budget(16384, 4096, recall_max_chars=2000, recall_budget_chars=4000))
    player = Player(bench, conf("budget/paper_8b")["arc_paged"], chars_per_token=4)
    body = "\n".join(f"line {i}: {i * 7919 % 99991:05d} is a code and this is noise, not the needle" for i in range(60))
    player.do("cat secrets.txt", body)
    parts = player.recall(player.id(0))
    assert len(parts) == -(-qwen().count_text(body) // 500) > 2
    assert "".join(part.observation.text for part in parts) == body
