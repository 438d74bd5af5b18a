"""Accuracy by model and method, in the shape of the ARC paper's Table 2.

A *row* is one method in one setting; its runs differ only in the seed and are pooled. Everything
planned stays in the denominator: ``planned = run + error + missing``, where a task that was *run* has
an outcome (correct, wrong, no answer), an *error* is an infrastructure failure and a *missing* task has
no record. Accuracy over planned tasks is the headline; where tasks are in error or missing the row is
marked and accuracy over the tasks that were run stands beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from analysis.render import DASH, Sheet, number
from analysis.rows import BLOCK, KEY, one_run_per_seed, order, records_of, settings_of
from arcbench.types import ConfigError, NoAnswer

SCRIPTED = "scripted"
UNSCORED = ("mock", "replay")
"""Engines whose outcomes say nothing about a method: they are in no table."""

OUTCOMES = ("correct", "wrong", "no_answer", "error")

Own = Callable[[pd.DataFrame, pd.DataFrame], dict[str, Any]]

_REASON = "n_no_answer_"
_WORD_COLUMNS = {"profile", "budget", "recall", "engine", "model", "method", "variant", "setting"}


def sheets(runs: pd.DataFrame, episodes: pd.DataFrame) -> list[Sheet]:
    """The tables of all runs: ``accuracy_<harness>`` for models, ``mechanism_<harness>`` for the scripted engine.

    ``runs`` has one row a run, ``episodes`` one row an episode (its latest record), as ``arcbench.records``
    reads them. Raises :class:`ConfigError` when two runs claim the same seed of the same row.
    """
    return [_sheet(kind, harness, accuracy(some, episodes)) for kind, harness, some in kinds(runs)]


def kinds(runs: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The runs by table: ``accuracy`` for models or ``mechanism`` for the scripted engine, and the harness."""
    scored = runs[~runs["engine"].isin(UNSCORED)]
    scripted = scored["engine"] == SCRIPTED
    for kind, of_kind in (("accuracy", scored[~scripted]), ("mechanism", scored[scripted])):
        for harness, some in of_kind.groupby("harness"):
            yield kind, str(harness), some


def left_out(runs: pd.DataFrame) -> list[str]:
    """A line for each engine whose runs are in no table."""
    counts = runs["engine"].value_counts()
    return [
        f"{counts[e]} run{'s' if counts[e] > 1 else ''} of engine {e} left out: its outcomes say nothing about a method"
        for e in UNSCORED
        if e in counts
    ]


# ----------------------------------------------------------------------------------------- numbers


def accuracy(runs: pd.DataFrame, episodes: pd.DataFrame, own: Own | None = None) -> pd.DataFrame:
    """One row for each method in each setting, seeds pooled; ``own`` adds a harness's columns to a row, from its runs
    and their episodes.

    Columns are named as in the papers' CSV files where the quantity is theirs: ``n_*`` are tasks over all
    seeds, ``mean_no_answer`` and ``mean_n_success`` tasks a seed, ``*_pct`` percent, ``*_sd_pct`` the sample
    SD over seeds in percentage points, ``*_per_episode`` means over the tasks that were run. Accuracies are
    over planned tasks, ``*_run_pct`` over those that were run. Raises :class:`ConfigError` when two runs
    claim the same seed of the same row, or a run holds a task twice.
    """
    runs = runs.copy()
    for column in KEY:
        runs[column] = [_text(value) for value in runs[column]]
    runs["setting"] = settings_of(runs)
    rows = []
    for key, group in runs.groupby([*KEY, "setting"], sort=False):
        one_run_per_seed(group)
        its_episodes = episodes[episodes["run_dir"].isin(group["run_dir"])]
        row = dict(zip([*KEY, "setting"], key, strict=True)) | _row(group.sort_values("seed"), its_episodes)
        rows.append(row | (own(group, its_episodes) if own else {}))
    rows.sort(key=order)
    _add_absent(rows)
    for row in rows:
        del row["plan"]
    table = pd.DataFrame(rows).rename(columns={"harness": "benchmark"})
    reasons = [c for c in table.columns if c.startswith(_REASON)]
    # a reason that the types do not know is a column of the rows that have it only
    return table.assign(**{c: table[c].fillna(0).astype(int) for c in reasons})


def _row(runs: pd.DataFrame, episodes: pd.DataFrame) -> dict[str, Any]:
    """The numbers of one row from its runs (one a seed, in order) and their episodes."""
    _known(episodes)
    counts = pd.DataFrame({"seed": runs["seed"].astype(int)})
    for outcome in OUTCOMES:
        found = episodes.loc[episodes["outcome"] == outcome, "run_dir"].value_counts()
        counts[outcome] = runs["run_dir"].map(found).fillna(0).astype(int)
    recorded = counts[list(OUTCOMES)].sum(axis=1)
    # a run that was planned anew with fewer tasks keeps what it has recorded
    counts["planned"] = pd.concat([runs["planned"].astype(int), recorded], axis=1).max(axis=1)
    counts["missing"] = counts["planned"] - recorded
    counts["run"] = recorded - counts["error"]
    total = counts.drop(columns="seed").sum()

    ran = episodes[episodes["outcome"] != "error"]
    anything = total["run"] > 0  # with no outcome at all nothing was measured, which is not 0 %
    # Wilson's interval takes tasks as independent, which one task under several seeds is not
    repeated = bool(ran["task"].duplicated().any())
    low, high = math.nan, math.nan
    if anything and not repeated:
        low, high = proportion_confint(total["correct"], total["planned"], method="wilson")
    reasons = ran.loc[ran["outcome"] == "no_answer", "reason"].fillna("unknown").value_counts()
    config: Mapping[str, Any] = runs["config"].iloc[0]

    row: dict[str, Any] = {
        "context_window_tokens": config.get("budget.window_tokens"),
        "max_completion_tokens": config.get("budget.completion_tokens"),
        "n_success": int(total["correct"]),
        "n_attempts": int(total["planned"]),
        "mean_no_answer": counts["no_answer"].mean(),
        "mean_n_success": counts["correct"].mean(),
        "accuracy_pct": _pct(total["correct"], total["planned"]) if anything else math.nan,
        "accuracy_sd_pct": _sd(_pct(c, n) for c, n in zip(counts["correct"], counts["planned"], strict=True))
        if anything
        else math.nan,
        "wilson95_low_pct": 100 * low,
        "wilson95_high_pct": 100 * high,
        "accuracy_run_pct": _pct(total["correct"], total["run"]),
        "accuracy_run_sd_pct": _sd(_pct(c, n) for c, n in zip(counts["correct"], counts["run"], strict=True)),
        "n_seeds": len(counts),
        "seeds": " ".join(str(s) for s in counts["seed"]),
        "n_planned": int(total["planned"]),
        "n_run": int(total["run"]),
        "n_error": int(total["error"]),
        "n_missing": int(total["missing"]),
        "n_wrong": int(total["wrong"]),
        "n_no_answer": int(total["no_answer"]),
    }
    for reason in sorted({*get_args(NoAnswer), *reasons.index}, key=_reason_order):
        row[f"{_REASON}{reason}"] = int(reasons.get(reason, 0))
    for column in ("agent_calls", "method_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "compactions"):
        # an engine that does not report cached tokens leaves them empty: no mean over the rest
        row[f"{column}_per_episode"] = ran[column].astype(float).mean(skipna=False)
    row["n_method_failures"] = int(ran["method_failures"].sum())
    row["tasks_repeat_over_seeds"] = repeated
    row["incomplete"] = "; ".join(
        f"seed {c['seed']}: {_holes(c['error'], c['missing'])} of {c['planned']} planned"
        for c in records_of(counts)
        if c["error"] or c["missing"]
    )
    row["plan"] = dict(zip(counts["seed"], counts["planned"], strict=True))
    return row


def _known(episodes: pd.DataFrame) -> None:
    unknown = set(episodes["outcome"]) - set(OUTCOMES)
    if unknown:
        raise ConfigError(f"outcome: got {', '.join(sorted(unknown))} in a record; allowed: {', '.join(OUTCOMES)}")
    twice = episodes[episodes.duplicated(["run_dir", "task"])]
    if len(twice):
        first = twice.iloc[0]
        raise ConfigError(
            f"task {first['task']}: recorded twice in {first['run_dir']}; only its latest record may count"
        )


def _add_absent(rows: list[dict[str, Any]]) -> None:
    """Set ``absent`` on each row: seeds and tasks that other rows of its block and setting have and it has not."""
    plans: dict[tuple[str, ...], dict[int, int]] = {}
    for row in rows:
        block = plans.setdefault(_block(row), {})
        for seed, planned in row["plan"].items():
            block[seed] = max(planned, block.get(seed, 0))
    for row in rows:
        plan = row["plan"]
        row["absent"] = "; ".join(
            f"seed {seed}: planned {plan[seed]} tasks, others {planned}" if seed in plan else f"seed {seed}: no run"
            for seed, planned in sorted(plans[_block(row)].items())
            if plan.get(seed, 0) < planned
        )


def _block(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[c] for c in (*BLOCK, "setting"))


def _pct(part: int, whole: int) -> float:
    return 100 * part / whole if whole else math.nan


def _sd(values: Iterable[float]) -> float:
    """Sample SD (ddof = 1) of the values there are; NaN when fewer than two."""
    known = [v for v in values if not math.isnan(v)]
    return statistics.stdev(known) if len(known) > 1 else math.nan


def _holes(error: int, missing: int) -> str:
    return ", ".join(f"{count} {what}" for count, what in ((error, "error"), (missing, "missing")) if count)


def _reason_order(reason: str) -> tuple[int, str]:
    known = get_args(NoAnswer)
    return (known.index(reason) if reason in known else len(known), reason)


def _text(value: Any) -> str:
    return "" if value is None or pd.isna(value) else str(value)


# ------------------------------------------------------------------------------- what people read


def heading(kind: str, harness: str) -> tuple[str, list[str]]:
    """The title of a table, and what must be said first of one that no model took part in."""
    if kind == "accuracy":
        return f"Accuracy on {harness}", []
    return f"Mechanism check on {harness} (scripted engine)", [
        "No language model took part: the rows show what a fixed reader, which follows its instructions to the letter "
        "(and multiple-choice questions by counting words), can get back under each method. They are not a model's "
        "score."
    ]


def _sheet(kind: str, harness: str, data: pd.DataFrame) -> Sheet:
    # what is the same in all rows is said once, above the table
    common = [c for c in (*BLOCK[1:-1], "setting") if data[c].nunique() == 1]
    lead = ["All rows: " + ", ".join(f"{c} {data[c].iloc[0]}" for c in common if data[c].iloc[0]) + "."]
    title, warning = heading(kind, harness)
    lead[:0] = warning
    lead.append(
        "Accuracy is over planned tasks, seeds pooled; SD is the sample SD over seeds; the interval is Wilson's, 95 %."
    )
    return Sheet(
        name=f"{kind}_{harness}",
        title=title,
        lead=tuple(line for line in lead if line != "All rows: ."),
        data=data.drop(columns="tasks_repeat_over_seeds"),
        body=_body(data, common),
        text_columns=frozenset({*_WORD_COLUMNS, "no answer because"}),
        notes=tuple(_notes(data, common)),
    )


def _body(data: pd.DataFrame, common: list[str]) -> pd.DataFrame:
    shown = []
    incomplete = bool((data["incomplete"] != "").any())
    for row in records_of(data):
        cells = {c: row[c] for c in ("profile", "budget", "recall", "engine") if c not in common}
        cells["model"] = row["model"]
        cells["method"] = f"{row['method']} †" if row["incomplete"] else row["method"]
        if (data["variant"] != "").any():
            cells["variant"] = row["variant"] or DASH
        if "setting" not in common:
            cells["setting"] = row["setting"] or DASH
        cells["pass/attempts"] = f"{row['n_success']}/{row['n_attempts']}"
        cells["mean no-answer"] = number(row["mean_no_answer"])
        cells["mean pass"] = number(row["mean_n_success"])
        cells["accuracy %"] = number(row["accuracy_pct"])
        cells["SD"] = number(row["accuracy_sd_pct"])
        cells["95 % interval"] = (
            DASH
            if math.isnan(row["wilson95_low_pct"])
            else f"{number(row['wilson95_low_pct'])} to {number(row['wilson95_high_pct'])}"
        )
        if incomplete:
            cells["% of run"] = number(row["accuracy_run_pct"])
        cells["seeds"] = str(row["n_seeds"])
        cells["planned/run/error"] = f"{row['n_planned']}/{row['n_run']}/{row['n_error']}"
        cells["wrong"] = str(row["n_wrong"])
        cells["no answer because"] = reasons_of(row)
        shown.append(cells)
    return pd.DataFrame(shown)


def reason_names(rows: pd.DataFrame) -> list[str]:
    """The columns that count episodes without an answer by their reason."""
    return [str(column) for column in rows.columns if str(column).startswith(_REASON)]


def reasons_of(row: Mapping[str, Any]) -> str:
    """Why there is no answer, with counts."""
    return ", ".join(f"{c.removeprefix(_REASON)} {n}" for c, n in row.items() if c.startswith(_REASON) and n) or DASH


def _notes(data: pd.DataFrame, common: list[str]) -> Iterable[str]:
    names = [c for c in ("model", "method", "variant", *BLOCK[1:-1], "setting") if c not in common]
    yield from notes_of(data, names)
    for row in records_of(data):
        if row["tasks_repeat_over_seeds"]:
            yield (
                f"{_name(row, names)} has no interval: the same task stands under several seeds, "
                "and Wilson's takes tasks as independent."
            )


def notes_of(data: pd.DataFrame, names: Sequence[str]) -> Iterator[str]:
    """What must be said of single rows, called by these columns: what is incomplete, what rests on fewer tasks, whose
    own means failed."""
    for row in records_of(data):
        if row["incomplete"]:
            run = (
                f"{number(row['accuracy_pct'])} % of {row['n_planned']} planned, "
                f"{number(row['accuracy_run_pct'])} % of {row['n_run']} run without error"
                if row["n_run"]
                else "no task has an outcome"
            )
            yield f"† {_name(row, names)} is incomplete: {row['incomplete']}. {run[0].upper()}{run[1:]}."
    for row in records_of(data):
        if row["absent"]:
            yield f"{_name(row, names)} rests on fewer tasks than the rows it stands beside: {row['absent']}."
        if row["n_method_failures"]:
            yield (
                f"{_name(row, names)}: the method's own means failed {row['n_method_failures']} times in "
                f"{row['n_run']} episodes and it fell back to dropping."
            )


def _name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(row[c] for c in names if row[c])
