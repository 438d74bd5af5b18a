"""The noise floor: the same method on the same tasks under other sampling seeds, against itself.

``python -m analysis.noise_floor [--runs results/noise_floor] [--tables results/tables]``. Runs that differ in nothing
but seeds and have tasks in common are tries of one another (``conf/experiment/noise_floor.yaml`` makes such runs; on
LongBench-v2 all seeds are). Each pair of tries of a task is a pair, as in an A/B table, and where the two differ the
task has *flipped*. Exit status 2, with one line on standard error, when no method was tried twice on any task.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import frames, render
from analysis.accuracy import SCRIPTED, UNSCORED
from analysis.compare import PAIRED, Statistics
from analysis.flips import flips, noise
from analysis.render import DASH, Sheet, number
from analysis.rows import BLOCK, KEY, order, records_of, settings_of
from analysis.sides import COMPLETED
from arcbench.records import RunError
from arcbench.types import ConfigError

QUESTIONS = {"correctness": ("correct",), "completion": COMPLETED}
"""What is asked of an outcome, and the outcomes that answer yes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.noise_floor", description="How often a method flips under another sampling seed."
    )
    parser.add_argument("--runs", type=Path, default=Path("results/noise_floor"), help="folder below which runs are")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--settings", type=Path, default=PAIRED, help="numbers of the statistics")
    args = parser.parse_args(argv)
    try:
        statistics = Statistics.read(args.settings)
        read = frames.load(args.runs)
        made = sheets(read.runs, read.episodes, statistics)
        if not made:
            raise ConfigError(
                f"{args.runs}: no method has a task under two sampling seeds; play some with python -m arcbench -m "
                "experiment=noise_floor seed=42,43,44"
            )
        for sheet in made:
            print(render.markdown(sheet))
            for path in render.write(sheet, args.tables):
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def sheets(runs: pd.DataFrame, episodes: pd.DataFrame, statistics: Statistics) -> list[Sheet]:
    """``noise_floor`` for models and ``mechanism_noise_floor`` for the scripted engine, as far as there are tries.
    Raises :class:`ConfigError` when two runs are the same run."""
    runs = runs[~runs["engine"].isin(UNSCORED)]
    scripted = runs["engine"] == SCRIPTED
    made = [(False, floor(runs[~scripted], episodes, statistics)), (True, floor(runs[scripted], episodes, statistics))]
    return [_sheet(data, is_scripted, statistics) for is_scripted, data in made if len(data)]


# ----------------------------------------------------------------------------------------- numbers


def floor(runs: pd.DataFrame, episodes: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """Two rows, correctness and completion, for each method in each setting that tried tasks more than once.

    ``n_tasks`` are tasks with more than one outcome; ``flips_pct`` is the flip rate; ``noise_pp`` how far the
    difference of two runs of so many tasks goes by the sampling alone (``noise_high_pp`` at the rate's upper limit);
    ``seen_pp`` the largest difference that was seen between two of the runs, on the tasks that both have.
    """
    runs = runs.copy()
    for column in KEY:
        runs[column] = ["" if value is None or pd.isna(value) else str(value) for value in runs[column]]
    runs["setting"] = settings_of(runs)
    rows: list[dict[str, Any]] = []
    for key, group in runs.groupby([*KEY, "setting"], sort=False):
        _no_copies(group)
        recorded = episodes[episodes["run_dir"].isin(group["run_dir"])]
        named: dict[str, Any] = dict(zip([*KEY, "setting"], key, strict=True))
        rows += [named | row for row in _rows(group, recorded, statistics)]
    rows.sort(key=order)  # stable: correctness stays first
    return pd.DataFrame(rows)


def _rows(runs: pd.DataFrame, recorded: pd.DataFrame, statistics: Statistics) -> Iterator[dict[str, Any]]:
    played = recorded[recorded["outcome"] != "error"]
    clusters = played["document"].astype(object).where(played["document"].notna(), played["task"])
    # planned anew with fewer tasks, a run keeps what it has recorded
    n_recorded = runs["run_dir"].map(recorded["run_dir"].value_counts()).fillna(0)
    config = runs["config"].iloc[0]
    mode = "thinking" if config.get("model.thinking") else "no_thinking"
    n_planned = int(pd.concat([runs["planned"], n_recorded], axis=1).max(axis=1).sum())
    for outcome, wins in QUESTIONS.items():
        success = played["outcome"].isin(wins)
        found = flips(played["task"].tolist(), clusters.tolist(), np.array(success, dtype=np.int64))
        if found is None:
            return
        low, high = found.interval(
            level=statistics.level, resamples=statistics.resamples, seed=statistics.resampling_seed
        )
        n = round(len(played) / played["run_dir"].nunique())
        by_run = played.assign(success=success.astype(float)).pivot(index="task", columns="run_dir", values="success")
        apart = [(by_run[a] - by_run[b]).mean() for a, b in itertools.combinations(by_run.columns, 2)]
        yield {
            "outcome": outcome,
            "temperature": config.get(f"model.sampling.{mode}.temperature"),
            "n_runs": len(runs),
            "seeds": " ".join(str(seed) for seed in sorted(runs["seed"])),
            "n_tasks": found.n_tasks,
            "n_planned": n_planned,
            "n_run": len(played),
            "n_error": len(recorded) - len(played),
            "n_missing": n_planned - len(recorded),
            "n_no_answer": int((played["outcome"] == "no_answer").sum()),
            "success_pct": 100 * success.mean(),
            "n_pairs": found.n_pairs,
            "n_discordant": found.n_discordant,
            "flips_pct": 100 * found.rate,
            "flips_low_pct": 100 * low,
            "flips_high_pct": 100 * high,
            "n_tasks_per_run": n,
            "noise_pp": 100 * noise(found.rate, found.rate, n=n, level=statistics.level),
            "noise_high_pp": 100 * noise(high, high, n=n, level=statistics.level),
            "seen_pp": 100 * float(np.nanmax(np.abs(apart))),
        }


def _no_copies(runs: pd.DataFrame) -> None:
    """Refuse the same run twice, which would never flip."""
    seen: dict[str, str] = {}
    for run in records_of(runs):
        config = str(sorted((key, str(value)) for key, value in run["config"].items() if key.endswith("seed")))
        if config in seen:
            raise ConfigError(f"{seen[config]} and {run['run_dir']} are one run under the same seeds; move one away")
        seen[config] = run["run_dir"]


# ------------------------------------------------------------------------------- what people read


def _sheet(data: pd.DataFrame, scripted: bool, statistics: Statistics) -> Sheet:
    level = f"{100 * statistics.level:.0f} %"
    body = []
    for row in records_of(data):
        cells = {column: row[column] or DASH for column in (*BLOCK, "method", "variant", "setting")}
        cells |= {
            "outcome": row["outcome"],
            "runs": str(row["n_runs"]),
            "tasks": str(row["n_tasks"]),
            "planned/run/error": f"{row['n_planned']}/{row['n_run']}/{row['n_error']}",
            "no answer": str(row["n_no_answer"]),
            "success %": number(row["success_pct"]),
            "pairs": str(row["n_pairs"]),
            "discordant": str(row["n_discordant"]),
            "flips %": number(row["flips_pct"]),
        }
        if not scripted:
            cells[f"flips, {level}"] = f"{number(row['flips_low_pct'])} to {number(row['flips_high_pct'])}"
            cells["noise, ± points"] = f"{number(row['noise_pp'])} (at most {number(row['noise_high_pp'])})"
        cells["seen, points"] = number(row["seen_pp"])
        body.append(cells)
    shown = pd.DataFrame(body)
    same = [column for column in (*BLOCK[1:], "variant", "setting") if shown[column].nunique() == 1]
    lead = ", ".join(f"{column} {shown[column].iloc[0]}" for column in same if shown[column].iloc[0] != DASH)
    words = {*BLOCK, "method", "variant", "setting", "outcome"}
    return Sheet(
        name="mechanism_noise_floor" if scripted else "noise_floor",
        title=f"Noise floor{' (scripted engine)' if scripted else ''}: the same method against itself",
        lead=(f"All rows: {lead}.",) if lead else (),
        data=data.drop(columns=[c for c in data if scripted and str(c).startswith(("flips_l", "flips_h", "noise"))]),
        body=shown.drop(columns=same),
        text_columns=frozenset(words),
        notes=tuple(_notes(data, scripted, level)),
    )


def _notes(data: pd.DataFrame, scripted: bool, level: str) -> Iterator[str]:
    yield "A pair is one task under two sampling seeds; it is discordant, a flip, where the outcomes differ."
    if scripted:
        yield (
            "This engine has no sampling: whatever the seed, it answers the same question in the same way. Its flip "
            "rate is 0 by construction and says nothing about a model's; any other would be a fault of the suite."
        )
    else:
        yield (
            f"Noise: within this, with {level}, lies the difference of two runs of the method on as many tasks, by the "
            "sampling alone (at most: at the upper limit of the flip rate). The same goes for two methods that flip as "
            "often; with S seeds pooled on each side it is smaller by the square root of S."
        )
        yield "Seen: the largest difference between two of the runs. The interval draws tasks, or whole documents."
    for model in data.loc[data["temperature"] == 0, "model"].unique():
        yield (
            f"{model} was decoded greedily (temperature 0): the seed changes nothing; a flip comes of the arithmetic, "
            "which depends on what else was in the batch."
        )
    for row in records_of(data[data["outcome"] == "correctness"]):
        if row["n_error"] or row["n_missing"]:
            yield (
                f"{row['method']} is incomplete: {row['n_error']} in error, {row['n_missing']} missing of "
                f"{row['n_planned']} planned; tasks count where two runs have them."
            )


if __name__ == "__main__":
    sys.exit(main())
