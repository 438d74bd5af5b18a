"""What has been run and what is owed, counted by hand."""

from __future__ import annotations

import re
from pathlib import Path

from recorded import record_run

from analysis import declared, status
from analysis.declared import Spec
from arcbench.records import load

CONFIG = {
    "budget": {"window_tokens": 16384, "recall_budget_chars": 16000, "force_at_calls": [5, 10, 15]},
    "harness": {"noise_lines_per_side": 25, "needles": 1},
}


def play(root: Path, letters: str, **given: object) -> None:
    fields = {"budget": "paper_8b", "recall": "16k_8k", "profile": "paper", "variant": None, "config": CONFIG}
    record_run(root, letters, **(fields | given))  # type: ignore[arg-type]


def test_runs_are_counted_with_what_is_owed(tmp_path):
    play(tmp_path, "cwne", planned=6)
    play(tmp_path, "cc", method="vista")
    play(tmp_path, "c", engine="scripted", model="scripted", method="rag_memory")
    model, reader = sorted(status.runs(load(tmp_path)), key=lambda row: row["runs"], reverse=True)
    assert (model["runs"], model["finished"], model["owed"], model["errors"]) == (2, 5, 3, 1)
    assert (reader["engine"], reader["runs"], reader["finished"], reader["owed"]) == ("scripted", 1, 1, 0)


def test_a_table_says_what_it_lacks_of_its_size(tmp_path):
    for seed in (42, 82, 122):
        play(tmp_path, "cwc", seed=seed)
    play(tmp_path, "ce", seed=42, method="sliding_window")
    spec = Spec.read(declared.FOLDER / "arc_table02.yaml")
    rows = {row["model"]: row for row in status.tables(spec, load(tmp_path))}
    assert rows["qwen3-8b"] == {
        "table": "arc_table02", "model": "qwen3-8b",
        "complete": 1, "incomplete": 1, "missing": 10,  # six methods in two profiles
        "owed": 12 * 3000 - 9 - 1,
        "to play them": "make arc_table02 ENGINE=vllm MODEL=qwen3-8b",
    }  # fmt: skip
    assert (rows["qwen3-32b"]["missing"], rows["qwen3-32b"]["owed"]) == (12, 36_000)


def test_the_command_prints_both_and_names_every_table(tmp_path, capsys):
    play(tmp_path, "ce")
    assert status.main(["--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "runs 1, episodes finished 1, owed 1, 1 of them after an error" in said
    assert {path.stem for path in declared.FOLDER.glob("*.yaml")} == set(re.findall(r"^(arc_\w+|window) ", said, re.M))


def test_without_runs_everything_is_owed_and_the_way_to_begin_is_named(tmp_path, capsys):
    assert status.main(["--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "make reproduce-tables" in said.splitlines()[0]
    assert "36,000" in said
