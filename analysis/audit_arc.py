"""Checks of the ARC paper's tables, each number from the primitives that the paper prints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from analysis import paired
from analysis.audit_check import (
    AMBIGUOUS,
    ARITHMETIC,
    CONCLUSION,
    CONSISTENT,
    CONTRADICTION,
    CONVENTION,
    INCONSISTENT,
    Check,
    Facts,
    Words,
    by,
    by_convention,
    compared,
    printed_rows,
    usual_of,
)
from analysis.paired import Counts
from analysis.printed import HUNDRED, ONE, Range, short
from analysis.reference import Reference
from analysis.seed_splits import seed_splits

MM = ("model", "method")
ACCURACY: Mapping[str, tuple[str, ...]] = {"arc_table01": MM, "arc_table02": MM, "arc_table12": MM}
RECALL = ("model", "method", "recall_budget_kchars")
ABLATION: Mapping[str, tuple[str, ...]] = {"arc_table07": RECALL, "arc_table08": RECALL}
COST: Mapping[str, tuple[str, ...]] = {
    "arc_table03": MM, "arc_table04": MM, "arc_table09": RECALL, "arc_table10": (*MM, "force_at_calls"),
    "arc_table11": (*MM, "noise_lines_per_side"), "arc_table13": MM,
}  # fmt: skip
PAIRS = ("model", "method_a", "method_b")
_SHOWN_AS_ZERO = 1e-5
_LEAST_P = 1e-300
BASELINE = "sliding_window"


def name_of(row: Words, key: tuple[str, ...]) -> str:
    """A row as it is called in the audit."""
    return " ".join(row[column] for column in key)


def whole(text: str) -> Range:
    """A printed count: a whole number."""
    return Range.exactly(int(text))


# --------------------------------------------------------------------------------------- accuracy


def accuracies(reference: Reference) -> Iterator[Check]:
    """Percentages, means over seeds, the two printed accuracies, and the sums of passes and fails."""
    seeds = Range.exactly(len(reference.parameter("arc.seeds")))
    for table, key in ACCURACY.items():
        for row in printed_rows(reference, table, key):
            name = name_of(row, key)
            if "mean_n_success" not in row:
                continue
            mean = whole(row["n_success"]) / seeds
            yield compared(table, name, "mean pass", row["mean_n_success"], mean, ARITHMETIC, "passes over seeds")
            for ours, theirs, what in (
                ("accuracy_pct", "combined_accuracy_pct", "mean accuracy"),
                ("accuracy_sd_pct", "combined_accuracy_sd_pct", "SD"),
            ):
                printed = Range.of(row[ours])
                why = "one quantity in two columns of a row"
                yield compared(table, name, f"{what}, the second time", row[theirs], printed, CONTRADICTION, why)
    for table, key in ABLATION.items():
        for row in printed_rows(reference, table, key):
            tasks = reference.parameter(f"arc.benchmarks.ablation_tasks.{row['benchmark']}")
            name, n = name_of(row, key), whole(row["n_success"]) + whole(row["n_fail"])
            yield compared(table, name, "pass and fail", str(tasks), n, ARITHMETIC, "all tasks of a setting")
            share = whole(row["n_success"]) / n * HUNDRED
            yield compared(table, name, "accuracy %", row["accuracy_pct"], share, ARITHMETIC, "passes over tasks")


Splits = dict[str, list[tuple[int, ...]]]
"""By reading of how a row was made: the counts by seed, in ascending order, that give what it prints."""
READINGS: Mapping[str, tuple[int, bool]] = {  # degrees of freedom less than seeds; percentages of seeds rounded first
    "sample SD": (1, False),
    "population SD": (0, False),
    "sample SD of percentages rounded to 0.1": (1, True),
    "population SD of percentages rounded to 0.1": (0, True),
}
_PERCENT_DECIMALS = 1


def recovered(row: Mapping[str, str], sd_column: str, n_seeds: int) -> Splits:
    """The counts by seed that give the printed passes, mean accuracy and SD. The order of seeds cannot be known."""
    total, tasks = int(row["n_success"]), int(row["n_attempts"]) // n_seeds
    mean, sd = Range.of(row["accuracy_pct"]), Range.of(row[sd_column])
    # a population SD of s allows a count to be s * sqrt(n - 1) from the mean; rounding moves each by half a step
    reach = math.ceil((sd.high * math.sqrt(n_seeds - 1) + 10.0**-_PERCENT_DECIMALS) * tasks / 100) + 1
    low, high = max(0, total // n_seeds - reach), min(tasks, total // n_seeds + reach)
    heads = np.array(list(itertools.combinations_with_replacement(range(low, high + 1), n_seeds - 1)))
    splits = np.column_stack([heads, total - heads.sum(axis=1)])
    splits = splits[(splits[:, -1] >= splits[:, -2]) & (splits[:, -1] <= tasks)]
    found: Splits = {}
    for name, (less, rounded) in READINGS.items():
        shares = 100 * splits / tasks
        if rounded:
            shares = shares.round(_PERCENT_DECIMALS)
        fits = mean.around(shares.mean(axis=1)) & sd.around(shares.std(axis=1, ddof=less))
        found[name] = [tuple(split) for split in splits[fits].tolist()]
    return found


def sd_columns(row: Mapping[str, str]) -> list[str]:
    """The columns in which a row prints its SD; one of those that print the same."""
    columns = [column for column in ("accuracy_sd_pct", "combined_accuracy_sd_pct") if column in row]
    return list({row[column]: column for column in reversed(columns)}.values())[::-1]


def splits_of(reference: Reference) -> dict[tuple[str, str, str], Splits]:
    """Counts by seed of each row of the tables over seeds, by table, model and method; from the SD that gives some."""
    n_seeds = len(reference.parameter("arc.seeds"))
    return {
        (table, row["model"], row["method"]): max(
            (recovered(row, column, n_seeds) for column in sd_columns(row)),
            key=lambda splits: sum(map(bool, splits.values())),
        )
        for table, key in ACCURACY.items()
        for row in printed_rows(reference, table, key)
    }


def usual_reading(splits: Mapping[tuple[str, str, str], Splits]) -> str:
    """The reading under which most rows have counts by seed."""
    return max(READINGS, key=lambda name: sum(bool(each[name]) for each in splits.values()))


def over_seeds(reference: Reference, usual: str, most_splits: int) -> Iterator[Check]:
    """Mean accuracies and SDs over seeds: which whole counts by seed give them, and how they were computed."""
    n_seeds = len(reference.parameter("arc.seeds"))
    for table, key in ACCURACY.items():
        for row in printed_rows(reference, table, key):
            for column in sd_columns(row):
                splits = recovered(row, column, n_seeds)
                fitting = [name for name, found in splits.items() if found]
                told = "; ".join(f"{name}: {_listed(splits[name], most_splits)}" for name in fitting)
                yield Check(
                    table=table, row=name_of(row, key), quantity=f"mean and SD over seeds ({column})",
                    printed=f"{row['accuracy_pct']} ± {row[column]}",
                    recomputed=told or "no whole counts by seed give both",
                    tolerance=f"±{short(Range.of(row['accuracy_pct']).half)}, ±{short(Range.of(row[column]).half)}",
                    verdict=CONSISTENT if usual in fitting else AMBIGUOUS if fitting else INCONSISTENT, kind=CONVENTION,
                    why=f"most rows have counts by seed under the {usual}; passes over all attempts give "
                    f"{100 * int(row['n_success']) / int(row['n_attempts']):.2f} %",
                )  # fmt: skip


def _listed(splits: list[tuple[int, ...]], most: int) -> str:
    return ", ".join("/".join(map(str, split)) for split in splits) if len(splits) <= most else f"{len(splits)} splits"


def same_by_seed(reference: Reference, splits: Mapping[tuple[str, str, str], Splits], usual: str) -> Iterator[Check]:
    """The ablations' standard setting is one seed of the main tables: is its count one of those by seed?"""
    standard = str(reference.parameter("arc.method.recall_budget_chars") // 1000)
    for main, ablation in (("arc_table02", "arc_table07"), ("arc_table01", "arc_table08")):
        for row in printed_rows(reference, ablation, RECALL):
            found = splits.get((main, row["model"], row["method"]), {}).get(usual)
            if row["recall_budget_kchars"] != standard or not found:
                continue
            counts = sorted({count for split in found for count in split})
            yield Check(
                table=ablation, row=name_of(row, RECALL), quantity=f"passes, against {main} by seed",
                printed=row["n_success"], tolerance="", kind=CONTRADICTION, recomputed=", ".join(map(str, counts)),
                verdict=CONSISTENT if int(row["n_success"]) in counts else INCONSISTENT,
                why="the same method in the same setting: one of its seeds",
            )  # fmt: skip


def against_constant(reference: Reference, always_c: int) -> Iterator[Check]:
    """LongBench-v2 rows beside always answering C."""
    tasks = reference.parameter("arc.benchmarks.longbench_v2_hard.tasks_per_seed")
    level = 100 * always_c / tasks
    for row in printed_rows(reference, "arc_table01", MM):
        above = Range.of(row["accuracy_pct"]).low > level
        yield Check(
            table="arc_table01", row=name_of(row, MM), quantity="accuracy % against always answering C",
            printed=row["accuracy_pct"], recomputed=f"{level:.2f} ({always_c} of {tasks})", tolerance="",
            verdict=CONSISTENT if above else AMBIGUOUS, kind=CONCLUSION,
            why="above what the letter C alone scores" if above else "not above what the letter C alone scores, so the "
            "figure by itself shows no reading of the document",
        )  # fmt: skip


def margins(reference: Reference) -> Iterator[Check]:
    """The table without a number, from Table 8."""
    rows = printed_rows(reference, "arc_table08", RECALL)
    for row in printed_rows(reference, "arc_recall_budget_margin", ("model", "recall_budget_kchars")):
        name = f"{row['model']} {row['recall_budget_kchars']}k"
        setting = {
            each["method"]: each for each in rows
            if (each["model"], each["recall_budget_kchars"]) == (row["model"], row["recall_budget_kchars"])
        }  # fmt: skip
        arc = setting.pop("arc")
        best = max(setting.values(), key=lambda each: int(each["n_success"]))
        tied = [method for method, each in setting.items() if each["n_success"] == best["n_success"]]
        leader = row["runner_up_method"] in tied
        second = row["runner_up_method"]
        tables = "arc_recall_budget_margin"
        yield Check(
            table=tables, row=name, quantity="runner-up", printed=second, tolerance="", kind=CONTRADICTION,
            recomputed=f"{' and '.join(tied)} ({best['accuracy_pct']})", verdict=CONSISTENT if leader else INCONSISTENT,
            why="which method ARC is set against: the runner-up has the most passes of the others in Table 8",
        )  # fmt: skip
        gap = whole(arc["n_success"]) - whole(best["n_success"])
        n = whole(arc["n_success"]) + whole(arc["n_fail"])
        why = "the margin over the runner-up of Table 8"
        yield compared(tables, name, "margin, points", row["margin_pp"], gap / n * HUNDRED, CONTRADICTION, why)


# ------------------------------------------------------------------------------------------- cost


def costs(reference: Reference) -> Iterator[Check]:
    """Sums of times, traffic over bandwidth, savings and speed-ups against the sliding window of the same setting."""
    for table, key in COST.items():
        rows = printed_rows(reference, table, key)
        base = {tuple(row[c] for c in key if c != "method"): row for row in rows if row["method"] == BASELINE}
        cases = []
        for row in rows:
            of = base[tuple(row[c] for c in key if c != "method")]
            cases.append((row["savings_pct"], _savings(row, of)))
        usual = usual_of(cases)
        for row, (printed, readings) in zip(rows, cases, strict=True):
            name = name_of(row, key)
            if "t_decode_s" in row:
                total = Range.of(row["t_decode_s"]) + Range.of(row["t_prefill_s"])
                yield compared(table, name, "total time, s", row["t_total_s"], total, ARITHMETIC, "decode and prefill")
                speed = reference.parameter(f"arc.roofline.{row['hardware']}.hbm_bandwidth_tb_s")
                decode = Range.of(row["bandwidth_tb"]).times(1 / speed)
                why = f"traffic over {speed} TB/s, as the paper defines it"
                yield compared(table, name, "decode time, s", row["t_decode_s"], decode, ARITHMETIC, why)
            why = f"by {usual}, as in most of the rows; the text speaks of traffic"
            yield by_convention(table, name, "savings %", printed, readings, usual, CONVENTION, why)
            if "speedup_x" in row:
                of = base[tuple(row[c] for c in key if c != "method")]
                ratio = Range.of(of["t_total_s"]) / Range.of(row["t_total_s"])
                yield compared(table, name, "speed-up", row["speedup_x"], ratio, ARITHMETIC, "ratio of total times")


def _savings(row: Words, base: Words) -> Mapping[str, Range]:
    def saved(column: str) -> Range:
        if row is base:
            return Range.exactly(0.0)
        return (ONE - Range.of(row[column]) / Range.of(base[column])) * HUNDRED

    return {"time": saved("t_total_s"), "traffic": saved("bandwidth_tb")}


def twice(reference: Reference) -> Iterator[Check]:
    """Quantities that two cost tables print: the standard setting of each ablation, and Table 4."""
    standard = {
        "arc_table09": ("recall_budget_kchars", str(reference.parameter("arc.method.recall_budget_chars") // 1000)),
        "arc_table10": ("force_at_calls", ";".join(map(str, reference.parameter("arc.method.force_at_calls")))),
        "arc_table11": ("noise_lines_per_side", str(reference.parameter("arc.needle_harness.noise_lines_per_side"))),
    }
    first = by(printed_rows(reference, "arc_table04", MM), *MM)
    passes = by(printed_rows(reference, "arc_table07", RECALL), *RECALL)
    recall = standard["arc_table09"][1]
    for table, (column, value) in standard.items():
        for row in printed_rows(reference, table, COST[table]):
            name = name_of(row, COST[table])
            setting = row["recall_budget_kchars"] if table == "arc_table09" else recall
            if table == "arc_table09" or row[column] == value:
                other = passes[(row["model"], row["method"], setting)]["n_success"]
                why = "passes of one setting in two tables"
                yield compared(table, name, "passes, as in Table 7", row["n_success"], whole(other), CONTRADICTION, why)
            if row[column] != value:
                continue
            for quantity in ("t_total_s", "t_decode_s", "t_prefill_s", "bandwidth_tb", "savings_pct"):
                printed = first[(row["model"], row["method"])][quantity]
                yield compared(
                    "arc_table04", f"{row['model']} {row['method']}", f"{quantity}, as in {table}", printed,
                    Range.of(row[quantity]), CONTRADICTION, "one quantity in two tables",
                )  # fmt: skip


# ---------------------------------------------------------------------------------------- McNemar


def _paired_rows(reference: Reference) -> Iterator[tuple[str, str, Words, Counts]]:
    """Rows of Tables 5 and 6: table, the row's name, the row, its cells."""
    for table in ("arc_table05", "arc_table06"):
        for row in printed_rows(reference, table, PAIRS):
            counts = Counts(**{cell: int(row[cell]) for cell in ("n_a_only", "n_b_only", "n_both", "n_neither")})
            yield table, name_of(row, PAIRS), row, counts


def mcnemar(reference: Reference, most_splits: int) -> Iterator[Check]:
    """Tables 5 and 6: sums and statistics."""
    seeds = len(reference.parameter("arc.seeds"))
    for table, name, row, counts in _paired_rows(reference):
        pairs = str(reference.parameter(f"arc.statistics.pairs.{row['benchmark']}"))
        yield compared(table, name, "pairs", pairs, Range.exactly(counts.n), ARITHMETIC, "the sum of four cells")
        yield from _tests(table, name, row, counts, seeds, most_splits)


def populations(reference: Reference) -> Iterator[Check]:
    """Of what Tables 5 and 6 are: completions (attempts less those without an answer) or correct answers."""
    seeds = len(reference.parameter("arc.seeds"))
    main = {"arc_table05": "arc_table01", "arc_table06": "arc_table02"}
    accuracy = {table: by(printed_rows(reference, of, MM), *MM) for table, of in main.items()}
    for table, name, row, counts in _paired_rows(reference):
        for method, wins in ((row["method_a"], counts.n_a_only), (row["method_b"], counts.n_b_only)):
            own = accuracy[table][(row["model"], method)]
            unanswered = Range.of(own["mean_no_answer"]).times(seeds)
            readings = {
                "completed": Range.exactly(int(own["n_attempts"])) - unanswered,
                "correct": whole(own["n_success"]),
            }
            why = f"successes of {method} in the pairs against {main[table]}: completions, as the caption has it"
            yield by_convention(
                table,
                name,
                f"successes of {method}",
                str(counts.n_both + wins),
                readings,
                "completed",
                CONTRADICTION,
                why,
            )


def _tests(table: str, name: str, row: Words, counts: Counts, n_seeds: int, most_splits: int) -> Iterator[Check]:
    why = f"with continuity correction; 0.0 stands for a p below {_SHOWN_AS_ZERO:g}"
    yield compared(
        table, name, "chi-square p", row["p_chi2"], Range.exactly(paired.chi_square(counts).p), ARITHMETIC, why,
        stands_for=Range(0.0, _SHOWN_AS_ZERO) if row["p_chi2"] == "0.0" else None,
    )  # fmt: skip
    one, two = paired.exact_one_sided(counts), paired.exact_two_sided(counts)
    readings = {
        side: Range.exactly(0.0 if row["p_exact"] == "0.0" and p.p < _LEAST_P else p.p)
        for side, p in (("one-sided", one), ("two-sided", two))
    }
    why = "the sidedness is not stated; 0.0 stands for a p below 1e-300, which has no short form"
    yield by_convention(table, name, "exact p", row["p_exact"], readings, "one-sided", CONVENTION, why)
    ratio = Range.exactly(math.inf if not counts.n_b_only else counts.n_a_only / counts.n_b_only)
    yield compared(table, name, "odds ratio", row["odds_ratio"], ratio, ARITHMETIC, "A only over B only")
    if row["per_seed_odds_mean"] in ("", "inf"):
        return
    used, decimals = int(row["n_discordant_seeds"]), 2
    sd = float(row["per_seed_odds_sd"]) if row["per_seed_odds_sd"] and used > 1 else None
    found = seed_splits(
        n_a_only=counts.n_a_only, n_b_only=counts.n_b_only, mean=float(row["per_seed_odds_mean"]), sd=sd, n_used=used,
        n_seeds=n_seeds, ddof=1, decimals=min(decimals, len(row["per_seed_odds_mean"].partition(".")[2])),
    )  # fmt: skip
    yield Check(
        table=table, row=name, quantity="mean and SD of the odds by seed", tolerance="as printed", kind=ARITHMETIC,
        printed=f"{row['per_seed_odds_mean']} ± {row['per_seed_odds_sd']} over {used} seeds",
        recomputed=_splits_told(found, most_splits) or "no whole counts by seed give it",
        verdict=CONSISTENT if found else INCONSISTENT,
        why="whether counts by seed exist that give both (sample SD); seeds in which B never wins alone are left out",
    )  # fmt: skip


def _splits_told(splits: list[tuple[tuple[int, int], ...]], most: int) -> str:
    """A only over B only of each seed."""
    if len(splits) > most:
        return f"{len(splits)} splits"
    return ", ".join(" ".join(f"{won}/{lost}" for won, lost in split) for split in splits)


def checks(reference: Reference, facts: Facts) -> Iterator[Check]:
    """All of them."""
    yield from accuracies(reference)
    splits = splits_of(reference)
    usual = usual_reading(splits)
    yield from over_seeds(reference, usual, facts.most_splits)
    yield from same_by_seed(reference, splits, usual)
    yield from against_constant(reference, facts.always_c)
    yield from margins(reference)
    yield from costs(reference)
    yield from twice(reference)
    yield from mcnemar(reference, facts.most_splits)
    yield from populations(reference)
