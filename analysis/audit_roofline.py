"""What the ARC paper's published costs imply under its own formula: decoded tokens times context, prompt tokens, calls.

From traffic follows ``Q = sum m_k L_k`` (but for the rounding of the batch), from prefill time the prompt tokens ``P``,
both means over successful episodes; Table 13 prints no prefill time, it is what decoding leaves of the total. No call
decodes more than the completion cap C, within the window W, so

- a call adds at most ``C * (W - (C + 1) / 2)`` to Q and ``W - C`` to P, and
- ``Q <= C * (P + n * (C - 1) / 2)`` for n calls.

All are linear, so they hold of means too, and each gives a least mean number of calls. Where they need so many that a
prompt would on average be smaller than what any prompt holds, the row is feasible only if prefill leaves tokens out, as
a prefix cache does. The switches are those of ``conf/roofline/paper.yaml``; memory kept for scratch would make Q
smaller, attention's FLOP would make P smaller.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit_arc import COST, name_of
from analysis.audit_check import AMBIGUOUS, ARITHMETIC, CONSISTENT, Check, Facts, Words, printed_rows
from analysis.printed import Range
from analysis.reference import Reference
from analysis.roofline import Roofline, Switches
from analysis.roofline_facts import Hardware, ModelFacts


def checks(reference: Reference, facts: Facts) -> Iterator[Check]:
    """One for each row of a table of cost."""
    switches = Switches.read()
    for table, key in COST.items():
        for row in printed_rows(reference, table, key):
            roofline = Roofline(
                model=ModelFacts.read(row["model"]), hardware=Hardware.read(row["hardware"]), switches=switches
            )
            yield _check(table, name_of(row, key), row, roofline, reference, facts.least_prompt_tokens)


def _check(
    table: str, name: str, row: Words, roofline: Roofline, reference: Reference, least_prompt_tokens: int
) -> Check:
    window = int(reference.parameter(f"arc.models.{row['model']}.context_window_tokens"))
    cap = int(reference.parameter("arc.serving.max_completion_tokens"))
    q = decode_context_tokens(roofline, Range.of(row["bandwidth_tb"]), window)
    prefill_s = _prefill_s(row, roofline.hardware)
    p = prefill_s.times(roofline.hardware.peak_flop_per_s / roofline.flop_per_prompt_token)
    calls = fewest_calls(q.low, p, window=window, cap=cap)
    prompt = p.high / calls
    feasible = prompt >= least_prompt_tokens
    return Check(
        table=table, row=name, quantity="what traffic and prefill imply", kind=ARITHMETIC,
        printed=f"{row['bandwidth_tb']} TB, {row.get('t_prefill_s') or prefill_s} s", tolerance="as printed",
        recomputed=f"Q {_millions(q)}, P {_thousands(p)} tokens; on average at least {calls:.1f} calls, of at most "
        f"{prompt:.0f} prompt tokens",
        verdict=CONSISTENT if feasible else AMBIGUOUS,
        why="calls of at most the completion cap can have decoded it" if feasible
        else f"with prompts of {least_prompt_tokens} tokens or more only if prefill leaves tokens out, as a cache does",
    )  # fmt: skip


def _prefill_s(row: Words, hardware: Hardware) -> Range:
    """Prefill time as printed, or what decoding leaves of the total."""
    if "t_prefill_s" in row:
        return Range.of(row["t_prefill_s"])
    return Range.of(row["t_total_s"]) - Range.of(row["bandwidth_tb"]).times(1e12 / hardware.bandwidth_bytes_per_s)


def decode_context_tokens(roofline: Roofline, traffic_tb: Range, window: int) -> Range:
    """Q: decoded tokens times their context, from traffic. Were the batch no whole number, traffic would be a constant
    times Q; rounding down a batch of at least B adds at most 1/B to the weights' part, and contexts within the window
    have the batch of the window or a larger one."""
    weights = roofline.read_bytes / roofline.kv_bytes
    rounded = weights * (1 + 1 / float(roofline.batch(window)))
    least, most = (roofline.kv_bytes_per_token * (1 + part) for part in (weights, rounded))
    return Range(1e12 * traffic_tb.low / most, 1e12 * traffic_tb.high / least)


def fewest_calls(q: float, prompt_tokens: Range, *, window: int, cap: int) -> float:
    """The least mean number of calls of at most ``cap`` tokens that can have decoded Q with so many prompt tokens."""
    by_window = q / (cap * (window - (cap + 1) / 2))
    by_volume = prompt_tokens.low / (window - cap)
    by_prompts = (q / cap - prompt_tokens.high) / ((cap - 1) / 2)
    return max(1.0, by_window, by_volume, by_prompts)


def _millions(value: Range) -> str:
    return f"{value.low / 1e6:.4g} to {value.high / 1e6:.4g} M"


def _thousands(value: Range) -> str:
    return f"{value.low / 1e3:.4g} to {value.high / 1e3:.4g} k"
