"""Checks of what the ARC paper says of cost, and in its appendices (``claims.csv``, C07 to C37)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from scipy import stats

from analysis import audit_arc
from analysis.audit_arc import BASELINE, MM, RECALL
from analysis.audit_check import Check, Words, by, printed_rows
from analysis.audit_claim import Claim, Rule
from analysis.audit_claims_arc import LARGE, LONGBENCH_COST, NEEDLE, NEEDLE_COST, SMALL, baselines, best, fisher, mean
from analysis.printed import HUNDRED, ONE, Range, short
from analysis.reference import Reference

NEEDLE_MI300X = "arc_table12"


# -------------------------------------------------------------------------------------------- cost


def saving(table: str, model: str | None = None) -> Rule:
    """C07, C08, C12: of ARC against the sliding window, in a table of one setting a model."""
    return savings("arc", table, MM, model)


def savings(method: str, table: str, key: tuple[str, ...], model: str | None = None) -> Rule:
    """C27, C30, C32: of a method against the sliding window in each setting, in the table's order."""

    def rule(claim: Claim, reference: Reference) -> Iterator[Check]:
        rows = [row for row in printed_rows(reference, table, key) if model in (None, row["model"])]
        base = {_setting(row, key): row for row in rows if row["method"] == BASELINE}
        own = [row for row in rows if row["method"] == method]
        readings = {
            name: [(ONE - Range.of(row[c]) / Range.of(base[_setting(row, key)][c])) * HUNDRED for row in own]
            for name, c in (("by traffic", "bandwidth_tb"), ("by time", "t_total_s"))
        }
        yield claim.reading(readings, "by traffic", "the words are of traffic")

    return rule


def _setting(row: Words, key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(row[column] for column in key if column != "method")


def speedups(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C28."""
    rows = by(printed_rows(reference, "arc_table09", RECALL), *RECALL)
    ratios = [
        Range.of(rows[(model, BASELINE, budget)]["t_total_s"]) / Range.of(row["t_total_s"])
        for (model, method, budget), row in rows.items() if method == "arc"
    ]  # fmt: skip
    yield claim.number(ratios, f"total time of {BASELINE} over ARC's")


def closest_traffic(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C29."""
    least: dict[str, tuple[float, str]] = {}
    for row in printed_rows(reference, "arc_table09", RECALL):
        if row["method"] != "arc":
            budget = f"{row['recall_budget_kchars']}k"
            least[budget] = min(least.get(budget, (math.inf, "")), (float(row["bandwidth_tb"]), row["method"]))
    told = "; ".join(f"{budget}: {method} {tb} TB" for budget, (tb, method) in least.items())
    holds = all(method == "rag_memory" for _, method in least.values())
    yield claim.statement(holds, told, "rag_memory has the least traffic of the baselines at each budget")


def costly_when_few(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C31."""
    rows = printed_rows(reference, "arc_table10", audit_arc.COST["arc_table10"])
    standard = ";".join(map(str, reference.parameter("arc.method.force_at_calls")))
    usual = {row["method"]: row for row in rows if row["force_at_calls"] == standard}
    forced = {row["method"]: row for row in rows if row["force_at_calls"] == "3;6;9;12;15" and row["method"] != "arc"}
    told = "; ".join(
        f"{method}: {usual[method]['t_total_s']} to {row['t_total_s']} s, {usual[method]['n_success']} to "
        f"{row['n_success']} passes"
        for method, row in forced.items()
    )
    holds = all(
        float(row["t_total_s"]) > float(usual[method]["t_total_s"])
        and int(row["n_success"]) < int(usual[method]["n_success"])
        for method, row in forced.items()
    )
    criterion = f"each baseline has fewer passes and more time than under {standard}"
    yield claim.statement(holds, told, criterion)


def growth(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C33."""
    rows = printed_rows(reference, "arc_table11", audit_arc.COST["arc_table11"])
    times: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["noise_lines_per_side"])):
        times.setdefault(row["method"], []).append(float(row["t_total_s"]))
    readings = {
        "seconds": {method: spent[-1] - spent[0] for method, spent in times.items()},
        "times": {method: spent[-1] / spent[0] for method, spent in times.items()},
    }
    told = "; ".join(f"{unit}: " + ", ".join(f"{m} {g:.3g}" for m, g in of.items()) for unit, of in readings.items())
    smallest = [min(of, key=lambda method: of[method]) == "arc" for of in readings.values()]
    holds = True if all(smallest) else None if any(smallest) else False
    yield claim.statement(holds, told, "ARC's growth from the smallest to the largest file is the least")


# ---------------------------------------------------------------------------------------- ablation


def _passes(reference: Reference, table: str) -> dict[tuple[str, str], list[int]]:
    """Passes by model and method, in ascending order of the recall budget."""
    rows = sorted(printed_rows(reference, table, RECALL), key=lambda row: int(row["recall_budget_kchars"]))
    made: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        made.setdefault((row["model"], row["method"]), []).append(int(row["n_success"]))
    return made


def _peaks(counts: list[int]) -> bool:
    return max(counts[1:-1]) > max(counts[0], counts[-1])


def inverted_u(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C22."""
    arc = {model: counts for (model, method), counts in _passes(reference, "arc_table08").items() if method == "arc"}
    told = "; ".join(f"{model}: {', '.join(map(str, counts))}" for model, counts in arc.items())
    yield claim.statement(all(map(_peaks, arc.values())), told, "more passes between the ends than at either end")


def no_peaks(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C23."""
    against = []
    for (model, method), counts in _passes(reference, "arc_table08").items():
        if method == "arc":
            continue
        rises = any(later > earlier for earlier, later in itertools.pairwise(counts))
        if _peaks(counts) or (method in ("sliding_window", "rag_memory") and rises):
            against.append(f"{model} {method} {', '.join(map(str, counts))}")
    criterion = "no baseline has more passes between the ends than at either; the two named ones never rise"
    yield claim.statement(not against, "; ".join(against) or "no counterexample", criterion)


def margin_at(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C24."""
    rows = by(printed_rows(reference, "arc_table08", RECALL), *RECALL)
    of = {method: Range.of(rows[(SMALL, method, "16")]["accuracy_pct"]) for _, method, _ in rows}
    second = best(baselines(of))
    yield claim.number([of["arc"] - of[second]], f"over the best other method there, {second}")


def _needle_margins(reference: Reference) -> list[Range]:
    rows = by(printed_rows(reference, "arc_table07", RECALL), *RECALL)
    margins = []
    for budget in dict.fromkeys(budget for *_, budget in rows):
        of = {method: Range.of(row["accuracy_pct"]) for (_, method, b), row in rows.items() if b == budget}
        others = baselines(of)
        margins.append(of["arc"] - others[best(others)])
    return margins


def needle_margins(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C26."""
    yield claim.number(_needle_margins(reference), "ARC over the best baseline of each budget")


def doubles(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C25."""
    low, next_low, high, next_high = _needle_margins(reference)
    ratio = mean(high, next_high) / mean(low, next_low)
    most = next_high / low if next_high.middle > high.middle else high / low
    told = f"{short(ratio.middle)} on average, at most {short(most.middle)}"
    criterion = "the larger budgets' mean margin over the smaller ones' rounds to 2"
    yield claim.statement(round(ratio.middle) == 2, told, criterion)


# ---------------------------------------------------------------------------------------- hardware


def _across(reference: Reference) -> dict[tuple[str, str], tuple[Words, Words]]:
    """The needle rows of the two devices, H200 first."""
    other = by(printed_rows(reference, NEEDLE_MI300X, MM), *MM)
    return {(row["model"], row["method"]): (row, other[(row["model"], row["method"])])
            for row in printed_rows(reference, NEEDLE, MM)}  # fmt: skip


def within_noise(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C34."""
    level = float(reference.parameter("arc.statistics.significance_level"))
    n = len(reference.parameter("arc.seeds"))
    pair = _across(reference)[(SMALL, "arc")]
    told = [value for row in pair for value in (float(row["accuracy_pct"]), float(row["accuracy_sd_pct"]), n)]
    welch = float(stats.ttest_ind_from_stats(*told, equal_var=False).pvalue)
    pooled = fisher(*pair)
    decided = {welch >= level, pooled >= level}
    yield claim.statement(
        decided.pop() if len(decided) == 1 else None,
        f"{pair[0]['accuracy_pct']} and {pair[1]['accuracy_pct']} %: Welch's t over {n} seeds p {welch:.2g}, Fisher's "
        f"exact test on pooled passes p {pooled:.2g}",
        f"neither test is below {level}",
    )


def higher_on_mi300x(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C35."""
    level = float(reference.parameter("arc.statistics.significance_level"))
    splits = audit_arc.splits_of(reference)
    usual = audit_arc.usual_reading(splits)
    rises, unclear = [], False
    for (model, method), pair in _across(reference).items():
        if model == SMALL and method != "arc":
            rise = Range.of(pair[1]["accuracy_pct"]) - Range.of(pair[0]["accuracy_pct"])
            before, after = (splits[(table, model, method)][usual] for table in (NEEDLE, NEEDLE_MI300X))
            apart = all(max(a) < min(b) for a in before for b in after)
            unclear |= not (rise.low > 0 and fisher(*pair) < level and apart)
            rises.append(f"{method} {rise.middle:+.2f}{'' if apart else ', seeds overlap'}")
    criterion = f"each is higher, Fisher's exact p is below {level}, and no seed of one reaches the other's"
    yield claim.statement(not unclear, "; ".join(rises), criterion)


def within_a_point(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C36."""
    apart = {
        method: abs(float(pair[1]["accuracy_pct"]) - float(pair[0]["accuracy_pct"]))
        for (model, method), pair in _across(reference).items() if model == LARGE
    }  # fmt: skip
    told = "; ".join(f"{method} {points:.2f}" for method, points in apart.items())
    yield claim.statement(
        all(round(points) <= 1 for points in apart.values()), told, "each difference rounds to 1 or 0"
    )


def capacity(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C37."""
    used = Range.exactly(float(reference.parameter("arc.roofline.h200.hbm_gb")))
    yield claim.number([used] * len(claim.parts), "one quantity in two places; the batch of the roofline rests on it")


RULES: Mapping[str, Rule] = {
    "C07": saving(LONGBENCH_COST, SMALL), "C08": saving(LONGBENCH_COST, LARGE), "C12": saving(NEEDLE_COST, SMALL),
    "C22": inverted_u, "C23": no_peaks, "C24": margin_at, "C25": doubles, "C26": needle_margins,
    "C27": savings("arc", "arc_table09", RECALL), "C28": speedups, "C29": closest_traffic,
    "C30": savings("rag_memory", "arc_table09", RECALL), "C31": costly_when_few,
    "C32": savings("arc", "arc_table11", audit_arc.COST["arc_table11"]), "C33": growth, "C34": within_noise,
    "C35": higher_on_mi300x, "C36": within_a_point, "C37": capacity,
}  # fmt: skip
