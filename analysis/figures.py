"""Figures over all runs: ``python -m analysis.figures [--runs DIR] [--tables DIR]``.

Each is one function that takes frames and a path and returns the files it wrote (SVG and PNG), none where the runs have
nothing to show in it. Colours, line styles and markers of a method are the same in all of them. Runs of the scripted
engine are drawn apart from models, as in the tables. They go to the folder ``figures`` beside the tables, and the
tables' ``index.html`` shows them. Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import arc_tables, declared, figures_cost, ledger, plot
from analysis.accuracy import kinds, reason_names
from analysis.declared import Spec
from analysis.ledger_facts import IN_VIEW
from analysis.reference import Reference
from analysis.rows import records_of, settings_apart
from arcbench.records import Frames, RunError
from arcbench.types import ConfigError

PLACES: Mapping[str, str] = {"in view": "#0072B2", "reachable": "#56B4E9", "lost": "#D55E00", "not read yet": "#BBBBBB"}
"""Where a fact can be, and its colour; they also part in brightness."""
RECALL_TABLES: Mapping[str, str] = {"needle": "arc_table07", "longbench_v2_hard": "arc_table08"}
"""The paper's tables of the recall budget, by benchmark."""
_KEY = ("model", "budget", "profile", "recall", "shared", "method", "variant", "own")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.figures", description="Figures over all runs.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder with the tables' index")
    args = parser.parse_args(argv)
    try:
        found = ledger.read(args.runs)
        for path in draw(found, args.tables.parent / arc_tables.FIGURES.name):
            print(f"wrote {path}")
        for path in arc_tables.write_index(args.tables):
            print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def draw(found: ledger.Ledger, folder: Path) -> Iterator[Path]:
    """All figures of all benchmarks, for models and for the scripted engine apart."""
    for name, runs, rows in benchmarks(found):
        calls = found.calls[found.calls["run_dir"].isin(runs["run_dir"])]
        yield from accuracies(rows, folder / f"accuracy_{name}")
        yield from reasons(rows, folder / f"no_answer_{name}")
        yield from by_recall(rows, runs, folder / f"recall_{name}")
        yield from visible_tokens(rows, runs, calls, found.compactions, folder / f"visible_{name}")
        facts = found.fact_calls[found.fact_calls["run_dir"].isin(runs["run_dir"])] if len(found.fact_calls) else None
        if facts is not None and len(facts):
            yield from where_facts_are(rows, runs, facts, folder / f"facts_{name}")
        yield from figures_cost.traffic(rows, folder / f"traffic_{name}")
        yield from figures_cost.bars(rows, folder / f"roofline_{name}")


def benchmarks(read: Frames | ledger.Ledger) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """What figures are drawn of: for each benchmark, models and the scripted engine apart, its name, its runs and the
    rows of its table, as :func:`analysis.figures_cost.priced` makes them. Raises as that."""
    for kind, harness, of_kind in kinds(read.runs):
        runs = settings_apart(of_kind)
        its, calls = (each[each["run_dir"].isin(runs["run_dir"])] for each in (read.episodes, read.calls))
        yield f"{harness}_{kind}", runs, figures_cost.priced(harness, runs, its, calls)


# -------------------------------------------------------------------------------------------- bars


def accuracies(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """Accuracy over planned tasks by method, a panel for each model, budget, profile and recall point; whiskers are
    Wilson's 95 % interval where tasks do not repeat over seeds."""
    panels = plot.panels(rows)
    if not panels:
        return []
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=3, foreground="white")]  # on bars of every colour
    figure, axes, most = plot.bar_panels(panels)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for i, row in enumerate(its):
            look = plot.look(row["method"])
            axis.barh(i, row["accuracy_pct"], color=look["color"], height=0.7)
            low, high = row["wilson95_low_pct"], row["wilson95_high_pct"]
            axis.annotate(f"{row['accuracy_pct']:.1f}", (1.01, i), xycoords=("axes fraction", "data"), va="center",
                          fontsize=8)  # fmt: skip
            if not pd.isna(low):
                axis.plot(
                    [low, high], [i, i], color="black", linewidth=1.2, solid_capstyle="butt", path_effects=outline
                )
        plot.bar_rows(axis, its, most)
        axis.set_xlim(0, 100)
        axis.set_xlabel("correct, % of planned tasks")
        axis.set_title(title, fontsize=9)
    return plot.save(figure, stem)


def reasons(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """How episodes ended: correct, wrong, and without an answer by reason, as shares of those planned."""
    panels = plot.panels(rows)
    names = reason_names(rows)
    if not panels or not any(rows[name].sum() for name in names):
        return []
    shown = [name for name in names if rows[name].sum()]
    parts = [("n_success", "correct"), ("n_wrong", "wrong"), *((n, n.removeprefix("n_no_answer_")) for n in shown),
             ("n_error", "error"), ("n_missing", "missing")]  # fmt: skip
    figure, axes, most = plot.bar_panels(panels)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for i, row in enumerate(its):
            left = 0.0
            for k, (column, _) in enumerate(parts):
                share = 100 * row[column] / row["n_planned"] if row["n_planned"] else 0.0
                axis.barh(i, share, left=left, height=0.7, **_fill(k))
                left += share
        plot.bar_rows(axis, its, most)
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


def by_recall(rows: pd.DataFrame, runs: pd.DataFrame, stem: Path) -> list[Path]:
    """Accuracy against the recall budget, a line a method, a panel for each model, budget and profile; the paper's
    points of Tables 7 and 8 are hollow, beside its own models and profile. Nothing where the budget was not swept."""
    budgets = {run["recall"]: run["config"].get("budget.recall_budget_chars") for run in records_of(runs)}
    rows = rows.assign(
        chars=pd.Series([budgets.get(recall) for recall in rows["recall"]], index=rows.index, dtype=float)
    )
    rows = rows.dropna(subset=["chars"])
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in records_of(rows):
        panels.setdefault(plot.title(row, ("model", "budget", "profile")), []).append(row)
    panels = {title: its for title, its in panels.items() if len({row["chars"] for row in its}) > 1}
    if not panels:
        return []
    figure, axes = plot.grid(len(panels), height=3.6)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        ticks = {row["chars"] / 1000 for row in its}
        for method, label, lines in _lines(its):
            points = sorted((row["chars"] / 1000, row["accuracy_pct"]) for row in lines)
            axis.plot(*zip(*points, strict=True), label=label, **plot.look(method))
            published = _published(lines, runs)
            if published:
                ticks |= {chars for chars, _ in published}
                look = plot.look(method)
                axis.plot(*zip(*published, strict=True), linestyle="none", marker=look["marker"], markersize=9,
                          markerfacecolor="none", markeredgecolor=look["color"])  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(ticks), labels=None)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("recall budget, thousand characters")
        axis.set_ylabel("correct, %")
        axis.set_ylim(-2, 102)
        axis.set_title(title, fontsize=9)
    plot.legend(figure, axes)
    return plot.save(figure, stem)


def _published(lines: Sequence[Mapping[str, Any]], runs: pd.DataFrame) -> list[tuple[float, float]]:
    """The paper's points of a method, in thousand characters and percent; none unless all runs of the line are what
    the paper's table is of."""
    table = RECALL_TABLES.get(lines[0]["benchmark"])
    if table is None:
        return []
    spec = Spec.read(declared.FOLDER / f"{table}.yaml")
    if not declared.beside_paper(spec, runs).issuperset(folder for row in lines for folder in row["run_dirs"]):
        return []
    its = Reference().table(table)
    its = its[(its["model"] == lines[0]["model"]) & (its["method"] == lines[0]["method"])]
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
    panels: dict[str, list[tuple[dict[str, str], pd.DataFrame]]] = {}
    for key, line in _in_order(rows, agent):
        panels.setdefault(plot.title(key), []).append((key, line))
    figure, axes = plot.grid(len(panels), height=3.6)
    for axis, (title, its) in zip(axes, panels.items(), strict=False):
        for key, line in its:
            mean = line.groupby("call")["prompt_tokens"].mean()
            look = plot.look(key["method"]) | {"marker": ""}
            axis.plot(mean.index, mean, label=plot.label(key), **look)
            own = done[done["run_dir"].isin(line["run_dir"])]
            often = own.groupby("before_call").size() / line.groupby(["run_dir", "task"]).ngroups
            at = [call for call in often[often >= 0.5].index if call in mean.index]
            axis.plot(at, mean.loc[at], linestyle="none", marker="|", markersize=10, color=look["color"])
        axis.set_xlabel("agent call (tick: made room before it)")
        axis.xaxis.set_major_locator(_whole_numbers())
        axis.set_ylabel("prompt tokens, mean")
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=9)
    plot.legend(figure, axes)
    return plot.save(figure, stem)


def where_facts_are(rows: pd.DataFrame, runs: pd.DataFrame, fact_calls: pd.DataFrame, stem: Path) -> list[Path]:
    """Where the needed fact is at each agent call, as shares of the episodes that come so far: a panel a method."""
    its = fact_calls.join(_names(runs), on="run_dir")
    its["place"] = its["state"].map(_place_of)
    groups = _in_order(rows, its)
    figure, axes = plot.grid(len(groups), height=2.0, wide=3.2)
    for axis, (key, group) in zip(axes, groups, strict=False):
        shares = group.groupby("call")["place"].value_counts(normalize=True).unstack().fillna(0.0)
        shares = shares.reindex(columns=list(PLACES), fill_value=0.0)
        axis.stackplot(shares.index, *(100 * shares[name] for name in PLACES), colors=list(PLACES.values()), step="mid")
        axis.set_title(f"{plot.label(key)}\n{plot.title(key)}", fontsize=7)
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


def _names(runs: pd.DataFrame) -> pd.DataFrame:
    """What a run is called by in a figure, by its folder."""
    return runs.set_index("run_dir")[list(_KEY)].astype(object).where(runs.set_index("run_dir")[list(_KEY)].notna(), "")


def _in_order(rows: pd.DataFrame, named: pd.DataFrame) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """The groups of one name, in the order of the tables' rows."""
    order = {tuple(row[key] for key in _KEY): i for i, row in reversed(list(enumerate(records_of(rows))))}
    groups = [(tuple(map(str, key)), group) for key, group in named.groupby(list(_KEY), sort=False)]
    groups.sort(key=lambda item: order.get(item[0], len(order)))
    return [(dict(zip(_KEY, key, strict=True)), group) for key, group in groups]


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)


def _lines(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["method"], plot.label(row)), []).append(row)
    return [(method, label, its) for (method, label), its in lines.items()]


if __name__ == "__main__":
    sys.exit(main())
