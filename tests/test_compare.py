"""``python -m analysis.compare``: runs and logs in, two tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import record_run

from analysis.compare import main

DATA = Path(__file__).parent / "data"


def compared(capsys: pytest.CaptureFixture[str], tables: Path, *arguments: object) -> dict[str, pd.Series[Any]]:
    assert main([str(argument) for argument in (*arguments, "--tables", tables)]) == 0, capsys.readouterr().err
    return {name: pd.read_csv(tables / f"compare_{name}.csv").iloc[0] for name in ("completion", "correctness")}


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_both_outcomes_of_two_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, arc, slim in ((42, "cccw", "cnnn"), (82, "ccnn", "wcnc")):
        record_run(tmp_path, arc, seed=seed)
        record_run(tmp_path, slim, seed=seed, method="slim")
    sheets = compared(capsys, tmp_path / "tables", tmp_path / "arc", tmp_path / "slim")
    # correct: arc 1110 1100, slim 1000 0101
    right = sheets["correctness"]
    cells = ("n_pairs", "n_both", "n_a_only", "n_b_only", "n_neither")
    assert [right[c] for c in cells] == [8, 2, 3, 1, 2]
    assert right["difference_pp"] == 25.0
    assert right["odds_ratio"] == 3.0
    # seed 42: 2 to 0, undefined; seed 82: 1 to 1
    assert (right["per_seed_odds_mean"], right["n_seeds_used"]) == (1.0, 1)
    assert right["p_exact_two_sided"] == 0.625
    assert right["p_exact_one_sided"] == 5 / 16
    # completed: arc 1111 1100, slim 1000 1101
    done = sheets["completion"]
    assert [done[c] for c in cells] == [8, 3, 3, 1, 1]
    assert "durkalski_statistic" not in done  # no task stands under two seeds
    text = (tmp_path / "tables" / "compare_correctness.md").read_text("utf-8")
    assert "# A against B on correctness" in text
    assert f"A: {tmp_path / 'arc'}, arc (qwen3-8b). 8 planned, 8 with an outcome" in text
    assert "The runs differ in method.*." in text


def test_tasks_under_several_seeds_get_the_clustered_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, arc, slim in ((42, "ccwc", "cwww"), (82, "cccc", "wwcw")):
        record_run(tmp_path, arc, seed=seed, tasks="abcd")
        record_run(tmp_path, slim, seed=seed, tasks="abcd", method="slim")
    right = compared(capsys, tmp_path / "tables", tmp_path / "arc", tmp_path / "slim")["correctness"]
    # d by task: a 0+1, b 1+1, c 0+0, d 1+1: sum 5, sum of squares 9
    assert right["n_clusters"] == 4
    assert right["durkalski_statistic"] == pytest.approx(25 / 9, abs=1e-5)
    assert right["obuchowski_statistic"] == pytest.approx(3 / 4 * 25 / 9, abs=1e-5)
    assert right["p_sign_flip"] == 0.25  # 2 of the 8 ways to swap a, b and d
    assert right["design_effect"] == pytest.approx(9 / 5)
    assert "the clustered rows hold" in capsys.readouterr().out


def test_tasks_on_one_document_are_one_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record_run(tmp_path, "cccc", tasks="abcd", documents="xxyz")
    b = record_run(tmp_path, "wwww", tasks="abcd", documents="xxyz", method="slim")
    right = compared(capsys, tmp_path / "tables", a, b)["correctness"]
    assert right["n_clusters"] == 3
    assert right["obuchowski_statistic"] == pytest.approx(2 / 3 * 16 / 6, abs=1e-5)
    assert "--cluster-by domain: not a fact of task task/a" in refused(capsys, a, b, "--cluster-by", "domain")


def test_identical_sides_and_far_apart_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = record_run(tmp_path, "nn"), record_run(tmp_path, "nn", method="slim")
    same = compared(capsys, tmp_path / "tables", a, b)["correctness"]
    assert (same["p_chi2"], same["p_exact_two_sided"], same["p_mid_p"]) == (1, 1, 1)
    assert pd.isna(same["odds_ratio"])
    out = capsys.readouterr().out
    assert "undefined" in out
    assert "nan" not in out.lower()
    a, b = record_run(tmp_path / "far", "c" * 1200), record_run(tmp_path / "far", "n" * 1200, method="slim")
    far = compared(capsys, tmp_path / "tables", a, b)["correctness"]
    assert far["p_exact_two_sided"] == "<1e-300"
    assert far["log10_p_exact_two_sided"] == pytest.approx(-1199 * 0.30103, abs=1e-3)


def test_errors_and_missing_tasks_are_counted_and_never_dropped_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = record_run(tmp_path, "ccccwwnee", planned=10)
    b = record_run(tmp_path, "cccccccccc", method="slim")
    line = refused(capsys, a, b)
    assert f"{a} lacks needle/42/7, needle/42/8, needle/42/9" in line
    assert f"({a} has 2 in error, 1 missing); run what is owed, or pass --common" in line
    right = compared(capsys, tmp_path / "tables", a, b, "--common")["correctness"]
    assert right["n_pairs"] == 7
    out = capsys.readouterr().out
    assert "10 planned, 7 with an outcome, 2 in error, 1 missing; 6 completed, 4 correct" in out
    assert "4 of 10 (40.00 %) planned, 4 of 7 (57.14 %) with an outcome" in out
    assert "Compared are 7 that both have; 0 outcomes of A and 3 of B are left out." in out


def test_scripted_runs_carry_no_p_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripted = {"engine": "scripted", "model": "scripted"}
    a, b = record_run(tmp_path, "cc", **scripted), record_run(tmp_path, "cn", method="slim", **scripted)
    right = compared(capsys, tmp_path / "tables", a, b)["correctness"]
    assert (right["n_a_only"], right["difference_pp"]) == (1, 50.0)
    assert not [column for column in right.index if column.startswith(("p_", "log10_p"))]
    out = capsys.readouterr().out
    assert "No language model took part" in out
    model = record_run(tmp_path / "model", "cc")
    assert "the scripted engine is no model" in refused(capsys, a, model)


def test_what_must_not_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record_run(tmp_path, "cc")
    newer = record_run(tmp_path, "cc", method="newer", protocol=2)
    assert f"{a} and {newer}: protocols 1 in {a / '42'} and 2 in {newer / '42'} in one table" in refused(
        capsys, a, newer
    )
    mock = record_run(tmp_path / "mock", "cc", method="mock", engine="mock")
    assert "engine mock says nothing about a method" in refused(capsys, a, mock)
    for method in ("arc", "slim"):
        one = record_run(tmp_path / "two", "cc", method=method)
    twice = refused(capsys, one.parent, a)
    assert f"task needle/42/0 (seed 42) stands in {one.parent / 'arc' / '42'} and in {one / '42'}" in twice
    other = record_run(tmp_path / "b", "cc", seed=82)
    assert f"{other} lacks needle/42/0, needle/42/1; {a} lacks needle/82/0" in refused(capsys, a, other)
    assert "no task in common" in refused(capsys, a, other, "--common")


def test_bad_paths_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record_run(tmp_path, "cc")
    assert "nowhere: not there; give a folder with runs or a log" in refused(capsys, a, "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no runs here" in refused(capsys, a, tmp_path / "empty")
    (a / "42" / "manifest.json").unlink()
    assert "no manifest.json" in refused(capsys, a, a)
    assert "not a log that can be read" in refused(capsys, DATA / "README.md", a)
    three = ("--score", "a", "b", "c")
    assert "--score a b c: at most two" in refused(capsys, DATA / "samples_first.jsonl", a, *three)


def test_two_inspect_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheets = compared(
        capsys, tmp_path / "tables", DATA / "inspect_zstandard.eval", DATA / "inspect_deflate.eval"
    )  # fmt: skip
    right = sheets["correctness"]
    assert [right[c] for c in ("n_pairs", "n_both", "n_a_only", "n_b_only", "n_neither", "n_clusters")] == [
        12, 3, 4, 1, 4, 6,
    ]  # fmt: skip
    assert right["p_sign_flip"] == 0.5
    assert sheets["completion"]["n_both"] == 12


def test_two_lm_eval_logs_and_a_changed_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = DATA / "samples_first.jsonl", DATA / "samples_second.jsonl"
    right = compared(capsys, tmp_path / "tables", first, second, "--score", "acc")["correctness"]
    assert (right["a_pct"], right["b_pct"]) == (pytest.approx(66.6667), pytest.approx(33.3333))
    assert right["n_pairs"] == 6
    # one metric against another, of the same log
    both = compared(capsys, tmp_path / "tables", first, first, "--score", "acc", "acc_norm")["correctness"]
    assert (both["n_a_only"], both["n_b_only"]) == (0, 1)
    changed = tmp_path / "samples_x.jsonl"
    changed.write_text(second.read_text("utf-8").replace('"doc_hash": "d9e43b4d', '"doc_hash": "00000000'), "utf-8")
    assert "0 is not the same question in the two logs" in refused(capsys, first, changed, "--score", "acc")


def test_a_foreign_log_against_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = record_run(tmp_path, "ccwwcc", seed=42, tasks="012345")
    text = (DATA / "samples_first.jsonl").read_text("utf-8")
    for i in range(6):
        text = text.replace(f'"doc_id": {i},', f'"doc_id": "task/{i}",')
    log = tmp_path / "samples_x.jsonl"
    log.write_text(text, "utf-8")
    right = compared(capsys, tmp_path / "tables", ours, log, "--score", "acc")["correctness"]
    assert right["n_pairs"] == 6
    assert (right["a_pct"], right["b_pct"]) == (pytest.approx(66.6667), pytest.approx(66.6667))
