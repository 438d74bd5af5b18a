"""The declared tables of the ARC paper: hand-made runs in, cells worked out by hand out."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import record_run

from analysis import arc_tables

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (42, 82, 122)
STANDARD: dict[str, Any] = {
    "budget": {"recall_budget_chars": 16000, "recall_max_chars": 8000, "force_at_calls": [5, 10, 15]},
    "harness": {"noise_lines_per_side": 25, "needles": 1},
}
LONGBENCH = {"harness": "longbench_v2_hard", "profile": "files"}


def play(runs: Path, method: str, *outcomes: str, seeds: tuple[int, ...] = SEEDS, **given: Any) -> list[Path]:
    """One run a seed, a letter a task (see recorded.py), in the paper's standard setting but for ``budget_`` and
    ``harness_`` keys; ``window``, ``model`` and ``profile`` as the needle task of 8B has them."""
    config: dict[str, Any] = {group: dict(values) for group, values in STANDARD.items()}
    for group in config:
        own = {key: given.pop(key) for key in list(given) if key.startswith(f"{group}_")}
        config[group] |= {key.removeprefix(f"{group}_"): value for key, value in own.items()}
    config["budget"]["window_tokens"] = given.pop("window", 16384)
    fields = {"harness": "needle", "profile": "paper", "budget": "paper_8b", "recall": "16k_8k", "method": method}
    place = "-".join(str(value) for value in (*given.values(), *config["budget"].values(), *config["harness"].values()))
    return [
        record_run(runs / place.replace("/", "_"), letters, seed=seed, config=config, **(fields | given))
        for letters, seed in zip(outcomes, seeds, strict=True)
    ]


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a table comes to: its CSV as text, and what was printed."""

    def make(name: str, file: str = "", *more: str) -> tuple[pd.DataFrame, str]:
        args = [*more, name, "--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
        args += ["--specs", str(ROOT / "conf/tables"), "--settings", str(ROOT / "conf/statistics/paired.yaml")]
        assert arc_tables.main(args) == 0
        found = pd.read_csv(tmp_path / "tables" / f"{file or name}.csv", dtype=str, keep_default_na=False)
        return found, capsys.readouterr().out

    return make


def the(frame: pd.DataFrame, **named: str) -> pd.Series:
    rows = frame[functools.reduce(lambda a, b: a & b, [frame[key] == value for key, value in named.items()])]
    assert len(rows) == 1, rows
    return rows.iloc[0]


# --------------------------------------------------------------------------------- accuracies


def test_accuracy_over_seeds_beside_the_paper_s(tmp_path, made):
    # 3, 2 and 3 of 4: 75, 50 and 75 %: mean 66.67, sample SD 14.43; one task without an answer in three seeds
    play(tmp_path / "runs", "arc", "cccw", "ccnw", "wccc")
    table, said = made("arc_table02")
    row = the(table, model="qwen3-8b", profile="paper", method="arc")
    assert (row.state, row.n_success, row.n_planned, row.n_no_answer_turn_limit) == ("complete", "8", "12", "1")
    assert (row.mean_n_success, row.mean_no_answer) == ("2.666667", "0.333333")
    assert (row.accuracy_pct, row.accuracy_pct_paper, row.accuracy_pct_difference) == (
        "66.666667",
        "99.00",
        "-32.333333",
    )
    assert (row.accuracy_sd_pct, row.accuracy_sd_pct_paper) == ("14.433757", "0.17")
    # passes of 12 tasks are not set against passes of 3,000
    assert (row.n_success_paper, row.n_success_difference) == ("2970", "")
    assert "All rows rest on 4 tasks a seed; the table is of 1000." in said


def test_counts_are_compared_where_the_size_is_the_paper_s(tmp_path, made):
    play(tmp_path / "runs", "arc", *["c" * 991 + "w" * 9] * 2, "c" * 990 + "n" * 10)
    row = the(made("arc_table02")[0], model="qwen3-8b", profile="paper", method="arc")
    assert (row.n_success, row.n_success_paper, row.n_success_difference) == ("2972", "2970", "2.0")
    # 10 in one seed of three; the paper has 9.67
    assert (row.mean_no_answer, row.mean_no_answer_difference) == ("3.333333", "-6.336667")


def test_what_is_missing_is_named_and_holes_are_not_averaged_over(tmp_path, made):
    play(tmp_path / "runs", "arc", "cccc", "cccc", seeds=(42, 82))
    play(tmp_path / "runs", "rag_memory", "cccc", "ccc", "ccce", planned=4)
    table, said = made("arc_table02")
    arc = the(table, model="qwen3-8b", profile="paper", method="arc")
    assert (arc.state, arc.accuracy_pct, arc.accuracy_pct_difference) == ("incomplete", "100.0", "")
    assert "seed 122: no run" in said
    rag = the(table, model="qwen3-8b", profile="paper", method="rag_memory")
    assert (rag.state, rag.n_planned, rag.n_run, rag.n_error, rag.n_missing) == ("incomplete", "12", "10", "1", "1")
    full = the(table, model="qwen3-8b", profile="paper", method="full_context")
    assert (full.state, full.accuracy_pct, full.accuracy_pct_paper) == ("missing", "", "36.80")
    assert "qwen3-8b: no run for 10 of 12 of the cells (paper: full_context, sliding_window, llm_summary" in said
    assert "make arc_table02 ENGINE=vllm MODEL=qwen3-8b" in said
    assert "qwen3-32b: no run for any of the cells." in said


def test_the_paper_s_figures_stand_beside_its_own_setting_alone(tmp_path, made):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", profile="strict")
    play(tmp_path / "runs", "arc", "cc", "cc", "cw", model="smollm2-135m", budget="tiny", window=8192)
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", budget="paper_32b", window=32768)  # 8B in the large window
    table, said = made("arc_table02")
    for named in (
        {"model": "qwen3-8b", "budget": "paper_8b", "profile": "strict"},
        {"model": "smollm2-135m", "profile": "paper"},
        {"model": "qwen3-8b", "budget": "paper_32b", "profile": "paper"},
    ):
        row = the(table, method="arc", **named)
        assert (row.state, row.accuracy_pct_paper) == ("complete", "")
    assert "The paper's stand beside qwen3-8b (paper_8b) and qwen3-32b (paper_32b), profile paper." in said


def test_runs_of_other_settings_belong_to_other_tables(tmp_path, made):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", budget_recall_budget_chars=4000, budget_recall_max_chars=2000)
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", budget_force_at_calls=[5])
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", harness_noise_lines_per_side=5)
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", harness_needles=4)
    assert "missing" in set(made("arc_table02")[0]["state"])
    assert set(made("arc_table02")[0]["state"]) == {"missing"}


def test_longbench_in_the_same_shape(tmp_path, made):
    play(tmp_path / "runs", "arc", "ccn", "cww", "ccw", tasks="abc", **LONGBENCH)
    row = the(made("arc_table01")[0], model="qwen3-8b", method="arc")
    # 2, 1 and 2 of 3: 66.67, 33.33 and 66.67 %: mean 55.56, sample SD 19.25
    assert (row.n_success, row.accuracy_pct, row.accuracy_sd_pct) == ("5", "55.555556", "19.245009")
    assert (row.accuracy_pct_paper, row.accuracy_pct_difference) == ("27.47", "28.085556")


@pytest.mark.parametrize(
    ("table", "setting", "axes", "paper"),
    [
        (
            "arc_table07",
            {"budget_recall_budget_chars": 4000, "budget_recall_max_chars": 2000},
            {"recall_budget_kchars": "4", "recall_max_kchars": "2"},
            "92.5",
        ),
        (
            "arc_table08",
            {"budget_recall_budget_chars": 8000, "budget_recall_max_chars": 4000, **LONGBENCH},
            {"recall_budget_kchars": "8", "recall_max_kchars": "4"},
            "26.05",
        ),
        ("arc_table10", {"budget_force_at_calls": [3, 6, 9, 12, 15]}, {"force_at_calls": "3;6;9;12;15"}, "989"),
        ("arc_table11", {"harness_noise_lines_per_side": 5}, {"noise_lines_per_side": "5"}, "999"),
        ("window", {"window": 8192}, {"window_tokens": "8192"}, None),
    ],
)
def test_a_sweep_has_a_row_for_each_point(tmp_path, made, table, setting, axes, paper):
    play(tmp_path / "runs", "arc", "cccw", seeds=(42,), **setting)
    found, said = made(table)
    row = the(found, model="qwen3-8b", method="arc", **({} if table == "arc_table08" else {"profile": "paper"}), **axes)
    assert (row.state, row.n_success, row.accuracy_pct) == ("complete", "3", "75.0")
    if paper is None:
        assert not [column for column in found if column.endswith("_paper")]
    else:
        assert paper in (row.get("accuracy_pct_paper"), row.n_success_paper)
    others = found[(found["method"] == "arc") & (found["state"] == "missing")]
    assert len(others) > 0
    assert f"make {table} ENGINE=vllm MODEL=qwen3-8b" in said


def test_passes_and_fails_add_up(tmp_path, made):
    # what has no answer fails too
    play(tmp_path / "runs", "arc", "c" * 990 + "w" * 6 + "n" * 4, seeds=(42,))
    found = made("arc_table07")[0]
    row = the(found, method="arc", profile="paper", recall_budget_kchars="16")
    assert (row.n_success, row.n_fail, row.n_success_difference, row.n_fail_difference) == ("990", "10", "-1.0", "1.0")


def test_a_device_tells_two_tables_apart(tmp_path, made):
    amd = [{"engine": {"device": "AMD Instinct MI300X"}}]
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", sessions=[*amd, *amd])
    play(
        tmp_path / "runs" / "both",
        "rag_memory",
        "cc",
        "cc",
        "cc",
        sessions=[*amd, {"engine": {"device": "NVIDIA H200"}}],
    )
    table, said = made("arc_table12")
    assert the(table, model="qwen3-8b", profile="paper", method="arc").accuracy_pct_paper == "99.57"
    assert the(table, model="qwen3-8b", profile="paper", method="rag_memory").state == "missing"
    assert said.count("is left out: some of its sessions were on an MI300X, and some were not.") == 3
    assert set(made("arc_table02")[0]["state"]) == {"missing"}


def test_without_the_hardware_a_table_says_so(tmp_path, made):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc")
    table, said = made("arc_table12")
    assert set(table["state"]) == {"missing"}
    assert "There is no run on an MI300X yet" in said


def test_a_margin_is_over_the_best_other_method(tmp_path, made):
    others = {"full_context": "nnnn", "sliding_window": "cwww", "llm_summary": "ccww", "structured_state": "ccwn"}
    for method, letters in (others | {"arc": "cccc", "rag_memory": "wwww"}).items():
        play(tmp_path / "runs", method, letters, seeds=(42,), tasks="abcd", **LONGBENCH)
    point = {"model": "qwen3-8b", "recall_budget_kchars": "16"}
    row = the(made("arc_recall_budget_margin")[0], **point)
    # 100 % over 50 %, which two methods have
    assert (row.state, row.arc_accuracy_pct, row.margin_pp) == ("complete", "100.0", "50.0")
    assert row.runner_up_method == "llm_summary;structured_state"
    assert (row.margin_pp_paper, row.margin_pp_difference, row.runner_up_method_difference) == ("3.2", "46.8", "other")


def test_there_is_no_margin_as_long_as_a_method_is_missing(tmp_path, made):
    for method in ("arc", "rag_memory"):
        play(tmp_path / "runs", method, "cccc", seeds=(42,), tasks="abcd", **LONGBENCH)
    row = the(made("arc_recall_budget_margin")[0], model="qwen3-8b", recall_budget_kchars="16")
    assert (row.state, row.margin_pp, row.runner_up_method) == ("incomplete", "", "")


# ------------------------------------------------------------------------------------- paired


def test_the_four_cells_and_the_paper_s_statistics(tmp_path, made):
    # completed (c, w):      1110   1111   1011
    play(tmp_path / "runs", "arc", "cwcn", "cccc", "cncc")
    # completed:             1100   1001   1111
    play(tmp_path / "runs", "sliding_window", "ccnn", "cnnc", "cccc")
    table, _ = made("arc_table06")
    row = the(table, model="qwen3-8b", profile="paper", method_a="arc", method_b="sliding_window")
    assert (row.n_a_only, row.n_b_only, row.n_both, row.n_neither) == ("3", "1", "7", "1")
    assert row.p_chi2.startswith("0.617")  # (|3 - 1| - 1)^2 / 4 = 0.25
    assert row.p_exact == "0.3125"  # of 16 ways for four pairs, five have a ahead at least 3 to 1
    assert float(row.odds_ratio) == 3
    # the only seed in which b alone completed is 122: 0 to 1
    assert (float(row.per_seed_odds_mean), row.n_discordant_seeds) == (0, "1")
    assert (row.n_a_only_paper, row.p_exact_paper, row.odds_ratio_paper) == ("1300", "0.0", "76.47")


def test_both_outcomes_are_tested_and_named(tmp_path, made):
    play(tmp_path / "runs", "arc", "cwcn", "cccc", "cncc")
    play(tmp_path / "runs", "sliding_window", "ccnn", "cnnc", "cccc")
    table, said = made("arc_table06", "arc_table06_tests")
    of = functools.partial(the, table, model="qwen3-8b", profile="paper", method_b="sliding_window", method_a="arc")
    # correct: 1010 1111 1011 against 1100 1001 1111: a alone 3, b alone 2; 9 and 8 of 12
    row = of(outcome="correctness")
    assert (row.n_a_only, row.n_b_only, row.n_pairs) == ("3", "2", "12")
    assert (row.a_pct, row.b_pct, row.difference_pp) == ("75.0", "66.666667", "8.333333")
    assert (row.p_exact_two_sided, row.p_holm) == ("1", "1")
    assert (of(outcome="completion").p_exact_two_sided, of(outcome="completion").p_holm) == ("0.625", "")
    assert "No run" not in said


def test_items_under_several_seeds_are_clusters(tmp_path, made):
    for method, letters in {"arc": "cccw", "llm_summary": "wccw"}.items():
        play(tmp_path / "runs", method, *[letters] * 3, tasks="abcd", **LONGBENCH)
    table, _ = made("arc_table05", "arc_table05_tests")
    row = the(table, model="qwen3-8b", method_b="llm_summary", method_a="arc", outcome="correctness")
    assert (row.n_pairs, row.n_clusters, row.n_a_only, row.n_b_only) == ("12", "4", "3", "0")
    assert row.p_exact_two_sided == "0.25"  # as if the three pairs of one item were three items
    assert row.p_sign_flip == "1"  # one item differs: either sign is as likely
    assert row.p_holm == "1"


def test_holm_is_over_a_model_s_comparisons_on_correctness(tmp_path, made):
    ones = "c" * 12
    play(tmp_path / "runs", "arc", ones, ones, ones)
    play(tmp_path / "runs", "rag_memory", "w" * 5 + "c" * 7, ones, ones)  # 5 to 0: two-sided 1/16
    play(tmp_path / "runs", "llm_summary", "w" * 8 + "c" * 4, ones, ones)  # 8 to 0: two-sided 1/128
    table, _ = made("arc_table06", "arc_table06_tests")
    of = functools.partial(the, table, model="qwen3-8b", profile="paper", method_a="arc", outcome="correctness")
    assert of(method_b="llm_summary").p_exact_two_sided == "0.0078125"
    assert of(method_b="llm_summary").p_holm == "0.015625"  # twice: two comparisons are there
    assert of(method_b="rag_memory").p_holm == "0.0625"
    assert of(method_b="full_context").p_holm == ""


def test_unequal_tasks_are_not_paired(tmp_path, made):
    a = play(tmp_path / "runs", "arc", "cccc", "cccc", "cccc")
    b = play(tmp_path / "runs", "rag_memory", "ccc", "cccc", "cccc", planned=4)
    table, said = made("arc_table06")
    row = the(table, model="qwen3-8b", profile="paper", method_a="arc", method_b="rag_memory")
    assert (row.n_both, row.p_exact, row.p_exact_paper) == ("", "", "4.5e-144")
    fault = next(line for line in said.split("\n") if "are not compared" in line)
    assert str(a[0]) in fault
    assert str(b[0]) in fault
    assert "make arc_table06" in fault


def test_vista_is_compared_where_it_was_run(tmp_path, made):
    for method in ("arc", "vista", "rag_memory"):
        play(tmp_path / "runs", method, "cc", "cw", "cc")
    table, _ = made("arc_table06")
    pairs = table[(table["model"] == "qwen3-8b") & (table["profile"] == "paper")]
    assert list(pairs[pairs["method_a"] == "vista"]["method_b"]).count("rag_memory") == 1
    assert "arc" not in set(pairs["method_b"])


# ------------------------------------------------------------------------------------- scripted


@pytest.mark.parametrize("name", ["arc_table02", "arc_table06"])
def test_the_scripted_engine_has_a_table_of_its_own(tmp_path, made, name):
    for method in ("arc", "rag_memory"):
        play(tmp_path / "runs", method, "cc", "cw", "cc", engine="scripted", model="scripted")
    table, said = made(name, f"mechanism_{name}")
    assert set(table["model"]) == {"scripted"}
    assert not [column for column in table if column.endswith("_paper") or column.startswith("p_")]
    assert "No language model took part" in said
    assert "scripted" not in set(made(name)[0]["model"])


def test_engines_without_a_score_are_in_no_table(tmp_path, made):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", engine="mock")
    assert set(made("arc_table02")[0]["state"]) == {"missing"}


# ------------------------------------------------------------------------------------ the command


def test_all_tables_and_their_index(tmp_path, capsys):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc")
    args = ["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
    assert arc_tables.main(args) == 0
    index = (tmp_path / "tables" / "index.md").read_text("utf-8")
    for path in (ROOT / "conf/tables").glob("*.yaml"):
        assert f"[{path.stem}]({path.stem}.md)" in index
        assert all((tmp_path / "tables" / f"{path.stem}.{suffix}").exists() for suffix in ("csv", "md", "tex"))
    row = next(line for line in index.split("\n") if "[arc_table02]" in line)
    assert [cell.strip() for cell in row.split("|")[3:6]] == ["1", "0", "23"]
    assert "# ARC" not in capsys.readouterr().out  # only what is named is printed


def test_the_page_opens_from_the_disk_and_shows_what_there_is(tmp_path):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "accuracy_needle_accuracy.svg").write_text("<svg/>")
    args = ["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
    assert arc_tables.main(args) == 0
    page = (tmp_path / "tables" / "index.html").read_text("utf-8")
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert "arc_table02.csv" in links
    assert "../figures/accuracy_needle_accuracy.svg" in links
    assert [link for link in links if not (tmp_path / "tables" / link).exists()] == []
    assert "http" not in page


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["arc_table99"], "conf/tables/arc_table99.yaml; there are arc_recall_budget_margin"),
        (["arc_table02", "--runs", "nowhere"], "nowhere"),
        (["arc_table02", "--paper", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_gets_one_line(tmp_path, capsys, args, said):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc")
    given = ["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), *args]
    assert arc_tables.main(given) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("like: arc_table02\ncolour: red\n", "colour is unknown"),
        ("like: odd\n", "like=odd: must be another table"),
        ("- 1\n", "must be a YAML mapping"),
        ("like: arc_table02\nkind: pie\n", "kind=pie: must be one of"),
        ("like: arc_table02\nreference: arc_table77\n", "reference=arc_table77: must be one of"),
        ("like: arc_table02\nquantities: [n_fails]\n", "n_fails"),
        ("like: arc_table07\npoints: [[4]]\n", "must have a value for each of"),
    ],
)
def test_a_bad_spec_gets_one_line(tmp_path, capsys, text, said):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc")
    specs = tmp_path / "specs"
    specs.mkdir()
    for path in (ROOT / "conf/tables").glob("*.yaml"):
        (specs / path.name).write_bytes(path.read_bytes())
    (specs / "odd.yaml").write_text(text, "utf-8")
    args = ["odd", "--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), "--specs", str(specs)]
    assert arc_tables.main(args) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_two_protocols_are_not_put_in_one_row(tmp_path, capsys):
    play(tmp_path / "runs", "arc", "cc", seeds=(42,))
    play(tmp_path / "runs" / "later", "arc", "cc", seeds=(82,), protocol=2)
    args = ["arc_table02", "--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
    assert arc_tables.main(args) == 2
    error = capsys.readouterr().err
    assert "runs of 2 protocols cannot stand in one table" in error
    assert str(tmp_path / "runs" / "later") in error
