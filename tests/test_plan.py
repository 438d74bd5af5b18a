"""What a command would run: the cells that Hydra would compose, and what is owed of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcbench import cells, plan
from arcbench.cells import End
from arcbench.runner.cell import Cell
from arcbench.runner.overrides import cells_of, composed
from arcbench.runner.session import Session
from arcbench.types import ConfigError

SMALL = ["harness.profile=paper", "harness.noise_lines_per_side=5", "harness.n_tasks=2"]


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[list[str]], str, str]:
    """Exit status, the table's rows, its last line, and what was complained of."""
    status = plan.main(words)
    out, err = capsys.readouterr()
    *rows, total = [line for line in out.splitlines() if not line.startswith("all cells:")]
    return status, [row.split() for row in rows[1:]], total, err


@pytest.mark.parametrize(
    "words",
    [
        ["method=arc,vista", "seed=1,2"],
        ["recall=4k_2k,32k_16k", "budget=paper_32b", "harness.profile=paper,strict"],
        ["budget.window_tokens=8192,16384", "budget.force_at_calls=[],[3,6]", "episode_timeout_s=1e3,0x10"],
        ["experiment=arc_table10", "harness.n_tasks=3"],
        ["experiment=window", "budget.window_tokens=8192", "seed=7"],
        ["method=llm_summary", "engine.summary_bound=head_tail,keeps_announced", "results_dir='a b'"],
    ],
)
def test_each_cell_has_the_config_that_hydra_composes(words):
    made = list(cells_of(["-m", *words]))
    assert len(made) > 1
    for own, config in made:
        experiment = [word for word in words if word.startswith("experiment=")]
        assert config == composed([*experiment, *own])


def test_what_is_owed_and_what_it_takes(tmp_path, capsys):
    words = ["method=sliding_window", *SMALL, f"results_dir={tmp_path}"]
    status, rows, total, _ = planned(capsys, *words, "seed=1,2")
    assert status == 0
    assert [row[-4:] for row in rows] == [["2", "0", "2", "-"]] * 2
    assert total == (
        "2 cells, 4 episodes owed, about 0 tokens, and those of 2 cells whose method has no finished episode yet"
    )
    with Session() as session:
        _, config = next(iter(cells_of([*words, "seed=1"])))
        session._loop.run(session._run(Cell.compose(config)))
    status, rows, total, _ = planned(capsys, *words, "seed=1,2")
    assert [row[-4:-1] for row in rows] == [["2", "2", "0"], ["2", "0", "2"]]
    # the other seed's episodes are as large as this one's
    spent = sum(e.prompt_tokens + e.completion_tokens for p in plan.plan([*words, "seed=1"]) for e in p.done.values())
    assert rows[1][-1] == f"{spent:,}"
    assert total == f"2 cells, 2 episodes owed, about {spent:,} tokens"


def test_cells_that_are_one_run_are_owed_once(tmp_path, capsys):
    _, rows, total, _ = planned(capsys, *SMALL, "seed=3,3", "episode_timeout_s=60,6e1", f"results_dir={tmp_path}")
    assert [row[-3:-1] for row in rows[1:]] == [["as", "1"]] * 3
    assert total.startswith("4 cells, 2 episodes owed")


def test_a_cell_that_cannot_run_is_named_and_the_others_are_planned(tmp_path, capsys):
    status, rows, _, err = planned(capsys, *SMALL, "seed=1,-1,2", f"results_dir={tmp_path}")
    assert status == 2
    assert [row[-4:] for row in rows] == [
        ["2", "0", "2", "-"],
        ["-", "cannot", "run", "-"],
        ["2", "0", "2", "-"],
    ]
    assert err.count("\n") == 1
    assert "seed=-1: must be a whole number of at least 0" in err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("method=arx", "method=arx: must be one of"),
        ("sed=1", "sed=1: there is no such key; the nearest are seed"),
        ("seed=1,", "mismatched input"),
        ("experiment=arc_table01,arc_table02", "one experiment at a time"),
    ],
)
def test_bad_input_gets_one_line(capsys, word, said):
    status = plan.main(["-m", word])
    err = capsys.readouterr().err
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_fault_of_one_composition_is_told_for_each_of_its_cells():
    found = [config for _, config in cells_of(["method=arc,arx", "seed=1,2"])]
    assert [isinstance(config, ConfigError) for config in found] == [False, False, True, True]


# ------------------------------------------------------------------------------------------ ends


def test_how_the_cells_of_a_sweep_ended():
    ends = [
        End(words="method=arc seed=1", state=cells.DONE, planned=2000, finished=2000, correct=1500, errors=0),
        End(words="method=arc seed=2", state=cells.FAILED),
        End(words="method=arc seed=3", state=cells.OWED),
    ]
    assert cells.summary(ends).splitlines() == [
        "all cells: method=arc",
        "cell    state   planned  finished  correct  errors",
        "seed=1  done      2,000     2,000    1,500       0",
        "seed=2  failed        -         -        -       -",
        "seed=3  owed          -         -        -       -",
        "3 cells: 1 done, 0 skipped, 1 failed, 1 owed",
    ]


def test_the_folder_is_not_made_by_a_plan(tmp_path, capsys):
    plan.main([*SMALL, f"results_dir={tmp_path / 'runs'}"])
    assert not Path(tmp_path / "runs").exists()
