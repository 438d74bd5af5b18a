"""Checks of the VISTA paper's tables, each number from the primitives that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.audit_check import (
    AMBIGUOUS,
    ARITHMETIC,
    CONSISTENT,
    CONTRADICTION,
    CONVENTION,
    INCONSISTENT,
    Check,
    by,
    compared,
    printed_rows,
)
from analysis.printed import HUNDRED, ONE, Range, short
from analysis.reference import Reference

MAIN, COST, RUNS, SWEEP = "vista_table01", "vista_table02", "vista_table07", "vista_table09"


TASKS: Mapping[str, str] = {"loca_bench": "tasks", "browsecomp_plus": "queries", "gaia": "questions"}
"""Under which name the parameters have a benchmark's number of tasks."""


def whole_tasks(reference: Reference) -> Iterator[Check]:
    """Percentages of so many tasks: some whole number of them must give what is printed."""
    tasks = {name: int(reference.parameter(f"vista.benchmarks.{name}.{unit}")) for name, unit in TASKS.items()}
    places = [
        (MAIN, ("benchmark", "method")),
        ("vista_table03", ("regime", "method")),
        (SWEEP, ("method", "context_growth_ktokens")),
    ]
    for table, key in places:
        for row in printed_rows(reference, table, key):
            n = tasks[row["benchmark"]]
            printed = Range.of(row["accuracy_pct"])
            near = round(printed.middle * n / 100)
            fits = [k for k in (near - 1, near, near + 1) if printed.meets(Range.exactly(100 * k / n))]
            yield Check(
                table=table, row=" ".join(row[c] for c in key), quantity=f"accuracy % of {n} tasks",
                printed=row["accuracy_pct"],
                recomputed=", ".join(f"{k}/{n}" for k in fits) or f"no k/{n}; {near}/{n} is {100 * near / n:.2f}",
                tolerance=f"±{short(printed.half)}", verdict=CONSISTENT if fits else INCONSISTENT, kind=ARITHMETIC,
                why="one run of so many tasks, each right or wrong",
            )  # fmt: skip


def ledgers(reference: Reference) -> Iterator[Check]:
    """The run ledger against its own counts, and what the main table, the sweep and the cost table repeat."""
    main = by(printed_rows(reference, MAIN, ("benchmark", "method")), "benchmark", "method")
    runs = printed_rows(reference, RUNS, ("method",))
    for row in runs:
        share = Range.exactly(int(row["n_success"])) / Range.exactly(int(row["n_attempts"])) * HUNDRED
        yield compared(RUNS, row["method"], "accuracy %", row["accuracy_pct"], share, ARITHMETIC, "passes over tasks")
        if row["n_timeout"] and row["n_error"]:
            spent = sum(int(row[c]) for c in ("n_success", "n_timeout", "n_error"))
            yield Check(
                table=RUNS, row=row["method"], quantity="passes, timeouts and errors", printed=row["n_attempts"],
                recomputed=str(spent), tolerance="at most", kind=ARITHMETIC, why="each task ends in one way",
                verdict=CONSISTENT if spent <= int(row["n_attempts"]) else INCONSISTENT,
            )  # fmt: skip
        other = main[(row["benchmark"], row["method"])]
        why = "one run in two tables"
        yield compared(MAIN, row["method"], f"accuracy %, as in {RUNS}", other["accuracy_pct"],
                       Range.of(row["accuracy_pct"]), CONTRADICTION, why)  # fmt: skip
        millions = Range.of(other["trajectory_tokens_printed"].removesuffix("M"))
        what = f"million tokens, as in {MAIN}"
        yield compared(RUNS, row["method"], what, row["mean_tokens_m"], millions, CONTRADICTION, why)
    ledger = {row["method"]: row for row in runs}
    for row in printed_rows(reference, SWEEP, ("method", "context_growth_ktokens")):
        if row["context_growth_ktokens"] != "128":
            continue
        for column in ("accuracy_pct", "mean_steps", "mean_tokens_m"):
            yield compared(SWEEP, f"{row['method']} 128K", f"{column}, as in {RUNS}", row[column],
                           Range.of(ledger[row["method"]][column]), CONTRADICTION, "one run in two tables")  # fmt: skip


def pairs(reference: Reference) -> Iterator[Check]:
    """Table 8's pairs: all tasks, and the passes of both sides in the ledger."""
    ledger = {row["method"]: row for row in printed_rows(reference, RUNS, ("method",))}
    table = "vista_table08"
    for row in printed_rows(reference, table, ("method",)):
        cells = {name: int(row[name]) for name in ("n_both", "n_method_only", "n_vista_only", "n_neither")}
        total = Range.exactly(sum(cells.values()))
        of = ledger[row["method"]]["n_attempts"]
        yield compared(table, row["method"], "pairs", of, total, ARITHMETIC, "the sum of four cells")
        for method, own in ((row["method"], "n_method_only"), ("vista", "n_vista_only")):
            passes = Range.exactly(cells["n_both"] + cells[own])
            what, why = f"passes of {method}, as in {RUNS}", "passes of one run in two tables"
            yield compared(table, row["method"], what, ledger[method]["n_success"], passes, CONTRADICTION, why)


def costs(reference: Reference) -> Iterator[Check]:
    """Dollars from the token ledger, and its tokens against the main table."""
    price = {
        kind: Range.exactly(reference.parameter(f"vista.prices_usd_per_m_tokens.{kind}"))
        for kind in ("uncached_input", "cached_input", "output")
    }
    main = by(printed_rows(reference, MAIN, ("benchmark", "method")), "benchmark", "method")
    for row in printed_rows(reference, COST, ("method",)):
        tokens, output = Range.of(row["input_tokens_m"]), Range.of(row["output_tokens_m"])
        cached = Range.of(row["cache_rate_pct"]) / HUNDRED
        blended = cached * price["cached_input"] + (ONE - cached) * price["uncached_input"]
        dollars, why = tokens * blended + output * price["output"], "tokens at the stated prices"
        yield compared(COST, row["method"], "usd per task", row["cost_usd"], dollars, ARITHMETIC, why)
        printed = main[(row["benchmark"], row["method"])]["trajectory_tokens_printed"].removesuffix("M")
        why = "tokens of a task, input and output, in two tables"
        what = f"million tokens, as in {COST}"
        yield compared(MAIN, row["method"], what, printed, tokens + output, CONTRADICTION, why)


def gains(reference: Reference) -> Iterator[Check]:
    """Table 3's gains over the base model."""
    rows = printed_rows(reference, "vista_table03", ("regime", "method"))
    base = {row["regime"]: row for row in rows if row["method"] == "base"}
    for row in rows:
        if row["gain_pp"]:
            gain = Range.of(row["accuracy_pct"]) - Range.of(base[row["regime"]]["accuracy_pct"])
            name, why = f"{row['regime']} {row['method']}", "over the base model"
            yield compared("vista_table03", name, "gain, points", row["gain_pp"], gain, ARITHMETIC, why)


def domains(reference: Reference) -> Iterator[Check]:
    """Table 10's domains against Table 4: their plain mean, and whether any weights can give the overall score."""
    overall = {row["method"]: row for row in printed_rows(reference, "vista_table04", ("method",))}
    rows = printed_rows(reference, "vista_table10", ("method", "domain"))
    for method in dict.fromkeys(row["method"] for row in rows):
        for column in ("accuracy_fraction", "f1_fraction"):
            scores = [Range.of(row[column]) for row in rows if row["method"] == method]
            mean = Range(sum(s.low for s in scores) / len(scores), sum(s.high for s in scores) / len(scores))
            printed = Range.of(overall[method][column])
            within = Range(min(s.low for s in scores), max(s.high for s in scores))
            fits = printed.meets(mean)
            yield Check(
                table="vista_table04", row=method, quantity=f"{column}, mean of {len(scores)} domains",
                printed=overall[method][column], recomputed=f"{mean} unweighted; {within} for any weights",
                tolerance=f"±{short(printed.half)}", kind=CONVENTION,
                verdict=CONSISTENT if fits else AMBIGUOUS if printed.meets(within) else INCONSISTENT,
                why="how the overall score is made; the sizes of the domains are not stated",
            )  # fmt: skip


def checks(reference: Reference) -> Iterator[Check]:
    """All of them."""
    yield from whole_tasks(reference)
    yield from ledgers(reference)
    yield from pairs(reference)
    yield from costs(reference)
    yield from gains(reference)
    yield from domains(reference)
