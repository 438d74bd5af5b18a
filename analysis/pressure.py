"""Smaller and smaller windows, and what the dashboard takes: ``python -m analysis.pressure [--runs results/pressure]``.

Reads runs of ``experiment=vista_pressure``: the same long task in several windows. Writes

- ``pressure_<harness>``: by window and method, accuracy, why there was no answer, and what making room took (VISTA's
  Figures 4 and 6 in our setting);
- ``dashboard_footprint``: tokens of VISTA's dashboard by the number of blocks (its Figure 10), also from the runs below
  ``--also``, which may be of any task;
- ``pressure_<harness>.svg`` and ``.png``: all three.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from analysis import plot, render
from analysis.accuracy import accuracy
from analysis.frames import load
from analysis.reference import Reference
from analysis.render import DASH, Sheet, number
from analysis.rows import place
from arcbench.records import Run, RunError, runs_below
from arcbench.types import ConfigError, Json, NoAnswer

CELL = ("harness", "profile", "recall", "engine", "model", "window", "method", "variant", "dashboard")
FORMS = ("full", "folded")
MARKS = (10, 20, 40, 62, 80, 100, 120, 160, 200, 300, 400)
"""Numbers of blocks that the footprint sheet shows; 62 is the paper's."""

MADE_ROOM = ("forced", "overflow", "archive", "delete", "guard", "guard_cleared", "rejected")
"""Who made room: the loop asked, before a call that was forced or did not fit; the agent archived or deleted; the guard
moved a block, put all handles behind one, or threw a result away."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.pressure", description="Windows, and the dashboard.")
    parser.add_argument("--runs", type=Path, default=Path("results/pressure"), help="folder of the runs in all windows")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more folders to read dashboards from")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    args = parser.parse_args(argv)
    try:
        seen = Seen()
        seen.read(runs_below(args.runs))
        for folder in args.also:
            seen.read(runs_below(folder), dashboards_only=True)
        found = cells(args.runs, seen)
        shown = footprint(seen.dashboards)
        sheets = [pressure_sheet(of_harness) for _, of_harness in found.groupby("harness")]
        for sheet in [*sheets, footprint_sheet(shown)]:
            print(render.markdown(sheet))
            for path in render.write(sheet, args.tables):
                print(f"wrote {path}")
        for harness, of_harness in found.groupby("harness"):
            for path in draw(of_harness, seen.growth(), shown, args.tables / f"pressure_{harness}"):
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


# ----------------------------------------------------------------------------------- from records


@dataclass
class Seen:
    """What the records say, gathered in one pass over them."""

    episodes: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    dashboards: Counter[tuple[str, int, int, int]] = field(default_factory=Counter)
    """How often a dashboard of this form showed so many blocks, so many of them out of view, in so many tokens."""

    def read(self, runs: Iterable[Run], *, dashboards_only: bool = False) -> None:
        """Add these runs."""
        for run in runs:
            key, board = cell_of(run), run.config["method"].get("board")
            for record in run.episodes():
                if record["outcome"] == "error":
                    continue
                if not board:  # an agent's own text is no part of the ledger
                    self.dashboards.update(dashboards_of(record))
                if not dashboards_only:
                    name = {"run_dir": str(run.path)} | key
                    self.episodes.append(name | episode_row(record, run.config["budget"]))
                    agent = (call for call in record["calls"] if call["billed"] == "agent")
                    self.calls += [
                        key | {"call": i, "prompt_tokens": call["prompt_tokens"]} for i, call in enumerate(agent, 1)
                    ]

    def growth(self) -> pd.DataFrame:
        """Mean prompt tokens by cell and agent call, over the episodes that reached it."""
        calls = pd.DataFrame(self.calls)
        return calls.groupby([*CELL, "call"], sort=False)["prompt_tokens"].mean().reset_index()


def cell_of(run: Run) -> dict[str, Any]:
    """The columns that say which row a run belongs to."""
    columns = run.columns
    key = {name: columns[name] or "" for name in CELL if name not in ("window", "dashboard")}
    return key | {
        "window": run.config["budget"]["window_tokens"],
        "dashboard": run.config["method"].get("dashboard") or "",
    }


def dashboards_of(record: Mapping[str, Json]) -> Iterator[tuple[str, int, int, int]]:
    """Form, blocks, blocks out of view and tokens of each dashboard of an episode."""
    for event in record["events"]:
        if event["event"] == "dashboard":
            yield event["form"], event["blocks"], event["away"], event["tokens"]


def episode_row(record: Mapping[str, Json], budget: Mapping[str, Json]) -> dict[str, Any]:
    """What one episode took."""
    counts = Counter(event["event"] for event in record["events"])
    counts.update(row["trigger"] for row in record["compactions"])
    sizes = [call["prompt_tokens"] for call in record["calls"] if call["billed"] == "agent"]
    folded = [e["after_call"] for e in record["events"] if e["event"] == "dashboard_folded"]
    dashboards = [tokens for _, _, _, tokens in dashboards_of(record)]
    return {
        **{name: counts[name] for name in MADE_ROOM},
        "peak_tokens": max(sizes, default=0),
        "usable_tokens": budget["window_tokens"] - budget["completion_tokens"],
        "dashboard_peak_tokens": max(dashboards, default=None),
        "dashboard_share": sum(dashboards) / sum(sizes) if dashboards else None,
        "folded_after_call": folded[0] if folded else None,
    }


# ------------------------------------------------------------------------------------------ cells


def cells(root: Path, seen: Seen) -> pd.DataFrame:
    """A row for each method in each window."""
    frames = load(root)
    episodes = pd.DataFrame(seen.episodes)
    if episodes.empty:
        raise ConfigError(f"{root}: no episodes here; make some with experiment=vista_pressure")
    rows = []
    for key, group in episodes.groupby(list(CELL), sort=False):
        cell = dict(zip(CELL, key, strict=True))
        counted = accuracy(frames.runs[frames.runs["run_dir"].isin(group["run_dir"])], frames.episodes)
        if len(counted) > 1:
            settings = " and ".join(counted["setting"])
            raise ConfigError(
                f"{cell['method']} in a window of {cell['window']}: there are runs with {settings}; keep one"
            )
        numbers = counted.iloc[0]
        names = [
            name for name in numbers.index if str(name).startswith(("n_", "accuracy", "wilson")) or name == "seeds"
        ]
        row = cell | {str(name): numbers[name] for name in names}
        row |= {name: numbers[name] for name in ("agent_calls_per_episode", "prompt_tokens_per_episode")}
        row |= {f"{name}_per_episode": group[name].mean() for name in MADE_ROOM}
        row |= {
            "usable_tokens": int(group["usable_tokens"].iloc[0]),
            "peak_use_pct": 100 * float((group["peak_tokens"] / group["usable_tokens"]).mean()),
            "peak_use_max_pct": 100 * float((group["peak_tokens"] / group["usable_tokens"]).max()),
            "dashboard_peak_tokens": group["dashboard_peak_tokens"].astype(float).max(),
            "dashboard_share_pct": 100 * group["dashboard_share"].astype(float).mean(),
            "n_folded": int(group["folded_after_call"].notna().sum()),
        }
        rows.append(row)
    rows.sort(key=lambda row: (row["harness"], row["window"], place(row["method"]), row["variant"], row["dashboard"]))
    return pd.DataFrame(rows)


def pressure_sheet(found: pd.DataFrame) -> Sheet:
    """Windows by methods."""
    varying = [name for name in CELL[1:5] if found[name].nunique() > 1]
    common = [f"{name} {found[name].iloc[0]}" for name in CELL[1:5] if name not in varying and found[name].iloc[0]]
    rows = []
    for row in found.to_dict("records"):
        line = {str(name): row[name] for name in varying} | {"window": f"{row['window']:,}", "method": row["method"]}
        line["dashboard"] = row["dashboard"] or DASH
        line["planned/run/error"] = f"{row['n_planned']}/{row['n_run']}/{row['n_error']}"
        line["accuracy %"] = number(row["accuracy_pct"], 1)
        line["95 % interval"] = f"{number(row['wilson95_low_pct'], 1)} to {number(row['wilson95_high_pct'], 1)}"
        reasons = [(name, row.get(f"n_no_answer_{name}", 0)) for name in get_args(NoAnswer)]
        line["no answer because"] = ", ".join(f"{name} {count}" for name, count in reasons if count) or DASH
        line["calls"] = number(row["agent_calls_per_episode"], 1)
        line["prompt tokens"] = f"{row['prompt_tokens_per_episode']:,.0f}"
        for name in MADE_ROOM:
            line[name.replace("guard_cleared", "cleared")] = number(row[f"{name}_per_episode"], 1)
        line["peak use %"] = number(row["peak_use_pct"], 1)
        line["dashboard %"] = number(row["dashboard_share_pct"], 1)
        rows.append(line)
    body = pd.DataFrame(rows)
    for name in ("forced", "delete", "rejected"):  # often not there at all
        if (body[name] == "0.0").all():
            body = body.drop(columns=name)
    if (found["usable_tokens"] < found["window"]).all():
        common.append(f"{found['window'].iloc[0] - found['usable_tokens'].iloc[0]} tokens of each window for the reply")
    folded = [
        f"window {row['window']:,}, {row['method']}, in {row['n_folded']} of {row['n_run']} episodes"
        for row in found.to_dict("records")
        if row["n_folded"]
    ]
    return Sheet(
        name=f"pressure_{found['harness'].iloc[0]}",
        title=f"The same task in smaller and smaller windows ({found['harness'].iloc[0]})",
        lead=(
            "Means per episode. overflow: times that a prompt did not fit and the method was asked for room; archive: "
            "commands of the agent; guard: blocks that the guard moved out; cleared: times that it put all there was "
            "behind one handle.",
            f"All rows: {', '.join(common)}.",
        ),
        data=found,
        body=body,
        text_columns=frozenset({*CELL, "no answer because"}) - {"window"},
        notes=(
            "peak use: the largest prompt over the tokens that a prompt may have, mean over episodes. dashboard %: its "
            "share of all prompt tokens.",
            *([f"The full dashboard was folded for want of room: {'; '.join(folded)}."] if folded else []),
        ),
    )


# -------------------------------------------------------------------------------------- footprint


@dataclass(frozen=True)
class Footprint:
    """The dashboards of one form: how often (``times``) there were so many ``blocks``, ``away`` of them out of view,
    in so many ``tokens``; and the least-squares line of tokens over the ``rows`` of the ledger."""

    form: str
    counts: pd.DataFrame
    fixed: float
    slope: float
    r2: float

    @property
    def by_blocks(self) -> pd.DataFrame:
        """Mean tokens and blocks out of view by number of blocks, with the number of dashboards."""
        weighted = self.counts.assign(
            t=self.counts["tokens"] * self.counts["times"], a=self.counts["away"] * self.counts["times"]
        )
        sums = weighted.groupby("blocks")[["t", "a", "times"]].sum()
        return pd.DataFrame(
            {"tokens": sums["t"] / sums["times"], "away": sums["a"] / sums["times"], "n": sums["times"]}
        )

    def at(self, blocks: int) -> pd.Series[Any] | None:
        """The same about this many blocks: a turn adds two, so one more or less counts too."""
        near = self.counts[(self.counts["blocks"] - blocks).abs() <= 1]
        if near.empty:
            return None
        times = near["times"]
        means = {name: float((near[name] * times).sum() / times.sum()) for name in ("blocks", "tokens", "away")}
        return pd.Series(means | {"n": int(times.sum())})


def footprint(dashboards: Mapping[tuple[str, int, int, int], int]) -> list[Footprint]:
    """The footprint of each form that was seen."""
    names = ["form", "blocks", "away", "tokens", "times"]
    counts = pd.DataFrame([(*key, times) for key, times in dashboards.items()], columns=names)
    found = []
    for form in FORMS:
        own = counts[counts["form"] == form].sort_values(["blocks", "away", "tokens"])
        if own.empty:
            continue
        rows = own["blocks"] - own["away"] if form == "folded" else own["blocks"]
        weight = np.sqrt(own["times"].to_numpy(float))
        terms = np.column_stack([np.ones(len(own)), rows.to_numpy(float)])
        tokens = own["tokens"].to_numpy(float)
        (fixed, slope), *_ = np.linalg.lstsq(terms * weight[:, None], tokens * weight, rcond=None)
        mean = np.average(tokens, weights=weight**2)
        left = float(((tokens - terms @ [fixed, slope]) ** 2 * weight**2).sum())
        total = float(((tokens - mean) ** 2 * weight**2).sum())
        found.append(Footprint(form, own, float(fixed), float(slope), 1 - left / total if total else 1.0))
    return found


def footprint_sheet(shown: Sequence[Footprint]) -> Sheet:
    """Tokens of the dashboard at some numbers of blocks, and the line through all."""
    data = (
        pd.concat([one.by_blocks.reset_index().assign(form=one.form) for one in shown])
        if shown
        else pd.DataFrame(columns=["blocks", "tokens", "away", "n", "form"])
    )
    marks = [mark for mark in MARKS if any(one.at(mark) is not None for one in shown)]
    rows = []
    for one in shown:
        row: dict[str, str] = {"form": one.form, "dashboards": f"{one.counts['times'].sum():,}"}
        for mark in marks:
            near = one.at(mark)
            row[f"{mark}"] = DASH if near is None else f"{near['tokens']:.0f} ({near['away']:.0f})"
        row |= {"fixed": number(one.fixed, 0), "per row": number(one.slope, 1), "R²": number(one.r2, 3)}
        rows.append(row)
    paper = Reference()
    at, tokens, fixed, counter = (
        paper.parameter(f"vista.dashboard.{key}")
        for key in ("peak_footprint_tokens.at_blocks", "peak_footprint_tokens", "fixed_overhead_tokens",
                    "fixed_overhead_tokens.tokenizer")
    )  # fmt: skip
    return Sheet(
        name="dashboard_footprint",
        title="What the dashboard takes, by the number of blocks",
        lead=(
            "Mean tokens of a dashboard that lists about so many blocks, in brackets those of them out of view; "
            "then the least-squares line over all dashboards: fixed part and tokens per row of the ledger.",
        ),
        data=data[["form", "blocks", "tokens", "away", "n"]],
        body=pd.DataFrame(rows, columns=["form", "dashboards", *map(str, marks), "fixed", "per row", "R²"]),
        text_columns=frozenset({"form"}),
        notes=(
            "full: a row for each block. folded: a row for each block in view, and one line for all others, in the "
            "fixed part.",
            f"The paper: about {tokens} tokens at {at} blocks, and a fixed overhead of {fixed} tokens ({counter}; its "
            "Section 4, Dashboard scaling). Ours are counted by the engine's tokenizer.",
        ),
    )


# ----------------------------------------------------------------------------------------- figure

GROWTH = ("full_context", "arc", "vista")
"""Whose visible tokens by call are drawn: more lines could not be told apart."""


def draw(found: pd.DataFrame, growth: pd.DataFrame, shown: Sequence[Footprint], stem: Path) -> list[Path]:
    """Accuracy over the window; visible tokens by call in the middle window; tokens of the dashboard over blocks."""

    found = found.assign(line=_line_names(found))
    growth = growth.assign(line=_line_names(growth))
    lines = list(dict.fromkeys(found.sort_values("method", key=lambda column: column.map(place))["line"]))
    windows = sorted(set(found["window"]))
    figure, (left, middle, right) = plot.pyplot().subplots(1, 3, figsize=(13.5, 4.2))
    figure.set_layout_engine("constrained")
    for i, name in enumerate(lines):
        # lines that run on top of each other are set off a little, so that each is seen
        shift = 2 ** (0.06 * (i - (len(lines) - 1) / 2))
        own = found[found["line"] == name].sort_values("window")
        left.errorbar(
            own["window"] * shift, own["accuracy_pct"],
            yerr=[(own["accuracy_pct"] - own["wilson95_low_pct"]).clip(lower=0),
                  (own["wilson95_high_pct"] - own["accuracy_pct"]).clip(lower=0)],
            color=plot.COLOURS[i % 8], linestyle=plot.STYLES[i % 4], marker=plot.MARKERS[i % 8], markersize=5,
            elinewidth=0.8, label=name,
        )  # fmt: skip
        if own["method"].iloc[0] in GROWTH and own["dashboard"].iloc[0] in ("", "full"):
            calls = growth[(growth["line"] == name) & (growth["window"] == windows[len(windows) // 2])]
            middle.plot(
                calls["call"], calls["prompt_tokens"], plot.STYLES[i % 4], color=plot.COLOURS[i % 8], linewidth=1.4
            )
    left.set_xscale("log", base=2)
    left.set_xticks(windows, [f"{window // 1024}k" if window % 1024 == 0 else str(window) for window in windows])
    left.set_ylim(-4, 104)
    left.set_xlabel("window, tokens")
    left.set_ylabel("accuracy, %")
    usable = found.loc[found["window"] == windows[len(windows) // 2], "usable_tokens"].iloc[0]
    middle.axhline(usable, color="#999999", linewidth=0.8)
    middle.annotate("most that a prompt may have", (1, usable), xytext=(0, 3), textcoords="offset points", fontsize=7)
    middle.set_title(f"window {windows[len(windows) // 2]:,}", fontsize=9)
    middle.set_xlabel("agent call")
    middle.set_ylabel("visible tokens, mean")
    middle.set_ylim(0, 1.12 * usable)
    for one, colour, marker in zip(shown, ("#0072B2", "#D55E00"), "os", strict=False):
        points = one.by_blocks
        right.scatter(points.index, points["tokens"], s=6, color=colour, marker=marker, label=one.form)
    paper = Reference()
    at = paper.parameter("vista.dashboard.peak_footprint_tokens.at_blocks")
    tokens = paper.parameter("vista.dashboard.peak_footprint_tokens")
    right.plot([at], [tokens], "*", color="black", markersize=10, label="the paper")
    right.set_xlabel("blocks")
    right.set_ylabel("tokens of the dashboard, mean")
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    right.legend(fontsize=8, frameon=False)
    for axis in (left, middle, right):
        axis.grid(linewidth=0.4, color="#E5E5E5")
        axis.set_axisbelow(True)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=len(names), fontsize=8, frameon=False)
    return plot.save(figure, stem)


def _line_names(frame: pd.DataFrame) -> list[str]:
    """The name of each row's line: the method, with what tells it from another line of the method."""
    several = frame.groupby("method")["dashboard"].nunique()
    return [
        " ".join(filter(None, (row["method"], row["variant"], row["dashboard"] if several[row["method"]] > 1 else "")))
        for row in frame.to_dict("records")
    ]


if __name__ == "__main__":
    sys.exit(main())
