"""The declared tables of cost: hand-made records in, cells worked out by hand out."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_arc_tables import LONGBENCH, made, play, the  # noqa: F401

from analysis import arc_tables

# at (15,884 + 500) = (15,384 + 1,000) = 16,384 tokens of mean context the batch is 51, and a token of Qwen3-8B costs
# 16.38e9 / 51 + 16,384 * 147,456 = 2.7370956e9 bytes
TOKEN_BYTES = 2.7370955745882354e9
SHORT, LONG = (15884, 1001), (15384, 2001)


def cost(calls: tuple[int, int]) -> tuple[float, float, float]:
    """Traffic in TB, decode and prefill in seconds on the H200."""
    prompt, reply = calls
    return reply * TOKEN_BYTES / 1e12, reply * TOKEN_BYTES / 4.8e12, 2 * 6.95e9 * prompt / 989e12


def near(value: str, wanted: float) -> bool:
    return float(value) == pytest.approx(wanted, rel=1e-5, abs=6e-7)  # the CSV has six decimals


def test_cost_over_successes_beside_the_paper_s(tmp_path, made):  # noqa: F811
    # of arc's episodes only the right one counts; the wrong one cost more
    play(tmp_path / "runs", "arc", "cw", "cw", "cw", calls={"c": [SHORT], "w": [LONG]})
    play(tmp_path / "runs", "sliding_window", "cc", "cc", "cc", calls=[LONG])
    table, said = made("arc_table04")
    row = the(table, model="qwen3-8b", profile="paper", method="arc")
    tb, decode, prefill = cost(SHORT)
    assert near(row.bandwidth_tb, tb)
    assert near(row.t_decode_s, decode)
    assert near(row.t_prefill_s, prefill)
    assert near(row.t_total_s, decode + prefill)
    assert row.n_episodes == "3"
    # what it follows from: 1,001 tokens at 16,384
    assert (row.mean_calls, row.mean_prompt_tokens, row.mean_decode_tokens) == ("1.0", "15884.0", "1001.0")
    assert (row.mean_decode_context_mtokens2, row.mean_batch) == ("16.400384", "51.0")
    base = cost(LONG)
    assert near(row.savings_pct, 100 * (1 - (decode + prefill) / (base[1] + base[2])))
    assert near(row.savings_traffic_pct, 100 * (1 - 1001 / 2001))
    assert near(row.speedup_x, (base[1] + base[2]) / (decode + prefill))
    assert (row.t_total_s_paper, row.bandwidth_tb_paper) == ("1.26", "4.87")
    assert near(row.t_total_s_difference, decode + prefill - 1.26)
    assert "savings_traffic_pct_paper" not in table
    assert "computed from token counts, not measured: means over successful episodes" in said


def test_cost_over_all_episodes(tmp_path, made):  # noqa: F811
    play(tmp_path / "runs", "arc", "cwe", "cwn", "cwn", calls={"c": [SHORT], "w": [LONG], "n": [LONG], "e": [LONG]})
    play(tmp_path / "runs", "sliding_window", "nn", "nn", "nn", calls=[LONG])
    successes, _ = made("arc_table04")
    never = the(successes, model="qwen3-8b", profile="paper", method="sliding_window")
    assert (never.n_episodes, never.t_total_s, never.savings_pct) == ("0", "", "")
    table, _ = made("arc_table04", "arc_table04_all")
    row = the(table, model="qwen3-8b", profile="paper", method="arc")
    assert row.n_episodes == "8"  # 3 right, 3 wrong, 2 without an answer; an error is none
    assert near(row.bandwidth_tb, (3 * cost(SHORT)[0] + 5 * cost(LONG)[0]) / 8)
    base = the(table, model="qwen3-8b", profile="paper", method="sliding_window")
    assert near(base.bandwidth_tb, cost(LONG)[0])
    assert base.savings_pct == "0.0"
    assert not [column for column in table if column.endswith("_paper")]


def test_a_method_that_the_paper_leaves_out_of_its_costs_has_one(tmp_path, made):  # noqa: F811
    # as on LongBench-v2 in the paper, full_context never succeeds
    play(tmp_path / "runs", "full_context", "nn", "nn", "nn", calls=[SHORT], **LONGBENCH)
    play(tmp_path / "runs", "sliding_window", "cc", "cc", "cc", calls=[LONG], **LONGBENCH)
    never = the(made("arc_table03")[0], model="qwen3-8b", method="full_context")
    assert (never.state, never.n_episodes, never.t_total_s, never.t_total_s_paper) == ("complete", "0", "", "")
    row = the(made("arc_table03", "arc_table03_all")[0], model="qwen3-8b", method="full_context")
    assert row.n_episodes == "6"
    assert near(row.bandwidth_tb, cost(SHORT)[0])
    assert near(row.savings_traffic_pct, 100 * (1 - 1001 / 2001))


@pytest.mark.parametrize(
    ("name", "point", "setting", "paper"),
    [
        ("arc_table03", {"profile": None}, LONGBENCH, "3.99"),
        ("arc_table09", {"recall_budget_kchars": "16"}, {}, "1.256"),
        ("arc_table10_cost", {"force_at_calls": "5"}, {"budget_force_at_calls": [5]}, "1.314"),
        ("arc_table11_cost", {"noise_lines_per_side": "5"}, {"harness_noise_lines_per_side": 5}, "0.769"),
    ],
)
def test_every_table_of_cost_comes_out(tmp_path, made, name, point, setting, paper):  # noqa: F811
    seeds = (42, 82, 122) if name == "arc_table03" else (42,)
    for method, calls in {"arc": [SHORT], "sliding_window": [LONG]}.items():
        play(tmp_path / "runs", method, *["cc"] * len(seeds), seeds=seeds, calls=calls, **setting)
    table, _ = made(name)
    where = {"profile": "paper"} | point
    row = the(table, model="qwen3-8b", method="arc", **{key: value for key, value in where.items() if value})
    tb, decode, prefill = cost(SHORT)
    assert (row.state, row.t_total_s_paper) == ("complete", paper)
    assert near(row.bandwidth_tb, tb)
    if "speedup_x" in table:
        base = cost(LONG)
        assert near(row.speedup_x, (base[1] + base[2]) / (decode + prefill))


def test_another_device_is_another_roofline(tmp_path, made):  # noqa: F811
    amd = [{"engine": {"device": "AMD Instinct MI300X"}}]
    play(tmp_path / "runs", "arc", "cc", seeds=(42,), calls=[SHORT], sessions=amd)
    row = the(made("arc_table13")[0], model="qwen3-8b", profile="paper", method="arc")
    # (192 - 16.38) GB / (16,384 * 147,456 B) = 72.7: 72 together, at 5.3 TB/s
    traffic = 1001 * (16.38e9 / 72 + 16384 * 147456)
    assert near(row.bandwidth_tb, traffic / 1e12)
    assert near(row.t_total_s, traffic / 5.3e12 + 2 * 6.95e9 * 15884 / 1300e12)
    assert near(row.t_prefill_s, 2 * 6.95e9 * 15884 / 1300e12)
    assert row.t_total_s_paper == "1.009"


def test_a_model_has_its_own_roofline_and_no_figures_of_the_paper(tmp_path, made):  # noqa: F811
    for method in ("arc", "sliding_window"):
        fields = {"model": "smollm2-135m", "budget": "smollm2", "window": 8192}
        play(tmp_path / "runs", method, "cc", "cc", "cc", calls=[(1000, 101)], **fields)
    row = the(made("arc_table04")[0], model="smollm2-135m", profile="paper", method="arc")
    # 269,030,016 bytes of weights, 23,040 a token: 140.73e9 / (1,050 * 23,040) = 5817 together
    assert near(row.bandwidth_tb, 101 * (269030016 / 5817 + 1050 * 23040) / 1e12)
    assert (row.t_total_s_paper, row.savings_pct) == ("", "0.0")


def test_a_model_without_facts_has_rows_without_cost(tmp_path, made):  # noqa: F811
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", calls=[SHORT], model="other-7b", budget="tiny")
    table, said = made("arc_table04")
    assert the(table, model="other-7b", profile="paper", method="arc").t_total_s == ""
    assert "other-7b has no cost: model=other-7b: must be one of" in said


def test_the_reader_is_charged_as_the_model_whose_budget_it_had(tmp_path, made):  # noqa: F811
    fields = {"engine": "scripted", "model": "scripted"}
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", calls=[SHORT], **fields)
    table, said = made("arc_table04", "mechanism_arc_table04")
    assert near(the(table, profile="paper", method="arc").bandwidth_tb, cost(SHORT)[0])
    assert "No language model took part" in said


def test_a_record_without_token_counts_gets_one_line(tmp_path, capsys):
    folders = play(tmp_path / "runs", "arc", "cc", "cc", "cc", calls=[(None, 5)])
    args = ["arc_table04", "--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
    assert arc_tables.main(args) == 2
    error = capsys.readouterr().err
    assert "prompt_tokens of a call of needle/122/0 is not recorded; must be a count" in error
    assert any(str(folder) in error for folder in folders)
    assert error.count("\n") == 1


def test_scratch_that_leaves_no_room_gets_one_line(tmp_path, capsys):
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", calls=[SHORT])
    switches = tmp_path / "switches.yaml"
    text = Path("conf/roofline/paper.yaml").read_text("utf-8")
    switches.write_text(text.replace("scratch_bytes: 0", "scratch_bytes: 130.0e+9"))
    args = ["arc_table04", "--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]
    assert arc_tables.main([*args, "--roofline", str(switches)]) == 2
    assert "scratch_bytes=1.3e+11: must be below the 124.62 GB" in capsys.readouterr().err


def test_methods_that_make_calls_of_their_own_are_charged_for_them(tmp_path, made):  # noqa: F811
    play(tmp_path / "runs", "llm_summary", "cc", "cc", "cc", calls=[SHORT, (*SHORT, "method")])
    row = the(made("arc_table04")[0], model="qwen3-8b", profile="paper", method="llm_summary")
    assert near(row.bandwidth_tb, 2 * cost(SHORT)[0])


@pytest.fixture
def cached(tmp_path):
    """Switches under which a prefix cache serves what it holds."""
    switches = tmp_path / "switches.yaml"
    text = Path("conf/roofline/paper.yaml").read_text("utf-8")
    assert "prefill: uncached " in text
    switches.write_text(text.replace("prefill: uncached ", "prefill: cached "))
    return str(switches)


# two calls, the second with the first's message and another: of its 160 tokens 100 are shared, 6 blocks of 16
MESSAGES = [{"role": "user", "content": "a", "tokens": 100}, {"role": "user", "content": "b", "tokens": 60}]
FIRST, SECOND = (100, 10), (160, 10)


@pytest.mark.parametrize(("recorded", "served"), [((0, 128), 128), ((0, None), 96)])
def test_what_a_prefix_cache_serves_is_not_prefilled(tmp_path, made, cached, recorded, served):  # noqa: F811
    calls = [(*FIRST, "agent", recorded[0], (0,)), (*SECOND, "agent", recorded[1], (0, 1))]
    play(tmp_path / "runs", "arc", "cc", "cc", "ce", calls=calls, record={"messages": MESSAGES})
    table, said = made("arc_table04", "", "--roofline", cached)
    row = the(table, model="qwen3-8b", profile="paper", method="arc")
    assert near(row.t_prefill_s, 2 * 6.95e9 * (260 - served) / 989e12)
    assert row.mean_prompt_tokens == "260.0"
    assert ("modelled where a call does not say: qwen3-8b arc" in said) == (served == 96)


def test_a_base_that_decoded_nothing_saves_nothing_of_traffic(tmp_path, made):  # noqa: F811
    play(tmp_path / "runs", "sliding_window", "cc", "cc", "cc", calls=[(1000, 0)])
    play(tmp_path / "runs", "arc", "cc", "cc", "cc", calls=[SHORT])
    row = the(made("arc_table04")[0], model="qwen3-8b", profile="paper", method="arc")
    assert row.savings_traffic_pct == ""


def test_savings_are_against_the_same_setting(tmp_path, made):  # noqa: F811
    fields = {"model": "smollm2-135m", "budget": "smollm2", "window": 8192}
    for share, replies in ((1.0, 100), (0.5, 50)):
        for method in ("arc", "sliding_window"):
            calls = [(1000, replies if method == "sliding_window" else 25)]
            play(tmp_path / "runs", method, "cc", "cc", "cc", calls=calls, budget_compact_to_share=share, **fields)
    table, _ = made("arc_table04")
    rows = table[(table["model"] == "smollm2-135m") & (table["profile"] == "paper") & (table["method"] == "arc")]
    saved = {row.setting: round(float(row.savings_traffic_pct)) for row in rows.itertuples()}
    # of 100 and of 50 tokens, 25 are left
    assert saved == {"compact_to_share=1.0": 76, "compact_to_share=0.5": 51}
