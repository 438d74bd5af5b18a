"""Type I error of the paired tests, from the generator in ``analysis.paired_simulation``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from analysis.paired_simulation import CLUSTERED, POOLED, SIMULATION, Design, main, rejections

SMALL = Design(
    n_tasks=300,
    n_seeds=3,
    mean_logit=-1.0,
    task_sd=1.5,
    interaction_sd=(0.0, 1.0, 3.0),
    alpha=0.05,
    n_simulations=1500,
    seed=11,
)


def test_clustered_tests_keep_their_level_and_pooled_ones_lose_it() -> None:
    """Monte Carlo error at 5 % and 1,500 simulations is 0.56 points; nine rates are checked, so three of it. The
    sign-flip test is exact and so a little below 5 %, with 100 tasks by one point, with 300 by less than half of it."""
    rates = [rejections(SMALL, sd) for sd in SMALL.interaction_sd]
    for rate in rates:
        for test in CLUSTERED:
            assert abs(rate[test] - 0.05) <= 3 * SMALL.error, (test, rate)
    for test in POOLED:
        assert rates[0][test] <= 0.05 + 3 * SMALL.error
        assert rates[0][test] < rates[1][test] < rates[2][test]
        assert rates[2][test] > 0.1


def test_with_one_seed_a_task_is_one_pair_and_the_pooled_tests_keep_their_level_too() -> None:
    once = Design(**{name: getattr(SMALL, name) for name in Design.__slots__} | {"n_seeds": 1, "n_simulations": 800})
    rate = rejections(once, 3.0)
    assert rate["cluster sign-flip"] == rate["exact, two-sided"]
    assert all(each <= 0.05 + 3 * once.error for each in rate.values())


def test_the_command_prints_one_row_a_strength(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = yaml.safe_load(SIMULATION.read_text("utf-8")) | {"n_tasks": 20, "n_simulations": 40}
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(numbers), "utf-8")
    assert main(["--settings", str(file), "--tables", str(tmp_path)]) == 0
    text = (tmp_path / "paired_type_one_error.md").read_text("utf-8")
    assert text.count("\n| ") == 1 + len(numbers["interaction_sd"])
    assert "40 simulations a row of 20 tasks under 3 seeds" in text
    again = capsys.readouterr().out
    assert main(["--settings", str(file)]) == 0
    assert capsys.readouterr().out == again.split("wrote")[0]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("n_tasks", 0, "n_tasks=0: must be"),
        ("alpha", 2, "alpha=2: must be"),
        ("task_sd", -1, "task_sd=-1: must be at least 0"),
        ("interaction_sd", 0.5, "interaction_sd=None: must be at least 0"),
        ("interaction_sd", [1, -1], "interaction_sd=-1: must be at least 0"),
        ("more", 1, "more is unknown"),
    ],
)
def test_bad_numbers_are_one_line(
    key: str, value: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(SIMULATION.read_text("utf-8")) | {key: value}), "utf-8")
    assert main(["--settings", str(file)]) == 2
    assert said in capsys.readouterr().err


def test_the_shipped_numbers_are_read() -> None:
    assert Design.read(SIMULATION).error == pytest.approx(np.sqrt(0.05 * 0.95 / 4000))
