"""Checks of what the VISTA paper says of its own tables (``claims.csv``, C38 to C50)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from analysis import audit_vista, paired
from analysis.audit_check import CONSISTENT, INCONSISTENT, Check, Facts, Words, by, printed_rows
from analysis.audit_claim import Claim, Rule
from analysis.audit_vista import COST, MAIN, RUNS, SWEEP
from analysis.paired import Counts
from analysis.printed import HUNDRED, Range
from analysis.reference import Reference


def _main(reference: Reference, benchmark: str) -> dict[str, Words]:
    """The main table's rows of a benchmark by method."""
    rows = printed_rows(reference, MAIN, ("benchmark", "method"))
    return {row["method"]: row for row in rows if row["benchmark"] == benchmark}


def _by_method(reference: Reference, table: str) -> dict[str, Words]:
    return {row["method"]: row for row in printed_rows(reference, table, ("method",))}


def solved(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C38."""
    runs, main = _by_method(reference, RUNS), _main(reference, "loca_bench")
    names = ("vista", "react", "claude_code")
    yield claim.number([Range.exactly(int(runs[name]["n_success"])) for name in names], f"passes in {RUNS}")
    tasks = Range.exactly(int(reference.parameter("vista.benchmarks.loca_bench.tasks")))
    shares = [Range.of(main[name]["accuracy_pct"]) / HUNDRED * tasks for name in names]
    yield claim.number(shares, f"accuracy in {MAIN} times the tasks")


def tokens_of_claude_code(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C39."""
    printed = _main(reference, "loca_bench")["claude_code"]["trajectory_tokens_printed"]
    ledger = _by_method(reference, COST)["claude_code"]
    found = {
        MAIN: Range.of(printed.removesuffix("M")),
        RUNS: Range.of(_by_method(reference, RUNS)["claude_code"]["mean_tokens_m"]),
        COST: Range.of(ledger["input_tokens_m"]) + Range.of(ledger["output_tokens_m"]),
    }
    for table, value in found.items():
        yield claim.number([value], f"tokens in {table}, input and output")


def dollars(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C40."""
    names = ("active_context_compression", "vista", "react", "claude_code")
    rows = _by_method(reference, COST)
    yield claim.number([Range.of(rows[name]["cost_usd"]) for name in names], f"as in {COST}")


def more_tokens_than_react(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C41."""
    rows = _main(reference, "browsecomp_plus")
    vista, react = (int(rows[name]["trajectory_tokens"]) for name in ("vista", "react"))
    yield claim.statement(vista > react, f"vista {vista}, react {react}", "more tokens a task in the main table")


def _sweep(reference: Reference, column: str) -> dict[int, tuple[Range, Range]]:
    """VISTA's and react's values by growth of the context, in thousand tokens."""
    rows = by(printed_rows(reference, SWEEP, ("method", "context_growth_ktokens")), "context_growth_ktokens", "method")
    growths = sorted({int(growth) for growth, _ in rows})
    return {
        growth: (Range.of(rows[(str(growth), "vista")][column]), Range.of(rows[(str(growth), "react")][column]))
        for growth in growths
    }


def gain_grows(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C42."""
    gains = {growth: vista - react for growth, (vista, react) in _sweep(reference, "accuracy_pct").items()}
    values = [gain.middle for gain in gains.values()]
    steps = [later > earlier for earlier, later in itertools.pairwise(values)]
    told = "; ".join(f"{growth}K {gain.middle:+.1f}" for growth, gain in gains.items())
    holds = True if all(steps) else None if values[-1] > values[0] else False
    yield claim.statement(holds, told, "each step larger; undecided where only the last exceeds the first")


def less_overhead(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C43."""
    tokens = _sweep(reference, "mean_tokens_m")
    told = "; ".join(f"{growth}K {vista.middle} and {react.middle} M" for growth, (vista, react) in tokens.items())
    lower = all(vista.high < react.low for vista, react in tokens.values())
    yield claim.statement(lower, told, "fewer tokens a task at every growth; tokens in view are not printed")


def same_order(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C44."""
    rows = printed_rows(reference, "vista_table03", ("regime", "method"))
    orders: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: -float(row["accuracy_pct"])):
        orders.setdefault(row["regime"], []).append(row["method"])
    told = "; ".join(f"{regime}: {', '.join(methods)}" for regime, methods in orders.items())
    first, *others = orders.values()
    yield claim.statement(all(other == first for other in others), told, "one order by accuracy under both regimes")


def quarter_of_the_time(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C45."""
    rows = _by_method(reference, "vista_table04")
    own, other = rows["vista"], rows["ama_agent"]
    ratio = Range.of(own["runtime_s_per_episode"]) / Range.of(other["runtime_s_per_episode"])
    behind = Range.of(other["accuracy_fraction"]) - Range.of(own["accuracy_fraction"])
    yield claim.number([ratio, behind], "vista over ama_agent, and how far it is behind")


def domains_average(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C46."""
    checks = list(audit_vista.domains(reference))
    verdicts = {check.verdict for check in checks}
    told = "; ".join(f"{check.row} {check.printed} against {check.recomputed}" for check in checks)
    holds = True if verdicts == {CONSISTENT} else False if INCONSISTENT in verdicts else None
    criterion = "the plain mean of the domains rounds to the overall score; undecided where other weights could"
    yield claim.statement(holds, told, criterion)


def ablations(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C47."""
    main = _main(reference, "loca_bench")
    tasks = Range.exactly(int(reference.parameter("vista.benchmarks.loca_bench.tasks")))

    def of(method: str) -> Range:
        return Range.of(main[method]["accuracy_pct"]) / HUNDRED * tasks

    events = "vista.ablation_events"
    said = [
        Range.exactly(int(reference.parameter(f"{events}.{name}_success"))) for name in ("no_archive", "no_dashboard")
    ]
    readings = {
        MAIN: [of("vista_no_recovery"), of("vista_no_dashboard"), of("vista")],
        "the ablations' own text": [*said, of("vista")],
    }
    why = f"{MAIN} has a row without recovery ({main['vista_no_recovery']['accuracy_pct']} %), none without an archive"
    yield claim.reading(readings, MAIN, why)


def outperforms(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C48."""
    level = float(reference.parameter("arc.statistics.significance_level"))
    row = _by_method(reference, "vista_table08")["claude_code"]
    cells = {"n_a_only": "n_vista_only", "n_b_only": "n_method_only", "n_both": "n_both", "n_neither": "n_neither"}
    counts = Counts(**{cell: int(row[column]) for cell, column in cells.items()})
    p = paired.exact_two_sided(counts).p
    ahead = counts.n_a_only > counts.n_b_only
    yield claim.statement(
        False if not ahead else True if p < level else None,
        f"{counts.n_a_only} of {counts.n} tasks by vista alone, {counts.n_b_only} by claude_code alone; p {p:.3f}",
        f"more tasks, and the two-sided exact test on the pairs below {level}; undecided where only the first holds",
    )


def total_budget(claim: Claim, reference: Reference) -> Iterator[Check]:
    """C49."""
    budget = int(reference.parameter("vista.benchmarks.browsecomp_plus.total_budget_B_tokens"))
    above = {
        method: row["trajectory_tokens_printed"] for method, row in _main(reference, "browsecomp_plus").items()
        if Range.of(row["trajectory_tokens_printed"].removesuffix("K")).low * 1000 > budget
    }  # fmt: skip
    told = "; ".join(f"{method} {tokens}" for method, tokens in above.items()) or "none"
    yield claim.statement(not above, f"above it on average: {told}", f"no method's mean tokens exceed {budget}")


def subset_of_gaia(questions: int) -> Rule:
    """C50; the split has so many ``questions``."""

    def rule(claim: Claim, reference: Reference) -> Iterator[Check]:
        used = int(reference.parameter("vista.benchmarks.gaia.questions"))
        yield claim.number([Range.exactly(used)], "questions of the setup")
        found = f"{used} used, {questions} in the split"
        yield claim.statement(used < questions, found, "a subset has fewer questions than the split")

    return rule


def rules(facts: Facts) -> Mapping[str, Rule]:
    """By claim."""
    return {
        "C38": solved, "C39": tokens_of_claude_code, "C40": dollars, "C41": more_tokens_than_react, "C42": gain_grows,
        "C43": less_overhead, "C44": same_order, "C45": quarter_of_the_time, "C46": domains_average,
        "C47": ablations, "C48": outperforms, "C49": total_budget, "C50": subset_of_gaia(facts.gaia_validation),
    }  # fmt: skip
