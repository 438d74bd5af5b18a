"""LongBench-v2's tables: hand-made runs in, numbers worked out by hand out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis import frames, longbench_table, tables
from analysis.longbench_table import Statistics
from arcbench.records import NEEDED, RUN_COLUMNS, RunFolder
from arcbench.types import ConfigError

STATISTICS = Statistics(level=0.95, resamples=2000, resampling_seed=1)
OUTCOMES = {
    "c": ("correct", None, "submitted"),
    "w": ("wrong", None, "submitted"),
    "t": ("no_answer", "turn_limit", "turn_limit"),
    "o": ("no_answer", "context_overflow", "context_overflow"),
    "e": ("error", None, None),
}
ANSWERS = "CCAB"
DOMAINS = ("Code", "Code", "Law", "Law")
LENGTHS = ("short", "long", "long", "short")
DOCUMENTS = ("d0", "d1", "d1", "d2")
DATA = {
    "sha256": "f" * 64,
    "rows_hard": 4,
    "rows_of_benchmark": 6,
    "missing": ["row4", "row5"],
    "not_of_benchmark": 0,
    "distinct_contexts": 3,
}


def record(root: Path, outcomes: str, *, data: dict[str, Any] | None = None, planned: int = 4, **fields: Any) -> Path:
    """A run on four rows (two share a document), one letter a row."""
    manifest = dict.fromkeys(RUN_COLUMNS[1:], "x") | {
        "protocol": "1", "harness": "longbench_v2_hard", "profile": "files", "engine": "vllm", "model": "qwen3-8b",
        "method": "arc", "variant": None, "seed": 42, "planned": planned, "data": DATA | (data or {}),
    } | fields  # fmt: skip
    config = {"method": {"id": manifest["method"]}, "seed": manifest["seed"], "budget": {"window_tokens": 16384}}
    path = root / "-".join(str(manifest[name]) for name in ("engine", "profile", "method", "seed"))
    with RunFolder(path, config, ignored=()) as folder:
        folder.write_manifest(manifest)
        for i, letter in enumerate(outcomes):
            outcome, reason, ending = OUTCOMES[letter]
            facts = {
                "row": f"row{i}", "answer": ANSWERS[i], "domain": DOMAINS[i], "length": LENGTHS[i],
                "context_sha256": DOCUMENTS[i],
            }  # fmt: skip
            folder.append(
                dict.fromkeys(NEEDED, ())
                | {"task": f"task/row{i}", "seed": manifest["seed"], "index": i, "facts": facts, "ending": ending}
                | {"outcome": outcome, "reason": reason}
            )
    return path


def made(root: Path) -> pd.DataFrame:
    """The table's numbers, by method and delivery."""
    read = frames.load(root)
    facts = longbench_table.facts_of(read.runs["run_dir"])
    played = read.episodes.merge(facts, on=["run_dir", "task"])
    return longbench_table.table(read.runs, played, read.compactions, STATISTICS).set_index(["profile", "method"])


def test_both_conventions_and_what_is_behind_them(tmp_path):
    record(tmp_path, "cwtc")
    row = made(tmp_path).loc["files", "arc"]
    assert (row["n_success"], row["n_attempts"], row["accuracy_pct"]) == (2, 4, 50.0)
    assert (row["n_submitted"], row["n_documents"]) == (3, 3)
    assert row["given_submission_pct"] == pytest.approx(200 / 3)
    assert row["n_no_answer_turn_limit"] == 1
    assert row["low_pct"] < 50 < row["high_pct"]
    assert "wilson95_low_pct" not in row


def test_seeds_of_one_document_are_drawn_together(tmp_path):
    record(tmp_path, "cwwc", seed=42)
    one = made(tmp_path).loc["files", "arc"]
    record(tmp_path, "cwwc", seed=43)
    two = made(tmp_path).loc["files", "arc"]
    assert (two["n_success"], two["n_attempts"], two["accuracy_sd_pct"]) == (4, 8, 0.0)
    assert (two["low_pct"], two["high_pct"]) == (one["low_pct"], one["high_pct"])  # a second seed is no new document


def test_what_has_no_record_counts_as_wrong_and_is_named(tmp_path):
    record(tmp_path, "ce", planned=4)
    row = made(tmp_path).loc["files", "arc"]
    assert (row["accuracy_pct"], row["n_error"], row["n_missing"]) == (25.0, 1, 2)
    assert row["incomplete"] == "seed 42: 1 error, 2 missing of 4 planned"
    assert 0 <= row["low_pct"] < 25 < row["high_pct"] < 100


def test_tasks_missing_under_several_seeds_are_no_more_documents(tmp_path):
    record(tmp_path, "ww", planned=20, seed=42)
    one = made(tmp_path).loc["files", "arc"]
    record(tmp_path, "ww", planned=20, seed=43)
    two = made(tmp_path).loc["files", "arc"]
    assert (one["n_missing"], two["n_missing"]) == (18, 36)
    # Wilson's, of 0 in 20 documents: the two that were played and 18 of which nothing is known
    assert one["high_pct"] == two["high_pct"] == pytest.approx(100 * 1.959964**2 / (20 + 1.959964**2), abs=1e-3)


def test_a_run_planned_anew_with_fewer_tasks_hides_no_missing_one(tmp_path):
    record(tmp_path, "cccc", planned=2, seed=42)
    record(tmp_path, "cc", planned=4, seed=43)
    row = made(tmp_path).loc["files", "arc"]
    assert (row["n_success"], row["n_attempts"], row["n_missing"]) == (6, 8, 2)
    # three documents with 2, 3 and 1 records, all correct, and the two tasks of seed 43 that have none
    low, high = STATISTICS.interval(np.array([2, 3, 1, 0, 0]), np.array([2, 3, 1, 1, 1]))
    assert (row["low_pct"], row["high_pct"]) == (100 * low, 100 * high)


def test_a_model_whose_runs_have_no_record_yet_spoils_no_other_table(tmp_path, capsys):
    record(tmp_path / "runs", "")
    record(tmp_path / "runs", "cwtc", engine="scripted", model="scripted")
    assert tables.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    capsys.readouterr()
    empty = (tmp_path / "tables" / "accuracy_longbench_v2_hard.md").read_text("utf-8")
    assert "arc is incomplete: seed 42: 4 missing of 4 planned. No task has an outcome." in empty
    assert "constant_a" not in empty
    assert not (tmp_path / "tables" / "accuracy_longbench_v2_hard_by_domain.md").exists()
    assert (tmp_path / "tables" / "mechanism_longbench_v2_hard_by_domain.md").exists()


def test_the_official_row_says_what_it_would_be_without_failed_calls(tmp_path):
    record(tmp_path, "ctwe", profile="official", method="full_context")
    row = made(tmp_path).loc["official", "full_context"]
    assert (row["accuracy_pct"], row["accuracy_run_pct"]) == (25.0, pytest.approx(100 / 3))
    notes = sheets(tmp_path)[0].notes
    assert any("leaves failed calls out of its mean, which is then the second figure" in note for note in notes)
    assert (
        "† official, full_context is incomplete: seed 42: 1 error of 4 planned. 25.00 % of 4 planned, 33.33 % of 3 run "
        "without error." in notes
    )


def test_seeds_are_said_above_or_stand_in_a_column_where_rows_differ_in_them(tmp_path):
    for seed in (42, 43):
        record(tmp_path, "cwtc", seed=seed)
    table = sheets(tmp_path)[0]
    assert "seeds" not in table.body
    assert any(line.endswith("seeds 42 43.") for line in table.lead)
    record(tmp_path, "cwtc", profile="no_context", method="full_context")
    table = sheets(tmp_path)[0]
    assert table.body["seeds"].tolist() == ["42 43", "42", *"————"]
    assert table.body["given a submission %"].tolist()[:2] == ["66.67 (6)", "66.67 (3)"]


def test_constant_answers_are_worked_out_on_the_rows_that_were_played(tmp_path):
    record(tmp_path, "cwtc")
    record(tmp_path, "cwtc", seed=43)
    record(tmp_path, "cc", method="vista")
    rows = made(tmp_path).loc["constant"]
    assert rows["n_success"].to_dict() == {"constant_a": 1, "constant_b": 1, "constant_c": 2, "constant_d": 0}
    assert set(rows["n_attempts"]) == {4}
    assert rows.loc["constant_d", "accuracy_pct"] == 0
    low, high = rows.loc["constant_d", ["low_pct", "high_pct"]]
    assert low == pytest.approx(0)
    assert high == pytest.approx(100 * 1.959964**2 / (3 + 1.959964**2), abs=1e-3)  # Wilson's, of 0 in 3 documents


def test_deliveries_come_in_order_and_those_without_an_agent_are_reference_rows(tmp_path):
    for profile, method in (("replay", "arc"), ("official", "full_context"), ("files", "vista"), ("files", "arc")):
        record(tmp_path, "cwtc", profile=profile, method=method)
    (table, work, domain, length) = sheets(tmp_path)
    assert [sheet.name for sheet in (table, work, domain, length)] == [
        f"accuracy_longbench_v2_hard{suffix}" for suffix in ("", "_work", "_by_domain", "_by_length")
    ]
    named = list(zip(table.body["delivery"], table.body["method"], strict=True))
    assert named[:4] == [("files", "arc"), ("files", "vista"), ("replay", "arc"), ("reference", "official")]
    assert [name for _, name in named[4:]] == ["constant_a", "constant_b", "constant_c", "constant_d"]
    assert any("leaves failed calls out" in note for note in table.notes)
    assert any(note == "Missing rows, 2: row4, row5." for note in table.notes)
    assert any(
        note.startswith("4 hard rows are in the data, on 3 distinct documents; the benchmark has 6")
        for note in table.notes
    )
    assert list(domain.body.columns[-2:]) == ["Code", "Law"]
    assert list(length.body.columns[-2:]) == ["short", "long"]
    assert domain.body.loc[0, "Code"] == "50.0 (2)"
    assert length.body.loc[0, "short"] == "100.0 (2)"
    assert domain.data["n_attempts"].tolist() == [2] * 16
    # of always C, both rows on Code and none on Law
    assert domain.body.set_index("method").loc["constant_c", ["Code", "Law"]].tolist() == ["100.0 (2)", "0.0 (2)"]


def sheets(root: Path) -> list[Any]:
    read = frames.load(root)
    return longbench_table.sheets(read.runs, read.episodes, read.compactions, STATISTICS)


def test_many_missing_rows_are_counted_and_not_listed(tmp_path):
    record(tmp_path, "cwtc", data={"missing": [f"row{i}" for i in range(50)]})
    notes = sheets(tmp_path)[0].notes
    assert "Missing rows, 50: see data.missing in the manifest of a run." in notes


def test_runs_on_different_rows_are_refused_by_name(tmp_path):
    one, two = record(tmp_path, "c"), record(tmp_path, "c", method="vista", data={"sha256": "0" * 64})
    with pytest.raises(ConfigError, match="were played on different rows") as raised:
        sheets(tmp_path)
    assert str(one) in str(raised.value)
    assert str(two) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_writes_them_beside_the_other_tables_and_models_apart_from_the_reader(tmp_path, capsys):
    record(tmp_path / "runs", "cwtc")
    record(tmp_path / "runs", "cwoc", engine="scripted", model="scripted")
    assert tables.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    out = capsys.readouterr().out
    assert "# Mechanism check on longbench_v2_hard (scripted engine)\n\nNo language model took part" in out
    written = {path.stem for path in (tmp_path / "tables").glob("*longbench*.md")}
    assert written == {
        f"{kind}_longbench_v2_hard{suffix}"
        for kind in ("accuracy", "mechanism")
        for suffix in ("", "_work", "_by_domain", "_by_length")
    }


# -------------------------------------------------------------------------------------- intervals


def test_the_interval_is_the_exact_distribution_of_drawn_documents():
    # three documents, 1 row each, one right: of three draws a binomial number hits it
    low, high = STATISTICS.interval(np.array([1, 0, 0]), np.array([1, 1, 1]))
    exact = stats.binom(3, 1 / 3)
    assert (round(3 * low), round(3 * high)) == (exact.ppf(0.025), exact.ppf(0.975))


def test_documents_with_more_rows_weigh_more():
    low, high = STATISTICS.interval(np.array([9, 0]), np.array([9, 1]))
    assert (low, high) == (0.0, 1.0)
    middle = [STATISTICS.interval(np.array([9, 0] * k), np.array([9, 1] * k)) for k in (20, 80)]
    assert all(low < 0.9 < high for low, high in middle)
    assert middle[1][1] - middle[1][0] < middle[0][1] - middle[0][0]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=12))
def test_an_interval_is_never_a_point_and_holds_the_accuracy(pairs):
    wins, n = np.array([min(pair) for pair in pairs]), np.array([pair[1] for pair in pairs])
    low, high = Statistics(level=0.95, resamples=200, resampling_seed=1).interval(wins, n)
    assert -1e-12 <= low < high <= 1 + 1e-12
    if (wins == wins[0]).all() and (n == n[0]).all():
        assert low - 1e-12 <= wins.sum() / n.sum() <= high + 1e-12


def test_without_a_trial_there_is_no_interval():
    assert all(math.isnan(end) for end in STATISTICS.interval(np.array([0, 0]), np.array([0, 0])))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("level: 1", "level=1: must be below 1"),
        ("level: 0", "level=0: must be above 0 and at most 1"),
        ("resamples: 0", "resamples=0: must be a whole number of at least 1"),
        ("resample: 5", "resample is unknown"),
    ],
)
def test_bad_statistics_are_one_line(tmp_path, change, says):
    key = change.split(":")[0]
    lines = [
        line for line in longbench_table.STATISTICS.read_text("utf-8").splitlines() if not line.startswith(f"{key}:")
    ]
    path = tmp_path / "statistics.yaml"
    path.write_text("\n".join([*lines, change]), "utf-8")
    with pytest.raises(ConfigError, match=says):
        Statistics.read(path)
