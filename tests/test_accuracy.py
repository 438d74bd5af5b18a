"""Accuracy tables: hand-made runs in, numbers worked out by hand out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import render, tables
from analysis.accuracy import accuracy, left_out, sheets
from arcbench.records import NEEDED, RunFolder
from arcbench.types import ConfigError

CONFIG: dict[str, Any] = {
    "budget.window_tokens": 16384,
    "budget.completion_tokens": 4096,
    "harness.noise_lines_per_side": 25,
    "method.id": "arc",
}


def run(seed: int = 42, planned: int = 10, config: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    row = {
        "protocol": "1",
        "harness": "needle",
        "profile": "strict",
        "engine": "vllm",
        "model": "qwen3-8b",
        "method": "arc",
        "variant": None,
        "budget": "paper_8b",
        "recall": "16k_8k",
        "seed": seed,
        "planned": planned,
    } | fields
    names = ("harness", "engine", "model", "method", "variant", "recall", "seed")
    name = "/".join(str(row[n]) for n in names)
    row["config"] = CONFIG | {"seed": seed, "n_tasks": planned} | (config or {})
    return {"run_dir": name, "digest": f"d{seed}"} | row | {k: v for k, v in fields.items() if k == "run_dir"}


def played(of: dict[str, Any], outcomes: str, **measures: Any) -> list[dict[str, Any]]:
    """Episodes of a run from letters: c(orrect), w(rong), o(verflow), t(urn limit), e(rror)."""
    kinds = {
        "c": ("correct", None),
        "w": ("wrong", None),
        "o": ("no_answer", "context_overflow"),
        "t": ("no_answer", "turn_limit"),
        "e": ("error", None),
    }
    rows = []
    for index, letter in enumerate(outcomes):
        outcome, reason = kinds[letter]
        numbers = {
            "agent_calls": 18,
            "method_calls": 0,
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "cached_tokens": None,
            "compactions": 3,
            "method_failures": 0,
        } | measures
        names = {k: of[k] for k in ("run_dir", "seed", "method")}
        rows.append(
            names
            | {"task": f"needle-{of['seed']}-{index}", "index": index, "outcome": outcome, "reason": reason}
            | numbers
        )
    return rows


def frames(*parts: tuple[dict[str, Any], str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    columns = list(played(run(), "c")[0])
    episodes = [row for of, outcomes in parts for row in played(of, outcomes)]
    return pd.DataFrame([of for of, _ in parts]), pd.DataFrame(episodes, columns=columns)


def only(table: pd.DataFrame) -> dict[Any, Any]:
    assert len(table) == 1
    return table.to_dict("records")[0]


def test_three_seeds_are_pooled_in_the_shape_of_the_papers_table() -> None:
    row = only(accuracy(*frames((run(42), "ccccccccco"), (run(43), "ccccccccww"), (run(44), "cccccccott"))))
    # 9 + 8 + 7 of 3 x 10; no answer 1, 0, 3 a seed
    assert (row["n_success"], row["n_attempts"], row["n_seeds"]) == (24, 30, 3)
    assert row["mean_no_answer"] == pytest.approx(4 / 3)
    assert row["mean_n_success"] == pytest.approx(8.0)
    assert row["accuracy_pct"] == pytest.approx(80.0)
    # accuracies 90, 80, 70: deviations 10, 0, -10, sample variance 200 / 2 = 100
    assert row["accuracy_sd_pct"] == pytest.approx(10.0)
    # Wilson, p = 0.8, n = 30, z^2 = 3.8415: centre (0.8 + 0.06402) / 1.12805 = 0.76595,
    # half width 1.95996 * sqrt(0.16 / 30 + 3.8415 / 3600) / 1.12805 = 1.95996 * 0.08000 / 1.12805 = 0.13900
    assert row["wilson95_low_pct"] == pytest.approx(62.69, abs=0.01)
    assert row["wilson95_high_pct"] == pytest.approx(90.49, abs=0.01)
    assert (row["n_planned"], row["n_run"], row["n_error"], row["n_missing"]) == (30, 30, 0, 0)
    assert (row["n_wrong"], row["n_no_answer"]) == (2, 4)
    assert (row["n_no_answer_context_overflow"], row["n_no_answer_turn_limit"], row["n_no_answer_gave_up"]) == (2, 2, 0)
    assert (row["context_window_tokens"], row["max_completion_tokens"]) == (16384, 4096)
    assert row["benchmark"] == "needle"
    assert row["incomplete"] == ""


def test_failed_tasks_stay_in_the_denominator_and_holes_are_stated() -> None:
    """Field case S5: 10 planned, 2 errors, 1 missing, 4 successes."""
    data = frames((run(42), "ccccwwoee"))
    row = only(accuracy(*data))
    assert (row["n_planned"], row["n_run"], row["n_error"], row["n_missing"], row["n_success"]) == (10, 7, 2, 1, 4)
    assert row["accuracy_pct"] == pytest.approx(40.0)  # 4 / 10
    assert row["accuracy_run_pct"] == pytest.approx(400 / 7)  # 4 / 7
    # Wilson for 4 of 10, a textbook case: 16.82 to 68.73
    assert row["wilson95_low_pct"] == pytest.approx(16.82, abs=0.01)
    assert row["wilson95_high_pct"] == pytest.approx(68.73, abs=0.01)
    assert math.isnan(row["accuracy_sd_pct"])  # one seed has no SD
    text = render.markdown(sheets(*data)[0])
    assert "| arc † " in text
    assert "4/10" in text
    assert "40.00 % of 10 planned, 57.14 % of 7 run without error" in text
    assert "seed 42: 2 error, 1 missing of 10 planned" in text
    assert "nan" not in text.lower()


def test_a_run_without_any_episode_is_a_row_of_dashes_with_its_planned_tasks() -> None:
    data = frames((run(42), ""))
    row = only(accuracy(*data))
    assert (row["n_planned"], row["n_run"], row["n_missing"]) == (10, 0, 10)
    assert math.isnan(row["accuracy_pct"])
    assert math.isnan(row["wilson95_low_pct"])
    (sheet,) = sheets(*data)
    cells = sheet.body.iloc[0]
    assert (cells["accuracy %"], cells["95 % interval"], cells["% of run"]) == ("—", "—", "—")
    assert cells["planned/run/error"] == "10/0/0"
    assert "seed 42: 10 missing of 10 planned" in render.markdown(sheet)


def test_a_seed_without_episodes_counts_as_planned() -> None:
    row = only(accuracy(*frames((run(42), "cccccccccc"), (run(43), ""))))
    assert row["accuracy_pct"] == pytest.approx(50.0)  # 10 of 20 planned
    assert row["accuracy_run_pct"] == pytest.approx(100.0)  # 10 of 10 run
    assert math.isnan(row["accuracy_run_sd_pct"])  # only one seed was run
    assert row["incomplete"] == "seed 43: 10 missing of 10 planned"


def test_the_interval_does_not_collapse_at_the_ends() -> None:
    # Wilson at p = 0, n = 10 is [0, z^2 / (n + z^2)] = [0, 3.8415 / 13.8415 = 0.2775]; at p = 1 its mirror image
    none = only(accuracy(*frames((run(42), "wwwwwwwwww"))))
    everything = only(accuracy(*frames((run(42), "cccccccccc"))))
    assert (none["wilson95_low_pct"], everything["wilson95_high_pct"]) == (pytest.approx(0), pytest.approx(100))
    assert none["wilson95_high_pct"] == pytest.approx(27.75, abs=0.01)
    assert everything["wilson95_low_pct"] == pytest.approx(72.25, abs=0.01)


def test_the_same_task_under_two_seeds_has_no_wilson_interval() -> None:
    runs, episodes = frames((run(42, 2), "cw"), (run(43, 2), "cc"))
    episodes["task"] = [f"row-{index}" for index in episodes["index"]]
    row = only(accuracy(runs, episodes))
    assert row["accuracy_pct"] == pytest.approx(75.0)
    assert math.isnan(row["wilson95_low_pct"])
    assert "has no interval" in render.markdown(sheets(runs, episodes)[0])


def test_means_per_episode_leave_errors_out_and_unreported_cache_hits_empty() -> None:
    one = run(42, 4)
    runs = pd.DataFrame([one])
    measures = {"prompt_tokens": 600, "cached_tokens": 100, "method_calls": 2, "compactions": 1, "method_failures": 1}
    rows = played(one, "cw", cached_tokens=50)  # 1000 prompt tokens, 0 method calls, 3 compactions each
    extra = played(one, "cwoe", **measures)[2:]  # one more outcome, one error
    row = only(accuracy(runs, pd.DataFrame(rows + extra)))
    assert row["prompt_tokens_per_episode"] == pytest.approx(2600 / 3)  # 1000, 1000, 600; the error's 600 stay out
    assert row["cached_tokens_per_episode"] == pytest.approx(200 / 3)  # 50, 50, 100
    assert row["method_calls_per_episode"] == pytest.approx(2 / 3)
    assert row["compactions_per_episode"] == pytest.approx(7 / 3)
    assert row["n_method_failures"] == 1
    rows[0]["cached_tokens"] = None
    assert math.isnan(only(accuracy(runs, pd.DataFrame(rows + extra)))["cached_tokens_per_episode"])


def test_rows_stand_in_the_papers_order_and_smaller_models_first() -> None:
    methods = ["zeta", "vista_wording", "vista", "arc_select", "arc", "rag_memory", "sliding_window", "full_context"]
    parts = [(run(42, 1, method=m, model=model), "c") for m in methods for model in ("qwen3-32b", "qwen3-8b")]
    table = accuracy(*frames(*parts))
    right = ["full_context", "sliding_window", "rag_memory", "arc", "arc_select", "vista", "vista_wording", "zeta"]
    assert list(table["method"]) == right * 2
    assert list(table["model"]) == ["qwen3-8b"] * 8 + ["qwen3-32b"] * 8


def test_models_and_the_scripted_engine_never_share_a_table() -> None:
    runs, episodes = frames(
        (run(42, 1), "c"),
        (run(42, 1, engine="scripted", model="scripted"), "c"),
        (run(42, 1, engine="server", model="qwen3-32b"), "w"),
        (run(42, 1, engine="mock", model="mock"), "c"),
        (run(42, 1, engine="replay"), "c"),
        (run(42, 1, harness="longbench_v2_hard"), "c"),
    )
    by_name = {s.name: s for s in sheets(runs, episodes)}
    assert sorted(by_name) == ["accuracy_longbench_v2_hard", "accuracy_needle", "mechanism_needle"]
    assert set(by_name["accuracy_needle"].data["engine"]) == {"vllm", "server"}
    assert set(by_name["mechanism_needle"].data["engine"]) == {"scripted"}
    assert "not a model's score" in " ".join(by_name["mechanism_needle"].lead)
    assert "not a model's score" not in " ".join(by_name["accuracy_needle"].lead)
    assert [line.split(" left out")[0] for line in left_out(runs)] == ["1 run of engine mock", "1 run of engine replay"]


def test_variants_are_rows_of_their_own() -> None:
    parts = [
        (run(42, 2, method="llm_summary", variant="keeps_announced", engine="scripted", model="scripted"), "cc"),
        (run(42, 2, method="llm_summary", variant="head_tail", engine="scripted", model="scripted"), "wc"),
        (run(42, 2, method="arc", engine="scripted", model="scripted"), "cc"),
    ]
    (sheet,) = sheets(*frames(*parts))
    assert list(sheet.body["variant"]) == ["head_tail", "keeps_announced", "—"]
    assert list(sheet.data["accuracy_pct"]) == [50.0, 100.0, 100.0]


def test_configurations_that_differ_are_separate_rows_that_name_the_difference() -> None:
    small = {"harness.noise_lines_per_side": 5}
    parts = [
        (run(42, 2), "cc"),
        (run(43, 2), "cc"),
        (run(42, 2, small, run_dir="small/42"), "cw"),
        (run(42, 2, method="sliding_window"), "ww"),
    ]
    table = accuracy(*frames(*parts))
    # sliding_window has one setting only, and still says which
    assert list(zip(table["method"], table["setting"], table["n_success"], table["n_seeds"], strict=True)) == [
        ("sliding_window", "noise_lines_per_side=25", 0, 1),
        ("arc", "noise_lines_per_side=5", 1, 1),
        ("arc", "noise_lines_per_side=25", 4, 2),
    ]


def test_methods_on_different_tasks_are_not_compared_unawares() -> None:
    small = {"harness.noise_lines_per_side": 5}
    table = accuracy(*frames((run(42, 1), "c"), (run(42, 1, small, method="vista"), "c")))
    assert list(table["setting"]) == ["noise_lines_per_side=25", "noise_lines_per_side=5"]


def test_where_and_how_much_was_run_is_no_setting_and_a_prompt_is_named_by_its_hash() -> None:
    where = {"concurrency": 8, "results_dir": "elsewhere", "harness.seed": 43}
    assert only(accuracy(*frames((run(42, 1), "c"), (run(43, 2, where), "cc"))))["setting"] == ""
    prompts = [{"method.promise": "a" * 100}, {"method.promise": "b" * 100}]
    # sha1 of 100 times "a" begins 7f9000257a49, of 100 times "b" dd3b750e3862
    table = accuracy(*frames(*((run(42, 1, p, run_dir=str(i)), "c") for i, p in enumerate(prompts))))
    assert sorted(table["setting"]) == ["promise=sha1:7f900025", "promise=sha1:dd3b750e"]


def test_what_cannot_change_an_outcome_is_no_setting() -> None:
    # a later version of the configuration has one more such key, and says so
    earlier = {"engine.timeout_s": 60, "model.facts.layers": 36, "digest_ignores": ["engine.timeout_s", "model.facts."]}
    later = {"engine.timeout_s": 90, "engine.restarts": 2, "digest_ignores": ["engine.timeout_s", "engine.restarts"]}
    assert only(accuracy(*frames((run(42, 1, earlier), "c"), (run(43, 1, later), "c"))))["setting"] == ""


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (run(42, 1, run_dir="copy/42"), "digests d42 and d42"),
        (run(42, 1, run_dir="copy/42", digest="x", protocol="2"), "protocol 1 and 2"),
        (run(43, 1, run_dir="copy/42", protocol="2"), "protocol 1 and 2"),
    ],
    ids=["copied folder", "other protocol", "other protocol, other seed"],
)
def test_runs_that_cannot_be_pooled_are_refused_by_name(second: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        accuracy(*frames((run(42, 1), "c"), (second, "c")))
    line = str(error.value)
    assert "needle/vllm/qwen3-8b/arc/None/16k_8k/42" in line
    assert "copy/42" in line
    assert why in line
    assert "--runs" in line
    assert "\n" not in line


def test_a_task_recorded_twice_is_refused() -> None:
    runs, episodes = frames((run(42, 2), "cw"))
    episodes["task"] = "needle-42-0"
    with pytest.raises(ConfigError, match="needle-42-0"):
        accuracy(runs, episodes)


def test_more_records_than_planned_are_all_counted() -> None:
    row = only(accuracy(*frames((run(42, 2), "cccw"))))  # planned anew with 2 after 4 were recorded
    assert (row["n_planned"], row["n_missing"], row["accuracy_pct"]) == (4, 0, pytest.approx(75.0))


def test_a_reason_that_the_types_do_not_know_is_counted_and_shown() -> None:
    runs, episodes = frames((run(42, 2), "co"), (run(42, 2, method="vista"), "cc"))
    episodes["reason"] = episodes["reason"].replace("context_overflow", "power_cut")
    (sheet,) = sheets(runs, episodes)
    assert list(sheet.data["n_no_answer_power_cut"]) == [1, 0]
    assert list(sheet.body["no answer because"]) == ["power_cut 1", "—"]


def test_a_row_with_fewer_seeds_or_tasks_than_its_neighbours_says_so() -> None:
    data = frames((run(42, 2), "cc"), (run(43, 2), "cc"), (run(42, 1, method="vista"), "c"))
    table = accuracy(*data)
    assert list(table["absent"]) == ["", "seed 42: planned 1 tasks, others 2; seed 43: no run"]
    assert "vista" in render.markdown(sheets(*data)[0]).split("rests on fewer tasks")[0].splitlines()[-1]


def test_what_all_rows_share_stands_once_above_the_table() -> None:
    (sheet,) = sheets(*frames((run(42, 1), "c"), (run(42, 1, recall="4k_2k"), "c")))
    assert "All rows: profile strict, budget paper_8b, engine vllm." in sheet.lead
    assert list(sheet.body["recall"]) == ["4k_2k", "16k_8k"]
    assert "budget" not in sheet.body


def test_method_failures_are_noted() -> None:
    one = run(42, 2, method="llm_summary")
    (sheet,) = sheets(pd.DataFrame([one]), pd.DataFrame(played(one, "cw", method_failures=2)))
    assert any("failed 4 times in 2 episodes" in note for note in sheet.notes)


def test_the_command_says_what_to_run_when_there_are_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        assert tables.main(["--runs", str(folder), "--tables", str(tmp_path / "tables")]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        assert "make reproduce-tables" in printed.err
    assert not (tmp_path / "tables").exists()


def record_run(root: Path, of: dict[str, Any], outcomes: str) -> None:
    """Write a run folder as the runner does."""
    manifest = {k: v for k, v in of.items() if k not in ("run_dir", "config")}
    with RunFolder(root / of["run_dir"], of["config"], ignored=()) as folder:
        folder.write_manifest(manifest)
        for episode in played(of, outcomes):
            if episode["task"] in folder.finished:
                continue
            folder.append(
                dict.fromkeys(NEEDED, ())
                | episode
                | {"submission": None, "error": None, "calls": [], "compactions": [], "method_failures": []}
            )


def test_the_command_writes_and_prints_the_tables_of_recorded_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted = {"engine": "scripted", "model": "scripted"}
    record_run(tmp_path / "runs", run(42, 2), "cw")
    record_run(tmp_path / "runs", run(43, 2), "ce")
    record_run(tmp_path / "runs", run(42, 2, **scripted), "cc")
    record_run(tmp_path / "runs", run(42, 2, engine="mock", model="mock"), "cc")
    assert tables.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    out = capsys.readouterr().out
    names = [f"{n}.{suffix}" for n in ("accuracy_needle", "mechanism_needle") for suffix in ("csv", "md", "tex")]
    written = {p.name for p in (tmp_path / "tables").iterdir()}
    declared = {path.stem for path in Path("conf/tables").glob("*.yaml")}
    assert {name for name in written if not name.removeprefix("mechanism_").startswith(tuple(declared))} == {
        *names,
        "index.md",
        "index.html",
    }
    assert {f"{name}.md" for name in declared} < written
    assert all(f"wrote {tmp_path / 'tables' / name}" in out for name in names)
    assert (tmp_path / "tables" / "accuracy_needle.md").read_text("utf-8") in out
    assert "1 run of engine mock left out" in out
    model = only(pd.read_csv(tmp_path / "tables" / "accuracy_needle.csv"))
    # 1 + 1 of 2 + 2 planned; the error is not run
    assert (model["n_success"], model["n_planned"], model["n_run"], model["n_error"]) == (2, 4, 3, 1)
    assert model["incomplete"] == "seed 43: 1 error of 2 planned"
    # run again, the error becomes an outcome and the row is whole
    record_run(tmp_path / "runs", run(43, 2), "cc")
    assert tables.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    model = only(pd.read_csv(tmp_path / "tables" / "accuracy_needle.csv"))
    assert (model["n_success"], model["n_run"], model["n_error"]) == (3, 4, 0)
