"""``python -m analysis.noise_floor``, and the A/A line beside A/B."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes import compose
from recorded import record_run
from statsmodels.stats.proportion import proportion_confint

from analysis import compare
from analysis.flips import flips, noise
from analysis.noise_floor import main
from arcbench.runner.cell import Cell


def floor(capsys: pytest.CaptureFixture[str], runs: Path, name: str = "noise_floor") -> pd.DataFrame:
    tables = runs.parent / "tables"
    assert main(["--runs", str(runs), "--tables", str(tables)]) == 0, capsys.readouterr().err
    return pd.read_csv(tables / f"{name}.csv")


def refused(capsys: pytest.CaptureFixture[str], runs: Path) -> str:
    assert main(["--runs", str(runs), "--tables", str(runs / "tables")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


# --------------------------------------------------------------------------------------------- flips


def test_pairs_of_tries_by_hand() -> None:
    # task a: 1 1 1, b: 1 0 1, c: 0 once; b and c are on one document
    found = flips(list("aaabbbc"), list("aaaxxxx"), np.array([1, 1, 1, 1, 0, 1, 0]))
    assert found
    assert (found.n_tasks, found.n_pairs, found.n_discordant, found.rate) == (2, 6, 2, 1 / 3)
    assert found.n_differ.tolist() == [0, 2]
    assert flips(list("abc"), list("abc"), np.array([1, 0, 1])) is None
    assert flips([], [], np.array([], dtype=np.int64)) is None


def test_the_interval_is_wilsons_for_two_tries_and_never_a_point() -> None:
    two = flips(list("abcd") * 2, list("abcd") * 2, np.array([1, 1, 0, 0, 1, 0, 0, 0]))
    assert two
    wanted = proportion_confint(1, 4, method="wilson")
    assert two.interval(level=0.95, resamples=10, seed=1) == pytest.approx(wanted)
    none = flips(list("abcd") * 3, list("abcd") * 3, np.array([1, 1, 0, 0] * 3))
    assert none
    assert none.interval(level=0.95, resamples=10, seed=1) == pytest.approx(proportion_confint(0, 4, method="wilson"))


def test_the_flip_rate_is_the_variance_of_two_tries() -> None:
    """Tasks with success probabilities of their own: the rate is twice the mean of p (1 - p), and differences of two
    runs of all tasks stay within the noise as often as it says (400 times: Monte Carlo error 1.1 points)."""
    rng = np.random.default_rng(7)
    p = rng.beta(0.5, 0.5, 300)
    tasks = list(range(300)) * 2
    rates, outside = [], 0
    for _ in range(400):
        tries = rng.binomial(1, p, (2, 300))
        found = flips(tasks, tasks, tries.ravel())
        assert found
        rates.append(found.rate)
        outside += abs(tries[0].mean() - tries[1].mean()) > noise(found.rate, found.rate, n=300, level=0.95)
    assert np.mean(rates) == pytest.approx(2 * (p * (1 - p)).mean(), abs=0.003)
    assert outside / 400 == pytest.approx(0.05, abs=0.033)


# --------------------------------------------------------------------------------------- the command


def test_a_floor_worked_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, letters in ((42, "ccwn"), (43, "cwwc"), (44, "ccwc")):
        record_run(tmp_path / "runs", letters, seed=seed, tasks="abcd")
    right, done = (row for _, row in floor(capsys, tmp_path / "runs").iterrows())
    # correct: a 111, b 101, c 000, d 011; completed: all but d under 42
    assert (right["outcome"], right["n_pairs"], right["n_discordant"]) == ("correctness", 12, 4)
    assert (done["outcome"], done["n_pairs"], done["n_discordant"]) == ("completion", 12, 2)
    assert right["flips_pct"] == pytest.approx(100 / 3)
    assert right["noise_pp"] == pytest.approx(100 * 1.959964 * math.sqrt(1 / 3 / 4))
    assert right["seen_pp"] == 25.0  # 2, 2 and 3 of 4
    assert [right[c] for c in ("n_runs", "n_tasks", "n_planned", "n_run", "n_error", "n_missing", "n_no_answer")] == [
        3, 4, 12, 12, 0, 0, 1,
    ]  # fmt: skip
    assert right["seeds"] == "42 43 44"


def test_errors_and_missing_tasks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_run(tmp_path / "runs", "cce", seed=42, tasks="abc", planned=4)
    record_run(tmp_path / "runs", "cwcc", seed=43, tasks="abcd")
    right = floor(capsys, tmp_path / "runs").iloc[0]
    assert [right[c] for c in ("n_tasks", "n_pairs", "n_discordant")] == [2, 2, 1]
    assert [right[c] for c in ("n_planned", "n_run", "n_error", "n_missing")] == [8, 6, 1, 1]
    assert "arc is incomplete: 1 in error, 1 missing of 8 planned" in capsys.readouterr().out


def test_methods_are_apart_and_what_was_tried_once_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (42, 43):
        record_run(tmp_path / "runs", "cw", seed=seed, tasks="ab", method="vista")
        record_run(tmp_path / "runs", "cw" if seed == 42 else "wc", seed=seed, tasks="ab")
        record_run(tmp_path / "runs", "cw", seed=seed, method="slim")  # tasks of its own under each seed
    found = floor(capsys, tmp_path / "runs")
    assert list(found["method"]) == ["arc", "arc", "vista", "vista"]
    assert list(found["flips_pct"]) == [100.0, 0.0, 0.0, 0.0]


def test_the_scripted_engine_does_not_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (42, 43):
        record_run(tmp_path / "runs", "cw", seed=seed, tasks="ab", engine="scripted", model="scripted")
    found = floor(capsys, tmp_path / "runs", "mechanism_noise_floor")
    assert list(found["flips_pct"]) == [0.0, 0.0]
    assert "noise_pp" not in found
    assert "flips_low_pct" not in found
    assert "This engine has no sampling" in capsys.readouterr().out


def test_a_greedy_model_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method, temperature in (("arc", 0.7), ("vista", 0.0)):
        for seed in (42, 43):
            record_run(tmp_path / method, "cw", seed=seed, tasks="ab", method=method, temperature=temperature)
        assert list(floor(capsys, tmp_path / method)["temperature"]) == [temperature] * 2
        assert ("qwen3-8b was decoded greedily" in capsys.readouterr().out) == (temperature == 0)


def test_what_gives_no_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_run(tmp_path / "once", "cw", seed=42)
    record_run(tmp_path / "once", "cw", seed=43)
    assert f"{tmp_path / 'once'}: no method has a task under two sampling seeds; play some" in refused(
        capsys, tmp_path / "once"
    )
    record_run(tmp_path / "copied", "cw", seed=42)
    shutil.copytree(tmp_path / "copied" / "arc" / "42", tmp_path / "copied" / "arc" / "copy")
    assert "copied/arc/42 and " in (said := refused(capsys, tmp_path / "copied"))
    assert "are one run under the same seeds; move one away" in said
    (tmp_path / "empty").mkdir()
    assert "no runs here" in refused(capsys, tmp_path / "empty")


def test_the_experiment_varies_the_sampling_and_nothing_else(tmp_path: Path) -> None:
    one, other = (Cell.compose(compose("experiment=noise_floor", "harness.n_tasks=3", f"seed={s}")) for s in (42, 43))
    assert one.harness.tasks() == other.harness.tasks()
    assert one.digest != other.digest
    assert str(one.run_dir).startswith("results/noise_floor/")


def test_on_vllm_the_engine_takes_the_seed_of_the_run() -> None:
    config: Any = compose("experiment=noise_floor", "engine=vllm", "model=qwen3-8b", "seed=43")
    assert (config["engine"]["seed"], config["harness"]["seed"]) == (43, 42)


# ------------------------------------------------------------------------------------- beside A/B


def test_a_comparison_shows_each_side_against_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, arc, slim in ((42, "cccw", "cwww"), (43, "ccwc", "wwww")):
        record_run(tmp_path, arc, seed=seed, tasks="abcd")
        record_run(tmp_path, slim, seed=seed, tasks="abcd", method="slim")
    assert compare.main([str(tmp_path / "arc"), str(tmp_path / "slim"), "--tables", str(tmp_path / "t")]) == 0
    right = pd.read_csv(tmp_path / "t" / "compare_correctness.csv").iloc[0]
    assert (right["a_flips_pct"], right["b_flips_pct"]) == (50.0, 25.0)
    assert right["noise_pp"] == pytest.approx(100 * 1.959964 * math.sqrt(0.375 / 8))
    assert "what is smaller is within the noise" in capsys.readouterr().out
    # one try against another of the same method
    assert compare.main([str(tmp_path / "arc/42"), str(tmp_path / "arc/43"), "--tables", str(tmp_path / "t")]) == 0
    right = pd.read_csv(tmp_path / "t" / "compare_correctness.csv").iloc[0]
    assert (right["n_a_only"], right["n_b_only"]) == (1, 1)
    assert "a_flips_pct" not in right


def test_a_comparison_pairs_tries_by_the_seed_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The experiment's records bear the seed of the tasks."""
    for method, letters in (("arc", "cw"), ("slim", "wc")):
        for seed in (42, 43):
            record_run(tmp_path, letters, seed=seed, tasks="ab", method=method, task_seed=42)
    assert compare.main([str(tmp_path / "arc"), str(tmp_path / "slim")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\| pairs +\| +4 \|", out)
