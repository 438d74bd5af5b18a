"""What serving takes: hand-made records in, numbers worked out by hand out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import record_run

from analysis import serving
from analysis.serving import Settings, interval

# a task of 100 tokens; a reply and a result; what a compaction puts in their place and a result
MESSAGES = [{"role": "user", "content": "x", "tokens": tokens} for tokens in (100, 40, 60, 30, 50)]
COMPACTION = {
    "before_call": 3, "trigger": "overflow", "outcome": "done", "tokens_before": 244, "tokens_after": 134,
    "failure": None, "fates": {},
}  # fmt: skip
MORE = {"messages": MESSAGES, "compactions": [COMPACTION]}
# each prompt has four tokens beside its messages; the first message alone is shared: six blocks of 16 of its 100 tokens
CALLS = [(104, 40, "agent", None, [0]), (204, 40, "agent", None, [0, 1, 2]), (184, 40, "agent", None, [0, 3, 4])]
REPORTED = [(104, 40, "agent", 0, [0]), (204, 40, "agent", 64, [0, 1, 2]), (184, 40, "agent", 96, [0, 3, 4])]
GIVEN = Settings(cache_block_tokens=16, level=0.95, resamples=500, resampling_seed=1)


@pytest.fixture
def made(tmp_path: Path) -> Any:
    def make(**args: str) -> pd.Series:
        named = [text for key, value in args.items() for text in (f"--{key.replace('_', '-')}", value)]
        assert serving.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), *named]) == 0
        (path,) = (tmp_path / "tables").glob("serving_*.csv")
        table = pd.read_csv(path)
        assert len(table) == 1
        return table.iloc[0]

    return make


def seconds(prefilled: int) -> float:
    """Of one episode on the H200. Q = 40 * (123.5 + 223.5 + 203.5) = 22,020 over 120 tokens: a mean of 183.5, and
    124.62e9 / (183.5 * 147,456) = 4,605 together."""
    return (120 * 16.38e9 / 4605 + 22020 * 147456) / 4.8e12 + prefilled * 2 * 6.95e9 / 989e12


def test_what_the_cache_would_have_served(tmp_path, made):
    record_run(tmp_path / "runs", "c", calls=CALLS, record=MORE)
    row = made()
    assert row["cache"] == "modelled"
    assert (row["prompt_tokens_per_episode"], row["served_tokens_per_episode"]) == (492, 192)
    assert (row["prefilled_tokens_per_episode"], row["decode_tokens_per_episode"]) == (300, 120)
    assert row["hit_rate_pct"] == pytest.approx(100 * 192 / 492, abs=1e-5)
    # twice the task's 100 tokens had been computed, and 96 of them are served; once after a compaction
    assert (row["again_tokens_per_episode"], row["again_tokens_per_compaction"]) == (8, 4)
    assert row["engine_s_per_episode"] == 1.5
    # 144, 244 and 224 tokens of 147,456 bytes stay while the tools work
    assert row["waiting_gb"] == pytest.approx(204 * 147456 / 1e9, abs=1e-6)
    assert row["waiting_most_gb"] == pytest.approx(244 * 147456 / 1e9, abs=1e-6)
    assert row["cached_s_per_episode"] == pytest.approx(seconds(300), abs=1e-6)
    assert row["uncached_s_per_episode"] == pytest.approx(seconds(492), abs=1e-6)


def test_what_the_engine_reported_counts_where_every_call_has_it(tmp_path, made):
    record_run(tmp_path / "runs", "c", calls=REPORTED, record=MORE)
    row = made()
    assert (row["cache"], row["served_tokens_per_episode"]) == ("recorded", 160)
    assert row["again_tokens_per_episode"] == 36 + 4


def test_a_row_is_not_part_recorded_and_part_modelled(tmp_path, made):
    record_run(tmp_path / "runs", "cw", calls={"c": REPORTED, "w": CALLS}, record=MORE)
    row = made()
    assert (row["cache"], row["served_tokens_per_episode"]) == ("modelled", 192)


def test_failures_are_paid_for_by_the_correct_answers(tmp_path, made):
    record_run(tmp_path / "runs", "cwne", calls=CALLS, record=MORE)
    row = made()
    assert row["n_run"] == 3  # an error is none
    assert row["cached_s_per_success"] == pytest.approx(3 * seconds(300), abs=1e-6)
    assert row["cached_s_per_success_low"] <= row["cached_s_per_success"] <= row["cached_s_per_success_high"]
    # all three took the same, so of whatever tasks are drawn the mean is that
    ends = [row[f"cached_s_per_episode_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx(2 * [seconds(300)], abs=1e-6)


def test_what_moves_at_a_compaction_is_computed_again_and_so_much_is_its_own(tmp_path, made):
    # the fourth prompt is the second one's turn behind what the compaction left: it shares no beginning with any
    moved = [*CALLS, (284, 40, "agent", None, [3, 1, 2, 4, 0])]
    compactions = [COMPACTION, COMPACTION | {"before_call": 4}, COMPACTION | {"before_call": 2, "outcome": "nothing"}]
    record_run(tmp_path / "runs", "c", calls=moved, record=MORE | {"compactions": compactions})
    row = made()
    assert row["again_tokens_per_episode"] == 4 + 4 + 280
    assert row["again_tokens_per_compaction"] == (4 + 280) / 2


def test_a_method_without_a_correct_answer_still_has_a_cost(tmp_path, made):
    record_run(tmp_path / "runs", "wn", calls=CALLS, record=MORE)
    row = made()
    assert row["cached_s_per_episode"] == pytest.approx(seconds(300), abs=1e-6)
    assert math.isnan(row["cached_s_per_success"])


def test_a_method_s_own_calls_hold_nothing_while_tools_work(tmp_path, made):
    played = [*CALLS, (1000, 500, "method", None, [0, 1, 2])]
    record_run(tmp_path / "runs", "c", calls=played, record=MORE)
    row = made()
    assert (row["method_calls_per_episode"], row["decode_tokens_per_episode"]) == (1, 620)
    assert row["waiting_most_gb"] == pytest.approx(244 * 147456 / 1e9, abs=1e-6)


def test_the_scripted_reader_is_charged_as_a_model_that_is_named(tmp_path, made):
    record_run(tmp_path / "runs", "c", calls=CALLS, record=MORE, engine="scripted", model="scripted")
    assert made()["waiting_gb"] == pytest.approx(204 * 147456 / 1e9, abs=1e-6)
    assert made(reader_as="qwen3-32b")["waiting_gb"] == pytest.approx(204 * 262144 / 1e9, abs=1e-6)


def test_a_cache_of_four_bytes_an_element_is_twice_as_large(tmp_path, made):
    config = {"model": {"dtype": "float32"}}
    record_run(tmp_path / "runs", "c", calls=CALLS, record=MORE, config=config)
    assert made()["waiting_gb"] == pytest.approx(204 * 294912 / 1e9, abs=1e-6)


def test_a_model_without_facts_has_tokens_and_no_seconds(tmp_path, made, capsys):
    record_run(tmp_path / "runs", "c", calls=CALLS, record=MORE, model="other-7b")
    row = made()
    assert row["served_tokens_per_episode"] == 192
    assert "cached_s_per_episode" not in row
    assert "Of other-7b no architecture facts are known" in capsys.readouterr().out


def test_the_interval_draws_tasks_with_all_their_episodes():
    # each task stands twice: whatever is drawn has 2 seconds a correct answer
    tasks, correct = pd.Series(["a", "a", "b", "b"]), pd.Series([True, False, False, True])
    assert interval(pd.Series([1.0, 1.0, 1.0, 1.0]), correct, tasks, GIVEN) == (2.0, 2.0)
    # of two tasks, one without a correct answer, both may be that one
    low, high = interval(pd.Series([1.0, 1.0]), pd.Series([True, False]), pd.Series(["a", "b"]), GIVEN)
    assert (low, high) == (1.0, math.inf)
    assert all(map(math.isnan, interval(pd.Series([1.0]), pd.Series([True]), pd.Series(["a"]), GIVEN)))


def test_two_policies_are_drawn(tmp_path):
    for share in (1.0, 0.5):
        config = {"budget": {"compact_to_share": share}}
        record_run(tmp_path / "runs" / str(share), "c", calls=CALLS, record=MORE, config=config)
    assert serving.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    assert {path.name for path in (tmp_path / "tables").glob("*policy*")} == {
        "serving_needle_policy.svg",
        "serving_needle_policy.png",
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--hardware", "h100"], "hardware=h100: must be one of h200, mi300x"),
        (["--runs", "nowhere"], "nowhere: no runs here"),
    ],
)
def test_bad_input_gets_one_line(tmp_path, capsys, args, said):
    record_run(tmp_path / "runs", "c", calls=CALLS, record=MORE)
    assert serving.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), *args]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_call_without_token_counts_gets_one_line(tmp_path, capsys):
    played = [(104, None, "agent", None, [0])]
    record_run(tmp_path / "runs", "c", calls=played, record=MORE)
    assert serving.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 2
    assert "completion_tokens of a call of needle/42/0 is not recorded" in capsys.readouterr().err
