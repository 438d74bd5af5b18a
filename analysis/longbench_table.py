"""LongBench-v2's tables, in the shape of the ARC paper's Table 1.

Beside what every harness's table has (:mod:`analysis.accuracy`): two conventions, with what failed in the denominator
(the headline) and given a submission; intervals that draw whole documents, since rows that share one are not
independent; reference rows (constant answers, single prompts without an agent); breakdowns by domain and by length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from analysis import frames, settings
from analysis.accuracy import accuracy, heading, kinds, notes_of, reasons_of
from analysis.paired import Ints
from analysis.render import DASH, Sheet, number
from analysis.rows import BLOCK, KEY, records_of
from analysis.settings import CONF
from arcbench.checks import share, whole
from arcbench.records import Part, Run, read_manifest
from arcbench.types import ConfigError, Json

STATISTICS = CONF / "statistics/longbench.yaml"
AGENTS = ("files", "replay")
"""Deliveries with an agent, whose rows are those of methods; the others are reference rows."""
OFFICIAL = "official"
CONSTANT = "constant"
"""In the place of a delivery, of the rows that nothing has played."""
CLASSES = ("domain", "length")
_KEY = ("benchmark", *KEY[1:], "setting")
_SAID = (*BLOCK[2:], "variant", "setting", "seeds")
"""What is said above a table when all its rows agree in it, and else in a column."""
_WORDS = frozenset({*_SAID, "delivery", "method"})
LENGTHS = ("short", "medium", "long")
MOST_NAMED = 20
"""Missing rows that a note names; with more of them it says where they are named."""
_FACTS = ("row", "answer", *CLASSES)
FACTS = Part(
    "longbench",
    ("task", *_FACTS),
    lambda record: [{"task": record["task"]} | {name: record["facts"][name] for name in _FACTS}],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How the intervals are drawn (``conf/statistics/longbench.yaml``)."""

    level: float
    resamples: int
    resampling_seed: int

    @classmethod
    def read(cls, path: Path) -> Statistics:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        numbers = cls(**settings.read(path, [field.name for field in fields(cls)]))
        if share("level", numbers.level) == 1:
            raise ConfigError("level=1: must be below 1")
        whole("resamples", numbers.resamples, 1)
        whole("resampling_seed", numbers.resampling_seed, 0)
        return numbers

    def interval(self, wins: Ints, n: Ints) -> tuple[float, float]:
        """Percentile interval of sum(wins) / sum(n) when whole documents (one entry each) are drawn again.

        Where all documents agree nothing varies and the interval would be a point: then it is Wilson's, with the
        documents in the place of trials. NaN without a trial.
        """
        wins, n = wins[n > 0], n[n > 0]
        k = len(n)
        if not k:
            return math.nan, math.nan
        shares = wins / n
        if (shares == shares[0]).all():
            low, high = proportion_confint(shares[0] * k, k, alpha=1 - self.level, method="wilson")
            return float(low), float(high)
        drawn = np.random.default_rng(self.resampling_seed).multinomial(k, np.full(k, 1 / k), size=self.resamples)
        low, high = np.quantile(drawn @ wins / (drawn @ n), [0.5 - self.level / 2, 0.5 + self.level / 2])
        return float(low), float(high)


def sheets(
    runs: pd.DataFrame, episodes: pd.DataFrame, compactions: pd.DataFrame, statistics: Statistics
) -> list[Sheet]:
    """The table of each kind and its two breakdowns. Raises :class:`ConfigError` when the runs of one table were on
    different data, and as :func:`analysis.accuracy.accuracy`."""
    made = []
    for kind, harness, some in kinds(runs):
        manifests = {str(path): read_manifest(Path(path)) for path in some["run_dir"]}
        data = _one_data(manifests)
        played = episodes[episodes["run_dir"].isin(some["run_dir"])].merge(facts_of(manifests), on=["run_dir", "task"])
        numbers = table(some, played, compactions, statistics)
        made += [_table(kind, harness, numbers, data, statistics), _work(kind, harness, _played(numbers))]
        made += [_breakdown(kind, harness, by, some, played) for by in CLASSES if len(played)]
    return made


def facts_of(run_dirs: Iterable[str]) -> pd.DataFrame:
    """Row, answer and classes of each task of these runs."""
    parts = [
        # a run without a record yet has columns without a type of their own
        pd.DataFrame(frames.take(Run(Path(path), {}, {}), [FACTS])[FACTS.name], dtype=str).assign(run_dir=path)
        for path in run_dirs
    ]
    return pd.concat(parts, ignore_index=True)


def _one_data(manifests: Mapping[str, Mapping[str, Json]]) -> Mapping[str, Json]:
    """What the manifests say of the data, which must be the same in all."""
    first, *others = manifests
    for other in others:
        one, two = (manifests[path]["data"] for path in (first, other))
        if one["sha256"] != two["sha256"]:
            raise ConfigError(
                f"{first} and {other} were played on different rows (sha256 {one['sha256'][:12]} and "
                f"{two['sha256'][:12]}); move one away, or pass --runs with a narrower folder"
            )
    data: Mapping[str, Json] = manifests[first]["data"]
    return data


# ----------------------------------------------------------------------------------------- numbers


def table(runs: pd.DataFrame, played: pd.DataFrame, compactions: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """The columns of :func:`analysis.accuracy.accuracy` less Wilson's interval, and: ``n_documents``;
    ``low_pct`` and ``high_pct``, the interval of the accuracy over planned tasks; ``given_submission_*``, the accuracy
    over submitted answers and its interval; ``tokens_before``, ``tokens_after``, means over compactions."""

    def own(group: pd.DataFrame, its: pd.DataFrame) -> dict[str, Any]:
        documents = _by_document(its)
        correct, submitted, n = (documents[c].to_numpy() for c in documents)
        absent = _absent(group, its)
        padded = (np.append(correct, np.zeros_like(absent)), np.append(n, absent))
        low, high = statistics.interval(*padded) if len(its) else (math.nan, math.nan)
        given_low, given_high = statistics.interval(correct, submitted)
        of_row = compactions[compactions["run_dir"].isin(group["run_dir"]) & (compactions["outcome"] == "done")]
        return {
            "n_documents": len(documents),
            "low_pct": 100 * low,
            "high_pct": 100 * high,
            "n_submitted": int(submitted.sum()),
            "given_submission_pct": 100 * correct.sum() / submitted.sum() if submitted.sum() else math.nan,
            "given_submission_low_pct": 100 * given_low,
            "given_submission_high_pct": 100 * given_high,
            "tokens_before": of_row["tokens_before"].mean(),
            "tokens_after": of_row["tokens_after"].mean(),
        }

    methods = accuracy(runs, played, own).drop(columns=["wilson95_low_pct", "wilson95_high_pct"])
    methods = methods.sort_values("profile", key=lambda column: column.map(_rank), kind="stable")
    made = pd.concat([methods, _constants(played, statistics)], ignore_index=True)
    return made.astype({column: "Int64" for column in made if str(column).startswith("n_")})


def _rank(profile: str) -> int:
    return AGENTS.index(profile) if profile in AGENTS else len(AGENTS)


def _by_document(its: pd.DataFrame) -> pd.DataFrame:
    """Correct and submitted answers and all tasks, by document."""
    correct, submitted = its["outcome"] == "correct", its["outcome"].isin(("correct", "wrong"))
    counted = pd.DataFrame({"correct": correct, "submitted": submitted, "n": 1}, index=its.index)
    return counted.groupby(its["document"]).sum().astype(np.int64)


def _absent(group: pd.DataFrame, its: pd.DataFrame) -> Ints:
    """Tasks without a record, each as a document of its own in which nothing succeeded. Which ones they are is not
    known, so the first of one seed counts as the first of another: more seeds are no more documents."""
    recorded = group["run_dir"].map(its["run_dir"].value_counts()).fillna(0).astype(np.int64)
    missing = (group["planned"].astype(np.int64) - recorded).clip(lower=0).to_numpy()
    seeds: Ints = np.sum(missing[:, None] > np.arange(missing.max()), axis=0)
    return seeds


def _always(played: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """The row of each constant answer, and the tasks that were played as it would have done them."""
    tasks = played.drop_duplicates("row")
    for letter in "ABCD" if len(tasks) else "":
        key = dict.fromkeys((*_KEY, "seeds"), "") | {"benchmark": tasks["harness"].iloc[0]}
        its = tasks.assign(outcome=np.where(tasks["answer"] == letter, "correct", "wrong"))
        yield key | {"profile": CONSTANT, "method": f"constant_{letter.lower()}"}, its


def _constants(played: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """What always answering the same letter would score on the tasks that were played."""
    rows = []
    for key, its in _always(played):
        documents = _by_document(its)
        wins, n = (documents[c].to_numpy() for c in ("correct", "n"))
        low, high = statistics.interval(wins, n)
        share = 100 * wins.sum() / n.sum()
        rows.append(
            key
            | {"n_success": int(wins.sum()), "n_attempts": int(n.sum()), "n_wrong": int((n - wins).sum())}
            | {"accuracy_pct": share, "low_pct": 100 * low, "high_pct": 100 * high, "n_documents": len(n)}
            | {"given_submission_pct": share, "n_submitted": int(n.sum())}
            | {"given_submission_low_pct": 100 * low, "given_submission_high_pct": 100 * high}
        )
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------- what people read


def _table(kind: str, harness: str, made: pd.DataFrame, data: Mapping[str, Json], statistics: Statistics) -> Sheet:
    methods = _played(made)
    common = _common(methods)
    title, lead = heading(kind, harness)
    level = f"{100 * statistics.level:.0f} %"
    lead += [
        _said(methods, common),
        "Accuracy is over planned tasks: what failed, was cut or has no answer is wrong. Given a submission, it is "
        "over submitted answers alone (their number in brackets). SD is the sample SD over seeds. "
        f"Intervals ({level}) draw whole documents, since rows that share one are not independent; where all documents "
        "agree, as at 0 and at 100 %, they are Wilson's with documents as trials.",
    ]
    return Sheet(
        name=f"{kind}_{harness}",
        title=title,
        lead=tuple(line for line in lead if line),
        data=made.drop(columns="tasks_repeat_over_seeds"),
        body=pd.DataFrame([_cells(row, common) for row in records_of(made)]),
        text_columns=_WORDS | {"no answer because"},
        notes=tuple(_notes(methods, common, data)),
    )


def _played(made: pd.DataFrame) -> pd.DataFrame:
    """The rows that were played, without those of constant answers."""
    return made[made["profile"] != CONSTANT]


def _common(methods: pd.DataFrame) -> list[str]:
    """Columns of the key in which all rows with an agent or a model agree: said once, above the table."""
    return [c for c in _SAID if methods[c].nunique() == 1]


def _said(methods: pd.DataFrame, common: Sequence[str]) -> str:
    values = ", ".join(f"{c} {methods[c].iloc[0]}" for c in common if methods[c].iloc[0])
    return f"All rows: {values}." if values else ""


def _named(row: Mapping[str, Any], common: Sequence[str]) -> dict[str, str]:
    """The cells that name a row. A delivery without an agent is a reference row, under its own name."""
    agent = row["profile"] in AGENTS
    method = row["method"] if agent or row["profile"] == CONSTANT else row["profile"]
    cells = {"delivery": row["profile"] if agent else "reference"}
    cells |= {c: row[c] or DASH for c in BLOCK[2:] if c not in common}
    cells["method"] = f"{method} †" if row.get("incomplete") and isinstance(row["incomplete"], str) else method
    return cells | {c: row[c] or DASH for c in _SAID[len(BLOCK) - 2 :] if c not in common}


def _cells(row: Mapping[str, Any], common: Sequence[str]) -> dict[str, str]:
    def count(name: str) -> str:
        return number(row[name], 0)

    played = row["profile"] != CONSTANT
    return _named(row, common) | {
        "pass/attempts": f"{row['n_success']}/{row['n_attempts']}",
        "mean no-answer": number(row["mean_no_answer"]),
        "mean pass": number(row["mean_n_success"]),
        "accuracy %": number(row["accuracy_pct"]),
        "SD": number(row["accuracy_sd_pct"]),
        "interval": _range(row["low_pct"], row["high_pct"]),
        "given a submission %": f"{number(row['given_submission_pct'])} ({count('n_submitted')})",
        "its interval": _range(row["given_submission_low_pct"], row["given_submission_high_pct"]),
        "planned/run/error": "/".join(count(f"n_{c}") for c in ("planned", "run", "error")) if played else DASH,
        "no answer because": reasons_of(row) if played else DASH,
    }


def _work(kind: str, harness: str, methods: pd.DataFrame) -> Sheet:
    common = _common(methods)
    means = {"agent_calls": 1, "method_calls": 1, "prompt_tokens": 0, "completion_tokens": 0, "compactions": 1}
    body = [
        _named(row, common)
        | {name.replace("_", " "): number(row[f"{name}_per_episode"], digits) for name, digits in means.items()}
        | {f"tokens {when}": number(row[f"tokens_{when}"], 0) for when in ("before", "after")}
        for row in records_of(methods)
    ]
    title, lead = heading(kind, harness)
    lead += [_said(methods, common), "Means over episodes; tokens before and after: of the view, over compactions."]
    return Sheet(
        name=f"{kind}_{harness}_work",
        title=f"{title}: what it took",
        lead=tuple(line for line in lead if line),
        data=methods[[*_KEY, *(f"{name}_per_episode" for name in means), "tokens_before", "tokens_after"]],
        body=pd.DataFrame(body),
        text_columns=_WORDS,
        notes=(),
    )


def _range(low: float, high: float) -> str:
    return DASH if math.isnan(low) else f"{number(low, 1)} to {number(high, 1)}"


def _notes(methods: pd.DataFrame, common: Sequence[str], data: Mapping[str, Json]) -> Iterator[str]:
    missing, others = data["missing"], data["not_of_benchmark"]
    yield (
        f"{data['rows_hard']} hard rows are in the data, on {data['distinct_contexts']} distinct documents; the "
        f"benchmark has {data['rows_of_benchmark']}."
    )
    if others:
        yield f"{others} of the rows are none of the benchmark's."
    if missing:
        named = ", ".join(missing) if len(missing) <= MOST_NAMED else "see data.missing in the manifest of a run"
        yield f"Missing rows, {len(missing)}: {named}."
    if methods[["n_run", "n_error"]].to_numpy().any():
        yield "constant_a to constant_d: what always answering that letter scores on the rows that were played."
    official = methods[methods["profile"].str.startswith(OFFICIAL)]
    if len(official):
        yield (
            "official: the benchmark's own prompt and answer rule. A failed call is a wrong answer here; the "
            "benchmark's own script leaves failed calls out of its mean"
            f"{', which is then the second figure of the † line' if official['n_error'].any() else ''}."
        )
    yield from notes_of(methods, [c for c in ("profile", "method", *_SAID[:-1]) if c not in common])


def _breakdown(kind: str, harness: str, by: str, runs: pd.DataFrame, played: pd.DataFrame) -> Sheet:
    """Accuracy and tasks by one fact of the rows; over the tasks that have a record."""
    rows = accuracy(runs, played, lambda group, its: {"cells": _by(its, by)})
    rows = rows.sort_values("profile", key=lambda column: column.map(_rank), kind="stable")
    order = LENGTHS if by == "length" else sorted(played[by].unique())
    classes = [name for name in order if (played[by] == name).any()]
    common = _common(rows)
    body, long = [], []
    for row in [*records_of(rows), *(key | {"cells": _by(its, by)} for key, its in _always(played))]:
        of = row["cells"]
        body.append(
            _named(row, common)
            | {name: f"{number(100 * of[name][0] / of[name][1], 1)} ({of[name][1]})" if name in of else DASH
               for name in classes}
        )  # fmt: skip
        for name in classes:
            correct, n = of.get(name, (0, 0))
            long.append(
                {c: row[c] for c in _KEY}
                | {by: name, "n_success": correct, "n_attempts": n}
                | {"accuracy_pct": 100 * correct / n if n else math.nan}
            )
    title, lead = heading(kind, harness)
    lead += [_said(rows, common), "Accuracy in % and, in brackets, tasks that have a record."]
    return Sheet(
        name=f"{kind}_{harness}_by_{by}",
        title=f"{title}, by {by}",
        lead=tuple(line for line in lead if line),
        data=pd.DataFrame(long),
        body=pd.DataFrame(body),
        text_columns=_WORDS,
        notes=(),
    )


def _by(its: pd.DataFrame, by: str) -> dict[str, tuple[int, int]]:
    """Correct ones and all, by class."""
    groups = its.assign(correct=its["outcome"] == "correct").groupby(by)["correct"]
    return {str(name): (int(of.sum()), len(of)) for name, of in groups}
