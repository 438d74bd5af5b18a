"""The audit of the published figures: what it finds, that a corrected figure changes it, and what it refuses."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import audit, audit_arc
from analysis.audit_check import AMBIGUOUS, CONSISTENT, INCONSISTENT, VERDICTS, Facts
from analysis.printed import Range
from analysis.reference import PAPER, Reference
from arcbench.types import ConfigError

FACTS = Facts.read(Path(__file__).resolve().parent.parent / audit.FACTS)


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return audit.audit(Reference(), FACTS)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "paper"
    shutil.copytree(PAPER, folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, text.count(old)
    path.write_text(text.replace(old, new), "utf-8")


def the(checks: pd.DataFrame, table: str, row: str, quantity: str) -> pd.Series:
    """The one check that is so named; a quantity by how it begins."""
    named = (checks["table"].str.split(" ").str[:2].str.join(" ") == table) & (checks["row"] == row)
    found = checks[named & checks["quantity"].str.startswith(quantity)]
    assert len(found) == 1, found
    return found.iloc[0]


# ------------------------------------------------------------------------------------------ ranges


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("12.34", 12.335, 12.345), ("-9.8", -9.85, -9.75), ("73", 72.5, 73.5), ("2.0e-5", 1.95e-5, 2.05e-5)],
)
def test_a_printed_number_is_all_that_rounds_to_it(text: str, low: float, high: float) -> None:
    assert (Range.of(text).low, Range.of(text).high) == pytest.approx((low, high))


def test_tiny_numbers_are_told_apart() -> None:
    assert Range.of("3.19e-31").meets(Range.exactly(3.188e-31))
    assert not Range.of("3.19e-31").meets(Range.exactly(6.376e-31))  # the two-sided p of the same counts


def test_rounding_may_go_either_way_at_an_edge() -> None:
    assert Range.of("0.5").meets(Range.exactly(0.45))
    assert Range.of("0.4").meets(Range.exactly(0.45))
    assert not Range.of("0.6").meets(Range.exactly(0.45))


PRINTED = st.decimals(-999, 999, places=2).map(str).filter(lambda text: float(text) != 0 or not text.startswith("-"))


@given(PRINTED, PRINTED, st.floats(-1, 1), st.floats(-1, 1))
def test_arithmetic_keeps_every_value_that_may_stand_behind(a: str, b: str, place_a: float, place_b: float) -> None:
    one, other = Range.of(a), Range.of(b)
    x, y = one.middle + place_a * one.half, other.middle + place_b * other.half
    assert (one + other).meets(Range.exactly(x + y))
    assert (one - other).meets(Range.exactly(x - y))
    assert (one * other).meets(Range.exactly(x * y))
    if not other.low <= 0 <= other.high:
        assert (one / other).meets(Range.exactly(x / y))


def test_a_quotient_by_what_may_be_zero_is_open() -> None:
    assert (Range.of("1") / Range.of("0.0")).meets(Range.exactly(math.inf))


# --------------------------------------------------------------------------------- what is printed


def test_counts_by_seed_are_recovered_from_mean_and_sd() -> None:
    # 79, 86 and 91 of 311 are 25.4, 27.7 and 29.3 %: mean 27.47; deviations -2.07, 0.23, 1.83 give a sample SD of 1.96
    row = {"n_success": "256", "n_attempts": "933", "accuracy_pct": "27.47", "accuracy_sd_pct": "1.96"}
    found = audit_arc.recovered(row, "accuracy_sd_pct", 3)
    assert found["sample SD of percentages rounded to 0.1"] == [(79, 86, 91)]
    assert found["sample SD"] == []  # 256 of 933 are 27.44 %


def test_percentages_were_rounded_by_seed_in_every_row(published: pd.DataFrame) -> None:
    rows = published[published["quantity"].str.startswith("mean and SD over seeds")]
    assert len(rows) == 12 + 12 + 12 + 1  # Tables 1, 2, 12; one row prints two SDs
    apart = rows[rows["verdict"] != CONSISTENT]
    assert list(apart["printed"]) == ["27.47 ± 1.69"]
    assert the(published, "arc_table01", "qwen3-8b arc", "mean and SD over seeds (combined").recomputed.endswith(
        "79/86/91"
    )


def test_the_ablation_of_longbench_is_one_seed_of_its_main_table(published: pd.DataFrame) -> None:
    rows = published[published["quantity"] == "passes, against arc_table01 by seed"]
    assert len(rows) == 12
    assert set(rows["verdict"]) == {CONSISTENT}


def test_the_same_cell_in_four_tables(published: pd.DataFrame) -> None:
    # 4.87 TB over 4.8 TB/s are 1.01 s; 1.26 s in all less 0.24 s of prefill are 1.02 s
    for quantity in ("t_decode_s, as in arc_table09", "total time, s", "decode time, s"):
        assert the(published, "arc_table04", "qwen3-8b arc", quantity).verdict == INCONSISTENT
    assert the(published, "arc_table09", "qwen3-8b arc 16", "decode time, s").verdict == CONSISTENT


def test_savings_are_by_time_and_one_is_neither(published: pd.DataFrame) -> None:
    # 1 - 9.68/6.53 = -0.482, 1 - 43.53/27.63 = -0.575; printed is -9.8
    assert the(published, "arc_table03", "qwen3-8b structured_state", "savings").verdict == INCONSISTENT
    savings = published[published["quantity"] == "savings %"]
    assert (savings["verdict"] == CONSISTENT).sum() == len(savings) - 5
    assert all("by time" in why for why in savings["why"])


def test_the_pairs_are_completions_and_the_exact_p_one_sided(published: pd.DataFrame) -> None:
    pairs = published[published["quantity"].str.startswith("successes of")]
    assert len(pairs) == 40
    assert set(pairs["verdict"]) == {CONSISTENT}
    exact = published[published["quantity"] == "exact p"]
    assert set(exact["verdict"]) == {CONSISTENT}
    assert "two-sided 1.60571e-05" in the(published, "arc_table05", "qwen3-8b arc llm_summary", "exact p").recomputed


def test_the_runner_up_is_another(published: pd.DataFrame) -> None:
    assert the(published, "arc_recall_budget_margin", "qwen3-8b 16k", "runner-up").recomputed == "llm_summary (26.69)"
    tied = the(published, "arc_recall_budget_margin", "qwen3-32b 32k", "runner-up")
    assert (tied.verdict, tied.recomputed) == (CONSISTENT, "sliding_window and structured_state (29.58)")


def test_a_cost_follows_from_its_tokens_and_one_total_does_not(published: pd.DataFrame) -> None:
    # 2.783 M at 0.561 * 0.05 + 0.439 * 0.50, and 0.080 M at 3.00: 0.078 + 0.611 + 0.240 = 0.929
    assert the(published, "vista_table02", "vista", "usd per task").verdict == CONSISTENT
    tokens = the(published, "vista_table01", "claude_code", "million tokens, as in vista_table02")
    assert (tokens.verdict, tokens.printed, tokens.recomputed) == (INCONSISTENT, "6.72", "7.293 to 7.295")


def test_no_more_than_the_letter_c(published: pd.DataFrame) -> None:
    rows = published[published["quantity"].str.endswith("always answering C")]
    assert dict(rows["verdict"].value_counts()) == {AMBIGUOUS: 9, CONSISTENT: 3}  # 91 of 311 are 29.26 %


def test_what_a_published_cost_implies(published: pd.DataFrame) -> None:
    # 27.70 TB over 147,456 B * (1 + 16.38/124.62) are 166 M; 0.61 s * 989 TFLOP/s over 13.9 GFLOP are 43.4 k prompt
    # tokens; a call adds at most 4,096 * 14,335.5 = 58.7 M and 12,288 prompt tokens: 43.0 k take 3.5 calls
    row = the(published, "arc_table04", "qwen3-8b sliding_window", "what traffic")
    assert row.recomputed == (
        "Q 165.6 to 166.1 M, P 43.05 to 43.76 k tokens; on average at least 3.5 calls, of at most 12491 prompt tokens"
    )
    # the batch is at least 8 in a window of 32k: 347.7 TB over 262,144 B * (1 + 65.52/75.48 * 9/8) are 671 M;
    # over 4,096 that is 163.8 k; less 48.4 k of prompts, 2,047.5 a call: 56.4 calls, of 859 prompt tokens
    many = the(published, "arc_table03", "qwen3-32b llm_summary", "what traffic")
    assert many.verdict == AMBIGUOUS
    assert many.recomputed.endswith("; on average at least 56.4 calls, of at most 859 prompt tokens")


# ------------------------------------------------------------------------------------------ claims


def test_every_claim_is_checked(published: pd.DataFrame) -> None:
    claims = published[published["table"].str.startswith("claim ")]
    assert {table.split()[1] for table in claims["table"]} == {f"C{n:02}" for n in range(1, 51)}


VERDICT = {
    "C01": CONSISTENT,  # (99.00 + 99.80) / 2 = 99.40
    "C02": CONSISTENT,  # (79.57 + 96.67) / 2 = 88.12
    "C04": AMBIGUOUS,  # (25.83 + 30.67) / 2 = 28.25 is of two methods; the best one has (24.73 + 30.20) / 2 = 27.47
    "C05": CONSISTENT,  # 27.47 - 25.83
    "C07": AMBIGUOUS,  # 1 - 15.95/27.63 = 42.3 % by traffic, 1 - 3.99/6.53 = 38.9 % by time
    "C09": INCONSISTENT,  # needle, 32B: structured_state 96.63 > 95.33 with 2.46 < 2.76 TB and 0.51 < 0.58 s
    "C14": INCONSISTENT,  # 32.47 - 30.67 = 1.80, not 2.3
    "C16": INCONSISTENT,  # 23.67 is 24
    "C17": INCONSISTENT,  # 884 and 911 of 933
    "C18": AMBIGUOUS,
    "C19": CONSISTENT,
    "C21": INCONSISTENT,  # 2.22 against llm_summary is the lowest at 8B
    "C22": CONSISTENT,
    "C23": INCONSISTENT,  # structured_state at 32B: 91, 93, 92
    "C24": INCONSISTENT,  # 29.26 - 26.69 = 2.57
    "C25": INCONSISTENT,  # (20.3 + 20.1) / (12.5 + 14.8) = 1.48
    "C26": CONSISTENT,
    "C28": CONSISTENT,
    "C29": INCONSISTENT,  # at 16k sliding_window 27.70 < rag_memory 28.92 TB
    "C35": INCONSISTENT,  # rag_memory 79.57 and 81.03, with seeds that overlap
    "C36": CONSISTENT,
    "C37": INCONSISTENT,
    "C41": INCONSISTENT,  # 135K < 163K
    "C42": AMBIGUOUS,  # 9.3, then 5.4; 28.0, then 20.0; the last is above the first
    "C44": INCONSISTENT,
    "C45": CONSISTENT,  # 43.7/176.5 = 0.248; 0.753 - 0.731 = 0.022
    "C47": AMBIGUOUS,  # 45.3 % of 75 are 34, not 27, which is of an ablation that the table lacks
    "C48": AMBIGUOUS,  # 13 against 7 of 75: two-sided p = 0.263
    "C49": INCONSISTENT,  # 247K
}


@pytest.mark.parametrize("claim", VERDICT)
def test_what_a_claim_comes_to(claim: str, published: pd.DataFrame) -> None:
    rows = published[published["table"].str.startswith(f"claim {claim} ")]
    assert list(rows["verdict"]) == [VERDICT[claim]], rows["recomputed"].tolist()


def test_the_readme_tells_what_does_not_agree(published: pd.DataFrame) -> None:
    readme = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")
    section = " ".join(readme.split("## Audit of the published figures\n")[1].split("\n## ")[0].split())
    counts = published["verdict"].value_counts()
    found = f"Of {len(published)} checks {counts[INCONSISTENT]} are inconsistent and {counts[AMBIGUOUS]} ambiguous"
    assert found in section
    apart = published[(published["verdict"] != CONSISTENT) & published["table"].str.startswith("claim ")]
    assert set(re.findall(r"\bC\d\d\b", section)) == {table.split()[1] for table in apart["table"]}


# --------------------------------------------------------------------------------------- corrected

CORRECTIONS = [
    ("arc_table01", "27.47,1.69,27.47", "27.47,1.96,27.47", "qwen3-8b arc", "SD, the second time"),
    ("arc_table03", "43.53,-9.8", "43.53,-48.2", "qwen3-8b structured_state", "savings"),
    ("arc_table04", "1.26,0.01", "1.26,1.014", "qwen3-8b arc", "decode time"),
    ("arc_recall_budget_margin", "structured_state,26.05,3.2", "llm_summary,26.69,2.6", "qwen3-8b 16k", "margin"),
]


def test_corrected_tables_are_consistent(copy: Path, published: pd.DataFrame) -> None:
    for table, old, new, _, _ in CORRECTIONS:
        edit(copy / f"{table}.csv", old, new)
    corrected = audit.audit(Reference(copy), FACTS)
    for table, _, _, row, quantity in CORRECTIONS:
        assert the(published, table, row, quantity).verdict == INCONSISTENT
        assert the(corrected, table, row, quantity).verdict == CONSISTENT


WRONG_DIGITS = {
    "arc_table02": ("99.00,0.17,99.00", "98.90,0.17,98.90"),
    "arc_table05": ("2.0e-5,8.0e-6", "2.0e-5,1.6e-5"),
    "arc_table06": ("4.09e-18", "4.19e-18"),
    "arc_table07": ("4,2,925,75", "4,2,925,76"),
    "arc_table09": ("66.0,2.94", "66.0,3.94"),
    "arc_table11": ("0.639,0.130,3.0658", "0.639,0.130,3.1658"),
    "arc_table12": ("2987,3000,99.57,0.35", "2987,3000,99.57,0.18"),
    "vista_table02": ("0.080,56.1,0.93", "0.080,56.1,0.95"),
    "vista_table03": ("27.3,14.0", "27.3,14.3"),
    "vista_table08": ("18,3,20,34", "18,3,20,33"),
}


def test_a_wrong_digit_is_found_in_each_table(copy: Path, published: pd.DataFrame) -> None:
    for table, (old, new) in WRONG_DIGITS.items():
        edit(copy / f"{table}.csv", old, new)
    edit(copy / "claims.csv", "19.43;3.13", "19.43;3.31")
    wrong = audit.audit(Reference(copy), FACTS)

    def apart(checks: pd.DataFrame, table: str) -> int:
        return ((checks["table"] == table) & (checks["verdict"] != CONSISTENT)).sum()

    for table in (*WRONG_DIGITS, "claim C10 (arc_table02)"):
        assert apart(wrong, table) > apart(published, table), table


# -------------------------------------------------------------------------------------- the command


def test_the_command_writes_what_does_not_agree_first(
    tmp_path: Path, published: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(["--tables", str(tmp_path)]) == 0
    written = pd.read_csv(tmp_path / "paper_audit.csv", keep_default_na=False)
    assert len(written) == len(published)
    ranks = [VERDICTS[::-1].index(verdict) for verdict in written["verdict"]]
    assert ranks == sorted(ranks)
    counts = published["verdict"].value_counts()
    assert f"{counts[INCONSISTENT]} inconsistent, {counts[AMBIGUOUS]} ambiguous" in capsys.readouterr().out
    assert "| consistent" not in (tmp_path / "paper_audit.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("arc_table01.csv", "arc,h200,16,4096,256", "rag_memory,h200,16,4096,256", "two rows of qwen3-8b, rag_memory"),
        ("vista_table07.csv", "vista,ours,38", "claude_code,ours,38", "two rows of claude_code"),
        ("claims.csv", "C50,vista", "C51,vista", "no rule for C51"),
        ("arc_table04.csv", "savings_pct", "saving_pct", "must be, in every row"),
        ("arc_table07.csv", "arc,16,8,991", "arx,16,8,991", "no row of"),
    ],
)
def test_tables_that_cannot_be_audited_get_one_line(
    copy: Path, file: str, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copy / file, old, new)
    assert audit.main(["--paper", str(copy), "--tables", str(copy / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (copy / "out").exists()


def test_a_fact_from_elsewhere_must_be_a_number(tmp_path: Path) -> None:
    file = tmp_path / "facts.yaml"
    file.write_text("always_c: many\ngaia_validation: 165\nmost_splits: 8\nleast_prompt_tokens: 1\n", "utf-8")
    with pytest.raises(ConfigError, match="always_c=many: must be a whole number"):
        Facts.read(file)
