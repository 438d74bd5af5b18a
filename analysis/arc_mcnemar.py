"""Declared tables of paired comparisons: each of a table's first methods against each of the others, task by task.

Two sheets. The first has what the paper prints, on *completion*: the four cells, McNemar's chi-square, the exact test
(one-sided, its convention), odds ratios. The second, ``<name>_tests``, is ours, on completion and on *correctness*:
tests that hold where one item is answered under several seeds, the difference with its interval, Holm's adjustment
over the declared family and the smallest difference that so many pairs could have shown.

The family is one model's comparisons on one benchmark (and profile) on correctness; its p-values are the cluster
sign-flip test's, which is exact and, where no item repeats, the exact two-sided test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import paired
from analysis import paired_effect as effect
from analysis.accuracy import heading
from analysis.arc_accuracy import Published, Row, cells_of, figures, name_of, notes, plan_of, title_of, where_paper_s
from analysis.beside import LABELS
from analysis.compare import Statistics
from analysis.declared import COMPLETE, INCOMPLETE, MISSING, Spec
from analysis.flips import flips, noise
from analysis.noise_floor import QUESTIONS
from analysis.paired import Counts, Item, P, Pairs
from analysis.render import DASH, Sheet, number
from arcbench.types import ConfigError

_BLOCK = ("benchmark", "model", "budget", "profile", "point")
_SAME = (*_BLOCK, "engine", "recall", "shared")
"""In which two rows must agree to be compared."""
_NAMES = ("model", "budget", "profile")
_PLAN = ("n_planned", "n_run", "n_error", "n_no_answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Two rows of the accuracy tables and their pairs by question; no pairs where one lacks, or ``fault`` says why
    they cannot be paired."""

    a: Row
    b: Row
    pairs: Mapping[str, Pairs]
    fault: str

    @property
    def state(self) -> str:
        """As of a cell."""
        states = {self.a["state"], self.b["state"]}
        if MISSING in states:
            return MISSING
        return INCOMPLETE if self.fault or INCOMPLETE in states else COMPLETE


def sheets(
    spec: Spec,
    rows: Sequence[Row],
    episodes: pd.DataFrame,
    published: Published,
    statistics: Statistics,
    *,
    scripted: bool,
) -> Iterator[Sheet]:
    """The two sheets of a table of kind ``mcnemar`` from its cells; the scripted engine's have no p-values."""
    pairings = list(paired_up(spec, rows, episodes))
    said = [*notes(spec, rows, [*_NAMES, "method", "variant", "setting"], scripted), *_faults(spec, pairings)]
    yield _as_printed(spec, pairings, published, said, scripted)
    yield _ours(spec, pairings, statistics, said, scripted)


# ----------------------------------------------------------------------------------------- pairing


def paired_up(spec: Spec, rows: Sequence[Row], episodes: pd.DataFrame) -> Iterator[Pairing]:
    """Each of the first methods with each of the others, in every block; of a first method that the paper has not,
    only where it was run."""
    ran = episodes[episodes["outcome"] != "error"]
    by_run = {str(run_dir): its for run_dir, its in ran.groupby("run_dir")}
    for block in dict.fromkeys(tuple(row[key] for key in _BLOCK) for row in rows):
        of_block = [row for row in rows if tuple(row[key] for key in _BLOCK) == block]
        for first in spec.first:
            for other in (method for method in spec.methods if method not in spec.first):
                a_rows, b_rows = ([row for row in of_block if row["method"] == name] for name in (first, other))
                alike = [(a, b) for a in a_rows for b in b_rows if all(a[key] == b[key] for key in _SAME)]
                for a, b in alike or [(a, b_rows[0]) for a in a_rows[:1]]:
                    yield _pairing(a, b, by_run)


def _pairing(a: Row, b: Row, by_run: Mapping[str, pd.DataFrame]) -> Pairing:
    if MISSING in (a["state"], b["state"]) or by_run.keys().isdisjoint(a["run_dirs"] + b["run_dirs"]):
        return Pairing(a=a, b=b, pairs={}, fault="")
    folders = tuple(" and ".join(row["run_dirs"]) for row in (a, b))
    try:
        for key, what in (("seeds", "seeds"), ("shared", "settings"), ("engine", "engines"), ("recall", "recall")):
            if a[key] != b[key]:
                raise ConfigError(f"{folders[0]} ({a[key]}) and {folders[1]} ({b[key]}) do not have the same {what}")
        pairs = {
            question: paired.pair(
                _items(a["run_dirs"], by_run, wins), _items(b["run_dirs"], by_run, wins), names=(folders[0], folders[1])
            )
            for question, wins in QUESTIONS.items()
        }
    except ConfigError as fault:
        return Pairing(a=a, b=b, pairs={}, fault=str(fault))
    return Pairing(a=a, b=b, pairs=pairs, fault="")


def _items(run_dirs: Sequence[str], by_run: Mapping[str, pd.DataFrame], wins: Sequence[str]) -> Iterator[Item]:
    for its in (by_run[run_dir] for run_dir in run_dirs if run_dir in by_run):
        documents = its["document"].where(its["document"].notna(), None)
        for task, outcome, seed, document in zip(its["task"], its["outcome"], its["seed"], documents, strict=True):
            yield Item(task, outcome in wins, seed, document)


def _faults(spec: Spec, pairings: Sequence[Pairing]) -> Iterator[str]:
    for pairing in pairings:
        if pairing.fault:
            named = " and ".join(_method(row) for row in (pairing.a, pairing.b))
            yield f"{pairing.a['model']}: {named} are not compared: {pairing.fault}. What is owed: make {spec.name}."


# ---------------------------------------------------------------------------- as the paper prints it


def _as_printed(
    spec: Spec, pairings: Sequence[Pairing], published: Published, said: Sequence[str], scripted: bool
) -> Sheet:
    with_paper = bool(published) and not scripted
    shown = _shown(pairings)
    body, data = [], []
    for pairing in pairings:
        row = _named(pairing)
        paper = published.get((row["model"], *pairing.a["point"], pairing.a["method"], pairing.b["method"]), {})
        its = figures(spec, row, _paper_s_statistics(pairing), paper, scripted=scripted)
        its = [figure for figure in its if not (scripted and figure.quantity.startswith("p_"))]
        labels = [LABELS[figure.quantity][0] for figure in its]
        lines = zip(*(figure.shown() for figure in its), strict=True)
        for whose, line in zip(("ours", "paper", "difference"), lines, strict=True):
            if whose == "ours" or any(text != DASH for text in line):
                cells = cells_of(row, shown) | ({"whose": whose} if with_paper else {})
                body.append(cells | dict(zip(labels, line, strict=True)) | _plans(pairing, blank=whose != "ours"))
        data.append(_keys(pairing) | {key: value for f in its for key, value in f.written(with_paper).items()})
    lead = ["Completion: an answer was submitted and accepted, right or wrong. Pairs are one task under one seed."]
    if not scripted:
        lead.append(
            "Chi-square is McNemar's with continuity correction; the exact test is one-sided, as the paper's: a better."
        )
    if with_paper:
        lead.append(f"{where_paper_s(spec)} Differences are ours less the paper's, of p-values in powers of ten.")
    return _sheet(
        spec, name_of(spec, scripted), "as the paper prints it, on completion", lead, body, data, said, scripted
    )


def _paper_s_statistics(pairing: Pairing) -> dict[str, Any]:
    """Those that the paper prints, by its conventions: with none that only b completed the odds are infinite."""
    if not pairing.pairs:
        return {}
    pairs = pairing.pairs["completion"]
    counts, by_seed = pairs.counts(), effect.seed_odds(pairs.by_seed().values())
    infinite = math.inf if counts.n_a_only else None
    return {
        "n_planned": counts.n,
        **{key: getattr(counts, key) for key in ("n_a_only", "n_b_only", "n_both", "n_neither")},
        "p_chi2": paired.chi_square(counts),
        "p_exact": paired.exact_one_sided(counts),
        "odds_ratio": effect.odds_ratio(counts) if counts.n_b_only else infinite,
        "per_seed_odds_mean": by_seed.mean if by_seed.n_used else infinite,
        "per_seed_odds_sd": by_seed.sd,
        "n_discordant_seeds": by_seed.n_used,
    }


# -------------------------------------------------------------------------------------------- ours


def _ours(
    spec: Spec, pairings: Sequence[Pairing], statistics: Statistics, said: Sequence[str], scripted: bool
) -> Sheet:
    adjusted = {} if scripted else _holm(pairings)
    shown = _shown(pairings)
    body, data = [], []
    for i, pairing in enumerate(pairings):
        for question in ("completion", "correctness"):
            pairs = pairing.pairs.get(question)
            numbers = _numbers(pairs, statistics) if pairs else {}
            tests = _tests(pairs) if pairs and not scripted else {}
            if not scripted:
                tests["holm"] = adjusted.get(i) if question == "correctness" else None
            cells = cells_of(_named(pairing), shown) | {"outcome": question}
            body.append(cells | _readable(numbers, tests, scripted) | _plans(pairing, blank=question == "correctness"))
            data.append(_keys(pairing) | {"outcome": question} | numbers | _written(tests))
    level = f"{100 * statistics.level:.0f} %"
    lead = [
        "Completion: an answer was submitted and accepted. Correctness: it was right; no answer counts as wrong.",
        f"Differences are a less b, in points, with their {level} interval: by drawing whole clusters again where one "
        "item stands under several seeds or several share a document, else Newcombe's (Tango's is in the CSV).",
    ]
    if not scripted:
        lead += [
            "Durkalski, Obuchowski and sign-flip are clustered tests: where they stand, the exact test and mid-p take "
            "pairs as independent and are too sure. All are two-sided.",
            f"Holm: over the comparisons that there are of {' and '.join(spec.first)} with each baseline, for one "
            "model and profile, on correctness, of the sign-flip test (which is the exact one where nothing repeats).",
            f"Smallest: the difference that so many pairs with this discordance show at {100 * statistics.power:.0f} % "
            f"power (two-sided, {statistics.alpha}); by sampling: what the difference moves by under other sampling "
            f"seeds ({level}).",
        ]
    name = f"{name_of(spec, scripted)}_tests"
    return _sheet(spec, name, "on completion and on correctness", lead, body, data, said, scripted)


def _holm(pairings: Sequence[Pairing]) -> dict[int, P | None]:
    """The adjusted p-value of each pairing, by its place; without pairs it is undefined and counts for nothing."""
    adjusted: dict[int, P | None] = {}
    for family in dict.fromkeys(_family(pairing) for pairing in pairings):
        places = [i for i, pairing in enumerate(pairings) if _family(pairing) == family]
        its = [pairings[i].pairs.get("correctness") for i in places]
        adjusted |= zip(
            places, paired.holm([paired.sign_flip(p.by_cluster()) if p else None for p in its]), strict=True
        )
    return adjusted


def _family(pairing: Pairing) -> tuple[Any, ...]:
    return tuple(pairing.a[key] for key in _BLOCK)


def _numbers(pairs: Pairs, statistics: Statistics) -> dict[str, Any]:
    """Sizes and intervals; in points."""
    counts, clusters, level = pairs.counts(), pairs.by_cluster(), statistics.level
    made: dict[str, Any] = {"n_pairs": counts.n, "n_clusters": len(clusters.n), "n_a_only": counts.n_a_only}
    made |= {"n_b_only": counts.n_b_only, "odds_ratio": effect.odds_ratio(counts)}
    made |= {"a_pct": _pct(pairs.a.mean()), "b_pct": _pct(pairs.b.mean()), "difference_pp": _pct(counts.difference)}
    intervals = {"newcombe": effect.newcombe(counts, level=level), "tango": effect.tango(counts, level=level)}
    intervals["bootstrap"] = (
        effect.cluster_bootstrap(clusters, level=level, resamples=statistics.resamples, seed=statistics.resampling_seed)
        if clusters.repeated()
        else None
    )
    for name, interval in intervals.items():
        made |= {f"{name}_low_pp": _pct(interval and interval.low), f"{name}_high_pp": _pct(interval and interval.high)}
    made["design_effect"] = effect.design_effect(clusters)
    made["smallest_difference_pp"] = _pct(_smallest(counts, made["design_effect"], statistics))
    again = [flips(pairs.ids, pairs.clusters, won) for won in (pairs.a, pairs.b)]
    rates = [each.rate for each in again if each]
    made["sampling_pp"] = _pct(noise(*rates, n=counts.n, level=level)) if len(rates) == len(again) else None
    return made


def _smallest(counts: Counts, inflation: float, statistics: Statistics) -> float | None:
    return effect.smallest_difference(
        n=counts.n / inflation,
        discordance=counts.n_discordant / counts.n,
        alpha=statistics.alpha,
        power=statistics.power,
    )


def _tests(pairs: Pairs) -> dict[str, P | None]:
    counts, clusters = pairs.counts(), pairs.by_cluster()
    clustered = {"durkalski": paired.durkalski, "obuchowski": paired.obuchowski, "sign_flip": paired.sign_flip}
    tests: dict[str, P | None] = {
        "chi2": paired.chi_square(counts),
        "exact_one_sided": paired.exact_one_sided(counts),
        "exact_two_sided": paired.exact_two_sided(counts),
        "mid_p": paired.mid_p(counts),
    }
    return tests | {name: test(clusters) if clusters.repeated() else None for name, test in clustered.items()}


def _pct(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * float(fraction)


def _readable(numbers: Mapping[str, Any], tests: Mapping[str, P | None], scripted: bool) -> dict[str, str]:
    method = "newcombe" if numbers.get("bootstrap_low_pp") is None else "bootstrap"
    limits = [numbers.get(f"{method}_{end}_pp") for end in ("low", "high")]
    cells = {
        "pairs": number(numbers.get("n_pairs"), 0),
        "a %": number(numbers.get("a_pct")),
        "b %": number(numbers.get("b_pct")),
        "difference": number(numbers.get("difference_pp")),
        "interval": DASH if None in limits else f"{number(limits[0])} to {number(limits[1])}",
    }
    if scripted:
        return cells
    p = {name: DASH if test is None else test.printed() for name, test in tests.items()}
    exact = tests.get("exact_two_sided")
    return cells | {
        "exact p": p.get("exact_two_sided", DASH),
        "its log10": number(exact.log10_p if exact else None, 1),
        "mid-p": p.get("mid_p", DASH),
        "Durkalski": p.get("durkalski", DASH),
        "Obuchowski": p.get("obuchowski", DASH),
        "sign-flip": p.get("sign_flip", DASH),
        "Holm": p.get("holm", DASH),
        "smallest": number(numbers.get("smallest_difference_pp")),
        "by sampling": number(numbers.get("sampling_pp")),
    }


def _written(tests: Mapping[str, P | None]) -> dict[str, Any]:
    # p as text: the CSV's six decimals would make a zero of it
    return {f"p_{name}": test and test.printed(6) for name, test in tests.items()} | {
        f"log10_p_{name}": test and test.log10_p for name, test in tests.items()
    }


# ---------------------------------------------------------------------------------------- the sheets


def _named(pairing: Pairing) -> Row:
    """The pairing as a row: what names it, and its state."""
    names = {key: pairing.a[key] for key in _NAMES}
    return names | {"a": _method(pairing.a), "b": _method(pairing.b), "state": pairing.state}


def _method(row: Mapping[str, Any]) -> str:
    said = ", ".join(row[key] for key in ("variant", "setting") if row[key])
    return f"{row['method']} ({said})" if said else str(row["method"])


def _shown(pairings: Sequence[Pairing]) -> list[str]:
    rows = [_named(pairing) for pairing in pairings]
    return [*(name for name in _NAMES if len({row[name] for row in rows}) > 1), "a", "b"]


def _plans(pairing: Pairing, *, blank: bool) -> Row:
    """Of both sides; once for the lines of one pairing."""
    cells = {f"{name} {side}": text for side in "ab" for name, text in plan_of(getattr(pairing, side)).items()}
    return dict.fromkeys(cells, "") if blank else cells


def _keys(pairing: Pairing) -> Row:
    keys = {key: pairing.a[key] for key in ("benchmark", *_NAMES)} | {"state": pairing.state}
    for side in "ab":
        row = getattr(pairing, side)
        keys |= {f"{name}_{side}": row[name] for name in ("method", "variant", "setting")}
        keys |= {f"{name}_{side}": row.get(name) for name in _PLAN}
    return keys


def _sheet(
    spec: Spec, name: str, what: str, lead: Sequence[str], body: list[Row], data: list[Row], said: Sequence[str],
    scripted: bool,
) -> Sheet:  # fmt: skip
    warning = heading("mechanism", spec.harness)[1] if scripted else []
    same = {key: data[0][key] for key in _NAMES if len({row[key] for row in data}) == 1}
    every = [f"All rows: {', '.join(f'{key} {value}' for key, value in same.items())}."] if same else []
    return Sheet(
        name=name,
        title=f"{title_of(spec, scripted)}, {what}",
        lead=(*warning, *every, *lead),
        data=pd.DataFrame(data).convert_dtypes(),
        body=pd.DataFrame(body),
        text_columns=frozenset({*_NAMES, "a", "b", "whose", "outcome", "no answer because a", "no answer because b"}),
        notes=tuple(said),
    )
