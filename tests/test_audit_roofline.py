"""What the published costs imply: bounds that any calls keep, and rows whose figures were worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.audit_check import Facts
from analysis.audit_roofline import checks, decode_context_tokens, fewest_calls
from analysis.printed import Range
from analysis.reference import Reference
from analysis.roofline import Roofline, Switches
from analysis.roofline_facts import Hardware, ModelFacts

FACTS = Facts.read(Path(__file__).resolve().parent.parent / "conf/audit/paper.yaml")
CAP, WINDOW = 4096, {"qwen3-8b": 16384, "qwen3-32b": 32768}
CALL = st.tuples(st.floats(0, 1), st.integers(1, CAP))  # a share of the longest prompt, a reply


@given(st.sampled_from(sorted(WINDOW)), st.lists(st.lists(CALL, min_size=1, max_size=6), min_size=1, max_size=4))
def test_no_calls_are_fewer_than_the_least_that_they_imply(model: str, played: list[list[tuple[float, int]]]) -> None:
    window = WINDOW[model]
    calls = pd.DataFrame(
        [
            {"prompt_tokens": 1 + int(share * (window - CAP - 1)), "completion_tokens": reply, "task": str(i)}
            for i, episode in enumerate(played)
            for share, reply in episode
        ]
    ).assign(run_dir="run", billed="agent")
    roofline = Roofline(model=ModelFacts.read(model), hardware=Hardware.read("h200"), switches=Switches.read())
    means = roofline.episodes(calls).mean(numeric_only=True)
    traffic, q = means["decode_bytes"] / 1e12, means["decode_context_tokens"]
    implied = decode_context_tokens(roofline, Range.exactly(traffic), window)
    assert implied.low * (1 - 1e-9) <= q <= implied.high * (1 + 1e-9)
    # the batch is at least 51 at 16k, where weights are 13 % of what is read, and 8 at 32k, where they are 87 %
    assert implied.high / implied.low < {"qwen3-8b": 1.003, "qwen3-32b": 1.06}[model]
    least = fewest_calls(implied.low, Range.exactly(means["prompt_tokens"]), window=window, cap=CAP)
    assert 1 <= least <= means["n_calls"] * (1 + 1e-9)


def test_the_least_number_of_calls_by_hand() -> None:
    # a cap of 11 in a window of 100: a call adds at most 11 * (100 - 6) = 1,034 to Q and 89 to P
    assert fewest_calls(500.0, Range.exactly(80), window=100, cap=11) == 1
    assert fewest_calls(3102.0, Range.exactly(300), window=100, cap=11) == pytest.approx(300 / 89)
    assert fewest_calls(3102.0, Range.exactly(267), window=100, cap=11) == pytest.approx(3)
    # 11 tokens each at a prompt of 0: Q = 55 a call; so Q = 3,300 of P = 200 needs (300 - 200) / 5 = 20
    assert fewest_calls(3300.0, Range.exactly(200), window=100, cap=11) == pytest.approx(20)


def test_the_rows_that_need_more_calls_than_their_prompts_fill() -> None:
    found = list(checks(Reference(), FACTS))
    assert len(found) == 90  # all rows of the six tables
    odd = {(each.table, each.row) for each in found if each.verdict != "consistent"}
    assert odd == {("arc_table03", "qwen3-32b llm_summary"), ("arc_table03", "qwen3-32b rag_memory")}


def test_a_row_by_hand() -> None:
    (row,) = [c for c in checks(Reference(), FACTS) if (c.table, c.row) == ("arc_table03", "qwen3-32b rag_memory")]
    # Q: 357.825e12 / (262,144 * (1 + 65.52/75.48 * 9/8)) = 690.6e6 to 357.835e12 / (262,144 * 1.868) = 730.7e6
    # P: 2.455 to 2.465 s * 989e12 / (2 * 31.21e9) = 38,898 to 39,056
    # calls: (690.6e6 / 4096 - 39,056) / 2047.5 = 63.3
    assert row.recomputed == (
        "Q 690.6 to 730.7 M, P 38.9 to 39.06 k tokens; on average at least 63.3 calls, of at most 617 prompt tokens"
    )


def test_where_no_prefill_is_printed_it_is_what_decoding_leaves() -> None:
    (row,) = [c for c in checks(Reference(), FACTS) if (c.table, c.row) == ("arc_table13", "qwen3-8b arc")]
    # 1.009 s less 4.38 TB at 5.3 TB/s: 0.1826 s * 1300e12 / 13.9e9 = 17.1 k tokens
    low, high = map(float, re.findall(r"P ([\d.]+) to ([\d.]+) k", row.recomputed)[0])
    assert low <= (1.009 - 4.38 / 5.3) * 1300e12 / 13.9e9 / 1e3 <= high
    assert high - low < 0.35
