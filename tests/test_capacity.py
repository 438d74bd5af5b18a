"""The capacity planner: hand-made records in, numbers worked out by hand out."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from recorded import record_run

from analysis import capacity

# (15,884 + 500) = 16,384 tokens of mean context and 16,885 at the end; a batch of 51 on the H200
CALLS = [(15884, 1001)]
TRAFFIC = 1001 * (16.38e9 / 51 + 16384 * 147456)
SECONDS = TRAFFIC / 4.8e12 + 2 * 6.95e9 * 15884 / 989e12


def plan(tmp_path: Path, *more: str) -> dict[str, pd.DataFrame]:
    args = ["model=qwen3-8b", "hardware=h200", "price_usd_per_gpu_hour=3.6"]
    assert capacity.main([*args, f"runs={tmp_path / 'runs'}", f"tables={tmp_path / 'tables'}", *more]) == 0
    return {path.stem: pd.read_csv(path) for path in (tmp_path / "tables").glob("*.csv")}


def test_a_method_s_capacity_by_hand(tmp_path):
    record_run(tmp_path / "runs", "cwe", calls=CALLS)
    row = plan(tmp_path)["capacity_needle"].iloc[0]
    assert (row["n_run"], row["longest_context_tokens"]) == (2, 16885)
    # 124.62 GB over 16,885 * 147,456 bytes
    assert (row["agents"], row["batch"]) == (50, 51)
    assert row["device_s_per_episode"] == pytest.approx(SECONDS, abs=1e-6)
    assert row["episodes_per_gpu_hour"] == pytest.approx(3600 / SECONDS, rel=1e-5)
    # a dollar is 1,000 seconds: thousand episodes cost as many dollars as one takes seconds; one of two is right
    assert row["usd_per_1000_episodes"] == pytest.approx(SECONDS, abs=1e-6)
    assert row["usd_per_1000_correct"] == pytest.approx(2 * SECONDS, abs=1e-6)


def test_cached_prefill_is_modelled_where_it_is_not_recorded(tmp_path):
    messages = [{"role": "user", "content": "x", "tokens": tokens} for tokens in (15880, 1000)]
    calls = [(15884, 1, "agent", None, [0]), (16884, 1, "agent", None, [0, 1])]
    record_run(tmp_path / "runs", "c", calls=calls, record={"messages": messages})
    uncached = plan(tmp_path)["capacity_needle"].iloc[0]["device_s_per_episode"]
    cached = plan(tmp_path, "prefill=cached")["capacity_needle"].iloc[0]["device_s_per_episode"]
    # of 15,880 shared tokens 992 blocks of 16 are served
    assert uncached - cached == pytest.approx(15872 * 2 * 6.95e9 / 989e12, abs=2e-6)


def test_more_gpus_by_hand(tmp_path):
    record_run(tmp_path / "runs", "c", calls=CALLS)
    table = plan(tmp_path)["capacity_scaling_needle"].set_index(["precision", "parallel", "n_gpu"])
    data, tensor = table.loc[("16 bit", "data", 2)], table.loc[("16 bit", "tensor", 2)]
    assert data["agents"] == 100
    assert data["episodes_per_hour"] == pytest.approx(2 * 3600 / SECONDS, rel=1e-5)
    # 282 - 16.38 GB over 16,885 * 147,456 bytes, and over 16,384: 106 agents, 109 together
    assert (tensor["agents"], tensor["batch"]) == (106, 109)
    traffic = 1001 * (16.38e9 / 109 + 16384 * 147456)
    seconds = traffic / 9.6e12 + 2 * 6.95e9 * 15884 / 1978e12
    assert tensor["episodes_per_hour"] == pytest.approx(3600 / seconds, rel=1e-5)
    assert tensor["usd_per_1000_episodes"] == pytest.approx(2 * seconds, rel=1e-4)
    # a cache of one byte an element: twice the agents
    assert table.loc[("8-bit cache", "tensor", 1), "agents"] == 100


def test_what_does_not_fit_is_said(tmp_path, capsys):
    record_run(tmp_path / "runs", "c", calls=CALLS)
    args = ["model=qwen3-32b", "hardware=h200", "price_usd_per_gpu_hour=3", "weight_bytes_per_parameter=8"]
    assert capacity.main([*args, f"runs={tmp_path / 'runs'}", f"tables={tmp_path / 'tables'}"]) == 2
    assert "do not fit on 1 x h200" in capsys.readouterr().err


def test_a_method_without_a_correct_answer_has_no_price_for_one(tmp_path):
    record_run(tmp_path / "runs", "wn", calls=CALLS)
    row = plan(tmp_path)["capacity_needle"].iloc[0]
    assert math.isnan(row["usd_per_1000_correct"])
    assert row["usd_per_1000_episodes"] == pytest.approx(SECONDS, abs=1e-6)


def test_the_figure_is_written(tmp_path):
    record_run(tmp_path / "runs", "c", calls=CALLS)
    plan(tmp_path)
    assert {path.name for path in (tmp_path / "tables").glob("capacity_h200.*")} == {
        "capacity_h200.svg",
        "capacity_h200.png",
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["model=qwen3-8b", "hardware=h200"], "price_usd_per_gpu_hour=: must be given"),
        (["model=qwen3-8b", "hardware=h200", "price_usd_per_gpu_hour=0"], "must be a number above 0"),
        (["model=qwen3-8b", "hardware=h200", "price_usd_per_gpu_hour=3", "colour=red"], "colour=red: unknown"),
        (["model=qwen3-8b", "hardware=h200", "price_usd_per_gpu_hour=3", "runs=nowhere"], "nowhere: no runs here"),
    ],
)
def test_bad_input_gets_one_line(tmp_path, capsys, args, said):
    record_run(tmp_path / "runs", "c", calls=CALLS)
    where = [] if any(arg.startswith("runs=") for arg in args) else [f"runs={tmp_path / 'runs'}"]
    assert capacity.main([*args, *where, f"tables={tmp_path / 'tables'}"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
