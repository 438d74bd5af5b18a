"""What making room took, and what the dashboard takes, by hand and on small runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fakes import compose

from analysis import pressure
from arcbench.records import RunFolder
from arcbench.runner.cell import Cell, run_episodes


def shown(form: str, blocks: int, away: int, tokens: int, after_call: int = 1) -> dict[str, Any]:
    return {
        "event": "dashboard", "form": form, "blocks": blocks, "away": away, "tokens": tokens, "after_call": after_call,
    }  # fmt: skip


RECORD: dict[str, Any] = {
    "outcome": "correct",
    "events": [
        shown("full", 3, 0, 40), {"event": "archive", "after_call": 2}, {"event": "guard", "after_call": 2},
        {"event": "guard", "after_call": 2}, {"event": "dashboard_folded", "after_call": 2}, shown("folded", 5, 2, 50),
    ],
    "compactions": [{"trigger": "forced"}, {"trigger": "overflow"}, {"trigger": "overflow"}, {"trigger": "proactive"}],
    "calls": [
        {"billed": "agent", "prompt_tokens": 100},
        {"billed": "method", "prompt_tokens": 999},
        {"billed": "agent", "prompt_tokens": 200},
    ],
}  # fmt: skip


def test_what_one_episode_took() -> None:
    row = pressure.episode_row(RECORD, {"window_tokens": 512, "completion_tokens": 112})
    assert {name: row[name] for name in pressure.MADE_ROOM} == {
        "forced": 1, "overflow": 2, "archive": 1, "delete": 0, "guard": 2, "guard_cleared": 0, "rejected": 0,
    }  # fmt: skip
    assert (row["peak_tokens"], row["usable_tokens"], row["dashboard_peak_tokens"]) == (200, 400, 50)
    assert row["dashboard_share"] == pytest.approx(90 / 300)
    assert row["folded_after_call"] == 2


def test_an_episode_without_dashboards_has_no_share() -> None:
    row = pressure.episode_row(RECORD | {"events": []}, {"window_tokens": 512, "completion_tokens": 112})
    assert row["dashboard_share"] is row["dashboard_peak_tokens"] is row["folded_after_call"] is None


def test_the_line_is_over_the_rows_that_are_listed() -> None:
    full = {("full", blocks, 3, 50 + 20 * blocks): 2 for blocks in (3, 11, 61, 63)}
    folded = {("folded", blocks, away, 80 + 20 * (blocks - away)): 1 for blocks, away in ((3, 0), (61, 50), (63, 21))}
    first, second = pressure.footprint(Counter(full | folded))
    assert (first.form, first.fixed, first.slope, first.r2) == ("full", *map(pytest.approx, (50, 20, 1)))
    assert (second.form, second.fixed, second.slope) == ("folded", *map(pytest.approx, (80, 20)))
    # one more or one less counts too: two of 61 and two of 63
    assert first.at(62).to_dict() == {"blocks": 62, "tokens": 1290, "away": 3, "n": 4}  # type: ignore[union-attr]
    assert first.at(40) is None
    assert second.by_blocks.loc[61].to_dict() == {"tokens": 300, "away": 50, "n": 1}


def test_often_seen_dashboards_weigh_more() -> None:
    (one,) = pressure.footprint(Counter({("full", 1, 0, 10): 1, ("full", 1, 0, 40): 2, ("full", 3, 0, 70): 1}))
    assert (one.fixed, one.slope) == (pytest.approx(10), pytest.approx(20))


def played(folder: Path, *words: str) -> None:
    """A cell of the experiment in small: 6 pages."""
    small = ("harness.profiles.strict.work_orders=6", "harness.needles=2", "harness.n_tasks=2", f"results_dir={folder}")
    cell = Cell.compose(compose("experiment=vista_pressure", *small, *words))
    with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run:
        tasks = cell.harness.tasks()
        run.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
        asyncio.run(run_episodes(cell.setup(cell.engine), tasks, run, cell.timeout_s, len(tasks)))


def test_the_command_on_real_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, tables = tmp_path / "runs", tmp_path / "tables"
    for window in (3072, 8192):
        for words in (["method=full_context"], ["method=vista"]):
            played(runs, *words, f"budget.window_tokens={window}")
    played(runs, "method=vista", "method.dashboard=folded", "budget.window_tokens=3072")
    played(tmp_path / "board", "method=vista_status_board")
    played(tmp_path / "more", "method=vista", "budget.window_tokens=16384")
    also = ["--also", str(tmp_path / "board"), str(tmp_path / "more")]
    assert pressure.main(["--runs", str(runs), *also, "--tables", str(tables)]) == 0, capsys.readouterr().err
    cells = pd.read_csv(tables / "pressure_needle.csv").set_index(["window", "method", "dashboard"]).sort_index()
    full_context = cells.xs("full_context", level="method")["accuracy_pct"]
    assert list(full_context) == [0, 100]
    assert len(cells) == 5  # what --also names is not in it
    assert (cells.xs("vista", level="method")["accuracy_pct"] == 100).all()
    tight = cells.xs((3072, "vista", "full"))
    assert tight["archive_per_episode"] + tight["guard_per_episode"] > 0
    assert cells.xs((8192, "vista", "full"))["overflow_per_episode"] == 0
    assert (cells["peak_use_max_pct"] <= 100).all()
    forms = pd.read_csv(tables / "dashboard_footprint.csv")
    # 6 pages and the question are 15 blocks; without the board's runs each number of blocks was seen by two tasks a run
    assert forms["blocks"].max() >= 15
    least = forms[(forms["form"] == "full") & (forms["blocks"] == 3)]
    assert list(least["n"]) == [6]
    assert "The paper: about 340 tokens at 62 blocks" in (tables / "dashboard_footprint.md").read_text()
    assert {path.suffix for path in tables.glob("pressure_needle.*")} == {".csv", ".md", ".tex", ".svg", ".png"}


def test_two_settings_are_no_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for share in (0.5, 0.6):
        played(tmp_path / "runs", "method=full_context", "harness.n_tasks=1", f"budget.compact_to_share={share}")
    capsys.readouterr()
    assert pressure.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("full_context in a window of 8192: there are runs with compact_to_share=0.5")
    assert error.count("\n") == 1


def test_no_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pressure.main(["--runs", str(tmp_path), "--tables", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
