"""Figures over all runs: ``python -m analysis.figures [--runs DIR] [--figures DIR]``.

Each is one function that takes frames and a path and returns the files it wrote (SVG and PNG), none where the runs have
nothing to show in it. Colours, line styles and markers of a method are the same in all of them. Runs of the scripted
engine are drawn apart from models, as in the tables. Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import ledger, plot
from analysis.accuracy import accuracy, kinds, reason_names
from analysis.ledger_facts import IN_VIEW
from analysis.reference import Reference
from analysis.rows import records_of
from arcbench.records import RunError
from arcbench.types import ConfigError

PLACES: Mapping[str, str] = {"in view": "#0072B2", "reachable": "#56B4E9", "lost": "#D55E00", "not read yet": "#BBBBBB"}
"""Where a fact can be, and its colour; they also part in brightness."""
_PROFILE_OF_PAPER = "paper"
_KEY = ("model", "budget", "profile", "recall", "method", "variant")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.figures", description="Figures over all runs.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--figures", type=Path, default=Path("results/figures"), help="folder that they go to")
    args = parser.parse_args(argv)
    try:
        found = ledger.read(args.runs)
        for path in draw(found, args.figures):
            print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def draw(found: ledger.Ledger, folder: Path) -> Iterator[Path]:
    """All figures of all benchmarks, for models and for the scripted engine apart."""
    for kind, harness, runs in kinds(found.runs):
        name = f"{harness}_{kind}"
        its = found.episodes[found.episodes["run_dir"].isin(runs["run_dir"])]
        rows = accuracy(runs, its)
        yield from accuracies(rows, folder / f"accuracy_{name}")
        yield from reasons(rows, folder / f"no_answer_{name}")
        yield from by_recall(rows, runs, folder / f"recall_{name}", paper=kind != "mechanism")
        calls = found.calls[found.calls["run_dir"].isin(runs["run_dir"])]
        yield from visible_tokens(rows, runs, calls, found.compactions, folder / f"visible_{name}")
        facts = found.fact_calls[found.fact_calls["run_dir"].isin(runs["run_dir"])] if len(found.fact_calls) else None
        if facts is not None and len(facts):
            yield from where_facts_are(rows, runs, facts, folder / f"facts_{name}")


# -------------------------------------------------------------------------------------------- bars


def accuracies(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """Accuracy over planned tasks by method, a panel for each model, budget, profile and recall point; whiskers are
    Wilson's 95 % interval where tasks do not repeat over seeds."""
    panels = _panels(rows)
    if not panels:
        return []
    figure, axes = _grid(len(panels), height=0.32 * max(len(its) for its in panels.values()) + 1.2)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for i, row in enumerate(its):
            look = plot.look(row["method"])
            axis.barh(i, row["accuracy_pct"], color=look["color"], height=0.7)
            low, high = row["wilson95_low_pct"], row["wilson95_high_pct"]
            if not pd.isna(low):
                axis.plot([low, high], [i, i], color="0.4", linewidth=1.5, solid_capstyle="butt")
        axis.set_yticks(range(len(its)), [_label(row) for row in its], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlim(0, 100)
        axis.set_xlabel("correct, % of planned tasks")
        axis.set_title(title, fontsize=9)
    return plot.save(figure, stem)


def reasons(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """How episodes ended: correct, wrong, and without an answer by reason, as shares of those planned."""
    panels = _panels(rows)
    names = reason_names(rows)
    if not panels or not any(rows[name].sum() for name in names):
        return []
    shown = [name for name in names if rows[name].sum()]
    parts = [("n_success", "correct"), ("n_wrong", "wrong"), *((n, n.removeprefix("n_no_answer_")) for n in shown),
             ("n_error", "error"), ("n_missing", "missing")]  # fmt: skip
    figure, axes = _grid(len(panels), height=0.32 * max(len(its) for its in panels.values()) + 1.2)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for i, row in enumerate(its):
            left = 0.0
            for k, (column, _) in enumerate(parts):
                share = 100 * row[column] / row["n_planned"] if row["n_planned"] else 0.0
                axis.barh(i, share, left=left, height=0.7, **_fill(k))
                left += share
        axis.set_yticks(range(len(its)), [_label(row) for row in its], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlim(0, 100)
        axis.set_xlabel("% of planned tasks")
        axis.set_title(title, fontsize=9)
    from matplotlib.patches import Patch

    handles = [Patch(label=label, **_fill(k)) for k, (_, label) in enumerate(parts)]
    figure.legend(handles=handles, loc="outside right center", fontsize=8)
    return plot.save(figure, stem)


def _fill(k: int) -> dict[str, Any]:
    """Colour and hatch of a part, told apart in print too."""
    colours = ("#009E73", "#BBBBBB", *(c for c in plot.COLOURS[1:] if c not in ("#009E73", "#7F7F7F")))
    return {"facecolor": colours[k % len(colours)], "edgecolor": "white", "hatch": ("", "", "//", "..", "xx")[k % 5]}


# -------------------------------------------------------------------------------------------- lines


def by_recall(rows: pd.DataFrame, runs: pd.DataFrame, stem: Path, *, paper: bool) -> list[Path]:
    """Accuracy against the recall budget, a line a method, a panel for each model, budget and profile; the paper's
    points of Tables 7 and 8 are hollow, beside its own models and profile. Nothing where the budget was not swept."""
    budgets = {run["recall"]: run["config"].get("budget.recall_budget_chars") for run in records_of(runs)}
    rows = rows[(rows["setting"] == "") | rows["setting"].isna()]
    rows = rows.assign(
        chars=pd.Series([budgets.get(recall) for recall in rows["recall"]], index=rows.index, dtype=float)
    )
    rows = rows.dropna(subset=["chars"])
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in records_of(rows):
        panels.setdefault(f"{row['model']}, {row['budget']}, {row['profile']}", []).append(row)
    panels = {title: its for title, its in panels.items() if len({row["chars"] for row in its}) > 1}
    if not panels:
        return []
    figure, axes = _grid(len(panels), height=3.6)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for method, label, lines in _lines(its):
            points = sorted((row["chars"] / 1000, row["accuracy_pct"]) for row in lines)
            axis.plot(*zip(*points, strict=True), label=label, **plot.look(method))
            published = _published(lines[0]) if paper else []
            if published:
                look = plot.look(method)
                axis.plot(*zip(*published, strict=True), linestyle="none", marker=look["marker"], markersize=9,
                          markerfacecolor="none", markeredgecolor=look["color"])  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted({row["chars"] / 1000 for row in its}), labels=None)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("recall budget, thousand characters")
        axis.set_ylabel("correct, %")
        axis.set_ylim(-2, 102)
        axis.set_title(title, fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8)
    return plot.save(figure, stem)


def _published(row: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The paper's points of a method, in thousand characters and percent."""
    table = {"needle": "arc_table07", "longbench_v2_hard": "arc_table08"}.get(row["benchmark"])
    profile = _PROFILE_OF_PAPER if row["benchmark"] == "needle" else "files"
    if table is None or row["profile"] != profile:
        return []
    its = Reference().table(table)
    its = its[(its["model"] == row["model"]) & (its["method"] == row["method"])]
    return [(float(k), float(a)) for k, a in zip(its["recall_budget_kchars"], its["accuracy_pct"], strict=True)]


def visible_tokens(
    rows: pd.DataFrame, runs: pd.DataFrame, calls: pd.DataFrame, compactions: pd.DataFrame, stem: Path
) -> list[Path]:
    """Mean prompt tokens by agent call, a line a method; a tick on the line where at least half of its episodes made
    room just before that call."""
    agent = calls[calls["billed"] == "agent"].copy()
    if agent.empty:
        return []
    agent["call"] = agent.groupby(["run_dir", "task"]).cumcount() + 1
    named = _names(runs)
    agent = agent.join(named, on="run_dir")
    done = compactions[(compactions["outcome"] == "done") & compactions["run_dir"].isin(runs["run_dir"])]
    done = done.drop_duplicates(["run_dir", "task", "before_call"])
    panels: dict[str, list[tuple[tuple[str, ...], pd.DataFrame]]] = {}
    for key, line in _in_order(rows, agent):
        panels.setdefault(" ".join(part for part in key[:4] if part), []).append((key, line))
    figure, axes = _grid(len(panels), height=3.6)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for key, line in its:
            method, variant = key[4:]
            mean = line.groupby("call")["prompt_tokens"].mean()
            label = f"{method} ({variant})" if variant else method
            look = plot.look(method) | {"marker": ""}
            axis.plot(mean.index, mean, label=label, **look)
            own = done[done["run_dir"].isin(line["run_dir"])]
            often = own.groupby("before_call").size() / line.groupby(["run_dir", "task"]).ngroups
            at = [call for call in often[often >= 0.5].index if call in mean.index]
            axis.plot(at, mean.loc[at], linestyle="none", marker="|", markersize=10, color=look["color"])
        axis.set_xlabel("agent call (tick: made room before it)")
        axis.xaxis.set_major_locator(_whole_numbers())
        axis.set_ylabel("prompt tokens, mean")
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=9)
    _legend(figure, axes)
    return plot.save(figure, stem)


def where_facts_are(rows: pd.DataFrame, runs: pd.DataFrame, fact_calls: pd.DataFrame, stem: Path) -> list[Path]:
    """Where the needed fact is at each agent call, as shares of the episodes that come so far: a panel a method."""
    its = fact_calls.join(_names(runs), on="run_dir")
    its["place"] = its["state"].map(_place_of)
    groups = _in_order(rows, its)
    figure, axes = _grid(len(groups), height=2.0, wide=3.2)
    for axis, (key, group) in zip(axes, groups, strict=False):
        shares = group.groupby("call")["place"].value_counts(normalize=True).unstack().fillna(0.0)
        shares = shares.reindex(columns=list(PLACES), fill_value=0.0)
        axis.stackplot(shares.index, *(100 * shares[name] for name in PLACES), colors=list(PLACES.values()), step="mid")
        axis.set_title(f"{' '.join(key[4:])}\n{' '.join(key[:4])}", fontsize=7)
        axis.xaxis.set_major_locator(_whole_numbers())
        axis.set_ylim(0, 100)
        axis.set_xlim(shares.index.min(), shares.index.max())
        axis.tick_params(labelsize=7)
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in PLACES.items()]
    figure.legend(handles=handles, loc="outside right center", fontsize=8)
    figure.supxlabel("agent call", fontsize=9)
    figure.supylabel("% of episodes", fontsize=9)
    return plot.save(figure, stem)


def _place_of(state: str) -> str:
    if state in IN_VIEW:
        return "in view"
    return {"unseen": "not read yet", "lost": "lost", "hidden": "lost"}.get(state, "reachable")


# ------------------------------------------------------------------------------------------- shared


def _panels(rows: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of tables that belong together, by what they share, methods in their usual order."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in records_of(rows):
        if row["n_run"]:
            title = " ".join(str(row[key]) for key in ("model", "budget", "profile", "recall") if row[key])
            panels.setdefault(title, []).append(row)
    return panels


def _names(runs: pd.DataFrame) -> pd.DataFrame:
    """What a run is called by in a figure, by its folder."""
    return runs.set_index("run_dir")[list(_KEY)].astype(object).where(runs.set_index("run_dir")[list(_KEY)].notna(), "")


def _in_order(rows: pd.DataFrame, named: pd.DataFrame) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The groups of one name, in the order of the tables' rows."""
    order = {tuple(row[key] for key in _KEY): i for i, row in reversed(list(enumerate(records_of(rows))))}
    groups = [(tuple(map(str, key)), group) for key, group in named.groupby(list(_KEY), sort=False)]
    return sorted(groups, key=lambda item: order.get(item[0], len(order)))


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)


def _label(row: Mapping[str, Any]) -> str:
    own = ", ".join(part for part in (row["variant"], row["setting"]) if part)
    return f"{row['method']} ({own})" if own else str(row["method"])


def _lines(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["method"], _label(row)), []).append(row)
    return [(method, label, its) for (method, label), its in lines.items()]


def _grid(count: int, *, height: float, wide: float = 4.6) -> tuple[Any, list[Any]]:
    """A figure with so many panels, at most three in a row."""
    columns = min(3, count)
    lines = -(-count // columns)
    figure, axes = plot.pyplot().subplots(
        lines, columns, figsize=(wide * columns + 1.6, height * lines), layout="constrained", squeeze=False
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat[:count]


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, each name once."""
    named = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside right center", fontsize=8)


if __name__ == "__main__":
    sys.exit(main())
