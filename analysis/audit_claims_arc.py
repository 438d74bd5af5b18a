"""Checks of what the ARC paper says of its own tables (``claims.csv``, C01 to C37).

Those of its appendices, and of cost, are in :mod:`analysis.audit_claims_arc_appendix`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from scipy import stats

from analysis import audit_arc
from analysis.audit_arc import BASELINE, MM
from analysis.audit_check import CONSISTENT, Check, Words, by, printed_rows
from analysis.audit_claim import Claim, Rule
from analysis.printed import Range
from analysis.reference import Reference

LONGBENCH, NEEDLE = "arc_table01", "arc_table02"
LONGBENCH_COST, NEEDLE_COST = "arc_table03", "arc_table04"
LONGBENCH_PAIRS, NEEDLE_PAIRS = "arc_table05", "arc_table06"
SMALL, LARGE = MODELS = ("qwen3-8b", "qwen3-32b")
FULL = "full_context"


# ---------------------------------------------------------------------------------------- accuracy


def scores(reference: Reference, table: str, model: str) -> dict[str, Range]:
    """Accuracies of a model by method."""
    rows = [row for row in printed_rows(reference, table, MM) if row["model"] == model]
    return {row["method"]: Range.of(row["accuracy_pct"]) for row in rows}


def baselines(of: Mapping[str, Range]) -> dict[str, Range]:
    """All but ARC's."""
    return {method: value for method, value in of.items() if method != "arc"}


def best(of: Mapping[str, Range]) -> str:
    """The name of the highest."""
    return max(of, key=lambda name: of[name].middle)


def mean(*values: Range) -> Range:
    """Of several ranges."""
    return Range(sum(v.low for v in values) / len(values), sum(v.high for v in values) / len(values))


def mean_of_arc(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C01, C03."""
    value = mean(*(scores(reference, claim.follows_from, model)["arc"] for model in MODELS))
    yield claim.number([value], "the figure of the abstract")


def mean_of_best(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C02, C04."""
    by_model = [baselines(scores(reference, claim.follows_from, model)) for model in MODELS]
    of_method = {method: mean(*(each[method] for each in by_model)) for method in by_model[0]}
    readings = {
        f"one baseline, the best on average ({best(of_method)})": [of_method[best(of_method)]],
        f"the best of each model ({' and '.join(map(best, by_model))})": [mean(*(e[best(e)] for e in by_model))],
    }
    why = "the figure of the abstract; the words are of one baseline over both models"
    yield claim.reading(readings, next(iter(readings)), why)


def gain_over_best(model: str) -> Rule:
    """C05, C06."""

    def rule(claim: Claim, reference: Reference) -> Iterator[Check]:
        of = scores(reference, claim.follows_from, model)
        others = baselines(of)
        yield claim.number([of["arc"] - others[best(others)]], f"over {best(others)}")

    return rule


def gain_over_rag(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C10."""
    of = [scores(reference, NEEDLE, model) for model in MODELS]
    yield claim.number([each["arc"] - each["rag_memory"] for each in of], "over the strongest baseline")


def only_arc(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C09."""
    found: dict[str, list[str]] = {}
    for table, cost in ((LONGBENCH, LONGBENCH_COST), (NEEDLE, NEEDLE_COST)):
        costs = by(printed_rows(reference, cost, MM), *MM)
        for model in MODELS:
            of, base = scores(reference, table, model), costs[(model, BASELINE)]
            found[f"{table} {model}"] = [
                method for method, score in of.items() if score.low > of[BASELINE].high
                and method in {m for _, m in costs} and _all_below(costs[(model, method)], base)
            ]  # fmt: skip
    told = "; ".join(f"{place}: {', '.join(methods) or 'none'}" for place, methods in found.items())
    criterion = f"no other method has more accuracy, less traffic and a shorter decode than {BASELINE}, in any setting"
    yield claim.statement(all(methods == ["arc"] for methods in found.values()), told, criterion)


def _all_below(row: Words, base: Words) -> bool:
    return all(Range.of(row[c]).high < Range.of(base[c]).low for c in ("bandwidth_tb", "t_decode_s"))


def lowest_sd(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C11."""
    rows = printed_rows(reference, NEEDLE, MM)
    lowest = {m: min((float(r["accuracy_sd_pct"]), r["method"]) for r in rows if r["model"] == m) for m in MODELS}
    told = "; ".join(f"{model}: {method} {sd}" for model, (sd, method) in lowest.items())
    yield claim.statement(all(method == "arc" for _, method in lowest.values()), told, "ARC has the lowest SD")


def full_context_at_32b(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C13."""
    yield claim.number([scores(reference, NEEDLE, LARGE)[FULL]], "one quantity in text and table")


def closest_margins(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C14."""
    small, large = (scores(reference, LONGBENCH, model) for model in MODELS)
    margins = [small["arc"] - small["llm_summary"], large["arc"] - large["sliding_window"]]
    yield claim.number(margins, "the ends of the stated range against the two margins that it is of")


def weaker_margins(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C15."""
    weakest, weaker = [], []
    for model in MODELS:
        of = scores(reference, LONGBENCH, model)
        others = {name: score for name, score in baselines(of).items() if name != FULL}
        margins = sorted((of["arc"] - score for score in others.values()), key=lambda margin: margin.middle)
        weakest.append(margins[-1])
        weaker += margins[1:]
    readings = {
        "all but the closest of each model": _ends(weaker),
        "the weakest of each model": _ends(weakest),
    }
    why = "how far ARC is ahead; full_context, which never answers, is left out"
    yield claim.reading(readings, next(iter(readings)), why)


def _ends(values: list[Range]) -> list[Range]:
    return [choose(values, key=lambda value: value.middle) for choose in (min, max)]


def no_answers(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C16."""
    rows = [row for row in printed_rows(reference, LONGBENCH, MM) if row["method"] not in ("arc", FULL)]
    counts = [Range.of(row["mean_no_answer"]) for row in rows]
    readings = {
        "rounded": _ends(counts),
        "cut to whole numbers": [Range.exactly(math.floor(value.middle)) for value in _ends(counts)],
    }
    yield claim.reading(readings, "rounded", "without full_context, which has 311; the lower end is cut, not rounded")


# ------------------------------------------------------------------------------------------- pairs


def all_pairs_won(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C17."""
    rows = [row for row in printed_rows(reference, LONGBENCH_PAIRS, audit_arc.PAIRS) if row["method_b"] == FULL]
    told = "; ".join(f"{row['model']}: {row['n_a_only']} won, {row['n_neither']} by neither" for row in rows)
    pairs = str(reference.parameter("arc.statistics.pairs.longbench_v2_hard"))
    yield claim.statement(all(row["n_a_only"] == pairs for row in rows), told, f"{pairs} of {pairs} pairs are won")


def more_accurate(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C18."""
    level = float(reference.parameter("arc.statistics.significance_level"))
    completions = all(check.verdict == CONSISTENT for check in audit_arc.populations(reference))
    unpaired = {}
    for table in (LONGBENCH, NEEDLE):
        rows = by(printed_rows(reference, table, MM), *MM)
        for model, method in rows:
            if method != "arc":
                p = fisher(rows[(model, "arc")], rows[(model, method)])
                unpaired[f"{model} {method} in {table}"] = p
    above = {name: p for name, p in unpaired.items() if p >= level}
    told = ", ".join(f"{name} (p {p:.2g})" for name, p in sorted(above.items(), key=lambda item: -item[1]))
    tested = "the pairs are completions, not correct answers" if completions else "the pairs are not completions"
    yield claim.statement(
        None if completions and above else not above,
        f"{tested}; by accuracy, unpaired, not below {level}: {told or 'none'}",
        f"a test of accuracy gives p < {level} for each; Fisher's exact test on pooled passes, since pairs on "
        "correctness are not printed",
    )


def fisher(one: Words, other: Words) -> float:
    """Fisher's exact p, two-sided, on the pooled passes of two rows."""
    table = [[int(r["n_success"]), int(r["n_attempts"]) - int(r["n_success"])] for r in (one, other)]
    return float(stats.fisher_exact(table).pvalue)


def _pairs(reference: Reference, model: str) -> dict[str, Words]:
    """Table 5's rows against baselines that answer."""
    rows = printed_rows(reference, LONGBENCH_PAIRS, audit_arc.PAIRS)
    return {row["method_b"]: row for row in rows if row["model"] == model and row["method_b"] != FULL}


def baseline_wins(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C19."""
    ends = [
        Range.exactly(choose(int(row["n_b_only"]) for row in _pairs(reference, model).values()))
        for model in MODELS for choose in (min, max)
    ]  # fmt: skip
    yield claim.number(ends, "least and most of each model; full_context, which never answers, has none")


def odds_range(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C20."""
    odds = [Range.of(row["odds_ratio"]) for model in MODELS for row in _pairs(reference, model).values()]
    yield claim.number(_ends(odds), "least and most; against full_context there is none")


def weakest_odds(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C21."""
    lowest = {}
    for model in MODELS:
        rows = _pairs(reference, model)
        lowest[model] = sorted(rows, key=lambda method: float(rows[method]["odds_ratio"]))[:2]
    told = "; ".join(f"{model}: {' and '.join(methods)}" for model, methods in lowest.items())
    named = {"sliding_window", "structured_state"}
    yield claim.statement(all(set(two) == named for two in lowest.values()), told, "the two lowest of each model")


RULES: Mapping[str, Rule] = {
    "C01": mean_of_arc, "C02": mean_of_best, "C03": mean_of_arc, "C04": mean_of_best,
    "C05": gain_over_best(SMALL), "C06": gain_over_best(LARGE), "C09": only_arc, "C10": gain_over_rag,
    "C11": lowest_sd, "C13": full_context_at_32b, "C14": closest_margins, "C15": weaker_margins, "C16": no_answers,
    "C17": all_pairs_won, "C18": more_accurate, "C19": baseline_wins, "C20": odds_range, "C21": weakest_odds,
}  # fmt: skip
