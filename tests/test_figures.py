"""The figures over all runs: which are drawn from what, and that their words and points are the runs'."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from recorded import record_run

from analysis import figures, plot
from analysis.rows import METHOD_ORDER


def drawn(tmp_path: Path) -> dict[str, str]:
    """The SVGs by name."""
    assert figures.main(["--runs", str(tmp_path / "runs"), "--figures", str(tmp_path / "figures")]) == 0
    return {path.stem: path.read_text("utf-8") for path in (tmp_path / "figures").glob("*.svg")}


def play(tmp_path: Path, letters: str, **given: object) -> None:
    name = "-".join(map(str, given.values()))
    record_run(tmp_path / "runs" / name, letters, calls=[(100, 5), (200, 5)], **({"profile": "paper"} | given))


def widths(svg: str, colour: str) -> list[float]:
    """Widths of the bars of a colour, in points."""
    found = re.findall(rf'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*"[^>]*style="fill: {colour}', svg)
    return [float(right) - float(left) for left, right in found]


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
    assert set(found) == {"accuracy_needle_accuracy", "visible_needle_accuracy"}
    play(tmp_path, "cn", method="vista")
    assert "no_answer_needle_accuracy" in drawn(tmp_path)


def test_models_and_the_reader_are_drawn_apart(tmp_path):
    play(tmp_path, "cc", method="arc")
    play(tmp_path, "cc", method="arc", engine="scripted", model="scripted")
    assert {"accuracy_needle_accuracy", "accuracy_needle_mechanism"} <= set(drawn(tmp_path))


def test_the_recall_budget_is_drawn_where_it_was_swept_with_the_paper_s_points(tmp_path):
    for recall, chars in (("4k_2k", 4000), ("16k_8k", 16000)):
        config = {"budget": {"recall_budget_chars": chars}}
        record_run(tmp_path / "runs" / recall, "ccw", recall=recall, profile="paper", budget="paper_8b", config=config)
    row = {"benchmark": "needle", "model": "qwen3-8b", "method": "arc", "profile": "paper"}
    assert figures._published(row) == [(4.0, 92.5), (8.0, 93.2), (16.0, 99.1), (32.0, 99.4)]
    assert figures._published(row | {"profile": "strict"}) == []
    assert "recall_needle_accuracy" in drawn(tmp_path)


def test_a_method_looks_the_same_in_every_figure_and_no_two_look_alike():
    looks = [tuple(plot.look(method).values()) for method in METHOD_ORDER]
    assert len(set(looks)) == len(METHOD_ORDER)
    assert plot.look("something_new") == plot.look("something_new")


def test_files_are_the_same_bytes_each_time(tmp_path):
    play(tmp_path, "cw", method="arc")
    assert drawn(tmp_path) == drawn(tmp_path)


def test_without_runs_there_is_one_line(tmp_path, capsys):
    assert figures.main(["--runs", str(tmp_path), "--figures", str(tmp_path / "figures")]) == 2
    error = capsys.readouterr().err
    assert "no runs here" in error
    assert error.count("\n") == 1


def test_an_empty_table_draws_nothing(tmp_path):
    assert figures.accuracies(pd.DataFrame({"n_run": []}), tmp_path / "x") == []
