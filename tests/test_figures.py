"""The figures over all runs: which are drawn from what, and that their words and points are the runs'."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import record_run

from analysis import figures, figures_cost, plot
from analysis.accuracy import kinds
from analysis.rows import METHOD_ORDER, records_of, settings_apart
from arcbench.records import load


def drawn(tmp_path: Path) -> dict[str, str]:
    """The SVGs by name."""
    assert figures.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    return {path.stem: path.read_text("utf-8") for path in (tmp_path / "figures").glob("*.svg")}


def play(tmp_path: Path, letters: str, **given: object) -> None:
    name = "-".join(map(str, given.values()))
    record_run(tmp_path / "runs" / name, letters, calls=[(100, 5), (200, 5)], **({"profile": "paper"} | given))


def widths(svg: str, colour: str) -> list[float]:
    """Widths of the bars of a colour, in points."""
    found = re.findall(rf'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*"[^>]*style="fill: {colour}', svg)
    return [float(right) - float(left) for left, right in found]


def test_the_tables_index_shows_every_figure(tmp_path):
    play(tmp_path, "cn", method="arc")
    shown = set(drawn(tmp_path))
    found = re.findall(r'<img src="([^"]+)"', (tmp_path / "tables/index.html").read_text("utf-8"))
    assert {Path(name).stem for name in found} == shown
    assert all((tmp_path / "tables" / name).is_file() for name in found)


def test_bars_are_as_long_as_the_accuracies(tmp_path):
    play(tmp_path, "cccw", method="sliding_window")
    play(tmp_path, "cwww", method="rag_memory")
    svg = drawn(tmp_path)["accuracy_needle_accuracy"]
    (long,) = widths(svg, plot.look("sliding_window")["color"].lower())
    (short,) = widths(svg, plot.look("rag_memory")["color"].lower())
    assert long / short == pytest.approx(3, rel=1e-3)  # 75 and 25 %


def test_what_the_runs_do_not_have_is_not_drawn(tmp_path):
    play(tmp_path, "cc", method="arc")
    found = drawn(tmp_path)
    always = {"accuracy", "visible", "traffic", "roofline"}
    assert set(found) == {f"{name}_needle_accuracy" for name in always}
    play(tmp_path, "cn", method="vista")
    assert "no_answer_needle_accuracy" in drawn(tmp_path)


def test_models_and_the_reader_are_drawn_apart(tmp_path):
    play(tmp_path, "cc", method="arc")
    play(tmp_path, "cc", method="arc", engine="scripted", model="scripted")
    assert {"accuracy_needle_accuracy", "accuracy_needle_mechanism"} <= set(drawn(tmp_path))


PAPER = {
    "budget": {
        "window_tokens": 16384,
        "recall_budget_chars": 16000,
        "recall_max_chars": 8000,
        "force_at_calls": [5, 10, 15],
    },
    "harness": {"noise_lines_per_side": 25, "needles": 1},
}
"""What a run has beside which the paper's figures stand."""


def paper_run(root: Path, letters: str, *, own: dict[str, dict[str, Any]] | None = None, **given: Any) -> None:
    config = {group: values | (own or {}).get(group, {}) for group, values in PAPER.items()}
    fields = {"budget": "paper_8b", "profile": "paper", "recall": "16k_8k", "variant": None} | given
    record_run(root, letters, config=config, calls=[(10_000, 1000), (12_000, 500)], **fields)


def priced(root: Path) -> list[dict[str, Any]]:
    found = load(root)
    (kind,) = kinds(found.runs)
    return records_of(figures_cost.priced(kind[1], settings_apart(kind[2]), found.episodes, found.calls))


def points(root: Path) -> list[tuple[float, float]]:
    runs = settings_apart(load(root).runs)
    return figures._published(priced(root), runs)


def test_the_recall_budget_is_drawn_where_it_was_swept_with_the_paper_s_points(tmp_path):
    runs = tmp_path / "runs"
    paper_run(runs / "a", "ccw", seed=7)  # the paper does not name its seed
    assert "recall_needle_accuracy" not in drawn(tmp_path)
    paper_run(
        runs / "b",
        "ccw",
        seed=7,
        recall="4k_2k",
        own={"budget": {"recall_budget_chars": 4000, "recall_max_chars": 2000}},
    )
    assert "recall_needle_accuracy" in drawn(tmp_path)
    assert points(runs / "a") == [(4.0, 92.5), (8.0, 93.2), (16.0, 99.1), (32.0, 99.4)]


def test_the_legend_of_a_recall_figure_names_the_lines_of_every_panel(tmp_path):
    for model, method in (("qwen3-8b", "arc"), ("qwen3-32b", "vista")):
        for recall, chars in (("4k_2k", 4000), ("16k_8k", 16000)):
            own = {"budget": {"recall_budget_chars": chars}}
            paper_run(tmp_path / "runs" / f"{model}{chars}", "cw", recall=recall, own=own, model=model, method=method)
    svg = drawn(tmp_path)["recall_needle_accuracy"]
    assert "<!-- arc -->" in svg
    assert "<!-- vista -->" in svg


@pytest.mark.parametrize("other", [{"profile": "strict"}, {"model": "qwen3-32b"}, {"engine": "scripted"}])
def test_the_paper_s_points_stand_beside_nothing_else(tmp_path, other):
    paper_run(tmp_path, "ccw", **other)
    assert points(tmp_path) == []
    (row,) = priced(tmp_path)
    assert math.isnan(row["paper_bandwidth_tb"])


def test_the_cost_of_a_row_is_the_roofline_s_over_all_its_episodes(tmp_path):
    paper_run(tmp_path, "ccwne", seed=42)
    (row,) = priced(tmp_path)
    # contexts L_k = p + (m - 1) / 2: 10,499.5 for 1,000 tokens, 12,249.5 for 500; the mean of all 1,500 is 11,082.83
    context = (1000 * 10_499.5 + 500 * 12_249.5) / 1500
    batch = math.floor((141e9 - 16.38e9) / (context * 147_456))
    assert row["mean_batch"] == batch
    assert row["bandwidth_tb"] == pytest.approx(1500 * (16.38e9 / batch + context * 147_456) / 1e12, rel=1e-3)
    assert row["t_decode_s"] == pytest.approx(row["bandwidth_tb"] / 4.8)
    assert (row["paper_bandwidth_tb"], row["paper_t_total_s"], row["paper_accuracy_pct"]) == (4.87, 1.26, 99.0)


def test_rows_without_a_cost_are_in_the_other_figures(tmp_path):
    play(tmp_path, "cc", method="arc", model="some-model")
    assert set(drawn(tmp_path)) == {"accuracy_needle_accuracy", "visible_needle_accuracy"}


def test_what_methods_share_is_in_a_panel_s_title_and_what_is_a_method_s_own_in_its_label(tmp_path):
    for lines in (5, 25):
        paper_run(tmp_path / "runs" / str(lines), "cw", own={"harness": {"noise_lines_per_side": lines}})
    for dashboard in ("full", "folded"):
        config = PAPER | {"method": {"dashboard": dashboard}}
        fields = {"budget": "paper_8b", "profile": "paper", "recall": "16k_8k", "variant": None}
        record_run(tmp_path / "runs" / dashboard, "c", method="vista", config=config, **fields)
    found = {(row["method"], row["shared"], row["own"]) for row in priced(tmp_path / "runs")}
    assert ("vista", "noise_lines_per_side=25", "dashboard=folded") in found
    assert {row[1] for row in found if row[0] == "arc"} == {"noise_lines_per_side=5", "noise_lines_per_side=25"}


def test_a_method_looks_the_same_in_every_figure_and_no_two_look_alike():
    looks = [tuple(plot.look(method).values()) for method in METHOD_ORDER]
    assert len(set(looks)) == len(METHOD_ORDER)
    assert plot.look("something_new") == plot.look("something_new")


def test_names_are_drawn_as_they_are_written(tmp_path):
    """A figure's text may mean mathematics, a page's markup; a variant may hold either."""
    odd = r"v|1 $\frac{$ <b>&amp;</b>"
    play(tmp_path, "cn", method="arc", variant=odd)
    assert len(drawn(tmp_path)) == 5
    assert "<!-- arc (v|1 $\\frac{$ &lt;b&gt;&amp;amp;&lt;/b&gt;) -->" in drawn(tmp_path)["accuracy_needle_accuracy"]


def test_files_are_the_same_bytes_each_time(tmp_path):
    play(tmp_path, "cw", method="arc")
    assert drawn(tmp_path) == drawn(tmp_path)


def test_without_runs_there_is_one_line(tmp_path, capsys):
    assert figures.main(["--runs", str(tmp_path), "--tables", str(tmp_path / "tables")]) == 2
    error = capsys.readouterr().err
    assert "no runs here" in error
    assert error.count("\n") == 1


def test_an_empty_table_draws_nothing(tmp_path):
    assert figures.accuracies(pd.DataFrame({"n_run": []}), tmp_path / "x") == []
