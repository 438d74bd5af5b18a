"""Two sets of runs, task by task: ``python -m analysis.compare A B``.

``A`` and ``B`` are each a folder below which runs are read, or a log of another suite (an Inspect ``.eval`` or
``.json``, an lm-evaluation-harness ``samples_*.jsonl``). Their outcomes are paired by task and seed, seeds pooled,
and compared twice, in a table of its own each: on *completion* (an answer was submitted and accepted, right or
wrong) and on *correctness*. Exit status 2, with one line on standard error, when they cannot be paired.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import foreign, paired, render, settings
from analysis import paired_effect as effect
from analysis.accuracy import SCRIPTED
from analysis.flips import Flips, flips, noise
from analysis.paired import Counts, Item, P, Pairs
from analysis.paired_effect import Interval
from analysis.render import DASH, Sheet, number
from analysis.rows import differing
from analysis.settings import CONF
from analysis.sides import Outcome, Side, read
from arcbench.checks import share, whole
from arcbench.records import RunError
from arcbench.types import ConfigError

PAIRED = CONF / "statistics/paired.yaml"
_NOT_DIFFERENT = ("seed", "n_tasks", "concurrency", "results_dir", "run_dir", "protocol")
_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How the tables are computed (``conf/statistics/paired.yaml`` says what each number is)."""

    level: float
    alpha: float
    power: float
    resamples: int
    resampling_seed: int

    def __post_init__(self) -> None:
        for key in ("level", "alpha", "power"):
            if share(key, getattr(self, key)) == 1:
                raise ConfigError(f"{key}=1: must be below 1")
        whole("resamples", self.resamples, 1)
        whole("resampling_seed", self.resampling_seed, 0)

    @classmethod
    def read(cls, path: Path) -> Statistics:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        return cls(**settings.read(path, [field.name for field in fields(cls)]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.compare", description="Two sets of runs, or logs of other suites, task by task."
    )
    parser.add_argument("a", type=Path, help="a folder with runs, or a .eval, .json or .jsonl log")
    parser.add_argument("b", type=Path, help="what it is compared with; a difference is A less B")
    parser.add_argument("--common", action="store_true", help="compare the tasks that both have an outcome for")
    parser.add_argument("--score", nargs="+", metavar="NAME", help="which score of a log is read; a second one is B's")
    parser.add_argument("--filter", nargs="+", metavar="NAME", help="which lm_eval filter is read; a second one is B's")
    parser.add_argument("--threshold", type=float, help="scores from here on are correct")
    parser.add_argument("--cluster-by", metavar="FIELD", help="metadata or fact that tasks of one cluster share")
    parser.add_argument("--settings", type=Path, default=PAIRED, help="numbers of the statistics")
    parser.add_argument("--tables", type=Path, help="folder that the tables are also written to, as compare_<outcome>")
    args = parser.parse_args(argv)
    try:
        statistics = Statistics.read(args.settings)
        sides = [
            read(
                path,
                foreign.Choice(
                    score=_nth(args.score, i, "--score"),
                    filter=_nth(args.filter, i, "--filter"),
                    threshold=args.threshold,
                    cluster_by=args.cluster_by,
                ),
            )
            for i, path in enumerate((args.a, args.b))
        ]
        for sheet in sheets(sides[0], sides[1], common=args.common, statistics=statistics):
            print(render.markdown(sheet))
            for path in render.write(sheet, args.tables) if args.tables else ():
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def _nth(names: list[str] | None, i: int, option: str) -> str | None:
    if names and len(names) > 2:
        raise ConfigError(f"{option} {' '.join(names)}: at most two, A's and B's")
    return None if names is None else names[min(i, len(names) - 1)]


# ---------------------------------------------------------------------------------------- comparing


def sheets(a: Side, b: Side, *, common: bool, statistics: Statistics) -> list[Sheet]:
    """The table on completion and the one on correctness. Raises :class:`ConfigError` when the two sides must not
    be compared: two versions of the protocol, the scripted engine against a model, unequal task sets (unless
    ``common``), a task twice, or ids that do not mean the same thing."""
    protocols = {**a.protocols, **b.protocols}
    if len(protocols) > 1:
        found = " and ".join(f"{protocol} in {folder}" for protocol, folder in sorted(protocols.items()))
        raise ConfigError(f"{a.path} and {b.path}: protocols {found} in one table; run one of them again")
    scripted = [side for side in (a, b) if SCRIPTED in side.engines]
    if scripted and any(side.engines != {SCRIPTED} for side in (a, b)):
        raise ConfigError(
            f"{a.path} and {b.path}: the scripted engine is no model, its outcomes never stand beside one's"
        )
    _same_tasks(a, b)
    used, left_out = _in_common(a, b) if common else ((a, b), [])
    notes = [*a.notes, *b.notes, *left_out, *_settings_note(a, b)]
    lead = tuple(_about(label, side) for label, side in (("A", a), ("B", b)))
    questions: tuple[tuple[str, Callable[[Outcome], bool]], ...] = (
        ("completion", lambda outcome: outcome.completed),
        ("correctness", lambda outcome: outcome.correct),
    )
    return [
        _sheet(name, _paired(*used, succeeded), lead, bool(scripted), notes, statistics)
        for name, succeeded in questions
    ]


def _paired(a: Side, b: Side, succeeded: Callable[[Outcome], bool]) -> Pairs:
    first, second = (
        [
            Item(outcome.task, succeeded(outcome), outcome.seed, outcome.cluster)
            for outcome in sorted(side.outcomes, key=lambda outcome: (outcome.seed, outcome.task))
        ]
        for side in (a, b)
    )
    try:
        return paired.pair(first, second, names=(str(a.path), str(b.path)))
    except ConfigError as fault:
        holes = "; ".join(f"{side.path} has {side.holes()}" for side in (a, b) if side.holes())
        advice = "run what is owed, or pass --common to compare what both have"
        raise ConfigError(f"{fault}{f' ({holes})' if holes else ''}; {advice}") from None


def _in_common(a: Side, b: Side) -> tuple[tuple[Side, Side], list[str]]:
    """Both sides without the tasks that only one has an outcome for, and what to say of those."""
    seeded = any(len({outcome.seed for outcome in side.outcomes}) > 1 for side in (a, b))

    def key(outcome: Outcome) -> tuple[str, int]:
        return (outcome.task, outcome.seed if seeded else 0)

    shared = {key(outcome) for outcome in a.outcomes} & {key(outcome) for outcome in b.outcomes}
    if not shared:
        raise ConfigError(f"{a.path} and {b.path} have no task in common")
    first, second = (
        replace(side, outcomes=tuple(outcome for outcome in side.outcomes if key(outcome) in shared)) for side in (a, b)
    )
    alone = [len(side.outcomes) - len(kept.outcomes) for side, kept in ((a, first), (b, second))]
    line = f"Compared are {len(shared)} that both have; {alone[0]} outcomes of A and {alone[1]} of B are left out."
    return (first, second), [line] if any(alone) else []


def _same_tasks(a: Side, b: Side) -> None:
    """Refuse ids that name another question on the other side, as far as the logs tell."""
    prints = {outcome.task: outcome.fingerprint for outcome in a.outcomes if outcome.fingerprint}
    for outcome in b.outcomes:
        there = prints.get(outcome.task)
        same_suite = there and there.partition(":")[0] == outcome.fingerprint.partition(":")[0]
        if same_suite and there != outcome.fingerprint:
            raise ConfigError(f"{a.path} and {b.path}: {outcome.task} is not the same question in the two logs")


def _settings_note(a: Side, b: Side) -> Iterator[str]:
    """What the two were run with and differ in, so that nobody takes one cause for another."""
    if not (a.settings and b.settings):
        return
    names = sorted(n for n in differing([*a.settings, *b.settings]) if n.rpartition(".")[2] not in _NOT_DIFFERENT)
    names = [name for name in names if not name.startswith("method.")] + (
        ["method.*"] if any(name.startswith("method.") for name in names) else []
    )
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"The runs differ in {', '.join(names[:_LISTED])}{more}."


# ----------------------------------------------------------------------------------------- the table


def _sheet(
    name: str, pairs: Pairs, lead: tuple[str, ...], scripted: bool, notes: list[str], statistics: Statistics
) -> Sheet:
    counts, clusters, seeds = pairs.counts(), pairs.by_cluster(), pairs.by_seed()
    repeated = clusters.repeated()
    rows, level = _Rows(statistics.level), statistics.level
    rows.count("pairs", "n_pairs", counts.n)
    for label, column, value in (
        ("both", "n_both", counts.n_both),
        ("A only", "n_a_only", counts.n_a_only),
        ("B only", "n_b_only", counts.n_b_only),
        ("neither", "n_neither", counts.n_neither),
    ):
        rows.count(label, column, value)
    if repeated:
        rows.count("clusters", "n_clusters", len(clusters.n))
    rows.percent("A, %", "a_pct", int(pairs.a.sum()) / counts.n if counts.n else None)
    rows.percent("B, %", "b_pct", int(pairs.b.sum()) / counts.n if counts.n else None)
    rows.percent("difference A - B, points", "difference_pp", counts.difference)
    if not repeated:
        rows.interval("  Newcombe, paired", "newcombe", effect.newcombe(counts, level=level))
        rows.interval("  Tango", "tango", effect.tango(counts, level=level))
    else:
        bootstrap = effect.cluster_bootstrap(
            clusters, level=level, resamples=statistics.resamples, seed=statistics.resampling_seed
        )
        rows.interval("  cluster bootstrap", "bootstrap", bootstrap)
        rows.interval("  Newcombe, pairs as independent", "newcombe", effect.newcombe(counts, level=level))
        rows.interval("  Tango, pairs as independent", "tango", effect.tango(counts, level=level))
    if not scripted:
        _tests(rows, counts, pairs)
    odds = effect.odds_ratio(counts)
    limits = effect.odds_ratio_interval(counts, level=level)
    rows.value("odds ratio, A only / B only", "odds_ratio", odds, "undefined" if odds is None else number(odds))
    rows.limits("  exact", "odds_ratio", limits, 1.0)
    if len(seeds) > 1:
        per_seed = effect.seed_odds(seeds.values())
        rows.value("odds ratio by seed, mean", "per_seed_odds_mean", per_seed.mean, number(per_seed.mean))
        rows.value("  SD", "per_seed_odds_sd", per_seed.sd, number(per_seed.sd))
        rows.value("  seeds used", "n_seeds_used", per_seed.n_used, f"{per_seed.n_used} of {per_seed.n_seeds}")
    inflation = effect.design_effect(clusters)
    if repeated:
        rows.value("design effect", "design_effect", inflation, number(inflation))
    shown = effect.smallest_difference(
        n=counts.n / inflation,
        discordance=counts.n_discordant / counts.n if counts.n else 0.0,
        alpha=statistics.alpha,
        power=statistics.power,
    )
    if not scripted:
        label = f"smallest difference shown at {100 * statistics.power:.0f} % power, points"
        rows.percent(label, "smallest_difference_pp", shown)
    again = None if scripted else _again(pairs)  # what is not sampled never turns out otherwise
    if again:
        rows.percent("A against A under other seeds, % flipped", "a_flips_pct", again[0].rate)
        rows.percent("B against B under other seeds, % flipped", "b_flips_pct", again[1].rate)
        within = noise(again[0].rate, again[1].rate, n=counts.n, level=level)
        rows.percent(f"difference by sampling alone, {100 * level:.0f} %, ± points", "noise_pp", within)
    return Sheet(
        name=f"compare_{name}",
        title=f"A against B on {name}",
        lead=lead,
        data=pd.DataFrame([{"outcome": name} | rows.data]),
        body=pd.DataFrame(rows.body).drop(columns=["p", "log10 p"] if scripted else []),
        text_columns=frozenset({"quantity"}),
        notes=(*_notes(name, repeated, scripted, bool(again), statistics), *notes),
    )


def _again(pairs: Pairs) -> tuple[Flips, Flips] | None:
    """Each side against itself, where the same tasks stand under several seeds."""
    a, b = (flips(pairs.ids, pairs.clusters, successes) for successes in (pairs.a, pairs.b))
    return (a, b) if a and b else None


def _tests(rows: _Rows, counts: Counts, pairs: Pairs) -> None:
    clusters = pairs.by_cluster()
    if clusters.repeated():
        rows.test("clustered McNemar, Durkalski", "durkalski", paired.durkalski(clusters))
        rows.test("clustered McNemar, Obuchowski", "obuchowski", paired.obuchowski(clusters))
        rows.test("cluster sign-flip, exact", "sign_flip", paired.sign_flip(clusters))
    rows.test("McNemar, continuity-corrected", "chi2", paired.chi_square(counts))
    rows.test("exact, two-sided", "exact_two_sided", paired.exact_two_sided(counts))
    rows.test("exact, one-sided (A better)", "exact_one_sided", paired.exact_one_sided(counts))
    rows.test("mid-p", "mid_p", paired.mid_p(counts))


class _Rows:
    """The table a reader sees, one quantity a row, and beside it the same as one row of numbers."""

    def __init__(self, level: float) -> None:
        self.level = level
        """Of the intervals."""
        self.body: list[dict[str, str]] = []
        self.data: dict[str, Any] = {}

    def value(self, label: str, column: str, value: float | None, text: str) -> None:
        self._add(label, text)
        self.data[column] = value

    def count(self, label: str, column: str, value: int) -> None:
        self.value(label, column, value, str(value))

    def percent(self, label: str, column: str, fraction: float | None) -> None:
        scaled = None if fraction is None else 100 * fraction
        self.value(label, column, scaled, number(scaled))

    def interval(self, label: str, column: str, interval: Interval | None) -> None:
        self.limits(label, column, interval, 100.0, "_pp")

    def limits(self, label: str, column: str, interval: Interval | None, factor: float, unit: str = "") -> None:
        low, high = (None, None) if interval is None else (factor * interval.low, factor * interval.high)
        self._add(
            f"{label}, {100 * self.level:.0f} %", DASH if interval is None else f"{number(low)} to {number(high)}"
        )
        self.data |= {f"{column}_low{unit}": low, f"{column}_high{unit}": high}

    def test(self, label: str, column: str, p: P) -> None:
        self._add(label, DASH if p.statistic is None else number(p.statistic), p.printed(), number(p.log10_p))
        # p as text: the CSV's six decimals would make a zero of it
        self.data |= {f"{column}_statistic": p.statistic, f"p_{column}": p.printed(6), f"log10_p_{column}": p.log10_p}

    def _add(self, label: str, value: str, p: str = "", log10_p: str = "") -> None:
        self.body.append({"quantity": label, "value": value, "p": p, "log10 p": log10_p})


def _about(label: str, side: Side) -> str:
    n_run, n_correct = len(side.outcomes), sum(outcome.correct for outcome in side.outcomes)
    n_completed = sum(outcome.completed for outcome in side.outcomes)
    line = f"{label}: {side.path}, {side.what}. {side.n_planned} planned, {n_run} with an outcome"
    line += f", {side.n_error} in error, {side.n_missing} missing; {n_completed} completed, {n_correct} correct"
    if side.holes():
        of = (f"{n_correct} of {n} ({number(100 * n_correct / n) if n else DASH} %)" for n in (side.n_planned, n_run))
        line += f": {' planned, '.join(of)} with an outcome"
    return f"{line}."


def _notes(name: str, repeated: bool, scripted: bool, again: bool, statistics: Statistics) -> Iterator[str]:
    yield (
        "Completion: an answer was submitted and accepted, right or wrong."
        if name == "completion"
        else "Correctness: the answer was right; no answer counts as wrong."
    )
    if scripted:
        yield "No language model took part, so there are no tests: the tasks are no sample of a model's behaviour."
        return
    if repeated:
        yield (
            "Items repeat (one task under several seeds, or several on one document): the clustered rows hold; the "
            "others take pairs as independent and are too sure."
        )
        yield f"The bootstrap draws whole clusters, {statistics.resamples:,} times."
    if again:
        yield (
            "By sampling alone, the difference on these very tasks moves so far from one set of seeds to another; what "
            "is smaller is within the noise."
        )
    yield (
        f"The smallest difference is for a two-sided McNemar test at {statistics.alpha} with these pairs and this "
        "discordance."
    )
    yield "One comparison: p-values are not adjusted for others that were or might have been made."


if __name__ == "__main__":
    sys.exit(main())
