"""What has been run, and what is owed for which table: ``python -m analysis.status [--runs DIR]``.

First the runs, by harness, engine, model, profile and budget; then each declared table (``conf/tables``) by model: how
many of its cells are complete, incomplete or missing, how many episodes it still takes to be as large as the paper's,
and the command that plays them. It reads records and plays nothing. Exit status 2, with one line on standard error, for
bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import declared, frames
from analysis.accuracy import SCRIPTED
from analysis.arc_tables import specs_of
from analysis.declared import COMPLETE, INCOMPLETE, MISSING, Spec
from arcbench import cells
from arcbench.records import EPISODE_COLUMNS, RUN_COLUMNS, Frames, NoRunsError, RunError
from arcbench.types import ConfigError

_RUNS = ("harness", "engine", "model", "profile", "budget")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.status", description="What has been run, and what is owed for which table."
    )
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--specs", type=Path, default=declared.FOLDER, help="folder with one YAML file a table")
    args = parser.parse_args(argv)
    try:
        specs = specs_of(args.specs)
        try:
            read = frames.load(args.runs)
        except NoRunsError as none:
            print(f"{none}\n")
            read = _nothing()
        print(told(args.runs, read, specs))
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def _nothing() -> Frames:
    empty = pd.DataFrame()
    return Frames(
        runs=pd.DataFrame(columns=[*RUN_COLUMNS, "config"], dtype=object),
        episodes=pd.DataFrame(columns=[*RUN_COLUMNS, *EPISODE_COLUMNS], dtype=object),
        calls=empty,
        compactions=empty,
    )


def told(root: Path, read: Frames, specs: Sequence[Spec]) -> str:
    """Both tables as text."""
    owed = [row for spec in specs for row in tables(spec, read)]
    parts = [_table(owed, left=("table", "model", "to play them"))]
    made = list(runs(read))
    if made:
        n = {key: sum(row[key] for row in made) for key in ("runs", "finished", "owed", "errors")}
        said = f"Below {root}: runs {n['runs']:,}, episodes finished {n['finished']:,}, owed {n['owed']:,}"
        if n["errors"]:
            said += f", {n['errors']:,} of them after an error: the same command plays them again"
        parts = [said, _table(made, left=_RUNS), *parts]
    return "\n\n".join(parts)


def runs(read: Frames) -> Iterator[dict[str, Any]]:
    """What was planned in the runs, and what became of it: an episode that ended in an error is owed."""
    outcomes = read.episodes.groupby("run_dir")["outcome"]
    counted = pd.DataFrame({"recorded": outcomes.size(), "errors": outcomes.agg(lambda its: (its == "error").sum())})
    its = read.runs.join(counted, on="run_dir").fillna({"recorded": 0, "errors": 0})
    for key, group in its.groupby([its[column].fillna("").astype(str) for column in _RUNS], sort=True):
        finished = group["recorded"] - group["errors"]
        owed = (group["planned"].astype(int) - finished).clip(lower=0)
        yield dict(zip(_RUNS, key, strict=True)) | {
            "runs": len(group), "finished": int(finished.sum()), "owed": int(owed.sum()),
            "errors": int(group["errors"].sum()),
        }  # fmt: skip


def tables(spec: Spec, read: Frames) -> Iterator[dict[str, Any]]:
    """A declared table by model: its cells by state, and the episodes that it lacks at the size it is declared with.
    Raises as :func:`analysis.declared.cells`."""
    for scripted in (False, True):
        by_model: dict[str, list[Mapping[str, Any]]] = {}
        for row in declared.cells(spec, read.runs, read.episodes, scripted=scripted):
            by_model.setdefault(f"{SCRIPTED}, {row['budget']}" if scripted else row["model"], []).append(row)
        for model, rows in by_model.items():
            states = [row["state"] for row in rows]
            owed = sum(_owed(spec, row, scripted) for row in rows)
            yield (
                {"table": spec.name, "model": model}
                | {state: states.count(state) for state in (COMPLETE, INCOMPLETE, MISSING)}
                | {"owed": owed, "to play them": declared.command(spec, model, scripted) if owed else ""}
            )


def _owed(spec: Spec, row: Mapping[str, Any], scripted: bool) -> int:
    """Episodes that a cell lacks of the table's size."""
    done = 0 if row["state"] == MISSING else row["n_run"]
    return max(0, spec.tasks * len(spec.seeds_of(scripted)) - done)


def _table(rows: Iterable[Mapping[str, Any]], left: Sequence[str]) -> str:
    columns: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(f"{value:,}" if isinstance(value, int) else str(value))
    return cells.table(columns, left=left)


if __name__ == "__main__":
    sys.exit(main())
